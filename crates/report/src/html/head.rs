//! Everything of the page but the tree and its values: what ran, its processes
//! and threads, names and places, as one JSON document in element `data-head`.
//!
//! Names are one table: functions first, then what is no function. Counts are
//! numbers, addresses hexadecimal strings. Lists that have an entry per name or
//! per function are columns, because they are long.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::merged::{Contexts, Metric, Name, OfThread};
use serde::Serialize;
use trace::{Function, Label, Process};

use super::columns;
use crate::names::label_name;
use crate::numbers::command_line;
use crate::{Report, metrics, stacks, text};

/// Member `version`: raised when the scripts of one page could not read the
/// data of another. Nobody else reads it.
const VERSION: u32 = 1;

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
    options: &'a [(String, String)],
    notes: Vec<String>,
    nodes: usize,
    metrics: Vec<JsonMetric>,
    processes: Vec<JsonProcess>,
    threads: Vec<JsonThread<'a>>,
    modules: Vec<JsonModule<'a>>,
    files: Vec<&'a str>,
    names: Vec<String>,
    functions: Functions,
}

#[derive(Serialize)]
struct JsonMetric {
    noun: &'static str,
    total: u64,
}

#[derive(Serialize)]
struct JsonProcess {
    pid: u32,
    command: String,
}

#[derive(Serialize)]
struct JsonThread<'a> {
    /// Index of its process.
    process: usize,
    tid: u32,
    /// Nodes that nothing called, and how often they began.
    begun: &'a [(u32, u64)],
}

#[derive(Serialize)]
struct JsonModule<'a> {
    path: &'a str,
    build_id: Option<String>,
}

/// Columns, an entry per function.
#[derive(Default, Serialize)]
struct Functions {
    /// Index of the module, or -1.
    module: Vec<i64>,
    /// File offset of the first instruction; without a module empty.
    offset: Vec<String>,
    /// Where it was in the memory of the process.
    address: Vec<String>,
    process: Vec<usize>,
    /// Index of the source file, or -1.
    file: Vec<i64>,
    /// 0: not known.
    line: Vec<u32>,
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
            tables.function(place.process, process, place.label);
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
            options: &meta.options,
            notes: text::notes::all(report),
            nodes: contexts.nodes.len(),
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

/// Modules and source files, each once for all processes.
#[derive(Default)]
struct Tables<'a> {
    modules: Vec<JsonModule<'a>>,
    module_numbers: HashMap<(&'a str, Option<&'a [u8]>), i64>,
    files: Vec<&'a str>,
    file_numbers: HashMap<&'a str, i64>,
    functions: Functions,
}

impl<'a> Tables<'a> {
    fn function(&mut self, at: usize, process: &'a Process, label: Label) {
        let known = process.function(label);
        let module = known.and_then(|function| self.module(process, function));
        let hex = |value: u64| format!("{value:#x}");
        let in_file = known.filter(|_| module.is_some());
        let file = known.and_then(|function| function.file.as_deref());
        let file = file.map(|file| self.file(file));
        let columns = &mut self.functions;
        columns.module.push(module.unwrap_or(-1));
        let offset = in_file.map(|function| hex(function.file_offset));
        columns.offset.push(offset.unwrap_or_default());
        let address = known.map(|function| hex(function.pc));
        columns.address.push(address.unwrap_or_default());
        columns.process.push(at);
        columns.file.push(file.unwrap_or(-1));
        let line = known.and_then(|function| function.line);
        columns.line.push(line.unwrap_or(0));
    }

    fn module(&mut self, process: &'a Process, function: &Function) -> Option<i64> {
        let module = process.module_of(function)?;
        let build_id = module.build_id.as_deref();
        let modules = &mut self.modules;
        let number = self.module_numbers.entry((&module.path, build_id));
        Some(*number.or_insert_with(|| {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            modules.push(JsonModule {
                path: &module.path,
                build_id: build_id.map(hex),
            });
            modules.len() as i64 - 1
        }))
    }

    fn file(&mut self, file: &'a str) -> i64 {
        let files = &mut self.files;
        *self.file_numbers.entry(file).or_insert_with(|| {
            files.push(file);
            files.len() as i64 - 1
        })
    }
}
