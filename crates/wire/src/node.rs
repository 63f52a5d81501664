//! Nodes of the online k-slab forest.
//!
//! A node is 24 bytes in the pool; the in-process hash that finds the child of
//! a node costs at most another 16, so a node costs at most 40.
//!
//! A node's *key* says which node it is: `parent address + step(func)`, where
//! `step(func) = func << 37`. Addresses of nodes of one process lie within
//! `2^36` bytes of each other, so two nodes have the same key only if they have
//! the same parent and the same function. The node stores the key negated,
//! because `x + (-key) == 0` can be tested without touching the flags
//! (`lea`, `jrcxz`).
//!
//! Emitted code finds a transition in a direct-mapped table by two numbers: its
//! place, which is the low 16 bits of the parent's pool offset and the
//! function's [`place`], added, and its tag, the low 32 bits of that offset and the
//! function's [`tag`]. Together they say the parent and the function as
//! exactly as the key does, while offsets are below 4 GB.
//!
//! The reader undoes it with the address at which the writer mapped the pool
//! ([`crate::ProcessRecord::pool_base`]): see [`decode_key`].

use core::sync::atomic::{AtomicU32, AtomicU64};

/// One node of a k-SF. Counters of top regions are not kept: an event counts
/// on the bottom node (or, in the first slab, on the only node), and the top
/// node's count is the sum over the bottom nodes that name it.
#[derive(Debug)]
#[repr(C)]
pub struct Node {
    /// Events that ended in this state.
    pub count: AtomicU64,
    /// Negated key, see the module text; 0 for a root.
    pub neg_key: AtomicU64,
    /// Top node of this bottom node as `pool offset / 8`; 0: none (first slab).
    pub top: AtomicU32,
    /// Low 24 bits: depth in its tree; bit 31: root, and `label` follows instead of a key.
    pub depth_flags: AtomicU32,
}

/// Set in [`Node::depth_flags`] of a root; its `neg_key` then holds the
/// function id (label) of the root itself.
pub const ROOT: u32 = 1 << 31;
/// Mask of the depth in [`Node::depth_flags`].
pub const DEPTH: u32 = (1 << 24) - 1;

/// Function ids below this are labels that are not functions.
pub const FIRST_FUNC: u32 = 256;
/// `[thread]`: root of a thread when every function is selected.
pub const LABEL_THREAD: u32 = 1;
/// `__root__`: root of a thread when functions are selected (IHPP 4.2).
pub const LABEL_ROOT: u32 = 2;
/// `[truncated]`: stands for all contexts beyond the node limit.
pub const LABEL_TRUNCATED: u32 = 3;
/// The state in which nothing is counted, nor what is called from it (lazy binding).
pub const LABEL_MUTED: u32 = 4;
/// The state before `--start-func` and after `--stop-func`; readers show it as
/// [`LABEL_MUTED`].
pub const LABEL_WAITING: u32 = 5;
/// `[signal N]` is `LABEL_SIGNAL + N`, N in 1..=64.
pub const LABEL_SIGNAL: u32 = 128;

/// Position of the function id in a key.
pub const FUNC_SHIFT: u32 = 37;
/// Function ids end here: `64 - FUNC_SHIFT` bits.
pub const MAX_FUNC: u32 = (1 << (64 - FUNC_SHIFT)) - 1;

/// What a call of `func` adds to the caller's node address to make the key.
pub const fn step(func: u32) -> u64 {
    (func as u64) << FUNC_SHIFT
}

/// Functions from here on are not in the table of transitions: [`place`] and
/// [`tag`] would not tell them apart.
pub const PLACED_FUNCS: u32 = 1 << 18;

/// What a function adds to the tag. Nodes lie at multiples of 8.
pub const fn tag(func: u32) -> u32 {
    func & 7
}

/// Different places of functions.
pub const PLACES: u32 = 1 << 15;
/// Multipliers of [`place`], for the low three bits of the id and the others:
/// together near a multiplication of the id by the golden ratio of `PLACES`.
pub const PLACE_LOW: u32 = 20_251;
pub const PLACE_HIGH: u32 = 30_943;

/// What a function adds to its place in the table of transitions. Even.
/// Functions of equal [`tag`] have different ones, because `PLACE_HIGH` is odd.
pub const fn place(func: u32) -> u32 {
    let spread = (func >> 3).wrapping_mul(PLACE_HIGH) + tag(func) * PLACE_LOW;
    (spread & (PLACES - 1)) << 1
}

/// The transition of the child of the node at pool offset `parent` by `func`:
/// its place and its tag.
pub const fn transition(parent: u32, func: u32) -> (u32, u32) {
    (
        (parent & 0xFFFF) + place(func),
        parent.wrapping_add(tag(func)),
    )
}

/// Key of the child of the node at `parent` (address in the writing process) by `func`.
pub const fn key(parent: u64, func: u32) -> u64 {
    parent.wrapping_add(step(func))
}

/// Parent (as pool offset) and function of a key made in a process that maps
/// the pool at `pool_base`. `None` if no parent in the pool gives this key.
pub fn decode_key(key: u64, pool_base: u64, pool_size: u64) -> Option<(u64, u32)> {
    let relative = key.wrapping_sub(pool_base);
    let func = (relative >> FUNC_SHIFT) as u32;
    let parent = relative.wrapping_sub(step(func));
    (parent < pool_size).then_some((parent, func))
}

const _: () = assert!(size_of::<Node>() == 24);
