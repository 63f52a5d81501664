//! Files that older builds wrote are read, with the totals that those builds
//! reported; `recordings/totals.txt` lists them.
//!
//! A new version of the format gets a row in `container::VERSIONS`, the same in
//! docs/formats/evp.md, and a recording here: these tests say what is missing.

use std::fs;
use std::path::{Path, PathBuf};

use trace::container::{VERSION, VERSIONS};
use trace::{Cost, Node, Recording, Thread, read, read_prefix, write};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// File name and bytes of every recording, and its totals as a sentence.
fn recordings() -> Vec<(String, Vec<u8>, String)> {
    let list = fs::read_to_string(folder().join("totals.txt")).unwrap();
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap().to_owned();
            let bytes = fs::read(folder().join(&name)).unwrap();
            assert!(bytes.len() < 20_000, "{name} is too large to be kept");
            let _commit = words.next();
            (name, bytes, words.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// The figure of a sentence like `8 processes, 1,065 calls` whose noun begins
/// with `noun`; 0 if there is none.
fn figure(sentence: &str, noun: &str) -> u64 {
    let parts = sentence.split(", ").filter_map(|part| part.split_once(' '));
    let mut figures = parts.filter(|(_, rest)| rest.starts_with(noun));
    let number = figures.next().map_or("0", |(number, _)| number);
    number.replace(',', "").parse().unwrap()
}

/// Threads, contexts, calls and instructions of a recording.
fn totals(recording: &Recording) -> [u64; 4] {
    let mut totals = [0; 4];
    for thread in recording.processes.iter().flat_map(|p| &p.threads) {
        let called = |node: &&Node| node.label.is_function() && node.count > 0;
        let called = thread.nodes.iter().filter(called);
        totals[0] += 1;
        totals[1] += called.clone().count() as u64;
        totals[2] += called.map(|node| node.count).sum::<u64>();
        totals[3] += thread.insns;
        for costs in &thread.costs {
            assert_eq!(costs.values.len(), thread.nodes.len());
        }
    }
    totals
}

fn sum(values: &[u64]) -> u64 {
    values.iter().sum()
}

#[test]
fn what_older_builds_wrote_is_read() {
    for (name, bytes, sentence) in recordings() {
        let recording = read(bytes.as_slice()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let processes = figure(&sentence, "process");
        assert_eq!(recording.processes.len() as u64, processes, "{name}");
        let nouns = ["thread", "context", "call", "instruction"];
        let mut expected = nouns.map(|noun| figure(&sentence, noun));
        // Of basic blocks.
        expected[2] += figure(&sentence, "execution");
        assert_eq!(totals(&recording), expected, "{name}");
        let of_node = |thread: &Thread| thread.costs_of(Cost::Instructions).map(sum);
        for thread in recording.processes.iter().flat_map(|p| &p.threads) {
            assert!(of_node(thread).is_none_or(|sum| sum == thread.insns));
        }
        // And goes on in the newest version with nothing lost.
        let mut again = Vec::new();
        write(&recording, &mut again).unwrap();
        assert_eq!(read(again.as_slice()).unwrap(), recording, "{name}");
    }
}

/// Damage of an old file is found as that of a new one.
#[test]
fn what_is_left_of_an_older_file_is_read() {
    for (name, bytes, _) in recordings() {
        let whole = read(bytes.as_slice()).unwrap();
        for length in (0..bytes.len()).step_by(97) {
            if let Ok(prefix) = read_prefix(&bytes[..length]) {
                assert!(prefix.lost.is_some(), "{name} cut at {length}");
                assert_eq!(prefix.recording.meta.command, whole.meta.command);
                let kept = totals(&prefix.recording);
                let all = totals(&whole);
                assert!(kept.iter().zip(all).all(|(kept, all)| *kept <= all));
            }
        }
    }
}

/// A version is a row in the code, the same row in the documents, and a file.
#[test]
fn every_version_is_described_and_kept() {
    let mut numbers = Vec::new();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/evp.md");
    let document = fs::read_to_string(document).unwrap();
    for (number, change) in VERSIONS {
        let row = format!("| {number} | {change} |");
        assert!(
            document.lines().any(|line| line == row),
            "evp.md lacks {row}"
        );
        numbers.push(number);
    }
    assert!(numbers.iter().copied().eq(1..=VERSION));
    for (name, bytes, _) in recordings() {
        let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        let (prefix, _) = name.split_once('-').unwrap();
        assert_eq!(prefix, version.to_string(), "{name}");
        numbers.retain(|&number| number != version);
    }
    assert!(numbers.is_empty(), "no recording is of version {numbers:?}");
}

/// The file of version 4 has what that version brought: one instruction in several turns.
#[test]
fn a_fragment_goes_on_where_a_branch_is_taken() {
    let bytes = fs::read(folder().join("4-turns.evp")).unwrap();
    let recording = read(bytes.as_slice()).unwrap();
    let fragments = recording.processes.iter().flat_map(|p| &p.fragments);
    let turns = |fragment: &trace::Fragment| {
        let starts = fragment.pieces.iter().map(|piece| piece.pc);
        let distinct: std::collections::BTreeSet<u64> = starts.clone().collect();
        starts.count() - distinct.len()
    };
    assert!(fragments.map(|fragment| turns(fragment)).max().unwrap() > 3);
}

/// No file is kept that is not tested.
#[test]
fn every_file_is_in_the_list() {
    let listed: Vec<String> = recordings().into_iter().map(|(name, ..)| name).collect();
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "totals.txt" || listed.contains(&name), "{name}");
    }
}
