//! Counters of static programs, which set up their first thread, make threads and processes, and unwind in code of their own.

use std::fs;
use std::process::Command;

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{Counts, counters, edit, run};

/// Functions that are compared: those of the C library look at the file's headers, which differ, and at addresses.
const OWN: [&str; 5] = ["step", "thread", "leave", "below", "main"];

const PROGRAM: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) long step(long n) { long s = 0; for (long i = 0; i < n; i++) s += i % 3 ? i : -i; return s; }
void *thread(void *n) { char b[100]; snprintf(b, 100, "%ld", step((long)n)); return (void *)strlen(b); }
jmp_buf to;
__attribute__((noinline)) void leave(long n) { if (n == 0) longjmp(to, 5); leave(n - 1); step(n); }
int below(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    volatile int turns = 0;
    if (setjmp(to) < 5 || turns++ < 3) leave(20);
    pthread_t all[4]; long sum = 0;
    for (long i = 0; i < 4; i++) pthread_create(&all[i], 0, thread, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 4; i++) { void *one; pthread_join(all[i], &one); sum += (long)one; }
    pid_t pid = fork();
    if (!pid) { step(500); _exit(7); }
    int status; waitpid(pid, &status, 0);
    int a[200]; for (int i = 0; i < 200; i++) a[i] = (i * 7919) % 211;
    qsort(a, 200, sizeof *a, below);
    printf("%ld %d %d %d\n", sum, WEXITSTATUS(status), turns, a[5]);
    return 3;
}
"#;

/// File offsets of a program's own functions.
fn own(folder: &Folder, program: &str, base: u64) -> Vec<(u64, u64)> {
    let output = folder.run("nm", &["-S", program]);
    let listed = String::from_utf8(output.stdout).expect("text");
    let lines = listed.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, size, _, name] = words[..] else {
            return None;
        };
        let start = u64::from_str_radix(start, 16).ok()?.checked_sub(base)?;
        let size = u64::from_str_radix(size, 16).ok()?;
        OWN.contains(&name).then_some((start, start + size))
    });
    let own: Vec<(u64, u64)> = lines.collect();
    assert_eq!(own.len(), OWN.len(), "{listed}");
    own
}

/// Static programs, position-independent or not, with symbols or without; musl's have no unwind tables.
#[test]
fn static_programs_are_counted_as_count_has_them() {
    let folder = Folder::new("counted-static");
    fs::write(folder.file("program.c"), PROGRAM).expect("a file");
    for (name, compiler, kind, base) in [
        ("pie", "gcc", "-static-pie", 0),
        ("fixed", "gcc", "-static", 0x40_0000),
        ("musl", "musl-gcc", "-static", 0x40_0000),
    ] {
        let words = ["-O1", "-pthread", kind, "-o", name, "program.c"];
        assert!(folder.run(compiler, &words).status.success(), "{name}");
        let own = own(&folder, name, base);
        let native = run(&folder, "", name, &[]);
        assert_eq!(native.status.code(), Some(3));
        let all = format!("{name}.all");
        let words = ["count", "-o", &all, "--", &format!("./{name}")];
        assert_eq!(folder.run(BINARY, &words).stdout, native.stdout);
        let mut all = Counts::of(&folder, &[all], name);
        all.keep(&own);
        for strips in [false, true] {
            let what = format!("{name} {strips}");
            if strips {
                assert!(folder.run("strip", &[name]).status.success());
                fs::remove_dir_all(folder.file(&format!("{name}.edges"))).expect("it is there");
            }
            let inside = edit(&folder, name, "edges");
            assert_eq!(run(&folder, &inside, name, &[]), native, "{what}");
            let files = counters(&folder, &inside);
            assert_eq!(files.len(), 2, "{what}: a file for each process");
            let mut counts = Counts::of(&folder, &files, name);
            counts.keep(&own);
            let blocks = counts.agree_with(&all, &what);
            assert!(blocks > 20, "{what}: {blocks} blocks");
        }
    }
}

/// Exceptions find the frames of moved code, also where the file had no index of its unwind table.
#[test]
fn static_programs_throw_through_moved_code() {
    let folder = Folder::new("counted-static-throws");
    fs::write(folder.file("throws.cc"), crate::flow::THROWS).expect("a file");
    for (name, kind) in [("pie", "-static-pie"), ("fixed", "-static")] {
        let built = folder.run("g++", &["-O2", kind, "-o", name, "throws.cc"]);
        assert!(built.status.success());
        let native = Command::new(folder.file(name)).output().expect("it runs");
        let inside = edit(&folder, name, "edges --paranoid");
        assert_eq!(run(&folder, &inside, name, &[]), native, "{name}");
    }
}
