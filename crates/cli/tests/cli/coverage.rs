//! `--format lcov`: `lcov` and `genhtml` (Debian: lcov) read it and find the same
//! totals, and gcov, which counts in the program itself, counts lines the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::folder::Folder;
use testkit::zstd;

use crate::BINARY;

/// Loops of all kinds, on one line and on several; recursion, early returns, a switch.
const LOOPS: &str = "\
#include <stdio.h>
#include <stdlib.h>
static int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
static int never(int n)
{
    if (n > 3)
        return 1;
    return 2;
}
static int kind(int n)
{
    switch (n % 5) {
    case 0:
        return 7;
    case 1:
    case 2:
        n += 3;
        break;
    case 3:
        n--;
    default:
        n *= 2;
    }
    return n;
}
int main(int argc, char **argv)
{
    int sum = 0, i = 0;
    for (int n = 0; n < 100; n++)
        if (n % 10 == 0 && n > 20 || n == 7)
            sum += fib(n % 12);
        else
            sum -= kind(n);
    while (i < 50) i++;
    do { i--; if (i == 40) continue; sum++; } while (i > 30);
    for (int a = 0; a < 5; a++) for (int b = 0; b < 6; b++) sum += a * b;
again:
    if (i++ < 35)
        goto again;
    if (argc > 1)
        sum += never(argc);
    printf(\"%d\\n\", sum);
    exit(0);
}
";

/// Pieces that compilers make of lines of C++, and a line on which two processes go on.
const RANGES: &str = "\
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
struct Counter { int *at; Counter(int *n) : at(n) {} ~Counter() { ++*at; } };
int work(std::vector<int> &numbers, int *n)
{
    Counter counter(n);
    int sum = 0;
    for (int x : numbers)
        sum += x;
    for (int i = 0; i < 10; i++) sum += i;
    std::string text = \"a\";
    if (sum > 3 && *n < 100 || sum == 7)
        text += \"b\";
    while (sum > 1000)
        sum -= 10;
    return sum + text.size();
}
int main()
{
    std::vector<int> numbers(7, 3);
    int n = 0, sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += work(numbers, &n);
    }
    pid_t child = fork();
    if (child == 0)
        return 0;
    waitpid(child, nullptr, 0);
    return sum > 0 ? 0 : 1;
}
";

fn succeeds(command: &mut Command) -> String {
    let name = command.get_program().to_owned();
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{name:?}: {said}");
    said
}

/// Counts `program` and writes `cover.info`.
fn cover(folder: &Folder, program: &str) -> String {
    let report = ["--format", "lcov", "--report", "cover.info"];
    let run = ["count", "-o", "run.evp", "--", program];
    let output = folder.run(BINARY, &[&run[..3], &report, &run[3..]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    fs::read_to_string(folder.file("cover.info")).unwrap()
}

/// Executions by file and line.
type Lines = BTreeMap<(String, u64), u64>;

fn lines_of(info: &str) -> Lines {
    let (mut lines, mut file) = (Lines::new(), "");
    for record in info.lines() {
        if let Some(name) = record.strip_prefix("SF:") {
            file = name;
        } else if let Some(line) = record.strip_prefix("DA:") {
            let (line, count) = line.split_once(',').unwrap();
            let place = (file.to_owned(), line.parse().unwrap());
            assert!(lines.insert(place, count.parse().unwrap()).is_none());
        }
    }
    lines
}

/// Lines of the program that was built with `--coverage` and has run in `folder`.
fn lines_of_gcov(folder: &Folder) -> Lines {
    let entries = fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let data: BTreeSet<_> = names
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|kind| kind == "gcda")
        })
        .collect();
    assert!(!data.is_empty());
    let mut gcov = Command::new("gcov");
    gcov.args(["--json-format", "--stdout"]).args(data);
    let said = succeeds(gcov.current_dir(folder.path()));
    let mut lines = Lines::new();
    for unit in said.lines().filter(|line| !line.is_empty()) {
        let unit: Value = serde_json::from_str(unit).unwrap();
        for file in unit["files"].as_array().unwrap() {
            let name = folder.path().join(file["file"].as_str().unwrap());
            for line in file["lines"].as_array().unwrap() {
                let number = line["line_number"].as_u64().unwrap();
                let place = (name.to_str().unwrap().to_owned(), number);
                *lines.entry(place).or_default() += line["count"].as_u64().unwrap();
            }
        }
    }
    lines
}

/// Our count and gcov's of each line that both know. Where a function begins, gcov names
/// the line of its name, and code that of its brace.
fn compared(folder: &Folder, info: &str) -> BTreeMap<(String, u64), (u64, u64)> {
    let (ours, theirs) = (lines_of(info), lines_of_gcov(folder));
    let both = theirs.into_iter().filter_map(|(place, count)| {
        let own = *ours.get(&place)?;
        Some((place, (own, count)))
    });
    both.collect()
}

/// Numbers of a record, added up.
fn sum(info: &str, key: &str) -> u64 {
    let values = info.lines().filter_map(|line| line.strip_prefix(key));
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

/// Figures of `lcov --summary` and `genhtml` against the file's totals and its records.
fn check_readers(folder: &Folder, info: &str) {
    let mut lcov = Command::new("lcov");
    lcov.args(["--rc", "lcov_branch_coverage=1", "--summary", "cover.info"]);
    let mut genhtml = Command::new("genhtml");
    genhtml.args(["--branch-coverage", "-o", "html", "cover.info"]);
    for reader in [&mut lcov, &mut genhtml] {
        let said = succeeds(reader.current_dir(folder.path()));
        assert!(!said.to_lowercase().contains("warning"), "{said}");
        for (name, hit, found) in [
            ("lines", "LH:", "LF:"),
            ("functions", "FNH:", "FNF:"),
            ("branches", "BRH:", "BRF:"),
        ] {
            let (hit, found) = (sum(info, hit), sum(info, found));
            let expected = format!("({hit} of {found} {name})");
            assert!(said.contains(&expected), "{expected} {said}");
        }
    }
    assert_eq!(lines_of(info).len() as u64, sum(info, "LF:"));
    check_rules_of_version_2(info);
}

/// lcov and genhtml from 2.0 on refuse functions on lines that are none, lines that were executed with branches of which none was,
/// and files that do not exist.
fn check_rules_of_version_2(info: &str) {
    for source in info
        .split("end_of_record\n")
        .filter(|one| one.contains("SF:"))
    {
        let of = |key: &str| -> Vec<(u64, &str)> {
            let records = source.lines().filter_map(|line| line.strip_prefix(key));
            let split = records.map(|record| record.split_once(',').expect("two columns"));
            split
                .map(|(line, rest)| (line.parse().expect("a line"), rest))
                .collect()
        };
        let lines: BTreeMap<u64, &str> = of("DA:").into_iter().collect();
        for (line, name) in of("FN:") {
            assert!(lines.contains_key(&line), "{name} at {line}: {source}");
        }
        let branches = of("BRDA:");
        for (line, _) in lines.iter().filter(|(_, count)| **count != "0") {
            let mut own = branches.iter().filter(|(at, _)| at == line).peekable();
            let is_none = own.peek().is_none();
            assert!(
                is_none || own.any(|(_, rest)| !rest.ends_with(",-")),
                "{line}: {source}"
            );
        }
        let file = source.lines().find_map(|line| line.strip_prefix("SF:"));
        assert!(Path::new(file.expect("a file")).is_file(), "{source}");
    }
}

#[test]
fn lines_are_counted_as_gcov_does() {
    let folder = Folder::new("cover-loops");
    folder.program(&["-O0", "-g"], "loops", LOOPS);
    let info = cover(&folder, "./loops");
    check_readers(&folder, &info);
    folder.compile(&["-O0", "-g", "--coverage"], "counted", "loops.c");
    succeeds(Command::new(folder.file("counted")).current_dir(folder.path()));
    let both = compared(&folder, &info);
    assert!(both.len() >= 26, "{both:?}");
    for (place, counts) in both {
        assert_eq!(counts.0, counts.1, "{place:?}");
    }
    // The head of a loop, its branch, and what never ran.
    assert!(info.contains("DA:32,101\n"), "{info}");
    assert!(info.contains("BRDA:32,0,0,100\nBRDA:32,0,1,1\n"), "{info}");
    assert!(info.contains("DA:9,0\n"), "{info}");
    assert!(info.contains("BRDA:9,0,0,-\nBRDA:9,0,1,-\n"), "{info}");
    assert!(info.contains("FNDA:0,never\n"), "{info}");
}

#[test]
fn lines_of_cc_are_counted_as_gcov_does() {
    let folder = Folder::new("cover-ranges");
    fs::write(folder.file("ranges.cc"), RANGES).unwrap();
    let flags = ["-O0", "-g", "-Wl,--no-as-needed", "-lstdc++"];
    folder.compile(&flags, "ranges", "ranges.cc");
    let info = cover(&folder, "./ranges");
    folder.compile(
        &[&flags[..], &["--coverage"]].concat(),
        "counted",
        "ranges.cc",
    );
    succeeds(Command::new(folder.file("counted")).current_dir(folder.path()));
    let both = compared(&folder, &info);
    let own = both
        .iter()
        .filter(|((file, _), _)| file.ends_with("ranges.cc"));
    let own: Vec<(u64, (u64, u64))> = own.map(|((_, line), counts)| (*line, *counts)).collect();
    assert!(own.len() >= 20, "{own:?}");
    let differ: Vec<_> = own
        .iter()
        .filter(|(_, (ours, theirs))| ours != theirs)
        .collect();
    assert!(differ.is_empty(), "line, our count and gcov's: {differ:?}");
    let of = |line: u64| own.iter().find(|own| own.0 == line).map(|own| own.1.0);
    assert_eq!(
        of(10),
        Some(5 * 8),
        "the head of a loop over seven numbers, five times"
    );
    assert_eq!(of(27), Some(1), "the line of fork");
}

#[test]
#[ignore = "wide: a library is compiled for gcov; a small program is in the gate"]
fn a_real_program_is_counted_as_gcov_does() {
    let folder = Folder::new("cover-zstd");
    zstd::build(folder.path(), "cc", &["-O0", "-g"], "packs");
    let info = cover(&folder, "./packs");
    check_readers(&folder, &info);
    zstd::build(folder.path(), "cc", &["-O0", "-g", "--coverage"], "counted");
    succeeds(Command::new(folder.file("counted")).current_dir(folder.path()));
    let both = compared(&folder, &info);
    let same = both.values().filter(|counts| counts.0 == counts.1);
    // The others are statements on several lines, which code leaves and enters again
    // (docs/formats/lcov.md).
    let (same, both) = (same.count(), both.len());
    assert!(
        both > 11_000 && same * 1000 >= both * 990,
        "{same} of {both}"
    );
}

#[test]
fn what_ran_is_shown_without_the_binary_and_another_binary_is_not_believed() {
    let folder = Folder::new("cover-gone");
    folder.program(&["-O0", "-g"], "loops", LOOPS);
    let before = cover(&folder, "./loops");
    let again = [
        "report",
        "run.evp",
        "--format",
        "lcov",
        "--modules",
        "loops",
    ];
    let output = folder.run(BINARY, &again);
    assert_eq!(String::from_utf8_lossy(&output.stdout), before);
    folder.compile(&["-O1", "-g"], "loops", "loops.c");
    let output = folder.run(BINARY, &again);
    assert_eq!(output.status.code(), Some(0));
    let path = folder.file("loops").canonicalize().unwrap();
    let note = format!(
        "everypath: '{}' is not the file that ran any more; its lines and branches that never \
         ran are not listed\n",
        path.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), note);
    let (mut expected, after) = (lines_of(&before), String::from_utf8_lossy(&output.stdout));
    expected.retain(|_, count| *count > 0);
    assert_eq!(lines_of(&after), expected);
    assert!(after.contains("FNDA:1,main\n"), "{after}");
}

/// Lines, functions and inlined ones of a debug file count as those of the program itself.
#[test]
fn a_stripped_program_has_the_coverage_of_its_debug_file() {
    let folder = Folder::new("coverage-stripped");
    let text = "static int twice(int n) { return n > 3 ? 2 * n : n; }
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 10; i++) sum += twice(i * argc);
    return sum == 0;
}
static void never(void) { main(0, 0); }
void (*kept)(void) = never;";
    folder.program(&["-O1", "-g"], "whole", text);
    let tool = |program: &str, words: &[&str]| {
        let output = folder.run(program, words);
        assert!(output.status.success(), "{program}: {output:?}");
    };
    std::fs::copy(folder.file("whole"), folder.file("bare")).unwrap();
    tool("objcopy", &["--only-keep-debug", "bare", "bare.debug"]);
    tool("strip", &["bare"]);
    tool("objcopy", &["--add-gnu-debuglink=bare.debug", "bare"]);
    for form in ["lcov", "llvm"] {
        let report = |program: &str| {
            let out = format!("{program}.{form}");
            let words = [
                "count",
                "--format",
                form,
                "--modules",
                program,
                "--report",
                &out,
            ];
            tool(
                BINARY,
                &[&words[..], &["--", &format!("./{program}")]].concat(),
            );
            std::fs::read_to_string(folder.file(&out)).unwrap()
        };
        let whole = report("whole");
        assert!(whole.contains("main"), "{whole}");
        assert_eq!(report("bare"), whole);
    }
    // Nor does it have to be asked for.
    let words = [
        "count", "--format", "lcov", "--report", "all", "--", "./bare",
    ];
    tool(BINARY, &words);
    let all = std::fs::read_to_string(folder.file("all")).unwrap();
    assert!(all.contains("FNDA:0,never"), "{all}");
}
