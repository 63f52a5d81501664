//! Crossings of kernel interfaces and instruction classes (`tests/sweep`): a fixed sample in the
//! modes of the gate, or all of them in every mode (`wide`).
//!
//! `EVERYPATH_SEED=n` gives another sample.

use testkit::program::Program;
use testkit::scope::Scope;
use testkit::{build, jobs, mode, program, suite, sweep};

/// The sample of the gate.
const SEED: u64 = 1;

pub fn run() -> Result<(), String> {
    let crossings = sweep::discover(&sweep::directory()).map_err(|error| error.to_string())?;
    if crossings.is_empty() {
        return Err("no crossing found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let scope = Scope::current();
    let all = crossings.len() * mode::MODES.len();
    let crossings = match scope {
        Scope::Wide => crossings,
        _ => sweep::sample(crossings, seed()?),
    };
    let left = all - crossings.len() * mode::of(scope, "").len();
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let cache = build::cache_directory();
    let name = |program: &Program| program.name.clone();
    jobs::run(&crossings, "runs of crossings", left, name, |program| {
        let modes = mode::of(scope, &program.name);
        suite::check(program, &cache, &product, &modes)
    })
}

/// `EVERYPATH_SEED`, or the gate's.
fn seed() -> Result<u64, String> {
    match std::env::var("EVERYPATH_SEED") {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("EVERYPATH_SEED={text} is no number")),
        Err(_) => Ok(SEED),
    }
}
