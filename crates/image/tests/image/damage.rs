//! Bad input: typed errors, full sentences, no panic.

use crate::common;

use crate::common::{compile, run, scratch, text};
use image::{Fault, FileOffset, Image, ImageError, Selector};

/// Enough changes that every header field is hit many times.
const MUTATIONS: u32 = 20_000;

/// Numbers without a pattern that matters here (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Asks everything of bytes that may be anything.
fn exercise(bytes: Vec<u8>, lines: bool) {
    let size = bytes.len() as u64;
    let Ok(image) = Image::from_bytes(bytes, "damaged".as_ref()) else {
        return;
    };
    let entries = image.func_entries(&Selector::everything());
    for pair in entries.windows(2) {
        assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start);
    }
    if let Some(last) = entries.last() {
        assert!(
            last.end.0 <= size,
            "{last:x?} is outside a file of {size} bytes"
        );
    }
    let middle = entries.get(entries.len() / 2).map(|entry| entry.start);
    if lines {
        for offset in [FileOffset(0), FileOffset(u64::MAX)]
            .into_iter()
            .chain(middle)
        {
            image.symbolize(offset);
        }
        image.line_table();
        let starts: Vec<FileOffset> = entries.iter().map(|entry| entry.start).collect();
        image.declarations(&starts);
        image.scopes();
        image.linker_symbols();
    }
    image.near_names("mian");
}

fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    // Half of the changes go where the structure is: headers at both ends.
    let near_end = bytes.len().saturating_sub(2048);
    for _ in 0..=random.below(4) {
        let at = match random.below(4) {
            0 => random.below(1024),
            1 => near_end + random.below(2048),
            _ => random.below(bytes.len()),
        };
        let value = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6)];
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(random.below(seed.len()));
    }
    bytes
}

#[test]
fn mutated_files_never_panic() {
    let seeds = [
        compile("gcc", &["-nostdlib", "-static"], "bare.s", "mutated-bare"),
        compile("gcc", &["-O2"], "plain.c", "mutated-plain"),
        compile("gcc", &["-O2", "-g", "-s"], "plain.c", "mutated-stripped"),
        compile("g++", &["-O2", "-g"], "shapes.cc", "mutated-shapes"),
    ];
    let seeds = seeds.map(|path| std::fs::read(path).expect("just compiled"));
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..MUTATIONS {
        let seed = &seeds[round as usize % seeds.len()];
        // Lines read all of DWARF; a tenth of the rounds is enough for them.
        exercise(mutate(seed, &mut random), round % 10 < 4);
    }
}

/// Changes are in Go's own table only, whose header is where its magic number is.
#[test]
fn mutated_tables_of_go_never_panic() {
    let path = scratch("mutated-go");
    let source = common::source("small.go");
    run(
        "go",
        &["build", "-ldflags=-s -w", "-o", text(&path), &source],
    );
    let seed = std::fs::read(&path).expect("just built");
    // Quantum 1, words of 8 bytes.
    let header = [0, 0, 1, 8];
    let at = seed
        .windows(8)
        .position(|word| word[1..4] == [0xff; 3] && word[4..] == header);
    let at = at.expect("a table of functions");
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..150 {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(8) {
            let place = at + [random.below(72), random.below(400_000)][random.below(2)];
            bytes[place] = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6)];
        }
        exercise(bytes, true);
    }
}

#[test]
fn every_truncation_of_the_headers_is_survived() {
    let path = compile("gcc", &["-O2"], "plain.c", "truncated");
    let bytes = std::fs::read(path).expect("just compiled");
    for length in (0..2048).chain((2048..bytes.len()).step_by(61)) {
        exercise(bytes[..length].to_vec(), false);
    }
}

#[test]
fn faults_are_told_apart() {
    let path = compile("gcc", &["-O2"], "plain.c", "faulty");
    let good = std::fs::read(path).expect("just compiled");
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Image::parse(&bytes).err()
    };
    assert_eq!(Image::parse(b"").err(), Some(Fault::Empty));
    assert_eq!(Image::parse(b"#!/bin/sh\n").err(), Some(Fault::NotElf));
    assert_eq!(changed(4, 1), Some(Fault::Not64Bit));
    assert_eq!(changed(5, 2), Some(Fault::WrongByteOrder));
    assert_eq!(changed(16, 1), Some(Fault::NotLoadable { kind: 1 }));
    assert_eq!(
        changed(18, 183),
        Some(Fault::ForeignMachine { machine: 183 })
    );
    for length in [10, 100] {
        let fault = Image::parse(&good[..length]).err();
        assert!(matches!(fault, Some(Fault::Truncated { .. })), "{fault:?}");
    }
    let half = Image::parse(&good[..good.len() / 4]).expect("its headers are there");
    assert!(half.missing_bytes() > 0);
}

#[test]
fn errors_are_sentences_with_the_file_in_them() {
    let missing = Image::open("/nonexistent/program").expect_err("no such file");
    assert_eq!(
        missing.to_string(),
        "cannot read '/nonexistent/program': No such file or directory (os error 2)"
    );
    assert!(matches!(missing, ImageError::Unreadable { .. }));
    let script = scratch("script.sh");
    std::fs::write(&script, "#!/bin/sh\n").expect("writable");
    let error = Image::open(&script).expect_err("a script");
    assert_eq!(error.fault(), Some(Fault::NotElf));
    assert!(
        error
            .to_string()
            .contains("script.sh': it is not an ELF file")
    );
}

#[test]
fn an_object_file_is_not_a_program() {
    let object = scratch("plain.o");
    run(
        "gcc",
        &["-c", "-o", text(&object), &common::source("plain.c")],
    );
    let error = Image::open(&object).expect_err("an object file");
    assert_eq!(error.fault(), Some(Fault::NotLoadable { kind: 1 }));
}

#[test]
fn a_device_is_not_read() {
    for path in ["/dev/zero", "/dev"] {
        let error = Image::open(path).expect_err("no file");
        assert!(matches!(error, ImageError::Unreadable { .. }), "{error}");
    }
}
