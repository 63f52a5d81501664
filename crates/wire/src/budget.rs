//! A number of instructions that all threads of all processes of a run use up together.
//!
//! A thread takes a part of it, uses that up by itself, and takes the next one. It holds a part
//! from the moment it takes one until it gives back what is left of it, also if that is nothing.
//! The budget is over when nothing is left and nobody holds a part, so at that moment exactly so
//! many instructions were executed. What was given back can be taken again, by anybody.
//!
//! ```text
//!  | holders 16 | left 48 |        all ones: over
//! ```
//!
//! Limits: a thread that is killed holds its part for ever. Whoever has waited for long enough
//! ends the budget ([`Budget::end`]); the parts that are held then are used up nevertheless.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The largest number.
pub const MOST: u64 = (1 << 48) - 1;

const HOLDER: u64 = 1 << 48;
const MOST_HOLDERS: u64 = 0xfffe;
const OVER: u64 = u64::MAX;

/// A thread's share of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A number of instructions; the thread is a holder.
    Of(u64),
    /// Nothing is left, and the thread or others hold parts of it.
    Held,
    /// Nothing is left, and nothing will be.
    Over,
}

#[derive(Debug)]
#[repr(C)]
pub struct Budget {
    word: AtomicU64,
}

impl Budget {
    pub const fn of(insns: u64) -> Budget {
        let word = AtomicU64::new(insns);
        Budget { word }
    }

    /// Before anybody takes a part of it.
    pub fn set(&self, insns: u64) {
        self.word.store(insns.min(MOST), Relaxed);
    }

    /// Number of instructions that no thread has taken yet.
    pub fn left(&self) -> u64 {
        match self.word.load(Acquire) {
            OVER => 0,
            word => word & MOST,
        }
    }

    pub fn is_over(&self) -> bool {
        self.word.load(Acquire) == OVER
    }

    /// For a thread that `holds` a part already, or does not: a sixteenth of what is left, but
    /// at least the first of `bounds` and at most the second.
    pub fn take(&self, holds: bool, bounds: (u64, u64)) -> Part {
        let mut word = self.word.load(Acquire);
        loop {
            let (holders, left) = (word >> 48, word & MOST);
            let is_crowded = !holds && holders >= MOST_HOLDERS;
            let (new, part) = match (left, holders) {
                _ if word == OVER => return Part::Over,
                (0, 0) => (OVER, Part::Over),
                (0, _) => return Part::Held,
                _ if is_crowded => return Part::Held,
                _ => {
                    let insns = (left / 16).clamp(bounds.0, bounds.1).min(left);
                    let new = word - insns + if holds { 0 } else { HOLDER };
                    (new, Part::Of(insns))
                }
            };
            match self.word.compare_exchange(word, new, AcqRel, Acquire) {
                Ok(_) => return part,
                Err(now) => word = now,
            }
        }
    }

    /// A holder gives back what it has left, and holds nothing any more. `false`: it is too
    /// late for that.
    pub fn give_back(&self, insns: u64) -> bool {
        let given = self.word.fetch_update(AcqRel, Acquire, |word| {
            (word != OVER).then(|| word - HOLDER + insns)
        });
        given.is_ok()
    }

    /// Nobody waits for those who hold parts any more.
    pub fn end(&self) {
        self.word.store(OVER, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: (u64, u64) = (2, 50);

    #[test]
    fn parts_come_to_the_whole() {
        let budget = Budget::of(1000);
        let mut sum = 0;
        let mut holds = false;
        while let Part::Of(insns) = budget.take(holds, BOUNDS) {
            assert!((1..=50).contains(&insns));
            sum += insns;
            holds = true;
        }
        assert_eq!(sum, 1000);
        assert_eq!(budget.take(false, BOUNDS), Part::Held);
        assert!(budget.give_back(0));
        assert!(!budget.is_over());
        assert_eq!(budget.take(false, BOUNDS), Part::Over);
        assert!(budget.is_over());
    }

    #[test]
    fn what_was_given_back_is_taken_by_others() {
        let budget = Budget::of(3);
        assert_eq!(budget.take(false, (8, 8)), Part::Of(3));
        assert_eq!(budget.take(false, (8, 8)), Part::Held);
        assert!(budget.give_back(2));
        assert_eq!(budget.take(false, (8, 8)), Part::Of(2));
        budget.end();
        assert!(!budget.give_back(1));
        assert_eq!(budget.take(true, (8, 8)), Part::Over);
    }
}
