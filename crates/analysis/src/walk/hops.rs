//! Hops: the facts by which a walk goes from piece to piece, in a quarter of a cache line.
//!
//! Problem: who reads thousands of millions of instructions goes from piece to piece once for
//! some six of them, and a piece with its instructions is in several lines of memory.
//!
//! Approach: where pieces lead, and how long they are, stands apart ([`Hop`]), by their
//! numbers; so does the piece that each number of a target means. What is not there is found
//! the long way, and noted. [`Walk::hurry`] counts instructions with nothing else.

use trace::stream::{ESCAPE, PER_BYTE, TARGETS, WENT, went};

use super::Walk;
use super::code::{Straight, Turn};

/// No piece.
const NONE: u32 = u32::MAX;

/// End of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A branch with an outcome.
    Branch,
    Indirect,
    /// No branch: it is only long enough.
    Goes,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// Pieces behind it, by outcome.
    next: [u32; 2],
    /// How many instructions it has.
    pub steps: u16,
    pub ending: Ending,
    /// Lane of the next outcome, if that is known.
    pub lane: Option<u8>,
}

impl Hop {
    pub fn of(straight: &Straight) -> Hop {
        Hop {
            next: [NONE; 2],
            steps: straight.steps.len() as u16,
            ending: match straight.turn {
                Turn::Either(_) | Turn::Always(_) => Ending::Branch,
                Turn::Indirect => Ending::Indirect,
                Turn::Goes(_) => Ending::Goes,
                Turn::Unknown => Ending::Unknown,
            },
            lane: None,
        }
    }

    #[inline]
    pub fn next(&self, outcome: bool) -> Option<u32> {
        let next = self.next[usize::from(outcome)];
        (next != NONE).then_some(next)
    }

    pub fn set_next(&mut self, outcome: bool, next: u32) {
        self.next[usize::from(outcome)] = next;
    }
}

/// The number of a target, and how many bytes less one it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub value: u32,
    length: usize,
}

impl Number {
    /// Number of a target, by its first byte and those that follow.
    #[inline]
    pub fn of(first: u8, rest: &[u8]) -> Option<Number> {
        let (value, length) = match (first, rest) {
            (went::SHORT..went::MIDDLE, _) => (u32::from(first - went::SHORT), 0),
            (went::MIDDLE..went::LONG, &[low, ..]) => {
                (u32::from(first - went::MIDDLE) << 8 | u32::from(low), 1)
            }
            (went::LONG.., &[low, high, ..]) => {
                let low = u32::from(u16::from_le_bytes([low, high]));
                (u32::from(first - went::LONG) << 16 | low, 2)
            }
            _ => return None,
        };
        Some(Number { value, length })
    }

    /// How many bytes are behind the first one.
    pub fn len_behind(first: u8) -> usize {
        usize::from(first >= went::MIDDLE) + usize::from(first >= went::LONG)
    }

    /// Number of bytes after the first.
    #[inline]
    pub fn len(self) -> usize {
        self.length
    }
}

/// Pieces by numbers of targets, as far as they were met.
#[derive(Debug, Default)]
pub(super) struct ByNumber([Vec<u32>; 3]);

impl ByNumber {
    #[inline]
    pub fn get(&self, number: Number) -> Option<u32> {
        let piece = *self.0[number.length].get(number.value as usize)?;
        (piece != NONE).then_some(piece)
    }

    /// Sets the piece of a number that is listed.
    pub fn set(&mut self, number: Number, piece: u32) {
        let (pieces, at) = (&mut self.0[number.length], number.value as usize);
        if pieces.len() <= at {
            pieces.resize(at + 1, NONE);
        }
        pieces[at] = piece;
    }

    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }
}

/// A piece that was executed to its end, from one of its instructions on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub piece: u32,
    pub from: u32,
    pub to: u32,
    /// Outcome of the last instruction, if it has one.
    pub outcome: Option<bool>,
}

impl Walk<'_> {
    /// Nothing but pieces comes next, as far as is known.
    #[inline]
    fn is_simple(&self) -> bool {
        let is_simple = self.coming.is_none() && self.entered.is_none() && self.stamps.is_none();
        is_simple && self.packed.is_none() && !self.over && self.lanes.len() > TARGETS
    }

    /// The piece that comes next, if it and what it leads to were met before; otherwise the walk is where it was, and
    /// [`Walk::found`] goes on. Nearly all pieces are found here, in registers: a [`Found`](super::Found) is copied in memory.
    #[inline]
    pub(super) fn quick(&mut self) -> Option<Ran> {
        if !self.is_simple() || self.pieces.is_full() {
            return None;
        }
        let (piece, from) = self.piece?;
        let hop = self.pieces.hops[piece as usize];
        let (next, outcome) = self.hop(hop)?;
        self.piece = Some((next, 0));
        Some(Ran {
            piece,
            from,
            to: hop.steps.into(),
            outcome,
        })
    }

    /// Takes the outcome of a piece: the next one, and the outcome; `None`: that is not known, or something else comes first.
    #[inline]
    fn hop(&mut self, hop: Hop) -> Option<(u32, Option<bool>)> {
        if self.left == 0 {
            let lane = usize::from(hop.lane?);
            let &byte = self.lanes[lane].here().first()?;
            match lane == TARGETS {
                true if byte >= went::SHORT => {
                    (self.outcomes, self.left, self.went) = (WENT, 1, byte);
                }
                false if byte > ESCAPE => {
                    (self.outcomes, self.left) = (byte, byte.ilog2().min(PER_BYTE));
                }
                _ => return None,
            }
            self.lanes[lane].skip(1);
        }
        match hop.ending {
            Ending::Goes => Some((hop.next(false)?, None)),
            Ending::Branch => {
                let outcome = self.outcomes >> (self.left - 1) & 1 != 0;
                let next = hop.next(outcome)?;
                self.left -= 1;
                Some((next, Some(outcome)))
            }
            Ending::Indirect if self.left == 1 && self.outcomes & 1 != 0 => {
                let lane = &mut self.lanes[TARGETS];
                let number = Number::of(self.went, lane.here())?;
                let next = self.pieces.by_number.get(number)?;
                lane.skip(number.len());
                self.left = 0;
                Some((next, Some(true)))
            }
            _ => None,
        }
    }

    /// How many instructions come next, up to something that is not only the next piece, or
    /// that was not met before. Leaves everything as if they had been given one by one.
    pub(super) fn hurry(&mut self) -> u64 {
        if !self.is_simple() {
            return 0;
        }
        let Some((mut piece, mut from)) = self.piece else {
            return 0;
        };
        let mut insns = 0;
        loop {
            let hop = self.pieces.hops[piece as usize];
            let Some((next, _)) = self.hop(hop) else {
                break;
            };
            insns += u64::from(hop.steps) - u64::from(from);
            (piece, from) = (next, 0);
        }
        self.piece = Some((piece, from));
        insns
    }
}
