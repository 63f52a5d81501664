//! The product as a counter: what its reports say about a test program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::build::Built;
use crate::oracle::CostsByContext;
use crate::run::{self, Ending};
use crate::tree::{self, Section, Tree};

/// Limit of one run of the product.
const LIMIT: Duration = Duration::from_secs(60);

/// How forests are asked for that are read here.
const FORESTS: [&str; 3] = ["--full", "--format", "text"];
/// Options of a report of costs.
const COSTS: [&str; 4] = ["--k-inf", "--join-threads", "--format", "csv"];

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
    /// Forests that `everypath contexts` prints with `options`.
    pub fn forests(&self, options: &[String]) -> Result<Vec<Section>, String> {
        let mut words = vec!["contexts"];
        words.extend(FORESTS);
        words.extend(options.iter().map(String::as_str));
        tree::parse(&self.report(&words)?).map_err(|error| error.to_string())
    }

    /// All forests of one kind that it prints with `options`, joined.
    pub fn joined(&self, options: &[String]) -> Result<Tree, String> {
        Ok(joined(&self.forests(options)?))
    }

    /// The costs of every context that `everypath contexts` prints with `options`, by
    /// the names on its path, those of all processes together; 0 if it does not count
    /// them.
    pub fn costs_by_context(&self, options: &[String]) -> Result<CostsByContext, String> {
        let mut words = vec!["contexts"];
        words.extend(COSTS);
        words.extend(options.iter().map(String::as_str));
        costs_of(&self.report(&words)?)
    }

    /// A trace with `options`, to make contexts of.
    pub fn made(&self, options: &[String]) -> Result<Derived<'_>, String> {
        let made = Derived {
            run: self,
            trace: self.report_file().with_extension("made.evp"),
        };
        let name = made.trace.to_string_lossy().into_owned();
        let mut words = vec!["trace", "--quiet", "-o", &name];
        words.extend(options.iter().map(String::as_str));
        self.run(&words)?;
        Ok(made)
    }

    /// The instructions that `everypath run --count-instructions` reports.
    pub fn instructions(&self) -> Result<u64, String> {
        let report = self.report(&["run", "--count-instructions"])?;
        instructions_in(&report)
            .ok_or_else(|| format!("no instruction count in the report:\n{report}"))
    }

    /// Recording of `everypath count` with `options`.
    pub fn recording(&self, options: &[String]) -> Result<trace::Recording, String> {
        self.recorded("count", options)
    }

    /// Recording of `everypath contexts` with `options`.
    pub fn contexts(&self, options: &[String]) -> Result<trace::Recording, String> {
        self.recorded("contexts", options)
    }

    /// Recording of `everypath trace` with `options`.
    pub fn trace(&self, options: &[String]) -> Result<trace::Recording, String> {
        self.recorded("trace", options)
    }

    /// A trace, and the descriptors that predictors wrote meanwhile.
    pub fn followed(&self, options: &[String]) -> Result<(trace::Recording, Vec<u8>), String> {
        let file = self.report_file().with_extension("raptor");
        let name = file.to_string_lossy().into_owned();
        let follow = ["--raptor", "--descriptors", &name].map(str::to_owned);
        let recording = self.recorded("trace", &[options, &follow].concat());
        let descriptors = std::fs::read(&file);
        // It is there unless the run failed.
        let _ = std::fs::remove_file(&file);
        let descriptors = descriptors.map_err(|error| format!("no descriptors: {error}"));
        Ok((recording?, descriptors?))
    }

    fn recorded(&self, command: &str, options: &[String]) -> Result<trace::Recording, String> {
        let mut words = vec![command];
        words.extend(options.iter().map(String::as_str));
        let file = self.report_file().with_extension("evp");
        let name = file.to_string_lossy().into_owned();
        words.extend(["-o", &name, "--quiet"]);
        self.run(&words)?;
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
        let name = file.to_string_lossy().into_owned();
        let mut words = words.to_vec();
        words.extend(["--quiet", "--report", &name]);
        let ran = self.run(&words);
        let report = std::fs::read_to_string(&file);
        // Absent if the run failed.
        let _ = std::fs::remove_file(&file);
        ran?;
        report.map_err(|error| format!("no report was written: {error}"))
    }

    fn run(&self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new("setarch");
        command.arg("-R").arg(self.product).args(words);
        command.arg("--").arg(&self.built.executable);
        command.args(self.args).current_dir(&self.built.directory);
        let outcome = run::run(command, self.stdin, LIMIT)
            .map_err(|error| format!("the product cannot be started: {error}"))?;
        if outcome.ending == Ending::TimedOut || matches!(outcome.ending, Ending::Exit(125..=127)) {
            let stderr = String::from_utf8_lossy(&outcome.stderr);
            return Err(format!("{:?}: {stderr}", outcome.ending));
        }
        Ok(())
    }

    /// A file of this thread beside the program's directory.
    fn report_file(&self) -> PathBuf {
        let mut file = self.built.directory.clone().into_os_string();
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
        file.push(format!(".{}.{thread}.report", std::process::id()));
        PathBuf::from(file)
    }
}

/// A trace, which is removed in the end.
#[derive(Debug)]
pub struct Derived<'a> {
    run: &'a Run<'a>,
    trace: PathBuf,
}

impl Derived<'_> {
    /// As [`Run::joined`], made of the trace.
    pub fn joined(&self, options: &[String]) -> Result<Tree, String> {
        let sections = tree::parse(&self.report(&FORESTS, options)?);
        Ok(joined(&sections.map_err(|error| error.to_string())?))
    }

    /// As [`Run::costs_by_context`], made of the trace.
    pub fn costs_by_context(&self, options: &[String]) -> Result<CostsByContext, String> {
        costs_of(&self.report(&COSTS, options)?)
    }

    fn report(&self, words: &[&str], options: &[String]) -> Result<String, String> {
        let mut command = Command::new(self.run.product);
        command.arg("report").arg(&self.trace);
        command.args(["--as", "contexts"]).args(words).args(options);
        command.current_dir(&self.run.built.directory);
        // Reports may be long: what [`run::run`] keeps is not enough.
        let output = command
            .output()
            .map_err(|error| format!("the product cannot be started: {error}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {stderr}", output.status));
        }
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    }
}

impl Drop for Derived<'_> {
    fn drop(&mut self) {
        // Absent if the run failed.
        let _ = std::fs::remove_file(&self.trace);
    }
}

fn joined(sections: &[Section]) -> Tree {
    let mut joined = Tree::default();
    for section in sections {
        joined.join(&section.tree);
    }
    joined
}

/// Costs in the rows of a report in CSV.
fn costs_of(report: &str) -> Result<CostsByContext, String> {
    let mut lines = report.lines().map(fields);
    let head = lines.next().ok_or("the report is empty")?;
    let column = |name: &str| head.iter().position(|field| field == name);
    let path_at = column("path").ok_or("no column of paths")?;
    let columns = ["instructions", "branches", "loads", "stores"].map(column);
    let mut sums = CostsByContext::new();
    for line in lines {
        let path = line[path_at].split(';').map(str::to_owned).collect();
        let sum = sums.entry(path).or_default();
        for (sum, column) in sum.iter_mut().zip(columns) {
            let Some(column) = column else { continue };
            let odd = |_| format!("no number: {line:?}");
            *sum += line[column].parse::<u64>().map_err(odd)?;
        }
    }
    sums.retain(|_, costs| *costs != [0; 4]);
    Ok(sums)
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

/// The fields of a line of CSV (RFC 4180).
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().expect("there is one");
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}
