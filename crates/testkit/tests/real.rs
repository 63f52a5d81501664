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

use testkit::real::{self, Case};
use testkit::{build, jobs, mode, program};

/// Before the name of the script in the arguments of a case's own process.
const ONE_CASE: &str = "--case";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|word| word == ONE_CASE);
    jobs::exit(match place {
        Some(place) => one_case(Path::new(&arguments[place + 1])),
        None => all_cases(),
    })
}

fn all_cases() -> Result<(), String> {
    let directory = program::repository().join("tests/real");
    let cases = real::discover(&directory).map_err(|error| error.to_string())?;
    if cases.is_empty() {
        return Err("no case found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let name = |case: &Case| case.name.clone();
    jobs::run(&cases, "real programs", name, |case, again| {
        again.try_up_to_three(&case.name, || own_process(case))
    })
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
