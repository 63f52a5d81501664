//! Caches and translation buffers on the accesses of a trace: which instruction misses how often.
//!
//! Problem: a trace with addresses has every access of a run, and whoever asks how another cache would
//! have done should not have to run the program again.
//!
//! Approach: a cache is a [`Model`]: lines that are there or come. [`MODELS`] has them by name, one file
//! each. Each thread has first-level caches and translation buffers of its own, the threads of a
//! process have the last level together, in the order of their time stamps. [`costs`] adds up the
//! misses by instruction; it needs no counts until it is to say where these are ([`Misses::at`]).
//!
//! The rules are cachegrind's (`cg_sim.c`): an access to several lines misses once if one of them was
//! not there; what misses the first level asks the last one; writes bring lines in as reads do; operands
//! longer than the shortest line are as long as that.
//!
//! Limits: misses are counts and no times. Fetches are those of executed instructions, each once, also
//! if it is repeated; addresses are virtual ones; pages have 4 KB; what the kernel accesses is not there.

mod core;
mod costs;
mod last_level;
mod lru;
mod next_line;
mod places;
mod plru;
mod reuse;
mod sharing;

pub use costs::{ContextMisses, Costs, EVENTS, Misses, misses};
pub use reuse::{Reuse, reuse};
pub use sharing::{LINE, Shared, Use, sharing};

/// Most threads that are read at the same time, each with some megabytes.
pub const AT_ONCE: usize = 32;
/// Most bytes of a cache.
const MOST: u64 = 1 << 32;
/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Lines that are there or not.
pub trait Model: Send {
    /// An access to the line with this number. Whether it was there; it is from now on.
    fn touch(&mut self, line: u64) -> bool;
}

/// A model that has a name.
#[derive(Debug)]
pub struct ModelRow {
    pub name: &'static str,
    /// Model of so many sets of so many ways.
    pub make: fn(u64, u64) -> Box<dyn Model>,
}

pub const MODELS: [ModelRow; 2] = [
    ModelRow {
        name: "lru",
        make: |sets, ways| Box::new(lru::Lru::new(sets, ways)),
    },
    ModelRow {
        name: "plru",
        make: |sets, ways| Box::new(plru::TreePlru::new(sets, ways)),
    },
];

/// A cache, or a translation buffer, whose lines are pages.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Bytes of everything, ways of a set, and bytes of a line; all powers of two, but the ways.
    pub size: u64,
    pub ways: u64,
    pub line: u64,
    pub model: &'static ModelRow,
    /// Whether a miss brings in the next line, too.
    pub next_line: bool,
}

impl Level {
    /// A translation buffer.
    pub fn of_pages(entries: u64, ways: u64) -> Level {
        Level {
            size: entries.saturating_mul(PAGE),
            ways,
            line: PAGE,
            model: &MODELS[0],
            next_line: false,
        }
    }

    /// A sentence if there is no such cache.
    pub fn check(&self) -> Result<(), String> {
        let Level {
            size, ways, line, ..
        } = *self;
        if !line.is_power_of_two() || !(16..=1 << 16).contains(&line) {
            return Err(format!(
                "lines have {line} bytes; give a power of two from 16 to 64K"
            ));
        }
        let set = ways.saturating_mul(line);
        let sets = size.checked_div(set).unwrap_or(0);
        if size > MOST {
            return Err(format!("{size} bytes are too many; a cache has at most 4G"));
        }
        if !sets.is_power_of_two() || sets * set != size {
            return Err(format!(
                "{size} bytes are no power of two times {ways} lines of {line} bytes"
            ));
        }
        if self.model.name == "plru" && !(ways.is_power_of_two() && ways <= 64) {
            return Err(format!(
                "plru has a tree of ways, and {ways} make none; give a power of two up to 64"
            ));
        }
        Ok(())
    }

    fn make(&self) -> Cache {
        let model = (self.model.make)(self.size / (self.ways * self.line), self.ways);
        Cache {
            bits: self.line.trailing_zeros(),
            last: None,
            keeps_last: !self.next_line,
            model: match self.next_line {
                true => Box::new(next_line::NextLine(model)),
                false => model,
            },
        }
    }
}

/// Counting of instructions that read memory and write it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// As a read and a write.
    Both,
    /// As a read, as cachegrind has it.
    Read,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub l1i: Level,
    pub l1d: Level,
    pub ll: Level,
    pub itlb: Option<Level>,
    pub dtlb: Option<Level>,
    pub updates: Updates,
    /// Processes with more threads are read by one thread; any number gives the same.
    pub at_once: usize,
}

struct Cache {
    bits: u32,
    /// The line that was accessed last. Another access to it finds it, and changes nothing.
    last: Option<u64>,
    /// That holds: nothing else comes after a line.
    keeps_last: bool,
    model: Box<dyn Model>,
}

impl Cache {
    /// An access. Whether all of its lines were there.
    #[inline]
    fn access(&mut self, address: u64, size: u64) -> bool {
        let first = address >> self.bits;
        let last = address.wrapping_add(size - 1) >> self.bits;
        let is_there = self.touch(first);
        // An access has no more bytes than a line.
        is_there & (first == last || self.touch(last))
    }

    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        if self.last == Some(line) {
            return true;
        }
        if self.keeps_last {
            self.last = Some(line);
        }
        self.model.touch(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_checked() {
        let level = |size, ways, line, model: usize| Level {
            size,
            ways,
            line,
            model: &MODELS[model],
            next_line: false,
        };
        for good in [
            level(32 << 10, 8, 64, 0),
            level(48 << 10, 12, 64, 0),
            level(64, 1, 64, 1),
            Level::of_pages(64, 64),
        ] {
            assert_eq!(good.check(), Ok(()));
        }
        for odd in [
            level(0, 1, 64, 0),
            level(32 << 10, 0, 64, 0),
            level(40 << 10, 8, 64, 0),
            level(32 << 10, 8, 48, 0),
            level(48 << 10, 12, 64, 1),
            level(1 << 40, 8, 64, 0),
            Level::of_pages(u64::MAX, 3),
        ] {
            assert!(odd.check().is_err(), "{odd:?}");
        }
    }
}
