//! Memory that an entry of a nest accesses: by whom each piece was written last, and read since.
//!
//! Approach: a piece is four aligned bytes while all accesses have whole ones, and a byte from the first access on that does not.

use hashbrown::HashMap;
use isa::memory::Access;

use super::{DEPTH, Kind, Reference};

/// Bytes of a piece.
const PIECE: u64 = 4;

/// A reference, and the numbers of iterations at its access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub reference: Reference,
    pub numbers: [i64; DEPTH],
}

/// Reads of one reference: the least and greatest number of each loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reads {
    reference: Reference,
    low: [i64; DEPTH],
    high: [i64; DEPTH],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cell {
    write: Option<At>,
    reads: Vec<Reads>,
}

#[derive(Clone, Debug)]
enum Piece {
    Whole(Cell),
    Bytes(Box<[Cell; PIECE as usize]>),
}

/// Receiver of dependences: kind, source, and the numbers of iterations of the source, from the least to the greatest.
pub type Depends<'a> = &'a mut dyn FnMut(Kind, Reference, &[i64], &[i64]);

#[derive(Default)]
pub struct Shadow {
    pieces: HashMap<u64, Piece>,
    /// Dependences of the access that were given already, as it has several pieces.
    given: Vec<(Kind, Reads)>,
}

impl Shadow {
    /// An access; reads come before writes.
    pub fn access(&mut self, now: &At, access: Access, depends: Depends<'_>) {
        self.given.clear();
        let mut at = access.address;
        let end = at.wrapping_add(access.size.into());
        while at != end {
            let is_whole = at.is_multiple_of(PIECE) && end.wrapping_sub(at) >= PIECE;
            let piece = self.pieces.entry(at / PIECE);
            let piece = piece.or_insert_with(|| Piece::Whole(Cell::default()));
            if let (Piece::Whole(cell), false) = (&mut *piece, is_whole) {
                let cell = std::mem::take(cell);
                *piece = Piece::Bytes(Box::new(std::array::from_fn(|_| cell.clone())));
            }
            let cells = match piece {
                Piece::Whole(cell) => std::slice::from_mut(cell),
                Piece::Bytes(cells) if is_whole => &mut cells[..],
                Piece::Bytes(cells) => &mut cells[(at % PIECE) as usize..][..1],
            };
            for cell in cells {
                cell.access(now, access, &mut self.given, depends);
            }
            at = at.wrapping_add(if is_whole { PIECE } else { 1 });
        }
    }
}

impl Cell {
    fn access(
        &mut self,
        now: &At,
        access: Access,
        given: &mut Vec<(Kind, Reads)>,
        depends: Depends<'_>,
    ) {
        let mut give = |kind, reads: Reads| {
            let one = (kind, reads);
            if !given.contains(&one) {
                depends(kind, reads.reference, &reads.low, &reads.high);
                given.push(one);
            }
        };
        let single = |at: &At| Reads {
            reference: at.reference,
            low: at.numbers,
            high: at.numbers,
        };
        if access.kind.reads() {
            if let Some(write) = &self.write {
                give(Kind::Raw, single(write));
            }
            match self
                .reads
                .iter_mut()
                .find(|own| own.reference == now.reference)
            {
                Some(own) => {
                    for (at, number) in now.numbers.iter().enumerate() {
                        own.low[at] = own.low[at].min(*number);
                        own.high[at] = own.high[at].max(*number);
                    }
                }
                None => self.reads.push(single(now)),
            }
        }
        if access.kind.writes() {
            for reads in self.reads.drain(..) {
                // An instruction that reads and writes does not depend on itself.
                if reads != single(now) {
                    give(Kind::War, reads);
                }
            }
            if let Some(write) = self.write.replace(*now) {
                give(Kind::Waw, single(&write));
            }
        }
    }
}
