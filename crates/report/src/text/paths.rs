//! The hottest paths: who called the hot functions, from `main` and the threads' first
//! functions, as a tree that fits the line.

use std::io::{self, Write};

use analysis::hot_paths::Line;

use super::Style;
use super::functions::{name, place, width};
use super::tree::{CALLED, NAME_LEAST};
use crate::Report;
use crate::metrics;
use crate::numbers::{cut_middle, percent};
use crate::overview::Overview;

/// Names of a chain that are shown, the last one included.
const SHOWN: usize = 4;

pub(super) fn write(
    report: &Report,
    overview: &Overview,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if overview.paths.is_empty() {
        return Ok(());
    }
    let costs = overview
        .paths
        .iter()
        .map(|line| metrics::shown(report.by, cost(overview, line)));
    let digits = costs.map(|cost| cost.chars().count()).max().unwrap_or(0);
    writeln!(
        out,
        "\n{}",
        style.bold("hottest paths, with callees, recursion folded")
    )?;
    for line in &overview.paths {
        let cost = cost(overview, line);
        let share = percent(cost, overview.totals[0]);
        let numbers = format!("{share:>7}  {:>digits$}  ", metrics::shown(report.by, cost));
        let room = width(style).saturating_sub(numbers.chars().count());
        let indent = (2 * line.level).min(room / 3);
        let room = (room - indent).max(NAME_LEAST);
        let names: Vec<String> = line
            .chain
            .iter()
            .map(|&node| name(report, overview, overview.forest.label(node)))
            .collect();
        let path = chain(&names, room);
        let left = room.saturating_sub(path.chars().count() + 2);
        let last = line.chain.last();
        let label = last.map(|&node| overview.forest.label(node));
        let place = label.map_or(String::new(), |label| place(overview, label, left));
        let place = match place.is_empty() {
            true => String::new(),
            false => style.dim(&format!("  {place}")),
        };
        writeln!(out, "{numbers}{:indent$}{path}{place}", "")?;
    }
    Ok(())
}

/// Inclusive cost of a line's last function.
fn cost(overview: &Overview, line: &Line) -> u64 {
    let last = line.chain.last();
    last.map_or(0, |node| overview.inclusive[node.index()])
}

/// The names of a chain in at most `room` characters: the first ones, how many are left out,
/// and the last one.
fn chain(names: &[String], room: usize) -> String {
    let Some((last, before)) = names.split_last() else {
        return String::new();
    };
    let fits = |text: &String| text.chars().count() <= room;
    let whole = Some(names.join(CALLED)).filter(|_| names.len() <= SHOWN);
    let folded = (0..before.len().min(SHOWN)).rev().map(|shown| {
        let first = before[..shown].iter();
        let first: String = first.map(|name| format!("{name}{CALLED}")).collect();
        format!("{first}… ({}){CALLED}{last}", before.len() - shown)
    });
    let fitting = whole.into_iter().chain(folded).find(fits);
    fitting.unwrap_or_else(|| cut_middle(last, room))
}

#[cfg(test)]
mod tests {
    use super::chain;

    #[test]
    fn long_chains_are_folded_to_fit() {
        let names = ["main", "run", "loop", "step", "eval", "call", "work"].map(str::to_owned);
        assert_eq!(chain(&names[..1], 80), "main");
        assert_eq!(chain(&names[..3], 80), "main › run › loop");
        assert_eq!(chain(&names, 80), "main › run › loop › … (3) › work");
        assert_eq!(chain(&names, 20), "main › … (5) › work");
        assert_eq!(chain(&names, 14), "… (6) › work");
        assert_eq!(chain(&names, 4), "work");
    }
}
