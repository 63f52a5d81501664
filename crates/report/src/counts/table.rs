//! The hottest functions, lines and blocks, for a terminal.

use std::io::{self, Write};

use analysis::counts::Counted;
use analysis::counts::hot::{self, Group};

use super::functions::{self, Key, Name};
use super::{Report, Section};
use crate::names::base_name;
use crate::numbers::{command_line, counted, cut_middle, grouped};
use crate::short_names::short;
use crate::signals;
use crate::text::Style;
use crate::text::functions::{width, without_version};

/// Endings of the names of hand-written assembly. One line of it is one instruction.
const ASSEMBLY: [&str; 3] = [".S", ".s", ".asm"];
/// Narrowest space for a place.
const PLACE_LEAST: usize = 20;

pub(super) fn write(report: &Report<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    let title = format!("everypath count: {}", command_line(&meta.command));
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    writeln!(out, "{}", signals::end_of_run(meta))?;
    let processes = &report.recording.processes;
    let threads: usize = processes.iter().map(|process| process.threads.len()).sum();
    writeln!(
        out,
        "{}, {}",
        counted(processes.len() as u64, "process"),
        counted(threads as u64, "thread")
    )?;
    for note in &report.uncounted {
        writeln!(out, "{note}")?;
    }
    for section in &report.sections {
        writeln!(out)?;
        if let Some(title) = section.title(report.recording) {
            writeln!(out, "{}", style.bold(&title))?;
        }
        write_totals(section, report.has_ways(), out)?;
        let (functions, lines) = (functions(report, section), lines(report, section));
        let blocks = blocks(report, section);
        write_hottest("functions", ["times entered", ""], &functions, style, out)?;
        write_hottest("lines", ["executed", ""], &lines, style, out)?;
        write_hottest("basic blocks", ["executed", "insns"], &blocks, style, out)?;
    }
    writeln!(out)?;
    let time = "instructions are not time (`contexts --time` samples it): waiting costs none, and a cache miss no more than a hit";
    let notes = report.notes.iter().map(String::as_str);
    let notes = notes.filter(|note| !report.uncounted.iter().any(|said| said == note));
    for note in [time].into_iter().chain(notes) {
        writeln!(out, "{}", style.paragraph("note: ", note))?;
    }
    match &report.hint {
        Some(hint) => writeln!(out, "\n{}", style.paragraph("more: ", hint)),
        None => Ok(()),
    }
}

/// Without ways of branches nothing is said of these.
fn write_totals(section: &Section, has_ways: bool, out: &mut dyn Write) -> io::Result<()> {
    let totals = totals(section);
    let width = totals[0].0.len();
    totals
        .into_iter()
        .take(if has_ways { usize::MAX } else { 1 })
        .try_for_each(|(value, what)| writeln!(out, "{value:>width$}  {what}"))
}

/// Figures, and what they are of.
pub(super) fn totals(section: &Section) -> [(String, String); 3] {
    let totals = &section.totals;
    let places = counted(totals.insns, "place");
    let blocks = counted(totals.blocks, "basic block");
    let taken = many(totals.taken);
    let share = share(totals.taken, totals.decided);
    let never = totals.never_taken;
    let always = totals.always_taken;
    [
        (
            many(totals.executed),
            format!("instructions executed, of {places} in {blocks}"),
        ),
        (
            many(totals.decided),
            format!("conditional branches executed, {taken} of them taken ({share})"),
        ),
        (
            grouped(totals.branches),
            format!("conditional branches met: {never} never taken, {always} always"),
        ),
    ]
}

/// A line of a table.
struct Row {
    share: String,
    /// Executed instructions.
    executed: String,
    /// Executions, and what else the table counts.
    counts: [String; 2],
    name: String,
    /// Further facts, shown where there is room.
    place: String,
}

fn functions(report: &Report<'_>, section: &Section) -> Vec<Row> {
    let row = |group: Group<Key>| {
        let first = &section.counts.insns[group.first];
        let unit = without_version(&section.unit_name(first)).to_owned();
        let text = |name: u32| section.counts.texts.get(name as usize);
        let place = match group.key.name {
            Name::Symbol(..) => section.function_place(first),
            _ => section.file(first),
        };
        let place = match place {
            Some((file, line)) => format!("{unit} {}:{line}", base_name(file)),
            None => unit.clone(),
        };
        let (start, end) = group.range;
        let (name, place) = match &group.key.name {
            Name::Symbol(name, _) => (text(*name).cloned().unwrap_or_default(), place),
            Name::Inlined(name) => (image::demangled(name), format!("{place}, inlined")),
            Name::Place(at) => (format!("{unit}+{at:#x}"), String::new()),
            Name::Unknown => (
                format!("[{unit} {start:#x}-{end:#x}]"),
                "no symbols".to_owned(),
            ),
        };
        let entered = match (&group.key.name, group.entered) {
            (Name::Symbol(..) | Name::Place(_), entered) if entered > 0 => grouped(entered),
            _ => String::new(),
        };
        Row {
            share: share(group.executed, section.totals.executed),
            executed: many(group.executed),
            counts: [entered, String::new()],
            name: report.name(&name),
            place,
        }
    };
    let groups = functions::of(report, section).into_iter();
    groups.take(report.view.top).map(row).collect()
}

fn blocks(report: &Report<'_>, section: &Section) -> Vec<Row> {
    let lists = |insn: &Counted| report.lists(&section.counts, insn);
    let hot = hot::blocks(&section.counts, &section.blocks, report.view.top, lists);
    let row = |block| {
        let first = section.first(block);
        let unit = section.unit_name(first);
        let name = match (section.function_name(first), first.source.function) {
            (Some(name), Some((_, 0))) => report.name(name),
            (Some(name), Some((_, distance))) => format!("{}+{distance:#x}", report.name(name)),
            _ => section.place(first),
        };
        let unit = match name.starts_with(&unit) {
            true => "",
            false => without_version(&unit),
        };
        let file = section.file(first);
        let line = file.map_or(String::new(), |(file, line)| {
            format!(" {}:{line}", base_name(file))
        });
        Row {
            share: share(hot::weight(block), section.totals.executed),
            executed: many(hot::weight(block)),
            counts: [grouped(block.count), block.len.to_string()],
            name,
            place: format!("{unit}{line}"),
        }
    };
    hot.into_iter().map(row).collect()
}

/// The hottest lines of a section that are listed.
pub(super) fn hot_lines(report: &Report<'_>, section: &Section) -> Vec<hot::Line> {
    let lists = |insn: &Counted| report.lists(&section.counts, insn);
    let is_assembly = |file: &str| ASSEMBLY.iter().any(|ending| file.ends_with(ending));
    hot::lines(&section.counts, report.view.top, lists, is_assembly)
}

fn lines(report: &Report<'_>, section: &Section) -> Vec<Row> {
    let texts = &section.counts.texts;
    let row = |line: hot::Line| {
        let file = &texts[line.file as usize];
        let name = line.function.and_then(|name| texts.get(name as usize));
        let function = name.map_or(String::new(), |name| report.name(name));
        let source = line.line.and_then(|number| {
            let lines = report.sources.get(file)?;
            lines.get((number as usize).checked_sub(1)?)
        });
        Row {
            share: share(line.executed, section.totals.executed),
            executed: many(line.executed),
            counts: [grouped(line.most), String::new()],
            name: match line.line {
                Some(number) => format!("{}:{number}", base_name(file)),
                None => base_name(file).into_owned(),
            },
            place: match source {
                Some(source) => source.trim().replace(char::is_control, " "),
                None => function,
            },
        }
    };
    hot_lines(report, section).into_iter().map(row).collect()
}

/// A table of the hottest of `what`, with the names of its columns of counts.
fn write_hottest(
    what: &str,
    counts: [&str; 2],
    rows: &[Row],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let titles = ["share", "instructions", counts[0], counts[1]];
    let cells = |row: &Row| {
        let [first, second] = &row.counts;
        [&row.share, &row.executed, first, second].map(String::clone)
    };
    let widths: Vec<usize> = (0..titles.len())
        .map(|at| {
            let widths = rows.iter().map(|row| cells(row)[at].chars().count());
            widths.max().unwrap_or(0).max(titles[at].len())
        })
        .collect();
    let numbers = |cells: &[String]| -> String {
        let pairs = cells.iter().zip(&widths).filter(|(_, width)| **width > 0);
        pairs
            .map(|(cell, width)| format!("{cell:>width$}  "))
            .collect()
    };
    let head = numbers(&titles.map(str::to_owned));
    writeln!(out, "\n{}", style.bold(&format!("{head}hottest {what}")))?;
    let room = width(style)
        .saturating_sub(head.chars().count())
        .max(PLACE_LEAST);
    let longest = rows.iter().map(|row| row.name.chars().count()).max();
    let column = longest.unwrap_or(0).min((room * 3 / 5).max(PLACE_LEAST));
    for row in rows {
        let name = cut_middle(&row.name, column);
        let place: String = row
            .place
            .chars()
            .take(room.saturating_sub(column + 2))
            .collect();
        let line = match place.is_empty() {
            true => format!("{}{name}", numbers(&cells(row))),
            false => {
                let place = style.dim(&place);
                format!("{}{name:<column$}  {place}", numbers(&cells(row)))
            }
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

impl Report<'_> {
    /// A function's name, short unless all of it was asked for.
    fn name(&self, name: &str) -> String {
        match self.view.full_names {
            true => name.to_owned(),
            false => short(name),
        }
    }
}

fn share(value: u128, total: u128) -> String {
    let percent = value as f64 * 100.0 / total.max(1) as f64;
    match value > 0 && percent < 0.005 {
        true => "<0.01%".into(),
        false => format!("{percent:.2}%"),
    }
}

/// With the thousands apart, as far as that goes.
fn many(value: u128) -> String {
    u64::try_from(value).map_or_else(|_| value.to_string(), grouped)
}
