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
//!            down to a cache line; none if that is beyond the table
//!  fallback: from (high half of the hash * entries) >> 32 on, around the table
//! ```
//!
//! An entry goes to the first free place of its home, or, if that is full, of
//! its fallback. Entries never leave; so a search ends at the first free place,
//! in the home as well as behind it.
//!
//! The tag spares looking at nodes that are not meant. The table grows by half,
//! so that it is always at least half full: with at most 16 bytes of index a
//! node costs at most 40. The scale is then chosen anew, as if the nodes to
//! come lay as dense as those before; other threads' nodes lie between them.

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

/// Entries by place.
#[derive(Debug)]
pub(crate) struct Index {
    /// A few more than entries, so that lines can be cache lines.
    words: Vec<u64>,
    /// Where the first line begins.
    start: usize,
    len: usize,
    used: usize,
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
    pub len: u64,
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
        Index::with_len(FIRST)
    }

    fn with_len(len: usize) -> Index {
        let words = vec![0; len + HOME + LINE];
        let misplaced = words.as_ptr() as usize / size_of::<u64>() % LINE;
        Index {
            words,
            start: (LINE - misplaced) % LINE,
            len,
            used: 0,
            origin: 0,
            scale: 0,
        }
    }

    /// Valid until the next `insert`.
    pub fn table(&self) -> Table {
        Table {
            entries: &raw const self.words[self.start] as u64,
            len: self.len as u64,
            origin: self.origin,
            scale: self.scale,
        }
    }

    fn home(&self, parent: u64) -> Option<usize> {
        let place = parent.wrapping_sub(self.origin).wrapping_mul(self.scale) >> 32;
        let place = place as usize & !(LINE - 1);
        (place < self.len).then_some(place)
    }

    /// The places a name may be at, first choice first.
    fn places(&self, name: Name) -> impl Iterator<Item = usize> + use<> {
        let home = name.parent.and_then(|parent| self.home(parent));
        let home = home.map_or(0..0, |home| home..home + HOME);
        let len = self.len;
        let high = name.key.wrapping_mul(HASH) >> 32;
        let fallback = ((high * len as u64) >> 32) as usize;
        let (start, all) = (self.start, (fallback..len).chain(0..fallback));
        home.chain(all).map(move |place| start + place)
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
        (self.used + 1) * FULL.1 > self.len * FULL.0
    }

    /// Half as large again and empty; the caller inserts all nodes anew, in
    /// the order in which they lie in memory: from `first` to `last`.
    pub fn grow(&mut self, first: u64, last: u64) {
        let (len, nodes) = (self.len + self.len / 2, self.used as u64 + 1);
        // The old table goes before the new one comes.
        self.words = Vec::new();
        *self = Index::with_len(len);
        let room = (len * FULL.0 / FULL.1) as u64;
        // No more than there is room for, though there may be several trees.
        let span = (last - first).max(1) * room / nodes;
        self.origin = first;
        self.scale = ((len as u64) << 32) / span.max(1);
    }

    /// Enters the node at pool offset `offset`, which is not in the table.
    pub fn insert(&mut self, name: Name, offset: u64) {
        let free = self.places(name).find(|&place| self.words[place] == 0);
        let free = free.expect("the table is never full");
        self.words[free] = name.tag() | (offset / 8);
        self.used += 1;
    }
}
