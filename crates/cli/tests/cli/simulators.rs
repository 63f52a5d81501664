//! Traces for simulators: read as simulators read them, they give back the accesses that `dump --accesses`
//! shows.

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

fn said(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, words);
    assert!(output.status.success(), "{words:?} {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// A load or a store, with its value if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access {
    is_store: bool,
    address: u64,
    size: u64,
    value: Option<Vec<u8>>,
}

/// Instructions, by address, with their accesses: loads, then stores, repetition by repetition.
fn shown(folder: &Folder, file: &str) -> Vec<(u64, Vec<Access>)> {
    let mut insns: Vec<(u64, Vec<Access>)> = Vec::new();
    let mut own: Vec<(u64, bool, Access)> = Vec::new();
    let text = said(folder, &["dump", file, "--accesses"]);
    // Up to 8 bytes are a number, more are in the order of memory.
    let value = |text: &str| {
        let bytes = (0..text.len() / 2).map(|at| hex(&text[2 * at..2 * at + 2]) as u8);
        match text {
            "?" => None,
            _ if text.len() > 16 => Some(bytes.collect()),
            _ => Some(bytes.rev().collect()),
        }
    };
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .chain(["end 0"])
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [kind @ ("R" | "W" | "RW"), size, address, ref rest @ ..] = words[..] {
            let place = |word: &str| rest.iter().position(|one| *one == word);
            let times = place("times").map_or(1, |at| rest[at - 1].parse().unwrap());
            let first = place("=").map_or("?", |at| rest[at + 1]);
            let last = place("->").map_or(first, |at| rest[at + 1]);
            let size: u64 = size.parse().unwrap();
            for at in 0..times {
                for (letter, text) in [('R', first), ('W', last)] {
                    if kind.contains(letter) && size > 0 {
                        let access = Access {
                            is_store: letter == 'W',
                            address: hex(address) + at * size,
                            size,
                            value: value(text).filter(|_| !text.is_empty()),
                        };
                        own.push((at, letter == 'W', access));
                    }
                }
            }
            continue;
        }
        own.sort_by_key(|(at, is_store, _)| (*at, *is_store));
        if let Some((_, last)) = insns.last_mut() {
            last.extend(own.drain(..).map(|(_, _, access)| access));
        }
        if words[0] != "end" {
            insns.push((hex(words[1]), Vec::new()));
        }
    }
    insns
}

fn traced(name: &str) -> Folder {
    let folder = Folder::new(name);
    let words = [
        "trace", "-q", "-o", "run.evp", "--memory", "values", "--", "ls", "/",
    ];
    said(&folder, &words);
    folder
}

#[test]
fn text_has_all_accesses() {
    let folder = traced("simulators-text");
    let insns = shown(&folder, "run.evp");
    said(&folder, &["dump", "run.evp", "--din", "run.din", "--order"]);
    said(&folder, &["dump", "run.evp", "--ramulator", "run.ram"]);
    let text = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap();
    // The first two fields are what Dinero IV reads.
    let din = text("run.din");
    let din = din.lines().map(|line| {
        let mut fields = line.split(' ');
        let kind: u8 = fields.next().unwrap().parse().unwrap();
        (kind, hex(fields.next().unwrap()))
    });
    let expected = insns.iter().flat_map(|(pc, accesses)| {
        let data = accesses.iter();
        let data = data.map(|one| (u8::from(one.is_store), one.address));
        [(2, *pc)].into_iter().chain(data)
    });
    assert!(din.eq(expected));
    let ramulator = text("run.ram");
    let ramulator = ramulator.lines().map(|line| {
        let (kind, address) = line.split_once(" 0x").unwrap();
        (kind == "ST", hex(address))
    });
    let expected = insns.iter().flat_map(|(_, all)| all);
    assert!(ramulator.eq(expected.map(|one| (one.is_store, one.address))));
    // A range is of instructions.
    said(
        &folder,
        &["dump", "run.evp", "--din", "some.din", "--range", "11..20"],
    );
    let some = text("some.din");
    let fetches = some.lines().filter_map(|line| line.strip_prefix("2 "));
    let fetches = fetches.map(|rest| hex(rest.split(' ').next().unwrap()));
    assert!(fetches.eq(insns[10..20].iter().map(|(pc, _)| *pc)));
}

/// The kinds of branches that ChampSim makes of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    DirectJump,
    Indirect,
    Conditional,
    DirectCall,
    IndirectCall,
    Return,
    Other,
    None,
}

/// As `inc/instruction.h` of ChampSim has it.
fn kind(record: &[u8]) -> Kind {
    let destinations: Vec<u8> = record[10..12]
        .iter()
        .copied()
        .filter(|&one| one != 0)
        .collect();
    let sources: Vec<u8> = record[12..16]
        .iter()
        .copied()
        .filter(|&one| one != 0)
        .collect();
    let (sp, flags, ip) = (6, 25, 26);
    let (reads, writes) = (
        |one: u8| sources.contains(&one),
        |one: u8| destinations.contains(&one),
    );
    let reads_other = sources.iter().any(|&one| ![sp, flags, ip].contains(&one));
    match () {
        () if !writes(ip) => Kind::None,
        () if !reads(sp) && !reads(flags) && !reads_other => Kind::DirectJump,
        () if !reads(sp) && !reads(ip) && !reads(flags) && reads_other => Kind::Indirect,
        () if !reads(sp) && reads(ip) && !writes(sp) && (reads(flags) || reads_other) => {
            Kind::Conditional
        }
        () if reads(sp) && reads(ip) && writes(sp) && !reads(flags) && !reads_other => {
            Kind::DirectCall
        }
        () if reads(sp) && reads(ip) && writes(sp) && !reads(flags) => Kind::IndirectCall,
        () if reads(sp) && !reads(ip) && writes(sp) => Kind::Return,
        () => Kind::Other,
    }
}

#[test]
fn champsim_reads_all_accesses_and_branches() {
    let folder = traced("simulators-champsim");
    let insns = shown(&folder, "run.evp");
    said(&folder, &["dump", "run.evp", "--champsim", "traces"]);
    let files = std::fs::read_dir(folder.file("traces")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let [records, values] = &files[..] else {
        panic!("{files:?}");
    };
    let (records, values) = (
        std::fs::read(records).unwrap(),
        std::fs::read(values).unwrap(),
    );
    assert!(records.len().is_multiple_of(64));
    let mut values = &values[..];
    let mut records = records.chunks_exact(64).peekable();
    let mut kinds: Vec<(Kind, bool)> = Vec::new();
    for (pc, accesses) in &insns {
        let mut found = Vec::new();
        while found.is_empty() || found.len() < accesses.len() {
            let record = records
                .next()
                .unwrap_or_else(|| panic!("no record of {pc:#x}"));
            let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            assert_eq!(number(0), *pc);
            let kind = kind(record);
            assert_eq!(record[8] != 0, kind != Kind::None);
            kinds.push((kind, record[9] != 0));
            let slots = [(32..64, false), (16..32, true)];
            for (places, is_store) in slots {
                let addresses: Vec<u64> = places.step_by(8).map(number).collect();
                let used = addresses
                    .iter()
                    .take_while(|&&address| address != 0)
                    .count();
                assert!(addresses[used..].iter().all(|&address| address == 0));
                for &address in &addresses[..used] {
                    let [size, is_known, rest @ ..] = values else {
                        panic!("no value of {address:#x}");
                    };
                    let (value, rest) = rest.split_at(usize::from(*size));
                    values = rest;
                    found.push(Access {
                        is_store,
                        address,
                        size: u64::from(*size),
                        value: (*is_known != 0).then(|| value.to_vec()),
                    });
                }
            }
            if accesses.is_empty() {
                break;
            }
        }
        assert_eq!(found, *accesses, "{pc:#x}");
    }
    assert!(records.next().is_none() && values.is_empty());
    let stats: Value =
        serde_json::from_str(&said(&folder, &["stats", "run.evp", "--format", "json"])).unwrap();
    let number = |name: &str| stats["total"][name].as_u64().unwrap();
    let count =
        |wanted: &[(Kind, bool)]| kinds.iter().filter(|one| wanted.contains(one)).count() as u64;
    assert_eq!(
        count(&[(Kind::Conditional, true)]),
        number("conditional_taken")
    );
    assert_eq!(
        count(&[(Kind::Conditional, false)]),
        number("conditional_not_taken")
    );
    assert_eq!(
        count(&[(Kind::DirectJump, true), (Kind::DirectCall, true)]),
        number("unconditional_direct")
    );
    let indirect = [
        (Kind::Indirect, true),
        (Kind::IndirectCall, true),
        (Kind::Return, true),
    ];
    assert_eq!(count(&indirect), number("unconditional_indirect"));
    assert_eq!(count(&[(Kind::Other, true), (Kind::Other, false)]), 0);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let folder = Folder::new("simulators-refused");
    said(&folder, &["trace", "-q", "-o", "none.evp", "--", "true"]);
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--memory",
        "addresses",
        "--",
        "true",
    ];
    said(&folder, &words);
    std::fs::create_dir(folder.file("full")).unwrap();
    std::fs::write(folder.file("full/x"), "x").unwrap();
    for (words, why) in [
        (
            &["none.evp", "--din", "x"][..],
            "record it with --memory addresses",
        ),
        (
            &["none.evp", "--champsim", "x"],
            "record it with --memory addresses",
        ),
        (&["run.evp", "--champsim", "full"], "is not empty"),
        (&["run.evp", "--din", "no/x"], "cannot write 'no/x'"),
        (
            &["run.evp", "--din", "x", "--ramulator", "y"],
            "cannot be used",
        ),
        (
            &["run.evp", "--champsim", "x", "--mcf", "ascii"],
            "cannot be used",
        ),
        (&["run.evp", "--champsim", "x", "--order"], "cannot be used"),
    ] {
        let output = folder.run(BINARY, &[&["dump"], words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?} {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{words:?} {said}"
        );
    }
    // Without values there is no file of them.
    said(&folder, &["dump", "run.evp", "--champsim", "traces"]);
    assert_eq!(std::fs::read_dir(folder.file("traces")).unwrap().count(), 1);
}
