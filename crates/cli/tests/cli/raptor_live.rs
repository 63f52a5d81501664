//! `everypath trace --raptor`: what `everypath raptor` makes of the trace of the same run, made
//! while that runs.

use std::fs;
use std::process::Output;

use testkit::folder::Folder;

use crate::BINARY;

/// Threads, of which the first begins another one when a child runs; a handler of signals;
/// and an end by SIGKILL, if that is asked for.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned handled;
static void handle(int number) { handled += number; }
static void *work(void *rounds) {
    unsigned x = 1, sum = 0;
    for (long i = 0; i < (long)rounds; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        if (x & 0x400) sum += rand_r(&x) & 7;
        if (i % 1000 == 0) raise(SIGUSR1);
    }
    return (void *)(long)sum;
}
int main(int argc, char **argv) {
    long rounds = atol(argv[1]);
    pthread_t threads[4];
    signal(SIGUSR1, handle);
    for (int i = 0; i < 4; i++) {
        if (i == 2 && fork() == 0) {
            work((void *)rounds);
            execlp("ls", "ls", "prog", (char *)0);
        }
        pthread_create(&threads[i], 0, work, (void *)(rounds + i));
    }
    if (argc > 2) {
        wait(0);
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    wait(0);
    puts("done");
    return handled == 0 ? 1 : 7;
}
"#;

fn with_program(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.program(&["-O1", "-pthread"], "prog", PROGRAM);
    folder
}

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

/// How it ended; by a signal, as a shell says that, as `timeout` does here.
fn code(output: &Output) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let signal = output.status.signal().map(|signal| 128 + signal);
    signal.or(output.status.code())
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The last line of the table: the sum of all threads, or the only thread.
fn instructions(text: &str) -> u64 {
    let table = text.lines().skip_while(|line| !line.ends_with("  thread"));
    let rows = table.skip(1).take_while(|line| !line.is_empty());
    let line = rows.last().unwrap();
    let first = line.split_whitespace().next().unwrap();
    first.replace(',', "").parse().unwrap()
}

/// Runs it with `options`, keeping the trace, and compares with what `raptor` says of that.
#[track_caller]
fn compare(folder: &Folder, tracing: &[&str], predictors: &[&str], program: &[&str]) -> Output {
    let head = ["trace", "-o", "run.evp", "--raptor"];
    let files = ["--descriptors", "live", "--report", "live.txt"];
    let words = [&head, &files, tracing, predictors, &["--"], program].concat();
    let ran = everypath(folder, &words);
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(stderr, "", "{words:?}");
    let after = ["raptor", "run.evp", "-o", "after"];
    let after = everypath(folder, &[&after, predictors].concat());
    assert!(after.status.success(), "{after:?}");
    let read = |name: &str| fs::read(folder.file(name)).unwrap();
    let (live, text) = (read("live"), read("live.txt"));
    assert!(live.len() > 1000, "{words:?}");
    assert!(live == read("after"), "descriptors of {words:?}");
    assert_eq!(
        String::from_utf8(text).unwrap(),
        String::from_utf8(after.stdout).unwrap(),
        "{words:?}"
    );
    ran
}

#[test]
fn descriptors_and_statistics_are_those_of_the_trace() {
    let folder = with_program("live-same");
    let predictors: [&[&str]; 4] = [
        &[],
        &["--form", "ascii", "--disasm", "--outcomes", "tage"],
        &["--gshare", "0", "--ras", "0", "--ibtb", "2"],
        &["--shared", "--targets", "ibtb-last"],
    ];
    for predictors in predictors {
        for tracing in [&[][..], &["--chaos", "5", "--buffer", "1"]] {
            let ran = compare(&folder, tracing, predictors, &["./prog", "3000"]);
            assert_eq!(code(&ran), Some(7));
            assert_eq!(String::from_utf8_lossy(&ran.stdout), "prog\ndone\n");
        }
    }
    // A trace with gaps.
    let all = instructions(&fs::read_to_string(folder.file("live.txt")).unwrap());
    for tracing in [&["--no-shared-libs"][..], &["--skip", "9000"]] {
        compare(&folder, tracing, &[], &["./prog", "3000"]);
        let text = fs::read_to_string(folder.file("live.txt")).unwrap();
        assert!(instructions(&text) < all, "{text}");
    }
}

#[test]
fn whoever_is_killed_has_what_he_did() {
    let folder = with_program("live-killed");
    for predictors in [&[][..], &["--shared"]] {
        let ran = compare(&folder, &[], predictors, &["./prog", "300000", "killed"]);
        assert_eq!(code(&ran), Some(128 + 9));
    }
}

/// Standard output is the program's; without a trace, none is left.
#[test]
fn nothing_else_is_kept() {
    let folder = with_program("live-alone");
    let before = names(&folder);
    for shared in [&[][..], &["--shared"]] {
        let words = [&["trace", "--raptor"], shared, &["./prog", "2000"]].concat();
        let ran = everypath(&folder, &words);
        assert_eq!(code(&ran), Some(7));
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "prog\ndone\n");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(
            said.starts_with("everypath raptor: ./prog 2000\ngshare of 4,096, "),
            "{said}"
        );
        assert!(said.contains("mcfTRaptor: Recorded "), "{said}");
        let quiet = [&["trace", "-q", "--raptor"], shared, &["./prog", "2000"]].concat();
        let ran = everypath(&folder, &quiet);
        assert_eq!((code(&ran), ran.stderr.len()), (Some(7), 0));
        assert_eq!(names(&folder), before);
        let file = ["--descriptors", "live", "./prog", "2000"];
        let ran = everypath(
            &folder,
            &[&["trace", "-q", "--raptor"], shared, &file].concat(),
        );
        assert_eq!((code(&ran), ran.stderr.len()), (Some(7), 0));
        assert!(fs::metadata(folder.file("live")).unwrap().len() > 1000);
        fs::remove_file(folder.file("live")).unwrap();
        assert_eq!(names(&folder), before);
    }
    // The trace's own limit is none of the predictors'.
    let limited = ["--limit", "20K", "-o", "run.evp", "./prog", "30000"];
    let words = [
        &["trace", "-q", "--raptor", "--report", "of-all"],
        &limited[..],
    ]
    .concat();
    assert_eq!(code(&everypath(&folder, &words)), Some(7));
    let all = fs::read_to_string(folder.file("of-all")).unwrap();
    let kept = everypath(&folder, &["raptor", "run.evp"]);
    let kept = instructions(&String::from_utf8_lossy(&kept.stdout));
    assert!(instructions(&all) > 2 * kept, "{all}");
}

/// A limit of file sizes, for a disk that is full.
#[test]
fn a_full_disk_takes_the_descriptors_and_nothing_else() {
    let folder = with_program("live-full");
    let before = names(&folder);
    for shared in ["", "--shared"] {
        let script = format!(
            "ulimit -S -f 200; exec $0 trace --raptor {shared} --descriptors live ./prog 200000"
        );
        let ran = folder.run("/bin/sh", &["-c", &script, BINARY]);
        assert_eq!(code(&ran), Some(7), "{ran:?}");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "prog\ndone\n");
        let said = String::from_utf8(ran.stderr).unwrap();
        let lost = "everypath: cannot write 'live': file too large; the descriptors are lost\n";
        let is_lost = said.contains(lost);
        match shared {
            "" => assert!(is_lost, "{said}"),
            // Nor has the trace room; of what was kept of it descriptors may have.
            _ => {
                let sentence =
                    "everypath: cannot keep the trace until it is read: file too large; ";
                assert!(said.contains(sentence), "{said}");
                assert_eq!(
                    fs::remove_file(folder.file("live")).is_err(),
                    is_lost,
                    "{said}"
                );
            }
        }
        assert!(said.contains("mcfTRaptor: Recorded "), "{said}");
        assert_eq!(names(&folder), before);
    }
}

/// The program waits for predictors as long as they take; ten seconds without a sign of life
/// are another matter.
#[test]
#[ignore = "wide: it sleeps for 13 seconds"]
fn the_program_waits_for_who_reads_late() {
    let folder = Folder::new("live-late");
    let program = "\
int main(void)
{
    unsigned x = 1;
    for (int i = 0; i < 12000000; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        if (x & 0x400)
            __asm__ volatile(\"nop\");
    }
    return 7;
}
";
    folder.program(&["-O1"], "prog", program);
    let script = "mkfifo live; { sleep 13; cat; } < live > late & \
                  $0 trace --raptor --buffer 1 -o run.evp --descriptors live ./prog; code=$?; \
                  wait; exit $code";
    let ran = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert_eq!(code(&ran), Some(7), "{ran:?}");
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.starts_with("everypath raptor: "), "{said}");
    let after = everypath(&folder, &["raptor", "run.evp", "-o", "after"]);
    assert_eq!(String::from_utf8(after.stdout).unwrap(), said);
    let read = |name: &str| fs::read(folder.file(name)).unwrap();
    assert!(read("late") == read("after"));
}

/// The first 256 threads have numbers.
#[test]
fn threads_beyond_one_byte_are_said() {
    let folder = Folder::new("live-many");
    let program = "\
#include <pthread.h>
static void *nothing(void *none) { return none; }
int main(void)
{
    for (int i = 0; i < 299; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, nothing, 0);
        pthread_join(thread, 0);
    }
    return 5;
}
";
    folder.program(&["-pthread"], "many", program);
    let words = ["trace", "--raptor", "--descriptors", "live", "./many"];
    let ran = everypath(&folder, &words);
    assert_eq!(code(&ran), Some(5));
    let said = String::from_utf8(ran.stderr).unwrap();
    let sentence = "everypath: a descriptor has one byte for the thread: of 44 threads beyond the \
                    first 256 there are none, and no statistics\n";
    assert!(said.starts_with(sentence), "{said}");
    let rows = said.lines().filter(|line| line.ends_with(" many"));
    assert_eq!(rows.count(), 256, "{said}");
    let live = fs::read(folder.file("live")).unwrap();
    // The last descriptor is the end of the last thread.
    assert_eq!(live[live.len() - 18], 255);
}

#[test]
fn what_cannot_be_is_refused_before_the_run() {
    let folder = Folder::new("live-refused");
    let missing = |option: &str| {
        format!(
            "the following required arguments were not provided: {option}; see `everypath trace --help`"
        )
    };
    let refusals: [(&[&str], String); 11] = [
        (&["--shared", "-o", "x"], missing("--raptor")),
        (&["--outcomes", "tage", "-o", "x"], missing("--raptor")),
        (&["--descriptors", "d", "-o", "x"], missing("--raptor")),
        (&["--report", "r", "-o", "x"], missing("--raptor")),
        (
            &["--raptor", "--form", "ascii"],
            missing("<--descriptors <FILE>|--thesis|--mls <FILE>|--cfiat <FILE>>"),
        ),
        (
            &["--raptor", "--limit", "1M"],
            missing("--output [<FILE.evp>]"),
        ),
        (
            &["--raptor", "--ring", "1M"],
            missing("--output [<FILE.evp>]"),
        ),
        (
            &["--raptor", "--disasm", "--descriptors", "d"],
            "binary descriptors have no place for branches; use --form ascii".to_owned(),
        ),
        (
            &["--raptor", "--shared", "--order", "chunk"],
            "--shared puts threads in order by time stamps; leave --order chunk out, or it"
                .to_owned(),
        ),
        (
            &["--raptor", "--shared", "-o", "/dev/null"],
            "--shared reads the trace again, and '/dev/null' is no file; nothing was run"
                .to_owned(),
        ),
        (
            &["--raptor", "--descriptors", "/dev/full"],
            "cannot write '/dev/full': no space left on device; nothing was run".to_owned(),
        ),
    ];
    for (options, sentence) in refusals {
        let words = [&["trace"], options, &["--", "touch", "ran"]].concat();
        let said = folder.refused(BINARY, &words);
        assert_eq!(said, format!("everypath: {sentence}\n"));
    }
    assert_eq!(names(&folder), Vec::<String>::new());
    let help = everypath(&folder, &["trace", "--help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    assert!(
        help.contains("\n  everypath trace --raptor --descriptors "),
        "{help}"
    );
}
