//! From streams to instructions: what a thread executed, in order.
//!
//! Problem: a stream says outcomes of branches and little more (`wire::stream`); between
//! them the code says what was executed. Traces are long, and may be damaged or made by a
//! stranger.
//!
//! Approach: [`Code`] knows the code of a process and what is executed up to the next
//! outcome; each such piece is decoded once and remembers where it was found to go on. A
//! [`Walk`] reads items and goes from piece to piece.
//!
//! Invariants: any bytes give pieces or an error ([`Unsound`]), after which there is
//! nothing more; memory is in proportion to code, not to streams.
//!
//! Limits: a thread that was killed in the middle of what has no outcomes is shown up to the
//! last one; a thread's stream is read from its beginning.

mod code;

use std::fmt;

pub use code::{Code, Step};
use code::{Place, Straight, Turn};
use hashbrown::HashMap;
use trace::stream::{ESCAPE, PER_BYTE, escape, why};
use trace::{Part, Process, ReadError, Thread};

/// Why a stream cannot be read on.
#[derive(Debug)]
pub enum Unsound {
    /// A part of it cannot be decompressed.
    Part(ReadError),
    /// It ends within an item.
    Cut,
    /// There is no such item.
    Item(u8),
    /// The code that runs next is not in the recording.
    NoCode(u64),
    /// An indirect branch went to an address whose low bits are not known.
    NoTarget(u16),
    /// There is no fragment with this number.
    NoFragment(u32),
    /// Control does not come to this address, as it should, from there.
    NotThere { from: u64, to: u64 },
    /// An instruction cannot have had the outcome that it should.
    Outcome(u64),
    /// Something is executed before it is said where.
    Nowhere,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsound::Part(error) => error.fmt(f),
            Unsound::Cut => write!(f, "the stream ends in the middle of an item"),
            Unsound::Item(kind) => write!(f, "the stream has an item of unknown kind {kind}"),
            Unsound::NoCode(pc) => write!(f, "the code at {pc:#x} is not in the recording"),
            Unsound::NoTarget(low) => {
                write!(f, "no known target of a branch ends with {low:#x}")
            }
            Unsound::NoFragment(id) => write!(f, "there is no fragment {id}"),
            Unsound::NotThere { from, to } => {
                write!(f, "control does not come from {from:#x} to {to:#x}")
            }
            Unsound::Outcome(pc) => {
                write!(f, "the branch at {pc:#x} cannot have ended as it should")
            }
            Unsound::Nowhere => write!(f, "the stream does not say where it begins"),
        }
    }
}

impl std::error::Error for Unsound {}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It executed these, one after the other.
    Executed(&'a [Step]),
    /// It went to this address without executing anything.
    Went { why: Why, to: u64 },
}

/// Why control goes elsewhere without a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The thread begins.
    Start,
    /// To the handler of a signal.
    Signal(u8),
    /// A handler returns.
    Sigreturn,
    /// Back from the vsyscall page.
    Vsyscall,
    /// A reason that this build does not know.
    Unknown(u8),
}

impl Why {
    fn of(number: u8) -> Why {
        match number {
            why::START => Why::Start,
            1..=64 => Why::Signal(number),
            why::SIGRETURN => Why::Sigreturn,
            why::VSYSCALL => Why::Vsyscall,
            other => Why::Unknown(other),
        }
    }
}

/// Most instructions in pieces that are remembered.
const MOST_STEPS: usize = 16 << 20;

/// A piece that was decoded, and where it was found to go on.
#[derive(Debug)]
struct Known {
    place: Place,
    straight: Straight,
    /// By outcome.
    next: [Option<u32>; 2],
}

/// Straight pieces that were met, for one thread after the other of a process.
#[derive(Debug)]
pub struct Pieces {
    code: Code,
    known: Vec<Known>,
    by_place: HashMap<Place, u32>,
    /// In all of them.
    steps: usize,
}

impl Pieces {
    pub fn of(process: &Process) -> Pieces {
        Pieces {
            code: Code::of(process),
            known: Vec::new(),
            by_place: HashMap::new(),
            steps: 0,
        }
    }

    pub fn code(&self) -> &Code {
        &self.code
    }

    fn at(&mut self, place: Place) -> u32 {
        if let Some(&index) = self.by_place.get(&place) {
            return index;
        }
        let index = self.known.len() as u32;
        let straight = self.code.straight(place);
        self.steps += straight.steps.len() + 1;
        self.known.push(Known {
            place,
            straight,
            next: [None; 2],
        });
        self.by_place.insert(place, index);
        index
    }

    /// Forgets all pieces but this one, if they are too many; where it is then.
    fn forget(&mut self, index: u32) -> u32 {
        if self.steps < MOST_STEPS {
            return index;
        }
        let place = self.known[index as usize].place;
        self.known.clear();
        self.by_place.clear();
        self.steps = 0;
        self.at(place)
    }

    /// Behind piece `index`, if its last instruction had this outcome.
    fn next(&mut self, index: u32, outcome: bool) -> Result<u32, Unsound> {
        let known = &self.known[index as usize];
        if let Some(next) = known.next[usize::from(outcome)] {
            return Ok(next);
        }
        let steps = &known.straight.steps;
        let pc = steps.last().map_or(0, |step| step.pc);
        let place = match (known.straight.turn, outcome) {
            (Turn::Either(places), _) => places[usize::from(outcome)],
            (Turn::Always(place), true) | (Turn::Goes(place), _) => place,
            (Turn::Unknown, _) => return Err(Unsound::NoCode(end(steps))),
            _ => return Err(Unsound::Outcome(pc)),
        };
        let next = self.at(place);
        self.known[index as usize].next[usize::from(outcome)] = Some(next);
        Ok(next)
    }
}

/// Behind the last of them.
fn end(steps: &[Step]) -> u64 {
    steps
        .last()
        .map_or(0, |step| step.pc.wrapping_add(step.len.into()))
}

/// The bytes of a stream, part after part.
struct Bytes<'a> {
    parts: std::slice::Iter<'a, Part>,
    raw: Vec<u8>,
    at: usize,
}

impl Bytes<'_> {
    /// `None`: the stream is over.
    fn next(&mut self) -> Result<Option<u8>, Unsound> {
        loop {
            if let Some(&byte) = self.raw.get(self.at) {
                self.at += 1;
                return Ok(Some(byte));
            }
            let Some(part) = self.parts.next() else {
                return Ok(None);
            };
            self.raw = part.unpack().map_err(Unsound::Part)?;
            self.at = 0;
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unsound> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.next()?.ok_or(Unsound::Cut)?;
        }
        Ok(bytes)
    }

    fn address(&mut self) -> Result<u64, Unsound> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Reads the stream of one thread.
pub struct Walk<'a> {
    pieces: &'a mut Pieces,
    bytes: Bytes<'a>,
    /// The piece that is executed next, and from which of its instructions on.
    piece: Option<(u32, u32)>,
    /// Outcomes of the last byte that are left, first to last below `left` bits.
    outcomes: u8,
    left: u32,
    /// What comes next, if it was read ahead.
    ahead: Option<u8>,
    /// Control comes to an address without an outcome, and what is executed from there.
    coming: Option<(u64, Place)>,
    over: bool,
}

impl<'a> Walk<'a> {
    pub fn new(pieces: &'a mut Pieces, thread: &'a Thread) -> Walk<'a> {
        Walk {
            pieces,
            bytes: Bytes {
                parts: thread.stream.iter(),
                raw: Vec::new(),
                at: 0,
            },
            piece: None,
            outcomes: 0,
            left: 0,
            ahead: None,
            coming: None,
            over: false,
        }
    }

    /// What the thread did next; `None`: nothing more is known. (No iterator, because what
    /// was executed is lent.)
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend what it gives"
    )]
    pub fn next(&mut self) -> Option<Result<Event<'_>, Unsound>> {
        if self.over {
            return None;
        }
        match self.advance() {
            Ok(Some(Found::Executed { piece, from, to })) => {
                let steps = &self.pieces.known[piece as usize].straight.steps;
                let steps = &steps[from as usize..to as usize];
                Some(Ok(Event::Executed(steps)))
            }
            Ok(Some(Found::Went { why, to })) => Some(Ok(Event::Went { why, to })),
            Ok(None) => {
                self.over = true;
                None
            }
            Err(error) => {
                self.over = true;
                Some(Err(error))
            }
        }
    }

    pub fn code(&self) -> &Code {
        self.pieces.code()
    }

    fn advance(&mut self) -> Result<Option<Found>, Unsound> {
        if let Some((piece, from)) = self.piece {
            self.piece = Some((self.pieces.forget(piece), from));
        }
        loop {
            if let Some((pc, then)) = self.coming {
                if let Some(found) = self.come_to(pc, then)? {
                    return Ok(Some(found));
                }
                continue;
            }
            if self.left > 0 {
                return self.outcome().map(Some);
            }
            let byte = match self.ahead.take() {
                Some(byte) => Some(byte),
                None => self.bytes.next()?,
            };
            let Some(byte) = byte else { return Ok(None) };
            match byte {
                0 => return Err(Unsound::Item(0)),
                ESCAPE => {
                    if let Some(found) = self.escape()? {
                        return Ok(Some(found));
                    }
                }
                outcomes => {
                    self.left = outcomes.ilog2().min(PER_BYTE);
                    self.outcomes = outcomes;
                }
            }
        }
    }

    /// The piece is executed to its end: up to the next outcome, and its branch.
    fn outcome(&mut self) -> Result<Found, Unsound> {
        let (piece, from) = self.piece.ok_or(Unsound::Nowhere)?;
        let straight = &self.pieces.known[piece as usize].straight;
        let to = straight.steps.len() as u32;
        let goes = matches!(straight.turn, Turn::Goes(_));
        if !goes {
            self.left -= 1;
        }
        let outcome = self.outcomes >> self.left & 1 != 0;
        let next = match straight.turn {
            Turn::Indirect => {
                let pc = straight.steps.last().map_or(0, |step| step.pc);
                if !outcome || self.left > 0 {
                    return Err(Unsound::Outcome(pc));
                }
                let target = self.target()?;
                self.pieces.at(Place::At(target))
            }
            _ => self.pieces.next(piece, outcome && !goes)?,
        };
        self.piece = Some((next, 0));
        Ok(Found::Executed { piece, from, to })
    }

    /// Where an indirect branch went.
    fn target(&mut self) -> Result<u64, Unsound> {
        let low = u16::from_le_bytes(self.bytes.array()?);
        match self.bytes.next()? {
            Some(ESCAPE) => match self.bytes.next()?.ok_or(Unsound::Cut)? {
                escape::TARGET => return self.bytes.address(),
                // Not of this branch: both bytes come next.
                _ => {
                    self.bytes.at -= 1;
                    self.ahead = Some(ESCAPE);
                }
            },
            byte => self.ahead = byte,
        }
        self.pieces.code.target(low).ok_or(Unsound::NoTarget(low))
    }

    /// `None`: nothing was done yet.
    fn escape(&mut self) -> Result<Option<Found>, Unsound> {
        match self.bytes.next()?.ok_or(Unsound::Cut)? {
            escape::AT => {
                let pc = self.bytes.address()?;
                self.coming = Some((pc, Place::At(pc)));
                Ok(None)
            }
            escape::CODE => {
                let id = u32::from_le_bytes(self.bytes.array()?);
                let start = self.pieces.code.start_of(id);
                let start = start.ok_or(Unsound::NoFragment(id))?;
                self.coming = Some((start, Place::In(id, 0)));
                Ok(None)
            }
            escape::TO => {
                let [number] = self.bytes.array()?;
                let to = self.bytes.address()?;
                let next = self.pieces.at(Place::At(to));
                self.piece = Some((next, 0));
                let why = Why::of(number);
                Ok(Some(Found::Went { why, to }))
            }
            kind => Err(Unsound::Item(kind)),
        }
    }

    /// Control comes to `pc` without an outcome, and goes on with `then`.
    fn come_to(&mut self, pc: u64, then: Place) -> Result<Option<Found>, Unsound> {
        let (piece, from) = self.piece.ok_or(Unsound::Nowhere)?;
        let straight = &self.pieces.known[piece as usize].straight;
        let all = straight.steps.len() as u32;
        let rest = &straight.steps[from as usize..];
        let to = match rest.iter().position(|step| step.pc == pc) {
            Some(steps) => from + steps as u32,
            None if matches!(straight.turn, Turn::Goes(_)) => {
                let next = self.pieces.next(piece, false)?;
                self.piece = Some((next, 0));
                let to = all;
                return Ok(Some(Found::Executed { piece, from, to }));
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
        let next = self.pieces.at(then);
        self.piece = Some((next, 0));
        Ok((from < to).then_some(Found::Executed { piece, from, to }))
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

/// An [`Event`], without what it lends.
enum Found {
    Executed { piece: u32, from: u32, to: u32 },
    Went { why: Why, to: u64 },
}
