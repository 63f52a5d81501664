//! Lines of memory that threads share, for people and as JSON.

use std::io::{self, Write};

use analysis::caches::{Shared, Use};
use serde::Serialize;

use super::Report;
use super::caches::Form;
use crate::names::base_name;
use crate::numbers::{command_line, cut_middle, grouped};
use crate::short_names::short;
use crate::text::Style;

const VERSION: u32 = 1;

/// A line, and names of variables that are in it.
pub type Named = (Shared, Vec<String>);

/// Writes the lines, in their order.
pub fn write(
    report: &Report<'_>,
    shared: &[Named],
    form: Form,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Form::Text => text(report, shared, style, out),
        Form::Json => json(report, shared, out),
    }
}

/// Ranges of bytes: `0-7, 16`.
fn ranges(bytes: u64) -> String {
    let mut all = Vec::new();
    let mut at = 0;
    while at < 64 {
        let len = (bytes >> at).trailing_ones();
        match len {
            0 => at += 1,
            1 => all.push(format!("{at}")),
            len => all.push(format!("{at}-{}", at + len - 1)),
        }
        at += len;
    }
    all.join(", ")
}

fn text(
    report: &Report<'_>,
    shared: &[Named],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let command = command_line(&report.recording.meta.command);
    let title = format!("everypath caches --sharing: {command}");
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    if shared.is_empty() {
        writeln!(
            out,
            "\nno line of 64 bytes is written by one thread and used by another one"
        )?;
    }
    for (one, variables) in shared {
        let kind = match one.is_false() {
            true => "false sharing: no busy thread writes a byte that another one uses",
            false => "shared: bytes that one thread writes are used by another one",
        };
        let process = &report.recording.processes[one.process];
        let variables = match variables.is_empty() {
            true => String::new(),
            false => format!(" ({})", variables.join(", ")),
        };
        let (at, pid) = (one.address, process.pid);
        let head = format!("{at:#x}{variables}, process {pid}: {kind}");
        writeln!(out, "\n{}", style.bold(&head))?;
        for own in &one.uses {
            let tid = process.threads[own.thread].tid;
            writeln!(
                out,
                "{:>16} reads {:>16} writes  thread {tid}, bytes {}{}",
                grouped(own.reads),
                grouped(own.writes),
                ranges(own.read | own.written),
                style.dim(&place(report, own)),
            )?;
        }
    }
    writeln!(out)?;
    let note = "a line that is handed from one thread to another looks shared, too; order is by the \
                accesses of all threads but the one with the most";
    writeln!(out, "{}", style.paragraph("note: ", note))
}

/// The instruction that uses a line most, in words.
fn place(report: &Report<'_>, own: &Use) -> String {
    let Some((at, _)) = own.most else {
        return String::new();
    };
    let section = &report.sections[0];
    let insn = &section.counts.insns[at];
    let name = section.function_name(insn).map_or_else(
        || section.place(insn),
        |name| match report.view.full_names {
            true => name.to_owned(),
            false => short(name),
        },
    );
    match section.file(insn) {
        Some((file, line)) => format!(", most in {name} {}:{line}", base_name(file)),
        None => format!(", most in {name}"),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    producer: &'a str,
    command: &'a [String],
    lines: Vec<JsonLine<'a>>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    process: u32,
    address: u64,
    variables: &'a [String],
    is_false: bool,
    weight: u64,
    threads: Vec<JsonUse<'a>>,
}

#[derive(Serialize)]
struct JsonUse<'a> {
    thread: u32,
    reads: u64,
    writes: u64,
    /// Ranges of bytes of the line.
    bytes_read: String,
    bytes_written: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

fn json(report: &Report<'_>, shared: &[Named], out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    let section = &report.sections[0];
    let lines = shared.iter().map(|(one, variables)| {
        let process = &report.recording.processes[one.process];
        let uses = one.uses.iter().map(|own| {
            let insn = own.most.map(|(at, _)| &section.counts.insns[at]);
            let source = insn.and_then(|insn| section.file(insn));
            JsonUse {
                thread: process.threads[own.thread].tid,
                reads: own.reads,
                writes: own.writes,
                bytes_read: ranges(own.read),
                bytes_written: ranges(own.written),
                function: insn.and_then(|insn| section.function_name(insn)),
                file: source.map(|(file, _)| file),
                line: source.map(|(_, line)| line),
            }
        });
        JsonLine {
            process: process.pid,
            address: one.address,
            variables,
            is_false: one.is_false(),
            weight: one.weight(),
            threads: uses.collect(),
        }
    });
    let document = Document {
        format: "everypath sharing",
        version: VERSION,
        producer: &meta.producer,
        command: &meta.command,
        lines: lines.collect(),
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_ranges() {
        assert_eq!(ranges(0), "");
        assert_eq!(ranges(0xff | 1 << 16 | 3 << 62), "0-7, 16, 62-63");
        assert_eq!(ranges(u64::MAX), "0-63");
    }
}
