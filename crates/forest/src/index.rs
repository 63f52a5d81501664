//! From a node's name to the node: an open-addressing table that emitted code
//! reads, too (`everypath_lookup` in dbt/entry.rs).
//!
//! ```text
//!  entry: | tag: low half of the hash (32) | pool offset / 8 (32) |   0: empty
//!  first place of a name: (high half of the hash * entries) >> 32, then upward
//! ```
//!
//! The tag spares looking at nodes that are not meant: a node is a cache miss.
//! The table grows by half, so that it is always at least half full: with at
//! most 16 bytes of index a node costs at most 40.

use alloc::vec;
use alloc::vec::Vec;

/// Multiplier of the hash (2^64 divided by the golden ratio).
pub const HASH: u64 = 0x9E37_79B9_7F4A_7C15;

const FIRST: usize = 256;

/// Entries by place.
#[derive(Debug)]
pub(crate) struct Index {
    entries: Vec<u64>,
    used: usize,
}

/// An entry without its node.
fn tag(name: u64) -> u64 {
    name.wrapping_mul(HASH) << 32
}

impl Index {
    pub fn new() -> Index {
        Index {
            entries: vec![0; FIRST],
            used: 0,
        }
    }

    /// Address and number of the entries; valid until the next `insert`.
    pub fn table(&self) -> (u64, u64) {
        (self.entries.as_ptr() as u64, self.entries.len() as u64)
    }

    fn first_place(&self, name: u64) -> usize {
        let high = name.wrapping_mul(HASH) >> 32;
        ((high * self.entries.len() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.entries.len() {
            0
        } else {
            place + 1
        }
    }

    /// Pool offset of the node for which `is_meant`, among those whose tag is the name's.
    pub fn find(&self, name: u64, is_meant: impl Fn(u64) -> bool) -> Option<u64> {
        let tag = tag(name);
        let mut at = self.first_place(name);
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            let offset = u64::from(entry as u32) * 8;
            if entry & !0xFFFF_FFFF == tag && is_meant(offset) {
                return Some(offset);
            }
            at = self.after(at);
        }
    }

    /// Whether the next insertion has to grow the table first.
    pub fn is_full(&self) -> bool {
        (self.used + 1) * 4 > self.entries.len() * 3
    }

    /// Half as large again and empty; the caller inserts all nodes anew, in
    /// the order in which they lie in memory.
    pub fn grow(&mut self) {
        let len = self.entries.len() + self.entries.len() / 2;
        // The old table goes before the new one comes.
        self.entries = Vec::new();
        self.entries = vec![0; len];
        self.used = 0;
    }

    /// Enters the node at pool offset `offset`, which is not in the table.
    pub fn insert(&mut self, name: u64, offset: u64) {
        let mut at = self.first_place(name);
        while self.entries[at] != 0 {
            at = self.after(at);
        }
        self.entries[at] = tag(name) | (offset / 8);
        self.used += 1;
    }
}
