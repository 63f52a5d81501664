//! Call graph: callers and callees, with the costs below each call. Contexts are summed up to
//! functions, as the forms of call graph viewers want it.
//!
//! Problem: below a call of `g` lies all that `g` called. In recursion a call of
//! `g` lies below another one, and adding up both counts the inner twice: sums
//! beyond 100 %.
//!
//! Approach: what is below a call of `g` is added to the edge into `g` only if no
//! `g` is active yet: at the outermost one. Then, exactly:
//!
//! - all `own` together are the total of the forest;
//! - the edges into `g` together are `g`'s inclusive value: what was counted
//!   with `g` anywhere on its path, `g` itself included;
//! - if the functions are joined into their cycles (the strongly connected
//!   components), a cycle is entered and left once per path, so the edges into
//!   and out of it are exact as well.
//!
//! For the second to hold everywhere, what began without a call gets a caller
//! too, which is never called itself: the label of its root (`[thread]`,
//! `[signal N]`), or [`Caller::Unknown`] where the callers were not kept.
//!
//! Complexity: linear in the nodes, with a look-up or two for each.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use trace::Label;

use crate::forest::{Forest, NodeId, Weight};

/// Value of a node. The starts of threads and handlers are no calls.
pub fn value(forest: &Forest, weight: Weight, node: NodeId) -> u64 {
    match weight {
        Weight::Calls if !forest.label(node).is_function() => 0,
        _ => forest.weight(weight, node),
    }
}

/// Caller of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A caller that was not kept: further out than k.
    Unknown,
    /// A function, or the root of what nothing called.
    Known(Label),
}

/// All calls of one function by another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// How often. 0 from [`Caller::Unknown`]: these calls are counted where
    /// their callers are known.
    pub count: u64,
    /// Costs of the callee and of all below it, value by value; nothing
    /// while the callee was active already.
    pub inclusive: Vec<u64>,
}

/// Functions and their calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallGraph {
    /// Exclusive costs of each function, value by value. Every label
    /// on a path is there.
    pub own: BTreeMap<Label, Vec<u64>>,
    pub calls: BTreeMap<(Caller, Label), Call>,
}

/// The call graph of a forest in which everything is counted once, on its
/// context ([`crate::activations`]). `same` gives the label that stands for a
/// label and all that are to be one function with it.
pub fn of(forest: &Forest, values: &[Weight], same: impl Fn(Label) -> Label) -> CallGraph {
    let below: Vec<Vec<u64>> = values.iter().map(|&weight| sums(forest, weight)).collect();
    let mut graph = CallGraph::default();
    let mut path: Vec<Label> = Vec::new();
    let mut active: HashMap<Label, u32> = HashMap::new();
    for node in forest.preorder() {
        for ended in path.drain(forest.depth(node) as usize..) {
            if let Some(active) = active.get_mut(&ended) {
                *active -= 1;
            }
        }
        let label = same(forest.label(node));
        let own = graph.own.entry(label);
        let own = own.or_insert_with(|| vec![0; values.len()]);
        add(
            own,
            values.iter().map(|&weight| value(forest, weight, node)),
        );
        let active = active.entry(label).or_insert(0);
        if let Some(caller) = caller(forest, node, &path) {
            let call = graph.calls.entry((caller, label)).or_default();
            call.count = call
                .count
                .saturating_add(value(forest, Weight::Calls, node));
            call.inclusive.resize(values.len(), 0);
            if *active == 0 {
                add(
                    &mut call.inclusive,
                    below.iter().map(|sums| sums[node.index()]),
                );
            }
        }
        *active += 1;
        path.push(label);
    }
    graph
}

/// Caller of the activations of a node below `path`; `None` for a root
/// that nothing called.
pub(crate) fn caller(forest: &Forest, node: NodeId, path: &[Label]) -> Option<Caller> {
    match path.last() {
        Some(&caller) => Some(Caller::Known(caller)),
        None if !forest.label(node).is_function() => None,
        None if forest.is_first(node) => Some(Caller::Known(Label::THREAD)),
        None => Some(Caller::Unknown),
    }
}

/// For each node what is counted at it and below it.
fn sums(forest: &Forest, weight: Weight) -> Vec<u64> {
    let mut sums: Vec<u64> = forest
        .nodes()
        .map(|node| value(forest, weight, node))
        .collect();
    // Parents come before children, so backwards each is complete when it is added.
    for node in forest.nodes().rev() {
        if let Some(parent) = forest.parent(node) {
            let sum = sums[parent.index()].saturating_add(sums[node.index()]);
            sums[parent.index()] = sum;
        }
    }
    sums
}

fn add(to: &mut [u64], values: impl Iterator<Item = u64>) {
    for (to, value) in to.iter_mut().zip(values) {
        *to = to.saturating_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::Builder;

    const F: Label = Label(300);
    const G: Label = Label(301);
    const H: Label = Label(302);

    /// [thread] -> f 1 -> g 2 -> f 4 -> h 8, and f 16 -> g 32 of unknown callers.
    fn sample() -> Forest {
        let mut builder = Builder::default();
        let thread = builder.root(Label::THREAD);
        builder.mark_first(thread);
        builder.add(thread, 1);
        let mut at = thread;
        for (label, count) in [(F, 1), (G, 2), (F, 4), (H, 8)] {
            at = builder.child(at, label);
            builder.add(at, count);
        }
        let f = builder.root(F);
        let g = builder.child(f, G);
        builder.add(g, 32);
        builder.finish()
    }

    fn call(count: u64, inclusive: u64) -> Call {
        Call {
            count,
            inclusive: vec![inclusive],
        }
    }

    #[test]
    fn recursion_is_counted_at_its_outermost_call() {
        let graph = of(&sample(), &[Weight::Calls], |label| label);
        let own = [(Label::THREAD, 0), (F, 5), (G, 34), (H, 8)];
        assert_eq!(graph.own, own.map(|(l, n)| (l, vec![n])).into());
        let known = Caller::Known;
        let expected = [
            ((known(Label::THREAD), F), call(1, 15)),
            ((Caller::Unknown, F), call(0, 32)),
            ((known(F), G), call(34, 14 + 32)),
            ((known(G), F), call(4, 0)),
            ((known(F), H), call(8, 8)),
        ];
        assert_eq!(graph.calls, expected.into());
    }

    #[test]
    fn labels_of_one_function_are_one() {
        let graph = of(&sample(), &[Weight::Calls], |label| match label {
            G => F,
            label => label,
        });
        assert_eq!(graph.own[&F], [39]);
        let inside = &graph.calls[&(Caller::Known(F), F)];
        assert_eq!(*inside, call(38, 0));
        assert_eq!(graph.calls[&(Caller::Known(Label::THREAD), F)], call(1, 15));
    }

    #[test]
    fn a_root_that_is_a_function_was_called_by_its_thread() {
        let mut builder = Builder::default();
        let root = builder.root(F);
        builder.mark_first(root);
        builder.add(root, 3);
        let graph = of(&builder.finish(), &[Weight::Calls], |label| label);
        assert_eq!(graph.calls[&(Caller::Known(Label::THREAD), F)], call(3, 3));
    }
}
