//! Every program of `tests/programs` and `tests/paper`, in every mode of
//! `testkit::mode::MODES`, must behave as it does natively.
//!
//! `EVERYPATH_ONLY=name` runs one program, `EVERYPATH_BIN` names another
//! product, `EVERYPATH_NATIVE=1` checks only that the programs themselves are
//! deterministic (twenty native runs each, no product needed).
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use testkit::program::{Program, missing_feature};
use testkit::suite::{self, Verdict};
use testkit::{build, jobs, mode, program};

/// Native runs that must be equal under `EVERYPATH_NATIVE`.
const NATIVE_ROUNDS: usize = 20;

fn main() -> ExitCode {
    jobs::exit(run())
}

fn run() -> Result<(), String> {
    let repository = program::repository();
    let mut programs = Vec::new();
    for directory in ["tests/programs", "tests/paper"] {
        let found = program::discover(&repository.join(directory));
        programs.extend(found.map_err(|error| error.to_string())?);
    }
    if programs.is_empty() {
        return Err("no program found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let cache = build::cache_directory();
    let name = |program: &Program| program.name.clone();
    if std::env::var_os("EVERYPATH_NATIVE").is_some() {
        return jobs::run(&programs, "programs", name, |program, _| {
            native_only(program, &cache)?.line(&program.name)
        });
    }
    let product = mode::product(&repository).map_err(|error| error.to_string())?;
    jobs::run(&programs, "programs", name, |program, again| {
        again.try_up_to_three(&program.name, || {
            suite::check(program, &cache, &product, mode::MODES).line(&program.name)
        })
    })
}

fn native_only(program: &Program, cache: &Path) -> Result<Verdict, String> {
    if let Some(feature) = missing_feature(&program.directives.needs) {
        return Ok(Verdict::Skipped(format!("this CPU has no {feature}")));
    }
    let built = build::build(program, cache).map_err(|error| error.to_string())?;
    let first = suite::native(program, &built)?;
    for round in 1..NATIVE_ROUNDS {
        if let Some(text) = suite::native(program, &built)?.difference(&first) {
            return Err(format!("native round {round}: {text}"));
        }
    }
    Ok(Verdict::Passed)
}
