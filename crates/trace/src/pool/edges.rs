//! From edges to nodes: what the blocks of a recorded path counted for.
//!
//! The engine counts where a superblock is left, on the edge that a path is from a
//! state (`wire::node::FIRST_BLOCK`). Each of the path's blocks made a step of its own,
//! by the rules of `forest`; every one of those nodes exists. Here each step is made
//! once more, and counts as often as the edge did. Then the edges go. This is done here for
//! k-slab forests, by `windows` where states are windows, by `rolled` where loops are rolled.
//!
//! Inconsistent records, as after a scribble, count on `[truncated]`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use wire::{log, node};

use super::children::Children;
use super::{rolled, windows};
use crate::model::{Label, Meta, Node, Thread};

/// How states lead on, see `forest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// `None`: infinite.
    pub k: Option<u32>,
    pub roll_loops: bool,
    /// Trees begin with blocks: a thread's root has nothing below it.
    pub intra: bool,
    /// States are windows of the last k blocks.
    pub windows: bool,
}

impl Rules {
    /// `None`: there are no edges.
    pub(super) fn of(meta: &Meta) -> Option<Rules> {
        meta.blocks.map(|blocks| Rules {
            k: meta.k,
            roll_loops: blocks.roll_loops,
            intra: blocks.intra,
            windows: blocks.windows,
        })
    }
}

/// The paths of a process image, by id: the blocks of each, in order.
#[derive(Debug, Default)]
pub(super) struct Paths {
    by_id: HashMap<u32, Range<usize>, Mixed>,
    blocks: Vec<u32>,
}

impl Paths {
    pub(super) fn push(&mut self, path: &log::Path) {
        let start = self.blocks.len();
        let before = self.by_id.get(&path.before).cloned().unwrap_or(0..0);
        if before.len() >= log::MAX_PATH {
            return;
        }
        self.blocks.extend_from_within(before);
        self.blocks.push(path.block);
        self.by_id.insert(path.id, start..self.blocks.len());
    }

    pub(super) fn blocks(&self, path: u32) -> &[u32] {
        let range = self.by_id.get(&path).cloned();
        range.map_or(&[], |range| &self.blocks[range])
    }
}

/// Whether a node is one, and no edge.
pub(super) fn is_state(node: &Node) -> bool {
    node.parent.is_none() || node.label.0 >= node::FIRST_BLOCK
}

/// Counts on the nodes of `thread` what its edges counted, and drops those.
pub(super) fn expand(thread: &mut Thread, paths: &Paths, rules: Rules) {
    if let (Some(k), true) = (rules.k, rules.windows) {
        return windows::expand(thread, paths, k, rules.intra);
    }
    match rules.roll_loops {
        true => rolled::count(&mut thread.nodes, paths),
        false => count_in_slabs(&mut thread.nodes, paths, rules.k),
    }
    drop_edges(thread, rules.intra);
}

/// Counts on a node `count` more.
pub(super) fn add(nodes: &mut [Node], at: u32, count: u64) {
    let node = &mut nodes[at as usize];
    node.count = node.count.wrapping_add(count);
}

/// Counts on each of `nodes` how often it was come to, in a k-slab forest.
fn count_in_slabs(nodes: &mut [Node], paths: &Paths, k: Option<u32>) {
    let children = Children::of(nodes);
    let lost = children.find(nodes, None, Label::TRUNCATED);
    for at in 0..nodes.len() {
        let Some(edge) = nodes.get(at).filter(|node| !is_state(node)) else {
            continue;
        };
        let (mut state, count) = (edge.parent, edge.count);
        for &block in paths.blocks(edge.label.0) {
            state = state.and_then(|state| step(nodes, &children, k, state, Label(block)));
            if let Some(at) = state.or(lost) {
                add(nodes, at, count);
            }
        }
    }
}

/// The state after `block` in `state`; `None`: it was never made.
fn step(
    nodes: &[Node],
    children: &Children,
    k: Option<u32>,
    state: u32,
    block: Label,
) -> Option<u32> {
    let here = &nodes[state as usize];
    if here.label == Label::TRUNCATED && here.parent.is_none() {
        return Some(state);
    }
    let k = k.unwrap_or(u32::MAX / 2);
    let parent = match () {
        () if here.label == Label(node::LABEL_ENTRY) => None,
        () if here.depth + 1 == 2 * k => Some(here.top?),
        () => Some(state),
    };
    children.find(nodes, parent, block)
}

/// A table of words that nobody chose.
pub(super) type Mixed = BuildHasherDefault<Mix>;

/// A multiplication: millions of names are looked up, of which nobody chose one.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Whether nothing of a report hangs below the root with this label, nor counts there.
pub(super) fn is_idle(label: Label, intra: bool) -> bool {
    match label {
        Label(node::LABEL_ENTRY) => true,
        Label::THREAD | Label::ROOT => intra,
        _ => false,
    }
}

/// Leaves the nodes that are states of contexts.
fn drop_edges(thread: &mut Thread, intra: bool) {
    const GONE: u32 = u32::MAX;
    let keeps = |node: &Node| is_state(node) && !is_idle(node.label, intra);
    let mut left = 0;
    let places: Vec<u32> = thread
        .nodes
        .iter()
        .map(|node| match keeps(node) {
            true => {
                left += 1;
                left - 1
            }
            false => GONE,
        })
        .collect();
    let place = |at: u32| places.get(at as usize).copied().filter(|&at| at != GONE);
    thread.nodes.retain(keeps);
    for node in &mut thread.nodes {
        node.parent = node.parent.and_then(place);
        node.top = node.top.and_then(place);
    }
}
