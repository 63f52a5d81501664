//! The statistics file of mcfTrace (figure 4.3 of the mTrace thesis), of the descriptors that
//! were written.

use std::io::{self, Write};
use std::ops::Range;

use analysis::branch_stats::Stats;
use trace::Recording;

use super::TYPES;

/// Options of `trace` that leave out more than the beginnings and ends of threads.
pub const LEAVE_OUT: [&str; 9] = [
    "funcs",
    "modules",
    "no-shared-libs",
    "start-func",
    "stop-func",
    "ctl",
    "paused",
    "start-signal",
    "stop-signal",
];

/// The instructions and time that descriptors are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions among which the branches were.
    pub insns: u64,
    /// Instructions of the trace that were passed before those.
    pub passed: u64,
    /// Branches, by the type that descriptors have.
    pub types: [u64; TYPES],
    pub threads: u64,
    /// Threads of which the trace has no instruction.
    pub idle: u64,
}

impl Totals {
    /// Totals of a whole trace.
    pub fn of(stats: &Stats) -> Totals {
        let total = &stats.total;
        let idle = |thread: &&analysis::branch_stats::Thread| thread.executed.insns == 0;
        Totals {
            insns: total.insns,
            passed: 0,
            types: [
                total.indirect(),
                total.direct(),
                total.taken,
                total.not_taken(),
            ],
            threads: stats.threads.len() as u64,
            idle: stats.threads.iter().filter(idle).count() as u64,
        }
    }

    /// Totals of a run of so many instructions, of which those in `range` were wanted.
    pub(crate) fn executed(&mut self, insns: u64, range: &Range<u64>) {
        let (before, end) = (range.start.saturating_sub(1), range.end.saturating_sub(1));
        self.insns += insns.min(end).saturating_sub(before);
        self.passed += insns.min(before);
    }

    /// A thread was read, up to that instruction.
    pub(crate) fn thread(&mut self, insns: u64) {
        self.threads += 1;
        self.idle += u64::from(insns == 0);
    }
}

/// Writes the file.
pub fn statistics(recording: &Recording, totals: &Totals, out: &mut dyn Write) -> io::Result<()> {
    let all: u64 = totals.types.iter().sum();
    writeln!(out, "mcfTrace: Traced {} instructions", totals.insns)?;
    let skipped = skipped(recording, totals.threads, totals.idle);
    let skipped = skipped.map(|skipped| skipped.saturating_add(totals.passed));
    write_skipped("mcfTrace", skipped, out)?;
    writeln!(
        out,
        "mcfTrace: Recorded {all} control transfer instructions."
    )?;
    let [indirect, direct, taken, not_taken] = totals.types;
    let rows = [
        (direct, "Unconditional Direct"),
        (taken, "Conditional Direct Taken"),
        (not_taken, "Conditional Direct Not Taken"),
        (indirect, "Unconditional Indirect"),
    ];
    for (count, class) in rows {
        let share = count as f64 * 100.0 / all.max(1) as f64;
        writeln!(out, "\t{count} ( %{share:.2} ) {class}")?;
    }
    write_time("mcfTrace", recording, out)
}

/// Instructions that were passed before tracing began: those of `--skip`, of each thread, or of
/// all together. `None`: others were left out, too, which nobody counted, or some thread ended before.
pub(crate) fn skipped(recording: &Recording, threads: u64, idle: u64) -> Option<u64> {
    let (mut skip, mut together) = (0u64, false);
    for (name, value) in &recording.meta.options {
        match &**name {
            "skip" => skip = value.parse().ok()?,
            "together" => together = true,
            name if LEAVE_OUT.contains(&name) => return None,
            _ => {}
        }
    }
    match together {
        true => (skip == 0 || idle < threads).then_some(skip),
        false => (skip == 0 || idle == 0).then(|| skip.saturating_mul(threads)),
    }
}

/// A line of all statistics.
pub(crate) fn write_skipped(
    tool: &str,
    skipped: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match skipped {
        Some(insns) => writeln!(out, "{tool}: Skipped {insns} instructions"),
        None => writeln!(
            out,
            "{tool}: Skipped an unknown number of instructions, which were not selected"
        ),
    }
}

/// For how long the program ran while it was recorded; nothing if the recorder was killed.
pub(crate) fn write_time(tool: &str, recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    match recording.meta.duration_ns {
        0 => Ok(()),
        ns => writeln!(
            out,
            "{tool}: Instrumentation Time {:.2} ms",
            ns as f64 / 1e6
        ),
    }
}
