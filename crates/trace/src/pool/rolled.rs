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
//! Inconsistent records, as after a scribble, count on `[truncated]`.

use std::collections::HashMap;

use wire::node;

use super::children::Children;
use super::edges::{Mixed, Paths, add, is_state};
use crate::model::{Label, Node};

/// In place of a node that is not known yet.
const UNKNOWN: u32 = u32::MAX;

/// Counts on each of `nodes` how often it was come to.
pub(super) fn count(nodes: &mut [Node], paths: &Paths) {
    let is_lost = |node: &Node| node.parent.is_none() && node.label == Label::TRUNCATED;
    let lost = (0..).zip(&*nodes).find(|(_, node)| is_lost(node));
    let lost = lost.map(|(at, _)| at);
    let mut walk = Walk::default();
    for at in 0..nodes.len() {
        let Some(&edge) = nodes.get(at).filter(|node| !is_state(node)) else {
            continue;
        };
        let blocks = paths.blocks(edge.label.0);
        if walk.along(nodes, &edge, blocks).is_none() {
            walk.search(nodes, &edge, blocks);
        }
        for block in 0..blocks.len() {
            let landed = walk.landed.get(block).map(|&(_, node)| node);
            if let Some(at) = landed.or(lost) {
                add(nodes, at, edge.count);
            }
        }
    }
}

#[derive(Default)]
struct Walk {
    /// Made when it is first asked.
    children: Option<Children>,
    /// From the root to the state, without what stands for no block: a node is where its
    /// depth says.
    way: Vec<(Label, u32)>,
    /// For each label, where on the way it was last; elsewhere now, or no longer there, if
    /// that has another one.
    places: HashMap<u32, usize, Mixed>,
    /// For each block of the edge, the place on the way, and the node, that it led to.
    landed: Vec<(usize, u32)>,
}

impl Walk {
    /// Follows the blocks of `edge`, by the state where it ends. `None`: it does not say.
    fn along(&mut self, nodes: &[Node], edge: &Node, blocks: &[u32]) -> Option<()> {
        self.landed.clear();
        self.find_way(nodes, edge.parent?);
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
                None => self.push(Label(block), UNKNOWN),
            }
            let place = self.way.len() - 1;
            self.landed.push((place, self.way[place].1));
        }
        let mut at = edge.top;
        for (label, node) in self.way[fresh..].iter_mut().rev() {
            *node = at?;
            let here = nodes.get(at? as usize)?;
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

    /// Follows the blocks by looking for each node, up to the first that is not there.
    fn search(&mut self, nodes: &[Node], edge: &Node, blocks: &[u32]) {
        self.landed.clear();
        self.way.clear();
        let Some(state) = edge.parent else { return };
        self.find_way(nodes, state);
        let mut state = Some(state);
        for &block in blocks {
            state = state.and_then(|state| self.step(nodes, state, Label(block)));
            let Some(node) = state else { return };
            self.landed.push((0, node));
        }
    }

    /// The state after `block` in `state`; `None`: it was never made.
    fn step(&mut self, nodes: &[Node], state: u32, block: Label) -> Option<u32> {
        let here = &nodes[state as usize];
        if here.label == Label::TRUNCATED && here.parent.is_none() {
            return Some(state);
        }
        if let Some(place) = self.place_of(block) {
            self.way.truncate(place + 1);
            return Some(self.way[place].1);
        }
        let parent = (here.label != Label(node::LABEL_ENTRY)).then_some(state);
        let children = self.children.get_or_insert_with(|| Children::of(nodes));
        let next = children.find(nodes, parent, block)?;
        self.push(block, next);
        Some(next)
    }

    fn push(&mut self, label: Label, node: u32) {
        self.places.insert(label.0, self.way.len());
        self.way.push((label, node));
    }

    fn place_of(&self, block: Label) -> Option<usize> {
        let place = *self.places.get(&block.0)?;
        let on = |&(label, _): &(Label, u32)| label == block;
        self.way.get(place).is_some_and(on).then_some(place)
    }

    /// Makes the way the one to `state`.
    fn find_way(&mut self, nodes: &[Node], state: u32) {
        let mut below = Vec::new();
        let mut at = Some(state);
        while let Some(here) = at {
            let node = &nodes[here as usize];
            let place = node.depth as usize;
            if self.way.get(place).is_some_and(|&(_, on)| on == here) {
                self.way.truncate(place + 1);
                break;
            }
            if node.label != Label(node::LABEL_ENTRY) {
                below.push((node.label, here));
            }
            at = node.parent;
        }
        if at.is_none() {
            self.way.clear();
        }
        for &(label, node) in below.iter().rev() {
            self.push(label, node);
        }
    }
}
