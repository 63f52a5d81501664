//! Costs of functions over any number of threads, and the paths that lead to them.
//!
//! Problem: a reader asks which functions a program spends its instructions in, whichever
//! thread or process executed them, and on which paths. A compiler's run has millions of
//! contexts, and the answer is to come at once.
//!
//! Approach: each thread's contexts are walked twice, with the labels that the functions have
//! among all processes. The first walk sums up functions in arrays by label; the second one adds
//! to one forest without recursion, which is much smaller than the contexts.
//!
//! Invariants: the own costs of all functions, special labels included, add up to those of the
//! threads' nodes, and so do those of the forest. The inclusive cost of a function is what was
//! counted with the function anywhere on the path, once, as in [`crate::callgraph`].
//!
//! Complexity: linear in the nodes; for the forest times the depth of the result.

use hashbrown::HashMap;
use trace::{Label, Recording};

use crate::callgraph::value;
use crate::forest::{Builder, Forest, NodeId, Weight, activations};

/// Contexts of some threads, summed up.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// In the order of their labels.
    pub functions: Vec<FunctionCost>,
    /// The contexts without recursion, with their values of the first weight: a function that is on the path already stands for its
    /// further activations, too, whatever was called in between. Empty if it was not wanted, or
    /// contexts lost their callers.
    pub paths: Forest,
}

/// Costs of one function, or of a special label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCost {
    pub label: Label,
    /// One value per weight.
    pub own: Vec<u64>,
    /// Own costs and those of everything called from there. `None`: contexts lost their callers,
    /// so it is not known.
    pub inclusive: Option<Vec<u64>>,
}

/// The profile of `threads`, given as indices of processes and of their threads. `number`
/// gives the label of a function of a process among all processes. There is at least one weight.
pub fn of(
    recording: &Recording,
    threads: &[(usize, usize)],
    weights: &[Weight],
    has_paths: bool,
    mut number: impl FnMut(usize, Label) -> Label,
) -> Profile {
    let mut sums = Sums::new(weights);
    let mut rolled = Rolled::default();
    let mut is_whole = true;
    // By process, then by the label there.
    let mut numbers: HashMap<usize, Vec<Option<Label>>> = HashMap::new();
    for &(process, thread) in threads {
        let forest = activations(&recording.processes[process].threads[thread]);
        let numbers = numbers.entry(process).or_default();
        let most = forest.nodes().map(|node| forest.label(node).0 as usize + 1);
        numbers.resize(most.max().unwrap_or(0).max(numbers.len()), None);
        let labels = forest.nodes().map(|node| match forest.label(node) {
            label if label.is_function() => {
                *numbers[label.0 as usize].get_or_insert_with(|| number(process, label))
            }
            label => label,
        });
        let labels: Vec<Label> = labels.collect();
        is_whole &= forest.is_whole();
        sums.add(&forest, &labels);
        if has_paths && is_whole {
            rolled.add(&forest, &labels, weights[0]);
        }
    }
    Profile {
        functions: sums.functions(is_whole),
        paths: match is_whole {
            true => rolled.builder.finish(),
            false => Forest::default(),
        },
    }
}

/// Sums of functions, by the numbers of their labels.
struct Sums<'a> {
    weights: &'a [Weight],
    /// Whether a label was met.
    is_met: Vec<bool>,
    /// One array per weight.
    own: Vec<Vec<u64>>,
    inclusive: Vec<Vec<u64>>,
    /// Activations on the path of the walk.
    active: Vec<u32>,
}

impl<'a> Sums<'a> {
    fn new(weights: &'a [Weight]) -> Sums<'a> {
        Sums {
            weights,
            is_met: Vec::new(),
            own: vec![Vec::new(); weights.len()],
            inclusive: vec![Vec::new(); weights.len()],
            active: Vec::new(),
        }
    }

    /// Makes room for all labels.
    fn extend(&mut self, labels: &[Label]) {
        let most = labels.iter().map(|label| label.0 as usize + 1).max();
        let length = most.unwrap_or(0).max(self.active.len());
        self.is_met.resize(length, false);
        self.active.resize(length, 0);
        for array in self.own.iter_mut().chain(&mut self.inclusive) {
            array.resize(length, 0);
        }
    }

    /// Adds the nodes of a thread; `labels` has the label of each.
    fn add(&mut self, forest: &Forest, labels: &[Label]) {
        self.extend(labels);
        let below: Vec<Vec<u64>> = self.weights.iter().map(|&w| below(forest, w)).collect();
        let mut path: Vec<usize> = Vec::new();
        for node in forest.preorder() {
            for ended in path.drain(forest.depth(node) as usize..) {
                self.active[ended] -= 1;
            }
            let label = labels[node.index()];
            let at = label.0 as usize;
            self.is_met[at] = true;
            let is_outermost = self.active[at] == 0 && label.is_function();
            for (number, &weight) in self.weights.iter().enumerate() {
                let own = &mut self.own[number][at];
                *own = own.saturating_add(value(forest, weight, node));
                if is_outermost {
                    let inclusive = &mut self.inclusive[number][at];
                    *inclusive = inclusive.saturating_add(below[number][node.index()]);
                }
            }
            self.active[at] += 1;
            path.push(at);
        }
        path.into_iter().for_each(|left| self.active[left] -= 1);
    }

    fn functions(self, is_whole: bool) -> Vec<FunctionCost> {
        let met = (0..).zip(&self.is_met).filter(|(_, is_met)| **is_met);
        let function = |(number, _): (u32, &bool)| {
            let label = Label(number);
            let column = |arrays: &[Vec<u64>]| -> Vec<u64> {
                arrays.iter().map(|array| array[number as usize]).collect()
            };
            let own = column(&self.own);
            // Roots of threads and handlers are called by nobody.
            let inclusive = match label.is_function() {
                true => column(&self.inclusive),
                false => own.clone(),
            };
            FunctionCost {
                label,
                own,
                inclusive: is_whole.then_some(inclusive),
            }
        };
        met.map(function).collect()
    }
}

/// For each node what is counted at it and below it.
fn below(forest: &Forest, weight: Weight) -> Vec<u64> {
    let own = forest.nodes().map(|node| value(forest, weight, node));
    let mut sums: Vec<u64> = own.collect();
    // Parents come before children, so backwards each is complete when it is added.
    for node in forest.nodes().rev() {
        if let Some(parent) = forest.parent(node) {
            sums[parent.index()] = sums[parent.index()].saturating_add(sums[node.index()]);
        }
    }
    sums
}

/// A forest without recursion, as it grows.
#[derive(Default)]
struct Rolled {
    builder: Builder,
    /// The parent of each node, by index; a root's is the root itself.
    parents: Vec<NodeId>,
}

impl Rolled {
    /// Adds the nodes of a thread with their values of `weight`; `labels` has the label of each.
    fn add(&mut self, forest: &Forest, labels: &[Label], weight: Weight) {
        let mut nodes: Vec<NodeId> = Vec::with_capacity(forest.len());
        for node in forest.nodes() {
            let label = labels[node.index()];
            // Parents come before their children.
            let parent = forest.parent(node).map(|parent| nodes[parent.index()]);
            let at = match parent {
                None => self.builder.root(label),
                Some(parent) => {
                    let active = self.active(parent, label);
                    active.unwrap_or_else(|| self.builder.child(parent, label))
                }
            };
            if at.index() == self.parents.len() {
                self.parents.push(parent.unwrap_or(at));
            }
            if parent.is_none() && forest.is_first(node) {
                self.builder.mark_first(at);
            }
            match weight {
                Weight::Calls => self.builder.add(at, forest.count(node)),
                Weight::Cost(cost) => self.builder.add_cost(at, cost, forest.cost(cost, node)),
            }
            nodes.push(at);
        }
    }

    /// The node with `label` among `node` and its ancestors.
    fn active(&self, node: NodeId, label: Label) -> Option<NodeId> {
        let mut node = node;
        loop {
            if self.builder.label(node) == label {
                return Some(node);
            }
            let parent = self.parents[node.index()];
            if parent == node {
                return None;
            }
            node = parent;
        }
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
        let profile = of(&recording(), &threads, &[Weight::Calls], true, number);
        let found = profile.functions.iter().filter(|f| f.label.is_function());
        let found: Vec<(u64, u64)> = found
            .map(|f| (f.own[0], f.inclusive.as_ref().unwrap()[0]))
            .collect();
        assert_eq!(found, [(2, 26), (14, 14), (10, 10)]);
        // The second activation of f is rolled into the first.
        assert_eq!(profile.paths.len(), 4);
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
        let whole = builder.finish();
        let labels: Vec<Label> = whole.nodes().map(|node| whole.label(node)).collect();
        let mut rolled = Rolled::default();
        rolled.add(&whole, &labels, Weight::Calls);
        let forest = rolled.builder.finish();
        let found: Vec<(u32, u64, u32)> = forest
            .preorder()
            .map(|node| (forest.label(node).0, forest.count(node), forest.depth(node)))
            .collect();
        let expected = [(300, 33, 0), (301, 10, 1), (302, 4, 2), (303, 16, 2)];
        assert_eq!(found, expected);
        assert!(forest.is_whole());
        assert_eq!(forest.inclusive(Weight::Calls).unwrap(), [63, 30, 4, 16]);
        // Functions have what was counted with them on the whole path.
        let mut sums = Sums::new(&[Weight::Calls]);
        sums.add(&whole, &labels);
        let functions = sums.functions(true).into_iter();
        let inclusive: Vec<u64> = functions.map(|f| f.inclusive.unwrap()[0]).collect();
        assert_eq!(inclusive, [63, 62, 60, 48]);
    }

    /// The sums are those of the call graph, which has a walk of its own.
    #[test]
    fn functions_are_those_of_the_call_graph() {
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..200 {
            let mut builder = Builder::default();
            let root = builder.root(Label::THREAD);
            builder.mark_first(root);
            let mut nodes = vec![root];
            for _ in 0..random(60) {
                let parent = nodes[random(nodes.len() as u32) as usize];
                let node = builder.child(parent, Label(300 + random(6)));
                builder.add(node, u64::from(random(9)));
                nodes.push(node);
            }
            let forest = builder.finish();
            let labels: Vec<Label> = forest.nodes().map(|node| forest.label(node)).collect();
            let mut sums = Sums::new(&[Weight::Calls]);
            sums.add(&forest, &labels);
            let graph = crate::callgraph::of(&forest, &[Weight::Calls], |label| label);
            for function in sums.functions(true) {
                assert_eq!(function.own, graph.own[&function.label]);
                let calls = graph.calls.iter();
                let calls = calls.filter(|((_, callee), _)| *callee == function.label);
                let sum: u64 = calls.map(|(_, call)| call.inclusive[0]).sum();
                if function.label.is_function() {
                    assert_eq!(function.inclusive, Some(vec![sum]));
                }
            }
        }
    }
}
