//! Reports that their form refuses: before the run where the program's own file tells,
//! else the recording is kept, and the sentence says where and what to do with it.

use std::fs;
use std::path::Path;
use std::process::Output;

use testkit::folder::Folder;

use crate::BINARY;

/// Ends with 3 and leaves a file; with an argument it moves the folder `gone`.
const PROGRAM: &str = "\
#include <stdio.h>
int main(int argc, char **argv)
{
    fclose(fopen(\"ran\", \"w\"));
    if (argc > 1)
        return rename(\"gone\", \"moved\") ? 4 : 3;
    return 3;
}
";

const NO_SYMBOLS: &str = "has no symbol table, by which llvm-bolt knows functions";

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

/// A folder with that program, without symbols and line tables.
fn with_program(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.program(&["-s"], "prog", PROGRAM);
    folder
}

/// Message when the program has run and the report is refused.
#[track_caller]
fn said(folder: &Folder, arguments: &[&str]) -> String {
    let output = everypath(folder, arguments);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(folder.file("ran").exists());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// The file is a recording of the program.
#[track_caller]
fn check_kept(folder: &Folder, path: &Path) {
    let path = path.to_str().unwrap();
    let output = everypath(folder, &["report", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("everypath count: ./prog"), "{said}");
}

/// The path that a sentence names as the recording's.
fn named(said: &str) -> &str {
    let (_, rest) = said.split_once("; what was recorded is in '").unwrap();
    let (path, rest) = rest.split_once('\'').unwrap();
    // The report again, by the same form and to the same place.
    let command = format!(", for `everypath report {path} --format ");
    assert!(
        rest.starts_with(&command) && rest.ends_with("`\n"),
        "{rest}"
    );
    path
}

#[test]
fn what_the_programs_file_lacks_is_refused_before_the_run() {
    let folder = with_program("bare");
    let no_dwarf = "has no DWARF that says which functions were inlined; compile it with \
                    -gline-tables-only -fdebug-info-for-profiling, or -g";
    for (form, why) in [("fdata", NO_SYMBOLS), ("llvm", no_dwarf)] {
        for report in [&["--report", "out"][..], &[]] {
            let run = ["count", "--format", form, "-o", "run.evp"];
            let output = everypath(&folder, &[&run, report, &["--", "./prog"]].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            let sentence = format!("everypath: './prog' {why}; nothing was run\n");
            assert_eq!(said, sentence);
            assert_eq!(output.status.code(), Some(125));
        }
        // Nobody asked for a report.
        let quiet = ["count", "-q", "--format", form, "-o", "quiet.evp", "./prog"];
        assert_eq!(everypath(&folder, &quiet).status.code(), Some(3));
        fs::remove_file(folder.file("ran")).unwrap();
    }
    assert!(!folder.file("out").exists() && !folder.file("run.evp").exists());
}

#[test]
fn the_recording_is_kept_beside_the_report() {
    let folder = with_program("beside");
    fs::write(folder.file("out"), "old").unwrap();
    fs::write(folder.file("new.evp"), "mine").unwrap();
    let form = ["count", "--format", "fdata", "--modules", "libc.so.6"];
    for (report, kept) in [("new", "new.evp.1"), ("out", "out.evp")] {
        let run = [&form[..], &["--report", report, "./prog"]].concat();
        let said = said(&folder, &run);
        assert!(said.starts_with("everypath: cannot write '"), "{said}");
        assert!(
            said.contains(&format!("libc.so.6' {NO_SYMBOLS};")),
            "{said}"
        );
        let path = folder.path().join(named(&said));
        assert_eq!(path, folder.file(kept).canonicalize().unwrap(), "{said}");
        check_kept(&folder, &path);
    }
    assert_eq!(fs::read(folder.file("out")).unwrap(), b"old");
    assert_eq!(fs::read(folder.file("new.evp")).unwrap(), b"mine");
    assert!(!folder.file("new").exists());
    // Asked for, it is where it was asked for.
    let run = [&form[..], &["--report", "two", "-o", "run.evp", "./prog"]].concat();
    let said = said(&folder, &run);
    assert_eq!(named(&said), "run.evp");
    assert!(!folder.file("two.evp").exists());
}

#[test]
fn the_recording_is_kept_elsewhere_if_need_be() {
    let folder = with_program("elsewhere");
    let form = ["count", "--format", "fdata", "--modules", "libc.so.6"];
    let places: [&[&str]; 3] = [
        &["./prog"],
        &["--report", "/dev/null", "./prog"],
        &["--report", "gone/out", "./prog", "gone"],
    ];
    for place in places {
        fs::create_dir_all(folder.file("gone")).unwrap();
        let said = said(&folder, &[&form, place].concat());
        let path = Path::new(named(&said));
        assert_eq!(path.parent(), Some(&*std::env::temp_dir()), "{said}");
        check_kept(&folder, path);
        fs::remove_file(path).unwrap();
    }
}

/// No place takes the report, but the recording is safe where it was asked for.
#[test]
fn only_what_is_lost_is_said_to_be() {
    let folder = with_program("no-place");
    let run = |options: &[&str]| {
        fs::create_dir_all(folder.file("gone")).unwrap();
        let count = ["TMPDIR=/no-such", BINARY, "count"];
        let report = ["--format", "csv", "--report", "gone/out", "./prog", "gone"];
        let output = folder.run("env", &[&count, options, &report].concat());
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        fs::remove_dir_all(folder.file("moved")).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let why = "no such file or directory";
        let start =
            format!("everypath: cannot write 'gone/out': {why}; nor '/no-such/out': {why}; ");
        said.strip_prefix(&start).expect(&said).to_owned()
    };
    assert!(run(&[]).starts_with("what was recorded is lost: cannot write '/no-such/everypath-"));
    let said = run(&["-o", "run.evp"]);
    assert_eq!(named(&format!("; {said}")), "run.evp");
    check_kept(&folder, &folder.file("run.evp"));
}

#[test]
fn coverage_needs_line_tables() {
    let folder = with_program("bare-lines");
    let sentence = "no file that ran has line tables of its own, which -g gives, so no source \
                    line is known";
    let run = ["count", "--format", "lcov", "--report", "out", "./prog"];
    assert_eq!(
        said(&folder, &run),
        format!(
            "everypath: cannot write 'out': {sentence}; what was recorded is in 'out.evp', for \
             `everypath report out.evp --format lcov > out`\n"
        )
    );
    assert!(!folder.file("out").exists());
    let refused = |options: &[&str]| {
        let report = ["report", "out.evp", "--format", "lcov"];
        let output = everypath(&folder, &[&report, options].concat());
        assert_eq!(output.status.code(), Some(125));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let (own, named) = (refused(&[]), refused(&["--modules", "prog"]));
    assert_eq!(own, format!("everypath: 'out.evp': {sentence}\n"));
    let sentence = sentence.replace("that ran", "of --modules that ran");
    let sentence = sentence.replace(" of its own", "");
    assert_eq!(named, format!("everypath: 'out.evp': {sentence}\n"));
}
