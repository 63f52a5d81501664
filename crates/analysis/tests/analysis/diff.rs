//! Comparisons of random recordings, held against a slow definition: maps from
//! paths, spelled out, to counts.

use std::collections::BTreeMap;

use analysis::cct::{Event, Recursion};
use analysis::diff::{Diff, Identity, METRICS, Metric, Pair};
use analysis::{K, NodeId, oracle, summary};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::{Function, Label, Meta, Mode, Module, Node, Process, Recording, Thread};

/// A second figure, which special labels have too.
const WEIGHT: Metric = Metric {
    name: "weight",
    of_node: |thread, at| weight(&thread.nodes[at]),
    of_thread: |thread| thread.nodes.iter().map(weight).sum::<u64>() + thread.max_depth,
    rest: Label::MUTED,
    is_recorded: |_| true,
};

fn weight(node: &Node) -> u64 {
    node.count.saturating_mul(3) + 1
}

fn metrics() -> [Metric; 2] {
    [METRICS[0], WEIGHT]
}

fn events(u: &mut Unstructured<'_>) -> Result<Vec<Event>> {
    let mut events = vec![Event::Begin(Label::THREAD)];
    for _ in 0..u.int_in_range(0..=60)? {
        events.push(match u.int_in_range(0..=19)? {
            0 => Event::Begin(Label::signal(u.int_in_range(1..=2)?)),
            1..=12 => Event::Enter(Label(256 + u.int_in_range(0..=5)?)),
            _ => Event::Leave,
        });
    }
    Ok(events)
}

fn thread(u: &mut Unstructured<'_>, k: K) -> Result<Thread> {
    let mut thread = match u.int_in_range(0..=9)? {
        0 => Thread::default(),
        _ => oracle::record(&events(u)?, k, Recursion::Rolled),
    };
    thread.max_depth = u.int_in_range(0..=3)?;
    thread.truncated_events = u.int_in_range(0..=3)?;
    // Not what an engine writes, but a file may say it.
    if u.int_in_range(0..=9)? == 0 && !thread.nodes.is_empty() {
        let at = u.int_in_range(0..=thread.nodes.len() - 1)?;
        thread.nodes[at].label = Label::MUTED;
    }
    Ok(thread)
}

fn process(u: &mut Unstructured<'_>, k: K) -> Result<Process> {
    let modules = ["/bin/prog", "/lib/libc.so.6", "/other/lib/libc.so.6"].map(|path| Module {
        path: path.into(),
        ..Module::default()
    });
    let mut functions = Vec::new();
    for id in 256..261 {
        functions.push(Function {
            id,
            pc: u.int_in_range(0..=1 << 40)?,
            module: u.choose(&[None, Some(0), Some(1), Some(2)]).copied()?,
            file_offset: u.int_in_range(0..=2)?,
            name: u.choose(&[None, Some("a"), Some("b")])?.map(String::from),
            ..Function::default()
        });
    }
    let mut threads = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        threads.push(thread(u, k)?);
    }
    Ok(Process {
        pid: u.arbitrary()?,
        exe: (*u.choose(&["/bin/prog", "/usr/bin/prog", "/bin/child"])?).into(),
        modules: modules.into(),
        functions,
        threads,
        ..Process::default()
    })
}

fn recording(u: &mut Unstructured<'_>, k: K) -> Result<Recording> {
    let mut processes = vec![process(u, k)?];
    processes[0].exe = "/bin/prog".into();
    for _ in 0..u.int_in_range(0..=2)? {
        processes.push(process(u, k)?);
    }
    let meta = Meta {
        mode: Mode::Contexts,
        ..Meta::default()
    };
    Ok(Recording {
        meta,
        processes,
        denied: Vec::new(),
        natives: Vec::new(),
    })
}

/// Checks `property` on random pairs of recordings.
fn check(property: impl Fn(&Recording, &Recording)) {
    arbtest(|u| {
        let k = *u.choose(&[K::Finite(1), K::Finite(2), K::Finite(4), K::Infinite])?;
        let (before, after) = (recording(u, k)?, recording(u, k)?);
        property(&before, &after);
        Ok(())
    })
    .budget_ms(500);
}

/// Spelled out: what [`Identity`] says in a type.
fn spell(process: &Process, label: Label) -> String {
    let Some(function) = process.function(label) else {
        return match label.is_function() {
            true => "nowhere".into(),
            false => label.to_string(),
        };
    };
    let module = process.module_of(function);
    let module = module.map(|module| module.path.rsplit('/').next().unwrap());
    match (&function.name, module) {
        (Some(name), module) => format!("{}!{name}", module.unwrap_or("")),
        (None, Some(module)) => format!("{module}+{}", function.file_offset),
        (None, None) => "nowhere".into(),
    }
}

type Counts = BTreeMap<String, u64>;

/// Path to count, and function to count: one look from every node to its root.
fn slow(recording: &Recording, metric: &Metric) -> (Counts, Counts) {
    let (mut paths, mut functions) = (Counts::new(), Counts::new());
    for process in &recording.processes {
        let program = process.exe.rsplit('/').next().unwrap();
        for thread in &process.threads {
            let mut left = (metric.of_thread)(thread);
            for (at, node) in thread.nodes.iter().enumerate() {
                let value = (metric.of_node)(thread, at);
                let mut nodes = vec![node];
                while let Some(parent) = nodes[nodes.len() - 1].parent {
                    nodes.push(&thread.nodes[parent as usize]);
                }
                if nodes.iter().any(|node| node.label == Label::MUTED) || value == 0 {
                    continue;
                }
                let root = nodes[nodes.len() - 1];
                let mut frames = vec![program.to_string()];
                if root.label.is_function() && root.count == 0 {
                    frames.push("unknown".into());
                }
                nodes.reverse();
                let calls = nodes
                    .iter()
                    .filter(|node| ![Label::THREAD, Label::ROOT].contains(&node.label));
                frames.extend(calls.map(|node| spell(process, node.label)));
                left -= value;
                *functions
                    .entry(frames[frames.len() - 1].clone())
                    .or_default() += value;
                *paths.entry(frames.join(";")).or_default() += value;
            }
            if left > 0 && thread.nodes.is_empty() {
                *functions.entry(program.into()).or_default() += left;
                *paths.entry(program.into()).or_default() += left;
            } else if left > 0 {
                let rest = metric.rest.to_string();
                *paths.entry(format!("{program};{rest}")).or_default() += left;
                *functions.entry(rest).or_default() += left;
            }
        }
    }
    (paths, functions)
}

fn spelled(identity: &Identity) -> String {
    match *identity {
        Identity::Named { name, module } => format!("{}!{name}", module.unwrap_or("")),
        Identity::At { module, offset } => format!("{module}+{offset}"),
        Identity::Nowhere => "nowhere".into(),
        Identity::Unknown => "unknown".into(),
        Identity::Special(label) => label.to_string(),
        Identity::Program(name) => name.into(),
    }
}

/// Spelled out, those that are not zero.
fn contexts(diff: &Diff, value: impl Fn(NodeId) -> Pair) -> BTreeMap<String, Pair> {
    let path = |node| {
        let ancestors = diff.contexts.ancestors(node);
        let mut path: Vec<String> = ancestors
            .map(|node| spelled(&diff.frame(node).identity))
            .collect();
        path.reverse();
        path.join(";")
    };
    let rows = diff.contexts.nodes().map(|node| (path(node), value(node)));
    rows.filter(|(_, value)| !value.is_zero()).collect()
}

fn functions(diff: &Diff, metric: usize) -> BTreeMap<String, Pair> {
    let functions = diff.functions(metric).into_iter().map(|function| {
        let name = spelled(&diff.frames[function.frame].identity);
        (name, function.values[metric])
    });
    functions.filter(|(_, value)| !value.is_zero()).collect()
}

fn paired(before: &Counts, after: &Counts) -> BTreeMap<String, Pair> {
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for (path, &count) in before {
        pairs.entry(path.clone()).or_default().before += count;
    }
    for (path, &count) in after {
        pairs.entry(path.clone()).or_default().after += count;
    }
    pairs
}

#[test]
fn every_context_and_function_has_the_figures_of_the_definition() {
    check(|before, after| {
        let diff = Diff::new(before, after, &metrics());
        for (at, metric) in metrics().iter().enumerate() {
            let (paths_before, functions_before) = slow(before, metric);
            let (paths_after, functions_after) = slow(after, metric);
            assert_eq!(
                contexts(&diff, |node| diff.own(at, node)),
                paired(&paths_before, &paths_after)
            );
            assert_eq!(
                functions(&diff, at),
                paired(&functions_before, &functions_after)
            );
        }
    });
}

#[test]
fn a_subtree_counts_what_is_below() {
    check(|before, after| {
        let diff = Diff::new(before, after, &metrics());
        for metric in 0..2 {
            let mut expected = BTreeMap::<String, Pair>::new();
            for (path, value) in contexts(&diff, |node| diff.own(metric, node)) {
                let ends = path.match_indices(';').map(|(at, _)| at);
                for end in ends.chain([path.len()]) {
                    expected.entry(path[..end].into()).or_default().add(value);
                }
            }
            let subtrees = contexts(&diff, |node| diff.with_callees(metric, node));
            assert_eq!(subtrees, expected);
        }
    });
}

#[test]
fn everything_adds_up_to_the_totals_of_the_recordings() {
    check(|before, after| {
        let diff = Diff::new(before, after, &metrics());
        let events = |recording| summary::of_recording(recording).events;
        let (before, after) = (events(before), events(after));
        assert_eq!(diff.totals[0], Pair { before, after });
        for (metric, total) in diff.totals.iter().enumerate() {
            let mut sums = [Pair::default(); 3];
            let mut change = 0;
            for node in diff.contexts.nodes() {
                let own = diff.own(metric, node);
                sums[0].add(own);
                change += own.change();
                if diff.contexts.parent(node).is_none() {
                    sums[1].add(diff.with_callees(metric, node));
                }
            }
            for function in diff.functions(metric) {
                sums[2].add(function.values[metric]);
            }
            assert_eq!(sums, [*total; 3]);
            assert_eq!(change, total.change());
        }
    });
}

#[test]
fn the_other_way_round_every_sign_changes() {
    let turned = |(name, value): (String, Pair)| {
        let Pair { before, after } = value;
        let turned = Pair {
            before: after,
            after: before,
        };
        assert_eq!(turned.change(), -value.change());
        (name, turned)
    };
    check(|before, after| {
        let there = Diff::new(before, after, &metrics());
        let back = Diff::new(after, before, &metrics());
        for metric in 0..2 {
            let all = |diff: &Diff| {
                let mut all = functions(diff, metric);
                all.extend(contexts(diff, |node| diff.own(metric, node)));
                all
            };
            let expected: BTreeMap<String, Pair> = all(&there).into_iter().map(turned).collect();
            assert_eq!(all(&back), expected);
        }
    });
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    check(|recording, _| {
        let diff = Diff::new(recording, recording, &metrics());
        for metric in 0..2 {
            assert_eq!(diff.sizes(metric).total(), 0);
            assert_eq!(diff.totals[metric].change(), 0);
        }
    });
}

/// Addresses, process ids, the order of functions and of threads, and where a
/// file lies are nothing that changed.
#[test]
fn what_differs_from_run_to_run_is_no_difference() {
    check(|before, _| {
        let mut after = before.clone();
        for process in &mut after.processes {
            process.pid = process.pid.wrapping_add(7);
            process.exe = format!("/elsewhere{}", process.exe);
            process.threads.reverse();
            for module in &mut process.modules {
                module.path = format!("/elsewhere{}", module.path);
            }
            // Ids from 256 to 260 come in the other order; 261 is in no table.
            let turn = |label: Label| match label.0 {
                id @ 256..=260 => Label(516 - id),
                id => Label(id),
            };
            for function in &mut process.functions {
                function.id = turn(Label(function.id)).0;
                function.pc += 0x1000;
            }
            process.functions.reverse();
            for node in process.threads.iter_mut().flat_map(|t| &mut t.nodes) {
                node.label = turn(node.label);
            }
        }
        let diff = Diff::new(before, &after, &metrics());
        assert_eq!(diff.sizes(0).total(), 0);
        assert_eq!(diff.sizes(1).total(), 0);
    });
}
