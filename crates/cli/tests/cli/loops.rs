//! `loops --list`: marks mean the loops that come back as often as their source says, however they were compiled.

use std::collections::HashMap;
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

/// Each marked loop comes back a number of times that no compiler changes, unless it makes no loop of it.
const SOURCE: &str = r#"
#include <stdio.h>
#define NO __attribute__((noinline))
double a[60][60], b[60][60], c[60][60];
static inline double dot(const double *x, int n) {
    double s = 0;
    // everypath: loop dot
    for (int i = 0; i < n; i++)
        s += x[i];
    return s;
}
NO void gemm(int n) {
#pragma everypath loop(gemm)
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                c[i][j] += a[i][k] * b[k][j];
}
NO int search(const int *list, int n, int key) {
    int at = 0;
    /* everypath: loop search */
    while (at < n && list[at] != key)
        at++;
    return at;
}
NO unsigned digits(unsigned x) {
    unsigned count = 0;
    // everypath: loop digits
    do {
        count++;
        x /= 10;
    } while (x);
    return count;
}
NO void clear(char *p, int n) {
    // everypath: loop clear
    for (int i = 0; i < n; i++)
        p[i] = 0;
}
NO unsigned collatz(unsigned x) {
    unsigned steps = 0;
    // everypath: loop collatz
    while (1) {
        x = x % 2 ? 3 * x + 1 : x / 2;
        steps++;
        if (x == 1) break;
    }
    return steps;
}
NO int never(int n) {
    // everypath: loop gone
    for (int i = 0; i < n; i++)
        if (n < 0)
            return i;
    // everypath: loop none
    return 0;
}
NO long again(long n) {
    long s = 0;
    for (long i = 0; i < n; i++) s += again(i) + 1;
    return s;
}
int main(int argc, char **argv) {
    int list[100];
    char bytes[1000];
    for (int i = 0; i < 100; i++) list[i] = i;
    gemm(argc * 60);
    clear(bytes, argc * 1000);
    printf("%g %g\n", dot(a[3], argc * 60), dot(b[argc], argc * 30));
    printf("%d %u %d %ld %d\n", search(list, 100, argc * 70), digits(argc * 12345678), never(argc), again(5), bytes[argc]);
    printf("%u\n", collatz(argc * 27));
    return 0;
}
"#;

fn run(folder: &Folder, words: &[&str]) -> Output {
    let output = folder.run(BINARY, words);
    assert!(output.status.success(), "{output:?}");
    output
}

/// Loops of each mark, with how often their headers were executed in a run; a text: why it means none.
fn marks(folder: &Folder, program: &str) -> HashMap<String, Result<u64, String>> {
    let path = format!("./{program}");
    run(
        folder,
        &[
            "count", "-q", "--format", "csv", "--report", "counts", "--", &path,
        ],
    );
    let counts = fs::read_to_string(folder.file("counts")).expect("it was written");
    let rows = counts.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let is_own = cells[0].ends_with(&format!("/{program}"));
        is_own.then(|| (cells[1].to_owned(), cells[4].parse().expect("a number")))
    });
    let counts: HashMap<String, u64> = rows.collect();
    let output = run(folder, &["loops", "--list", &path, "--format", "json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    // By name: the place in the file.
    let mut headers: HashMap<String, String> = HashMap::new();
    for nest in listed["nests"].as_array().expect("a list") {
        for one in nest["loops"].as_array().expect("a list") {
            let text = |key: &str| one[key].as_str().expect("a text").to_owned();
            headers.insert(text("name"), text("offset"));
        }
    }
    let marks = listed["marks"].as_array().expect("a list").iter();
    let marks = marks.map(|mark| {
        let found = match mark["loops"].as_array() {
            None => Err(mark["why_none"].as_str().expect("a reason").to_owned()),
            Some(loops) => {
                let names = loops.iter().map(|name| name.as_str().expect("a name"));
                Ok(names.map(|name| counts[&headers[name]]).sum())
            }
        };
        (mark["name"].as_str().expect("a name").to_owned(), found)
    });
    marks.collect()
}

#[test]
fn marks_mean_the_loops_of_their_lines() {
    let folder = Folder::new("loops-marks");
    fs::write(folder.file("program.c"), SOURCE).expect("it is writable");
    // How often each comes back. The header of one whose condition is at its beginning is executed once more for each time it is entered.
    let expected: [(&str, u64, u64); 7] = [
        ("dot", 90, 2),
        ("gemm", 60, 1),
        ("search", 70, 1),
        ("digits", 8, 1),
        ("collatz", 111, 1),
        ("clear", 1000, 1),
        ("gone", 1, 1),
    ];
    for (compiler, level) in [
        ("gcc", "-O0"),
        ("gcc", "-O1"),
        ("gcc", "-O2"),
        ("clang-14", "-O0"),
    ] {
        let words = ["-g", level, "-o", "program", "program.c"];
        let output = folder.run(compiler, &words);
        assert!(output.status.success(), "{output:?}");
        let found = marks(&folder, "program");
        let mut known = 0;
        for (name, times, entries) in expected {
            match &found[name] {
                Ok(executed) => {
                    known += 1;
                    assert!(
                        *executed == times || *executed == times + entries,
                        "{compiler} {level}: {name}: {executed}"
                    );
                }
                Err(why) => assert!(
                    level == "-O2" && matches!(name, "clear" | "gone" | "collatz"),
                    "{compiler} {level}: {name}: {why}"
                ),
            }
        }
        assert!(known >= 4, "{found:?}");
        assert_eq!(
            found["none"],
            Err("no loop follows it in the source".to_owned())
        );
    }
}

const RUST: &str = r#"
#[inline(never)]
fn sum(list: &[u64]) -> u64 {
    let mut sum = 0;
    // everypath: loop sum
    for x in list.iter().filter(|x| **x % 3 != 0) {
        sum ^= x * x;
    }
    sum
}
fn main() {
    let list: Vec<u64> = (0..std::env::args().count() as u64 * 900).collect();
    let mut n = 27;
    // everypath: loop collatz
    loop {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        if n == 1 { break; }
    }
    println!("{}", sum(&list) ^ n);
}
"#;

#[test]
fn marks_mean_loops_of_rust() {
    let folder = Folder::new("loops-rust");
    fs::write(folder.file("program.rs"), RUST).expect("it is writable");
    let words = ["-g", "-C", "opt-level=1", "program.rs"];
    let compiler = Command::new("rustc")
        .args(words)
        .current_dir(folder.path())
        .output();
    let output = compiler.expect("rustc is installed");
    assert!(output.status.success(), "{output:?}");
    let found = marks(&folder, "program");
    let names: Vec<&String> = found.keys().collect();
    assert_eq!(found["collatz"], Ok(111), "{names:?}");
    let sum = found["sum"].as_ref().expect("a loop");
    assert!((600..=901).contains(sum), "{sum}");
}

#[test]
fn nests_are_chosen_and_obstacles_named() {
    let folder = Folder::new("loops-chosen");
    folder.program(&["-O1", "-g"], "program", SOURCE);
    run(
        &folder,
        &["count", "-q", "-o", "run.evp", "--", "./program"],
    );
    let list = |which: &str, more: &[&str]| {
        let words = [&["loops", "--list", "./program", "--loops", which], more].concat();
        let output = folder.run(BINARY, &words);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).expect("text");
        (
            text(&output.stdout),
            text(&output.stderr),
            output.status.code(),
        )
    };
    let (said, ..) = list("gemm,again:1", &[]);
    assert!(
        said.contains("2 nests of loops: 4 loops, up to 3 deep"),
        "{said}"
    );
    assert!(said.contains("in the way: the call at "), "{said}");
    let (said, ..) = list("hottest:1", &["--counts", "run.evp"]);
    let rows: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("program.c:"))
        .collect();
    assert!(rows.iter().any(|row| row.starts_with("gemm:1 ")), "{said}");
    let (said, ..) = list("mark:dot", &[]);
    assert!(said.contains("2 nests of loops: 2 loops"), "{said}");
    for (which, sentence) in [
        (
            "hottest:3",
            "needs counts: `everypath count -o run.evp -- ./program`",
        ),
        ("hottest:x", "behind the colon is how many nests"),
        ("gemm:7", "'gemm' has 1 nest, and no gemm:7"),
        (
            "gem",
            "has no function 'gem'; `everypath flow ./program` lists them",
        ),
        (
            "mark:dots",
            "no source of './program' that is here has the mark dots",
        ),
    ] {
        let (_, said, status) = list(which, &[]);
        assert!(said.contains(sentence) && status == Some(125), "{said}");
    }
    assert!(folder.run("strip", &["program"]).status.success());
    let (_, said, status) = list("marks", &[]);
    assert!(
        said.contains("has no line tables") && status == Some(125),
        "{said}"
    );
    // And without lines there are loops still.
    let (said, ..) = list("all", &[]);
    assert!(said.contains(" nests of loops: "), "{said}");
}
