//! A recording area that is full: the program runs on as natively, what was recorded can be
//! read, and the report and `verify` say which threads are missing, since when, and why.

use std::process::Output;

use testkit::folder::Folder;

use crate::BINARY;

/// As many threads as it is told that live at the same time, with 131,071 contexts each, and a
/// child.
const PROGRAM: &str = "\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int sum;
static pthread_barrier_t all;
static void a(int), b(int), c(int), d(int);
static void a(int n) { if (n) { b(n - 1); c(n - 1); } sum++; }
static void b(int n) { if (n) { c(n - 1); d(n - 1); } sum++; }
static void c(int n) { if (n) { d(n - 1); a(n - 1); } sum++; }
static void d(int n) { if (n) { a(n - 1); b(n - 1); } sum++; }
static void *run(void *unused) { a(16); pthread_barrier_wait(&all); return unused; }
int main(int argc, char **argv)
{
    int threads = atoi(argv[1]);
    pthread_t thread[16];
    pthread_barrier_init(&all, NULL, threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, run, NULL))
            return 2;
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    puts(\"counted\");
    fflush(stdout);
    return system(\"echo child\") ? 1 : 7;
}
";

/// Runs it with so many bytes for the recording, as a file has no more; its output is as natively.
#[track_caller]
fn record(folder: &Folder, arguments: &str, threads: u32, room: u32) -> Output {
    folder.program(&["-O1", "-g", "-pthread"], "prog", PROGRAM);
    let blocks = room / 512;
    let script = format!("ulimit -f {blocks}; exec $0 {arguments} -o run.evp -- ./prog {threads}");
    let binary = BINARY;
    let output = folder.run("/bin/sh", &["-c", &script, binary]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "counted\nchild\n", "{output:?}");
    output
}

/// Sentences about threads, from what is said.
fn sentences(said: &[u8]) -> Vec<String> {
    let said = String::from_utf8_lossy(said);
    let of_threads = said
        .lines()
        .filter(|line| line.contains(": what it did is "));
    of_threads.map(str::to_owned).collect()
}

/// Each names a thread, a time and the reason.
#[track_caller]
fn check(sentences: &[String], missing: &str) {
    assert!(!sentences.is_empty());
    for sentence in sentences {
        let said = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("thread ") && said.contains(missing), "{said}");
        assert!(
            said.contains(" s on, as the recording area was full ("),
            "{said}"
        );
    }
}

/// The report of what was recorded.
#[track_caller]
fn report(folder: &Folder, format: &str) -> String {
    let words = ["report", "run.evp", "--format", format];
    let output = folder.run(BINARY, &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Nodes end before the area is full, which has no room for the child.
#[test]
fn contexts_say_whose_are_missing() {
    let folder = Folder::new("denied-contexts");
    let output = record(&folder, "contexts --k-inf", 1, 4 << 20);
    let missing = "what it did is in [truncated] contexts or missing from ";
    check(&sentences(&output.stderr), missing);
    let said = report(&folder, "report");
    check(&sentences(said.as_bytes()), missing);
    let of_nodes = "note: the limit of nodes was reached: ";
    assert!(said.contains(of_nodes), "{said}");
    check(&sentences(report(&folder, "json").as_bytes()), missing);
}

/// The threads have room for their counters, the child has none.
#[test]
fn counts_say_whose_are_missing() {
    let folder = Folder::new("denied-counts");
    let output = record(&folder, "count", 12, 2 << 20);
    let missing = "what it did is missing in part from ";
    check(&sentences(&output.stderr), missing);
    for format in ["report", "json"] {
        check(&sentences(report(&folder, format).as_bytes()), missing);
    }
}

/// Each thread has four chunks of 256 KB while it lives.
#[test]
fn verify_says_that_a_trace_is_not_whole() {
    let folder = Folder::new("denied-trace");
    let output = record(&folder, "trace", 12, 4 << 20);
    let missing = "what it did is missing from ";
    check(&sentences(&output.stderr), missing);
    let verify = folder.run(BINARY, &["verify", "run.evp"]);
    assert_eq!(verify.status.code(), Some(1), "{verify:?}");
    let said = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert!(said.contains("\n# not whole: thread "), "{said}");
    assert!(!said.contains("not sound"), "{said}");
    check(&sentences(&verify.stdout), missing);
}
