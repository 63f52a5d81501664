//! `rewrite`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub const REWRITE_EXAMPLES: &str = "\
Examples:
  everypath rewrite ./prog -o prog.new --tool segment      room for more code
  everypath rewrite ./prog -o prog.new --tool null         functions moved
  everypath rewrite ./prog -o prog.new --tool null --explain   what was left, and why
  everypath rewrite libz.so.1 -o edited/libz.so.1 --tool segment

The edited program runs as the original. It survives strip and llvm-strip.";

#[derive(Debug, Args)]
pub struct Rewrite {
    /// A program or library, stripped or not
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The edited file
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// The instrumentation
    #[arg(long, value_name = "TOOL")]
    pub tool: Tool,
    /// Fill old code with traps: to show that nothing comes there any more
    #[arg(long)]
    pub paranoid: bool,
    /// Say which functions were left, and which bytes of FILE were changed
    #[arg(long)]
    pub explain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// An empty segment, and nothing else
    Segment,
    /// Every function moved to new code, and nothing inserted
    Null,
}
