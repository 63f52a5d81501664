//! Reuse distances of a run, for people and as JSON: misses of caches of all sizes.

use std::io::{self, Write};

use analysis::caches::Reuse;
use serde::Serialize;
use trace::Meta;

use crate::numbers::{command_line, counted, cut_middle, grouped};
use crate::text::Style;

const VERSION: u32 = 1;
/// Lines of the smallest cache that is shown, as a power of two: 1 KB.
const LEAST: usize = 4;

/// Writes a table: a line for each size of a cache, up to one in which all fits.
pub fn text(meta: &Meta, reuse: &Reuse, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("everypath caches --reuse: {}", command_line(&meta.command));
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    let (all, line) = (reuse.accesses(), reuse.line);
    writeln!(
        out,
        "\n{} to {} of {line} bytes ({}); the thread with most has {}",
        counted(all, "access"),
        counted(reuse.lines, "line"),
        bytes(reuse.lines * line),
        bytes(reuse.most_lines * line)
    )?;
    let head = format!("{:>10}  {:>20}  {:>9}", "cache", "misses", "share");
    writeln!(out, "\n{}", style.dim(&head))?;
    for size in LEAST..reuse.distances.len() {
        let misses = reuse.misses(size);
        writeln!(
            out,
            "{:>10}  {:>20}  {:>7.3} %",
            bytes(line << size),
            grouped(misses),
            100.0 * misses as f64 / all.max(1) as f64
        )?;
        if misses == reuse.first {
            break;
        }
    }
    let note = "caches that keep what was used last, wherever it is (fully associative), one for each thread; data alone. \
                The misses of the last one are first accesses";
    writeln!(out, "\n{}", style.paragraph("note: ", note))
}

/// Bytes, in the largest unit that divides them, or nearly.
fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_048_576 => (1024.0, "KB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MB"),
        _ => (1_073_741_824.0, "GB"),
    };
    let number = bytes as f64 / unit;
    match number.fract() == 0.0 {
        true => format!("{number:.0} {name}"),
        false => format!("{number:.1} {name}"),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    producer: &'a str,
    command: &'a [String],
    /// Bytes of a line.
    line: u64,
    accesses: u64,
    first: u64,
    lines: u64,
    most_lines: u64,
    distances: Vec<Distance>,
}

#[derive(Serialize)]
struct Distance {
    /// The distances from one on up to below another one.
    from: u64,
    below: u64,
    accesses: u64,
    /// Misses of a cache of `below` lines.
    misses: u64,
}

pub fn json(meta: &Meta, reuse: &Reuse, out: &mut dyn Write) -> io::Result<()> {
    let last = reuse.distances.iter().rposition(|count| *count > 0);
    let shown = reuse.distances.iter().take(last.map_or(0, |last| last + 1));
    let distances = shown.enumerate().map(|(size, accesses)| Distance {
        from: (1 << size) >> 1,
        below: 1 << size,
        accesses: *accesses,
        misses: reuse.misses(size),
    });
    let document = Document {
        format: "everypath reuse",
        version: VERSION,
        producer: &meta.producer,
        command: &meta.command,
        line: reuse.line,
        accesses: reuse.accesses(),
        first: reuse.first,
        lines: reuse.lines,
        most_lines: reuse.most_lines,
        distances: distances.collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
