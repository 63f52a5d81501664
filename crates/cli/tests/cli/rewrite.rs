//! `everypath rewrite`: edited programs run as the originals, whatever strips them, and what cannot be edited is refused.

use std::fs;
use std::process::{Command, Output};

use testkit::folder::Folder;

use crate::BINARY;
use crate::flow::THROWS;

/// Ways to edit: the last shows that nothing comes to old code any more.
const TOOLS: [&[&str]; 3] = [
    &["--tool", "segment"],
    &["--tool", "null"],
    &["--tool", "null", "--paranoid"],
];
const PARANOID: &[&str] = TOOLS[2];

/// An edited copy of a file of the folder.
pub fn edit(folder: &Folder, from: &str, to: &str, tool: &[&str]) {
    let output = folder.run(BINARY, &[&["rewrite", from, "-o", to], tool].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{from}: {said}");
}

pub fn tool(folder: &Folder, program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder.path())
        .output();
    output.unwrap_or_else(|error| panic!("{program} did not start: {error}"))
}

pub fn succeeds(folder: &Folder, program: &str, arguments: &[&str]) -> String {
    let output = tool(folder, program, arguments);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub const LAYOUTS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__thread int of_thread = 7;
static char zeros[100000];
static void at_exit(void) { puts("bye"); }
__attribute__((constructor)) static void early(void) { of_thread++; }
int main(int count, char **words) {
    atexit(at_exit);
    memset(zeros, 1, sizeof zeros);
    char *heap = malloc(1 << 20);
    memset(heap, 2, 1 << 20);
    int sum = 0;
    for (unsigned i = 0; i < sizeof zeros; i++) sum += zeros[i] + heap[i];
    printf("%d %d %d\n", sum, of_thread, count);
    return 3;
}
"#;

/// Kinds of programs and linkers, each edited, then stripped by both strips; the section headers are whole for readelf.
#[test]
fn edited_layouts_run_and_survive_strip() {
    let folder = Folder::new("rewrite-layouts");
    fs::write(folder.file("layouts.c"), LAYOUTS).unwrap();
    let layouts: [(&str, &str, &[&str]); 8] = [
        ("pie", "gcc", &["-O1"]),
        ("fixed", "gcc", &["-O1", "-no-pie"]),
        ("static", "gcc", &["-O1", "-static"]),
        ("static-pie", "gcc", &["-O1", "-static-pie"]),
        (
            "one-code-segment",
            "gcc",
            &["-O1", "-Wl,-z,noseparate-code"],
        ),
        (
            "large-pages",
            "gcc",
            &["-O1", "-Wl,-z,max-page-size=0x200000"],
        ),
        ("gold", "gcc", &["-O1", "-fuse-ld=gold"]),
        // It has no header to spare.
        ("static-musl", "musl-gcc", &["-O1", "-static"]),
    ];
    for (name, compiler, flags) in layouts {
        let arguments = [flags, &["-o", name, "layouts.c"]].concat();
        succeeds(&folder, compiler, &arguments);
        let native = tool(&folder, &format!("./{name}"), &["a", "b"]);
        assert_eq!(native.status.code(), Some(3), "{name}");
        // Every tool edits the first; only the one with all checks edits the others.
        let tools = if name == "pie" {
            &TOOLS[..]
        } else {
            &TOOLS[2..]
        };
        for by in tools {
            survives(&folder, name, by, &native);
        }
    }
}

/// An edited program and its stripped forms do as the original did.
fn survives(folder: &Folder, name: &str, edit_by: &[&str], native: &Output) {
    let edited = format!("{name}.new");
    edit(folder, name, &edited, edit_by);
    let section = succeeds(folder, "readelf", &["-SW", &edited]);
    assert!(section.contains(".note.everypath"), "{section}");
    let mut variants = vec![edited.clone()];
    for strip in ["strip", "llvm-strip-14"] {
        let stripped = format!("{edited}.{strip}");
        // LLVM's refuses static programs of glibc, edited or not.
        let of_original = tool(folder, strip, &["-o", "original", name]);
        if !of_original.status.success() {
            let refused = tool(folder, strip, &["-o", &stripped, &edited]);
            assert!(
                name.starts_with("static") && !refused.status.success(),
                "{name}"
            );
            continue;
        }
        succeeds(folder, strip, &["-o", &stripped, &edited]);
        let again = ["rewrite", &stripped, "-o", "again", "--tool", "segment"];
        let said = folder.refused(BINARY, &again);
        assert!(said.contains("it was edited by everypath before"), "{said}");
        variants.push(stripped);
    }
    let warnings = |file: &str| {
        let warned = tool(folder, "readelf", &["-aW", file]).stderr;
        String::from_utf8_lossy(&warned).into_owned()
    };
    for variant in variants {
        assert_eq!(warnings(&variant), warnings(name), "{variant}");
        let run = tool(folder, &format!("./{variant}"), &["a", "b"]);
        assert_eq!(&run, native, "{variant} {edit_by:?}");
    }
}

/// Programs of the machine in place of the originals, with all of their libraries edited as well, from a folder that was moved.
/// They see nothing of it in their environment, and find the files that belong to them.
#[test]
#[ignore = "wide: libraries that are counted and regenerated are in the gate"]
fn real_programs_run_with_edited_libraries() {
    run_with_edited_libraries(&[
        ("perl", "print join ',', map { $_ * 2 } 1..9, %ENV", "-e"),
        (
            "gawk",
            "BEGIN { print atan2(1, 2); system(\"env | sort\") }",
            "--",
        ),
    ]);
}

#[test]
#[ignore = "wide: two large programs more"]
fn large_programs_run_with_edited_libraries() {
    run_with_edited_libraries(&[
        (
            "python3",
            "import json, sqlite3, zlib, os, sys; print(json.dumps([i for i in range(9)]), sys.prefix, *sorted(os.environ)); 1/0",
            "-c",
        ),
        ("git", "--version", "--no-pager"),
    ]);
}

/// `lines` are programs, a text and the flag in front of it.
fn run_with_edited_libraries(lines: &[(&str, &str, &str)]) {
    let folder = Folder::new("rewrite-real");
    for &(name, text, flag) in lines {
        let path = format!("/usr/bin/{name}");
        let made = format!("{name}.made");
        let words = ["--libs", &path, "-o", &made];
        let made_by = [&["rewrite"], &words[..], PARANOID].concat();
        // A folder that was made so is made again.
        for _ in 0..if name == "gawk" { 2 } else { 1 } {
            let output = folder.run(BINARY, &made_by);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
        fs::rename(folder.file(&made), folder.file(name)).unwrap();
        let libraries = fs::read_dir(folder.file(&format!("{name}/lib"))).unwrap();
        let libraries = libraries
            .map(|entry| entry.unwrap().file_name())
            .collect::<Vec<_>>();
        assert!(
            libraries.iter().any(|name| name == "libc.so.6"),
            "{libraries:?}"
        );
        let run = |words: &[&str]| {
            let words = [&["-i", "LC_ALL=C", "PATH=/usr/bin"], words, &[flag, text]].concat();
            tool(&folder, "env", &words)
        };
        let native = run(&[&path]);
        assert_eq!(run(&[BINARY, "exec", name]), native, "{name}");
        assert!(!native.stdout.is_empty());
        let files = tool(
            &folder,
            "env",
            &["LD_TRACE_LOADED_OBJECTS=1", &format!("{name}/bin/{name}")],
        );
        let files = String::from_utf8(files.stdout).unwrap();
        let own = files
            .lines()
            .filter(|line| line.contains(&format!("{name}/bin/../lib/")));
        assert!(own.count() >= libraries.len().min(2), "{files}");
    }
}

/// A library that is loaded while the program runs can be edited with it; what is no such folder is not written to.
#[test]
fn folders_of_edited_programs() {
    let folder = Folder::new("rewrite-folder");
    let edit = |also: &str, to: &str| {
        let words = [
            "rewrite",
            "--libs",
            "/usr/bin/python3",
            "--also",
            also,
            "-o",
            to,
        ];
        folder.run(BINARY, &[&words[..], PARANOID].concat())
    };
    let library = succeeds(
        &folder,
        "ldd",
        &["/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so"],
    );
    let library = library
        .split_whitespace()
        .find(|word| word.starts_with('/') && word.contains("libffi"));
    assert!(edit(library.unwrap(), "py").status.success());
    let text = "import ctypes; print(ctypes.CDLL(None).abs(-7), [l.split()[-1] for l in open('/proc/self/maps') if 'libffi' in l][0])";
    let said = succeeds(&folder, BINARY, &["exec", "py", "-c", text]);
    assert!(
        said.starts_with("7 ") && said.contains("/py/lib/libffi"),
        "{said}"
    );

    fs::create_dir(folder.file("mine")).unwrap();
    let refused = |words: &[&str]| folder.refused(BINARY, words);
    let taken = [
        "rewrite",
        "--libs",
        "/usr/bin/true",
        "-o",
        "mine",
        "--tool",
        "null",
    ];
    assert!(refused(&taken).contains("'mine' exists already"));
    assert!(refused(&["exec", "mine"]).contains("no folder of `everypath rewrite --libs`"));
    let packed = [
        "rewrite",
        "--libs",
        "/etc/passwd",
        "-o",
        "out",
        "--tool",
        "null",
    ];
    assert!(refused(&packed).contains("not an ELF file"));
    let nowhere = [
        "rewrite",
        "--libs",
        "/usr/bin/true",
        "-o",
        "none/out",
        "--tool",
        "null",
    ];
    assert!(refused(&nowhere).contains("no such file"));
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["mine", "py"], "nothing else is left");
}

/// The product is linked by LLD, which leaves one note and the thread's variables beside code.
#[test]
#[ignore = "wide: the product has 80 MB; a smaller program of the same linker is in the gate"]
fn a_program_of_rust_runs_edited() {
    let folder = Folder::new("rewrite-lld");
    let comment = succeeds(&folder, "readelf", &["-p", ".comment", BINARY]);
    assert!(comment.contains("LLD"), "{comment}");
    edit(&folder, BINARY, "edited", PARANOID);
    for words in [
        &["--version"][..],
        &["flow", "/usr/bin/true", "--loops"],
        &["nothing"],
    ] {
        let run = |program: &str| {
            tool(
                &folder,
                "bash",
                &[&["-c", "exec -a everypath \"$0\" \"$@\"", program], words].concat(),
            )
        };
        assert_eq!(run("./edited"), run(BINARY), "{words:?}");
    }
}

/// Exceptions, destructors and rethrows through moved frames of a program and of its libraries.
#[test]
fn exceptions_go_through_moved_code() {
    let folder = Folder::new("rewrite-throws");
    fs::write(folder.file("throws.cc"), THROWS).unwrap();
    succeeds(&folder, "g++", &["-O2", "-o", "throws", "throws.cc"]);
    let native = tool(&folder, "./throws", &[]);
    assert!(!native.stdout.is_empty());
    edit(&folder, "throws", "edited", PARANOID);
    assert_eq!(tool(&folder, "./edited", &[]), native);
    fs::create_dir(folder.file("libs")).unwrap();
    for line in succeeds(&folder, "ldd", &["./throws"]).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, "=>", path, ..] = words[..] {
            edit(&folder, path, &format!("libs/{name}"), PARANOID);
        }
    }
    let run = ["LD_LIBRARY_PATH=libs", "./edited"];
    assert_eq!(tool(&folder, "env", &run), native);
}

/// Panics that are caught, also through a callback of libc.
const PANICS: &str = r#"
use std::ffi::c_void;
use std::panic::{catch_unwind, resume_unwind};
unsafe extern "C-unwind" { fn qsort(base: *mut c_void, n: usize, size: usize, by: extern "C-unwind" fn(*const i32, *const i32) -> i32); }
struct Says(&'static str);
impl Drop for Says { fn drop(&mut self) { println!("dropped {}", self.0); } }
extern "C-unwind" fn by(one: *const i32, other: *const i32) -> i32 {
    let _says = Says("in a callback");
    let (one, other) = unsafe { (*one, *other) };
    if one + other > 15 { resume_unwind(Box::new(one + other)); }
    one.cmp(&other) as i32
}
fn inner(n: usize, words: &[&str]) -> usize {
    let _says = Says("inner");
    words[n].len()
}
fn main() {
    std::panic::set_hook(Box::new(|_| {
        if std::env::args().count() < 2 { return; }
        let frames = std::backtrace::Backtrace::force_capture().to_string();
        let own = frames.lines().filter(|line| line.contains("panics.rs") || line.contains("panics::"));
        // Numbers of frames are one of the limits of the editor.
        own.for_each(|line| println!("{}", line.trim().trim_start_matches(|c: char| c.is_ascii_digit())));
    }));
    for n in 1..3 {
        let found = catch_unwind(|| inner(n, &["a", "bc"]));
        println!("{n}: {:?}", found.ok());
    }
    let mut all = [9, 3, 7, 1, 8, 2];
    let sorted = catch_unwind(move || unsafe { qsort(all.as_mut_ptr().cast(), 6, 4, by) });
    println!("{:?}", sorted.unwrap_err().downcast_ref::<i32>());
}
"#;

/// Makes that program, `panics`.
pub fn panics(folder: &Folder) {
    fs::write(folder.file("panics.rs"), PANICS).unwrap();
    // The folder's commands have another PATH than that of the toolchain.
    let mut compiler = Command::new("rustc");
    let compiler = compiler
        .args(["-O", "-g", "panics.rs"])
        .current_dir(folder.path());
    assert!(compiler.status().unwrap().success());
}

/// Panics of Rust go through moved frames, and their backtraces have the names and lines of the original.
#[test]
fn panics_go_through_moved_code() {
    let folder = Folder::new("rewrite-panics");
    panics(&folder);
    let made = ["rewrite", "--libs", "panics", "-o", "edited"];
    let made = folder.run(BINARY, &[&made[..], PARANOID].concat());
    assert!(made.status.success(), "{made:?}");
    let run = |program: &str| succeeds(&folder, program, &["backtraces"]);
    let native = run("./panics");
    assert!(
        native.contains("at ./panics.rs:") && native.contains("Some(16)"),
        "{native}"
    );
    assert_eq!(run("edited/bin/panics"), native);
}

/// Functions that stay are named, with the reason.
#[test]
fn functions_that_are_left_are_explained() {
    let folder = Folder::new("rewrite-explain");
    folder.program(&["-O1"], "prog", "int main(void) { return 0; }");
    let words = [
        "rewrite",
        "prog",
        "-o",
        "out",
        "--tool",
        "null",
        "--explain",
    ];
    let said = String::from_utf8(folder.run(BINARY, &words).stderr).unwrap();
    assert!(said.contains(" (_start): G9, start-up code"), "{said}");
    let main = said.lines().find(|line| line.contains("main"));
    assert_eq!(main, None, "it is moved");
}

/// An `exit` of another library that comes back, behind which compilers leave nothing of the same function.
#[test]
fn a_call_that_returns_against_all_expectation_goes_on_as_before() {
    const EXITS: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
        __attribute__((noinline)) void work(int n) { if (n == 3) { puts(\"before\"); exit(4); } puts(\"no\"); }\n\
        int main(int n, char **words) { work(n); work(3); puts(\"after\"); return 9; }\n";
    const RETURNS: &str =
        "#include <stdio.h>\nvoid exit(int n) { printf(\"exit %d\\n\", n); fflush(stdout); }\n";
    let folder = Folder::new("rewrite-returns");
    folder.program(&["-O1"], "exits", EXITS);
    folder.program(&["-O1", "-w", "-shared", "-fPIC"], "returns.so", RETURNS);
    edit(&folder, "exits", "edited", TOOLS[1]);
    for preload in ["", "./returns.so"] {
        let preload = format!("LD_PRELOAD={preload}");
        let run = |program: &str| {
            // With what lies behind the call the program may not end by itself.
            let words = [&preload, "timeout", "--foreground", "5", program];
            let output = tool(&folder, "env", &words);
            (
                output.status.code(),
                output.stdout.into_iter().take(1000).collect::<Vec<_>>(),
            )
        };
        let native = run("./exits");
        assert!(!native.1.is_empty());
        assert_eq!(run("./edited"), native, "{preload}");
    }
}

/// A switch with all of its cases.
pub const SWITCH: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    __attribute__((noinline)) int size(int kind) { switch (kind) {\n\
    case 0: return 1; case 1: return abs(kind + 5) * 3; case 2: puts(\"two\"); return 8; case 3: return rand() & 0;\n\
    case 4: puts(\"four\"); return 34; case 5: return 1 << kind; case 6: return getenv(\"none\") ? 2 : 3; }\n\
    return -1; }\n\
    int main(void) { for (int i = -1; i < 9; i++) printf(\"%d \", size(i)); return 0; }\n";
/// LLVM compares nothing here, and elements between the cases lead to the function's end.
pub const HOLES: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    __attribute__((noinline)) int size(int kind) { switch (kind) {\n\
    case 0: return abs(kind + 5) * 3; case 3: puts(\"three\"); return 8; case 5: return rand() & 0;\n\
    case 9: puts(\"nine\"); return 34; case 12: return 1 << kind; case 15: return getenv(\"none\") ? 2 : 3;\n\
    default: __builtin_unreachable(); } }\n\
    int main(void) { static const int all[] = {0, 3, 5, 9, 12, 15}; for (int i = 0; i < 60; i++) printf(\"%d \", size(all[i % 6])); }\n";

/// The index is in a structure that a call fills anew, behind a comparison of what the call before left there.
const ESCAPES: &str = "#include <stdio.h>\n#include <stdlib.h>\nstruct token { unsigned char kind; int value; };\n\
    __attribute__((noinline)) void next(struct token *to, const char **at) { to->kind = **at - 'a'; to->value = *(*at)++; }\n\
    __attribute__((noinline)) int parse(const char *text) { struct token now; next(&now, &text);\n\
    if (now.kind != 0) return -1;\n\
    next(&now, &text);\n\
    switch (now.kind) { case 0: return abs(now.value + 5) * 3; case 1: puts(\"one\"); return 8; case 2: return rand() & 0;\n\
    case 3: puts(\"three\"); return 34; case 4: return 1 << now.kind; case 5: return getenv(\"none\") ? 2 : 3;\n\
    case 6: return 77 + now.value; } return -2; }\n\
    int main(void) { char text[3] = \"a\"; for (int i = 0; i < 9; i++) { text[1] = 'a' + i; printf(\"%d \", parse(text)); } return 0; }\n";

/// Jump tables of GCC's and LLVM's switches are made anew, relative and absolute ones: their old cases are traps, with no jump.
#[test]
fn switches_go_to_new_code() {
    let folder = Folder::new("rewrite-switches");
    fs::write(folder.file("switch.c"), SWITCH).unwrap();
    fs::write(folder.file("holes.c"), HOLES).unwrap();
    fs::write(folder.file("escapes.c"), ESCAPES).unwrap();
    for (compiler, form, source) in [
        ("gcc", "-fPIE -pie", "switch.c"),
        ("gcc", "-fno-pie -no-pie", "switch.c"),
        ("clang-14", "-fPIE -pie", "switch.c"),
        ("clang-14", "-fno-pie -no-pie", "switch.c"),
        ("clang-14", "-fPIE -pie", "holes.c"),
        ("clang-14", "-fno-pie -no-pie", "holes.c"),
        ("gcc", "-fPIE -pie", "escapes.c"),
        ("gcc", "-fno-pie -no-pie", "escapes.c"),
        ("clang-14", "-fPIE -pie", "escapes.c"),
    ] {
        let line = format!("{compiler} -O2 {form} -o switch {source}");
        succeeds(&folder, "sh", &["-c", &line]);
        let words = ["rewrite", "switch", "-o", "edited", "--explain"];
        let said = folder.run(BINARY, &[&words[..], PARANOID].concat());
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(
            said.contains("; 1 of 1 jump tables made anew"),
            "{line}: {said}"
        );
        // A jump for each function, none for cases.
        let jumps = said
            .lines()
            .filter(|line| line.ends_with(": jump to moved code"));
        let moved = format!(" {} functions moved", jumps.count());
        assert!(said.contains(&moved), "{line}: {said}");
        let native = succeeds(&folder, "./switch", &[]);
        assert_eq!(succeeds(&folder, "./edited", &[]), native, "{line}");
    }
}

/// Handlers that have the program go on behind a trap, where compilers and this editor see no way to.
#[test]
fn a_handler_goes_on_behind_a_trap() {
    const TRAPS: &str = "#define _GNU_SOURCE\n#include <signal.h>\n#include <stdio.h>\n#include <ucontext.h>\n\
        static void skip(int n, siginfo_t *i, void *c) { if (n == SIGILL) ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP] += 2; }\n\
        __attribute__((noinline)) int work(int n) { asm volatile(\"int3\"); n *= 3; asm volatile(\"ud2\"); return n + 1; }\n\
        int main(void) { struct sigaction a = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};\n\
        sigaction(SIGTRAP, &a, 0); sigaction(SIGILL, &a, 0); printf(\"%d\\n\", work(13)); return 0; }\n";
    let folder = Folder::new("rewrite-traps");
    folder.program(&["-O1"], "traps", TRAPS);
    edit(&folder, "traps", "edited", TOOLS[1]);
    assert_eq!(succeeds(&folder, "./traps", &[]), "40\n");
    assert_eq!(succeeds(&folder, "./edited", &[]), "40\n");
}

/// The compiler proper makes the same of the same source.
#[test]
#[ignore = "wide: a program of 30 MB; smaller ones are in the gate"]
fn a_compiler_compiles_the_same() {
    let folder = Folder::new("rewrite-cc1");
    let compiler = succeeds(&folder, "gcc", &["-print-prog-name=cc1"]);
    edit(&folder, compiler.trim(), "cc1", PARANOID);
    fs::write(folder.file("in.c"), LAYOUTS).unwrap();
    succeeds(&folder, "gcc", &["-E", "-o", "in.i", "in.c"]);
    for level in ["-O0", "-O3"] {
        for (program, to) in [(compiler.trim(), "native.s"), ("./cc1", "edited.s")] {
            let words = ["-fpreprocessed", "-quiet", level, "in.i", "-o", to];
            succeeds(&folder, program, &words);
        }
        let [native, edited] =
            ["native.s", "edited.s"].map(|name| fs::read(folder.file(name)).unwrap());
        assert!(native == edited && !native.is_empty(), "{level}");
    }
}

const DEBUGGED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <execinfo.h>
static inline int twice(int x) { return x * 2; }
__attribute__((noinline)) int leaf(int n) {
    void *frames[10];
    int count = backtrace(frames, 10);
    char **names = backtrace_symbols(frames, count);
    for (int i = 0; i < 2; i++) puts(names[i]);
    return n + count;
}
__attribute__((noinline)) int middle(int n) {
    volatile int local = twice(n) + 1;
    int r = leaf(local);
    switch (n) { case 1: r += 3; break; case 2: r *= 7; break; case 3: puts("x"); break; case 4: r -= 2; break; case 5: r ^= 3; }
    return r + local;
}
int main(int argc, char **argv) {
    printf("%d\n", middle(argc + 2));
    return 0;
}
"#;

/// gdb stops in moved code by name and by line, and its backtraces, arguments and local variables are those of the original; so
/// are those of `backtrace(3)`.
#[test]
#[ignore = "wide: ten seconds of gdb"]
fn gdb_knows_moved_code() {
    const LINE: &str = "break debugged.c:15";
    let folder = Folder::new("rewrite-gdb");
    fs::write(folder.file("debugged.c"), DEBUGGED).unwrap();
    let builds: [(&str, &[&str]); 3] = [
        ("gcc", &["-O2", "-gdwarf-4", "-ffunction-sections"]),
        ("clang-14", &["-O0", "-g"]),
        ("clang-14", &["-O2", "-gdwarf-4"]),
    ];
    for (compiler, flags) in builds {
        let words = [flags, &["-rdynamic", "-o", "debugged", "debugged.c"]].concat();
        succeeds(&folder, compiler, &words);
        let said = |program: &str, breakpoint: &str| {
            let mut words = vec!["-q", "-batch", "-nx", "-ex", breakpoint];
            let commands = [
                "break leaf",
                "run",
                "info locals",
                "bt",
                "continue",
                "bt",
                "info args",
                "info locals",
                "finish",
            ];
            words.extend(commands.iter().flat_map(|command| ["-ex", command]));
            let said = tool(&folder, "gdb", &[&words[..], &[program]].concat());
            // Without addresses and names of files, and without a local that has no value yet: what was on the stack before differs
            // from run to run.
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let is_same = |line: &&str| !line.starts_with('[') && !line.starts_with("count = ");
            let lines = said.lines().filter(is_same);
            let words = lines.map(|line| {
                let words = line.split_whitespace().filter(|word| !word.contains("0x"));
                words.collect::<Vec<_>>().join(" ")
            });
            words.collect::<Vec<_>>()
        };
        let native = said("./debugged", LINE);
        let has = |text: &str| native.iter().any(|line| line.contains(text));
        assert!(
            has("middle (n=3) at debugged.c:15") && has("leaf (n=7)"),
            "{native:#?}"
        );
        for tool in ["null", "two-versions"] {
            edit(
                &folder,
                "debugged",
                "edited",
                &["--tool", tool, "--paranoid"],
            );
            // gdb has one place for a line of a function, and that is in the first version.
            let breakpoint = if tool == "null" { LINE } else { "break main" };
            let native = said("./debugged", breakpoint);
            assert_eq!(
                said("./edited", breakpoint),
                native,
                "{compiler} {flags:?} {tool}"
            );
            let names = succeeds(&folder, "./edited", &[]);
            assert!(
                names.contains("edited(leaf+") && names.contains("edited(middle+"),
                "{names}"
            );
        }
    }
}

#[test]
fn what_cannot_be_edited_is_refused_in_one_sentence() {
    let folder = Folder::new("rewrite-refused");
    folder.program(&["-O1"], "prog", "int main(void) { return 0; }");
    let whole = fs::read(folder.file("prog")).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.file(name), bytes).unwrap();
    write("text", b"#!/bin/sh\n");
    write("cut", &whole[..whole.len() / 3]);
    let mut narrow = whole.clone();
    narrow[4] = 1;
    write("narrow", &narrow);
    let mut foreign = whole.clone();
    foreign[18] = 183;
    write("foreign", &foreign);
    write("tail", &[&whole[..], b"PK\x05\x06archive"].concat());
    // Its segments of notes and properties are of a kind that nobody may take.
    let mut full = whole.clone();
    let (start, count) = (64, usize::from(full[56]));
    for at in (0..count).map(|number| start + number * 56) {
        let kind = u32::from_le_bytes(full[at..at + 4].try_into().unwrap());
        if matches!(kind, 4 | 0x6474_e553) {
            full[at..at + 4].copy_from_slice(&0x6fff_fff0u32.to_le_bytes());
        }
    }
    write("full", &full);
    for (name, sentence) in [
        ("text", "not an ELF file"),
        ("cut", "is truncated"),
        ("narrow", "32-bit"),
        ("foreign", "another machine"),
        ("tail", "11 bytes lie behind its last section"),
        ("full", "program headers have none to spare"),
        ("missing", "no such file"),
    ] {
        let words = ["rewrite", name, "-o", "out", "--tool", "segment"];
        let said = folder.refused(BINARY, &words);
        assert!(
            said.contains(sentence) && said.lines().count() == 1,
            "{name}: {said}"
        );
        assert!(!folder.file("out").exists(), "{name}");
    }
    let to =
        |out: &str| folder.refused(BINARY, &["rewrite", "prog", "-o", out, "--tool", "segment"]);
    assert!(to("prog").contains("not edited in place"));
    let both = [
        "rewrite",
        "prog",
        "-o",
        "out",
        "--tool",
        "segment",
        "--paranoid",
    ];
    assert!(
        folder
            .refused(BINARY, &both)
            .contains("--paranoid goes with tools that move functions")
    );
    assert!(to("none/out").contains("no such file"));
    assert!(to("/dev/full").contains("no space left"));
}

/// The list of edits has all that was changed.
#[test]
fn edits_are_listed() {
    let folder = Folder::new("rewrite-edits");
    folder.program(&["-O1"], "prog", "int main(void) { return 0; }");
    let words = [
        "rewrite",
        "prog",
        "-o",
        "out",
        "--tool",
        "segment",
        "--explain",
    ];
    let output = folder.run(BINARY, &words);
    let said = String::from_utf8(output.stderr).unwrap();
    let mut edits = Vec::new();
    for line in said.lines().skip(1) {
        let numbers: Vec<usize> = line
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter_map(|word| usize::from_str_radix(word.strip_prefix("0x")?, 16).ok())
            .collect();
        let [start, end] = numbers[..] else {
            panic!("{line}");
        };
        edits.push(start..end);
    }
    let [before, after] = ["prog", "out"].map(|name| fs::read(folder.file(name)).unwrap());
    let differ = |at: &usize| before[*at] != after[*at];
    let changed: Vec<usize> = (0..before.len()).filter(differ).collect();
    assert!(!changed.is_empty());
    for at in changed {
        assert!(
            edits.iter().any(|edit| edit.contains(&at)),
            "{at:#x}: {said}"
        );
    }
}
