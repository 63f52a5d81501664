//! `cargo xtask soak`: random programs for as long as one likes.
//!
//! Builds the product and starts `testkit`'s example `soak`, which does the
//! work: this crate uses none of the tree's crates. Its exit status is this one's.

use std::process::Command;

use anyhow::{Context, Result, bail};

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
        let build = ["build", "--quiet", "--release", "--package", "cli"];
        cargo(tree, &build.map(str::to_owned))?;
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
    cargo(tree, &words)
}

fn cargo(tree: &Tree, words: &[String]) -> Result<()> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(words)
        .current_dir(&tree.root)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("it did not end well: {status}");
    }
    Ok(())
}
