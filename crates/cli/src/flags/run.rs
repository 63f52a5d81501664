//! `run`.

use clap::Args;

use super::{Destination, Target};

pub const RUN_EXAMPLES: &str = "\
Examples:
  everypath run -- ls -l
  everypath run --count-instructions -- sha256sum file
  everypath run --phases -- make -j2";

#[derive(Debug, Args)]
pub struct Run {
    /// Count the instructions that each thread retired
    #[arg(long)]
    pub count_instructions: bool,
    /// Say what the translator did: blocks, links, exits from its cache
    #[arg(long)]
    pub engine_stats: bool,
    #[command(flatten)]
    pub destination: Destination,
    #[command(flatten)]
    pub target: Target,
}
