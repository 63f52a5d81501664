//! The first screen of a report: functions and paths, compared with sums over the folded stacks of
//! the same recording, and how it is laid out.

use std::collections::{BTreeMap, BTreeSet};

use testkit::folder::Folder;

use crate::BINARY;

/// A program with recursion through two functions, threads that are alike, and a child.
const PROGRAM: &str = "
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long sum;
__attribute__((noinline)) long leaf(long n) { for (long i = 0; i < n; i++) sum += i; return sum; }
__attribute__((noinline)) long odd(long n);
__attribute__((noinline)) long even(long n) { return n ? odd(n - 1) + leaf(n) : 0; }
__attribute__((noinline)) long odd(long n) { return n ? even(n - 1) + leaf(2) : 1; }
static void *work(void *arg) { for (int i = 0; i < 50; i++) even((long)arg); return 0; }
int main(void) {
    pthread_t t[3];
    for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void *)20);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    if (!fork()) { even(30); _exit(0); }
    wait(0);
    return 0;
}
";

fn recorded(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.program(&["-O1", "-g", "-pthread"], "prog", PROGRAM);
    let words = ["contexts", "-q", "-o", "run.evp", "--", "./prog"];
    assert!(folder.run(BINARY, &words).status.success());
    folder
}

fn report(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, &[&["report", "run.evp"], words].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of the table of functions: share, share with callees, instructions, calls, name.
fn rows(text: &str) -> Vec<[String; 5]> {
    let table = text
        .lines()
        .skip_while(|line| !line.ends_with("  function"));
    let rows = table.skip(1).take_while(|line| !line.is_empty());
    rows.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // What was never called has no instructions per call.
        let is_number = words[4].chars().all(|c| c.is_ascii_digit() || c == ',');
        let name = words[if is_number { 5 } else { 4 }];
        [words[0], words[1], words[2], words[3], name].map(str::to_owned)
    })
    .collect()
}

/// Per function, by a slow definition: own values, and values of paths that it is on.
fn sums(folded: &str) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in folded.lines() {
        let (path, value) = line.rsplit_once(' ').unwrap();
        let value: u64 = value.parse().unwrap();
        // The first name is the program's.
        let names: Vec<&str> = path.split(';').skip(1).collect();
        let last = names.last().unwrap();
        sums.entry((*last).to_owned()).or_default().0 += value;
        for name in names.iter().collect::<BTreeSet<_>>() {
            sums.entry((*name).to_owned()).or_default().1 += value;
        }
    }
    sums
}

fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap()
}

fn percent(value: u64, total: u64) -> String {
    match value as f64 * 100.0 / total as f64 {
        share if share < 0.005 => "<0.01%".to_owned(),
        share => format!("{share:.2}%"),
    }
}

#[test]
fn functions_are_the_sums_over_all_paths() {
    let folder = recorded("first-screen-sums");
    let text = report(&folder, &["--full", "--full-names"]);
    let line = text.lines().nth(2).unwrap();
    let total = line.rsplit(", ").next().unwrap();
    let total = number(total.split(' ').next().unwrap());
    let words = |by| report(&folder, &["--format", "folded", "--by", by]);
    let instructions = sums(&words("instructions"));
    let calls = sums(&words("calls"));
    let rows = rows(&text);
    let names: Vec<&String> = rows.iter().map(|row| &row[4]).collect();
    let mut compared = 0;
    for [own, inclusive, count, called, name] in &rows {
        // A name of two modules, such as `memcpy`, has one sum.
        if name.starts_with('[') || names.iter().filter(|&&n| n == name).count() > 1 {
            continue;
        }
        let (expected, expected_inclusive) = instructions[name];
        assert_eq!(number(count), expected, "{name}");
        assert_eq!(*own, percent(expected, total), "{name}");
        assert_eq!(*inclusive, percent(expected_inclusive, total), "{name}");
        let expected = calls.get(name).map_or(0, |&(own, _)| own);
        assert_eq!(number(called), expected, "{name}");
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
    for name in ["even", "odd", "leaf"] {
        assert_eq!(names.iter().filter(|&&n| n == name).count(), 1, "{text}");
    }
}

#[test]
fn threads_and_processes_are_joined_or_apart() {
    let folder = recorded("first-screen-threads");
    let together = report(&folder, &[]);
    assert!(
        together.contains("  prog (2 processes, 5 threads)\n"),
        "{together}"
    );
    assert_eq!(together.matches("  function\n").count(), 1, "{together}");
    let apart = report(&folder, &["--per-thread"]);
    assert_eq!(apart.matches("\nthread ").count(), 5, "{apart}");
    assert_eq!(apart.matches("  function\n").count(), 5, "{apart}");
    // The paths begin at the program's and the threads' first functions.
    assert!(together.contains("%"), "{together}");
    let paths = together.split("hottest paths").nth(1).unwrap();
    assert!(paths.contains(" work"), "{paths}");
    assert!(
        !paths.contains("start_thread") && !paths.contains(" _start"),
        "{paths}"
    );
}

#[test]
fn a_launcher_is_one_row() {
    let folder = Folder::new("first-screen-launcher");
    folder.program(&["-O1", "-g", "-pthread"], "prog", PROGRAM);
    let script = "ls > /dev/null; exec ./prog";
    let words = ["contexts", "-q", "-o", "run.evp", "--", "sh", "-c", script];
    assert!(folder.run(BINARY, &words).status.success());
    let text = report(&folder, &[]);
    assert!(
        text.contains("  ls (1 process, before the program)\n"),
        "{text}"
    );
    assert!(text.contains("[before the program: "), "{text}");
    let whole = report(&folder, &["--launcher"]);
    assert!(!whole.contains("[before the program: "), "{whole}");
    // All instructions are in either.
    let sum = |text: &str| rows(text).iter().map(|row| number(&row[2])).sum::<u64>();
    let all = ["--full"];
    let folded = sum(&report(&folder, &all).replace("[before the program: ", "[before_"));
    assert_eq!(
        folded,
        sum(&report(&folder, &[&all[..], &["--launcher"]].concat()))
    );
}

#[test]
fn lines_fit() {
    let folder = recorded("first-screen-width");
    let text = report(&folder, &["--top", "100", "--min", "0.01"]);
    let table = text.lines().filter(|line| !line.starts_with("note: "));
    let longest = table.map(|line| line.chars().count()).max();
    assert!(longest <= Some(120), "{text}");
    assert!(text.contains("note: instructions are not time"), "{text}");
}
