//! Scripts of `tests/real`, natively and in the modes of the scope
//! ([`testkit::mode::of_real`]): standard output, exit status and the files it
//! leaves must be the same.
//!
//! `EVERYPATH_ONLY=name` runs one script, `EVERYPATH_BIN` names another
//! product. Each case runs in a process of its own, this program started
//! again with the script's name, because it adopts what the runs leave behind.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::jobs::{self, Done};
use testkit::real::{self, Case};
use testkit::scope::{REAL, Scope};
use testkit::{build, mode, program};

/// Before the name of the script in the arguments of a case's own process.
pub const ONE_CASE: &str = "--case";

pub fn run() -> Result<(), String> {
    let directory = program::repository().join("tests/real");
    let cases = real::discover(&directory).map_err(|error| error.to_string())?;
    if cases.is_empty() {
        return Err("no case found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let name = |case: &Case| case.name.clone();
    let scope = Scope::current();
    let modes = mode::of_real(scope).len();
    let scripts = cases.len();
    let (cases, skipped) = scope.choose(cases, &REAL, |case| &case.name);
    let left = scripts * mode::of_real(Scope::Wide).len() - (scripts - skipped) * modes;
    jobs::run(
        &cases,
        "runs of real programs",
        left,
        name,
        |case| match own_process(case) {
            Ok(times) => Ok(Done::Compared(modes, format!(" ({times})"))),
            Err(text) if text.contains(": no such command") && build::may_lack_tools() => Ok(
                Done::Missing(text.lines().last().unwrap_or_default().to_owned()),
            ),
            Err(text) => Err(text),
        },
    )
}

/// Runs `case` in a process of its own; what that says.
fn own_process(case: &Case) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(ONE_CASE).arg(&case.script).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(text),
    }
}

pub fn one_case(script: &Path) -> Result<(), String> {
    let case = real::load(script).map_err(|error| error.to_string())?;
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let base = build::cache_directory().join("real").join(&case.name);
    match real::check(&case, &base, &product, &mode::of_real(Scope::current())) {
        Ok(times) => {
            println!("seconds: {times}");
            Ok(())
        }
        Err(texts) => Err(texts.join("\n")),
    }
}
