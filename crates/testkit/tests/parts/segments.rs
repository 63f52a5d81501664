//! Every form of an instruction that addresses memory through a segment, under each
//! segment prefix, natively and in several modes.
//!
//! Problem: gs is the engine's, so each form with an override of gs is translated, and
//! there are two thousand, with operands named, implied and by vectors.
//!
//! Approach: all opcodes of all maps are decoded with an override of gs; one encoding is
//! kept of each form that then accesses memory by it. `tests/segments/forms.c` executes
//! them, and its native run is the oracle. What this machine does not have faults, in
//! both.
//!
//! Limits: one ModRM byte and one set of registers for each form. Branches are left
//! out, they need something to go to.

use std::collections::BTreeMap;
use std::fmt::Write;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    Register,
};
use testkit::{build, jobs, mode, program, suite};

/// Modes whose emitted code, or whose ways into the middle of it, differ.
const MODES: &[&str] = &["run", "run chaos 3", "count", "contexts", "trace"];

/// Fewer than these would mean that the search does not find them any more.
const LEAST: usize = 2000;

pub fn run() -> Result<(), String> {
    let repository = program::repository();
    let cache = build::cache_directory();
    let product = mode::product(&repository).map_err(|error| error.to_string())?;
    let forms = forms();
    assert!(forms.len() >= LEAST, "{} forms", forms.len());
    let mut table = String::new();
    for (name, bytes) in &forms {
        for byte in bytes {
            write!(table, "{byte:02x}").expect("a string takes all");
        }
        writeln!(table, " {name}").expect("a string takes all");
    }
    std::fs::create_dir_all(&cache).map_err(|error| error.to_string())?;
    let file = cache.join(format!("segments-{}", std::process::id()));
    std::fs::write(&file, table).map_err(|error| error.to_string())?;
    let found = program::discover(&repository.join("tests/segments"));
    let mut programs = found.map_err(|error| error.to_string())?;
    for program in &mut programs {
        program.directives.args = vec![file.to_string_lossy().into_owned()];
    }
    // A job for each mode, so that all cores have one; what they share is built before.
    let mut pairs = Vec::new();
    for program in &programs {
        build::ready(program, &cache)?;
        pairs.extend(mode::named(MODES).into_iter().map(|mode| (program, mode)));
    }
    let result = jobs::run(
        &pairs,
        "runs of forms with a segment",
        0,
        |(program, mode)| format!("{} {}", program.name, mode.name),
        |(program, mode)| suite::check(program, &cache, &product, &[*mode]),
    );
    // It stays where the run failed, to be looked at.
    if result.is_ok() {
        std::fs::remove_file(&file).map_err(|error| error.to_string())?;
    }
    result
}

/// An encoding of each form, by its name.
fn forms() -> BTreeMap<String, Vec<u8>> {
    let mut forms = BTreeMap::new();
    let mut factory = InstructionInfoFactory::new();
    let mut consider = |bytes: &[u8]| {
        let prefixed = [&[0x65], bytes].concat();
        let mut decoder = Decoder::with_ip(64, &prefixed, 0x1000, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let len = instruction.len();
        if instruction.is_invalid() || !is_wanted(&instruction) {
            return;
        }
        let used = factory.info(&instruction).used_memory();
        if used.iter().any(|memory| memory.segment() == Register::GS) {
            let name = name(&instruction);
            forms
                .entry(name)
                .or_insert_with(|| bytes[..len - 1].to_vec());
        }
    };
    legacy(&mut consider);
    vex_and_xop(&mut consider);
    evex(&mut consider);
    forms
}

/// Repeated and 32-bit addresses are forms of their own.
fn name(instruction: &Instruction) -> String {
    let mut name = format!("{:?}", instruction.code());
    let prefixes = [
        (instruction.has_rep_prefix(), "_rep"),
        (instruction.has_repne_prefix(), "_repne"),
    ];
    for (_, prefix) in prefixes.iter().filter(|(has, _)| *has) {
        name.push_str(prefix);
    }
    name
}

fn is_wanted(instruction: &Instruction) -> bool {
    let stays = matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::XbeginXabortXend
    );
    // What they write depends on what was written before, and from where.
    let depends = matches!(
        instruction.mnemonic(),
        Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64
    );
    // A limit: it raises SIGILL (docs/limits.md).
    let is_refused = instruction.mnemonic() == Mnemonic::Lgs;
    // Prefetches and long nops say they read.
    stays && !depends && !is_refused && instruction.code() != Code::INVALID
}

/// ModRM, SIB and displacement: `[rdi+0x40]`, and `[rdi+index*1+0x40]` with the first
/// register for vectors of indices. The middle field is a register, or more opcode.
fn operands(mut consider: impl FnMut(&[u8])) {
    for middle in [3u8, 0, 1, 2, 4, 5, 6, 7] {
        consider(&[0x47 | middle << 3, 0x40, 0, 0, 0, 0, 0, 0, 0]);
        consider(&[0x44 | middle << 3, 0x0F, 0x40, 0, 0, 0, 0, 0, 0]);
    }
}

fn legacy(consider: &mut impl FnMut(&[u8])) {
    let maps: [&[u8]; 4] = [&[], &[0x0F], &[0x0F, 0x38], &[0x0F, 0x3A]];
    let prefixes: [&[u8]; 6] = [&[], &[0x66], &[0xF3], &[0xF2], &[0x66, 0xF3], &[0x66, 0xF2]];
    for map in maps {
        for prefix in prefixes {
            for rex in [&[][..], &[0x48]] {
                for opcode in 0..=255 {
                    let is_prefix = map.is_empty() && is_prefix(opcode);
                    // Absolute addresses, eight bytes, within the area.
                    if map.is_empty() && (0xA0..=0xA3).contains(&opcode) {
                        let address = [0x40, 0x04, 0x00, 0x20, 0, 0, 0, 0];
                        consider(&[prefix, rex, &[opcode], &address].concat());
                    } else if !is_prefix {
                        operands(|rest| consider(&[prefix, rex, map, &[opcode], rest].concat()));
                    }
                }
            }
        }
    }
}

/// Bytes of the one-byte map that only change what follows.
fn is_prefix(opcode: u8) -> bool {
    matches!(
        opcode,
        0x0F | 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x62 | 0x64..=0x67 | 0xC4 | 0xC5 | 0xF0 | 0xF2 | 0xF3
    )
}

/// With the second vector register where there are three.
fn vex_and_xop(consider: &mut impl FnMut(&[u8])) {
    for (first, maps) in [(0xC4, 1..=3), (0x8F, 8..=10)] {
        for map in maps {
            for last in 0..16u8 {
                // W, vvvv, L, pp; without a third register vvvv is all ones.
                let (wide, rest) = (last >> 3, last & 7);
                for third in [0x68, 0x78] {
                    let bytes = [first, 0xE0 | map, wide << 7 | third | rest];
                    for opcode in 0..=255 {
                        operands(|rest| consider(&[&bytes[..], &[opcode], rest].concat()));
                    }
                }
            }
        }
    }
}

/// With the mask register k1, or none; vectors of each length; and with one element broadcast.
fn evex(consider: &mut impl FnMut(&[u8])) {
    for map in [1, 2, 3, 5, 6] {
        for pp in 0..4u8 {
            for last in [0x09, 0x29, 0x49, 0x08, 0x28, 0x48, 0x19, 0x18] {
                for wide in [0, 0x80] {
                    for third in [0x6C, 0x7C] {
                        let bytes = [0x62, 0xF0 | map, wide | third | pp, last];
                        for opcode in 0..=255 {
                            operands(|rest| consider(&[&bytes[..], &[opcode], rest].concat()));
                        }
                    }
                }
            }
        }
    }
}
