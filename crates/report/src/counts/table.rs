//! The hottest blocks and lines, for a terminal.

use std::io::{self, Write};

use analysis::counts::hot;

use super::{Report, Section};
use crate::names::base_name;
use crate::numbers::{command_line, counted, cut_middle, duration, grouped};
use crate::signals;
use crate::text::Style;

pub(super) fn write(report: &Report<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    let title = format!("everypath count: {}", command_line(&meta.command));
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    writeln!(
        out,
        "{} after {}",
        signals::end(meta.end),
        duration(meta.duration_ns)
    )?;
    let processes = &report.recording.processes;
    let threads: usize = processes.iter().map(|process| process.threads.len()).sum();
    writeln!(
        out,
        "{}, {}",
        counted(processes.len() as u64, "process"),
        counted(threads as u64, "thread")
    )?;
    for section in &report.sections {
        writeln!(out)?;
        if let Some(title) = section.title(report.recording) {
            writeln!(out, "{}", style.bold(&title))?;
        }
        write_totals(section, out)?;
        let (blocks, lines) = (blocks(report, section), lines(report, section));
        write_hottest("basic blocks", ["insns", "place"], &blocks, style, out)?;
        write_hottest("lines", ["", "line"], &lines, style, out)?;
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

fn write_totals(section: &Section, out: &mut dyn Write) -> io::Result<()> {
    let totals = totals(section);
    let width = totals[0].0.len();
    totals
        .into_iter()
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

/// The columns of numbers; what is left of a line is for the place.
const NUMBERS: usize = 9 + 16 + 7;

/// Share, executions, instructions and place.
type Row = [String; 4];

fn blocks(report: &Report<'_>, section: &Section) -> Vec<Row> {
    let lists = |insn: &_| report.lists(&section.counts, insn);
    let hot = hot::blocks(&section.counts, &section.blocks, report.view.top, lists);
    let row = |block| {
        let first = section.first(block);
        let mut place = section.place(first);
        if let Some((file, line)) = section.file(first) {
            place = format!("{place}  {}:{line}", base_name(file));
        }
        let unit = section.unit_name(first);
        if !place.starts_with(&unit) {
            place = format!("{place}  [{unit}]");
        }
        let share = share(hot::weight(block), section.totals.executed);
        [share, grouped(block.count), block.len.to_string(), place]
    };
    hot.into_iter().map(row).collect()
}

fn lines(report: &Report<'_>, section: &Section) -> Vec<Row> {
    let lists = |insn: &_| report.lists(&section.counts, insn);
    let texts = &section.counts.texts;
    let row = |line: hot::Line| {
        let mut place = format!("{}:{}", base_name(&texts[line.file as usize]), line.line);
        if let Some(name) = line.function.and_then(|name| texts.get(name as usize)) {
            place = format!("{place}  {name}");
        }
        let share = share(line.executed, section.totals.executed);
        [share, grouped(line.most), String::new(), place]
    };
    let hot = hot::lines(&section.counts, report.view.top, lists);
    hot.into_iter().map(row).collect()
}

/// `what`, with the names of the last two columns.
fn write_hottest(
    what: &str,
    [insns, place]: [&str; 2],
    rows: &[Row],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nhottest {what}, by instructions executed")?;
    let head = format!("{:>9}{:>16}{insns:>7}  {place}", "share", "executed");
    writeln!(out, "{}", style.dim(&head))?;
    let room = style.width.saturating_sub(NUMBERS + 2).max(20);
    for [share, executed, insns, place] in rows {
        let place = cut_middle(place, room);
        writeln!(out, "{share:>9}{executed:>16}{insns:>7}  {place}")?;
    }
    Ok(())
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
