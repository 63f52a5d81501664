//! Call graphs of random traces: against the slow definition, and against what
//! they promise, for several k, recursion rolled and unrolled.

use std::collections::{BTreeMap, BTreeSet};

use analysis::callgraph::{self, CallGraph, Caller};
use analysis::cct::{Event, Recursion};
use analysis::{Forest, K, Weight, activations, oracle};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::Label;

fn events(u: &mut Unstructured<'_>) -> Result<Vec<Event>> {
    let functions: u32 = u.int_in_range(1..=6)?;
    let mut events = Vec::new();
    if u.arbitrary()? {
        events.push(Event::Begin(Label::THREAD));
    }
    for _ in 0..u.int_in_range(0..=100)? {
        events.push(match u.int_in_range(0..=19)? {
            0 => Event::Begin(Label::signal(10)),
            1..=12 => Event::Enter(Label(256 + u.int_in_range(0..=functions - 1)?)),
            _ => Event::Leave,
        });
    }
    Ok(events)
}

/// Checks `property` on forests of random traces and their call graphs.
fn check(property: impl Fn(&Forest, &CallGraph)) {
    arbtest(|u| {
        let events = events(u)?;
        for recursion in [Recursion::Rolled, Recursion::Unrolled] {
            for k in [K::Finite(1), K::Finite(2), K::Finite(5), K::Infinite] {
                let forest = activations(&oracle::record(&events, k, recursion));
                let graph = callgraph::of(&forest, &[Weight::Calls], |label| label);
                property(&forest, &graph);
            }
        }
        Ok(())
    })
    .budget_ms(400);
}

#[test]
fn it_is_that_of_the_definition() {
    check(|forest, graph| assert_eq!(*graph, oracle::call_graph(forest)));
}

/// Sum of the counts with a label that `is_one` takes anywhere on its path.
fn below(forest: &Forest, is_one: impl Fn(Label) -> bool) -> u64 {
    let has_one = |node| {
        let mut labels = forest.ancestors(node).map(|node| forest.label(node));
        labels.any(&is_one)
    };
    let nodes = forest.nodes().filter(|&node| has_one(node));
    nodes
        .map(|node| callgraph::value(forest, Weight::Calls, node))
        .sum()
}

#[test]
fn edges_into_a_function_are_its_inclusive_value() {
    check(|forest, graph| {
        let mut into: BTreeMap<Label, u64> = BTreeMap::new();
        for ((_, callee), call) in &graph.calls {
            *into.entry(*callee).or_default() += call.inclusive[0];
        }
        for (callee, sum) in into {
            assert_eq!(sum, below(forest, |label| label == callee));
        }
        let own: u64 = graph.own.values().map(|own| own[0]).sum();
        assert_eq!(own, below(forest, |_| true));
    });
}

#[test]
fn edges_into_and_out_of_a_cycle_are_its_inclusive_value() {
    check(|forest, graph| {
        let known = graph.calls.keys().filter_map(|key| match key.0 {
            Caller::Known(caller) => Some((caller, key.1)),
            Caller::Unknown => None,
        });
        let edges: Vec<(Label, Label)> = known.collect();
        let reach = |from: Label| {
            let mut reached = BTreeSet::from([from]);
            while let Some(&(_, next)) = edges
                .iter()
                .find(|(a, b)| reached.contains(a) && !reached.contains(b))
            {
                reached.insert(next);
            }
            reached
        };
        for &label in graph.own.keys().filter(|label| label.is_function()) {
            let ahead = reach(label).into_iter();
            let cycle: BTreeSet<Label> = ahead
                .filter(|&other| reach(other).contains(&label))
                .collect();
            let (mut into, mut out) = (0, 0);
            for ((caller, callee), call) in &graph.calls {
                let inside = matches!(caller, Caller::Known(label) if cycle.contains(label));
                match (inside, cycle.contains(callee)) {
                    (false, true) => into += call.inclusive[0],
                    (true, false) => out += call.inclusive[0],
                    _ => {}
                }
            }
            let own: u64 = cycle.iter().map(|label| graph.own[label][0]).sum();
            let inclusive = below(forest, |label| cycle.contains(&label));
            assert_eq!((into, own + out), (inclusive, inclusive));
        }
    });
}
