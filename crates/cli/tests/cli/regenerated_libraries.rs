//! Traces of programs that were edited together with their libraries: instruction by instruction, and access by access, those of
//! `everypath trace`.
//!
//! The instructions that a library of the system executes depend on where its memory is, on locks, and on tables for unwinding, which the editor makes
//! anew; so all of it is compared where a program has one thread and throws nothing, and else the program's own libraries.

use std::collections::HashSet;
use std::fs;
use std::process::{Command, Output};

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::counters;
use crate::counted_libraries::make;
use crate::regenerated::{same, threads};
use crate::regenerated_memory::{self as memory, accesses};

/// A run of a program in the folder, at the same addresses each time.
fn run(folder: &Folder, words: &[&str]) -> Output {
    let output = Command::new("setarch")
        .args(["-R", BINARY])
        .args(words)
        .current_dir(folder.path())
        .env("EVERYPATH_COUNTERS", folder.file("run"))
        .output();
    output.expect("setarch is there")
}

/// Runs a program of the folder edited with all its libraries, and under `trace`; gives recordings of its processes.
fn both(
    folder: &Folder,
    program: &str,
    arguments: &[&str],
    memory: bool,
    also: &[&str],
) -> Vec<String> {
    // The paths of the original and of the edited program are as long, so the stack is the same.
    for made in ["orig", "orig/bin", "run"] {
        fs::create_dir(folder.file(made)).expect("a new folder");
    }
    let original = folder.file("orig/bin").join(program).display().to_string();
    assert!(folder.run("cp", &[program, &original]).status.success());
    let mut words = vec![
        "rewrite", "--tool", "trace", "--libs", &original, "-o", "edit",
    ];
    let mut traced = vec!["trace", "-q", "-o", "traced.evp"];
    words.extend(also.iter().flat_map(|library| ["--also", library]));
    if memory {
        words.push("--memory");
        traced.extend(["--memory", "addresses"]);
    }
    traced.extend(["--", &original]);
    let output = folder.run(BINARY, &words);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let edited = run(folder, &[&["exec", "edit"], arguments].concat());
    let traced = run(folder, &[&traced, arguments].concat());
    assert_eq!(edited, traced, "{program}");
    let mut kept = Vec::new();
    for (number, file) in counters(folder, "run").iter().enumerate() {
        kept.push(format!("regenerated-{number}.evp"));
        let output = folder.run(BINARY, &["regenerate", "-q", file, "-o", &kept[number]]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let verified = folder.run(BINARY, &["verify", &kept[number]]);
        assert!(verified.stderr.is_empty(), "{verified:?}");
    }
    kept
}

/// Compares what files of these names executed; gives the number of instructions.
fn executed_alike(folder: &Folder, kept: &[String], files: &[&str]) -> usize {
    let own = kept.iter().map(|kept| threads(folder, kept, files));
    let mut own: Vec<_> = own.flatten().collect();
    let known: HashSet<u64> = own.iter().flatten().copied().collect();
    let mut traced = threads(folder, "traced.evp", files);
    for thread in &mut traced {
        thread.retain(|at| known.contains(at));
    }
    traced.retain(|thread| !thread.is_empty());
    same(files[0], &mut own, &mut traced);
    own.iter().map(Vec::len).sum()
}

/// Threads, a child that a library makes, jumps out of a library's frames, and libraries that are loaded late and unloaded.
#[test]
fn libraries_are_regenerated() {
    let folder = Folder::new("regenerated-libraries");
    make(&folder);
    let kept = both(&folder, "program", &[], false, &["libplug.so"]);
    assert_eq!(kept.len(), 2, "a file for each process");
    let insns = executed_alike(&folder, &kept, &["program", "libwork.so", "libplug.so"]);
    let shown = folder.run(BINARY, &["report", &kept[0], "--as", "counts"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(insns > 20_000, "{insns}: {kept:?} {shown}");
    assert!(
        shown.contains("libwork") && !shown.contains("not that of libraries"),
        "{shown}"
    );
}

#[test]
#[ignore = "wide: libraries without addresses, and addresses of programs, are in the gate"]
fn the_c_library_is_regenerated_with_addresses() {
    let folder = Folder::new("regenerated-libc");
    let text = (0..300).map(|i| format!("{} {}\n", i * 7919 % 1000, i % 17));
    fs::write(folder.file("text"), text.collect::<String>()).expect("a file");
    assert!(folder.run("cp", &["/usr/bin/sort", "."]).status.success());
    let kept = both(&folder, "sort", &["text"], true, &[]);
    let files = ["sort", "libc.so.6", "libcrypto.so.3"];
    let insns = executed_alike(&folder, &kept, &files);
    let own = accesses(&folder, &kept[0], &files);
    let known: HashSet<u64> = own[0].iter().map(|access| access.0).collect();
    let mut traced = accesses(&folder, "traced.evp", &files);
    traced[0].retain(|access| known.contains(&access.0));
    memory::same("sort", &own[0], &traced[0]);
    assert!(
        insns > 100_000 && own[0].len() > 30_000,
        "{insns} {}",
        own[0].len()
    );
}
