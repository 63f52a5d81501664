//! Counts as a page for a browser: tables of functions, basic blocks and lines, and of
//! each function its source and instructions with their executions and both outcomes
//! of each branch. The page's parts are those of [`crate::html`].
//!
//! Limit: as there, the scripts count up to 2^53 - 1.

mod threads;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use analysis::counts::blocks::Block;
use analysis::counts::{Counted, Unit, hot};
use isa::Flow;
use serde::Serialize;
use trace::Module;

use super::annotate::NOWHERE;
use super::{NO_WAYS, Report, Section, table};
use crate::html::{self, Beside, JsonModule, Line, Listed, Listings, VERSION};
use crate::names::base_name;
use crate::numbers::command_line;
use crate::signals;
use threads::{Rows, Threads};

pub fn write(report: &Report, beside: Option<Beside>, out: &mut dyn Write) -> io::Result<()> {
    if !report.has_ways() {
        return Err(io::Error::other(NO_WAYS));
    }
    // One for all threads, as long as nobody asked for each by itself.
    let Some(section) = report.sections.first() else {
        return Err(io::Error::other("nothing was counted, so there is no page"));
    };
    let executed = u64::try_from(section.totals.executed).unwrap_or(u64::MAX);
    html::exact(executed, "instruction")?;
    let functions = functions(report, section);
    let title = command_line(&report.recording.meta.command);
    let document = Document::new(report, section, &functions);
    let rows = Rows {
        functions: &functions,
        lines: &document.lines,
        first: hot_blocks(report, section)
            .map(|block| block.first)
            .collect(),
    };
    let threads = Threads::new(report.recording, &section.counts, rows);
    let threads = threads.map_err(io::Error::other)?;
    html::counts_page(&title, out, |out| {
        let json = serde_json::to_vec(&document).map_err(io::Error::from)?;
        html::element("data-head", &json, out)?;
        if let Some(threads) = threads {
            threads.write(out)?;
        }
        match beside {
            Some(beside) => listings(section, &functions, beside, out),
            None => Ok(()),
        }
    })
}

/// Code without a symbol is listed by so many bytes of its file.
const PIECE: u64 = 4096;

/// Code of one function, or a piece of code without a symbol.
struct Function<'a> {
    insns: Vec<&'a Counted>,
    executed: u64,
}

/// All that are listed, with most executed instructions first.
fn functions<'a>(report: &Report, section: &'a Section) -> Vec<Function<'a>> {
    let mut known = HashMap::new();
    let mut functions: Vec<Function> = Vec::new();
    let insns = section.counts.insns.iter();
    for insn in insns.filter(|insn| report.lists(&section.counts, insn)) {
        let source = insn.source.function;
        let name = source.map(|(name, _)| name);
        let start = match source {
            Some((_, distance)) => insn.at.wrapping_sub(distance),
            None => insn.at - insn.at % PIECE,
        };
        let at = *known.entry((insn.unit, name, start)).or_insert_with(|| {
            functions.push(Function {
                insns: Vec::new(),
                executed: 0,
            });
            functions.len() - 1
        });
        functions[at].executed = functions[at].executed.saturating_add(insn.count);
        functions[at].insns.push(insn);
    }
    functions.sort_by_key(|function| Reverse(function.executed));
    functions
}

impl Function<'_> {
    fn name(&self, section: &Section) -> String {
        let first = self.insns.first();
        let name = first.and_then(|first| section.function_name(first));
        match (name, first) {
            (Some(name), _) => name.to_owned(),
            (None, Some(first)) => {
                let start = first.at - first.at % PIECE;
                format!("{}+{start:#x}, no symbol", section.unit_name(first))
            }
            (None, None) => String::new(),
        }
    }

    /// How often its first instruction was executed, if that was.
    fn entered(&self) -> u64 {
        let is_first = |insn: &&&Counted| {
            insn.source
                .function
                .is_some_and(|(_, distance)| distance == 0)
        };
        self.insns
            .iter()
            .find(is_first)
            .map_or(0, |insn| insn.count)
    }
}

/// Columns of a table.
#[derive(Default, Serialize)]
struct Table {
    name: Vec<String>,
    /// Executed instructions.
    executed: Vec<u64>,
    /// How often it was; of a line, its most executed instruction.
    times: Vec<u64>,
    /// Distinct instructions.
    insns: Vec<u64>,
    module: Vec<u32>,
    /// File, or -1, and line.
    file: Vec<i64>,
    line: Vec<u32>,
    /// Index of the function that it is in.
    function: Vec<usize>,
    /// Offset of the first instruction.
    at: Vec<u64>,
}

impl Table {
    /// Adds a row that begins with an instruction.
    fn add(&mut self, name: String, values: [u64; 3], function: usize, first: &Counted) {
        let [executed, times, insns] = values;
        self.name.push(name);
        self.executed.push(executed);
        self.times.push(times);
        self.insns.push(insns);
        self.module.push(first.unit);
        let line = first.source.line;
        self.file.push(line.map_or(-1, |(file, _)| file.into()));
        self.line.push(line.map_or(0, |(_, line)| line));
        self.function.push(function);
        self.at.push(first.at);
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    producer: &'a str,
    command: String,
    started_unix_ms: u64,
    end: String,
    totals: Vec<String>,
    executed: u64,
    options: &'a [(String, String)],
    notes: &'a [String],
    modules: Vec<JsonModule<'a>>,
    files: &'a [String],
    functions: Table,
    blocks: Table,
    lines: Table,
}

impl<'a> Document<'a> {
    fn new(report: &'a Report, section: &'a Section, functions: &[Function<'a>]) -> Document<'a> {
        let meta = &report.recording.meta;
        let units = section.counts.units.iter();
        Document {
            version: VERSION,
            producer: &meta.producer,
            command: command_line(&meta.command),
            started_unix_ms: meta.started_unix_ns / 1_000_000,
            end: signals::end_of_run(meta),
            totals: table::totals(section)
                .into_iter()
                .map(|(value, what)| format!("{value} {what}"))
                .collect(),
            executed: u64::try_from(section.totals.executed).unwrap_or(u64::MAX),
            options: &meta.options,
            notes: &report.notes,
            modules: units
                .map(|unit| {
                    let path = unit.path.as_deref().unwrap_or("[no file]");
                    JsonModule::new(path, unit.build_id.as_deref())
                })
                .collect(),
            files: &section.counts.texts,
            functions: table_of_functions(section, functions),
            blocks: table_of_blocks(report, section, functions),
            lines: table_of_lines(section, functions),
        }
    }
}

fn table_of_functions(section: &Section, functions: &[Function]) -> Table {
    let mut table = Table::default();
    for (number, function) in functions.iter().enumerate() {
        if let Some(first) = function.insns.first() {
            let values = [
                function.executed,
                function.entered(),
                function.insns.len() as u64,
            ];
            table.add(function.name(section), values, number, first);
        }
    }
    table
}

/// All blocks that are listed, with most executed instructions first.
fn hot_blocks<'a>(report: &Report, section: &'a Section) -> impl Iterator<Item = &'a Block> {
    let lists = |insn: &_| report.lists(&section.counts, insn);
    hot::blocks(&section.counts, &section.blocks, usize::MAX, lists).into_iter()
}

fn table_of_blocks(report: &Report, section: &Section, functions: &[Function]) -> Table {
    let mut function_of = HashMap::new();
    for (number, function) in functions.iter().enumerate() {
        let places = function.insns.iter().map(|insn| (insn.unit, insn.at));
        function_of.extend(places.map(|place| (place, number)));
    }
    let mut table = Table::default();
    for block in hot_blocks(report, section) {
        let first = section.first(block);
        let executed = u64::try_from(hot::weight(block)).unwrap_or(u64::MAX);
        let values = [executed, block.count, block.len as u64];
        let function = function_of.get(&(first.unit, first.at));
        let function = function.copied().unwrap_or_default();
        table.add(section.place(first), values, function, first);
    }
    table
}

/// The lines of each function; one of several, as what is inlined has, is in several.
fn table_of_lines(section: &Section, functions: &[Function]) -> Table {
    let mut rows: Vec<([u64; 3], usize, &Counted)> = Vec::new();
    for (number, function) in functions.iter().enumerate() {
        let mut of_line: HashMap<(u32, u32), usize> = HashMap::new();
        for &insn in &function.insns {
            let Some(line) = insn.source.line else {
                continue;
            };
            let at = *of_line.entry(line).or_insert_with(|| {
                rows.push(([0; 3], number, insn));
                rows.len() - 1
            });
            let [executed, most, insns] = &mut rows[at].0;
            *executed = executed.saturating_add(insn.count);
            *most = insn.count.max(*most);
            *insns += 1;
        }
    }
    rows.sort_by_key(|(values, ..)| Reverse(values[0]));
    let mut table = Table::default();
    for (values, function, first) in rows {
        if let Some((file, line)) = section.file(first) {
            table.add(
                format!("{}:{line}", base_name(file)),
                values,
                function,
                first,
            );
        }
    }
    table
}

/// Source and instructions of each function.
fn listings(
    section: &Section,
    functions: &[Function],
    beside: Beside,
    out: &mut dyn Write,
) -> io::Result<()> {
    let each = (0..functions.len()).map(|number| vec![number]);
    let units = section.counts.units.iter();
    let modules: Vec<Option<Module>> = units.map(module).collect();
    let all = section.counts.insns.iter().enumerate();
    let branches = all.filter(|(index, _)| !section.counts.went_from(*index).is_empty());
    let places: HashMap<(u32, u64, &[u8]), usize> = branches
        .map(|(index, insn)| ((insn.unit, insn.at, &*insn.bytes), index))
        .collect();
    let listings = Listings::new(functions.len(), each, beside, |group, files| {
        let insns = functions[group[0]].insns.iter();
        let listed = insns.map(|insn| {
            let module = modules[insn.unit as usize].as_ref();
            // As the recording says, but by a file that is here it may be shown.
            let line = module.and_then(|module| files.line(module, insn.at));
            let index = places.get(&(insn.unit, insn.at, &*insn.bytes));
            let went = index.map_or(Vec::new(), |&index| went(section, index));
            Listed {
                went,
                ..listed(section, insn, line)
            }
        });
        let listed = listed.collect();
        let first = functions[group[0]].insns.first();
        let graph = first.and_then(|insn| {
            let module = modules[insn.unit as usize].as_ref()?;
            files.graph(module, insn.at)
        });
        Ok((listed, graph))
    });
    listings.write("function", out)
}

/// Targets of an indirect jump or call, the most frequent first; those of a return are its callers.
fn went(section: &Section, branch: usize) -> Vec<(String, u64)> {
    if matches!(section.counts.insns[branch].flow, Flow::Return(_)) {
        return Vec::new();
    }
    let mut all = section.counts.went_from(branch).to_vec();
    all.sort_by_key(|went| Reverse(went.count));
    let target = |to: u32| section.place(&section.counts.insns[to as usize]);
    let name = |to: Option<u32>| to.map_or(NOWHERE.to_owned(), target);
    let named = all.into_iter().map(|went| (name(went.to), went.count));
    named.collect()
}

pub(super) fn module(unit: &Unit) -> Option<Module> {
    Some(Module {
        path: unit.path.clone()?,
        build_id: unit.build_id.clone(),
        ..Module::default()
    })
}

fn listed(section: &Section, insn: &Counted, line: Option<Line>) -> Listed {
    let target = insn.target.map(|at| &section.counts.insns[at as usize]);
    let target = target.map(|target| section.place(target));
    Listed {
        at: insn.at,
        len: insn.bytes.len() as u64,
        text: isa::text::of(&insn.bytes, insn.at, target.as_deref()),
        line: line.or_else(|| {
            let (file, line) = section.file(insn)?;
            Some((file.to_owned(), line))
        }),
        count: Some(insn.count),
        taken: insn.is_conditional().then(|| insn.taken()),
        ..Listed::default()
    }
}
