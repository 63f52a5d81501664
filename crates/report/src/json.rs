//! Everything, for programs. The schema is docs/formats/report.schema.json.
//!
//! Rules of the format: 64-bit addresses and offsets are hexadecimal strings,
//! because many readers keep numbers as doubles; counts are numbers; a node is
//! `[parent, label, count]` with -1 as the parent of a root and parents before
//! children. [`VERSION`] is raised when a member changes its meaning or goes;
//! new members may appear without.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::Forest;
use analysis::summary::Totals;
use serde::{Serialize, Serializer};
use trace::{Cost, End, Function, Label, Mode, Module, Process, Thread};

use crate::names::{function_name, symbol_of};
use crate::{Report, Section, metrics};

/// Member `format` of every document.
pub const FORMAT: &str = "everypath report";
/// Member `version`.
///
/// | version | change |
/// |---|---|
/// | 1 | first |
pub const VERSION: u32 = 1;

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Document::new(report)).map_err(io::Error::from)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    producer: &'a str,
    command: &'a [String],
    mode: &'static str,
    /// `null`: infinite.
    k: Option<u32>,
    unrolled: bool,
    selected: bool,
    options: BTreeMap<&'a str, &'a str>,
    started_unix_ns: u64,
    duration_ns: u64,
    end: JsonEnd,
    totals: JsonTotals,
    processes: Vec<JsonProcess<'a>>,
    notes: &'a [String],
}

impl<'a> Document<'a> {
    fn new(report: &'a Report<'a>) -> Document<'a> {
        let meta = &report.recording.meta;
        let processes = report.recording.processes.iter().enumerate();
        Document {
            format: FORMAT,
            version: VERSION,
            producer: &meta.producer,
            command: &meta.command,
            mode: match meta.mode {
                Mode::Run => "run",
                Mode::Contexts => "contexts",
                Mode::Counts => "count",
                Mode::Trace => "trace",
            },
            k: meta.k,
            unrolled: meta.unroll,
            selected: meta.selected,
            options: meta
                .options
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect(),
            started_unix_ns: meta.started_unix_ns,
            duration_ns: meta.duration_ns,
            end: JsonEnd::from(meta.end),
            totals: JsonTotals::new(report.recording.processes.len(), report.totals),
            processes: processes
                .map(|(at, process)| JsonProcess::new(report, at, process))
                .collect(),
            notes: &report.notes,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum JsonEnd {
    Exited { status: i32 },
    Signaled { signal: i32, core: bool },
    Execed,
    Unknown,
}

impl From<End> for JsonEnd {
    fn from(end: End) -> JsonEnd {
        match end {
            End::Exited(status) => JsonEnd::Exited { status },
            End::Signaled { signal, core } => JsonEnd::Signaled { signal, core },
            End::Execed => JsonEnd::Execed,
            End::Unknown => JsonEnd::Unknown,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct JsonTotals {
    processes: usize,
    threads: u64,
    functions: u64,
    contexts: u64,
    calls: u64,
    /// Calls beyond the limit of nodes; they are in `calls` too.
    truncated: u64,
    nodes: u64,
    instructions: u64,
    /// Instructions of no context; they are in `instructions` too.
    instructions_outside: u64,
    max_depth: u64,
}

impl JsonTotals {
    pub(crate) fn new(processes: usize, totals: Totals) -> JsonTotals {
        JsonTotals {
            processes,
            threads: totals.threads,
            functions: totals.functions,
            contexts: totals.contexts,
            calls: totals.events,
            truncated: totals.truncated,
            nodes: totals.nodes,
            instructions: totals.insns,
            instructions_outside: totals.insns_outside,
            max_depth: totals.max_depth,
        }
    }
}

#[derive(Serialize)]
struct JsonProcess<'a> {
    pid: u32,
    parent: Option<usize>,
    by_fork: bool,
    exe: &'a str,
    args: &'a [String],
    start_ns: u64,
    end_ns: Option<u64>,
    end: JsonEnd,
    modules: Vec<JsonModule<'a>>,
    functions: Vec<JsonFunction<'a>>,
    threads: Vec<JsonThread>,
    forests: Vec<JsonForest<'a>>,
    engine: BTreeMap<&'a str, u64>,
}

impl<'a> JsonProcess<'a> {
    fn new(report: &'a Report<'a>, at: usize, process: &'a Process) -> JsonProcess<'a> {
        let sections = report
            .sections
            .iter()
            .filter(|section| section.process == at);
        JsonProcess {
            pid: process.pid,
            parent: process.parent,
            by_fork: process.by_fork,
            exe: &process.exe,
            args: &process.args,
            start_ns: process.start_ns,
            end_ns: process.end_ns,
            end: process.end.into(),
            modules: process.modules.iter().map(JsonModule::new).collect(),
            functions: process
                .functions
                .iter()
                .map(|function| JsonFunction::new(process, function))
                .collect(),
            threads: process.threads.iter().map(JsonThread::new).collect(),
            forests: sections
                .flat_map(|section| JsonForest::all(report, process, section))
                .collect(),
            engine: report.stats(process).collect(),
        }
    }
}

/// A 64-bit number that JSON readers must not round.
pub(crate) struct Hex(pub u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

#[derive(Serialize)]
struct JsonModule<'a> {
    path: &'a str,
    start: Hex,
    end: Hex,
    offset: Hex,
    build_id: Option<String>,
    mapped_ns: u64,
    unmapped_ns: Option<u64>,
}

impl<'a> JsonModule<'a> {
    fn new(module: &'a Module) -> JsonModule<'a> {
        let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        JsonModule {
            path: &module.path,
            start: Hex(module.start),
            end: Hex(module.end),
            offset: Hex(module.offset),
            build_id: module.build_id.as_ref().map(hex),
            mapped_ns: module.mapped_ns,
            unmapped_ns: module.unmapped_ns,
        }
    }
}

#[derive(Serialize)]
struct JsonFunction<'a> {
    id: u32,
    name: String,
    /// Whether `name` comes from a symbol.
    named: bool,
    pc: Hex,
    module: Option<u32>,
    file_offset: Hex,
    file: Option<&'a str>,
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

impl<'a> JsonFunction<'a> {
    fn new(process: &Process, function: &'a Function) -> JsonFunction<'a> {
        JsonFunction {
            id: function.id,
            name: function_name(process, function),
            named: symbol_of(process, function).is_some(),
            pc: Hex(function.pc),
            module: function.module,
            file_offset: Hex(function.file_offset),
            file: function.file.as_deref(),
            line: function.line,
            column: process
                .block(Label(function.id))
                .and_then(|block| block.column),
        }
    }
}

#[derive(Serialize)]
struct JsonThread {
    tid: u32,
    start_ns: u64,
    end_ns: Option<u64>,
    instructions: u64,
    truncated_events: u64,
    max_depth: u64,
}

impl JsonThread {
    fn new(thread: &Thread) -> JsonThread {
        JsonThread {
            tid: thread.tid,
            start_ns: thread.start_ns,
            end_ns: thread.end_ns,
            instructions: thread.insns,
            truncated_events: thread.truncated_events,
            max_depth: thread.max_depth,
        }
    }
}

#[derive(Serialize)]
struct JsonForest<'a> {
    kind: &'static str,
    /// Thread ids; several when they were joined.
    threads: Vec<u32>,
    /// Names of the labels in `nodes` that are not functions.
    labels: BTreeMap<u32, String>,
    nodes: Nodes<'a>,
    /// Costs that nodes carry besides calls.
    costs: BTreeMap<&'static str, Costs<'a>>,
    /// Inclusive costs of each node, where they are known.
    inclusive: BTreeMap<&'static str, Vec<u64>>,
}

impl<'a> JsonForest<'a> {
    fn all(report: &Report, process: &'a Process, section: &'a Section) -> Vec<JsonForest<'a>> {
        let metrics = metrics::of(report);
        let known = metrics.iter().filter(|_| report.knows_inclusive());
        let threads = section.threads.iter().map(|&at| process.threads[at].tid);
        let threads: Vec<u32> = threads.collect();
        let forests = [("k-sf", &section.ksf), ("k-ccf", &section.kccf)];
        let forest = |(kind, forest): (&'static str, &'a Option<Forest>)| {
            let forest = forest.as_ref()?;
            let special = |label: &Label| !label.is_function();
            let labels = forest
                .nodes()
                .map(|node| forest.label(node))
                .filter(special);
            let labels = labels.map(|label| (label.0, label.to_string())).collect();
            Some(JsonForest {
                kind,
                threads: threads.clone(),
                labels,
                nodes: Nodes(forest),
                costs: forest
                    .costs()
                    .map(|cost| (cost.name(), Costs(forest, cost)))
                    .collect(),
                inclusive: known
                    .clone()
                    .filter_map(|metric| Some((metric.name, forest.inclusive(metric.weight)?)))
                    .collect(),
            })
        };
        forests.into_iter().filter_map(forest).collect()
    }
}

/// A cost of each node.
struct Costs<'a>(&'a Forest, Cost);

impl Serialize for Costs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Costs(forest, cost) = *self;
        serializer.collect_seq(forest.nodes().map(|node| forest.cost(cost, node)))
    }
}

/// Written one by one, so that a large forest never exists twice.
struct Nodes<'a>(&'a Forest);

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let forest = self.0;
        serializer.collect_seq(forest.nodes().map(|node| {
            let parent = forest
                .parent(node)
                .map_or(-1, |parent| parent.index() as i64);
            (parent, forest.label(node).0, forest.count(node))
        }))
    }
}
