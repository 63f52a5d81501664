//! Exact instruction counts of programs with a C library.
//!
//! Problem: string functions take other paths at other alignments of stack and
//! environment, and these lie elsewhere natively and translated, so the counts
//! of two whole runs differ rightly.
//! Approach: a program does a round of work as often as it is told to. The
//! difference between two numbers of rounds holds nothing of start and end, and
//! must be the same stepped and translated, to the instruction.

use testkit::build::{self, Built};
use testkit::oracle::{self, Options};
use testkit::product::Run;
use testkit::{mode, program};

/// Rounds of the two runs: numbers of one digit, so that arguments are as long.
const FEW: u32 = 2;
const MANY: u32 = 4;

/// Compares the rounds of `work`, in the program's `output` of its directory.
fn compare(output: &str, work: &str) {
    let repository = program::repository();
    let source = repository.join("tests/programs/count_rounds.c");
    let program = program::load(source).expect("the program is well formed");
    let mut built = build::build(&program, &build::cache_directory()).expect("cc is installed");
    built.executable = built.directory.join(output);
    let product = mode::product(&repository).unwrap_or_else(|error| panic!("{error}"));
    let translated = |rounds: u32| {
        let args = [rounds.to_string(), work.to_owned()];
        let run = Run {
            product: &product,
            built: &built,
            args: &args,
            stdin: "",
        };
        run.instructions().unwrap_or_else(|error| panic!("{error}"))
    };
    let (few, many) = (stepped(&built, FEW, work), stepped(&built, MANY, work));
    let native = many - few;
    assert!(
        native > 150,
        "{work}: {native} instructions in {} rounds are too few to say anything",
        MANY - FEW
    );
    assert_eq!(
        translated(MANY) - translated(FEW),
        native,
        "{output}, {work}: instructions of {} rounds, expected those of the stepped run",
        MANY - FEW
    );
}

fn stepped(built: &Built, rounds: u32, work: &str) -> u64 {
    let args = [rounds.to_string(), work.to_owned()];
    let counts = oracle::count(
        &built.executable,
        &args,
        &built.directory,
        Options::default(),
    );
    counts.expect("the program can be stepped").instructions()
}

#[test]
fn library_functions_of_a_static_program() {
    compare("static", "library");
}

#[test]
#[ignore = "wide: the same functions of a static program are in the gate"]
fn library_functions_of_a_dynamic_program() {
    compare("count_rounds", "library");
}

#[test]
fn repeated_string_instructions() {
    compare("static", "repeats");
}

#[test]
#[ignore = "wide: counts of handlers are compared by the part `counts`"]
fn signals_and_their_handlers() {
    compare("static", "signals");
}

#[test]
fn stubs_that_are_bound_while_they_run() {
    compare("static", "stubs");
}

#[test]
#[ignore = "wide: signals and library functions are in the gate"]
fn two_threads() {
    compare("static", "threads");
}
