//! Every fuzz target is built, and gets some inputs: whole files, and ones that are cut or have other bytes.

#![allow(
    unused_attributes,
    reason = "elsewhere they are crates of their own, without a main function"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use placement::dictionary::{File, Function, Site, encode};

#[path = "../../../fuzz/fuzz_targets/contexts.rs"]
mod contexts;
#[path = "../../../fuzz/fuzz_targets/flow.rs"]
mod flow_target;
#[path = "../../../fuzz/fuzz_targets/image_parse.rs"]
mod image_parse;
#[path = "../../../fuzz/fuzz_targets/rewrite.rs"]
mod rewrite_target;
#[path = "../../../fuzz/fuzz_targets/trace_chunks.rs"]
mod trace_chunks;
#[path = "../../../fuzz/fuzz_targets/trace_index.rs"]
mod trace_index;
#[path = "../../../fuzz/fuzz_targets/trace_read.rs"]
mod trace_read;
#[path = "../../../fuzz/fuzz_targets/trace_walk.rs"]
mod trace_walk;

type Target = fn(&[u8]);

/// Targets by the names of their files.
const TARGETS: [(&str, Target); 8] = [
    ("contexts", contexts::target),
    ("flow", flow_target::target),
    ("image_parse", image_parse::target),
    ("rewrite", rewrite_target::target),
    ("trace_chunks", trace_chunks::target),
    ("trace_index", trace_index::target),
    ("trace_read", trace_read::target),
    ("trace_walk", trace_walk::target),
];

/// Inputs of each kind.
const CUTS: usize = 4;
const CHANGES: usize = 10;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A small program, and the smallest recordings of the tree.
fn whole() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("fuzzed.c"), folder.join("fuzzed"));
    fs::write(
        &source,
        "int main(int n, char **v) { return n > 2 ? v[1][0] : n; }",
    )
    .unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler
        .args(["-O1", "-o"])
        .args([&program, &source])
        .status();
    assert!(status.expect("cc is installed").success());
    let recordings = fs::read_dir(tree().join("crates/trace/tests/recordings")).unwrap();
    let mut files: Vec<PathBuf> = recordings.map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|path| fs::metadata(path).unwrap().len());
    files.truncate(3);
    files.push(program);
    let read = files.iter().map(|path| fs::read(path).unwrap());
    read.chain([contexts()]).collect()
}

/// Input of the target `contexts`: a dictionary of two functions, one of which calls the other, and events of calls.
fn contexts() -> Vec<u8> {
    let function = |entry, name: &str| Function {
        entry,
        name: name.to_owned(),
        is_moved: true,
        ranges: vec![(entry, 16)],
        ..Function::default()
    };
    let file = File {
        original: "/bin/program".to_owned(),
        name: "program".to_owned(),
        most: 1 << 31,
        functions: vec![function(0x1000, "main"), function(0x2000, "called")],
        sites: vec![Site {
            at: 0x1004,
            ..Site::default()
        }],
        edges: vec![(0, 1, 0)],
        ..File::default()
    };
    let kept = encode(&[file]);
    let length = kept.len() as u32;
    let mut input = [&length.to_le_bytes()[..], &kept].concat();
    for entry in [0x1000u64, 0x2000, 0x2000] {
        // Nine words, of a call with the top record at the bottom.
        let head = entry | (8 * 9) << 48;
        let words = [head, 1, 0, 0x1004 << 32 | 8, 8, 0, 4160, 0, 0];
        input.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    input.extend(b"everypath:");
    input
}

/// A number of the same sequence in every run (xorshift64).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize
}

#[test]
fn all_targets_take_any_bytes() {
    let whole = whole();
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut inputs = vec![Vec::new(), vec![0; 4096]];
    for bytes in &whole {
        inputs.push(bytes.clone());
        for cut in 1..CUTS {
            inputs.push(bytes[..bytes.len() * cut / CUTS].to_vec());
        }
        for _ in 0..CHANGES {
            let mut changed = bytes.clone();
            for _ in 0..3 {
                let at = next(&mut state) % changed.len();
                changed[at] = next(&mut state) as u8;
            }
            inputs.push(changed);
        }
    }
    for (_, target) in TARGETS {
        inputs.iter().for_each(|input| target(input));
    }
}

#[test]
fn no_target_is_left_out() {
    let files = fs::read_dir(tree().join("fuzz/fuzz_targets")).unwrap();
    let mut names: Vec<String> = files
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, TARGETS.map(|(name, _)| name));
    let manifest = fs::read_to_string(tree().join("fuzz/Cargo.toml")).unwrap();
    for name in names {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name}"
        );
    }
}
