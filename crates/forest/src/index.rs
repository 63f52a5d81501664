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
//!  entry:    | tag (32) | pool offset / 8 (32) |              0: empty
//!  home:     32 entries from (place * scale) >> 32 on, where place is that of
//!            the parent behind the origin, rounded down to a line, which is a
//!            cache line; none for places from `homes` on
//!            tag: | 0 (1) | place / 8 (13) | block (1) | function (17) |
//!  fallback: line (high half of the hash * lines) >> 32, then each `step` lines on
//!            tag: | 1 (1) | low half of the hash (31) |
//! ```
//!
//! An entry goes to the first free place of its home, or, if that is full, of
//! its fallback. Entries never leave; so a search ends at the first free place,
//! in the home as well as behind it. Homes can fill regions of the table; the
//! fallback steps out of them (`step` is near 0.6 of the lines, and coprime to
//! their number, so that it comes to all of them).
//!
//! In its home an entry is known by its tag alone: those whose homes overlap
//! have parents within 4 kB, and 13 bits tell them apart over 64. So a search
//! that ends there, as nearly all do, waits for one line and not for the node.
//! In the fallback the tag spares looking at nodes that are not meant. Basic blocks
//! have ids of their own range, and a bit in the tag.
//!
//! The table grows by half, so that it is always at least half full: with at
//! most 16 bytes of index a node costs at most 40. The scale is then chosen anew, as if the nodes to
//! come lay as dense as those before; other threads' nodes lie between them. A
//! young forest whose few nodes lie scattered has no homes at all.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use wire::node::{FIRST_BLOCK, PLACED_FUNCS};

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

/// Position of the parent's place in the tag of an entry at home, and its mask.
pub const HOME_SHIFT: u32 = 18;
pub const HOME_MASK: u32 = 0x1FFF << HOME_SHIFT;
/// First number after the basic blocks that have a home line.
const LAST_BLOCK: u32 = FIRST_BLOCK + PLACED_FUNCS;
/// In the tag of an entry in the fallback.
pub const FALLBACK: u32 = 1 << 31;

const _: () = assert!(PLACED_FUNCS << 1 == 1 << HOME_SHIFT);
// A home reaches over this much of the nodes, at most.
const _: () = assert!(SCATTERED * (HOME + LINE) as u64 <= (HOME_MASK >> HOME_SHIFT << 3) as u64);

/// Entries by place.
#[derive(Debug)]
pub(crate) struct Index {
    /// A few more than entries, so that lines can be cache lines.
    words: Vec<u64>,
    /// Index of the first line.
    start: usize,
    lines: usize,
    /// Lines from one of a fallback to the next.
    step: usize,
    used: usize,
    /// Places of parents from here on have no home: those that would lie behind
    /// the table, or all.
    homes: u64,
    /// Pool offset whose children's home is the beginning of the table.
    origin: u64,
    /// Entries per byte of nodes, times 2^32.
    scale: u64,
}

/// Addresses and sizes with which emitted code searches an index.
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

/// The name of a child, its function, and the pool offset of its parent; `None`:
/// a function's tree, which has no parent and so no home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub key: u64,
    pub func: u32,
    pub parent: Option<u64>,
}

impl Name {
    /// The function in the tag of an entry at home; `None`: it has none.
    fn home_func(self) -> Option<u32> {
        match self.func {
            func if func < PLACED_FUNCS => Some(func),
            FIRST_BLOCK..LAST_BLOCK => Some(self.func - FIRST_BLOCK + PLACED_FUNCS),
            _ => None,
        }
    }

    /// An entry in the fallback, without its node.
    fn fallback_tag(self) -> u64 {
        (self.key.wrapping_mul(HASH) | u64::from(FALLBACK)) << 32
    }
}

/// A part of the table that belongs to a parent.
#[derive(Clone, Debug)]
struct Home {
    places: Range<usize>,
    /// An entry, without its node.
    tag: u64,
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
            homes: self.homes,
            origin: self.origin,
            scale: self.scale,
        }
    }

    fn home(&self, name: Name) -> Option<Home> {
        let place = name.parent?.wrapping_sub(self.origin);
        let func = name.home_func()?;
        if place >= self.homes {
            return None;
        }
        let first = self.start + ((place * self.scale) >> 32) as usize / LINE * LINE;
        let tag = (place as u32) << (HOME_SHIFT - 3) & HOME_MASK | func;
        Some(Home {
            places: first..first + HOME,
            tag: u64::from(tag) << 32,
        })
    }

    /// The places a name may be at when its home is full, first choice first.
    fn fallback(&self, name: Name) -> impl Iterator<Item = usize> + use<> {
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
        fallback.flat_map(move |line| start + line * LINE..start + (line + 1) * LINE)
    }

    /// Pool offset of the node with this name. `is_meant` decides among those
    /// whose tag alone does not say it.
    pub fn find(&self, name: Name, is_meant: impl Fn(u64) -> bool) -> Option<u64> {
        let offset = |entry: u64| u64::from(entry as u32) * 8;
        if let Some(home) = self.home(name) {
            for &entry in &self.words[home.places] {
                if entry & !0xFFFF_FFFF == home.tag {
                    return Some(offset(entry));
                }
                if entry == 0 {
                    return None;
                }
            }
        }
        let tag = name.fallback_tag();
        for place in self.fallback(name) {
            let entry = self.words[place];
            if entry == 0 {
                return None;
            }
            if entry & !0xFFFF_FFFF == tag && is_meant(offset(entry)) {
                return Some(offset(entry));
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
        self.origin = first;
        self.scale = ((self.len() as u64) << 32) / (span * room / nodes).max(1);
        // The last place p for which p * scale >> 32 is in the table.
        self.homes = ((self.len() as u64) << 32).div_ceil(self.scale);
    }

    /// Enters the node at pool offset `offset`, which is not in the table.
    pub fn insert(&mut self, name: Name, offset: u64) {
        self.used += 1;
        if let Some(Home { mut places, tag }) = self.home(name)
            && let Some(free) = places.find(|&place| self.words[place] == 0)
        {
            self.words[free] = tag | (offset / 8);
            return;
        }
        let free = self.fallback(name).find(|&place| self.words[place] == 0);
        let free = free.expect("the table is never full");
        self.words[free] = name.fallback_tag() | (offset / 8);
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
            func: 256 + number as u32,
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
            let is_it = |place: usize| index.words[place] as u32 as u64 == offset / 8;
            let home = index.home(name).map_or(0..0, |home| home.places);
            probes += home
                .chain(index.fallback(name))
                .position(is_it)
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

    #[test]
    fn functions_and_blocks_lie_at_home() {
        let count = 50_000u64;
        let parent = |at: u64| 4096 + at * 24;
        for first in [256, wire::node::FIRST_BLOCK] {
            let name = |at: u64| {
                let func = first + (at % 4000) as u32;
                Name {
                    key: wire::node::key(0x7f12_3400_0000 + parent(at), func),
                    func,
                    parent: Some(parent(at)),
                }
            };
            let mut index = Index::new();
            for at in 0..count {
                if index.is_full() {
                    index.grow(parent(0), parent(at));
                    (0..at).for_each(|at| index.insert(name(at), parent(at)));
                }
                index.insert(name(at), parent(at));
            }
            let is_home = |&at: &u64| {
                let home = index.home(name(at)).map_or(0..0, |home| home.places);
                let offset = |place: usize| index.words[place] as u32 as u64 * 8;
                home.into_iter().any(|place| offset(place) == parent(at))
            };
            let at_home = (0..count).filter(is_home).count() as u64;
            assert!(at_home * 10 > count * 9, "{first}: {at_home}");
        }
    }
}
