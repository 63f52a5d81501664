//! The statistics file of mlsTrace (figure 4.14 of the mTrace thesis), of the descriptors that were
//! written.

use std::io::{self, Write};

use trace::Recording;

use super::{CLASSES, View, Written};
use crate::mcf::skipped;

/// Writes the file. Stores are in it if they have descriptors.
pub fn statistics(
    recording: &Recording,
    written: &Written,
    view: &View,
    out: &mut dyn Write,
) -> io::Result<()> {
    // The recorder was killed if it says no duration.
    if recording.meta.duration_ns > 0 {
        let ms = recording.meta.duration_ns as f64 / 1e6;
        writeln!(out, "Instrumentation Time: {ms:.2} ms")?;
    }
    let totals = &written.totals;
    writeln!(out, "Number of Threads: {}", totals.threads)?;
    writeln!(out, "Traced {} instructions", totals.insns)?;
    match skipped(recording, totals.threads, totals.idle) {
        Some(skipped) => {
            let skipped = skipped.saturating_add(totals.passed);
            writeln!(out, "Skipped {skipped} instructions")?;
        }
        None => writeln!(
            out,
            "Skipped an unknown number of instructions, which were not selected"
        )?,
    }
    rows("Load", &written.loads, out)?;
    match view.stores {
        true => rows("Store", &written.stores, out),
        false => Ok(()),
    }
}

fn rows(kind: &str, classes: &[u64; CLASSES.len()], out: &mut dyn Write) -> io::Result<()> {
    let all: u64 = classes.iter().sum();
    writeln!(out, "Total {kind} Operands: {all}")?;
    for (number, (_, name)) in classes.iter().zip(CLASSES) {
        let share = *number as f64 * 100.0 / all.max(1) as f64;
        writeln!(out, "\t{number} ( %{share:.2} ) {name}")?;
    }
    Ok(())
}
