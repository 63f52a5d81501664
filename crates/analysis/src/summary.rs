//! Totals of a thread, a process image, a recording.
//!
//! Limits: rolled recursion (IHPP 4.2.3) makes one context of
//! all its levels; beyond the node limit events are counted, contexts are not.

use std::collections::HashMap;

use hashbrown::HashSet;
use trace::{Cost, Function, Label, Process, Recording, Thread};

use crate::forest::Weight;

/// Totals of a thread, process or run. Special labels are not functions; their
/// counts (thread and handler starts) are in no total but `nodes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub threads: u64,
    /// Function entries, those beyond the node limit included.
    pub events: u64,
    /// Function entries beyond the node limit.
    pub truncated: u64,
    /// Paths with function entries of their own, as far as they were kept
    /// apart: nodes with a recorded count.
    pub contexts: u64,
    /// Distinct functions entered.
    pub functions: u64,
    /// Nodes of the k-SFs, top nodes and roots included.
    pub nodes: u64,
    /// Retired instructions, if they were counted.
    pub insns: u64,
    /// Instructions that belong to no context: in muted code, or before or after
    /// counting.
    pub insns_outside: u64,
    /// Costs of its nodes, by [`Cost::index`].
    pub costs: [u64; Cost::ALL.len()],
    /// Deepest stack of activations.
    pub max_depth: u64,
}

impl Totals {
    /// Sums, and the larger `max_depth`; `functions` is left to the caller,
    /// because the same function may be in both.
    fn absorb(&mut self, other: Totals) {
        self.threads += other.threads;
        self.events = self.events.saturating_add(other.events);
        self.truncated = self.truncated.saturating_add(other.truncated);
        self.contexts += other.contexts;
        self.nodes += other.nodes;
        self.insns = self.insns.saturating_add(other.insns);
        self.insns_outside = self.insns_outside.saturating_add(other.insns_outside);
        for (sum, cost) in self.costs.iter_mut().zip(other.costs) {
            *sum = sum.saturating_add(cost);
        }
        self.max_depth = self.max_depth.max(other.max_depth);
    }
}

impl Totals {
    /// Total of `weight`. Instructions are counted without contexts, too.
    pub fn of(&self, weight: Weight) -> u64 {
        match weight {
            Weight::Calls => self.events,
            Weight::Cost(Cost::Instructions) => self.insns,
            Weight::Cost(cost) => self.costs[cost.index()],
        }
    }
}

/// Whether what a node counts are calls: starts of threads and handlers are none.
pub fn is_call(label: Label) -> bool {
    label.is_function() || label == Label::TRUNCATED
}

pub fn of_thread(thread: &Thread) -> Totals {
    let mut totals = costs_of_thread(thread);
    totals.functions = entered(thread).collect::<HashSet<Label>>().len() as u64;
    totals
}

pub fn of_process(process: &Process) -> Totals {
    let mut totals = Totals::default();
    for thread in &process.threads {
        totals.absorb(costs_of_thread(thread));
    }
    totals.functions = entered_anywhere(process).len() as u64;
    totals
}

/// Functions of different images are the same if they are at the same offset
/// of the same file, or, without a file, at the same address.
pub fn of_recording(recording: &Recording) -> Totals {
    let mut totals = Totals::default();
    let mut functions: HashSet<(Option<&str>, u64)> = HashSet::new();
    for process in &recording.processes {
        for thread in &process.threads {
            totals.absorb(costs_of_thread(thread));
        }
        let met = entered_anywhere(process);
        functions.extend(
            met.into_iter()
                .filter_map(|label| process.function(label))
                .map(|f| place(process, f)),
        );
    }
    totals.functions = functions.len() as u64;
    totals
}

/// How often each function was entered, or each basic block executed, in all threads
/// of a process; as far as contexts were kept apart.
pub fn of_labels(process: &Process) -> HashMap<Label, u64> {
    let mut counts = HashMap::new();
    let nodes = process.threads.iter().flat_map(|thread| &thread.nodes);
    for node in nodes.filter(|node| node.label.is_function()) {
        let count: &mut u64 = counts.entry(node.label).or_default();
        *count = count.saturating_add(node.count);
    }
    counts
}

/// Place by which a function is the same in different images.
pub(crate) fn place<'a>(process: &'a Process, function: &Function) -> (Option<&'a str>, u64) {
    match process.module_of(function) {
        Some(module) => (Some(module.path.as_str()), function.file_offset),
        None => (None, function.pc),
    }
}

/// All totals but `functions`, which take longer than all others.
pub fn costs_of_thread(thread: &Thread) -> Totals {
    let mut totals = Totals {
        threads: 1,
        nodes: thread.nodes.len() as u64,
        insns: thread.insns,
        max_depth: thread.max_depth,
        ..Totals::default()
    };
    for node in thread.nodes.iter().filter(|node| node.count > 0) {
        if node.label.is_function() {
            totals.contexts += 1;
            totals.events = totals.events.saturating_add(node.count);
        } else if node.label == Label::TRUNCATED {
            totals.truncated = totals.truncated.saturating_add(node.count);
        }
    }
    for column in &thread.costs {
        let values = column.values.iter().copied();
        totals.costs[column.cost.index()] = values.fold(0, u64::saturating_add);
    }
    let costs = thread.costs_of(Cost::Instructions).unwrap_or_default();
    let outside = thread.nodes.iter().zip(costs);
    totals.insns_outside = outside
        .filter(|(node, _)| node.label == Label::MUTED)
        .fold(0, |sum: u64, (_, &cost)| sum.saturating_add(cost));
    // The thread's own total survives where its `[truncated]` node could not
    // even be made.
    totals.truncated = totals.truncated.max(thread.truncated_events);
    totals.events = totals.events.saturating_add(totals.truncated);
    totals
}

fn entered(thread: &Thread) -> impl Iterator<Item = Label> + '_ {
    let counted = thread
        .nodes
        .iter()
        .filter(|node| node.count > 0 && node.label.is_function());
    counted.map(|node| node.label)
}

fn entered_anywhere(process: &Process) -> HashSet<Label> {
    process.threads.iter().flat_map(entered).collect()
}

#[cfg(test)]
mod tests {
    use trace::{Module, Node};

    use super::*;

    fn thread(nodes: &[(u32, u64)]) -> Thread {
        let nodes = nodes
            .iter()
            .map(|&(label, count)| Node {
                label: Label(label),
                count,
                ..Node::default()
            })
            .collect();
        Thread {
            nodes,
            insns: 10,
            max_depth: 3,
            ..Thread::default()
        }
    }

    #[test]
    fn only_functions_and_truncated_events_are_events() {
        let thread = thread(&[(1, 1), (256, 5), (256, 0), (257, 2), (256, 1), (3, 4)]);
        let totals = of_thread(&thread);
        assert_eq!(
            (totals.events, totals.truncated, totals.contexts),
            (12, 4, 3)
        );
        assert_eq!((totals.functions, totals.nodes), (2, 6));
    }

    #[test]
    fn a_function_in_two_processes_is_one() {
        let process = |id: u32| Process {
            modules: vec![Module {
                path: "/bin/a".into(),
                ..Module::default()
            }],
            functions: vec![Function {
                id,
                module: Some(0),
                file_offset: 64,
                ..Function::default()
            }],
            threads: vec![thread(&[(id, 1)])],
            ..Process::default()
        };
        let recording = Recording {
            processes: vec![process(256), process(300)],
            ..Recording::default()
        };
        let totals = of_recording(&recording);
        assert_eq!((totals.functions, totals.events, totals.insns), (1, 2, 20));
        assert_eq!((totals.threads, totals.max_depth), (2, 3));
    }
}
