//! A page to explore all contexts with: one file that needs a browser and
//! nothing else, not even a network.
//!
//! Problem: a recording has millions of contexts; a page with an element for
//! each would not open. Names and command lines are the program's, not ours,
//! so nothing of them may be taken for a tag or for code.
//!
//! Approach: the page is `html/page.html` with its style and scripts put in. It
//! carries the tree of [`analysis::merged`] as columns of numbers, compressed,
//! in base64 ([`columns`]), and everything else as one JSON document, compressed
//! the same way ([`head`]), and source and instructions of the functions ([`code`]). The scripts inflate and show what is looked at.
//!
//! Invariants: no byte of the recording stands in the page as it is, but for the
//! title, which is escaped. The values of each metric add up to the total of
//! the recording.
//!
//! The page of counts ([`crate::counts::page`]) is made of the same parts.
//!
//! Limit: the scripts calculate in doubles, so a metric whose total is beyond
//! 2^53 - 1 is an error.

mod code;
pub(crate) mod columns;
mod comparison;
mod head;
mod listing;
mod tables;

use std::io::{self, Write};

pub use code::Beside;
pub(crate) use code::Listings;
pub(crate) use columns::element;
pub(crate) use head::VERSION;
pub(crate) use listing::Listed;
pub use listing::{Files, Graph, Line};
pub(crate) use tables::JsonModule;

use analysis::merged::{Contexts, Metric};

use head::Names;

use crate::Report;
use crate::diff::Comparison;
use crate::numbers::{command_line, counted};

const PAGE: &str = include_str!("html/page.html");
const CONTEXTS: &str = include_str!("html/contexts.html");
const COUNTS: &str = include_str!("html/counts.html");
const STYLE: &str = include_str!("html/page.css");

/// The scripts, in the order in which they build on each other. Together they
/// are one module.
const SCRIPTS: [&str; 17] = [
    include_str!("html/data.js"),
    include_str!("html/model.js"),
    include_str!("html/changes.js"),
    include_str!("html/callers.js"),
    include_str!("html/format.js"),
    include_str!("html/list.js"),
    include_str!("html/columns.js"),
    include_str!("html/tree.js"),
    include_str!("html/functions.js"),
    include_str!("html/flame.js"),
    include_str!("html/search.js"),
    include_str!("html/code.js"),
    include_str!("html/details.js"),
    include_str!("html/bar.js"),
    include_str!("html/start.js"),
    include_str!("html/controls.js"),
    include_str!("html/app.js"),
];

/// Scripts of the page of counts.
const COUNTS_SCRIPTS: [&str; 11] = [
    include_str!("html/data.js"),
    include_str!("html/format.js"),
    include_str!("html/list.js"),
    include_str!("html/columns.js"),
    include_str!("html/functions.js"),
    include_str!("html/search.js"),
    include_str!("html/code.js"),
    include_str!("html/graph.js"),
    include_str!("html/bar.js"),
    include_str!("html/start.js"),
    include_str!("html/counts.js"),
];

/// The largest whole number up to which doubles are exact.
const MOST: u64 = (1 << 53) - 1;

/// The page of a recording; `beside`: with the code of its functions.
pub fn write(report: &Report, beside: Option<Beside>, out: &mut dyn Write) -> io::Result<()> {
    let none = Contexts::default();
    let contexts = report.merged.as_ref().unwrap_or(&none);
    let totals = totals(report, contexts)?;
    let title = command_line(&report.recording.meta.command);
    page(&title, out, |out| {
        let names = Names::new(contexts);
        head::write(report, contexts, &names, &totals, out)?;
        let nodes = contexts.nodes.iter();
        columns::tree(nodes.map(|node| (node.depth, names.number(node.name))), out)?;
        for metric in 0..contexts.metrics.len() {
            let threads = contexts.threads.iter();
            columns::values(metric, threads.map(|thread| &*thread.values[metric]), out)?;
            if report.folded_from.is_some() {
                columns::inclusive(metric, &contexts.threads, out)?;
            }
        }
        match beside {
            Some(beside) => code::write(report.recording, contexts, beside, out),
            None => Ok(()),
        }
    })
}

/// The page of two recordings; `beside`: with the code of their functions.
pub fn write_comparison(
    comparison: &Comparison,
    beside: Option<Beside>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (metric, total) in comparison.diff.metrics.iter().zip(&comparison.diff.totals) {
        exact(total.before.max(total.after), comparison::noun(metric.name))?;
    }
    page(&comparison::title(comparison), out, |out| {
        comparison::write(comparison, beside, out)
    })
}

/// The page of contexts with what `data` writes into it.
pub(crate) fn page(
    title: &str,
    out: &mut dyn Write,
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    fill(title, CONTEXTS, &SCRIPTS, out, data)
}

/// The page of counts.
pub(crate) fn counts_page(
    title: &str,
    out: &mut dyn Write,
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    fill(title, COUNTS, &COUNTS_SCRIPTS, out, data)
}

fn fill(
    title: &str,
    body: &str,
    scripts: &[&str],
    out: &mut dyn Write,
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut data = Some(data);
    for part in parts(PAGE) {
        match part {
            Part::Text(text) => out.write_all(text.as_bytes())?,
            Part::Slot("title") => out.write_all(escaped(title).as_bytes())?,
            Part::Slot("style") => out.write_all(STYLE.as_bytes())?,
            Part::Slot("script") => out.write_all(scripts.concat().as_bytes())?,
            Part::Slot("body") => out.write_all(body.as_bytes())?,
            Part::Slot("data") => data.take().map_or(Ok(()), |data| data(out))?,
            Part::Slot(name) => unreachable!("the page has a slot {name}"),
        }
    }
    Ok(())
}

/// The total of each metric; an error for one that the page cannot count.
fn totals(report: &Report, contexts: &Contexts) -> io::Result<Vec<u64>> {
    let total = |at: usize| {
        let values = contexts
            .threads
            .iter()
            .flat_map(|thread| &thread.values[at]);
        values.fold(0, |sum: u64, &(_, value)| sum.saturating_add(value))
    };
    let metrics = contexts.metrics.iter().enumerate();
    metrics
        .map(|(at, &metric): (usize, &Metric)| exact(total(at), head::noun(report, metric)))
        .collect()
}

/// `total`, if it is one that the scripts can count to.
pub(crate) fn exact(total: u64, noun: &str) -> io::Result<u64> {
    if total <= MOST {
        return Ok(total);
    }
    let amount = counted(total, noun);
    Err(io::Error::other(format!(
        "{amount}: the page counts up to {MOST} (2^53 - 1); use --format json"
    )))
}

/// A piece of the page as it is, or the name of what is to stand there.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    Slot(&'a str),
}

/// Slots are written `{{name}}`.
fn parts(page: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = page;
    while let Some((text, after)) = rest.split_once("{{") {
        let (slot, after) = after.split_once("}}").unwrap_or((after, ""));
        parts.extend([Part::Text(text), Part::Slot(slot)]);
        rest = after;
    }
    parts.push(Part::Text(rest));
    parts
}

/// `text` as the content of an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_cannot_end_their_element() {
        for script in SCRIPTS.iter().chain(&COUNTS_SCRIPTS) {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
        assert!(!STYLE.contains("</"));
    }

    #[test]
    fn every_slot_is_known() {
        let slots: Vec<Part> = parts(PAGE)
            .into_iter()
            .filter(|part| matches!(part, Part::Slot(_)))
            .collect();
        let names = ["title", "style", "body", "data", "script"];
        assert_eq!(slots, names.map(Part::Slot));
    }

    #[test]
    fn tags_are_text() {
        assert_eq!(escaped("a</title>&b"), "a&lt;/title&gt;&amp;b");
    }
}
