//! Kills at random moments; `cargo xtask kills` starts it.
//!
//! `kills [--rounds=N] [--seed=S] [--memory]`: prints a table of what was left, and exits with 1
//! if that was once no prefix of what the program executes. With `--memory` the kernel kills,
//! for want of it.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use testkit::kills::{Bench, Found, Victim};
use testkit::soak::random::Random;
use testkit::{mode, program};

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("kills: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize, String> {
    let (mut rounds, mut seed) = (300, 1);
    let mut victims = &Victim::ALL[..];
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let number = || value.parse().map_err(|_| format!("{word}: no number"));
        match name {
            "--rounds" => rounds = number()?,
            "--seed" => seed = number()?,
            "--memory" => victims = &Victim::FOR_MEMORY,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let mut bench = Bench::new(product, 4)?;
    let whole: usize = bench.lengths().iter().sum();
    println!("reference: instructions {:?}", bench.lengths());
    let mut random = Random::new(seed);
    let (mut found, mut failed) = (Vec::new(), 0);
    for round in 0..rounds {
        let victim = *random.pick(victims);
        match bench.round(victim, &mut random) {
            Ok(round) => found.push(round),
            Err(error) => {
                failed += 1;
                println!("round {round}, {victim:?}: {error}");
            }
        }
    }
    println!(
        "\n| killed | rounds | no file yet | torn chunk | all of it | instructions, median | last part before the kill, median, most |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for &victim in victims {
        let of = found.iter().filter(|found| found.victim == victim);
        println!("{}", row(victim, of.collect(), whole as u64));
    }
    println!("\n{rounds} rounds, {failed} that left no prefix");
    Ok(failed as usize)
}

fn row(victim: Victim, found: Vec<&Found>, whole: u64) -> String {
    let count = |is: &dyn Fn(&Found) -> bool| found.iter().filter(|found| is(found)).count();
    let mut instructions: Vec<u64> = found.iter().map(|found| found.instructions).collect();
    instructions.sort_unstable();
    let mut behind: Vec<Duration> = found.iter().filter_map(|found| found.behind).collect();
    behind.sort_unstable();
    let middle = |len: usize| len / 2;
    format!(
        "| {victim:?} | {} | {} | {} | {} | {} | {} ms, {} ms |",
        found.len(),
        count(&|found| found.threads == 0),
        count(&|found| found.torn > 0),
        count(&|found| found.instructions == whole),
        instructions.get(middle(instructions.len())).unwrap_or(&0),
        behind
            .get(middle(behind.len()))
            .map_or(0, Duration::as_millis),
        behind.last().map_or(0, Duration::as_millis),
    )
}
