//! From edges to nodes, where loops are rolled (IHPP 4.3.4).
//!
//! A block that is on the way from the root already is gone back to; any other makes a
//! child of the state. Trees have millions of nodes then, so that each look-up of a child
//! would miss the caches. But the last state of an edge is known, and the nodes above it are
//! those that were come to by then:
//!
//! ```text
//!   state  a > b > c      path  d b e      way  a > b > e, which is where the edge leads to
//! ```
//!
//! `d` was left again and is not on that way; only such edges look their nodes up.
//! Edges mostly begin where the one before led to, so the way is kept.
//!
//! What does not fit together, as after a scribble, counts on `[truncated]`.

use wire::node;

use super::edges::{Children, Paths, children_of, is_state, name};
use crate::model::{Label, Node};

/// In place of a node that is not known yet.
const UNKNOWN: u32 = u32::MAX;

/// How often each of `nodes` was come to.
pub(super) fn counts(nodes: &[Node], paths: &Paths) -> Vec<u64> {
    let mut counts: Vec<u64> = nodes.iter().map(|node| node.count).collect();
    let is_lost = |node: &Node| node.parent.is_none() && node.label == Label::TRUNCATED;
    let lost = (0..).zip(nodes).find(|(_, node)| is_lost(node));
    let mut walk = Walk {
        nodes,
        children: None,
        way: Vec::new(),
        landed: Vec::new(),
    };
    let mut blocks = Vec::new();
    for edge in nodes.iter().filter(|node| !is_state(node)) {
        paths.blocks(edge.label.0, &mut blocks);
        if walk.along(edge, &blocks).is_none() {
            walk.search(edge, &blocks);
        }
        for block in 0..blocks.len() {
            let landed = walk.landed.get(block).map(|&(_, node)| node);
            if let Some(at) = landed.or(lost.map(|lost| lost.0)) {
                let count = &mut counts[at as usize];
                *count = count.wrapping_add(edge.count);
            }
        }
    }
    counts
}

struct Walk<'a> {
    nodes: &'a [Node],
    /// Made when it is first asked.
    children: Option<Children>,
    /// From the root to the state, without what stands for no block.
    way: Vec<(Label, u32)>,
    /// For each block of the edge, the place on the way, and the node, that it led to.
    landed: Vec<(usize, u32)>,
}

impl Walk<'_> {
    /// Where the blocks of `edge` lead, by where it ends. `None`: it does not say.
    fn along(&mut self, edge: &Node, blocks: &[u32]) -> Option<()> {
        self.landed.clear();
        self.find_way(edge.parent?);
        // From there on the way's nodes are not known.
        let mut fresh = self.way.len();
        for &block in blocks {
            match self.place_of(Label(block)) {
                Some(place) => {
                    let left = |&(at, node): &(usize, u32)| at > place && node == UNKNOWN;
                    if self.landed.iter().any(left) {
                        return None;
                    }
                    self.way.truncate(place + 1);
                    fresh = fresh.min(place + 1);
                }
                None => self.way.push((Label(block), UNKNOWN)),
            }
            let place = self.way.len() - 1;
            self.landed.push((place, self.way[place].1));
        }
        let mut at = edge.top;
        for (label, node) in self.way[fresh..].iter_mut().rev() {
            *node = at?;
            let here = self.nodes.get(at? as usize)?;
            if here.label != *label {
                return None;
            }
            at = here.parent;
        }
        let known = fresh.checked_sub(1).map(|last| self.way[last].1);
        if known != at {
            return None;
        }
        for (place, node) in &mut self.landed {
            if *node == UNKNOWN {
                *node = self.way[*place].1;
            }
        }
        Some(())
    }

    /// The same by looking for each node, up to the first that is not there.
    fn search(&mut self, edge: &Node, blocks: &[u32]) {
        self.landed.clear();
        self.way.clear();
        let Some(state) = edge.parent else { return };
        self.find_way(state);
        let mut state = Some(state);
        for &block in blocks {
            state = state.and_then(|state| self.step(state, Label(block)));
            let Some(node) = state else { return };
            self.landed.push((0, node));
        }
    }

    /// The state after `block` in `state`; `None`: it was never made.
    fn step(&mut self, state: u32, block: Label) -> Option<u32> {
        let here = &self.nodes[state as usize];
        if here.label == Label::TRUNCATED && here.parent.is_none() {
            return Some(state);
        }
        if let Some(place) = self.place_of(block) {
            self.way.truncate(place + 1);
            return Some(self.way[place].1);
        }
        let parent = (here.label != Label(node::LABEL_ENTRY)).then_some(state);
        let nodes = self.nodes;
        let children = self.children.get_or_insert_with(|| children_of(nodes));
        let next = children.get(&name(parent, block)).copied()?;
        self.way.push((block, next));
        Some(next)
    }

    fn place_of(&self, block: Label) -> Option<usize> {
        self.way.iter().rposition(|&(label, _)| label == block)
    }

    /// Makes the way the one to `state`.
    fn find_way(&mut self, state: u32) {
        if let Some(place) = self.way.iter().rposition(|&(_, on)| on == state) {
            return self.way.truncate(place + 1);
        }
        let above = std::iter::successors(Some(state), |&at| self.nodes[at as usize].parent);
        let labelled = above.map(|at| (self.nodes[at as usize].label, at));
        self.way.clear();
        self.way
            .extend(labelled.filter(|&(label, _)| label != Label(node::LABEL_ENTRY)));
        self.way.reverse();
    }
}
