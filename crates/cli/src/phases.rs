//! `--phases`: the time that each phase of a run took, by the clock of this command and the clocks of its processes.
//!
//! Approach: all of them read CLOCK_MONOTONIC; what translation took is counted by the processor's counter, whose rate is
//! measured over the run.
//!
//! Limits: what the kernel and the dynamic linker did before `main` is not in it, and of processes neither `exec` nor what the kernel does
//! behind their end.

use std::sync::OnceLock;

use launch::Reading;
use report::phases::Phases;
use rustix::time::{ClockId, clock_gettime};
use trace::Recording;
use wire::stat;

/// When the command began.
static BEGAN: OnceLock<u64> = OnceLock::new();

/// The command begins.
pub fn begin() {
    BEGAN.get_or_init(now);
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Says the phases of a run that is over, and shown. `before`: the counter before it.
pub fn say(recording: &Recording, before: Option<Reading>) {
    let lines = of(recording, before).lines();
    lines.iter().for_each(|line| say!("{line}"));
}

fn of(recording: &Recording, before: Option<Reading>) -> Phases {
    let processes = &recording.processes;
    let sum = |index: usize| -> u64 {
        let each = processes
            .iter()
            .filter_map(|process| process.stats.get(index));
        each.sum()
    };
    let rate = before.and_then(|before| Reading::now()?.per_second_since(before));
    let translating = rate.map(|rate| {
        let cycles = u128::from(sum(stat::TRANSLATE_CYCLES));
        let ns = cycles * 1_000_000_000 / u128::from(rate.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    });
    let now = now();
    let began = BEGAN.get().copied().unwrap_or(now);
    // A process that was killed did not say when.
    let end = |process: &trace::Process| process.end_ns.unwrap_or(now).min(now);
    let first = processes.iter().map(|process| process.start_ns).min();
    let last = processes.iter().map(end).max();
    let lasted = |process| end(process).saturating_sub(process.start_ns);
    Phases {
        before: first.unwrap_or(now).saturating_sub(began),
        starting: sum(stat::STARTING_NS),
        translating,
        waiting: sum(stat::WAITING_NS),
        processes: processes.iter().map(lasted).sum(),
        after: now.saturating_sub(last.unwrap_or(now)),
        number_of_processes: processes.len() as u64,
        blocks: sum(stat::BLOCKS),
        instructions: sum(stat::APP_INSNS_TRANSLATED),
    }
}
