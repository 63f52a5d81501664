//! Files of counters of edited programs: kept when the process is killed, added up, refused when they are of another build or damaged;
//! programs that cannot be counted; and `count --rewrite`, which keeps edited programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{Counts, LEAVES, counters, edit, run};

/// A loop that says how far it is.
const SPINS: &str = r#"
#include <stdio.h>
__attribute__((noinline)) static long turn(long n) { long s = 0; for (long i = 0; i < 1000; i++) s += i ^ n; return s; }
int main(void) {
    volatile long sum = 0;
    for (long i = 0; ; i++) {
        sum += turn(i);
        if (i % 1000 == 999) { printf("%ld\n", i + 1); fflush(stdout); }
    }
}"#;

#[test]
fn counts_are_kept_when_the_process_is_killed() {
    let folder = Folder::new("counted-killed");
    folder.program(&["-O1"], "spins", SPINS);
    let inside = edit(&folder, "spins", "edges");
    let mut child = Command::new("./spins")
        .current_dir(folder.file(&inside))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let said = output.lines().nth(20).expect("it goes on").expect("text");
    child.kill().expect("it is there");
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
    let done: u64 = said.parse().expect("a number");
    let files = counters(&folder, &inside);
    let counts = Counts::of(&folder, &files, "spins");
    // The inner loop's block has a thousand turns in each call that ended, and no call is counted that was not made.
    let most = counts.blocks.values().map(|(_, executed)| *executed).max();
    let calls = most.expect("blocks") / 1000;
    assert!(
        done == 21_000 && (done..done + 100_000).contains(&calls),
        "{calls}"
    );
    let output = folder.run(BINARY, &["report", &files[0]]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("did not end by itself"), "{said}");
}

/// A program whose counters cannot be kept does as it would without, and standard error says that they are not.
#[test]
fn without_room_it_runs_on() {
    let folder = Folder::new("counted-room");
    let (_, flags, source) = LEAVES[3];
    folder.program(flags, "threads", source);
    let native = run(&folder, "", "threads", &[]);
    let inside = edit(&folder, "threads", "edges");
    let program = folder.file(&format!("{inside}/threads"));
    let ran = |limit: &str| {
        let script = format!("ulimit -f {limit}; exec \"$0\"");
        let output = Command::new("bash")
            .args(["-c", &script])
            .arg(&program)
            .current_dir(folder.file(&inside))
            .output();
        output.expect("bash is there")
    };
    let is_said = |output: Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status, &output.stdout),
            (native.status, &native.stdout)
        );
        assert!(
            said.starts_with("everypath: counters cannot be written to '")
                && said.lines().count() == 1,
            "{said}"
        );
    };
    // Not even a header.
    is_said(ran("0"));
    assert_eq!(counters(&folder, &inside), [""; 0]);
    // No folder where a file could be.
    let output = Command::new(&program).current_dir("/proc").output();
    is_said(output.expect("it runs"));
    // A header, and no counters of threads.
    assert_eq!(ran("20"), native);
    let files = counters(&folder, &inside);
    let output = folder.run(BINARY, &["report", &files[0]]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("there was no room for the counters of"),
        "{said}"
    );
}

#[test]
fn runs_add_up_and_builds_do_not() {
    let folder = Folder::new("counted-sums");
    let (_, flags, source) = LEAVES[4];
    folder.program(&[flags, &["-g"]].concat(), "switches", source);
    let inside = edit(&folder, "switches", "edges");
    for _ in 0..3 {
        assert!(run(&folder, &inside, "switches", &[]).status.success());
    }
    let files = counters(&folder, &inside);
    assert_eq!(files.len(), 3);
    let one = Counts::of(&folder, &files[..1], "switches");
    let all = Counts::of(&folder, &files, "switches");
    for (start, (end, executed)) in &one.blocks {
        assert_eq!(all.blocks[start], (*end, 3 * executed));
    }
    // Their sum is kept as one recording, which adds up with others.
    let mut words = vec!["report", "--as", "counts", "-o", "sum.evp"];
    words.extend(files[..2].iter().map(String::as_str));
    assert!(folder.run(BINARY, &words).status.success());
    let sum = Counts::of(&folder, &["sum.evp".into(), files[2].clone()], "switches");
    assert_eq!(sum.blocks, all.blocks);
    let lcov = |files: &[&str]| {
        let words = [&["report", "--format", "lcov"], files].concat();
        folder.run(BINARY, &words).stdout
    };
    let kept = lcov(&["sum.evp", &files[2]]);
    assert!(!kept.is_empty() && kept == lcov(&[&files[0], &files[1], &files[2]]));
    // Marks are no counts.
    let covered = edit(&folder, "switches", "coverage");
    assert!(run(&folder, &covered, "switches", &[]).status.success());
    let marks = counters(&folder, &covered);
    for (one, other) in [(&files[0], &marks[0]), (&marks[0], &files[0])] {
        let said = folder.refused(BINARY, &["report", one, other]);
        assert!(said.contains("they do not add up"), "{said}");
    }
    // The original is another build now.
    folder.program(&["-O1"], "switches", source);
    let said = folder.refused(BINARY, &["report", &files[0]]);
    assert!(said.contains("is another build than that"), "{said}");
    // And so is the edited program.
    fs::remove_file(folder.file(&format!("{inside}/switches"))).expect("it was there");
    let to = format!("{inside}/switches");
    let output = folder.run(
        BINARY,
        &["rewrite", "switches", "-o", &to, "--tool", "edges"],
    );
    assert!(output.status.success());
    let said = folder.refused(BINARY, &["report", &files[0]]);
    assert!(said.contains("it was made anew since"), "{said}");
}

/// Bytes of a file of counters that are cut off or changed give an error, or other numbers.
#[test]
fn damaged_files_are_refused() {
    let folder = Folder::new("counted-damage");
    let (_, flags, source) = LEAVES[4];
    folder.program(flags, "switches", source);
    let inside = edit(&folder, "switches", "edges");
    assert!(run(&folder, &inside, "switches", &[]).status.success());
    let whole = fs::read(&counters(&folder, &inside)[0]).expect("a file");
    let damaged = |bytes: &[u8]| {
        fs::write(folder.file("damaged.evp"), bytes).expect("a file");
        let output = folder.run(BINARY, &["report", "damaged.evp"]);
        let code = output.status.code().expect("it ends by itself");
        (code, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for length in [8, 100, 16383, 16384, 16400, 20480, 21000] {
        let (code, said) = damaged(&whole[..length]);
        assert!(
            code == 125 && said.contains("is cut off"),
            "{length}: {said}"
        );
    }
    for at in (8..80).chain(4048..4096).chain(16384..16424) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        let (code, said) = damaged(&bytes);
        assert!(matches!(code, 0 | 125), "{at}: {code} {said}");
    }
}

/// A tool for programs refuses libraries, and no tool counts where %gs is used.
#[test]
fn what_has_no_room_at_gs_is_refused() {
    let folder = Folder::new("counted-refused");
    folder.program(
        &["-O1", "-shared", "-fPIC"],
        "library.so",
        "int f(int n) { return n + 1; }",
    );
    let uses = "int main(void) { int n; asm(\"movl %%gs:0, %0\" : \"=r\"(n)); return n; }";
    folder.program(&["-O1"], "uses", uses);
    let sets = "int arch_prctl(int, long); int main(void) { return arch_prctl(0x1001, 0); }";
    folder.program(&["-O1"], "sets", sets);
    for (file, tool, why) in [
        ("library.so", "opmix", "it is a library"),
        ("uses", "edges", "it uses %gs itself"),
        ("sets", "edges", "it uses %gs itself"),
    ] {
        let words = ["rewrite", file, "-o", "out", "--tool", tool];
        let said = folder.refused(BINARY, &words);
        assert!(said.contains(why), "{said}");
    }
}

/// `count --rewrite` with a cache in the folder.
fn count_rewrite(folder: &Folder, words: &[&str]) -> Output {
    let output = Command::new(BINARY)
        .args(["count", "--rewrite"])
        .args(words)
        .env("XDG_CACHE_HOME", folder.file("cache"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output();
    output.expect("it runs")
}

/// The program's output and end are its own, the counts those of the translator, the second run takes what the first one kept, and
/// nothing of a run stays there.
#[test]
fn count_edits_and_keeps_what_it_edited() {
    let folder = Folder::new("counted-cache");
    fs::create_dir(folder.file("cache")).expect("a new folder");
    let (_, flags, source) = LEAVES[2];
    folder.program(flags, "forks", source);
    let native = run(&folder, "", "forks", &[]);
    let words = ["-q", "-o", "all.evp", "--", "./forks"];
    let all = folder.run(BINARY, &[&["count"][..], &words].concat());
    assert_eq!(all.stdout, native.stdout);
    let all = Counts::of(&folder, &["all.evp".into()], "forks");
    // The edited files, and when they were written; nothing of a run stays beside them.
    let files = || {
        let entries = fs::read_dir(folder.file("cache/everypath")).expect("a cache");
        let folders: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        let [folder] = &folders[..] else {
            panic!("{folders:?}");
        };
        let inside = fs::read_dir(folder).expect("a folder");
        assert_eq!(inside.count(), 4, "bin, lib, original, sums");
        ["bin/forks", "lib/libc.so.6", "sums"].map(|name| {
            let path = folder.join(name);
            let meta = fs::metadata(&path).expect("it was written");
            (meta.modified().expect("a time"), path)
        })
    };
    let mut kept = None;
    for round in 0..3 {
        let words = ["-q", "-o", "own.evp", "--", "./forks"];
        let output = count_rewrite(&folder, &words);
        assert_eq!(
            (output.status, &output.stdout),
            (native.status, &native.stdout)
        );
        let own = Counts::of(&folder, &["own.evp".into()], "forks");
        assert!(own.agree_with(&all, "count --rewrite") > 5);
        let now = files();
        match round {
            0 => {}
            1 => assert_eq!(Some(&now), kept.as_ref()),
            _ => assert_ne!(Some(&now), kept.as_ref()),
        }
        if round == 1 {
            // Somebody changes what is kept, here a library: all is made again.
            let path = &now[1].1;
            let mut bytes = fs::read(path).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).expect("it is ours");
        }
        kept = Some(now);
    }
    // Editing another program removes folders that no run used for long, and those of runs that were killed.
    let own = kept.expect("three rounds")[2].1.with_file_name("run.1.2");
    let olds = [folder.file("cache/everypath/old"), own];
    for old in &olds {
        fs::create_dir(old).expect("a new folder");
    }
    let new = folder.file("cache/everypath/new");
    fs::create_dir(&new).expect("a new folder");
    for old in &olds {
        let path = old.display().to_string();
        assert!(
            folder
                .run("touch", &["-d", "31 days ago", &path])
                .status
                .success()
        );
    }
    let output = count_rewrite(&folder, &["-q", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
    assert!(!olds.iter().any(|old| old.exists()) && new.exists());
    let script = "/bin/true; /bin/true; exit 7";
    let words = ["-q", "--report", "sh.txt", "--", "sh", "-c", script];
    assert_eq!(count_rewrite(&folder, &words).status.code(), Some(7));
    let told = fs::read_to_string(folder.file("sh.txt")).expect("a report");
    assert!(told.contains("\n`execve` was called 2 times: "), "{told}");
}

/// A folder that others may write to is not trusted; scripts and static programs are translated, and that is told.
#[test]
fn count_translates_where_it_cannot_edit() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("counted-fallback");
    fs::create_dir_all(folder.file("cache/everypath")).expect("new folders");
    folder.program(
        &["-O1"],
        "prog",
        "int main(int c, char **v) { return c + 4; }",
    );
    fs::write(folder.file("script"), "#!/bin/sh\nexit 9\n").expect("a file");
    let mode = |path: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.file(path), permissions).expect("it is ours");
    };
    mode("script", 0o755);
    mode("cache/everypath", 0o777);
    let told = |program: &str, code: i32, why: &str| {
        let output = count_rewrite(&folder, &["-o", "run.evp", "--", program]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(
            said.contains(why) && said.contains("translated instead"),
            "{said}"
        );
    };
    told("./prog", 5, "others may write to");
    mode("cache/everypath", 0o700);
    told("./script", 9, "it is a script");
    let output = count_rewrite(&folder, &["-o", "run.evp", "--", "./prog"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("translated instead"), "{said}");
}

/// All forms of reports say of the program's own code what those of `count` say.
#[test]
fn forms_are_those_of_count() {
    let folder = Folder::new("counted-forms");
    let (_, flags, source) = LEAVES[0];
    folder.program(&[flags, &["-g"]].concat(), "exits", source);
    let inside = edit(&folder, "exits", "edges");
    assert!(
        !run(&folder, &inside, "exits", &["a", "b"])
            .stdout
            .is_empty()
    );
    let own = &counters(&folder, &inside)[0];
    let words = ["count", "-q", "-o", "all.evp", "--", "./exits", "a", "b"];
    assert!(!folder.run(BINARY, &words).stdout.is_empty());
    let report = |file: &str, words: &[&str]| {
        let output = folder.run(
            BINARY,
            &[&["report", file, "--modules", "exits"], words].concat(),
        );
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    // Lines that were executed; both recordings know the functions and lines of the same file.
    for words in [
        &["--format", "lcov"][..],
        &["--format", "llvm"],
        &["--annotate", "down"],
    ] {
        let of = |file: &str| {
            let text = report(file, words);
            // Stubs of the dynamic linker, to which calls go, are not counted, and so have no name.
            let is_told = |line: &&str| !line.contains("  call ");
            let lines = text.lines().filter(is_told).map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        let (mut own, all) = (of(own), of("all.evp"));
        // It says besides what it is of.
        if own
            .last()
            .is_some_and(|last| last.starts_with("note: only the program's own code"))
        {
            own.pop();
            assert_eq!(own.pop().as_deref(), Some(""));
        }
        assert!(own.len() > 5, "{words:?}: {own:?}");
        assert_eq!(own, all, "{words:?}");
    }
    for (words, holds) in [
        (&["--format", "csv"][..], ",down,"),
        (&["--format", "callgrind"], "fn=(1) "),
        (&["--format", "fdata"], "1 main "),
        (&["--top", "5"], "down"),
        (
            &["--top", "6"],
            "1 process, 1 thread\nonly the program's own code was counted, not that of libraries\n\n",
        ),
    ] {
        let text = report(own, words);
        assert!(text.contains(holds), "{words:?}: {text}");
    }
    let page = ["report", own, "--html", "page.html"];
    assert!(folder.run(BINARY, &page).status.success());
    assert!(fs::metadata(folder.file("page.html")).is_ok_and(|page| page.len() > 20_000));
}

/// A caller that stays may keep a value in a register that its callee happens to leave as it was, as GCC's `-fipa-ra` has it; what is
/// in front of the callee leaves all of them.
#[test]
fn registers_are_kept_for_callers_that_stay() {
    let folder = Folder::new("counted-registers");
    let source = r#"#include <stdio.h>
long total;
__attribute__((noinline)) void leave_it(long n) { for (long i = 0; i < n; i++) total += i; }
long keeps(long n);
asm(".text\n.type keeps, @function\nkeeps:\n.cfi_startproc\n"
    "push %rbx\n.cfi_adjust_cfa_offset 8\nmov $12345, %r11d\ncall leave_it\nmov %r11, %rax\n"
    "pop %rbx\n.cfi_adjust_cfa_offset -8\njmp *place(%rip)\n1: ret\n.cfi_endproc\n.size keeps, .-keeps\n"
    ".data\n.align 8\nplace: .quad 1b\n.text\n");
int main(void) { printf("%ld ", keeps(10)); printf("%ld\n", total); return 0; }
"#;
    folder.program(&["-O1", "-fno-stack-protector"], "keeps", source);
    let native = run(&folder, "", "keeps", &[]);
    assert_eq!(native.stdout, b"12345 45\n");
    for tool in ["edges", "blocks", "coverage"] {
        fs::create_dir(folder.file(tool)).expect("a new folder");
        let to = format!("{tool}/keeps");
        let words = ["rewrite", "keeps", "-o", &to, "--tool", tool, "--explain"];
        let said = folder.run(BINARY, &words).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("(keeps): "), "{said}");
        assert!(!said.contains("(leave_it)"), "{said}");
        assert_eq!(run(&folder, tool, "keeps", &[]), native, "{tool}");
    }
}

/// Two functions of three and four bytes that are called a million times.
const SHORT: &str = "#include <stdio.h>
__attribute__((noinline)) unsigned step(unsigned x) { return x + 1; }
__attribute__((noinline)) unsigned twice(unsigned x) { return x * 2; }
int main(void) { unsigned s = 0; for (int i = 0; i < 1000000; i++) { s = step(s); s = twice(s); } printf(\"%u\\n\", s); return 0; }
";

/// Without an alignment there is no room for a jump at their entries; it goes by old code nearby. Where there is none,
/// the function is named.
#[test]
#[ignore = "wide: functions of usual sizes are in the gate"]
fn short_functions_are_counted_or_named() {
    let folder = Folder::new("counted-short");
    fs::create_dir(folder.file("cache")).expect("a new folder");
    for (level, all_are) in [("-O1", true), ("-O2", true), ("-Os", false)] {
        folder.program(&[level], "short", SHORT);
        let native = run(&folder, "", "short", &[]);
        let null = [
            "rewrite",
            "short",
            "-o",
            "null",
            "--tool",
            "null",
            "--paranoid",
        ];
        assert!(folder.run(BINARY, &null).status.success());
        assert_eq!(run(&folder, "", "null", &[]), native, "{level}");
        let words = ["count", "-q", "-o", "all.evp", "--", "./short"];
        assert_eq!(folder.run(BINARY, &words).stdout, native.stdout);
        let all = Counts::of(&folder, &["all.evp".into()], "short");
        let words = [
            "-q", "-o", "own.evp", "--report", "own.txt", "--", "./short",
        ];
        let output = count_rewrite(&folder, &words);
        assert_eq!(
            (output.status, output.stdout),
            (native.status, native.stdout)
        );
        let own = Counts::of(&folder, &["own.evp".into()], "short");
        own.agree_with(&all, level);
        let often = |counts: &Counts| {
            counts
                .blocks
                .values()
                .filter(|(_, n)| *n == 1_000_000)
                .count()
        };
        let told = fs::read_to_string(folder.file("own.txt")).expect("a report");
        let is_named = "step (G11, no room for a jump to the new code), 1,000,000 times";
        match all_are {
            true => assert!(
                often(&own) == often(&all) && !told.contains("G11"),
                "{level}: {told}"
            ),
            // It depends on what the linker puts beside them.
            false => assert!(
                often(&own) == often(&all) || told.contains(is_named),
                "{told}"
            ),
        }
    }
}

/// Beyond 2 % of the code the program is translated, which is told, and with `--rewrite=only` the report begins with what is
/// missing.
#[test]
fn what_is_not_counted_is_said_first() {
    let folder = Folder::new("counted-missing");
    fs::create_dir(folder.file("cache")).expect("a new folder");
    let source = "#include <stdio.h>\nvoid big(void);
asm(\".text\\n.globl big\\n.type big, @function\\nbig: .cfi_startproc\\n.cfi_signal_frame\\n.skip 4096, 0x90\\nret\\n.cfi_endproc\\n.size big, .-big\\n\");
int main(void) { for (int i = 0; i < 7; i++) big(); puts(\"done\"); return 0; }\n";
    folder.program(&["-O1"], "prog", source);
    let output = count_rewrite(&folder, &["-q", "-o", "all.evp", "--", "./prog"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("of its code would not be counted")
            && said.contains("big (G3, an unwind table that cannot be read, or a signal's frame)"),
        "{said}"
    );
    let all = Counts::of(&folder, &["all.evp".into()], "prog");
    assert!(all.blocks.values().any(|&(_, executed)| executed == 7));
    let only = |words: &[&str]| {
        let output = Command::new(BINARY)
            .args(["count", "--rewrite=only", "-q"])
            .args(words)
            .env("XDG_CACHE_HOME", folder.file("cache"))
            .current_dir(folder.path())
            .output();
        output.expect("it runs")
    };
    assert_eq!(
        only(&["--report", "own.txt", "--", "./prog"]).stdout,
        b"done\n"
    );
    let told = fs::read_to_string(folder.file("own.txt")).expect("a report");
    let mut lines = told
        .lines()
        .skip_while(|line| *line != "1 process, 1 thread")
        .skip(1);
    let first = lines.next().expect("a line");
    assert!(
        first.contains("% of the code of ")
            && first
                .contains(": big (G3, an unwind table that cannot be read, or a signal's frame); "),
        "{told}"
    );
    let called = lines.find_map(|line| line.strip_prefix("not counted, but called by what was: "));
    let called = called.expect("functions of the program and of its libraries");
    assert!(
        called.contains(
            "big (G3, an unwind table that cannot be read, or a signal's frame), 7 times"
        ),
        "{told}"
    );
    // A script is not run, as it cannot be edited.
    fs::write(folder.file("script"), "#!/bin/sh\necho ran\n").expect("a file");
    let mut permissions = fs::metadata(folder.file("script"))
        .expect("it is there")
        .permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(folder.file("script"), permissions).expect("it is ours");
    let output = only(&["--", "./script"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(125), &b""[..]),
        "{said}"
    );
    assert!(said.contains("it is a script; nothing was run"), "{said}");
}

/// Marks say how many of all instructions were executed; a disassembler knows how many there are.
#[test]
fn coverage_says_of_how_many() {
    let folder = Folder::new("counted-share");
    let source = "#include <stdio.h>
int never(int x) { return x * 3 + 1; }
int main(int c, char **v) { if (c > 5) puts(v[1]); puts(\"done\"); return 0; }\n";
    folder.program(&["-O1"], "prog", source);
    let inside = edit(&folder, "prog", "coverage");
    assert!(run(&folder, &inside, "prog", &[]).status.success());
    let report = folder.run(BINARY, &["report", &counters(&folder, &inside)[0]]);
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let listing = folder.run("objdump", &["-d", "--no-show-raw-insn", "prog"]);
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    let instructions = |name: &str| {
        let lines = listing
            .lines()
            .skip_while(|line| !line.ends_with(&format!("<{name}>:")));
        lines.skip(1).take_while(|line| !line.is_empty()).count()
    };
    let (main, never) = (instructions("main"), instructions("never"));
    let note = format!(
        " of {} instructions of functions with marks were executed (",
        main + never
    );
    let line = report.lines().find(|line| line.contains(&note));
    let line = line.unwrap_or_else(|| panic!("{main} and {never}: {report}"));
    let executed: usize = line["note: ".len()..line.find(&note).expect("it is there")]
        .parse()
        .expect("a number");
    assert!(executed < main && executed > main / 2, "{line}");
}

/// Lines that were executed are the same by marks and by counters; only marks of ways say something of branches.
#[test]
fn coverage_has_branches_if_they_are_asked_for() {
    let folder = Folder::new("counted-lcov");
    let source = "#include <stdio.h>
static int f(int n)
{
    int s = 0;
    for (int i = 0; i < n; i++) {
        if (i % 3 == 0)
            s += i;
        else if (i > 100)
            s -= 1;
    }
    switch (n) { case 1: s++; break; case 2: s--; break; case 9: s *= 3; break; case 11: s = 4; break; case 12: s = 9; }
    return s;
}
int main(int c, char **v)
{
    if (c > 3)
        puts(v[0]);
    return f(9) + f(c) > 0;
}\n";
    folder.program(&["-O1", "-g"], "prog", source);
    let report = |tool: &str| {
        let inside = edit(&folder, "prog", tool);
        run(&folder, &inside, "prog", &[]);
        let file = counters(&folder, &inside).remove(0);
        ["report", "lcov"].map(|form| {
            let output = folder.run(BINARY, &["report", "--format", form, &file]);
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    };
    let lines = |info: &str| -> Vec<(String, bool)> {
        let lines = info.lines().filter_map(|line| line.strip_prefix("DA:"));
        let both = lines.filter_map(|line| line.split_once(','));
        both.map(|(line, count)| (line.to_owned(), count != "0"))
            .collect()
    };
    let [_, exact] = report("edges");
    for tool in ["coverage", "coverage --branches"] {
        let [text, info] = report(tool);
        assert_eq!(lines(&info), lines(&exact), "{tool}");
        let has_ways = tool != "coverage";
        assert_eq!(info.contains("BRDA:"), has_ways, "{tool}: {info}");
        assert_eq!(
            text.contains("conditional branches"),
            has_ways,
            "{tool}: {text}"
        );
    }
    assert!(
        lines(&exact).iter().any(|(_, executed)| !executed),
        "{exact}"
    );
    let words = [
        "rewrite",
        "prog",
        "-o",
        "out",
        "--tool",
        "edges",
        "--branches",
    ];
    let refused = folder.refused(BINARY, &words);
    assert!(
        refused.contains("--branches goes with --tool coverage"),
        "{refused}"
    );
}

/// Files of counters are in the folder that the environment names, else in the one that was given to the editor, else in the
/// working folder; and if they cannot be there, standard error says so, and nothing else is changed.
#[test]
fn files_are_where_they_are_asked_for() {
    let folder = Folder::new("counted-folder");
    for name in ["given", "named", "where"] {
        fs::create_dir(folder.file(name)).expect("a new folder");
    }
    let source = "#include <unistd.h>\n#include <stdio.h>
int main(void) { chdir(\"/\"); printf(\"%d\\n\", fork() >= 0); return 0; }\n";
    folder.program(&["-O1"], "prog", source);
    let make = |words: &[&str]| {
        let words = [
            &["rewrite", "prog", "-o", "edited", "--tool", "edges"][..],
            words,
        ]
        .concat();
        folder.run(BINARY, &words)
    };
    let go = |variable: Option<&str>| {
        let mut command = Command::new(folder.file("edited"));
        command
            .current_dir(folder.file("where"))
            .env_remove("EVERYPATH_COUNTERS");
        if let Some(value) = variable {
            // One that has a name in common comes first.
            command
                .env("EVERYPATH_COUNTERSX", "../given")
                .env("EVERYPATH_COUNTERS", value);
        }
        let output = command.output().expect("it runs");
        assert_eq!(
            (output.status.code(), &output.stdout[..]),
            (Some(0), &b"1\n1\n"[..])
        );
        String::from_utf8(output.stderr).expect("text")
    };
    let files = || ["given", "named", "where"].map(|name| counters(&folder, name).len());
    assert!(make(&[]).status.success());
    assert_eq!((go(None), files()), (String::new(), [0, 0, 2]));
    assert!(make(&["--counters", "given"]).status.success());
    assert_eq!((go(None), files()), (String::new(), [2, 0, 2]));
    assert_eq!((go(Some("../named")), files()), (String::new(), [2, 2, 2]));
    let whole = folder.file("named").display().to_string();
    assert_eq!((go(Some(&whole)), files()), (String::new(), [2, 4, 2]));
    assert_eq!((go(Some("")), files()), (String::new(), [4, 4, 2]));
    let said = go(Some("/no/such"));
    assert_eq!(
        said,
        "everypath: counters cannot be written to '/no/such/edited': nothing is counted; EVERYPATH_COUNTERS=DIR names \
         another folder\n"
    );
    go(Some(&"x".repeat(6000)));
    assert_eq!(files(), [4, 4, 2]);
    for (words, why) in [
        (
            ["--counters", "none"],
            "--counters 'none': no such file or directory",
        ),
        (["--counters", "prog"], "--counters 'prog' is no folder"),
    ] {
        let said = make(&words).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(why), "{said}");
    }
}
