//! The table of the hottest functions, and the programs that ran.
//!
//! | column | meaning |
//! |---|---|
//! | self | share of the function's own instructions, or of another metric |
//! | with callees | the same with everything called from there, each activation once, where it is known |
//! | instructions, calls, ... | own values |
//! | each | own instructions per call, rounded |

use std::io::{self, Write};

use analysis::Weight;
use analysis::profile::FunctionCost;
use trace::{Cost, Label};

use super::{Style, tree};
use crate::Report;
use crate::frames::Known;
use crate::metrics::{self, shown};
use crate::names::base_name;
use crate::numbers::{counted, cut_middle, grouped, percent};
use crate::overview::{Launcher, Overview, Program, programs};
use crate::short_names::short;

/// Characters of a line where there is no terminal.
const WIDTH: usize = 120;
/// Narrower lines have no column `each`.
const ROOM_FOR_EACH: usize = 100;
/// Programs in the list of programs.
const PROGRAMS: usize = 6;
/// Characters of a line of shares.
const SHARE: usize = 7;

/// Width of a line: a file has that of a wide terminal.
pub(crate) fn width(style: Style) -> usize {
    match style.width {
        usize::MAX => WIDTH,
        width => width,
    }
}

/// The name of a label in a profile, as it is shown.
pub(super) fn name(report: &Report, overview: &Overview, label: Label) -> String {
    let known = known(overview, label);
    match known {
        None => label.to_string(),
        Some(known) if report.full_names => known.name.clone(),
        Some(known) => short(&known.name),
    }
}

fn known<'o>(overview: &'o Overview, label: Label) -> Option<&'o Known<'o>> {
    let number = label.function_number()?;
    overview.frames.get(number as usize)
}

/// The name of a module's file without the version of a shared library.
pub(crate) fn without_version(module: &str) -> &str {
    match module.split_once(".so") {
        Some((name, version)) if version.is_empty() || version.starts_with('.') => name,
        _ => module,
    }
}

/// Module, file and line of a label, as much as fits.
pub(super) fn place(overview: &Overview, label: Label, room: usize) -> String {
    let Some(known) = known(overview, label) else {
        return String::new();
    };
    let module = known.module.map(base_name);
    // A name made from the module says the module already.
    let module = module.filter(|_| !known.is_nameless());
    let module = module.as_deref().map(without_version);
    let file = known.file.map(base_name);
    let place = file.map(|file| match known.line {
        Some(line) => format!("{file}:{line}"),
        None => file.into_owned(),
    });
    tree::detail(module, place.as_deref(), room)
}

/// The programs, if there are several processes.
pub(super) fn write_programs(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let processes = &report.recording.processes;
    if processes.len() < 2 || report.overviews.is_empty() {
        return Ok(());
    }
    let programs = programs(report.recording, report.by);
    let title = metrics::title(report, report.by);
    let total = report.total(report.by);
    let numbers = programs
        .iter()
        .map(|program| shown(report.by, program.total).chars().count());
    let width = numbers.max().unwrap_or(0).max(title.len());
    writeln!(out, "\n{:>SHARE$}  {title:>width$}  program", "%")?;
    let line = |program: &Program| {
        let threads = match program.threads > program.processes {
            true => format!(", {}", counted(program.threads as u64, "thread")),
            false => String::new(),
        };
        let launcher = match program.is_launcher {
            true => ", before the program",
            false => "",
        };
        format!(
            "{:>SHARE$}  {:>width$}  {} ({}{threads}{launcher})",
            percent(program.total, total),
            shown(report.by, program.total),
            program.name,
            counted(program.processes as u64, "process"),
        )
    };
    for program in programs.iter().take(PROGRAMS) {
        writeln!(out, "{}", line(program))?;
    }
    let rest = programs.iter().skip(PROGRAMS);
    let (count, sum) = rest.fold((0, 0), |(count, sum): (u64, u64), program| {
        (count + 1, sum.saturating_add(program.total))
    });
    match count {
        0 => Ok(()),
        _ => writeln!(
            out,
            "{:>SHARE$}  {:>width$}  {}",
            percent(sum, total),
            shown(report.by, sum),
            counted(count, "more program"),
        ),
    }
}

/// A column of numbers.
struct Column {
    title: &'static str,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(self.title.chars().count())
    }
}

/// A row: a function, or the launcher.
enum Row<'a> {
    Function(&'a FunctionCost),
    Launcher(&'a Launcher),
}

impl Row<'_> {
    fn own(&self, at: usize) -> u64 {
        match self {
            Row::Function(function) => function.own[at],
            Row::Launcher(launcher) => launcher.own[at],
        }
    }

    fn inclusive(&self) -> Option<u64> {
        match self {
            Row::Function(function) => Some(function.inclusive.as_ref()?[0]),
            Row::Launcher(launcher) => Some(launcher.own[0]),
        }
    }
}

/// Rows that the report shows, hottest first.
fn rows<'o>(report: &Report, overview: &'o Overview) -> Vec<Row<'o>> {
    let hot = report.hot.unwrap_or_default();
    let min = (hot.min_percent / 100.0 * report.total(report.by) as f64).ceil() as u64;
    let functions = overview.functions.iter().map(Row::Function);
    let mut rows: Vec<Row> = functions
        .chain(overview.launcher.iter().map(Row::Launcher))
        .filter(|row| row.own(0) >= min.max(1))
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.own(0)));
    rows.truncate(hot.top.unwrap_or(usize::MAX));
    rows
}

pub(super) fn write(
    report: &Report,
    overview: &Overview,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = rows(report, overview);
    if rows.is_empty() {
        return Ok(());
    }
    let columns = columns(report, overview, &rows, width(style));
    let pad = |column: &Column, text: &str| format!("{text:>width$}  ", width = column.width());
    let head: String = columns.iter().map(|c| pad(c, c.title)).collect();
    writeln!(out, "\n{}", style.bold(&format!("{head}function")))?;
    let names: Vec<String> = rows
        .iter()
        .map(|row| row_name(report, overview, row))
        .collect();
    let room = width(style).saturating_sub(head.chars().count());
    let room = room.max(tree::NAME_LEAST);
    let longest = names.iter().map(|name| name.chars().count()).max();
    let column = longest
        .unwrap_or(0)
        .min((room * 3 / 5).max(tree::NAME_LEAST));
    for (at, (row, name)) in rows.iter().zip(&names).enumerate() {
        let numbers: String = columns.iter().map(|c| pad(c, &c.cells[at])).collect();
        let name = cut_middle(name, column);
        let place = match row {
            Row::Function(function) => {
                place(overview, function.label, room.saturating_sub(column + 2))
            }
            Row::Launcher(_) => String::new(),
        };
        let line = match place.is_empty() {
            true => format!("{numbers}{name}"),
            false => format!("{numbers}{name:<column$}  {}", style.dim(&place)),
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn row_name(report: &Report, overview: &Overview, row: &Row) -> String {
    match row {
        Row::Function(function) => name(report, overview, function.label),
        Row::Launcher(launcher) => {
            format!("[before the program: {}]", launcher.programs.join(", "))
        }
    }
}

fn columns(report: &Report, overview: &Overview, rows: &[Row], width: usize) -> Vec<Column> {
    let weights = metrics::weights(report);
    let total = overview.totals[0];
    let is_cost = report.by != Weight::Calls;
    let mut columns = vec![Column {
        title: if is_cost { "self" } else { "%" },
        cells: rows.iter().map(|row| percent(row.own(0), total)).collect(),
    }];
    let inclusive: Option<Vec<u64>> = rows.iter().map(Row::inclusive).collect();
    if let Some(inclusive) = inclusive.filter(|_| is_cost) {
        let share = |value: u64| percent(value, total);
        columns.push(Column {
            title: "with callees",
            cells: inclusive.into_iter().map(share).collect(),
        });
    }
    for (at, &weight) in weights.iter().enumerate() {
        // Functions that wait are others than those that execute: a note names them.
        if weight == Weight::Cost(Cost::Waiting) && report.by != weight {
            continue;
        }
        columns.push(Column {
            title: metrics::title(report, weight),
            cells: rows.iter().map(|row| shown(weight, row.own(at))).collect(),
        });
    }
    let calls = weights.iter().position(|&weight| weight == Weight::Calls);
    if let (Weight::Cost(Cost::Instructions), Some(calls), true) =
        (report.by, calls, width >= ROOM_FOR_EACH)
    {
        let each = |row: &Row| match (row, row.own(calls)) {
            (Row::Launcher(_), _) | (_, 0) => String::new(),
            (_, calls) => grouped((row.own(0) + calls / 2) / calls),
        };
        columns.push(Column {
            title: "each",
            cells: rows.iter().map(each).collect(),
        });
    }
    columns
}
