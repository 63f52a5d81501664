//! Whole contexts folded into contexts of k callers, with what each cost in all.
//!
//! Problem: with finite k a forest knows what each context cost itself, and not what it
//! cost with everything called from there: that hangs in other trees, under paths that
//! have lost their callers. With whole paths (infinite k) both are known, in a tree that
//! may be too deep and too wide to read.
//!
//! Approach: a recording of whole paths is a calling context tree (CCT). Each of its nodes
//! becomes the state that a run with finite k would have been in: [`Thread::nodes`] as such
//! a run records them, with the sums of counters and costs. So every form can show them.
//! The inclusive cost of a context is then taken from the CCT:
//!
//! - an *activation* here is a node of the CCT (all activations of one whole path), and
//!   what it cost in all is the sum over its subtree;
//! - a node of the k-slab forest stands for the activations that it counts in the paper's
//!   sense (listing 3.2): as their bottom node, or as their top node. So along a tree the
//!   figures never grow;
//! - a node of the k-calling-context forest, a function with some callers, stands for the
//!   activations whose innermost callers are these;
//! - its inclusive cost is the cost of all these activations and of all that was called
//!   from them, where one that lies inside another one of the same context counts once.
//!
//! Signals' handlers are called by nobody: what they cost is theirs alone.
//!
//! Invariants: the counters and costs of a folded thread add up to those of the whole one;
//! nodes, counters and costs are those of a run with that k (tests compare with live runs).
//! The inclusive cost of a node is at least its own, and at most that of its parent in a
//! k-slab forest.
//!
//! Complexity: linear in the nodes of the CCT for the k-slab forest, times k + 1 for the
//! k-calling-context forest.

use trace::{Cost, Costs, Label, Node, Process, Recording, Thread};

use crate::forest::{Builder, Forest, K, NodeId, Weight, count_states, count_tops, shaped};
use crate::slabs::Slabs;
use crate::summary::is_call;

/// A recording as one with finite k, and the whole one that it is made of.
pub struct Fold<'a> {
    pub whole: &'a Recording,
    /// As if it had been recorded with this k.
    pub recording: Recording,
    k: u32,
    /// For each process and thread, the folded node of each node of the whole one.
    states: Vec<Vec<Vec<u32>>>,
}

/// A thread of a [`Fold`].
#[derive(Clone, Copy)]
pub struct Folded<'a> {
    pub whole: &'a Thread,
    pub thread: &'a Thread,
    states: &'a [u32],
    k: u32,
}

impl<'a> Fold<'a> {
    /// Folds contexts of functions that were recorded with infinite k.
    pub fn new(whole: &'a Recording, k: u32) -> Fold<'a> {
        let mut states = Vec::with_capacity(whole.processes.len());
        let mut processes = Vec::with_capacity(whole.processes.len());
        for process in &whole.processes {
            let folded = process.threads.iter().map(|thread| folded(thread, k));
            let (threads, of_threads) = folded.unzip();
            states.push(of_threads);
            processes.push(with_threads(process, threads));
        }
        let mut meta = whole.meta.clone();
        meta.k = Some(k);
        Fold {
            whole,
            recording: whole.in_form(meta, processes),
            k,
            states,
        }
    }

    pub fn thread(&self, process: usize, thread: usize) -> Folded<'_> {
        Folded {
            whole: &self.whole.processes[process].threads[thread],
            thread: &self.recording.processes[process].threads[thread],
            states: &self.states[process][thread],
            k: self.k,
        }
    }
}

/// Leaves out all callers (k = 0): each function, or basic block, of a thread has one node,
/// a root, whatever k the contexts were recorded with.
///
/// Every event is counted once, on a node with its label, so the sums are exact.
pub fn flatten(recording: &mut Recording) {
    let processes = recording.processes.iter_mut();
    for thread in processes.flat_map(|process| &mut process.threads) {
        let (flat, _) = folded(thread, 0);
        thread.nodes = flat.nodes;
        thread.costs = flat.costs;
    }
    recording.meta.k = Some(0);
    if let Some(blocks) = &mut recording.meta.blocks {
        // Without contexts the forest is what either way of keeping them gives.
        blocks.windows = false;
        blocks.roll_loops = false;
    }
}

/// The process with other threads. It has contexts, so there is no code of `count`.
fn with_threads(process: &Process, threads: Vec<Thread>) -> Process {
    Process {
        pid: process.pid,
        parent: process.parent,
        by_fork: process.by_fork,
        exe: process.exe.clone(),
        args: process.args.clone(),
        start_ns: process.start_ns,
        end_ns: process.end_ns,
        end: process.end,
        modules: process.modules.clone(),
        functions: process.functions.clone(),
        blocks: process.blocks.clone(),
        stats: process.stats.clone(),
        threads,
        ..Process::default()
    }
}

/// A thread as recorded with finite k, and the state of each node of the whole one.
fn folded(whole: &Thread, k: u32) -> (Thread, Vec<u32>) {
    let mut slabs = Slabs::new(K::Finite(k));
    let mut states: Vec<u32> = Vec::with_capacity(whole.nodes.len());
    for node in &whole.nodes {
        let state = match node.parent {
            None => slabs.node(None, node.label),
            Some(caller) => slabs.step(states[caller as usize], node.label),
        };
        let count = &mut slabs.nodes[state as usize].count;
        *count = count.saturating_add(node.count);
        states.push(state);
    }
    let costs = whole.costs.iter().map(|costs| {
        let mut values = vec![0u64; slabs.nodes.len()];
        for (&state, &value) in states.iter().zip(&costs.values) {
            let sum = &mut values[state as usize];
            *sum = sum.saturating_add(value);
        }
        Costs {
            cost: costs.cost,
            values,
        }
    });
    let thread = Thread {
        tid: whole.tid,
        start_ns: whole.start_ns,
        end_ns: whole.end_ns,
        insns: whole.insns,
        truncated_events: whole.truncated_events,
        max_depth: whole.max_depth,
        costs: costs.collect(),
        nodes: slabs.nodes,
        missing: whole.missing,
        ..Thread::default()
    };
    (thread, states)
}

impl Folded<'_> {
    /// [`crate::activations`] with inclusive costs.
    pub fn activations(&self) -> Forest {
        self.slabs(|_, _, _| ())
    }

    /// [`crate::ksf_from_recording`] with inclusive costs.
    pub fn ksf(&self) -> Forest {
        self.slabs(count_tops)
    }

    fn slabs(&self, count_more: fn(&mut Builder, &[Option<NodeId>], &Thread)) -> Forest {
        shaped(self.thread, |builder, ids| {
            count_states(builder, ids, self.thread);
            count_more(builder, ids, self.thread);
            for (weight, values) in self.by_place(ids, builder.len()) {
                builder.add_inclusive(weight, &values);
            }
        })
    }

    /// The inclusive costs of the places that recorded nodes have in a tree of `places`
    /// nodes: those of the state, and of its top node.
    pub fn by_place(&self, ids: &[Option<NodeId>], places: usize) -> Vec<(Weight, Vec<u64>)> {
        inclusive(self.whole, places, |node, all| {
            let state = self.states[node];
            let top = self.thread.nodes[state as usize].top;
            let nodes = [Some(state), top].into_iter().flatten();
            all.extend(nodes.filter_map(|node| ids[node as usize]));
        })
    }

    /// The inclusive costs of what each recorded node of the folded thread stands for.
    pub fn by_node(&self) -> Vec<(Weight, Vec<u64>)> {
        let nodes = self.thread.nodes.len();
        let ids: Vec<Option<NodeId>> = (0..nodes).map(|at| Some(NodeId::at(at))).collect();
        self.by_place(&ids, nodes)
    }

    /// The inclusive costs of functions, in all contexts together; `number` says which of
    /// so many a label is.
    pub fn by_function(
        &self,
        functions: usize,
        number: impl Fn(Label) -> Option<u32>,
    ) -> Vec<(Weight, Vec<u64>)> {
        let nodes = &self.whole.nodes;
        inclusive(self.whole, functions, |node, all| {
            let number = number(nodes[node].label);
            all.extend(number.map(|number| NodeId::at(number as usize)));
        })
    }

    /// Adds to a k-calling-context forest, of this thread and perhaps others, the inclusive
    /// costs of this one's contexts.
    pub fn add_to_callers(&self, callers: &mut Builder) {
        let longest = K::Finite(self.k).longest();
        let nodes = &self.whole.nodes;
        let found = inclusive(self.whole, callers.len(), |node, all| {
            let mut at = None;
            let path = std::iter::successors(Some(node), |&node| {
                nodes[node].parent.map(|parent| parent as usize)
            });
            for node in path.take(longest) {
                at = callers.find(at, nodes[node].label);
                match at {
                    Some(id) => all.push(id),
                    None => break,
                }
            }
        });
        for (weight, values) in found {
            callers.add_inclusive(weight, &values);
        }
    }
}

/// A k-calling-context forest with the inclusive costs of the threads that it is of.
pub fn callers_with_inclusive<'a>(
    kccf: &Forest,
    threads: impl IntoIterator<Item = Folded<'a>>,
) -> Forest {
    let mut builder = Builder::with_capacity(kccf.len());
    builder.graft(kccf, &mut |label| label);
    for thread in threads {
        thread.add_to_callers(&mut builder);
    }
    builder.finish()
}

/// Exclusive values of the nodes of the whole tree.
fn own(thread: &Thread, weight: Weight) -> Vec<u64> {
    let calls = |node: &Node| match is_call(node.label) {
        true => node.count,
        false => 0,
    };
    match weight {
        Weight::Calls => thread.nodes.iter().map(calls).collect(),
        Weight::Cost(cost) => thread.costs_of(cost).unwrap_or_default().to_vec(),
    }
}

fn weights(thread: &Thread) -> Vec<Weight> {
    let known = |cost: &Cost| thread.costs_of(*cost).is_some();
    let costs = Cost::ALL.into_iter().filter(known).map(Weight::Cost);
    [Weight::Calls].into_iter().chain(costs).collect()
}

/// For each weight and each of `places` contexts the inclusive cost. `contexts` appends
/// those that a node of the whole tree belongs to.
///
/// A walk in depth: of nested activations of a context the outermost one counts, which is
/// the one that is met while no other is open.
fn inclusive(
    whole: &Thread,
    places: usize,
    mut contexts: impl FnMut(usize, &mut Vec<NodeId>),
) -> Vec<(Weight, Vec<u64>)> {
    let weights = weights(whole);
    let below: Vec<Vec<u64>> = weights.iter().map(|&weight| sums(whole, weight)).collect();
    let mut found: Vec<Vec<u64>> = weights.iter().map(|_| vec![0; places]).collect();
    let children = Children::of(whole);
    let mut active = vec![0u32; places];
    // Contexts of all open nodes, and for each node where its own begin.
    let mut open: Vec<NodeId> = Vec::new();
    let mut starts: Vec<usize> = Vec::new();
    let mut todo: Vec<Visit> = Vec::new();
    todo.extend(children.roots().map(Visit::Enter));
    while let Some(visit) = todo.pop() {
        let node = match visit {
            Visit::Enter(node) => node,
            Visit::Leave => {
                for context in open.drain(starts.pop().unwrap_or(0)..) {
                    active[context.index()] -= 1;
                }
                continue;
            }
        };
        // In this state nothing is counted: it has no place, nor has what it calls.
        if whole.nodes[node].label == Label::MUTED {
            continue;
        }
        starts.push(open.len());
        contexts(node, &mut open);
        for context in &open[starts[starts.len() - 1]..] {
            let at = context.index();
            if active[at] == 0 {
                for (found, below) in found.iter_mut().zip(&below) {
                    found[at] = found[at].saturating_add(below[node]);
                }
            }
            active[at] += 1;
        }
        todo.push(Visit::Leave);
        todo.extend(children.of_node(node).map(Visit::Enter));
    }
    weights.into_iter().zip(found).collect()
}

enum Visit {
    Enter(usize),
    Leave,
}

/// For each node what it and all below it counted; what is muted counts nothing.
fn sums(whole: &Thread, weight: Weight) -> Vec<u64> {
    let mut sums = own(whole, weight);
    // Parents come before children, so backwards each is complete when it is added.
    for (at, node) in whole.nodes.iter().enumerate().rev() {
        match node.parent {
            Some(parent) if node.label != Label::MUTED => {
                let sum = sums[parent as usize].saturating_add(sums[at]);
                sums[parent as usize] = sum;
            }
            _ => {}
        }
    }
    sums
}

/// Children of nodes, as lists that each node begins.
struct Children {
    first_root: Option<u32>,
    first: Vec<Option<u32>>,
    /// The next child of the same parent.
    next: Vec<Option<u32>>,
}

impl Children {
    fn of(thread: &Thread) -> Children {
        let nodes = &thread.nodes;
        let mut children = Children {
            first_root: None,
            first: vec![None; nodes.len()],
            next: vec![None; nodes.len()],
        };
        for (at, node) in nodes.iter().enumerate().rev() {
            let first = match node.parent {
                Some(parent) => &mut children.first[parent as usize],
                None => &mut children.first_root,
            };
            children.next[at] = first.replace(at as u32);
        }
        children
    }

    fn list(&self, first: Option<u32>) -> impl Iterator<Item = usize> {
        let next = |&node: &u32| self.next[node as usize];
        std::iter::successors(first, next).map(|node| node as usize)
    }

    fn roots(&self) -> impl Iterator<Item = usize> {
        self.list(self.first_root)
    }

    fn of_node(&self, node: usize) -> impl Iterator<Item = usize> {
        self.list(self.first[node])
    }
}
