//! `--in-place`: the process that was started is the program, with the number, parent, group and
//! session that it has natively, and the recording says how it ended.

use std::process::Output;
use std::time::{Duration, Instant};

use testkit::folder::Folder;

use crate::BINARY;

/// Says who it is, as facts that are the same in every run.
const PROGRAM: &str = "\
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    printf(\"number %d, parent %d\\n\", getpid() == atoi(argv[1]), getppid() == atoi(argv[2]));
    printf(\"leads group %d, session %d\\n\", getpgrp() == getpid(), getsid(0) == getpid());
    int made = setsid();
    printf(\"setsid %d %s\\n\", made > 0, made > 0 ? \"\" : strerror(errno));
    int none = wait(NULL);
    printf(\"wait %d %s\\n\", none, strerror(errno));
    fflush(stdout);
    if (argc > 3)
        raise(atoi(argv[3]));
    pid_t pid = fork();
    if (!pid)
        _exit(3);
    int status;
    waitpid(pid, &status, 0);
    printf(\"child %d\\n\", WEXITSTATUS(status));
    return 7;
}
";

/// Starts it by a shell that it replaces; `before` is what the shell is started by.
#[track_caller]
fn start(folder: &Folder, before: &str, how: &str, last: &str) -> Output {
    folder.program(&["-O1"], "prog", PROGRAM);
    let inner = format!("exec {how} ./prog $$ $PPID {last}");
    let script = format!("{before} sh -c '{inner}'; echo status $?");
    folder.run("/bin/sh", &["-c", &script])
}

/// The sentence of the recording about the program's end; it may be written when that is gone.
#[track_caller]
fn end_of(folder: &Folder) -> String {
    let since = Instant::now();
    loop {
        let words = ["report", "run.evp"];
        let output = folder.run(BINARY, &words);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && printed.contains(" after ") {
            return printed.lines().nth(1).unwrap_or_default().to_owned();
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{output:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn check(name: &str, before: &str, last: &str, end: &str) {
    let everypath = BINARY;
    for command in ["contexts --quiet", "count --quiet"] {
        let folder = Folder::new(&format!("in-place-{name}"));
        let natively = start(&folder, before, "", last);
        let how = format!("{everypath} {command} --in-place -o run.evp --");
        let ours = start(&folder, before, &how, last);
        assert_eq!(
            String::from_utf8_lossy(&ours.stdout),
            String::from_utf8_lossy(&natively.stdout),
            "{command}: {}",
            String::from_utf8_lossy(&ours.stderr)
        );
        let said = end_of(&folder);
        assert!(said.starts_with(end), "{command}: {said}");
    }
}

#[test]
fn in_the_shells_group() {
    check("group", "", "", "exited with status 7");
}

#[test]
fn as_leader_of_a_session() {
    check("session", "setsid -w", "", "exited with status 7");
}

#[test]
fn killed_by_a_signal() {
    check("killed", "", "15", "was killed by SIGTERM");
}

#[test]
fn a_trace_is_whole() {
    let folder = Folder::new("in-place-trace");
    let everypath = BINARY;
    let natively = start(&folder, "", "", "");
    let how = format!("{everypath} trace --in-place -o run.evp --");
    let ours = start(&folder, "", &how, "");
    assert_eq!(
        String::from_utf8_lossy(&ours.stdout),
        String::from_utf8_lossy(&natively.stdout)
    );
    let since = Instant::now();
    loop {
        let output = folder.run(everypath, &["verify", "run.evp"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && printed.contains("ended: exited with status 7") {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{output:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_cannot_be_started_is_said_by_the_process_that_was_started() {
    let folder = Folder::new("in-place-refused");
    let everypath = BINARY;
    let cases: [(&[&str], i32, &str); 3] = [
        (&["run", "--in-place", "./absent"], 127, "absent"),
        (
            &["contexts", "--in-place", "/bin/true"],
            125,
            "give --report FILE, or -o FILE.evp and --quiet; nothing was run",
        ),
        (
            &[
                "trace",
                "--in-place",
                "-o",
                "x.evp",
                "--start-signal",
                "USR1",
                "/bin/true",
            ],
            125,
            "--in-place",
        ),
    ];
    for (words, status, said) in cases {
        let output = folder.run(everypath, words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
    }
}
