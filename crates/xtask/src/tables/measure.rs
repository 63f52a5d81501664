//! One run of one program, and everything that is made of its trace.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{COMPRESSORS, PREDICTORS, Workload};
use crate::tree::Tree;

/// Bytes and seconds of something as it is, then through each compressor.
pub type Sizes = Vec<(u64, f64)>;

/// Conditional branches, how many of them were mispredicted; the same of indirect ones; bytes.
#[derive(Clone, Copy)]
pub struct Rates {
    pub outcomes: [u64; 2],
    pub targets: [u64; 2],
    pub bytes: u64,
}

pub struct Measured {
    pub name: &'static str,
    pub threads: u32,
    pub native_s: f64,
    pub trace_s: f64,
    /// Bytes of the file, and of its streams.
    pub file: u64,
    pub streams: u64,
    /// Sizes of the packed trace, and seconds that packing takes.
    pub packed_file: u64,
    pub packed_streams: u64,
    pub pack_s: f64,
    /// Totals of `everypath stats`.
    pub stats: Value,
    pub stats_s: f64,
    pub mcf: Sizes,
    pub raptor: Sizes,
    /// By [`PREDICTORS`].
    pub rates: Vec<Rates>,
    /// The first of them, shared by the threads of a process.
    pub shared_rates: Rates,
    pub shared: Sizes,
}

pub fn set_up(tree: &Tree, workload: &Workload, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut shell = Command::new("sh");
    shell.args(["-ec", workload.setup]).current_dir(folder);
    shell.env("PROGRAMS", tree.root.join("benches/programs"));
    ensure!(
        shell.status()?.success(),
        "the setup of {} failed",
        workload.name
    );
    Ok(())
}

pub fn measure(
    everypath: &Path,
    name: &'static str,
    threads: u32,
    command: &[String],
    folder: &Path,
) -> Result<Measured> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut native = Command::new(program);
    let native_s = timed(native.args(arguments).current_dir(folder))?;
    let mut trace = Command::new(everypath);
    trace
        .args(["trace", "-q", "-o", "run.evp", "--"])
        .args(command);
    let trace_s = timed(trace.current_dir(folder))?;
    let everypath = |words: &[&str]| {
        let mut command = Command::new(everypath);
        command.args(words).current_dir(folder);
        command
    };
    let clock = Instant::now();
    let stats = output(everypath(&["stats", "run.evp", "--format", "json"]))?;
    let stats_s = clock.elapsed().as_secs_f64();
    let stats: Value = serde_json::from_str(&stats)?;
    let rates = |options: &[&str]| {
        let mut command = everypath(&["raptor", "run.evp", "-o", "raptor"]);
        command.args(options);
        let said = output(command)?;
        let bytes = fs::metadata(folder.join("raptor"))?.len();
        rates_in(&said, bytes)
    };
    let by_predictor = PREDICTORS.iter().map(|(_, options)| rates(options));
    let by_predictor = by_predictor.collect::<Result<_>>()?;
    let clock = Instant::now();
    output(everypath(&["pack", "run.evp", "-o", "small.evp"]))?;
    let pack_s = clock.elapsed().as_secs_f64();
    let streams = |file| streams_in(&output(everypath(&["verify", file]))?);
    let bytes = |file| fs::metadata(folder.join(file)).map(|data| data.len());
    Ok(Measured {
        name,
        threads,
        native_s,
        trace_s,
        file: bytes("run.evp")?,
        streams: streams("run.evp")?,
        packed_file: bytes("small.evp")?,
        packed_streams: streams("small.evp")?,
        pack_s,
        stats: stats["total"].clone(),
        stats_s,
        mcf: sizes(|| everypath(&["dump", "run.evp", "--mcf", "binary"]))?,
        raptor: sizes(|| everypath(&["raptor", "run.evp", "-o", "/dev/stderr"]))?,
        rates: by_predictor,
        shared_rates: rates(&["--shared"])?,
        shared: sizes(|| everypath(&["raptor", "run.evp", "--shared", "-o", "/dev/stderr"]))?,
    })
}

pub fn timed(command: &mut Command) -> Result<f64> {
    let clock = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(clock.elapsed().as_secs_f64())
}

pub fn output(mut command: Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Sizes of the descriptors that a command writes, raw and compressed.
pub fn sizes(command: impl Fn() -> Command) -> Result<Sizes> {
    let mut sizes = vec![through(command(), None)?];
    for (tool, arguments) in COMPRESSORS {
        let mut compressor = Command::new(tool);
        compressor.args(arguments);
        sizes.push(through(command(), Some(compressor))?);
    }
    Ok(sizes)
}

fn through(mut command: Command, compressor: Option<Command>) -> Result<(u64, f64)> {
    let clock = Instant::now();
    let (reader, writer) = std::io::pipe()?;
    let is_summed_up = command
        .get_args()
        .any(|word| word == "raptor" || word == "cfiat");
    match is_summed_up {
        true => command.stdout(Stdio::null()).stderr(writer),
        false => command.stdout(writer),
    };
    let mut made = command.spawn()?;
    // Its ends of the pipe are the child's alone from now on.
    drop(command);
    let bytes = match compressor {
        None => count(reader)?,
        Some(mut compressor) => {
            let mut packed = compressor.stdin(reader).stdout(Stdio::piped()).spawn()?;
            drop(compressor);
            let bytes = count(packed.stdout.take().context("a pipe was asked for")?)?;
            ensure!(packed.wait()?.success(), "a compressor failed");
            bytes
        }
    };
    ensure!(made.wait()?.success(), "descriptors cannot be made");
    Ok((bytes, clock.elapsed().as_secs_f64()))
}

fn count(mut from: impl Read) -> Result<u64> {
    Ok(std::io::copy(&mut from, &mut File::create("/dev/null")?)?)
}

/// The figures of figure 4.23.
fn rates_in(said: &str, bytes: u64) -> Result<Rates> {
    let lines = said
        .lines()
        .skip_while(|line| !line.starts_with("mcfTRaptor"));
    let numbers: Vec<u64> = lines
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    let [outcomes, _, wrong, targets, _, missed, ..] = numbers[..] else {
        anyhow::bail!("no statistics in {said}");
    };
    Ok(Rates {
        outcomes: [outcomes, wrong],
        targets: [targets, missed],
        bytes,
    })
}

/// `N instructions in B bytes of streams`.
pub fn streams_in(said: &str) -> Result<u64> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words
        .windows(3)
        .position(|words| words[1..] == ["bytes", "of"]);
    let at = at.with_context(|| format!("no streams in {said}"))?;
    Ok(words[at].replace(',', "").parse()?)
}
