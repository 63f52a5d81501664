//! The program, and options of every command that runs one.

use std::ffi::OsString;

use clap::Args;

use super::{Wait, YesNo};

/// The program that is run.
#[derive(Debug, Args)]
pub struct Target {
    /// Whether processes that the program starts are counted, too
    #[arg(
        long,
        value_name = "YES|NO",
        default_value = "yes",
        hide_possible_values = true
    )]
    pub follow_children: YesNo,
    /// Record until the first process ends, or all do (or Ctrl-C, SIGTERM)
    #[arg(long, value_name = "WHOM", default_value = "first")]
    pub wait: Wait,
    /// Be the program, with its parent and number; the recording comes later
    #[arg(long, conflicts_with = "wait")]
    pub in_place: bool,
    /// Stress the translator: tiny cache, flush storms, early signals
    #[arg(long, value_name = "SEED", hide = true)]
    pub chaos: Option<u64>,
    /// Compare with native runs, from about every Nth exit of the cache
    #[arg(long, value_name = "N", hide = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..1 << 30))]
    pub lockstep: Option<u32>,
    /// Do not lay code out anew by the clock: runs translate as much every time
    #[arg(long, hide = true)]
    pub steady: bool,
    /// Mistranslate calls, to show that --lockstep sees it
    #[arg(long, hide = true)]
    pub lockstep_fault: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true)]
    #[arg(trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
