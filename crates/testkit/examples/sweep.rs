//! All crossings of `tests/sweep`, some times over; `cargo xtask sweep` starts it.
//!
//! `sweep [--rounds=N] [--load=N] [--known]`: each crossing in every mode, N
//! rounds, beside N busy threads. `--known` adds the programs of
//! `tests/programs`. What differs is printed; the exit status is then 1.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::program::Program;
use testkit::suite::Verdict;
use testkit::{build, mode, pool, program, suite, sweep};

/// Two cores.
const WORKERS: usize = 2;

#[derive(Clone, Copy)]
struct Options {
    rounds: u64,
    load: u64,
    known: bool,
}

fn main() -> ExitCode {
    match options().and_then(run) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("sweep: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        rounds: 1,
        load: 0,
        known: false,
    };
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let number = || value.parse().map_err(|_| format!("{word}: no number"));
        match name {
            "--rounds" => options.rounds = number()?,
            "--load" => options.load = number()?,
            "--known" => options.known = true,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(options)
}

/// How many runs of a program's modes differed.
fn run(options: Options) -> Result<usize, String> {
    let mut programs = sweep::discover(&sweep::directory()).map_err(|error| error.to_string())?;
    if options.known {
        let known = program::discover(&program::repository().join("tests/programs"));
        programs.extend(known.map_err(|error| error.to_string())?);
    }
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let cache = build::cache_directory();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..options.load {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let failures = (1..=options.rounds).map(|round| {
            let check = |program: &Program| suite::check(program, &cache, &product, mode::MODES);
            let verdicts = pool::run(&programs, WORKERS, check);
            let failures = tell(&programs, &verdicts);
            println!(
                "round {round}: {} programs in {} modes, {failures} differ",
                programs.len(),
                mode::MODES.len()
            );
            failures
        });
        let failures = failures.sum();
        done.store(true, Ordering::Relaxed);
        Ok(failures)
    })
}

/// Prints what differed or was skipped; how many differed.
fn tell(programs: &[Program], verdicts: &[Verdict]) -> usize {
    let mut failures = 0;
    for (program, verdict) in programs.iter().zip(verdicts) {
        match verdict {
            Verdict::Passed => {}
            Verdict::Skipped(why) => println!("skipped {}: {why}", program.name),
            Verdict::Failed(texts) => {
                println!("FAILED  {}\n{}", program.name, texts.join("\n"));
                failures += 1;
            }
        }
    }
    failures
}
