//! Every block, edge and branch, for programs: docs/formats/counts.md.

use std::io::{self, Write};

use analysis::counts::Counted;
use analysis::counts::blocks::EdgeKind;
use serde::{Serialize, Serializer};

use super::{Report, Section};

/// Member `version`; raised when a member changes its meaning or goes.
const VERSION: u32 = 1;

pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    let document = Document {
        format: "everypath counts",
        version: VERSION,
        producer: &meta.producer,
        command: &meta.command,
        sections: report
            .sections
            .iter()
            .map(|section| JsonSection::new(report, section))
            .collect(),
        notes: &report.notes,
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

/// A number, or, where many readers would round it, its digits.
struct Exact(u128);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0) {
            Ok(value) if value <= 1 << 53 => serializer.serialize_u64(value),
            _ => serializer.collect_str(&self.0),
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    producer: &'a str,
    command: &'a [String],
    sections: Vec<JsonSection<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct JsonSection<'a> {
    /// Process and thread, by number; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
    totals: JsonTotals,
    modules: Vec<JsonModule<'a>>,
    blocks: Vec<JsonBlock<'a>>,
    edges: Vec<JsonEdge>,
}

#[derive(Serialize)]
struct JsonTotals {
    executed: Exact,
    instructions: u64,
    blocks: u64,
    branches: u64,
    never_taken: u64,
    always_taken: u64,
    branches_executed: Exact,
    branches_taken: Exact,
}

#[derive(Serialize)]
struct JsonModule<'a> {
    path: Option<&'a str>,
    build_id: Option<String>,
}

#[derive(Serialize)]
struct JsonBlock<'a> {
    module: u32,
    offset: String,
    bytes: u64,
    instructions: usize,
    executed: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// Blocks by index.
#[derive(Serialize)]
struct JsonEdge {
    from: usize,
    to: Option<usize>,
    kind: &'static str,
    count: Exact,
}

impl<'a> JsonSection<'a> {
    fn new(report: &Report<'a>, section: &'a Section) -> JsonSection<'a> {
        let totals = section.totals;
        let numbers = section.thread.map(|(process, thread)| {
            let process = &report.recording.processes[process];
            (process.pid, process.threads[thread].tid)
        });
        let lists = |insn: &Counted| report.lists(&section.counts, insn);
        let all = &section.blocks.blocks;
        let mut new = vec![None; all.len()];
        let mut blocks = Vec::new();
        for (at, block) in all.iter().enumerate() {
            let first = section.first(block);
            if !lists(first) {
                continue;
            }
            new[at] = Some(blocks.len());
            let (file, line) = section.file(first).unzip();
            blocks.push(JsonBlock {
                module: first.unit,
                offset: format!("{:#x}", first.at),
                bytes: section.bytes(block),
                instructions: block.len,
                executed: Exact(block.count.into()),
                function: section.function_name(first),
                distance: first.source.function.map(|(_, distance)| distance),
                file,
                line,
            });
        }
        let edges = section.blocks.edges.iter().filter_map(|edge| {
            Some(JsonEdge {
                from: new[edge.from]?,
                to: edge.to.and_then(|to| new[to]),
                kind: kind(edge.kind),
                count: Exact(edge.count.into()),
            })
        });
        JsonSection {
            process: numbers.map(|(process, _)| process),
            thread: numbers.map(|(_, thread)| thread),
            totals: JsonTotals {
                executed: Exact(totals.executed),
                instructions: totals.insns,
                blocks: totals.blocks,
                branches: totals.branches,
                never_taken: totals.never_taken,
                always_taken: totals.always_taken,
                branches_executed: Exact(totals.decided),
                branches_taken: Exact(totals.taken),
            },
            modules: modules(section),
            edges: edges.collect(),
            blocks,
        }
    }
}

fn kind(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Fall => "fall",
        EdgeKind::Taken => "taken",
        EdgeKind::Jump => "jump",
        EdgeKind::Call => "call",
        EdgeKind::Return => "return",
    }
}

fn modules(section: &Section) -> Vec<JsonModule<'_>> {
    let hex = |id: &Vec<u8>| id.iter().map(|byte| format!("{byte:02x}")).collect();
    let units = section.counts.units.iter();
    units
        .map(|unit| JsonModule {
            path: unit.path.as_deref(),
            build_id: unit.build_id.as_ref().map(hex),
        })
        .collect()
}
