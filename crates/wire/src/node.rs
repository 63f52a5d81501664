//! Nodes of the online k-slab forest.
//!
//! A node is 24 bytes in the pool, and 8 for each cost that it carries
//! ([`stride`]); the in-process hash that finds the child of a node costs at most
//! another 16, so a node without costs costs at most 40.
//!
//! A node's *key* says which node it is: `parent address + step(func)`, where
//! `step(func) = func << 37`. Addresses of nodes of one process lie within
//! 32 GB of each other, so two nodes have the same key only if they have
//! the same parent and the same function. The node stores the key negated,
//! because `x + (-key) == 0` can be tested without touching the flags
//! (`lea`, `jrcxz`).
//!
//! Emitted code finds a transition in a direct-mapped table by two numbers: its
//! place, which is the low 16 bits of the parent's [`State32`] and the
//! function's [`place`], added, and its tag, the parent's state and the
//! function's [`tag`], added. Together they say the parent and the function as
//! exactly as the key does. No tag is 0, so an empty entry is nobody's.
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

/// Bytes from one node of a chunk to the next. Behind the node stand its costs, in the
/// order of their bits in [`crate::cost`]: what was counted while the state was the
/// node's.
pub const fn stride(costs: u32) -> u64 {
    size_of::<Node>() as u64 + 8 * costs.count_ones() as u64
}

/// From the node to the cost with this bit, which is one of `costs`.
pub const fn cost_offset(costs: u32, bit: u32) -> u64 {
    stride(costs & ((1 << bit) - 1))
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
/// The state of an activation that has executed nothing yet (intra-procedural mode);
/// its children are trees of their own.
pub const LABEL_ENTRY: u32 = 6;
/// `[signal N]` is `LABEL_SIGNAL + N`, N in 1..=64.
pub const LABEL_SIGNAL: u32 = 128;

/// Position of the function id in a key.
pub const FUNC_SHIFT: u32 = 37;
/// Function ids end here: `64 - FUNC_SHIFT` bits.
pub const MAX_FUNC: u32 = (1 << (64 - FUNC_SHIFT)) - 1;

/// Ids from here on are basic blocks, and with them in a forest those below are
/// *paths*: blocks that are executed one after the other (`crate::log::Path`). The
/// node that a path leads to is an *edge*: it counts how often the path was taken
/// from the state above it, its `top` is the state that this leads to, and its
/// `depth_flags` are the same as a [`State32`].
pub const FIRST_BLOCK: u32 = 1 << 26;

/// Summand of a call of `func`: with the caller's node address it makes the key.
pub const fn step(func: u32) -> u64 {
    (func as u64) << FUNC_SHIFT
}

/// A state as an offset from [`nodes_base`], while that is below 4 GB.
pub type State32 = u32;

/// The state that a node at the origin of states would have: they are 4 more than
/// a multiple of 8, as nodes lie at multiples of 8.
pub const FIRST_STATE: u64 = 4;

/// Address that the states of a thread are offsets from; its origin of states is at
/// `origin`, and its nodes follow that.
pub const fn nodes_base(origin: u64) -> u64 {
    origin - FIRST_STATE
}

/// Functions from here on are not in the table of transitions: [`place`] and
/// [`tag`] would not tell them apart.
pub const PLACED_FUNCS: u32 = 1 << 17;
/// Bits of a function's id that are in its [`tag`].
pub const TAG_BITS: u32 = 2;

/// Summand of a function: with a state it makes the tag. The sum is 4 to 7 more than
/// a multiple of 8.
pub const fn tag(func: u32) -> u32 {
    func & ((1 << TAG_BITS) - 1)
}

/// Different places of functions.
pub const PLACES: u32 = 1 << 15;
/// Multipliers of [`place`], for the low bits of the id and the others: together
/// near a multiplication of the id by the golden ratio of `PLACES`.
pub const PLACE_LOW: u32 = 20_251;
pub const PLACE_HIGH: u32 = 15_469;

/// Summand of a function: with a state it makes the place in the table of transitions. Even.
/// Functions of equal [`tag`] have different ones, because `PLACE_HIGH` is odd.
pub const fn place(func: u32) -> u32 {
    let spread = (func >> TAG_BITS).wrapping_mul(PLACE_HIGH) + tag(func) * PLACE_LOW;
    (spread & (PLACES - 1)) << 1
}

/// The transition from `parent` by a call of `func`: its place and its tag.
pub const fn transition(parent: State32, func: u32) -> (u32, u32) {
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

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Exhaustive over functions: with the tag, the place says which it is.
    #[test]
    fn functions_of_equal_tag_have_different_places() {
        let mut seen = vec![false; (PLACES as usize) << TAG_BITS];
        for func in 0..PLACED_FUNCS {
            let at = (place(func) / 2 + tag(func) * PLACES) as usize;
            assert!(!core::mem::replace(&mut seen[at], true), "function {func}");
        }
    }

    /// The other half: parent and function can be told from place and tag.
    #[test]
    fn a_transition_says_its_parent_and_function() {
        let by_place: Vec<Vec<u32>> = (0..1 << TAG_BITS)
            .map(|tag_wanted| {
                let mut of = vec![0; PLACES as usize];
                for func in (0..PLACED_FUNCS).filter(|&func| tag(func) == tag_wanted) {
                    of[place(func) as usize / 2] = func;
                }
                of
            })
            .collect();
        for i in 0..200_000u32 {
            let parent = (i.wrapping_mul(0x9E37_79B1) & !7) | 4;
            let func = i.wrapping_mul(0x85EB_CA6B) % PLACED_FUNCS;
            let (at, sum) = transition(parent, func);
            assert_ne!(sum, 0);
            assert_eq!(sum & !3, parent);
            let of_func = (at - (parent & 0xFFFF)) as usize / 2;
            assert_eq!(by_place[(sum & 3) as usize][of_func], func);
        }
    }
}
