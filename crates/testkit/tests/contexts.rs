//! Calling contexts, three ways against each other:
//!
//! 1. the oracle against the forests printed in paper 000 (`tests/paper`),
//!    which shows that the oracle means what the paper means;
//! 2. `everypath contexts` against the same forests, line by line;
//! 3. `everypath contexts` and `run --count-instructions` against the oracle,
//!    node by node, on every program with `// run: oracle`.
//!
//! `EVERYPATH_ONLY=name` leaves one program, `EVERYPATH_NATIVE=1` only part 1.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use testkit::build::{self, Built};
use testkit::oracle::{self, Options, Recursion};
use testkit::paper::{self, Case};
use testkit::program::{self, Program, missing_feature};
use testkit::run::{self, Ending};
use testkit::tree::{Section, Tree};
use testkit::{mode, pool, tree};

/// One oracle and one product at a time per core.
const WORKERS: usize = 2;
/// Differences shown per program.
const SHOWN: usize = 12;
/// Limit of one run of the product.
const LIMIT: Duration = Duration::from_secs(30);

type Check = fn(&Program, &Built, &Path) -> Result<(), String>;

struct Job {
    program: Program,
    part: &'static str,
    check: Check,
}

fn main() -> ExitCode {
    match run_all() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} failed");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run_all() -> Result<usize, String> {
    let repository = program::repository();
    let discover = |directory: &str| {
        program::discover(&repository.join(directory)).map_err(|error| error.to_string())
    };
    let native_only = std::env::var_os("EVERYPATH_NATIVE").is_some();
    let mut jobs = Vec::new();
    for program in discover("tests/paper")? {
        jobs.push(Job {
            program: program.clone(),
            part: "paper, oracle",
            check: oracle_against_paper,
        });
        if !native_only {
            jobs.push(Job {
                program,
                part: "paper, product",
                check: product_against_paper,
            });
        }
    }
    let programs = if native_only {
        Vec::new()
    } else {
        discover("tests/programs")?
    };
    for program in programs
        .into_iter()
        .filter(|program| program.directives.oracle)
    {
        jobs.push(Job {
            program,
            part: "oracle, product",
            check: product_against_oracle,
        });
    }
    let product = if native_only {
        PathBuf::new()
    } else {
        mode::product(&repository).map_err(|error| error.to_string())?
    };
    let cache = build::cache_directory();
    let failed = pool::run(&jobs, WORKERS, |job| check(job, &cache, &product));
    println!("{} comparisons", jobs.len());
    Ok(failed.into_iter().filter(|&failed| failed).count())
}

/// Runs one comparison; returns whether it failed.
fn check(job: &Job, cache: &Path, product: &Path) -> bool {
    let name = &job.program.name;
    if let Some(feature) = missing_feature(&job.program.directives.needs) {
        println!("skipped {name} ({}): this CPU has no {feature}", job.part);
        return false;
    }
    let result = build::build(&job.program, cache)
        .map_err(|error| error.to_string())
        .and_then(|built| (job.check)(&job.program, &built, product));
    match &result {
        Ok(()) => println!("ok      {name} ({})", job.part),
        Err(text) => println!("FAILED  {name} ({})\n{text}", job.part),
    }
    result.is_err()
}

fn cases(program: &Program) -> Result<Vec<Case>, String> {
    let path = program.source.with_extension("expect.txt");
    paper::load(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn counted(
    program: &Program,
    built: &Built,
    recursion: Recursion,
) -> Result<oracle::Counts, String> {
    let options = Options {
        recursion,
        ..Options::default()
    };
    oracle::count(
        &built.executable,
        &program.directives.args,
        &built.directory,
        options,
    )
    .map_err(|error| format!("oracle: {error}"))
}

/// Infinite k and plain slab forests only: there a k-SF is the context tree.
fn oracle_against_paper(program: &Program, built: &Built, _: &Path) -> Result<(), String> {
    for case in cases(program)?.iter().filter(|case| case.has("--k-inf")) {
        let rolled = !case.has("--unroll-recursion");
        let counts = counted(program, built, Recursion::Unrolled)?;
        let keep: Vec<&str> = case
            .value("--funcs")
            .unwrap_or_default()
            .split(',')
            .collect();
        let mut trees: Vec<Tree> = counts
            .threads
            .iter()
            .map(|thread| thread.contexts.select(&keep, rolled))
            .collect();
        if case.has("--join-threads") {
            trees = vec![counts.joined().select(&keep, rolled)];
        }
        let expected: Vec<&Tree> = case.sections.iter().map(|section| &section.tree).collect();
        same_rows(&trees.iter().collect::<Vec<_>>(), &expected, &case.options)?;
    }
    Ok(())
}

fn product_against_paper(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    for case in cases(program)? {
        let sections = forests(product, program, built, &case.options)?;
        if sections
            .iter()
            .map(|s| s.kind)
            .ne(case.sections.iter().map(|s| s.kind))
        {
            return Err(format!(
                "{}: another number or kind of forests",
                case.options.join(" ")
            ));
        }
        let ours: Vec<&Tree> = sections.iter().map(|section| &section.tree).collect();
        let expected: Vec<&Tree> = case.sections.iter().map(|section| &section.tree).collect();
        same_rows(&ours, &expected, &case.options)?;
    }
    Ok(())
}

fn product_against_oracle(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    let counts = counted(program, built, Recursion::Rolled)?;
    let options = ["--k-inf", "--forest", "ksf", "--join-threads"].map(str::to_owned);
    let mut ours = Tree::default();
    for section in forests(product, program, built, &options)? {
        ours.join(&section.tree);
    }
    let differences = ours.differences(&counts.joined(), SHOWN);
    if !differences.is_empty() {
        return Err(differences.join("\n"));
    }
    // A C library's string functions take other paths at other alignments of
    // arguments and environment, and these lie elsewhere natively: counts are
    // compared for programs that bring their own code only.
    let own_code = program
        .directives
        .build
        .iter()
        .any(|word| word == "-nostdlib");
    if !program.directives.deterministic_counts || !own_code {
        return Ok(());
    }
    let instructions = counted_instructions(product, program, built)?;
    if instructions != counts.instructions() {
        return Err(format!(
            "{instructions} instructions, expected {}",
            counts.instructions()
        ));
    }
    Ok(())
}

/// The forests must be equal line by line, order included.
fn same_rows(ours: &[&Tree], expected: &[&Tree], options: &[String]) -> Result<(), String> {
    if ours
        .iter()
        .map(|tree| tree.rows())
        .eq(expected.iter().map(|tree| tree.rows()))
    {
        return Ok(());
    }
    let text = |trees: &[&Tree]| {
        trees
            .iter()
            .map(|tree| tree.to_text())
            .collect::<Vec<_>>()
            .join("-----\n")
    };
    Err(format!(
        "{}\ngot:\n{}expected:\n{}",
        options.join(" "),
        text(ours),
        text(expected)
    ))
}

/// The product without address randomisation, as the oracle runs programs:
/// some string functions take other paths at other alignments.
fn unrandomised(product: &Path) -> Command {
    let mut command = Command::new("setarch");
    command.arg("-R").arg(product);
    command
}

/// What `everypath contexts` prints with `options`.
fn forests(
    product: &Path,
    program: &Program,
    built: &Built,
    options: &[String],
) -> Result<Vec<Section>, String> {
    let mut command = Command::new(product);
    command
        .args(["contexts", "--quiet", "--full", "--format", "text"])
        .args(options);
    let report = reported(command, program, built)?;
    tree::parse(&report).map_err(|error| error.to_string())
}

/// The instructions that `everypath run --count-instructions` reports.
fn counted_instructions(product: &Path, program: &Program, built: &Built) -> Result<u64, String> {
    let mut command = unrandomised(product);
    command.args(["run", "--quiet", "--count-instructions"]);
    let report = reported(command, program, built)?;
    instructions_in(&report).ok_or_else(|| format!("no instruction count in the report:\n{report}"))
}

/// The largest number that stands before the word `instructions`.
fn instructions_in(report: &str) -> Option<u64> {
    let words: Vec<&str> = report.split_whitespace().collect();
    let numbers = words
        .windows(2)
        .filter(|pair| pair[1].starts_with("instructions"));
    numbers
        .filter_map(|pair| pair[0].replace([',', '_', '\''], "").parse().ok())
        .max()
}

/// Runs `command` on the program and returns the report it wrote.
fn reported(mut command: Command, program: &Program, built: &Built) -> Result<String, String> {
    let mut file = built.directory.clone().into_os_string();
    file.push(format!(".{:?}.report", std::thread::current().id()).replace(['(', ')'], ""));
    command
        .arg("--report")
        .arg(&file)
        .arg("--")
        .arg(&built.executable);
    command
        .args(&program.directives.args)
        .current_dir(&built.directory);
    let outcome = run::run(command, &program.directives.stdin, LIMIT)
        .map_err(|error| format!("the product cannot be started: {error}"))?;
    let report = std::fs::read_to_string(&file);
    // Absent if the run failed.
    let _ = std::fs::remove_file(&file);
    if outcome.ending == Ending::TimedOut || matches!(outcome.ending, Ending::Exit(125..=127)) {
        return Err(format!(
            "{:?}: {}",
            outcome.ending,
            String::from_utf8_lossy(&outcome.stderr)
        ));
    }
    report.map_err(|error| format!("no report was written: {error}"))
}
