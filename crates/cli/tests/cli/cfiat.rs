//! First-access descriptors of real programs, against the definition, and back to all loads.

use std::path::Path;

use analysis::cfiat::{Config, Crossing, Replacement};
use analysis::oracle::cfiat::{Access, Definition, Thread};
use analysis::walk::{AccessEvent, Accesses, Pieces, operations, selection};
use testkit::folder::Folder;
use trace::Recording;

use crate::BINARY;

/// Figure 4.42.
const EVICT: &str = "
.intel_syntax noprefix
.globl main
.type main, @function
main: push rbp
mov rbp, rsp
mov ecx, 0
jmp 2f
1: mov eax, ecx
cdqe
mov dword ptr [rbp-48+rax*4], eax
add ecx, 1
2: cmp ecx, 8
jle 1b
leave
ret
.size main, .-main
.section .note.GNU-stack
";

/// Figure 4.44.
const MULTIBLOCK: &str = "
.intel_syntax noprefix
.globl main
.type main, @function
main: push rbp
mov rbp, rsp
and rsp, -32
movabs rax, 0
mov qword ptr [rsp-8], rax
mov qword ptr [rsp-16], rax
mov qword ptr [rsp-24], rax
mov qword ptr [rsp-32], rax
vmovsd xmm0, qword ptr [rsp-8]
vmovsd xmm1, qword ptr [rsp-16]
vunpcklpd xmm1, xmm1, xmm0
vmovsd xmm0, qword ptr [rsp-24]
vmovsd xmm2, qword ptr [rsp-32]
vunpcklpd xmm0, xmm2, xmm0
vinsertf128 ymm0, ymm0, xmm1, 0x1
vmovapd ymmword ptr [rsp-64], ymm0
vmovapd ymm1, ymmword ptr [rsp-64]
mov qword ptr [rsp-96], 1
vmovapd ymm1, ymmword ptr [rsp-64]
leave
ret
.size main, .-main
.section .note.GNU-stack
";

fn said(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, words);
    assert!(output.status.success(), "{words:?} {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Descriptors of the function main, with their instructions, and the statistics of the cache.
fn of_main(folder: &Folder, (name, ends_with): (&str, i32), source: &str) -> (Vec<String>, String) {
    let file = folder.file(&format!("{name}.s"));
    std::fs::write(&file, source).unwrap();
    let status = std::process::Command::new("cc")
        .args(["-no-pie", "-o", name])
        .arg(&file)
        .current_dir(folder.path())
        .status();
    assert!(status.unwrap().success());
    let program = format!("./{name}");
    let words = [
        "trace", "-q", "--cfiat", "all.txt", "--thesis", "--form", "ascii", "--disasm", "--cache",
        "32,2,16", "--funcs", "main", "--", &program,
    ];
    let status = folder.run(BINARY, &words).status.code();
    assert_eq!(status, Some(ends_with));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let lines = read("all.txt");
    let statistics = read("all.Statistics");
    (lines.lines().map(str::to_owned).collect(), statistics)
}

#[test]
fn programs_of_the_thesis() {
    let folder = Folder::new("cfiat-thesis");
    let (lines, statistics) = of_main(&folder, ("evict", 8), EVICT);
    let ends: Vec<(&str, &str)> = lines.iter().map(|line| (&line[..6], &line[24..])).collect();
    assert_eq!(
        ends,
        [("0, 0, ", " leave"), ("0, 0, ", " ret")],
        "{lines:?}"
    );
    // Lines 19 to 37 of figure 4.38, with the accesses of figure 4.43.
    for row in [
        "-- Cache References Hits:Misses (Hit Rate)\n\tTotal 7:5 (58%)\n",
        "\tDoubleword Operands 6:3 (66%)\n\tQuadword Operands 1:2 (33%)\n",
        "-- First Access Flag References Hits:Misses (Hit Rate)\n\tTotal 0:1 (0%)\n",
    ] {
        assert!(statistics.contains(row), "{statistics}");
    }
    let (lines, statistics) = of_main(&folder, ("multiblock", 0), MULTIBLOCK);
    let wide = format!("0, 5, 0x{} vmovapd ymm1, [rsp-0x40]", "0".repeat(64));
    assert_eq!(lines[0], wide);
    assert!(lines[1].ends_with(" leave") && lines[2].ends_with(" ret") && lines.len() == 3);
    let row = "\tHexaword Operands 1:2 (33%)\n";
    assert!(statistics.contains(row), "{statistics}");
    assert!(statistics.contains("\n\tTotal 5:1 (83%)\n"), "{statistics}");
}

fn recording(path: &Path) -> Recording {
    trace::read_prefix(std::fs::File::open(path).unwrap())
        .unwrap()
        .recording
}

/// Binary descriptors of all threads, by the definition.
fn defined(recording: &Recording, config: Config) -> Vec<u8> {
    let selection = selection(recording).unwrap();
    let mut made = Vec::new();
    let threads = recording.processes.iter();
    let threads = threads.flat_map(|process| process.threads.iter().map(move |t| (process, t)));
    for (number, (process, thread)) in threads.enumerate() {
        let (mut definition, mut own) = (Definition::new(config), Thread::default());
        let mut pieces = Pieces::of(process);
        let mut accesses = Accesses::new(&mut pieces, thread, selection);
        while let Some(event) = accesses.next() {
            let AccessEvent::Executed(_, all, bytes) = event.unwrap() else {
                continue;
            };
            operations(all, |operation| {
                let access = Access {
                    is_store: operation.is_store,
                    address: operation.address,
                    size: operation.size,
                    value: operation.value.map(|value| bytes.of(value).to_vec()),
                };
                definition.access(&mut own, &access);
            });
        }
        for (hits, value) in own.descriptors {
            made.push(number as u8);
            made.extend(hits.to_le_bytes());
            made.push(value.len() as u8);
            made.extend(value);
        }
    }
    made
}

/// Numbers of a line of `--decode`: loads, descriptors, and how many are wrong.
fn decoded(line: &str) -> [u64; 3] {
    let words = line.split_whitespace().map(|word| word.replace(',', ""));
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    [numbers[0], numbers[1], numbers[2]]
}

/// Compares, and gives the number of threads.
fn against_the_definition(name: &str, program: &[&str]) -> usize {
    let folder = Folder::new(name);
    let words = [
        &["trace", "-q", "-o", "run.evp", "--memory", "values", "--"],
        program,
    ];
    assert!(folder.run(BINARY, &words.concat()).status.success());
    let recording = recording(&folder.file("run.evp"));
    let usual = Config {
        size: 32 << 10,
        ways: 4,
        line: 32,
        granule: 4,
        replacement: Replacement::RoundRobin,
        crossing: Crossing::First,
        coherent: false,
    };
    let other = Config {
        size: 4096,
        ways: 8,
        line: 64,
        granule: 1,
        replacement: Replacement::Lru,
        crossing: Crossing::All,
        coherent: true,
    };
    let options = [
        "--cache",
        "4K,8,64",
        "--granule",
        "1",
        "--replacement",
        "lru",
        "--crossing",
        "all",
        "--coherent",
    ];
    let mut alone = 0;
    for (config, options) in [(usual, &[][..]), (other, &options)] {
        let words = [&["cfiat", "run.evp", "-o", "run.cfiat"], options].concat();
        said(&folder, &words);
        let made = std::fs::read(folder.file("run.cfiat")).unwrap();
        assert!(made == defined(&recording, config), "{config:?}");
        let line = said(
            &folder,
            &["cfiat", "run.evp", "--decode", "run.cfiat", "-o", "all.mls"],
        );
        let [loads, descriptors, wrong] = decoded(&line);
        alone = loads;
        // A third of python3's loads have descriptors in the small cache.
        let least = if config.size == usual.size { 3 } else { 2 };
        assert!(loads > least * descriptors, "{line}");
        assert_eq!(wrong == 0, config.coherent, "{line}");
        // A load takes 18 bytes and its value.
        let len = std::fs::metadata(folder.file("all.mls")).unwrap().len();
        assert!(len > 19 * loads, "{len} {line}");
    }
    // All threads with one cache.
    let shared = ["--cache-shared", "--coherent", "-o", "run.cfiat"];
    said(&folder, &[&["cfiat", "run.evp"], &shared[..]].concat());
    let words = [
        "cfiat",
        "run.evp",
        "--cache-shared",
        "--decode",
        "run.cfiat",
    ];
    let [loads, _, wrong] = decoded(&said(&folder, &words));
    assert_eq!((loads, wrong), (alone, 0));
    let threads = recording.processes.iter().map(|one| one.threads.len());
    threads.sum()
}

#[test]
fn descriptors_are_those_of_the_definition() {
    against_the_definition("cfiat-ls", &["ls", "-l", "/usr"]);
}

#[test]
fn descriptors_of_threads_are_those_of_the_definition() {
    let folder = Folder::new("cfiat-blocks");
    let file = folder.file("numbers");
    let numbers = (0..500).map(|number| format!("{number}\n"));
    std::fs::write(&file, numbers.collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    let program = ["xz", "-0kc", "-T2", "--block-size=1KiB", file];
    let threads = against_the_definition("cfiat-xz", &program);
    assert!(threads >= 3, "{threads}");
}

#[test]
#[ignore = "takes a minute; `cargo xtask wide` runs it"]
fn descriptors_of_large_programs_are_those_of_the_definition() {
    let python = ["python3", "-S", "-c", "print(sum(range(9999)))"];
    against_the_definition("cfiat-python3", &python);
    let text = "create table t(a); insert into t values(1),(2); select sum(a) from t";
    against_the_definition("cfiat-sqlite3", &["sqlite3", ":memory:", text]);
}

#[test]
fn live_descriptors_are_those_of_the_trace() {
    let folder = Folder::new("cfiat-live");
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--cfiat",
        "live",
        "--granule",
        "2",
        "--cache",
        "8K,2,64",
        "--",
        "sh",
        "-c",
        "ls / | sort >/dev/null",
    ];
    said(&folder, &words);
    let words = [
        "cfiat",
        "run.evp",
        "-o",
        "read",
        "--granule",
        "2",
        "--cache",
        "8K,2,64",
    ];
    let summary = said(&folder, &words);
    let read = |name: &str| std::fs::read(folder.file(name)).unwrap();
    assert!(!read("live").is_empty() && read("live") == read("read"));
    let all = summary.lines().last().unwrap();
    assert!(all.trim_start().starts_with("all "), "{summary}");
    let bytes = all.split_whitespace().nth(7).unwrap().replace(',', "");
    assert_eq!(bytes, read("read").len().to_string());
}

#[test]
fn what_is_no_cache_or_does_not_fit_is_refused() {
    let folder = Folder::new("cfiat-refused");
    for (file, memory) in [("run.evp", "values"), ("addresses.evp", "addresses")] {
        let words = ["trace", "-q", "-o", file, "--memory", memory, "--", "true"];
        said(&folder, &words);
    }
    said(&folder, &["trace", "-q", "-o", "none.evp", "--", "true"]);
    said(&folder, &["cfiat", "run.evp", "-o", "good"]);
    let good = std::fs::read(folder.file("good")).unwrap();
    std::fs::write(folder.file("cut"), &good[..good.len() - 1]).unwrap();
    let mut other = good.clone();
    other[1..5].fill(0xff);
    std::fs::write(folder.file("other"), &other).unwrap();
    for (words, status, why) in [
        (
            &["run.evp", "--cache", "3K,4,32"][..],
            125,
            "give a power of two",
        ),
        (
            &["run.evp", "--cache", "1K,4,512"],
            125,
            "in which one set has place",
        ),
        (&["run.evp", "--cache", "64K,1,4K"], 125, "as 32K,4,32"),
        (
            &["run.evp", "--cache", "1G,1,1", "--granule", "1"],
            125,
            "give larger lines",
        ),
        (
            &["run.evp", "--cache", "64K,1,4096", "--granule", "1"],
            125,
            "give 1 to 64 flags",
        ),
        (&["run.evp", "--disasm"], 125, "required"),
        (
            &["run.evp", "--decode", "good", "--coherent"],
            125,
            "cannot be used",
        ),
        (
            &["run.evp", "--decode", "absent"],
            125,
            "cannot read 'absent'",
        ),
        (&["addresses.evp"], 125, "record it with --memory values"),
        (&["none.evp"], 125, "record it with --memory values"),
        (
            &["run.evp", "--decode", "cut"],
            1,
            "the descriptors end within one",
        ),
        (
            &["run.evp", "--decode", "other"],
            1,
            "the descriptors do not fit",
        ),
    ] {
        let output = folder.run(BINARY, &[&["cfiat"], words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?} {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{words:?} {said}"
        );
    }
}
