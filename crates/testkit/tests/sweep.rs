//! A sample of the crossings of kernel interfaces and instruction classes
//! (`tests/sweep`), in every mode; `cargo xtask sweep` runs all of them.
//!
//! The sample is another one each time; its seed is printed, and
//! `EVERYPATH_SEED=n` gives the same one again. Nothing is run twice.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::SystemTime;

use testkit::program::Program;
use testkit::{build, jobs, mode, program, suite, sweep};

fn main() -> ExitCode {
    jobs::exit(run())
}

fn run() -> Result<(), String> {
    let crossings = sweep::discover(&sweep::directory()).map_err(|error| error.to_string())?;
    if crossings.is_empty() {
        return Err("no crossing found; is EVERYPATH_ONLY misspelt?".to_owned());
    }
    let seed = seed()?;
    println!("EVERYPATH_SEED={seed}");
    let sample = sweep::sample(crossings, seed);
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let cache = build::cache_directory();
    let name = |program: &Program| program.name.clone();
    jobs::run(&sample, "crossings", name, |program, _| {
        suite::check(program, &cache, &product, mode::MODES).line(&program.name)
    })
}

/// `EVERYPATH_SEED`, or one of the time.
fn seed() -> Result<u64, String> {
    match std::env::var("EVERYPATH_SEED") {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("EVERYPATH_SEED={text} is no number")),
        Err(_) => Ok(SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(1, |time| time.as_secs())),
    }
}
