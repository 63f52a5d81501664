//! Control flow as JSON: docs/formats/flow.md.

use std::io::{self, Write};

use flow::{Edge, Failed, Function, JumpTable, Liveness, Loop, To};
use serde::Serialize;

use super::{Flow, loops_of};

const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    file: &'a str,
    language: String,
    linker: String,
    code_bytes: u64,
    functions: Vec<JsonFunction>,
}

#[derive(Serialize)]
struct JsonFunction {
    entry: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    ranges: Vec<[u64; 2]>,
    evidence: Vec<&'static str>,
    other_entries: Vec<u64>,
    complete: bool,
    returns: bool,
    gates: Vec<JsonGate>,
    /// Start, end, last instruction, number of instructions.
    blocks: Vec<[u64; 4]>,
    edges: Vec<JsonEdge>,
    tables: Vec<JsonTable>,
    tail_jumps: Vec<u64>,
    loops: Vec<JsonLoop>,
    irreducible: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    live: Vec<JsonLive>,
}

/// Registers and flags that are live before an instruction.
#[derive(Serialize)]
struct JsonLive {
    at: u64,
    live: Vec<String>,
}

#[derive(Serialize)]
struct JsonGate {
    gate: &'static str,
    at: u64,
}

#[derive(Serialize)]
struct JsonEdge {
    from: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize)]
struct JsonTable {
    jump: u64,
    table: u64,
    base: u64,
    width: u8,
    bounded: bool,
    /// `null` for a hole.
    targets: Vec<Option<u64>>,
}

#[derive(Serialize)]
struct JsonLoop {
    header: u32,
    depth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<u32>,
    blocks: Vec<u32>,
    latches: Vec<u32>,
}

/// Writes all functions, or `only` some; with `liveness` what is live in them.
pub fn write(
    flow: &Flow<'_>,
    only: Option<&[&Function]>,
    liveness: Option<&Liveness<'_>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let of = |function| of(flow, function, liveness);
    let (language, linker) = flow.image.origin();
    let functions = match only {
        Some(some) => some.iter().map(|function| of(function)).collect(),
        None => flow.program.functions.iter().map(of).collect(),
    };
    let document = Document {
        format: "everypath flow",
        version: VERSION,
        file: flow.file,
        language: language.to_string(),
        linker: linker.to_string(),
        code_bytes: flow.program.code,
        functions,
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

fn of(flow: &Flow<'_>, function: &Function, liveness: Option<&Liveness<'_>>) -> JsonFunction {
    let evidence = function.evidence;
    let evidence = [
        (evidence.unwind, "unwind"),
        (evidence.named, "symbol"),
        (evidence.pointer, "relocation"),
        (evidence.called, "call"),
        (evidence.taken, "reference"),
    ];
    let evidence = evidence.iter().filter(|(is, _)| *is).map(|(_, name)| *name);
    let loops = loops_of(function);
    let graph = &function.graph;
    let (ranges, failed) = (function.ranges.iter(), function.failed.iter());
    let blocks = graph.blocks.iter();
    let gate = |failed: &Failed| JsonGate {
        gate: failed.gate.name(),
        at: failed.at.0,
    };
    JsonFunction {
        entry: function.entry.0,
        name: function.name.as_ref().map(|_| flow.name(function)),
        symbol: function.name.clone(),
        ranges: ranges.map(|range| [range.start.0, range.end.0]).collect(),
        evidence: evidence.collect(),
        other_entries: function.others.iter().map(|addr| addr.0).collect(),
        complete: function.is_complete(),
        returns: function.returns,
        gates: failed.map(gate).collect(),
        blocks: blocks
            .map(|block| [block.start.0, block.end.0, block.last.0, block.insns.into()])
            .collect(),
        edges: graph.edges.iter().map(|edge| of_edge(flow, edge)).collect(),
        tables: function.tables.iter().map(JsonTable::from).collect(),
        tail_jumps: function.tail_jumps.iter().map(|addr| addr.0).collect(),
        loops: loops.loops.into_iter().map(JsonLoop::from).collect(),
        irreducible: loops.irreducible,
        live: liveness.map_or(Vec::new(), |all| live(function, all)),
    }
}

fn live(function: &Function, all: &Liveness<'_>) -> Vec<JsonLive> {
    let live = all.of(function);
    let blocks = 0..function.graph.blocks.len();
    let insns = blocks.flat_map(|block| all.within(function, &live, block));
    let insns = insns.map(|(at, set)| JsonLive {
        at: at.0,
        live: set.names(),
    });
    insns.collect()
}

fn of_edge(flow: &Flow<'_>, edge: &Edge) -> JsonEdge {
    let is_inside = matches!(edge.to, To::Block(_) | To::Unknown);
    JsonEdge {
        from: edge.from,
        kind: edge.kind.name(),
        to: match edge.to {
            To::Block(to) => Some(to),
            _ => None,
        },
        address: match edge.to {
            To::Address(addr) | To::Slot(addr) => Some(addr.0),
            _ => None,
        },
        name: (!is_inside).then(|| flow.target(edge.to)),
    }
}

impl From<&JumpTable> for JsonTable {
    fn from(table: &JumpTable) -> JsonTable {
        let cases = table.elements.iter().map(|element| element.case());
        JsonTable {
            jump: table.jump.0,
            table: table.table.0,
            base: table.base.0,
            width: table.width,
            bounded: table.is_bounded,
            targets: cases.map(|case| case.map(|target| target.0)).collect(),
        }
    }
}

impl From<Loop> for JsonLoop {
    fn from(one: Loop) -> JsonLoop {
        JsonLoop {
            header: one.header,
            depth: one.depth,
            parent: one.parent,
            blocks: one.blocks,
            latches: one.latches,
        }
    }
}
