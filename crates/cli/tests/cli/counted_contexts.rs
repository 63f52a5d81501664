//! `contexts --rewrite`: an edited program counts the same calls in the same contexts as the translator.
//!
//! The functions that are compared are those that were moved and go on as no other one by a jump, by the dictionary of the edited
//! files; the others are left out of the paths of both runs.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use image::{Image, LinkAddr};
use placement::dictionary;
use testkit::folder::Folder;
use trace::{Label, Recording};

use crate::BINARY;

/// Calls by paths of functions, each a file and an offset in it.
type Calls = BTreeMap<Vec<(String, u64)>, u64>;

/// Runs a command with edited programs in a cache of the test's own.
fn run(folder: &Folder, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", BINARY]).args(words);
    command.current_dir(folder.path());
    command.env("XDG_CACHE_HOME", folder.file("cache"));
    // The translator leaves out what the dynamic linker calls when a function is called for the first time.
    command.env("LD_BIND_NOW", "1");
    command.envs([("PERL_HASH_SEED", "0"), ("PYTHONHASHSEED", "0")]);
    command.output().expect("timeout is there")
}

fn read(folder: &Folder, name: &str) -> Recording {
    let bytes = fs::read(folder.file(name)).expect("it was written");
    trace::read(bytes.as_slice()).expect("a recording")
}

/// Functions that were moved and do not go on as others, of all programs in the test's cache.
fn moved(folder: &Folder) -> HashSet<(String, u64)> {
    let mut all = HashSet::new();
    let programs = fs::read_dir(folder.file("cache/everypath")).expect("it was edited");
    for program in programs.flatten() {
        let bytes = fs::read(program.path().join("dictionary")).expect("it has one");
        for file in dictionary::decode(&bytes).expect("a dictionary") {
            let image = Image::open_whole(Path::new(&file.original)).expect("the original");
            let is_jump = |site: &&dictionary::Site| {
                let offset = image.file_offset(LinkAddr(site.at)).expect("code").0 as usize;
                let code = &image.bytes()[offset..];
                // Behind `bnd` and `notrack`: `call`.
                let first = code
                    .iter()
                    .position(|byte| ![0xf2, 0x3e, 0x41].contains(byte));
                let code = &code[first.expect("an instruction")..];
                !matches!(code, [0xe8, ..] | [0xff, 0x10..=0x1f | 0x50..=0x5f | 0x90..=0x9f | 0xd0..=0xdf, ..])
            };
            let jumps: HashSet<u32> = file
                .sites
                .iter()
                .filter(is_jump)
                .map(|site| site.caller)
                .collect();
            for (number, function) in (0..).zip(&file.functions) {
                let goes_on = !function.tails.is_empty() || jumps.contains(&number);
                if function.is_moved && !goes_on {
                    let offset = image.file_offset(LinkAddr(function.entry)).expect("code");
                    all.insert((file.original.clone(), offset.0));
                }
            }
        }
    }
    all
}

/// Calls of a process by paths of these functions; `None`: a path has a label that says that something is missing.
fn calls(recording: &Recording, process: usize, moved: &HashSet<(String, u64)>) -> Option<Calls> {
    let process = &recording.processes[process];
    let mut all = Calls::new();
    for thread in &process.threads {
        let mut paths: Vec<Vec<(String, u64)>> = Vec::new();
        for node in &thread.nodes {
            let mut path = match node.parent {
                Some(parent) => paths[parent as usize].clone(),
                None => Vec::new(),
            };
            if node.label == Label::TRUNCATED && node.parent.is_some() {
                return None;
            }
            let own = process.function(node.label).and_then(|function| {
                let module = process.module_of(function)?;
                Some((module.path.clone(), function.file_offset))
            });
            let own = own.filter(|own| moved.contains(own));
            if let Some(own) = own {
                // Recursion of one function is one node; what it calls between may be left out.
                if path.last() != Some(&own) {
                    path.push(own);
                }
                *all.entry(path.clone()).or_default() += node.count;
            }
            paths.push(path);
        }
    }
    all.retain(|_, count| *count > 0);
    Some(all)
}

/// Counts a command both ways and compares all processes; gives the calls of the first one. `only`: functions of the program's own file
/// are compared alone, as others depend on who waits for whom.
fn agree(folder: &Folder, words: &[&str], only: bool) -> u64 {
    let head = ["contexts", "-q", "--rewrite", "-o", "edited.evp", "--"];
    let edited = run(folder, &[&head[..], words].concat());
    let head = [
        "contexts",
        "-q",
        "--cost",
        "calls",
        "-o",
        "translated.evp",
        "--",
    ];
    let translated = run(folder, &[&head[..], words].concat());
    assert_eq!(edited.status, translated.status, "{edited:?}");
    assert_eq!(edited.stdout, translated.stdout, "{words:?}");
    let mut moved = moved(folder);
    moved.retain(|(file, _)| !only || file.ends_with("/program"));
    let [edited, translated] = ["edited.evp", "translated.evp"].map(|name| read(folder, name));
    assert_eq!(edited.processes.len(), translated.processes.len());
    let mut first = None;
    for process in 0..edited.processes.len() {
        let own = calls(&edited, process, &moved).expect("all is known");
        let other = calls(&translated, process, &moved).expect("all is known");
        let mut wrong: Vec<_> = own
            .keys()
            .chain(other.keys())
            .filter(|path| own.get(*path) != other.get(*path))
            .map(|path| (path, own.get(path), other.get(path)))
            .collect();
        wrong.sort_unstable();
        wrong.dedup();
        let show = |path: &Vec<(String, u64)>| {
            let names = path.iter().map(|(file, offset)| {
                let file = file.rsplit('/').next().unwrap_or_default();
                format!("{file}+{offset:#x}")
            });
            names.collect::<Vec<_>>().join(" > ")
        };
        let few = wrong
            .iter()
            .take(9)
            .map(|(path, own, other)| format!("{own:?} {other:?} {}", show(path)));
        let few = few.collect::<Vec<_>>().join("\n");
        assert!(
            wrong.is_empty(),
            "{words:?}, process {process}: {} of {}: {few}",
            wrong.len(),
            own.len()
        );
        println!(
            "{words:?}: {} contexts, {} calls",
            own.len(),
            own.values().sum::<u64>()
        );
        first.get_or_insert(own.values().sum());
    }
    first.expect("there is a process")
}

#[test]
fn calls_of_a_program_are_those_of_the_translator() {
    let folder = Folder::new("counted-contexts");
    folder.program(
        &["-O1", "-pthread", "-fno-optimize-sibling-calls"],
        "program",
        crate::logged::SOURCE,
    );
    assert!(agree(&folder, &["./program", "/dev/null"], true) > 150);
}

/// Programs of the machine, with all libraries.
#[test]
#[ignore = "wide: a program with threads, cycles and handlers is in the gate"]
fn calls_of_real_programs_are_those_of_the_translator() {
    let folder = Folder::new("counted-contexts-real");
    let text = "one two three one two three\n".repeat(300);
    fs::write(folder.file("text"), text).expect("a file");
    assert!(agree(&folder, &["gzip", "-c", "text"], false) > 500);
}

#[test]
#[ignore = "wide: many libraries are edited; smaller programs are in the gate"]
fn calls_of_large_programs_are_those_of_the_translator() {
    let folder = Folder::new("counted-contexts-large");
    let text = "one two three one two three\n".repeat(300);
    fs::write(folder.file("text"), text).expect("a file");
    agree(&folder, &["bzip2", "-c", "text"], false);
    agree(&folder, &["sort", "-S", "1M", "text"], false);
    let sql = "create table t(a, b); insert into t values(1, 'x'), (2, 'y'); select sum(a), b from t group by b;";
    agree(&folder, &["sqlite3", ":memory:", sql], false);
    let script = "my %h = map { $_ => sprintf('%x', $_) } 1..99; print join ',', sort grep { /a/ } values %h";
    agree(&folder, &["perl", "-e", script], false);
    agree(
        &folder,
        &[
            "git",
            "--no-pager",
            "diff",
            "--no-index",
            "--stat",
            "text",
            "/dev/null",
        ],
        false,
    );
    agree(
        &folder,
        &[
            "/usr/bin/python3",
            "-Sc",
            "print(sorted(map(str, range(300)))[7])",
        ],
        false,
    );
}

#[test]
fn scripts_are_refused_with_the_way_out() {
    let folder = Folder::new("counted-contexts-script");
    fs::write(folder.file("script"), "#!/bin/sh\necho\n").expect("a file");
    assert!(folder.run("chmod", &["+x", "script"]).status.success());
    for words in [
        &["contexts", "--rewrite"][..],
        &["log-contexts", "open"],
        &["allocations"],
    ] {
        let output = run(&folder, &[words, &["--", "./script"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        let sentence =
            "it is a script: name its interpreter, and the script behind it; nothing was run";
        assert!(said.contains(sentence), "{said}");
    }
}

/// A program that is killed leaves what it counted.
#[test]
fn a_killed_program_leaves_its_calls() {
    let folder = Folder::new("counted-contexts-killed");
    let source = "
        #include <signal.h>
        #include <unistd.h>
        static volatile int n;
        __attribute__((noinline)) static void none(void) { __asm__ volatile(\"\"); }
        __attribute__((noinline)) static void leaf(void) { n++; }
        __attribute__((noinline)) static void twice(void) { leaf(); leaf(); }
        int main(void) { none(); for (int i = 0; i < 70000; i++) { leaf(); twice(); } kill(getpid(), SIGKILL); }";
    folder.program(&["-O1"], "program", source);
    let words = [
        "contexts",
        "--rewrite",
        "-o",
        "edited.evp",
        "--",
        "./program",
    ];
    let output = run(&folder, &words);
    assert!(!output.status.success(), "{output:?}");
    // It has one byte, and no room for a jump.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot be moved: none of program"), "{said}");
    let recording = read(&folder, "edited.evp");
    let kept = |(name, sentence): &(String, String)| {
        name == "left out" && sentence.contains("none of program")
    };
    assert!(recording.meta.options.iter().any(kept), "{recording:?}");
    let moved = moved(&folder);
    let calls = calls(&recording, 0, &moved).expect("all is known");
    let of = |count: u64| calls.values().filter(|calls| **calls == count).count();
    // `leaf` from `main`, `twice`, and `leaf` from there.
    assert_eq!((of(70_000), of(140_000)), (2, 1), "{calls:?}");
}
