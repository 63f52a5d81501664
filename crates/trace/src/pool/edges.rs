//! From edges to nodes: what the blocks of a recorded path counted for.
//!
//! The engine counts where a superblock is left, on the edge that a path is from a
//! state (`wire::node::FIRST_BLOCK`). Each of the path's blocks made a step of its own,
//! by the rules of `forest`; every one of those nodes exists. Here each step is made
//! once more, and counts as often as the edge did. Then the edges go. This is done here for
//! k-slab forests, by `windows` where states are windows, by `rolled` where loops are rolled.
//!
//! What does not fit together, as after a scribble, counts on `[truncated]`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use wire::{log, node};

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

/// The paths of a process image, by id.
#[derive(Debug, Default)]
pub(super) struct Paths(HashMap<u32, (u32, u32)>);

impl Paths {
    pub(super) fn push(&mut self, path: &log::Path) {
        // What comes before has a smaller number, so every way back ends.
        if path.before < path.id {
            self.0.insert(path.id, (path.before, path.block));
        }
    }

    pub(super) fn blocks(&self, path: u32, out: &mut Vec<u32>) {
        out.clear();
        let mut at = path;
        while let Some(&(before, block)) = self.0.get(&at) {
            out.push(block);
            at = before;
        }
        out.reverse();
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
    let counts = match rules.roll_loops {
        true => rolled::counts(&thread.nodes, paths),
        false => in_slabs(&thread.nodes, paths, rules.k),
    };
    for (node, count) in thread.nodes.iter_mut().zip(counts) {
        node.count = count;
    }
    drop_edges(thread, rules.intra);
}

/// How often each of `nodes` was come to, in a k-slab forest.
fn in_slabs(nodes: &[Node], paths: &Paths, k: Option<u32>) -> Vec<u64> {
    let mut counts: Vec<u64> = nodes.iter().map(|node| node.count).collect();
    let walk = Walk {
        nodes,
        children: children_of(nodes),
        k,
    };
    let lost = walk.children.get(&name(None, Label::TRUNCATED)).copied();
    let mut blocks = Vec::new();
    for edge in nodes.iter().filter(|node| !is_state(node)) {
        let mut state = edge.parent;
        paths.blocks(edge.label.0, &mut blocks);
        for &block in &blocks {
            state = state.and_then(|state| walk.step(state, Label(block)));
            if let Some(at) = state.or(lost) {
                let count = &mut counts[at as usize];
                *count = count.wrapping_add(edge.count);
            }
        }
    }
    counts
}

/// The states of `nodes`.
pub(super) fn children_of(nodes: &[Node]) -> Children {
    let states = (0..).zip(nodes).filter(|(_, node)| is_state(node));
    let mut children = Children::with_capacity_and_hasher(nodes.len() / 2, Mixed::default());
    children.extend(states.map(|(at, node)| (name(node.parent, node.label), at)));
    children
}

/// States by [`name`].
pub(super) type Children = HashMap<u64, u32, Mixed>;
pub(super) type Mixed = BuildHasherDefault<Mix>;

/// Of the state that `label` makes below `parent`.
pub(super) fn name(parent: Option<u32>, label: Label) -> u64 {
    let parent = parent.map_or(0, |parent| u64::from(parent) + 1);
    parent << 32 | u64::from(label.0)
}

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

struct Walk<'a> {
    nodes: &'a [Node],
    children: Children,
    /// `None`: infinite.
    k: Option<u32>,
}

impl Walk<'_> {
    /// The state after `block` in `state`; `None`: it was never made.
    fn step(&self, state: u32, block: Label) -> Option<u32> {
        let here = &self.nodes[state as usize];
        if here.label == Label::TRUNCATED && here.parent.is_none() {
            return Some(state);
        }
        let k = self.k.unwrap_or(u32::MAX / 2);
        let parent = match () {
            () if here.label == Label(node::LABEL_ENTRY) => None,
            () if here.depth + 1 == 2 * k => Some(here.top?),
            () => Some(state),
        };
        self.children.get(&name(parent, block)).copied()
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
    let keeps = |node: &Node| is_state(node) && !is_idle(node.label, intra);
    let mut left = 0;
    let places: Vec<Option<u32>> = thread
        .nodes
        .iter()
        .map(|node| {
            let place = keeps(node).then_some(left);
            left += u32::from(place.is_some());
            place
        })
        .collect();
    let place = |at: u32| places.get(at as usize).copied().flatten();
    thread.nodes.retain(keeps);
    for node in &mut thread.nodes {
        node.parent = node.parent.and_then(place);
        node.top = node.top.and_then(place);
    }
}
