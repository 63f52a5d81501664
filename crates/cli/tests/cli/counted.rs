//! Counters of edited programs: every block and edge as `everypath count` has it of the same run, however the run ends; and what is
//! said where counts are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

/// Blocks with their ends and executions by the offset of their beginnings, and executions of edges by the end of the branch and the
/// beginning of its target.
#[derive(Debug, Default)]
pub struct Counts {
    pub blocks: BTreeMap<u64, (u64, u64)>,
    taken: BTreeMap<(u64, u64), u64>,
    /// Edges of conditional branches.
    conditional: BTreeSet<(u64, u64)>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

impl Counts {
    /// Counts of one file in a report of any number of recordings.
    pub fn of(folder: &Folder, recordings: &[String], program: &str) -> Counts {
        let mut words = vec!["report", "--format", "json"];
        words.extend(recordings.iter().map(String::as_str));
        let output = folder.run(BINARY, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let section = &report["sections"][0];
        let ending = format!("/{program}");
        let modules = section["modules"].as_array().expect("modules");
        let is_it = |module: &Value| {
            let path = module["path"].as_str();
            path.is_some_and(|path| path.ends_with(&ending))
        };
        let module = modules.iter().position(is_it).expect("the program") as u64;
        let mut counts = Counts::default();
        let blocks = section["blocks"].as_array().expect("blocks");
        let place = |at: &Value| {
            let block = blocks.get(at.as_u64()? as usize)?;
            let offset = block["offset"].as_str()?.strip_prefix("0x")?;
            let start = u64::from_str_radix(offset, 16).ok()?;
            let is_own = block["module"].as_u64() == Some(module);
            is_own.then_some((start, start + number(&block["bytes"])))
        };
        for (at, block) in blocks.iter().enumerate() {
            if let Some((start, end)) = place(&Value::from(at)) {
                counts
                    .blocks
                    .insert(start, (end, number(&block["executed"])));
            }
        }
        for edge in section["edges"].as_array().expect("edges") {
            let is_branch = matches!(edge["kind"].as_str(), Some("taken" | "jump"));
            if let (true, Some((_, end)), Some((start, _))) =
                (is_branch, place(&edge["from"]), place(&edge["to"]))
            {
                *counts.taken.entry((end, start)).or_default() += number(&edge["count"]);
                if edge["kind"] == "taken" {
                    counts.conditional.insert((end, start));
                }
            }
        }
        counts
    }

    /// Forgets what is not in these ranges.
    pub fn keep(&mut self, ranges: &[(u64, u64)]) {
        let is_in = |at: u64| {
            ranges
                .iter()
                .any(|(start, end)| (*start..*end).contains(&at))
        };
        self.blocks.retain(|start, _| is_in(*start));
        self.taken.retain(|(_, to), _| is_in(*to));
    }

    /// The block with an offset, its executions.
    fn at(&self, offset: u64) -> Option<u64> {
        let (_, &(end, executed)) = self.blocks.range(..=offset).next_back()?;
        (offset < end).then_some(executed)
    }

    /// Compares counts of an edited program with those of all code of the original; gives the number of its blocks.
    pub fn agree_with(&self, all: &Counts, what: &str) -> usize {
        for (&start, &(_, executed)) in &self.blocks {
            assert_eq!(all.at(start), Some(executed), "{what}: block {start:#x}");
        }
        for (&start, &(_, executed)) in &all.blocks {
            if let Some(own) = self.at(start) {
                assert_eq!(own, executed, "{what}: block {start:#x}");
            }
        }
        for (&(end, start), &count) in &self.taken {
            let known = all.taken.get(&(end, start));
            assert_eq!(known, Some(&count), "{what}: edge {end:#x} to {start:#x}");
        }
        self.blocks.len()
    }
}

impl Counts {
    /// Compares what a run with marks executed with the blocks of one with counters.
    fn covers(&self, blocks: &BTreeMap<u64, (u64, u64)>, all: &Counts, what: &str) {
        for start in blocks.keys() {
            assert!(
                self.at(*start).is_some(),
                "{what}: block {start:#x} was executed"
            );
        }
        for start in self.blocks.keys() {
            assert!(
                all.at(*start).is_some(),
                "{what}: block {start:#x} was not executed"
            );
        }
    }

    /// Compares the ways of branches with all edges.
    fn covers_ways(&self, all: &Counts, what: &str) {
        for edge in self.taken.keys() {
            assert!(
                all.taken.contains_key(edge),
                "{what}: edge {edge:x?} was not taken"
            );
        }
        // Conditional branches are all told; jumps by tables that are shared are not.
        let is_own = |(end, start): &&(u64, u64)| {
            self.at(end - 1).is_some()
                && self.at(*start).is_some()
                && all.conditional.contains(&(*end, *start))
        };
        for edge in all.taken.keys().filter(is_own) {
            assert!(
                self.taken.contains_key(edge),
                "{what}: edge {edge:x?} was taken"
            );
        }
    }
}

/// The blocks of a program, whose names have no commas, in recordings that have them alone.
fn blocks_alone(folder: &Folder, recordings: &[String], program: &str) -> Counts {
    let report = |form: &'static str| {
        let words = ["report", "--format", form].into_iter();
        words
            .chain(recordings.iter().map(String::as_str))
            .collect::<Vec<_>>()
    };
    let refused = folder.refused(BINARY, &report("json"));
    assert!(refused.contains("not which ways of branches"), "{refused}");
    let listed = folder.run(BINARY, &report("csv"));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut counts = Counts::default();
    let ending = format!("/{program}");
    for line in listed.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if !fields[0].ends_with(&ending) {
            continue;
        }
        let start = fields[1].strip_prefix("0x").expect("an offset");
        let start = u64::from_str_radix(start, 16).expect("a number");
        let [bytes, executed] =
            [2, 4].map(|at: usize| fields[at].parse::<u64>().expect("a number"));
        assert!((1..=recordings.len() as u64).contains(&executed), "{line}");
        counts.blocks.insert(start, (start + bytes, executed));
    }
    counts
}

/// Runs a program of a folder, where addresses are the same in each run.
pub fn run(folder: &Folder, inside: &str, program: &str, arguments: &[&str]) -> Output {
    let output = Command::new("setarch")
        .args(["-R", &format!("./{program}")])
        .args(arguments)
        .current_dir(folder.file(inside))
        .stdin(Stdio::null())
        .output();
    output.expect("setarch is there")
}

/// Copies a program. Another process does it: a program that this one has open for writing, or a child that another test is about to
/// start, could not be executed.
fn copy(folder: &Folder, from: &str, to: &str) {
    let copied = folder.run("cp", &[from, to]);
    assert!(copied.status.success(), "{copied:?}");
}

/// Files of counters in a folder.
pub fn counters(folder: &Folder, inside: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.file(inside)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "evp"));
    let mut files: Vec<String> = files
        .map(|path: PathBuf| path.display().to_string())
        .collect();
    files.sort();
    files
}

/// Edits a program of the folder into a folder of its own, with the same name.
pub fn edit(folder: &Folder, program: &str, tool: &str) -> String {
    let inside = format!("{program}.{tool}");
    fs::create_dir(folder.file(&inside)).expect("a new folder");
    let to = format!("{inside}/{program}");
    let words = ["rewrite", program, "-o", &to, "--tool"];
    let output = folder.run(
        BINARY,
        &[&words, &tool.split(' ').collect::<Vec<_>>()[..]].concat(),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    inside
}

/// Compares an edited program with the original of the folder, run once natively and once under `count`.
fn agrees(folder: &Folder, program: &str, arguments: &[&str]) {
    let inside = format!("{program}.native");
    fs::create_dir(folder.file(&inside)).expect("a new folder");
    copy(folder, program, &format!("{inside}/{program}"));
    let native = run(folder, &inside, program, arguments);
    let all = format!("{program}.all");
    let words = [
        "-R",
        BINARY,
        "count",
        "-o",
        &all,
        "--",
        &format!("./{program}"),
    ];
    let counted = Command::new("setarch")
        .args([&words[..], arguments].concat())
        .current_dir(folder.file(&inside))
        .stdin(Stdio::null())
        .output();
    assert_eq!(counted.expect("setarch is there").stdout, native.stdout);
    let all = Counts::of(folder, &[format!("{inside}/{all}")], program);
    let mut blocks = BTreeMap::new();
    for tool in ["edges", "blocks"] {
        let inside = edit(folder, program, tool);
        let edited = run(folder, &inside, program, arguments);
        assert_eq!(edited, native, "{program} {tool}");
        let own = Counts::of(folder, &counters(folder, &inside), program);
        let count = own.agree_with(&all, &format!("{program} {tool}"));
        assert!(count > 5, "{program}: {count} blocks");
        blocks = own.blocks;
    }
    for tool in ["coverage", "coverage --branches"] {
        let what = format!("{program} {tool}");
        let inside = edit(folder, program, tool);
        let edited = run(folder, &inside, program, arguments);
        assert_eq!(edited, native, "{what}");
        let files = counters(folder, &inside);
        if tool == "coverage" {
            blocks_alone(folder, &files, program).covers(&blocks, &all, &what);
            continue;
        }
        let own = Counts::of(folder, &files, program);
        own.covers(&blocks, &all, &what);
        own.covers_ways(&all, &what);
    }
}

/// Programs that leave functions in every way: by `exit` and `_exit` from deep inside, `longjmp`, exceptions, cancelled threads, `fork`
/// in callers' frames; with tables of switches, tail calls and recursion.
pub const LEAVES: &[(&str, &[&str], &str)] = &[
    (
        "exits",
        &["-O1"],
        r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void bye(void) { write(1, "bye\n", 4); }
__attribute__((noinline)) static int down(int n, int how) {
    if (n == 0) { if (how > 2) exit(how); else _exit(how); }
    return down(n - 1, how) + n;
}
int main(int argc, char **argv) {
    atexit(bye);
    for (int i = 0; i < 10; i++) printf("%d\n", i);
    fflush(stdout);
    return down(20, argc);
}"#,
    ),
    (
        "jumps",
        &["-O2"],
        r#"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
static jmp_buf back; static long sum;
__attribute__((noinline)) static void deep(int n) { if (n == 0) longjmp(back, 1 + sum % 3); deep(n - 1); sum++; }
static int order(const void *a, const void *b) { if (++sum % 97 == 0) longjmp(back, 2); return *(int *)a - *(int *)b; }
int main(void) {
    volatile int turns = 0; int numbers[200];
    for (int i = 0; i < 200; i++) numbers[i] = (i * 7919) % 200;
    switch (setjmp(back)) {
    case 0: sum = 1; break;
    case 1: sum += 5; break;
    case 2: sum += 7; break;
    case 3: sum += 11; break;
    case 4: sum += 13; break;
    }
    if (turns++ < 50) { if (turns % 2) deep(turns); else qsort(numbers, 200, sizeof *numbers, order); }
    if (turns < 50) longjmp(back, 4);
    printf("%ld %d\n", sum, turns);
    return 0;
}"#,
    ),
    (
        "forks",
        &["-O1"],
        r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int work(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += i & 3; return sum; }
__attribute__((noinline)) static int split(int depth) {
    if (depth == 0) return work(100);
    pid_t child = fork();
    int sum = split(depth - 1);
    if (child == 0) { work(7); if (depth == 2) _exit(sum & 7); exit(sum & 3); }
    int status; waitpid(child, &status, 0);
    return sum + WEXITSTATUS(status);
}
int main(void) { printf("%d\n", split(3)); return 0; }"#,
    ),
    (
        "threads",
        &["-O1", "-pthread"],
        r#"
#include <pthread.h>
#include <stdio.h>
static long sums[8];
static void *count(void *at) { long n = (long)at; for (long i = 0; i < 20000; i++) if (i % (n + 2) == 0) sums[n] += i; return at; }
static void *leave(void *at) { for (long i = 0; i < (long)at; i++) sums[7]++; pthread_exit(at); }
int main(void) {
    pthread_t threads[8];
    for (int round = 0; round < 20; round++) {
        for (long i = 0; i < 7; i++) pthread_create(&threads[i], 0, count, (void *)i);
        for (int i = 0; i < 7; i++) pthread_join(threads[i], 0);
        pthread_create(&threads[7], 0, leave, (void *)100L); pthread_join(threads[7], 0);
    }
    long sum = 0; for (int i = 0; i < 8; i++) sum += sums[i];
    printf("%ld\n", sum);
    return 0;
}"#,
    ),
    (
        "switches",
        &["-O2", "-fno-tree-switch-conversion"],
        r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static unsigned step(unsigned x, unsigned c) {
    switch (c % 9) {
    case 0: return x * 3; case 1: x ^= 5; case 2: return x + 1; case 3: x -= 7; break;
    case 4: for (unsigned i = 0; i < x % 5; i++) x += i; break;
    case 5: return x >> 1; case 6: return ~x; case 7: x *= c; break; default: return x + c;
    }
    return x & 0xffff;
}
__attribute__((noinline)) static unsigned machine(const unsigned char *code) {
    static void *labels[] = { &&add, &&sub, &&dup, &&end, &&swap };
    unsigned a = 1, b = 2;
    goto *labels[*code++];
add: a += b; goto *labels[*code++];
sub: b -= a; goto *labels[*code++];
dup: a = b; goto *labels[*code++];
swap: { unsigned t = a; a = b; b = t; } goto *labels[*code++];
end: return a + b;
}
static unsigned even(unsigned n, unsigned s);
__attribute__((noinline)) static unsigned odd(unsigned n, unsigned s) { return n == 0 ? s : even(n - 1, s + n); }
__attribute__((noinline)) static unsigned even(unsigned n, unsigned s) { return n == 0 ? s + 1 : odd(n - 1, s ^ n); }
int main(void) {
    unsigned x = 1; unsigned char code[2000];
    for (unsigned i = 0; i < 5000; i++) x = step(x, x ^ i);
    for (unsigned i = 0; i < 1999; i++) code[i] = (x + i * i) % 3 + (i % 7 == 0 ? 2 : 0) * ((x + i * i) % 3 == 2);
    for (unsigned i = 0; i < 1999; i++) if (code[i] == 3) code[i] = 1;
    code[1999] = 3;
    printf("%u %u %u\n", x, machine(code), odd(1000, 0));
    return 0;
}"#,
    ),
    (
        "receivers",
        &["-O2"],
        r#"
#include <stdio.h>
static void *buf[5]; static volatile int n;
__attribute__((noinline)) static void hop(int k) { n += k; if (k % 3 == 0) __builtin_longjmp(buf, 1); n++; }
__attribute__((noinline)) static int loop(int m) {
    volatile int i = 0, c = 0;
    if (__builtin_setjmp(buf)) { c += 10; }
    while (i < m) { i++; hop(i); c++; }
    return c;
}
int main(void) { printf("%d\n", loop(100)); return 0; }"#,
    ),
    // Jumps over the prefix `lock`, and functions that run into others, as glibc has them.
    (
        "prefixes",
        &["-O1"],
        r#"
#include <stdio.h>
long add(long *to, long by, int alone), twice(long), once(long), padded(long);
asm(".text\n.globl add\n.type add, @function\nadd: .cfi_startproc\n mov %rsi, %rax\n test %edx, %edx\n je 1f\n lock\n 1: xadd %rax, (%rdi)\n"
    " jc 2f\n add $3, %rax\n 2: ret\n .cfi_endproc\n.size add, .-add\n"
    ".p2align 4\n.globl padded\n.type padded, @function\npadded: .cfi_startproc\n test %rdi, %rdi\n js add\n add $7, %rdi\n .cfi_endproc\n.size padded, .-padded\n"
    ".p2align 5\n.globl twice\n.type twice, @function\ntwice: .cfi_startproc\n add %rdi, %rdi\n jc odd\n .cfi_endproc\n.size twice, .-twice\n"
    ".globl once\n.type once, @function\nonce: .cfi_startproc\n lea 1(%rdi), %rax\n ret\n .cfi_endproc\n.size once, .-once\n"
    ".globl odd\n.type odd, @function\nodd: .cfi_startproc\n lea 5(%rdi), %rax\n ret\n .cfi_endproc\n.size odd, .-odd\n");
int main(void) {
    long sum = 1, all = 0;
    for (long i = 0; i < 1000; i++) {
        all += add(&sum, i % 5 - 2, i % 3);
        all += i % 2 ? twice(i) : i % 7 ? once(i) : padded(i);
        if (i % 10 == 0) all += twice(-i - 1);
    }
    printf("%ld %ld\n", sum, all);
    return 0;
}"#,
    ),
];

#[test]
fn every_block_and_edge_is_as_count_has_it() {
    let folder = Folder::new("counted-leaves");
    for (name, flags, source) in LEAVES {
        folder.program(flags, name, source);
        agrees(&folder, name, &["a", "b"]);
    }
    // With another number of arguments it ends by `_exit`.
    copy(&folder, "exits", "exits_at_once");
    agrees(&folder, "exits_at_once", &["a"]);
    fs::write(folder.file("throws.cc"), crate::flow::THROWS).expect("a file");
    let built = folder.run("g++", &["-O2", "-o", "throws", "throws.cc"]);
    assert!(built.status.success());
    agrees(&folder, "throws", &[]);
}

/// Programs of the machine.
#[test]
#[ignore = "wide: a program of this tree, and libraries, are in the gate"]
fn real_programs_are_counted_as_count_has_them() {
    let folder = Folder::new("counted-real");
    let numbers: Vec<String> = (0..20000).map(|number: u32| number.to_string()).collect();
    fs::write(folder.file("numbers"), numbers.join("\n")).expect("a file");
    let runs: &[(&str, &[&str])] = &[
        ("gzip", &["-kc", "../numbers"]),
        // Without -S it asks how much memory is free, which other tests change.
        (
            "sort",
            &["-S", "1M", "-R", "--random-source=../numbers", "../numbers"],
        ),
        (
            "gawk",
            &[
                "{ s += $1; c[$1 % 7]++ } END { print s, c[3] }",
                "../numbers",
            ],
        ),
        ("sed", &["-n", "s/1/2/gp", "../numbers"]),
    ];
    for (program, arguments) in runs {
        let path = fs::canonicalize(format!("/usr/bin/{program}")).expect("it is installed");
        copy(&folder, &path.display().to_string(), program);
        agrees(&folder, program, arguments);
    }
}

/// Executions of the lines of a program, as lcov has them.
fn lines(folder: &Folder, recordings: &[String]) -> BTreeMap<u32, u64> {
    let mut words = vec!["report", "--format", "lcov"];
    words.extend(recordings.iter().map(String::as_str));
    let output = folder.run(BINARY, &words);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().filter_map(|line| line.strip_prefix("DA:"));
    let counts = lines.filter_map(|line| {
        let (line, count) = line.split_once(',')?;
        Some((line.parse().ok()?, count.parse().ok()?))
    });
    counts.collect()
}

/// Profiles that compilers make are wrong for these: the code behind calls that did not return, and counters that threads share.
#[test]
fn lines_have_exact_counts_where_compilers_lose_them() {
    let folder = Folder::new("counted-lines");
    let source = r#"#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf back;
static volatile long sum, other;
__attribute__((noinline)) static void leave(int n) {
    sum += n;
    if (n % 3 == 0)
        longjmp(back, 1);
    other += n;
}
static void *count(void *at) {
    for (long i = 0; i < 300000; i++)
        other += i;
    return at;
}
__attribute__((noinline)) static void last(int n) {
    sum += n;
    if (n == 7)
        exit(0);
    other += n;
}
int main(void) {
    for (volatile int i = 0; i < 30; i++) {
        if (setjmp(back) == 0) {
            leave(i);
            sum++;
        } else {
            other++;
        }
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, count, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; ; i++) {
        last(i);
        sum++;
    }
}
"#;
    folder.program(&["-O1", "-g", "-pthread"], "lost", source);
    for tool in ["edges", "blocks"] {
        let inside = edit(&folder, "lost", tool);
        assert!(run(&folder, &inside, "lost", &[]).status.success());
        let counts = lines(&folder, &counters(&folder, &inside));
        let expected = [
            // leave: of thirty calls, ten do not return.
            (7, 30),
            (9, 10),
            (10, 20),
            // Four threads, each with counters of its own.
            (14, 1_200_000),
            (16, 4),
            // last: the eighth call ends the program.
            (18, 8),
            (20, 1),
            (21, 7),
            (29, 10),
            (39, 7),
        ];
        for (line, count) in expected {
            assert_eq!(
                counts.get(&line),
                Some(&count),
                "{tool}, line {line}: {counts:?}"
            );
        }
    }
}

/// Sum of all counters in a file of one thread and one edited file (docs/formats/counters.md): the increments of its run.
fn increments(file: &str) -> u64 {
    let bytes = fs::read(file).expect("a file");
    let words = bytes[16384 + 4096..].chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .sum()
}

/// With weights of a run before, counters are where control came least, and all counts stay as they are.
#[test]
fn weights_of_a_run_take_increments_away() {
    let folder = Folder::new("counted-weights");
    let path = fs::canonicalize("/usr/bin/gawk").expect("it is installed");
    copy(&folder, &path.display().to_string(), "gawk");
    let arguments = ["BEGIN { for (i = 0; i < 20000; i++) c[i % 7] += i; print c[3] }"];
    let inside = edit(&folder, "gawk", "edges");
    let native = run(&folder, "", "gawk", &arguments);
    assert_eq!(run(&folder, &inside, "gawk", &arguments), native);
    let first = counters(&folder, &inside).remove(0);
    fs::create_dir(folder.file("weighted")).expect("a new folder");
    let words = ["rewrite", "gawk", "-o", "weighted/gawk", "--tool", "edges"];
    let words = [&words[..], &["--weights", &first]].concat();
    assert!(folder.run(BINARY, &words).status.success());
    assert_eq!(run(&folder, "weighted", "gawk", &arguments), native);
    let second = counters(&folder, "weighted").remove(0);
    let (one, other) = (increments(&first), increments(&second));
    assert!(other * 10 < one * 9, "{other} with weights, {one} without");
    let counts = |file: &String| Counts::of(&folder, std::slice::from_ref(file), "gawk");
    let (one, other) = (counts(&first), counts(&second));
    assert_eq!(one.blocks, other.blocks);
    assert_eq!(one.taken, other.taken);
    // A recording of `count` does as well; another program's does not.
    let words = ["count", "-q", "-o", "all.evp", "--", "./gawk", "BEGIN {}"];
    assert!(folder.run(BINARY, &words).status.success());
    let words = [
        "rewrite",
        "gawk",
        "-o",
        "again",
        "--tool",
        "edges",
        "--weights",
        "all.evp",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    folder.program(&["-O2"], "stranger", "int main(void) { return 0; }");
    let words = [
        "rewrite",
        "stranger",
        "-o",
        "again",
        "--tool",
        "edges",
        "--weights",
        &first,
    ];
    assert!(folder.refused(BINARY, &words).contains("has no code of"));
}
