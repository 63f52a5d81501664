//! The columns of numbers before a tree.
//!
//! | column | when |
//! |---|---|
//! | what makes contexts hot, and its share of all | always |
//! | the same with everything called from there, each activation once, and its share | for instructions and other costs, where it is known |
//! | calls, or instructions | what the first is not, if both were counted |
//!
//! A tree does not hold all that was called from a context if contexts are cut off
//! after k callers: what was called deeper down hangs in trees of its own. Then it is known
//! only where whole contexts were recorded and folded ([`analysis::fold`]).

use analysis::{NodeId, Weight};

use crate::metrics;
use crate::numbers::{grouped, percent};
use crate::{Report, Tree};

/// A number per node, and perhaps its share.
pub struct Column {
    title: &'static str,
    values: Vec<u64>,
    share: Share,
    width: usize,
}

enum Share {
    None,
    /// Share of a total.
    Of(u64),
    /// Share of a total of calls; starts of threads and handlers have none.
    OfCalls(u64),
}

pub fn columns(report: &Report, tree: &Tree) -> Vec<Column> {
    let forest = &tree.forest;
    let own = |metric| {
        forest
            .nodes()
            .map(|node| forest.weight(metric, node))
            .collect()
    };
    let by = report.by;
    let total = report.total(by);
    let share = match by {
        Weight::Calls => Share::OfCalls(total),
        Weight::Cost(_) => Share::Of(total),
    };
    let mut columns = vec![Column::new(
        tree,
        metrics::title(report, by),
        own(by),
        share,
    )];
    if by != Weight::Calls
        && shows_inclusive(report)
        && let Some(sums) = forest.inclusive(by)
    {
        columns.push(Column::new(tree, "with callees", sums, Share::Of(total)));
    }
    let others = report.metrics.iter().filter(|&&metric| metric != by);
    columns.extend(others.map(|&metric| {
        let title = metrics::title(report, metric);
        Column::new(tree, title, own(metric), Share::None)
    }));
    columns
}

/// With finite k, only where that cut nothing off in any tree: else the column would be
/// there for some threads and not for others. Without callers (k = 0) everything is cut off.
fn shows_inclusive(report: &Report) -> bool {
    let mut trees = report.sections.iter().filter_map(|s| s.contexts.as_ref());
    let keeps_callers = report.recording.meta.k != Some(0);
    report.knows_inclusive() || keeps_callers && trees.all(|tree| tree.forest.is_whole())
}

impl Column {
    fn new(tree: &Tree, title: &'static str, values: Vec<u64>, share: Share) -> Column {
        let shown = tree.rows.iter().map(|row| values[row.node.index()]);
        let largest = grouped(shown.max().unwrap_or(0)).len();
        Column {
            title,
            values,
            share,
            width: largest.max(title.len()).max(7),
        }
    }

    pub fn title(&self) -> String {
        let (title, width) = (self.title, self.width);
        match self.share {
            Share::None => format!("{title:>width$}  "),
            _ => format!("{title:>width$}  {:>7}  ", "%"),
        }
    }

    pub fn cell(&self, node: NodeId, is_call: bool) -> String {
        let (value, width) = (self.values[node.index()], self.width);
        // A node that only leads to others was never a state of its own.
        let number = match value {
            0 => String::new(),
            value => grouped(value),
        };
        let share = match self.share {
            Share::None => return format!("{number:>width$}  "),
            _ if value == 0 => String::new(),
            Share::OfCalls(_) if !is_call => String::new(),
            Share::Of(total) | Share::OfCalls(total) => percent(value, total),
        };
        format!("{number:>width$}  {share:>7}  ")
    }
}
