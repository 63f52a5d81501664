//! Reports of [`trace::Mode::Counts`]: hottest blocks and lines as text, functions
//! instruction by instruction, every block as CSV, blocks and edges as JSON, and forms
//! for other tools.
//!
//! Counts are printed in full and exact in every form; JSON has those beyond 2^53,
//! which many of its readers round, as strings.

mod annotate;
pub mod caches;
mod callgrind;
mod csv;
mod fdata;
mod functions;
mod json;
mod lcov;
mod llvm;
pub mod page;
pub mod reuse;
pub mod sharing;
mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

use analysis::caches::Costs;
use analysis::counts::blocks::{self, Block, Blocks};
use analysis::counts::hot::{self, Totals};
use analysis::counts::{self, Counted, Counts, Unit, Unsound};
use image::{FileOffset, Image};
use trace::{Module, Recording};

use crate::html::Files;
use crate::names::base_name;
use crate::numbers::grouped;
use crate::text::Style;

/// Selection of the contents of a report.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Blocks and lines in the tables.
    pub top: usize,
    /// A table for each thread instead of one for all.
    pub per_thread: bool,
    /// File names or globs; only code in these files is listed. Empty: all code.
    pub modules: Vec<String>,
    /// Names or globs of functions to show instruction by instruction instead of the
    /// hottest blocks.
    pub annotate: Vec<String>,
    /// Whether inlined functions are functions of their own in the table.
    pub inlines: bool,
    /// Whether names are shown with all template arguments and parameters.
    pub full_names: bool,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Table,
    Json,
    Csv,
    Callgrind,
    Lcov,
    Fdata,
    Llvm,
}

impl Form {
    /// Whether it also needs the files of the modules, for what is not recorded.
    pub fn needs_binaries(self) -> bool {
        matches!(self, Form::Lcov | Form::Fdata | Form::Llvm)
    }

    /// Whether it is of one file: the program's own, or that of `--modules`.
    pub fn is_of_one_file(self) -> bool {
        matches!(self, Form::Fdata | Form::Llvm)
    }

    /// Why there is none of a file, if that says so itself.
    pub fn refusal(self, image: &Image) -> Option<String> {
        match self {
            Form::Fdata => fdata::refusal(image),
            Form::Llvm => llvm::refusal(image),
            _ => None,
        }
    }

    /// Whether it can show each thread by itself.
    pub fn shows_threads(self) -> bool {
        !self.needs_binaries()
    }
}

/// Counts of some threads, and what follows from them.
struct Section {
    /// Process and thread by index; `None`: all.
    thread: Option<(usize, usize)>,
    counts: Counts,
    blocks: Blocks,
    totals: Totals,
}

/// Counts of a recording, ready to be shown.
pub struct Report<'a> {
    recording: &'a Recording,
    view: &'a View,
    sections: Vec<Section>,
    pub notes: Vec<String>,
    /// Notes that say what was not counted.
    uncounted: Vec<String>,
    /// Commands that show more, for the end of the table.
    pub hint: Option<String>,
    /// Lines of source files, as [`Report::read_sources`] found them.
    pub sources: HashMap<String, Vec<String>>,
    /// Files that [`Report::modules`] names and that are as they were.
    pub binaries: HashMap<Unit, Image>,
    /// Why others could not be used.
    pub missing: Vec<(Unit, String)>,
    /// Costs of each instruction besides its executions, for [`Form::Callgrind`]; only if all threads
    /// are together.
    pub costs: Option<Costs>,
}

/// The option of a recording that was made by counters in an edited program; its value is [`COVERAGE`] or another tool.
pub const EDITED: &str = "edited";
/// The tool that counts nothing, but says what was executed.
pub const COVERAGE: &str = "coverage";

/// The option of a recording in which only the blocks are known, and not which ways of branches were taken.
pub const BLOCKS_ONLY: &str = "blocks only";
/// Refuses what is made of ways.
const NO_WAYS: &str = "the marks of this run say which code was executed, and not which ways of branches were taken; \
     for this form edit the program with --tool coverage --branches";

/// Options of such a recording: a sentence about what has no counters; calls of such a function, with its name behind
/// their number; and the instructions of all functions with counters, with the program behind their number.
pub const LEFT_OUT: &str = "left out";
pub const CALLED: &str = "called";
pub const INSTRUCTIONS: &str = "instructions";
/// The option with the number of libraries that were counted with the program.
pub const LIBRARIES: &str = "libraries";
/// The option that says why a library was not edited with its program.
pub const KEPT: &str = "kept";
/// The option of counts that begin at a reset.
pub const RESET: &str = "reset";
/// Options with the number of calls that start other programs, and that load libraries.
pub const STARTS: &str = "programs started";
pub const LOADS: &str = "libraries loaded";

/// Functions without counters that are named.
const NAMED: usize = 5;

/// Values of the options with a name.
fn options<'r>(recording: &'r Recording, wanted: &'static str) -> impl Iterator<Item = &'r str> {
    let options = recording.meta.options.iter();
    let wanted = options.filter(move |(name, _)| name == wanted);
    wanted.map(|(_, value)| value.as_str())
}

/// A number and what stands behind it.
fn numbered(value: &str) -> Option<(&str, u64)> {
    let (number, of) = value.split_once(' ')?;
    Some((of, number.parse().ok()?))
}

/// Sentences about code of an edited program, and of its libraries, that has no counters.
fn uncounted(recording: &Recording) -> Vec<String> {
    let mut notes = left_out(options(recording, LEFT_OUT).collect());
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for (function, number) in options(recording, CALLED).filter_map(numbered) {
        *calls.entry(function).or_default() += number;
    }
    if !calls.is_empty() {
        notes.push(called(&calls));
    }
    if options(recording, RESET).next().is_some() {
        notes.push("what was executed before the last reset is not counted".into());
    }
    notes.extend(options(recording, KEPT).map(|why| format!("not counted: {why}")));
    if options(recording, EDITED).next().is_some() {
        let libraries = options(recording, LIBRARIES).filter_map(|number| number.parse().ok());
        let most: u64 = libraries.max().unwrap_or(0);
        notes.push(match most {
            0 => "only the program's own code was counted, not that of libraries".into(),
            most => format!(
                "{} counted with the program; others, and the dynamic linker, were not",
                match most {
                    1 => "1 library was".into(),
                    most => format!("{most} libraries were"),
                }
            ),
        });
    }
    for (option, called, so) in [
        (
            STARTS,
            "execve",
            "the programs that it started were not counted",
        ),
        (
            LOADS,
            "dlopen",
            "libraries that it loaded were counted only if they were edited, too",
        ),
    ] {
        let calls = options(recording, option).filter_map(|number| number.parse::<u64>().ok());
        match calls.sum::<u64>() {
            0 => {}
            1 => notes.push(format!("`{called}` was called once: {so}")),
            calls => {
                let calls = grouped(calls);
                notes.push(format!("`{called}` was called {calls} times: {so}"));
            }
        }
    }
    notes
}

/// Sentences about code without counters, largest share first; of many edited files one, about those with most.
fn left_out(mut sentences: Vec<&str>) -> Vec<String> {
    sentences.sort_unstable();
    sentences.dedup();
    let shares = sentences.into_iter().map(|sentence| {
        let share = sentence.split(" has no counters").next();
        let share = share.unwrap_or(sentence);
        let (percent, file) = share
            .split_once(" % of the code of ")
            .unwrap_or(("0", share));
        (percent.parse().unwrap_or(0.0), file, sentence)
    });
    let mut shares: Vec<(f64, &str, &str)> = shares.collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    if shares.len() < NAMED {
        let sentences = shares
            .into_iter()
            .map(|(_, _, sentence)| sentence.to_owned());
        return sentences.collect();
    }
    let named = shares.iter().take(NAMED).map(|(percent, file, _)| {
        let name = file.rsplit('/').next().unwrap_or(file);
        format!("{percent:.1} % of {name}")
    });
    let named: Vec<String> = named.collect();
    vec![format!(
        "code of {} edited files has no counters, most of all {}; rewrite --explain says which functions, and why",
        shares.len(),
        named.join(", ")
    )]
}

/// Sentences about what the counts of a recording are of.
fn notes(recording: &Recording, sections: &[Section]) -> Vec<String> {
    let mut notes = crate::denied::sentences(recording);
    notes.extend(crate::natives::sentences(recording));
    let Some(tool) = options(recording, EDITED).next() else {
        return notes;
    };
    notes.extend(uncounted(recording));
    if tool == COVERAGE {
        notes.push("numbers say that code was executed, not how often".into());
        let all: u64 = options(recording, INSTRUCTIONS)
            .filter_map(numbered)
            .map(|(_, number)| number)
            .sum();
        if let [section] = sections {
            let executed = section.counts.insns.len() as u64;
            notes.push(format!(
                "{} of {} instructions of functions with marks were executed ({:.2} %)",
                grouped(executed),
                grouped(all),
                100.0 * executed as f64 / all.max(1) as f64
            ));
        }
    }
    notes
}

/// Says which functions without counters were called most.
fn called(calls: &BTreeMap<&str, u64>) -> String {
    let mut most: Vec<_> = calls.iter().collect();
    most.sort_by_key(|&(_, number)| std::cmp::Reverse(*number));
    let named = most.iter().take(NAMED);
    let named = named.map(|(function, number)| {
        let times = if **number == 1 {
            "once".into()
        } else {
            format!("{} times", grouped(**number))
        };
        format!("{function}, {times}")
    });
    let named: Vec<String> = named.collect();
    let more = match most.len() - named.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!(
        "not counted, but called by what was: {}{more}",
        named.join("; ")
    )
}

impl<'a> Report<'a> {
    pub fn new(recording: &'a Recording, view: &'a View) -> Result<Report<'a>, Unsound> {
        let mut wanted = vec![None];
        if view.per_thread {
            wanted = Vec::new();
            for (at, process) in recording.processes.iter().enumerate() {
                let threads = 0..process.threads.len();
                let counted = threads.filter(|&thread| !process.threads[thread].counts.is_empty());
                wanted.extend(counted.map(|thread| Some((at, thread))));
            }
        }
        let sections = wanted.into_iter().map(|thread| {
            let counts = counts::of(recording, |process, at| {
                thread.is_none_or(|thread| thread == (process, at))
            })?;
            let blocks = blocks::of(&counts);
            Ok(Section {
                thread,
                totals: hot::totals(&counts, &blocks),
                counts,
                blocks,
            })
        });
        let sections: Vec<Section> = sections.collect::<Result<_, _>>()?;
        Ok(Report {
            recording,
            view,
            notes: notes(recording, &sections),
            uncounted: uncounted(recording),
            sections,
            hint: None,
            sources: HashMap::new(),
            binaries: HashMap::new(),
            missing: Vec::new(),
            costs: None,
        })
    }

    /// The counts of all threads, if they are together.
    pub fn counts(&self) -> &Counts {
        &self.sections[0].counts
    }

    /// Whether places of functions are to be read from the files that ran: a trace has none.
    pub fn lacks_declarations(&self) -> bool {
        let mut sections = self.sections.iter();
        sections.all(|section| section.counts.declared.is_empty())
    }

    /// Adds the places at which functions are declared, as the files that ran say them.
    pub fn read_declarations(&mut self, binaries: &HashMap<Unit, Image>) {
        for section in &mut self.sections {
            let counts = &mut section.counts;
            for (number, unit) in (0..).zip(&counts.units) {
                let Some(image) = binaries.get(unit) else {
                    continue;
                };
                let insns = counts.insns.iter().filter(|insn| insn.unit == number);
                let start = |insn: &Counted| Some(insn.at.wrapping_sub(insn.source.function?.1));
                let starts: BTreeSet<u64> = insns.filter_map(start).collect();
                let starts: Vec<FileOffset> = starts.into_iter().map(FileOffset).collect();
                let found = image.declarations(&starts).into_iter();
                let found = found.map(|(at, place)| ((number, at.0), place));
                counts.declared.extend(found);
            }
        }
    }

    /// Files whose code is listed, with all instructions of them that ran.
    pub fn modules(&self) -> Vec<(&Unit, Vec<&Counted>)> {
        let mut modules = Vec::new();
        for section in &self.sections {
            for (number, unit) in (0..).zip(&section.counts.units) {
                let insns = section.counts.insns.iter();
                let insns: Vec<_> = insns.filter(|insn| insn.unit == number).collect();
                if self.lists_unit(unit) && unit.path.is_some() && !insns.is_empty() {
                    modules.push((unit, insns));
                }
            }
        }
        modules
    }

    /// Reads the source of what the table or [`View::annotate`] shows.
    pub fn read_sources(&mut self, files: &mut dyn Files) {
        let mut names = BTreeSet::new();
        for section in &self.sections {
            let modules = section.counts.units.iter().map(page::module);
            let modules: Vec<Option<Module>> = modules.collect();
            let shown = match self.view.annotate.is_empty() {
                true => self.insns_of_lines(section),
                false => annotate::insns(self, section),
            };
            for insn in shown {
                // Reading the line now marks the module's files as sources.
                if let Some(module) = &modules[insn.unit as usize] {
                    files.line(module, insn.at);
                }
                names.extend(section.file(insn).map(|(file, _)| file));
            }
        }
        let read = |name: &str| Some((name.to_owned(), files.text(name)?.to_vec()));
        self.sources = names.into_iter().filter_map(read).collect();
    }

    /// An instruction of each line of the table.
    fn insns_of_lines<'s>(&self, section: &'s Section) -> Vec<&'s Counted> {
        let lines = table::hot_lines(self, section).into_iter();
        let mut wanted: HashSet<(u32, u32)> = lines
            .filter_map(|line| Some((line.file, line.line?)))
            .collect();
        let insns = section.counts.insns.iter();
        let of_line = |insn: &&Counted| insn.source.line.is_some_and(|line| wanted.remove(&line));
        insns.filter(of_line).collect()
    }

    /// For a form of one file: the program's own, or the one that `--modules` names.
    fn only_module(&self) -> io::Result<(&Section, u32, &Image)> {
        let refuse = |message: String| Err(io::Error::other(message));
        let program = self.recording.processes.first().map(|first| &first.exe);
        let is_wanted = |unit: &Unit| match self.view.modules.is_empty() {
            true => unit.path.is_some() && unit.path.as_ref() == program,
            false => self.lists_unit(unit),
        };
        let mut modules = self.modules();
        modules.retain(|(unit, _)| is_wanted(unit));
        match &modules[..] {
            [] => {
                return refuse("no code was executed of the file that this --format is of".into());
            }
            [_] => {}
            [(one, _), (other, _), ..] => {
                let path = |unit: &Unit| unit.path.clone().unwrap_or_default();
                return refuse(format!(
                    "this --format is of one file, and '{}' and '{}' are wanted; name one with \
                     --modules",
                    path(one),
                    path(other)
                ));
            }
        }
        let unit = modules[0].0;
        let Some(image) = self.binaries.get(unit) else {
            let missing = self.missing.iter().find(|(missing, _)| missing == unit);
            let why = missing.map_or("its file cannot be read", |(_, why)| why);
            return refuse(format!("{why}, and this --format needs it"));
        };
        let section = &self.sections[0];
        let mut units = (0..).zip(&section.counts.units);
        let number = units.find(|(_, known)| *known == unit);
        Ok((section, number.map_or(0, |(number, _)| number), image))
    }

    pub fn write(&self, form: Form, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let needs_ways = !matches!(form, Form::Table | Form::Csv | Form::Lcov);
        if needs_ways && !self.has_ways() {
            return Err(io::Error::other(NO_WAYS));
        }
        match form {
            Form::Table if !self.view.annotate.is_empty() => annotate::write(self, style, out),
            Form::Table => table::write(self, style, out),
            Form::Json => json::write(self, out),
            Form::Csv => csv::write(self, out),
            Form::Callgrind => callgrind::write(self, out),
            Form::Lcov => lcov::write(self, out),
            Form::Fdata => fdata::write(self, out),
            Form::Llvm => llvm::write(self, out),
        }
    }

    /// Whether ways of branches are known.
    fn has_ways(&self) -> bool {
        options(self.recording, BLOCKS_ONLY).next().is_none()
    }

    /// Whether the instruction's file is one of those that are listed.
    fn lists(&self, counts: &Counts, insn: &Counted) -> bool {
        self.lists_unit(&counts.units[insn.unit as usize])
    }

    /// The sentence for a choice of modules that leaves none of those that ran.
    pub fn nothing_listed(&self) -> Option<String> {
        let units = self
            .sections
            .iter()
            .flat_map(|section| &section.counts.units);
        let (mut names, mut is_any) = (BTreeSet::new(), false);
        for unit in units {
            is_any |= self.lists_unit(unit);
            names.extend(unit.path.as_deref().map(base_name));
        }
        if is_any || self.view.modules.is_empty() {
            return None;
        }
        let asked = self.view.modules.join("', '");
        let names = Vec::from_iter(names).join(", ");
        Some(format!(
            "no file that ran is named '{asked}' (--modules); these ran: {names}"
        ))
    }

    fn lists_unit(&self, unit: &Unit) -> bool {
        if self.view.modules.is_empty() {
            return true;
        }
        let path = unit.path.as_deref();
        let name = path.map_or("", trace::base_name);
        let mut patterns = self.view.modules.iter();
        patterns.any(|pattern| image::glob(pattern, name) || path == Some(pattern))
    }
}

/// A thread by its number, or what several threads of an edited program have together.
fn thread_name(tid: u32) -> String {
    match tid {
        trace::Thread::SEVERAL => "threads that are not told apart".to_owned(),
        tid => format!("thread {tid}"),
    }
}

impl Section {
    /// Threads and processes, in words.
    fn title(&self, recording: &Recording) -> Option<String> {
        let (process, thread) = self.thread?;
        let process = &recording.processes[process];
        let tid = process.threads[thread].tid;
        Some(format!("process {}, {}", process.pid, thread_name(tid)))
    }

    fn first(&self, block: &Block) -> &Counted {
        &self.counts.insns[block.first]
    }

    /// Bytes of the block.
    fn bytes(&self, block: &Block) -> u64 {
        let insns = &self.counts.insns[block.first..][..block.len];
        insns.iter().map(|insn| insn.bytes.len() as u64).sum()
    }

    fn unit_name(&self, insn: &Counted) -> String {
        let unit = &self.counts.units[insn.unit as usize];
        match &unit.path {
            Some(path) => base_name(path).into_owned(),
            None => "[no file]".to_owned(),
        }
    }

    fn function_name(&self, insn: &Counted) -> Option<&str> {
        let (name, _) = insn.source.function?;
        self.counts.texts.get(name as usize).map(String::as_str)
    }

    /// Function and offset, else file and offset, else the address.
    fn place(&self, insn: &Counted) -> String {
        match (insn.source.function, self.function_name(insn)) {
            (Some((_, 0)), Some(name)) => name.to_owned(),
            (Some((_, distance)), Some(name)) => format!("{name}+{distance:#x}"),
            _ => match &self.counts.units[insn.unit as usize].path {
                Some(path) => format!("{}+{:#x}", base_name(path), insn.at),
                None => format!("{:#x}", insn.at),
            },
        }
    }

    /// Place of the function that has an instruction: of its declaration, or else the instruction's.
    fn function_place(&self, insn: &Counted) -> Option<(&str, u32)> {
        let function = insn.source.function;
        let start = function.map(|(_, distance)| insn.at.wrapping_sub(distance));
        let declared = start.and_then(|start| self.counts.declared.get(&(insn.unit, start)));
        let declared = declared.map(|(file, line)| (file.as_str(), *line));
        declared.or_else(|| self.file(insn))
    }

    fn file(&self, insn: &Counted) -> Option<(&str, u32)> {
        let (file, line) = insn.source.line?;
        Some((self.counts.texts.get(file as usize)?, line))
    }
}
