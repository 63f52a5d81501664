//! `everypath report`: a recording made elsewhere, shown with none of its
//! binaries, whole and damaged.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testkit::folder::Folder;
use testkit::sample;

use crate::BINARY;

fn report(bytes: &[u8], name: &str, arguments: &[&str]) -> Output {
    let folder = Folder::new(name);
    fs::write(folder.file("run.evp"), bytes).unwrap();
    let arguments = [&["report", "run.evp"], arguments].concat();
    folder.run(BINARY, &arguments)
}

fn bytes() -> Vec<u8> {
    sample::bytes(&sample::recording())
}

#[test]
fn a_recording_is_shown_without_its_binaries() {
    let output = report(&bytes(), "whole", &["--top", "1"]);
    let expected = "\
everypath contexts: ./gone
exited with status 0 after 5 ms
1 process, 1 thread, 2 functions, 2 contexts (k = infinite), 42 calls

     %  calls  function
97.62%     41  work  gone gone.c:7

hottest paths, with callees, recursion folded
100.00%  42  main  gone gone.c:6

more: everypath report run.evp --top 50 | --per-thread | --html FILE.html | --format FORM
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.stderr.is_empty());
    assert_eq!(output.status.code(), Some(0));
}

/// Recordings of older builds are shown with the totals that those reported.
#[test]
fn recordings_of_older_builds_are_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/recordings");
    let list = fs::read_to_string(folder.join("totals.txt")).unwrap();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(' ').unwrap();
        let (_commit, totals) = rest.trim_start().split_once("  ").unwrap();
        let everypath = |arguments: &[&str]| {
            let mut command = Command::new(BINARY);
            let output = command.args(arguments).arg(folder.join(name)).output();
            let output = output.unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        if let Some(instructions) = match name {
            "5-trace.evp" => Some("thread 18253: 37 instructions"),
            "6-trace.evp" => Some("244 instructions in "),
            "7-trace.evp" => Some("317,422 instructions in 8,299 bytes of streams"),
            "8-trace.evp" => Some("76,607 instructions in 5,921 bytes of streams"),
            "9-trace.evp" => Some("180,050 instructions in 541 bytes of streams"),
            "10-trace.evp" => Some("623 instructions in 287 bytes of streams"),
            "11-packed.evp" => Some("75,791 instructions in 1,309 bytes of streams"),
            "11-trace.evp" => Some("52,982 instructions in 1,160 bytes of streams"),
            "12-packed.evp" => Some("304,950 instructions in 3,567 bytes of streams"),
            "13-trace.evp" => Some("665 instructions in 465 bytes of streams"),
            "14-memory.evp" => Some("53,009 instructions in 1,720 bytes of streams"),
            "15-values.evp" => Some("4,107 instructions in 1,737 bytes of streams"),
            "16-elements.evp" => Some("324 instructions in 755 bytes of streams"),
            _ => None,
        } {
            let text = everypath(&["verify"]);
            assert!(text.contains(instructions), "{text}");
            continue;
        }
        let text = everypath(&["report"]);
        // Blocks are told below the first lines.
        let shown = text.lines().nth(2).unwrap();
        let expected = match name {
            "2-counts.evp" | "4-turns.evp" | "6-jumps.evp" => totals.rsplit_once(", ").unwrap().0,
            _ => totals,
        };
        assert_eq!(shown, expected, "{name}");
        let json = match name {
            // Contexts without a k-slab forest.
            "4-windows.evp" => everypath(&["report", "--format", "json", "--forest", "kccf"]),
            _ => everypath(&["report", "--format", "json"]),
        };
        assert!(json.starts_with("{\"format\":\"everypath "), "{name}");
        if totals.contains("call") {
            let folded = everypath(&["report", "--format", "folded", "--by", "calls"]);
            let numbers = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum: u64 = numbers.map(|number| number.parse::<u64>().unwrap()).sum();
            let mut totals = totals.split(", ").filter(|part| part.ends_with(" calls"));
            let calls = totals.next().map(|calls| calls.replace(',', ""));
            assert_eq!(calls, Some(format!("{sum} calls")), "{name}");
        }
    }
}

#[test]
fn forms() {
    let text = report(&bytes(), "text", &["--format", "text", "--forest", "both"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.starts_with("K value: INFINITE\nFunctions count: 2\n"),
        "{text}"
    );
    assert!(
        text.contains("| [thread](),1\n|   main(),1\n|     work(),41\n"),
        "{text}"
    );
    assert!(
        text.contains("| work(),41\n|   main(),41\n|     [thread](),41\n"),
        "{text}"
    );
    let json = report(&bytes(), "json", &["--format", "json"]);
    let json = String::from_utf8_lossy(&json.stdout).into_owned();
    assert!(
        json.contains("\"nodes\":[[-1,1,1],[0,256,1],[1,257,41]]"),
        "{json}"
    );
    let folded = report(&bytes(), "folded", &["--format", "folded"]);
    assert_eq!(folded.stdout, b"gone;main 1\ngone;main;work 41\n");
    let svg = report(&bytes(), "svg", &["--format", "flamegraph"]);
    let svg = String::from_utf8_lossy(&svg.stdout).into_owned();
    assert!(
        svg.starts_with("<?xml") && svg.contains("work (41 calls, 97.62%)"),
        "{svg}"
    );
}

/// A form that cannot hold an exact number refuses it, and never rounds.
#[test]
fn a_number_beyond_the_doubles_is_refused() {
    for (count, fits) in [(1 << 53, false), ((1 << 53) - 1, true)] {
        let mut recording = sample::recording();
        recording.processes[0].threads[0].nodes[2].count = count;
        let bytes = sample::bytes(&recording);
        for format in ["firefox", "speedscope"] {
            let output = report(&bytes, "doubles", &["--format", format]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            match fits {
                true => assert!(output.status.success(), "{stderr}"),
                false => {
                    assert_eq!(output.status.code(), Some(125));
                    let sentence = "9007199254740993 calls: this form keeps numbers as doubles, \
                                    which are exact up to 9007199254740992; \
                                    use folded, csv, callgrind or pprof";
                    assert!(stderr.contains(sentence), "{stderr}");
                    assert_eq!(stderr.lines().count(), 1);
                }
            }
        }
        for format in ["folded", "csv", "callgrind", "pprof"] {
            let output = report(&bytes, "wide", &["--format", format]);
            assert!(output.status.success());
        }
    }
}

#[test]
fn a_profile_of_nothing_is_refused() {
    let mut recording = sample::recording();
    recording.processes[0].threads[0].nodes.truncate(1);
    let bytes = sample::bytes(&recording);
    for format in ["flamegraph", "firefox", "speedscope"] {
        let output = report(&bytes, "nothing", &["--format", format]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("nothing was called, so there is no "),
            "{stderr}"
        );
        assert_eq!(output.status.code(), Some(125));
    }
    for format in ["callgrind", "csv", "folded", "pprof"] {
        let output = report(&bytes, "empty", &["--format", format]);
        assert!(output.status.success());
    }
}

/// Go's own reader takes a profile and sums up the same.
#[test]
fn a_profile_is_read_by_go() {
    let profile = report(&bytes(), "pprof", &["--format", "pprof"]).stdout;
    let folder = Folder::new("go");
    let path = folder.file("profile.pb.gz");
    fs::write(&path, profile).unwrap();
    let go = |form: &str| {
        let mut command = Command::new("go");
        command.args(["tool", "pprof", form]).arg(&path);
        let output = command
            .output()
            .expect("go is installed (Debian: golang-go)");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let top = go("-top");
    let has = |words: &str| {
        top.lines()
            .any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == words)
    };
    assert!(
        top.contains("File: gone\n") && top.contains("Total samples = 42"),
        "{top}"
    );
    assert!(has("41 97.62% 97.62% 41 97.62% work"), "{top}");
    assert!(has("1 2.38% 100% 42 100% main"), "{top}");
    let raw = go("-raw");
    assert!(raw.contains("process:[1] thread:[1]"), "{raw}");
    assert!(raw.contains(" M=1 main gone.c:6"), "{raw}");
}

#[test]
fn a_damaged_recording_shows_what_is_left_and_says_so() {
    let whole = bytes();
    let mut left = 0;
    // Every fifth length: fields are eight bytes long, so that all places within one come up.
    for length in (0..whole.len()).step_by(5) {
        let output = report(&whole[..length], "cut", &[]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(125));
        match stdout.contains("is damaged. Everything from byte ") {
            true => left += 1,
            false => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let is_refused = stderr.starts_with("everypath: cannot read '");
                let is_empty = stderr.contains("' has nothing left to show. Everything from byte ");
                assert!(is_refused || is_empty, "{stderr}");
                assert_eq!(stderr.lines().count(), 1);
            }
        }
    }
    assert!(left > 0);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let folder = Folder::new("pipe");
    let path = folder.file("run.evp");
    fs::write(&path, bytes()).unwrap();
    let script = format!(
        "{} report {} --format json | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        BINARY,
        path.display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}
