//! Misses of simulated caches: totals, and the functions and lines that miss most.
//!
//! The order is by `10 * L1 + 100 * LL`, the misses in KCachegrind's cycle estimation.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use analysis::caches::{Config, Costs, EVENTS, Level};
use analysis::counts::Counted;
use serde::Serialize;

use super::functions::place;
use super::{Report, Section};
use crate::names::base_name;
use crate::numbers::{command_line, cut_middle, grouped};
use crate::short_names::short;
use crate::text::Style;
use crate::text::functions::{width, without_version};

const VERSION: u32 = 1;

/// Places of the events in a row.
const I1MR: usize = 0;
const ILMR: usize = 1;
const DR: usize = 2;
const DW: usize = 5;

type Row = [u64; EVENTS.len()];

/// Forms of the report, beside callgrind's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
}

/// Estimated cycles of misses.
fn weight(row: &Row) -> u64 {
    let first = row[I1MR] + row[DR + 1] + row[DW + 1];
    let last = row[ILMR] + row[DR + 2] + row[DW + 2];
    10 * first + 100 * last
}

/// Code with one key.
struct Group {
    /// Index of an instruction of it.
    first: usize,
    fetches: u64,
    row: Row,
}

/// Adds up the costs of code by a key; those with the most misses first.
fn groups<K: Eq + Hash>(
    report: &Report<'_>,
    costs: &Costs,
    key: impl Fn(&Counted) -> Option<K>,
) -> Vec<Group> {
    let section = &report.sections[0];
    let mut groups: HashMap<K, Group> = HashMap::new();
    for (at, (insn, row)) in section.counts.insns.iter().zip(&costs.insns).enumerate() {
        let Some(key) = key(insn).filter(|_| report.lists(&section.counts, insn)) else {
            continue;
        };
        let group = groups.entry(key).or_insert(Group {
            first: at,
            fetches: 0,
            row: [0; EVENTS.len()],
        });
        group.fetches += insn.count;
        group
            .row
            .iter_mut()
            .zip(row)
            .for_each(|(sum, one)| *sum += one);
    }
    let mut all: Vec<Group> = groups.into_values().collect();
    all.sort_by_key(|group| (std::cmp::Reverse(weight(&group.row)), group.first));
    all
}

/// Functions by their beginning, also those without a symbol where unwind tables say where that is.
fn functions(report: &Report<'_>, costs: &Costs) -> Vec<Group> {
    let section = &report.sections[0];
    groups(report, costs, |insn| {
        let function = insn.source.function;
        let named = function.map(|(name, distance)| (name, insn.at.wrapping_sub(distance)));
        let nameless = named.is_none().then(|| place(report, section, insn));
        Some((insn.unit, named, nameless.flatten()))
    })
}

fn lines(report: &Report<'_>, costs: &Costs) -> Vec<Group> {
    groups(report, costs, |insn| insn.source.line)
}

/// Writes the report on all threads together.
pub fn write(
    report: &Report<'_>,
    (config, costs): (&Config, &Costs),
    form: Form,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Form::Text => text(report, (config, costs), style, out),
        Form::Json => json(report, (config, costs), out),
    }
}

fn text(
    report: &Report<'_>,
    (config, costs): (&Config, &Costs),
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let title = format!(
        "everypath caches: {}",
        command_line(&report.recording.meta.command)
    );
    writeln!(out, "{}\n", style.bold(&cut_middle(&title, style.width)))?;
    totals(config, costs, style, out)?;
    let section = &report.sections[0];
    let name = |group: &Group| {
        let insn = &section.counts.insns[group.first];
        let unit = without_version(&section.unit_name(insn)).to_owned();
        let name = match (section.function_name(insn), place(report, section, insn)) {
            (Some(name), _) => report_name(report, name),
            (None, Some(start)) => format!("{unit}+{start:#x}"),
            (None, None) => format!("[{unit}]"),
        };
        let line = section.function_place(insn);
        let line = line.map_or(String::new(), |(file, line)| {
            format!(" {}:{line}", base_name(file))
        });
        (name, format!("{unit}{line}"))
    };
    table(
        "functions",
        &functions(report, costs),
        &name,
        report,
        style,
        out,
    )?;
    let line = |group: &Group| {
        let insn = &section.counts.insns[group.first];
        let (file, line) = section.file(insn).unwrap_or(("???", 0));
        let source = report.sources.get(file);
        let source = source.and_then(|lines| lines.get((line as usize).checked_sub(1)?));
        let function = section.function_name(insn).unwrap_or_default();
        let place = source.map_or_else(
            || report_name(report, function),
            |text| text.trim().replace(char::is_control, " "),
        );
        (format!("{}:{line}", base_name(file)), place)
    };
    table("lines", &lines(report, costs), &line, report, style, out)?;
    writeln!(out)?;
    let order = "share and order are of 10 * L1 misses + 100 * LL misses; misses are no times";
    for note in [order]
        .into_iter()
        .chain(report.notes.iter().map(String::as_str))
    {
        writeln!(out, "{}", style.paragraph("note: ", note))?;
    }
    Ok(())
}

fn report_name(report: &Report<'_>, name: &str) -> String {
    match report.view.full_names {
        true => name.to_owned(),
        false => short(name),
    }
}

/// A cache in words.
fn level(name: &str, level: &Level) -> String {
    let size = match level.size {
        size if size.is_multiple_of(1 << 20) => format!("{} MB", size >> 20),
        size if size.is_multiple_of(1 << 10) => format!("{} KB", size >> 10),
        size => format!("{size} bytes"),
    };
    let next = if level.next_line { ", next line" } else { "" };
    format!(
        "{name} {size}, {} ways of {} bytes, {}{next}",
        level.ways, level.line, level.model.name
    )
}

fn totals(config: &Config, costs: &Costs, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let row = &costs.total;
    let head = format!(
        "{:>20} {:>9} {:>20} {:>9} {:>20} {:>9}",
        "fetches", "", "reads", "", "writes", ""
    );
    writeln!(out, "{}", style.bold(&head))?;
    let share = |part: u64, all: u64| format!("{:.3} %", part as f64 * 100.0 / all.max(1) as f64);
    let all = [costs.fetches, row[DR], row[DW]];
    let mut line = |numbers: [u64; 3], name: &str| {
        let cells = numbers.iter().zip(all);
        let cells: Vec<String> = cells
            .map(|(&number, all)| format!("{:>20} {:>9}", grouped(number), share(number, all)))
            .collect();
        writeln!(out, "{}  {name}", cells.join(" "))
    };
    line(all, "all")?;
    let first = format!(
        "{}; {}",
        level("miss L1: instructions", &config.l1i),
        level("data", &config.l1d)
    );
    line([row[I1MR], row[DR + 1], row[DW + 1]], &first)?;
    let last = level("miss the last level:", &config.ll);
    line([row[ILMR], row[DR + 2], row[DW + 2]], &last)?;
    for (at, what, tlb) in [
        (8, "fetches", config.itlb),
        (9, "reads and writes", config.dtlb),
    ] {
        if let Some(tlb) = tlb {
            let (misses, entries) = (grouped(row[at]), tlb.size / tlb.line);
            let ways = tlb.ways;
            writeln!(
                out,
                "{misses:>20} {what} of pages that miss the translation buffer: {entries} entries, {ways} ways"
            )?;
        }
    }
    Ok(())
}

/// A table of the code that misses most.
fn table(
    what: &str,
    groups: &[Group],
    name: &dyn Fn(&Group) -> (String, String),
    report: &Report<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all: u64 = groups.iter().map(|group| weight(&group.row)).sum();
    let shown = groups.iter().take(report.view.top);
    let shown: Vec<&Group> = shown.filter(|group| weight(&group.row) > 0).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let head = format!(
        "{:>7} {:>13} {:>8} {:>13} {:>13}",
        "share", "L1 data", "of all", "L1 instr.", "last level"
    );
    writeln!(
        out,
        "\n{}",
        style.bold(&format!("{head}  {what} that miss most"))
    )?;
    let room = width(style).saturating_sub(head.len() + 2).max(20);
    for group in shown {
        let row = &group.row;
        let (misses, accesses) = (row[DR + 1] + row[DW + 1], row[DR] + row[DW]);
        let last = row[ILMR] + row[DR + 2] + row[DW + 2];
        let share = |part: u64, all: u64| part as f64 * 100.0 / all.max(1) as f64;
        let (name, place) = name(group);
        let name = cut_middle(&name, room);
        let place: String = place
            .chars()
            .take(room.saturating_sub(name.chars().count() + 2))
            .collect();
        writeln!(
            out,
            "{:>6.2}% {:>13} {:>7.2}% {:>13} {:>13}  {name}  {}",
            share(weight(row), all),
            grouped(misses),
            share(misses, accesses),
            grouped(row[I1MR]),
            grouped(last),
            style.dim(&place),
        )?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    producer: &'a str,
    command: &'a [String],
    caches: Vec<JsonLevel>,
    /// Names of the members of all `costs`.
    events: Vec<&'static str>,
    total: Vec<u64>,
    functions: Vec<JsonCode<'a>>,
    lines: Vec<JsonCode<'a>>,
    instructions: Vec<JsonCode<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct JsonLevel {
    name: &'static str,
    bytes: u64,
    ways: u64,
    line: u64,
    model: &'static str,
    next_line: bool,
}

#[derive(Serialize, Default)]
struct JsonCode<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    costs: Vec<u64>,
}

impl<'a> JsonCode<'a> {
    fn of(section: &'a Section, insn: &'a Counted, costs: Vec<u64>) -> JsonCode<'a> {
        let line = section.file(insn);
        JsonCode {
            module: section.counts.units[insn.unit as usize].path.as_deref(),
            offset: Some(insn.at),
            function: section.function_name(insn),
            file: line.map(|(file, _)| file),
            line: line.map(|(_, line)| line),
            costs,
        }
    }
}

impl Report<'_> {
    /// Executions and costs of an instruction, as the events that are shown.
    pub(super) fn costs_of(&self, fetches: u64, row: &Row, costs: &Costs) -> Vec<u64> {
        let own = costs.events.iter().map(|&event| row[event]);
        [fetches].into_iter().chain(own).collect()
    }
}

fn json(
    report: &Report<'_>,
    (config, costs): (&Config, &Costs),
    out: &mut dyn Write,
) -> io::Result<()> {
    let meta = &report.recording.meta;
    let section = &report.sections[0];
    let insns = &section.counts.insns;
    let group = |group: &Group| {
        let costs = report.costs_of(group.fetches, &group.row, costs);
        JsonCode::of(section, &insns[group.first], costs)
    };
    let of_functions = functions(report, costs);
    let of_functions = of_functions.iter().map(|function| JsonCode {
        line: None,
        file: None,
        ..group(function)
    });
    let of_lines = lines(report, costs);
    let of_lines = of_lines.iter().map(|line| JsonCode {
        offset: None,
        ..group(line)
    });
    let both = insns.iter().zip(&costs.insns);
    let both = both.filter(|(insn, _)| report.lists(&section.counts, insn));
    let instructions = both
        .map(|(insn, row)| JsonCode::of(section, insn, report.costs_of(insn.count, row, costs)));
    let levels = [
        ("l1i", Some(config.l1i)),
        ("l1d", Some(config.l1d)),
        ("ll", Some(config.ll)),
        ("itlb", config.itlb),
        ("dtlb", config.dtlb),
    ];
    let caches = levels.into_iter().filter_map(|(name, level)| {
        level.map(|level| JsonLevel {
            name,
            bytes: level.size,
            ways: level.ways,
            line: level.line,
            model: level.model.name,
            next_line: level.next_line,
        })
    });
    let document = Document {
        format: "everypath caches",
        version: VERSION,
        producer: &meta.producer,
        command: &meta.command,
        caches: caches.collect(),
        events: costs.names(),
        total: report.costs_of(costs.fetches, &costs.total, costs),
        functions: of_functions.collect(),
        lines: of_lines.collect(),
        instructions: instructions.collect(),
        notes: &report.notes,
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}
