//! Calls in time: uftrace reads them and counts each function's calls as contexts do, and
//! trace events begin and end in pairs.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

use testkit::folder::Folder;

use crate::BINARY;

const SQL: &str = "create table t(a,b); insert into t values(1,'x'); select sum(a) from t;";

fn run(folder: &Folder, program: &str, arguments: &[&str]) -> String {
    let output = folder.run(program, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A trace of sqlite3, and the calls of each function by what contexts are made of it.
fn traced(folder: &Folder) -> BTreeMap<String, u64> {
    run(
        folder,
        BINARY,
        &[
            "trace", "-q", "-o", "run.evp", "--", "sqlite3", ":memory:", SQL,
        ],
    );
    let make = [
        "report",
        "run.evp",
        "--as",
        "contexts",
        "--k-inf",
        "--unroll-recursion",
    ];
    let csv = run(folder, BINARY, &[&make[..], &["--format", "json"]].concat());
    assert!(csv.starts_with("{\"format\":"));
    run(folder, BINARY, &[&make[..], &["-o", "made.evp"]].concat());
    let file = std::fs::File::open(folder.file("made.evp")).unwrap();
    let recording = trace::read(file).unwrap();
    let mut calls = BTreeMap::new();
    for process in &recording.processes {
        for node in process.threads.iter().flat_map(|thread| &thread.nodes) {
            if let Some(function) = process.function(node.label)
                && let Some(name) = &function.name
            {
                *calls.entry(name.clone()).or_default() += node.count;
            }
        }
    }
    calls
}

#[test]
fn uftrace_counts_the_same_calls() {
    let folder = Folder::new("timelines-uftrace");
    let expected = traced(&folder);
    run(&folder, BINARY, &["dump", "run.evp", "--uftrace", "calls"]);
    let fields = ["report", "-d", "calls", "--no-pager", "-f", "call"];
    let report = run(&folder, "uftrace", &fields);
    let rows = report
        .lines()
        .filter_map(|line| line.trim().split_once("  "));
    let rows = rows.filter_map(|(calls, name)| Some((name.trim().to_owned(), calls.parse().ok()?)));
    let mut found: BTreeMap<String, u64> = rows.collect();
    found.retain(|name, _| expected.contains_key(name));
    assert!(expected.len() > 300, "{}", expected.len());
    let differ = expected
        .iter()
        .find(|(name, calls)| found.get(*name) != Some(calls));
    assert!(differ.is_none(), "{differ:?} of {found:?}");
    run(
        &folder,
        BINARY,
        &[
            "dump",
            "run.evp",
            "--uftrace",
            "few",
            "--funcs",
            "sqlite3_*",
            "--depth",
            "2",
        ],
    );
    let graph = run(&folder, "uftrace", &["replay", "-d", "few", "--no-pager"]);
    assert!(graph.contains("sqlite3_prepare_v2"), "{graph}");
}

#[test]
fn trace_events_are_pairs() {
    let folder = Folder::new("timelines-perfetto");
    let expected = traced(&folder);
    run(
        &folder,
        BINARY,
        &["dump", "run.evp", "--perfetto", "calls.json"],
    );
    let by_insns = ["--perfetto", "insns.json", "--clock", "instructions"];
    let by_insns = [&["dump", "run.evp"], &by_insns[..]].concat();
    run(&folder, BINARY, &by_insns);
    let text = std::fs::read_to_string(folder.file("calls.json")).unwrap();
    assert!(text.contains("\"clock\":\"time stamps of the trace"));
    are_pairs(&text, &expected);
    let text = std::fs::read_to_string(folder.file("insns.json")).unwrap();
    assert!(text.contains("\"clock\":\"instructions executed by the thread"));
    are_pairs(&text, &expected);
    let refused = [
        "dump",
        "run.evp",
        "--perfetto",
        "more.json",
        "--max-calls",
        "10",
    ];
    let error = folder.refused(BINARY, &refused);
    assert!(
        error.contains("choose with --funcs, --thread or --depth"),
        "{error}"
    );
}

/// Calls begin and end in pairs, and as often as they should.
fn are_pairs(text: &str, expected: &BTreeMap<String, u64>) {
    let (mut begun, mut open) = (BTreeMap::<String, u64>::new(), Vec::new());
    let mut last = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("{\"ph\":\"") else {
            continue;
        };
        if rest.starts_with('M') {
            continue;
        }
        let (name, rest) = rest[11..].split_once("\",\"pid\"").unwrap();
        let time = nanoseconds(rest.rsplit_once("\"ts\":").unwrap().1);
        assert!(last <= time, "{line}");
        last = time;
        match line.as_bytes()[7] {
            b'B' => {
                *begun.entry(name.to_owned()).or_default() += 1;
                open.push(name.to_owned());
            }
            _ => assert_eq!(open.pop().as_deref(), Some(name)),
        }
    }
    assert!(open.is_empty());
    let differ = expected
        .iter()
        .find(|(name, calls)| begun.get(*name) != Some(calls));
    assert!(differ.is_none(), "{differ:?}");
}

/// A time at the end of an event: microseconds with three digits, or instructions.
fn nanoseconds(time: &str) -> u64 {
    let time = time.trim_end_matches([',', '}']).replace('.', "");
    time.parse().unwrap()
}

/// The time of the trace is that of the clock: who sleeps has slept so long, and all else
/// together no longer than the program ran.
#[test]
fn time_is_that_of_the_clock() {
    let folder = Folder::new("timelines-clock");
    let sleep = ["trace", "-q", "-o", "run.evp", "--", "/bin/sleep", "0.5"];
    run(&folder, BINARY, &sleep);
    let dump = ["dump", "run.evp", "--perfetto", "calls.json"];
    run(&folder, BINARY, &dump);
    let text = std::fs::read_to_string(folder.file("calls.json")).unwrap();
    let times = text.lines().filter(|line| line.contains("\"ts\":"));
    let times: Vec<u64> = times
        .map(|line| nanoseconds(line.rsplit_once("\"ts\":").unwrap().1))
        .collect();
    let file = std::fs::File::open(folder.file("run.evp")).unwrap();
    let process = &trace::read(file).unwrap().processes[0];
    let ran = process.end_ns.unwrap() - process.start_ns;
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    let slept = longest.unwrap();
    assert!((495_000_000..ran).contains(&slept), "{slept} of {ran}");
    assert!(*times.last().unwrap() <= ran, "{times:?} {ran}");
    let plain = [
        "trace",
        "-q",
        "--order",
        "chunk",
        "-o",
        "plain.evp",
        "--",
        "/bin/true",
    ];
    run(&folder, BINARY, &plain);
    let asked = ["--perfetto", "x.json", "--clock", "time"];
    let error = folder.refused(BINARY, &[&["dump", "plain.evp"], &asked[..]].concat());
    assert!(error.contains("has no time stamps"), "{error}");
    let dump = ["dump", "plain.evp", "--perfetto", "plain.json"];
    run(&folder, BINARY, &dump);
    let text = std::fs::read_to_string(folder.file("plain.json")).unwrap();
    assert!(text.contains("\"clock\":\"instructions executed by the thread"));
}

/// Works long enough for a ring to turn, waits for half a second, and is killed.
const WAITS_AND_IS_KILLED: &str = r"
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned odd;
__attribute__((noinline)) static void work(unsigned i) { odd += i * 2654435761u >> 31; }
__attribute__((noinline)) static void waits(void) {
    struct timespec half = {0, 500000000};
    nanosleep(&half, 0);
}
int main(int count, char **words) {
    unsigned x = 1, rounds = count > 1 ? 15000000 : 1000;
    for (unsigned i = 0; i < rounds; i++) {
        x = x * 1103515245 + 12345;
        if (x >> 30 & 1) work(i);
        if (x >> 29 & 1) work(i);
    }
    waits();
    return kill(getpid(), SIGKILL);
}
";

/// How long `waits` took, and whether time is that of the clock.
fn waited(folder: &Folder, file: &str) -> (u64, bool) {
    let only = ["--funcs", "waits", "--perfetto", "calls.json"];
    run(folder, BINARY, &[&["dump", file], &only[..]].concat());
    let text = std::fs::read_to_string(folder.file("calls.json")).unwrap();
    let calls = text.lines().filter(|line| line.contains("\"ts\":"));
    let times: Vec<u64> = calls
        .map(|line| nanoseconds(line.rsplit_once("\"ts\":").unwrap().1))
        .collect();
    let [begin, end] = times[..] else {
        panic!("{text}")
    };
    (end - begin, text.contains("\"clock\":\"time stamps"))
}

/// Whose end nobody saw, and whose beginning is not kept, have time as well.
#[test]
fn time_of_the_killed_and_of_rings() {
    let folder = Folder::new("timelines-killed");
    folder.program(&["-O1"], "killed", WAITS_AND_IS_KILLED);
    for (ring, words) in [
        (&[][..], &["./killed"][..]),
        (&["--ring", "1M"], &["./killed", "l"]),
    ] {
        let trace = ["trace", "-q", "-o", "run.evp"];
        let output = folder.run(BINARY, &[&trace[..], ring, &["--"], words].concat());
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        let file = std::fs::File::open(folder.file("run.evp")).unwrap();
        let recording = trace::read(file).unwrap();
        let thread = &recording.processes[0].threads[0];
        assert_eq!(thread.end_ns, None);
        assert_eq!(thread.gap.is_some(), !ring.is_empty(), "{:?}", thread.gap);
        let (waited, is_time) = waited(&folder, "run.evp");
        let half = 499_000_000..recording.meta.duration_ns;
        assert!(is_time && half.contains(&waited), "{waited} {ring:?}");
    }
}

/// A file that nobody could finish does not say what a stamp is in nanoseconds.
#[test]
fn time_is_instructions_where_the_end_of_the_file_is_missing() {
    let folder = Folder::new("timelines-cut");
    folder.program(&["-O1"], "killed", WAITS_AND_IS_KILLED);
    let output = folder.run(BINARY, &["trace", "-q", "-o", "run.evp", "--", "./killed"]);
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let bytes = std::fs::read(folder.file("run.evp")).unwrap();
    // Without the last items and what is behind them.
    let items = bytes.windows(4).rposition(|kind| kind == b"LOGS").unwrap();
    std::fs::write(folder.file("cut.evp"), &bytes[..items]).unwrap();
    let dump = ["dump", "cut.evp", "--perfetto", "calls.json"];
    let error = folder.refused(BINARY, &[&dump[..], &["--clock", "time"]].concat());
    assert!(error.contains("does not say how quick"), "{error}");
    let output = folder.run(BINARY, &dump);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("time is instructions"), "{said}");
    let text = std::fs::read_to_string(folder.file("calls.json")).unwrap();
    assert!(text.contains("\"clock\":\"instructions executed by the thread"));
}

/// A shell that forks and waits, and executes another program in the end: whom it waited for
/// is before that.
#[test]
fn time_goes_on_where_another_program_is_executed() {
    let folder = Folder::new("timelines-exec");
    let script = "/bin/true; (cd /; /bin/echo a); exec /bin/echo b";
    let trace = [
        "trace", "-q", "-o", "run.evp", "--", "/bin/sh", "-c", script,
    ];
    run(&folder, BINARY, &trace);
    let dump = ["dump", "run.evp", "--perfetto", "calls.json"];
    run(&folder, BINARY, &dump);
    let text = std::fs::read_to_string(folder.file("calls.json")).unwrap();
    // By process and thread: the last time, and what is open.
    let mut tracks = BTreeMap::<String, (u64, Vec<String>)>::new();
    let (mut shell, mut forked) = (None, 0);
    let (mut names, mut events) = (Vec::new(), 0);
    for line in text.lines() {
        if line.starts_with("{\"ph\":\"M") {
            let pid = line.split_once("\"pid\":").unwrap().1;
            names.push(pid.split_once(',').unwrap().0.to_owned());
        }
        let phase = [("{\"ph\":\"B", true), ("{\"ph\":\"E", false)];
        let Some(&(_, begins)) = phase.iter().find(|(head, _)| line.starts_with(head)) else {
            continue;
        };
        events += 1;
        let (name, rest) = line[18..].split_once("\",\"pid\":").unwrap();
        let (track, time) = rest.split_once(",\"ts\":").unwrap();
        let time = nanoseconds(time);
        match shell.get_or_insert_with(|| track.to_owned()) == track {
            true => {}
            false => forked = forked.max(time),
        }
        let (last, open) = tracks.entry(track.to_owned()).or_default();
        assert!(*last <= time, "{line}");
        *last = time;
        match begins {
            true => open.push(name.to_owned()),
            false => assert_eq!(open.pop().as_deref(), Some(name), "{line}"),
        }
    }
    let (shell, _) = &tracks[&shell.unwrap()];
    assert!(forked > 0 && forked < *shell, "{forked} {shell}");
    assert!(
        events > 1000 && tracks.len() >= 3,
        "{events} {}",
        tracks.len()
    );
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "each process has a name once");
    let dump = ["dump", "run.evp", "--uftrace", "calls"];
    run(&folder, BINARY, &dump);
    let report = run(&folder, "uftrace", &["report", "-d", "calls", "--no-pager"]);
    assert!(report.lines().count() > 50, "{report}");
}
