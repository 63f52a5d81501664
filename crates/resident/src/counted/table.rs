//! The hash table of contexts and nodes of a thread ([`wire::contexts::Calls`]): entries by their words, with linear probing.

use wire::contexts::{Entry, hash};

use crate::calls;

/// Bytes in front of the table, of which the last two words are the shift and the mask; and entries of the first one.
const HEAD: u64 = 64;
pub const FIRST_ENTRIES: u64 = 4096;
pub const ENTRY: u64 = size_of::<Entry>() as u64;

/// A new table; `None`: there is no memory.
pub fn table_of(entries: u64) -> Option<u64> {
    let memory = calls::memory_kept(HEAD + entries * ENTRY).ok()?;
    let table = memory + HEAD;
    let shift = u64::from(64 - entries.trailing_zeros());
    // SAFETY: new memory; the two words are in front of the table.
    unsafe {
        ((table - 16) as *mut u64).write(shift);
        ((table - 8) as *mut u64).write(entries * ENTRY - 1);
    }
    Some(table)
}

/// The entry of a table with these words, or the free one in its place.
///
/// # Safety
/// It is one of [`table_of`], with free entries.
pub unsafe fn look_up(table: u64, words: [u64; 3]) -> *mut Entry {
    // SAFETY: the caller's duty; places are in the table.
    unsafe {
        let shift = *((table - 16) as *const u64);
        let mask = *((table - 8) as *const u64);
        let mut at = (hash(words) >> shift) * ENTRY;
        loop {
            let entry = (table + at) as *mut Entry;
            let [first, second, third] = (*entry).words;
            let is_it = first == words[0] && second == words[1] && third == words[2];
            if (*entry).value == 0 || is_it {
                return entry;
            }
            at = (at + ENTRY) & mask;
        }
    }
}
