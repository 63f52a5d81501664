//! The oracle against counts made by hand, from the source of three programs
//! in assembly: every instruction of theirs is known.

use testkit::oracle::{self, Counts, Options};
use testkit::{build, program};

fn counted(name: &str) -> Counts {
    let path = program::repository().join(format!("tests/programs/{name}.S"));
    let program = program::load(path).expect("the program is there and well formed");
    let built = build::build(&program, &build::cache_directory()).expect("cc is installed");
    oracle::count(&built.executable, &[], &built.directory, Options::default())
        .expect("ptrace works")
}

#[test]
fn the_smallest_program_retires_three_instructions() {
    assert_eq!(counted("load_exit_status").instructions(), 3);
}

#[test]
fn a_loop_of_calls_is_counted_exactly() {
    // 2 before the loop, 5 rounds of 16 (with both callees), 3 behind it.
    let counts = counted("flow_call_site_self");
    assert_eq!(counts.instructions(), 2 + 5 * 16 + 3);
    let rows = [
        (0, "[thread]", 1),
        (1, "_start", 1),
        (2, "skipper", 5),
        (2, "outer", 5),
    ];
    assert_eq!(counts.joined().rows(), rows);
}

#[test]
fn jumps_between_functions_begin_and_end_activations() {
    let counts = counted("contexts_jumps");
    // A `rep stosb` of a hundred bytes is one of these.
    assert_eq!(counts.instructions(), 60);
    let expected = [
        (0, "[thread]", 1),
        (1, "_start", 1),
        (2, "tail", 1),
        (3, "leaf", 1),
        (2, "falls", 1),
        (3, "landing", 1),
        (2, "leaves", 1),
        (3, "leaf", 1),
        (2, "one", 1),
        (2, "dispatch", 3),
        (3, "three", 1),
        (4, "one", 1),
        (3, "two", 1),
        (3, "one", 1),
        (2, "drops", 1),
        (2, "through_return", 1),
        (3, "one", 1),
    ];
    assert_eq!(counts.joined().rows(), expected);
}
