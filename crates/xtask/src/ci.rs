//! `cargo xtask ci`: the gate. What it finds decides whether a commit lands.
//!
//! The gate runs the same checks and tests every time: nothing is chosen by chance, nothing depends on how busy
//! the machine is, nothing that failed is run again. What takes longer, or depends on the moment, is
//! in [`crate::wide`]; each part says how much it left to that.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::harness::{self, Counts};
use crate::install::{self, Installed};
use crate::ledger::{self, Ledger};
use crate::tree::Tree;
use crate::{layers, links, sizes, unsafety, words};

#[derive(clap::Args)]
pub struct Options {
    /// Install nothing; leave out, and count, the tests that need what is missing.
    #[arg(long)]
    no_install: bool,
}

/// The house rules, each of which takes less than a second.
type Check = fn(&Tree) -> Result<Vec<String>>;
pub const HOUSE: &[(&str, Check)] = &[
    ("layers", layers::check),
    ("sizes", sizes::check),
    ("unsafety", unsafety::check),
    ("links", links::check),
    ("words", words::check),
];

/// The least number of comparisons of each kind, so that none is lost unseen. Whoever takes some
/// away says so here.
const LEAST: &[(&str, u64)] = &[
    ("accesses of instructions", 1),
    ("contexts", 64),
    ("counts", 10),
    ("instances of instructions", 84_000),
    ("programs in lockstep", 9),
    ("runs of crossings", 75),
    ("runs of forms with a segment", 5),
    ("runs of programs", 900),
    ("runs of real programs", 14),
    ("tests (analysis, analysis)", 77),
    ("tests (analysis, unit)", 37),
    ("tests (cli, cli)", 250),
    ("tests (flow, flow)", 11),
    ("tests (fuzzed, targets)", 2),
    ("tests (image, image)", 30),
    ("tests (isa, assembler)", 7),
    ("tests (probe, lower)", 4),
    ("tests (report, report)", 9),
    ("tests (testkit, testkit)", 30),
    ("tests (trace, trace)", 32),
];

/// Parts named at the end.
const SLOWEST: usize = 10;

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let start = Instant::now();
    step("fmt", || tree.cargo(["fmt", "--all", "--check"]))?;
    for (name, check) in HOUSE {
        crate::report(name, check(tree)?)?;
    }
    let installed = step("install", || install::run(tree, !options.no_install))?;
    step("clippy", || {
        let words = "clippy --workspace --all-targets --locked -- -D warnings";
        tree.cargo(words.split(' '))
    })?;
    let programs = step("build", || harness::build(tree, &[]))?;
    let ledger = Ledger::new(tree.root.join("target/ci.tsv"))?;
    let options = harness::Options {
        scope: "gate",
        ledger: &ledger,
        product: None,
        allow_missing: installed == Installed::NotAll,
        resume: false,
        seed: None,
        words: Vec::new(),
    };
    let mut failed = Vec::new();
    for program in &programs {
        let Counts { failed: count, .. } = program.run(&options)?;
        if count > 0 {
            failed.push(program.name());
        }
    }
    let short = summary(&ledger, installed)?;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    eprintln!("== ci: {minutes:.1} minutes");
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    if !short.is_empty() {
        bail!(
            "fewer comparisons than the table of ci.rs says: {}",
            short.join("; ")
        );
    }
    Ok(())
}

/// Runs one step and prints how long it took.
pub fn step<T>(name: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("== {name}");
    let start = Instant::now();
    let value = run()?;
    eprintln!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(value)
}

/// Prints what was compared; the kinds of which there is less than [`LEAST`] says.
fn summary(ledger: &Ledger, installed: Installed) -> Result<Vec<String>> {
    let entries = ledger.entries()?;
    println!("\nslowest:");
    for line in ledger::slowest(&entries, SLOWEST) {
        println!("{line}");
    }
    let sums = ledger::sums(&entries);
    println!(
        "\n{:>9} {:>7} {:>7} {:>7}",
        "compared", "failed", "missing", "left"
    );
    let (mut passed, mut failed) = (0, 0);
    for (kind, sum) in &sums {
        println!(
            "{:9} {:7} {:7} {:7}  {kind}",
            sum.passed, sum.failed, sum.missing, sum.left
        );
        passed += sum.passed;
        failed += sum.failed;
    }
    println!("what is left: cargo xtask wide\n\n{passed} passed, {failed} failed");
    let mut short = Vec::new();
    for &(kind, least) in LEAST.iter().filter(|_| installed == Installed::Everything) {
        // Tests that this processor cannot execute are listed above, by name.
        let made = sums
            .get(kind)
            .map_or(0, |sum| sum.passed + sum.failed + sum.missing);
        if made < least {
            short.push(format!("{made} {kind}, at least {least}"));
        }
    }
    Ok(short)
}
