//! `loops`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub const LOOPS_EXAMPLES: &str = "\
Examples:
  everypath loops -- ./prog ARGS                      strides and iterations of all nests
  everypath loops --loops solve --exact -- ./prog     of one function, all iterations
  everypath loops --libs -- gzip -dc FILE.gz          those of its libraries, too
  everypath loops --html loops.html -- ./prog         a page with source lines
  everypath loops --list ./prog                       all nests, and marks in the sources
  everypath loops --list ./prog --loops marks         those that marks mean
  everypath loops --list ./prog --loops sum,solve:2   of a function, and the second of one
  everypath trace --memory addresses -o run.evp -- ./prog
  everypath loops --trace run.evp                     code that cannot be edited
  everypath loops --dependences run.evp --loops solve what its iterations need of others
  everypath count -o run.evp -- ./prog                then by executed instructions:
  everypath loops --list ./prog --loops hottest:20 --counts run.evp

A mark is a line before a loop: `#pragma everypath loop(NAME)` or `// everypath: loop
NAME` in C, C++ and Rust, `!everypath: loop NAME` in Fortran. Lines need -g.";

#[derive(Debug, Args)]
pub struct Loops {
    /// List the nests of loops of a program or library; nothing is run
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub list: Option<PathBuf>,
    /// Dependences among the accesses of nests, of a trace with addresses
    #[arg(long, value_name = "FILE.evp", conflicts_with_all = ["command", "list"])]
    pub dependences: Option<PathBuf>,
    /// Follow all nests in a trace with addresses: any code, all iterations
    #[arg(long, value_name = "FILE.evp", conflicts_with_all = ["command", "list", "dependences", "exact", "entries", "again"])]
    pub trace: Option<PathBuf>,
    /// Follow all iterations of all entries, not only the first ones
    #[arg(long, conflicts_with_all = ["list", "dependences"])]
    pub exact: bool,
    /// Also count the steps of each reference from one access to the next
    #[arg(long, conflicts_with_all = ["list", "dependences"])]
    pub strides: bool,
    /// Entries of each nest that a thread follows
    #[arg(long, value_name = "N", default_value_t = 16, conflicts_with = "exact")]
    pub entries: u16,
    /// Follow nests again after each so many seconds, or on a signal (USR1, USR2)
    #[arg(long, value_name = "SECONDS|SIGNAL", conflicts_with_all = ["list", "dependences", "exact"])]
    pub again: Option<String>,
    /// Also follow the nests of the libraries that the program needs
    #[arg(long, conflicts_with_all = ["list", "dependences"])]
    pub libs: bool,
    /// Which: all, marks, mark:NAME, hottest:N, FUNCTION, FUNCTION:N
    #[arg(
        long,
        value_name = "WHICH,...",
        value_delimiter = ',',
        default_value = "all"
    )]
    pub loops: Vec<String>,
    /// How often code ran (FILE.evp: made with `count -o`)
    #[arg(long, value_name = "FILE.evp")]
    pub counts: Option<PathBuf>,
    /// Names with all template arguments and parameters
    #[arg(long)]
    pub full_names: bool,
    /// Form of the report
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: LoopsForm,
    /// Also write a page with colours and source lines to FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "dependences"])]
    pub html: Option<PathBuf>,
    /// Write the report to FILE, not standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// The program whose nests are followed, and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present_any = ["list", "dependences", "trace"], last = true)]
    pub command: Vec<OsString>,
}

/// Forms of a list of loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoopsForm {
    /// A line for each loop
    Text,
    /// Source lines with the loops and references of each; needs -g
    Source,
    /// A table of references, with the columns of Intel Advisor's access patterns
    Csv,
    /// Everything, references among it
    Json,
}
