//! The paths on which most was counted, as a tree of few lines.
//!
//! Problem: a forest has thousands of contexts, many of them in chains of functions that only
//! call the next one. Approach: a node is kept if enough was counted at and below it. A node
//! whose only kept child has all its cost, but for less than that, shares the child's line.
//! The costliest lines come first, as many as are wanted, each below its caller's.
//!
//! Invariant: a line is not shown without the line of its callers, whose cost is at least the
//! line's own.
//!
//! Complexity: linear in the nodes, plus sorting what is kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trace::Label;

use crate::forest::{Forest, NodeId};

/// Limits of the lines.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At most so many lines; `None`: all.
    pub lines: Option<usize>,
    /// Least inclusive cost of a node.
    pub min: u64,
    /// Greatest depth of a node in the forest; `None`: any.
    pub depth: Option<u32>,
}

/// A line: functions that call one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Lines above it.
    pub level: usize,
    /// Callers first. The line's costs are those of the last node.
    pub chain: Vec<NodeId>,
    /// Whether lines below it were left out.
    pub is_cut: bool,
}

/// The lines in preorder, siblings by cost. `inclusive` has the cost of each node with all
/// below it. Nodes whose labels `is_startup` begin no line: their children take their place,
/// as long as they have no caller but such ones.
pub fn of(
    forest: &Forest,
    inclusive: &[u64],
    limits: Limits,
    is_startup: impl Fn(Label) -> bool,
) -> Vec<Line> {
    let paths = Paths {
        forest,
        inclusive,
        limits,
    };
    let mut lines: Vec<Built> = Vec::new();
    let mut waiting: BinaryHeap<Candidate> = BinaryHeap::new();
    paths.wait(&mut waiting, paths.starts(is_startup), None);
    while let Some(next) = waiting.pop() {
        if limits.lines.is_some_and(|most| lines.len() >= most) {
            waiting.push(next);
            break;
        }
        let (chain, children) = paths.chain(next.node());
        let number = lines.len();
        paths.wait(&mut waiting, children, Some(number));
        if let Some(parent) = next.parent {
            lines[parent].children.push(number);
        }
        lines.push(Built {
            chain,
            parent: next.parent,
            children: Vec::new(),
            is_cut: false,
        });
    }
    for left in waiting {
        if let Some(parent) = left.parent {
            lines[parent].is_cut = true;
        }
    }
    in_preorder(lines)
}

/// A node that may begin a line; ordered by cost, then as in the forest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    cost: u64,
    node: Reverse<NodeId>,
    parent: Option<usize>,
}

impl Candidate {
    fn node(&self) -> NodeId {
        self.node.0
    }
}

/// A line whose children are numbers of lines, costliest first.
struct Built {
    chain: Vec<NodeId>,
    parent: Option<usize>,
    children: Vec<usize>,
    is_cut: bool,
}

struct Paths<'a> {
    forest: &'a Forest,
    inclusive: &'a [u64],
    limits: Limits,
}

impl Paths<'_> {
    fn is_kept(&self, node: NodeId) -> bool {
        let is_shallow = |most| self.forest.depth(node) <= most;
        self.inclusive[node.index()] >= self.limits.min.max(1)
            && self.limits.depth.is_none_or(is_shallow)
    }

    fn kept(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let kept = nodes.iter().copied().filter(|&node| self.is_kept(node));
        kept.collect()
    }

    /// The first nodes below those that start threads and programs.
    fn starts(&self, is_startup: impl Fn(Label) -> bool) -> Vec<NodeId> {
        let mut starts = Vec::new();
        let mut waiting = self.kept(self.forest.roots());
        while let Some(node) = waiting.pop() {
            match is_startup(self.forest.label(node)) {
                true => waiting.extend(self.kept(self.forest.children(node))),
                false => starts.push(node),
            }
        }
        starts
    }

    fn wait(&self, waiting: &mut BinaryHeap<Candidate>, nodes: Vec<NodeId>, parent: Option<usize>) {
        let candidate = |node: NodeId| Candidate {
            cost: self.inclusive[node.index()],
            node: Reverse(node),
            parent,
        };
        waiting.extend(nodes.into_iter().map(candidate));
    }

    /// The nodes of a line from `node` on, and the kept children of its last one.
    fn chain(&self, node: NodeId) -> (Vec<NodeId>, Vec<NodeId>) {
        let mut chain = vec![node];
        let mut last = node;
        loop {
            let kept = self.kept(self.forest.children(last));
            let cost = self.inclusive[last.index()];
            match kept[..] {
                [only] if cost - self.inclusive[only.index()] < self.limits.min.max(1) => {
                    chain.push(only);
                    last = only;
                }
                _ => return (chain, kept),
            }
        }
    }
}

fn in_preorder(lines: Vec<Built>) -> Vec<Line> {
    let roots = (0..lines.len()).filter(|&at| lines[at].parent.is_none());
    let mut waiting: Vec<(usize, usize)> = roots.map(|at| (at, 0)).collect();
    waiting.reverse();
    let mut found = Vec::with_capacity(lines.len());
    while let Some((at, level)) = waiting.pop() {
        let line = &lines[at];
        found.push(Line {
            level,
            chain: line.chain.clone(),
            is_cut: line.is_cut,
        });
        let below = line.children.iter().rev();
        waiting.extend(below.map(|&child| (child, level + 1)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{Builder, Weight};

    const NAMES: [Label; 7] = [
        Label::THREAD,
        Label(300),
        Label(301),
        Label(302),
        Label(303),
        Label(304),
        Label(305),
    ];

    /// [thread] -> start -> main 1 -> run 2 -> { work 90 -> leaf 5, other 3 -> deep 40 }.
    fn sample() -> Forest {
        let [thread, start, main, run, work, other, deep] = NAMES;
        let mut builder = Builder::default();
        let root = builder.root(thread);
        builder.mark_first(root);
        let start = builder.child(root, start);
        let main = builder.child(start, main);
        let run = builder.child(main, run);
        let first = builder.child(run, work);
        let leaf = builder.child(first, Label(306));
        let other = builder.child(run, other);
        let last = builder.child(other, deep);
        for (node, count) in [
            (main, 1),
            (run, 2),
            (first, 90),
            (leaf, 5),
            (other, 3),
            (last, 40),
        ] {
            builder.add(node, count);
        }
        builder.finish()
    }

    fn shown(limits: Limits) -> Vec<(usize, Vec<u32>, bool)> {
        let forest = sample();
        let inclusive = forest.inclusive(Weight::Calls).unwrap();
        let lines = of(&forest, &inclusive, limits, |label| {
            label == Label::THREAD || label == NAMES[1]
        });
        let names = |line: &Line| {
            let labels = line.chain.iter().map(|&node| forest.label(node).0);
            labels.collect::<Vec<u32>>()
        };
        lines
            .iter()
            .map(|line| (line.level, names(line), line.is_cut))
            .collect()
    }

    #[test]
    fn callers_that_only_call_share_a_line() {
        let limits = Limits {
            lines: None,
            min: 10,
            depth: None,
        };
        let expected = [
            (0, vec![301, 302], false),
            (1, vec![303], false),
            (1, vec![304, 305], false),
        ];
        assert_eq!(shown(limits), expected);
    }

    #[test]
    fn limits_leave_out_the_cheapest_and_the_deepest() {
        let limits = Limits {
            lines: Some(2),
            min: 1,
            depth: None,
        };
        let expected = [(0, vec![301], false), (1, vec![302], true)];
        assert_eq!(shown(limits), expected);
        let limits = Limits {
            lines: None,
            min: 1,
            depth: Some(3),
        };
        let expected = [(0, vec![301], false), (1, vec![302], false)];
        assert_eq!(shown(limits), expected);
    }
}
