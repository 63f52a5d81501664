//! Statistics of mlvCFiat: the tool's file (figure 4.38), and a table for people.

use std::io::{self, Write};

use analysis::cfiat::{CLASSES, Config, Counts, Decoded, Hits, Replacement};
use trace::Recording;

use super::{HEAD, Row};
use crate::mcf::skipped;
use crate::mls;
use crate::numbers::grouped;

/// Writes the file.
pub fn statistics(recording: &Recording, rows: &[Row<'_>], out: &mut dyn Write) -> io::Result<()> {
    // The recorder was killed if it says no duration.
    if recording.meta.duration_ns > 0 {
        let ms = recording.meta.duration_ns as f64 / 1e6;
        writeln!(out, "Instrumentation Time (ms): {ms:.6}")?;
    }
    let insns: u64 = rows.iter().map(|row| row.insns).sum();
    writeln!(out, "Instructions Traced: {insns}")?;
    let idle = rows.iter().filter(|row| row.insns == 0).count();
    match skipped(recording, rows.len() as u64, idle as u64) {
        Some(skipped) => writeln!(out, "Skipped Instructions: {skipped}")?,
        None => writeln!(out, "Skipped Instructions: unknown, not selected")?,
    }
    let total = total(rows);
    for (title, classes) in [
        ("Cache References", &total.cache),
        ("First Access Flag References", &total.flags),
    ] {
        writeln!(out, "\n-- {title} Hits:Misses (Hit Rate)")?;
        line("Total", sum(classes), out)?;
        for (hits, (_, name)) in classes.iter().zip(mls::CLASSES) {
            let name = match name {
                "Operands of other size" => "Other Sized Operands",
                name => name,
            };
            line(name, *hits, out)?;
        }
    }
    Ok(())
}

fn line(name: &str, hits: Hits, out: &mut dyn Write) -> io::Result<()> {
    let rate = hits.hits * 100 / hits.all().max(1);
    writeln!(out, "\t{name} {}:{} ({rate}%)", hits.hits, hits.misses)
}

fn total(rows: &[Row<'_>]) -> Counts {
    let mut total = Counts::default();
    rows.iter().for_each(|row| total.add(&row.counts));
    total
}

fn sum(classes: &[Hits; CLASSES]) -> Hits {
    let mut sum = Hits::default();
    for hits in classes {
        sum.hits += hits.hits;
        sum.misses += hits.misses;
    }
    sum
}

/// Writes what the cache and the flags did, of each thread and of all.
pub fn summary(
    config: &Config,
    rows: &[Row<'_>],
    is_shared: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let replacement = match config.replacement {
        Replacement::RoundRobin => "round robin",
        Replacement::Lru => "least recently used",
    };
    let whose = match is_shared {
        true => "shared by the threads of a process",
        false => "private to each thread",
    };
    writeln!(
        out,
        "Cache of {} KB, {} ways, lines of {} bytes, a flag for {} bytes, {replacement}, {whose}{}",
        f64::from(config.size) / 1024.0,
        config.ways,
        config.line,
        config.granule,
        if config.coherent { ", coherent" } else { "" },
    )?;
    writeln!(
        out,
        "\n{:>10} {:>16} {:>14} {:>9} {:>14} {:>14} {:>9} {:>16} {:>11}",
        "thread",
        "instructions",
        "accesses",
        "missed, %",
        "loads",
        "descriptors",
        "loads, %",
        "bytes",
        "bytes/load"
    )?;
    for one in rows {
        let name = one.thread.thread.tid.to_string();
        line_of(&name, one.insns, &one.counts, out)?;
    }
    let all = total(rows);
    if rows.len() > 1 {
        line_of("all", rows.iter().map(|row| row.insns).sum(), &all, out)?;
    }
    if config.coherent {
        let invalidated = grouped(all.invalidated);
        writeln!(
            out,
            "\n{invalidated} loads of lines that others had written"
        )?;
    }
    Ok(())
}

/// A line of the table.
fn line_of(name: &str, insns: u64, counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    let cache = sum(&counts.cache);
    let share = |part: u64, all: u64| part as f64 * 100.0 / all.max(1) as f64;
    let bytes = counts.descriptors * HEAD as u64 + counts.value_bytes;
    writeln!(
        out,
        "{name:>10} {:>16} {:>14} {:>9.3} {:>14} {:>14} {:>9.3} {:>16} {:>11.4}",
        grouped(insns),
        grouped(cache.all()),
        share(cache.misses, cache.all()),
        grouped(counts.loads),
        grouped(counts.descriptors),
        share(counts.descriptors, counts.loads),
        grouped(bytes),
        bytes as f64 / counts.loads.max(1) as f64,
    )
}

/// Says how many loads were made again.
pub fn decoded(decoded: &Decoded, out: &mut dyn Write) -> io::Result<()> {
    let Decoded {
        loads,
        described,
        wrong,
        unknown,
    } = *decoded;
    writeln!(
        out,
        "{} loads made of {} descriptors; {} wrong ({:.4} %), {} that the trace does not know",
        grouped(loads),
        grouped(described),
        grouped(wrong),
        wrong as f64 * 100.0 / (loads - unknown).max(1) as f64,
        grouped(unknown),
    )
}
