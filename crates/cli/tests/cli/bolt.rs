//! `--format fdata`: llvm-bolt (Debian: bolt-16) takes it for a profile of its own, and
//! perf2bolt, told the same transfers of control by address, writes the same lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::folder::Folder;
use testkit::zstd;

use crate::BINARY;
use crate::counted::{Counts, counters, edit};

const BOLT: &str = "/usr/lib/llvm-16/bin/llvm-bolt";
const PERF2BOLT: &str = "/usr/lib/llvm-16/bin/perf2bolt";

/// Output of a command that must succeed, both streams.
fn succeeds(folder: &Folder, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    let command = command.args(&words[1..]).current_dir(folder.path());
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    said
}

/// zstd's library with what llvm-bolt wants to have, and a recording of it.
fn counted(folder: &Folder) {
    zstd::build(folder.path(), "cc", &["-O2", "-Wl,--emit-relocs"], "packs");
    let run = ["count", "-q", "-o", "run.evp", "--", "./packs"];
    assert!(folder.run(BINARY, &run).status.success());
    let profile = report(folder, &["--format", "fdata"]);
    fs::write(folder.file("run.fdata"), profile).unwrap();
}

fn report(folder: &Folder, options: &[&str]) -> String {
    let output = folder.run(BINARY, &[&["report", "run.evp"], options].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A row of llvm-bolt's statistics, before and after.
fn statistic(said: &str, name: &str) -> [u64; 2] {
    let rows = said.lines().filter_map(|line| {
        let (count, rest) = line.trim_start().split_once(" : ")?;
        (rest.split(" (").next() == Some(name)).then(|| count.parse().unwrap())
    });
    let rows: Vec<u64> = rows.collect();
    assert!(rows.len() >= 2, "{name} {said}");
    [rows[0], rows[1]]
}

/// Executions of all edges of a kind from blocks of the program's own file, and its
/// instructions.
fn of_json(folder: &Folder, kind: &str) -> (u64, u64) {
    let options = ["--format", "json", "--modules", "packs"];
    let json: Value = serde_json::from_str(&report(folder, &options)).unwrap();
    let section = &json["sections"][0];
    let edges = section["edges"].as_array().unwrap().iter();
    let of_kind = edges.filter(|edge| edge["kind"] == kind);
    let blocks = section["blocks"].as_array().unwrap().iter();
    let number = |value: &Value| value.as_u64().unwrap();
    (
        of_kind.map(|edge| number(&edge["count"])).sum(),
        blocks
            .map(|block| number(&block["instructions"]) * number(&block["executed"]))
            .sum(),
    )
}

#[test]
#[ignore = "wide: llvm-bolt rewrites a library; perf2bolt reads the same form in the gate"]
fn llvm_bolt_makes_a_real_program_jump_less() {
    let folder = Folder::new("bolt");
    counted(&folder);
    let said = succeeds(
        &folder,
        &[
            BOLT,
            "packs",
            "-o",
            "packs.bolt",
            "-data=run.fdata",
            "-reorder-blocks=ext-tsp",
            "-reorder-functions=hfsort",
            "-split-functions",
            "-dyno-stats",
            "-report-stale",
        ],
    );
    for word in ["stale", "invalid", "corrupt", "mismatch"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    let natively = succeeds(&folder, &["./packs"]);
    assert_eq!(succeeds(&folder, &["./packs.bolt"]), natively);
    let [before, after] = statistic(&said, "taken branches");
    assert!(after * 2 < before, "{said}");
    // It leaves out two small functions of the C runtime.
    let (taken, executed) = of_json(&folder, "taken");
    let [theirs, _] = statistic(&said, "taken conditional branches");
    assert!(theirs <= taken && taken - theirs < 10, "{taken} {theirs}");
    let [theirs, _] = statistic(&said, "executed instructions");
    assert!(
        theirs.abs_diff(executed) * 1000 < executed,
        "{executed} {theirs}"
    );
    is_counted_edited(&folder);
}

/// An interpreter of a million codes, with a jump table that a code never in use has an
/// entry of, and two that share their end.
const SWITCH: &str = "\
#include <stdio.h>
int main(void)
{
    unsigned char code[1024];
    unsigned seed = 7;
    for (int i = 0; i < 1024; i++) {
        seed = seed * 1103515245 + 12345;
        code[i] = (seed >> 16) % 8;
    }
    long sum = 0, x = 1;
    for (int i = 0; i < 1000000; i++) {
        switch (code[i & 1023]) {
        case 0: sum += x; break;
        case 1: sum -= x; break;
        case 2: x = x * 3 + 1; break;
        case 3: x ^= sum; break;
        case 4: if (sum & 1) sum += 7; break;
        case 5: sum = sum << 1 | (sum >> 63 & 1);
        case 6: x += 5; break;
        case 7: sum ^= i; break;
        case 8: puts(\"never\"); break;
        case 9: x += 9; break;
        default: x--; break;
        }
    }
    printf(\"%ld\\n\", sum);
}
";

#[test]
fn where_a_jump_table_leads_is_known() {
    let folder = Folder::new("bolt-switch");
    let flags = ["-O2", "-fno-pie", "-no-pie", "-Wl,--emit-relocs"];
    folder.program(&flags, "packs", SWITCH);
    let run = ["count", "-q", "-o", "run.evp", "--", "./packs"];
    assert!(folder.run(BINARY, &run).status.success());
    fs::write(
        folder.file("run.fdata"),
        report(&folder, &["--format", "fdata"]),
    )
    .unwrap();
    let bolt = [BOLT, "packs", "-o", "packs.bolt", "-data=run.fdata"];
    let options = ["-reorder-blocks=ext-tsp", "-dyno-stats", "-report-stale"];
    let said = succeeds(&folder, &[&bolt[..], &options].concat());
    assert!(!said.contains("stale"), "{said}");
    assert_eq!(
        succeeds(&folder, &["./packs.bolt"]),
        succeeds(&folder, &["./packs"])
    );
    assert_eq!(statistic(&said, "taken jump table branches")[0], 1_000_000);
    let (_, executed) = of_json(&folder, "taken");
    let [theirs, _] = statistic(&said, "executed instructions");
    assert!(theirs.abs_diff(executed) < 100, "{executed} {theirs}");
    is_counted_edited(&folder);
}

/// A program that llvm-bolt made is edited in its turn: its last segment is code, and counters are behind that of its data.
fn is_counted_edited(folder: &Folder) {
    let run = ["count", "-q", "-o", "all.evp", "--", "./packs.bolt"];
    let native = folder.run("./packs.bolt", &[]).stdout;
    assert_eq!(folder.run(BINARY, &run).stdout, native);
    let inside = edit(folder, "packs.bolt", "edges");
    let edited = format!("{inside}/packs.bolt");
    assert_eq!(folder.run(&edited, &[]).stdout, native);
    let files = counters(folder, "");
    let [file] = &files
        .into_iter()
        .filter(|file| file.contains("packs.bolt."))
        .collect::<Vec<_>>()[..]
    else {
        panic!("a file of counters");
    };
    let all = Counts::of(folder, &["all.evp".into()], "packs.bolt");
    let own = Counts::of(folder, std::slice::from_ref(file), "packs.bolt");
    assert!(own.agree_with(&all, "packs.bolt") > 10);
}

/// Executed instructions and taken branches within the file, by address, from the callgrind
/// form.
fn transfers(folder: &Folder) -> (BTreeMap<u64, u64>, BTreeMap<(u64, u64), u64>) {
    let text = report(folder, &["--format", "callgrind", "--modules", "packs"]);
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let (mut insns, mut branches) = (BTreeMap::new(), BTreeMap::new());
    let (mut last, mut skip) = (0, false);
    let number = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    let (mut own, mut called) = (String::new(), String::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if std::mem::take(&mut skip) {
            continue;
        }
        if let Some(name) = line.strip_prefix("ob=") {
            own = number(name);
        } else if let Some(name) = line.strip_prefix("cob=") {
            called = number(name);
        }
        if line.starts_with("0x") {
            last = hex(words[0]);
            insns.insert(last, words[2].parse().unwrap());
        } else if let Some(("jcnd" | "jump" | "calls", count)) = words[0].split_once('=') {
            let count = count.split('/').next().unwrap().parse().unwrap();
            if words[0].starts_with('j') || called == own {
                branches.insert((last, hex(words[1])), count);
            }
            skip = true;
        }
    }
    (insns, branches)
}

/// Input of perf2bolt: branches, and straight runs, here of two instructions each.
fn aggregated(folder: &Folder) -> String {
    let (insns, branches) = transfers(folder);
    let listing = succeeds(
        folder,
        &["objdump", "-d", "--no-show-raw-insn", "-w", "packs"],
    );
    let mut places: Vec<(u64, &str)> = Vec::new();
    for line in listing.lines() {
        let Some((place, text)) = line.split_once(":\t") else {
            continue;
        };
        if let Ok(place) = u64::from_str_radix(place.trim(), 16) {
            places.push((place, text));
        }
    }
    let mut out = String::new();
    for ((from, to), count) in &branches {
        if *count > 0 {
            writeln!(out, "B {from:x} {to:x} {count} 0").unwrap();
        }
    }
    for pair in places.windows(2) {
        let ((from, text), (next, _)) = (pair[0], pair[1]);
        let leaves = ["jmp", "ret", "call", "notrack", "bnd"];
        if leaves.iter().any(|name| text.starts_with(name)) {
            continue;
        }
        let taken = match text.starts_with('j') {
            true => branches
                .range((from, 0)..(from + 1, 0))
                .map(|branch| branch.1)
                .sum(),
            false => 0,
        };
        let fell = insns.get(&from).copied().unwrap_or(0) - taken;
        if fell > 0 {
            writeln!(out, "F {from:x} {next:x} {fell}").unwrap();
        }
    }
    out
}

/// Lines by place, with their executions; without calls of other modules' functions.
fn lines_of(profile: &str) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for line in profile.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, from, _, _, to, _, _, count] = fields[..] else {
            panic!("{line}");
        };
        let is_known = |name: &str| name != "[unknown]" && name != "__BOLT_PSEUDO_.plt";
        if is_known(from) && is_known(to) && !to.ends_with("@PLT") {
            let sum: &mut u64 = lines.entry(fields[..6].join(" ")).or_default();
            *sum += count.parse::<u64>().unwrap();
        }
    }
    lines
}

#[test]
#[ignore = "wide: it takes twenty seconds, and the profile is read by llvm-bolt in the other tests"]
fn perf2bolt_writes_the_same_of_the_same_transfers() {
    let folder = Folder::new("perf2bolt");
    counted(&folder);
    fs::write(folder.file("run.aggregated"), aggregated(&folder)).unwrap();
    let perf2bolt = [
        PERF2BOLT,
        "packs",
        "-pa",
        "-p",
        "run.aggregated",
        "-o",
        "its.fdata",
    ];
    succeeds(&folder, &perf2bolt);
    let read = |name| lines_of(&fs::read_to_string(folder.file(name)).unwrap());
    let (ours, theirs) = (read("run.fdata"), read("its.fdata"));
    assert!(theirs.len() > 2000);
    for (place, count) in &theirs {
        assert_eq!(ours.get(place), Some(count), "{place}");
    }
    // What a call goes on with behind itself, which it was not told of.
    assert!(
        ours.len() - theirs.len() < 40,
        "{} {}",
        ours.len(),
        theirs.len()
    );
    let sites: BTreeSet<&str> = ours
        .keys()
        .map(|place| place.split(' ').nth(1).unwrap())
        .collect();
    assert!(sites.contains("main") && sites.contains("ZSTD_compressBlock_opt2/1"));
}

#[test]
fn it_is_of_one_file_which_must_be_the_one_that_ran() {
    let folder = Folder::new("fdata-refused");
    folder.program(&["-O1"], "prog", "int main(void) { return 0; }\n");
    let run = ["count", "-q", "-o", "run.evp", "--", "./prog"];
    assert!(folder.run(BINARY, &run).status.success());
    let refused = |options: &[&str]| {
        let report = ["report", "run.evp", "--format", "fdata"];
        let output = folder.run(BINARY, &[&report[..], options].concat());
        assert_eq!(output.status.code(), Some(125));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let many = refused(&["--modules", "*"]);
    assert!(many.contains("this --format is of one file"), "{many}");
    assert!(
        many.ends_with("are wanted; name one with --modules\n"),
        "{many}"
    );
    let none = refused(&["--modules", "other"]);
    let expected =
        "everypath: 'run.evp': no file that ran is named 'other' (--modules); these ran: ";
    assert!(
        none.starts_with(expected) && none.ends_with("prog\n"),
        "{none}"
    );
    let path = folder.file("prog").canonicalize().unwrap();
    folder.compile(&["-O1", "-s"], "prog", "prog.c");
    let expected = format!(
        "everypath: 'run.evp': '{}' is not the file that ran any more, and this --format needs it\n",
        path.display()
    );
    assert_eq!(refused(&[]), expected);
    assert!(folder.run(BINARY, &run).status.success());
    let expected = format!(
        "everypath: 'run.evp': '{}' has no symbol table, by which llvm-bolt knows functions\n",
        path.display()
    );
    assert_eq!(refused(&[]), expected);
}
