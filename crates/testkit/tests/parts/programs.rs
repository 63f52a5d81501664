//! Every program of `tests/programs` and `tests/paper`, in the modes of the scope
//! ([`testkit::mode::of`]), must behave as it does natively.
//!
//! `EVERYPATH_NATIVE` checks only that the programs themselves are deterministic (twenty native
//! runs each, no product needed).

use std::path::Path;

use testkit::build::{self, Ready};
use testkit::jobs::{self, Done};
use testkit::program::Program;
use testkit::scope::{SMOKE, Scope};
use testkit::{mode, program, suite};

/// Native runs that must be equal under `EVERYPATH_NATIVE`.
const NATIVE_ROUNDS: usize = 20;

pub fn run() -> Result<(), String> {
    let repository = program::repository();
    let mut programs = Vec::new();
    for directory in ["tests/programs", "tests/paper"] {
        let found = program::discover(&repository.join(directory));
        programs.extend(found.map_err(|error| error.to_string())?);
    }
    if programs.is_empty() {
        return Err("no program found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let scope = Scope::current();
    let cache = build::cache_directory();
    let name = |program: &Program| program.name.clone();
    if std::env::var_os("EVERYPATH_NATIVE").is_some() {
        return jobs::run(&programs, "native runs", 0, name, |program| {
            native_only(program, &cache)
        });
    }
    let all = programs.len();
    if scope != Scope::Wide && std::env::var_os("EVERYPATH_ONLY").is_none() {
        programs.retain(|program| match &program.directives.wide {
            Some(why) => {
                println!("wide    {}: {why}", program.name);
                false
            }
            None => true,
        });
    }
    let timed = (all - programs.len()) * mode::MODES.len();
    let mut left = timed + (mode::MODES.len() - mode::of(scope, "").len()) * programs.len();
    if scope == Scope::Check {
        let (chosen, skipped) = scope.choose(programs, &SMOKE, |program| &program.name);
        programs = chosen;
        left += skipped * mode::of(scope, "").len();
    }
    let product = mode::product(&repository).map_err(|error| error.to_string())?;
    jobs::run(&programs, "runs of programs", left, name, |program| {
        let modes = mode::of(scope, &program.name);
        suite::check(program, &cache, &product, &modes)
    })
}

fn native_only(program: &Program, cache: &Path) -> Result<Done, String> {
    let built = match build::ready(program, cache)? {
        Ready::Built(built) => built,
        Ready::Missing(why) => return Ok(Done::Missing(why)),
    };
    let first = suite::native(program, &built)?;
    for round in 1..NATIVE_ROUNDS {
        if let Some(text) = suite::native(program, &built)?.difference(&first) {
            return Err(format!("native round {round}: {text}"));
        }
    }
    Ok(Done::Compared(NATIVE_ROUNDS, String::new()))
}
