//! How well predictors did: a table of threads, and the statistics of figure 4.23.

use std::io::{self, Write};

use analysis::raptor::{Config, Counts};
use trace::Recording;

use super::{Row, len};
use crate::mcf;
use crate::numbers::{counted, grouped, percent};

pub fn summary(
    recording: &Recording,
    config: &Config,
    rows: &[Row<'_>],
    whose: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let command = recording.meta.command.join(" ");
    let entries = |name: &str, entries: u32| format!("{name} of {}", grouped(entries.into()));
    writeln!(
        out,
        "everypath raptor: {command}\n{}, {}, {}, {whose}\n",
        entries(config.outcomes.name, config.outcome_entries),
        entries("return-address stack", config.returns),
        entries(config.targets.name, config.target_entries),
    )?;
    writeln!(
        out,
        "{:>16} {:>14}    wrong {:>14}    wrong {:>14}  bits/insn  thread",
        "instructions", "outcomes", "targets", "bytes"
    )?;
    let (mut total, mut insns) = (Counts::default(), 0);
    for row in rows {
        total.add(&row.counts);
        insns += row.insns;
        let (process, thread) = (row.thread.process, row.thread.thread);
        let name = format!("{} of {} {}", thread.tid, process.pid, process.program());
        line(row.insns, &row.counts, &name, out)?;
    }
    if rows.len() != 1 {
        line(insns, &total, "all", out)?;
    }
    writeln!(out)?;
    if total.unclear_targets > 0 {
        writeln!(
            out,
            "{} in the way that was not used last: no decoder can tell; see --targets ibtb-last\n",
            counted(total.unclear_targets, "predicted target")
        )?;
    }
    statistics(recording, rows, out)
}

fn line(insns: u64, counts: &Counts, name: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>16} {:>14} {:>8} {:>14} {:>8} {:>14} {:>10.4}  {name}",
        grouped(insns),
        grouped(counts.outcomes),
        percent(counts.wrong_outcomes, counts.outcomes),
        grouped(counts.targets),
        percent(counts.wrong_targets, counts.targets),
        grouped(len(counts)),
        len(counts) as f64 * 8.0 / insns.max(1) as f64,
    )
}

/// The statistics file of mcfTRaptor (figure 4.23).
pub fn statistics(recording: &Recording, rows: &[Row<'_>], out: &mut dyn Write) -> io::Result<()> {
    const TOOL: &str = "mcfTRaptor";
    let mut total = Counts::default();
    rows.iter().for_each(|row| total.add(&row.counts));
    let idle = rows.iter().filter(|row| row.insns == 0).count();
    mcf::write_time(TOOL, recording, out)?;
    let skipped = mcf::skipped(recording, rows.len() as u64, idle as u64);
    mcf::write_skipped(TOOL, skipped, out)?;
    figure(&total, out)
}

fn figure(total: &Counts, out: &mut dyn Write) -> io::Result<()> {
    let all = total.outcomes + total.targets + total.exceptions;
    writeln!(
        out,
        "mcfTRaptor: Recorded {all} direct conditional branches, indirect unconditional \
         branches, and exceptions"
    )?;
    let rows = [
        ("conditional direct", total.outcomes, total.wrong_outcomes),
        ("unconditional indirect", total.targets, total.wrong_targets),
    ];
    for ((kind, count, wrong), what) in rows.into_iter().zip(["outcomes", "targets"]) {
        let share = |part: u64| part as f64 * 100.0 / count.max(1) as f64;
        let right = count - wrong;
        writeln!(out, "{count} {kind} branches")?;
        writeln!(out, "\t{right} ( %{:.2} ) {what} predicted", share(right))?;
        writeln!(
            out,
            "\t{wrong} ( %{:.2} ) {what} mispredicted",
            share(wrong)
        )?;
    }
    writeln!(out, "{} exceptions", total.exceptions)?;
    let others = total.exception_descriptors.saturating_sub(total.exceptions);
    if others == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\t{others} more descriptors of exceptions: where threads begin and end, handlers return, and \
         code was not traced or is another"
    )
}
