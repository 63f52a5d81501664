//! `cargo xtask growth`: time and memory against the number of contexts.
//!
//! Problem: a recording with twenty million contexts must still be made and
//! shown in sensible time, and memory must grow with the contexts, no faster.
//!
//! Approach: `benches/programs/growth.c` has as many contexts as it is told to;
//! each size runs once under `everypath contexts --k-inf`, whole with report.
//! The largest resident size of the `everypath` process holds the pool, which
//! it shares with the program, and everything made of it; it is read from
//! `/proc` while the process runs. A run whose report does not say the right
//! number of contexts is an error, never a figure.
//!
//! Limits: the kernel's high-water mark is read every few milliseconds, so what
//! is allocated in the last of them is not seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::bench::{compile, everypath, machine, publish, target_directory};
use crate::tree::Tree;

/// Sizes that are measured, up to the largest one wanted.
const SIZES: [u64; 8] = [
    10_000, 131_072, 524_288, 2_097_152, 4_194_304, 8_388_608, 16_777_216, 20_000_000,
];
/// Bytes of a mebibyte.
const MIB: f64 = (1 << 20) as f64;

#[derive(clap::Args)]
pub struct Options {
    /// The largest number of contexts.
    #[arg(long, default_value_t = 20_000_000)]
    most: u64,
    /// The program to measure; built with `cargo build --release` when absent.
    #[arg(long)]
    everypath: Option<PathBuf>,
    /// Words for the name of the file in benches/runs.
    #[arg(long, default_value = "growth")]
    label: String,
    /// Print only; write no file.
    #[arg(long)]
    dry: bool,
}

/// One run.
struct Sample {
    contexts: u64,
    native: Duration,
    wall: Duration,
    /// Largest resident size of the launcher, in bytes.
    memory: u64,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let target = target_directory(tree);
    let everypath = everypath(tree, &target, options.everypath.as_deref())?;
    let folder = target.join("growth");
    compile(tree, "growth", &folder)?;
    let notes = machine::notes(tree, &[])?;
    let mut samples = Vec::new();
    for contexts in SIZES.into_iter().filter(|&size| size <= options.most) {
        let sample = measure(&everypath, &folder, contexts)?;
        eprintln!("{}", row(&sample));
        samples.push(sample);
    }
    publish(tree, &options.label, options.dry, &render(&notes, &samples))
}

fn measure(everypath: &Path, folder: &Path, contexts: u64) -> Result<Sample> {
    let program = folder.join("growth");
    let argument = contexts.to_string();
    let (native, _) = timed(Command::new(&program).arg(&argument), folder)?;
    let report = folder.join("report.txt");
    let mut command = Command::new(everypath);
    command.args(["contexts", "--quiet", "--k-inf", "--modules", "growth"]);
    command.args(["--top", "10", "--report"]).arg(&report);
    let (wall, memory) = timed(command.arg("--").arg(&program).arg(&argument), folder)?;
    check(&fs::read_to_string(&report)?, contexts)?;
    Ok(Sample {
        contexts,
        native,
        wall,
        memory,
    })
}

/// Wall time of one run, which must succeed, and the largest resident size of one of its processes.
fn timed(command: &mut Command, folder: &Path) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let pid = child.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let mut memory = 0;
    loop {
        // The process that was started only waits for its child.
        let pids = fs::read_to_string(&children).unwrap_or_default();
        for pid in pids.split_whitespace().chain([pid.to_string().as_str()]) {
            memory = memory.max(high_water(&format!("/proc/{pid}/status")));
        }
        if let Some(ended) = child.try_wait()? {
            ensure!(ended.success(), "{command:?} ended with {ended}");
            return Ok((start.elapsed(), memory));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `VmHWM` in bytes; 0 when the process has just ended.
fn high_water(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse().ok()).unwrap_or(0_u64) * 1024
}

/// The report must know every context of the tree, and a few of the start.
fn check(report: &str, contexts: u64) -> Result<()> {
    const OF_THE_START: u64 = 30;
    let words: Vec<&str> = report.split_whitespace().collect();
    let number = words.windows(2).find(|pair| pair[1] == "contexts");
    let Some(found) = number.and_then(|pair| pair[0].replace(',', "").parse().ok()) else {
        bail!("the report says no number of contexts");
    };
    let range = contexts + 1..=contexts + OF_THE_START;
    ensure!(range.contains(&found), "{found} contexts of {contexts}");
    Ok(())
}

fn render(notes: &str, samples: &[Sample]) -> String {
    let rows: String = samples.iter().map(|sample| row(sample) + "\n").collect();
    format!(
        "# Contexts against time and memory\n\n{notes}\n\
         `cargo xtask growth`: `everypath contexts --k-inf` of a program with so many distinct contexts,\n\
         from its start to the end of the report; one run each. Memory is the largest resident size of\n\
         the `everypath` process, the shared pool included.\n\n\
         | contexts | native s | contexts s | µs per context | MiB | bytes per context |\n\
         |---:|---:|---:|---:|---:|---:|\n{rows}"
    )
}

fn row(sample: &Sample) -> String {
    let Sample {
        contexts,
        native,
        wall,
        memory,
    } = sample;
    let each = |total: f64| total / *contexts as f64;
    format!(
        "| {contexts} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
        native.as_secs_f64(),
        wall.as_secs_f64(),
        each(wall.as_secs_f64() * 1e6),
        *memory as f64 / MIB,
        each(*memory as f64),
    )
}
