//! Threads of edited programs: each has the counts that `everypath count` has of it, also those that begin where another one ended.

use std::collections::BTreeMap;
use std::fs;

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{counters, edit, run};

/// Threads at the same time, and threads one after the other, which have the same stack and thread pointer. The argument is how
/// many of those there are.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static volatile int sum;
static pthread_barrier_t all;
__attribute__((noinline)) static void work(int n) {
    for (int i = 0; i < n; i++) {
        switch (i % 5) {
        case 0: sum += 1; break;
        case 1: sum += n; break;
        case 2: sum ^= i; break;
        case 3: if (n % 3 == 0) sum--; break;
        default: sum |= 1;
        }
    }
}
static void *together(void *n) { pthread_barrier_wait(&all); work((long)n); return 0; }
static void *alone(void *n) { work((long)n); return 0; }
int main(int argc, char **argv) {
    pthread_t threads[3];
    pthread_barrier_init(&all, 0, 4);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, together, (void *)(10 * i + 7));
    pthread_barrier_wait(&all);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    for (long i = 0; i < atoi(argv[1]); i++) {
        pthread_create(&threads[0], 0, alone, (void *)(1000 + 10 * i));
        pthread_join(threads[0], 0);
    }
    work(5);
    return 0;
}
"#;

/// Executions of a thread's blocks by their offsets.
type Blocks = BTreeMap<String, u64>;

/// Blocks of the program's own functions in each thread of a recording, by its number.
fn threads(folder: &Folder, recording: &str) -> BTreeMap<u32, Blocks> {
    let words = ["report", recording, "--format", "csv", "--per-thread"];
    let output = folder.run(BINARY, &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut threads: BTreeMap<u32, Blocks> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if ["work", "together", "alone", "main"].contains(&fields[7]) {
            let thread = threads.entry(fields[1].parse().expect("a number"));
            let executed: u64 = fields[6].parse().expect("a number");
            *thread.or_default().entry(fields[3].to_owned()).or_default() += executed;
        }
    }
    threads
}

/// Counts of threads of the program, edited and under `count`, with so many that begin one after the other.
fn both(folder: &Folder, inside: &str, alone: &str) -> [BTreeMap<u32, Blocks>; 2] {
    let output = run(folder, inside, "program", &[alone]);
    assert!(output.status.success(), "{output:?}");
    let files = counters(folder, inside);
    let edited = threads(folder, &files[0]);
    fs::remove_file(&files[0]).expect("the file of counters is there");
    let output = folder.run(
        BINARY,
        &["count", "-q", "-o", "run.evp", "--", "./program", alone],
    );
    assert!(output.status.success(), "{output:?}");
    [edited, threads(folder, "run.evp")]
}

#[test]
fn threads_have_what_they_executed_themselves() {
    let folder = Folder::new("edited-threads");
    folder.program(&["-O1", "-pthread"], "program", PROGRAM);
    for tool in ["edges", "blocks"] {
        let inside = edit(&folder, "program", tool);
        let [edited, counted] = both(&folder, &inside, "4");
        assert_eq!(edited.len(), 8, "{edited:?}");
        // Their numbers differ, and their order does not.
        let blocks = |threads: BTreeMap<u32, Blocks>| threads.into_values().collect::<Vec<_>>();
        assert_eq!(blocks(edited), blocks(counted), "{tool}");

        // More than there are numbers for: the last ones use counters of others, one after the other.
        let [edited, counted] = both(&folder, &inside, "300");
        assert_eq!((edited.len(), counted.len()), (224, 304));
        assert!(edited.contains_key(&0));
        let sum = |threads: &BTreeMap<u32, Blocks>| {
            let mut sum = Blocks::new();
            for (at, count) in threads.values().flatten() {
                *sum.entry(at.clone()).or_default() += count;
            }
            sum
        };
        assert_eq!(sum(&edited), sum(&counted), "{tool}");
    }
}
