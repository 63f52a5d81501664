//! Memory accesses of a trace by their sizes, as tables 5.2 to 5.4 of the mTrace thesis.

use std::io::{self, Write};

use analysis::branch_stats::Stats;
use analysis::walk::{AccessSizes, SIZES, access_sizes, selection};
use trace::Recording;

use crate::numbers::grouped;

/// Accesses of the threads of the statistics, and of all of them.
pub struct Memory {
    pub threads: Vec<AccessSizes>,
    pub total: AccessSizes,
}

impl Memory {
    /// `None`: the trace has no accesses.
    pub fn of(recording: &Recording, stats: &Stats) -> Option<Memory> {
        let all = access_sizes(recording, selection(recording)?);
        let threads = stats.threads.iter();
        let threads = threads.map(|thread| all[thread.process][thread.thread].clone());
        let threads: Vec<AccessSizes> = threads.collect();
        let mut total = AccessSizes::default();
        threads.iter().for_each(|thread| total.add(thread));
        Some(Memory { threads, total })
    }
}

pub fn text(memory: &Memory, insns: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:>16}  per insn {:>18}  per insn  memory accesses",
        "reads", "writes"
    )?;
    let AccessSizes { reads, writes, .. } = &memory.total;
    let each = |number: u64| format!("{:.4}", number as f64 / insns.max(1) as f64);
    let mut row = |reads: u64, writes: u64, name: &str| {
        let (read, written) = (each(reads), each(writes));
        let (reads, writes) = (grouped(reads), grouped(writes));
        writeln!(
            out,
            "{reads:>16} {read:>9} {writes:>18} {written:>9}  {name}"
        )
    };
    row(reads.iter().sum(), writes.iter().sum(), "all")?;
    for ((&reads, &writes), size) in reads.iter().zip(writes).zip(names()) {
        row(reads, writes, &size)?;
    }
    Ok(())
}

/// Names of the rows.
fn names() -> impl Iterator<Item = String> {
    let sizes = SIZES.iter().map(|size| match size {
        1 => "1 byte".to_owned(),
        size => format!("{size} bytes"),
    });
    sizes.chain(["other sizes".to_owned()])
}
