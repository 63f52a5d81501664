//! Every script of `tests/real`, natively and in every mode of
//! `testkit::mode::REAL_MODES`: standard output, exit status and the files it
//! leaves must be the same.
//!
//! `EVERYPATH_ONLY=name` runs one script, `EVERYPATH_BIN` names another
//! product. Each case runs in a process of its own, this program started
//! again with the script's name, because it adopts what the runs leave behind.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use testkit::again::Again;
use testkit::real::{self, Case};
use testkit::{build, mode, pool, program};

/// One case per core; a run under the product needs one to two.
const WORKERS: usize = 2;

/// Before the name of the script in the arguments of a case's own process.
const ONE_CASE: &str = "--case";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let result = match arguments.iter().position(|word| word == ONE_CASE) {
        Some(place) => one_case(Path::new(&arguments[place + 1])),
        None => all_cases(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn all_cases() -> Result<(), String> {
    let directory = program::repository().join("tests/real");
    let cases = real::discover(&directory).map_err(|error| error.to_string())?;
    if cases.is_empty() {
        return Err("no case found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let again = Again::default();
    let passed = pool::run(&cases, WORKERS, |case| own_process(case, &again));
    println!("{} real programs", cases.len());
    let failed: Vec<&str> = cases
        .iter()
        .zip(&passed)
        .filter(|&(_, &passed)| !passed)
        .map(|(case, _)| case.name.as_str())
        .collect();
    again.verdict()?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("failed: {}", failed.join(" ")))
    }
}

/// Runs `case` in a process of its own and prints what that says.
fn own_process(case: &Case, again: &Again) -> bool {
    let attempt = || {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg(ONE_CASE).arg(&case.script).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(text)
        }
    };
    match again.try_up_to_three(&case.name, attempt) {
        Ok(text) => {
            print!("{text}");
            true
        }
        Err(text) => {
            println!("FAILED  {}\n{text}", case.name);
            false
        }
    }
}

fn one_case(script: &Path) -> Result<(), String> {
    let case = real::load(script).map_err(|error| error.to_string())?;
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let base = build::cache_directory().join("real").join(&case.name);
    match real::check(&case, &base, &product, mode::REAL_MODES) {
        Ok(times) => {
            println!("ok      {} (seconds: {times})", case.name);
            Ok(())
        }
        Err(texts) => Err(texts.join("\n")),
    }
}
