//! A recording to a report in the form that was asked for.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use report::text::Style;
use report::{Hot, Report};
use trace::Recording;

use crate::flags::{Format, View, WhichForest};

/// How a recording is shown.
#[derive(Clone, Debug)]
pub struct Show {
    pub format: Format,
    pub view: report::View,
    pub engine_stats: bool,
    pub notes: Vec<String>,
}

impl Show {
    pub fn new(format: Format, view: &View) -> Show {
        let hot = match view.full {
            true => Hot::default(),
            false => Hot {
                top: Some(view.top),
                min_percent: view.min,
                depth: view.depth,
            },
        };
        let engine_stats = view.engine_stats;
        let stacks = format.shows_stacks();
        let view = report::View {
            hot: (format == Format::Report).then_some(hot),
            ksf: !stacks && view.forest != WhichForest::Kccf,
            kccf: !stacks && view.forest != WhichForest::Ksf,
            stacks,
            join_threads: view.join_threads,
        };
        Show {
            format,
            view,
            engine_stats,
            notes: Vec::new(),
        }
    }

    /// For a run that recorded no contexts.
    pub fn run(format: Format, engine_stats: bool) -> Show {
        Show {
            format,
            view: report::View::default(),
            engine_stats,
            notes: Vec::new(),
        }
    }

    pub fn write(
        &self,
        recording: &Recording,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut report = Report::new(recording, &self.view);
        if self.engine_stats {
            report.stat_names = stat_names(recording);
        }
        report.notes.clone_from(&self.notes);
        match self.format {
            Format::Report => report::text::write(&report, style, out),
            Format::Text => report::paper::write(&report, out),
            Format::Json => report::json::write(&report, out),
            Format::Folded => report::folded::write(&report, out),
            Format::Flamegraph => report::flamegraph::write(&report, out),
            Format::Pprof => report::pprof::write(&report, out),
        }
    }
}

/// Names of the statistics; without a run of `--lockstep`, not those of it.
fn stat_names(recording: &Recording) -> &'static [&'static str] {
    let lockstep = |process: &trace::Process| {
        let own = process.stats.iter().skip(wire::stat::LOCKSTEP);
        own.clone().any(|&value| value != 0)
    };
    match recording.processes.iter().any(lockstep) {
        true => &wire::stat::NAMES,
        false => &wire::stat::NAMES[..wire::stat::LOCKSTEP],
    }
}

/// Width and colour of a stream; a file has neither.
pub fn style_of(stream: &(impl AsFd + IsTerminal)) -> Style {
    if !stream.is_terminal() {
        return Style::PLAIN;
    }
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    let width = if columns == 0 {
        80
    } else {
        usize::from(columns)
    };
    let plain = |name: &str, value: &str| std::env::var_os(name).is_some_and(|set| set == value);
    // https://no-color.org: any value that is not empty.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style {
        width,
        colour: !refused && !plain("TERM", "dumb"),
    }
}
