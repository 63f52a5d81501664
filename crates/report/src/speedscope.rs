//! Contexts as a profile of speedscope (www.speedscope.app/file-format-schema.json).
//!
//! | there | here |
//! |---|---|
//! | profile, `sampled`, unit `none` | a thread, or the joined threads of a process; one per metric |
//! | sample and its weight | a context and the calls that ended there |
//! | shared frame | a function with file and line as far as known; `…` for callers further out than k |
//!
//! Written as it comes, frames last: a recording may have millions of contexts.
//!
//! Limit: numbers there are doubles, so a thread with more than 2^53 calls is an
//! error.

use std::io::{self, Write};

use serde::Serialize;

use crate::frames::{Frames, Known};
use crate::metrics::{self, Profile};
use crate::numbers::command_line;
use crate::{Report, names, stacks};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let profiles = metrics::profiles_in_doubles(report)?;
    let meta = &report.recording.meta;
    write!(out, "{{\"$schema\":\"{SCHEMA}\",\"exporter\":")?;
    string(&meta.producer, out)?;
    write!(out, ",\"name\":")?;
    string(&command_line(&meta.command), out)?;
    write!(out, ",\"activeProfileIndex\":0,\"profiles\":[")?;
    let mut frames = Frames::default();
    for (at, profile) in profiles.iter().enumerate() {
        out.write_all(if at > 0 { b"," } else { b"" })?;
        write_profile(report, profile, &mut frames, out)?;
    }
    let frames: Vec<Frame> = frames.list.iter().map(Frame::from).collect();
    write!(out, "\n],\"shared\":{{\"frames\":")?;
    serde_json::to_writer(&mut *out, &frames).map_err(io::Error::from)?;
    writeln!(out, "}}}}")
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// Without a source file, the module stands in its place.
impl<'a> From<&'a Known<'a>> for Frame<'a> {
    fn from(known: &'a Known<'a>) -> Frame<'a> {
        Frame {
            name: &known.name,
            file: known.file.or(known.module),
            line: known.line,
        }
    }
}

fn write_profile<'a>(
    report: &Report<'a>,
    profile: &Profile,
    frames: &mut Frames<'a>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let at = profile.section.process;
    let process = &report.recording.processes[at];
    write!(out, "\n{{\"type\":\"sampled\",\"name\":")?;
    string(&title(report, profile), out)?;
    write!(out, ",\"unit\":\"none\",\"startValue\":0")?;
    write!(out, ",\"endValue\":{},\"samples\":[", profile.total)?;
    let mut weights: Vec<u64> = Vec::new();
    stacks::each(profile.section, &[profile.metric.weight], |path, values| {
        let weight = values[0];
        if weight == 0 {
            return Ok(());
        }
        out.write_all(if weights.is_empty() { b"[" } else { b",[" })?;
        for (depth, &frame) in path.iter().enumerate() {
            out.write_all(if depth > 0 { b"," } else { b"" })?;
            write!(out, "{}", frames.number(at, process, frame))?;
        }
        weights.push(weight);
        out.write_all(b"]")
    })?;
    write!(out, "],\"weights\":")?;
    serde_json::to_writer(&mut *out, &weights).map_err(io::Error::from)?;
    out.write_all(b"}")
}

/// Names its program, its thread and its metric, as far as there are several.
fn title(report: &Report, profile: &Profile) -> String {
    let (program, thread) = names::origin(report, profile.section);
    let metric = profile.metric_name().map(str::to_owned);
    let parts = [Some(program), thread, metric].into_iter().flatten();
    parts.collect::<Vec<String>>().join(", ")
}

fn string(text: &str, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}
