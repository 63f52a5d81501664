//! Options of commands that log calls with their contexts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use report::allocations::By;

pub const LOG_EXAMPLES: &str = "\
Examples:
  everypath log-contexts open64,close -- git status     a line for each call
  everypath log-contexts malloc --values -- ./prog ARGS  with its arguments
  everypath log-contexts parse --folded -o out -- ./prog  for flame graphs

The program and its libraries are edited for the run; functions of both have
names, or addresses of the program (0x...), as `everypath flow FILE` lists them.";

#[derive(Debug, Args)]
pub struct LogContexts {
    /// Functions whose calls are logged
    #[arg(value_name = "NAME|ADDRESS,...")]
    pub functions: String,
    /// Write it here (standard output, when the program has ended)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show the first three arguments, and results
    #[arg(long, conflicts_with = "folded")]
    pub values: bool,
    /// Folded stacks: each path, and how often it came
    #[arg(long)]
    pub folded: bool,
    /// Show no progress, and say no sums
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    pub command: Vec<OsString>,
}

pub const ALLOCATIONS_EXAMPLES: &str = "\
Examples:
  everypath allocations -- ./prog ARGS                  what is there at the peak
  everypath allocations --sort leaked -- ./prog ARGS    and what was never freed
  everypath allocations --html out.html -- ./prog       a page to explore them with
  everypath allocations --format folded -o out -- ./prog  for flame graphs
  everypath allocations --allocate pool_get --release pool_put -- ./prog

The program and its libraries are edited for the run, stripped or not; contexts
are exact, as is each number. Lifetimes are means of blocks that were freed.";

/// Forms of a report of allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AllocatingForm {
    /// A table for people
    Text,
    /// All contexts with all figures
    Json,
    /// Folded stacks of the figure that --sort names
    Folded,
    /// A profile of pprof with all figures but lifetimes
    Pprof,
}

/// Figures by which contexts are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortedBy {
    /// Bytes that were there when most were
    Peak,
    /// Bytes that were never freed
    Leaked,
    /// All bytes
    Bytes,
    /// Allocations
    Blocks,
}

impl From<SortedBy> for By {
    fn from(by: SortedBy) -> By {
        match by {
            SortedBy::Peak => By::Peak,
            SortedBy::Leaked => By::Leaked,
            SortedBy::Bytes => By::Bytes,
            SortedBy::Blocks => By::Blocks,
        }
    }
}

#[derive(Debug, Args)]
pub struct Allocating {
    /// The figure that contexts are sorted by
    #[arg(long, value_name = "FIGURE", default_value = "peak")]
    pub sort: SortedBy,
    /// Contexts to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// The form of the report
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: AllocatingForm,
    /// Write it here (standard output, when the program has ended)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a page to explore all contexts with, besides
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The program's own functions that give blocks; argument 1: the bytes
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "release")]
    pub allocate: Vec<String>,
    /// And those that take them back; argument 1: the block
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "allocate"
    )]
    pub release: Vec<String>,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    pub command: Vec<OsString>,
}
