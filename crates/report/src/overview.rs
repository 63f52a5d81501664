//! The first screen of the default report: costs of functions, and the paths to them, of all
//! threads together or of one.
//!
//! Functions of several processes are one if they have the same name, file and module.
//! Processes of a launcher ([`analysis::launcher`]) are summed up, unless they are asked for.

use std::collections::{BTreeMap, HashMap};

use analysis::hot_paths::{self, Line};
use analysis::profile::{self, FunctionCost, Profile};
use analysis::{Forest, Weight, launcher, summary};
use trace::{Cost, Label, Process, Recording};

use crate::View;
use crate::frames::{Frames, Known, twins};
use crate::names::base_name;
use crate::stacks::Frame;

/// Functions and paths of some threads.
pub struct Overview<'a> {
    /// Process and thread, if it is about one thread.
    pub thread: Option<(usize, usize)>,
    /// The functions by the numbers of their labels.
    pub frames: Vec<Known<'a>>,
    /// Hottest first; more than are shown.
    pub functions: Vec<FunctionCost>,
    /// Contexts without recursion.
    pub forest: Forest,
    /// Lines of `forest`; empty where the costs of paths are not known.
    pub paths: Vec<Line>,
    /// Inclusive cost of each node of `forest`; empty like the paths.
    pub inclusive: Vec<u64>,
    pub launcher: Option<Launcher>,
    /// Totals by weight, launcher included.
    pub totals: Vec<u64>,
}

/// Sums over the processes that ran before the program.
pub struct Launcher {
    pub processes: usize,
    /// Names of its programs, each once.
    pub programs: Vec<String>,
    pub own: Vec<u64>,
}

/// A program and what its processes counted.
pub struct Program {
    pub name: String,
    pub processes: usize,
    pub threads: usize,
    pub total: u64,
    pub is_launcher: bool,
}

/// The overviews that `view` wants; the first of `weights` makes functions hot.
pub fn of<'a>(recording: &'a Recording, weights: &[Weight], view: &View) -> Vec<Overview<'a>> {
    let is_launcher = match view.launcher {
        true => vec![false; recording.processes.len()],
        false => launcher::processes(&recording.processes),
    };
    let counted = counted(recording);
    if view.per_thread {
        let all = counted.iter();
        let all = all.map(|&thread| overview(recording, &[thread], &[thread], weights, view));
        return all
            .zip(&counted)
            .map(|(overview, &thread)| Overview {
                thread: Some(thread),
                ..overview
            })
            .collect();
    }
    let all = counted;
    let (before, threads): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|&(at, _)| is_launcher[at]);
    let launcher = (!before.is_empty()).then(|| Launcher {
        processes: is_launcher.iter().filter(|&&is| is).count(),
        programs: names(recording, &before),
        own: in_contexts(recording, &before, weights),
    });
    vec![Overview {
        launcher,
        ..overview(recording, &threads, &all, weights, view)
    }]
}

/// Programs by what they counted, the costliest first.
pub fn programs(recording: &Recording, weight: Weight) -> Vec<Program> {
    let launcher = launcher::processes(&recording.processes);
    let mut programs: BTreeMap<(bool, &str), Program> = BTreeMap::new();
    for (process, is_launcher) in recording.processes.iter().zip(launcher) {
        let name = process.program();
        let entry = programs.entry((is_launcher, name));
        let program = entry.or_insert_with(|| Program {
            name: name.to_owned(),
            processes: 0,
            threads: 0,
            total: 0,
            is_launcher,
        });
        program.processes += 1;
        program.threads += process.threads.len();
        let total = summary::of_process(process).of(weight);
        program.total = program.total.saturating_add(total);
    }
    let mut programs: Vec<Program> = programs.into_values().collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.total));
    programs
}

/// Threads that counted anything.
fn counted(recording: &Recording) -> Vec<(usize, usize)> {
    let threads = |(at, process): (usize, &Process)| {
        let threads = (0..).zip(&process.threads);
        let counted = threads.filter(|(_, thread)| !thread.nodes.is_empty());
        counted
            .map(|(thread, _)| (at, thread))
            .collect::<Vec<(usize, usize)>>()
    };
    (0..).zip(&recording.processes).flat_map(threads).collect()
}

fn names(recording: &Recording, threads: &[(usize, usize)]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for &(process, _) in threads {
        let name = recording.processes[process].program();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn totals(recording: &Recording, threads: &[(usize, usize)], weights: &[Weight]) -> Vec<u64> {
    let threads = threads
        .iter()
        .map(|&(process, thread)| &recording.processes[process].threads[thread]);
    let totals: Vec<summary::Totals> = threads.map(summary::costs_of_thread).collect();
    let sum = |&weight: &Weight| {
        let values = totals.iter().map(|totals| totals.of(weight));
        values.fold(0, u64::saturating_add)
    };
    weights.iter().map(sum).collect()
}

/// Totals without the instructions that belong to no context, as in the rows of functions.
fn in_contexts(recording: &Recording, threads: &[(usize, usize)], weights: &[Weight]) -> Vec<u64> {
    let threads_of = threads
        .iter()
        .map(|&(process, thread)| &recording.processes[process].threads[thread]);
    let outside = threads_of.map(|thread| summary::costs_of_thread(thread).insns_outside);
    let outside = outside.fold(0, u64::saturating_add);
    let totals = totals(recording, threads, weights);
    let pairs = weights.iter().zip(totals);
    pairs
        .map(|(&weight, total)| match weight {
            Weight::Cost(Cost::Instructions) => total.saturating_sub(outside),
            _ => total,
        })
        .collect()
}

/// Functions and paths of `threads`, whose shares are those of `all`.
fn overview<'a>(
    recording: &'a Recording,
    threads: &[(usize, usize)],
    all: &[(usize, usize)],
    weights: &[Weight],
    view: &View,
) -> Overview<'a> {
    let mut frames = Frames::default();
    let mut same: HashMap<usize, HashMap<Label, Label>> = HashMap::new();
    let keeps_callers = recording.meta.k != Some(0);
    let has_paths = view.ksf && keeps_callers;
    let number = |at: usize, label| {
        let process = &recording.processes[at];
        let twins = same.entry(at).or_insert_with(|| twins(process));
        let label = twins.get(&label).copied().unwrap_or(label);
        Label::function(frames.number(at, process, Frame::Label(label)) as u32)
    };
    let profile = profile::of(recording, threads, weights, has_paths, number);
    let Profile {
        mut functions,
        paths: forest,
    } = profile;
    add_truncated(
        &mut functions,
        weights,
        &totals(recording, threads, weights),
    );
    if !keeps_callers {
        functions
            .iter_mut()
            .for_each(|function| function.inclusive = None);
    }
    functions.retain(|function| function.label != Label::MUTED);
    functions.sort_by_key(|function| (std::cmp::Reverse(function.own[0]), function.label));
    let totals = self::totals(recording, all, weights);
    let frames = frames.list;
    let inclusive = forest.inclusive(weights[0]).unwrap_or_default();
    let paths = match inclusive[..] {
        [] => Vec::new(),
        _ => hot_paths::of(&forest, &inclusive, limits(view, totals[0]), |label| {
            is_startup(&frames, label)
        }),
    };
    Overview {
        thread: None,
        frames,
        functions,
        forest,
        paths,
        inclusive,
        launcher: None,
        totals,
    }
}

/// Adds the calls beyond the limit of nodes, which no function has.
fn add_truncated(functions: &mut Vec<FunctionCost>, weights: &[Weight], totals: &[u64]) {
    let Some(at) = weights.iter().position(|&weight| weight == Weight::Calls) else {
        return;
    };
    let known = functions.iter().map(|function| function.own[at]);
    let left = totals[at].saturating_sub(known.fold(0, u64::saturating_add));
    let is_truncated = |function: &FunctionCost| function.label == Label::TRUNCATED;
    match functions.iter_mut().find(|function| is_truncated(function)) {
        Some(truncated) => truncated.own[at] = left,
        None if left > 0 => {
            let value = |of| if of == at { left } else { 0 };
            let own: Vec<u64> = (0..weights.len()).map(value).collect();
            let is_whole = functions
                .iter()
                .all(|function| function.inclusive.is_some());
            functions.push(FunctionCost {
                label: Label::TRUNCATED,
                inclusive: is_whole.then(|| own.clone()),
                own,
            });
        }
        None => {}
    }
}

fn limits(view: &View, total: u64) -> hot_paths::Limits {
    let hot = view.hot.unwrap_or_default();
    hot_paths::Limits {
        lines: hot.top,
        min: (hot.paths_min_percent / 100.0 * total as f64).ceil() as u64,
        depth: hot.depth,
    }
}

/// Functions of the C library that only call a program's or a thread's first function.
const STARTUP: [&str; 8] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "thread_start",
];

fn is_startup(frames: &[Known], label: Label) -> bool {
    let Some(number) = label.function_number() else {
        return label == Label::THREAD || label == Label::ROOT;
    };
    let known = &frames[number as usize];
    let module = base_name(known.module.unwrap_or_default());
    // The dynamic linker's entry jumps to the program's; often it has no symbol.
    let is_linker = module.starts_with("ld-linux") || module.starts_with("ld-musl");
    // A version follows the name in some symbol tables: `__libc_start_main@@GLIBC_2.34`.
    let name = known.name.split('@').next().unwrap_or_default();
    STARTUP.contains(&name) || is_linker && name.starts_with(&format!("{module}+0x"))
}
