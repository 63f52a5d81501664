//! Figures that must not grow unseen between versions: exits from the cache, bytes of
//! emitted code, memory of the engine. Counts, not times: they are the same on
//! every machine and under every load. Where counts of translations are compared, code is
//! not laid out anew, which the clock decides (`--steady`).

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::build::{self, Built};
use testkit::product::Run;
use testkit::{mode, program};

/// Modes whose emitted code differs.
const MODES: [&[&str]; 5] = [
    &["run", "--engine-stats"],
    &["run", "--count-instructions", "--engine-stats"],
    &[
        "contexts",
        "--cost",
        "calls",
        "--engine-stats",
        "--top",
        "0",
    ],
    &["contexts", "--engine-stats", "--top", "0"],
    &[
        "contexts",
        "--mode",
        "intra",
        "-k",
        "3",
        "--engine-stats",
        "--top",
        "0",
    ],
];

const STEADY: &[&str] = &["--steady"];

/// The report of the product on a program.
fn report(mode: &[&str], executable: &Path, args: &[&str]) -> String {
    let product = mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"));
    let directory = build::cache_directory().join(format!("gates-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the build directory is writable");
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let built = Built {
        directory,
        executable: executable.to_owned(),
    };
    let run = Run {
        product: &product,
        built: &built,
        args: &args,
        stdin: "",
    };
    run.report(mode).unwrap_or_else(|error| panic!("{error}"))
}

/// The statistic called `name` of the only process.
fn statistic(report: &str, name: &str) -> u64 {
    let line = report
        .lines()
        .find(|line| line.trim_end().ends_with(&format!("  {name}")));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.replace(',', "").parse().ok())
        .unwrap_or_else(|| panic!("no '{name}' in:\n{report}"))
}

/// `benches/programs/NAME.c`, compiled.
fn compiled(name: &str) -> PathBuf {
    let program = build::cache_directory().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(build::cache_directory()).expect("the build directory is writable");
    let source = program::repository().join(format!("benches/programs/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(&program).arg(source);
    assert!(compiler.status().expect("cc is installed").success());
    program
}

/// A program of assembly, without a C library: what is translated of it is known.
fn assembled(name: &str, text: &str) -> PathBuf {
    std::fs::create_dir_all(build::cache_directory()).expect("the build directory is writable");
    let program = build::cache_directory().join(format!("{name}-{}", std::process::id()));
    let source = program.with_extension("s");
    std::fs::write(&source, text).expect("the build directory is writable");
    let mut compiler = Command::new("cc");
    compiler.args(["-nostdlib", "-static", "-o"]);
    compiler.arg(&program).arg(source);
    assert!(compiler.status().expect("cc is installed").success());
    program
}

/// Exits that what is printed may take more or less: other digits.
const PRINTING: u64 = 60;

/// Jumps, calls, returns, indirect calls and jumps: once their code is
/// translated and linked, they never leave the cache again.
#[test]
fn hot_code_stays_in_the_cache() {
    let program = compiled("edges");
    for mode in MODES {
        let exits = |rounds: &str| {
            let report = report(&[mode, STEADY].concat(), &program, &[rounds, "hot"]);
            let kinds = ["direct", "indirect", "event"];
            let exits = kinds.map(|kind| statistic(&report, &format!("cache exits, {kind}")));
            exits.iter().sum::<u64>()
        };
        let (few, many) = (exits("1000"), exits("300000"));
        assert!(many.abs_diff(few) <= PRINTING, "{mode:?}: {few}, {many}");
    }
}

/// A context that is known is found without the engine: by the thread's table or,
/// for most of four times as many contexts as that holds, by the routine that
/// reads the forest's index. If that searched in other places than the index is
/// filled in, everything would still be right, and slow.
#[test]
fn known_contexts_do_not_enter_the_engine() {
    let program = compiled("growth");
    for k in [&["--k-inf"][..], &["-k", "4"]] {
        let lookups = |times: &str| {
            let mode = [&["contexts", "--engine-stats", "--top", "0"], k].concat();
            let report = report(&mode, &program, &["131072", times]);
            statistic(&report, "transitions looked up by the engine")
        };
        let (once, four_times) = (lookups("1"), lookups("4"));
        assert!(four_times <= once + 100, "{k:?}: {once}, {four_times}");
    }
}

/// Ten million blocks: a path of basic blocks that is always taken from the same state finds its edge in its
/// cell. If cells did not answer, the table would, and look an edge up once in 256 times
/// (docs/design/0018-windows.md); without both, each time. Everything would still be right,
/// and slow.
#[test]
fn edges_of_paths_are_in_their_cells() {
    let program = compiled("edges");
    // Of paths between functions, some are taken from several states in turn.
    let modes: [(&[&str], u64); 3] = [
        (&["--mode", "intra", "-k", "3"], 500),
        (&["--mode", "intra", "--roll-loops", "--k-inf"], 500),
        (&["--mode", "inter", "-k", "3"], 10_000_000 / 512),
    ];
    for (mode, most) in modes {
        let lookups = |rounds: &str| {
            let options = ["contexts", "--engine-stats", "--top", "0"];
            let mode = [&options, mode, STEADY].concat();
            let report = report(&mode, &program, &[rounds, "hot"]);
            statistic(&report, "edges looked up")
        };
        let (few, many) = (lookups("1000"), lookups("300000"));
        assert!(many.abs_diff(few) <= most, "{mode:?}: {few}, {many}");
    }
}

/// Emitted bytes per byte of program code, of a program that mostly starts.
#[test]
fn emitted_code_stays_short() {
    for (mode, most) in MODES.iter().zip([2.7, 3.5, 3.7, 5.0, 13.0]) {
        let report = report(mode, Path::new("/bin/ls"), &["/"]);
        let program = statistic(&report, "code bytes translated") as f64;
        let emitted = statistic(&report, "cache bytes used") as f64;
        assert!(
            emitted <= most * program,
            "{mode:?}: {emitted} bytes for {program}, {:.2} per byte",
            emitted / program
        );
    }
}

/// The bound of issue and design: 24 MB, and 5 bytes per byte of code that ran.
#[test]
fn the_engine_needs_little_memory() {
    for mode in MODES {
        let report = report(mode, Path::new("/bin/ls"), &["/"]);
        let program = statistic(&report, "code bytes translated");
        let own = statistic(&report, "engine heap bytes") + statistic(&report, "cache bytes used");
        assert!(own <= (8 << 20) + 5 * program, "{mode:?}: {own} bytes");
    }
}

/// Code that runs once makes room for other code, also while threads sleep in
/// system calls, and what runs all the time does not come and go.
#[test]
fn code_that_ran_once_is_given_up() {
    let program = compiled("once");
    for mode in &MODES[..2] {
        for threads in ["0", "3"] {
            let report = report(&[*mode, STEADY].concat(), &program, &["200000", threads]);
            let again = statistic(&report, "code bytes translated again");
            let code = statistic(&report, "code bytes translated") - again;
            let own =
                statistic(&report, "engine heap bytes") + statistic(&report, "cache bytes used");
            let flushes = statistic(&report, "cache flushes");
            let figures = format!("{mode:?}, {threads}: {own}, {flushes}, {again}, {code}");
            assert!(own <= (24 << 20) + 5 * code, "{figures}");
            assert!(flushes >= 3 && again <= code / 100, "{figures}");
        }
    }
}

/// A program that has run for a while is laid out anew when it needs new code;
/// not one that filters its calls, as the clock is one.
#[test]
fn code_is_laid_out_anew() {
    let program = compiled("later");
    for mode in MODES {
        let flushes = |args: &[&str]| statistic(&report(mode, &program, args), "cache flushes");
        assert!(flushes(&["300"]) >= 1, "{mode:?}");
        for filter in ["prctl", "seccomp"] {
            assert_eq!(flushes(&["300", filter]), 0, "{mode:?}, {filter}");
        }
    }
}

/// 100,000 turns of a loop of one basic block, and as many of one of two.
const TURNS: &str = "
    .globl _start
_start:
    mov $100000, %ecx
1:  add %ecx, %eax
    dec %ecx
    jnz 1b
    mov $100000, %ecx
2:  test %ecx, %ecx
    js 3f
    dec %ecx
    jnz 2b
3:  mov $60, %eax
    xor %edi, %edi
    syscall
";

/// Tight loops are translated several turns long where something is counted, and
/// not elsewhere (docs/design/0017-turns.md). Were they not, everything would still
/// be right, and slow.
#[test]
fn counted_loops_are_turned() {
    let program = assembled("turns", TURNS);
    let translated = |mode: &[&str]| {
        let report = report(mode, &program, &[]);
        statistic(&report, "instructions translated")
    };
    let inter = ["contexts", "--mode", "inter", "-k", "3", "--engine-stats"];
    let [plain, counted, calls, others @ ..] = MODES.map(translated);
    let counting = [&[counted, translated(&inter)][..], &others].concat();
    assert_eq!(calls, plain);
    for counted in counting {
        assert!(counted >= 2 * plain, "{plain}, {counted}");
    }
}

/// So what is added to one word waits for an addition of some turns before.
#[test]
fn turned_loops_are_counted_in_several_words() {
    let program = assembled("additions", TURNS);
    let recording = program.with_extension("evp");
    let product = mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(product);
    command
        .args(["count", "--quiet", "--output"])
        .arg(&recording);
    assert!(command.arg("--").arg(&program).status().unwrap().success());
    let bytes = std::fs::read(&recording).expect("it was recorded");
    let recording = trace::read(bytes.as_slice()).expect("it is whole");
    let counts = &recording.processes[0].threads[0].counts;
    let most = counts.iter().map(|slot| slot.count).max();
    // Of 100,000 turns of each loop.
    assert!(most <= Some(25_000), "{counts:?}");
}

/// Reports of code that is written over again and again take work in proportion to its
/// versions. Were each version compared with all before it at its place, everything would
/// still be right, and take minutes.
#[test]
fn versions_of_code_are_added_up_in_linear_time() {
    let program = compiled("rewritten");
    let product = mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"));
    let work = |rounds: &str| {
        let recording = program.with_extension(format!("{rounds}.evp"));
        let mut command = Command::new(&product);
        command.args(["count", "--quiet", "--output"]);
        command.arg(&recording).arg("--").arg(&program).arg(rounds);
        let ran = command.output().expect("the product was built");
        assert!(ran.status.success(), "{ran:?}");
        // Its instructions are counted by itself.
        let report = ["report", &recording.to_string_lossy(), "--top", "1"].map(str::to_owned);
        let built = Built {
            directory: build::cache_directory(),
            executable: product.clone(),
        };
        let run = Run {
            product: &product,
            built: &built,
            args: &report,
            stdin: "",
        };
        run.instructions().unwrap_or_else(|error| panic!("{error}"))
    };
    let (few, many) = (work("10000"), work("20000"));
    assert!(many <= few * 22 / 10, "{few}, {many} instructions");
}
