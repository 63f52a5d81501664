//! Whole contexts folded to those of k callers: node for node what a run with that k
//! records, and inclusive costs as single-stepping has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analysis::fold::{self, Fold};
use analysis::{Forest, K, Weight, oracle};
use testkit::build::Built;
use testkit::program::Program;
use trace::{Cost, Label, Process, Recording};

use super::{SHOWN, comparable, counted, product_run};

/// Recursion direct, mutual and through pointers, `longjmp`, threads, handlers.
pub const PROGRAMS: [&str; 4] = [
    "contexts_inclusive",
    "contexts_recursion",
    "contexts_signals",
    "flow_longjmp",
];

const KS: [u32; 4] = [0, 1, 2, 4];

/// Calls, instructions, branches, loads, stores.
type Values = [u64; 5];
type ByPath = BTreeMap<Vec<String>, Values>;

const WEIGHTS: [Weight; 5] = [
    Weight::Calls,
    Weight::Cost(Cost::Instructions),
    Weight::Cost(Cost::Branches),
    Weight::Cost(Cost::Loads),
    Weight::Cost(Cost::Stores),
];

pub fn check(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    let run = product_run(program, built, product);
    let counts = counted(program, built, false)?;
    let record = |words: &[&str]| {
        let costs = ["--cost", "branches,loads,stores"];
        let words = words.iter().chain(&costs);
        run.contexts(&words.map(|&word| word.to_owned()).collect::<Vec<_>>())
    };
    let whole = record(&["--k-inf"])?;
    // A C library's instructions are not the same natively, see `super::all_functions`.
    let own_code = program.directives.build.iter().any(|w| w == "-nostdlib");
    let compared = |costs: ByPath| -> ByPath {
        let calls = costs
            .into_iter()
            .map(|(path, [calls, ..])| (path, [calls, 0, 0, 0, 0]));
        calls.filter(|(_, costs)| *costs != [0; 5]).collect()
    };
    for k in KS {
        let fold = Fold::new(&whole, k);
        let live = record(&["-k", &k.to_string()])?;
        let context = |error| format!("k = {k}: {error}");
        same(&own(&fold.recording), &own(&live)).map_err(context)?;
        let (slabs, callers) = inclusive(&fold, k);
        let mut found = [slabs, callers];
        let mut expected = [oracle::slab_paths, oracle::caller_paths].map(|paths| {
            let named = counts.inclusive(k, paths).into_iter();
            joined(named.map(|(path, values)| (named_alike(&path), values)))
        });
        if !own_code {
            found = found.map(compared);
            expected = expected.map(compared);
        }
        for (found, expected) in found.iter().zip(&expected) {
            same(found, expected).map_err(|error| format!("inclusive, k = {k}: {error}"))?;
        }
    }
    Ok(())
}

fn named_alike(path: &[String]) -> Vec<String> {
    path.iter().map(|name| comparable(name)).collect()
}

/// By names, with those of one name added up.
fn joined(values: impl Iterator<Item = (Vec<String>, Values)>) -> ByPath {
    let mut sums = ByPath::new();
    for (path, values) in values.filter(|(_, values)| *values != [0; 5]) {
        let sum = sums.entry(path).or_default();
        *sum = std::array::from_fn(|at| sum[at] + values[at]);
    }
    sums
}

fn path(process: &Process, forest: &Forest, node: analysis::NodeId) -> Vec<String> {
    let name = |label: Label| report::names::label_name(process, label);
    let mut path: Vec<String> = forest
        .ancestors(node)
        .map(|node| comparable(&name(forest.label(node))))
        .collect();
    path.reverse();
    path
}

/// Exclusive costs of each node.
fn own(recording: &Recording) -> ByPath {
    let threads = recording.processes.iter().flat_map(|process| {
        let forests = process.threads.iter().map(analysis::activations);
        forests.map(move |forest| (process, forest))
    });
    let threads: Vec<(&Process, Forest)> = threads.collect();
    joined(threads.iter().flat_map(|(process, forest)| {
        forest.nodes().map(move |node| {
            let values = WEIGHTS.map(|weight| forest.weight(weight, node));
            (path(process, forest, node), values)
        })
    }))
}

/// Inclusive costs of the nodes of the k-SF and of the k-CCF.
fn inclusive(fold: &Fold, k: u32) -> (ByPath, ByPath) {
    let (mut slabs, mut callers) = (Vec::new(), Vec::new());
    for (at, process) in fold.recording.processes.iter().enumerate() {
        for thread in 0..process.threads.len() {
            let folded = fold.thread(at, thread);
            let ksf = folded.ksf();
            let kccf = analysis::kccf(&ksf, K::Finite(k));
            let kccf = fold::callers_with_inclusive(&kccf, [folded]);
            for (forest, list) in [(ksf, &mut slabs), (kccf, &mut callers)] {
                let all = WEIGHTS.map(|weight| forest.inclusive(weight).unwrap_or_default());
                for node in forest.nodes() {
                    let values = all.each_ref().map(|values| values[node.index()]);
                    list.push((path(process, &forest, node), values));
                }
            }
        }
    }
    (joined(slabs.into_iter()), joined(callers.into_iter()))
}

fn same(found: &ByPath, expected: &ByPath) -> Result<(), String> {
    let paths: BTreeSet<&Vec<String>> = found.keys().chain(expected.keys()).collect();
    let differences = paths.into_iter().filter_map(|path| {
        let (found, expected) = (found.get(path), expected.get(path));
        (found != expected)
            .then(|| format!("{}: {found:?}, expected {expected:?}", path.join(" > ")))
    });
    let differences: Vec<String> = differences.take(SHOWN).collect();
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join("\n")),
    }
}
