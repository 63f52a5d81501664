//! Hot contexts: as a list and as a tree that
//! holds nothing else, and totals per function with callers and callees.
//!
//! Complexity: linear in the forest, plus sorting what is kept.

use std::cmp::Reverse;

use hashbrown::HashMap;
use trace::Label;

use crate::forest::{Forest, NodeId, Weight};

/// Which contexts to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most so many; `None`: all.
    pub top: Option<usize>,
    /// Only those with at least this weight. Uncounted ones are never kept.
    pub min: u64,
    /// Only those at most so deep (roots are at 0); `None`: any depth.
    pub depth: Option<u32>,
    /// Metric by which contexts are hot.
    pub by: Weight,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            top: None,
            min: 1,
            depth: None,
            by: Weight::Calls,
        }
    }
}

/// The nodes within the limits, hottest first; equal ones in forest order.
pub fn hottest(forest: &Forest, limits: Limits) -> Vec<NodeId> {
    let min = limits.min.max(1);
    let depth = limits.depth.unwrap_or(u32::MAX);
    let heat = |node| forest.weight(limits.by, node);
    let rank = |&node: &NodeId| (Reverse(heat(node)), node);
    let mut nodes: Vec<NodeId> = forest
        .nodes()
        .filter(|&node| heat(node) >= min && forest.depth(node) <= depth)
        .collect();
    if let Some(top) = limits.top.filter(|&top| top < nodes.len()) {
        nodes.select_nth_unstable_by_key(top, rank);
        nodes.truncate(top);
    }
    nodes.sort_unstable_by_key(rank);
    nodes
}

/// A line of a [`tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub node: NodeId,
    /// Whether the node is within the limits itself, rather than on the way
    /// to one that is.
    pub hot: bool,
    /// Children with counters at or below them that the limits leave out.
    pub hidden_children: usize,
}

/// The nodes that [`hottest`] keeps with all their callers, depth first;
/// among siblings the one with the hottest context at or below it comes first.
pub fn tree(forest: &Forest, limits: Limits) -> Vec<Row> {
    let mut hot = vec![false; forest.len()];
    // Weight of the hottest kept node at or below; 0: nothing is kept there.
    let mut heat = vec![0u64; forest.len()];
    for node in hottest(forest, limits) {
        hot[node.index()] = true;
        heat[node.index()] = forest.weight(limits.by, node);
    }
    let is_counted = |node| forest.weight(limits.by, node) > 0;
    let mut counted: Vec<bool> = forest.nodes().map(is_counted).collect();
    for node in forest.nodes().rev() {
        if let Some(parent) = forest.parent(node) {
            heat[parent.index()] = heat[parent.index()].max(heat[node.index()]);
            counted[parent.index()] |= counted[node.index()];
        }
    }
    let kept_of = |nodes: &[NodeId]| {
        let mut kept: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|node| heat[node.index()] > 0)
            .collect();
        // Coldest first: the stack below turns it round.
        kept.sort_by_key(|node| (heat[node.index()], Reverse(*node)));
        kept
    };
    let mut rows = Vec::new();
    let mut stack = kept_of(forest.roots());
    while let Some(node) = stack.pop() {
        let children = forest.children(node);
        let kept = kept_of(children);
        let alive = children
            .iter()
            .filter(|child| counted[child.index()])
            .count();
        let hidden_children = alive - kept.len();
        rows.push(Row {
            node,
            hot: hot[node.index()],
            hidden_children,
        });
        stack.extend(kept);
    }
    rows
}

/// How often a function was entered, from where, and what it entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTotal {
    pub label: Label,
    pub calls: u64,
    /// Nodes with a counter of their own.
    pub contexts: u64,
    /// Most frequent first. Entries that began a thread or a handler have
    /// their root here; rolled recursion has no edge of its own.
    pub callers: Vec<(Label, u64)>,
    pub callees: Vec<(Label, u64)>,
}

/// Totals of every label that was counted or called something, most calls
/// first. `activations` must count each event once, at a node that has its
/// caller as parent: `forest::activations`, a join of such, or an infinite k-SF.
pub fn functions(activations: &Forest) -> Vec<FunctionTotal> {
    let mut totals: HashMap<Label, FunctionTotal> = HashMap::new();
    let mut edges: HashMap<(Label, Label), u64> = HashMap::new();
    for node in activations.nodes() {
        let (label, count) = (activations.label(node), activations.count(node));
        if count == 0 {
            continue;
        }
        let total = totals.entry(label).or_insert_with(|| empty(label));
        total.calls = total.calls.saturating_add(count);
        total.contexts += 1;
        if let Some(parent) = activations.parent(node) {
            let edge = edges.entry((activations.label(parent), label)).or_insert(0);
            *edge = edge.saturating_add(count);
        }
    }
    for ((caller, callee), count) in edges {
        totals
            .entry(caller)
            .or_insert_with(|| empty(caller))
            .callees
            .push((callee, count));
        totals
            .entry(callee)
            .or_insert_with(|| empty(callee))
            .callers
            .push((caller, count));
    }
    let mut totals: Vec<FunctionTotal> = totals.into_values().collect();
    for total in &mut totals {
        total
            .callers
            .sort_unstable_by_key(|&(label, count)| (Reverse(count), label));
        total
            .callees
            .sort_unstable_by_key(|&(label, count)| (Reverse(count), label));
    }
    totals.sort_unstable_by_key(|total| (Reverse(total.calls), total.label));
    totals
}

fn empty(label: Label) -> FunctionTotal {
    FunctionTotal {
        label,
        calls: 0,
        contexts: 0,
        callers: Vec::new(),
        callees: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::Builder;

    const MAIN: Label = Label(300);
    const A: Label = Label(301);
    const B: Label = Label(302);
    const C: Label = Label(303);

    /// main 1 -> a 5 -> b 20; main -> b 7 -> c 0; main -> c 9.
    fn sample() -> (Forest, [NodeId; 6]) {
        let mut builder = Builder::default();
        let main = builder.root(MAIN);
        let a = builder.child(main, A);
        let ab = builder.child(a, B);
        let b = builder.child(main, B);
        let bc = builder.child(b, C);
        let c = builder.child(main, C);
        for (node, count) in [(main, 1), (a, 5), (ab, 20), (b, 7), (c, 9)] {
            builder.add(node, count);
        }
        (builder.finish(), [main, a, ab, b, bc, c])
    }

    #[test]
    fn hottest_obeys_every_limit() {
        let (forest, [main, a, ab, b, _, c]) = sample();
        assert_eq!(hottest(&forest, Limits::default()), [ab, c, b, a, main]);
        assert_eq!(
            hottest(
                &forest,
                Limits {
                    top: Some(2),
                    ..Limits::default()
                }
            ),
            [ab, c]
        );
        assert_eq!(
            hottest(
                &forest,
                Limits {
                    top: Some(0),
                    ..Limits::default()
                }
            ),
            []
        );
        assert_eq!(
            hottest(
                &forest,
                Limits {
                    min: 7,
                    ..Limits::default()
                }
            ),
            [ab, c, b]
        );
        assert_eq!(
            hottest(
                &forest,
                Limits {
                    depth: Some(1),
                    ..Limits::default()
                }
            ),
            [c, b, a, main]
        );
    }

    #[test]
    fn the_tree_holds_the_way_to_every_hot_context() {
        let (forest, [main, a, ab, _, _, c]) = sample();
        let rows = tree(
            &forest,
            Limits {
                top: Some(2),
                ..Limits::default()
            },
        );
        let row = |node, hot, hidden_children| Row {
            node,
            hot,
            hidden_children,
        };
        assert_eq!(
            rows,
            [
                row(main, false, 1),
                row(a, false, 0),
                row(ab, true, 0),
                row(c, true, 0)
            ]
        );
    }

    #[test]
    fn uncounted_children_are_not_called_hidden() {
        let (forest, [_, _, _, b, ..]) = sample();
        let rows = tree(&forest, Limits::default());
        let row = rows.iter().find(|row| row.node == b).unwrap();
        assert_eq!(row.hidden_children, 0);
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn function_totals_add_up_over_contexts() {
        let (forest, _) = sample();
        let totals = functions(&forest);
        let b = &totals[0];
        assert_eq!((b.label, b.calls, b.contexts), (B, 27, 2));
        assert_eq!(b.callers, [(A, 20), (MAIN, 7)]);
        let main = totals.iter().find(|total| total.label == MAIN).unwrap();
        assert_eq!(main.callees, [(C, 9), (B, 7), (A, 5)]);
        assert!(main.callers.is_empty());
    }

    #[test]
    fn deep_forests_do_not_overflow_the_stack() {
        let mut builder = Builder::default();
        let mut node = builder.root(MAIN);
        for _ in 0..300_000 {
            node = builder.child(node, A);
        }
        builder.add(node, 1);
        let forest = builder.finish();
        assert_eq!(tree(&forest, Limits::default()).len(), 300_001);
        assert_eq!(forest.preorder().count(), 300_001);
    }
}
