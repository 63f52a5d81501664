//! Statistics of a trace: as a report, as JSON (docs/formats/stats.md), and as the
//! statistics file of mcfTrace.

mod json;
mod memory;

use std::io::{self, Write};

use analysis::branch_stats::{BIASES, Executed, Stats};
use analysis::walk::Kind;
use trace::Recording;

use crate::mcf;
use crate::numbers::{counted, grouped, percent};

use memory::Memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Report,
    Json,
    Mcf,
}

pub fn write(
    form: Form,
    recording: &Recording,
    stats: &Stats,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Form::Report => text(recording, stats, out),
        Form::Json => json::write(recording, stats, Memory::of(recording, stats).as_ref(), out),
        Form::Mcf => mcf::statistics(recording, &mcf::Totals::of(stats), out),
    }
}

/// Name of the branches of a kind.
pub(crate) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Conditional => "conditional branch",
        Kind::Jump => "direct jump",
        Kind::Call => "direct call",
        Kind::IndirectJump => "indirect jump",
        Kind::IndirectCall => "indirect call",
        Kind::Return => "return",
    }
}

fn text(recording: &Recording, stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    let total = &stats.total;
    writeln!(
        out,
        "everypath stats: {}\n{}, {}, {} ({} of instructions)\n",
        recording.meta.command.join(" "),
        counted(stats.threads.len() as u64, "thread"),
        counted(total.insns, "instruction"),
        counted(total.branches(), "branch").replace("branchs", "branches"),
        percent(total.branches(), total.insns),
    )?;
    classes(recording, stats, out)?;
    kinds(stats, out)?;
    biases(stats, out)?;
    writeln!(
        out,
        "\nblocks: {:.2} instructions on average, {} at most",
        total.mean_block(),
        grouped(total.longest_block)
    )?;
    for (class, count) in total.blocks.iter().enumerate() {
        let most = 1u64 << class;
        let lengths = match most / 2 + 1 {
            least if least >= most => most.to_string(),
            least => format!("{least} to {most}"),
        };
        let share = percent(*count, total.branches());
        writeln!(out, "{lengths:>16} {:>18} {share:>9}", grouped(*count))?;
    }
    writeln!(
        out,
        "\ncall depth: {:.2} on average over {}, {} at most; {}",
        total.mean_depth(),
        counted(total.calls(), "call"),
        grouped(total.depth.deepest),
        counted(total.signals, "signal"),
    )?;
    let memory = Memory::of(recording, stats);
    if let Some(memory) = &memory {
        memory::text(memory, total.insns, out)?;
    }
    for thread in &stats.threads {
        if let Some(error) = &thread.error {
            let tid = recording.processes[thread.process].threads[thread.thread].tid;
            writeln!(out, "thread {tid} is not sound: {error}")?;
        }
    }
    Ok(())
}

/// The classes of mcfTrace, for each thread and together.
fn classes(recording: &Recording, stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>16} {:>14}   direct   cond. taken   not taken   indirect  thread",
        "instructions", "branches"
    )?;
    let mut row = |executed: &Executed, name: &str| {
        let share = |count| percent(count, executed.branches());
        writeln!(
            out,
            "{:>16} {:>14}  {:>7}       {:>7}     {:>7}    {:>7}  {name}",
            grouped(executed.insns),
            grouped(executed.branches()),
            share(executed.direct()),
            share(executed.taken),
            share(executed.not_taken()),
            share(executed.indirect()),
        )
    };
    for thread in &stats.threads {
        let process = &recording.processes[thread.process];
        let tid = process.threads[thread.thread].tid;
        let name = format!("{tid} of {} {}", process.pid, process.program());
        row(&thread.executed, &name)?;
    }
    if stats.threads.len() != 1 {
        row(&stats.total, "all")?;
    }
    Ok(())
}

fn kinds(stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:>16} {:>9} {:>11}   entropy   targets      most  kind of branch",
        "executed", "%", "distinct"
    )?;
    let (total, distinct) = (&stats.total, &stats.distinct);
    for kind in Kind::ALL {
        let at = kind as usize;
        let executed = total.kind(kind);
        let mean = |bits: f64| format!("{:.4}", bits / executed.max(1) as f64);
        let (entropy, targets, most) = match kind {
            Kind::Conditional => (mean(distinct.outcome_bits), String::new(), String::new()),
            kind if kind.is_indirect() => {
                let (sum, most) = distinct.targets[at];
                (mean(distinct.target_bits[at]), grouped(sum), grouped(most))
            }
            _ => Default::default(),
        };
        writeln!(
            out,
            "{:>16} {:>9} {:>11} {entropy:>9} {targets:>9} {most:>9}  {}",
            grouped(executed),
            percent(executed, total.branches()),
            grouped(distinct.kinds[at]),
            name(kind)
        )?;
    }
    Ok(())
}

fn biases(stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:>16} {:>9} {:>11}  conditional branches by bias",
        "executed", "%", "distinct"
    )?;
    let all = stats.total.kind(Kind::Conditional);
    for ((_, name), (distinct, executed)) in BIASES.iter().zip(stats.distinct.biases) {
        let (share, executed) = (percent(executed, all), grouped(executed));
        writeln!(
            out,
            "{executed:>16} {share:>9} {:>11}  {name}",
            grouped(distinct)
        )?;
    }
    Ok(())
}
