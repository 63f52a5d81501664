//! `trace --together`: `--skip` and `--count` are of all threads and processes, exactly.

use testkit::folder::Folder;

use super::{BINARY, read, sequences, steps_over_faults};

/// Options that every case is tried with besides.
const CHAOS: [&[&str]; 3] = [&[], &["--chaos", "3"], &["--chaos", "7", "--buffer", "1"]];

/// The instructions of each thread, of a run without address randomisation.
fn traced(folder: &Folder, options: &[&str], program: &str) -> Vec<Vec<u64>> {
    let head = ["-R", BINARY, "trace", "-q", "-o", "run.evp"];
    let arguments = [&head[..], options, &["--", program]].concat();
    let output = folder.run("setarch", &arguments);
    assert!(output.status.success(), "{options:?}: {output:?}");
    sequences(&read(&folder.file("run.evp")))
}

fn sum(threads: &[Vec<u64>]) -> usize {
    threads.iter().map(Vec::len).sum()
}

/// Programs in which nothing depends on who is first: what is recorded of each thread is a run
/// of what it executes, and all runs together are as long as was asked for.
fn check(folder: &Folder, program: &str) {
    let all = traced(folder, &[], program);
    let total = sum(&all);
    assert!(all.len() > 3 && total > 400_000, "{}: {total}", all.len());
    for (at, (skip, count)) in [
        (1, 1),
        (1000, 77),
        (total / 3, 50_000),
        (total / 7, total / 2),
        (total - 5000, 4000),
    ]
    .into_iter()
    .enumerate()
    {
        let words = [skip, count].map(|number| number.to_string());
        let [skip_option, count_option] = [["--skip", &words[0]], ["--count", &words[1]]];
        let chaos = CHAOS[at % CHAOS.len()];
        let with = |options: &[&str]| {
            let options = [options, &["--together"], chaos].concat().join(" ");
            let words: Vec<&str> = options.split(' ').collect();
            (traced(folder, &words, program), options)
        };
        let (both, options) = with(&[skip_option, count_option].concat());
        assert_eq!(sum(&both), count, "{options:?}");
        let contains = |part: &Vec<u64>| {
            let is_in = |all: &Vec<u64>| all.windows(part.len()).any(|window| window == part);
            part.is_empty() || all.iter().any(is_in)
        };
        assert!(both.iter().all(contains), "{options:?}");
        let (ends, options) = with(&skip_option);
        assert_eq!(sum(&ends), total - skip, "{options:?}");
        let is_end = |part: &Vec<u64>| all.iter().any(|all| all.ends_with(part));
        assert!(ends.iter().all(is_end), "{options:?}");
        let (beginnings, options) = with(&count_option);
        assert_eq!(sum(&beginnings), count, "{options:?}");
        let begins = |part: &Vec<u64>| all.iter().any(|all| all.starts_with(part));
        assert!(beginnings.iter().all(begins), "{options:?}");
    }
}

/// Four threads of different length, with system calls, behind a main thread that ended first.
#[test]
fn threads_share_what_is_skipped_and_traced() {
    let folder = Folder::new("together-threads");
    let text = "#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
static char stacks[4][65536] __attribute__((aligned(16)));
static int work(void *number) {
    volatile unsigned long x = (unsigned long)number;
    for (unsigned long i = 0; i < 10000 * (x % 4 + 1) + 9000; i++) {
        x = x * 3 + i;
        if (x & 4) x ^= 9;
        if (i % 1000 == 0) {
            long result;
            __asm__ volatile(\"syscall\" : \"=a\"(result) : \"0\"(SYS_getppid)
                             : \"rcx\", \"r11\", \"memory\");
        }
    }
    return 0;
}
int main(void) {
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    for (long i = 0; i < 4; i++)
        clone(work, stacks[i] + sizeof stacks[i], flags, (void *)(i + 1));
    syscall(SYS_exit, 0);
}";
    folder.program(&["-O1", "-static"], "threads", text);
    check(&folder, "./threads");
    traced(
        &folder,
        &["--skip", "5000", "--count", "700", "--together"],
        "./threads",
    );
    let output = folder.run(BINARY, &["stats", "run.evp", "--format", "mcf"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["Traced 700 instructions", "Skipped 5000 instructions"] {
        assert!(text.contains(&format!("mcfTrace: {line}\n")), "{text}");
    }
}

const TREE: &str = "#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    volatile unsigned x = argc;
    for (int child = 0; argc == 1 && child < 3; child++)
        if (!fork()) {
            for (unsigned i = 0; i < 9000u * (child + 1); i++) if ((x = x * 3 + i) & 4) x ^= 9;
            if (child == 1) execl(\"./tree\", \"tree\", \"again\", (char *)0);
            _exit(0);
        }
    if (argc > 1) for (unsigned i = 0; i < 20000; i++) if ((x = x * 3 + i) & 4) x ^= 9;
    for (int child = 0; argc == 1 && child < 3; child++) wait(0);
    return 0;
}";

/// Processes that are forked, and one that executes another program.
#[test]
fn processes_share_what_is_skipped_and_traced() {
    let folder = Folder::new("together-processes");
    folder.program(&["-O1", "-static"], "tree", TREE);
    check(&folder, "./tree");
}

/// Children that are not followed use nothing up.
#[test]
fn children_that_are_not_followed_do_not_count() {
    let folder = Folder::new("together-alone");
    folder.program(&["-O1", "-static"], "tree", TREE);
    let alone = ["--follow-children", "no"];
    let all = traced(&folder, &alone, "./tree").remove(0);
    let (skip, count) = (all.len() / 2, all.len() / 4);
    let words = [skip, count].map(|number| number.to_string());
    let options = ["--skip", &words[0], "--count", &words[1], "--together"];
    let part = traced(&folder, &[&options[..], &alone].concat(), "./tree");
    assert_eq!(part, [all[skip..skip + count].to_vec()]);
}

/// A program of one thread is traced as without the option, also far from its beginning, with
/// signals and system calls in between.
#[test]
#[ignore = "wide: threads that share what is traced are in the gate"]
fn one_thread_is_traced_as_without() {
    let folder = Folder::new("together-one");
    let call = "if (i % 5000 == 0) getppid();";
    let text = steps_over_faults(2_500_000, "i % 4096 == 0", call);
    folder.program(&["-O1", "-static"], "one", &text);
    for skip in [
        "1", "100", "16385", "777777", "17000000", "20000001", "40000000",
    ] {
        for chaos in &CHAOS[..2] {
            let options = [&["--skip", skip, "--count", "3000"], *chaos].concat();
            let without = traced(&folder, &options, "./one");
            assert_eq!(sum(&without), 3000, "{options:?}");
            let options = [&options[..], &["--together"]].concat();
            assert!(traced(&folder, &options, "./one") == without, "{options:?}");
        }
    }
    let options = ["--skip", "100000000000", "--together"];
    assert_eq!(traced(&folder, &options, "./one"), [[0; 0]]);
}

/// Each trap of a program that steps itself ends in a system call, behind which it has no part
/// of what is skipped, so its way goes through the engine before every instruction.
#[test]
fn a_program_that_steps_itself_traps_as_often() {
    let folder = Folder::new("together-steps");
    let text = "#include <signal.h>
#include <stdio.h>
static volatile int traps;
static void handler(int signal) { traps++; }
int main(void) {
    signal(SIGTRAP, handler);
    for (int i = 0; i < 40; i++)
        __asm__ volatile(\"pushf; orl $256, (%%rsp); popf; nop; nop; add $1, %%eax; nop\\n\"
                         \"pushf; andl $-257, (%%rsp); popf\" ::: \"eax\", \"cc\", \"memory\");
    printf(\"%d\\n\", traps);
}";
    folder.program(&["-O1", "-static", "-mno-red-zone"], "steps", text);
    let natively = folder.run("./steps", &[]).stdout;
    for skip in ["1", "20000", "25001", "100000000"] {
        let options = ["--skip", skip, "--count", "500", "--together"];
        let head = ["60", BINARY, "trace", "-q", "-o", "run.evp"];
        let arguments = [&head[..], &options, &["--", "./steps"]].concat();
        assert_eq!(
            folder.run("timeout", &arguments).stdout,
            natively,
            "{options:?}"
        );
    }
}
