//! From streams to runs: straight pieces of code that a thread executed, each with a name.
//!
//! Problem: who adds something up for every instruction would do so billions of times; but
//! the code has few pieces, and they are executed again and again.
//!
//! Approach: a [`Run`] says which piece was executed, from where to where, and how its last
//! branch went. Two runs with the same [`Run::key`] are the same instructions, so what is
//! known of them needs to be found once.

use trace::Thread;

use super::code::{Code, Place, Step};
use super::{Found, Pieces, Unsound, Walk, Why};

/// Instructions that were executed one after the other; no branch but the last of them has
/// an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    piece: u32,
    place: Place,
    from: u32,
    to: u32,
    /// Outcome of the last instruction, if it has one.
    pub outcome: Option<bool>,
}

/// Which instructions a run is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    place: Place,
    from: u32,
    to: u32,
}

impl Run {
    pub fn key(&self) -> Key {
        Key {
            place: self.place,
            from: self.from,
            to: self.to,
        }
    }

    /// In instructions.
    pub fn len(&self) -> u64 {
        u64::from(self.to - self.from)
    }

    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }
}

/// Event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEvent {
    Ran(Run),
    /// It went to this address without a branch.
    Went {
        why: Why,
        to: u64,
    },
    /// It goes on in other code than its address had first, or again in that.
    Entered,
    /// The stack pointer is this now; if it was asked for ([`Runs::with_stacks`]).
    Stack(u64),
}

/// Reads the streams of one thread, run by run.
pub struct Runs<'a> {
    walk: Walk<'a>,
}

impl<'a> Runs<'a> {
    pub fn new(pieces: &'a mut Pieces, thread: &'a Thread) -> Runs<'a> {
        Runs {
            walk: Walk::new(pieces, thread),
        }
    }

    /// Gives stack pointers, too, where code does not say what they are and the trace does.
    #[must_use]
    pub fn with_stacks(self) -> Self {
        Runs {
            walk: self.walk.with_stacks(),
        }
    }

    /// [`Walk::past_losses`].
    #[must_use]
    pub fn past_losses(mut self, thread: &'a Thread) -> Self {
        self.walk = self.walk.past_losses(thread);
        self
    }

    /// The instructions of the run that was read last.
    pub fn steps(&self, run: &Run) -> &[Step] {
        let steps = &self.walk.pieces.known[run.piece as usize].straight.steps;
        &steps[run.from as usize..run.to as usize]
    }

    /// Target of the indirect branch that ends the run read last, if one does.
    pub fn here(&self) -> u64 {
        self.walk.here()
    }

    pub fn code(&self) -> &Code {
        self.walk.code()
    }
}

impl Iterator for Runs<'_> {
    type Item = Result<RunEvent, Unsound>;

    fn next(&mut self) -> Option<Result<RunEvent, Unsound>> {
        if let Some(ran) = self.walk.quick() {
            return Some(Ok(RunEvent::Ran(Run {
                piece: ran.piece,
                place: self.walk.pieces.known[ran.piece as usize].place,
                from: ran.from,
                to: ran.to,
                outcome: ran.outcome,
            })));
        }
        let found = loop {
            match self.walk.found()? {
                // Nobody asked for them.
                Ok(Found::Stamp(_)) => {}
                found => break found,
            }
        };
        Some(found.map(|found| match found {
            Found::Executed {
                piece,
                from,
                to,
                outcome,
            } => RunEvent::Ran(Run {
                piece,
                place: self.walk.pieces.known[piece as usize].place,
                from,
                to,
                outcome,
            }),
            Found::Went { why, to } => RunEvent::Went { why, to },
            Found::Stack(sp) => RunEvent::Stack(sp),
            Found::Entered(_) | Found::Stamp(_) => RunEvent::Entered,
        }))
    }
}
