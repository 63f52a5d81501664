//! The default report: what ran, how it ended, its hottest functions, and the paths to them.
//!
//! ```text
//! everypath contexts: ./prog1
//! exited with status 0 after 2 ms
//! 1 process, 2 threads, 8 functions, 14 contexts (k = infinite), 23 calls, 1,100 instructions
//!
//!   self  with callees  instructions  calls  each  function
//! 60.00%        60.00%           660      4   165  c          prog1 prog1.c:21
//!
//! hottest paths, with callees, recursion folded
//!  92.00%  1,012  main › e
//!  60.00%    660    d › c  prog1 prog1.c:21
//! ```
//!
//! With finite k nothing is known of callees further down, and contexts of basic blocks have no
//! functions: then a tree of the hottest contexts stands for the paths ([`tree`]). A line of it
//! that ends in a hot context may begin with callers that are not hot themselves and lead
//! nowhere else, joined by `›`. A root that is not where a thread, or an activation, began
//! stands for "some caller" and is marked `…`.

pub(crate) mod functions;
mod modules;
pub(crate) mod notes;
mod number;
mod paths;
pub(crate) mod tree;

use std::collections::BTreeSet;
use std::io::{self, Write};

use analysis::Weight;
use trace::{Cost, End, Mode, Process};

use crate::numbers::{command_line, counted, cut_middle, duration, grouped};
use crate::paper::tables;
use crate::{Report, Section, Tables, denied, metrics, signals};

/// How the text may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Characters per line; [`usize::MAX`] for a file.
    pub width: usize,
    /// Whether ANSI colours are understood.
    pub colour: bool,
}

impl Style {
    /// Text for whatever is not a terminal.
    pub const PLAIN: Style = Style {
        width: usize::MAX,
        colour: false,
    };

    pub(crate) fn dim(self, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[2m{text}\x1b[0m")
        } else {
            text.into()
        }
    }

    /// A paragraph in lines of the width: the first one begins with a lead, such as `note: `, and
    /// the others are indented by as much.
    pub(crate) fn paragraph(self, lead: &str, text: &str) -> String {
        if self.width == usize::MAX {
            return self.dim(&format!("{lead}{text}"));
        }
        let indent = " ".repeat(lead.chars().count());
        let options = textwrap::Options::new(self.width)
            .initial_indent(lead)
            .subsequent_indent(&indent)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .break_words(false);
        let lines = textwrap::wrap(text, options);
        let lines: Vec<String> = lines.iter().map(|line| self.dim(line)).collect();
        lines.join("\n")
    }

    pub(crate) fn bold(self, text: &str) -> String {
        if self.colour {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.into()
        }
    }
}

pub fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    write_head(report, style, out)?;
    match report.recording.meta.mode {
        Mode::Run | Mode::Counts | Mode::Trace => write_instructions(report, out)?,
        Mode::Contexts => {
            write_overviews(report, style, out)?;
            write_contexts(report, style, out)?;
        }
    }
    write_statistics(report, out)?;
    if report.tables != Tables::default() {
        writeln!(out)?;
        tables::write(report, out)?;
    }
    notes::write(report, style, out)?;
    match report
        .hint
        .as_ref()
        .filter(|_| !report.overviews.is_empty())
    {
        Some(hint) => writeln!(out, "\n{}", style.paragraph("more: ", hint)),
        None => Ok(()),
    }
}

impl Report<'_> {
    /// Files with much code that no symbol names, by path, for a note on where there are names.
    pub fn modules_without_names(&self) -> Vec<&str> {
        let found = self.overviews.iter().flat_map(modules::nameless);
        found.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The programs, with `--full` each process, and functions and paths.
fn write_overviews(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    functions::write_programs(report, out)?;
    let processes = &report.recording.processes;
    let lists_processes = report.hot.is_some_and(|hot| hot.top.is_none());
    if !report.overviews.is_empty() && lists_processes && processes.len() > 1 {
        for process in processes {
            writeln!(out)?;
            write_process(report, process, style, out)?;
        }
    }
    for overview in &report.overviews {
        if let Some((process, thread)) = overview.thread {
            let process = &report.recording.processes[process];
            let title = format!(
                "thread {} of process {}: {}, {} {}",
                process.threads[thread].tid,
                process.pid,
                process.program(),
                metrics::shown(report.by, overview.totals[0]),
                metrics::title(report, report.by),
            );
            writeln!(out, "\n{}", style.bold(&title))?;
        }
        modules::write(report, overview, style, out)?;
        functions::write(report, overview, style, out)?;
        paths::write(report, overview, style, out)?;
    }
    Ok(())
}

fn write_head(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    let mode = match meta.mode {
        Mode::Run => "run",
        Mode::Contexts => "contexts",
        Mode::Counts => "count",
        Mode::Trace => "trace",
    };
    let title = format!("everypath {mode}: {}", command_line(&meta.command));
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    writeln!(out, "{}", how_it_ended(report))?;
    writeln!(out, "{}", totals(report))
}

/// How the command ended, and when.
pub(crate) fn how_it_ended(report: &Report) -> String {
    let meta = &report.recording.meta;
    let after = duration(meta.duration_ns);
    format!("{} after {after}", signals::end(meta.end))
}

/// Totals of the run, in one line.
pub(crate) fn totals(report: &Report) -> String {
    let meta = &report.recording.meta;
    let totals = &report.totals;
    let mut parts = vec![
        counted(report.recording.processes.len() as u64, "process"),
        counted(totals.threads, "thread"),
    ];
    if meta.mode == Mode::Contexts {
        let k = meta.k.map_or("infinite".into(), |k| k.to_string());
        let place = match meta.blocks {
            None => "function",
            Some(_) => "basic block",
        };
        parts.push(counted(totals.functions, place));
        let folded = report.folded_from;
        let whole = folded.map(|whole| format!(", folded from {}", grouped(whole)));
        let k = format!("(k = {k}{})", whole.unwrap_or_default());
        parts.push(format!("{} {k}", counted(totals.contexts, "context")));
        parts.push(counted(totals.events, metrics::event(report)));
    }
    if totals.insns > 0 {
        parts.push(counted(totals.insns, "instruction"));
    }
    for (cost, verb) in [(Cost::Time, "executing"), (Cost::Waiting, "waiting")] {
        let weight = Weight::Cost(cost);
        if report.metrics.contains(&weight) {
            parts.push(format!("{} {verb}", duration(report.total(weight))));
        }
    }
    parts.join(", ")
}

fn write_contexts(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    // The overview has shown the paths of the others.
    let sections = report.sections.iter();
    let sections =
        sections.filter(|section| section.contexts.is_some() || section.callers.is_some());
    let with_trees = sections.clone().count();
    let shown: Vec<&Section> = sections
        .filter(|section| section.trees().next().is_some())
        .collect();
    let many = report.sections.len() > 1;
    let mut last_process = None;
    for section in &shown {
        let process = &report.recording.processes[section.process];
        writeln!(out)?;
        if report.recording.processes.len() > 1 && last_process != Some(section.process) {
            write_process(report, process, style, out)?;
        }
        last_process = Some(section.process);
        if many {
            write_threads(report, process, section, out)?;
        }
        for (at, tree) in section.trees().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            tree::write(report, process, tree, style, out)?;
        }
    }
    let hidden = with_trees - shown.len();
    if hidden > 0 {
        let verb = if hidden == 1 { "has" } else { "have" };
        let threads = counted(hidden as u64, "thread");
        writeln!(
            out,
            "\n{threads} {verb} no context among those shown (--full shows all)"
        )?;
    }
    Ok(())
}

fn write_process(
    report: &Report,
    process: &Process,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let title = format!("process {}: {}", process.pid, command_line(&process.args));
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    let after = match process.end_ns {
        Some(end) => format!(" after {}", duration(end.saturating_sub(process.start_ns))),
        None => String::new(),
    };
    let end = match process.end {
        End::Unknown if denied::ends_natively(report.recording, process.pid) => {
            "ran natively in the end, as a debugger traced it".to_owned()
        }
        end => signals::end(end),
    };
    writeln!(out, "{end}{after}")
}

fn write_threads(
    report: &Report,
    process: &Process,
    section: &Section,
    out: &mut dyn Write,
) -> io::Result<()> {
    let calls = counted(section.total(Weight::Calls), metrics::event(report));
    match section.threads[..] {
        [thread] => writeln!(out, "thread {}: {calls}", process.threads[thread].tid),
        _ => writeln!(
            out,
            "{} together: {calls}",
            counted(section.threads.len() as u64, "thread")
        ),
    }
}

/// One line per thread that counted instructions.
fn write_instructions(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.totals.insns == 0 {
        return Ok(());
    }
    let width = grouped(report.totals.insns).len().max("instructions".len());
    writeln!(
        out,
        "\n{:>width$}  {:>8}  {:>8}  command",
        "instructions", "process", "thread"
    )?;
    for process in &report.recording.processes {
        for thread in &process.threads {
            let command = command_line(&process.args);
            let insns = grouped(thread.insns);
            writeln!(
                out,
                "{insns:>width$}  {:>8}  {:>8}  {command}",
                process.pid, thread.tid
            )?;
        }
    }
    Ok(())
}

fn write_statistics(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.stat_names.is_empty() {
        return Ok(());
    }
    for process in &report.recording.processes {
        writeln!(
            out,
            "\nengine of process {}: {}",
            process.pid,
            command_line(&process.args)
        )?;
        for (name, value) in report.stats(process) {
            writeln!(out, "{:>18}  {name}", grouped(value))?;
        }
    }
    Ok(())
}
