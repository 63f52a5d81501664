//! `cargo xtask kills`: what is left of a trace when somebody is killed.
//!
//! Builds the product and starts `testkit`'s example `kills`, as `soak` does.

use anyhow::Result;

use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// How many times somebody is killed.
    #[arg(long, default_value_t = 300)]
    rounds: u64,
    /// Says at which moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lets the kernel kill, for want of memory: needs root and cgroups.
    #[arg(long)]
    memory: bool,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    tree.cargo(["build", "--quiet", "--release", "--package", "cli"])?;
    let mut words: Vec<String> = "run --quiet --release --package testkit --example kills --"
        .split(' ')
        .map(str::to_owned)
        .collect();
    words.push(format!("--rounds={}", options.rounds));
    words.push(format!("--seed={}", options.seed));
    words.extend(options.memory.then(|| "--memory".to_owned()));
    tree.cargo(words)
}
