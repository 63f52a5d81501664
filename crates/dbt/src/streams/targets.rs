//! Numbers of targets of indirect branches: short ones for what runs.
//!
//! A number has one, two or three bytes, and stays in emitted code. What runs most is not known
//! when a target is listed first, but a little later: code is [laid out anew](crate::evict)
//! when it has run for a tenth of a second, and for four times as long, and so on, and
//! what comes back then is what runs. So at first there are a part of the numbers of two bytes
//! only, and with each layout half of the numbers of one and of two bytes that are left:
//! a program that goes through phases has some for each. A target that comes back while there
//! are shorter numbers than its own is listed again.

use core::hash::BuildHasherDefault;

use hashbrown::HashMap;
use wire::stream::{TargetNumber, mark, went};

use crate::block::PcHasher;
use crate::engine::Engine;

/// Numbers of two bytes before anything is known.
const MIDDLES_AT_FIRST: u32 = went::MIDDLES / 4;

/// Targets in the log.
#[derive(Debug)]
pub struct Targets {
    numbers: HashMap<u64, TargetNumber, BuildHasherDefault<PcHasher>>,
    /// By number of bytes, from one.
    lengths: [Numbers; 3],
    /// The last mark in the log.
    mark: u64,
}

/// Numbers of one length.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    mark: u64,
    next: u32,
    /// Up to here they are given until the next layout.
    end: u32,
    /// How many there are.
    all: u32,
}

impl Numbers {
    const fn new(mark: u64, end: u32, all: u32) -> Numbers {
        let next = 0;
        Numbers {
            mark,
            next,
            end,
            all,
        }
    }
}

impl Default for Targets {
    fn default() -> Targets {
        Targets {
            numbers: HashMap::default(),
            lengths: [
                Numbers::new(mark::SHORT, 0, went::SHORTS),
                Numbers::new(mark::MIDDLE, MIDDLES_AT_FIRST, went::MIDDLES),
                Numbers::new(mark::LONG, went::LONGS, went::LONGS),
            ],
            mark: 0,
        }
    }
}

impl Targets {
    /// The length of the shortest number that is left.
    fn left(&self) -> Option<usize> {
        self.lengths.iter().position(|it| it.next < it.end)
    }

    /// The next number of this length.
    fn give(&mut self, length: usize, pc: u64) -> TargetNumber {
        let number = self.lengths[length].next;
        self.lengths[length].next += 1;
        let went = match length {
            0 => TargetNumber::Short(number as u8),
            1 => TargetNumber::Middle(number as u16),
            _ => TargetNumber::Long(number),
        };
        self.numbers.insert(pc, went);
        went
    }

    /// Divides the numbers anew: targets listed from now on came back.
    fn laid_out(&mut self) {
        for numbers in &mut self.lengths[..2] {
            numbers.end = numbers.next + (numbers.all - numbers.next).div_ceil(2);
        }
    }
}

impl Engine {
    /// Append where an indirect branch went to `pc`, if a trace is made.
    pub fn went(&mut self, pc: u64) -> Option<TargetNumber> {
        let targets = &mut self.streams.as_mut()?.targets;
        let known = targets.numbers.get(&pc).copied();
        let shorter = targets.left().filter(|&left| match known {
            Some(TargetNumber::Short(_)) => false,
            Some(TargetNumber::Middle(_)) => left < 1,
            Some(TargetNumber::Long(_)) => left < 2,
            _ => true,
        });
        let listed = shorter.and_then(|length| self.list_target(length, pc));
        Some(listed.or(known).unwrap_or(TargetNumber::To(pc)))
    }

    /// `None`: it cannot be listed, or the log is full.
    fn list_target(&mut self, length: usize, pc: u64) -> Option<TargetNumber> {
        let targets = &mut self.streams.as_mut()?.targets;
        let mark = targets.lengths[length].mark;
        if (mark::SHORT..=mark::LONG).contains(&pc) {
            return None;
        }
        if targets.mark != mark {
            self.process.log.target(mark)?;
            targets.mark = mark;
        }
        self.process.log.target(pc)?;
        Some(targets.give(length, pc))
    }

    /// From now on targets get shorter numbers: what is made anew is what runs.
    pub fn mark_targets(&mut self) {
        if let Some(streams) = &mut self.streams {
            streams.targets.laid_out();
        }
    }
}
