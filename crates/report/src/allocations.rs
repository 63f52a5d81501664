//! Allocations by context: a table for people, JSON, folded stacks, a profile of pprof, and a page.

mod page;

use std::fmt::Write as _;
use std::io;

use analysis::allocations::{Allocations, Figures};
use serde_json::json;

use crate::numbers::{counted, duration, grouped, size};
use crate::pprof::plain::{self, Frame};

pub use page::write as page;

/// Figures by which contexts are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Peak,
    Leaked,
    Bytes,
    Blocks,
}

/// Allocations of a run, and what is needed to show them.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub made: &'a Allocations,
    pub command: &'a str,
    /// Paths by their numbers.
    pub paths: &'a [String],
    /// Rate of the counter by which lifetimes are measured.
    pub ticks_per_second: Option<u64>,
    pub by: By,
    /// When the run began; for the page.
    pub started_unix_ms: u64,
}

/// A figure of contexts.
pub(crate) struct Metric {
    /// One of it.
    noun: &'static str,
    /// Name and unit in profiles of pprof: those of Go's heap profiles, as far as they have them.
    kind: plain::ValueType<'static>,
    of: fn(&Figures) -> u64,
    /// The figure of [`By`].
    by: Option<By>,
}

pub(crate) const METRICS: [Metric; 6] = [
    Metric {
        noun: "peak byte",
        kind: ("peak_space", "bytes"),
        of: |figures| figures.peak_bytes,
        by: Some(By::Peak),
    },
    Metric {
        noun: "peak block",
        kind: ("peak_objects", "count"),
        of: |figures| figures.peak_blocks,
        by: None,
    },
    Metric {
        noun: "leaked byte",
        kind: ("inuse_space", "bytes"),
        of: |figures| figures.leaked_bytes,
        by: Some(By::Leaked),
    },
    Metric {
        noun: "leaked block",
        kind: ("inuse_objects", "count"),
        of: |figures| figures.leaked_blocks,
        by: None,
    },
    Metric {
        noun: "allocated byte",
        kind: ("alloc_space", "bytes"),
        of: |figures| figures.bytes,
        by: Some(By::Bytes),
    },
    Metric {
        noun: "allocated block",
        kind: ("alloc_objects", "count"),
        of: |figures| figures.blocks,
        by: Some(By::Blocks),
    },
];

/// Functions of a path, with files and lines where they are known.
fn frames(path: &str) -> impl Iterator<Item = Frame<'_>> {
    path.split(" > ").map(|part| {
        let place = part.rsplit_once(' ').and_then(|(name, place)| {
            let (file, line) = place.rsplit_once(':')?;
            Some((name, (file, line.parse().ok()?)))
        });
        match place {
            Some((name, place)) => Frame {
                name,
                place: Some(place),
            },
            None => Frame {
                name: part,
                place: None,
            },
        }
    })
}

/// A path as a folded stack.
pub fn folded_path(path: &str) -> String {
    let parts = path.split(" > ");
    let parts: Vec<String> = parts.map(|part| part.replace(';', ":")).collect();
    parts.join(";")
}

fn key(figures: &Figures, by: By) -> u64 {
    match by {
        By::Peak => figures.peak_bytes,
        By::Leaked => figures.leaked_bytes,
        By::Bytes => figures.bytes,
        By::Blocks => figures.blocks,
    }
}

/// Paths by a figure, the most first.
fn sorted(made: &Allocations, by: By) -> Vec<(u32, Figures)> {
    let paths = made.paths.iter().map(|(path, figures)| (*path, *figures));
    let mut paths: Vec<_> = paths.collect();
    paths.sort_by_key(|(_, figures)| std::cmp::Reverse((key(figures, by), figures.bytes)));
    paths
}

fn lifetime(shown: &Shown<'_>, figures: &Figures) -> String {
    match (figures.freed, shown.ticks_per_second) {
        (0, _) | (_, None) => "-".into(),
        (freed, Some(ticks)) => {
            let ns = figures.lifetime as f64 / freed as f64 / ticks as f64 * 1e9;
            duration(ns as u64)
        }
    }
}

/// A table for people, of so many contexts.
pub fn text(shown: &Shown<'_>, top: usize) -> String {
    let (made, all) = (shown.made, &shown.made.all);
    let mut out = format!(
        "everypath allocations: {}\n{}, {}, in {}; at most {} at once; {} in {} never freed\n",
        shown.command,
        counted(all.blocks, "allocation"),
        size(all.bytes),
        counted(made.paths.len() as u64, "context"),
        size(all.peak_bytes),
        size(all.leaked_bytes),
        counted(all.leaked_blocks, "block"),
    );
    let strange = [
        (made.failed, "call", "gave no memory"),
        (
            made.strange,
            "call",
            "freed a block that none of these had given",
        ),
    ];
    for (count, noun, what) in strange.into_iter().filter(|(count, ..)| *count > 0) {
        let _ = writeln!(out, "{} {what}", counted(count, noun));
    }
    let _ = writeln!(
        out,
        "\n{:>10} {:>10} {:>10} {:>10} {:>9}  context",
        "at peak", "leaked", "allocated", "blocks", "lifetime"
    );
    for (path, figures) in sorted(made, shown.by).into_iter().take(top) {
        let _ = writeln!(
            out,
            "{:>10} {:>10} {:>10} {:>10} {:>9}  {}",
            size(figures.peak_bytes),
            size(figures.leaked_bytes),
            size(figures.bytes),
            grouped(figures.blocks),
            lifetime(shown, &figures),
            shown.paths[path as usize]
        );
    }
    if made.paths.len() > top {
        let _ = writeln!(out, "\nmore: --top {}", made.paths.len());
    }
    out
}

/// All contexts with all figures.
pub fn json(shown: &Shown<'_>) -> String {
    let made = shown.made;
    let of = |figures: &Figures| {
        json!({
            "blocks": figures.blocks,
            "bytes": figures.bytes,
            "leaked_blocks": figures.leaked_blocks,
            "leaked_bytes": figures.leaked_bytes,
            "peak_blocks": figures.peak_blocks,
            "peak_bytes": figures.peak_bytes,
            "freed": figures.freed,
            "lifetime_ticks": figures.lifetime,
        })
    };
    let contexts = sorted(made, By::Peak).into_iter().map(|(path, figures)| {
        let mut row = of(&figures);
        row["path"] = shown.paths[path as usize].split(" > ").collect();
        row
    });
    let contexts: Vec<_> = contexts.collect();
    let whole = json!({
        "format": "everypath allocations",
        "version": 1,
        "command": shown.command,
        "all": of(&made.all),
        "ticks_per_second": shown.ticks_per_second,
        "failed": made.failed,
        "strange": made.strange,
        "contexts": contexts,
    });
    format!("{whole:#}\n")
}

/// A profile of pprof, with all figures but lifetimes.
pub fn pprof(shown: &Shown<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let types = METRICS.map(|metric| metric.kind);
    let first = METRICS
        .iter()
        .position(|metric| metric.by == Some(shown.by));
    let stacks = sorted(shown.made, shown.by).into_iter();
    let stacks = stacks.map(|(path, figures)| {
        let values = METRICS.iter().map(|metric| (metric.of)(&figures));
        (
            frames(&shown.paths[path as usize]).collect(),
            values.collect(),
        )
    });
    plain::write(shown.command, (&types, first.unwrap_or(0)), stacks, out)
}

/// Folded stacks of the figure that is sorted by.
pub fn folded(shown: &Shown<'_>) -> String {
    let (made, by) = (shown.made, shown.by);
    let rows = sorted(made, by).into_iter();
    let rows = rows.filter(|(_, figures)| key(figures, by) > 0);
    let rows = rows.map(|(path, figures)| {
        format!(
            "{} {}\n",
            folded_path(&shown.paths[path as usize]),
            key(&figures, by)
        )
    });
    rows.collect()
}
