//! Building a [`Forest`] path by path.

use std::collections::BTreeSet;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use trace::{Cost, Costs, Label};

use super::{Forest, NO_PARENT, NodeId, Row, Weight};

/// A forest under construction: nodes are found or made by parent and label.
#[derive(Debug, Default)]
pub struct Builder {
    /// `first_child` is filled in at the end.
    rows: Vec<Row>,
    first: BTreeSet<NodeId>,
    costs: Vec<Costs>,
    inclusive: Vec<(Weight, Vec<u64>)>,
    /// Ids by (parent, label).
    index: HashTable<u32>,
}

impl Builder {
    pub fn with_capacity(nodes: usize) -> Builder {
        Builder {
            rows: Vec::with_capacity(nodes),
            index: HashTable::with_capacity(nodes),
            ..Builder::default()
        }
    }

    /// For [`Builder::push`] only.
    pub(super) fn without_index(nodes: usize) -> Builder {
        Builder {
            rows: Vec::with_capacity(nodes),
            ..Builder::default()
        }
    }

    /// A new node, though there may be one with this parent and label.
    pub(super) fn push(&mut self, parent: Option<NodeId>, label: Label) -> NodeId {
        let (parent, depth) = match parent {
            Some(parent) => (parent.0, self.rows[parent.index()].depth.saturating_add(1)),
            None => (NO_PARENT, 0),
        };
        self.add_row(parent, depth, label)
    }

    /// The root with this label, made with counter 0 if it is new.
    pub fn root(&mut self, label: Label) -> NodeId {
        self.node(NO_PARENT, 0, label)
    }

    /// The child of `parent` with this label, made with counter 0 if it is new.
    pub fn child(&mut self, parent: NodeId, label: Label) -> NodeId {
        let depth = self.rows[parent.index()].depth.saturating_add(1);
        self.node(parent.0, depth, label)
    }

    /// Adds to a counter; it stays at its maximum rather than overflow.
    pub fn add(&mut self, node: NodeId, count: u64) {
        let row = &mut self.rows[node.index()];
        row.count = row.count.saturating_add(count);
    }

    /// Adds to a cost; it stays at its maximum rather than overflow.
    pub fn add_cost(&mut self, node: NodeId, cost: Cost, value: u64) {
        let at = self.costs.iter().position(|costs| costs.cost == cost);
        let at = at.unwrap_or_else(|| {
            let values = Vec::with_capacity(self.rows.capacity());
            self.costs.push(Costs { cost, values });
            self.costs.len() - 1
        });
        let values = &mut self.costs[at].values;
        if values.len() <= node.index() {
            values.resize(self.rows.len(), 0);
        }
        values[node.index()] = values[node.index()].saturating_add(value);
    }

    /// Adds to what the first nodes cost with all that they called, one value for each.
    pub fn add_inclusive(&mut self, weight: Weight, values: &[u64]) {
        let sums = self.inclusive_of(weight);
        if sums.len() < values.len() {
            sums.resize(values.len(), 0);
        }
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
    }

    fn inclusive_of(&mut self, weight: Weight) -> &mut Vec<u64> {
        let at = self.inclusive.iter().position(|(of, _)| *of == weight);
        let at = at.unwrap_or_else(|| {
            self.inclusive.push((weight, Vec::new()));
            self.inclusive.len() - 1
        });
        &mut self.inclusive[at].1
    }

    /// Adds what `forest` counted at `from`.
    pub(super) fn add_all(&mut self, node: NodeId, forest: &Forest, from: NodeId) {
        self.add(node, forest.count(from));
        for cost in forest.costs() {
            self.add_cost(node, cost, forest.cost(cost, from));
        }
    }

    /// Marks the tree of `root` as a first tree, see [`Forest::is_first`].
    pub fn mark_first(&mut self, root: NodeId) {
        self.first.insert(root);
    }

    pub fn label(&self, node: NodeId) -> Label {
        self.rows[node.index()].label
    }

    /// Joins `forest` into this one, its labels changed by `label`.
    pub fn graft(&mut self, forest: &Forest, label: &mut impl FnMut(Label) -> Label) {
        let mut ids: Vec<NodeId> = Vec::with_capacity(forest.len());
        for node in forest.nodes() {
            let new_label = label(forest.label(node));
            let id = match forest.parent(node) {
                Some(parent) => self.child(ids[parent.index()], new_label),
                None => {
                    let root = self.root(new_label);
                    if forest.is_first(node) {
                        self.mark_first(root);
                    }
                    root
                }
            };
            self.add_all(id, forest, node);
            for (weight, values) in &forest.inclusive {
                let (len, sums) = (id.index() + 1, self.inclusive_of(*weight));
                if sums.len() < len {
                    sums.resize(len, 0);
                }
                sums[id.index()] = sums[id.index()].saturating_add(values[node.index()]);
            }
            ids.push(id);
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The child of `parent`, or the root, with this label, if it was made.
    pub fn find(&self, parent: Option<NodeId>, label: Label) -> Option<NodeId> {
        let rows = &self.rows;
        let wanted = (parent.map_or(NO_PARENT, |parent| parent.0), label);
        let key = |&id: &u32| (rows[id as usize].parent, rows[id as usize].label);
        let found = self.index.find(hash(wanted), |id| key(id) == wanted);
        found.map(|&id| NodeId(id))
    }

    /// Forgets the index, so that the next look-ups are in a small one. The
    /// caller makes a tree whose root is new, and mentions none made before.
    pub(super) fn begin_tree(&mut self, nodes: usize) {
        self.index = HashTable::with_capacity(nodes);
    }

    fn node(&mut self, parent: u32, depth: u32, label: Label) -> NodeId {
        let Builder { rows, index, .. } = &mut *self;
        let key = |&id: &u32| (rows[id as usize].parent, rows[id as usize].label);
        let wanted = (parent, label);
        let entry = index.entry(hash(wanted), |id| key(id) == wanted, |id| hash(key(id)));
        let vacant = match entry {
            Entry::Occupied(found) => return NodeId(*found.get()),
            Entry::Vacant(vacant) => vacant,
        };
        vacant.insert(rows.len() as u32);
        self.add_row(parent, depth, label)
    }

    fn add_row(&mut self, parent: u32, depth: u32, label: Label) -> NodeId {
        let id = u32::try_from(self.rows.len())
            .ok()
            .filter(|&id| id != NO_PARENT)
            .expect("2^32 nodes need more memory than an analysis ever gets");
        self.rows.push(Row {
            count: 0,
            label,
            parent,
            depth,
            first_child: 0,
        });
        NodeId(id)
    }

    pub fn finish(self) -> Forest {
        let Builder {
            mut rows,
            first,
            mut costs,
            mut inclusive,
            index,
        } = self;
        drop(index);
        let costs_of = costs.iter_mut().map(|costs| &mut costs.values);
        for values in costs_of.chain(inclusive.iter_mut().map(|(_, values)| values)) {
            values.resize(rows.len(), 0);
        }
        let children = sort_children(&mut rows);
        Forest {
            rows,
            children,
            first,
            costs,
            inclusive,
        }
    }
}

/// Counting sort of all nodes by parent; the roots come first. Stable, so
/// children stay in order of first mention. Fills in `first_child`.
fn sort_children(rows: &mut [Row]) -> Vec<NodeId> {
    let mut roots = 0;
    // First the number of children, then where they begin.
    for at in 0..rows.len() {
        match rows[at].parent {
            NO_PARENT => roots += 1,
            parent => rows[parent as usize].first_child += 1,
        }
    }
    let mut start = roots;
    for row in &mut *rows {
        let count = row.first_child;
        row.first_child = start;
        start += count;
    }
    let mut next_root = 0;
    let mut free: Vec<u32> = rows.iter().map(|row| row.first_child).collect();
    let mut children = vec![NodeId(0); rows.len()];
    for (id, row) in (0..).zip(&*rows) {
        let at = match row.parent {
            NO_PARENT => &mut next_root,
            parent => &mut free[parent as usize],
        };
        children[*at as usize] = NodeId(id);
        *at += 1;
    }
    children
}

/// Spreads (parent, label) over all 64 bits (Fibonacci hashing, folded).
fn hash((parent, label): (u32, Label)) -> u64 {
    let key = (u64::from(parent) << 32) | u64::from(label.0);
    let product = u128::from(key) * 0x9E37_79B9_7F4A_7C15;
    (product as u64) ^ ((product >> 64) as u64)
}
