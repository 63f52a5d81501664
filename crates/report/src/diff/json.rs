//! Everything about two recordings, for programs. The schema is
//! docs/formats/diff.schema.json; the rules are those of [`crate::json`].
//!
//! Figures are `[before, after]`, in the order of `metrics`; a context is
//! `[parent, function, figures…]` with -1 as the parent of a program and
//! parents before children; `function` is a position in `functions`.

use std::io::{self, Write};

use analysis::diff::{Diff, FunctionChange, Identity, Pair, Verdict};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::{Comparison, Recorded, name};
use crate::json::{Hex, JsonEnd, JsonTotals};

/// Member `format` of every document.
pub const FORMAT: &str = "everypath diff";
/// Member `version`.
///
/// | version | change |
/// |---|---|
/// | 1 | first |
pub const VERSION: u32 = 1;

pub fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Document::new(comparison)).map_err(io::Error::from)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    before: JsonRecorded<'a>,
    after: JsonRecorded<'a>,
    metrics: Vec<&'static str>,
    totals: Vec<Figure>,
    functions: Vec<JsonFunction<'a>>,
    contexts: Contexts<'a>,
    conditions: Vec<JsonVerdict<'a>>,
    notes: &'a [String],
}

impl<'a> Document<'a> {
    fn new(comparison: &'a Comparison<'a>) -> Document<'a> {
        let diff = &comparison.diff;
        Document {
            format: FORMAT,
            version: VERSION,
            before: JsonRecorded::new(&comparison.before),
            after: JsonRecorded::new(&comparison.after),
            metrics: diff.metrics.iter().map(|metric| metric.name).collect(),
            totals: diff.totals.iter().map(Figure::from).collect(),
            functions: functions(comparison),
            contexts: Contexts(diff),
            conditions: comparison.verdicts.iter().map(JsonVerdict::new).collect(),
            notes: &comparison.notes,
        }
    }
}

/// `[before, after]`.
#[derive(Serialize)]
struct Figure(u64, u64);

impl From<&Pair> for Figure {
    fn from(pair: &Pair) -> Figure {
        Figure(pair.before, pair.after)
    }
}

#[derive(Serialize)]
struct JsonRecorded<'a> {
    file: &'a str,
    producer: &'a str,
    command: &'a [String],
    /// `null`: infinite.
    k: Option<u32>,
    started_unix_ns: u64,
    duration_ns: u64,
    end: JsonEnd,
    totals: JsonTotals,
}

impl<'a> JsonRecorded<'a> {
    fn new(recorded: &'a Recorded<'a>) -> JsonRecorded<'a> {
        let meta = &recorded.recording.meta;
        JsonRecorded {
            file: &recorded.file,
            producer: &meta.producer,
            command: &meta.command,
            k: meta.k,
            started_unix_ns: meta.started_unix_ns,
            duration_ns: meta.duration_ns,
            end: meta.end.into(),
            totals: JsonTotals::new(recorded.recording.processes.len(), recorded.totals),
        }
    }
}

#[derive(Serialize)]
struct JsonFunction<'a> {
    kind: &'static str,
    name: String,
    module: Option<&'a str>,
    /// For a function without a name.
    offset: Option<Hex>,
    file: Option<&'a str>,
    line: Option<u32>,
    contexts: Figure,
    values: Vec<Figure>,
}

/// One per frame, in the order of the frames.
fn functions<'a>(comparison: &'a Comparison<'a>) -> Vec<JsonFunction<'a>> {
    let diff = &comparison.diff;
    let mut changes: Vec<Option<&FunctionChange>> = vec![None; diff.frames.len()];
    for change in &comparison.functions {
        changes[change.frame] = Some(change);
    }
    let none = FunctionChange {
        frame: 0,
        values: vec![Pair::default(); diff.metrics.len()],
        contexts: Pair::default(),
    };
    let function = |(at, frame): (usize, &analysis::diff::Frame<'a>)| {
        let change = changes[at].unwrap_or(&none);
        let offset = match frame.identity {
            Identity::At { offset, .. } => Some(Hex(offset)),
            _ => None,
        };
        JsonFunction {
            kind: kind(&frame.identity),
            name: name(&frame.identity),
            module: frame.identity.module(),
            offset,
            file: frame.function.and_then(|function| function.file.as_deref()),
            line: frame.function.and_then(|function| function.line),
            contexts: Figure::from(&change.contexts),
            values: change.values.iter().map(Figure::from).collect(),
        }
    };
    diff.frames.iter().enumerate().map(function).collect()
}

fn kind(identity: &Identity) -> &'static str {
    match identity {
        Identity::Named { .. } | Identity::At { .. } => "function",
        Identity::Nowhere => "no file",
        Identity::Unknown => "unknown callers",
        Identity::Special(_) => "special",
        Identity::Program(_) => "program",
    }
}

/// Written one by one, so that a large forest never exists twice.
struct Contexts<'a>(&'a Diff<'a>);

impl Serialize for Contexts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let forest = &self.0.contexts;
        serializer.collect_seq(forest.nodes().map(|node| Context {
            diff: self.0,
            node,
            parent: forest.parent(node),
        }))
    }
}

struct Context<'a> {
    diff: &'a Diff<'a>,
    node: analysis::NodeId,
    parent: Option<analysis::NodeId>,
}

impl Serialize for Context<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let metrics = self.diff.metrics.len();
        let mut members = serializer.serialize_seq(Some(2 + metrics))?;
        let parent = self.parent.map_or(-1, |parent| parent.index() as i64);
        members.serialize_element(&parent)?;
        members.serialize_element(&self.diff.contexts.label(self.node).0)?;
        for metric in 0..metrics {
            members.serialize_element(&Figure::from(&self.diff.own(metric, self.node)))?;
        }
        members.end()
    }
}

#[derive(Serialize)]
struct JsonVerdict<'a> {
    condition: &'a str,
    met: bool,
    before: u64,
    after: u64,
}

impl<'a> JsonVerdict<'a> {
    fn new(verdict: &'a Verdict<'a>) -> JsonVerdict<'a> {
        JsonVerdict {
            condition: &verdict.condition.text,
            met: verdict.met,
            before: verdict.value.before,
            after: verdict.value.after,
        }
    }
}
