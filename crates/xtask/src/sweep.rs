//! `cargo xtask sweep`: every kernel interface with every class of instructions.
//!
//! Builds the product and starts `testkit`'s example `sweep`, which does the
//! work: this crate uses none of the tree's crates. Its exit status is this one's.

use anyhow::Result;

use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// How often all of it is run.
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// Busy threads beside it.
    #[arg(long, default_value_t = 0)]
    load: u64,
    /// Run the programs of tests/programs, too.
    #[arg(long)]
    known: bool,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    tree.cargo(["build", "--quiet", "--release", "--package", "cli"])?;
    let start = "run --quiet --package testkit --example sweep --".split(' ');
    let mut words: Vec<String> = start.map(str::to_owned).collect();
    words.push(format!("--rounds={}", options.rounds));
    words.push(format!("--load={}", options.load));
    words.extend(options.known.then(|| "--known".to_owned()));
    tree.cargo(words)
}
