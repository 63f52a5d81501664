//! From a recording to what a report needs of it, by asking `analysis`.

use analysis::callgraph;
use analysis::fold::{self, Fold};
use analysis::hot::{self, Limits};
use analysis::summary::Totals;
use analysis::{Forest, K, Weight, merged, summary, without_root};
use trace::{Cost, Label, Meta, Mode, Process, Recording};

use crate::{Direction, Report, Section, TIME, Tree, frames, overview};

/// Selection of the contents of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    /// Only what is hot, as trees for [`crate::text`]; `None`: everything, for
    /// [`crate::paper`] and [`crate::json`].
    pub hot: Option<Hot>,
    /// Contexts from their roots: the k-slab forests.
    pub ksf: bool,
    /// Callers of each function: the k-calling-context forests.
    pub kccf: bool,
    /// Every context from its root, for [`crate::folded`].
    pub stacks: bool,
    /// Functions and their calls, for [`crate::callgrind`].
    pub graph: bool,
    /// All threads in one tree, for [`crate::html`].
    pub merged: bool,
    /// One forest for all threads of a process together.
    pub join_threads: bool,
    /// How often everything was entered, for [`crate::xml`].
    pub counters: bool,
    /// At the end of [`crate::text`] and [`crate::paper`].
    pub tables: Tables,
    /// Metric by which contexts are hot; `None`: instructions, if they were counted.
    pub by: Option<Weight>,
    /// Each thread by itself, in [`crate::text`].
    pub per_thread: bool,
    /// The processes before the program with the others, in [`crate::text`].
    pub launcher: bool,
}

/// Tables of all that was entered: the functions, the basic blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    pub funcs: Option<Detail>,
    pub blocks: Option<Detail>,
}

/// Columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Name, address, counter.
    Plain,
    /// Its instructions, too.
    Disassembly,
}

/// Which contexts are hot enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hot {
    /// At most so many in the whole report; `None`: all.
    pub top: Option<usize>,
    /// Only those with at least this percentage of all calls.
    pub min_percent: f64,
    /// Only paths with at least this percentage of all, callees included.
    pub paths_min_percent: f64,
    /// Only those at most so deep below their root.
    pub depth: Option<u32>,
}

impl<'a> Report<'a> {
    /// Takes of `recording` what `view` shows.
    pub fn new(recording: &'a Recording, view: &View) -> Report<'a> {
        Report::of(recording, None, view)
    }

    /// Report of whole contexts that were folded, with their inclusive costs.
    pub fn folded(fold: &'a Fold<'a>, view: &View) -> Report<'a> {
        Report::of(&fold.recording, Some(fold), view)
    }

    fn of(recording: &'a Recording, fold: Option<&'a Fold<'a>>, view: &View) -> Report<'a> {
        let totals = summary::of_recording(recording);
        let metrics = metrics(recording);
        let by = view.by.filter(|by| metrics.contains(by));
        let by = by
            .or_else(|| hottest_by(&recording.meta, &metrics, &totals))
            .unwrap_or_default();
        let others = metrics.iter().copied().filter(|&metric| metric != by);
        let weights: Vec<Weight> = [by].into_iter().chain(others).collect();
        let sections = sections(recording, fold, view, &weights);
        let overviews = overviews(recording, fold, view, &weights);
        let wants_counters = view.counters || view.tables != Tables::default();
        let processes = recording.processes.iter().filter(|_| wants_counters);
        let mut report = Report {
            recording,
            tables: view.tables,
            listings: Vec::new(),
            stubs: Vec::new(),
            counters: processes.map(summary::of_labels).collect(),
            totals,
            hot: view.hot,
            metrics,
            by,
            sections,
            overviews,
            merged: view.merged.then(|| match fold {
                Some(fold) => merged::of_fold(fold),
                None => merged::of_recording(recording),
            }),
            folded_from: fold.map(|fold| summary::of_recording(fold.whole).contexts),
            stat_names: &[],
            full_names: false,
            hint: None,
            notes: [
                crate::denied::sentences(recording),
                crate::natives::sentences(recording),
            ]
            .concat(),
        };
        if let Some(hot) = view.hot {
            let limits = Limits {
                top: hot.top,
                min: (hot.min_percent / 100.0 * report.total(by) as f64).ceil() as u64,
                depth: hot.depth,
                by,
            };
            choose(&mut report.sections, limits);
        }
        report
    }
}

/// Whether the report opens with functions: contexts of basic blocks are of none.
fn has_overview(recording: &Recording, view: &View) -> bool {
    let meta = &recording.meta;
    view.hot.is_some() && meta.mode == Mode::Contexts && meta.blocks.is_none()
}

fn overviews<'a>(
    recording: &'a Recording,
    fold: Option<&'a Fold<'a>>,
    view: &View,
    weights: &[Weight],
) -> Vec<overview::Overview<'a>> {
    if !has_overview(recording, view) {
        return Vec::new();
    }
    let whole = fold.map_or(recording, |fold| fold.whole);
    // A fold shows a tree of the contexts of k callers instead.
    let ksf = view.ksf && fold.is_none();
    overview::of(whole, weights, &View { ksf, ..*view })
}

fn sections(
    recording: &Recording,
    fold: Option<&Fold>,
    view: &View,
    weights: &[Weight],
) -> Vec<Section> {
    let meta = &recording.meta;
    if meta.mode != Mode::Contexts {
        return Vec::new();
    }
    let is_uprooted = without_root::is_uprooted(meta);
    let has_overview = has_overview(recording, view);
    let processes = recording.processes.iter().enumerate();
    let of_process = |(at, process)| {
        let source = Source {
            at,
            process,
            k: K::from(meta.k),
            by_activations: meta.blocks.is_some() || is_uprooted,
            fold,
            has_paths: has_overview && fold.is_none() && meta.k.is_none() && !is_uprooted,
        };
        sections_of(&source, view, weights)
    };
    processes.flat_map(of_process).collect()
}

/// Default metric of hot contexts: time if it was asked for and there is any, then instructions, then cycles, then calls.
fn hottest_by(meta: &Meta, metrics: &[Weight], totals: &Totals) -> Option<Weight> {
    let [time, instructions] = [Cost::Time, Cost::Instructions].map(Weight::Cost);
    let is_asked = meta.options.iter().any(|(name, _)| name == TIME);
    if is_asked && totals.of(time) > 0 {
        return Some(time);
    }
    match metrics.contains(&instructions) {
        true => Some(instructions),
        false => metrics.last().copied(),
    }
}

/// Metrics that the contexts of a recording have.
fn metrics(recording: &Recording) -> Vec<Weight> {
    let threads = recording
        .processes
        .iter()
        .flat_map(|process| &process.threads);
    let is_known = |cost: &Cost| {
        threads
            .clone()
            .any(|thread| thread.costs_of(*cost).is_some())
    };
    let costs = Cost::ALL.into_iter().filter(|cost| is_known(cost));
    let costs: Vec<Cost> = costs.collect();
    [Weight::Calls]
        .into_iter()
        .chain(costs.into_iter().map(Weight::Cost))
        .collect()
}

/// A process, and how its forests are made.
struct Source<'a> {
    /// Its number.
    at: usize,
    process: &'a Process,
    k: K,
    /// Whether the k-CCF is made of activations.
    by_activations: bool,
    /// The fold that it comes from.
    fold: Option<&'a Fold<'a>>,
    /// Whether the overview shows its paths, in place of a tree.
    has_paths: bool,
}

impl Source<'_> {
    fn activations(&self, threads: &[usize]) -> Forest {
        joined(threads, |thread| match self.fold {
            Some(fold) => fold.thread(self.at, thread).activations(),
            None => analysis::activations(&self.process.threads[thread]),
        })
    }

    fn ksf(&self, threads: &[usize]) -> Forest {
        joined(threads, |thread| match self.fold {
            Some(fold) => fold.thread(self.at, thread).ksf(),
            None => analysis::ksf_from_recording(&self.process.threads[thread]),
        })
    }

    fn kccf(&self, threads: &[usize]) -> Forest {
        // The paper's way is not exact if roots are called, too, as blocks are.
        let kccf = match self.by_activations {
            true => analysis::kccf_of_activations(&self.activations(threads), self.k),
            false => analysis::kccf(&self.ksf(threads), self.k),
        };
        let Some(fold) = self.fold else { return kccf };
        let threads = threads.iter().map(|&thread| fold.thread(self.at, thread));
        fold::callers_with_inclusive(&kccf, threads)
    }

    /// Call graph of whole contexts, where there are any: it has no use for k.
    fn graph(&self, threads: &[usize], weights: &[Weight]) -> callgraph::CallGraph {
        let twins = frames::twins(self.process);
        let same = |label| twins.get(&label).copied().unwrap_or(label);
        let whole = joined(threads, |thread| {
            analysis::activations(match self.fold {
                Some(fold) => fold.thread(self.at, thread).whole,
                None => &self.process.threads[thread],
            })
        });
        let mut graph = callgraph::of(&whole, weights, same);
        if self.k == K::Finite(0) && self.fold.is_none() {
            // No callers were kept, so nothing is known of calls.
            graph.calls.clear();
        }
        graph
    }
}

/// The sections of one process: one per thread that counted anything, or one for all.
fn sections_of(source: &Source, view: &View, weights: &[Weight]) -> Vec<Section> {
    let process = source.process;
    let counted = |&thread: &usize| !process.threads[thread].nodes.is_empty();
    let threads: Vec<usize> = (0..process.threads.len()).filter(counted).collect();
    let groups: Vec<Vec<usize>> = match view.join_threads {
        true if threads.is_empty() => Vec::new(),
        true => vec![threads],
        false => threads.into_iter().map(|thread| vec![thread]).collect(),
    };
    let section = |threads: Vec<usize>| {
        let mut section = Section::empty(source.at);
        let tree = |direction, forest| Tree {
            direction,
            forest,
            rows: Vec::new(),
        };
        match view.hot {
            Some(_) => {
                let contexts = || tree(Direction::Callees, source.activations(&threads));
                let callers = || tree(Direction::Callers, source.kccf(&threads));
                section.contexts = (view.ksf && !source.has_paths).then(contexts);
                section.callers = view.kccf.then(callers);
            }
            None => {
                section.kccf = view.kccf.then(|| source.kccf(&threads));
                section.ksf = view.ksf.then(|| source.ksf(&threads));
            }
        }
        section.stacks = view.stacks.then(|| source.activations(&threads));
        section.graph = view.graph.then(|| source.graph(&threads, weights));
        let totals = threads
            .iter()
            .map(|&at| summary::costs_of_thread(&process.threads[at]));
        let totals: Vec<summary::Totals> = totals.collect();
        let sum = |&weight: &Weight| {
            let of_threads = totals.iter().map(|totals| totals.of(weight));
            (weight, of_threads.fold(0, u64::saturating_add))
        };
        section.totals = weights.iter().map(sum).collect();
        section.threads = threads;
        section
    };
    groups.into_iter().map(section).collect()
}

/// The forests of several threads as one.
fn joined(threads: &[usize], make: impl Fn(usize) -> Forest) -> Forest {
    let mut forests = threads.iter().map(|&thread| make(thread));
    match threads.len() {
        1 => forests.next().unwrap_or_default(),
        _ => analysis::join(&forests.collect::<Vec<Forest>>()),
    }
}

/// Fills in what is hot: the limits hold for all sections together.
fn choose(sections: &mut [Section], limits: Limits) {
    let contexts = sections.iter_mut().map(|section| &mut section.contexts);
    choose_trees(contexts.flatten(), limits);
    let callers = sections.iter_mut().map(|section| &mut section.callers);
    choose_trees(callers.flatten(), limits);
}

fn choose_trees<'a>(trees: impl Iterator<Item = &'a mut Tree>, limits: Limits) {
    let mut trees: Vec<&mut Tree> = trees.collect();
    // The hottest n of a tree are the first n of its hottest `top`, so each
    // only has to be told how many of its nodes are among all hottest.
    let mut share = vec![None; trees.len()];
    if let Some(top) = limits.top {
        let mut all: Vec<(u64, usize)> = Vec::new();
        for (at, tree) in trees.iter().enumerate() {
            let nodes = hot::hottest(&tree.forest, limits);
            let weight = |node| tree.forest.weight(limits.by, node);
            all.extend(nodes.into_iter().map(|node| (weight(node), at)));
        }
        all.sort_by_key(|&(count, at)| (std::cmp::Reverse(count), at));
        share.fill(Some(0));
        for (_, at) in all.into_iter().take(top) {
            share[at] = share[at].map(|n| n + 1);
        }
    }
    for (tree, top) in trees.iter_mut().zip(share) {
        let forest = &tree.forest;
        tree.rows = hot::tree(forest, Limits { top, ..limits });
        // Code that is not counted has a state, but no context.
        tree.rows
            .retain(|row| forest.label(row.node) != Label::MUTED);
    }
}
