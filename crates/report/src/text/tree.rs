//! The hot contexts of one section as an indented tree.
//!
//! Problem: hot contexts lie deep, among many that are not; the tree must show
//! who called them and still fit a line. Approach: the rows hold only hot nodes
//! and their callers; a caller that is not hot itself and has one child among
//! the rows stands on the child's line.
//!
//! Complexity: linear in the rows; no recursion, so depth is no limit.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::hot::Row;
use analysis::{Forest, NodeId};
use trace::{Label, Meta, Process};

use super::{Style, number};
use crate::names::{base_name, block_name_below, label_name, place_in, symbol_of};
use crate::numbers::cut_middle;
use crate::short_names::short;
use crate::{Direction, Report, Tree};

/// Between the callers that share a line.
pub(crate) const CALLED: &str = " › ";
const CALLED_BY: &str = " ‹ ";
/// Before a root that stands for "some caller".
const ELLIPSIS: &str = "… ";
/// Narrowest space for a name, however deep the tree.
pub(crate) const NAME_LEAST: usize = 24;

/// A node on the way from the root to the row at hand.
struct Open {
    node: NodeId,
    level: usize,
    /// Callers that share its line.
    callers: Vec<NodeId>,
    /// Whether it stands on its child's line instead of one of its own.
    merged: bool,
}

pub fn write(
    report: &Report,
    process: &Process,
    tree: &Tree,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let forest = &tree.forest;
    let columns = Columns {
        full_names: report.full_names,
        meta: &report.recording.meta,
        process,
        direction: tree.direction,
        forest,
        style,
        numbers: number::columns(report, tree),
    };
    columns.write_title(out)?;
    each_line(forest, &tree.rows, |callers, node, level| {
        writeln!(out, "{}", columns.line(callers, node, level))
    })
}

/// Calls `line` for every line of a tree: the callers that share it, the node it
/// is about, and its level.
pub(crate) fn each_line<E>(
    forest: &Forest,
    rows: &[Row],
    mut line: impl FnMut(&[NodeId], NodeId, usize) -> Result<(), E>,
) -> Result<(), E> {
    let children = shown_children(forest, rows);
    let mut path: Vec<Open> = Vec::new();
    for row in rows {
        let parent = forest.parent(row.node);
        while path.last().is_some_and(|open| Some(open.node) != parent) {
            path.pop();
        }
        let (level, callers) = match path.last_mut() {
            None => (0, Vec::new()),
            Some(open) if open.merged => {
                let mut callers = std::mem::take(&mut open.callers);
                callers.push(open.node);
                (open.level, callers)
            }
            Some(open) => (open.level + 1, Vec::new()),
        };
        let merged = !row.hot && children.get(&row.node) == Some(&1);
        if !merged {
            line(&callers, row.node, level)?;
        }
        path.push(Open {
            node: row.node,
            level,
            callers,
            merged,
        });
    }
    Ok(())
}

/// How many children of each node are among the rows.
fn shown_children(forest: &Forest, rows: &[Row]) -> HashMap<NodeId, u32> {
    let mut children = HashMap::new();
    for parent in rows.iter().filter_map(|row| forest.parent(row.node)) {
        *children.entry(parent).or_default() += 1;
    }
    children
}

/// How a line is laid out.
struct Columns<'a> {
    full_names: bool,
    meta: &'a Meta,
    process: &'a Process,
    direction: Direction,
    forest: &'a Forest,
    style: Style,
    numbers: Vec<number::Column>,
}

impl Columns<'_> {
    fn write_title(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = match (self.direction, self.meta.blocks) {
            (Direction::Callees, _) => "context",
            (Direction::Callers, None) => "function, callers below",
            (Direction::Callers, Some(_)) => "basic block, those before it below",
        };
        let titles: String = self.numbers.iter().map(number::Column::title).collect();
        writeln!(out, "{titles}{title}")
    }

    fn line(&self, callers: &[NodeId], node: NodeId, level: usize) -> String {
        let is_call = self.is_call(node);
        let cells = self.numbers.iter().map(|column| column.cell(node, is_call));
        let numbers: String = cells.collect();
        let room = self.style.width.saturating_sub(numbers.chars().count());
        let indent = (2 * level).min(room / 3);
        let room = (room - indent).max(NAME_LEAST);
        let name = self.path(callers, node, room);
        let left = room.saturating_sub(name.chars().count() + 2);
        let detail = self.detail(node, left);
        let detail = if detail.is_empty() {
            detail
        } else {
            format!("  {detail}")
        };
        format!("{numbers}{:indent$}{name}{}", "", self.style.dim(&detail))
    }

    /// Callers and the node itself in at most `room` characters.
    fn path(&self, callers: &[NodeId], node: NodeId, room: usize) -> String {
        let names: Vec<String> = callers.iter().map(|caller| self.name(*caller)).collect();
        let arrow = match self.direction {
            Direction::Callees => CALLED,
            Direction::Callers => CALLED_BY,
        };
        path(&names, &self.name(node), arrow, room)
    }

    /// Starts of threads and handlers are no calls, so they have no share of them.
    fn is_call(&self, node: NodeId) -> bool {
        let counted = match self.direction {
            Direction::Callees => Some(node),
            Direction::Callers => self.forest.ancestors(node).last(),
        };
        let label = counted.map(|node| self.forest.label(node));
        label.is_some_and(|label| label.is_function() || label == Label::TRUNCATED)
    }

    fn name(&self, node: NodeId) -> String {
        let label = self.forest.label(node);
        let above = self
            .forest
            .parent(node)
            .map(|above| self.forest.label(above));
        let name = above
            .and_then(|above| block_name_below(self.process, label, above))
            .unwrap_or_else(|| self.own_name(label));
        let is_root = self.forest.parent(node).is_none() && label.is_function();
        let is_cut_off = || self.meta.k.is_some() && !self.forest.is_first(node);
        let is_some_caller = is_root && self.direction == Direction::Callees && is_cut_off();
        if is_some_caller {
            format!("{ELLIPSIS}{name}")
        } else {
            name
        }
    }

    /// The short name of a function; blocks keep that of theirs.
    fn own_name(&self, label: Label) -> String {
        let name = label_name(self.process, label);
        match self.full_names || self.process.block(label).is_some() {
            true => name,
            false => short(&name),
        }
    }

    /// Module and source line, as much of it as fits into `room`.
    fn detail(&self, node: NodeId, room: usize) -> String {
        let Some(function) = self.process.function(self.forest.label(node)) else {
            return String::new();
        };
        let module = self
            .process
            .module_of(function)
            .map(|module| base_name(&module.path));
        // A name made from the module says the module already.
        let module = module.filter(|_| symbol_of(self.process, function).is_some());
        detail(
            module.as_deref(),
            place_in(self.process, function).as_deref(),
            room,
        )
    }
}

/// Callers and a name in at most `room` characters.
pub(crate) fn path(callers: &[String], name: &str, arrow: &str, room: usize) -> String {
    if callers.is_empty() {
        return cut_middle(name, room);
    }
    let before = callers.join(arrow);
    let left = room.saturating_sub(name.chars().count() + arrow.chars().count());
    if left >= NAME_LEAST.min(before.chars().count()) {
        return format!("{}{arrow}{name}", cut_middle(&before, left));
    }
    cut_middle(&format!("…{arrow}{name}"), room)
}

/// Module and source line, as much of it as fits into `room`.
pub(crate) fn detail(module: Option<&str>, place: Option<&str>, room: usize) -> String {
    let both = [module, place]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let choices = [Some(both.as_str()), place, module];
    let fits = |text: &&str| text.chars().count() <= room;
    choices
        .into_iter()
        .flatten()
        .find(fits)
        .unwrap_or_default()
        .to_owned()
}
