//! The code of a process, followed by who knows how its branches went.
//!
//! It is what a [`Walk`](super::Walk) does with its stream, for other encodings of it.

use super::code::{Place, Step, Turn};
use super::{Kind, Pieces, Site, Unsound};

/// Position of a thread: before a straight piece of code.
#[derive(Debug)]
pub struct Steer<'a> {
    pieces: &'a mut Pieces,
    piece: Option<u32>,
}

impl<'a> Steer<'a> {
    pub fn new(pieces: &'a mut Pieces) -> Steer<'a> {
        Steer {
            pieces,
            piece: None,
        }
    }

    /// Instructions executed up to the next outcome, and its branch.
    pub fn steps(&self) -> Result<&[Step], Unsound> {
        let piece = self.piece.ok_or(Unsound::Nowhere)?;
        Ok(&self.pieces.known[piece as usize].straight.steps)
    }

    /// The branches among them: their places, and their numbers.
    pub fn branches(&self) -> &[(u32, u32)] {
        let known = self.piece.map(|piece| &self.pieces.known[piece as usize]);
        known.map_or(&[], |known| &known.branches)
    }

    /// A branch by its number.
    pub fn site(&self, number: u32) -> Site {
        self.pieces.sites.all()[number as usize]
    }

    /// The branch at the end whose outcome or target is not in the code.
    pub fn open_branch(&self) -> Option<(u32, Site)> {
        let known = &self.pieces.known[self.piece? as usize];
        let asked = matches!(known.straight.turn, Turn::Either(_) | Turn::Indirect);
        let &(_, number) = known.branches.last().filter(|_| asked)?;
        let site = self.site(number);
        (site.kind == Kind::Conditional || site.kind.is_indirect()).then_some((number, site))
    }

    /// The piece was executed to its end, with this outcome if it asks for one.
    pub fn go(&mut self, outcome: bool) -> Result<(), Unsound> {
        let piece = self.piece.ok_or(Unsound::Nowhere)?;
        let turn = self.pieces.known[piece as usize].straight.turn;
        let outcome = outcome && !matches!(turn, Turn::Goes(_));
        let next = self.pieces.next(piece, outcome)?;
        self.piece = Some(self.pieces.forget(next));
        Ok(())
    }

    /// Control goes to that address.
    pub fn go_to(&mut self, pc: u64) {
        let next = self.pieces.at(Place::At(pc));
        self.piece = Some(self.pieces.forget(next));
    }

    /// Control goes to the beginning of that fragment.
    pub fn enter(&mut self, fragment: u32) -> Result<(), Unsound> {
        let start = self.pieces.code.start_of(fragment);
        start.ok_or(Unsound::NoFragment(fragment))?;
        self.piece = Some(self.pieces.at(Place::In(fragment, 0)));
        Ok(())
    }
}
