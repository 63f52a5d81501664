//! One program in every mode: the native run is the oracle for output and
//! exit status, and every other run must equal it byte for byte.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::build::{self, Built, Ready};
use crate::jobs::Done;
use crate::mode::{self, Mode};
use crate::program::Program;
use crate::run::{self, Outcome};

/// Limit of a native run; programs need about a second at most.
const NATIVE_LIMIT: Duration = Duration::from_secs(20);

/// Builds `program`, runs it natively, then under every one of `modes`: one comparison each. The
/// error has one text per mode that differs.
pub fn check(
    program: &Program,
    cache: &Path,
    product: &Path,
    modes: &[Mode],
) -> Result<Done, String> {
    let built = match build::ready(program, cache)? {
        Ready::Built(built) => built,
        Ready::Missing(why) => return Ok(Done::Missing(why)),
    };
    let native = native(program, &built)?;
    let differences = modes
        .iter()
        .filter_map(|mode| check_mode(program, &built, product, mode, &native));
    let differences: Vec<String> = differences.collect();
    match differences.is_empty() {
        true => Ok(Done::Compared(modes.len(), String::new())),
        false => Err(differences.join("\n")),
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
