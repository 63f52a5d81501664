//! Many files: shares of complete functions by language and linker.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use flow::{Gate, Program};
use image::{Language, Linker};

use super::share;
use crate::numbers::grouped;
use crate::text::Style;

/// Totals of some files.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub files: usize,
    pub functions: usize,
    pub complete: usize,
    /// Functions by gate; one may fail several.
    pub gates: BTreeMap<Gate, usize>,
    /// Bytes of code.
    pub code: u64,
    /// Processor time for reading the file and making the graphs.
    pub time: Duration,
}

impl Totals {
    /// Totals of one file.
    pub fn of(program: &Program, time: Duration) -> Totals {
        let mut gates = BTreeMap::new();
        for function in &program.functions {
            let mut own: Vec<Gate> = function.failed.iter().map(|failed| failed.gate).collect();
            own.dedup();
            for gate in own {
                *gates.entry(gate).or_default() += 1;
            }
        }
        let functions = &program.functions;
        Totals {
            files: 1,
            functions: functions.len(),
            complete: functions
                .iter()
                .filter(|function| function.is_complete())
                .count(),
            gates,
            code: program.code,
            time,
        }
    }

    pub fn add(&mut self, other: &Totals) {
        self.files += other.files;
        self.functions += other.functions;
        self.complete += other.complete;
        self.code += other.code;
        self.time += other.time;
        for (gate, count) in &other.gates {
            *self.gates.entry(*gate).or_default() += count;
        }
    }
}

/// Writes a row for each language and linker, and one of all.
pub fn table(
    rows: &BTreeMap<(Language, Linker), Totals>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut all = Totals::default();
    rows.values().for_each(|row| all.add(row));
    let head = format!(
        "{:<5} {:<11} {:>6} {:>11} {:>9} {:>9} {:>8} {:>6}",
        "", "linker", "files", "functions", "complete", "MB", "s", "MB/s"
    );
    let gates: Vec<Gate> = all.gates.keys().copied().collect();
    let names: Vec<String> = gates
        .iter()
        .map(|gate| format!("{:>7}", gate.name()))
        .collect();
    writeln!(
        out,
        "{}",
        style.bold(&format!("{head} {}", names.join(" ")))
    )?;
    let named = rows
        .iter()
        .map(|((language, linker), row)| (language.to_string(), linker.to_string(), row));
    let last = ("all".to_owned(), String::new(), &all);
    for (language, linker, row) in named.chain([last]) {
        let megabytes = row.code as f64 / 1e6;
        let seconds = row.time.as_secs_f64();
        let failed = gates.iter().map(|gate| {
            let count = row.gates.get(gate).copied().unwrap_or(0);
            format!("{:>7}", grouped(count as u64))
        });
        let failed: Vec<String> = failed.collect();
        writeln!(
            out,
            "{language:<5} {linker:<11} {:>6} {:>11} {:>8.2}% {megabytes:>9.1} {seconds:>8.1} {:>6.1} {}",
            grouped(row.files as u64),
            grouped(row.functions as u64),
            share(row.complete, row.functions),
            megabytes / seconds.max(1e-9),
            failed.join(" "),
        )?;
    }
    writeln!(out)?;
    for gate in gates {
        writeln!(out, "{:<4} {}", gate.name(), gate.reason())?;
    }
    Ok(())
}
