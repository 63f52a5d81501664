//! Counters with tags, found by ever longer parts of the history: a small TAGE (Seznec and
//! Michaud, "A case for (partially) tagged geometric history length branch prediction", 2006).
//!
//! Approach: the table with the longest history that knows the branch predicts; a plain table
//! of two-bit counters does if none does. After a misprediction a table with a longer history
//! takes the branch in, in place of one that was of no use.
//!
//! Limits: no loop predictor, no corrector, no reset of what was of use long ago.

use super::Outcomes;
use super::gshare::after;

/// Outcomes that the tagged tables look back.
const LENGTHS: [u32; 4] = [6, 16, 42, 112];
const TAG_BITS: u32 = 11;
const STRONGEST: i8 = 3;
const MOST_USE: u8 = 3;

/// A part of the history, folded to some bits.
#[derive(Clone, Copy, Debug)]
struct Folded {
    value: u32,
    bits: u32,
    len: u32,
}

impl Folded {
    fn new(bits: u32, len: u32) -> Folded {
        Folded {
            value: 0,
            bits,
            len,
        }
    }

    /// One outcome comes, and the one of `len` before goes.
    fn shift(&mut self, new: bool, old: bool) {
        let mut value = self.value << 1 | u32::from(new);
        value ^= u32::from(old) << (self.len % self.bits);
        value ^= value >> self.bits;
        self.value = value & ((1 << self.bits) - 1);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u32,
    /// Taken from 0 on.
    counter: i8,
    used: u8,
}

#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    index: Folded,
    tag: [Folded; 2],
    /// Entry of the branch that was asked for last, or the place for it, and its tag.
    at: usize,
    wanted: u32,
}

impl Table {
    fn new(entries: usize, len: u32) -> Table {
        let bits = entries.trailing_zeros().max(1);
        Table {
            entries: vec![Entry::default(); entries],
            index: Folded::new(bits, len),
            tag: [Folded::new(TAG_BITS, len), Folded::new(TAG_BITS - 1, len)],
            at: 0,
            wanted: 0,
        }
    }

    fn look(&mut self, pc: u64) {
        let pc = (pc ^ pc >> 17) as u32;
        let mask = self.entries.len() as u32 - 1;
        self.at = ((pc ^ pc >> self.index.bits ^ self.index.value) & mask) as usize;
        let tag = pc ^ self.tag[0].value ^ self.tag[1].value << 1;
        // 0 is what nothing has.
        self.wanted = tag & ((1 << TAG_BITS) - 1) | 1 << TAG_BITS;
    }

    fn found(&self) -> Option<&Entry> {
        let entry = &self.entries[self.at];
        (entry.tag == self.wanted).then_some(entry)
    }

    fn shift(&mut self, history: u128, new: bool) {
        let old = history >> (self.index.len - 1) & 1 != 0;
        self.index.shift(new, old);
        self.tag[0].shift(new, old);
        self.tag[1].shift(new, old);
    }
}

#[derive(Debug)]
pub struct Tage {
    base: Vec<u8>,
    tables: [Table; 4],
    /// The newest outcome lowest.
    history: u128,
    pc: u64,
    /// Which table said what, and what would have been said without it.
    by: Option<usize>,
    said: bool,
    otherwise: bool,
}

impl Tage {
    /// `entries` is a power of two; each tagged table has a quarter as many.
    pub fn new(entries: usize) -> Tage {
        let entries = entries.next_power_of_two();
        let tagged = (entries / 4).max(2);
        Tage {
            base: vec![1; entries],
            tables: LENGTHS.map(|len| Table::new(tagged, len)),
            history: 0,
            pc: 0,
            by: None,
            said: false,
            otherwise: false,
        }
    }

    fn base(&mut self) -> &mut u8 {
        let at = self.pc as usize & (self.base.len() - 1);
        &mut self.base[at]
    }

    fn take_in(&mut self, taken: bool) {
        let longer = self.by.map_or(0, |by| by + 1);
        for table in &mut self.tables[longer..] {
            let wanted = table.wanted;
            let entry = &mut table.entries[table.at];
            if entry.used == 0 {
                *entry = Entry {
                    tag: wanted,
                    counter: if taken { 0 } else { -1 },
                    used: 0,
                };
                return;
            }
        }
        for table in &mut self.tables[longer..] {
            table.entries[table.at].used -= 1;
        }
    }
}

impl Outcomes for Tage {
    fn predict(&mut self, pc: u64) -> bool {
        self.pc = pc;
        self.by = None;
        self.said = *self.base() >= 2;
        self.otherwise = self.said;
        for (number, table) in self.tables.iter_mut().enumerate() {
            table.look(pc);
            if let Some(entry) = table.found() {
                self.otherwise = self.said;
                self.said = entry.counter >= 0;
                self.by = Some(number);
            }
        }
        self.said
    }

    fn learn(&mut self, taken: bool) {
        match self.by {
            Some(by) => {
                let table = &mut self.tables[by];
                let entry = &mut table.entries[table.at];
                let step = if taken { 1 } else { -1 };
                entry.counter = (entry.counter + step).clamp(-STRONGEST - 1, STRONGEST);
                if self.said != self.otherwise {
                    entry.used = match self.said == taken {
                        true => (entry.used + 1).min(MOST_USE),
                        false => entry.used.saturating_sub(1),
                    };
                }
            }
            None => {
                let counter = self.base();
                *counter = after(*counter, taken);
            }
        }
        if self.said != taken {
            self.take_in(taken);
        }
        for table in &mut self.tables {
            table.shift(self.history, taken);
        }
        self.history = self.history << 1 | u128::from(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The newest `len` outcomes, folded at once.
    fn folded(history: u128, len: u32, bits: u32) -> u32 {
        let mut rest = history & ((1 << len) - 1);
        let mut value = 0;
        while rest != 0 {
            value ^= rest as u32 & ((1 << bits) - 1);
            rest >>= bits;
        }
        value
    }

    #[test]
    fn histories_are_folded_as_they_grow() {
        let mut table = Table::new(64, 42);
        let (mut history, mut random) = (0u128, 1u64);
        for _ in 0..1000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let taken = random >> 63 != 0;
            table.shift(history, taken);
            history = history << 1 | u128::from(taken);
            assert_eq!(table.index.value, folded(history, 42, table.index.bits));
            assert_eq!(table.tag[0].value, folded(history, 42, TAG_BITS));
        }
    }

    /// Once in eleven turns: too long for the history of a gshare of 256 entries.
    #[test]
    fn long_patterns_are_learnt() {
        let wrong = |predictor: &mut dyn Outcomes| {
            let outcomes = (0..20_000).map(|turn| turn % 11 == 0);
            let wrong = outcomes.filter(|&taken| {
                let said = predictor.predict(0x401000);
                predictor.learn(taken);
                said != taken
            });
            wrong.count()
        };
        assert!(wrong(&mut Tage::new(256)) < 100);
        assert!(wrong(&mut super::super::gshare::Gshare::new(256)) > 1500);
    }
}
