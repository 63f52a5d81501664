//! Which source files a report reads: what names them may be a stranger's recording.

use std::fs;

use testkit::folder::Folder;

use crate::BINARY;

/// A program of two lines that is worth a look at its source.
const ANNOTATED: &str =
    "int work(int n) { return n * 3; /* the source */ }\nint main(void) { return work(2); }\n";

/// Records `work` of a program that says where its source is, and is gone.
fn recorded_elsewhere(folder: &Folder, source: &str, options: &[&str]) {
    let link = folder.file("work.c");
    let _ = fs::remove_file(&link);
    fs::write(&link, ANNOTATED).unwrap();
    let options = [&["-g", "-O0", "-o", "prog", "work.c"], options].concat();
    assert!(folder.run("cc", &options).status.success());
    let record = ["count", "-q", "-o", "run.evp", "--", "./prog"];
    assert_eq!(folder.run(BINARY, &record).status.code(), Some(6));
    // Nobody here has the program any more; what is read has only the recording's word.
    fs::remove_file(folder.file("prog")).unwrap();
    fs::remove_file(&link).unwrap();
    match source {
        "" => fs::write(&link, ANNOTATED).unwrap(),
        "fifo" => assert!(folder.run("mkfifo", &["work.c"]).status.success()),
        path => std::os::unix::fs::symlink(path, &link).unwrap(),
    }
}

#[test]
fn only_what_a_module_names_is_read_as_source() {
    let folder = Folder::new("sources");
    let annotate = |more: &[&str]| {
        let words = [&["report", "run.evp", "--annotate", "work"], more].concat();
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    recorded_elsewhere(&folder, "", &[]);
    let (text, error) = annotate(&[]);
    assert!(!text.contains("the source"), "{text}");
    assert!(
        error.contains("work.c' as source, only the recording does; --any-source"),
        "{error}"
    );
    let (text, error) = annotate(&["--any-source"]);
    assert!(
        text.contains("the source") && error.is_empty(),
        "{text}{error}"
    );
    // None of these is read, and none waits; there is no text in the last.
    for name in [
        "fifo",
        "/dev/zero",
        "/dev/tty",
        "/proc/self/environ",
        "/proc/kmsg",
        "/",
        BINARY,
    ] {
        recorded_elsewhere(&folder, name, &[]);
        let (text, _) = annotate(&["--any-source"]);
        assert!(text.contains("work.c:1\n"), "{name}: {text}");
    }
}

/// The checksums of DWARF 5 are clang's (Debian: clang-14).
#[test]
fn source_that_changed_is_not_shown() {
    let folder = Folder::new("changed-source");
    fs::write(folder.file("work.c"), ANNOTATED).unwrap();
    let build = ["-gdwarf-5", "-O0", "-Wl,--build-id", "-o", "prog", "work.c"];
    let output = folder.run("clang-14", &build);
    assert!(output.status.success(), "{output:?}");
    let record = ["count", "-q", "-o", "run.evp", "--", "./prog"];
    assert_eq!(folder.run(BINARY, &record).status.code(), Some(6));
    let annotate = || folder.run(BINARY, &["report", "run.evp", "--annotate", "work"]);
    let before = annotate();
    assert!(String::from_utf8_lossy(&before.stdout).contains("the source"));
    assert!(before.stderr.is_empty(), "{before:?}");
    // An escape sequence in it is none for the terminal.
    let changed = ANNOTATED.replace("the source", "the \u{1b}[31msource");
    fs::write(folder.file("work.c"), &changed).unwrap();
    let after = annotate();
    let (text, error) = (
        String::from_utf8_lossy(&after.stdout),
        String::from_utf8_lossy(&after.stderr),
    );
    assert!(text.contains("work.c:1\n"), "{text}");
    assert!(
        error.contains("as changed since it was compiled: '"),
        "{error}"
    );
}

#[test]
fn control_characters_in_source_are_not_shown() {
    let folder = Folder::new("escapes");
    let source = ANNOTATED.replace("the source", "the \u{1b}[31msource");
    fs::write(folder.file("work.c"), source).unwrap();
    let build = ["-g", "-O0", "-o", "prog", "work.c"];
    assert!(folder.run("cc", &build).status.success());
    let words = ["count", "--annotate", "work", "--", "./prog"];
    let output = folder.run(BINARY, &words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the  [31msource"), "{text}");
}
