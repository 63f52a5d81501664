//! The contexts as a flame graph: one SVG that a browser shows, with search and
//! zoom; the width of a frame is its share of all calls or instructions
//! ([`Report::by`]), its own and those of what it called. Drawn by crate `inferno` from [`crate::folded`].

use std::io::{self, Write};

use inferno::flamegraph::{self, Options};

use crate::numbers::{command_line, grouped};
use crate::{Report, folded, metrics};

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    folded::write(report, &mut lines)?;
    let lines = String::from_utf8(lines).map_err(io::Error::other)?;
    let metric = metrics::title(report, report.by);
    let mut options = Options::default();
    options.title = command_line(&report.recording.meta.command);
    options.subtitle = Some(format!("{} {metric}", grouped(report.total(report.by))));
    options.count_name = metric.to_owned();
    // Two runs of one program are to be compared by eye.
    options.deterministic = true;
    if lines.is_empty() {
        return Err(io::Error::other(
            "nothing was called, so there is no flame graph",
        ));
    }
    // Errors of the crate do not say whether a pipe was closed.
    let mut drawn = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut drawn).map_err(io::Error::other)?;
    out.write_all(&drawn)
}
