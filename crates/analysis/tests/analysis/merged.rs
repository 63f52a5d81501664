//! One tree for all threads, held against its definition: the paths of each
//! thread's recorded nodes, one by one, with what was counted there.

use std::collections::{BTreeMap, BTreeSet};

use analysis::cct::{Event, Recursion};
use analysis::merged::{self, Contexts, Name, OfThread};
use analysis::{K, oracle, summary};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::{Function, Label, Module, Node, Process, Recording, Thread};

/// A function by its place in the only file, or a special label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Function(u64),
    Special(Label),
}

type Paths = BTreeMap<Vec<Step>, u64>;

const FUNCTIONS: u32 = 5;

fn events(u: &mut Unstructured<'_>, first_id: u32) -> Result<Vec<Event>> {
    let mut events = vec![Event::Begin(Label::THREAD)];
    for _ in 0..u.int_in_range(0..=80)? {
        events.push(match u.int_in_range(0..=19)? {
            0 => Event::Begin(Label::signal(10)),
            1..=12 => Event::Enter(Label(first_id + u.int_in_range(0..=FUNCTIONS - 1)?)),
            _ => Event::Leave,
        });
    }
    Ok(events)
}

/// Two images of one file, which number its functions differently.
fn recording(u: &mut Unstructured<'_>) -> Result<Recording> {
    let k = match u.int_in_range(0..=4)? {
        0 => K::Infinite,
        k => K::Finite(k),
    };
    let mut processes = Vec::new();
    for first_id in [256, 300] {
        let function = |at| Function {
            id: first_id + at,
            module: Some(0),
            file_offset: u64::from(at),
            ..Function::default()
        };
        let mut threads = Vec::new();
        for _ in 0..u.int_in_range(0..=3)? {
            let events = events(u, first_id)?;
            threads.push(oracle::record(&events, k, Recursion::Rolled));
        }
        processes.push(Process {
            modules: vec![Module {
                path: "/bin/a".into(),
                ..Module::default()
            }],
            functions: (0..FUNCTIONS).map(function).collect(),
            threads,
            ..Process::default()
        });
    }
    Ok(Recording {
        processes,
        ..Recording::default()
    })
}

fn is_called(label: Label) -> bool {
    label.is_function() || label == Label::TRUNCATED
}

/// The definition. `called`: calls, or else how often something began.
fn paths(process: &Process, thread: &Thread, called: bool) -> Paths {
    let mut paths = Paths::new();
    for node in &thread.nodes {
        if node.count == 0 || is_called(node.label) != called {
            continue;
        }
        let mut path = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            path.insert(
                0,
                match process.function(node.label) {
                    Some(function) => Step::Function(function.file_offset),
                    None => Step::Special(node.label),
                },
            );
            at = node.parent.map(|parent| &thread.nodes[parent as usize]);
        }
        *paths.entry(path).or_insert(0) += node.count;
    }
    paths
}

/// The path of every node; that of one below [`Name::Unknown`] begins there.
fn paths_of_nodes(contexts: &Contexts, recording: &Recording) -> Vec<Vec<Step>> {
    let mut path: Vec<Option<Step>> = Vec::new();
    let mut paths = Vec::new();
    let mut seen = BTreeSet::new();
    for node in &contexts.nodes {
        assert!(
            node.depth as usize <= path.len(),
            "a child after its parent"
        );
        path.truncate(node.depth as usize);
        path.push(match node.name {
            Name::Unknown => None,
            Name::Special(label) => Some(Step::Special(label)),
            Name::Function(at) => {
                let place = contexts.functions[at as usize];
                let function = recording.processes[place.process].function(place.label);
                Some(Step::Function(function.unwrap().file_offset))
            }
        });
        assert!(seen.insert(path.clone()), "siblings are distinct");
        paths.push(path.iter().copied().flatten().collect());
    }
    paths
}

fn valued(paths: &[Vec<Step>], values: &[(u32, u64)]) -> Paths {
    assert!(values.is_sorted_by(|a, b| a.0 < b.0), "each node once");
    let value = |&(node, value): &(u32, u64)| (paths[node as usize].clone(), value);
    values.iter().map(value).collect()
}

#[test]
fn each_thread_keeps_its_contexts() {
    arbtest(|u| {
        let recording = recording(u)?;
        let contexts = merged::of_recording(&recording);
        let nodes = paths_of_nodes(&contexts, &recording);
        let mut shown = contexts.threads.iter();
        for (at, process) in recording.processes.iter().enumerate() {
            for (number, thread) in process.threads.iter().enumerate() {
                let merged: &OfThread = shown.next().unwrap();
                assert_eq!((merged.process, merged.thread), (at, number));
                assert_eq!(
                    valued(&nodes, &merged.values[0]),
                    paths(process, thread, true)
                );
                assert_eq!(valued(&nodes, &merged.begun), paths(process, thread, false));
                let calls: u64 = merged.values[0].iter().map(|&(_, value)| value).sum();
                assert_eq!(calls, summary::of_thread(thread).events);
            }
        }
        assert_eq!(shown.next(), None);
        let entered = summary::of_recording(&recording).functions;
        assert!(contexts.functions.len() as u64 >= entered);
        Ok(())
    });
}

#[test]
fn calls_without_a_node_are_counted_as_truncated() {
    let node = |label, parent, count| Node {
        label,
        parent,
        count,
        ..Node::default()
    };
    let thread = |nodes, truncated_events| Thread {
        nodes,
        truncated_events,
        ..Thread::default()
    };
    let process = Process {
        threads: vec![
            thread(
                vec![
                    node(Label::THREAD, None, 1),
                    node(Label(256), Some(0), 3),
                    node(Label::TRUNCATED, Some(0), 2),
                ],
                7,
            ),
            thread(Vec::new(), 9),
            thread(Vec::new(), 0),
        ],
        ..Process::default()
    };
    let recording = Recording {
        processes: vec![process],
        ..Recording::default()
    };
    let contexts = merged::of_recording(&recording);
    let values: Vec<_> = contexts
        .threads
        .iter()
        .map(|t| t.values[0].clone())
        .collect();
    assert_eq!(values, [vec![(1, 3), (2, 2), (3, 5)], vec![(3, 9)]]);
    let beyond = contexts.nodes[3];
    assert_eq!(
        (beyond.depth, beyond.name),
        (0, Name::Special(Label::TRUNCATED))
    );
    // A function that the recording does not describe keeps its label.
    assert_eq!(contexts.functions[0].label, Label(256));
}

#[test]
fn nothing_merges_to_nothing() {
    let contexts = merged::of_recording(&Recording::default());
    assert!(contexts.nodes.is_empty() && contexts.threads.is_empty());
}
