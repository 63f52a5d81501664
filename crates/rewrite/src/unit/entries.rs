//! Entries of a function: whether code can be in front of them.

use flow::{Function, Live};
use image::LinkAddr;
use isa::RegisterSet;

/// `r11`, which inserted code at entries uses.
pub(super) const R11: u16 = 1 << 11;

/// Facts of a function's entries.
#[derive(Debug)]
pub(crate) struct Entries {
    /// Old places of those that code in front of them would harm.
    pub bare: Vec<LinkAddr>,
    /// Whether a caller may have a value in `r11` that the function happens to leave as it is.
    pub keeps_r11: bool,
}

/// Old places of a function's entries that code in front of them would harm: it changes a register, and flags.
pub(super) fn bare_entries(function: &Function, live: &Live, is_called: bool) -> Vec<LinkAddr> {
    let first = [function.entry].into_iter().filter(|_| !is_called);
    let entries = function.others.iter().copied().chain(first);
    let bare = entries.filter(|entry| {
        let block = function.graph.block_from(*entry);
        block.is_some_and(|block| !is_free(live.before[block]))
    });
    bare.collect()
}

/// Whether code with a comparison that uses `r11` can be inserted.
fn is_free(live: RegisterSet) -> bool {
    live.flags == isa::Flags::NONE && live.general & R11 == 0
}
