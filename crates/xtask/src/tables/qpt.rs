//! `cargo xtask tables qpt`: what traces by the exec editor cost, beside the translator's, and the share of values that are computed.
//!
//! Approach: each program runs as it is, edited with `--tool trace`, the same with `--memory`, and under `everypath trace`, with and
//! without `--memory addresses`; all in turns, and the quickest run of each counts. Bytes are those of the files that the runs leave.
//!
//! Limits: edited programs write nothing of their libraries, and the translator's runs leave these out as well (`--no-shared-libs`). The
//! paper has no table of QPT's figures: its section 1 says that traces and their cost are smaller by a factor of 50 or more.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::tree::Tree;

/// A program, and its words; `text` is a file of the folder.
struct Workload {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "gzip",
        program: "/usr/bin/gzip",
        arguments: &["-kc", "text"],
    },
    Workload {
        name: "gawk",
        program: "/usr/bin/gawk",
        arguments: &[
            "{ for (i = 1; i <= NF; i++) n[$i] += length($i) } END { for (w in n) s += n[w]; print s }",
            "text",
        ],
    },
    Workload {
        name: "perl",
        program: "/usr/bin/perl",
        arguments: &[
            "-ne",
            "$n{$_}++ for split; END { print scalar(keys %n), qq(\\n) }",
            "text",
        ],
    },
    Workload {
        name: "sort",
        program: "/usr/bin/sort",
        arguments: &["--parallel=1", "text"],
    },
    Workload {
        name: "quicksort",
        program: "quicksort",
        arguments: &["2000000"],
    },
];

/// Ways to run: the edits, and words before the program.
const WAYS: [(&str, &[&str], &[&str]); 5] = [
    ("native", &[], &[]),
    ("witnesses", &["--tool", "trace"], &[]),
    ("with values", &["--tool", "trace", "--memory"], &[]),
    ("trace", &[], &["trace", "-q", "--no-shared-libs"]),
    (
        "addresses",
        &[],
        &["trace", "-q", "--no-shared-libs", "--memory", "addresses"],
    ),
];
const WITNESSES: usize = 1;
const VALUES: usize = 2;

/// Figures of a workload.
struct Row {
    name: &'static str,
    /// By way: seconds of the quickest run, and bytes of its files.
    seconds: [f64; WAYS.len()],
    bytes: [u64; WAYS.len()],
    insns: u64,
    accesses: u64,
    /// Operands of memory, and values in the stream.
    operands: u64,
    values: u64,
    /// Seconds to make the traces of witnesses, without and with values.
    regenerated: [f64; 2],
}

pub fn run(
    tree: &Tree,
    everypath: &Path,
    target: &Path,
    only: &[String],
    rounds: usize,
) -> Result<String> {
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let mut rows = Vec::new();
    for workload in WORKLOADS.iter().filter(|one| is_wanted(one.name)) {
        eprintln!("{}", workload.name);
        let folder = target.join("tables/qpt").join(workload.name);
        rows.push(measure(tree, everypath, workload, &folder, rounds)?);
    }
    Ok(render(&rows))
}

fn measure(
    tree: &Tree,
    everypath: &Path,
    workload: &Workload,
    folder: &Path,
    rounds: usize,
) -> Result<Row> {
    build(tree, everypath, workload, folder)?;
    let mut row = Row {
        name: workload.name,
        seconds: [f64::INFINITY; WAYS.len()],
        bytes: [0; WAYS.len()],
        insns: 0,
        accesses: 0,
        operands: 0,
        values: 0,
        regenerated: [0.0; 2],
    };
    let native = execute(everypath, workload, folder, 0)?.1;
    for _ in 0..rounds {
        for (way, (kind, ..)) in WAYS.iter().enumerate() {
            remove(folder)?;
            let (seconds, text) = execute(everypath, workload, folder, way)?;
            ensure!(text == native, "{} {kind}: another output", workload.name);
            row.seconds[way] = row.seconds[way].min(seconds);
            let files = files(folder)?;
            let sizes = files.iter().map(|path| Ok(fs::metadata(path)?.len()));
            row.bytes[way] = sizes.sum::<Result<u64>>()?;
            if matches!(way, WITNESSES | VALUES) {
                row.regenerate(everypath, folder, &files[0], way)?;
            }
        }
    }
    remove(folder)?;
    Ok(row)
}

impl Row {
    /// Makes the trace of a file of witnesses, and reads what there is of it.
    fn regenerate(
        &mut self,
        everypath: &Path,
        folder: &Path,
        file: &Path,
        way: usize,
    ) -> Result<()> {
        let start = Instant::now();
        let made = Command::new(everypath)
            .args(["regenerate", "-o", "run.trace"])
            .arg(file)
            .current_dir(folder)
            .output()?;
        self.regenerated[way - WITNESSES] = start.elapsed().as_secs_f64();
        let said = String::from_utf8(made.stderr)?;
        ensure!(made.status.success(), "{}: {said}", self.name);
        let number = |noun: &str| {
            let words: Vec<&str> = said.split_whitespace().collect();
            let at = words.iter().position(|word| word.starts_with(noun));
            let digits = at.and_then(|at| words.get(at.checked_sub(1)?));
            digits.and_then(|digits| digits.replace(',', "").parse().ok())
        };
        self.insns = number("instruction").context("it says how many instructions")?;
        if way == VALUES {
            self.operands = number("address").context("it says how many addresses")?;
            self.values = number("value").context("it says how many values")?;
            let stats = Command::new(everypath)
                .args(["stats", "run.trace", "--format", "json"])
                .current_dir(folder)
                .output()?;
            let stats: Value = serde_json::from_slice(&stats.stdout)?;
            let of = |kind: &str| stats["memory"][kind].as_u64().unwrap_or(0);
            self.accesses = of("reads") + of("writes");
        }
        fs::remove_file(folder.join("run.trace"))?;
        Ok(())
    }
}

/// Makes the folder of a workload: its input, the program, and a folder for each edited one.
fn build(tree: &Tree, everypath: &Path, workload: &Workload, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let programs = tree.root.join("benches/programs");
    let lines = format!(
        "python3 {0}/gen_text.py 3 > text\nif [ -e {1} ]; then cp {1} program; else gcc -O2 {0}/{1}.c -o program; fi\n",
        programs.display(),
        workload.program
    );
    let made = Command::new("sh")
        .args(["-e", "-c", &lines])
        .current_dir(folder)
        .output()?;
    ensure!(made.status.success(), "{}: {made:?}", workload.name);
    for (name, edit, _) in WAYS.iter().filter(|way| !way.1.is_empty()) {
        let edited = Command::new(everypath)
            .args(["rewrite", "program", "-o", name])
            .args(*edit)
            .current_dir(folder)
            .output()?;
        ensure!(edited.status.success(), "{}: {edited:?}", workload.name);
    }
    Ok(())
}

/// Time and output of a run.
fn execute(
    everypath: &Path,
    workload: &Workload,
    folder: &Path,
    way: usize,
) -> Result<(f64, Vec<u8>)> {
    let (name, edit, words) = WAYS[way];
    let program = folder.join(if edit.is_empty() { "program" } else { name });
    let mut command = match words.is_empty() {
        true => Command::new(&program),
        false => {
            let mut command = Command::new(everypath);
            command
                .args(words)
                .args(["-o", "trace.evp", "--"])
                .arg(&program);
            command
        }
    };
    let start = Instant::now();
    let done = command
        .args(workload.arguments)
        .env("PERL_HASH_SEED", "0")
        .env("LC_ALL", "C")
        .env("EVERYPATH_COUNTERS", folder)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(
        done.status.success(),
        "{} {name}: {}",
        workload.name,
        done.status
    );
    Ok((seconds, done.stdout))
}

/// Recordings and files of witnesses in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let all = entries.collect::<Result<Vec<PathBuf>>>()?;
    let is_one = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "evp");
    Ok(all.into_iter().filter(is_one).collect())
}

fn remove(folder: &Path) -> Result<()> {
    for path in files(folder)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn render(rows: &[Row]) -> String {
    let mut out = String::from(
        "\n## Times over native\n\n| program | native s | witnesses | with values | everypath trace | with addresses |\n|---|---:|---:|---:|---:|---:|\n",
    );
    let mut logs = [0.0; WAYS.len()];
    for row in rows {
        let _ = write!(out, "| {} | {:.2} |", row.name, row.seconds[0]);
        for (seconds, log) in row.seconds.iter().zip(&mut logs).skip(1) {
            let ratio = seconds / row.seconds[0];
            *log += ratio.ln();
            let _ = write!(out, " {ratio:.2} |");
        }
        out.push('\n');
    }
    out.push_str("| **geometric mean** | |");
    let mean = |sum: f64| (sum / rows.len() as f64).exp();
    for sum in &logs[1..] {
        let _ = write!(out, " **{:.2}** |", mean(*sum));
    }
    out.push_str(
        "\n\n## Bytes\n\nFiles are as runs leave them, compressed. The last column has bytes with values over 8 for each access.\n\n\
         | program | instructions | accesses | witnesses: bits an instruction | trace: bits an instruction | with values: bytes an access | trace with addresses | share of 8 bytes |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut shares = 0.0;
    for row in rows {
        let bits = |way: usize| row.bytes[way] as f64 * 8.0 / row.insns as f64;
        let of = |way: usize| row.bytes[way] as f64 / row.accesses as f64;
        shares += (of(VALUES) / 8.0).ln();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.3} | {:.3} | {:.2} | {:.2} | 1/{:.0} |",
            row.name,
            row.insns,
            row.accesses,
            bits(WITNESSES),
            bits(3),
            of(VALUES),
            of(4),
            8.0 / of(VALUES)
        );
    }
    let _ = writeln!(
        out,
        "| **geometric mean** | | | | | | | **1/{:.0}** |",
        1.0 / mean(shares)
    );
    out + &render_values(rows)
}

/// Values, and how quickly traces are made of them.
fn render_values(rows: &[Row]) -> String {
    let mut out = String::from(
        "\n## Values\n\nOperands of memory, values that were written, and the share of operands for which none was; and what is made of it in a second, to a trace on disk.\n\n\
         | program | operands | values | computed | million instructions a second | million accesses a second |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.1} % | {:.0} | {:.0} |",
            row.name,
            row.operands,
            row.values,
            100.0 - row.values as f64 * 100.0 / row.operands.max(1) as f64,
            row.insns as f64 / row.regenerated[0] / 1e6,
            row.accesses as f64 / row.regenerated[1] / 1e6
        );
    }
    out
}
