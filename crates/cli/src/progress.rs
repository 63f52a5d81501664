//! Progress line on a terminal, while nothing else is to be seen.
//!
//! While the program runs, the terminal is its own: nothing is drawn there. After it, and by
//! those who read what was recorded, a line on standard error says what takes long, and how much of
//! it is done where that is known; it is gone when the report comes.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use trace::Recording;

/// A line on standard error; dropped, it is erased.
pub struct Progress(ProgressBar);

impl Progress {
    /// Draws nothing if standard error is no terminal, or if asked to be `quiet`.
    pub fn new(quiet: bool) -> Progress {
        if quiet || !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner().with_style(style("everypath: {msg} ({elapsed})"));
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress(bar)
    }

    /// Progress of a reader that reads the streams of a trace once.
    pub fn reading(recording: &Recording, what: &'static str) -> Progress {
        let progress = Progress::new(false);
        progress.reads(recording, what);
        progress
    }

    pub fn says(&self, what: &'static str) {
        self.0.set_style(style("everypath: {msg} ({elapsed})"));
        self.0.set_message(what);
    }

    /// The streams of a trace are read from now on.
    pub fn reads(&self, recording: &Recording, what: &'static str) {
        let threads = recording.processes.iter().flat_map(|p| &p.threads);
        let parts = threads.flat_map(|thread| &thread.stream);
        let all: u64 = parts.map(trace::Part::len).sum();
        let before = trace::unpacked();
        let done = move |_: &ProgressState, out: &mut dyn Write| {
            let read = trace::unpacked() - before;
            // Its end may be longer than its way there.
            let percent = (read * 100 / all.max(1)).min(99);
            let _ = write!(out, "{percent}%");
        };
        let style = style("everypath: {msg} ({elapsed}, {done})").with_key("done", done);
        self.0.set_style(style);
        self.0.set_message(what);
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
