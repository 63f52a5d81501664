//! Whole contexts folded to k callers: against what is recorded with that k, and against
//! the definition of inclusive costs, on random traces with recursion and handlers.

use crate::common;

use std::collections::BTreeMap;

use analysis::cct::{Event, Recursion};
use analysis::fold::{self, Fold};
use analysis::{Forest, K, Weight, oracle};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::{Cost, Costs, Label, Process, Recording, Thread};

const INSTRUCTIONS: Weight = Weight::Cost(Cost::Instructions);

/// Events with what was spent after each.
fn spending(u: &mut Unstructured<'_>) -> Result<Vec<(Event, u64)>> {
    let events = common::events(u, 4, 90)?;
    let spent = |event| Ok((event, u.int_in_range(0..=9)?));
    events.into_iter().map(spent).collect()
}

/// The recording of one thread that counts what was spent as instructions.
fn recorded(spent: &[(Event, u64)], k: K, recursion: Recursion) -> Thread {
    let events: Vec<Event> = spent.iter().map(|&(event, _)| event).collect();
    let mut thread = oracle::record(&events, k, recursion);
    let mut values = vec![0; thread.nodes.len()];
    // Only the newest event of a prefix can change which nodes are counted how often.
    let mut stack = Vec::new();
    let mut before: Vec<u64> = Vec::new();
    for (at, &(event, cost)) in spent.iter().enumerate() {
        match event {
            Event::Leave => drop(stack.pop()),
            _ => {
                let counts = oracle::record(&events[..=at], k, recursion).nodes;
                let counts: Vec<u64> = counts.iter().map(|node| node.count).collect();
                let was = |node: usize| before.get(node).copied().unwrap_or(0);
                let state = (0..counts.len()).find(|&node| counts[node] > was(node));
                stack.push(state.expect("each event is counted once"));
                before = counts;
            }
        }
        values[*stack.last().expect("the thread has not ended")] += cost;
    }
    thread.insns = values.iter().sum();
    thread.costs = vec![Costs {
        cost: Cost::Instructions,
        values,
    }];
    thread
}

fn recording(threads: Vec<Thread>) -> Recording {
    Recording {
        processes: vec![Process {
            threads,
            ..Process::default()
        }],
        ..Recording::default()
    }
}

/// By path what nodes have: counters, costs, and their top nodes' paths.
type Nodes = BTreeMap<Vec<Label>, (u64, u64, Option<Vec<Label>>)>;

fn nodes(thread: &Thread) -> Nodes {
    let path = |at: u32| {
        let above = |&at: &u32| thread.nodes[at as usize].parent;
        let mut path: Vec<Label> = std::iter::successors(Some(at), above)
            .map(|at| thread.nodes[at as usize].label)
            .collect();
        path.reverse();
        path
    };
    let costs = thread.costs_of(Cost::Instructions).unwrap_or_default();
    let node = |at: usize| {
        let node = &thread.nodes[at];
        (path(at as u32), (node.count, costs[at], node.top.map(path)))
    };
    (0..thread.nodes.len()).map(node).collect()
}

fn by_path(forest: &Forest, weight: Weight) -> BTreeMap<Vec<Label>, u64> {
    let values = forest.inclusive(weight).expect("it is known");
    let path = |node| {
        let labels = forest.ancestors(node).map(|node| forest.label(node));
        let mut path: Vec<Label> = labels.collect();
        path.reverse();
        path
    };
    let nodes = forest.nodes();
    nodes
        .map(|node| (path(node), values[node.index()]))
        .filter(|&(_, value)| value > 0)
        .collect()
}

fn sum(lists: &[BTreeMap<Vec<Label>, u64>]) -> BTreeMap<Vec<Label>, u64> {
    let mut sums = BTreeMap::new();
    for (path, value) in lists.iter().flatten().filter(|&(_, &value)| value > 0) {
        *sums.entry(path.clone()).or_insert(0) += value;
    }
    sums
}

/// Two threads, folded for several k.
fn check(property: impl Fn([&[(Event, u64)]; 2], &Fold, u32, Recursion)) {
    arbtest(|u| {
        let (first, second) = (spending(u)?, spending(u)?);
        for recursion in [Recursion::Rolled, Recursion::Unrolled] {
            let threads = [&first, &second].map(|spent| recorded(spent, K::Infinite, recursion));
            let whole = recording(threads.into());
            for k in [0, 1, 2, 3, 5] {
                property([&first, &second], &Fold::new(&whole, k), k, recursion);
            }
        }
        Ok(())
    })
    .budget_ms(1500);
}

#[test]
fn it_is_what_that_k_records() {
    check(|spent, fold, k, recursion| {
        assert_eq!(fold.recording.meta.k, Some(k));
        for (at, spent) in spent.into_iter().enumerate() {
            let live = recorded(spent, K::Finite(k), recursion);
            let folded = fold.thread(0, at).thread;
            assert_eq!(nodes(folded), nodes(&live));
            assert_eq!(folded.insns, live.insns);
        }
    });
}

/// The calls of each event, in place of what was spent.
fn calls(spent: &[(Event, u64)]) -> Vec<(Event, u64)> {
    let call = |event| u64::from(matches!(event, Event::Enter(_)));
    let pairs = spent.iter().map(|&(event, _)| (event, call(event)));
    pairs.collect()
}

#[test]
fn inclusive_costs_are_those_of_the_definition() {
    check(|spent, fold, k, recursion| {
        for weight in [INSTRUCTIONS, Weight::Calls] {
            let spent = spent.map(|spent| match weight {
                Weight::Calls => calls(spent),
                Weight::Cost(_) => spent.to_vec(),
            });
            let expected = |paths: fn(&[Label], u32) -> Vec<Vec<Label>>| {
                spent
                    .each_ref()
                    .map(|spent| oracle::inclusive(spent, recursion, |path| paths(path, k)))
            };
            let slabs = expected(oracle::slab_paths);
            for (at, expected) in slabs.iter().enumerate() {
                let folded = fold.thread(0, at);
                let expected = sum(std::slice::from_ref(expected));
                assert_eq!(by_path(&folded.activations(), weight), expected);
                assert_eq!(by_path(&folded.ksf(), weight), expected);
            }
            let both = [0, 1].map(|at| fold.thread(0, at).ksf());
            let joined = analysis::join(&both);
            assert_eq!(by_path(&joined, weight), sum(&slabs));

            let kccf = analysis::kccf(&joined, K::Finite(k));
            let threads = [0, 1].map(|at| fold.thread(0, at));
            let callers = fold::callers_with_inclusive(&kccf, threads);
            assert_eq!(oracle::paths(&callers), oracle::paths(&kccf));
            let expected = sum(&expected(oracle::caller_paths));
            assert_eq!(by_path(&callers, weight), expected);
        }
    });
}

#[test]
fn they_never_grow_along_a_tree() {
    check(|_, fold, _, _| {
        for at in 0..2 {
            let ksf = fold.thread(0, at).ksf();
            let all = ksf.inclusive(INSTRUCTIONS).unwrap();
            for node in ksf.nodes() {
                let own = ksf.weight(INSTRUCTIONS, node);
                assert!(all[node.index()] >= own);
                if let Some(parent) = ksf.parent(node) {
                    assert!(all[parent.index()] >= all[node.index()]);
                }
            }
        }
    });
}
