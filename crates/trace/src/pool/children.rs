//! Which state lies below another under a label.
//!
//! Forests have millions of states, and a table by hash of all of them would miss the
//! caches at each question. States are numbered in the order in which they were made, so
//! the children of one are listed together, in the order of their parents:
//!
//! ```text
//!   starts   | 0 | 2 | 2 | 5 | ...        of the roots, then of each node
//!   list     | roots | children of node 1 ... , sorted by label
//! ```

use super::edges::is_state;
use crate::model::{Label, Node};

/// The states of a list of nodes, by parent and label.
#[derive(Debug)]
pub(super) struct Children {
    starts: Vec<u32>,
    list: Vec<u32>,
}

/// Place in `starts` of the children of `parent`, or of the roots.
fn bucket(parent: Option<u32>) -> usize {
    parent.map_or(0, |parent| parent as usize + 1)
}

impl Children {
    pub fn of(nodes: &[Node]) -> Children {
        let states = || (0u32..).zip(nodes).filter(|(_, node)| is_state(node));
        // How many, two places on; then where each begins, one place on.
        let mut starts = vec![0u32; nodes.len() + 3];
        for (_, node) in states() {
            starts[bucket(node.parent) + 2] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut list = vec![0; sum as usize];
        for (at, node) in states() {
            // When all are listed this is where the next begins.
            let end = &mut starts[bucket(node.parent) + 1];
            list[*end as usize] = at;
            *end += 1;
        }
        let mut children = Children { starts, list };
        children.sort(nodes);
        children
    }

    fn sort(&mut self, nodes: &[Node]) {
        for ends in self.starts.windows(2) {
            let group = &mut self.list[ends[0] as usize..ends[1] as usize];
            group.sort_by_key(|&child| nodes[child as usize].label);
        }
    }

    /// The state that `label` made below `parent`, or the root with that label.
    pub fn find(&self, nodes: &[Node], parent: Option<u32>, label: Label) -> Option<u32> {
        let bucket = bucket(parent);
        let (start, end) = (*self.starts.get(bucket)?, *self.starts.get(bucket + 1)?);
        let group = &self.list[start as usize..end as usize];
        let place = group.binary_search_by_key(&label, |&child| nodes[child as usize].label);
        Some(group[place.ok()?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(label: u32, parent: Option<u32>) -> Node {
        Node {
            label: Label(label),
            parent,
            depth: 0,
            top: None,
            count: 0,
        }
    }

    #[test]
    fn every_state_is_found_where_it_is_and_nowhere_else() {
        let block = wire::node::FIRST_BLOCK;
        // The third is an edge.
        let nodes = [
            node(1, None),
            node(block + 7, Some(0)),
            node(300, Some(0)),
            node(block + 2, Some(0)),
            node(6, None),
            node(block + 2, Some(1)),
            node(block + 1, Some(5)),
        ];
        let children = Children::of(&nodes);
        let parents = (0..nodes.len() as u32).map(Some).chain([None, Some(99)]);
        for parent in parents {
            for label in nodes.iter().map(|node| node.label).chain([Label(2)]) {
                let meant = |node: &Node| (node.parent, node.label) == (parent, label);
                let meant = nodes.iter().position(|node| meant(node) && is_state(node));
                let found = children.find(&nodes, parent, label);
                assert_eq!(found, meant.map(|at| at as u32), "{parent:?} {label:?}");
            }
        }
    }
}
