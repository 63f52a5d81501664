//! A differential flame graph: one SVG that a browser shows. The width of a
//! frame is its share of what was counted after; its colour says whether it
//! counted more itself (red) or less (blue) than before. Drawn by crate
//! `inferno` from the stacks of [`super::folded`].
//!
//! Limits: what is gone has no width; comparing the other way round shows it.

use std::borrow::Cow;
use std::io::{self, Write};

use analysis::diff::Pair;
use inferno::flamegraph::{self, Options};

use super::{Comparison, folded};
use crate::numbers::{command_line, grouped, signed, signed_percent};

pub fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let metric = comparison.metric_name();
    let total = comparison.diff.totals[comparison.metric];
    if total.after == 0 {
        return Err(io::Error::other(
            "nothing was counted after, so there is no flame graph",
        ));
    }
    // Its differences are signed.
    if total.before.max(total.after) > i64::MAX as u64 {
        return Err(io::Error::other(format!(
            "there are more than 2^63 - 1 {metric}, which a flame graph cannot hold"
        )));
    }
    let mut options = Options::default();
    options.title = command_line(&comparison.after.recording.meta.command);
    options.subtitle = Some(format!(
        "{} {metric}, before {} ({}, {}); red: more, blue: fewer",
        grouped(total.after),
        grouped(total.before),
        signed(total),
        signed_percent(total),
    ));
    options.count_name = metric.to_owned();
    options.deterministic = true;
    let mut text = Vec::new();
    folded::write(comparison, &mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    let lines = once_each(&text);
    // Errors of the crate do not say whether a pipe was closed.
    let mut drawn = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(Cow::as_ref), &mut drawn)
        .map_err(io::Error::other)?;
    out.write_all(&drawn)
}

/// Each stack once, because of two lines with the same one the second would
/// have no colour: functions of different modules may have one name.
fn once_each(text: &str) -> Vec<Cow<'_, str>> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_cached_key(|line| parts(line).0);
    let group = |group: &[&'_ str]| -> String {
        let mut sum = Pair::default();
        group.iter().for_each(|line| sum.add(parts(line).1));
        format!("{} {} {}", parts(group[0]).0, sum.before, sum.after)
    };
    lines
        .chunk_by(|one, other| parts(one).0 == parts(other).0)
        .map(|lines| match *lines {
            [line] => Cow::Borrowed(line),
            _ => Cow::Owned(group(lines)),
        })
        .collect()
}

/// Stack and figure of a line of [`folded`].
fn parts(line: &str) -> (&str, Pair) {
    let mut words = line.rsplitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse().ok());
    let (after, before) = (number(), number());
    let value = Pair {
        before: before.unwrap_or(0),
        after: after.unwrap_or(0),
    };
    (words.next().unwrap_or_default(), value)
}
