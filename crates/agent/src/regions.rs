//! Which memory of the program is executable, as the program sees it.
//!
//! The kernel never maps program pages executable (design D3): the bit exists
//! only here. So an address can be translated exactly if a region holds it,
//! and a control transfer that escapes the cache faults.

use alloc::vec::Vec;

/// Executable memory with equal rights and origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    /// Rights the program gave it (`PROT_EXEC` set).
    pub prot: u32,
    /// File offset of `start`; meaningless for anonymous memory.
    pub offset: u64,
    /// Index + 1 of the function table in [`Regions::tables`]; 0: none.
    pub table: u32,
    /// Code of a file, logged as such; `false`: anonymous memory, a stack, shared memory.
    pub of_file: bool,
    /// Mapped from a file and never writable since: bytes cannot change by stores.
    pub fixed: bool,
    /// Bytes can change without a fault that we see: a stack (the kernel
    /// writes there, too) or memory shared with another mapping.
    pub volatile: bool,
}

impl Region {
    /// Position of `pc` in the file.
    pub fn file_offset(&self, pc: u64) -> u64 {
        pc - self.start + self.offset
    }
}

#[derive(Debug, Default)]
pub struct Regions {
    /// Sorted by address, disjoint.
    list: Vec<Region>,
    /// Pool offsets of function tables.
    pub tables: Vec<u64>,
}

impl Regions {
    pub fn find(&self, pc: u64) -> Option<&Region> {
        let after = self.list.partition_point(|region| region.start <= pc);
        self.list[..after].last().filter(|region| pc < region.end)
    }

    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        let first = self.list.partition_point(|region| region.end <= start);
        self.list
            .get(first)
            .is_some_and(|region| region.start < end)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.list.iter()
    }

    /// The number of a function table, as [`Region::table`] has it: the same whenever its file is mapped.
    pub fn number(&mut self, table: u64) -> u32 {
        let known = self.tables.iter().position(|&known| known == table);
        let index = known.unwrap_or_else(|| {
            self.tables.push(table);
            self.tables.len() - 1
        });
        index as u32 + 1
    }

    /// `start..end` is no longer executable (or no longer mapped).
    pub fn remove(&mut self, start: u64, end: u64) {
        let first = self.list.partition_point(|region| region.end <= start);
        let mut at = first;
        while at < self.list.len() && self.list[at].start < end {
            let old = self.list.remove(at);
            if old.start < start {
                self.list.insert(at, Region { end: start, ..old });
                at += 1;
            }
            if end < old.end {
                self.list.insert(
                    at,
                    Region {
                        start: end,
                        offset: old.offset + (end - old.start),
                        ..old
                    },
                );
                at += 1;
            }
        }
    }

    /// Replaces whatever is at the region's addresses.
    pub fn insert(&mut self, region: Region) {
        self.remove(region.start, region.end);
        let at = self
            .list
            .partition_point(|other| other.start < region.start);
        self.list.insert(at, region);
    }

    /// New rights for executable memory that stays executable.
    pub fn pieces(&self, start: u64, end: u64) -> Vec<Region> {
        self.list
            .iter()
            .filter(|region| region.start < end && start < region.end)
            .map(|region| {
                let cut = start.max(region.start);
                Region {
                    start: cut,
                    end: end.min(region.end),
                    offset: region.offset + (cut - region.start),
                    ..*region
                }
            })
            .collect()
    }
}
