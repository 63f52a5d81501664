//! Building a [`Forest`] path by path.

use std::collections::BTreeSet;

use hashbrown::HashTable;
use trace::Label;

use super::{Forest, NodeId};

/// Key of roots in place of a parent; never the id of a node.
const NO_PARENT: u32 = u32::MAX;

/// A forest under construction: nodes are found or made by parent and label.
#[derive(Debug, Default)]
pub struct Builder {
    labels: Vec<Label>,
    /// [`NO_PARENT`] for a root.
    parents: Vec<u32>,
    depths: Vec<u32>,
    counts: Vec<u64>,
    first: BTreeSet<NodeId>,
    /// Ids by (parent, label).
    index: HashTable<u32>,
}

impl Builder {
    pub fn with_capacity(nodes: usize) -> Builder {
        Builder {
            labels: Vec::with_capacity(nodes),
            parents: Vec::with_capacity(nodes),
            depths: Vec::with_capacity(nodes),
            counts: Vec::with_capacity(nodes),
            first: BTreeSet::new(),
            index: HashTable::with_capacity(nodes),
        }
    }

    /// The root with this label, made with counter 0 if it is new.
    pub fn root(&mut self, label: Label) -> NodeId {
        self.node(NO_PARENT, 0, label)
    }

    /// The child of `parent` with this label, made with counter 0 if it is new.
    pub fn child(&mut self, parent: NodeId, label: Label) -> NodeId {
        let depth = self.depths[parent.index()].saturating_add(1);
        self.node(parent.0, depth, label)
    }

    /// Adds to a counter; it stays at its maximum rather than overflow.
    pub fn add(&mut self, node: NodeId, count: u64) {
        let counter = &mut self.counts[node.index()];
        *counter = counter.saturating_add(count);
    }

    /// Marks the tree of `root` as a first tree, see [`Forest::is_first`].
    pub fn mark_first(&mut self, root: NodeId) {
        self.first.insert(root);
    }

    pub fn label(&self, node: NodeId) -> Label {
        self.labels[node.index()]
    }

    /// Joins `forest` into this one, its labels changed by `label`.
    pub fn graft(&mut self, forest: &Forest, label: &mut impl FnMut(Label) -> Label) {
        let mut ids: Vec<NodeId> = Vec::with_capacity(forest.len());
        for node in forest.nodes() {
            let new_label = label(forest.label(node));
            let id = match forest.parent(node) {
                Some(parent) => self.child(ids[parent.index()], new_label),
                None => self.root(new_label),
            };
            self.add(id, forest.count(node));
            if forest.is_first(node) {
                self.mark_first(id);
            }
            ids.push(id);
        }
    }

    fn node(&mut self, parent: u32, depth: u32, label: Label) -> NodeId {
        let Builder {
            labels,
            parents,
            index,
            ..
        } = self;
        let same = |&id: &u32| labels[id as usize] == label && parents[id as usize] == parent;
        let rehash = |&id: &u32| hash(parents[id as usize], labels[id as usize]);
        let entry = index.entry(hash(parent, label), same, rehash);
        let vacant = match entry {
            hashbrown::hash_table::Entry::Occupied(found) => return NodeId(*found.get()),
            hashbrown::hash_table::Entry::Vacant(vacant) => vacant,
        };
        let id = u32::try_from(labels.len())
            .ok()
            .filter(|&id| id != NO_PARENT)
            .expect("2^32 nodes need more memory than an analysis ever gets");
        vacant.insert(id);
        self.labels.push(label);
        self.parents.push(parent);
        self.depths.push(depth);
        self.counts.push(0);
        NodeId(id)
    }

    pub fn finish(self) -> Forest {
        let Builder {
            labels,
            mut parents,
            depths,
            counts,
            first,
            index,
        } = self;
        drop(index);
        let (starts, children) = child_lists(&parents);
        for (id, parent) in (0..).zip(&mut parents) {
            if *parent == NO_PARENT {
                *parent = id;
            }
        }
        let parents = parents.into_iter().map(NodeId).collect();
        Forest {
            labels,
            parents,
            depths,
            counts,
            children,
            starts,
            first,
        }
    }
}

/// Counting sort of all nodes by parent; the roots come first. Stable, so
/// children stay in order of first mention.
fn child_lists(parents: &[u32]) -> (Vec<u32>, Vec<NodeId>) {
    // Slot 0 is for the roots, slot n + 1 for the children of node n.
    let slot = |parent: u32| {
        if parent == NO_PARENT {
            0
        } else {
            parent as usize + 1
        }
    };
    let mut starts = vec![0u32; parents.len() + 2];
    for &parent in parents {
        starts[slot(parent) + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut free = starts.clone();
    let mut children = vec![NodeId(0); parents.len()];
    for (id, &parent) in (0..).zip(parents) {
        let at = &mut free[slot(parent)];
        children[*at as usize] = NodeId(id);
        *at += 1;
    }
    starts.remove(0);
    (starts, children)
}

/// Spreads (parent, label) over all 64 bits (Fibonacci hashing, folded).
fn hash(parent: u32, label: Label) -> u64 {
    let key = (u64::from(parent) << 32) | u64::from(label.0);
    let product = u128::from(key) * 0x9E37_79B9_7F4A_7C15;
    (product as u64) ^ ((product >> 64) as u64)
}
