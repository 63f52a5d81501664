//! Names and places of functions, as debuggers give them.

use std::fs;
use std::process::{Command, Stdio};

use testkit::folder::Folder;

use crate::BINARY;

/// Calls through pointers, so that nothing but the program's own calls is counted.
const COPIES: &str = r#"
#include <string.h>
char from[4096], to[4096];
int main(int argc, char **argv) {
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    void *(*volatile move)(void *, const void *, size_t) = memmove;
    size_t (*volatile length)(const char *) = strlen;
    for (int i = 0; i < 10; i++) copy(to, from, 100 + argc);
    for (int i = 0; i < 10; i++) move(to, from, 100 + argc);
    for (int i = 0; i < 7; i++) length(argv[0]);
    return 0;
}
"#;

/// A function that `everypath contexts` shows: name without parameters, file and line, calls.
type Shown = (String, String, u64);

fn functions(folder: &Folder, arguments: &[&str]) -> Vec<Shown> {
    called(
        folder,
        &[&["contexts", "--format", "csv"], arguments].concat(),
    )
}

/// The functions with calls that a command shows as CSV on standard error or output.
fn called(folder: &Folder, command: &[&str]) -> Vec<Shown> {
    let output = folder.run(BINARY, command);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    let (_, rows) = text
        .split_once("process,thread,")
        .unwrap_or_else(|| panic!("{text}"));
    let (head, rows) = rows.split_once('\n').unwrap();
    assert_eq!(
        head,
        "depth,instructions,calls,inclusive_instructions,inclusive_calls,function,module,file,line,path"
    );
    let shown = |row: &str| {
        let fields = fields(row);
        let name = fields[7].split('(').next().unwrap_or_default();
        let file = fields[9].rsplit('/').next().unwrap_or_default();
        let calls: u64 = fields[4].parse().expect("a number");
        (name.to_owned(), format!("{file}:{}", fields[10]), calls)
    };
    rows.lines()
        .filter(|row| row.contains(','))
        .map(shown)
        .filter(|shown| shown.2 > 0)
        .collect()
}

/// Fields of a row of CSV, some within quotation marks.
fn fields(row: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for character in row.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}

fn gdb(folder: &Folder, program: &str, commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-batch", "-nx"]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb
        .arg(program)
        .current_dir(folder.path())
        .stdin(Stdio::null());
    let output = output.output().expect("gdb is installed (Debian: gdb)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_an_ifunc_chose_answers_to_its_public_name() {
    let folder = Folder::new("names-ifunc");
    folder.program(&["-O0", "-g", "-fno-builtin"], "copies", COPIES);
    let stop = ["break 9", "run", "info symbol copy", "info symbol length"];
    let said = gdb(&folder, "./copies", &stop);
    let mut symbols = said
        .lines()
        .filter_map(|line| line.split_once(" in section"));
    let (copy, length) = (symbols.next().unwrap().0, symbols.next().unwrap().0);
    for flags in [
        &["-O0", "-fno-builtin"][..],
        &["-O0", "-fno-builtin", "-static"],
    ] {
        folder.compile(flags, "plain", "copies.c");
        for (name, variant, calls) in [
            ("memcpy", copy, 20),
            ("memmove", copy, 20),
            ("strlen", length, 7),
        ] {
            let of = |name: &str| {
                let chosen = [
                    "--start-func",
                    "main",
                    "--stop-func",
                    "exit",
                    "--funcs",
                    name,
                    "--",
                    "./plain",
                ];
                functions(&folder, &chosen)
            };
            let found = of(name);
            assert_eq!(found, of(variant), "{name} is {variant}");
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].2, calls, "{found:?}");
        }
    }
    let resolver = functions(&folder, &["--funcs", "memcpy [resolver]", "--", "./copies"]);
    assert!(
        !resolver.is_empty(),
        "memcpy is bound when it is called first"
    );
    assert!(
        resolver.iter().all(|found| found.0 == "memcpy [resolver]"),
        "{resolver:?}"
    );
}

const HEADER: &str = "\
struct Stack {
    int *at;
    int count;
    void push(int x) { at[count++] = x; }
};
";

/// The first instruction of `fill` is one of `push`.
const FILL: &str = r#"
#include "stack.h"
__attribute__((noinline)) static
void
fill(Stack &stack,
     int x)
{
    stack.push(x);
    stack.push(x + 1);
}
int numbers[100];
int main(int argc, char **argv)
{
    Stack stack{numbers, 0};
    for (int i = 0; i < 10; i++)
        fill(stack, argc);
    return stack.count - 20;
}
"#;

const SPIN: &str = "\
#[inline(never)]
pub fn
spin(n: u64) -> u64
{
    std::hint::black_box(n)
}

fn main() {
    let sum: u64 = (0..10).map(spin).sum();
    println!(\"{sum}\");
}
";

#[test]
fn a_function_is_where_it_is_declared() {
    let folder = Folder::new("names-declared");
    fs::write(folder.file("stack.h"), HEADER).unwrap();
    fs::write(folder.file("fill.cc"), FILL).unwrap();
    fs::write(folder.file("spin.rs"), SPIN).unwrap();
    folder.compile(&["-O2", "-g"], "fill", "fill.cc");
    let rustc = Command::new("rustc")
        .args(["-O", "-g", "spin.rs"])
        .current_dir(folder.path())
        .status();
    assert!(rustc.expect("rustc is installed").success());
    let own = |program: &str| functions(&folder, &["--main-image-only", "--", program]);
    let place = |found: &[Shown], name: &str| {
        let found = found.iter().find(|found| found.0 == name);
        found.map(|found| (found.1.clone(), found.2))
    };
    // As gdb says: `list fill` begins around line 5, `info line` names the header.
    let first = gdb(&folder, "./fill", &["info line *fill"]);
    assert!(
        first.contains("stack.h"),
        "the compiler begins it with push: {first}"
    );
    let found = own("./fill");
    assert_eq!(
        place(&found, "fill"),
        Some(("fill.cc:5".to_owned(), 10)),
        "{found:?}"
    );
    assert_eq!(
        place(&found, "main"),
        Some(("fill.cc:12".to_owned(), 1)),
        "{found:?}"
    );
    let found = own("./spin");
    assert_eq!(
        place(&found, "spin::spin"),
        Some(("spin.rs:2".to_owned(), 10)),
        "{found:?}"
    );
    // So does the table of `count`, live and from its recording.
    let run = ["count", "--top", "500", "-o", "fill.evp", "--", "./fill"];
    let live = folder.run(BINARY, &run);
    let later = folder.run(BINARY, &["report", "fill.evp", "--top", "500"]);
    for text in [live.stderr, later.stdout] {
        let text = String::from_utf8_lossy(&text).into_owned();
        let row = text.lines().find(|line| line.contains("  fill  "));
        assert!(row.is_some_and(|row| row.ends_with(" fill.cc:5")), "{text}");
    }
    // The table of lines keeps the place of each instruction.
    let run = [
        "count",
        "--format",
        "lcov",
        "--report",
        "cover.info",
        "--",
        "./fill",
    ];
    let output = folder.run(BINARY, &run);
    assert!(output.status.success(), "{output:?}");
    let info = fs::read_to_string(folder.file("cover.info")).unwrap();
    assert!(info.contains("FN:5,_ZL4fillR5Stacki\n"), "{info}");
}

/// `hot` is on one page, `cold` on the next. Both are called five times before and ten times after
/// their pages are put in place of themselves; `c` changes a byte of `cold`.
const REMAPPED: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define OWN __attribute__((section("own"), aligned(4096), noipa))
OWN int hot(int x) { return x + 1; }
OWN int cold(int x) { return x + 2; }
OWN void end(void) {}
static int run(int times) {
    int sum = 0;
    while (times--) sum += hot(times) * cold(times);
    return sum;
}
int main(int argc, char **argv) {
    char *start = (char *)hot, how = argv[1][0];
    size_t size = (char *)end - start;
    int before = run(5), flags = MAP_PRIVATE | MAP_ANONYMOUS, all = PROT_READ | PROT_WRITE | PROT_EXEC;
    static char copy[8192];
    memcpy(copy, start, size);
    if (how == 'c') *strchr(copy + 4096, 2) = 3;
    if (how == 'm') {
        char *from = mmap(0, size, PROT_READ | PROT_WRITE, flags, -1, 0);
        memcpy(from, copy, size);
        mprotect(from, size, PROT_READ | PROT_EXEC);
        mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, start);
    } else if (how == 'x') {
        mmap(start, size, all, flags | MAP_FIXED, -1, 0);
        memcpy(start, copy, size);
    } else {
        mmap(start, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
        memcpy(start, copy, size);
        mprotect(start, size, PROT_READ | PROT_EXEC);
    }
    int after = run(5);
    printf("%d %d\n", before, after);
    return run(5) != after;
}
"#;

#[test]
fn code_that_is_put_in_place_of_itself_keeps_its_names() {
    let folder = Folder::new("names-remapped");
    folder.program(&["-O1", "-fno-toplevel-reorder"], "remapped", REMAPPED);
    for (how, cold) in [("m", 15), ("x", 15), ("p", 15), ("c", 5)] {
        let native = folder.run("./remapped", &[how]);
        let said = String::from_utf8_lossy(&native.stdout).into_owned();
        assert_eq!(said == "70 70\n", how != "c", "{said}");
        let program = ["--main-image-only", "--", "./remapped", how];
        let live = functions(&folder, &program);
        let trace = ["trace", "-o", "remapped.evp", "--", "./remapped", how];
        let traced = folder.run(BINARY, &trace);
        assert_eq!(traced.stdout, native.stdout, "{traced:?}");
        let report = [
            "report",
            "--as",
            "contexts",
            "--format",
            "csv",
            "remapped.evp",
        ];
        let later = called(&folder, &report);
        for (name, calls) in [("hot", 15), ("cold", cold)] {
            for found in [&live, &later] {
                let found: Vec<u64> = found
                    .iter()
                    .filter(|found| found.0 == name)
                    .map(|found| found.2)
                    .collect();
                assert_eq!(found, [calls], "{name} in {how}");
            }
        }
    }
}

const FIB_JS: &str = "\
// Compiled by each of V8's compilers in turn.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
let sum = 0;
for (let i = 0; i < 600; i++) sum += fib(15);
console.log(sum);
";

/// Names of V8's, and their places, as node itself tells them.
#[test]
#[ignore = "wide: node starts slowly; code that other runtimes make is named in the gate"]
fn code_that_node_makes_is_named_as_node_tells_it() {
    let folder = Folder::new("names-node");
    fs::write(folder.file("fib.js"), FIB_JS).unwrap();
    let run = |command: &[&str], option: &str| {
        let node = ["--", "node", option, "--single-threaded", "fib.js"];
        let output = folder.run(BINARY, &[command, &node].concat());
        assert_eq!(output.stdout, b"366000\n", "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (option, module) in [("--perf-basic-prof", "perf-"), ("--perf-prof", "jit-")] {
        let live = run(&["contexts", "--top", "100"], option);
        let fib = live.lines().find(|line| is_fib(line));
        let fib = fib.unwrap_or_else(|| panic!("{live}"));
        assert!(fib.contains(module) && fib.ends_with("fib.js:2"), "{fib}");
        // V8 has named what is in its own file.
        assert!(!live.contains("Builtin:"), "{live}");
        assert!(!live.contains("code that the program made"), "{live}");
    }
    let option = "--perf-basic-prof";
    let counted = run(&["count", "--top", "100"], option);
    assert!(counted.lines().any(is_fib), "{counted}");
    remove_maps(&folder.path().to_string_lossy());
    let unnamed = run(&["contexts"], "--no-warnings");
    assert!(
        unnamed.contains("of the instructions are in code that the program made"),
        "{unnamed}"
    );
}

/// Whether a line has the optimised code of `fib`: V8 up to 10 calls it a lazily compiled one, later versions do not.
fn is_fib(line: &str) -> bool {
    ["JS:*fib ", "LazyCompile:*fib "]
        .iter()
        .any(|name| line.contains(name))
}

/// Removes maps of runtimes that name `what`.
fn remove_maps(what: &str) {
    for entry in fs::read_dir("/tmp").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_map = name.starts_with("perf-") && name.ends_with(".map");
        if is_map && fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(what)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A map of somebody else's, or of an older process with the same number, names nothing.
#[test]
fn a_map_that_is_older_than_the_run_is_not_read() {
    let folder = Folder::new("names-old-map");
    folder.program(
        &["-O1"],
        "makes",
        r#"
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/stat.h>
int main(int argc, char **argv) {
    char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\x31\xc0\xc3", 3);
    char path[64], line[64];
    sprintf(path, "/tmp/perf-%d.map", getpid());
    int map = open(path, O_CREAT | O_WRONLY, 0600);
    int len = sprintf(line, "%lx 3 zero with spaces\n", (long)code);
    if (write(map, line, len) != len) return 2;
    struct timespec times[2] = {{1000, 0}, {1000, 0}};
    if (argc > 1) futimens(map, times);
    int sum = 0;
    for (int i = 0; i < 12; i++) sum += ((int (*)(void))code)();
    return sum;
}
"#,
    );
    let named = |program: &[&str]| {
        let all = functions(&folder, &[&["--"], program].concat());
        let made = |found: &&Shown| found.0.starts_with("zero");
        all.iter()
            .filter(made)
            .map(|found| found.2)
            .collect::<Vec<_>>()
    };
    assert_eq!(named(&["./makes"]), [12]);
    let trace = ["trace", "-o", "makes.evp", "--", "./makes"];
    assert_eq!(folder.run(BINARY, &trace).status.code(), Some(0));
    for what in ["contexts", "counts"] {
        let report = ["report", "makes.evp", "--as", what, "--top", "1000"];
        let output = folder.run(BINARY, &report);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let made = text
            .lines()
            .find(|line| line.contains(" zero with spaces "));
        let made = made.unwrap_or_else(|| panic!("{text}"));
        assert!(made.contains("perf-") && made.contains(" 12 "), "{made}");
    }
    assert!(named(&["./makes", "old"]).is_empty());
    remove_maps("3 zero with spaces");
}

/// A program in the place of Python, with the function that every interpreter of it has.
#[test]
fn python_that_could_name_its_functions_is_told_of() {
    let folder = Folder::new("python_note");
    let text = "__attribute__((noinline)) int _PyEval_EvalFrameDefault(int n) { return n + 1; }
                int main(int argc, char **argv) { return _PyEval_EvalFrameDefault(argc) == 9; }";
    for (name, can) in [
        ("python3.12", true),
        ("libpython3.13.so.1.0", true),
        ("python3.11", false),
    ] {
        folder.program(&["-O1"], name, text);
        let output = Command::new(BINARY)
            .current_dir(folder.path())
            .args(["contexts", "--", &format!("./{name}")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let note = "note: functions of Python are not shown: with PYTHONPERFSUPPORT=1";
        assert_eq!(said.contains(note), can, "{name}: {said}");
    }
}

/// A path that is no text is one with other characters in a recording; the file is found all the same.
#[test]
fn a_program_whose_folder_is_no_text_has_names_and_lines() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("names-bytes");
    folder.program(
        &["-O1", "-g"],
        "prog",
        "int main(void) { for (volatile int i = 0; i < 100000; i++); return 0; }",
    );
    let inside = folder.path().join(std::ffi::OsStr::from_bytes(b"b\xffd"));
    fs::create_dir(&inside).unwrap();
    fs::copy(folder.file("prog"), inside.join("prog")).unwrap();
    for words in [
        &["count"][..],
        &["count", "--rewrite"],
        &["count", "--format", "lcov"],
        &["contexts"],
    ] {
        let output = Command::new(BINARY)
            .args(words)
            .args(["--report", "out", "--top", "100", "--"])
            .arg(inside.join("prog"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?} {output:?}");
        let report = fs::read_to_string(folder.file("out")).unwrap();
        assert!(
            report.contains("main") && report.contains("prog.c"),
            "{words:?} {report}"
        );
    }
}
