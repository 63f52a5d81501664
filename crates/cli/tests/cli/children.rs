//! Processes that outlive others: daemons, orphans of a namespace, threads that wait as the program ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use testkit::folder::Folder;

use crate::BINARY;

/// The first process ends as soon as the other one runs. That one calls `late` a thousand times, and goes on for ever if there is
/// an argument.
const DAEMON: &str = r#"
#include <fcntl.h>
#include <unistd.h>
__attribute__((noinline)) int late(int x) { return x * 3 + 1; }
int main(int argc, char **argv) {
    int runs[2];
    char byte = 0;
    if (pipe(runs)) return 1;
    if (fork()) return read(runs[0], &byte, 1) != 1;
    setsid();
    int none = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(none, fd);
    if (write(runs[1], &byte, 1) != 1) return 1;
    usleep(100000);
    volatile int s = 0;
    for (int i = 0; i < 1000; i++) s = late(s);
    while (argc > 1) pause();
    return 5;
}
"#;

fn report(folder: &Folder, options: &[&str]) -> String {
    let output = folder.run(BINARY, &[&["report", "run.evp"], options].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_work_of_a_daemon_is_recorded_if_asked_for() {
    let folder = Folder::new("children-daemon");
    folder.program(&["-O1", "-w"], "works", DAEMON);
    let record = |options: &[&str]| {
        let run = [
            &["contexts", "-q", "-o", "run.evp"],
            options,
            &["--", "./works"],
        ]
        .concat();
        let output = folder.run(BINARY, &run);
        // The first process's.
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        report(&folder, &["--format", "folded", "--by", "calls"])
    };
    let calls = |folded: &str| {
        let mut lines = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let line = lines.find(|(path, _)| path.ends_with(";late"));
        line.map(|(_, calls)| calls.to_owned())
    };
    for whom in ["all", "children"] {
        assert_eq!(
            calls(&record(&["--wait", whom])).as_deref(),
            Some("1000"),
            "{whom}"
        );
    }
    assert_eq!(calls(&record(&[])), None);
    let note = "note: --wait all records until the last process has ended, and not only the first";
    let said = report(&folder, &[]);
    assert!(said.contains(note), "{said}");
    // The trace of such a process ends with the recording, and is sound until there.
    for (options, sound) in [
        (&["--wait", "all"][..], "the thread ended"),
        (&[], "it still ran when"),
    ] {
        let run = [
            &["trace", "-q", "-o", "run.evp"],
            options,
            &["--", "./works"],
        ]
        .concat();
        assert_eq!(folder.run(BINARY, &run).status.code(), Some(0));
        let output = folder.run(BINARY, &["verify", "run.evp"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(
            said.contains(sound) && !said.contains("nobody took"),
            "{said}"
        );
    }
}

#[test]
fn a_signal_ends_waiting_for_a_daemon() {
    let folder = Folder::new("children-signal");
    folder.program(&["-O1", "-w"], "stays", DAEMON);
    for signal in ["INT", "TERM"] {
        let run = [
            "contexts", "-q", "-o", "run.evp", "--wait", "all", "--", "./stays", "x",
        ];
        let mut timeout = Command::new("timeout");
        timeout.args([
            "--preserve-status",
            "--signal",
            signal,
            "--kill-after=60",
            "2",
            BINARY,
        ]);
        timeout.args(run).current_dir(folder.path());
        let status = timeout.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert_eq!(status.unwrap().code(), Some(0), "{signal}");
        let said = report(&folder, &["--format", "folded", "--by", "calls"]);
        assert!(said.contains(";late 1000"), "{said}");
        let daemon = ["-KILL", "-f", &folder.file("stays").display().to_string()];
        let _ = Command::new("pkill").args(daemon).status();
        let _ = Command::new("pkill")
            .args(["-KILL", "-x", "stays"])
            .status();
    }
}

#[test]
fn process_1_of_a_namespace_waits_for_what_it_inherits() {
    let folder = Folder::new("children-init");
    // Three orphans end while the program runs; it counts the zombies that it sees.
    let script =
        "for i in 1 2 3; do (sleep 0.1 &); done; sleep 1; ps -eo stat= | grep -c Z > zombies";
    fs::write(folder.file("entry"), script).unwrap();
    let run = [
        "--pid",
        "--fork",
        "--mount-proc",
        "--map-root-user",
        "--user",
        BINARY,
        "run",
        "--",
        "sh",
        "entry",
    ];
    let output = folder.run("unshare", &run);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "grep finds none: {said}");
    assert_eq!(
        fs::read_to_string(folder.file("zombies")).unwrap(),
        "0\n",
        "{said}"
    );
    let note = "everypath: as process 1 of its namespace it inherited and waited for 3 processes: sleep (3)\n";
    assert_eq!(said, note);
    let quiet: Vec<&str> = run
        .into_iter()
        .map(|word| if word == "run" { "contexts" } else { word })
        .collect();
    let quiet = [&quiet[..7], &["-q", "-o", "run.evp"], &quiet[7..]].concat();
    let output = folder.run("unshare", &quiet);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Executes a copy of true(1) that has no name, by a descriptor that exec closes if there is an argument.
const NAMELESS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int made = memfd_create("made", argc > 1 ? MFD_CLOEXEC : 0), from = open("/bin/true", O_RDONLY);
    char buffer[1 << 16];
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) write(made, buffer, n);
    char *words[] = {"true", 0}, *none[] = {0};
    fexecve(made, words, none);
    perror("fexecve");
    return 9;
}
"#;

const NOT_RECORDED: &str = "not recorded, as run natively: ";

#[test]
fn programs_that_run_natively_are_named() {
    let folder = Folder::new("children-natively");
    folder.program(&["-O1", "-w"], "nameless", NAMELESS);
    folder.program(&["-O1"], "rights", "int main(void) { return 0; }");
    let mode = |name: &str, mode| {
        fs::set_permissions(folder.file(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("rights", 0o4755);
    fs::write(folder.file("no-format"), "exit 0\n").unwrap();
    mode("no-format", 0o755);
    let script = "./rights; ./rights; ./nameless && ./nameless x; ./no-format; ./no-such; exit 3";
    let expected = [
        "made (deleted): executed from a file without a name, by a descriptor that exec closes",
        "rights (2 times): set-user-ID or set-group-ID, whose rights a recorded program does not get",
    ];
    let check = |said: &str| {
        let lines = said
            .lines()
            .filter_map(|line| line.split_once(NOT_RECORDED));
        let mut notes: Vec<&str> = lines
            .map(|(_, note)| note.trim_start_matches("memfd:"))
            .collect();
        notes.sort_unstable();
        assert_eq!(notes, expected, "{said}");
    };
    for command in ["contexts", "count"] {
        let run = [command, "-o", "run.evp", "--", "bash", "-c", script];
        let output = folder.run(BINARY, &run);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        check(&String::from_utf8_lossy(&output.stderr));
        let said = report(&folder, &["--format", "report"]);
        check(&said);
        // The one whose descriptor stays open is recorded.
        if command == "contexts" {
            assert!(said.contains("memfd:made (deleted) (1 process)"), "{said}");
        }
    }
    let run = ["trace", "-o", "run.evp", "--", "bash", "-c", script];
    check(&String::from_utf8_lossy(&folder.run(BINARY, &run).stderr));
    check(&report(&folder, &["--as", "counts"]));
    // Nobody asked for children.
    let run = [
        "contexts",
        "--follow-children",
        "no",
        "--",
        "bash",
        "-c",
        script,
    ];
    let said = folder.run(BINARY, &run).stderr;
    assert!(!String::from_utf8_lossy(&said).contains(NOT_RECORDED));
}

/// Only root can give a file capabilities; as anybody else, this tests set-id alone (above).
#[test]
fn file_capabilities_are_treated_as_set_id_is() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = Folder::new("children-capable");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder.program(&["-O1"], "capable", "int main(void) { return 0; }");
    // Revision 2, effective; CAP_NET_RAW permitted (linux/capability.h, vfs_cap_data).
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(folder.file("capable"), "security.capability", &value, flags).unwrap();
    let as_nobody = |words: &[&str]| {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", BINARY];
        folder.run("setpriv", &[&nobody, words].concat())
    };
    let output = as_nobody(&["run", "./capable"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused =
        "everypath: './capable' has file capabilities and would run without them; run it as root\n";
    assert_eq!((output.status.code(), said.as_str()), (Some(126), refused));
    let output = as_nobody(&["count", "--", "sh", "-c", "./capable; exit 3"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let note = "not recorded, as run natively: capable: file capabilities, which a recorded program does not get";
    assert!(said.contains(note), "{said}");
    // Root gains nothing by them.
    let output = folder.run(BINARY, &["count", "--", "sh", "-c", "./capable; exit 3"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains(NOT_RECORDED));
}

/// A thread waits in read(2), three handlers have it restarted, and the program ends, or lets it read.
const RESTARTED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static int ends[2];
static volatile int handled;
static void handler(int signal) { handled++; }
static void *reads(void *none) { char c; read(ends[0], &c, 1); return none; }
int main(int argc, char **argv) {
    struct sigaction restarts = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &restarts, 0);
    pipe(ends);
    pthread_t thread;
    pthread_create(&thread, 0, reads, 0);
    usleep(50000);
    for (int i = 0; i < 3; i++) { pthread_kill(thread, SIGUSR1); usleep(20000); }
    if (argc > 1) { write(ends[1], "x", 1); pthread_join(thread, 0); }
    return handled;
}
"#;

#[test]
fn a_restarted_call_at_the_end_is_no_fault_of_the_trace() {
    let folder = Folder::new("children-restarted");
    folder.program(&["-O1", "-w", "-pthread"], "restarted", RESTARTED);
    for arguments in [&[][..], &["x"]] {
        let run = [&["trace", "-q", "-o", "run.evp", "./restarted"], arguments].concat();
        assert_eq!(folder.run(BINARY, &run).status.code(), Some(3));
        let output = folder.run(BINARY, &["verify", "run.evp"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        // The numbers are compared if the call came back.
        let compared = said.matches("as many as it counted").count();
        assert_eq!(compared, 1 + arguments.len(), "{said}");
    }
}
