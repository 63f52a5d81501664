//! Everything of the page but the tree and its values: what ran, its processes
//! and threads, names and places, as one JSON document in element `data-head`.
//!
//! Names are one table: functions first, then what is no function. Counts are
//! numbers, addresses hexadecimal strings. Lists that have an entry per name or
//! per function are columns, because they are long.

use std::io::{self, Write};

use analysis::Weight;
use analysis::merged::{Contexts, Metric, Name, OfThread};
use serde::Serialize;
use trace::{Label, Meta, Process};

use super::columns;
use super::tables::{Functions, JsonModule, Row, Tables};
use crate::counts::LEFT_OUT;
use crate::names::label_name;
use crate::numbers::command_line;
use crate::{Report, metrics, stacks, text};

/// Member `version`: raised when the scripts of one page could not read the
/// data of another. Nobody else reads it.
pub const VERSION: u32 = 1;

pub fn write(
    report: &Report,
    contexts: &Contexts,
    names: &Names,
    totals: &[u64],
    out: &mut dyn Write,
) -> io::Result<()> {
    let document = Document::new(report, contexts, names, totals);
    let json = serde_json::to_vec(&document).map_err(io::Error::from)?;
    columns::element("data-head", &json, out)
}

/// The metric that the report is sorted by, which is instructions if nothing else was asked for.
fn first_shown(report: &Report, contexts: &Contexts) -> usize {
    let is_it = |metric: &Metric| match (*metric, report.by) {
        (Metric::Calls, Weight::Calls) => true,
        (Metric::Cost(shown), Weight::Cost(wanted)) => shown == wanted,
        _ => false,
    };
    contexts.metrics.iter().position(is_it).unwrap_or(0)
}

/// One of what a metric counts; its plural is made with an s.
pub fn noun(report: &Report, metric: Metric) -> &'static str {
    match metric {
        Metric::Calls => metrics::event(report),
        Metric::Cost(cost) => cost.name().trim_end_matches('s'),
    }
}

/// The table of names: functions, then what is no function as it is met.
pub struct Names {
    functions: usize,
    others: Vec<Name>,
}

impl Names {
    pub fn new(contexts: &Contexts) -> Names {
        let mut others = Vec::new();
        for node in &contexts.nodes {
            if !matches!(node.name, Name::Function(_)) && !others.contains(&node.name) {
                others.push(node.name);
            }
        }
        Names {
            functions: contexts.functions.len(),
            others,
        }
    }

    pub fn number(&self, name: Name) -> u64 {
        match name {
            Name::Function(number) => u64::from(number),
            _ => {
                let before = self.others.iter().take_while(|&&other| other != name);
                (self.functions + before.count()) as u64
            }
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    producer: &'a str,
    command: String,
    started_unix_ms: u64,
    /// As the text report says it.
    end: String,
    totals: String,
    /// `null`: infinite.
    k: Option<u32>,
    /// Whether what contexts cost with all that they called is in the page.
    folded: bool,
    options: Vec<&'a (String, String)>,
    notes: Vec<String>,
    nodes: usize,
    /// Which of `metrics` is shown first.
    metric: usize,
    metrics: Vec<JsonMetric<'a>>,
    processes: Vec<JsonProcess>,
    threads: Vec<JsonThread<'a>>,
    modules: Vec<JsonModule<'a>>,
    files: Vec<&'a str>,
    names: Vec<String>,
    functions: Functions,
}

#[derive(Serialize)]
pub struct JsonMetric<'a> {
    /// One of what is counted; its plural is made with an s.
    pub noun: &'a str,
    pub total: u64,
    /// Start of the recording that this one is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

#[derive(Serialize)]
struct JsonProcess {
    pid: u32,
    command: String,
}

#[derive(Default, Serialize)]
pub struct JsonThread<'a> {
    /// Index of its process.
    process: usize,
    tid: u32,
    /// Nodes that nothing called, and how often they began.
    begun: &'a [(u32, u64)],
}

/// Place of a function of a process.
fn row(at: usize, process: &Process, label: Label) -> Row<'_> {
    let known = process.function(label);
    let module = known.and_then(|function| process.module_of(function));
    Row {
        module: module.map(|module| (&*module.path, module.build_id.as_deref())),
        offset: known
            .filter(|_| module.is_some())
            .map(|function| function.file_offset),
        address: known.map(|function| function.pc),
        process: at,
        file: known.and_then(|function| function.file.as_deref()),
        line: known.and_then(|function| function.line),
        column: process.block(label).and_then(|block| block.column),
    }
}

/// Options of the run; a sentence about what was left out is among the notes.
fn options(meta: &Meta) -> Vec<&(String, String)> {
    let options = meta.options.iter();
    options.filter(|(name, _)| name != LEFT_OUT).collect()
}

impl<'a> Document<'a> {
    fn new(
        report: &'a Report,
        contexts: &'a Contexts,
        names: &Names,
        totals: &[u64],
    ) -> Document<'a> {
        let meta = &report.recording.meta;
        let processes = &report.recording.processes;
        let mut tables = Tables::default();
        let functions = contexts.functions.iter().map(|place| {
            let process = &processes[place.process];
            tables.function(row(place.process, process, place.label));
            label_name(process, place.label)
        });
        let mut texts: Vec<String> = functions.collect();
        texts.extend(names.others.iter().map(|name| match name {
            Name::Special(label) => label.to_string(),
            _ => format!(
                "{} callers beyond k = {}",
                stacks::UNKNOWN,
                meta.k.unwrap_or(0)
            ),
        }));
        let metric = |(&metric, &total)| JsonMetric {
            noun: noun(report, metric),
            total,
            before: None,
        };
        let process = |process: &Process| JsonProcess {
            pid: process.pid,
            command: command_line(&process.args),
        };
        let thread = |thread: &'a OfThread| JsonThread {
            process: thread.process,
            tid: processes[thread.process].threads[thread.thread].tid,
            begun: &thread.begun,
        };
        Document {
            version: VERSION,
            producer: &meta.producer,
            command: command_line(&meta.command),
            started_unix_ms: meta.started_unix_ns / 1_000_000,
            end: text::how_it_ended(report),
            totals: text::totals(report),
            k: meta.k,
            folded: report.folded_from.is_some(),
            options: options(meta),
            notes: text::notes::all(report),
            nodes: contexts.nodes.len(),
            metric: first_shown(report, contexts),
            metrics: contexts.metrics.iter().zip(totals).map(metric).collect(),
            processes: processes.iter().map(process).collect(),
            threads: contexts.threads.iter().map(thread).collect(),
            modules: tables.modules,
            files: tables.files,
            names: texts,
            functions: tables.functions,
        }
    }
}
