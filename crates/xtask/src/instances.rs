//! `cargo xtask instances`: random instances of instructions in every mode.
//!
//! Builds the product and starts `testkit`'s example `instances`, which does the
//! work: this crate uses none of the tree's crates. Its exit status is this one's.

use anyhow::Result;

use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// Seed of the first round; each round has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Instances of a round.
    #[arg(long, default_value_t = 20_000)]
    count: u64,
    /// The only mode, by its name in testkit's table.
    #[arg(long)]
    mode: Option<String>,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    tree.cargo(["build", "--quiet", "--release", "--package", "cli"])?;
    let start = "run --quiet --release --package testkit --example instances --".split(' ');
    let mut words: Vec<String> = start.map(str::to_owned).collect();
    words.push(format!("--seed={}", options.seed));
    words.push(format!("--rounds={}", options.rounds));
    words.push(format!("--count={}", options.count));
    words.extend(options.mode.iter().map(|mode| format!("--mode={mode}")));
    tree.cargo(words)
}
