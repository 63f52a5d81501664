//! Every context of a recording once, in one tree, with what each thread counted.
//!
//! Problem: a viewer shows one thread, one process or all of them and changes
//! between them at once. A forest for each would hold most paths many times.
//!
//! Approach: the paths of all threads are nodes of one tree. It is kept in
//! preorder, so a subtree is a run of nodes, and the value of a subtree is a
//! difference of two sums. A thread is a list of nodes with a value, for each
//! [`Metric`]; a process, or all, is the sum of its threads.
//!
//! Invariants: a path is named by its labels, and siblings are distinct; they
//! are in the order in which they were first met. The values of a thread add
//! up to those of [`summary::of_thread`], exactly.
//!
//! Functions of different images are the same under the rule of [`summary`].
//! Trees that begin k calls away from where their thread began come last, below
//! one node [`Name::Unknown`], which stands for the callers that were not kept.
//!
//! Complexity: linear in the recorded nodes, but for the sorting of each
//! thread's values.

use hashbrown::HashMap;
use trace::{Cost, Function, Label, Node as Recorded, Process, Recording, Thread};

use crate::fold::{Fold, Folded};
use crate::forest::{Builder, Forest, NodeId, Weight, recorded_into};
use crate::summary::{self, is_call};

/// Exclusive metric of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Entries of functions. Starts of threads and handlers are no calls; calls
    /// beyond the limit of nodes are, those of `[truncated]`.
    Calls,
    /// A cost; that of no context (lazy binding, before or after counting) is `[no context]`'s.
    Cost(Cost),
}

impl Metric {
    /// Metrics of `recording`, in the order of [`Contexts::metrics`] and
    /// [`OfThread::values`].
    fn of_recording(recording: &Recording) -> Vec<Metric> {
        let threads = recording.processes.iter().flat_map(|p| &p.threads);
        let is_known = |cost: &Cost| {
            threads
                .clone()
                .any(|thread| thread.costs_of(*cost).is_some())
        };
        let costs = Cost::ALL.into_iter().filter(|cost| is_known(cost));
        [Metric::Calls]
            .into_iter()
            .chain(costs.map(Metric::Cost))
            .collect()
    }

    /// Exclusive values of the nodes of `thread`.
    fn of_nodes(self, thread: &Thread) -> Vec<u64> {
        let calls = |node: &Recorded| match is_call(node.label) {
            true => node.count,
            false => 0,
        };
        match self {
            Metric::Calls => thread.nodes.iter().map(calls).collect(),
            Metric::Cost(cost) => match thread.costs_of(cost) {
                Some(costs) => costs.to_vec(),
                None => vec![0; thread.nodes.len()],
            },
        }
    }

    /// Label of the counts that are in no node.
    fn rest(self) -> Label {
        match self {
            Metric::Calls => Label::TRUNCATED,
            Metric::Cost(_) => Label::MUTED,
        }
    }

    fn weight(self) -> Weight {
        match self {
            Metric::Calls => Weight::Calls,
            Metric::Cost(cost) => Weight::Cost(cost),
        }
    }

    /// Total of `thread`.
    fn total(self, thread: &Thread) -> u64 {
        summary::of_thread(thread).of(self.weight())
    }
}

/// Function or other meaning of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Callers that were not kept: further out than k.
    Unknown,
    /// A label that is no function: a thread, a signal's handler, calls beyond the limit.
    Special(Label),
    /// Index into [`Contexts::functions`].
    Function(u32),
}

/// A context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// 0 for a root; at most one more than that of the node before.
    pub depth: u32,
    pub name: Name,
}

/// A function, as the first process that entered it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into [`Recording::processes`].
    pub process: usize,
    pub label: Label,
}

/// A position in [`Contexts::nodes`] and what was counted there.
pub type Value = (u32, u64);

/// Counts of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfThread {
    /// Index into [`Recording::processes`].
    pub process: usize,
    /// Index into [`Process::threads`].
    pub thread: usize,
    /// Per metric what is not zero, in the order of the nodes.
    pub values: Vec<Vec<Value>>,
    /// How often the thread, or a handler in it, began: roots that nothing called.
    pub begun: Vec<Value>,
    /// Inclusive costs in a fold, per metric: those of nodes, and those of functions
    /// by their places in [`Contexts::functions`].
    pub inclusive: Vec<Vec<Value>>,
    pub of_functions: Vec<Vec<Value>>,
}

/// All contexts of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    pub functions: Vec<Place>,
    /// In preorder.
    pub nodes: Vec<Node>,
    pub metrics: Vec<Metric>,
    /// Threads that counted anything, in the order of the recording.
    pub threads: Vec<OfThread>,
}

/// Merges all threads of `recording`.
pub fn of_recording(recording: &Recording) -> Contexts {
    merged(recording, None)
}

/// Contexts of a fold, with their inclusive costs.
pub fn of_fold(fold: &Fold) -> Contexts {
    merged(&fold.recording, Some(fold))
}

fn merged(recording: &Recording, fold: Option<&Fold>) -> Contexts {
    let mut merge = Merge {
        metrics: Metric::of_recording(recording),
        ..Merge::default()
    };
    for (at, process) in recording.processes.iter().enumerate() {
        let labels = merge.labels(at, process);
        for (thread, recorded) in process.threads.iter().enumerate() {
            let ids = merge.thread((at, thread), recorded, &labels);
            if let (Some(ids), Some(fold)) = (ids, fold) {
                merge.inclusive(fold.thread(at, thread), &ids, &labels);
            }
        }
    }
    merge.finish()
}

/// Place of a function, for all processes; without a record of it, its label
/// means something to its own process only.
#[derive(PartialEq, Eq, Hash)]
enum Identity<'a> {
    Place(Option<&'a str>, u64),
    Label(usize, Label),
}

#[derive(Default)]
struct Merge<'a> {
    metrics: Vec<Metric>,
    functions: Vec<Place>,
    numbers: HashMap<Identity<'a>, u32>,
    builder: Builder,
    /// Values by the builder's ids.
    threads: Vec<OfThread>,
}

impl<'a> Merge<'a> {
    /// For each function that `process` entered or came by, its label here.
    fn labels(&mut self, at: usize, process: &'a Process) -> HashMap<Label, Label> {
        let mut labels = HashMap::new();
        let nodes = process.threads.iter().flat_map(|thread| &thread.nodes);
        for label in nodes.map(|node| node.label).filter(|l| l.is_function()) {
            labels.entry(label).or_insert_with(|| {
                let identity = match process.function(label) {
                    Some(function) => known(process, function),
                    None => Identity::Label(at, label),
                };
                let number = *self.numbers.entry(identity).or_insert_with(|| {
                    self.functions.push(Place { process: at, label });
                    self.functions.len() as u32 - 1
                });
                Label::function(number)
            });
        }
        labels
    }

    /// Gives what became of its nodes.
    fn thread(
        &mut self,
        at: (usize, usize),
        thread: &Thread,
        labels: &HashMap<Label, Label>,
    ) -> Option<Vec<Option<NodeId>>> {
        if thread.nodes.is_empty() && thread.truncated_events == 0 {
            return None;
        }
        let builder = std::mem::take(&mut self.builder);
        let label = |label| labels.get(&label).copied().unwrap_or(label);
        let (mut builder, ids) = recorded_into(builder, thread, label);
        let placed = |of_nodes: Vec<u64>| -> Vec<Value> {
            let values = ids.iter().zip(of_nodes).filter(|&(_, value)| value > 0);
            values
                .filter_map(|(id, value)| Some((id.as_ref()?.index() as u32, value)))
                .collect()
        };
        let values = self.metrics.iter().map(|metric| {
            let mut values = placed(metric.of_nodes(thread));
            let sum = values
                .iter()
                .fold(0, |sum: u64, &(_, v)| sum.saturating_add(v));
            // Events that were counted where no node could be made.
            let left = metric.total(thread).saturating_sub(sum);
            if left > 0 {
                let beyond = builder.root(metric.rest());
                values.push((beyond.index() as u32, left));
            }
            values
        });
        let values = values.collect();
        let begun = thread.nodes.iter().map(|node| match is_call(node.label) {
            false => node.count,
            true => 0,
        });
        let begun = placed(begun.collect());
        self.builder = builder;
        self.threads.push(OfThread {
            process: at.0,
            thread: at.1,
            values,
            begun,
            ..OfThread::default()
        });
        Some(ids)
    }

    /// Adds inclusive costs to the thread that was added last.
    fn inclusive(
        &mut self,
        thread: Folded,
        ids: &[Option<NodeId>],
        labels: &HashMap<Label, Label>,
    ) {
        let number = |label| labels.get(&label)?.function_number();
        let by_node = thread.by_node();
        let by_function = thread.by_function(self.functions.len(), number);
        let Some(last) = self.threads.last_mut() else {
            return;
        };
        for metric in &self.metrics {
            let weight = metric.weight();
            let of = |found: &[(Weight, Vec<u64>)]| {
                let found = found.iter().find(|(of, _)| *of == weight);
                found.map_or_else(Vec::new, |(_, values)| values.clone())
            };
            let nodes = ids.iter().zip(of(&by_node)).filter(|&(_, value)| value > 0);
            let nodes = nodes.filter_map(|(id, value)| Some((id.as_ref()?.index() as u32, value)));
            last.inclusive.push(nodes.collect());
            let functions = (0..).zip(of(&by_function));
            let functions = functions.filter(|&(_, value)| value > 0);
            last.of_functions.push(functions.collect());
        }
    }

    fn finish(self) -> Contexts {
        let forest = self.builder.finish();
        let (nodes, positions) = in_preorder(&forest);
        let mut threads = self.threads;
        for thread in &mut threads {
            let lists = thread.values.iter_mut().chain(&mut thread.inclusive);
            for values in lists.chain([&mut thread.begun]) {
                settle(values, &positions);
            }
        }
        Contexts {
            functions: self.functions,
            nodes,
            metrics: self.metrics,
            threads,
        }
    }
}

fn known<'a>(process: &'a Process, function: &Function) -> Identity<'a> {
    let (path, offset) = summary::place(process, function);
    Identity::Place(path, offset)
}

/// The nodes in preorder, and the position of each there by its id.
fn in_preorder(forest: &Forest) -> (Vec<Node>, Vec<u32>) {
    let is_inner = |&root: &NodeId| forest.label(root).is_function() && !forest.is_first(root);
    let (inner, proper): (Vec<NodeId>, Vec<NodeId>) =
        forest.roots().iter().partition(|r| is_inner(r));
    let mut nodes = Vec::with_capacity(forest.len() + 1);
    let mut positions = vec![0; forest.len()];
    let mut walk = |roots: &[NodeId], below: u32, nodes: &mut Vec<Node>| {
        for node in forest.preorder_of(roots) {
            positions[node.index()] = nodes.len() as u32;
            nodes.push(Node {
                depth: forest.depth(node).saturating_add(below),
                name: name(forest.label(node)),
            });
        }
    };
    walk(&proper, 0, &mut nodes);
    if !inner.is_empty() {
        nodes.push(Node {
            depth: 0,
            name: Name::Unknown,
        });
        walk(&inner, 1, &mut nodes);
    }
    (nodes, positions)
}

/// From a label of the builder.
fn name(label: Label) -> Name {
    match label.function_number() {
        Some(number) => Name::Function(number),
        None => Name::Special(label),
    }
}

/// From ids to positions, in their order, each once.
fn settle(values: &mut Vec<Value>, positions: &[u32]) {
    for (node, _) in values.iter_mut() {
        *node = positions[*node as usize];
    }
    values.sort_unstable_by_key(|&(node, _)| node);
    values.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
}
