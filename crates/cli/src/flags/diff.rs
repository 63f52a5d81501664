//! `diff`.

use std::path::PathBuf;

use analysis::diff::Condition;
use clap::Args;

use super::DiffFormat;
use crate::condition;

pub const DIFF_EXAMPLES: &str = "\
Examples:
  everypath diff old.evp new.evp
  everypath diff old.evp new.evp --fail-if 'instructions>+2%'
  everypath diff old.evp new.evp --fail-if 'parse:calls>+0' --fail-if 'calls<-5000'
  everypath diff old.evp new.evp --format flamegraph > diff.svg
  everypath diff old.evp new.evp --html diff.html  a page to explore all changes with

A CONDITION is METRIC>+N or METRIC<-N: it grew, or shrank, by more than N; N% is
per cent of the value before. FUNCTION:METRIC>+N is about one function, in all
its contexts; its parameters may be left out, and MODULE! may stand before it.
METRIC is calls (of basic blocks: executions), instructions or another cost that
both have. The exit status is 0, or 1 if a condition is met, which is said on
standard error, or 125 if nothing could be compared.";

#[derive(Debug, Args)]
pub struct Diff {
    /// The recording to compare with (made with --output)
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The recording to compare
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Exit with status 1 if this is so; may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = condition::parse)]
    pub fail_if: Vec<Condition>,
    /// Form of the comparison
    #[arg(long, value_name = "FORM", default_value = "report")]
    pub format: DiffFormat,
    /// Write the comparison to FILE, not standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "html")]
    pub output: Option<PathBuf>,
    /// Write a page to explore all changes with, for a browser, and no comparison
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
    /// Code and source it may hold (8; 0: none); given, all that a recording names
    #[arg(long, value_name = "MB", requires = "html")]
    #[arg(value_parser = clap::value_parser!(u32).range(..1000))]
    pub html_code: Option<u32>,
    /// Metric to sort changes by (default: instructions, if both have them)
    #[arg(long, value_name = "METRIC")]
    pub by: Option<String>,
    /// Functions and contexts to show, most changed first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Show everything that changed
    #[arg(long, conflicts_with = "top")]
    pub full: bool,
    /// Compare even what was not recorded alike
    #[arg(long)]
    pub force: bool,
}
