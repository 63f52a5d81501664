//! The gshare predictor of figure 4.29: two-bit counters, found by the branch's address and
//! the last outcomes.

use super::Outcomes;

#[derive(Debug)]
pub struct Gshare {
    counters: Vec<u8>,
    /// The last outcomes, the newest lowest; as many as an index has bits.
    history: u64,
    /// Index of the entry that was asked for last.
    index: usize,
}

impl Gshare {
    /// `entries` is a power of two. Counters begin with 1, weakly not taken.
    pub fn new(entries: usize) -> Gshare {
        Gshare {
            counters: vec![1; entries.next_power_of_two()],
            history: 0,
            index: 0,
        }
    }

    fn mask(&self) -> u64 {
        self.counters.len() as u64 - 1
    }

    pub fn index(&self, pc: u64) -> usize {
        (((pc >> 4) ^ self.history) & self.mask()) as usize
    }

    pub fn counter(&self, index: usize) -> u8 {
        self.counters[index]
    }
}

impl Outcomes for Gshare {
    fn predict(&mut self, pc: u64) -> bool {
        self.index = self.index(pc);
        self.counters[self.index] >= 2
    }

    fn learn(&mut self, taken: bool) {
        let counter = &mut self.counters[self.index];
        *counter = after(*counter, taken);
        self.history = (self.history << 1 | u64::from(taken)) & self.mask();
    }
}

/// A two-bit counter after an outcome.
pub(super) fn after(counter: u8, taken: bool) -> u8 {
    match taken {
        true => (counter + 1).min(3),
        false => counter.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The equations of figure 4.29.
    #[test]
    fn counters_are_those_of_the_figure() {
        for before in 0..4u8 {
            for taken in [0, 1u8] {
                let (high, low) = (before >> 1, before & 1);
                let first = (high & low) | (taken & high) | (taken & low);
                let not_low = low ^ 1;
                let second = (high & not_low) | (taken & not_low) | (taken & high);
                assert_eq!(after(before, taken == 1), first << 1 | second);
            }
        }
    }

    /// Figures 4.30 and 4.31: ten turns of a loop, then two branches behind it.
    #[test]
    fn the_loop_of_the_figure() {
        let mut gshare = Gshare::new(256);
        let loop_end = std::iter::repeat_n((0x40048F, true), 10);
        let run = loop_end.chain([(0x40048F, false), (0x400491, false), (0x400493, false)]);
        let mut seen = Vec::new();
        for (pc, taken) in run {
            let index = gshare.index(pc);
            let before = gshare.counter(index);
            gshare.predict(pc);
            gshare.learn(taken);
            seen.push((index, before, gshare.counter(index)));
        }
        let figure = [
            (119, 1, 2),
            (55, 1, 2),
            (183, 1, 2),
            (183, 2, 3),
            (183, 3, 2),
            (183, 2, 1),
            (181, 1, 0),
        ];
        assert_eq!(seen[6..], figure);
    }
}
