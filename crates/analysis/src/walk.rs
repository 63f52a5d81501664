//! From streams to instructions: what a thread executed, in order.
//!
//! Problem: a stream says outcomes of branches and little more (`wire::stream`); between
//! them the code says what was executed. Traces are long, and may be damaged or made by a
//! stranger.
//!
//! Approach: [`Code`] knows the code of a process and what is executed up to the next
//! outcome; each such piece is decoded once and remembers where it was found to go on. A
//! [`Walk`] reads items, each from the lane that the next branch says, and goes from piece
//! to piece. Of a process that runs ([`LiveProcess`]) it waits for what it needs.
//!
//! Invariants: any bytes give pieces or an error ([`Unsound`]), after which there is
//! nothing more; memory is in proportion to code, not to streams.
//!
//! Limits: a thread that was killed in the middle of what has no outcomes is shown up to the
//! last one.
//!
//! ```
//! use analysis::walk::{Event, Pieces, Step, Walk};
//! use isa::Flow;
//!
//! let is_call = |step: &&Step| matches!(step.flow, Flow::Call(_) | Flow::IndirectCall);
//! # let file = std::fs::File::open("../trace/tests/recordings/6-trace.evp")?;
//! let mut calls = 0;
//! for process in &trace::read(file)?.processes {
//!     let mut pieces = Pieces::of(process);
//!     for thread in &process.threads {
//!         let mut walk = Walk::new(&mut pieces, thread);
//!         while let Some(event) = walk.next() {
//!             if let Event::Executed(steps) = event? {
//!                 calls += steps.iter().filter(is_call).count();
//!             }
//!         }
//!     }
//! }
//! # assert_eq!(calls, 15);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accesses;
mod branches;
mod code;
mod found;
mod hops;
mod lane;
mod live;
mod losses;
mod order;
pub mod packed;
mod pieces;
mod runs;
pub mod segments;
mod sites;
mod stamps;
mod steer;
mod targets;
mod unsound;
mod why;

use accesses::Came;
pub use accesses::{
    AccessEvent, AccessSizes, Accessed, Accesses, AccessesCount, Bytes, OF_ELEMENTS, Operation,
    Replayed, SIZES, Selection, Value, access_sizes, count_accesses, has_addresses, operations,
    selection,
};
pub use branches::{Branch, Branches, Item};
pub use code::{Code, Step};
use code::{Place, Turn};
use found::Found;
use hops::Ending;
use lane::{Escape, Lane};
pub use live::{LiveProcess, Room, Tail};
pub use order::Order;
use packed::{Next, Packed, Rest};
pub use pieces::Pieces;
use pieces::{Known, end};
pub use runs::{Key, Run, RunEvent, Runs};
pub use segments::Segment;
pub use sites::{Kind, Site};
use stamps::Stamps;
pub use stamps::{Stamp, StampKind};
pub use steer::Steer;
use trace::stream::{ESCAPE, LANES, PER_BYTE, STAMP, TARGETS, WENT, escape};
use trace::{Missing, Thread};
pub use unsound::Unsound;
pub use why::Why;

/// Event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It executed these, one after the other.
    Executed(&'a [Step]),
    /// It went to this address without executing anything.
    Went { why: Why, to: u64 },
    /// When what follows began; if it was asked for ([`Walk::with_stamps`]).
    Stamp(Stamp),
}

/// Reads the streams of one thread.
pub struct Walk<'a> {
    pieces: &'a mut Pieces,
    /// One, or [`LANES`], or none if it is packed.
    lanes: Vec<Lane<'a>>,
    /// The thread runs.
    tail: Option<&'a Tail>,
    /// Packed streams, read in place of lanes, or written from them.
    packed: Option<Box<Packed<'a>>>,
    /// It is packed, and this is left of it.
    rest: Option<Rest<'a>>,
    /// The piece that is executed next, and from which of its instructions on.
    piece: Option<(u32, u32)>,
    /// Outcomes of the last byte that are left, first to last below `left` bits.
    outcomes: u8,
    left: u32,
    /// First byte of where the branch that comes next went.
    went: u8,
    /// Control comes to an address without an outcome, and what is executed from there.
    coming: Option<(u64, Place)>,
    /// Place at which it went on, if that is other code than it would have been.
    entered: Option<Place>,
    /// It begins at a keyframe, of which nothing was read yet.
    begins: bool,
    /// A keyframe ends it: whether it has come there.
    arrived: Option<bool>,
    over: bool,
    /// A limit ended the trace: streams and code may end at different places.
    is_cut: bool,
    /// Stamps are given, too.
    stamps: Option<Box<Stamps>>,
    /// Goes on behind what is lost.
    past: Option<&'a Thread>,
    /// It has gone on, and nothing was read yet.
    leapt: bool,
    came: Came,
}

impl<'a> Walk<'a> {
    /// Walk of all that is kept of the thread.
    pub fn new(pieces: &'a mut Pieces, thread: &'a Thread) -> Walk<'a> {
        let first = match thread.gap {
            None => None,
            Some(_) => segments::segments(thread).first().copied(),
        };
        Walk::of(pieces, thread, first.unwrap_or_default().onward())
    }

    /// Walk of one of the thread's segments.
    pub fn of(pieces: &'a mut Pieces, thread: &'a Thread, segment: Segment) -> Walk<'a> {
        let is_cut = thread.missing == Some(Missing::Limit);
        if packed::is_packed(thread) {
            return Walk {
                rest: Some(Rest::of(thread, segment)),
                is_cut,
                ..Walk::without_lanes(pieces)
            };
        }
        // Version 5 had one lane.
        let has_more = thread.stream.iter().any(|part| part.stream > 0);
        let lanes = 0..if has_more { LANES } else { 1 };
        let lane = |number: usize| {
            let from = segment.from.map_or(0, |from| from[number]);
            let to = segment
                .to
                .map(|to| to[number].saturating_add(escape::AT_LEN as u64));
            Lane::between(thread, number, from, to)
        };
        Walk {
            lanes: lanes.map(lane).collect(),
            begins: segment.from.is_some(),
            arrived: segment.to.map(|_| false),
            // After a gap the walk needs a keyframe.
            over: thread.gap.is_some() && segment.from.is_none(),
            is_cut,
            ..Walk::without_lanes(pieces)
        }
    }

    /// Walk of a thread that runs: `pieces` are of its process.
    pub fn of_live(pieces: &'a mut Pieces, tail: &'a Tail) -> Walk<'a> {
        Walk {
            lanes: (0..LANES).map(|lane| Lane::live(tail, lane)).collect(),
            tail: Some(tail),
            ..Walk::without_lanes(pieces)
        }
    }

    fn without_lanes(pieces: &'a mut Pieces) -> Walk<'a> {
        Walk {
            pieces,
            lanes: Vec::new(),
            tail: None,
            packed: None,
            rest: None,
            piece: None,
            outcomes: 0,
            left: 0,
            went: WENT,
            coming: None,
            entered: None,
            begins: false,
            arrived: None,
            over: false,
            is_cut: false,
            stamps: None,
            past: None,
            leapt: false,
            came: Came::default(),
        }
    }

    /// Next event of the thread; `None`: nothing more is known. (This is no iterator, because the
    /// executed instructions are lent.)
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend what it gives"
    )]
    pub fn next(&mut self) -> Option<Result<Event<'_>, Unsound>> {
        if let Some(ran) = self.quick() {
            let steps = &self.pieces.known[ran.piece as usize].straight.steps;
            return Some(Ok(Event::Executed(
                &steps[ran.from as usize..ran.to as usize],
            )));
        }
        loop {
            match self.found()? {
                Ok(Found::Executed {
                    piece, from, to, ..
                }) => {
                    let steps = &self.pieces.known[piece as usize].straight.steps;
                    let steps = &steps[from as usize..to as usize];
                    return Some(Ok(Event::Executed(steps)));
                }
                Ok(Found::Went { why, to }) => return Some(Ok(Event::Went { why, to })),
                Ok(Found::Stamp(stamp)) => return Some(Ok(Event::Stamp(stamp))),
                // Callers that want entries and stacks read runs.
                Ok(Found::Entered(_) | Found::Stack(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Next event, without the instructions that [`Walk::next`] lends.
    #[inline]
    fn found(&mut self) -> Option<Result<Found, Unsound>> {
        match self.stamps {
            None => self.whole(),
            Some(_) => self.stamped(),
        }
    }

    /// Next event of a walk without stamps.
    fn whole(&mut self) -> Option<Result<Found, Unsound>> {
        if self.over {
            return None;
        }
        let found = loop {
            break match self.advance().transpose() {
                Some(Err(error)) => match self.cause(error) {
                    Unsound::Lost if self.leap() => continue,
                    error if self.is_left_out(&error) => None,
                    error => Some(Err(error)),
                },
                None if self.arrived == Some(false) => Some(Err(Unsound::Keyframe)),
                found => found,
            };
        };
        self.over = !matches!(found, Some(Ok(_)));
        found
    }

    pub fn code(&self) -> &Code {
        self.pieces.code()
    }

    /// Address at which it goes on.
    fn here(&self) -> u64 {
        let place = self
            .piece
            .map(|(piece, _)| &self.pieces.known[piece as usize].place);
        match place {
            Some(&Place::At(pc)) => pc,
            Some(&Place::In(id, _)) => self.pieces.code.start_of(id).unwrap_or(0),
            None => 0,
        }
    }

    fn advance(&mut self) -> Result<Option<Found>, Unsound> {
        if let Some((piece, from)) = self.piece {
            self.piece = Some((self.pieces.forget(piece), from));
        }
        loop {
            if let Some(place) = self.entered.take() {
                return Ok(Some(Found::Entered(place)));
            }
            if let Some((pc, then)) = self.coming {
                if let Some(found) = self.come_to(pc, then)? {
                    return Ok(Some(found));
                }
                continue;
            }
            if self.left > 0 {
                return self.outcome();
            }
            if self.lanes.is_empty() {
                match self.unpack()? {
                    Escaped::Over => return Ok(None),
                    Escaped::LiveProcess => continue,
                    Escaped::Went(found) => return Ok(Some(found)),
                }
            }
            let lane = match self.piece {
                Some((piece, _)) if self.lanes.len() > 1 => match self.pieces.lane(piece) {
                    Some(lane) => lane.into(),
                    None => self.find_lane(piece)?,
                },
                _ => 0,
            };
            match self.lanes[lane].peek()? {
                None => return Ok(None),
                Some(0) => return Err(Unsound::Item(0)),
                Some(ESCAPE) => match self.escape(lane)? {
                    Escaped::Over => return Ok(None),
                    Escaped::LiveProcess => {}
                    Escaped::Went(found) => return Ok(Some(found)),
                },
                Some(STAMP) if lane == TARGETS => self.take_more_stamps()?,
                // The item is of a piece behind this one: until that, whoever looks for
                // stamps finds the lane at its beginning.
                Some(_) if self.goes() => return self.outcome(),
                Some(went) if lane == TARGETS => {
                    self.lanes[lane].skip(1);
                    (self.outcomes, self.left, self.went) = (WENT, 1, went);
                }
                Some(outcomes) => {
                    self.lanes[lane].skip(1);
                    self.left = outcomes.ilog2().min(PER_BYTE);
                    self.outcomes = outcomes;
                }
            }
        }
    }

    /// In which lane the next outcome is. Of a thread that runs, the code may have to come
    /// first: before what it did there.
    #[cold]
    fn find_lane(&mut self, piece: u32) -> Result<usize, Unsound> {
        let mut has_come = self.tail.is_none();
        loop {
            let (lane, end) = self.pieces.find_lane(piece);
            if !self.pieces.has_no_end(end) {
                return Ok(lane.into());
            }
            if self.pieces.renew(end) {
                continue;
            }
            if has_come {
                return Ok(lane.into());
            }
            self.wait()?;
            has_come = true;
        }
    }

    /// Waits until something has come but stamps, or nothing will.
    fn wait(&mut self) -> Result<(), Unsound> {
        let Some(tail) = self.tail else {
            return Ok(());
        };
        loop {
            for lane in &mut self.lanes {
                if lane.has_come()? {
                    return Ok(());
                }
            }
            if !tail.wait() {
                return Ok(());
            }
        }
    }

    /// The piece has no outcome.
    #[inline]
    fn goes(&self) -> bool {
        let hop = self
            .piece
            .map(|(piece, _)| self.pieces.hops[piece as usize]);
        hop.is_some_and(|hop| hop.ending == Ending::Goes)
    }

    /// The piece is executed to its end: up to the next outcome, and its branch. `None`:
    /// the thread was killed on the way to a target that was not listed yet.
    fn outcome(&mut self) -> Result<Option<Found>, Unsound> {
        let (piece, from) = self.piece.ok_or(Unsound::Nowhere)?;
        if self.pieces.has_no_end(piece) {
            self.pieces.renew(piece);
        }
        let hop = self.pieces.hops[piece as usize];
        let goes = hop.ending == Ending::Goes;
        if !goes {
            self.left -= 1;
        }
        let mut outcome = self.outcomes >> self.left & 1 != 0;
        if let Some(packed) = &mut self.packed {
            let known = &self.pieces.known[piece as usize];
            outcome = packed.outcome(known, self.pieces.sites.all(), outcome)?;
        }
        let next = match hop.ending {
            Ending::Indirect if !outcome || self.left > 0 => {
                return Err(Unsound::Outcome(self.pieces.last_pc(piece)));
            }
            Ending::Indirect => match self.target(piece)? {
                Some(next) => next,
                None => return Ok(None),
            },
            _ => self.pieces.next(piece, outcome && !goes)?,
        };
        let to = hop.steps.into();
        self.piece = Some((next, 0));
        Ok(Some(Found::Executed {
            piece,
            from,
            to,
            outcome: (!goes).then_some(outcome),
        }))
    }

    /// Reads an escape, which is in all lanes.
    fn escape(&mut self, lane: usize) -> Result<Escaped, Unsound> {
        self.take_stamps()?;
        let (escape, bytes) = self.lanes[lane].escape()?;
        let bytes = &bytes[..escape.len()];
        for (number, other) in (0..).zip(&mut self.lanes) {
            let there = other.ahead(bytes.len())?;
            if there.len() < bytes.len() && bytes.starts_with(there) {
                // The thread was killed before it had written that one.
                return Ok(Escaped::Over);
            }
            if there != bytes {
                return Err(self
                    .pieces
                    .no_code(self.piece)
                    .unwrap_or(Unsound::Lane(number)));
            }
            other.skip(bytes.len());
        }
        if let Some(arrived) = &mut self.arrived {
            *arrived = matches!(escape, Escape::At(_)) && self.lanes.iter().all(Lane::is_over);
        }
        if let Some(packed) = &mut self.packed {
            packed.escape(escape)?;
        }
        self.follow(escape)
    }

    /// Reads the next outcome or escape of a packed thread.
    fn unpack(&mut self) -> Result<Escaped, Unsound> {
        let next = match &mut self.packed {
            Some(packed) => packed.next()?,
            None => Next::End,
        };
        match next {
            Next::End if self.open()? => Ok(Escaped::LiveProcess),
            Next::End => Ok(Escaped::Over),
            Next::Escape(escape) => {
                self.take_stamps()?;
                if let Some(packed) = &mut self.packed {
                    packed.escape(escape)?;
                }
                self.follow(escape)
            }
            Next::Outcome => {
                (self.outcomes, self.left) = (WENT, 1);
                Ok(Escaped::LiveProcess)
            }
        }
    }

    fn follow(&mut self, escape: Escape) -> Result<Escaped, Unsound> {
        match escape {
            Escape::At(pc) if self.begins => {
                self.begins = false;
                self.open_stamps();
                self.piece = Some((self.pieces.at(Place::At(pc)), 0));
                let (why, to) = (Why::Lost, pc);
                match std::mem::take(&mut self.leapt) {
                    true => Ok(Escaped::Went(Found::Went { why, to })),
                    false => Ok(Escaped::LiveProcess),
                }
            }
            _ if self.begins => Err(Unsound::Keyframe),
            Escape::At(pc) => {
                self.coming = Some((pc, Place::At(pc)));
                Ok(Escaped::LiveProcess)
            }
            Escape::Code(id) => {
                let mut start = self.pieces.code.start_of(id);
                if start.is_none() && self.pieces.learn() {
                    start = self.pieces.code.start_of(id);
                }
                let start = start.ok_or(Unsound::NoFragment(id))?;
                self.coming = Some((start, Place::In(id, 0)));
                Ok(Escaped::LiveProcess)
            }
            Escape::To(why, to) => {
                let next = self.pieces.at(Place::At(to));
                self.piece = Some((next, 0));
                let why = Why::of(why);
                Ok(Escaped::Went(Found::Went { why, to }))
            }
        }
    }

    /// Control comes to `pc` without an outcome, and goes on with `then`.
    fn come_to(&mut self, pc: u64, then: Place) -> Result<Option<Found>, Unsound> {
        let (piece, from) = self.piece.ok_or(Unsound::Nowhere)?;
        if self.pieces.has_no_end(piece) {
            self.pieces.renew(piece);
        }
        let straight = &self.pieces.known[piece as usize].straight;
        let all = straight.steps.len() as u32;
        let rest = &straight.steps[from as usize..];
        let to = match rest.iter().position(|step| step.pc == pc) {
            Some(steps) => from + steps as u32,
            None if matches!(straight.turn, Turn::Goes(_)) => {
                let next = self.pieces.next(piece, false)?;
                self.piece = Some((next, 0));
                return Ok(Some(Found::Executed {
                    piece,
                    from,
                    to: all,
                    outcome: None,
                }));
            }
            // Nothing is known of what is there, as nothing of it was executed.
            None if rest.is_empty() && self.is_at(pc) => all,
            None if matches!(straight.turn, Turn::Unknown) && reaches(rest, pc) => all,
            None => {
                let from = rest.first().map_or(0, |step| step.pc);
                return Err(Unsound::NotThere { from, to: pc });
            }
        };
        self.coming = None;
        let was = self.pieces.known[piece as usize].place;
        let is_other = matches!(was, Place::In(..)) || matches!(then, Place::In(..));
        self.entered = is_other.then_some(then);
        let next = self.pieces.at(then);
        self.piece = Some((next, 0));
        match from == to {
            true => {
                self.open_stamps();
                self.came.before.by(then);
            }
            false => self.came.after.by(then),
        }
        Ok((from < to).then_some(Found::Executed {
            piece,
            from,
            to,
            outcome: None,
        }))
    }

    /// Whether the piece that is executed next, of which nothing is known, is there.
    fn is_at(&self, pc: u64) -> bool {
        let here = self.pieces.by_place.get(&Place::At(pc));
        here.is_some() && here.copied() == self.piece.map(|(piece, _)| piece)
    }
}

/// Whether control comes to `pc` behind the last of them.
fn reaches(steps: &[Step], pc: u64) -> bool {
    use isa::Flow;
    steps.last().is_some_and(|last| match last.flow {
        Flow::Jump(target) | Flow::Call(target) => target == pc,
        _ => end(steps) == pc,
    })
}

/// Result of an escape.
enum Escaped {
    /// Nothing was done yet.
    LiveProcess,
    Went(Found),
    /// It is the last thing, and not whole.
    Over,
}
