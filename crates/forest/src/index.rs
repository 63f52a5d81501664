//! From a node's name to the node: a table that emitted code reads, too
//! (`everypath_lookup` in dbt/entry.rs).
//!
//! Problem: a program with millions of contexts asks for the child of a node
//! some ten million times a second, and every access to a table of a hundred
//! megabytes that is spread by a hash waits for memory.
//!
//! Approach: the children of nodes that lie together have their entries
//! together. What is called in a context is called there again, soon after the
//! same neighbours, and then the line is in the processor's cache. A node has
//! one child on average, early ones as late ones, so places proportional to the
//! parents' offsets fill the table evenly; few nodes have more than four.
//!
//! ```text
//!  entry:    | tag: low half of the hash (32) | pool offset / 8 (32) |  0: empty
//!  home:     32 entries from ((parent - origin) * scale) >> 32 on, rounded
//!            down to a line, which is a cache line; none from `homes` on
//!  fallback: line (high half of the hash * lines) >> 32, then each `step` lines on
//! ```
//!
//! An entry goes to the first free place of its home, or, if that is full, of
//! its fallback. Entries never leave; so a search ends at the first free place,
//! in the home as well as behind it. Homes can fill regions of the table; the
//! fallback steps out of them (`step` is near 0.6 of the lines, and coprime to
//! their number, so that it comes to all of them).
//!
//! The tag spares looking at nodes that are not meant. The table grows by half,
//! so that it is always at least half full: with at most 16 bytes of index a
//! node costs at most 40. The scale is then chosen anew, as if the nodes to
//! come lay as dense as those before; other threads' nodes lie between them. A
//! young forest whose few nodes lie scattered has no homes at all.

use alloc::vec;
use alloc::vec::Vec;

/// Multiplier of the hash of names (2^64 divided by the golden ratio).
pub const HASH: u64 = 0x9E37_79B9_7F4A_7C15;
/// Entries of a home.
pub const HOME: usize = 32;
/// A cache line of entries.
pub const LINE: usize = 8;

const FIRST: usize = 256;
/// Share of the table that may be used: three quarters.
const FULL: (usize, usize) = (3, 4);

/// Bytes per node from which on nodes count as scattered. Packed they have 24.
const SCATTERED: u64 = 100;

/// Entries by place.
#[derive(Debug)]
pub(crate) struct Index {
    /// A few more than entries, so that lines can be cache lines.
    words: Vec<u64>,
    /// Where the first line begins.
    start: usize,
    lines: usize,
    /// Lines from one of a fallback to the next.
    step: usize,
    used: usize,
    /// Where homes end: all of the table, or none.
    homes: usize,
    /// Pool offset whose children's home is the beginning of the table.
    origin: u64,
    /// Entries per byte of nodes, times 2^32.
    scale: u64,
}

/// What emitted code needs to search an index.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Address of the first entry.
    pub entries: u64,
    pub lines: u64,
    pub step: u64,
    pub homes: u64,
    /// Pool offset.
    pub origin: u64,
    pub scale: u64,
}

/// The name of a child and the pool offset of its parent; `None`: a function's
/// tree, which has no parent and so no home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub key: u64,
    pub parent: Option<u64>,
}

impl Name {
    /// An entry without its node.
    fn tag(self) -> u64 {
        self.key.wrapping_mul(HASH) << 32
    }
}

impl Index {
    pub fn new() -> Index {
        Index::with_lines(FIRST / LINE)
    }

    fn with_lines(lines: usize) -> Index {
        let words = vec![0; lines * LINE + HOME + LINE];
        let misplaced = words.as_ptr() as usize / size_of::<u64>() % LINE;
        let mut step = lines * 5 / 8;
        while gcd(step, lines) != 1 {
            step += 1;
        }
        Index {
            words,
            start: (LINE - misplaced) % LINE,
            lines,
            step,
            used: 0,
            homes: 0,
            origin: 0,
            scale: 0,
        }
    }

    fn len(&self) -> usize {
        self.lines * LINE
    }

    /// Valid until the next `insert`.
    pub fn table(&self) -> Table {
        Table {
            entries: &raw const self.words[self.start] as u64,
            lines: self.lines as u64,
            step: self.step as u64,
            homes: self.homes as u64,
            origin: self.origin,
            scale: self.scale,
        }
    }

    fn home(&self, parent: u64) -> Option<usize> {
        let place = parent.wrapping_sub(self.origin).wrapping_mul(self.scale) >> 32;
        let place = place as usize & !(LINE - 1);
        (place < self.homes).then_some(place)
    }

    /// The places a name may be at, first choice first.
    fn places(&self, name: Name) -> impl Iterator<Item = usize> + use<> {
        let home = name.parent.and_then(|parent| self.home(parent));
        let home = home.map_or(0..0, |home| home..home + HOME);
        let high = name.key.wrapping_mul(HASH) >> 32;
        let first = ((high * self.lines as u64) >> 32) as usize;
        let (start, lines, step) = (self.start, self.lines, self.step);
        let next = move |&line: &usize| {
            Some(if line + step < lines {
                line + step
            } else {
                line + step - lines
            })
        };
        let fallback = core::iter::successors(Some(first), next).take(lines);
        let fallback = fallback.flat_map(|line| line * LINE..(line + 1) * LINE);
        home.chain(fallback).map(move |place| start + place)
    }

    /// Pool offset of the node for which `is_meant`, among those whose tag is the name's.
    pub fn find(&self, name: Name, is_meant: impl Fn(u64) -> bool) -> Option<u64> {
        let tag = name.tag();
        for place in self.places(name) {
            let entry = self.words[place];
            if entry == 0 {
                return None;
            }
            let offset = u64::from(entry as u32) * 8;
            if entry & !0xFFFF_FFFF == tag && is_meant(offset) {
                return Some(offset);
            }
        }
        None
    }

    /// Whether the next insertion has to grow the table first.
    pub fn is_full(&self) -> bool {
        (self.used + 1) * FULL.1 > self.len() * FULL.0
    }

    /// Half as large again and empty; the caller inserts all nodes anew, in
    /// the order in which they lie in memory: from `first` to `last`.
    pub fn grow(&mut self, first: u64, last: u64) {
        let (lines, nodes) = (self.lines + self.lines / 2, self.used as u64 + 1);
        // The old table goes before the new one comes.
        self.words = Vec::new();
        *self = Index::with_lines(lines);
        let span = (last - first).max(1);
        if span > nodes * SCATTERED {
            return;
        }
        let room = (self.len() * FULL.0 / FULL.1) as u64;
        self.homes = self.len();
        self.origin = first;
        self.scale = ((self.len() as u64) << 32) / (span * room / nodes).max(1);
    }

    /// Enters the node at pool offset `offset`, which is not in the table.
    pub fn insert(&mut self, name: Name, offset: u64) {
        let free = self.places(name).find(|&place| self.words[place] == 0);
        let free = free.expect("the table is never full");
        self.words[free] = name.tag() | (offset / 8);
        self.used += 1;
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{FIRST, Index, LINE, Name, gcd};

    fn name(number: u64, parent: u64) -> Name {
        Name {
            key: wire::node::key(0x7f12_3400_0000 + parent, 256 + number as u32),
            parent: Some(parent),
        }
    }

    /// Fills an index with children of the given parents, growing as the forest does.
    fn filled(parents: &[u64]) -> Index {
        let mut index = Index::new();
        for at in 0..parents.len() {
            if index.is_full() {
                index.grow(parents[0], parents[at].max(parents[0] + 24 * at as u64));
                for (number, &parent) in parents[..at].iter().enumerate() {
                    index.insert(name(number as u64, parent), 8 * (number as u64 + 1));
                }
            }
            index.insert(name(at as u64, parents[at]), 8 * (at as u64 + 1));
        }
        index
    }

    /// How many places are looked at to find all of them, on average.
    fn mean_probes(index: &Index, parents: &[u64]) -> f64 {
        let mut probes = 0;
        for (number, &parent) in parents.iter().enumerate() {
            let name = name(number as u64, parent);
            let offset = 8 * (number as u64 + 1);
            let found = index.find(name, |at| at == offset);
            assert_eq!(found, Some(offset));
            let is_it = |&place: &usize| index.words[place] == name.tag() | (offset / 8);
            probes += index
                .places(name)
                .position(|place| is_it(&place))
                .expect("found above");
        }
        probes as f64 / parents.len() as f64
    }

    #[test]
    fn every_line_is_in_every_fallback() {
        let mut lines = FIRST / LINE;
        while lines < 1 << 20 {
            assert_eq!(gcd(Index::with_lines(lines).step, lines), 1);
            lines += lines / 2;
        }
    }

    #[test]
    fn searches_stay_short_however_parents_lie() {
        let count = 50_000u64;
        let packed: Vec<u64> = (0..count).map(|i| 4096 + i * 24).collect();
        // All children of few parents: homes are full, the fallback has to do.
        let crowded: Vec<u64> = (0..count).map(|i| 4096 + i % 7 * 24).collect();
        // Chunks of a page, far apart: another thread's lie between.
        let scattered: Vec<u64> = (0..count)
            .map(|i| (i / 170 + 1) * (1 << 20) + i % 170 * 24)
            .collect();
        // First far apart, then packed: the scale is wrong for most.
        let mixed: Vec<u64> = scattered[..2000]
            .iter()
            .copied()
            .chain((2000..count).map(|i| (1 << 24) + i * 24))
            .collect();
        for (what, parents, most) in [
            ("packed", packed, 6.0),
            ("crowded", crowded, 40.0),
            ("scattered", scattered, 6.0),
            ("mixed", mixed, 12.0),
        ] {
            let mean = mean_probes(&filled(&parents), &parents);
            assert!(mean < most, "{what}: {mean}");
        }
    }
}
