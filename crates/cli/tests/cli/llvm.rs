//! `--format llvm`: llvm-profdata and clang (Debian: llvm-14, clang-14) take it for a
//! sample profile, and what clang makes with it does the same with less.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::folder::Folder;
use testkit::zstd;

use crate::BINARY;

/// A branch that is hardly taken, a function that is inlined behind it, and one that
/// never runs.
const WORK: &str = "\
#include <stdio.h>
static inline int leaf(int x) { return x % 3 == 0 ? x * 2 : x + 1; }
__attribute__((noinline)) int never(int x) { return x - 1; }
__attribute__((noinline)) int work(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        if (i % 100 == 7)
            s += leaf(i);
        else if (i < 0)
            s += never(i);
        else
            s -= i ^ s;
    }
    return s;
}
int main(void) {
    int t = 0;
    for (int i = 0; i < 50; i++)
        t += work(i * 20);
    printf(\"%d\\n\", t);
}
";

const TABLES: [&str; 3] = ["-O2", "-gline-tables-only", "-fdebug-info-for-profiling"];

/// Output; nothing may be said on standard error.
fn silently(folder: &Folder, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    let command = command.args(&words[1..]).current_dir(folder.path());
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Counts `./prog` into `run.prof`, which llvm-profdata understands to the last number.
fn profile(folder: &Folder) -> String {
    let count = [
        "count", "-q", "--format", "llvm", "--report", "run.prof", "--", "./prog",
    ];
    let output = folder.run(BINARY, &count);
    assert!(output.status.success(), "{output:?}");
    let ours = fs::read_to_string(folder.file("run.prof")).unwrap();
    let merge = [
        "llvm-profdata-14",
        "merge",
        "--sample",
        "--text",
        "run.prof",
        "-o",
        "again.prof",
    ];
    silently(folder, &merge);
    let theirs = fs::read_to_string(folder.file("again.prof")).unwrap();
    assert_eq!(theirs, ours);
    ours
}

#[test]
fn clang_takes_counts_for_weights() {
    let folder = Folder::new("llvm");
    fs::write(folder.file("work.c"), WORK).unwrap();
    let compile = [&["clang-14"], &TABLES[..], &["work.c", "-o"]].concat();
    silently(&folder, &[&compile[..], &["prog"]].concat());
    let profile = profile(&folder);
    // work is called 50 times, for 24,500 rounds, of which 265 call leaf.
    let work = profile.split_once("work:").unwrap().1;
    let (head, body) = work.split_once('\n').unwrap();
    assert!(head.ends_with(":50"), "{profile}");
    let body = body
        .split_inclusive('\n')
        .take_while(|line| line.starts_with(' '));
    let body: String = body.collect();
    assert!(body.contains("\n 3: 24500\n"), "{profile}");
    assert!(body.contains("leaf:265\n  0: 265\n"), "{profile}");
    assert!(profile.contains(" 3: 50 work:50\n"), "{profile}");
    assert!(!profile.contains("\nnever:"), "{profile}");
    let shown = silently(
        &folder,
        &["llvm-profdata-14", "show", "--sample", "run.prof"],
    );
    assert!(shown.contains("inlined callee: leaf: 265"), "{shown}");
    // The weights of its branches, each one more than what was counted.
    let again = [
        "-fprofile-sample-use=run.prof",
        "-S",
        "-emit-llvm",
        "again.ll",
    ];
    silently(&folder, &[&compile[..], &again[3..], &again[..3]].concat());
    let code = fs::read_to_string(folder.file("again.ll")).unwrap();
    assert!(code.contains("!\"function_entry_count\", i64 51"), "{code}");
    let weights = code
        .lines()
        .filter_map(|line| line.split_once("!\"branch_weights\", "));
    let weights: Vec<Vec<u64>> = weights
        .map(|(_, numbers)| {
            let numbers = numbers.trim_end_matches('}').split(", ");
            let numbers = numbers.map(|number| number.trim_start_matches("i32 ").parse());
            numbers.collect::<Result<_, _>>().unwrap()
        })
        .collect();
    let rare = weights.iter().any(|pair| {
        let (least, most) = (pair.iter().min(), pair.iter().max());
        least.is_some_and(|least| *least == 266) && most.is_some_and(|most| *most > 24_000)
    });
    assert!(rare, "{weights:?}");
}

/// Instructions executed, and conditional branches taken.
fn totals(folder: &Folder, program: &str) -> [u64; 2] {
    let count = [
        "count", "-q", "--format", "json", "--report", "run.json", "--", program,
    ];
    assert!(folder.run(BINARY, &count).status.success());
    let json = fs::read(folder.file("run.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let totals = &json["sections"][0]["totals"];
    ["executed", "branches_taken"].map(|name| totals[name].as_u64().unwrap())
}

#[test]
#[ignore = "wide: clang compiles a library twice; a small program is in the gate"]
fn a_real_program_does_the_same_with_less() {
    let folder = Folder::new("llvm-zstd");
    zstd::build(folder.path(), "clang-14", &TABLES, "prog");
    let profile = profile(&folder);
    assert!(profile.lines().count() > 5000);
    let flags = ["-O2", "-Werror", "-fprofile-sample-use=run.prof"];
    zstd::build(folder.path(), "clang-14", &flags, "better");
    assert_eq!(
        silently(&folder, &["./better"]),
        silently(&folder, &["./prog"])
    );
    let ([before, taken_before], [after, taken_after]) =
        (totals(&folder, "./prog"), totals(&folder, "./better"));
    assert!(after * 100 < before * 95, "{before} {after}");
    assert!(
        taken_after * 100 < taken_before * 70,
        "{taken_before} {taken_after}"
    );
}

#[test]
fn a_program_without_lines_is_refused() {
    let folder = Folder::new("llvm-refused");
    folder.program(&["-O1"], "prog", "int main(void) { return 0; }\n");
    let run = ["count", "-q", "-o", "run.evp", "--", "./prog"];
    assert!(folder.run(BINARY, &run).status.success());
    let output = folder.run(BINARY, &["report", "run.evp", "--format", "llvm"]);
    let path = folder.file("prog").canonicalize().unwrap();
    let expected = format!(
        "everypath: 'run.evp': '{}' has no DWARF that says which functions were inlined; compile \
         it with -gline-tables-only -fdebug-info-for-profiling, or -g\n",
        path.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(125));
}
