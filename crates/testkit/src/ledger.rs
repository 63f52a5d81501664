//! The ledger: one line a job, so that whoever starts several parts can add up what was compared.
//!
//! The file is named by `EVERYPATH_LEDGER`; without it nothing is written. Fields are separated by
//! tabs: state, kind of comparison, name, number of comparisons, milliseconds. Lines are appended
//! by one write each, so several processes can share the file, and what a killed one did is there.
//!
//! With `EVERYPATH_RESUME` set, jobs that the ledger has as passed are not run again: so a long
//! part goes on after a break.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Outcome of a job, or of a group of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All its comparisons agreed.
    Passed,
    /// A comparison differed.
    Failed,
    /// Left to a wider scope.
    Left,
    /// This machine lacks what the job needs.
    Missing,
}

impl State {
    /// The word in the file.
    fn word(self) -> &'static str {
        match self {
            State::Passed => "passed",
            State::Failed => "failed",
            State::Left => "left",
            State::Missing => "missing",
        }
    }
}

/// `None` in this crate's own unit tests, whose jobs compare nothing.
fn path() -> Option<PathBuf> {
    let named = std::env::var_os("EVERYPATH_LEDGER").map(PathBuf::from);
    named.filter(|_| !cfg!(test))
}

/// Appends a line.
///
/// # Panics
/// The file cannot be written: a comparison that is not counted would be missed later, in a
/// message that says less.
pub fn note(state: State, kind: &str, name: &str, comparisons: usize, took: Duration) {
    let Some(path) = path() else { return };
    let line = format!(
        "{}\t{kind}\t{}\t{comparisons}\t{}\n",
        state.word(),
        name.replace(['\t', '\n'], " "),
        took.as_millis()
    );
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Names of the jobs of `kind` that passed before; empty unless the run is resumed.
#[must_use]
pub fn passed_before(kind: &str) -> BTreeSet<String> {
    let text = match (std::env::var_os("EVERYPATH_RESUME"), path()) {
        (Some(_), Some(path)) => std::fs::read_to_string(path).unwrap_or_default(),
        _ => String::new(),
    };
    passed(&text, kind)
}

/// A job that failed after it had passed is to be run again.
fn passed(text: &str, kind: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (state, of, name) = (fields.next(), fields.next(), fields.next());
        let (Some(state), Some(name), true) = (state, name, of == Some(kind)) else {
            continue;
        };
        match state {
            "passed" => names.insert(name.to_owned()),
            _ => names.remove(name),
        };
    }
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_job_that_failed_later_has_not_passed() {
        let text = "passed\ta\tone\t1\t5\npassed\tb\ttwo\t1\t5\npassed\ta\tthree\t1\t5\n\
                    failed\ta\tone\t1\t5\n";
        assert!(super::passed(text, "a").iter().eq(["three"]));
    }
}
