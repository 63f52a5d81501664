//! Whole runs under the engine: what the caller sees is the program's own end,
//! and nothing that was recorded is lost.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use testkit::folder::Folder;

use crate::BINARY;

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_exit_status_is_the_programs() {
    let folder = Folder::new("status");
    for command in ["run", "contexts"] {
        for status in [0, 3, 125, 255] {
            let script = format!("exit {status}");
            let output = everypath(&folder, &[command, "-q", "--", "sh", "-c", &script]);
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
            assert!(output.stdout.is_empty() && output.stderr.is_empty());
        }
    }
}

/// `timeout` would turn a signal into a number, so the shell is asked instead.
#[test]
fn a_deadly_signal_is_the_programs() {
    for (signal, name) in [
        (6, "ABRT"),
        (9, "KILL"),
        (11, "SEGV"),
        (13, "PIPE"),
        (34, "34"),
    ] {
        let script = format!("kill -{name} $$");
        let status = Command::new(BINARY)
            .args(["run", "--", "bash", "-c", &script])
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(signal), "{status}");
    }
}

#[test]
fn streams_are_the_programs() {
    let folder = Folder::new("streams");
    let script = "echo out; echo err >&2; cat";
    let output = everypath(&folder, &["run", "--", "sh", "-c", script]);
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
}

#[test]
fn the_report_says_what_ran_and_how_it_ended() {
    let folder = Folder::new("report");
    let output = everypath(&folder, &["contexts", "--", "sh", "-c", "kill -KILL $$"]);
    let text = stderr(&output);
    assert!(
        text.starts_with("everypath contexts: sh -c 'kill -KILL $$'\nwas killed by SIGKILL after "),
        "{text}"
    );
    assert!(
        text.contains(" with callees  instructions  calls "),
        "{text}"
    );
    assert!(
        text.contains(
            "note: the program did not end by itself; all it counted until then is here\n"
        ),
        "{text}"
    );
    let output = everypath(&folder, &["contexts", "--cost", "calls", "--", "true"]);
    let text = stderr(&output);
    assert!(
        text.contains(" calls\n\n     %  calls  function\n"),
        "{text}"
    );
    // What it became by exec is the program still: said once.
    let script = "exec sh -c 'kill -KILL $$'";
    let text = stderr(&everypath(&folder, &["contexts", "--", "sh", "-c", script]));
    assert!(text.contains("2 processes, "), "{text}");
    assert_eq!(text.matches("counted until then").count(), 1, "{text}");
}

#[test]
fn a_recording_needs_its_binaries_no_more() {
    let folder = Folder::new("again");
    let program = folder.file("program");
    fs::copy("/bin/true", &program).unwrap();
    let arguments = [
        "contexts",
        "--full",
        "-o",
        "run.evp",
        "--report",
        "first.txt",
        "--",
        "./program",
    ];
    let output = everypath(&folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    fs::remove_file(program).unwrap();
    let again = everypath(&folder, &["report", "--full", "run.evp"]);
    // The last line says what to type next.
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.rsplit_once("\nmore: ").unwrap().0.to_owned()
    };
    let first = fs::read(folder.file("first.txt")).unwrap();
    assert_eq!(text(&again.stdout), text(&first));
    assert!(text(&first).contains("__libc_start"));
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["first.txt", "run.evp"]);
}

#[test]
fn a_recording_that_cannot_be_written_any_more_is_kept_elsewhere() {
    let folder = Folder::new("kept");
    fs::create_dir(folder.file("results")).unwrap();
    let script = "exec rm -r results";
    let arguments = [
        "contexts",
        "-q",
        "-o",
        "results/kept.evp",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = everypath(&folder, &arguments);
    let text = stderr(&output);
    // It is not where it was asked for.
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.starts_with("everypath: cannot write '"), "{text}");
    let kept = text
        .trim_end()
        .trim_end_matches('\'')
        .rsplit('\'')
        .next()
        .unwrap()
        .to_owned();
    let again = everypath(&folder, &["report", &kept]);
    fs::remove_file(&kept).unwrap();
    assert!(
        again.stdout.starts_with(b"everypath contexts: sh -c "),
        "{text}"
    );
}

#[test]
fn only_selected_functions_are_counted() {
    let folder = Folder::new("selected");
    let source = "int b; void work(void) { b++; } void skip(void) { work(); }\n\
                  int main(void) { for (int i = 0; i < 5; i++) { work(); skip(); } return 0; }\n";
    folder.program(&["-O0", "-g"], "p", source);
    let arguments = [
        "contexts",
        "--funcs",
        "work,main",
        "--format",
        "text",
        "--forest",
        "both",
        "--",
        "./p",
    ];
    let text = stderr(&everypath(&folder, &arguments));
    assert!(
        text.contains("| __root__(),1\n|   main(),1\n|     work(),10\n"),
        "{text}"
    );
    assert!(
        text.contains("| work(),10\n|   main(),10\n|     __root__(),10\n"),
        "{text}"
    );
}

#[test]
fn instructions_are_counted() {
    let folder = Folder::new("count");
    let arguments = [
        "run",
        "--count-instructions",
        "--engine-stats",
        "--",
        "true",
    ];
    let text = stderr(&everypath(&folder, &arguments));
    assert!(
        text.starts_with("everypath run: true\nexited with status 0 after "),
        "{text}"
    );
    assert!(text.contains(" instructions\n"), "{text}");
    assert!(text.contains("  blocks translated\n"), "{text}");
}

/// The phases are parts of the whole, and what was translated is what the engine says.
#[test]
fn phases_of_a_run_add_up() {
    let folder = Folder::new("phases");
    let number = |word: &str| -> f64 { word.replace(',', "").parse().unwrap() };
    for command in ["run", "contexts"] {
        let script = "ls /dev/null; exit 3";
        let arguments = [
            command,
            "--phases",
            "--engine-stats",
            "--",
            "sh",
            "-c",
            script,
        ];
        let out = everypath(&folder, &arguments);
        assert_eq!(out.status.code(), Some(3));
        let text = stderr(&out);
        let phases: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("phases: "))
            .collect();
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let [head, rows @ ..] = &phases[..] else {
            panic!("{text}")
        };
        let all = words(head);
        let unit = if all[2] == "s" { 1000.0 } else { 1.0 };
        let all = number(&all[1]) * unit;
        let shares: f64 = rows.iter().map(|row| number(&words(row)[2])).sum();
        let sum: f64 = rows.iter().map(|row| number(&words(row)[0])).sum();
        assert_eq!(rows.len(), 6, "{text}");
        assert!((shares - 100.0).abs() < 0.7, "{text}");
        assert!((sum - all).abs() < 0.01 * all.max(60.0), "{text}");
        let of_engine = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.ends_with(name));
            lines.map(|line| number(&words(line)[0])).sum()
        };
        let translated = rows.iter().find(|row| row.contains("translation of "));
        let translated = words(translated.unwrap());
        assert_eq!(
            number(&translated[6]),
            of_engine(" instructions translated")
        );
        assert_eq!(number(&translated[9]), of_engine(" blocks translated"));
        assert!(number(&translated[0]) > 0.0, "{text}");
        assert!(
            text.contains("start of the engine in 2 processes, sums over all"),
            "{text}"
        );
    }
}

#[test]
fn phases_are_those_of_the_translator() {
    let folder = Folder::new("phases-edited");
    let arguments = ["contexts", "--rewrite", "--phases", "--", "true"];
    let out = everypath(&folder, &arguments);
    assert_eq!(out.status.code(), Some(125));
    assert_eq!(
        stderr(&out),
        "everypath: --phases says what the translator took, and an edited program runs without it\n"
    );
}

#[test]
fn the_program_inherits_signals_as_natively() {
    let folder = Folder::new("inherit");
    // Through env, which blocks and ignores as asked and then executes.
    let signals = |under: &[&str]| {
        let out = Command::new("env")
            .args(["--block-signal=USR1", "--ignore-signal=PIPE,HUP"])
            .args(under)
            .args(["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    let native = signals(&[]);
    // HUP and PIPE, and whatever this test itself was started with.
    let ignored = native.split_whitespace().last().unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored & 0x1001, 0x1001, "{native}");
    let run = signals(&[BINARY, "run", "-q", "--"]);
    assert_eq!(run, native);
}

#[test]
fn children_are_followed_only_when_asked() {
    let folder = Folder::new("children");
    // A forked child, executed ones, and what the program itself becomes.
    let script = "ls /dev/null; (echo inner); env true; exec echo last";
    let counted = |command: &[&str], follow: &str| {
        let options = ["--follow-children", follow, "--", "sh", "-c", script];
        let output = everypath(&folder, &[command, &options].concat());
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stdout, b"/dev/null\ninner\nlast\n");
        let text = stderr(&output);
        let line = text.lines().nth(2).unwrap_or_default().to_owned();
        let numbers = line
            .split(", ")
            .map(|part| part.split(' ').next()?.parse().ok());
        numbers
            .take(2)
            .collect::<Option<Vec<u32>>>()
            .expect("processes and threads")
    };
    for command in [&["contexts"][..], &["run", "--count-instructions"]] {
        assert_eq!(counted(command, "no"), [2, 2]);
        // How the shell makes its children is its own affair.
        let all = counted(command, "yes");
        assert!(all[0] >= 5 && all[1] >= 5, "{all:?}");
    }
}

/// Names come from the file that ran, not from the one that lies there at the end.
#[test]
fn a_program_that_was_replaced_keeps_its_names() {
    let folder = Folder::new("replaced");
    let sources = [
        (
            "ants",
            "int ant(int x) { return x * 3; } int main(void) { return ant(1) - 3; }",
        ),
        (
            "bees",
            "int bee(int x) { return x + 7; } int hive(int x) { return bee(x) * 2; } \
             int swarm(int x) { return hive(x) - 1; } int main(void) { return swarm(1) - 15; }",
        ),
    ];
    for (name, source) in sources {
        folder.program(&["-O0"], name, source);
    }
    // The same inode with other contents, then none at all.
    let script = "cp ants it && ./it && cp bees it && ./it && rm it";
    let options = [
        "contexts",
        "-q",
        "--format",
        "json",
        "--report",
        "report.json",
    ];
    let output = everypath(
        &folder,
        &[&options[..], &["--", "sh", "-c", script]].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = fs::read_to_string(folder.file("report.json")).unwrap();
    let report: String = report.split_whitespace().collect();
    for name in ["ant", "bee", "hive", "swarm"] {
        let named = format!("\"name\":\"{name}\"");
        assert_eq!(report.matches(&named).count(), 1, "{name}");
    }
    assert!(
        !report.contains("\"name\":\"it+0x"),
        "a function has no name"
    );
}

#[test]
fn a_report_is_packed_if_its_name_says_so() {
    let folder = Folder::new("packed");
    let words = ["contexts", "-o", "a.evp", "--report", "a.csv.gz"];
    let words = [&words[..], &["--format", "csv", "--", "true"]].concat();
    let output = everypath(&folder, &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let packed = fs::read(folder.file("a.csv.gz")).unwrap();
    let unpacked = Command::new("gzip")
        .args(["-dc", "a.csv.gz"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let plain = everypath(&folder, &["report", "a.evp", "--format", "csv"]);
    assert_eq!(unpacked.stdout, plain.stdout);
    assert!(packed.len() < plain.stdout.len() / 2);
}
