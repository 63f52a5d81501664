//! One program in every mode: the native run is the oracle for output and
//! exit status, and every other run must equal it byte for byte.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::build::{self, Built};
use crate::mode::{self, Mode};
use crate::program::{Program, missing_feature};
use crate::run::{self, Outcome};

/// Limit of a native run; programs need about a second at most.
const NATIVE_LIMIT: Duration = Duration::from_secs(20);

/// What became of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As native in every mode.
    Passed,
    /// This CPU lacks what the program tests.
    Skipped(String),
    /// What differed, one text per failure.
    Failed(Vec<String>),
}

impl Verdict {
    /// The line that says it of the program `name`, or what differed.
    pub fn line(self, name: &str) -> Result<String, String> {
        match self {
            Verdict::Passed => Ok(format!("ok      {name}")),
            Verdict::Skipped(why) => Ok(format!("skipped {name}: {why}")),
            Verdict::Failed(texts) => Err(texts.join("\n")),
        }
    }
}

/// Builds `program`, runs it natively, then under every one of `modes`.
#[must_use]
pub fn check(program: &Program, cache: &Path, product: &Path, modes: &[Mode]) -> Verdict {
    if let Some(feature) = missing_feature(&program.directives.needs) {
        return Verdict::Skipped(format!("this CPU has no {feature}"));
    }
    let built = match build::build(program, cache) {
        Ok(built) => built,
        Err(error) => return Verdict::Failed(vec![error.to_string()]),
    };
    let native = match native(program, &built) {
        Ok(outcome) => outcome,
        Err(message) => return Verdict::Failed(vec![message]),
    };
    let mut failures = Vec::new();
    for mode in modes {
        failures.extend(check_mode(program, &built, product, mode, &native));
    }
    if failures.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Failed(failures)
    }
}

/// The native run, which must end as the program's head comment says.
pub fn native(program: &Program, built: &Built) -> Result<Outcome, String> {
    let command = mode::native(built, &program.directives.args);
    let outcome = run::run(command, &program.directives.stdin, NATIVE_LIMIT)
        .map_err(|error| format!("cannot be started natively: {error}"))?;
    if outcome.ended_as(program.directives.expected) {
        return Ok(outcome);
    }
    Err(format!(
        "natively it ended {:?}, its head comment says {:?}\n{}{}",
        outcome.ending,
        program.directives.expected,
        last_lines(&outcome.stdout),
        last_lines(&outcome.stderr),
    ))
}

/// The end of an output, short enough for a message.
fn last_lines(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[output.len().saturating_sub(1000)..]).into_owned()
}

fn check_mode(
    program: &Program,
    built: &Built,
    product: &Path,
    mode: &Mode,
    native: &Outcome,
) -> Option<String> {
    let out = out_file(built, mode);
    let mut failure = None;
    for round in 0..program.directives.repeat {
        let command = mode::translated(product, mode, built, &program.directives.args, &out);
        let limit = program.directives.timeout;
        let difference = match run::run(command, &program.directives.stdin, limit) {
            Ok(outcome) => outcome.difference(native),
            Err(error) => Some(format!("cannot be started: {error}")),
        };
        if let Some(text) = difference {
            failure = Some(format!("[{}] round {}: {text}", mode.name, round + 1));
            break;
        }
    }
    // Modes without an output file leave none.
    let _ = std::fs::remove_file(&out);
    failure
}

/// A name beside the program's directory, so that the program cannot see it.
fn out_file(built: &Built, mode: &Mode) -> PathBuf {
    let mut name = built.directory.clone().into_os_string();
    name.push(format!(
        ".{}.{}.evp",
        mode.name.replace(' ', "-"),
        std::process::id()
    ));
    PathBuf::from(name)
}
