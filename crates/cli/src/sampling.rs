//! Whether the time of contexts is sampled.
//!
//! Problem: a person at a terminal asks where time goes, and a script wants the same report of the same run.
//!
//! Approach: a report that a terminal shows has times without being asked, if there are enough of them; any other
//! has them by `--time`, or where it is sorted by one (docs/design/0057-sampled-time.md).

use std::io::{self, IsTerminal};

use launch::Samples;

use crate::commands::sorted_by;
use crate::flags::{ContextMode, Contexts, Format, Metric, YesNo};

/// Whether it is sampled where threads execute and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    No,
    /// Times are kept if there are enough for shares to mean something.
    IfLong,
    Yes,
}

/// A program that executed for less time, all threads together, gives a sample that says little.
const LONG_NS: u64 = 50_000_000;

impl Sampling {
    /// By the options, and by where the report goes.
    pub fn of(flags: &Contexts) -> Sampling {
        let has_instructions = flags.cost.is_empty() || flags.cost.contains(&Metric::Instructions);
        let can = flags.mode == ContextMode::Function && !flags.rewrite && has_instructions;
        let destination = &flags.destination;
        let is_read = destination.format == Format::Report
            && destination.report.is_none()
            && !destination.quiet
            && io::stderr().is_terminal();
        match flags.time {
            _ if is_asked(flags) => Sampling::Yes,
            None if can && is_read => Sampling::IfLong,
            _ => Sampling::No,
        }
    }

    /// Whether the times of a run come into its recording.
    pub fn keeps(self, samples: &Samples) -> bool {
        match self {
            Sampling::No => false,
            Sampling::IfLong => samples.executed_ns() >= LONG_NS,
            Sampling::Yes => true,
        }
    }
}

/// Whether time is asked for, also by `--by`.
pub fn is_asked(flags: &Contexts) -> bool {
    let by_time = sorted_by(&flags.view).is_some_and(trace::Cost::is_time);
    match flags.time {
        Some(when) => when == YesNo::Yes,
        None => by_time,
    }
}
