//! The k-slab forest as the engine records it: nodes, one state after the other.
//!
//! [`crate::oracle::record`] has the same of its own, to be compared with.

use hashbrown::HashMap;
use trace::{Label, Node};

use crate::forest::K;

/// Nodes, and which of them is whose child.
pub struct Slabs {
    k: K,
    pub nodes: Vec<Node>,
    index: HashMap<(Option<u32>, Label), u32>,
}

impl Slabs {
    pub fn new(k: K) -> Slabs {
        Slabs {
            k,
            nodes: Vec::new(),
            index: HashMap::new(),
        }
    }

    /// The child of `parent`, or the root, with this label.
    pub fn node(&mut self, parent: Option<u32>, label: Label) -> u32 {
        let nodes = &mut self.nodes;
        *self.index.entry((parent, label)).or_insert_with(|| {
            let depth = parent.map_or(0, |parent| nodes[parent as usize].depth + 1);
            nodes.push(Node {
                label,
                parent,
                depth,
                ..Node::default()
            });
            nodes.len() as u32 - 1
        })
    }

    /// The state after a call of `label` in `state`. Below the top node, or in the first
    /// slab below the state, the call is `depth + 1` levels from where the slab began.
    ///
    /// With k = 0 there are no callers: each label has one node, a root. What is called
    /// where nothing is counted stays there.
    pub fn step(&mut self, state: u32, label: Label) -> u32 {
        if self.k == K::Finite(0) {
            return match self.nodes[state as usize].label {
                Label::MUTED => state,
                _ => self.node(None, label),
            };
        }
        let top = self.nodes[state as usize].top;
        let in_slab = top.unwrap_or(state);
        let level = self.nodes[in_slab as usize].depth + 1;
        let (bottom, top) = match self.k.heads_slab(level) {
            true => (
                self.node(Some(in_slab), label),
                Some(self.node(None, label)),
            ),
            false => (
                self.node(Some(state), label),
                top.map(|top| self.node(Some(top), label)),
            ),
        };
        self.nodes[bottom as usize].top = top;
        bottom
    }
}
