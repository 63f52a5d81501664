//! `loops -- PROGRAM`: functions of addresses and iterations are those of a trace of all instructions and accesses, by a slow model.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::folder::Folder;
use testkit::program::{Program, discover, missing_feature, repository};

use crate::BINARY;

mod again;
mod model;

pub use model::{Loop, hex, list};
use model::{compare_all, traced};

/// Nests of several shapes, without calls in them: a matrix product, triangles, a list in order and out of order, indices in a table,
/// backwards, a condition, an early end, two arrays by the same code, and single bytes.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define NO __attribute__((noinline, noclone))
#define N 12
struct node { struct node *next; long value; };
static double a[N][N], b[N][N], c[N][N];
static long table[100];
static int order[100];
static struct node nodes[100];
NO void product(int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) c[i][j] += a[i][k] * b[k][j];
}
NO long triangle(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) sum += table[i + 2 * j];
    return sum;
}
NO long list(struct node *at) { long sum = 0; while (at) { sum += at->value; at = at->next; } return sum; }
NO void link(int step) { for (int i = 0; i < 100; i++) nodes[i * step % 100].next = &nodes[(i + 1) * step % 100]; }
NO long indirect(int n) { long sum = 0; for (int i = 0; i < n; i++) sum += table[order[i]]; return sum; }
NO void backwards(int n) { for (int i = n - 1; i >= 0; i--) table[i] = i; }
NO long sometimes(int n) { long sum = 0; for (int i = 0; i < n; i++) { if (order[i] % 3 == 0) sum += table[i]; else table[i] = 1; } return sum; }
NO int find(long wanted) { for (int i = 0; i < 100; i++) if (table[i] == wanted) return i; return -1; }
NO void fill(char *p, int n) { for (int i = 0; i < n; i++) { p[i] = i; __asm__ volatile(""); } }
int main(int argc, char **argv) {
    long sum = 0;
    for (int i = 0; i < 100; i++) { order[i] = i * 37 % 100; nodes[i].value = i; }
    product(N);
    backwards(90);
    sum += triangle(N);
    link(1);
    nodes[99].next = NULL;
    sum += list(nodes);
    link(37);
    nodes[0].next = NULL;
    sum += list(&nodes[37]);
    sum += indirect(50) + sometimes(60) + find(40) + find(argc * 7);
    char *bytes = malloc(5000);
    fill(bytes, 300);
    fill(bytes + 1000, 200);
    printf("%ld %g\n", sum, c[3][4]);
    return 7;
}
"#;

fn json(folder: &Folder, words: &[&str], status: i32) -> Value {
    let words = [&["loops", "-q", "--format", "json", "-o", "out"], words].concat();
    let output = folder.run(BINARY, &words);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    serde_json::from_slice(&fs::read(folder.file("out")).expect("it was written")).expect("JSON")
}

/// The trace of `./program`, of some of its code.
fn trace_of_program(folder: &Folder, code: &[&str]) -> String {
    let before = ["trace", "--memory", "addresses"];
    let behind = ["-q", "-o", "trace.evp", "--", "./program"];
    let words = [&before, code, &behind].concat();
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(7));
    let output = folder.run(BINARY, &["dump", "trace.evp", "--accesses"]);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn functions_are_those_of_all_accesses() {
    let folder = Folder::new("followed");
    // Addresses are those of the file.
    folder.program(
        &["-O1", "-g", "-no-pie", "-fno-unroll-loops"],
        "program",
        SOURCE,
    );
    let listed = json(&folder, &["--list", "./program"], 0);
    let trace = traced(&trace_of_program(&folder, &["--no-shared-libs"]), 0);
    let run = json(&folder, &["--exact", "--", "./program"], 7);
    compare_all(&listed, &run, &trace, None);
    // The table with the columns of Intel Advisor has these references.
    let words = [
        "loops",
        "-q",
        "--exact",
        "--loops",
        "triangle,indirect,backwards",
        "--format",
    ];
    let output = folder.run(
        BINARY,
        &[&words[..], &["csv", "-o", "csv", "--", "./program"]].concat(),
    );
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let table = fs::read_to_string(folder.file("csv")).expect("it was written");
    let columns = |wanted: &str| {
        let lines = table.lines().filter(|line| line.contains(wanted));
        let own = lines.map(|line| {
            let columns: Vec<&str> = line.split(',').collect();
            [columns[1], columns[2], columns[5], columns[8], columns[9]].join("|")
        });
        own.collect::<Vec<_>>()
    };
    assert_eq!(
        columns("triangle:1.1,"),
        ["2|Constant stride|table|0% / 100% / 0%|All constant strides"]
    );
    assert_eq!(
        columns("backwards:1,"),
        ["-1|Unit stride|table+712|100% / 0% / 0%|All unit strides"]
    );
    assert_eq!(
        columns("indirect:1,"),
        [
            "1|Unit stride|order|50% / 0% / 50%|Mixed strides",
            "|Irregular stride|table|50% / 0% / 50%|Mixed strides"
        ]
    );
    // Without all iterations the same is found where it is one function.
    let some = json(&folder, &["--", "./program"], 7);
    assert_eq!(of_product(&some), of_product(&run));
    // Nests that are followed in the trace have the same functions and counts.
    let of_trace = json(&folder, &["--trace", "trace.evp"], 0);
    assert_same(&came(&of_trace), &came(&run));
}

/// Nests that were entered, by the loops' names, without addresses that differ from run to run.
fn came(run: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for nest in list(&run["nests"])
        .iter()
        .filter(|nest| nest["entries"] != 0)
    {
        let mut nest = nest.clone();
        for one in nest["loops"].as_array_mut().expect("a list") {
            for own in one["references"].as_array_mut().expect("a list") {
                own["function"]["constant"].take();
            }
        }
        all.insert(nest["loops"][0]["name"].to_string(), nest);
    }
    all
}

/// Asserts that two runs found the same.
fn assert_same(one: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) {
    assert!(
        one.keys().eq(other.keys()),
        "{:?} {:?}",
        one.keys(),
        other.keys()
    );
    for (name, nest) in one {
        assert_eq!(nest, &other[name], "{name}");
    }
}

/// Nests of a library are followed as those of a program, beside the program's own.
#[test]
fn nests_of_libraries_are_followed() {
    let folder = Folder::new("followed-library");
    fs::write(folder.file("nests.c"), SOURCE).expect("it is writable");
    let built = folder.run(
        "gcc",
        &[
            "-O1",
            "-g",
            "-fPIC",
            "-shared",
            "-Dmain=run",
            "-o",
            "libnests.so",
            "nests.c",
        ],
    );
    assert!(built.status.success(), "{built:?}");
    let here = folder.file(".").display().to_string();
    let path = format!("-Wl,-rpath,{here}");
    fs::write(
        folder.file("main.c"),
        "int run(int, char **); int main(int c, char **v) { volatile long s = 0; for (int i = 0; i < 9; i++) s += i; return run(c, v); }",
    )
    .expect("it is writable");
    let built = folder.run(
        "gcc",
        &[
            "-O1", "-g", "-o", "program", "main.c", "-L.", "-lnests", &path,
        ],
    );
    assert!(built.status.success(), "{built:?}");
    let symbols = folder.run("nm", &["libnests.so"]);
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let linked = symbols
        .lines()
        .find_map(|line| line.strip_suffix(" T product"));
    let dumped = trace_of_program(&folder, &["--modules", "libnests.so"]);
    let mut lines = dumped.lines().map(str::split_whitespace);
    let loaded = lines.find_map(|mut words| {
        let at = words.nth(1)?;
        (words.next()? == "product+0x0").then_some(at)
    });
    let [linked, loaded] = [linked, loaded]
        .map(|word| u64::from_str_radix(word.expect("it has the function"), 16).expect("hex"));
    let listed = json(&folder, &["--list", "./libnests.so"], 0);
    let trace = traced(&dumped, loaded - linked);
    // Words choose in all files; libc has no functions of these names.
    let words = "main,run,product,triangle,list,link,indirect,backwards,sometimes,find,fill";
    let words = ["--exact", "--libs", "--loops", words, "--", "./program"];
    let run = json(&folder, &words, 7);
    compare_all(&listed, &run, &trace, Some("libnests.so"));
    let words = ["--trace", "trace.evp", "--libs", "--loops", words[3]];
    let of_trace = json(&folder, &words, 0);
    let (mut all, of_trace) = (came(&run), came(&of_trace));
    // The program's own code is not in the trace.
    all.remove("\"main:1\"");
    assert_same(&of_trace, &all);
    let nests = list(&run["nests"]).iter();
    let mut own = nests.filter(|nest| nest["library"].is_null() && nest["entries"] == 1);
    let own = own.next().expect("that of the program");
    assert_eq!(own["loops"][0]["name"], "main:1");
    assert_eq!(own["loops"][0]["iterations"]["sum"], 9);
    let none = folder.run(
        BINARY,
        &["loops", "--loops", "nosuch", "--libs", "--", "./program"],
    );
    assert_eq!(none.status.code(), Some(125), "{none:?}");
    // The library edited alone: the same is in the file that a run leaves.
    fs::create_dir(folder.file("edited")).expect("it is writable");
    let words = [
        "rewrite",
        "--tool",
        "loops",
        "-o",
        "edited/libnests.so",
        "libnests.so",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    let output = Command::new("./program")
        .current_dir(folder.file("."))
        .env("LD_LIBRARY_PATH", folder.file("edited"))
        .output();
    assert_eq!(output.expect("it runs").status.code(), Some(7));
    let files = fs::read_dir(folder.file("."))
        .expect("it is a folder")
        .flatten();
    let mut files = files.map(|entry| entry.file_name().into_string().expect("text"));
    let file = files
        .find(|name| name.starts_with("program.") && name.ends_with(".evp"))
        .expect("a file of counters");
    let report = folder.run(BINARY, &["report", &file, "--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(of_product(&report), of_product(&run));
}

/// Coefficients of the references in the innermost loop of the matrix product.
fn of_product(run: &Value) -> Vec<Value> {
    let nests = list(&run["nests"]);
    let nest = nests
        .iter()
        .find(|nest| nest["loops"][0]["name"] == "product:1")
        .expect("it is followed");
    let references = list(&nest["loops"][2]["references"]).iter();
    references
        .map(|reference| reference["function"]["coefficients"].clone())
        .collect()
}

/// Nests that are left by `longjmp`, entered by a handler of a signal while they are followed, by themselves, by threads, and by a child.
const ODD: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define NO __attribute__((noinline, noclone))
static jmp_buf back;
static int signals;
NO void leave(int i, int at) { if (i == at) longjmp(back, 1); }
NO long leaves(long *p, int n, int at) { long sum = 0; for (int i = 0; i < n; i++) { sum += p[i]; leave(i, at); } return sum; }
NO long sum(long *p, int n) { long sum = 0; for (int i = 0; i < n; i++) { sum += p[i]; if (signals == 1 && i == 1) raise(SIGUSR1); } return sum; }
NO long deep(long *p, int n) { long all = 0; for (int i = 0; i < n; i++) all += p[i] + deep(p, n - 1 - i); return all; }
static long kept[100];
static void handler(int number) { signals = number; signals += sum(kept, 20) > 0; }
static void *work(void *p) { long all = 0; for (int i = 0; i < 5; i++) all += sum(p, 50); return (void *)all; }
int main(void) {
    for (int i = 0; i < 100; i++) kept[i] = i;
    for (int i = 0; i < 3; i++) if (!setjmp(back)) printf("%ld\n", leaves(kept, 10, i == 2 ? 99 : 1));
    signal(SIGUSR1, handler);
    signals = 1;
    printf("%ld %d\n", sum(kept, 30), signals);
    printf("%ld\n", deep(kept, 9));
    pthread_t threads[4];
    void *one, *all = NULL;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, calloc(50, sizeof(long)));
    for (int i = 0; i < 4; i++) { pthread_join(threads[i], &one); all += (long)one; }
    fflush(stdout);
    if (!fork()) { printf("child %ld\n", sum(kept, 9)); fflush(stdout); _exit(0); }
    wait(NULL);
    printf("%ld\n", (long)all + leaves(kept, 5, 99));
    return 3;
}
"#;

/// Exceptions that leave nests, and that are caught in them.
const THROWS: &str = r#"
#include <cstdio>
#include <vector>
__attribute__((noinline)) static void maybe(int i) { if (i % 3 == 2) throw i; }
__attribute__((noinline)) static long inside(const std::vector<long> &v) {
    long sum = 0;
    for (size_t i = 0; i < v.size(); i++) {
        for (int j = 0; j < 4; j++) {
            try { maybe(int(i) + j); sum += v[i] * j; } catch (int caught) { sum += caught; }
        }
    }
    return sum;
}
__attribute__((noinline)) static long outside(const std::vector<long> &v) {
    long sum = 0;
    for (size_t i = 0; i < v.size(); i++)
        for (int j = 0; j < 4; j++) { sum += v[i]; maybe(j); }
    return sum;
}
int main() {
    std::vector<long> v(30, 2);
    long sum = inside(v);
    for (int i = 0; i < 5; i++) try { sum += outside(v); } catch (int caught) { sum += 100 * caught; }
    std::printf("%ld\n", sum);
    return 4;
}
"#;

#[test]
fn nests_that_are_left_otherwise_do_what_they_did() {
    let folder = Folder::new("followed-odd");
    folder.program(&["-O1", "-g", "-pthread"], "odd", ODD);
    fs::write(folder.file("throws.cpp"), THROWS).expect("it is writable");
    let built = folder.run("g++", &["-O1", "-g", "-o", "throws", "throws.cpp"]);
    assert!(built.status.success(), "{built:?}");
    let nest_of = |run: &Value, name: &str| {
        let nests = list(&run["nests"]).iter();
        let mut nests = nests.filter(|nest| nest["loops"][0]["name"] == name);
        nests.next().expect("it is followed").clone()
    };
    for (program, status) in [("odd", 3), ("throws", 4)] {
        let path = format!("./{program}");
        let native = Command::new(folder.file(program))
            .output()
            .expect("it runs");
        for more in [&["--exact"][..], &[]] {
            let words = [
                &["loops", "-q", "--format", "json", "-o", "out"],
                more,
                &["--", &path],
            ]
            .concat();
            let output = folder.run(BINARY, &words);
            assert_eq!(
                (output.status.code(), &output.stdout),
                (Some(status), &native.stdout),
                "{program} {more:?}"
            );
        }
    }
    let run = json(&folder, &["--exact", "--", "./odd"], 3);
    let whole = |nest: &Value| {
        ["entries", "lost", "threads"].map(|key| nest[key].as_u64().expect("a number"))
    };
    // It is left twice, and not followed again then.
    assert_eq!(whole(&nest_of(&run, "leaves:1")), [1, 1, 1]);
    // One entry of the first thread, as its handler runs the original code, five of each of four threads, and one of the child.
    assert_eq!(whole(&nest_of(&run, "sum:1")), [22, 0, 6]);
    let reference = nest_of(&run, "sum:1")["loops"][0]["references"][0]["function"].clone();
    assert_eq!(
        (
            reference["verified"].as_bool(),
            reference["coefficients"][0].as_i64()
        ),
        (Some(true), Some(8))
    );
    // It calls itself in its first iteration, so only the outermost entry is followed.
    assert_eq!(whole(&nest_of(&run, "deep:1"))[0], 1);
    // In a trace nests are followed after they were left, too.
    let words = [
        "trace",
        "--memory",
        "addresses",
        "-q",
        "-o",
        "odd.evp",
        "--",
        "./odd",
    ];
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(3));
    let of_trace = json(&folder, &["--trace", "odd.evp"], 0);
    assert_eq!(whole(&nest_of(&of_trace, "leaves:1")), [4, 2, 1]);
    assert_eq!(whole(&nest_of(&of_trace, "sum:1")), [22, 0, 6]);
    assert_eq!(whole(&nest_of(&of_trace, "deep:1"))[0], 1);
    for name in ["sum:1", "deep:1"] {
        let iterations = |run| nest_of(run, name)["loops"][0]["iterations"].clone();
        assert_eq!(iterations(&of_trace), iterations(&run), "{name}");
    }
}

#[test]
fn what_cannot_be_followed_is_said() {
    let folder = Folder::new("followed-wrong");
    let source = "int main(int n, char **v) { volatile int s = 0; for (int i = 0; i < 9; i++) s += i; return s - 36; }";
    folder.program(&["-O1"], "program", source);
    fs::write(folder.file("script"), "#!/bin/sh\nexit 0\n").expect("it is writable");
    assert!(folder.run("chmod", &["+x", "script"]).status.success());
    for (words, sentence) in [
        ("loops -- ./script", "it is a script"),
        (
            "loops --loops nothing -- ./program",
            "has no function 'nothing'",
        ),
        (
            "loops --loops main:3 -- ./program",
            "'main' has 1 nest, and no main:3",
        ),
        ("loops", "<PROGRAM>"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let output = folder.run(BINARY, &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains(sentence) && output.status.code() == Some(125),
            "{said}"
        );
    }
    let output = folder.run(BINARY, &["loops", "-q", "--exact", "--", "./program"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("main:1 (i)  1 entry  9 iterations") && output.status.success(),
        "{said}"
    );
}

/// Programs of the gate, by the beginnings of their names: the shortest of several kinds.
const GATE: [&str; 12] = [
    "code_selfmod_same_block",
    "contexts_exceptions",
    "contexts_recursion",
    "flow_longjmp",
    "insn_rep_strings",
    "memory_own_malloc",
    "mtrace_",
    "process_sigchld",
    "signal_nested",
    "stack_",
    "thread_create_join",
    "thread_mutex_cond",
];

/// A run of the program with counters inserted: some programs see that they are edited, by their own files, mappings and limits.
const COUNTED: [&str; 7] = [
    BINARY,
    "count",
    "-q",
    "--rewrite=always",
    "-o",
    "/dev/null",
    "--",
];

/// A run of a program: its status and its output.
fn result(program: &Program, words: &[&str], path: &str) -> (Option<i32>, Vec<u8>) {
    let directives = &program.directives;
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60"]).args(words).arg(path);
    command.args(&directives.args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("timeout is there");
    let stdin = child.stdin.take();
    // A program need not read it.
    drop(stdin.map(|mut stdin| stdin.write_all(directives.stdin.as_bytes())));
    let output = child.wait_with_output().expect("it ends");
    let code = output.status.code();
    // A signal is passed on as a shell does.
    (
        code.or_else(|| output.status.signal().map(|signal| 128 + signal)),
        output.stdout,
    )
}

/// Runs programs with all nests followed, once for their first iterations and once for all; gives how many did the same.
fn run_all(is_wanted: impl Fn(&str) -> bool, least: usize) {
    let programs = discover(&repository().join("tests/programs")).expect("they are there");
    let (mut same, mut failed) = (0, Vec::new());
    for program in programs.iter().filter(|program| is_wanted(&program.name)) {
        if missing_feature(&program.directives.needs).is_some() {
            continue;
        }
        let Ok(built) = testkit::build::build(program, &testkit::build::cache_directory()) else {
            continue;
        };
        let path = built.executable.display().to_string();
        let native = result(program, &[], &path);
        for more in ["-q", "--exact"] {
            let words = [BINARY, "loops", "-q", more, "-o", "/dev/null", "--"];
            let words = if more == "-q" {
                &words[..3]
            } else {
                &words[..4]
            };
            let words = [words, &["-o", "/dev/null", "--"]].concat();
            match result(program, &words, &path) {
                own if own == native => same += 1,
                (Some(125), _) => {}
                // Editing it is what it sees, whatever is inserted.
                _ if result(program, &COUNTED, &path) != native => {}
                own => failed.push(format!(
                    "{} {more}: {:?} for {:?}",
                    program.name, own.0, native.0
                )),
            }
        }
    }
    assert!(
        failed.is_empty() && same >= least,
        "{same} did the same; {failed:#?}"
    );
}

#[test]
fn test_programs_do_the_same() {
    run_all(|name| GATE.iter().any(|begin| name.starts_with(begin)), 15);
}

#[test]
#[ignore = "wide: three hundred programs, minutes; a few are in the gate"]
fn all_test_programs_do_the_same() {
    run_all(|_| true, 300);
}

/// The program of figure 6 of the paper: two lists of modules, at distances of 64 bytes, and arrays that they index.
#[test]
fn figure_6_has_its_functions() {
    let folder = Folder::new("figure-6");
    let source = repository().join("benches/programs/ks.c");
    folder.compile(&["-O0", "-g"], "ks", &source);
    let words = ["--loops", "find", "--exact", "--", "./ks", "30", "4"];
    let run = json(&folder, &words, 0);
    let nest = &list(&run["nests"])[0];
    let trips: Vec<_> = list(&nest["loops"])
        .iter()
        .map(|one| one["iterations"]["most"].as_u64().expect("a number"))
        .collect();
    // Loops are left at their heads, which are executed once more.
    assert_eq!(trips, [31, 31]);
    let inner = list(&list(&nest["loops"])[1]["references"]);
    let line = |number: u64| {
        let own = inner.iter().filter(move |own| own["line"] == number);
        let own = own.filter(|own| own["function"].is_object());
        let mut functions: Vec<String> = own
            .map(|own| {
                assert_eq!(own["function"]["verified"], true, "{own}");
                own["function"]["coefficients"].to_string()
            })
            .collect();
        functions.sort();
        functions
    };
    let text = fs::read_to_string(&source).expect("it is there");
    let number = |part: &str| {
        text.lines()
            .position(|line| line.contains(part))
            .expect("a line") as u64
            + 1
    };
    // The gain of a pair: pointers on the stack, the modules' numbers, two gains, and the cost in a matrix of 30 columns.
    let mut expected = vec!["[0,0]"; 5];
    expected.extend([
        "[0,64]", "[0,64]", "[0,8]", "[120,4]", "[64,0]", "[64,0]", "[8,0]",
    ]);
    expected.sort();
    assert_eq!(line(number("long got")), expected);
    // The next module of the inner list.
    assert!(line(number("b = group_b.head")).contains(&"[0,64]".to_owned()));
}

/// Source lines with what their references do, and the page, say what the numbers say.
#[test]
fn lines_and_pages_have_all_references() {
    let folder = Folder::new("loop-lines");
    let with_tag = SOURCE.replace(
        "long sum = 0; while (at)",
        "long sum = 0; while (at /* </b> & */)",
    );
    folder.program(&["-O0", "-g"], "p", &with_tag);
    let words = ["--html", "page.html", "--exact", "--", "./p"];
    let run = json(&folder, &words, 7);
    let came = list(&run["nests"])
        .iter()
        .filter(|nest| nest["entries"] != 0);
    let loops: Vec<&Value> = came.flat_map(|nest| list(&nest["loops"])).collect();
    let references: Vec<&Value> = loops
        .iter()
        .flat_map(|one| list(&one["references"]))
        .collect();
    let page = fs::read_to_string(folder.file("page.html")).expect("it was written");
    assert!(page.contains("while (at /* &lt;/b&gt; &amp; */)") && !page.contains("</b>"));
    let output = folder.run(
        BINARY,
        &["loops", "-q", "--format", "source", "--exact", "--", "./p"],
    );
    let text = String::from_utf8(output.stdout).expect("text");
    for kind in ["contiguous", "strided", "invariant", "irregular"] {
        let own = references.iter().filter(|own| own["stride"] == kind);
        let own = own.filter(|own| own["function"]["samples"] != 0).count();
        assert!(own > 0, "{kind}");
        let mark = format!("<td><span class=\"mark {kind}\">{kind}</span><td><code>");
        assert_eq!(page.matches(&mark).count(), own, "{kind}");
        let notes = text
            .lines()
            .filter(|line| line.starts_with("        | ") && line.contains(&format!(": {kind}, ")));
        let times = notes.map(|line| match line.rsplit_once("  (") {
            Some((_, times)) => times
                .split(' ')
                .next()
                .and_then(|own| own.parse().ok())
                .expect("a number"),
            None => 1usize,
        });
        assert_eq!(times.sum::<usize>(), own, "{kind} in {text}");
    }
    // Constants have the names of variables, though the program is not where it was linked.
    for part in [
        "8i + table (",
        "-8i + table+712 (",
        "96i + 8j + c (",
        "4i + order (",
    ] {
        assert!(
            text.contains(part) && page.contains(part.trim_end_matches(" (")),
            "{part} in {text}"
        );
    }
    let heads = text.lines().filter(|line| line.contains("| loop ")).count();
    assert_eq!(heads, loops.len(), "{text}");
    assert!(
        text.contains("for (int k = 0; k < n; k++) c[i][j] += a[i][k] * b[k][j];"),
        "{text}"
    );
    let stripped = folder.run("strip", &["-o", "stripped", "p"]);
    assert!(stripped.status.success(), "{stripped:?}");
    let said = folder.refused(BINARY, &["loops", "--format", "source", "--", "./stripped"]);
    assert!(said.contains("has no line tables"), "{said}");
}

/// Steps of each reference are those from one of its accesses to the next.
#[test]
fn steps_are_counted() {
    let folder = Folder::new("loop-steps");
    folder.program(&["-O1", "-g"], "program", SOURCE);
    let run = json(
        &folder,
        &[
            "--strides",
            "--exact",
            "--loops",
            "list,indirect",
            "--",
            "./program",
        ],
        7,
    );
    let steps = |name: &str| {
        let mut nests = list(&run["nests"]).iter();
        let nest = nests
            .find(|nest| nest["loops"][0]["name"] == name)
            .expect("it is followed");
        let own = list(&list(&nest["loops"])[0]["references"]).iter();
        own.map(|own| {
            assert_eq!(own["other_steps"], 0, "{own}");
            serde_json::from_value(own["steps"].clone()).expect("steps")
        })
        .collect::<Vec<Vec<(i64, u64)>>>()
    };
    // A hundred nodes in order, and then each 37 further, which goes beyond the last one 37 times.
    let nodes = vec![(16, 99), (592, 62), (-1008, 37)];
    assert_eq!(steps("list:1"), [nodes.clone(), nodes]);
    assert_eq!(
        steps("indirect:1"),
        [vec![(4, 49)], vec![(296, 31), (-504, 18)]]
    );
}
