//! The parts of the tests that are lists of jobs, in one program: `cargo test -p testkit --test
//! parts -- PART…` runs the named ones, without names all.
//!
//! Each part is a row of [`PARTS`] and a module; a job is run once, and every job is run whatever
//! another one says ([`testkit::jobs`]). [`testkit::scope`] says how much of a part is run.
//!
//! | variable | meaning |
//! |---|---|
//! | `EVERYPATH_SCOPE` | `check`, `gate` (the default) or `wide` |
//! | `EVERYPATH_ONLY` | the only job, by name, also one that the scope leaves out |
//! | `EVERYPATH_BIN` | the product, if not that of the build |
//! | `EVERYPATH_SEED` | seed of the parts that make random programs |
//! | `EVERYPATH_NATIVE` | no product: programs are deterministic, the oracle agrees with the paper |
#![forbid(unsafe_code)]

mod accesses;
mod contexts;
mod counts;
mod instances;
mod lockstep;
mod programs;
mod real;
mod segments;
mod sweep;

use std::process::ExitCode;

use testkit::jobs;

/// Runs a part; the error says what failed.
type Run = fn() -> Result<(), String>;

/// Quick parts first, so that a mistake in every program is seen soon.
const PARTS: &[(&str, Run)] = &[
    ("programs", programs::run),
    ("segments", segments::run),
    ("instances", instances::run),
    ("accesses", accesses::run),
    ("sweep", sweep::run),
    ("lockstep", lockstep::run),
    ("contexts", contexts::run),
    ("counts", counts::run),
    ("real", real::run),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, script] = &words[..]
        && flag == real::ONE_CASE
    {
        return jobs::exit(real::one_case(script.as_ref()));
    }
    jobs::exit(run(&words))
}

fn run(names: &[String]) -> Result<(), String> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !PARTS.iter().any(|part| part.0 == **name))
    {
        let parts: Vec<&str> = PARTS.iter().map(|part| part.0).collect();
        return Err(format!(
            "there is no part {unknown}; there are {}",
            parts.join(", ")
        ));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let mut failed = Vec::new();
    for (name, run) in PARTS.iter().filter(|(name, _)| wanted(name)) {
        println!("== {name}");
        if let Err(text) = run() {
            eprintln!("{name}: {text}");
            failed.push(*name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed parts: {}", failed.join(", "))),
    }
}
