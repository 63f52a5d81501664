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
        // Functions that were never called have no instructions per call.
        let is_number = words[4].chars().all(|c| c.is_ascii_digit() || c == ',');
        let at = if is_number { 5 } else { 4 };
        let resolver = words.get(at + 1).filter(|word| **word == "[resolver]");
        let name = match resolver {
            Some(word) => format!("{} {word}", words[at]),
            None => words[at].to_owned(),
        };
        let [own, inclusive, count, called] = [0, 1, 2, 3].map(|at| words[at].to_owned());
        [own, inclusive, count, called, name]
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

/// The recording is the newest of the folder, and has the program's name.
#[test]
fn recordings_need_no_names() {
    let folder = Folder::new("first-screen-names");
    let failed = folder.run(BINARY, &["report"]);
    assert_eq!(failed.status.code(), Some(125));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.contains("no *.evp is in this folder"), "{said}");
    for program in ["true", "false"] {
        let output = folder.run(BINARY, &["count", "-q", "-o", "--", program]);
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    let names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for program in ["true", "false"] {
        let prefix = format!("everypath.{program}.");
        let of_program = |name: &&String| name.starts_with(&prefix) && name.ends_with(".evp");
        assert_eq!(names.iter().filter(of_program).count(), 1, "{names:?}");
    }
    let output = folder.run(BINARY, &["report"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("everypath: the newest recording here is 'everypath.false."),
        "{said}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("everypath count: false\n"), "{text}");
}

/// `-o PROGRAM` without `--` would take the program for the file.
#[test]
fn a_program_is_not_replaced_by_a_recording() {
    let folder = recorded("first-screen-program");
    let before = std::fs::read(folder.file("prog")).unwrap();
    for command in ["contexts", "count", "run", "trace"] {
        let output = folder.run(BINARY, &[command, "-o", "./prog", "touch", "ran"]);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("everypath: './prog' is a program, "),
            "{said}"
        );
    }
    assert_eq!(std::fs::read(folder.file("prog")).unwrap(), before);
    assert!(!folder.file("ran").exists());
}

/// The message at the end of a trace has the number that `verify` counts.
#[test]
fn a_trace_ends_with_its_numbers() {
    let folder = recorded("first-screen-trace");
    let output = folder.run(BINARY, &["trace", "-o", "t.evp", "--", "./prog"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let verified = folder.run(BINARY, &["verify", "t.evp"]);
    let verified = String::from_utf8(verified.stdout).unwrap();
    let total = verified
        .lines()
        .find(|line| line.contains(" bytes of streams"))
        .unwrap();
    let total = total.split(" in ").next().unwrap();
    assert!(
        said.contains(&format!(", {total}, 5 threads; everypath dump t.evp ")),
        "{said}"
    );
}

/// The functions of `--inlines` are those that `addr2line -i` names, instruction by instruction.
#[test]
fn inlined_functions_are_those_of_addr2line() {
    const SOURCE: &str = "
static inline __attribute__((always_inline)) long leaf(long n) { return n * 3 + (n & 7); }
static inline __attribute__((always_inline)) long middle(long n) { long s = 0; for (long i = 0; i < n; i++) s += leaf(i); return s; }
__attribute__((noinline)) long work(long n) { return middle(n) + leaf(n); }
int main(int argc, char **argv) { long s = 0; for (int i = 0; i < 100; i++) s += work(i + argc); return s == 1; }
";
    let folder = Folder::new("first-screen-inlines");
    folder.program(&["-O1", "-g", "-no-pie", "-static"], "prog", SOURCE);
    let words = ["count", "-q", "-o", "run.evp", "--", "./prog"];
    assert!(folder.run(BINARY, &words).status.success());
    let shown = ["--inlines", "--top", "100000", "--full-names"];
    let text = report(&folder, &shown);
    // Executions by address: offsets in the file, of which the program's are a mapping.
    let callgrind = report(&folder, &["--format", "callgrind"]);
    let (text_offset, text_address) = segment(&folder);
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let costs: Vec<(u64, u64)> = own_costs(&callgrind);
    let addresses = costs
        .iter()
        .map(|(at, _)| format!("{:#x}", at - text_offset + text_address));
    let addresses: Vec<String> = addresses.collect();
    let mut words = vec!["-f", "-i", "-a", "-e", "prog"];
    words.extend(addresses.iter().map(String::as_str));
    let named = folder.run("addr2line", &words);
    let named = String::from_utf8(named.stdout).unwrap();
    let mut lines = named.lines().peekable();
    for (_, count) in &costs {
        let address = lines.next().unwrap();
        assert!(address.starts_with("0x"), "{address}");
        // The first function is the innermost one.
        let name = lines.next().unwrap().to_owned();
        while lines.peek().is_some_and(|line| !line.starts_with("0x")) {
            lines.next();
        }
        *expected.entry(name).or_default() += count;
    }
    for name in ["leaf", "middle", "work", "main"] {
        let row = text
            .lines()
            .find(|line| line.split_whitespace().any(|word| word == name));
        let row = row.unwrap_or_else(|| panic!("{name}: {text}"));
        let shown = number(row.split_whitespace().nth(1).unwrap());
        assert_eq!(shown, expected[name], "{name}: {text}");
        let is_inlined = row.ends_with(", inlined");
        assert_eq!(is_inlined, ["leaf", "middle"].contains(&name), "{row}");
    }
}

/// Offset in the file and address of the segment with the code.
fn segment(folder: &Folder) -> (u64, u64) {
    let headers = folder.run("readelf", &["-lW", "prog"]);
    let headers = String::from_utf8(headers.stdout).unwrap();
    let line = headers
        .lines()
        .find(|line| line.contains("LOAD") && line.contains(" R E "));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    (hex(words[1]), hex(words[2]))
}

/// Offset and executions of each instruction of the program's file.
fn own_costs(callgrind: &str) -> Vec<(u64, u64)> {
    let mut costs = Vec::new();
    let mut program = None;
    let mut is_ours = false;
    // The line after these is no cost of an instruction.
    let mut is_of_branch = false;
    for line in callgrind.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            let (number, path) = object.split_once(' ').unwrap_or((object, ""));
            if path.ends_with("/prog") {
                program = Some(number);
            }
            is_ours = program == Some(number);
        }
        if line.starts_with("0x") && is_ours && !is_of_branch {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = u64::from_str_radix(&words[0][2..], 16).unwrap();
            costs.push((at, words[2].parse().unwrap()));
        }
        is_of_branch = ["calls=", "jump=", "jcnd="]
            .iter()
            .any(|key| line.starts_with(key));
    }
    costs
}
