//! Branches of traces as users see them: descriptors of mcfTrace against what the text of
//! `dump` says, and statistics against `everypath count`.

use std::path::Path;

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

/// Standard output of a command that must succeed.
#[track_caller]
fn printed(folder: &Folder, arguments: &[&str]) -> Vec<u8> {
    let output = folder.run(BINARY, arguments);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A recording of a program without address randomisation.
fn record(folder: &Folder, mode: &str, name: &str, program: &[&str]) {
    let head = ["-R", BINARY, mode, "-q", "-o", name, "--"];
    let output = folder.run("setarch", &[&head[..], program].concat());
    assert!(output.status.success(), "{output:?}");
}

/// A trace of 37 instructions that every version of the format has to read.
fn small(folder: &Folder) {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/recordings/5-trace.evp");
    std::fs::copy(source, folder.file("small.evp")).unwrap();
}

#[test]
fn descriptors_of_a_small_program() {
    let folder = Folder::new("mcf-golden");
    small(&folder);
    let ascii = printed(
        &folder,
        &["dump", "small.evp", "--mcf", "ascii", "--disasm"],
    );
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mcf.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, &ascii).unwrap();
    }
    assert_eq!(
        String::from_utf8(ascii).unwrap(),
        std::fs::read_to_string(golden).unwrap()
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    thread: u8,
    pc: u64,
    target: u64,
    kind: u8,
}

fn binary(bytes: &[u8]) -> Vec<Descriptor> {
    assert_eq!(bytes.len() % 18, 0);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let read = |bytes: &[u8]| Descriptor {
        thread: bytes[0],
        pc: word(&bytes[1..9]),
        target: word(&bytes[9..17]),
        kind: bytes[17],
    };
    bytes.chunks_exact(18).map(read).collect()
}

fn ascii(text: &str) -> Vec<Descriptor> {
    let read = |line: &str| {
        let (thread, rest) = line.split_once(", 0x").unwrap();
        let (pc, rest) = rest.split_once(", 0x").unwrap();
        let (target, kind) = rest.split_once(", ").unwrap();
        assert_eq!((pc.len(), target.len()), (16, 16), "{line}");
        let kinds = ["U, I, T", "U, D, T", "C, D, T", "C, D, NT"];
        Descriptor {
            thread: thread.parse().unwrap(),
            pc: u64::from_str_radix(pc, 16).unwrap(),
            target: u64::from_str_radix(target, 16).unwrap(),
            kind: kinds.iter().position(|name| *name == kind).unwrap() as u8,
        }
    };
    text.lines().map(read).collect()
}

/// Branches by the text of `dump` of its one thread. One fact is not in the text:
/// whether a branch to the next instruction was taken (4).
fn derived(text: &str) -> Vec<Descriptor> {
    let lines: Vec<(u64, &str)> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (head, insn) = line.rsplit_once("  ").unwrap();
            let pc = head.split_whitespace().nth(1).unwrap();
            (u64::from_str_radix(pc, 16).unwrap(), insn.trim_start())
        })
        .collect();
    let mut all = Vec::new();
    for (at, &(pc, insn)) in lines.iter().enumerate() {
        let prefixes = ["notrack", "bnd", "rep", "repne"];
        let mut words = insn
            .split_whitespace()
            .skip_while(|word| prefixes.contains(word));
        let mnemonic = words.next().unwrap();
        let is_conditional =
            mnemonic != "jmp" && mnemonic.starts_with('j') || mnemonic.starts_with("loop");
        if !is_conditional && !["jmp", "call", "ret"].contains(&mnemonic) {
            continue;
        }
        let distance = words.next().unwrap_or_default();
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let direct = match distance.split_at_checked(1) {
            Some(("+", far)) => Some(pc.wrapping_add(number(far))),
            Some(("-", far)) => Some(pc.wrapping_sub(number(far))),
            _ => None,
        };
        let Some(&(next, _)) = lines.get(at + 1) else {
            break;
        };
        let kind = match direct {
            None => 0,
            Some(_) if !is_conditional => 1,
            Some(target) if target == next && next > pc && next - pc <= 6 => 4,
            Some(target) if target == next => 2,
            Some(_) => 3,
        };
        all.push(Descriptor {
            thread: 0,
            pc,
            target: direct.unwrap_or(next),
            kind,
        });
    }
    all
}

#[test]
fn descriptors_are_what_the_instructions_say() {
    let folder = Folder::new("mcf-gcc");
    record(&folder, "trace", "run.evp", &["/usr/bin/gcc", "--version"]);
    let text = String::from_utf8(printed(&folder, &["dump", "run.evp"])).unwrap();
    let expected = derived(&text);
    assert!(expected.len() > 150_000);
    let bytes = printed(&folder, &["dump", "run.evp", "--mcf", "binary"]);
    let ours = binary(&bytes);
    assert_eq!(ours.len(), expected.len());
    for (at, (ours, expected)) in ours.iter().zip(&expected).enumerate() {
        let same = ours == expected
            || expected.kind == 4 && (ours.pc, ours.target) == (expected.pc, expected.target);
        assert!(same, "descriptor {at}: {ours:x?}, expected {expected:x?}");
    }
    printed(
        &folder,
        &["dump", "run.evp", "--mcf", "ascii", "-o", "run.mcf"],
    );
    let lines = std::fs::read_to_string(folder.file("run.mcf")).unwrap();
    assert!(ascii(&lines) == ours, "ASCII is not what is in binary");
    // Part of it: those of the instructions of that number.
    let some = printed(
        &folder,
        &[
            "dump",
            "run.evp",
            "--mcf",
            "binary",
            "--range",
            "1000..1999",
        ],
    );
    let range = printed(&folder, &["dump", "run.evp", "--range", "1000..2000"]);
    let of_range = derived(&String::from_utf8(range).unwrap());
    assert_eq!(binary(&some).len(), of_range.len());
}

#[test]
fn statistics_add_up_to_what_is_counted() {
    let folder = Folder::new("stats-gcc");
    let program = ["/usr/bin/gcc", "--version"];
    record(&folder, "trace", "trace.evp", &program);
    record(&folder, "count", "count.evp", &program);
    let count = trace::read(std::fs::File::open(folder.file("count.evp")).unwrap()).unwrap();
    let threads = count.processes.iter().flat_map(|process| &process.threads);
    let insns: u64 = threads.map(|thread| thread.insns).sum();
    let json = printed(&folder, &["stats", "trace.evp", "--format", "json"]);
    let stats: Value = serde_json::from_slice(&json).unwrap();
    let total = &stats["total"];
    assert_eq!(total["instructions"], insns);
    let mut classes = [0u64; 4];
    for descriptor in binary(&printed(&folder, &["dump", "trace.evp", "--mcf", "binary"])) {
        classes[usize::from(descriptor.kind)] += 1;
    }
    assert_eq!(total["branches"], classes.iter().sum::<u64>());
    assert_eq!(total["unconditional_indirect"], classes[0]);
    assert_eq!(total["unconditional_direct"], classes[1]);
    assert_eq!(total["conditional_taken"], classes[2]);
    assert_eq!(total["conditional_not_taken"], classes[3]);
    let blocks: u64 = total["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap())
        .sum();
    assert_eq!(blocks, total["branches"]);
    // As mcfTrace has them.
    let text = printed(&folder, &["stats", "trace.evp", "--format", "mcf"]);
    let text = String::from_utf8(text).unwrap();
    let share = classes[1] as f64 * 100.0 / classes.iter().sum::<u64>() as f64;
    let line = format!("\t{} ( %{share:.2} ) Unconditional Direct\n", classes[1]);
    assert!(text.contains(&line), "{text}");
    assert!(text.starts_with(&format!("mcfTrace: Traced {insns} instructions\n")));
}

/// Every figure, by hand from the golden of the descriptors.
#[test]
fn statistics_of_a_small_program() {
    let folder = Folder::new("stats-golden");
    small(&folder);
    let text = printed(&folder, &["stats", "small.evp"]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stats.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(
        String::from_utf8(text).unwrap(),
        std::fs::read_to_string(golden).unwrap()
    );
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let folder = Folder::new("mcf-refused");
    small(&folder);
    let refused = |arguments: &[&str], sentence: &str| {
        let output = folder.run(BINARY, arguments);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr, format!("everypath: {sentence}\n"));
    };
    refused(
        &["dump", "small.evp", "--mcf", "binary", "--disasm"],
        "binary descriptors have no place for instructions; use --mcf ascii",
    );
    refused(
        &["stats", "small.evp", "--thread", "1"],
        "'small.evp': there is no thread 1; `everypath verify` lists them",
    );
    refused(
        &["stats", "absent.evp"],
        "cannot read 'absent.evp': no such file or directory",
    );
}
