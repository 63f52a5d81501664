//! Nests are followed again: after some time, on a signal, and if `ctl` asks.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::folder::Folder;

use super::{json, list};
use crate::BINARY;

/// A nest that is entered all the time is followed again after each interval, and its functions go on as they were.
#[test]
fn nests_are_followed_again() {
    let folder = Folder::new("followed-again");
    let source = r#"
#include <stdio.h>
#include <unistd.h>
static volatile long table[64];
__attribute__((noinline)) static long sum(int step) { long all = 0; for (int i = 0; i < 20; i++) all += table[i * step]; return all; }
int main(void) {
    for (int round = 0; round < 300; round++) { sum(1 + (round >= 100)); usleep(2000); }
    puts("over");
    return 3;
}
"#;
    folder.program(&["-O1"], "program", source);
    let nest = |words: &[&str]| {
        let words = [words, &["--loops", "sum", "--", "./program"]].concat();
        let run = json(&folder, &words, 3);
        let nest = &list(&run["nests"])[0];
        let function = &list(&nest["loops"][0]["references"])[0]["function"];
        let number = |value: &Value| value.as_u64().expect("a number");
        assert_eq!(function["coefficients"], serde_json::json!([8]));
        (
            number(&nest["entries"]),
            number(&function["not_as_expected"]),
        )
    };
    // The first entries are those with one step, and the others have another one.
    assert_eq!(nest(&[]), (16, 0));
    let (entries, others) = nest(&["--again", "0.1"]);
    assert!(entries > 32 && others > 16, "{entries} {others}");
    for word in ["0", "x", "KILL"] {
        let said = folder.refused(BINARY, &["loops", "--again", word, "--", "./program"]);
        assert!(said.contains("give seconds"), "{said}");
    }
    // A signal to the command, and `ctl` of a program that was edited before.
    let words = "loops -q --format json -o out --loops sum --again USR1 -- ./program";
    let mut child = Command::new(BINARY)
        .args(words.split(' '))
        .current_dir(folder.file("."))
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let number = child.id().to_string();
    let asks = |words: &[&str]| {
        std::thread::sleep(std::time::Duration::from_millis(30));
        folder.run(words[0], &words[1..])
    };
    while child.try_wait().expect("it is a child").is_none() {
        // Before it can take the signal it would be ended by it.
        if folder.run("pgrep", &["-P", &number]).status.success() {
            asks(&["kill", "-USR1", &number]);
        }
    }
    assert_eq!(child.wait().expect("it is a child").code(), Some(3));
    let run = fs::read(folder.file("out")).expect("it was written");
    let run: Value = serde_json::from_slice(&run).expect("JSON");
    assert!(
        list(&run["nests"])[0]["entries"].as_u64() > Some(32),
        "{run}"
    );
    let words = ["rewrite", "--tool", "loops", "-o", "edited", "program"];
    assert!(folder.run(BINARY, &words).status.success());
    let mut child = Command::new("./edited")
        .current_dir(folder.file("."))
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut asked = 0;
    let is_own = |name: &String| name.starts_with("edited.") && name.ends_with(".evp");
    while child.try_wait().expect("it is a child").is_none() {
        let files = fs::read_dir(folder.file(".")).expect("a folder").flatten();
        let mut names = files.map(|entry| entry.file_name().into_string().expect("text"));
        if let Some(file) = names.find(is_own) {
            let output = asks(&[BINARY, "ctl", &file, "again"]);
            asked += usize::from(output.status.success());
            let report = folder.run(BINARY, &["report", &file, "--format", "json"]);
            assert!(report.status.success(), "{report:?}");
        }
    }
    assert!(asked > 2);
    let files = fs::read_dir(folder.file(".")).expect("a folder").flatten();
    let mut names = files.map(|entry| entry.file_name().into_string().expect("text"));
    let file = names.find(is_own).expect("a file of counters");
    let report = folder.run(BINARY, &["report", &file, "--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let nests = list(&report["nests"]).iter();
    let sum = nests.filter(|nest| nest["loops"][0]["name"] == "sum:1");
    assert!(
        sum.map(|nest| nest["entries"].as_u64()).max().flatten() > Some(32),
        "{report}"
    );
}
