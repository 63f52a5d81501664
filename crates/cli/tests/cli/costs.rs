//! `--cost`: every cost is in every context and form, and none changes another.

use std::collections::BTreeMap;
use std::fs;

use testkit::folder::Folder;

use crate::BINARY;

/// `sum` has eight instructions a turn at most, of them two loads and a store.
const PROGRAM: &str = r#"
__attribute__((noinline)) void sum(volatile long *to, volatile long *from, long n) {
    for (long i = 0; i < n; i++)
        *to = *to + from[i];
}
int main(void) {
    static long from[1000], to;
    for (int i = 0; i < 50; i++)
        sum(&to, from, 1000);
    return to;
}
"#;

/// By cost, what the JSON report has for `sum`.
fn of_sum(folder: &Folder, costs: &str) -> BTreeMap<String, u64> {
    let head = ["contexts", "--funcs", "sum", "--cost", costs];
    let rest = ["--format", "json", "--report", "report", "--", "./program"];
    let output = folder.run(BINARY, &[&head[..], &rest].concat());
    assert!(output.status.success(), "{output:?}");
    let report = fs::read(folder.file("report")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let process = &report["processes"][0];
    let id = &process["functions"][0]["id"];
    let forest = &process["forests"][0];
    let nodes = forest["nodes"].as_array().unwrap();
    let of_node = |values: &serde_json::Value| {
        let own = (0..nodes.len()).filter(|&at| &nodes[at][1] == id);
        own.map(|at| values[at].as_u64().unwrap()).sum()
    };
    let costs = forest["costs"].as_object().unwrap();
    costs
        .iter()
        .map(|(name, values)| (name.clone(), of_node(values)))
        .collect()
}

#[test]
fn costs_follow_from_the_source() {
    let folder = Folder::new("costs");
    folder.program(&["-O1"], "program", PROGRAM);
    let exact = of_sum(&folder, "branches,loads,stores");
    let names: Vec<&str> = exact.keys().map(String::as_str).collect();
    assert_eq!(names, ["branches", "instructions", "loads", "stores"]);
    // In each call a return, which loads; in each turn a branch, two loads, a store.
    assert_eq!((exact["loads"], exact["stores"]), (50 * 2001, 50 * 1000));
    let (turns, entry) = (exact["branches"] / 50, exact["branches"] % 50);
    assert!(entry == 0 && (1001..1004).contains(&turns), "{exact:?}");
    assert!(exact["instructions"] > 50 * 5000, "{exact:?}");

    let all = of_sum(&folder, "calls,instructions,branches,loads,stores,cycles");
    for (name, value) in &exact {
        assert_eq!(all[name], *value, "{name}");
    }
    // Of four instructions at most in a cycle.
    assert!(all["cycles"] > exact["instructions"] / 10, "{all:?}");
    let alone = of_sum(&folder, "cycles");
    assert_eq!(alone.keys().collect::<Vec<_>>(), ["cycles"]);
    assert_eq!(of_sum(&folder, "calls"), BTreeMap::new());
}

#[test]
fn every_form_has_every_cost() {
    let folder = Folder::new("costs-forms");
    folder.program(&["-O1"], "program", PROGRAM);
    let costs = "branches,loads,stores,cycles";
    let record = [
        "contexts",
        "-q",
        "--cost",
        costs,
        "-o",
        "run.evp",
        "--",
        "./program",
    ];
    assert!(folder.run(BINARY, &record).status.success());
    let report = |words: &[&str]| {
        let output = folder.run(BINARY, &[&["report", "run.evp"], words].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let csv = report(&["--format", "csv"]);
    let expected = "process,thread,depth,instructions,calls,branches,loads,stores,cycles,";
    assert!(csv.starts_with(expected), "{csv}");
    let callgrind = report(&["--format", "callgrind"]);
    assert!(callgrind.contains("events: Ir Calls Branches Loads Stores Cycles\n"));
    let text = report(&["--by", "loads"]);
    assert!(text.contains(" loads "), "{text}");
    for cost in costs.split(',') {
        assert!(report(&["--format", "xml"]).contains(&format!(" {cost}=\"")));
        assert!(report(&["--format", "speedscope"]).contains(cost));
        let folded = report(&["--format", "folded", "--by", cost]);
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        let column = expected.split(',').position(|name| name == cost).unwrap();
        let of_line = |line: &str| line.split(',').nth(column).unwrap().parse::<u64>().unwrap();
        let sums = (
            folded.lines().map(value).sum::<u64>(),
            csv.lines().skip(1).map(of_line).sum::<u64>(),
        );
        assert_eq!(sums.0, sums.1, "{cost}");
    }
}

/// `outer` is on two ways to `inner`, and below itself.
const NESTED: &str = r#"
volatile long sink;
__attribute__((noinline)) void inner(int n) { for (int i = 0; i < n; i++) sink++; }
__attribute__((noinline)) void outer(int n);
__attribute__((noinline)) void between(int n) { inner(10); outer(n - 1); sink++; }
__attribute__((noinline)) void outer(int n) { inner(20); if (n > 0) between(n); sink++; }
int main(void) { outer(5); between(3); return 0; }
"#;

/// The rows of a table of contexts without what differs between runs: ids, and what the C
/// library costs, which is the root's.
fn rows(csv: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(csv);
    let rest = |line: &str| line.splitn(3, ',').nth(2).unwrap_or_default().to_owned();
    let rows = text.lines().map(rest);
    let mut rows: Vec<String> = rows.filter(|row| !row.ends_with("__root__")).collect();
    rows[1..].sort();
    rows
}

#[test]
fn whole_contexts_are_folded_at_once_or_later() {
    let folder = Folder::new("costs-folded");
    folder.program(&["-O1", "-fno-optimize-sibling-calls"], "program", NESTED);
    let only = ["--funcs", "main,outer,between,inner"];
    let run = |words: &[&str]| {
        let words = [&["contexts"], words, &only, &["--", "./program"]].concat();
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
    };
    let csv = ["-q", "--format", "csv", "--report"];
    run(&[
        &["-k", "2", "--inclusive", "-o", "run.evp"],
        &csv[..],
        &["at-once"],
    ]
    .concat());
    run(&[&["-k", "2"], &csv[..], &["live"]].concat());
    let later = |words: &[&str]| {
        let output = folder.run(BINARY, &[&["report", "run.evp"], words].concat());
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let at_once = rows(&fs::read(folder.file("at-once")).unwrap());
    assert_eq!(rows(&later(&["-k", "2", "--format", "csv"])), at_once);

    // Without the inclusive columns it is what -k 2 alone records.
    let short = |row: &String| {
        let fields: Vec<&str> = row.split(',').collect();
        [&fields[..3], &fields[5..]].concat().join(",")
    };
    let mut shortened: Vec<String> = at_once.iter().map(short).collect();
    shortened[1..].sort();
    assert_eq!(shortened, rows(&fs::read(folder.file("live")).unwrap()));

    // Main's calls, once: 5 levels and itself of outer and inner each, 5 of between with
    // an inner; then the same from between with 3.
    let main = at_once.iter().find(|row| row.ends_with(",main")).unwrap();
    let fields: Vec<&str> = main.split(',').collect();
    assert_eq!(
        fields[4],
        (1 + (6 + 6 + 5 + 5) + (3 + 3 + 3 + 3)).to_string()
    );
    let text = later(&["-k", "2", "--forest", "both"]);
    let text = String::from_utf8_lossy(&text);
    assert_eq!(text.matches("with callees").count(), 3, "{text}");
    assert!(text.contains("(k = 2, folded from "), "{text}");
    // What is in the file are whole paths.
    assert!(String::from_utf8_lossy(&later(&[])).contains("(k = infinite)"));
}

/// A program that forbids itself to read the cycle counter gets a fault for its own readings.
#[test]
fn cycles_are_not_read_where_that_is_forbidden() {
    let folder = Folder::new("costs-forbidden");
    let source = include_str!("../../../../tests/programs/insn_rdtsc_forbidden_everywhere.c");
    folder.program(&["-O1", "-pthread", "-static"], "program", source);
    let native = folder.run("./program", &[]);
    assert!(native.status.success(), "{native:?}");
    for options in [
        &["contexts", "--cost", "cycles"][..],
        &["contexts", "--cost", "cycles,loads", "--chaos", "3"],
        &["run", "--engine-stats"],
    ] {
        let words = [options, &["-q", "--", "./program"]].concat();
        let output = folder.run(BINARY, &words);
        assert_eq!(output.stdout, native.stdout, "{options:?}");
        assert_eq!(output.status, native.status, "{options:?}");
    }
}
