//! `cargo xtask soak`: random programs for as long as one likes.
//!
//! Builds the product and starts `testkit`'s example `soak`, which does the
//! work: this crate uses none of the tree's crates. Its exit status is this one's.

use anyhow::Result;

use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// Minutes after which no further program is begun.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Programs after which it ends, if that is earlier.
    #[arg(long)]
    programs: Option<u64>,
    /// Seed of the first program; the next one's is one higher.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only print the program of the seed.
    #[arg(long)]
    text: bool,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    if !options.text {
        tree.cargo(["build", "--quiet", "--release", "--package", "cli"])?;
    }
    let mut words: Vec<String> = "run --quiet --release --package testkit --example soak --"
        .split(' ')
        .map(str::to_owned)
        .collect();
    words.push(format!("--minutes={}", options.minutes));
    words.push(format!("--seed={}", options.seed));
    words.extend(
        options
            .programs
            .map(|programs| format!("--programs={programs}")),
    );
    words.extend(options.text.then(|| "--text".to_owned()));
    tree.cargo(words)
}
