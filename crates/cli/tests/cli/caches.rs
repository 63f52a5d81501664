//! Simulated caches: against cachegrind on the same accesses, against a slow definition on a real
//! program, and as callgrind_annotate reads them.

use std::collections::BTreeMap;
use std::process::Command;

use analysis::caches::{Config, Level, MODELS, Updates};
use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

/// Touches 512 KB in strides, updates some of it, calls and returns; its stack is its own. No address
/// depends on who runs it.
const PROGRAM: &str = "
.intel_syntax noprefix
.globl _start
.type _start, @function
.type walk, @function
.type update, @function
_start: lea rsp, [rip+stack+4096]
mov ebx, 3
1: lea rdi, [rip+area]
mov esi, 8192
call walk
lea rdi, [rip+area+24]
mov esi, 3000
call update
dec ebx
jnz 1b
movups xmm0, [rip+area+56]
movups [rip+area+120], xmm0
mov eax, 231
xor edi, edi
syscall
.size _start, .-_start
.p2align 6
.skip 61
walk: mov rax, [rdi]
mov [rdi+8], ax
movzx ecx, byte ptr [rdi+36]
add rdi, 60
dec esi
jnz walk
ret
.size walk, .-walk
.skip 5000
update: add dword ptr [rdi], 3
inc qword ptr [rdi+4100]
push rdi
pop rax
add rdi, 128
dec esi
jnz update
ret
.size update, .-update
.data
.long 1
.bss
.p2align 12
area: .skip 600000
stack: .skip 4096
.section .note.GNU-stack
";

const EVENTS: [&str; 9] = [
    "Ir", "I1mr", "ILmr", "Dr", "D1mr", "DLmr", "Dw", "D1mw", "DLmw",
];

fn said(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, words);
    assert!(output.status.success(), "{words:?} {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn run(folder: &Folder, program: &str, words: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(words).current_dir(folder.path()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Costs by function of a file of cachegrind, and the summary.
fn of_cachegrind(text: &str) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut function = String::new();
    for line in text.lines() {
        let numbers = |line: &str| -> Vec<u64> {
            let words = line.split_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        if let Some(name) = line.strip_prefix("fn=") {
            function = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("summary:") {
            all.insert("summary".to_owned(), numbers(rest));
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let own = all.entry(function.clone()).or_insert(vec![0; EVENTS.len()]);
            let costs = numbers(line);
            own.iter_mut()
                .zip(&costs[1..])
                .for_each(|(sum, one)| *sum += one);
        }
    }
    all
}

/// Costs by function of our JSON, and their total.
fn of_json(text: &str) -> BTreeMap<String, Vec<u64>> {
    let json: Value = serde_json::from_str(text).unwrap();
    let numbers = |value: &Value| -> Vec<u64> {
        let all = value.as_array().unwrap().iter();
        all.map(|number| number.as_u64().unwrap()).collect()
    };
    let functions = json["functions"].as_array().unwrap().iter();
    let mut all: BTreeMap<String, Vec<u64>> = functions
        .map(|one| {
            let name = one["function"].as_str().unwrap_or("???");
            (name.to_owned(), numbers(&one["costs"]))
        })
        .collect();
    all.insert("summary".to_owned(), numbers(&json["total"]));
    let sums = json["instructions"].as_array().unwrap().iter();
    let sums = sums.fold(vec![0; all["summary"].len()], |mut sums, one| {
        let costs = numbers(&one["costs"]);
        sums.iter_mut()
            .zip(costs)
            .for_each(|(sum, one)| *sum += one);
        sums
    });
    assert_eq!(sums, all["summary"], "every cost is of an instruction");
    all
}

fn assembled(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::write(folder.file("prog.s"), PROGRAM).unwrap();
    run(
        &folder,
        "cc",
        &["-nostdlib", "-static", "-no-pie", "-o", "prog", "prog.s"],
    );
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--memory",
        "addresses",
        "--",
        "./prog",
    ];
    said(&folder, &words);
    folder
}

#[test]
fn counts_of_cachegrind_are_reproduced() {
    let folder = assembled("caches-cachegrind");
    for [l1i, l1d, ll] in [
        ["32768,8,64", "32768,8,64", "8388608,16,64"],
        ["1024,1,64", "4096,2,64", "65536,4,64"],
        ["4096,4,32", "8192,2,32", "131072,8,128"],
    ] {
        let words = [
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--cachegrind-out-file=out",
            &format!("--I1={l1i}"),
            &format!("--D1={l1d}"),
            &format!("--LL={ll}"),
            "./prog",
        ];
        run(&folder, "valgrind", &words);
        let expected = of_cachegrind(&std::fs::read_to_string(folder.file("out")).unwrap());
        let words = [
            "caches",
            "run.evp",
            "--format",
            "json",
            "--cachegrind",
            "--l1i",
            l1i,
            "--l1d",
            l1d,
            "--ll",
            ll,
        ];
        let made = of_json(&said(&folder, &words));
        for function in ["summary", "walk", "update"] {
            assert_eq!(made[function], expected[function], "{function} {l1d}");
        }
        assert!(made["summary"].iter().all(|&cost| cost > 0), "{made:?}");
    }
}

#[test]
fn updates_are_a_read_and_a_write() {
    let folder = assembled("caches-updates");
    let words = ["caches", "run.evp", "--format", "json", "--dtlb", "16,4"];
    let made = of_json(&said(&folder, &words));
    // Two updates and a pop of each round are reads, and a push is a write besides; then comes the return.
    let update = &made["update"];
    assert_eq!([update[3], update[6]], [3 * (3 * 3000 + 1), 3 * 3 * 3000]);
    let json: Value = serde_json::from_str(&said(&folder, &words)).unwrap();
    let events = json["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap(), "DTm");
    let pages = made["summary"].last().unwrap();
    assert!((3 * 120..3 * 400).contains(pages), "{pages}");
}

/// Misses of an LRU cache for each access, by its definition: so many other lines of its set were used since.
fn defined(accesses: &[(u64, u64)], sets: u64, ways: usize) -> u64 {
    let mut used: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut misses = 0;
    for &(address, size) in accesses {
        let mut is_there = true;
        for line in address / 64..=(address + size - 1) / 64 {
            let set = used.entry(line % sets).or_default();
            let at = set.iter().rev().position(|&one| one == line);
            is_there &= at.is_some_and(|distance| distance < ways);
            set.retain(|&one| one != line);
            set.push(line);
        }
        misses += u64::from(!is_there);
    }
    misses
}

#[test]
fn misses_of_a_real_program_are_those_of_the_definition() {
    let folder = Folder::new("caches-real");
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--memory",
        "addresses",
        "--",
        "ls",
        "/",
    ];
    said(&folder, &words);
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (mut data, mut fetches) = (Vec::new(), 0);
    // Each operand of one instruction: times, address, size, reads and writes.
    let mut own: Vec<(u64, u64, u64, &str)> = Vec::new();
    let text = said(&folder, &["dump", "run.evp", "--accesses"]);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [kind @ ("R" | "W" | "RW"), size, address, ref rest @ ..] = words[..] {
            let times = rest.iter().position(|word| *word == "times");
            let times = times.map_or(1, |at| rest[at - 1].parse::<u64>().unwrap());
            assert!(!rest.contains(&"backwards"));
            own.push((times, hex(address), size.parse().unwrap(), kind));
            continue;
        }
        fetches += 1;
        one_by_one(&own, &mut data);
        own.clear();
    }
    one_by_one(&own, &mut data);
    let made = of_json(&said(&folder, &["caches", "run.evp", "--format", "json"]));
    let total = &made["summary"];
    assert_eq!(total[0], fetches);
    assert_eq!(total[3] + total[6], data.len() as u64);
    assert_eq!(total[4] + total[7], defined(&data, 64, 8));
}

/// The accesses of an instruction, with the sizes that caches see.
fn one_by_one(own: &[(u64, u64, u64, &str)], data: &mut Vec<(u64, u64)>) {
    let most = own.iter().map(|(times, ..)| *times).max().unwrap_or(0);
    for at in 0..most {
        for letter in ['R', 'W'] {
            for (times, address, size, kind) in own {
                if kind.contains(letter) && at < *times && *size > 0 {
                    data.push((address + at * size, *size.min(&64)));
                }
            }
        }
    }
}

#[test]
fn callgrind_annotate_reads_them() {
    let folder = assembled("caches-annotate");
    let words = [
        "caches",
        "run.evp",
        "--format",
        "callgrind",
        "--report",
        "misses.out",
    ];
    said(&folder, &words);
    let shown = run(&folder, "callgrind_annotate", &["--auto=no", "misses.out"]);
    assert!(
        shown.contains("Events recorded:  Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw"),
        "{shown}"
    );
    let made = of_json(&said(&folder, &["caches", "run.evp", "--format", "json"]));
    let line = shown
        .lines()
        .find(|line| line.contains(":walk "))
        .expect("a line of walk");
    let numbers = line.split_whitespace().map(|word| word.replace(',', ""));
    let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
    let without_zeros = made["walk"].iter().copied().filter(|&cost| cost > 0);
    let shown = numbers.into_iter().filter(|&cost| cost > 0);
    assert_eq!(shown.collect::<Vec<_>>(), without_zeros.collect::<Vec<_>>());
}

#[test]
fn a_report_for_people() {
    let folder = assembled("caches-text");
    let words = [
        "caches",
        "run.evp",
        "--l1d",
        "4K,2,64,plru,next-line",
        "--itlb",
        "16,16",
    ];
    let text = said(&folder, &words);
    for part in [
        "everypath caches: ./prog",
        "data 4 KB, 2 ways of 64 bytes, plru, next line",
        "miss the translation buffer: 16 entries, 16 ways",
        "functions that miss most",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut first = text
        .lines()
        .skip_while(|line| !line.contains("functions that miss"));
    assert!(first.nth(1).unwrap().contains("  walk  "), "{text}");
}

#[test]
fn what_is_no_cache_is_refused() {
    let folder = Folder::new("caches-refused");
    said(&folder, &["trace", "-q", "-o", "none.evp", "--", "true"]);
    for (words, why) in [
        (&["none.evp"][..], "record it with --memory addresses"),
        (&["none.evp", "--l1d", "32K,8"], "as 32K,8,64"),
        (
            &["none.evp", "--l1d", "40K,8,64"],
            "no power of two times 8 lines of 64 bytes",
        ),
        (&["none.evp", "--l1d", "512G,8,64"], "at most 4G"),
        (
            &["none.evp", "--l1d", "32K,8,64,best"],
            "none of lru, plru and next-line",
        ),
        (&["none.evp", "--ll", "48K,12,64,plru"], "12 make none"),
        (&["none.evp", "--dtlb", "64,5"], "no power of two of sets"),
        (&["none.evp", "--report", "no/x"], "cannot write 'no/x'"),
    ] {
        let output = folder.run(BINARY, &[&["caches"], words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?} {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{words:?} {said}"
        );
    }
}

/// Two threads, each with a number of its own in one line, and a number that both change.
const SHARING: &str = r#"
#include <pthread.h>
#include <stdio.h>
static struct { volatile long own[2]; } line __attribute__((aligned(64)));
static volatile long both __attribute__((aligned(64)));
static void *count(void *argument) {
    volatile long *own = argument;
    for (int i = 0; i < 1000; i++) { (*own)++; both++; }
    return 0;
}
int main(void) {
    pthread_t other;
    printf("%p %p\n", (void *)&line, (void *)&both);
    pthread_create(&other, 0, count, (void *)&line.own[1]);
    count((void *)&line.own[0]);
    pthread_join(other, 0);
    return 0;
}
"#;

#[test]
fn lines_that_threads_share_are_found() {
    let folder = Folder::new("caches-sharing");
    folder.program(&["-O1", "-g", "-pthread", "-no-pie"], "prog", SHARING);
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--memory",
        "addresses",
        "--",
        "./prog",
    ];
    let places = said(&folder, &words);
    let hex = |text: &str| u64::from_str_radix(&text[2..], 16).unwrap();
    let places: Vec<u64> = places.split_whitespace().map(hex).collect();
    let words = ["caches", "run.evp", "--sharing", "--format", "json"];
    let json: Value = serde_json::from_str(&said(&folder, &words)).unwrap();
    let lines = json["lines"].as_array().unwrap();
    // The busiest two.
    for (place, is_false, bytes) in [
        (places[0], true, ["0-7", "8-15"]),
        (places[1], false, ["0-7", "0-7"]),
    ] {
        let found = lines[..2].iter().find(|line| line["address"] == place);
        let line = found.unwrap_or_else(|| panic!("{place:#x} of {lines:#?}"));
        assert_eq!(
            (line["is_false"].as_bool(), line["weight"].as_u64()),
            (Some(is_false), Some(2000))
        );
        let uses = line["threads"].as_array().unwrap();
        assert_eq!(uses.len(), 2, "{uses:?}");
        for (one, bytes) in uses.iter().zip(bytes) {
            assert_eq!([&one["reads"], &one["writes"]], [1000, 1000]);
            assert_eq!([&one["bytes_read"], &one["bytes_written"]], [bytes, bytes]);
            assert_eq!(one["function"], "count");
            assert!(one["file"].as_str().unwrap().ends_with("prog.c"), "{one}");
            assert_eq!(one["line"], 8);
        }
    }
    let text = said(&folder, &["caches", "run.evp", "--sharing", "--top", "2"]);
    assert!(
        text.contains(": false sharing: ") && text.contains("most in count prog.c:8"),
        "{text}"
    );
    let words = ["caches", "run.evp", "--sharing", "--format", "callgrind"];
    assert!(folder.refused(BINARY, &words).contains("give text or json"));
}

/// Walks lines that nobody had, and the same again, by two callers.
const CALLERS: &str = r#"
static volatile char area[1 << 14] __attribute__((aligned(4096)));
__attribute__((noinline)) static void walk(void) { for (int i = 0; i < 1 << 14; i += 64) area[i]; }
__attribute__((noinline)) static void first(void) { walk(); asm volatile(""); }
__attribute__((noinline)) static void again(void) { walk(); walk(); asm volatile(""); }
int main(void) { first(); again(); again(); return 0; }
"#;

#[test]
fn misses_are_those_of_the_context() {
    let folder = Folder::new("caches-contexts");
    folder.program(&["-O1", "-g"], "prog", CALLERS);
    let words = ["trace", "-q", "-o", "run.evp", "--memory", "addresses"];
    said(&folder, &[&words[..], &["--", "./prog"]].concat());
    let words = ["caches", "run.evp", "--contexts", "misses.evp"];
    let json = said(&folder, &[&words[..], &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    let total: Vec<u64> = serde_json::from_value(json["total"].clone()).unwrap();
    let events: Vec<String> = serde_json::from_value(json["events"].clone()).unwrap();
    let sum = |names: &[&str]| -> u64 {
        let both = events.iter().zip(&total);
        let own = both.filter(|(event, _)| names.contains(&event.as_str()));
        own.map(|(_, number)| number).sum()
    };
    for (by, names) in [
        ("instructions", &["Ir"][..]),
        ("l1i-misses", &["I1mr"]),
        ("l1d-misses", &["D1mr", "D1mw"]),
        ("ll-misses", &["ILmr", "DLmr", "DLmw"]),
    ] {
        let words = ["report", "misses.evp", "--format", "folded", "--by", by];
        let folded = said(&folder, &words);
        let stacks = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let stacks = stacks.map(|(stack, number)| (stack, number.parse::<u64>().unwrap()));
        let stacks: Vec<(&str, u64)> = stacks.collect();
        let all: u64 = stacks.iter().map(|(_, number)| number).sum();
        assert_eq!(all, sum(names), "{by}: {folded}");
        let of = |end: &str| -> u64 {
            let own = stacks.iter().filter(|(stack, _)| stack.ends_with(end));
            own.map(|(_, number)| number).sum()
        };
        if by == "l1d-misses" {
            assert_eq!(of(";main;first;walk"), 256, "{folded}");
            assert_eq!(of(";main;again;walk"), 0, "{folded}");
        }
    }
    let document = said(&folder, &["report", "misses.evp", "--format", "xml"]);
    std::fs::write(folder.path().join("misses.xml"), document).unwrap();
    assert_eq!(crate::xml::faults(&folder.path().join("misses.xml")), "");
    let words = ["contexts", "--cost", "ll-misses", "--", "true"];
    assert!(folder.refused(BINARY, &words).contains("simulated"));
}

/// Threads that are read at the same time miss what they miss one after the other, in their order.
#[test]
fn threads_at_once_are_threads_in_turns() {
    let folder = Folder::new("caches-at-once");
    let file = std::fs::read(BINARY).unwrap();
    std::fs::write(folder.path().join("file"), &file[..60_000]).unwrap();
    let words = ["trace", "-q", "-o", "run.evp", "--memory", "addresses"];
    let xz = ["--", "xz", "-1", "-k", "-T2", "--block-size=24KiB", "file"];
    said(&folder, &[&words[..], &xz].concat());
    let traced = std::fs::read(folder.path().join("run.evp")).unwrap();
    let traced = trace::read(traced.as_slice()).unwrap();
    assert!(traced.processes[0].threads.len() > 2);
    let selection = analysis::walk::selection(&traced).unwrap();
    let (counted, failures) = analysis::counts::from_trace::recording(&traced);
    assert_eq!(failures, [""; 0]);
    let view = report::counts::View::default();
    let report = report::counts::Report::new(&counted, &view).unwrap();
    let level = |size, ways| Level {
        size,
        ways,
        line: 64,
        model: &MODELS[0],
        next_line: false,
    };
    let costs = |at_once| {
        let config = Config {
            l1i: level(4 << 10, 2),
            l1d: level(4 << 10, 2),
            ll: level(64 << 10, 4),
            itlb: None,
            dtlb: None,
            updates: Updates::Both,
            at_once,
        };
        analysis::caches::misses(&traced, selection, &config, None).at(&traced, report.counts())
    };
    let (at_once, in_turns) = (costs(32), costs(0));
    assert!(in_turns.total.iter().take(8).all(|&number| number > 0));
    assert_eq!(at_once.total, in_turns.total);
    assert_eq!(at_once.insns, in_turns.insns);
    assert_eq!(at_once.fetches, in_turns.fetches);
}

/// Misses of fully associative caches of each size are those that follow from distances, in two threads.
#[test]
fn misses_of_all_sizes_follow_from_reuse() {
    let folder = Folder::new("caches-reuse");
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benches/programs/threads.c"
    );
    run(&folder, "cc", &["-O1", "-pthread", "-o", "prog", source]);
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--memory",
        "addresses",
        "--no-shared-libs",
        "--",
        "./prog",
        "2",
        "2",
    ];
    run(&folder, BINARY, &words);
    let json = |words: &[&str]| -> Value {
        let output = folder.run(
            BINARY,
            &[&["caches", "run.evp", "--format", "json"], words].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let reuse = json(&["--reuse"]);
    let distances = reuse["distances"].as_array().expect("a list");
    let (mut compared, mut sizes) = (0, 0);
    for distance in distances {
        let (lines, misses) = (&distance["below"], &distance["misses"]);
        let lines = lines.as_u64().expect("a number");
        if !(1..=1024).contains(&lines) {
            continue;
        }
        let cache = format!("{},{lines},64", 64 * lines);
        let of_caches = json(&["--l1d", &cache]);
        let names = of_caches["events"].as_array().expect("a list");
        let total = of_caches["total"].as_array().expect("a list").iter();
        let total: Vec<u64> = total.filter_map(Value::as_u64).collect();
        let sum = |wanted: [&str; 2]| -> u64 {
            let all = names.iter().zip(&total);
            let own = all.filter(|(name, _)| wanted.contains(&name.as_str().unwrap_or_default()));
            own.map(|(_, count)| count).sum()
        };
        assert_eq!(
            misses.as_u64(),
            Some(sum(["D1mr", "D1mw"])),
            "{lines} lines"
        );
        assert_eq!(reuse["accesses"].as_u64(), Some(sum(["Dr", "Dw"])));
        compared += sum(["D1mr", "D1mw"]);
        sizes += 1;
    }
    assert!(sizes >= 8 && compared > 1000, "{sizes} {compared}");
    let text = folder.run(BINARY, &["caches", "run.evp", "--reuse"]);
    let text = String::from_utf8(text.stdout).expect("text");
    let row = text
        .lines()
        .find(|line| line.trim_start().starts_with("1 KB"));
    let misses = distances
        .iter()
        .find(|one| one["below"] == 16)
        .expect("16 lines");
    let row = row.expect("the smallest cache").replace(',', "");
    assert!(row.contains(&format!(" {} ", misses["misses"])), "{row}");
}

/// Functions of a stripped program are those of its unwind tables, with the same fetches.
#[test]
fn a_stripped_program_has_its_functions() {
    let folder = Folder::new("caches-stripped");
    let text = "static long table[4096];
__attribute__((noinline)) long sum(int step) { long all = 0; for (int i = 0; i < 4096; i += step) all += table[i]; return all; }
__attribute__((noinline)) void fill(int n) { for (int i = 0; i < n; i++) table[i] = i; }
int main(void) { fill(4000); long all = 0; for (int i = 1; i < 9; i++) all += sum(i); return all == 7; }";
    folder.program(&["-O1"], "whole", text);
    std::fs::copy(folder.file("whole"), folder.file("bare")).unwrap();
    assert!(folder.run("strip", &["bare"]).status.success());
    let run = |words: &[&str]| {
        let output = folder.run(BINARY, words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let of_program = |name: &str| -> BTreeMap<u64, u64> {
        let (trace, program) = (format!("{name}.evp"), format!("./{name}"));
        run(&[
            "trace",
            "--memory",
            "addresses",
            "-q",
            "-o",
            &trace,
            "--",
            &program,
        ]);
        let report: Value =
            serde_json::from_str(&run(&["caches", &trace, "--format", "json"])).unwrap();
        let functions = report["functions"].as_array().unwrap().iter();
        let own = functions.filter(|one| {
            one["module"]
                .as_str()
                .is_some_and(|path| path.ends_with(name))
        });
        let row = |one: &Value| {
            (
                one["offset"].as_u64().unwrap(),
                one["costs"][0].as_u64().unwrap(),
            )
        };
        own.map(row).collect()
    };
    let (whole, bare) = (of_program("whole"), of_program("bare"));
    // What `strip` leaves has names for none of them, and tables for all.
    for (start, fetches) in &whole {
        if *fetches > 10 {
            assert_eq!(bare.get(start), Some(fetches), "{whole:?} {bare:?}");
        }
    }
    let text = run(&["caches", "bare.evp"]);
    assert!(
        text.lines().any(|line| line.contains("  bare+0x")),
        "{text}"
    );
    assert!(!text.contains("[bare]"), "{text}");
}
