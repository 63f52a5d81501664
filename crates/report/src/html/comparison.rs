//! The page of two recordings: their forest as one tree, with two lists of values
//! for each metric, before and after, where the page of one has a list per thread.
//!
//! Names are those of the comparison's frames: functions first, then programs and
//! what else is no function.

use std::io::{self, Write};

use analysis::diff::{Frame, Identity, Pair};
use analysis::merged::Value;
use serde::Serialize;

use super::code::{Beside, Functions};
use super::columns;
use super::head::{JsonMetric, JsonThread, VERSION};
use super::tables::{self, JsonModule, Row, Tables};
use crate::diff::{Comparison, Recorded, name, sentence};
use crate::numbers::{command_line, duration};
use crate::signals;

pub fn write(
    comparison: &Comparison,
    beside: Option<Beside>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let frames = Frames::new(&comparison.diff.frames);
    let json = serde_json::to_vec(&Document::new(comparison, &frames)).map_err(io::Error::from)?;
    columns::element("data-head", &json, out)?;
    let forest = &comparison.diff.contexts;
    let nodes = forest.preorder().map(|node| {
        let frame = forest.label(node).0 as usize;
        (forest.depth(node), frames.numbers[frame])
    });
    columns::tree(nodes, out)?;
    for metric in 0..comparison.diff.metrics.len() {
        let lists = [|pair: Pair| pair.before, |pair: Pair| pair.after].map(|side| {
            let own = forest.preorder().zip(0..).map(|(node, at)| {
                let value = side(comparison.diff.own(metric, node));
                (at, value)
            });
            own.filter(|&(_, value)| value > 0).collect::<Vec<Value>>()
        });
        columns::values(metric, lists.iter().map(Vec::as_slice), out)?;
    }
    match beside {
        Some(beside) => write_code(comparison, &frames, beside, out),
        None => Ok(()),
    }
}

/// The code of all functions as it was after, or before if they are gone; what changed
/// most first.
fn write_code(
    comparison: &Comparison,
    frames: &Frames,
    beside: Beside,
    out: &mut dyn Write,
) -> io::Result<()> {
    let place = |&at: &usize| {
        let (side, place) = comparison.diff.frames[at].place?;
        let recording = match side {
            analysis::diff::Side::Before => 0,
            analysis::diff::Side::After => 1,
        };
        Some((recording, place))
    };
    let functions = Functions {
        recordings: vec![comparison.before.recording, comparison.after.recording],
        places: frames.order[..frames.functions].iter().map(place).collect(),
    };
    let changed = comparison.functions.iter();
    let order = changed.map(|function| frames.numbers[function.frame] as usize);
    let order: Vec<usize> = order.filter(|&number| number < frames.functions).collect();
    functions.write(&order, beside, out)
}

/// Singular noun for the figures of a metric.
pub fn noun(metric: &str) -> &str {
    metric.strip_suffix('s').unwrap_or(metric)
}

/// The order of the names.
struct Frames {
    /// Positions of the frames, functions first.
    order: Vec<usize>,
    functions: usize,
    /// Per frame its place in that order.
    numbers: Vec<u64>,
}

impl Frames {
    fn new(frames: &[Frame]) -> Frames {
        let (mut order, others): (Vec<usize>, Vec<usize>) =
            (0..frames.len()).partition(|&at| is_function(&frames[at].identity));
        let functions = order.len();
        order.extend(others);
        let mut numbers = vec![0; frames.len()];
        for (number, &at) in (0..).zip(&order) {
            numbers[at] = number;
        }
        Frames {
            order,
            functions,
            numbers,
        }
    }
}

fn is_function(identity: &Identity) -> bool {
    match identity {
        Identity::Named { .. } | Identity::At { .. } | Identity::Nowhere => true,
        Identity::Unknown | Identity::Special(_) | Identity::Program(_) => false,
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    command: String,
    comparison: Sides<'a>,
    /// The smaller one, if they differ; `null`: infinite.
    k: Option<u32>,
    notes: Vec<String>,
    nodes: usize,
    metric: usize,
    metrics: Vec<JsonMetric<'a>>,
    processes: [(); 0],
    /// Figures before and after.
    threads: [JsonThread<'a>; 2],
    modules: Vec<JsonModule<'a>>,
    files: Vec<&'a str>,
    names: Vec<String>,
    functions: tables::Functions,
}

#[derive(Serialize)]
struct Sides<'a> {
    before: Side<'a>,
    after: Side<'a>,
}

#[derive(Serialize)]
struct Side<'a> {
    file: &'a str,
    producer: &'a str,
    command: String,
    started_unix_ms: u64,
    end: String,
}

impl<'a> Side<'a> {
    fn new(recorded: &'a Recorded<'a>) -> Side<'a> {
        let meta = &recorded.recording.meta;
        let after = duration(meta.duration_ns);
        Side {
            file: &recorded.file,
            producer: &meta.producer,
            command: command_line(&meta.command),
            started_unix_ms: meta.started_unix_ns / 1_000_000,
            end: format!("{} after {after}", signals::end(meta.end)),
        }
    }
}

/// Both files.
pub fn title(comparison: &Comparison) -> String {
    format!("{} → {}", comparison.before.file, comparison.after.file)
}

impl<'a> Document<'a> {
    fn new(comparison: &'a Comparison<'a>, frames: &Frames) -> Document<'a> {
        let diff = &comparison.diff;
        let mut tables = Tables::default();
        for &at in &frames.order[..frames.functions] {
            let frame = &diff.frames[at];
            tables.function(Row {
                module: frame.identity.module().map(|module| (module, None)),
                offset: match frame.identity {
                    Identity::At { offset, .. } => Some(offset),
                    _ => None,
                },
                file: frame.function.and_then(|function| function.file.as_deref()),
                line: frame.function.and_then(|function| function.line),
                ..Row::default()
            });
        }
        let recordings = [&comparison.before, &comparison.after];
        let metrics = diff.metrics.iter().zip(&diff.totals);
        let mut notes = comparison.notes.clone();
        let met = comparison.verdicts.iter().filter(|verdict| verdict.met);
        notes.extend(met.map(sentence));
        Document {
            version: VERSION,
            command: title(comparison),
            comparison: Sides {
                before: Side::new(&comparison.before),
                after: Side::new(&comparison.after),
            },
            k: recordings
                .iter()
                .filter_map(|recorded| recorded.recording.meta.k)
                .min(),
            notes,
            nodes: diff.contexts.len(),
            metric: comparison.metric,
            metrics: metrics
                .map(|(metric, total)| JsonMetric {
                    noun: noun(metric.name),
                    total: total.after,
                    before: Some(total.before),
                })
                .collect(),
            processes: [],
            threads: [JsonThread::default(), JsonThread::default()],
            modules: tables.modules,
            files: tables.files,
            names: frames
                .order
                .iter()
                .map(|&at| name(&diff.frames[at].identity))
                .collect(),
            functions: tables.functions,
        }
    }
}
