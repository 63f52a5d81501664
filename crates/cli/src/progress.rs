//! What is being done after the program ended, on a terminal.
//!
//! While the program runs, the terminal is its own: nothing is drawn there.
//! After it, a large recording takes seconds to read, name and write; a line
//! says which, and is gone when the report comes.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line on standard error; dropped, it is erased.
pub struct Progress(ProgressBar);

impl Progress {
    /// Draws nothing if standard error is no terminal, or if asked to be `quiet`.
    pub fn new(quiet: bool) -> Progress {
        if quiet || !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("everypath: {msg} ({elapsed})");
        let bar = ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress(bar)
    }

    pub fn says(&self, what: &'static str) {
        self.0.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
