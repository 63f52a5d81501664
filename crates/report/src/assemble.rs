//! From a recording to what a report needs of it, by asking `analysis`.

use analysis::hot::{self, Limits};
use analysis::{Forest, K, summary};
use trace::{Label, Mode, Process, Recording, Thread};

use crate::{Direction, Report, Section, Tree};

/// What is to be shown.
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
    /// One forest for all threads of a process together.
    pub join_threads: bool,
}

/// Which contexts are hot enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hot {
    /// At most so many in the whole report; `None`: all.
    pub top: Option<usize>,
    /// Only those with at least this percentage of all calls.
    pub min_percent: f64,
    /// Only those at most so deep below their root.
    pub depth: Option<u32>,
}

impl<'a> Report<'a> {
    /// Takes of `recording` what `view` shows.
    pub fn new(recording: &'a Recording, view: &View) -> Report<'a> {
        let totals = summary::of_recording(recording);
        let mut sections = Vec::new();
        if recording.meta.mode == Mode::Contexts {
            let k = K::from(recording.meta.k);
            for (at, process) in recording.processes.iter().enumerate() {
                sections.extend(sections_of(at, process, k, view));
            }
        }
        if let Some(hot) = view.hot {
            choose(&mut sections, hot, totals.events);
        }
        Report {
            recording,
            totals,
            sections,
            stat_names: &[],
            notes: Vec::new(),
        }
    }
}

/// The sections of one process: one per thread that counted anything, or one for all.
fn sections_of(at: usize, process: &Process, k: K, view: &View) -> Vec<Section> {
    let counted = |&thread: &usize| !process.threads[thread].nodes.is_empty();
    let threads: Vec<usize> = (0..process.threads.len()).filter(counted).collect();
    let groups: Vec<Vec<usize>> = match view.join_threads {
        true if threads.is_empty() => Vec::new(),
        true => vec![threads],
        false => threads.into_iter().map(|thread| vec![thread]).collect(),
    };
    let section = |threads: Vec<usize>| {
        let forests = |make: fn(&Thread) -> Forest| {
            let mut forests = threads.iter().map(|&thread| make(&process.threads[thread]));
            match threads.len() {
                1 => forests.next().unwrap_or_default(),
                _ => analysis::join(&forests.collect::<Vec<Forest>>()),
            }
        };
        let ksf = || forests(analysis::ksf_from_recording);
        let mut section = Section::empty(at);
        match view.hot {
            Some(_) => {
                let tree = |direction, forest| Tree {
                    direction,
                    forest,
                    rows: Vec::new(),
                };
                section.contexts = view
                    .ksf
                    .then(|| tree(Direction::Callees, forests(analysis::activations)));
                section.callers = view
                    .kccf
                    .then(|| tree(Direction::Callers, analysis::kccf(&ksf(), k)));
            }
            None => {
                let ksf = (view.ksf || view.kccf).then(ksf);
                section.kccf = ksf
                    .as_ref()
                    .filter(|_| view.kccf)
                    .map(|ksf| analysis::kccf(ksf, k));
                section.ksf = ksf.filter(|_| view.ksf);
            }
        }
        section.stacks = view.stacks.then(|| forests(analysis::activations));
        let of_thread = |&thread: &usize| summary::of_thread(&process.threads[thread]).events;
        section.calls = threads.iter().map(of_thread).sum();
        section.threads = threads;
        section
    };
    groups.into_iter().map(section).collect()
}

/// Fills in what is hot: the limits hold for all sections together.
fn choose(sections: &mut [Section], hot: Hot, total: u64) {
    choose_trees(
        sections
            .iter_mut()
            .filter_map(|section| section.contexts.as_mut()),
        hot,
        total,
    );
    choose_trees(
        sections
            .iter_mut()
            .filter_map(|section| section.callers.as_mut()),
        hot,
        total,
    );
}

fn choose_trees<'a>(trees: impl Iterator<Item = &'a mut Tree>, hot: Hot, total: u64) {
    let mut trees: Vec<&mut Tree> = trees.collect();
    let min = (hot.min_percent / 100.0 * total as f64).ceil() as u64;
    let limits = Limits {
        top: hot.top,
        min,
        depth: hot.depth,
    };
    // The hottest n of a tree are the first n of its hottest `top`, so each
    // only has to be told how many of its nodes are among all hottest.
    let mut share = vec![None; trees.len()];
    if let Some(top) = hot.top {
        let mut all: Vec<(u64, usize)> = Vec::new();
        for (at, tree) in trees.iter().enumerate() {
            let nodes = hot::hottest(&tree.forest, limits);
            all.extend(nodes.into_iter().map(|node| (tree.forest.count(node), at)));
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
        // What is not to be counted has a state, but no context.
        tree.rows
            .retain(|row| forest.label(row.node) != Label::MUTED);
    }
}
