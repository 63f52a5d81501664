//! Rows that people would report: names of files that are none, calls into the middle of functions, pipes that are closed, and where
//! reports go.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use testkit::folder::Folder;

use crate::BINARY;

const SOURCE: &str = "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); } int main(void) { return f(12) != 144; }";

/// Control characters of the names of files come to no terminal.
#[test]
fn names_of_files_are_one_word_in_tables() {
    let folder = Folder::new("outsiders-names");
    let name = "od\u{1b}[31md\nname";
    folder.program(&["-O1", "-g"], name, SOURCE);
    let path = format!("./{name}");
    for words in [
        &["contexts", "--report", "out", "--"][..],
        &["count", "--report", "out", "--"],
        &["flow", "--report", "out"],
        &["loops", "-o", "out", "--list"],
    ] {
        let output = folder.run(BINARY, &[words, &[&path]].concat());
        assert!(output.status.success(), "{output:?}");
        let out = fs::read_to_string(folder.file("out")).expect("it was written");
        assert!(
            !out.contains('\u{1b}') && !out.contains("\nname"),
            "{words:?}: {out}"
        );
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!said.contains('\u{1b}'), "{words:?}: {said}");
    }
}

/// A call into the middle of a function has the function's name, and how far it is from its beginning.
#[test]
fn calls_into_the_middle_have_names() {
    let folder = Folder::new("outsiders-middle");
    fs::write(
        folder.file("middle.s"),
        "
        .globl main
        .type main, @function
main:   push %rbx
        mov $100, %ebx
1:      call known+4
        dec %ebx
        jnz 1b
        call known
        xor %eax, %eax
        pop %rbx
        ret
        .size main, .-main
        .type known, @function
known:  nop
        nop
        nop
        nop
        mov $10, %ecx
2:      dec %ecx
        jnz 2b
        ret
        .size known, .-known
        .section .note.GNU-stack, \"\", @progbits
",
    )
    .expect("it is writable");
    assert!(
        folder
            .run("gcc", &["-no-pie", "-o", "m", "middle.s"])
            .status
            .success()
    );
    let words = [
        "contexts", "--cost", "calls", "--format", "folded", "--report", "-", "--", "./m",
    ];
    let output = folder.run(BINARY, &words);
    let text = String::from_utf8(output.stdout).expect("text");
    let calls = |name: &str| {
        let mut own = text.lines().filter_map(|line| {
            let (path, count) = line.rsplit_once(' ')?;
            (path.rsplit(';').next() == Some(name)).then_some(count)
        });
        own.next().map(str::to_owned)
    };
    assert_eq!(calls("known+0x4").as_deref(), Some("100"), "{text}");
    assert_eq!(calls("known").as_deref(), Some("1"), "{text}");
}

/// A reader that has enough is no failure, whatever the form; `-` is standard output; `report` takes `--report`, too.
#[test]
fn reports_go_where_they_are_sent() {
    let folder = Folder::new("outsiders-reports");
    folder.program(&["-O1", "-g"], "p", SOURCE);
    let run = folder.run(BINARY, &["contexts", "-q", "-o", "run.evp", "--", "./p"]);
    assert!(run.status.success(), "{run:?}");
    let again = folder.run(BINARY, &["contexts", "-q", "-o", "again.evp", "--", "./p"]);
    assert!(again.status.success(), "{again:?}");
    let of_report = ["flamegraph", "folded", "csv", "json", "report", "pprof"]
        .map(|form| (["report", "run.evp", "--no-pager"], form));
    let of_diff = ["flamegraph", "folded"].map(|form| (["diff", "run.evp", "again.evp"], form));
    for (words, form) in of_report.into_iter().chain(of_diff) {
        let mut child = Command::new(BINARY)
            .args(words)
            .args(["--format", form])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{form}: {output:?}"
        );
    }
    let shown = folder.run(BINARY, &["report", "run.evp", "--format", "csv"]);
    for words in [["--report", "x.csv"], ["-o", "x.csv"]] {
        let words = [&["report", "run.evp", "--format", "csv"], &words[..]].concat();
        assert!(folder.run(BINARY, &words).status.success());
        let written = fs::read(folder.file("x.csv")).expect("it was written");
        assert_eq!(written, shown.stdout);
        fs::remove_file(folder.file("x.csv")).expect("it is there");
    }
    let said = folder.refused(BINARY, &["report", "run.evp", "--modules", "nosuch"]);
    assert!(said.contains("--modules lists code"), "{said}");
    assert!(!folder.file("-").exists());
}

/// Functions of a stripped program are rows of their own, as those with symbols, whoever counts.
#[test]
fn functions_without_symbols_have_rows() {
    let folder = Folder::new("outsiders-stripped");
    let source = "
#define NO __attribute__((noinline, noclone))
NO int square(int n) { __asm__ volatile(\"\"); return n * n; }
NO int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += square(i) & 7; return s; }
int main(void) { int s = 0; for (int i = 0; i < 50; i++) s += sum(i); return s == 0; }
";
    folder.program(&["-O1"], "named", source);
    let stripped = folder.run("strip", &["-o", "nameless", "named"]);
    assert!(stripped.status.success(), "{stripped:?}");
    let names = folder.run("nm", &["named"]);
    let names = String::from_utf8(names.stdout).expect("text");
    let rows = |program: &str, more: &[&str]| {
        let path = format!("./{program}");
        let words = [
            &["count", "--top", "999", "--report", "-"],
            more,
            &["--", &path],
        ]
        .concat();
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let functions = text
            .lines()
            .skip_while(|line| !line.contains("hottest functions"));
        let functions = functions.skip(1).take_while(|line| !line.is_empty());
        let mut rows = Vec::new();
        for line in functions {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, executed, entered, name, ..] = words[..] else {
                continue;
            };
            rows.push((executed.to_owned(), entered.to_owned(), name.to_owned()));
        }
        rows
    };
    for more in [&[][..], &["--rewrite"]] {
        let (named, nameless) = (rows("named", more), rows("nameless", more));
        for function in ["main", "sum", "square"] {
            let at = names
                .lines()
                .find_map(|line| line.strip_suffix(&format!(" T {function}")));
            let at = u64::from_str_radix(at.expect("nm names it"), 16).expect("an address");
            let place = format!("nameless+{at:#x}");
            let of = |rows: &[(String, String, String)], wanted: &str| {
                let own = rows.iter().find(|(_, _, name)| name == wanted).cloned();
                let (executed, entered, _) = own.expect("it has a row");
                (executed, entered)
            };
            assert_eq!(
                of(&nameless, &place),
                of(&named, function),
                "{more:?} {function}"
            );
        }
        let sum = |rows: &[(String, String, String)]| rows.iter().any(|row| row.2.starts_with('['));
        assert!(!sum(&nameless), "{nameless:?}");
    }
}

/// A signal to the command alone is the program's, also if that was edited.
#[test]
fn signals_reach_edited_programs() {
    let folder = Folder::new("outsiders-signals");
    let source = "
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void handler(int number) { printf(\"got %d\\n\", number); fflush(stdout); _exit(7); }
int main(void) { signal(SIGTERM, handler); puts(\"ready\"); fflush(stdout); for (;;) pause(); }
";
    folder.program(&["-O1"], "waits", source);
    for command in ["count", "contexts"] {
        let words = [command, "--rewrite", "--report", "out", "--", "./waits"];
        let mut child = Command::new(BINARY)
            .args(words)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        assert_eq!(line(), "ready");
        let number = child.id().to_string();
        assert!(folder.run("kill", &["-TERM", &number]).status.success());
        assert_eq!(line(), "got 15", "{command}");
        assert_eq!(child.wait().expect("it ends").code(), Some(7), "{command}");
    }
}
