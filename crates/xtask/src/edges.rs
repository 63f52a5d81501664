//! `cargo xtask edges`: what each kind of control flow costs.
//!
//! Problem: a workload's ratio does not say which kind of edge it pays for.
//!
//! Approach: `benches/programs/edges.c` times loops of one kind each. It runs
//! natively and under each mode in turn, several times; the smallest time of
//! each kind counts, because whatever disturbs a run makes it longer.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::bench::{compile, everypath, machine, publish, target_directory};
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
    let everypath = everypath(tree, &target, options.everypath.as_deref())?;
    let program = compile(tree, "edges", &target.join("edges"))?;
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
    publish(tree, &options.label, options.dry, &text)
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
