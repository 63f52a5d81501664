//! The page of allocations: that of contexts ([`crate::html`]), whose metrics are blocks and bytes.
//!
//! Approach: paths become one tree in preorder; each metric is a column. The page's data ([`crate::html`]'s `head`) are made of names
//! alone: paths have no modules, and all threads are one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::allocations::Figures;
use serde_json::{Value, json};

use super::{Frame, METRICS, Shown, frames};
use crate::html;
use crate::html::columns;
use crate::numbers::{counted, size};

/// A function below another one, and what is allocated at the end of its path.
#[derive(Default)]
struct Node<'a> {
    callees: BTreeMap<Frame<'a>, Node<'a>>,
    own: Figures,
}

/// The tree in preorder, as columns.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<Frame<'a>>,
    numbers: BTreeMap<Frame<'a>, u64>,
    /// Depth and name of each node.
    nodes: Vec<(u32, u64)>,
    /// By metric: nodes, and what they have.
    values: [Vec<(u32, u64)>; METRICS.len()],
}

impl<'a> Columns<'a> {
    fn add(&mut self, depth: u32, (frame, node): (Frame<'a>, &Node<'a>)) {
        let next = self.names.len() as u64;
        let name = *self.numbers.entry(frame).or_insert(next);
        if name == next {
            self.names.push(frame);
        }
        let at = self.nodes.len() as u32;
        self.nodes.push((depth, name));
        for (values, metric) in self.values.iter_mut().zip(&METRICS) {
            let value = (metric.of)(&node.own);
            if value > 0 {
                values.push((at, value));
            }
        }
    }
}

/// Writes the page.
pub fn write(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut root = Node::default();
    for (path, figures) in &shown.made.paths {
        let mut at = &mut root;
        for frame in frames(&shown.paths[*path as usize]) {
            at = at.callees.entry(frame).or_default();
        }
        at.own.add(figures);
    }
    let mut made = Columns::default();
    // A path may have thousands of functions, so this is no recursion.
    let mut waiting: Vec<_> = root.callees.iter().rev().map(|node| (0, node)).collect();
    while let Some((depth, (frame, node))) = waiting.pop() {
        made.add(depth, (*frame, node));
        let callees = node.callees.iter().rev();
        waiting.extend(callees.map(|callee| (depth + 1, callee)));
    }
    for (values, metric) in made.values.iter().zip(&METRICS) {
        let total = values
            .iter()
            .fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
        html::exact(total, metric.noun)?;
    }
    let head = head(shown, &made);
    html::page(shown.command, out, |out| {
        columns::element("data-head", &serde_json::to_vec(&head)?, out)?;
        columns::tree(made.nodes.iter().copied(), out)?;
        for (number, values) in made.values.iter().enumerate() {
            columns::values(number, std::iter::once(&**values), out)?;
        }
        Ok(())
    })
}

/// Everything but the tree and its values, as `html/head.rs` has it.
fn head(shown: &Shown<'_>, made: &Columns<'_>) -> Value {
    let all = &shown.made.all;
    let metrics = METRICS
        .iter()
        .map(|metric| json!({ "noun": metric.noun, "total": (metric.of)(all) }));
    let files: Vec<&str> = {
        let files = made.names.iter().filter_map(|frame| frame.place);
        let mut files: Vec<&str> = files.map(|(file, _)| file).collect();
        files.sort_unstable();
        files.dedup();
        files
    };
    let file = |frame: &Frame<'_>| match frame.place {
        Some((file, _)) => files.binary_search(&file).map_or(-1, |at| at as i64),
        None => -1,
    };
    let none = |value: Value| vec![value; made.names.len()];
    json!({
        "version": html::VERSION,
        "producer": concat!("everypath ", env!("CARGO_PKG_VERSION")),
        "command": shown.command,
        "started_unix_ms": shown.started_unix_ms,
        "end": counted(shown.made.paths.len() as u64, "context"),
        "totals": format!(
            "{}, {}; at most {} at once; {} never freed",
            counted(all.blocks, "allocation"),
            size(all.bytes),
            size(all.peak_bytes),
            size(all.leaked_bytes)
        ),
        "k": null,
        "folded": false,
        "options": [],
        "notes": [],
        "nodes": made.nodes.len(),
        "metric": METRICS.iter().position(|metric| metric.by == Some(shown.by)),
        "metrics": metrics.collect::<Vec<_>>(),
        "processes": [{ "pid": 0, "command": shown.command }],
        "threads": [{ "process": 0, "tid": 0, "begun": [] }],
        "modules": [],
        "files": files,
        "names": made.names.iter().map(|frame| frame.name).collect::<Vec<_>>(),
        "functions": {
            "module": none(json!(-1)),
            "offset": none(json!("")),
            "address": none(json!("")),
            "process": none(json!(0)),
            "file": made.names.iter().map(file).collect::<Vec<_>>(),
            "line": made.names.iter().map(|frame| frame.place.map_or(0, |(_, line)| line)).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations::By;

    #[test]
    fn each_figure_of_a_page_has_a_metric() {
        for by in [By::Peak, By::Leaked, By::Bytes, By::Blocks] {
            assert!(METRICS.iter().any(|metric| metric.by == Some(by)));
        }
    }
}
