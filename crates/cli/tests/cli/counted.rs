//! Counters of edited programs: every block and edge as `everypath count` has it of the same run, however the run ends; and what is
//! said where counts are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

/// Blocks with their ends and executions by the offset of their beginnings, and executions of edges by the end of the branch and the
/// beginning of its target.
#[derive(Debug, Default)]
struct Counts {
    blocks: BTreeMap<u64, (u64, u64)>,
    taken: BTreeMap<(u64, u64), u64>,
    /// Edges of conditional branches.
    conditional: BTreeSet<(u64, u64)>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

impl Counts {
    /// Counts of one file in a report of any number of recordings.
    fn of(folder: &Folder, recordings: &[String], program: &str) -> Counts {
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

    /// The block with an offset, its executions.
    fn at(&self, offset: u64) -> Option<u64> {
        let (_, &(end, executed)) = self.blocks.range(..=offset).next_back()?;
        (offset < end).then_some(executed)
    }

    /// Compares counts of an edited program with those of all code of the original; gives the number of its blocks.
    fn agree_with(&self, all: &Counts, what: &str) -> usize {
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
    /// Compares what a run with marks executed with the blocks of one with counters, and with all edges.
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

/// Runs a program of a folder, where addresses are the same in each run.
fn run(folder: &Folder, inside: &str, program: &str, arguments: &[&str]) -> Output {
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
fn counters(folder: &Folder, inside: &str) -> Vec<String> {
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
fn edit(folder: &Folder, program: &str, tool: &str) -> String {
    let inside = format!("{program}.{tool}");
    fs::create_dir(folder.file(&inside)).expect("a new folder");
    let to = format!("{inside}/{program}");
    let output = folder.run(BINARY, &["rewrite", program, "-o", &to, "--tool", tool]);
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
    let inside = edit(folder, program, "coverage");
    let edited = run(folder, &inside, program, arguments);
    assert_eq!(edited, native, "{program} coverage");
    Counts::of(folder, &counters(folder, &inside), program).covers(&blocks, &all, program);
}

/// Programs that leave functions in every way: by `exit` and `_exit` from deep inside, `longjmp`, exceptions, cancelled threads, `fork`
/// in callers' frames; with tables of switches, tail calls and recursion.
const LEAVES: &[(&str, &[&str], &str)] = &[
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
];

#[test]
fn every_block_and_edge_is_as_count_has_it() {
    let folder = Folder::new("counted-leaves");
    for (name, flags, source) in LEAVES {
        folder.program(flags, name, source);
        agrees(&folder, name, &["a", "b"]);
    }
    // The same with another number of arguments ends by `_exit`.
    copy(&folder, "exits", "exits_at_once");
    agrees(&folder, "exits_at_once", &["a"]);
    fs::write(folder.file("throws.cc"), crate::flow::THROWS).expect("a file");
    let built = folder.run("g++", &["-O2", "-o", "throws", "throws.cc"]);
    assert!(built.status.success());
    agrees(&folder, "throws", &[]);
}

/// Programs of the machine.
#[test]
fn real_programs_are_counted_as_count_has_them() {
    let folder = Folder::new("counted-real");
    let numbers: Vec<String> = (0..20000).map(|number: u32| number.to_string()).collect();
    fs::write(folder.file("numbers"), numbers.join("\n")).expect("a file");
    let runs: &[(&str, &[&str])] = &[
        ("gzip", &["-kc", "../numbers"]),
        ("sort", &["-R", "--random-source=../numbers", "../numbers"]),
        (
            "gawk",
            &[
                "{ s += $1; c[$1 % 7]++ } END { print s, c[3] }",
                "../numbers",
            ],
        ),
        ("sed", &["-n", "s/1/2/gp", "../numbers"]),
        ("git", &["--version"]),
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

/// A loop that says how far it is.
const SPINS: &str = r#"
#include <stdio.h>
__attribute__((noinline)) static long turn(long n) { long s = 0; for (long i = 0; i < 1000; i++) s += i ^ n; return s; }
int main(void) {
    volatile long sum = 0;
    for (long i = 0; ; i++) {
        sum += turn(i);
        if (i % 1000 == 999) { printf("%ld\n", i + 1); fflush(stdout); }
    }
}"#;

#[test]
fn counts_are_kept_when_the_process_is_killed() {
    let folder = Folder::new("counted-killed");
    folder.program(&["-O1"], "spins", SPINS);
    let inside = edit(&folder, "spins", "edges");
    let mut child = Command::new("./spins")
        .current_dir(folder.file(&inside))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let said = output.lines().nth(20).expect("it goes on").expect("text");
    child.kill().expect("it is there");
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
    let done: u64 = said.parse().expect("a number");
    let files = counters(&folder, &inside);
    let counts = Counts::of(&folder, &files, "spins");
    // The inner loop's block has a thousand turns in each call that ended, and no call is counted that was not made.
    let most = counts.blocks.values().map(|(_, executed)| *executed).max();
    let calls = most.expect("blocks") / 1000;
    assert!(
        done == 21_000 && (done..done + 100_000).contains(&calls),
        "{calls}"
    );
    let output = folder.run(BINARY, &["report", &files[0]]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("did not end by itself"), "{said}");
}

/// A program whose counters cannot be kept does as it would without.
#[test]
fn without_room_it_runs_on() {
    let folder = Folder::new("counted-room");
    let (_, flags, source) = LEAVES[3];
    folder.program(flags, "threads", source);
    let native = run(&folder, "", "threads", &[]);
    let inside = edit(&folder, "threads", "edges");
    let program = folder.file(&format!("{inside}/threads"));
    let ran = |limit: &str| {
        let script = format!("ulimit -f {limit}; exec \"$0\"");
        let output = Command::new("bash")
            .args(["-c", &script])
            .arg(&program)
            .current_dir(folder.file(&inside))
            .output();
        output.expect("bash is there")
    };
    // Not even a header.
    assert_eq!(ran("0"), native);
    assert_eq!(counters(&folder, &inside), [""; 0]);
    // No folder where a file could be.
    let output = Command::new(&program).current_dir("/proc").output();
    assert_eq!(output.expect("it runs"), native);
    // A header, and no counters of threads.
    assert_eq!(ran("4"), native);
    let files = counters(&folder, &inside);
    let output = folder.run(BINARY, &["report", &files[0]]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("there was no room for the counters of"),
        "{said}"
    );
}

#[test]
fn runs_add_up_and_builds_do_not() {
    let folder = Folder::new("counted-sums");
    let (_, flags, source) = LEAVES[4];
    folder.program(flags, "switches", source);
    let inside = edit(&folder, "switches", "edges");
    for _ in 0..3 {
        assert!(run(&folder, &inside, "switches", &[]).status.success());
    }
    let files = counters(&folder, &inside);
    assert_eq!(files.len(), 3);
    let one = Counts::of(&folder, &files[..1], "switches");
    let all = Counts::of(&folder, &files, "switches");
    for (start, (end, executed)) in &one.blocks {
        assert_eq!(all.blocks[start], (*end, 3 * executed));
    }
    // The original is another build now.
    folder.program(&["-O1"], "switches", source);
    let said = folder.refused(BINARY, &["report", &files[0]]);
    assert!(said.contains("is another build than that"), "{said}");
    // And so is the edited program.
    fs::remove_file(folder.file(&format!("{inside}/switches"))).expect("it was there");
    let to = format!("{inside}/switches");
    let output = folder.run(
        BINARY,
        &["rewrite", "switches", "-o", &to, "--tool", "edges"],
    );
    assert!(output.status.success());
    let said = folder.refused(BINARY, &["report", &files[0]]);
    assert!(said.contains("it was made anew since"), "{said}");
}

/// Bytes of a file of counters that are cut off or changed give an error, or other numbers.
#[test]
fn damaged_files_are_refused() {
    let folder = Folder::new("counted-damage");
    let (_, flags, source) = LEAVES[4];
    folder.program(flags, "switches", source);
    let inside = edit(&folder, "switches", "edges");
    assert!(run(&folder, &inside, "switches", &[]).status.success());
    let whole = fs::read(&counters(&folder, &inside)[0]).expect("a file");
    let damaged = |bytes: &[u8]| {
        fs::write(folder.file("damaged.evp"), bytes).expect("a file");
        let output = folder.run(BINARY, &["report", "damaged.evp"]);
        let code = output.status.code().expect("it ends by itself");
        (code, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for length in [8, 100, 4095, 4096, 5000] {
        let (code, said) = damaged(&whole[..length]);
        assert!(
            code == 125 && said.contains("is cut off"),
            "{length}: {said}"
        );
    }
    for at in (8..200).chain(4096..4200) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        let (code, said) = damaged(&bytes);
        assert!(matches!(code, 0 | 125), "{at}: {code} {said}");
    }
}

/// Libraries and static programs are refused, and say why.
#[test]
fn only_dynamic_programs_are_counted() {
    let folder = Folder::new("counted-refused");
    folder.program(
        &["-O1", "-shared", "-fPIC"],
        "library.so",
        "int f(int n) { return n + 1; }",
    );
    folder.program(
        &["-O1", "-static-pie"],
        "static",
        "int main(void) { return 0; }",
    );
    let uses = "int main(void) { int n; asm(\"movl %%gs:0, %0\" : \"=r\"(n)); return n; }";
    folder.program(&["-O1"], "uses", uses);
    let sets = "int arch_prctl(int, long); int main(void) { return arch_prctl(0x1001, 0); }";
    folder.program(&["-O1"], "sets", sets);
    for (file, why) in [
        ("library.so", "it is a library"),
        ("static", "it is a static program"),
        ("uses", "it uses %gs itself"),
        ("sets", "it uses %gs itself"),
    ] {
        let words = ["rewrite", file, "-o", "out", "--tool", "edges"];
        let said = folder.refused(BINARY, &words);
        assert!(said.contains(why), "{said}");
    }
}

/// `count --rewrite` with a cache in the folder.
fn count_rewrite(folder: &Folder, words: &[&str]) -> Output {
    let output = Command::new(BINARY)
        .args(["count", "--rewrite"])
        .args(words)
        .env("XDG_CACHE_HOME", folder.file("cache"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output();
    output.expect("it runs")
}

/// The program's output and end are its own, the counts those of the translator, the second run takes what the first one kept, and
/// nothing of a run stays there.
#[test]
fn count_edits_and_keeps_what_it_edited() {
    let folder = Folder::new("counted-cache");
    fs::create_dir(folder.file("cache")).expect("a new folder");
    let (_, flags, source) = LEAVES[2];
    folder.program(flags, "forks", source);
    let native = run(&folder, "", "forks", &[]);
    let words = ["-q", "-o", "all.evp", "--", "./forks"];
    let all = folder.run(BINARY, &[&["count"][..], &words].concat());
    assert_eq!(all.stdout, native.stdout);
    let all = Counts::of(&folder, &["all.evp".into()], "forks");
    let files = || {
        let entries = fs::read_dir(folder.file("cache/everypath")).expect("a cache");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        names.sort();
        names
    };
    let mut kept = Vec::new();
    for round in 0..3 {
        let words = ["-q", "-o", "own.evp", "--", "./forks"];
        let output = count_rewrite(&folder, &words);
        assert_eq!(
            (output.status, &output.stdout),
            (native.status, &native.stdout)
        );
        let own = Counts::of(&folder, &["own.evp".into()], "forks");
        assert!(own.agree_with(&all, "count --rewrite") > 5);
        let now: Vec<_> = files()
            .into_iter()
            .map(|path| {
                (
                    fs::metadata(&path).and_then(|meta| meta.modified()).ok(),
                    path,
                )
            })
            .collect();
        assert_eq!(now.len(), 2, "{now:?}");
        match round {
            0 => kept = now,
            1 => {
                assert_eq!(now, kept);
                // Somebody changes what is kept: it is made again.
                let path = &kept[0].1;
                let mut bytes = fs::read(path).expect("a file");
                bytes[0x2000] ^= 1;
                fs::write(path, bytes).expect("it is ours");
            }
            _ => assert_ne!(now, kept),
        }
    }
    let output = count_rewrite(&folder, &["-q", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
    let output = count_rewrite(&folder, &["-q", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
}

/// A folder that others may write to is not trusted; scripts and static programs are translated, and that is told.
#[test]
fn count_translates_where_it_cannot_edit() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("counted-fallback");
    fs::create_dir_all(folder.file("cache/everypath")).expect("new folders");
    folder.program(
        &["-O1"],
        "prog",
        "int main(int c, char **v) { return c + 4; }",
    );
    fs::write(folder.file("script"), "#!/bin/sh\nexit 9\n").expect("a file");
    let mode = |path: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.file(path), permissions).expect("it is ours");
    };
    mode("script", 0o755);
    mode("cache/everypath", 0o777);
    let told = |program: &str, code: i32, why: &str| {
        let output = count_rewrite(&folder, &["-o", "run.evp", "--", program]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(
            said.contains(why) && said.contains("translated instead"),
            "{said}"
        );
    };
    told("./prog", 5, "others may write to");
    mode("cache/everypath", 0o700);
    told("./script", 9, "it is a script");
    let output = count_rewrite(&folder, &["-o", "run.evp", "--", "./prog"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("translated instead"), "{said}");
}

/// All forms of reports say of the program's own code what those of `count` say.
#[test]
fn forms_are_those_of_count() {
    let folder = Folder::new("counted-forms");
    let (_, flags, source) = LEAVES[0];
    folder.program(&[flags, &["-g"]].concat(), "exits", source);
    let inside = edit(&folder, "exits", "edges");
    assert!(
        !run(&folder, &inside, "exits", &["a", "b"])
            .stdout
            .is_empty()
    );
    let own = &counters(&folder, &inside)[0];
    let words = ["count", "-q", "-o", "all.evp", "--", "./exits", "a", "b"];
    assert!(!folder.run(BINARY, &words).stdout.is_empty());
    let report = |file: &str, words: &[&str]| {
        let output = folder.run(
            BINARY,
            &[&["report", file, "--modules", "exits"], words].concat(),
        );
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    // What was executed, line by line; both know the functions and lines of the same file.
    for words in [
        &["--format", "lcov"][..],
        &["--format", "llvm"],
        &["--annotate", "down"],
    ] {
        let of = |file: &str| {
            let text = report(file, words);
            // Stubs of the dynamic linker, to which calls go, are not counted, and so have no name.
            let is_told = |line: &&str| !line.contains("  call ");
            let lines = text.lines().filter(is_told).map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        let (own, all) = (of(own), of("all.evp"));
        assert!(own.len() > 5, "{words:?}: {own:?}");
        assert_eq!(own, all, "{words:?}");
    }
    for (words, holds) in [
        (&["--format", "csv"][..], ",down,"),
        (&["--format", "callgrind"], "fn=(1) "),
        (&["--format", "fdata"], "1 main "),
        (&["--top", "5"], "down"),
    ] {
        let text = report(own, words);
        assert!(text.contains(holds), "{words:?}: {text}");
    }
    let page = ["report", own, "--html", "page.html"];
    assert!(folder.run(BINARY, &page).status.success());
    assert!(fs::metadata(folder.file("page.html")).is_ok_and(|page| page.len() > 20_000));
}

/// A caller that stays may keep a value in a register that its callee happens to leave as it was, as GCC's `-fipa-ra` has it; what is
/// in front of the callee leaves all of them.
#[test]
fn registers_are_kept_for_callers_that_stay() {
    let folder = Folder::new("counted-registers");
    let source = r#"#include <stdio.h>
long total;
__attribute__((noinline)) void leave_it(long n) { for (long i = 0; i < n; i++) total += i; }
long keeps(long n);
asm(".text\n.type keeps, @function\nkeeps:\n.cfi_startproc\n"
    "push %rbx\n.cfi_adjust_cfa_offset 8\nmov $12345, %r11d\ncall leave_it\nmov %r11, %rax\n"
    "jmp *place(%rip)\n1: pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size keeps, .-keeps\n"
    ".data\n.align 8\nplace: .quad 1b\n.text\n");
int main(void) { printf("%ld ", keeps(10)); printf("%ld\n", total); return 0; }
"#;
    folder.program(&["-O1", "-fno-stack-protector"], "keeps", source);
    let native = run(&folder, "", "keeps", &[]);
    assert_eq!(native.stdout, b"12345 45\n");
    for tool in ["edges", "blocks", "coverage"] {
        fs::create_dir(folder.file(tool)).expect("a new folder");
        let to = format!("{tool}/keeps");
        let words = ["rewrite", "keeps", "-o", &to, "--tool", tool, "--explain"];
        let said = folder.run(BINARY, &words).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("(keeps): "), "{said}");
        assert!(!said.contains("(leave_it)"), "{said}");
        assert_eq!(run(&folder, tool, "keeps", &[]), native, "{tool}");
    }
}
