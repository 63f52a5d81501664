//! Counters of libraries: every block and edge of a program and of each library as `everypath count` has it of the same run, with
//! threads, children that a library makes, jumps out of a library's frames, and libraries that are loaded late.

use std::fs;
use std::process::Command;

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{Counts, counters};

/// A library that calls back, makes threads and a child, and is left by `longjmp`.
const WORK: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static long step(long n) { long s = 0; for (long i = 0; i < n; i++) s += i % 3 ? i : -i; return s; }
static void *thread(void *n) { return (void *)step((long)n); }
long work(long n, long (*back)(long)) { return step(n) + (back ? back(n) : 0); }
long threads(void) {
    pthread_t all[4]; long sum = 0;
    for (long i = 0; i < 4; i++) pthread_create(&all[i], 0, thread, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 4; i++) { void *one; pthread_join(all[i], &one); sum += (long)one; }
    return sum;
}
int child(void) {
    pid_t pid = fork();
    if (pid == 0) { step(500); _exit(7); }
    int status; waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
void leave(jmp_buf *to, long n) { if (n == 0) longjmp(*to, 5); leave(to, n - 1); step(n); }
"#;

/// A plug-in.
const PLUG: &str =
    "long plug(long n) { long s = 1; while (n > 1) { s = s * n % 1000003; n--; } return s; }";

const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
long work(long, long (*)(long)), threads(void); int child(void); void leave(jmp_buf *, long);
static long back(long n) { return n < 10 ? 1 : work(n / 2, n % 5 ? back : 0); }
int main(void) {
    jmp_buf to; volatile int turns = 0;
    printf("%ld\n", work(4000, back));
    if (setjmp(to) < 5 || turns++ < 3) leave(&to, 20);
    printf("%ld %d %d\n", threads(), child(), turns);
    for (int i = 0; i < 3; i++) {
        void *plug = dlopen("libplug.so", RTLD_NOW);
        printf("%ld\n", ((long (*)(long))dlsym(plug, "plug"))(100 + i));
        printf("%ld\n", threads());
        dlclose(plug);
    }
    return 3;
}
"#;

/// Makes the program and its libraries in a folder.
pub fn make(folder: &Folder) {
    for (name, text) in [("libwork.so", WORK), ("libplug.so", PLUG)] {
        let called = format!("-Wl,-soname,{name}");
        let flags = ["-O1", "-shared", "-fPIC", "-pthread", &called];
        folder.program(&flags, name, text);
    }
    let search = format!("-Wl,-rpath,{}", folder.path().display());
    let library = folder.file("libwork.so").display().to_string();
    let flags = ["-O1", "-pthread", "-Wl,--no-as-needed", &library, &search];
    folder.program(&flags, "program", PROGRAM);
}

/// Standard output and exit status of a program.
fn run(command: &mut Command) -> (String, Option<i32>) {
    let output = command.output().expect("it is started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.is_empty(), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    (shown.into_owned(), output.status.code())
}

/// Edits without a word.
fn rewrite(folder: &Folder, words: &[&str]) {
    let output = folder.run(BINARY, &[&["rewrite"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Records a run with `count`; gives the recording.
fn counted(folder: &Folder, words: &[&str]) -> Vec<String> {
    let output = folder.run(BINARY, &[&["count", "-o", "all.evp", "--"], words].concat());
    assert!(output.status.code().is_some_and(|code| code < 100));
    vec!["all.evp".to_owned()]
}

#[test]
fn libraries_are_counted_as_count_has_them() {
    let folder = Folder::new("counted-libraries");
    make(&folder);
    let native = run(Command::new("./program").current_dir(folder.path()));
    assert_eq!(native.1, Some(3));
    let all = counted(&folder, &["./program"]);
    for tool in ["edges", "blocks"] {
        let words = ["program", "--libs", "--also", "libplug.so", "-o", tool];
        rewrite(&folder, &[&words[..], &["--tool", tool]].concat());
        let inside = format!("{tool}.counters");
        fs::create_dir(folder.file(&inside)).expect("a new folder");
        let mut edited = Command::new(BINARY);
        edited.args(["exec", tool]).current_dir(folder.path());
        edited.env("EVERYPATH_COUNTERS", folder.file(&inside));
        assert_eq!(run(&mut edited), native, "{tool}");
        let files = counters(&folder, &inside);
        assert_eq!(files.len(), 2, "a file for each process");
        for (name, least) in [("program", 10), ("libwork.so", 20), ("libplug.so", 4)] {
            let all = Counts::of(&folder, &all, name);
            let own = Counts::of(&folder, &files, name);
            let what = format!("{name} {tool}");
            let blocks = own.agree_with(&all, &what);
            assert!(blocks >= least, "{what}: {blocks} blocks");
        }
        let report = folder.run(BINARY, &["report", &files[0], &files[1]]);
        let shown = String::from_utf8_lossy(&report.stdout);
        assert!(shown.contains("3 libraries were counted"), "{shown}");
        assert!(shown.contains("plug "), "{shown}");
    }
}

/// `count --rewrite` counts the libraries that a program needs, and says that it loaded others.
#[test]
fn count_edits_libraries() {
    let folder = Folder::new("counted-libraries-cache");
    make(&folder);
    let native = run(Command::new("./program").current_dir(folder.path()));
    let all = counted(&folder, &["./program"]);
    for round in 0..2 {
        let mut own = Command::new(BINARY);
        own.args(["count", "--rewrite=only", "-q", "-o", "own.evp", "--report"]);
        own.args(["own.txt", "--", "./program"]);
        own.env("XDG_CACHE_HOME", folder.path())
            .current_dir(folder.path());
        assert_eq!(run(&mut own), native, "{round}");
        let files = ["own.evp".to_owned()];
        for (name, least) in [("program", 10), ("libwork.so", 20)] {
            let all = Counts::of(&folder, &all, name);
            let blocks = Counts::of(&folder, &files, name).agree_with(&all, name);
            assert!(blocks >= least, "{name}: {blocks} blocks");
        }
        let told = fs::read_to_string(folder.file("own.txt")).expect("a report");
        assert!(
            told.contains("\n2 libraries were counted with the program; "),
            "{told}"
        );
        assert!(told.contains("\n`dlopen` was called 3 times: "), "{told}");
        assert!(!told.contains("plug "), "{told}");
    }
}

/// A library is edited by itself, and used by a program that is as it was.
#[test]
fn a_library_by_itself_is_counted() {
    let folder = Folder::new("counted-library-alone");
    make(&folder);
    fs::create_dir(folder.file("alone")).expect("a new folder");
    let words = ["libwork.so", "-o", "alone/libwork.so", "--tool", "edges"];
    rewrite(&folder, &words);
    let native = run(Command::new("./program").current_dir(folder.path()));
    let all = counted(&folder, &["./program"]);
    let mut edited = Command::new("./program");
    edited.current_dir(folder.path());
    edited.env("LD_PRELOAD", folder.file("alone/libwork.so"));
    edited.env("EVERYPATH_COUNTERS", folder.path().join("alone"));
    assert_eq!(run(&mut edited), native);
    let files = counters(&folder, "alone");
    let all = Counts::of(&folder, &all, "libwork.so");
    let own = Counts::of(&folder, &files, "libwork.so");
    assert!(own.agree_with(&all, "libwork.so") >= 20);
    // Two libraries that were edited apart would have their counters at the same places.
    fs::create_dir(folder.file("other")).expect("a new folder");
    let words = ["libplug.so", "-o", "other/libplug.so", "--tool", "edges"];
    rewrite(&folder, &words);
    edited.env("LD_LIBRARY_PATH", folder.file("other"));
    let output = edited.output().expect("it is started");
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("edit them together"), "{said}");
}

/// A library that cannot be edited is named with the reason, and used as it is.
#[test]
fn a_library_that_cannot_be_edited_is_named() {
    let folder = Folder::new("counted-library-left");
    make(&folder);
    let words = ["libplug.so", "-o", "libplain.so", "--tool", "null"];
    rewrite(&folder, &words);
    let words = ["rewrite", "program", "--libs", "--also", "libplain.so"];
    let more = ["-o", "edited", "--tool", "edges"];
    let output = folder.run(BINARY, &[&words[..], &more[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let reason = "cannot edit '";
    assert!(
        said.contains(reason) && said.ends_with("; it is used as it is\n"),
        "{said}"
    );
}

/// The library that does the work of a program of the machine.
#[test]
#[ignore = "wide: libraries of other programs are in the gate"]
fn a_database_is_counted_in_its_library() {
    let folder = Folder::new("counted-sqlite");
    let path = fs::canonicalize("/usr/bin/sqlite3").expect("it is installed");
    let path = path.display().to_string();
    rewrite(
        &folder,
        &[&path, "--libs", "-o", "edited", "--tool", "edges"],
    );
    let query = "with recursive t(i) as (select 1 union all select i + 1 from t where i < 3000) select sum(i), avg(i * 1.5) from t;";
    let words = [":memory:", query];
    let native = run(Command::new(&path).args(words).current_dir(folder.path()));
    let all = counted(&folder, &[&[path.as_str()], &words[..]].concat());
    let mut edited = Command::new(BINARY);
    edited.args(["exec", "edited"]).args(words);
    edited.current_dir(folder.path());
    assert_eq!(run(&mut edited), native);
    let files: Vec<String> = counters(&folder, ".");
    let files: Vec<String> = files
        .into_iter()
        .filter(|path| !path.ends_with("all.evp"))
        .collect();
    let library =
        fs::canonicalize("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0").expect("it is installed");
    let library = library
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    for (name, least) in [("sqlite3", 100), (library.as_str(), 2000)] {
        let all = Counts::of(&folder, &all, name);
        let own = Counts::of(&folder, &files, name);
        let blocks = own.agree_with(&all, name);
        assert!(blocks >= least, "{name}: {blocks} blocks");
    }
}
