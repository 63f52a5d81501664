//! Counters of an edited program that runs: copied, and reset.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::counters;

/// Executes `odd` or `even` for each line, on a thread of its own, and tells.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long odd(long n) { return n * 3; }
__attribute__((noinline)) long even(long n) { return n / 2; }
static long (*volatile which)(long);
void *thread(void *n) { which = (long)n % 2 ? odd : even; return (void *)which((long)n); }
int main(void) {
    char line[100];
    while (fgets(line, 100, stdin)) {
        pthread_t p; void *r;
        pthread_create(&p, 0, thread, (void *)atol(line));
        pthread_join(p, &r);
        printf("%ld\n", (long)r);
        fflush(stdout);
    }
    return 0;
}
"#;

/// A program that answers lines.
struct Answering(Child, BufReader<ChildStdout>);

impl Answering {
    fn start(folder: &Folder, program: &str) -> Answering {
        let mut command = Command::new(folder.file(program));
        command.current_dir(folder.file(""));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let out = child.stdout.take().expect("a pipe");
        Answering(child, BufReader::new(out))
    }

    fn ask(&mut self, numbers: &[u32]) {
        for number in numbers {
            let to = self.0.stdin.as_mut().expect("a pipe");
            writeln!(to, "{number}").expect("it reads");
            let mut line = String::new();
            self.1.read_line(&mut line).expect("it answers");
            let answer = if number % 2 == 1 {
                number * 3
            } else {
                number / 2
            };
            assert_eq!(line, format!("{answer}\n"));
        }
    }
}

/// Executions of the two functions.
fn entered(folder: &Folder, file: &str) -> [u64; 2] {
    let output = folder.run(BINARY, &["report", "--format", "csv", file]);
    let said = String::from_utf8(output.stdout).expect("text");
    let mut lines = said.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column = |name| {
        head.iter()
            .position(|known| *known == name)
            .expect("a column")
    };
    let (function, distance, executed) =
        (column("function"), column("distance"), column("executed"));
    ["odd", "even"].map(|name| {
        let rows = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let mut own = rows.filter(|row| row[function] == name && row[distance] == "0");
        own.next()
            .map_or(0, |row| row[executed].parse().expect("a number"))
    })
}

fn ctl(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, &[&["ctl"], words].concat());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn counters_are_copied_and_reset_while_it_runs() {
    let folder = Folder::new("snapshots");
    folder.program(&["-O1", "-pthread", "-w"], "answers", PROGRAM);
    for (tool, targets) in [("edges", true), ("blocks", false)] {
        let mut words = vec!["rewrite", "answers", "-o", "edited", "--tool", tool];
        if targets {
            words.push("--targets");
        }
        assert!(folder.run(BINARY, &words).status.success());
        let mut program = Answering::start(&folder, "edited");
        program.ask(&[1, 2, 3]);
        let file = counters(&folder, "").remove(0);
        assert_eq!(ctl(&folder, &[&file, "dump", "-o", "first.dump"]), "");
        assert_eq!(ctl(&folder, &[&file, "reset"]), "");
        assert_eq!(entered(&folder, &file), [0, 0]);
        program.ask(&[4, 6, 8, 9]);
        assert_eq!(ctl(&folder, &[&file, "dump", "-o", "second.dump"]), "");
        program.ask(&[10, 11]);
        drop(program.0.stdin.take());
        assert!(program.0.wait().expect("it ends").success());
        assert_eq!(entered(&folder, "first.dump"), [2, 1]);
        assert_eq!(entered(&folder, "second.dump"), [1, 3]);
        assert_eq!(entered(&folder, &file), [2, 4]);
        let shown = folder.run(BINARY, &["report", &file, "--annotate", "thread"]);
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert!(
            shown.contains("what was executed before the last reset is not counted"),
            "{shown}"
        );
        let has = |target: &str| shown.lines().any(|line| line.trim() == target);
        if targets {
            assert!(
                has("2              to odd") && has("4              to even"),
                "{shown}"
            );
        }
        fs::remove_file(format!("{file}.reset")).expect("it is there");
        assert_eq!(entered(&folder, &file), [4, 5]);
        fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn marks_are_cleared() {
    let folder = Folder::new("snapshots-marks");
    folder.program(&["-O1", "-pthread", "-w"], "answers", PROGRAM);
    let words = ["rewrite", "answers", "-o", "edited", "--tool", "coverage"];
    assert!(folder.run(BINARY, &words).status.success());
    let mut program = Answering::start(&folder, "edited");
    program.ask(&[1]);
    let file = counters(&folder, "").remove(0);
    assert_eq!(entered(&folder, &file), [1, 0]);
    assert_eq!(ctl(&folder, &[&file, "reset"]), "");
    program.ask(&[2]);
    assert_eq!(entered(&folder, &file), [0, 1]);
    drop(program.0.stdin.take());
    assert!(program.0.wait().expect("it ends").success());
}

#[test]
fn what_is_asked_goes_with_what_is_there() {
    let folder = Folder::new("snapshots-refused");
    folder.program(&["-O1", "-pthread", "-w"], "answers", PROGRAM);
    let words = ["rewrite", "answers", "-o", "edited", "--tool", "edges"];
    assert!(folder.run(BINARY, &words).status.success());
    assert!(
        Command::new(folder.file("edited"))
            .current_dir(folder.file(""))
            .stdin(Stdio::null())
            .status()
            .is_ok()
    );
    let file = counters(&folder, "").remove(0);
    let said = ctl(&folder, &[&file, "stop"]);
    assert_eq!(
        said,
        format!(
            "everypath: '{file}' has counters of an edited program, which always counts: dump, reset and again are possible\n"
        )
    );
    assert_eq!(
        ctl(&folder, &[&file, "dump"]),
        "everypath: dump needs a file for the counters: -o FILE.evp\n"
    );
    assert_eq!(
        ctl(&folder, &[&file, "reset", "-o", "x"]),
        "everypath: --output goes with dump\n"
    );
    let said = ctl(&folder, &["answers", "reset"]);
    assert_eq!(
        said,
        "everypath: 'answers' has no counters of an edited program; reset is for those\n"
    );
}
