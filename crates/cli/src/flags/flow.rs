//! `flow`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub const FLOW_EXAMPLES: &str = "\
Examples:
  everypath flow ./prog                       what there is, and what is not known
  everypath flow ./prog --function main       blocks and edges beside the code
  everypath flow ./prog --function main --format svg > main.svg
  everypath flow ./prog --function 0x401136 --format dot | dot -Tpdf > f.pdf
  everypath count -o run.evp -- ./prog        then with exact counts:
  everypath flow ./prog --function main --counts run.evp --format svg > main.svg
  everypath flow ./prog --function main --live    registers and flags in use
  everypath flow ./prog --loops               loops, each below the one around it
  everypath flow ./prog --calls               who calls whom
  everypath flow ./prog --gates               functions that are not complete
  everypath flow ./prog --format json         everything, for programs
  everypath flow prog.o --calls               of an object file or kernel module
  everypath flow 'libc.a(msort.o)'            of a member of an archive
  everypath flow --table /usr/bin /usr/lib    of many files, how much is known";

#[derive(Debug, Args)]
pub struct Flow {
    /// A program, library, object file, archive, kernel module; with --table many
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Share of complete functions by language and linker, of all FILEs
    #[arg(long, conflicts_with_all = ["function", "loops", "calls", "gates", "format"])]
    pub table: bool,
    /// Only this function, by name or 0xADDRESS
    #[arg(long, value_name = "NAME", conflicts_with_all = ["loops", "calls", "gates"])]
    pub function: Option<String>,
    /// With --function: how often each block ran (FILE: made with `count -o`)
    #[arg(long, value_name = "FILE", requires = "function")]
    pub counts: Option<PathBuf>,
    /// Registers and flags that are live before each instruction
    #[arg(long, requires = "function")]
    pub live: bool,
    /// All loops
    #[arg(long, conflicts_with_all = ["calls", "gates"])]
    pub loops: bool,
    /// The call graph
    #[arg(long, conflicts_with = "gates")]
    pub calls: bool,
    /// Functions whose graphs may lack something, and why
    #[arg(long)]
    pub gates: bool,
    /// Names with all template arguments and parameters
    #[arg(long)]
    pub full_names: bool,
    /// Form of the report
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: FlowForm,
    /// Write the report to FILE, not standard output
    #[arg(
        short = 'o',
        long = "output",
        visible_alias = "report",
        value_name = "FILE"
    )]
    pub report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowForm {
    /// For people
    Text,
    /// Everything, for programs (docs/formats/flow.md)
    Json,
    /// The graph of --function, or with --calls that of calls, for Graphviz
    Dot,
    /// A picture of the graph of --function
    Svg,
}
