//! Comparisons that the tests of a run made: the lines that `testkit::ledger` and
//! [`crate::harness`] write, read and added up.
//!
//! A line has five fields separated by tabs: state, kind of comparison, name, number of
//! comparisons, milliseconds.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The ledger of one run.
pub struct Ledger {
    path: PathBuf,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub state: State,
    pub kind: String,
    pub name: String,
    pub comparisons: u64,
    pub millis: u64,
}

/// Outcome of a job or a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Passed,
    Failed,
    /// Left to `cargo xtask wide`.
    Left,
    /// This machine lacks what it needs.
    Missing,
}

const WORDS: [(&str, State); 4] = [
    ("passed", State::Passed),
    ("failed", State::Failed),
    ("left", State::Left),
    ("missing", State::Missing),
];

impl Ledger {
    /// An empty ledger at `path`.
    pub fn new(path: PathBuf) -> Result<Ledger> {
        let ledger = Ledger::at(path)?;
        if ledger.path.exists() {
            fs::remove_file(&ledger.path)
                .with_context(|| format!("cannot remove {}", ledger.path.display()))?;
        }
        Ok(ledger)
    }

    /// The ledger at `path`, which may have lines of an earlier run.
    pub fn at(path: PathBuf) -> Result<Ledger> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(Ledger { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    pub fn note(&self, entry: &Entry) -> Result<()> {
        let word = WORDS.iter().find(|(_, state)| *state == entry.state);
        let (word, _) = word.context("every state has a word")?;
        let (kind, name) = (&entry.kind, &entry.name);
        let line = format!(
            "{word}\t{kind}\t{name}\t{}\t{}\n",
            entry.comparisons, entry.millis
        );
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// All lines, in the order in which they were written.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        let entries = text.lines().map(|line| {
            Entry::read(line).with_context(|| format!("{}: `{line}`", self.path.display()))
        });
        entries.collect()
    }
}

impl Entry {
    fn read(line: &str) -> Option<Entry> {
        let mut fields = line.split('\t');
        let mut field = || fields.next();
        let (state, kind, name) = (field()?, field()?, field()?);
        Some(Entry {
            state: WORDS.iter().find(|(word, _)| *word == state)?.1,
            kind: kind.to_owned(),
            name: name.to_owned(),
            comparisons: field()?.parse().ok()?,
            millis: field()?.parse().ok()?,
        })
    }
}

/// Comparisons of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub passed: u64,
    pub failed: u64,
    pub left: u64,
    pub missing: u64,
    pub millis: u64,
}

/// The sums of every kind. A job that was run several times counts as it ended last.
pub fn sums(entries: &[Entry]) -> BTreeMap<&str, Sum> {
    let mut last = BTreeMap::new();
    for entry in entries {
        last.insert((&*entry.kind, &*entry.name), entry);
    }
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for entry in last.values() {
        let sum = sums.entry(&entry.kind).or_default();
        sum.millis += entry.millis;
        match entry.state {
            State::Passed => sum.passed += entry.comparisons,
            State::Failed => sum.failed += entry.comparisons,
            State::Left => sum.left += entry.comparisons,
            State::Missing => sum.missing += entry.comparisons,
        }
    }
    sums
}

/// The `count` entries that took longest, as lines of text.
pub fn slowest(entries: &[Entry], count: usize) -> Vec<String> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| std::cmp::Reverse(entry.millis));
    let lines = sorted.into_iter().take(count).map(|entry| {
        let seconds = entry.millis as f64 / 1000.0;
        format!("{seconds:7.1} s  {}: {}", entry.kind, entry.name)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_of_a_job_counts() {
        let lines = "failed\truns\ta\t1\t10\npassed\truns\ta\t5\t30\nleft\truns\t\t7\t0";
        let entries: Vec<Entry> = lines.lines().filter_map(Entry::read).collect();
        let expected = Sum {
            passed: 5,
            left: 7,
            millis: 30,
            ..Sum::default()
        };
        assert_eq!(sums(&entries)["runs"], expected);
        assert_eq!(slowest(&entries, 1), ["    0.0 s  runs: a"]);
    }
}
