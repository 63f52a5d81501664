//! Contexts summed up to functions and their calls, in the form of valgrind's
//! callgrind: for KCachegrind, callgrind_annotate, gprof2dot and others.
//!
//! ```text
//! events: Calls
//! fn=(2) d                   a function ...
//! 0x1149 26 2                ... begins at this offset and line; 2 calls of it
//! cfn=(3) c                  it calls another ...
//! calls=4 0x1136 23          ... that begins there, 4 times,
//! 0x1149 26 4                which with all below it makes 4 calls
//! ```
//!
//! | there | here |
//! |---|---|
//! | event | a metric: `Ir`, instructions, if they were counted, and `Calls`, so that one own cost of a function is how often it was called |
//! | inclusive cost of a call | calls below it and itself; 0 while the callee is active already ([`analysis::callgraph`]) |
//! | `ob=`, `fl=`, `fn=` | module, source file, function; `???` where unknown |
//! | position | where the function begins: offset in the module's file, and line |
//! | part | a process or thread, in the same file |
//! | `[thread]`, `[signal N]`, `…` | callers of what nothing called, and those further out than k |
//!
//! `summary:` and `totals:` stand once, for all parts: readers that know no
//! parts take them for the file's. Positions are written out, because
//! callgrind_annotate does not read relative addresses beside relative lines.
//!
//! Invariant: own costs of all functions add up to the totals, and the costs of
//! calls into a function to its inclusive cost.
//!
//! Limit: a call line must say at least one call, or what follows it is taken for
//! the caller's own; so calls from `…`, which are counted elsewhere, are one.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use analysis::Weight;
use analysis::callgraph::{Call, CallGraph, Caller};
use trace::{Label, Process};

use crate::frames::{self, Known};
use crate::metrics;
use crate::numbers::command_line;
use crate::stacks::Frame;
use crate::{Report, Section};

/// In place of a file or module that is not known.
pub(crate) const NOWHERE: &str = "???";

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    writeln!(out, "# callgrind format\nversion: 1")?;
    writeln!(out, "creator: {}", meta.producer)?;
    writeln!(out, "cmd: {}", command_line(&meta.command))?;
    let mut sections = report.sections.iter().zip(1..);
    let first = sections.next();
    if let Some((section, number)) = first {
        write_origin(report, section, number, out)?;
    }
    writeln!(out, "positions: instr line")?;
    write_events(report, out)?;
    let totals = line(&totals(report));
    writeln!(out, "summary:{totals}")?;
    if let Some((section, _)) = first {
        write_section(report, section, out)?;
    }
    for (section, number) in sections {
        writeln!(out)?;
        write_origin(report, section, number, out)?;
        write_events(report, out)?;
        write_section(report, section, out)?;
    }
    writeln!(out, "\ntotals:{totals}")
}

fn totals(report: &Report) -> Vec<u64> {
    let weights = metrics::weights(report).into_iter();
    weights
        .map(|weight| report.sections_total(weight))
        .collect()
}

/// Begins a part.
fn write_origin(
    report: &Report,
    section: &Section,
    number: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let process = &report.recording.processes[section.process];
    writeln!(out, "pid: {}\npart: {number}", process.pid)?;
    match section.threads[..] {
        [thread] => writeln!(out, "thread: {}", process.threads[thread].tid),
        _ => Ok(()),
    }
}

fn write_events(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let metrics = metrics::of(report);
    let events: Vec<&str> = metrics.iter().map(|metric| metric.event).collect();
    writeln!(out, "events: {}", events.join(" "))
}

/// Values as the end of a line.
fn line(values: &[u64]) -> String {
    values.iter().map(|value| format!(" {value}")).collect()
}

fn write_section(report: &Report, section: &Section, out: &mut dyn Write) -> io::Result<()> {
    let Some(graph) = &section.graph else {
        return Ok(());
    };
    let mut part = Part {
        out,
        process: &report.recording.processes[section.process],
        objects: Names::default(),
        files: Names::default(),
        functions: Names::default(),
    };
    let callers = graph.calls.keys().map(|&(caller, _)| caller);
    let all: BTreeSet<Caller> = graph
        .own
        .keys()
        .map(|&label| Caller::Known(label))
        .chain(callers)
        .collect();
    for function in all {
        part.write_function(graph, function)?;
    }
    part.write_rest(&metrics::weights(report), section, graph)
}

/// Names by number; a number stands for the name once that was written.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, usize>);

impl Names {
    /// The name, or its number if it was written before.
    pub fn written(&mut self, key: String, name: &str) -> String {
        let next = self.0.len() + 1;
        match *self.0.entry(key).or_insert(next) {
            number if number == next => format!("({number}) {}", plain(name)),
            number => format!("({number})"),
        }
    }
}

/// A name without what would end its line.
fn plain(name: &str) -> String {
    name.replace(char::is_control, " ")
}

/// Part of the file about one process or thread. Its names have numbers of their own.
struct Part<'a> {
    out: &'a mut dyn Write,
    process: &'a Process,
    objects: Names,
    files: Names,
    functions: Names,
}

impl<'a> Part<'a> {
    fn describe(&self, function: Caller) -> Known<'a> {
        frames::describe(self.process, Frame::from(function))
    }

    /// A function's own costs and its calls; nothing for what has neither.
    fn write_function(&mut self, graph: &CallGraph, function: Caller) -> io::Result<()> {
        let own = match function {
            Caller::Known(label) => graph.own.get(&label),
            Caller::Unknown => None,
        };
        let own = own.filter(|values| values.iter().any(|&value| value > 0));
        let all = (function, Label(0))..=(function, Label(u32::MAX));
        let has_any = |call: &Call| call.count > 0 || call.inclusive.iter().any(|&value| value > 0);
        let calls = graph.calls.range(all).filter(|(_, call)| has_any(call));
        let mut calls = calls.peekable();
        if own.is_none() && calls.peek().is_none() {
            return Ok(());
        }
        let known = self.describe(function);
        let place = place(&known);
        writeln!(self.out)?;
        self.write_names(["ob", "fl", "fn"], &known)?;
        if let Some(own) = own {
            writeln!(self.out, "{place}{}", line(own))?;
        }
        for (&(_, callee), call) in calls {
            let callee = self.describe(Caller::Known(callee));
            self.write_names(["cob", "cfl", "cfn"], &callee)?;
            let target = self::place(&callee);
            writeln!(self.out, "calls={} {target}", call.count.max(1))?;
            writeln!(self.out, "{place}{}", line(&call.inclusive))?;
        }
        Ok(())
    }

    fn write_names(&mut self, keys: [&str; 3], known: &Known) -> io::Result<()> {
        let object = known.module.unwrap_or(NOWHERE);
        let file = known.file.unwrap_or(NOWHERE);
        let id = format!("{object}\n{file}\n{}", known.name);
        let object = self.objects.written(object.to_owned(), object);
        let file = self.files.written(file.to_owned(), file);
        let function = self.functions.written(id, &known.name);
        let [ob, fl, r#fn] = keys;
        writeln!(self.out, "{ob}={object}\n{fl}={file}\n{fn}={function}", fn = r#fn)
    }

    /// Writes the counts that are in no context: calls beyond the limit of nodes, and the
    /// instructions of lazy binding.
    fn write_rest(
        &mut self,
        weights: &[Weight],
        section: &Section,
        graph: &CallGraph,
    ) -> io::Result<()> {
        let rows = [Label::TRUNCATED, Label::MUTED];
        for label in rows {
            let rest = weights.iter().enumerate().map(|(at, &weight)| {
                let is_here = (weight == Weight::Calls) == (label == Label::TRUNCATED);
                let own = graph.own.values().map(|values| values[at]);
                let known = own.fold(0, u64::saturating_add);
                match is_here {
                    true => section.total(weight).saturating_sub(known),
                    false => 0,
                }
            });
            let rest: Vec<u64> = rest.collect();
            if rest.iter().all(|&value| value == 0) {
                continue;
            }
            let known = self.describe(Caller::Known(label));
            writeln!(self.out)?;
            self.write_names(["ob", "fl", "fn"], &known)?;
            writeln!(self.out, "{}{}", place(&known), line(&rest))?;
        }
        Ok(())
    }
}

/// The position of a function, as on every line of it.
fn place(known: &Known) -> String {
    let address = known.address.unwrap_or(0);
    format!("{address:#x} {}", known.line.unwrap_or(0))
}
