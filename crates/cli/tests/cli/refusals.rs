//! Refusals before anything runs: the exact sentence and exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use testkit::folder::Folder;
use testkit::sample;
use trace::{Meta, Mode, Process, Recording};

use crate::BINARY;

/// Writes an executable file.
fn executable(folder: &Folder, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.file(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

/// Exactly one sentence on standard error, nothing on standard output.
#[track_caller]
fn refused(folder: &Folder, arguments: &[&str], code: i32, sentence: &str) {
    let output = everypath(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, format!("everypath: {sentence}\n"));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    assert!(output.stdout.is_empty());
}

/// A correct little ELF header, changed by `change`, with one segment.
fn elf(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    bytes[16] = 2; // ET_EXEC
    bytes[18] = 62; // EM_X86_64
    bytes[32] = 64; // e_phoff
    bytes[54] = 56; // e_phentsize
    bytes[56] = 1; // e_phnum
    bytes[64] = 1; // PT_LOAD
    bytes[64 + 33] = 0x10; // p_filesz = 4096
    change(&mut bytes);
    bytes
}

#[test]
fn no_such_program() {
    let folder = Folder::new("absent");
    let sentence = "no program is named 'no-such-program' in any folder of PATH";
    refused(&folder, &["run", "--", "no-such-program"], 127, sentence);
    refused(
        &folder,
        &["contexts", "no-such-program", "-x"],
        127,
        sentence,
    );
    refused(
        &folder,
        &["run", "./absent"],
        127,
        "there is no program './absent'",
    );
    refused(
        &folder,
        &["run", ""],
        127,
        "no program is named '' in any folder of PATH",
    );
}

#[test]
fn only_whole_contexts_of_functions_are_folded() {
    let folder = Folder::new("refused-folds");
    let write = |name: &str, meta: Meta| {
        let recording = Recording {
            denied: Vec::new(),
            natives: Vec::new(),
            meta,
            processes: vec![Process::default()],
        };
        let mut file = fs::File::create(folder.file(name)).unwrap();
        trace::write(&recording, &mut file).unwrap();
    };
    let contexts = Meta {
        mode: Mode::Contexts,
        ..Meta::default()
    };
    write("whole", contexts.clone());
    write("run", Meta::default());
    write(
        "three",
        Meta {
            k: Some(3),
            ..contexts
        },
    );
    let cases = [
        (
            "three",
            "2",
            "was recorded with -k 3, and -k needs whole contexts: record it with --k-inf, or \
             with --inclusive",
        ),
        (
            "run",
            "2",
            "has no contexts, and -k folds those that `contexts --k-inf` records",
        ),
    ];
    for (file, k, sentence) in cases {
        let sentence = format!("'{file}' {sentence}");
        refused(&folder, &["report", file, "-k", k], 125, &sentence);
    }
    let sentence = "--inclusive is about what functions call; leave out --mode";
    let words = ["contexts", "--inclusive", "--mode", "inter", "/bin/true"];
    refused(&folder, &words, 125, sentence);
}

#[test]
fn not_executable() {
    let folder = Folder::new("mode");
    let path = executable(&folder, "plain", b"#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let sentence = "'./plain' may not be executed: it has no execute permission (chmod +x)";
    refused(&folder, &["run", "./plain"], 126, sentence);
    refused(
        &folder,
        &["run", "/"],
        126,
        "'/' is a folder, not a program",
    );
    refused(
        &folder,
        &["run", "/dev/null"],
        126,
        "'/dev/null' is a device, not a program",
    );
    executable(&folder, "text", b"hello\n");
    let sentence = "'./text' is neither an ELF program nor a script that begins with #!";
    refused(&folder, &["run", "./text"], 126, sentence);
    executable(&folder, "empty", b"");
    refused(&folder, &["run", "./empty"], 126, "'./empty' is empty");
}

#[test]
fn scripts_without_a_usable_interpreter() {
    let folder = Folder::new("script");
    executable(&folder, "gone", b"#!/no/such/interpreter -x\n");
    let sentence = "'./gone' needs the interpreter '/no/such/interpreter', which is not there";
    refused(&folder, &["run", "./gone"], 126, sentence);
    executable(&folder, "none", b"#!\n");
    let sentence = "'./none' is neither an ELF program nor a script that begins with #!";
    refused(&folder, &["run", "./none"], 126, sentence);
    executable(&folder, "bad", b"#!/dev/null\n");
    let sentence =
        "'./bad' needs an interpreter that cannot be used: '/dev/null' is a device, not a program";
    refused(&folder, &["run", "./bad"], 126, sentence);
}

#[test]
fn foreign_and_corrupt_elf_files() {
    let folder = Folder::new("elf");
    let cases: [(&str, Vec<u8>, &str); 8] = [
        (
            "x86",
            elf(|elf| elf[4] = 1),
            "'./x86' is a 32-bit program; Everypath runs 64-bit x86-64 programs",
        ),
        (
            "arm",
            elf(|elf| elf[18] = 183),
            "'./arm' is a program for another machine (AArch64); Everypath runs x86-64 programs",
        ),
        (
            "big",
            elf(|elf| elf[5] = 2),
            "'./big' is a program for another machine (big-endian); Everypath runs x86-64 programs",
        ),
        (
            "object",
            elf(|elf| elf[16] = 1),
            "'./object' is an ELF file but no program: it is an object file or a core dump",
        ),
        (
            "short",
            elf(|elf| elf.truncate(40)),
            "'./short' is a corrupt or truncated ELF file: the header is cut off",
        ),
        (
            "headless",
            elf(|elf| elf[54] = 0),
            "'./headless' is a corrupt or truncated ELF file: it has no usable program headers",
        ),
        (
            "cut",
            elf(|elf| elf.truncate(4000)),
            "'./cut' is a corrupt or truncated ELF file: a segment lies beyond the end of the file",
        ),
        (
            "unloadable",
            elf(|elf| elf[64] = 4),
            "'./unloadable' is a corrupt or truncated ELF file: it has no segment to load",
        ),
    ];
    for (name, bytes, sentence) in cases {
        executable(&folder, name, &bytes);
        refused(
            &folder,
            &["contexts", "--", &format!("./{name}")],
            126,
            sentence,
        );
    }
}

#[test]
fn a_program_without_its_interpreter() {
    let folder = Folder::new("interp");
    let bytes = elf(|elf| {
        elf[56] = 2;
        let header = 64 + 56;
        elf[header] = 3; // PT_INTERP
        elf[header + 9] = 2; // p_offset = 512
        elf[header + 32] = 11;
        elf[512..523].copy_from_slice(b"/no/ld.so\0\0");
    });
    executable(&folder, "prog", &bytes);
    let sentence = "'./prog' needs the interpreter '/no/ld.so', which is not there";
    refused(&folder, &["run", "./prog"], 126, sentence);
}

#[test]
fn set_id_programs() {
    let folder = Folder::new("setid");
    let path = executable(&folder, "prog", &elf(|_| {}));
    // Only root can give a file away; as anyone else the files of others serve.
    if std::os::unix::fs::chown(&path, Some(12345), Some(12345)).is_ok() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        let sentence = "'./prog' is set-user-ID and would run without its privileges; \
                        run it as the user who owns it";
        refused(&folder, &["run", "./prog"], 126, sentence);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2755)).unwrap();
        let sentence = "'./prog' is set-group-ID and would run without its privileges; \
                        run it as a member of its group (newgrp)";
        refused(&folder, &["run", "./prog"], 126, sentence);
    } else {
        let sentence = "'/usr/bin/passwd' is set-user-ID and would run without its privileges; \
                        run it as the user who owns it";
        refused(&folder, &["run", "/usr/bin/passwd"], 126, sentence);
    }
}

#[test]
fn mistakes_in_the_flags() {
    const NO_CONTEXTS: &str =
        "this --format shows contexts, and only `contexts` records any; use report or json";
    const NO_COUNTS: &str = "this --format shows lines and branches, and only `count` records any";
    // The arguments, and the sentence.
    const CASES: &[(&str, &str)] = &[
        (
            "contexts --max-nodes 0 true",
            "--max-nodes 0 leaves no room for any context; give 1 or more",
        ),
        (
            "contexts --min 101 true",
            "--min 101 is no percentage; give a number from 0 to 100",
        ),
        ("run --format text true", NO_CONTEXTS),
        ("run --format folded true", NO_CONTEXTS),
        ("run --format flamegraph true", NO_CONTEXTS),
        ("run --format pprof true", NO_CONTEXTS),
        ("run --format callgrind true", NO_CONTEXTS),
        ("run --format csv true", NO_CONTEXTS),
        ("run --format firefox true", NO_CONTEXTS),
        ("run --format speedscope true", NO_CONTEXTS),
        ("run --format lcov true", NO_COUNTS),
        ("contexts --format lcov true", NO_COUNTS),
        ("contexts --format fdata true", NO_COUNTS),
        ("contexts --format llvm true", NO_COUNTS),
        (
            "count --per-thread --format lcov true",
            "this --format is of all threads together; leave out --per-thread",
        ),
        (
            "contexts --format pprof true",
            "--format pprof is no text for standard error; name a file with --report FILE",
        ),
        (
            "contexts -k x true",
            "invalid value 'x' for '-k <N>': that is no whole number from 0 on; see `everypath contexts --help`",
        ),
        (
            "contexts --k-inf -k 2 true",
            "the argument '--k-inf' cannot be used with '-k <N>'; see `everypath contexts --help`",
        ),
        (
            "contexts --roll-loops true",
            "--roll-loops is about basic blocks; give --mode intra or --mode inter",
        ),
        (
            "contexts --blocks dynamic true",
            "--blocks is about basic blocks; give --mode intra or --mode inter",
        ),
        (
            "contexts --mode intra --k-inf true",
            "--k-inf makes a context of every turn of every loop; roll them with --roll-loops, \
             or give a number with -k",
        ),
        (
            "contexts --mode inter --start-func main true",
            "--start-func and --stop-func are about functions; choose what is counted with --funcs",
        ),
        (
            "contexts --mode intra --unroll-recursion true",
            "--unroll-recursion is about functions; without --roll-loops nothing is rolled",
        ),
        (
            "contexts --mode intra --cost loads,cycles true",
            "cycles are those of functions; leave out --mode, or cycles of --cost",
        ),
        (
            "contexts --mode intra --roll-loops -k 2 true",
            "the argument '--roll-loops' cannot be used with '-k <N>'; see `everypath contexts --help`",
        ),
        (
            "run",
            "the following required arguments were not provided: <PROGRAM>...; \
             see `everypath run --help`",
        ),
    ];
    let folder = Folder::new("flags");
    for (arguments, sentence) in CASES {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        refused(&folder, &arguments, 125, sentence);
    }
}

#[test]
fn controls_of_traces_that_leave_nothing() {
    let folder = Folder::new("controls");
    let refused_with = |options: &[&str], sentence: &str| {
        let words = [&["trace", "-o", "run.evp"], options, &["--", "/bin/true"]].concat();
        refused(&folder, &words, 125, sentence);
        assert!(!folder.file("run.evp").exists());
    };
    refused_with(
        &["--no-shared-libs", "--modules", "libc.so.6"],
        "--no-shared-libs traces the executable alone; leave --modules out, or it",
    );
    refused_with(
        &["--skip", "5", "--start-func", "a"],
        "--skip counts from the beginning of each thread; leave --start-func out, or it",
    );
    refused_with(
        &["--skip", "5", "--together", "--paused"],
        "--skip counts from the beginning of the program; leave --paused out, or it",
    );
    refused_with(
        &["--together"],
        "--together says how --skip and --count are counted; give one of them, or leave it out",
    );
    refused_with(
        &["--count", "281474976710656", "--together"],
        "--count with --together is 281474976710655 at most",
    );
    refused_with(
        &["--funcs", ","],
        "--funcs names nothing, so nothing would be traced",
    );
    refused_with(
        &["--start-func", "a:3", "--stop-func", "a:3"],
        "--stop-func a:3 comes no later than --start-func a:3, so nothing would be traced",
    );
}

#[test]
fn help_is_of_commands_and_topics_and_the_doctor_tries_a_run() {
    let folder = Folder::new("help");
    let said = |arguments: &[&str]| {
        let output = everypath(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&["help"]), said(&["--help"]));
    assert_eq!(said(&["help", "dump"]), said(&["dump", "--help"]));
    assert!(said(&["help", "status"]).contains("125"));
    let short = said(&["contexts", "-h"]);
    assert!(
        short.ends_with("All options, in full: everypath contexts --help\n"),
        "{short}"
    );
    assert!(
        short.lines().count() <= 40 && !short.contains("--roll-loops"),
        "{short}"
    );
    let sentence = "there is no command and no topic 'stat'; did you mean 'stats' or 'status'?";
    refused(&folder, &["help", "stat"], 125, sentence);
    for listed in ["  doctor ", "  man ", "  completions ", "  help "] {
        assert!(said(&["--help"]).contains(listed), "{listed}");
    }
    let facts = said(&["doctor"]);
    assert!(
        facts.starts_with("ok    a program runs and is counted\n"),
        "{facts}"
    );
    // It names limits by which a run may fail.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec \"$0\" doctor", BINARY]);
    let output = limited.output().unwrap();
    let facts = String::from_utf8_lossy(&output.stdout);
    assert!(
        facts.contains("look  limits: size of files (ulimit -f, bytes) 0;"),
        "{facts}"
    );
}

#[test]
fn a_choice_that_nothing_fits_is_refused() {
    let folder = Folder::new("choices");
    let by = "--by loads sorts by what is not counted; add --cost loads; nothing was run";
    refused(&folder, &["contexts", "--by", "loads", "true"], 125, by);
    let code = |arguments: &[&str]| everypath(&folder, arguments).status.code();
    assert_eq!(code(&["contexts", "-o", "c.evp", "-q", "true"]), Some(0));
    let by = "'c.evp' has no stores to sort by; record it with --cost stores";
    refused(&folder, &["report", "c.evp", "--by", "stores"], 125, by);
    // The program has run, and what it recorded is kept.
    let output = everypath(
        &folder,
        &["count", "-o", "n.evp", "--modules", "nosuch", "true"],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    let start = "everypath: no file that ran is named 'nosuch' (--modules); these ran: ";
    let end = "; what was recorded is in 'n.evp', for `everypath report n.evp --format report`\n";
    assert!(
        stderr.starts_with(start) && stderr.ends_with(end),
        "{stderr}"
    );
    assert_eq!(code(&["report", "n.evp"]), Some(0));
    assert_eq!(code(&["report", "n.evp", "--modules", "nosuch"]), Some(125));
    folder.program(&["-O1"], "bare", "int main(void) { return 0; }");
    assert_eq!(code(&["trace", "-o", "t.evp", "-q", "./bare"]), Some(0));
    let names = "'t.evp': no function that ran is named 'mian'; did you mean 'main'?";
    refused(&folder, &["dump", "t.evp", "--funcs", "mian"], 125, names);
    refused(
        &folder,
        &["dump", "t.evp", "--accesses", "--funcs", "mian"],
        125,
        names,
    );
}

#[test]
fn a_report_that_is_not_written_is_no_success_and_runs_do_not_pile_up() {
    let folder = Folder::new("unwritten");
    folder.program(&["-O1"], "bare", "int main(void) { return 0; }");
    for _ in 0..3 {
        let lcov = ["count", "--format", "lcov", "--report", "c.info", "./bare"];
        let output = everypath(&folder, &lcov);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(
            stderr.ends_with(
                "what was recorded is in 'c.info.evp', for `everypath report c.info.evp --format \
                 lcov > c.info`\n"
            ),
            "{stderr}"
        );
    }
    let packed = [
        "count",
        "--format",
        "lcov",
        "--report",
        "c.info.gz",
        "-o",
        "kept.evp",
    ];
    let output = everypath(&folder, &[&packed[..], &["./bare"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let again = "`everypath report kept.evp --format lcov | gzip > c.info.gz`\n";
    assert!(stderr.ends_with(again), "{stderr}");
    fs::remove_file(folder.file("kept.evp")).unwrap();
    let names = fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("bare")).collect();
    names.sort();
    assert_eq!(names, ["c.info.evp"]);
    // The program's own failure says as much, and stays what is seen.
    folder.program(&["-O1"], "fails", "int main(void) { return 3; }");
    let lcov = ["count", "--format", "lcov", "--report", "d.info", "./fails"];
    assert_eq!(everypath(&folder, &lcov).status.code(), Some(3));
}

#[test]
fn an_unknown_flag_is_no_program() {
    let folder = Folder::new("flag");
    let output = everypath(&folder, &["contexts", "--fums", "a", "true"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = "everypath: `everypath contexts` has no option '--fums'; did you mean '--full' or \
                    '--funcs'?; see `everypath contexts --help`\n";
    assert_eq!(stderr, expected);
    assert_eq!(stderr.lines().count(), 1);
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn unknown_functions() {
    let folder = Folder::new("funcs");
    let sentence = "no function is named 'qsrt' in '/usr/bin/sort' or the ";
    let output = everypath(
        &folder,
        &["contexts", "--funcs", "malloc,qsrt", "--", "sort"],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.starts_with(&format!("everypath: {sentence}")),
        "{stderr}"
    );
    let end = " libraries it starts with; did you mean 'qsort'? \
               to count it wherever it turns up later, write '*!qsrt'\n";
    assert!(stderr.ends_with(end), "{stderr}");
    assert_eq!(output.status.code(), Some(125));
    for flag in ["--start-func", "--stop-func"] {
        let output = everypath(&folder, &["contexts", flag, "qsrt", "--", "sort"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(sentence));
    }
}

#[test]
fn outputs_that_take_no_data() {
    let folder = Folder::new("output");
    let sentence = "cannot write '/dev/full': no space left on device; nothing was run";
    refused(
        &folder,
        &["contexts", "-o", "/dev/full", "true"],
        125,
        sentence,
    );
    refused(
        &folder,
        &["contexts", "--report", "/dev/full", "true"],
        125,
        sentence,
    );
    let sentence =
        "cannot write 'no/such/folder/x.evp': no such file or directory; nothing was run";
    refused(
        &folder,
        &["contexts", "-o", "no/such/folder/x.evp", "true"],
        125,
        sentence,
    );
    let sentence = "cannot write '/': is a directory; nothing was run";
    refused(&folder, &["run", "-o", "/", "true"], 125, sentence);
}

#[test]
fn recordings_that_are_none() {
    let folder = Folder::new("recording");
    let sentence = "cannot read 'absent.evp': no such file or directory";
    refused(&folder, &["report", "absent.evp"], 125, sentence);
    executable(&folder, "text.evp", b"not a recording at all");
    let sentence = "cannot read 'text.evp': this is not an Everypath recording: it does not begin \
                    as an .evp file does. Give a file that -o FILE.evp of `everypath contexts`, `count` or `trace` wrote";
    refused(&folder, &["report", "text.evp"], 125, sentence);
    // Version 999, and the checksum of the header.
    let header = b"\x89EVP\r\n\x1a\n\xe7\x03\0\0\x84\xf4\x5c\xec";
    executable(&folder, "newer.evp", header);
    let sentence = format!(
        "cannot read 'newer.evp': the recording has format version 999, and this build reads \
         versions up to {}. Read it with the Everypath that wrote it or a newer one",
        trace::container::VERSION
    );
    refused(&folder, &["report", "newer.evp"], 125, &sentence);
}

/// Recordings of nothing, each made in its own way.
#[test]
fn recordings_that_cannot_be_compared() {
    let folder = Folder::new("unlike");
    let record = |name: &str, change: &dyn Fn(&mut Recording)| {
        let mut recording = Recording {
            denied: Vec::new(),
            natives: Vec::new(),
            meta: Meta {
                mode: Mode::Contexts,
                k: Some(10),
                ..Meta::default()
            },
            processes: vec![Process {
                exe: "/bin/prog".into(),
                ..Process::default()
            }],
        };
        change(&mut recording);
        fs::write(folder.file(name), sample::bytes(&recording)).unwrap();
    };
    record("a.evp", &|_| {});
    record("other.evp", &|recording| {
        recording.processes[0].exe = "/bin/other".into();
        recording.meta.k = None;
    });
    record("unrolled.evp", &|recording| recording.meta.unroll = true);
    record("funcs.evp", &|recording| {
        let options = [("stop-func", "main"), ("funcs", "a,b"), ("colour", "red")];
        recording.meta.options = options.map(|(k, v)| (k.into(), v.into())).into();
    });
    record("run.evp", &|recording| {
        recording.meta.mode = Mode::Run;
        recording.meta.k = None;
    });
    let cases = [
        (
            "a.evp other.evp",
            "'a.evp' and 'other.evp' were not recorded alike: the program is 'prog' before and \
             'other' after, and k is 10 before and infinite after; \
             give --force to compare them all the same",
        ),
        (
            "unrolled.evp a.evp",
            "'unrolled.evp' and 'a.evp' were not recorded alike: recursion is unrolled before \
             and rolled after; give --force to compare them all the same",
        ),
        (
            "a.evp funcs.evp",
            "'a.evp' and 'funcs.evp' were not recorded alike: the selection is everything before \
             and --funcs a,b --stop-func main after; give --force to compare them all the same",
        ),
        (
            "a.evp run.evp",
            "'a.evp' and 'run.evp' were not recorded alike: the command is `contexts` before \
             and `run` after; give --force to compare them all the same",
        ),
        (
            "a.evp run.evp --force",
            "'run.evp' has nothing to compare; record with `contexts`, or `run --count-instructions`",
        ),
        (
            "a.evp a.evp --by time",
            "'time' is no metric of these recordings; they have calls",
        ),
        (
            "a.evp a.evp --fail-if cycles>+2%",
            "'cycles' is no metric of these recordings; they have calls",
        ),
        (
            "a.evp a.evp --fail-if calls>2%",
            "invalid value 'calls>2%' for '--fail-if <CONDITION>': a condition is METRIC>+N, \
             METRIC>+N%, METRIC<-N or METRIC<-N%, after FUNCTION: if it is about a function; \
             see `everypath diff --help`",
        ),
        (
            "a.evp a.evp --format flamegraph",
            "cannot write to standard output: nothing was counted after, so there is no flame graph",
        ),
        (
            "a.evp absent.evp",
            "cannot read 'absent.evp': no such file or directory",
        ),
    ];
    for (arguments, sentence) in cases {
        let arguments: Vec<&str> = ["diff"].into_iter().chain(arguments.split(' ')).collect();
        refused(&folder, &arguments, 125, sentence);
    }
}

#[test]
fn tables_that_there_are_not() {
    let folder = Folder::new("tables");
    for option in ["--show-blocks", "--blocks-disasm"] {
        let sentence = "is about basic blocks; give --mode intra or --mode inter";
        let sentence = format!("{option} {sentence}");
        refused(&folder, &["contexts", option, "true"], 125, &sentence);
    }
    let sentence = "--funcs-disasm is a table below a report; use --format report, text or xml";
    let words = ["contexts", "--funcs-disasm", "--format", "csv", "true"];
    refused(&folder, &words, 125, sentence);
    let mut recording = sample::recording();
    fs::write(folder.file("run.evp"), sample::bytes(&recording)).unwrap();
    let sentence =
        "'run.evp': --show-blocks is about basic blocks, and these contexts are of functions";
    refused(
        &folder,
        &["report", "run.evp", "--show-blocks"],
        125,
        sentence,
    );
    recording.meta.mode = Mode::Counts;
    fs::write(folder.file("count.evp"), sample::bytes(&recording)).unwrap();
    let sentence =
        "'count.evp': --show-funcs lists what contexts are of, and only `contexts` records any";
    refused(
        &folder,
        &["report", "count.evp", "--show-funcs"],
        125,
        sentence,
    );
}
