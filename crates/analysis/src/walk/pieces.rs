//! Straight pieces of code: what is executed up to the next outcome.
//!
//! Invariant: a piece is decoded once, and remembers where each outcome led, until there are
//! too many of them. Of a process that runs, one whose end is not known is decoded again when
//! more code has come.

use std::sync::Arc;

use hashbrown::HashMap;
use isa::Insn;
use isa::memory::{Recorded, Selection};
use trace::Process;
use trace::stream::{TARGETS, lane};

use super::Unsound;
use super::code::{Code, Place, Step, Straight, Turn};
use super::hops::{ByNumber, Ending, Hop};
use super::live::LiveProcess;
use super::sites::{Marks, Site, Sites};

/// Most instructions in pieces that are remembered.
const MOST_STEPS: usize = 16 << 20;
/// Most pieces that are looked through for the next outcome.
const MOST_GOES: usize = 1 << 16;

/// A piece that was decoded.
#[derive(Debug)]
pub(super) struct Known {
    pub place: Place,
    pub straight: Straight,
    pub branches: Marks,
    /// Recorded operands of each instruction; none, if nobody asked.
    pub recorded: Vec<Recorded>,
}

/// Straight pieces that were met, for one thread after the other of a process.
#[derive(Debug)]
pub struct Pieces {
    pub(super) code: Code,
    pub(super) known: Vec<Known>,
    /// Continuation of each piece, as far as it was found.
    pub(super) hops: Vec<Hop>,
    pub(super) by_number: ByNumber,
    pub(super) by_place: HashMap<Place, u32>,
    /// In all of them.
    steps: usize,
    pub(super) sites: Sites,
    /// The process runs, and so many of its fragments and targets are known.
    coming: Option<(Arc<LiveProcess>, [usize; 2])>,
}

impl Pieces {
    pub fn of(process: &Process) -> Pieces {
        Pieces {
            code: Code::of(process),
            known: Vec::new(),
            hops: Vec::new(),
            by_number: ByNumber::default(),
            by_place: HashMap::new(),
            steps: 0,
            sites: Sites::default(),
            coming: None,
        }
    }

    /// Pieces of a process that runs.
    pub fn of_live(process: &Arc<LiveProcess>) -> Pieces {
        Pieces {
            coming: Some((Arc::clone(process), [0; 2])),
            ..Pieces::of(&Process::default())
        }
    }

    /// Has the code and the targets that have come. Whether there were any.
    #[cold]
    pub(super) fn learn(&mut self) -> bool {
        let Some((coming, [fragments, targets])) = &mut self.coming else {
            return false;
        };
        let news = coming.news([*fragments, *targets]);
        *fragments += news.0.len();
        *targets += news.1.len();
        news.0.iter().for_each(|own| self.code.add(own));
        news.1.iter().for_each(|&to| self.code.add_target(to));
        !news.0.is_empty() || !news.1.is_empty()
    }

    /// Decodes a piece again whose end is not known, with the code that has come. Whether it
    /// is longer, or its end is known now.
    #[cold]
    pub(super) fn renew(&mut self, index: u32) -> bool {
        if self.coming.is_none() {
            return false;
        }
        self.learn();
        let known = &self.known[index as usize];
        let straight = self.code.straight(known.place);
        let (was, is) = (known.straight.steps.len(), straight.steps.len());
        let grew = is > was || is == was && !matches!(straight.turn, Turn::Unknown);
        if grew {
            self.steps += is - was;
            let branches = self.sites.marks(&straight.steps);
            self.hops[index as usize] = Hop::of(&straight);
            let known = &mut self.known[index as usize];
            (known.straight, known.branches) = (straight, branches);
        }
        grew
    }

    /// Nothing is known of what is behind the piece.
    #[inline]
    pub(super) fn has_no_end(&self, index: u32) -> bool {
        self.hops[index as usize].ending == Ending::Unknown
    }

    pub fn code(&self) -> &Code {
        &self.code
    }

    /// All branches of the code that was met, by number.
    pub fn sites(&self) -> &[Site] {
        self.sites.all()
    }

    pub(super) fn at(&mut self, place: Place) -> u32 {
        if let Some(&index) = self.by_place.get(&place) {
            return index;
        }
        let index = self.known.len() as u32;
        let straight = self.code.straight(place);
        self.steps += straight.steps.len() + 1;
        self.hops.push(Hop::of(&straight));
        self.known.push(Known {
            place,
            branches: self.sites.marks(&straight.steps),
            straight,
            recorded: Vec::new(),
        });
        self.by_place.insert(place, index);
        index
    }

    /// Has what is recorded of the piece's accesses.
    #[inline]
    pub(super) fn plan(&mut self, index: u32, selection: Selection) {
        let known = &self.known[index as usize];
        if known.recorded.len() != known.straight.steps.len() {
            let of = |insn: Insn| Recorded::of(&insn, selection);
            let plan = |step| self.code.find(step).map_or_else(Recorded::default, of);
            let recorded = known.straight.steps.iter().map(plan).collect();
            self.known[index as usize].recorded = recorded;
        }
    }

    /// Pieces are to be forgotten.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.steps >= MOST_STEPS
    }

    /// Forgets all pieces but this one, if they are too many; where it is then.
    #[inline]
    pub(super) fn forget(&mut self, index: u32) -> u32 {
        if !self.is_full() {
            return index;
        }
        let place = self.known[index as usize].place;
        self.known.clear();
        self.hops.clear();
        self.by_number.clear();
        self.by_place.clear();
        self.steps = 0;
        self.at(place)
    }

    /// Why nothing is known of what comes next, if that is so behind this piece.
    pub(super) fn no_code(&self, piece: Option<(u32, u32)>) -> Option<Unsound> {
        let straight = &self.known[piece?.0 as usize].straight;
        matches!(straight.turn, Turn::Unknown).then(|| Unsound::NoCode(end(&straight.steps)))
    }

    /// Its last instruction.
    pub(super) fn last_pc(&self, index: u32) -> u64 {
        let steps = &self.known[index as usize].straight.steps;
        steps.last().map_or(0, |step| step.pc)
    }

    /// In which lane the next outcome is, if that was found.
    #[inline]
    pub(super) fn lane(&self, index: u32) -> Option<u8> {
        self.hops[index as usize].lane
    }

    /// In which lane the next outcome is, and whose it is: that of piece `index` or of one
    /// behind it.
    pub(super) fn find_lane(&mut self, index: u32) -> (u8, u32) {
        let mut at = index;
        // Without an outcome control goes forward, but who made the recording may say
        // otherwise.
        for _ in 0..MOST_GOES {
            let goes = self.hops[at as usize].ending == Ending::Goes;
            match goes.then(|| self.next(at, false)) {
                Some(Ok(next)) => at = next,
                _ => break,
            }
        }
        let straight = &self.known[at as usize].straight;
        let lane = match (straight.turn, straight.steps.last()) {
            (Turn::Indirect, _) => TARGETS,
            (_, Some(step)) => lane(step.pc),
            (_, None) => 0,
        };
        // A process that still runs may give more later.
        if self.coming.is_none() || !matches!(straight.turn, Turn::Unknown) {
            self.hops[index as usize].lane = Some(lane as u8);
        }
        (lane as u8, at)
    }

    /// Piece after piece `index`, if its last instruction had this outcome.
    #[inline]
    pub(super) fn next(&mut self, index: u32, outcome: bool) -> Result<u32, Unsound> {
        match self.hops[index as usize].next(outcome) {
            Some(next) => Ok(next),
            None => self.find_next(index, outcome),
        }
    }

    #[cold]
    fn find_next(&mut self, index: u32, outcome: bool) -> Result<u32, Unsound> {
        let known = &self.known[index as usize];
        let steps = &known.straight.steps;
        let pc = self.last_pc(index);
        let place = match (known.straight.turn, outcome) {
            (Turn::Either(places), _) => places[usize::from(outcome)],
            (Turn::Always(place), true) | (Turn::Goes(place), _) => place,
            (Turn::Unknown, _) => return Err(Unsound::NoCode(end(steps))),
            _ => return Err(Unsound::Outcome(pc)),
        };
        let next = self.at(place);
        self.hops[index as usize].set_next(outcome, next);
        Ok(next)
    }
}

/// Address after the last of them.
pub(super) fn end(steps: &[Step]) -> u64 {
    steps
        .last()
        .map_or(0, |step| step.pc.wrapping_add(step.len.into()))
}
