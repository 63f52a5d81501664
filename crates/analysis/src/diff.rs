//! Two recordings compared: by context, by function, and in all.
//!
//! Problem: a program that changed, or that was given something else to do,
//! has other addresses, other process ids and other threads; what is the same
//! in both recordings, and by how much did it grow or shrink?
//!
//! Approach: both recordings go into one forest. Below a root per program all
//! its processes and threads are joined; a node is found by the [`Identity`] of
//! its label, which is made of names and offsets and never of an address or an
//! id. Beside the forest stand the figures of both recordings, node by node.
//!
//! Invariants: the own figures of all nodes add up to the total of their
//! recording, before and after, for every metric; so do those of all functions.
//! Calls beyond the limit of nodes, which no node counted, are in `[truncated]` or
//! its like.
//! Comparing the other way round changes every sign and nothing else.
//!
//! Limits: functions of one name in one module are one, and so is all code that
//! is in no file. Sums stay at 2^64 - 1 rather than overflow.
//!
//! Complexity: linear in the nodes of both.

mod condition;
mod identity;
mod obstacle;

use std::cmp::Reverse;

use hashbrown::HashMap;
use trace::{Cost, Function, Label, Mode, Node, Process, Recording, Thread};

pub use condition::{Condition, Direction, Limit, Unit, Verdict, judge};
pub use identity::Identity;
pub use obstacle::{Obstacle, obstacles};

use crate::forest::{Builder, Forest, NodeId, Weight};
use crate::merged::Place;
use crate::summary;
use identity::Namer;

/// A figure that is recorded for each context, or for each thread.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    /// Exclusive count of a node of the thread, by its index.
    pub of_node: fn(&Thread, usize) -> u64,
    /// Total of the thread, in its nodes and elsewhere.
    pub of_thread: fn(&Thread) -> u64,
    /// Label of the counts that are in no node.
    pub rest: Label,
    /// Whether the recording has this figure.
    pub is_recorded: fn(&Recording) -> bool,
}

/// Metric of a cost that contexts carry besides calls.
macro_rules! of_cost {
    ($cost:expr) => {
        Metric {
            name: $cost.name(),
            of_node: |thread, at| {
                let costs = thread.costs_of($cost);
                costs.map_or(0, |costs| costs[at])
            },
            of_thread: |thread| summary::costs_of_thread(thread).of(Weight::Cost($cost)),
            rest: Label::MUTED,
            is_recorded: |recording| {
                let mut threads = recording.processes.iter().flat_map(|p| &p.threads);
                threads.any(|thread| thread.costs_of($cost).is_some())
            },
        }
    };
}

/// Metric of calls.
const CALLS: Metric = Metric {
    name: "calls",
    of_node: |thread, at| match thread.nodes[at] {
        node if node.label.is_function() => node.count,
        _ => 0,
    },
    of_thread: |thread| summary::costs_of_thread(thread).events,
    rest: Label::TRUNCATED,
    is_recorded: |recording| {
        recording.meta.mode == Mode::Contexts && recording.meta.blocks.is_none()
    },
};

/// All that can be compared. A row here is all that a new figure needs.
pub const METRICS: &[Metric] = &[
    CALLS,
    // Metrics of basic blocks.
    Metric {
        name: "executions",
        is_recorded: |recording| recording.meta.blocks.is_some(),
        ..CALLS
    },
    // Also counted by `run`, which has no contexts.
    Metric {
        of_thread: |thread| thread.insns,
        is_recorded: |recording| {
            let mut threads = recording.processes.iter().flat_map(|p| &p.threads);
            threads.any(|thread| thread.insns > 0)
        },
        ..of_cost!(Cost::Instructions)
    },
    of_cost!(Cost::Branches),
    of_cost!(Cost::Loads),
    of_cost!(Cost::Stores),
    of_cost!(Cost::Cycles),
    of_cost!(Cost::FetchMisses),
    of_cost!(Cost::DataMisses),
    of_cost!(Cost::LastMisses),
    of_cost!(Cost::Time),
    of_cost!(Cost::Waiting),
];

/// The metrics that both recordings have.
pub fn metrics_of(before: &Recording, after: &Recording) -> Vec<Metric> {
    let in_both = |metric: &&Metric| (metric.is_recorded)(before) && (metric.is_recorded)(after);
    METRICS.iter().filter(in_both).copied().collect()
}

/// One figure in both recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub before: u64,
    pub after: u64,
}

impl Pair {
    pub fn change(self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    /// The change without its sign.
    pub fn size(self) -> u64 {
        self.after.abs_diff(self.before)
    }

    pub fn is_zero(self) -> bool {
        self == Pair::default()
    }

    pub fn add(&mut self, other: Pair) {
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
    }
}

/// Which recording a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

impl Side {
    fn pair(self, value: u64) -> Pair {
        match self {
            Side::Before => Pair {
                before: value,
                after: 0,
            },
            Side::After => Pair {
                before: 0,
                after: value,
            },
        }
    }
}

/// Function of a node.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    pub identity: Identity<'a>,
    /// As recorded: afterwards if it is there, else before.
    pub function: Option<&'a Function>,
    /// Recording and place in which that function is.
    pub place: Option<(Side, Place)>,
}

/// Both recordings in one forest.
pub struct Diff<'a> {
    pub metrics: Vec<Metric>,
    /// Metric by metric, over the whole recordings.
    pub totals: Vec<Pair>,
    /// Every context of either recording. The counters are 0; a label is the
    /// position of its frame in [`Diff::frames`].
    pub contexts: Forest,
    pub frames: Vec<Frame<'a>>,
    /// By metric, then by node.
    own: Vec<Vec<Pair>>,
    with_callees: Vec<Vec<Pair>>,
}

/// A function in all its contexts together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionChange {
    /// Position in [`Diff::frames`].
    pub frame: usize,
    /// Metric by metric.
    pub values: Vec<Pair>,
    /// Contexts with a figure of their own.
    pub contexts: Pair,
}

impl<'a> Diff<'a> {
    /// Compares by `metrics`. If the first programs have different names, they
    /// are taken to be the same.
    pub fn new(before: &'a Recording, after: &'a Recording, metrics: &[Metric]) -> Diff<'a> {
        let mut union = Union {
            builder: Builder::default(),
            metrics: metrics.to_vec(),
            labels: HashMap::new(),
            frames: Vec::new(),
            own: vec![Vec::new(); metrics.len()],
            totals: vec![Pair::default(); metrics.len()],
        };
        let namer = Namer::new(before, after);
        union.add(before, Side::Before, &Namer::default());
        union.add(after, Side::After, &namer);
        union.finish()
    }

    pub fn frame(&self, node: NodeId) -> &Frame<'a> {
        &self.frames[self.contexts.label(node).0 as usize]
    }

    /// Exclusive costs of the context.
    pub fn own(&self, metric: usize, node: NodeId) -> Pair {
        self.own[metric][node.index()]
    }

    /// Inclusive costs of the context.
    pub fn with_callees(&self, metric: usize, node: NodeId) -> Pair {
        self.with_callees[metric][node.index()]
    }

    /// The contexts, counted by how much they changed themselves.
    pub fn sizes(&self, metric: usize) -> Forest {
        self.contexts
            .with_counts(|node| self.own(metric, node).size())
    }

    /// Everything that has a figure, most changed by `metric` first.
    pub fn functions(&self, metric: usize) -> Vec<FunctionChange> {
        let empty = |frame| FunctionChange {
            frame,
            values: vec![Pair::default(); self.metrics.len()],
            contexts: Pair::default(),
        };
        let mut changes: Vec<FunctionChange> = (0..self.frames.len()).map(empty).collect();
        for node in self.contexts.nodes() {
            let change = &mut changes[self.contexts.label(node).0 as usize];
            let mut counted = Pair::default();
            for (own, value) in self.own.iter().zip(&mut change.values) {
                let own = own[node.index()];
                value.add(own);
                counted.before |= u64::from(own.before > 0);
                counted.after |= u64::from(own.after > 0);
            }
            change.contexts.add(counted);
        }
        changes.retain(|change| !change.contexts.is_zero());
        changes.sort_by_cached_key(|change| {
            let value = change.values.get(metric).copied().unwrap_or_default();
            let identity = self.frames[change.frame].identity.clone();
            (Reverse(value.size()), identity)
        });
        changes
    }
}

/// The forest of both while it is made.
struct Union<'a> {
    builder: Builder,
    metrics: Vec<Metric>,
    labels: HashMap<Identity<'a>, Label>,
    frames: Vec<Frame<'a>>,
    own: Vec<Vec<Pair>>,
    totals: Vec<Pair>,
}

/// A process on its way into the union.
struct Source<'a, 'n> {
    process: &'a Process,
    /// Its index in the recording.
    number: usize,
    namer: &'n Namer<'a>,
    side: Side,
    /// The root of its program.
    program: NodeId,
    /// Its labels that were met, and theirs in the union.
    labels: HashMap<Label, Label>,
}

impl<'a> Union<'a> {
    fn add(&mut self, recording: &'a Recording, side: Side, namer: &Namer<'a>) {
        for (number, process) in recording.processes.iter().enumerate() {
            let program = self.label(namer.program(process), None, side);
            let mut source = Source {
                process,
                number,
                namer,
                side,
                program: self.builder.root(program),
                labels: HashMap::new(),
            };
            for thread in &process.threads {
                let sums = self.add_nodes(&mut source, thread);
                self.add_rest(thread, side, source.program, &sums);
            }
        }
    }

    /// Adds the nodes of a thread; gives the sum of their figures, metric by
    /// metric.
    fn add_nodes(&mut self, source: &mut Source<'a, '_>, thread: &Thread) -> Vec<u64> {
        let mut sums = vec![0u64; self.metrics.len()];
        let mut ids: Vec<Option<NodeId>> = Vec::with_capacity(thread.nodes.len());
        for (index, node) in thread.nodes.iter().enumerate() {
            let parent = match node.parent {
                _ if node.label == Label::MUTED => None,
                Some(parent) => ids.get(parent as usize).copied().flatten(),
                None if begins_thread(node) => Some(source.program),
                None => {
                    let unknown = self.label(Identity::Unknown, None, source.side);
                    Some(self.builder.child(source.program, unknown))
                }
            };
            let id = parent.map(|parent| match node.label {
                Label::THREAD | Label::ROOT => parent,
                label => {
                    let label = self.relabel(source, label);
                    self.builder.child(parent, label)
                }
            });
            ids.push(id);
            let Some(id) = id else { continue };
            for (at, sum) in sums.iter_mut().enumerate() {
                let value = (self.metrics[at].of_node)(thread, index);
                *sum = sum.saturating_add(value);
                self.count(at, id, source.side, value);
            }
        }
        sums
    }

    fn relabel(&mut self, source: &mut Source<'a, '_>, label: Label) -> Label {
        if let Some(&known) = source.labels.get(&label) {
            return known;
        }
        let identity = source.namer.identity(source.process, label);
        let process = source.number;
        let function = source.process.function(label);
        let function = function.map(|function| (function, Place { process, label }));
        let new = self.label(identity, function, source.side);
        source.labels.insert(label, new);
        new
    }

    /// Adds the counts that the thread has beyond its nodes; without nodes they are the program's
    /// own.
    fn add_rest(&mut self, thread: &Thread, side: Side, program: NodeId, sums: &[u64]) {
        for (at, sum) in sums.iter().enumerate() {
            let total = (self.metrics[at].of_thread)(thread);
            self.totals[at].add(side.pair(total));
            let rest = total.saturating_sub(*sum);
            if rest == 0 {
                continue;
            }
            let mut node = program;
            if !thread.nodes.is_empty() {
                let label = Identity::Special(self.metrics[at].rest);
                let label = self.label(label, None, side);
                node = self.builder.child(program, label);
            }
            self.count(at, node, side, rest);
        }
    }

    fn count(&mut self, metric: usize, node: NodeId, side: Side, value: u64) {
        let own = &mut self.own[metric];
        if own.len() <= node.index() {
            own.resize(node.index() + 1, Pair::default());
        }
        own[node.index()].add(side.pair(value));
    }

    fn label(
        &mut self,
        identity: Identity<'a>,
        function: Option<(&'a Function, Place)>,
        side: Side,
    ) -> Label {
        let next = Label(self.frames.len() as u32);
        let label = *self.labels.entry(identity.clone()).or_insert(next);
        let place = function.map(|(_, place)| (side, place));
        let function = function.map(|(function, _)| function);
        if label == next {
            self.frames.push(Frame {
                identity,
                function,
                place,
            });
        } else if side == Side::After && function.is_some() {
            let frame = &mut self.frames[label.0 as usize];
            (frame.function, frame.place) = (function, place);
        }
        label
    }

    fn finish(mut self) -> Diff<'a> {
        let contexts = self.builder.finish();
        for own in &mut self.own {
            own.resize(contexts.len(), Pair::default());
        }
        let mut with_callees = self.own.clone();
        for sums in &mut with_callees {
            for node in contexts.nodes().rev() {
                if let Some(parent) = contexts.parent(node) {
                    let below = sums[node.index()];
                    sums[parent.index()].add(below);
                }
            }
        }
        Diff {
            metrics: self.metrics,
            totals: self.totals,
            contexts,
            frames: self.frames,
            own: self.own,
            with_callees,
        }
    }
}

/// Whether nothing called the root `node`, rather than something that was not
/// kept: see `forest::activations`.
fn begins_thread(node: &Node) -> bool {
    !node.label.is_function() || node.count > 0
}
