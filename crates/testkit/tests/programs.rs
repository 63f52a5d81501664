//! Every program of `tests/programs` and `tests/paper`, in every mode of
//! `testkit::mode::MODES`, must behave as it does natively.
//!
//! `EVERYPATH_ONLY=name` runs one program, `EVERYPATH_BIN` names another
//! product, `EVERYPATH_NATIVE=1` checks only that the programs themselves are
//! deterministic (twenty native runs each, no product needed).
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use testkit::again::Again;
use testkit::program::{Program, missing_feature};
use testkit::suite::{self, Verdict};
use testkit::{build, mode, pool, program};

/// One program per core; a run under the product needs one to two.
const WORKERS: usize = 2;

/// Native runs that must be equal under `EVERYPATH_NATIVE`.
const NATIVE_ROUNDS: usize = 20;

fn main() -> ExitCode {
    match run() {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("failed: {}", failed.join(" "));
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Vec<String>, String> {
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
    let verdicts = if std::env::var_os("EVERYPATH_NATIVE").is_some() {
        pool::run(&programs, WORKERS, |program| {
            reported(program, native_only(program, &cache))
        })
    } else {
        let product = mode::product(&repository).map_err(|error| error.to_string())?;
        let again = Again::default();
        let verdicts = pool::run(&programs, WORKERS, |program| {
            let check = || match suite::check(program, &cache, &product, mode::MODES) {
                Verdict::Failed(texts) => Err(texts.join("\n")),
                other => Ok(other),
            };
            let verdict = again.try_up_to_three(&program.name, check);
            reported(
                program,
                verdict.unwrap_or_else(|text| Verdict::Failed(vec![text])),
            )
        });
        again.verdict()?;
        verdicts
    };
    let failed = programs
        .iter()
        .zip(&verdicts)
        .filter(|(_, v)| matches!(v, Verdict::Failed(_)));
    println!("{} programs", programs.len());
    Ok(failed.map(|(program, _)| program.name.clone()).collect())
}

fn reported(program: &Program, verdict: Verdict) -> Verdict {
    match &verdict {
        Verdict::Passed => println!("ok      {}", program.name),
        Verdict::Skipped(why) => println!("skipped {}: {why}", program.name),
        Verdict::Failed(texts) => println!("FAILED  {}\n{}", program.name, texts.join("\n")),
    }
    verdict
}

fn native_only(program: &Program, cache: &Path) -> Verdict {
    if let Some(feature) = missing_feature(&program.directives.needs) {
        return Verdict::Skipped(format!("this CPU has no {feature}"));
    }
    let attempt = || -> Result<(), String> {
        let built = build::build(program, cache).map_err(|error| error.to_string())?;
        let first = suite::native(program, &built)?;
        for round in 1..NATIVE_ROUNDS {
            if let Some(text) = suite::native(program, &built)?.difference(&first) {
                return Err(format!("native round {round}: {text}"));
            }
        }
        Ok(())
    };
    match attempt() {
        Ok(()) => Verdict::Passed,
        Err(text) => Verdict::Failed(vec![text]),
    }
}
