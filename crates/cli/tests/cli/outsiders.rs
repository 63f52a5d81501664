//! Rows that people would report: names of files that are none, calls into the middle of functions, pipes that are closed, and where
//! reports go.

use std::fs;
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
    for form in ["flamegraph", "folded", "csv", "json", "report", "pprof"] {
        let mut child = Command::new(BINARY)
            .args(["report", "run.evp", "--no-pager", "--format", form])
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
