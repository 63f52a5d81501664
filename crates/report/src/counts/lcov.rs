//! Coverage of source lines, functions and branches as lcov's tracefile, for `lcov`,
//! `genhtml` and everything else that reads `.info` files.
//!
//! ```text
//! SF:/home/me/work.c      a source file
//! FN:1,work               function, by its name in the symbol table, at line 1
//! FNDA:1,work             entered once
//! BRDA:5,0,0,900          first branch of line 5, taken 900 times
//! BRDA:5,0,1,100          not taken
//! DA:5,1000               line 5: entered 1000 times
//! ```
//!
//! `analysis::counts::lines` defines an execution of a line. Lines, functions and
//! branches that never ran are in the module's file; where that is gone, those are left
//! out.
//!
//! Readers of version 2 refuse a function whose line is not among the lines, branches that were not executed on a line that was, and
//! source files that do not exist: such a line is added, such branches are left out, and such files are named in a comment.
//!
//! Invariant: what several modules and inlined copies say of one line is added up.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use analysis::counts::Unit;
use analysis::counts::lines::{self, Branch, Line, Range};
use image::{ExtentKind, FileOffset, Image, LineTable};

use super::{Report, Section};
use crate::names::printable;

/// One source file.
#[derive(Default)]
struct Source {
    lines: BTreeMap<u32, Covered>,
    /// By name in the symbol table: line and executions.
    functions: BTreeMap<String, (u32, u64)>,
}

#[derive(Default)]
struct Covered {
    count: u64,
    branches: Vec<Branch>,
}

type Sources = BTreeMap<String, Source>;

pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut sources = Sources::new();
    for section in &report.sections {
        for (unit, known) in (0..).zip(&section.counts.units) {
            if !report.lists_unit(known) {
                continue;
            }
            match report.binaries.get(known) {
                // Libraries that were built elsewhere are listed only if they are asked for.
                Some(image)
                    if report.view.modules.is_empty()
                        && !image.has_lines_beside()
                        && !is_program(report, known) => {}
                Some(image) => add(&mut sources, section, unit, image),
                None => add_recorded(&mut sources, section, unit),
            }
        }
    }
    if sources.is_empty() {
        let whose = match report.view.modules.is_empty() {
            true => "no file that ran has line tables of its own",
            false => "no file of --modules that ran has line tables",
        };
        let message = format!("{whose}, which -g gives, so no source line is known");
        return Err(io::Error::other(message));
    }
    if !report.has_ways() {
        let lines = sources
            .values_mut()
            .flat_map(|source| source.lines.values_mut());
        lines.for_each(|line| line.branches.clear());
    }
    sources.values_mut().for_each(Source::make_consistent);
    let (there, gone): (Vec<_>, Vec<_>) =
        (sources.iter()).partition(|(name, _)| Path::new(name).is_file());
    // None is there where the program was built elsewhere: then they may be where the file is read.
    let (shown, gone) = match there.is_empty() {
        true => (gone, there),
        false => (there, gone),
    };
    writeln!(out, "TN:")?;
    for (name, _) in gone {
        writeln!(
            out,
            "# left out, as there is no such file: {}",
            printable(name)
        )?;
    }
    for (name, source) in shown {
        write_source(name, source, out)?;
    }
    Ok(())
}

/// Whether a file is one that was executed, and not a library.
fn is_program(report: &Report<'_>, unit: &Unit) -> bool {
    let mut processes = report.recording.processes.iter();
    processes.any(|process| unit.path.as_ref() == Some(&process.exe))
}

impl Source {
    fn make_consistent(&mut self) {
        for (line, entered) in self.functions.values() {
            let covered = self.lines.entry(*line);
            covered.or_insert_with(|| Covered {
                count: *entered,
                branches: Vec::new(),
            });
        }
        for line in self.lines.values_mut().filter(|line| line.count > 0) {
            if !line.branches.iter().any(Branch::was_executed) {
                line.branches.clear();
            }
        }
    }
}

/// All code of a module.
fn add(sources: &mut Sources, section: &Section, unit: u32, image: &Image) {
    let table = image.line_table();
    let files: Vec<String> = table.files.iter().map(|file| cleaned(file)).collect();
    let mut places: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let ranges: Vec<Range> = table
        .ranges
        .iter()
        .map(|range| {
            let new = places.len() as u32;
            Range {
                start: range.start.0,
                end: range.end.0,
                line: *places.entry((range.file, range.line)).or_insert(new),
            }
        })
        .collect();
    let mut found = lines::of(
        &section.counts,
        &section.blocks,
        unit,
        &ranges,
        image.bytes(),
    );
    for ((file, number), key) in places {
        let line = found.remove(&key).unwrap_or_default();
        add_line(sources, &files[file as usize], number, line);
    }
    add_functions(sources, section, unit, image, (&table, &files));
}

fn add_functions(
    sources: &mut Sources,
    section: &Section,
    unit: u32,
    image: &Image,
    (table, files): (&LineTable, &[String]),
) {
    let entered = entries(section, unit);
    let functions = image.functions().iter();
    let functions = functions.filter(|function| function.kind == ExtentKind::Function);
    let starts: Vec<FileOffset> = functions.map(|function| function.start).collect();
    let declared = image.declarations(&starts);
    for function in image.functions() {
        let (ExtentKind::Function, Some(name)) = (function.kind, function.name) else {
            continue;
        };
        let Some((file, line)) = line_at(table, function.start) else {
            continue;
        };
        let count = entered.get(&function.start.0).copied().unwrap_or(0);
        let (file, line) = match declared.get(&function.start) {
            Some((file, line)) => (cleaned(file), *line),
            None => (files[file as usize].clone(), line),
        };
        let source = sources.entry(file).or_default();
        add_function(source, image.name(name), line, count);
    }
}

fn line_at(table: &LineTable, at: FileOffset) -> Option<(u32, u32)> {
    let after = table.ranges.partition_point(|range| range.start <= at);
    let range = &table.ranges[after.checked_sub(1)?];
    (at < range.end).then_some((range.file, range.line))
}

/// Executions by offset.
fn entries(section: &Section, unit: u32) -> BTreeMap<u64, u64> {
    let mut entries = BTreeMap::new();
    let insns = section.counts.insns.iter();
    for insn in insns.filter(|insn| insn.unit == unit) {
        let count: &mut u64 = entries.entry(insn.at).or_default();
        *count = count.saturating_add(insn.count);
    }
    entries
}

/// Adds the lines that ran, as the recording itself has them for a module.
fn add_recorded(sources: &mut Sources, section: &Section, unit: u32) {
    let mut places: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    let mut ranges: Vec<Range> = Vec::new();
    let insns = section.counts.insns.iter();
    for insn in insns.filter(|insn| insn.unit == unit) {
        let Some((file, line)) = section.file(insn) else {
            continue;
        };
        let new = places.len() as u32;
        let place = *places.entry((file, line)).or_insert(new);
        let end = insn.at.saturating_add(insn.bytes.len() as u64);
        match ranges.last_mut() {
            Some(last) if last.line == place && last.end == insn.at => last.end = end,
            _ => ranges.push(Range {
                start: insn.at,
                end,
                line: place,
            }),
        }
        if let (Some((_, 0)), Some(name)) = (insn.source.function, section.function_name(insn)) {
            let declared = section.counts.declared.get(&(unit, insn.at));
            let (file, line) = declared.map_or((file, line), |(file, line)| (file, *line));
            let source = sources.entry(cleaned(file)).or_default();
            // A comma ends the name for readers.
            add_function(source, &name.replace(',', ";"), line, insn.count);
        }
    }
    let mut found = lines::of(&section.counts, &section.blocks, unit, &ranges, &[]);
    for ((file, number), key) in places {
        let line = found.remove(&key).unwrap_or_default();
        add_line(sources, &cleaned(file), number, line);
    }
}

fn add_line(sources: &mut Sources, file: &str, number: u32, line: Line) {
    if !sources.contains_key(file) {
        sources.insert(file.to_owned(), Source::default());
    }
    let Some(source) = sources.get_mut(file) else {
        return;
    };
    let covered = source.lines.entry(number).or_default();
    covered.count = covered.count.saturating_add(line.count);
    covered.branches.extend(line.branches.into_values());
}

fn add_function(source: &mut Source, name: &str, line: u32, count: u64) {
    let function = source.functions.entry(name.to_owned());
    let (first, entered) = function.or_insert((line, 0));
    *first = line.min(*first);
    *entered = entered.saturating_add(count);
}

fn write_source(name: &str, source: &Source, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "SF:{name}")?;
    for (name, (line, _)) in &source.functions {
        writeln!(out, "FN:{line},{name}")?;
    }
    for (name, (_, count)) in &source.functions {
        writeln!(out, "FNDA:{count},{name}")?;
    }
    let hit = source.functions.values().filter(|(_, count)| *count > 0);
    writeln!(out, "FNF:{}\nFNH:{}", source.functions.len(), hit.count())?;
    let (mut ways, mut ways_hit) = (0, 0);
    for (number, line) in &source.lines {
        for (block, branch) in line.branches.iter().enumerate() {
            for (way, count) in [branch.taken, branch.fell].into_iter().enumerate() {
                ways += 1;
                ways_hit += u64::from(count > 0);
                let count = match branch.was_executed() {
                    true => count.to_string(),
                    false => "-".to_owned(),
                };
                writeln!(out, "BRDA:{number},{block},{way},{count}")?;
            }
        }
    }
    writeln!(out, "BRF:{ways}\nBRH:{ways_hit}")?;
    for (number, line) in &source.lines {
        writeln!(out, "DA:{number},{}", line.count)?;
    }
    let hit = source.lines.values().filter(|line| line.count > 0).count();
    writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", source.lines.len())
}

/// Without `.` and `..`, so that one file has one name.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." if !parts.is_empty() => {}
            ".." if parts
                .last()
                .is_some_and(|last| !matches!(*last, "" | "." | "..")) =>
            {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::cleaned;

    #[test]
    fn one_file_has_one_name() {
        assert_eq!(cleaned("/a/b/../c/./d.c"), "/a/c/d.c");
        assert_eq!(cleaned("/usr//include/x.h"), "/usr/include/x.h");
        assert_eq!(cleaned("../x.c"), "../x.c");
        assert_eq!(cleaned("./malloc/malloc.c"), "./malloc/malloc.c");
    }
}
