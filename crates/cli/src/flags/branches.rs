//! `stats`, `dump --mcf` and `dump --mls`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Packing;

pub const STATS_EXAMPLES: &str = "\
Examples:
  everypath trace -o run.evp -- ./prog
  everypath stats run.evp
  everypath stats run.evp --thread 4711
  everypath stats run.evp --format json > stats.json   (docs/formats/stats.md)
  everypath stats run.evp --format mcf                 as mcfTrace writes them

The entropy of a branch is the number of bits that an outcome, or a target, says
to who knows how often each was at that branch of the code.";

/// Descriptors of mcfTrace or mlsTrace instead of text.
#[derive(Debug, Args)]
#[command(mut_arg("compress", |compress| compress.requires("descriptors")))]
#[command(mut_arg("descriptor_limit", |limit| limit.requires("descriptors")))]
pub struct Mcf {
    /// Write the descriptors of mcfTrace instead (docs/formats/mcf.md)
    #[arg(long, value_name = "FORM", group = "descriptors")]
    pub mcf: Option<DescriptorForm>,
    /// Write the descriptors of mlsTrace: loads of a trace with --memory values
    #[arg(long, value_name = "FORM", group = "descriptors", conflicts_with_all = ["mcf", "order", "accesses", "funcs", "pt"])]
    pub mls: Option<DescriptorForm>,
    /// With --mls: stores, too
    #[arg(long, requires = "mls")]
    pub stores: bool,
    /// Put the instruction behind each descriptor of --mcf ascii, --mls ascii
    #[arg(long, requires = "descriptors")]
    pub disasm: bool,
    /// Write the descriptors to FILE, not standard output
    #[arg(short, long, value_name = "FILE", requires = "descriptors")]
    pub output: Option<PathBuf>,
    /// Name the file by the time, if -o does not; statistics beside, as mTrace
    #[arg(long, requires = "descriptors")]
    pub thesis: bool,
    #[command(flatten)]
    pub packing: Packing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DescriptorForm {
    /// As bytes
    Binary,
    /// As lines of text
    Ascii,
}

#[derive(Debug, Args)]
pub struct Stats {
    /// The trace (made with `everypath trace`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only the thread with this number
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,
    /// Form of the statistics
    #[arg(long, value_name = "FORM", default_value = "report")]
    pub format: StatsForm,
    /// Write the statistics to FILE, not standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatsForm {
    /// Tables, for a terminal
    Report,
    /// Everything, for programs
    Json,
    /// The statistics file of mcfTrace
    Mcf,
}
