//! Differences of two recordings for a terminal: both runs, the totals, and the functions and
//! contexts that changed most.
//!
//! ```text
//! everypath diff: before.evp after.evp
//! before: ./prog 10, exited with status 0 after 36 ms
//! after:  ./prog 12, exited with status 0 after 38 ms
//!
//!                  before         after        change        %
//! calls             1,200         1,252           +52   +4.33%
//! functions            33            34            +1   +3.03%
//! contexts            120           121            +1   +0.83%
//!
//! 2 of 34 functions changed
//!   change        %      before       after  contexts  function
//!      +51  +10.20%         500         551         3  work  prog prog.c:5
//!       +1      new           0           1       0→1  helper  prog prog.c:9
//! ```
//!
//! The contexts are a tree as in [`crate::text`]: the change of each itself,
//! and with everything that it called.

use std::collections::BTreeSet;
use std::io::{self, Write};

use analysis::NodeId;
use analysis::diff::{FunctionChange, Identity, Pair};
use trace::Mode;

use super::{Comparison, Recorded, name};
use crate::names::place;
use crate::numbers::{
    command_line, counted, cut_middle, duration, grouped, signed, signed_percent,
};
use crate::short_names::short;
use crate::text::tree::{self, CALLED, NAME_LEAST};
use crate::text::{Style, notes};
use crate::{Tree, signals};

/// Width of a column of changes in per cent.
const PERCENT: usize = 8;

pub fn write(comparison: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    write_head(comparison, style, out)?;
    write_totals(comparison, out)?;
    write_functions(comparison, style, out)?;
    if has_contexts(comparison) {
        write_contexts(comparison, style, out)?;
    }
    write_notes(comparison, style, out)
}

/// `run` counts for whole programs.
fn has_contexts(comparison: &Comparison) -> bool {
    let both = [&comparison.before, &comparison.after];
    both.into_iter()
        .any(|recorded| recorded.recording.meta.mode == Mode::Contexts)
}

fn write_head(comparison: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let files = [&comparison.before, &comparison.after].map(|recorded| recorded.file.clone());
    let title = format!("everypath diff: {}", command_line(&files));
    writeln!(out, "{}", style.bold(&cut_middle(&title, style.width)))?;
    for (side, recorded) in [
        ("before: ", &comparison.before),
        ("after:  ", &comparison.after),
    ] {
        let meta = &recorded.recording.meta;
        let end = format!(
            ", {} after {}",
            signals::end(meta.end),
            duration(meta.duration_ns)
        );
        let taken = side.chars().count() + end.chars().count();
        let room = style.width.saturating_sub(taken).max(NAME_LEAST);
        let command = cut_middle(&command_line(&meta.command), room);
        writeln!(out, "{side}{command}{end}")?;
    }
    Ok(())
}

fn write_totals(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let both = |count: fn(&Recorded) -> u64| Pair {
        before: count(&comparison.before),
        after: count(&comparison.after),
    };
    let diff = &comparison.diff;
    let (mut functions, mut contexts) = (Pair::default(), Pair::default());
    for function in &comparison.functions {
        contexts.add(function.contexts);
        functions.add(Pair {
            before: u64::from(function.contexts.before > 0),
            after: u64::from(function.contexts.after > 0),
        });
    }
    let metrics = diff.metrics.iter().zip(&diff.totals);
    let mut rows: Vec<(&str, Pair)> = metrics
        .map(|(metric, &total)| (metric.name, total))
        .collect();
    if has_contexts(comparison) {
        let functions_name = match comparison.is_of_blocks() {
            true => "basic blocks",
            false => "functions",
        };
        rows.extend([(functions_name, functions), ("contexts", contexts)]);
    }
    // These are mostly equal on both sides.
    let others = [
        ("threads", both(|recorded| recorded.totals.threads)),
        (
            "processes",
            both(|recorded| recorded.recording.processes.len() as u64),
        ),
    ];
    rows.extend(others.into_iter().filter(|(_, value)| value.change() != 0));
    let name = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    writeln!(
        out,
        "\n{:name$}  {:>14}  {:>14}  {:>14}  {:>PERCENT$}",
        "", "before", "after", "change", "%"
    )?;
    for (what, value) in rows {
        writeln!(
            out,
            "{what:name$}  {:>14}  {:>14}  {:>14}  {:>PERCENT$}",
            grouped(value.before),
            grouped(value.after),
            signed(value),
            signed_percent(value)
        )?;
    }
    Ok(())
}

/// How many changed, and how many of them are shown.
fn title(comparison: &Comparison, changed: usize, all: usize, what: &str) -> String {
    let (number, all) = (grouped(changed as u64), counted(all as u64, what));
    let metric = comparison.metric_name();
    let title = format!("{number} of {all} changed in {metric}");
    match comparison.top {
        Some(top) if top < changed => {
            let top = grouped(top as u64);
            format!("{title}; the {top} that changed most (--full shows all)")
        }
        _ => title,
    }
}

fn write_functions(comparison: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let value = |function: &FunctionChange| function.values[comparison.metric];
    let functions = comparison.functions.iter();
    let changed: Vec<&FunctionChange> = functions
        .filter(|function| value(function).change() != 0)
        .collect();
    let all = comparison.functions.len();
    let top = comparison.top;
    let what = match has_contexts(comparison) {
        true if comparison.is_of_blocks() => "basic block",
        true => "function",
        false => "program",
    };
    writeln!(out, "\n{}", title(comparison, changed.len(), all, what))?;
    let shown = &changed[..changed.len().min(top.unwrap_or(usize::MAX))];
    if shown.is_empty() {
        return Ok(());
    }
    let mut table = vec![header(comparison)];
    table.extend(shown.iter().map(|function| cells(comparison, function)));
    let width = |column: usize| {
        let cells = table.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table[0].len()).map(width).collect();
    let line = |row: &[String]| -> String {
        let cells = row.iter().zip(&widths);
        cells
            .map(|(cell, &width)| format!("{cell:>width$}  "))
            .collect()
    };
    writeln!(out, "{}{what}", line(&table[0]))?;
    for (function, row) in shown.iter().zip(&table[1..]) {
        let numbers = line(row);
        let room = style.width.saturating_sub(numbers.chars().count());
        let name = named(comparison, function.frame, &[], room, style);
        writeln!(out, "{numbers}{name}")?;
    }
    Ok(())
}

/// The metrics that do not decide: of them only the change is shown.
fn others(comparison: &Comparison) -> impl Iterator<Item = usize> {
    let by = comparison.metric;
    (0..comparison.diff.metrics.len()).filter(move |&metric| metric != by)
}

/// Titles of what [`cells`] gives.
fn header(comparison: &Comparison) -> Vec<String> {
    let mut titles = vec![" change".into(), format!("{:>PERCENT$}", "%")];
    titles.extend(["before", "after"].map(String::from));
    titles.extend(others(comparison).map(|at| comparison.diff.metrics[at].name.to_owned()));
    titles.extend(has_contexts(comparison).then(|| "contexts".to_owned()));
    titles
}

fn cells(comparison: &Comparison, function: &FunctionChange) -> Vec<String> {
    let value = function.values[comparison.metric];
    let mut cells = vec![signed(value), signed_percent(value)];
    cells.extend([value.before, value.after].map(grouped));
    cells.extend(others(comparison).map(|at| signed(function.values[at])));
    cells.extend(has_contexts(comparison).then(|| arrow(function.contexts)));
    cells
}

/// `3`, or `3→4` where it changed.
fn arrow(value: Pair) -> String {
    match (grouped(value.before), grouped(value.after)) {
        (before, after) if before == after => after,
        (before, after) => format!("{before}→{after}"),
    }
}

/// Callers, name, module and place of a frame on the rest of a line.
fn named(
    comparison: &Comparison,
    frame: usize,
    callers: &[String],
    room: usize,
    style: Style,
) -> String {
    let frame = &comparison.diff.frames[frame];
    let room = room.max(NAME_LEAST);
    let name = tree::path(callers, &short(&name(&frame.identity)), CALLED, room);
    let left = room.saturating_sub(name.chars().count() + 2);
    let module = match frame.identity {
        // Its name says it already.
        Identity::At { .. } => None,
        _ => frame.identity.module(),
    };
    let place = frame.function.and_then(place);
    let detail = tree::detail(module, place.as_deref(), left);
    match detail.is_empty() {
        true => name,
        false => format!("{name}{}", style.dim(&format!("  {detail}"))),
    }
}

fn write_contexts(comparison: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let diff = &comparison.diff;
    let own = |node: NodeId| diff.own(comparison.metric, node);
    let nodes = || diff.contexts.nodes();
    let changed = nodes().filter(|&node| own(node).change() != 0).count();
    let all = nodes().filter(|&node| !own(node).is_zero()).count();
    writeln!(out, "\n{}", title(comparison, changed, all, "context"))?;
    let most = comparison.most_changed();
    if most.rows.is_empty() {
        return Ok(());
    }
    let columns = Columns::new(comparison, &most);
    let change = columns.change;
    let all = columns.with_callees;
    writeln!(
        out,
        "{:>change$}  {:>PERCENT$}  {:>all$}  context",
        "change",
        "%",
        sum_title(comparison)
    )?;
    tree::each_line(&most.forest, &most.rows, |callers, node, level| {
        writeln!(out, "{}", columns.line(callers, node, level, style))
    })
}

/// Title of the sum over a context and those below it in the tree.
fn sum_title(comparison: &Comparison) -> &'static str {
    let both = [&comparison.before, &comparison.after];
    match both.iter().all(|one| one.recording.meta.k.is_none()) {
        true => "with callees",
        // Contexts k levels below are in another tree.
        false => "and below",
    }
}

/// How a line of the tree is laid out.
struct Columns<'a> {
    comparison: &'a Comparison<'a>,
    change: usize,
    with_callees: usize,
}

impl<'a> Columns<'a> {
    fn new(comparison: &'a Comparison<'a>, tree: &Tree) -> Columns<'a> {
        let (diff, metric) = (&comparison.diff, comparison.metric);
        let width = |value: &dyn Fn(NodeId) -> Pair, title: &str| {
            let rows = tree.rows.iter();
            let longest = rows.map(|row| signed(value(row.node)).len()).max();
            longest.unwrap_or(0).max(title.len())
        };
        Columns {
            comparison,
            change: width(&|node| diff.own(metric, node), " change"),
            with_callees: width(
                &|node| diff.with_callees(metric, node),
                sum_title(comparison),
            ),
        }
    }

    fn line(&self, callers: &[NodeId], node: NodeId, level: usize, style: Style) -> String {
        let (diff, metric) = (&self.comparison.diff, self.comparison.metric);
        let own = diff.own(metric, node);
        let (change, percent) = match own.change() {
            // It only leads to others.
            0 => Default::default(),
            _ => (signed(own), signed_percent(own)),
        };
        let numbers = format!(
            "{change:>width$}  {percent:>PERCENT$}  {:>all$}  ",
            signed(diff.with_callees(metric, node)),
            width = self.change,
            all = self.with_callees,
        );
        let room = style.width.saturating_sub(numbers.chars().count());
        let indent = (2 * level).min(room / 3);
        let name = |node: &NodeId| short(&name(&diff.frame(*node).identity));
        let callers: Vec<String> = callers.iter().map(name).collect();
        let frame = diff.contexts.label(node).0 as usize;
        let rest = named(self.comparison, frame, &callers, room - indent, style);
        format!("{numbers}{:indent$}{rest}", "")
    }
}

fn write_notes(comparison: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut all = Vec::new();
    all.extend(unnamed(comparison));
    all.extend(nowhere(comparison));
    all.extend(comparison.notes.iter().cloned());
    if !all.is_empty() {
        writeln!(out)?;
    }
    for note in all {
        writeln!(out, "{}", style.paragraph("note: ", &note))?;
    }
    Ok(())
}

/// Identities of the functions that changed.
fn changed<'a>(comparison: &'a Comparison) -> impl Iterator<Item = &'a Identity<'a>> {
    let functions = comparison.functions.iter();
    functions
        .filter(|function| function.values[comparison.metric].change() != 0)
        .map(|function| &comparison.diff.frames[function.frame].identity)
}

fn unnamed(comparison: &Comparison) -> Option<String> {
    let modules: BTreeSet<String> = changed(comparison)
        .filter_map(|identity| match identity {
            Identity::At { module, .. } => Some((*module).to_owned()),
            _ => None,
        })
        .collect();
    (!modules.is_empty()).then(|| {
        format!(
            "functions without a symbol in {} are compared by their offset in the file, \
             which another build changes",
            notes::list(&modules)
        )
    })
}

fn nowhere(comparison: &Comparison) -> Option<String> {
    let found = changed(comparison).any(|identity| *identity == Identity::Nowhere);
    found.then(|| "code in no file is compared as a whole: its addresses say nothing".to_owned())
}
