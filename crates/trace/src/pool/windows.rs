//! From edges to nodes, where a state is the window of the last k blocks
//! (`forest::History::Windows`).
//!
//! An edge was counted for the blocks of its path. The context of each is what led to the
//! edge's state, and the path up to there: its last k + 1 blocks. The nodes made here
//! are those contexts, from roots, and each block counts on the last node of its own:
//!
//! ```text
//!   k = 2, state a > b, path c d, counted 5 times:    a > b > c: 5    b > c > d: 5
//! ```
//!
//! The states of the engine go, but for roots that count for themselves. What does not fit together, as after a scribble,
//! counts on `[truncated]`.

use std::collections::HashMap;

use wire::node;

use super::edges::{Mixed, Paths, is_idle, is_state};
use crate::model::{Label, Node, Thread};

/// Makes of the nodes of `thread` those of contexts of `k` blocks before.
pub(super) fn expand(thread: &mut Thread, paths: &Paths, k: u32, intra: bool) {
    let recorded = std::mem::take(&mut thread.nodes);
    let longest = (k as usize).saturating_add(1);
    let mut contexts = Contexts::default();
    let mut labels = Vec::new();
    for edge in recorded.iter().filter(|node| node.count > 0) {
        if is_state(edge) {
            if !is_idle(edge.label, intra) {
                contexts.count(&[edge.label], edge.count);
            }
            continue;
        }
        labels.clear();
        labels.extend(way_to(&recorded, edge.parent));
        let lost = labels.first() == Some(&Label::TRUNCATED);
        labels.reverse();
        for &block in paths.blocks(edge.label.0) {
            labels.push(Label(block));
            let window = match lost {
                true => &[Label::TRUNCATED],
                false => &labels[labels.len().saturating_sub(longest)..],
            };
            contexts.count(window, edge.count);
        }
    }
    thread.nodes = contexts.nodes;
}

/// The labels of a state, last first; none of who has entered no block.
fn way_to(nodes: &[Node], state: Option<u32>) -> impl Iterator<Item = Label> {
    let at = |index: u32| nodes.get(index as usize);
    let way = std::iter::successors(state.and_then(at), move |node| node.parent.and_then(at));
    way.map(|node| node.label)
        .filter(|&label| label != Label(node::LABEL_ENTRY))
}

#[derive(Default)]
struct Contexts {
    nodes: Vec<Node>,
    /// By [`name`].
    children: HashMap<u64, u32, Mixed>,
}

impl Contexts {
    /// Adds to the counter of the node that `window` leads to from its root.
    fn count(&mut self, window: &[Label], count: u64) {
        let mut at = None;
        for &label in window {
            at = Some(self.child(at, label));
        }
        if let Some(node) = at.and_then(|at| self.nodes.get_mut(at as usize)) {
            node.count = node.count.wrapping_add(count);
        }
    }

    fn child(&mut self, parent: Option<u32>, label: Label) -> u32 {
        let nodes = &mut self.nodes;
        *self.children.entry(name(parent, label)).or_insert_with(|| {
            let above = parent.and_then(|parent| nodes.get(parent as usize));
            nodes.push(Node {
                label,
                parent,
                depth: above.map_or(0, |above| above.depth + 1),
                top: None,
                count: 0,
            });
            nodes.len() as u32 - 1
        })
    }
}

/// Key of the state that `label` makes below `parent`.
fn name(parent: Option<u32>, label: Label) -> u64 {
    let parent = parent.map_or(0, |parent| u64::from(parent) + 1);
    parent << 32 | u64::from(label.0)
}
