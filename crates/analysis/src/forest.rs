//! Labelled weighted forests and the operations of IHPP chapter 3 on them.
//!
//! Problem: a run gives one k-slab forest (k-SF) per thread, with tens of
//! millions of nodes; from them come the joined k-SF and the k-calling-context
//! forest (k-CCF). Trees can be as deep as the program's recursion.
//!
//! Approach: nodes are rows of one table, named by [`NodeId`], parents before
//! children; children are one slice per node. All that a walk asks of a node
//! stands in one row, because at this size it is cache misses that take time.
//! Building goes through
//! [`Builder`], whose hash table finds the child of a node by label. No
//! function here recurses.
//!
//! Invariants, kept by [`Builder`]: a parent's id is smaller than its
//! children's; siblings, and roots among themselves, have distinct labels, so
//! a root path is named by its labels; siblings are in order of first mention.
//!
//! Complexity: [`join`] and [`ksf_from_recording`] are linear in the nodes;
//! [`inv_k`] is linear in nodes times (k + 1), and for infinite k in the sum of
//! all depths, which is what its result can need.
//!
//! Which top regions count (section 3.3.3). The k-SF counts an event twice once
//! there is a bottom, so the paper clears "top regions, except for the first
//! tree" before inv_k. A first tree is one whose root begins a slab without a
//! bottom: the root of a thread, or of a signal handler's activations. Such
//! roots are marked ([`Forest::is_first`]) and their top regions kept. That is
//! exact when the label of a first root never heads a slab again, which holds
//! for every special label (`[thread]`, `__root__`, `[signal N]`), because
//! nothing calls them. It fails for the raw algorithm when the first function
//! is entered again at a level that is a multiple of k: then the tree's top
//! counters hold both kinds of events. [`activations`] keeps them apart and is
//! exact always; for special roots the two agree (tests).

mod build;

use std::collections::BTreeSet;

pub use build::Builder;
use hashbrown::HashMap;
use trace::{Cost, Costs, Label, Thread};

use crate::summary::is_call;

/// k of a k-SF or k-CCF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum K {
    /// A k-context has at most this many callers. With 0 the k-SF and the k-CCF are the
    /// same: a root for each label (figures 3.2 and 3.4), and there are no slabs.
    Finite(u32),
    Infinite,
}

impl K {
    /// Whether a node at `depth` lies in the top region of its tree.
    pub fn is_top(self, depth: u32) -> bool {
        match self {
            K::Finite(k) => depth < k,
            K::Infinite => true,
        }
    }

    /// Whether an activation at `level` heads a slab.
    pub fn heads_slab(self, level: u32) -> bool {
        match self {
            K::Finite(k) if k > 0 => level.is_multiple_of(k),
            _ => level == 0,
        }
    }

    /// Longest k-context: the callee and k callers.
    pub fn longest(self) -> usize {
        match self {
            K::Finite(k) => (k as usize).saturating_add(1),
            K::Infinite => usize::MAX,
        }
    }
}

/// From [`trace::Meta::k`].
impl From<Option<u32>> for K {
    fn from(k: Option<u32>) -> K {
        k.map_or(K::Infinite, K::Finite)
    }
}

/// A node of the [`Forest`] that gave it out; meaningless in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    pub(crate) fn at(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("Builder stops below 2^32 nodes"))
    }

    /// Position in tables that run parallel to the forest.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A forest of labelled nodes with a 64-bit counter each. See the module text
/// for the order of nodes and children.
#[derive(Clone, Debug, Default)]
pub struct Forest {
    rows: Vec<Row>,
    /// Children of all nodes, node after node; the roots come first.
    children: Vec<NodeId>,
    first: BTreeSet<NodeId>,
    /// Each as long as `rows`.
    costs: Vec<Costs>,
    /// Inclusive costs of nodes, where the nodes do not give them
    /// (`crate::fold`); each as long as `rows`.
    inclusive: Vec<(Weight, Vec<u64>)>,
}

/// Metric by which nodes are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Their counters.
    #[default]
    Calls,
    Cost(Cost),
}

/// A node of a forest.
#[derive(Clone, Copy, Debug)]
struct Row {
    count: u64,
    label: Label,
    /// [`NO_PARENT`] for a root.
    parent: u32,
    /// 0 for a root.
    depth: u32,
    /// Its children are `children[first_child..]`, up to the next row's.
    first_child: u32,
}

/// In place of a parent; never the id of a node.
const NO_PARENT: u32 = u32::MAX;

impl Forest {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All nodes, parents before children.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.rows.len()).map(NodeId::at)
    }

    pub fn roots(&self) -> &[NodeId] {
        &self.children[..self.children_start(0)]
    }

    pub fn children(&self, node: NodeId) -> &[NodeId] {
        let at = node.index();
        &self.children[self.children_start(at)..self.children_start(at + 1)]
    }

    /// Index of the first child of row `at`, or, after the last row, the end of all children.
    fn children_start(&self, at: usize) -> usize {
        self.rows
            .get(at)
            .map_or(self.children.len(), |row| row.first_child as usize)
    }

    pub fn label(&self, node: NodeId) -> Label {
        self.rows[node.index()].label
    }

    pub fn count(&self, node: NodeId) -> u64 {
        self.rows[node.index()].count
    }

    /// The costs that were recorded.
    pub fn costs(&self) -> impl Iterator<Item = Cost> + '_ {
        self.costs.iter().map(|costs| costs.cost)
    }

    /// A cost of the node itself, without what it called; 0 if it was not recorded.
    pub fn cost(&self, cost: Cost, node: NodeId) -> u64 {
        let found = self.costs.iter().find(|costs| costs.cost == cost);
        found.map_or(0, |costs| costs.values[node.index()])
    }

    pub fn weight(&self, weight: Weight, node: NodeId) -> u64 {
        match weight {
            Weight::Calls => self.count(node),
            Weight::Cost(cost) => self.cost(cost, node),
        }
    }

    /// Inclusive cost of each context, each activation once.
    /// `None`: not known, as some of it hangs in other trees.
    pub fn inclusive(&self, weight: Weight) -> Option<Vec<u64>> {
        if !self.inclusive.is_empty() {
            let found = self.inclusive.iter().find(|(of, _)| *of == weight);
            return found.map(|(_, values)| values.clone());
        }
        self.is_whole().then(|| self.below(weight))
    }

    /// Whether each tree holds all that was called from its contexts.
    pub fn is_whole(&self) -> bool {
        self.roots().iter().all(|&root| self.is_first(root))
    }

    /// A cost of each node with everything below it.
    fn below(&self, weight: Weight) -> Vec<u64> {
        let own = self.nodes().map(|node| match weight {
            Weight::Calls if !is_call(self.label(node)) => 0,
            _ => self.weight(weight, node),
        });
        let mut sums: Vec<u64> = own.collect();
        for node in self.nodes().rev() {
            if let Some(parent) = self.parent(node) {
                sums[parent.index()] = sums[parent.index()].saturating_add(sums[node.index()]);
            }
        }
        sums
    }

    /// 0 for a root.
    pub fn depth(&self, node: NodeId) -> u32 {
        self.rows[node.index()].depth
    }

    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        let parent = self.rows[node.index()].parent;
        (parent != NO_PARENT).then_some(NodeId(parent))
    }

    /// Whether `root` heads a first tree: a slab that began without a bottom.
    pub fn is_first(&self, root: NodeId) -> bool {
        self.first.contains(&root)
    }

    /// The node itself, its parent, and so on to the root.
    pub fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(node), |&node| self.parent(node))
    }

    /// Depth first, each node before its children, children in order.
    pub fn preorder(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.preorder_of(self.roots())
    }

    /// Nodes of the subtrees of `nodes` in preorder, one subtree after the other.
    pub fn preorder_of(&self, nodes: &[NodeId]) -> impl Iterator<Item = NodeId> + use<'_> {
        let mut stack: Vec<NodeId> = nodes.iter().rev().copied().collect();
        std::iter::from_fn(move || {
            let node = stack.pop()?;
            stack.extend(self.children(node).iter().rev());
            Some(node)
        })
    }

    /// A copy of the forest with other counters.
    pub fn with_counts(&self, count: impl Fn(NodeId) -> u64) -> Forest {
        let mut forest = self.clone();
        for (node, row) in self.nodes().zip(&mut forest.rows) {
            row.count = count(node);
        }
        forest
    }

    /// The sum of all counters.
    pub fn total(&self) -> u64 {
        self.rows
            .iter()
            .fold(0, |sum, row| sum.saturating_add(row.count))
    }

    /// Whether two siblings, or two roots, have the same label.
    fn has_twins(&self) -> bool {
        /// Up to so many, pairs are looked at.
        const FEW: usize = 8;
        let label = |&node: &NodeId| self.label(node);
        let twins = |siblings: &[NodeId]| {
            if siblings.len() <= FEW {
                let before = |at| siblings[..at].iter().map(label);
                return (1..siblings.len()).any(|at| before(at).any(|l| l == label(&siblings[at])));
            }
            let mut labels: Vec<Label> = siblings.iter().map(label).collect();
            labels.sort_unstable();
            labels.windows(2).any(|pair| pair[0] == pair[1])
        };
        twins(self.roots()) || self.nodes().any(|node| twins(self.children(node)))
    }

    /// A copy of the forest with other labels; nodes whose paths become equal are
    /// joined. Forests of different processes use it to agree on labels.
    pub fn relabel(&self, mut label: impl FnMut(Label) -> Label) -> Forest {
        let mut builder = Builder::with_capacity(self.len());
        builder.graft(self, &mut label);
        builder.finish()
    }
}

/// The k-SF of a thread with the counters of the paper's algorithm (listing
/// 3.2), from nodes whose events were counted once, on the state node.
pub fn ksf_from_recording(thread: &Thread) -> Forest {
    shaped(thread, |builder, ids| {
        count_states(builder, ids, thread);
        count_tops(builder, ids, thread);
    })
}

/// The k-SF of a thread with every event counted exactly once, at the end of a
/// path that holds its whole k-context: what clearing (3.3.3) is to achieve.
/// `inv_k` of it is the k-CCF, also where the paper's clearing is not exact.
pub fn activations(thread: &Thread) -> Forest {
    shaped(thread, |builder, ids| count_states(builder, ids, thread))
}

/// Counts events at their states. Costs are at the state that they were counted in, and
/// nowhere else.
pub(crate) fn count_states(builder: &mut Builder, ids: &[Option<NodeId>], thread: &Thread) {
    for (node, id) in thread.nodes.iter().zip(ids) {
        if let Some(id) = *id {
            builder.add(id, node.count);
        }
    }
    for costs in &thread.costs {
        for (&value, id) in costs.values.iter().zip(ids) {
            if let Some(id) = *id {
                builder.add_cost(id, costs.cost, value);
            }
        }
    }
}

/// Counts events at the top nodes of their states.
pub(crate) fn count_tops(builder: &mut Builder, ids: &[Option<NodeId>], thread: &Thread) {
    for (node, id) in thread.nodes.iter().zip(ids) {
        let top = node.top.filter(|_| id.is_some());
        if let Some(top) = top.and_then(|top| *ids.get(top as usize)?) {
            builder.add(top, node.count);
        }
    }
}

/// The forest of a recording, counted by `count`. Recorded siblings are
/// distinct, so nobody has to be looked up to make it; where they are not (the
/// file says something else), it is made again with looking.
pub(crate) fn shaped(thread: &Thread, count: impl Fn(&mut Builder, &[Option<NodeId>])) -> Forest {
    let make = |distinct| {
        let (mut builder, ids) = shape(thread, distinct);
        count(&mut builder, &ids);
        builder.finish()
    };
    let forest = make(true);
    if forest.has_twins() {
        return make(false);
    }
    forest
}

/// The nodes of a recording without counts, first trees marked, and the forest
/// node of each recorded one. `None`: the state of no context, in which nothing is
/// counted whatever its counter says. `distinct`: no two siblings are the same.
fn shape(thread: &Thread, distinct: bool) -> (Builder, Vec<Option<NodeId>>) {
    if distinct {
        let builder = Builder::without_index(thread.nodes.len());
        return shape_by(thread, builder, Builder::push);
    }
    recorded_into(Builder::with_capacity(thread.nodes.len()), thread, |l| l)
}

/// Forest of a thread below the roots that `builder` has, each node with its label
/// changed by `relabel`.
pub(crate) fn recorded_into(
    builder: Builder,
    thread: &Thread,
    relabel: impl Fn(Label) -> Label,
) -> (Builder, Vec<Option<NodeId>>) {
    shape_by(thread, builder, |builder, parent, label| match parent {
        Some(parent) => builder.child(parent, relabel(label)),
        None => builder.root(relabel(label)),
    })
}

fn shape_by(
    thread: &Thread,
    mut builder: Builder,
    make: impl Fn(&mut Builder, Option<NodeId>, Label) -> NodeId,
) -> (Builder, Vec<Option<NodeId>>) {
    let mut ids: Vec<Option<NodeId>> = Vec::with_capacity(thread.nodes.len());
    for node in &thread.nodes {
        let id = match node.parent {
            _ if node.label == Label::MUTED => None,
            Some(parent) => {
                let parent = ids.get(parent as usize).copied().flatten();
                parent.map(|parent| make(&mut builder, Some(parent), node.label))
            }
            None => {
                let root = make(&mut builder, None, node.label);
                // A root is counted as a state only where there is no bottom.
                if !node.label.is_function() || node.count > 0 {
                    builder.mark_first(root);
                }
                Some(root)
            }
        };
        ids.push(id);
    }
    (builder, ids)
}

/// The weighted join (definition 4*): the smallest forest with every root path
/// of any of `forests`; a counter is the sum of those at the same path.
pub fn join<'a>(forests: impl IntoIterator<Item = &'a Forest>) -> Forest {
    let forests: Vec<&Forest> = forests.into_iter().collect();
    if let [forest] = forests[..] {
        return forest.clone();
    }
    let largest = forests.iter().map(|forest| forest.len()).max().unwrap_or(0);
    let mut builder = Builder::with_capacity(largest);
    for forest in forests {
        builder.graft(forest, &mut |label| label);
    }
    builder.finish()
}

/// The k-inverse forest (definition 6): the join of the reversed k-contexts of
/// all nodes, each weighted with its node's counter. Trees and children come
/// in the order in which a walk of `forest` meets them, as in listing 4.5.
pub fn inv_k(forest: &Forest, k: K) -> Forest {
    invert(forest, k, |_| true)
}

/// Sets the counters of all top regions to zero, first trees excepted (3.3.3).
pub fn clear_top_regions(mut ksf: Forest, k: K) -> Forest {
    let repeats = repeats(&ksf, k);
    for (row, _) in ksf
        .rows
        .iter_mut()
        .zip(repeats)
        .filter(|(_, repeats)| *repeats)
    {
        row.count = 0;
    }
    ksf
}

/// The k-CCF of a k-SF that was built with the same `k`.
///
/// Paths that were never activated on their own are left out: after clearing,
/// nodes with a zero counter only repeat suffixes of others.
pub fn kccf(ksf: &Forest, k: K) -> Forest {
    let repeats = repeats(ksf, k);
    let acted = |node| {
        let costs = || ksf.costs().any(|cost| ksf.cost(cost, node) > 0);
        ksf.count(node) > 0 || costs()
    };
    invert(ksf, k, |node| acted(node) && !repeats[node.index()])
}

/// The k-CCF of [`activations`]: exact whatever heads a slab.
pub fn kccf_of_activations(activations: &Forest, k: K) -> Forest {
    invert(activations, k, |node| activations.count(node) > 0)
}

/// For each node whether its events are counted by bottom nodes too: it lies
/// in the top region of a tree that is no first tree.
fn repeats(ksf: &Forest, k: K) -> Vec<bool> {
    // Parents come first, so a node's tree is known once its parent's is.
    let mut in_first: Vec<bool> = Vec::with_capacity(ksf.len());
    for node in ksf.nodes() {
        in_first.push(match ksf.parent(node) {
            Some(parent) => in_first[parent.index()],
            None => ksf.is_first(node),
        });
    }
    ksf.nodes()
        .map(|node| !in_first[node.index()] && k.is_top(ksf.depth(node)))
        .collect()
}

/// The trees of the result are made one after the other, so that the look-ups
/// of one stay in a small table; in one table of 20 million nodes every one of
/// them would miss the caches.
fn invert(forest: &Forest, k: K, keep: impl Fn(NodeId) -> bool) -> Forest {
    let mut builder = Builder::default();
    for nodes in by_label(forest, keep) {
        builder.begin_tree(nodes.len());
        for node in nodes {
            let mut at = builder.root(forest.label(node));
            builder.add_all(at, forest, node);
            for caller in forest.ancestors(node).take(k.longest()).skip(1) {
                at = builder.child(at, forest.label(caller));
                builder.add_all(at, forest, node);
            }
        }
    }
    builder.finish()
}

/// The kept nodes in preorder, label by label, labels as they are met.
fn by_label(forest: &Forest, keep: impl Fn(NodeId) -> bool) -> Vec<Vec<NodeId>> {
    let mut groups: Vec<Vec<NodeId>> = Vec::new();
    let mut group_of: HashMap<Label, usize> = HashMap::new();
    for node in forest.preorder().filter(|&node| keep(node)) {
        let group = *group_of.entry(forest.label(node)).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(node);
    }
    groups
}

#[cfg(test)]
mod tests {
    use trace::Node;

    use super::*;

    #[test]
    fn what_is_muted_is_not_counted() {
        let node = |label, parent, count| Node {
            label,
            parent,
            count,
            ..Node::default()
        };
        let thread = Thread {
            nodes: vec![
                node(Label::THREAD, None, 1),
                node(Label::MUTED, None, 14),
                node(Label(256), Some(0), 3),
                node(Label(256), Some(1), 5),
            ],
            ..Thread::default()
        };
        for forest in [activations(&thread), ksf_from_recording(&thread)] {
            assert_eq!((forest.len(), forest.total()), (2, 4));
        }
    }

    #[test]
    fn recorded_twins_become_one() {
        let node = |label, parent, count| Node {
            label: Label(label),
            parent,
            count,
            ..Node::default()
        };
        for many in [1, 20] {
            let mut nodes = vec![node(1, None, 1)];
            nodes.extend((0..many).map(|other| node(300 + other, Some(0), 1)));
            nodes.extend([node(300, Some(0), 5), node(1, None, 2)]);
            let thread = Thread {
                nodes,
                ..Thread::default()
            };
            let forest = activations(&thread);
            assert_eq!(forest.len(), 1 + many as usize);
            assert_eq!(forest.total(), 8 + u64::from(many));
            assert_eq!(forest.children(forest.roots()[0]).len(), many as usize);
        }
    }

    #[test]
    fn no_forests_join_to_none() {
        let nothing = join([]);
        assert!(nothing.is_empty() && nothing.roots().is_empty());
        assert!(inv_k(&nothing, K::Infinite).is_empty());
    }
}
