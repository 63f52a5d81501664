//! `cargo xtask`: everything the project checks or measures about itself.
//!
//! Continuous integration is `cargo xtask ci` and nothing else, so what a developer sees is what
//! the machine sees; `check` is its short form after an edit, `wide` what it leaves out
//! (docs/testing.md). Each house rule is one file here and one row of [`ci::HOUSE`].
//!
//! Invariant: a check reads the tree and prints every violation it finds; it
//! changes nothing but `target/`, and its exit status is 0 only if there was none.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod ci;
mod dist;
mod edges;
mod growth;
mod harness;
mod install;
mod instances;
mod kills;
mod layers;
mod ledger;
mod links;
mod metadata;
mod needs;
mod sizes;
mod soak;
mod tables;
mod tree;
mod unsafety;
mod wide;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Checks and measurements of the Everypath tree.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The gate: every check, and the tests that are the same every time.
    Ci(ci::Options),
    /// The short form of the gate, after an edit: a minute or two.
    Check(check::Options),
    /// Everything the tests know, in parts, with a table in benches/wide.md.
    Wide(wide::Options),
    /// Make what people install: an archive, a Debian package, a Python wheel.
    Dist(dist::Options),
    /// Compare the crates' dependencies with the table of allowed edges.
    Layers,
    /// Find files that are longer than the house rule allows.
    Sizes,
    /// Find relative links in documents that lead nowhere.
    Links,
    /// Find `unsafe` outside the crates that may use it.
    Unsafety,
    /// Find doc comments that name no subject.
    Words,
    /// Measure the workloads of benches/workloads.toml natively and under each mode.
    Bench(bench::Options),
    /// Measure time and memory of runs with up to twenty million contexts.
    Growth(growth::Options),
    /// Measure what each kind of control flow costs.
    Edges(edges::Options),
    /// Kill traced programs and who traces them at random moments.
    Kills(kills::Options),
    /// Make the tables of the mTrace thesis for programs of our own.
    Tables(tables::Options),
    /// Run random programs natively and in every mode, and keep what differs.
    Soak(soak::Options),
    /// Run random instances of instructions natively and in every mode.
    Instances(instances::Options),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let tree = tree::Tree::find()?;
    match Args::parse().task {
        Task::Ci(options) => ci::run(&tree, &options),
        Task::Check(options) => check::run(&tree, &options),
        Task::Wide(options) => wide::run(&tree, &options),
        Task::Dist(options) => dist::run(&tree, &options),
        Task::Layers => report("layers", layers::check(&tree)?),
        Task::Sizes => report("sizes", sizes::check(&tree)?),
        Task::Links => report("links", links::check(&tree)?),
        Task::Unsafety => report("unsafety", unsafety::check(&tree)?),
        Task::Words => report("words", words::check(&tree)?),
        Task::Bench(options) => bench::run(&tree, &options),
        Task::Growth(options) => growth::run(&tree, &options),
        Task::Edges(options) => edges::run(&tree, &options),
        Task::Kills(options) => kills::run(&tree, &options),
        Task::Tables(options) => tables::run(&tree, &options),
        Task::Soak(options) => soak::run(&tree, &options),
        Task::Instances(options) => instances::run(&tree, &options),
    }
}

/// Prints the violations of one check; fails if there are any.
fn report(check: &str, violations: Vec<String>) -> Result<()> {
    for violation in &violations {
        eprintln!("{check}: {violation}");
    }
    match violations.len() {
        0 => {
            eprintln!("{check}: ok");
            Ok(())
        }
        n => anyhow::bail!("{check}: {n} violation{}", if n == 1 { "" } else { "s" }),
    }
}
