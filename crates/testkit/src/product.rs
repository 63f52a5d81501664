//! The product as a counter: what its reports say about a test program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::build::Built;
use crate::run::{self, Ending};
use crate::tree::{self, Section, Tree};

/// Limit of one run of the product.
const LIMIT: Duration = Duration::from_secs(60);

/// A built program with the arguments and the input of one run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The `everypath` binary.
    pub product: &'a Path,
    /// The program.
    pub built: &'a Built,
    /// Its arguments.
    pub args: &'a [String],
    /// Its standard input.
    pub stdin: &'a str,
}

impl Run<'_> {
    /// What `everypath contexts` prints with `options`.
    pub fn forests(&self, options: &[String]) -> Result<Vec<Section>, String> {
        let mut words = vec!["contexts", "--full", "--format", "text"];
        words.extend(options.iter().map(String::as_str));
        tree::parse(&self.report(&words)?).map_err(|error| error.to_string())
    }

    /// All forests of one kind that it prints with `options`, joined.
    pub fn joined(&self, options: &[String]) -> Result<Tree, String> {
        let mut joined = Tree::default();
        for section in self.forests(options)? {
            joined.join(&section.tree);
        }
        Ok(joined)
    }

    /// The instructions of every context that `everypath contexts` prints with
    /// `options`, by the names on its path, those of all processes together.
    pub fn instructions_by_context(
        &self,
        options: &[String],
    ) -> Result<BTreeMap<Vec<String>, u64>, String> {
        let mut words = vec!["contexts", "--k-inf", "--join-threads"];
        words.extend(["--format", "folded", "--by", "instructions"]);
        words.extend(options.iter().map(String::as_str));
        let mut sums = BTreeMap::new();
        for line in self.report(&words)?.lines() {
            let odd = || format!("no folded stack: {line}");
            let (path, count) = line.rsplit_once(' ').ok_or_else(odd)?;
            let count: u64 = count.parse().map_err(|_| odd())?;
            // The first frame is the process.
            let names = path.split(';').skip(1).map(str::to_owned);
            *sums.entry(names.collect()).or_insert(0) += count;
        }
        Ok(sums)
    }

    /// The instructions that `everypath run --count-instructions` reports.
    pub fn instructions(&self) -> Result<u64, String> {
        let report = self.report(&["run", "--count-instructions"])?;
        instructions_in(&report)
            .ok_or_else(|| format!("no instruction count in the report:\n{report}"))
    }

    /// What `everypath count` records with `options`.
    pub fn recording(&self, options: &[String]) -> Result<trace::Recording, String> {
        let mut words = vec!["count"];
        words.extend(options.iter().map(String::as_str));
        let file = self.report_file().with_extension("evp");
        let name = file.to_string_lossy().into_owned();
        words.extend(["-o", &name]);
        self.report(&words)?;
        let read = std::fs::File::open(&file).map(trace::read);
        // It is there unless the run failed.
        let _ = std::fs::remove_file(&file);
        let read = read.map_err(|error| format!("no recording was written: {error}"))?;
        read.map_err(|error| error.to_string())
    }

    /// The report of `everypath WORDS -- PROGRAM`.
    ///
    /// Without address randomisation, as the oracle runs programs: some string
    /// functions take other paths at other alignments.
    pub fn report(&self, words: &[&str]) -> Result<String, String> {
        let file = self.report_file();
        let mut command = Command::new("setarch");
        command.arg("-R").arg(self.product).args(words);
        command.arg("--quiet").arg("--report").arg(&file);
        command.arg("--").arg(&self.built.executable);
        command.args(self.args).current_dir(&self.built.directory);
        let outcome = run::run(command, self.stdin, LIMIT)
            .map_err(|error| format!("the product cannot be started: {error}"))?;
        let report = std::fs::read_to_string(&file);
        // Absent if the run failed.
        let _ = std::fs::remove_file(&file);
        if outcome.ending == Ending::TimedOut || matches!(outcome.ending, Ending::Exit(125..=127)) {
            let stderr = String::from_utf8_lossy(&outcome.stderr);
            return Err(format!("{:?}: {stderr}", outcome.ending));
        }
        report.map_err(|error| format!("no report was written: {error}"))
    }

    /// A file of this thread beside the program's directory.
    fn report_file(&self) -> PathBuf {
        let mut file = self.built.directory.clone().into_os_string();
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
        file.push(format!(".{}.{thread}.report", std::process::id()));
        PathBuf::from(file)
    }
}

/// The largest number that stands before the word `instructions`.
fn instructions_in(report: &str) -> Option<u64> {
    let words: Vec<&str> = report.split_whitespace().collect();
    let numbers = words
        .windows(2)
        .filter(|pair| pair[1].starts_with("instructions"));
    numbers
        .filter_map(|pair| pair[0].replace([',', '_', '\''], "").parse().ok())
        .max()
}
