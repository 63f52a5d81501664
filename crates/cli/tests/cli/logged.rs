//! Calls that are logged with their contexts, against paths that the program keeps by itself.

use std::collections::BTreeMap;
use std::fs;

use testkit::folder::Folder;

use crate::BINARY;

/// Each function keeps its thread's path, and `target` writes it: with callbacks, cycles, `longjmp`, a handler of a signal, threads, a
/// child, and recursion as deep as its second argument says.
pub const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define N __attribute__((noinline, noclone))
static __thread const char *names[1000];
static __thread int depth;
static FILE *shadow;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define IN names[depth++] = __func__
#define OUT depth--
N long target(long a, long b) {
    IN;
    pthread_mutex_lock(&lock);
    fprintf(shadow, "%d\t0x%lx 0x%lx\t", gettid(), a, b);
    for (int i = 0; i < depth; i++) fprintf(shadow, "%s%s", i ? " > " : "", names[i]);
    fprintf(shadow, "\n");
    pthread_mutex_unlock(&lock);
    OUT;
    return a + b;
}
N int one(int i) { IN; int sum = target(i, 1); OUT; return sum; }
N int two(int i) { IN; int sum = one(i) + target(i, 2) + one(i + 1); OUT; return sum; }
N int down(int i) { IN; int sum = i ? down(i - 1) + i : target(i, 3); OUT; return sum; }
N int even(int i);
N int odd(int i) { IN; int sum = i ? even(i - 1) : one(7); OUT; return sum; }
N int even(int i) { IN; int sum = i ? odd(i - 1) : two(8); OUT; return sum; }
N int compare(const void *a, const void *b) { IN; int sum = target(*(int *)a, *(int *)b); OUT; return *(int *)a - *(int *)b + 0 * sum; }
static int (*volatile by_pointer)(int) = two;
static jmp_buf back;
N void leaves(void) { IN; target(4, 4); longjmp(back, 1); }
N void jumps(void) {
    IN;
    volatile int before = depth;
    if (!setjmp(back)) leaves();
    depth = before;
    target(5, 5);
    OUT;
}
N void handler(int signal) { IN; target(signal, 6); OUT; }
N void work(void) {
    IN;
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    volatile int sum = by_pointer(10) + down(5) + even(6) + odd(3);
    raise(SIGUSR1);
    OUT;
}
N void *run(void *_) { IN; work(); OUT; return _; }
int main(int count, char **words) {
    IN;
    shadow = fopen(words[1], "w");
    setvbuf(shadow, NULL, _IOLBF, 4096);
    signal(SIGUSR1, handler);
    work();
    jumps();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    if (!fork()) { work(); fflush(shadow); _exit(0); }
    wait(NULL);
    down(count > 2 ? atoi(words[2]) : 0);
    work();
    puts("done");
    return 3;
}
"#;

/// Calls of each thread in their order: arguments and path.
fn by_thread(text: &str) -> BTreeMap<&str, Vec<(String, String)>> {
    let mut all: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for line in text.lines() {
        let [thread, values, path] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let functions = path
            .split(" > ")
            .filter(|part| !matches!(*part, "…" | "(signal)"));
        let functions = functions.map(|part| part.split(' ').next().unwrap_or_default());
        // The C library is no part of the program's own path.
        let own = functions.filter(|name| {
            SOURCE.contains(&format!("{name}("))
                && !name.starts_with('_')
                && *name != "raise"
                && *name != "qsort"
        });
        let path: Vec<&str> = own.collect();
        let values: Vec<&str> = values.split(' ').take(2).collect();
        all.entry(thread)
            .or_default()
            .push((values.join(" "), path.join(" > ")));
    }
    all
}

fn logs(flags: &[&str], words: &[&str]) -> (Folder, String, String) {
    let folder = Folder::new("logged");
    folder.program(flags, "program", SOURCE);
    let head = [
        "log-contexts",
        "target",
        "--values",
        "-o",
        "log",
        "--",
        "./program",
        "shadow",
    ];
    let output = folder.run(BINARY, &[&head[..], words].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(output.stdout, b"done\n");
    let read = |name: &str| fs::read_to_string(folder.file(name)).expect("it was written");
    let (log, shadow) = (read("log"), read("shadow"));
    (folder, log, shadow)
}

#[test]
fn calls_are_logged_with_their_paths() {
    let flags = ["-O2", "-pthread", "-fno-optimize-sibling-calls"];
    let (_folder, log, shadow) = logs(&flags, &[]);
    let (own, native) = (by_thread(&log), by_thread(&shadow));
    assert_eq!(own.len(), 4, "three threads, and a child");
    assert!(!log.contains("… ("), "{log}");
    assert_eq!(own, native);
    // Results are those of the calls.
    assert!(
        log.contains("0xa 0x2 ") && log.contains(" = 0xc\t"),
        "{log}"
    );
}

/// How often each path comes, in the lines of a log.
fn counted(lines: &str, separator: char) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in lines.lines() {
        let (path, count) = match separator {
            '\t' => (line.rsplit_once('\t').expect("a path").1, 1),
            _ => {
                let (path, count) = line.rsplit_once(' ').expect("a number");
                (path, count.parse().expect("a number"))
            }
        };
        *counts.entry(path.replace(" > ", ";")).or_default() += count;
    }
    counts
}

/// Folded stacks, and lines that `decode` makes of what an edited program has left, are the same calls.
#[test]
fn all_forms_of_a_log_are_the_same_calls() {
    let folder = Folder::new("logged-forms");
    folder.program(&["-O2", "-pthread"], "program", SOURCE);
    let run = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = folder.run(BINARY, &words);
        let ended = matches!(output.status.code(), Some(0 | 3));
        assert!(ended, "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    run("log-contexts target -q -o lines -- ./program shadow");
    run("log-contexts target --folded -q -o folded -- ./program shadow");
    let read = |name: &str| fs::read_to_string(folder.file(name)).expect("it was written");
    let lines = counted(&read("lines"), '\t');
    assert!(lines.values().sum::<u64>() > 50, "{lines:?}");
    assert_eq!(counted(&read("folded"), ' '), lines);
    fs::create_dir(folder.file("left")).expect("it is writable");
    run("encode ./program -o edited --log target --counters left");
    assert_eq!(folder.run("./edited", &["shadow"]).status.code(), Some(3));
    let mut decoded = String::new();
    for file in fs::read_dir(folder.file("left")).expect("a folder") {
        let path = file.expect("a file").path();
        decoded.push_str(&run(&format!(
            "decode edited.dictionary {}",
            path.display()
        )));
    }
    // The library is not edited, so what it calls is known by its call alone; the functions are the program's.
    let ends = |counts: &BTreeMap<String, u64>| {
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        for (path, count) in counts {
            let mut path = path.rsplit(';').map(|part| part.split(' ').next());
            let callers = [path.next(), path.next()].map(|part| part.flatten().unwrap_or_default());
            *ends.entry(callers.join(" of ")).or_default() += count;
        }
        ends
    };
    assert_eq!(ends(&counted(&decoded, '\t')), ends(&lines));
}

/// A path with more records than an event has room for comes in several.
#[test]
#[ignore = "wide: paths of threads, cycles and handlers are in the gate"]
fn a_deep_path_is_logged() {
    let (_folder, log, shadow) = logs(&["-O0", "-g", "-pthread"], &["300"]);
    assert_eq!(by_thread(&log), by_thread(&shadow));
    assert!(
        log.lines().any(|line| line.matches("down ").count() > 300),
        "{log}"
    );
}

#[test]
fn what_cannot_be_logged_is_said() {
    let folder = Folder::new("logged-wrong");
    folder.program(&["-O1"], "program", "int main(void) { return 0; }");
    let words = ["log-contexts", "malloc,mallok", "--", "./program"];
    let output = folder.run(BINARY, &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        said.starts_with("everypath: no function of '") && said.contains("is named mallok; "),
        "{said}"
    );
}
