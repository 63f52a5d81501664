//! Output of the descriptors of `dump --mcf`, `raptor` and `trace --raptor`: through compressors, and
//! up to a limit.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use testkit::folder::Folder;

use crate::BINARY;

/// Compressors, the suffix of their files, and what reads those.
const COMPRESSORS: [(&str, &str, &str); 6] = [
    ("gzip", "gz", "gzip"),
    ("pigz", "gz", "gzip"),
    ("bzip2", "bz2", "bzip2"),
    ("pbzip2", "bz2", "bzip2"),
    ("zstd", "zst", "zstd"),
    ("xz", "xz", "xz"),
];

#[track_caller]
fn printed(folder: &Folder, arguments: &[&str]) -> Vec<u8> {
    let output = folder.run(BINARY, arguments);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A trace of a program with a thread, in `run.evp`.
fn traced(name: &str) -> Folder {
    let folder = Folder::new(name);
    let source = "#include <pthread.h>\n\
        static int fib(int n){return n<2?n:fib(n-1)+fib(n-2);}\n\
        static void *work(void *p){return (void*)(long)fib(p?14:15);}\n\
        int main(int argc,char**argv){(void)argv;pthread_t t;\n\
        pthread_create(&t,0,work,argc>5?(void*)1:0);pthread_join(t,0);return fib(12)!=144;}\n";
    folder.program(&["-O1", "-pthread"], "prog", source);
    printed(&folder, &["trace", "-q", "-o", "run.evp", "--", "./prog"]);
    folder
}

fn read(folder: &Folder, name: &str) -> Vec<u8> {
    std::fs::read(folder.file(name)).unwrap()
}

fn decompressed(folder: &Folder, program: &str, name: &str) -> Vec<u8> {
    let output = folder.run(&format!("/usr/bin/{program}"), &["-dc", name]);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// With programs of the folder before those of the system.
fn with_own_programs(folder: &Folder, arguments: &[&str], path: &str) -> Output {
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["--foreground", "60", BINARY]).args(arguments);
    command.current_dir(folder.path()).env("PATH", path);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command.output().unwrap()
}

fn script(folder: &Folder, name: &str, text: &str) {
    std::fs::create_dir_all(folder.file("bin")).unwrap();
    let path = folder.file("bin").join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_decompressed_is_what_was_written() {
    let folder = traced("descriptors-compressed");
    let mcf = ["dump", "run.evp", "--mcf", "binary"];
    let plain = printed(&folder, &mcf);
    assert!(plain.len() > 18_000);
    printed(
        &folder,
        &["raptor", "run.evp", "--form", "ascii", "-o", "plain"],
    );
    let raptor = read(&folder, "plain");
    for (program, suffix, reader) in COMPRESSORS {
        let name = format!("out.{suffix}");
        printed(&folder, &[&mcf[..], &["-c", program, "-o", &name]].concat());
        assert!(decompressed(&folder, reader, &name) == plain, "{program}");
        assert!(read(&folder, &name).len() < plain.len() / 2);
        std::fs::remove_file(folder.file(&name)).unwrap();
        // The suffix alone, and standard output.
        printed(&folder, &[&mcf[..], &["-o", &name]].concat());
        assert!(decompressed(&folder, reader, &name) == plain, "{suffix}");
        let sent = printed(&folder, &[&mcf[..], &["--compress", program]].concat());
        std::fs::write(folder.file("sent"), sent).unwrap();
        let copy = format!("sent.{suffix}");
        std::fs::rename(folder.file("sent"), folder.file(&copy)).unwrap();
        assert!(decompressed(&folder, reader, &copy) == plain, "{program}");
        let ascii = [
            "raptor", "run.evp", "--form", "ascii", "-c", program, "-o", "any",
        ];
        printed(&folder, &ascii);
        std::fs::rename(folder.file("any"), folder.file(&name)).unwrap();
        assert!(decompressed(&folder, reader, &name) == raptor, "{program}");
    }
}

/// While the program runs, private and shared predictors.
#[test]
fn traces_are_compressed_as_they_are_made() {
    let folder = traced("descriptors-live");
    for shared in [None, Some("--shared")] {
        let raptor = ["--raptor", "--descriptors", "live.xz", "-o", "live.evp"];
        let head = [&["trace", "-q"], &raptor[..]].concat();
        let tail = ["--", "./prog"];
        printed(&folder, &[&head[..], shared.as_slice(), &tail].concat());
        let again = ["raptor", "live.evp", "-o", "plain"];
        printed(&folder, &[&again[..], shared.as_slice()].concat());
        let live = decompressed(&folder, "xz", "live.xz");
        assert!(live == read(&folder, "plain"), "{shared:?}");
        std::fs::remove_file(folder.file("live.xz")).unwrap();
        let left = std::fs::read_dir(folder.path()).unwrap();
        assert!(!left.map(|file| file.unwrap().file_name()).any(|name| {
            let name = name.to_string_lossy().into_owned();
            name.starts_with("live.xz")
        }));
    }
}

#[test]
fn compressors_that_fail_lose_nothing() {
    let folder = traced("descriptors-failing");
    script(&folder, "gzip", "head -c 100 > /dev/null; exit 3");
    script(&folder, "bzip2", "kill -9 $$");
    script(&folder, "xz", "cat > /dev/null; exit 4");
    let path = format!("{}:/usr/bin:/bin", folder.file("bin").display());
    std::fs::write(folder.file("old.gz"), "old").unwrap();
    let fails = |arguments: &[&str], status, sentence: &str| {
        let output = with_own_programs(&folder, arguments, &path);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert_eq!(said, format!("everypath: {sentence}\n"));
    };
    let mcf = |name| ["dump", "run.evp", "--mcf", "binary", "-o", name];
    let at = |name: &str| {
        folder
            .file(name)
            .canonicalize()
            .unwrap_or(folder.file(name))
    };
    let cannot = |name: &str, why: &str| {
        let folder = folder.path().canonicalize().unwrap();
        match name {
            // A file that is there is named in full.
            "old.gz" => format!("cannot write '{}': {why}", folder.join(name).display()),
            name => format!("cannot write '{name}': {why}"),
        }
    };
    fails(
        &mcf("old.gz"),
        125,
        &cannot("old.gz", "gzip ended with status 3"),
    );
    assert_eq!(std::fs::read(at("old.gz")).unwrap(), b"old");
    fails(
        &mcf("x.bz2"),
        125,
        &cannot("x.bz2", "bzip2 was killed by signal 9"),
    );
    fails(&mcf("x.xz"), 125, &cannot("x.xz", "xz ended with status 4"));
    assert!(!folder.file("x.xz").exists() && !folder.file("x.bz2").exists());
    // Of a run there may be nothing else, so its descriptors are kept.
    let live = [
        "trace",
        "-q",
        "--raptor",
        "--descriptors",
        "live.bz2",
        "-o",
        "live.evp",
        "--",
        "./prog",
    ];
    let kept = "; the descriptors are in 'live.bz2.uncompressed'";
    let sentence = cannot("live.bz2", "bzip2 was killed by signal 9") + kept;
    fails(&live, 0, &sentence);
    printed(&folder, &["raptor", "live.evp", "-o", "plain"]);
    assert!(read(&folder, "live.bz2.uncompressed") == read(&folder, "plain"));
    // A disk that is full, behind a compressor.
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(BINARY);
    command.args(["dump", "run.evp", "--mcf", "binary", "-c", "gzip"]);
    command
        .current_dir(folder.path())
        .stdout(full)
        .env("LC_ALL", "C");
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    let last = "everypath: cannot write to standard output: gzip ended with status 1\n";
    assert!(said.ends_with(last), "{said}");
    fails(
        &[
            "dump",
            "run.evp",
            "--mcf",
            "binary",
            "-c",
            "zstd",
            "-o",
            "/dev/full",
        ],
        125,
        "cannot write '/dev/full': no space left on device",
    );
}

#[test]
fn whole_descriptors_up_to_a_limit() {
    let folder = traced("descriptors-limit");
    let plain = printed(&folder, &["dump", "run.evp", "--mcf", "binary"]);
    let limited = |arguments: &[&str], kept: usize, what: &str| {
        let output = folder.run(BINARY, arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let sentence = format!(
            "everypath: the descriptors end after {kept} bytes, at --descriptor-limit; what was \
             executed behind them has none\n"
        );
        assert_eq!(said, sentence, "{what}");
    };
    let mcf = [
        "dump",
        "run.evp",
        "--mcf",
        "binary",
        "-o",
        "out",
        "--descriptor-limit",
    ];
    limited(&[&mcf[..], &["1K"]].concat(), 56 * 18, "binary");
    assert!(read(&folder, "out") == plain[..56 * 18]);
    printed(
        &folder,
        &["raptor", "run.evp", "--form", "ascii", "-o", "plain"],
    );
    let lines = String::from_utf8(read(&folder, "plain")).unwrap();
    let first: String = lines.split_inclusive('\n').take(20).collect();
    let limit = (first.len() + 2).to_string();
    let options = [
        "--form",
        "ascii",
        "-o",
        "out.gz",
        "--descriptor-limit",
        &limit,
    ];
    limited(
        &[&["raptor", "run.evp"], &options[..]].concat(),
        first.len(),
        "raptor",
    );
    assert_eq!(decompressed(&folder, "gzip", "out.gz"), first.as_bytes());
    let live = [
        "--raptor",
        "--report",
        "r",
        "--form",
        "ascii",
        "--descriptors",
        "live",
    ];
    let live = [
        &["trace", "-q"],
        &live[..],
        &["--descriptor-limit", &limit, "--", "./prog"],
    ];
    let output = folder.run(BINARY, &live.concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("everypath: the descriptors end after "),
        "{said}"
    );
    let kept = read(&folder, "live").len();
    assert!(said.contains(&format!(" {kept} bytes")) && kept <= limit.parse().unwrap());
    assert!(read(&folder, "live").ends_with(b"\n"));
    // Enough is no limit.
    let all = plain.len().to_string();
    let said = folder.run(BINARY, &[&mcf[..], &[&all]].concat());
    assert!(said.status.success() && said.stderr.is_empty());
    assert!(read(&folder, "out") == plain);
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = traced("descriptors-refused");
    let refused = |arguments: &[&str], path: &str, sentence: &str| {
        let output = with_own_programs(&folder, arguments, path);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert_eq!(said, format!("everypath: {sentence}\n"));
    };
    std::fs::create_dir_all(folder.file("bin")).unwrap();
    let bin = folder.file("bin").display().to_string();
    let absent = "there is no program 'pigz' to compress the descriptors with; install it, or \
                  choose another one with --compress";
    let mcf = ["dump", "run.evp", "--mcf", "binary"];
    refused(&[&mcf[..], &["-c", "pigz"]].concat(), &bin, absent);
    let live = [
        "trace",
        "--raptor",
        "-c",
        "pigz",
        "--descriptors",
        "d",
        "--",
        "./prog",
    ];
    refused(&live, &bin, &format!("{absent}; nothing was run"));
    assert!(!folder.file("d").exists());
    refused(
        &[&mcf[..], &["-c", "xz", "-o", "out.gz"]].concat(),
        "/usr/bin",
        "'out.gz' has the suffix .gz, and files of xz have .xz",
    );
    refused(
        &["raptor", "run.evp", "-c", "xz"],
        "/usr/bin",
        "--compress and --descriptor-limit are about descriptors; name their file with -o",
    );
    refused(
        &["dump", "run.evp", "-c", "xz"],
        "/usr/bin",
        "the following required arguments were not provided: <--mcf <FORM>|--mls <FORM>>; see `everypath dump --help`",
    );
    refused(
        &[&mcf[..], &["--descriptor-limit", "0"]].concat(),
        "/usr/bin",
        "invalid value '0' for '--descriptor-limit <SIZE>': give a size as 500K, 20M or 2G; see \
         `everypath dump --help`",
    );
}
