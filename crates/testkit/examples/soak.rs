//! Random programs for a number of minutes; `cargo xtask soak` starts it.
//!
//! `soak [--minutes=N] [--programs=N] [--seed=S] [--text]`: programs S, S+1...
//! `--text` prints the program of seed S and checks nothing. After every dozen comes one
//! of tests/programs, in a random mode. What diverges is kept in `soak/` beside the build, whole and reduced, and named with the command that
//! shows it; the exit status is then 1.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use testkit::mode::Mode;
use testkit::program::Program;
use testkit::soak::check::{self, Bench, Divergence, Finding};
use testkit::soak::generate::{Features, generate};
use testkit::soak::random::Random;
use testkit::soak::reduce::reduce;
use testkit::{build, mode, program, suite};

/// Time for one reduction.
const REDUCTION: Duration = Duration::from_secs(90);
/// One program of tests/programs after so many random ones.
const KNOWN_EVERY: u64 = 12;

struct Options {
    minutes: u64,
    programs: u64,
    seed: u64,
    text: bool,
}

#[derive(Default)]
struct Tally {
    programs: u64,
    known: u64,
    runs: usize,
    unfit: u64,
    divergences: u64,
}

fn main() -> ExitCode {
    match options().and_then(|options| soak(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("soak: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        minutes: 5,
        programs: u64::MAX,
        seed: 1,
        text: false,
    };
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let number = || value.parse().map_err(|_| format!("{word}: no number"));
        match name {
            "--minutes" => options.minutes = number()?,
            "--programs" => options.programs = number()?,
            "--seed" => options.seed = number()?,
            "--text" => options.text = true,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(options)
}

fn soak(options: &Options) -> Result<u64, String> {
    let features = Features::of_this_cpu();
    if options.text {
        print!(
            "{}",
            generate(options.seed, features).text(&BTreeSet::new())
        );
        return Ok(0);
    }
    let repository = program::repository();
    let product = mode::product(&repository).map_err(|error| error.to_string())?;
    let cache = build::cache_directory();
    let folder = cache.with_file_name("soak");
    let bench = Bench { product, folder };
    let known = program::discover(&repository.join("tests/programs"));
    let known = known.map_err(|error| error.to_string())?;
    let start = Instant::now();
    let mut tally = Tally::default();
    let mut told = start;
    for seed in options.seed.. {
        let minutes = start.elapsed().as_secs() / 60;
        if minutes >= options.minutes || tally.programs >= options.programs {
            break;
        }
        if seed % KNOWN_EVERY == 0 {
            known_program(&known, seed, &bench, &cache, &mut tally);
        }
        random_program(seed, features, &bench, &mut tally)?;
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            println!("{}", line(&tally, seed, start));
        }
    }
    println!("{}", line(&tally, options.seed + tally.programs - 1, start));
    Ok(tally.divergences)
}

fn line(tally: &Tally, seed: u64, start: Instant) -> String {
    format!(
        "{} s: seed {seed}, {} random programs, {} of tests/programs, {} runs, {} unfit, {} divergences",
        start.elapsed().as_secs(),
        tally.programs,
        tally.known,
        tally.runs,
        tally.unfit,
        tally.divergences
    )
}

fn random_program(
    seed: u64,
    features: Features,
    bench: &Bench,
    tally: &mut Tally,
) -> Result<(), String> {
    let source = generate(seed, features);
    let text = source.text(&BTreeSet::new());
    tally.programs += 1;
    match bench.check(&text, &check::modes(seed), source.shape.stepped) {
        Finding::Agrees(runs) => tally.runs += runs,
        Finding::Unfit(why) => {
            tally.unfit += 1;
            println!("unfit: seed {seed}: {why}");
        }
        Finding::Diverges(divergence) => {
            tally.divergences += 1;
            let kept = check::kept(&bench.folder, seed, "");
            std::fs::write(&kept, &text).map_err(|error| error.to_string())?;
            tell(seed, &kept, &divergence);
            let left_out = reduce(&source, &divergence, bench, Instant::now() + REDUCTION);
            let small = check::kept(&bench.folder, seed, "_small");
            std::fs::write(&small, source.text(&left_out)).map_err(|error| error.to_string())?;
            println!(
                "  reduced: {} of {} pieces: {}",
                source.pieces() - left_out.len(),
                source.pieces(),
                small.display()
            );
        }
    }
    Ok(())
}

fn tell(seed: u64, kept: &Path, divergence: &Divergence) {
    println!(
        "DIVERGES: seed {seed}, {}: {}\n  again: cargo xtask soak --seed {seed} --programs 1\n  kept: {}",
        divergence.arguments.join(" "),
        divergence.difference,
        kept.display()
    );
}

/// One of the programs of tests/programs, in a mode chosen by `seed`.
fn known_program(known: &[Program], seed: u64, bench: &Bench, cache: &Path, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let chosen = random.pick(known);
    let mode: &[Mode] = std::slice::from_ref(random.pick(mode::MODES));
    tally.known += 1;
    tally.runs += 1;
    let check = || suite::check(chosen, cache, &bench.product, mode).err();
    let Some(text) = check() else { return };
    // Signals that come by the clock leave a program no time on a busy machine.
    if text.contains("ended TimedOut") && check().is_none() {
        println!("slow: {}: it ended in time when run again", chosen.name);
        return;
    }
    tally.divergences += 1;
    println!("DIVERGES: {}: {}", chosen.name, text);
}
