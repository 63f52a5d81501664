//! `cargo xtask edges`: what each kind of control flow costs.
//!
//! Problem: a workload's ratio does not say which kind of edge it pays for.
//!
//! Approach: `benches/programs/edges.c` times loops of one kind each. It runs
//! natively and under each mode in turn, several times; the smallest time of
//! each kind counts, because whatever disturbs a run makes it longer.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::bench::{build, machine, target_directory};
use crate::tree::Tree;

/// Iterations of the quickest loops; the program divides it for slow kinds.
const ITERATIONS: &str = "3000000";

#[derive(clap::Args)]
pub struct Options {
    /// How often each mode runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The program to measure; built with `cargo build --release` when absent.
    #[arg(long)]
    everypath: Option<std::path::PathBuf>,
    /// Words for the name of the file in benches/runs.
    #[arg(long, default_value = "edges")]
    label: String,
    /// Print only; write no file.
    #[arg(long)]
    dry: bool,
}

/// Heading of the column and arguments in front of the program.
const MODES: [(&str, &[&str]); 4] = [
    ("native", &[]),
    ("run", &["run", "-q", "--"]),
    ("count", &["run", "-q", "--count-instructions", "--"]),
    ("contexts", &["contexts", "-q", "--"]),
];

/// A kind of edge and its nanoseconds in each mode.
type Row = (String, [f64; MODES.len()]);

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let target = target_directory(tree);
    let everypath = match &options.everypath {
        Some(path) => fs::canonicalize(path).with_context(|| path.display().to_string())?,
        None => build(tree, &target)?,
    };
    fs::create_dir_all(&target)?;
    let program = target.join("edges");
    let source = tree.root.join("benches/programs/edges.c");
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(&program).arg(source);
    ensure!(compiler.status()?.success(), "cc failed for edges.c");
    let notes = machine::notes(tree, &[])?;
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..options.rounds {
        for (column, (_, words)) in MODES.iter().enumerate() {
            for (kind, time) in measure(&everypath, words, &program)? {
                let at = rows.iter().position(|row| row.0 == kind);
                let at = at.unwrap_or_else(|| {
                    rows.push((kind, [f64::INFINITY; MODES.len()]));
                    rows.len() - 1
                });
                rows[at].1[column] = rows[at].1[column].min(time);
            }
        }
    }
    let text = render(&notes, options.rounds, &rows);
    println!("{text}");
    if !options.dry {
        let file = machine::file_name(&options.label);
        fs::write(tree.root.join("benches/runs").join(&file), &text)
            .with_context(|| format!("cannot write benches/runs/{file}"))?;
        eprintln!("written: benches/runs/{file}");
    }
    Ok(())
}

/// One run: nanoseconds per kind.
fn measure(everypath: &Path, words: &[&str], program: &Path) -> Result<Vec<(String, f64)>> {
    let mut command = match words {
        [] => Command::new(program),
        words => {
            let mut command = Command::new(everypath);
            command.args(words).arg(program);
            command
        }
    };
    let output = command.arg(ITERATIONS).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout)?;
    let line = |line: &str| {
        let (kind, time) = line
            .split_once(' ')
            .context("a line is `kind nanoseconds`")?;
        Ok((kind.to_owned(), time.parse()?))
    };
    text.lines().map(line).collect()
}

fn render(notes: &str, rounds: usize, rows: &[Row]) -> String {
    let headings: String = MODES.iter().map(|mode| format!(" {} |", mode.0)).collect();
    let mut table = format!("| edge |{headings}\n|---|{}\n", "---:|".repeat(MODES.len()));
    for (kind, times) in rows {
        let native = times[0];
        let cell = |(column, time): (usize, &f64)| match column {
            0 => format!(" {time:.2} |"),
            _ => format!(" {time:.2} ({:.1}) |", time / native),
        };
        let cells: String = times.iter().enumerate().map(cell).collect();
        table += &format!("| {kind} |{cells}\n");
    }
    format!(
        "# Nanoseconds per edge\n\n{notes}\n\
         `cargo xtask edges`: loops of one kind of control flow each (`benches/programs/edges.c`), the\n\
         smallest of {rounds} runs; in brackets the ratio to native.\n\n{table}"
    )
}
