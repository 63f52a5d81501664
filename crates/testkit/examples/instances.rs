//! Random instances of instructions in every mode; `cargo xtask instances` starts it.
//!
//! `instances [--seed=N] [--rounds=N] [--count=N] [--mode=NAME]`: round n has the instances of
//! seed N + n. What differs is printed, made smaller; the exit status is then 1.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::process::ExitCode;

use testkit::instances::{check::Bench, make, reduce};
use testkit::mode::Mode;
use testkit::{build, mode, pool, program};

/// Two cores.
const WORKERS: usize = 2;
/// Findings of a round and mode that are made smaller.
const SHOWN: usize = 6;

struct Options {
    seed: u64,
    rounds: u64,
    count: usize,
    mode: Option<String>,
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("instances: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        rounds: 5,
        count: 20_000,
        mode: None,
    };
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let number = || value.parse().map_err(|_| format!("{word}: no number"));
        match name {
            "--seed" => options.seed = number()?,
            "--rounds" => options.rounds = number()?,
            "--count" => options.count = number()? as usize,
            "--mode" => options.mode = Some(value.to_owned()),
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(options)
}

/// Runs all rounds and returns the number of instances that differ.
fn run(options: &Options) -> Result<usize, String> {
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let bench = Bench::new(product, build::cache_directory().join("instances"))?;
    let wanted = |mode: &&Mode| options.mode.as_ref().is_none_or(|name| name == mode.name);
    let modes: Vec<&Mode> = mode::MODES.iter().filter(wanted).collect();
    let mut differ = 0;
    for seed in options.seed..options.seed + options.rounds {
        let all = make::instances(seed, options.count);
        let results = pool::run(&modes, WORKERS, |mode| {
            let findings = bench.check(&all, mode)?;
            let numbers: BTreeSet<usize> = findings.iter().map(|finding| finding.number).collect();
            for finding in findings.iter().take(SHOWN) {
                println!("{}", reduce::report(&bench, &all, finding, mode)?);
            }
            Ok::<_, String>(numbers.len())
        });
        let mut round = 0;
        for (mode, result) in modes.iter().zip(results) {
            let found = result?;
            if found > 0 {
                println!("seed {seed}: {found} differ in {}", mode.name);
            }
            round += found;
        }
        println!(
            "seed {seed}: {} instances in {} modes, {round} differ",
            all.len(),
            modes.len()
        );
        differ += round;
    }
    Ok(differ)
}
