//! Reports: results as text, JSON and the formats of other tools.
//!
//! | module | form |
//! |---|---|
//! | [`text`] | the hottest contexts as a tree that fits a terminal |
//! | [`paper`] | forests in the layout of the IHPP paper, listings 4.2 to 4.21 |
//! | [`json`] | everything, for programs |
//! | [`xml`] | contexts with functions, basic blocks and their instructions, for programs |
//! | [`folded`] | contexts as folded stacks, for flame graphs and other tools |
//! | [`flamegraph`] | a flame graph, for a browser |
//! | [`pprof`] | a profile for `go tool pprof` and others |
//! | [`diff`] | two recordings compared, in forms of its own |
//! | [`callgrind`] | functions and their calls, for KCachegrind and callgrind_annotate |
//! | [`firefox`] | a profile for the Firefox Profiler |
//! | [`speedscope`] | a profile for speedscope |
//! | [`csv`] | a table of contexts |
//! | [`counts`] | basic blocks, edges and lines |
//! | [`html`] | a page to explore all contexts with, in a browser |
//! | [`steps`] | a trace, instruction by instruction |
//! | [`stats`] | what its branches did |
//! | [`mcf`], [`raptor`] | its branches as descriptors, all or those that were mispredicted |
//! | [`mls`], [`cfiat`] | its loads and stores as descriptors, all or those that are not known before |
//! | [`simulators`] | its accesses, for simulators |
//! | [`pt`] | packets of Intel PT |
//! | [`timeline`] | calls in time, for uftrace and Perfetto |
//! | [`denied`] | which threads could not be counted |
//!
//! Invariant: this is the only crate that knows an output format, and it never
//! computes: which contexts are hot, what a k-CCF is and how often something
//! ran come in as a [`Report`]. It opens no file and asks no terminal; where
//! the text goes, how wide it may be and whether it may be coloured are told.
#![forbid(unsafe_code)]

pub mod allocations;
mod assemble;
pub mod callgrind;
pub mod cfiat;
mod code;
pub mod counts;
pub mod csv;
pub mod denied;
pub mod dependences;
pub mod diff;
pub mod disassembly;
pub mod firefox;
pub mod flamegraph;
pub mod flow;
pub mod folded;
pub mod followed;
mod frames;
pub mod gzip;
pub mod html;
pub mod json;
pub mod loops;
pub mod mcf;
mod metrics;
pub mod mls;
pub mod names;
pub mod natives;
mod numbers;
mod overview;
pub mod paper;
pub mod phases;
pub mod pprof;
pub mod pt;
pub mod raptor;
mod short_names;
pub mod signals;
pub mod simulators;
pub mod speedscope;
mod stacks;
pub mod stats;
pub mod steps;
pub mod text;
pub mod timeline;
pub mod xml;

pub use analysis::Weight;
pub use assemble::{Detail, Hot, Tables, View};
pub use numbers::{counted, grouped, size};

/// The option of a recording that says how often threads were looked at for its times.
pub const LOOKS: &str = "looks";
/// Name of the option that says that time was asked for.
pub const TIME: &str = "time";

use std::collections::HashMap;

use analysis::Forest;
use analysis::callgraph::CallGraph;
use analysis::hot::Row;
use analysis::merged::Contexts;
use analysis::summary::Totals;
use trace::{Label, Recording};

use disassembly::Listing;

/// Everything that can be shown about one recording.
pub struct Report<'a> {
    pub recording: &'a Recording,
    /// Sums over the whole recording.
    pub totals: Totals,
    /// Limits of what [`text`] shows.
    pub hot: Option<Hot>,
    /// Metrics: calls, and then the costs that contexts carry besides.
    pub metrics: Vec<Weight>,
    /// Metric by which contexts are hot; one of `metrics`.
    pub by: Weight,
    /// In the order of the processes, then of the threads.
    pub sections: Vec<Section>,
    /// Costs of functions: of all threads together, or thread by thread. For [`text`].
    pub overviews: Vec<overview::Overview<'a>>,
    /// Tables at the end of [`text`] and [`paper`].
    pub tables: Tables,
    /// The code of functions, process by process, if it was read ([`Report::read_code`]).
    pub listings: Vec<HashMap<Label, Listing>>,
    /// Jumps between recorded blocks, process by process, if they were read.
    pub stubs: Vec<code::Stubs>,
    /// How often each label was entered, process by process, if asked for.
    pub counters: Vec<HashMap<Label, u64>>,
    /// All threads in one tree, if asked for. For [`html`].
    pub merged: Option<Contexts>,
    /// How many whole contexts were folded, if they were ([`analysis::fold`]).
    pub folded_from: Option<u64>,
    /// Names of the engine's statistics, index by index; empty: do not show them, or one of them.
    pub stat_names: &'a [&'a str],
    /// Sentences for the end of the report, such as what a repair lost.
    pub notes: Vec<String>,
    /// Whether names are shown as the symbols say, with all template arguments and parameters.
    pub full_names: bool,
    /// Commands that show more of the recording, for the end of [`text`].
    pub hint: Option<String>,
}

impl<'a> Report<'a> {
    /// The engine's statistics of a process that are shown.
    pub(crate) fn stats<'p>(
        &'p self,
        process: &'p trace::Process,
    ) -> impl Iterator<Item = (&'a str, u64)> + 'p {
        let stats = self.stat_names.iter().zip(&process.stats);
        let named = stats.filter(|(name, _)| !name.is_empty());
        named.map(|(name, value)| (*name, *value))
    }

    /// Whether it is known what contexts cost with all that they called.
    fn knows_inclusive(&self) -> bool {
        let meta = &self.recording.meta;
        meta.blocks.is_none() && (meta.k.is_none() || self.folded_from.is_some())
    }

    /// A metric of all sections.
    fn sections_total(&self, metric: Weight) -> u64 {
        let totals = self.sections.iter().map(|section| section.total(metric));
        totals.fold(0, u64::saturating_add)
    }

    /// How often a function of a process was entered, or a block of it executed.
    fn count_of(&self, process: usize, label: Label) -> u64 {
        let counts = self.counters.get(process);
        let count = counts.and_then(|counts| counts.get(&label));
        count.copied().unwrap_or(0)
    }

    /// A metric of the whole recording.
    pub fn total(&self, metric: Weight) -> u64 {
        self.totals.of(metric)
    }
}

/// The forests of one thread, or of several that were joined.
pub struct Section {
    /// Index into [`Recording::processes`].
    pub process: usize,
    /// Indices into [`trace::Process::threads`].
    pub threads: Vec<usize>,
    /// Totals of these threads, for all of [`Report::metrics`].
    pub totals: Vec<(Weight, u64)>,
    /// Call tree from the roots: every call counted once, on its context
    /// ([`analysis::activations`]). For [`text`].
    pub contexts: Option<Tree>,
    /// Callers of each function: the k-calling-context forest. For [`text`].
    pub callers: Option<Tree>,
    /// The k-slab forest with the paper's counters, if asked for.
    pub ksf: Option<Forest>,
    /// The k-calling-context forest, if asked for.
    pub kccf: Option<Forest>,
    /// Every call once, on its context ([`analysis::activations`]). For [`folded`], [`pprof`].
    pub stacks: Option<Forest>,
    /// Functions and their calls, with [`Report::by`] as the first value; for
    /// [`callgrind`].
    pub graph: Option<CallGraph>,
}

/// Relation of a node's children to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Its callees.
    Callees,
    /// Its callers.
    Callers,
}

/// A forest and what of it is shown.
pub struct Tree {
    pub direction: Direction,
    pub forest: Forest,
    /// The hot nodes and what leads to them ([`analysis::hot::tree`]).
    pub rows: Vec<Row>,
}

impl Section {
    /// A metric of the section.
    pub fn total(&self, metric: Weight) -> u64 {
        let found = self.totals.iter().find(|(weight, _)| *weight == metric);
        found.map_or(0, |(_, total)| *total)
    }

    fn empty(process: usize) -> Section {
        Section {
            process,
            threads: Vec::new(),
            totals: Vec::new(),
            contexts: None,
            callers: None,
            ksf: None,
            kccf: None,
            stacks: None,
            graph: None,
        }
    }

    /// The trees for [`text`] that have something to show.
    fn trees(&self) -> impl Iterator<Item = &Tree> {
        let trees = self.contexts.iter().chain(&self.callers);
        trees.filter(|tree| !tree.rows.is_empty())
    }
}
