//! Programs whose functions have two versions, and which change between them all the time, do as natively (`rewrite --tool two-versions`).
//!
//! That both versions run, with the right frames, is shown by `frames`.

use std::fs;

use testkit::folder::Folder;

use crate::BINARY;
use crate::flow::THROWS;
use crate::rewrite::{HOLES, LAYOUTS, SWITCH, edit, panics, succeeds, tool};

const VERSIONS: &[&str] = &["--tool", "two-versions", "--paranoid"];

/// Kinds of files, jump tables of GCC and LLVM that are made anew, tables with holes.
#[test]
fn layouts_and_switches_have_two_versions() {
    let folder = Folder::new("versions-layouts");
    for (name, text) in [
        ("layouts.c", LAYOUTS),
        ("switch.c", SWITCH),
        ("holes.c", HOLES),
    ] {
        fs::write(folder.file(name), text).unwrap();
    }
    for line in [
        "gcc -O1 layouts.c",
        "gcc -O1 -no-pie layouts.c",
        "gcc -O0 -static-pie layouts.c",
        "gcc -O2 -no-pie switch.c",
        "gcc -O3 switch.c",
        "clang-14 -O2 -fPIE -pie switch.c",
        "clang-14 -O2 holes.c",
        "clang-14 -O0 -fPIE -pie holes.c",
    ] {
        succeeds(&folder, "sh", &["-c", &format!("{line} -o made")]);
        edit(&folder, "made", "edited", VERSIONS);
        let native = tool(&folder, "./made", &["a"]);
        assert!(!native.stdout.is_empty(), "{line}");
        assert_eq!(tool(&folder, "./edited", &["a"]), native, "{line}");
    }
}

/// Exceptions and panics out of either version are caught in either one; the libraries have two versions as well.
#[test]
fn exceptions_go_through_two_versions() {
    let folder = Folder::new("versions-throws");
    fs::write(folder.file("throws.cc"), THROWS).unwrap();
    succeeds(&folder, "g++", &["-O2", "-o", "throws", "throws.cc"]);
    panics(&folder);
    for name in ["throws", "panics"] {
        let to = format!("{name}.d");
        let words = ["rewrite", "--libs", name, "-o", &to];
        let made = folder.run(BINARY, &[&words[..], VERSIONS].concat());
        assert!(made.status.success(), "{made:?}");
        let native = tool(&folder, &format!("./{name}"), &["backtraces"]);
        assert!(!native.stdout.is_empty());
        let edited = tool(&folder, &format!("./{to}/bin/{name}"), &["backtraces"]);
        assert_eq!(edited, native, "{name}");
    }
}

/// A compiler, an interpreter, and the product, in which code between calls is described as if it threw.
#[test]
#[ignore = "wide: edits large programs for half a minute"]
fn large_programs_have_two_versions() {
    let folder = Folder::new("versions-large");
    let compiler = succeeds(&folder, "gcc", &["-print-prog-name=cc1"]);
    edit(&folder, compiler.trim(), "cc1", VERSIONS);
    fs::write(folder.file("in.i"), SWITCH).unwrap();
    succeeds(&folder, "gcc", &["-E", "-x", "c", "-o", "out.i", "in.i"]);
    for (program, to) in [(compiler.trim(), "native.s"), ("./cc1", "edited.s")] {
        let words = ["-fpreprocessed", "-quiet", "-O3", "out.i", "-o", to];
        succeeds(&folder, program, &words);
    }
    let [native, edited] =
        ["native.s", "edited.s"].map(|name| fs::read(folder.file(name)).unwrap());
    assert!(native == edited && !native.is_empty());
    edit(&folder, "/usr/bin/python3", "python3", VERSIONS);
    let text = "import json, re, collections; print(json.dumps([i * i for i in range(99)]), re.sub('a+', 'b', 'aaxaa'), sorted(collections.Counter('mississippi').items())); 1/0";
    let run = |program: &str| tool(&folder, program, &["-c", text]);
    let native = run("/usr/bin/python3");
    assert_eq!(native.status.code(), Some(1));
    assert_eq!(run("./python3"), native);
    edit(&folder, BINARY, "everypath", VERSIONS);
    let words = ["flow", "/usr/bin/true", "--loops"];
    let native = tool(&folder, BINARY, &words);
    assert!(native.status.success());
    assert_eq!(tool(&folder, "./everypath", &words), native);
}
