//! `cargo xtask bench`: how much slower programs run under each mode.
//!
//! Problem: on a shared machine the same program varies by tens of per cent
//! between minutes, so times of different moments cannot be compared.
//!
//! Approach: the modes take turns. One round runs one workload natively and
//! then under every mode; a mode's ratio is its wall time over the native time
//! *of the same round*. The table shows the median of the rounds' ratios and
//! their range, and the geometric mean over the workloads. A run whose output
//! or exit status differs from the native one is a failure, never a figure.
//!
//! Limits: wall time only decides (processor time is printed beside it), and a
//! workload that finishes in a few milliseconds says nothing, which is why
//! start-up is measured apart, as a difference in milliseconds.

mod kept;
pub mod machine;
mod measure;
mod table;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::tree::Tree;
use measure::{Mode, Runner, Sample};
pub use measure::{everypath, target_directory};
use workload::Workload;

#[derive(clap::Args)]
pub struct Options {
    /// Only the workloads with these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The file with the workloads.
    #[arg(long, default_value = "benches/workloads.toml")]
    workloads: String,
    /// How often each workload runs under each mode.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Modes to compare with the native run.
    #[arg(long, value_delimiter = ',', default_value = "run,contexts")]
    modes: Vec<Mode>,
    /// The program to measure; built with `cargo build --release` when absent.
    #[arg(long)]
    everypath: Option<PathBuf>,
    /// Also count cache exits per million instructions (one more run each).
    #[arg(long)]
    exits: bool,
    /// Seconds after which a single run is stopped and counts as failed.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Words for the name of the file in benches/runs.
    #[arg(long, default_value = "bench")]
    label: String,
    /// Print only; write no file.
    #[arg(long)]
    dry: bool,
}

/// All samples of one workload: one row per round, native first.
pub struct Measured {
    pub workload: Workload,
    pub rounds: Vec<Vec<Sample>>,
    /// Cache exits per million instructions, when asked for.
    pub exits: Option<f64>,
    /// Its trace, if it was traced.
    pub kept: Option<kept::Kept>,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let workloads = select(workload::load(tree, &options.workloads)?, &options.only)?;
    let runner = Runner::new(tree, options.everypath.as_deref(), options.timeout)?;
    let machine = machine::notes(tree, &options.modes)?;
    let mut results = Vec::new();
    for workload in workloads {
        eprintln!("setting up {}", workload.name);
        runner.set_up(&workload)?;
        let edits = [
            Mode::Null,
            Mode::Edges,
            Mode::Libraries,
            Mode::Blocks,
            Mode::Coverage,
            Mode::Branches,
        ];
        for &mode in options.modes.iter().filter(|mode| edits.contains(mode)) {
            runner.edit(&workload, mode)?;
        }
        results.push(Measured {
            workload,
            rounds: Vec::new(),
            exits: None,
            kept: None,
        });
    }
    for round in 1..=options.rounds {
        for result in &mut results {
            let samples = runner.round(&result.workload, &options.modes)?;
            eprintln!("round {round}: {}", table::line(&result.workload, &samples));
            result.rounds.push(samples);
        }
    }
    if options.exits {
        for result in &mut results {
            result.exits = runner.cache_exits(&result.workload)?;
        }
    }
    if options.modes.contains(&Mode::Trace) {
        for result in &mut results {
            result.kept = Some(runner.kept(&result.workload)?);
        }
    }
    let text = table::render(&machine, &options.modes, &results);
    publish(tree, &options.label, options.dry, &text)?;
    let failed = table::failures(&results);
    if failed > 0 {
        bail!("{failed} runs failed or differed from the native run");
    }
    Ok(())
}

/// Prints a table of results, and keeps it in benches/runs unless `dry`.
pub fn publish(tree: &Tree, label: &str, dry: bool, text: &str) -> Result<()> {
    println!("{text}");
    if !dry {
        let file = machine::file_name(label);
        let path = tree.root.join("benches/runs").join(&file);
        std::fs::write(&path, text).with_context(|| format!("cannot write benches/runs/{file}"))?;
        eprintln!("written: benches/runs/{file}");
    }
    Ok(())
}

/// Compiles `benches/programs/NAME.c` to `folder/NAME`.
pub fn compile(tree: &Tree, name: &str, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let program = folder.join(name);
    let source = tree.root.join(format!("benches/programs/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(&program).arg(source);
    ensure!(compiler.status()?.success(), "cc failed for {name}.c");
    Ok(program)
}

fn select(all: Vec<Workload>, only: &[String]) -> Result<Vec<Workload>> {
    for name in only {
        if !all.iter().any(|workload| workload.name == *name) {
            let names: Vec<&str> = all.iter().map(|workload| workload.name.as_str()).collect();
            bail!(
                "no workload is named {name}; there are {}",
                names.join(", ")
            );
        }
    }
    let chosen = |workload: &Workload| only.is_empty() || only.contains(&workload.name);
    Ok(all.into_iter().filter(chosen).collect())
}
