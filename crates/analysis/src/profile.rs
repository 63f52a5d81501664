//! Costs of functions over any number of threads, and the paths that lead to them.
//!
//! Problem: a reader asks which functions a program spends its instructions in, whichever
//! thread or process executed them. Approach: the contexts of all threads are joined to one
//! forest in which a function has one label, whatever process it is of; [`crate::callgraph`]
//! sums it up to functions.
//!
//! Invariants: the own costs of all functions, special labels included, add up to those of the
//! threads' nodes. The inclusive cost of a function is what was counted with the function
//! anywhere on the path, once.
//!
//! Complexity: linear in the nodes.

use hashbrown::HashMap;
use trace::{Cost, Label, Recording};

use crate::callgraph;
use crate::forest::{Builder, Forest, NodeId, Weight, activations, join};

/// Contexts of some threads, joined.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Every event once, on its context. Functions have the labels that the caller gave them.
    pub forest: Forest,
    /// In the order of their labels.
    pub functions: Vec<FunctionCost>,
}

/// Costs of one function, or of a special label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCost {
    pub label: Label,
    /// One value per weight.
    pub own: Vec<u64>,
    /// Own costs and those of everything called from there. `None`: contexts lost their callers, so it
    /// is not known.
    pub inclusive: Option<Vec<u64>>,
}

/// The profile of `threads`, given as indices of processes and of their threads. `number`
/// gives the label of a function of a process among all processes.
pub fn of(
    recording: &Recording,
    threads: &[(usize, usize)],
    weights: &[Weight],
    mut number: impl FnMut(usize, Label) -> Label,
) -> Profile {
    let forests = threads.iter().map(|&(process, thread)| {
        let forest = activations(&recording.processes[process].threads[thread]);
        forest.relabel(|label| match label.is_function() {
            true => number(process, label),
            false => label,
        })
    });
    let forests: Vec<Forest> = forests.collect();
    let forest = join(&forests);
    let functions = functions(&forest, weights);
    Profile { forest, functions }
}

fn functions(forest: &Forest, weights: &[Weight]) -> Vec<FunctionCost> {
    let graph = callgraph::of(forest, weights, |label| label);
    let mut inclusive: HashMap<Label, Vec<u64>> = HashMap::new();
    for (&(_, callee), call) in &graph.calls {
        let sums = inclusive
            .entry(callee)
            .or_insert_with(|| vec![0; weights.len()]);
        for (sum, value) in sums.iter_mut().zip(&call.inclusive) {
            *sum = sum.saturating_add(*value);
        }
    }
    let is_whole = forest.is_whole();
    let cost = |(label, own): (Label, Vec<u64>)| {
        let sums = inclusive.remove(&label).unwrap_or_else(|| own.clone());
        FunctionCost {
            label,
            own,
            inclusive: is_whole.then_some(sums),
        }
    };
    graph.own.into_iter().map(cost).collect()
}

/// The forest without recursion: a function that is on the path already stands for its further
/// activations, too, whatever was called in between. Every cost is kept, once.
///
/// Complexity: the nodes of `forest`, times the depth of the result.
pub fn rolled(forest: &Forest) -> Forest {
    let mut builder = Builder::default();
    let mut nodes: Vec<NodeId> = Vec::with_capacity(forest.len());
    // The parent of each node of the result, by index; a root's is the root itself.
    let mut parents: Vec<NodeId> = Vec::new();
    let costs: Vec<Cost> = forest.costs().collect();
    // Parents come before their children.
    for node in forest.nodes() {
        let label = forest.label(node);
        let parent = forest.parent(node).map(|parent| nodes[parent.index()]);
        let at = match parent {
            None => builder.root(label),
            Some(parent) => {
                let active = active(&builder, &parents, parent, label);
                active.unwrap_or_else(|| builder.child(parent, label))
            }
        };
        if at.index() == parents.len() {
            parents.push(parent.unwrap_or(at));
        }
        if parent.is_none() && forest.is_first(node) {
            builder.mark_first(at);
        }
        builder.add(at, forest.count(node));
        for &cost in &costs {
            builder.add_cost(at, cost, forest.cost(cost, node));
        }
        nodes.push(at);
    }
    builder.finish()
}

/// The node with `label` among `node` and its ancestors.
fn active(builder: &Builder, parents: &[NodeId], node: NodeId, label: Label) -> Option<NodeId> {
    let mut node = node;
    loop {
        if builder.label(node) == label {
            return Some(node);
        }
        let parent = parents[node.index()];
        if parent == node {
            return None;
        }
        node = parent;
    }
}

#[cfg(test)]
mod tests {
    use trace::{Node, Process, Thread};

    use super::*;

    fn node(parent: Option<u32>, label: Label, count: u64) -> Node {
        Node {
            parent,
            label,
            count,
            ..Node::default()
        }
    }

    /// Two processes with the same functions under other labels: main -> f -> f, main -> g.
    fn recording() -> Recording {
        let process = |first: u32| {
            let [main, f, g] = [0, 1, 2].map(|at| Label::function(first + at));
            Process {
                threads: vec![Thread {
                    nodes: vec![
                        node(None, Label::THREAD, 1),
                        node(Some(0), main, 1),
                        node(Some(1), f, 3),
                        node(Some(2), f, 4),
                        node(Some(1), g, 5),
                    ],
                    ..Thread::default()
                }],
                ..Process::default()
            }
        };
        Recording {
            processes: vec![process(0), process(10)],
            ..Recording::default()
        }
    }

    #[test]
    fn functions_of_several_processes_are_summed_up_once_per_path() {
        let number = |process: usize, label: Label| {
            let number = label.function_number().unwrap() - 10 * process as u32;
            Label::function(number)
        };
        let threads = [(0, 0), (1, 0)];
        let profile = of(&recording(), &threads, &[Weight::Calls], number);
        let found = profile.functions.iter().filter(|f| f.label.is_function());
        let found: Vec<(u64, u64)> = found
            .map(|f| (f.own[0], f.inclusive.as_ref().unwrap()[0]))
            .collect();
        assert_eq!(found, [(2, 26), (14, 14), (10, 10)]);
        assert_eq!(profile.forest.len(), 5);
    }

    #[test]
    fn further_activations_are_those_of_the_first() {
        let [main, f, g, h] = [300, 301, 302, 303].map(Label);
        let mut builder = Builder::default();
        let root = builder.root(main);
        builder.mark_first(root);
        let first = builder.child(root, f);
        let between = builder.child(first, g);
        let again = builder.child(between, f);
        let leaf = builder.child(again, h);
        let last = builder.child(leaf, main);
        let counts = [
            (root, 1),
            (first, 2),
            (between, 4),
            (again, 8),
            (leaf, 16),
            (last, 32),
        ];
        for (node, count) in counts {
            builder.add(node, count);
        }
        let forest = rolled(&builder.finish());
        let found: Vec<(u32, u64, u32)> = forest
            .preorder()
            .map(|node| (forest.label(node).0, forest.count(node), forest.depth(node)))
            .collect();
        assert_eq!(
            found,
            [(300, 33, 0), (301, 10, 1), (302, 4, 2), (303, 16, 2)]
        );
        assert!(forest.is_whole());
        assert_eq!(forest.inclusive(Weight::Calls).unwrap(), [63, 30, 4, 16]);
    }
}
