//! Statistics of a trace for programs: docs/formats/stats.md.

use std::io::{self, Write};

use analysis::branch_stats::{BIASES, Distinct, Executed, Stats};
use analysis::walk::{AccessSizes, Kind, SIZES};
use serde::Serialize;
use trace::Recording;

use super::memory::Memory;

/// Member `format` of every document.
const FORMAT: &str = "everypath stats";
/// Member `version`; raised when a member changes its meaning or goes.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    command: &'a [String],
    threads: Vec<Thread<'a>>,
    total: Counts,
    branches: Vec<Branches>,
    biases: Vec<Bias>,
    /// `null`: the trace has no memory accesses.
    memory: Option<Accesses>,
}

#[derive(Serialize)]
struct Accesses {
    reads: u64,
    writes: u64,
    sizes: Vec<Size>,
    /// In the order of the document's threads.
    threads: Vec<Vec<Size>>,
}

/// Accesses of so many bytes; `null`: of any other number.
#[derive(Serialize)]
struct Size {
    bytes: Option<u32>,
    reads: u64,
    writes: u64,
}

impl From<&Memory> for Accesses {
    fn from(memory: &Memory) -> Accesses {
        let sizes = |own: &AccessSizes| {
            let bytes = SIZES.iter().copied().map(Some).chain([None]);
            let counts = own.reads.iter().zip(&own.writes);
            let sizes = bytes.zip(counts).map(|(bytes, (&reads, &writes))| Size {
                bytes,
                reads,
                writes,
            });
            sizes.collect()
        };
        Accesses {
            reads: memory.total.reads.iter().sum(),
            writes: memory.total.writes.iter().sum(),
            sizes: sizes(&memory.total),
            threads: memory.threads.iter().map(sizes).collect(),
        }
    }
}

#[derive(Serialize)]
struct Thread<'a> {
    pid: u32,
    tid: u32,
    program: &'a str,
    #[serde(flatten)]
    counts: Counts,
    error: Option<String>,
}

#[derive(Serialize)]
struct Counts {
    instructions: u64,
    branches: u64,
    unconditional_direct: u64,
    conditional_taken: u64,
    conditional_not_taken: u64,
    unconditional_indirect: u64,
    signals: u64,
    calls: u64,
    deepest_call: u64,
    mean_call_depth: f64,
    longest_block: u64,
    mean_block: f64,
    /// By the power of two that they do not exceed.
    blocks: Vec<u64>,
}

impl From<&Executed> for Counts {
    fn from(executed: &Executed) -> Counts {
        Counts {
            instructions: executed.insns,
            branches: executed.branches(),
            unconditional_direct: executed.direct(),
            conditional_taken: executed.taken,
            conditional_not_taken: executed.not_taken(),
            unconditional_indirect: executed.indirect(),
            signals: executed.signals,
            calls: executed.calls(),
            deepest_call: executed.depth.deepest,
            mean_call_depth: executed.mean_depth(),
            longest_block: executed.longest_block,
            mean_block: executed.mean_block(),
            blocks: executed.blocks.clone(),
        }
    }
}

/// Figures of the branches of one kind.
#[derive(Serialize)]
struct Branches {
    kind: &'static str,
    executed: u64,
    distinct: u64,
    /// Bits; `null`: what follows is always the same.
    entropy: Option<f64>,
    targets: Option<u64>,
    most_targets: Option<u64>,
}

impl Branches {
    fn of(kind: Kind, total: &Executed, distinct: &Distinct) -> Branches {
        let at = kind as usize;
        let executed = total.kind(kind);
        let mean = |bits: f64| bits / executed.max(1) as f64;
        let targets = kind.is_indirect().then_some(distinct.targets[at]);
        Branches {
            kind: super::name(kind),
            executed,
            distinct: distinct.kinds[at],
            entropy: match kind {
                Kind::Conditional => Some(mean(distinct.outcome_bits)),
                kind if kind.is_indirect() => Some(mean(distinct.target_bits[at])),
                _ => None,
            },
            targets: targets.map(|(sum, _)| sum),
            most_targets: targets.map(|(_, most)| most),
        }
    }
}

/// Conditional branches whose bias is at least this, and less than that of the row before.
#[derive(Serialize)]
struct Bias {
    least: f64,
    distinct: u64,
    executed: u64,
}

pub fn write(
    recording: &Recording,
    stats: &Stats,
    memory: Option<&Memory>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let threads = stats.threads.iter().map(|thread| {
        let process = &recording.processes[thread.process];
        Thread {
            pid: process.pid,
            tid: process.threads[thread.thread].tid,
            program: process.program(),
            counts: Counts::from(&thread.executed),
            error: thread.error.as_ref().map(ToString::to_string),
        }
    });
    let biases = BIASES.iter().zip(stats.distinct.biases);
    let document = Document {
        format: FORMAT,
        version: VERSION,
        command: &recording.meta.command,
        threads: threads.collect(),
        total: Counts::from(&stats.total),
        branches: Kind::ALL
            .iter()
            .map(|&kind| Branches::of(kind, &stats.total, &stats.distinct))
            .collect(),
        biases: biases
            .map(|(&(least, _), (distinct, executed))| Bias {
                least,
                distinct,
                executed,
            })
            .collect(),
        memory: memory.map(Accesses::from),
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}
