//! The commands of README.md and docs/tasks.md, as they stand there.
//!
//! Each line that a document has between "```sh" and "```" is run, in the order of the document and in one
//! folder, and has to succeed. Lines between other marks are output, or are for a machine of their own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::folder::Folder;

use crate::BINARY;

const README: &str = include_str!("../../../../README.md");
const TASKS: &str = include_str!("../../../../docs/tasks.md");
const SCRIPT: &str = include_str!("../../../../docs/examples/report.py");
const HEADER: &str = "../../../../include/everypath.h";

/// The program of the documents: two threads, a variable that both write, memory that is never
/// freed, a file that is read, and a line of a log with a context.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "everypath.h"
long total;
static int table[64][64];
__attribute__((noinline)) long parse(const char *line) {
    long sum = 0;
    for (; *line; line++) sum = 31 * sum + *line;
    return sum;
}
__attribute__((noinline)) void work(long start) {
    for (int row = 0; row < 64; row++)
        for (int column = 0; column < 64; column++)
            table[row][column] = start * row + column;
    __atomic_fetch_add(&total, table[63][63], __ATOMIC_SEQ_CST);
}
static void *thread(void *start) {
    for (int i = 0; i < 5; i++) work((long)start);
    return malloc(100);
}
int main(void) {
    char line[200];
    pthread_t threads[2];
    FILE *file = fopen("/proc/self/status", "r");
    long sum = 0;
    while (fgets(line, sizeof line, file)) sum += parse(line) != 0;
    fclose(file);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, thread, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%ld lines %s\n", sum > 0, everypath_context());
    return 0;
}
"#;

/// Commands with these words edit a C library, which takes seconds; other tests of the gate do that, too.
const SLOW: [&str; 4] = ["--rewrite", "rewrite --libs", "allocations", "log-contexts"];

/// Lines of the blocks of commands in a document.
fn commands(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match (is_inside, line) {
            (false, "```sh") => is_inside = true,
            (true, "```") => is_inside = false,
            (true, line) => found.push(line),
            _ => {}
        }
    }
    found
}

/// Runs the commands of a document that are wanted; gives what each printed, both outputs together.
fn run(name: &str, text: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let folder = Folder::new(name);
    let header = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli")
        .join(HEADER);
    fs::copy(header, folder.file("everypath.h")).unwrap();
    folder.program(&["-O1", "-g", "-pthread"], "prog", PROGRAM);
    for build in ["old", "new"] {
        fs::create_dir(folder.file(build)).unwrap();
        fs::copy(folder.file("prog"), folder.file(build).join("prog")).unwrap();
    }
    let tool = Path::new(BINARY).parent().unwrap().to_str().unwrap();
    let path = format!("{tool}:{}", std::env::var("PATH").unwrap());
    let mut printed = Vec::new();
    for line in commands(text).into_iter().filter(|line| is_wanted(line)) {
        let mut shell = Command::new("sh");
        shell.current_dir(folder.path()).env("PATH", &path);
        shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]);
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}: {} {said}", output.status);
        printed.push((line.to_owned(), said));
    }
    printed
}

#[test]
fn commands_of_tasks_succeed() {
    let is_quick = |line: &str| {
        let depends = line.contains("prog.dir");
        !depends && !SLOW.iter().any(|word| line.contains(word))
    };
    let printed = run("documented_tasks", TASKS, is_quick);
    assert!(printed.len() > 80, "{}", printed.len());
}

#[test]
#[ignore = "wide: commands that edit a C library take seconds each; those of README are in the gate"]
fn all_commands_of_tasks_succeed() {
    let printed = run("documented_all", TASKS, |_| true);
    assert!(printed.len() > 90, "{}", printed.len());
}

#[test]
fn commands_of_the_readme_succeed() {
    let printed = run("documented_readme", README, |_| true);
    assert!(printed.len() > 8, "{}", printed.len());
}

/// The screen of README has the columns, headings and hints that the command prints now; figures
/// and names are those of the machine on which it was made.
#[test]
fn the_screen_of_the_readme_is_that_of_its_command() {
    let (_, rest) = README.split_once("```console\n$ everypath ").unwrap();
    let (command, rest) = rest.split_once('\n').unwrap();
    let (screen, _) = rest.split_once("\n```").unwrap();
    let folder = Folder::new("documented_screen");
    fs::write(folder.file("report.py"), SCRIPT).unwrap();
    // The screen is a terminal's, which has time without these.
    let mut on_terminal: Vec<&str> = command.split(' ').collect();
    on_terminal.splice(1..1, ["--time", "--by", "instructions"]);
    let output = Command::new(BINARY)
        .current_dir(folder.path())
        .args(on_terminal)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stderr).unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed: Vec<String> = printed.lines().map(words).collect();
    let is_fixed = |line: &&str| {
        let begins = ["everypath ", " self", "hottest ", "more: "];
        begins.iter().any(|begin| line.starts_with(begin))
    };
    let fixed: Vec<&str> = screen.lines().filter(is_fixed).collect();
    assert_eq!(fixed.len(), 4, "{fixed:?}");
    for line in fixed {
        assert!(printed.contains(&words(line)), "{line}: {printed:#?}");
    }
}
