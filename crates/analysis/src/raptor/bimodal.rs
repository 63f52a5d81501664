//! Two-bit counters, found by the branch's address alone.

use super::Outcomes;
use super::gshare::after;

#[derive(Debug)]
pub struct Bimodal {
    counters: Vec<u8>,
    /// Index of the entry that was asked for last.
    index: usize,
}

impl Bimodal {
    /// `entries` is a power of two.
    pub fn new(entries: usize) -> Bimodal {
        Bimodal {
            counters: vec![1; entries.next_power_of_two()],
            index: 0,
        }
    }
}

impl Outcomes for Bimodal {
    fn predict(&mut self, pc: u64) -> bool {
        self.index = pc as usize & (self.counters.len() - 1);
        self.counters[self.index] >= 2
    }

    fn learn(&mut self, taken: bool) {
        let counter = &mut self.counters[self.index];
        *counter = after(*counter, taken);
    }
}
