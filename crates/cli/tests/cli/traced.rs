//! Debuggers in the run: who is traced runs natively from then on, and reports, JSON and `verify`
//! say which thread that is, since when.

use testkit::folder::Folder;

use crate::BINARY;

/// Traces a child that does not exec, and then, if it is told so, one that does.
const PROGRAM: &str = "\
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static int before(int n) { return n + 1; }
__attribute__((noinline)) static int after(int n) { return n + 2; }
int main(int argc, char **argv)
{
    volatile int sum = 0;
    int status;
    pid_t pid = fork();
    if (!pid) {
        sum = before(sum);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        if (argc > 1)
            execl(\"/bin/true\", \"true\", (char *)0);
        raise(SIGSTOP);
        sum = after(sum);
        _exit(sum);
    }
    waitpid(pid, &status, 0);
    printf(\"%s\\n\", strsignal(WSTOPSIG(status)));
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    printf(\"%d\\n\", WEXITSTATUS(status));
    return 4;
}
";

/// Records it, and returns what it says.
#[track_caller]
fn record(folder: &Folder, words: &[&str], argument: &[&str]) -> (String, String) {
    folder.program(&["-O1", "-g"], "prog", PROGRAM);
    let all = [words, &["-o", "run.evp", "--", "./prog"], argument].concat();
    let output = folder.run(BINARY, &all);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Output of `everypath`, and its status.
#[track_caller]
fn ask(folder: &Folder, words: &[&str]) -> (String, Option<i32>) {
    let output = folder.run(BINARY, words);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (printed, output.status.code())
}

const REASON: &str = "as a debugger traced it: it ran natively";

/// The sentence about the one thread that was traced.
#[track_caller]
fn check(said: &str) {
    let mut sentences = said.lines().filter(|line| line.contains(REASON));
    let sentence = sentences.next().unwrap_or_else(|| panic!("{said}"));
    assert!(
        sentence.contains("what it did is missing from 0."),
        "{sentence}"
    );
    assert_eq!(sentences.next(), None, "{said}");
}

#[test]
fn a_trace_says_that_a_child_was_traced() {
    let folder = Folder::new("traced-verify");
    let (printed, said) = record(&folder, &["trace"], &[]);
    assert_eq!(printed, "Stopped (signal)\n3\n");
    check(&said);
    let (verified, status) = ask(&folder, &["verify", "run.evp"]);
    check(&verified);
    assert!(
        verified.contains("a debugger traced it, and it ran natively from there on"),
        "{verified}"
    );
    assert_eq!(status, Some(1), "{verified}");
    let (dumped, _) = ask(&folder, &["dump", "run.evp"]);
    assert!(dumped.contains("before"), "what came before is there");
    assert!(!dumped.contains("after+"), "what came after is not");
}

#[test]
fn a_report_says_so_and_not_that_it_was_killed() {
    let folder = Folder::new("traced-report");
    let (printed, _) = record(&folder, &["contexts"], &[]);
    assert_eq!(printed, "Stopped (signal)\n3\n");
    let (report, status) = ask(&folder, &["report", "run.evp", "--full"]);
    check(&report);
    assert_eq!(status, Some(0));
    assert!(!report.contains("was killed"), "{report}");
    assert!(report.contains("before"), "{report}");
    let end = "ran natively in the end, as a debugger traced it";
    assert!(report.contains(end), "{report}");
    let (json, _) = ask(&folder, &["report", "run.evp", "--format", "json"]);
    assert!(json.contains(REASON), "JSON has the same note");
}

#[test]
fn who_is_traced_and_executes_a_program_is_named_too() {
    let folder = Folder::new("traced-exec");
    let (printed, said) = record(&folder, &["trace"], &["exec"]);
    assert_eq!(printed, "Trace/breakpoint trap\n0\n");
    check(&said);
}
