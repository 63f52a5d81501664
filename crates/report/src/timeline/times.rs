//! When each instruction of a thread was executed, by the trace's time stamps.
//!
//! Approach: stamps say when a thread had executed so many instructions. In between, all take
//! the same time. Stamps are counts of the processor's counter; how quick that is, who
//! recorded has measured ([`Recording::ticks_per_second`]).
//!
//! Invariants: time never goes back in a thread; a stamp that is kept is exact, but for the
//! measurement of the rate, which is good to a millionth or so (docs/formats/timelines.md).
//! Two stamps that are further apart than [`APART`] are both kept, so waiting in a system call
//! stays where it was.
//!
//! Limits: what is between two stamps is an estimate. A thread that forbade itself to read the
//! counter stands still from then on, and if it never could, where the trace begins.
//!
//! When threads began and ended says the clock, too, but that is no measure of the counter: it is
//! read some 50 to 400 microseconds before the first stamp, killed threads have no end, and of a
//! ring's the first stamp is not where they began.

use std::iter::Peekable;
use std::slice::Iter;

use analysis::walk::{Event, Pieces, StampKind, Walk};
use trace::{Process, Recording, Thread};

use super::At;

/// Stamps that are closer are left out, in ticks: less than a microsecond.
const APART: u64 = 1000;

/// A stamp: so many instructions had been executed at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    insns: u64,
    ticks: u64,
}

/// Times of all threads.
#[derive(Debug)]
pub struct Times {
    /// By process and thread.
    anchors: Vec<Vec<Vec<Anchor>>>,
    first: u64,
    ticks_per_second: u64,
}

impl Times {
    /// `None`: it has no stamps, or does not say how quick their counter was.
    pub fn of(recording: &Recording) -> Option<Times> {
        let ticks_per_second = recording.ticks_per_second()?;
        let of_process = |process: &Process| {
            let mut pieces = Pieces::of(process);
            let threads = process.threads.iter();
            threads.map(|thread| anchors(&mut pieces, thread)).collect()
        };
        let anchors: Vec<Vec<Vec<Anchor>>> = recording.processes.iter().map(of_process).collect();
        let firsts = anchors.iter().flatten().filter_map(|thread| thread.first());
        let first = firsts.map(|anchor| anchor.ticks).min()?;
        Some(Times {
            anchors,
            first,
            ticks_per_second,
        })
    }

    /// For a thread's instructions in their order.
    pub(super) fn cursor(&self, (process, thread): At) -> Cursor<'_> {
        let mut anchors = self.anchors[process][thread].iter().peekable();
        let first = Anchor {
            insns: 0,
            ticks: self.first,
        };
        Cursor {
            times: self,
            before: anchors.next().copied().unwrap_or(first),
            after: anchors,
        }
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        let ticks = ticks.saturating_sub(self.first);
        scale(ticks, 1_000_000_000, self.ticks_per_second)
    }
}

/// The stamps of a thread that are kept.
fn anchors(pieces: &mut Pieces, thread: &Thread) -> Vec<Anchor> {
    let mut kept: Vec<Anchor> = Vec::new();
    let (mut insns, mut passed) = (0, None);
    let mut walk = Walk::new(pieces, thread).with_stamps();
    while let Some(event) = walk.next() {
        match event {
            Ok(Event::Executed(steps)) => insns += steps.len() as u64,
            Ok(Event::Stamp(stamp)) => {
                let before = kept.last().copied();
                let ticks = before.map_or(stamp.time, |before| stamp.time.max(before.ticks));
                let anchor = Anchor { insns, ticks };
                let is_apart = |than: Anchor| ticks - than.ticks >= APART;
                if before.is_none_or(is_apart) || stamp.kind == StampKind::End {
                    kept.extend(passed.take());
                    kept.push(anchor);
                } else {
                    passed = Some(anchor);
                }
            }
            Ok(Event::Went { .. }) => {}
            Err(_) => break,
        }
    }
    kept.extend(passed);
    kept
}

/// Position between the time stamps of a thread.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    times: &'a Times,
    before: Anchor,
    after: Peekable<Iter<'a, Anchor>>,
}

impl Cursor<'_> {
    /// When the thread had executed `insns` instructions, in nanoseconds from the first stamp
    /// on; not fewer than it was asked before.
    pub fn at(&mut self, insns: u64) -> u64 {
        while let Some(next) = self.after.next_if(|next| next.insns <= insns) {
            self.before = *next;
        }
        let Anchor { insns: from, ticks } = self.before;
        let passed = match self.after.peek() {
            Some(next) => scale(
                insns.saturating_sub(from),
                next.ticks - ticks,
                next.insns - from,
            ),
            None => 0,
        };
        self.times.nanoseconds(ticks + passed)
    }
}

/// `number * up / down`, at most `u64::MAX`.
fn scale(number: u64, up: u64, down: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(up) / u128::from(down.max(1));
    scaled.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_stamps_all_instructions_take_as_long() {
        let anchors = [(0, 1000), (10, 1100), (10, 5100), (30, 5140)];
        let anchors = anchors.map(|(insns, ticks)| Anchor { insns, ticks });
        let times = Times {
            anchors: vec![vec![anchors.to_vec()]],
            first: 1000,
            ticks_per_second: 2_000_000_000,
        };
        let mut cursor = times.cursor((0, 0));
        let asked = [0, 1, 9, 10, 20, 30, 31];
        let given = asked.map(|insns| cursor.at(insns));
        // Ticks 1000, 1010, 1090, 5100, 5120, 5140, 5140: two in a nanosecond.
        assert_eq!(given, [0, 5, 45, 2050, 2060, 2070, 2070]);
    }
}
