//! Memory accesses of instructions by the table of `isa`, held against the processor.
//!
//! Problem: a table of memory operands is right only if the processor touches the same bytes.
//!
//! Approach: page protection. `tests/instances/accesses.c` executes an instance natively, with one
//! of its three pages closed or read-only. It must fault exactly where the table has an access of
//! that page, or one that writes. Registers are moved so that accesses begin and end at the
//! boundaries of pages or cross them by one byte, so a size that is wrong by one byte is found.
//!
//! The processor may check more than it accesses, and the manual says so: `enter` checks that it
//! could write at the new stack pointer, and `maskmovq` and `maskmovdqu` may fault for bytes that
//! they leave out. These pages may fault or not ([`checked`]).
//!
//! Limits: an instance that faults by itself says nothing. Areas of `xsave` are left out, and
//! what is not known ([`isa::memory::Pattern::Unknown`]).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use iced_x86::{Code, Mnemonic};
use isa::memory::{Access, Kind, Machine, Operand, Pattern, Segment};
use isa::{Insn, Reg};

use super::{Instance, Place, encoding};
use crate::build;
use crate::program;
use crate::soak::random::Random;

const PAGE: u64 = 4096;
const PAGES: u64 = 3;
/// Bases of fs and gs, as the runner sets them.
const BASES: [u64; 2] = [4096, 8192];
/// Bytes of `struct result`.
const RESULT: usize = 32 * 64 + 8 * 8 + 8 * 8 + 8 + 7 * 24;
/// The direction flag.
const DIRECTION: u64 = 0x400;

/// An instance and its one instruction.
#[derive(Clone, Debug)]
pub struct Case {
    instance: Instance,
    insn: Insn,
    operands: Vec<Operand>,
}

/// A fault, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    signal: u64,
    address: u64,
    /// The page fault's error code.
    error: u64,
}

/// `struct result` of the runner.
struct Observed<'a> {
    bytes: &'a [u8],
    instance: &'a Instance,
}

impl Observed<'_> {
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word)
    }

    fn outcome(&self, number: usize) -> Outcome {
        let at = RESULT - (7 - number) * 24;
        Outcome {
            signal: self.word(at),
            address: self.word(at + 8),
            error: self.word(at + 16),
        }
    }

    fn rcx_after(&self) -> u64 {
        self.word(RESULT - 7 * 24 - 8)
    }
}

impl Machine for Observed<'_> {
    fn register(&self, register: Reg) -> u64 {
        self.instance.registers[register as usize]
    }

    fn base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => BASES[0],
            Segment::Gs => BASES[1],
        }
    }

    fn is_backwards(&self) -> bool {
        self.instance.flags & DIRECTION != 0
    }

    fn steps(&self) -> u64 {
        // With addresses of 32 bits ecx counts.
        let before = self.instance.registers[1];
        before.wrapping_sub(self.rcx_after()) & 0xFFFF_FFFF
    }

    fn vector(&self, number: u8) -> [u8; 64] {
        let mut vector = [0; 64];
        vector.copy_from_slice(&self.bytes[64 * usize::from(number)..][..64]);
        vector
    }

    fn opmask(&self, number: u8) -> u64 {
        self.word(32 * 64 + 8 * usize::from(number))
    }

    fn mmx(&self, number: u8) -> u64 {
        self.word(32 * 64 + 64 + 8 * usize::from(number))
    }

    fn area(&self) -> u32 {
        0
    }
}

/// `count` instructions with memory operands that the table knows.
#[must_use]
pub fn cases(seed: u64, count: usize) -> Vec<Case> {
    let mut random = Random::new(seed);
    let mut cases = Vec::with_capacity(count);
    while cases.len() < count {
        let place = *random.pick(&[Place::Low, Place::High]);
        let drawn = encoding::draw(&mut random, place.code(), place, true);
        let Ok(insn) = Insn::decode(&drawn.bytes, place.code()) else {
            continue;
        };
        let operands = insn.memory();
        let is_known =
            |operand: &Operand| !matches!(operand.pattern, Pattern::Unknown | Pattern::Area);
        if operands.is_empty() || !operands.iter().all(is_known) {
            continue;
        }
        let instance = instance(&mut random, place, drawn.bytes, &operands);
        cases.push(Case {
            instance,
            insn,
            operands,
        });
    }
    cases
}

/// Registers with which the operands lie in the area, one of them at the end of a page.
fn instance(random: &mut Random, place: Place, code: Vec<u8>, operands: &[Operand]) -> Instance {
    let mut registers = [0u64; 16];
    for value in &mut registers {
        *value = random.below(40) as u64;
    }
    // The stack pointer, strings, and what is named as a base.
    for register in [4, 5, 6, 7] {
        registers[register] = place.area() + 0x400 + 8 * random.below(0x200) as u64;
    }
    registers[1] = random.below(9) as u64;
    let boundary = place.area() + PAGE * (1 + random.below(2) as u64);
    let chosen = random.below(operands.len());
    for (number, operand) in operands.iter().enumerate() {
        let address = operand.address;
        let Some(base) = address.base else { continue };
        if address.index.is_some_and(|index| index.register == base) {
            continue;
        }
        let segment = match address.segment {
            None => 0,
            Some(Segment::Fs) => BASES[0],
            Some(Segment::Gs) => BASES[1],
        };
        let index = address.index.map_or(0, |index| {
            let value = registers[index.register as usize];
            let value = if index.is_byte { value & 0xFF } else { value };
            value.wrapping_mul(index.scale.into())
        });
        // Before the boundary, up to it, across it, and behind it.
        let size = u64::from(operand.size);
        let before = [size, size - size.min(1), 1, 0, size + 1];
        let target = match number == chosen {
            true => boundary - before[random.below(before.len())],
            false => place.area() + 0x400 + random.below(0x2000) as u64,
        };
        let value = target
            .wrapping_sub(address.displacement)
            .wrapping_sub(index);
        registers[base as usize] = value.wrapping_sub(segment);
    }
    let mut flags = 2 | random.bits() & 0x8D5;
    if random.percent(20) {
        flags |= DIRECTION;
    }
    Instance {
        at: place.code(),
        registers,
        flags,
        seed: random.bits(),
        mxcsr: 0x1F80,
        fcw: 0x037F,
        pieces: vec![code],
    }
}

/// Number of cases that the processor executed, and those in which it differs from the table.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub compared: usize,
    /// Forms among them, by the decoder's codes.
    pub forms: BTreeSet<Code>,
    pub differences: Vec<String>,
}

/// Executes the cases natively and compares what they touched with the table.
pub fn check(cases: &[Case], folder: &Path) -> Result<Found, String> {
    let program = program::load(program::repository().join("tests/instances/accesses.c"));
    let program = program.map_err(|error| error.to_string())?;
    let runner = build::build(&program, &build::cache_directory());
    let runner = runner.map_err(|error| error.to_string())?;
    let io = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(folder).map_err(io)?;
    let [input, output] = ["cases", "results"].map(|name| folder.join(name));
    let records: Vec<u8> = cases
        .iter()
        .flat_map(|case| case.instance.record())
        .collect();
    std::fs::write(&input, records).map_err(io)?;
    let status = Command::new(&runner.executable)
        .args([&input, &output])
        .status();
    let status = status.map_err(io)?;
    let results = std::fs::read(&output).map_err(io)?;
    if !status.success() || results.len() != cases.len() * RESULT {
        let done = results.len() / RESULT;
        let at = cases
            .get(done)
            .map(|case| format!("{:02x?}", case.insn.bytes()));
        return Err(format!("the runner ended {status} at {at:?}"));
    }
    let mut found = Found::default();
    for (case, bytes) in cases.iter().zip(results.chunks(RESULT)) {
        let observed = Observed {
            bytes,
            instance: &case.instance,
        };
        if observed.outcome(0).signal != 0 {
            continue;
        }
        found.compared += 1;
        let (decoded, _) = encoding::decode(case.insn.bytes(), case.insn.pc(), 0);
        found.forms.insert(decoded.code());
        if let Some(difference) = difference(case, &observed) {
            let text = format!("{:?} {decoded}: {difference}", decoded.code());
            found.differences.push(text);
        }
    }
    Ok(found)
}

/// The first difference between the processor and the table, as text.
fn difference(case: &Case, observed: &Observed) -> Option<String> {
    let mut accesses: Vec<Access> = Vec::new();
    for operand in &case.operands {
        operand.each(observed, |access| accesses.push(access))?;
    }
    let area = match case.instance.at > u64::from(u32::MAX) {
        true => Place::High.area(),
        false => Place::Low.area(),
    };
    for page in 0..PAGES {
        let start = area + page * PAGE;
        let touches = |access: &Access| {
            let end = access.address.wrapping_add(access.size.into());
            access.size > 0 && access.address < start + PAGE && end > start
        };
        let here: Vec<&Access> = accesses.iter().filter(|access| touches(access)).collect();
        let writes = here.iter().any(|access| access.kind.writes());
        for (number, expected) in [(1 + page, !here.is_empty()), (4 + page, writes)] {
            let outcome = observed.outcome(number as usize);
            let faulted = outcome.signal != 0;
            // Instructions that the kernel emulates (`sidt`, `sldt`, `str`) fault at the operand's start.
            let is_start = here.iter().any(|access| access.address == outcome.address);
            let is_here = (start..start + PAGE).contains(&outcome.address) || is_start;
            let is_write = outcome.error & 2 != 0;
            // A fault at a page that is only read in the table is no write.
            let only = here.iter().all(|access| access.kind == Kind::Read);
            if !expected && checked(case, observed).is_some_and(|range| touches(&range)) {
                continue;
            }
            let agrees = faulted == expected && (!faulted || is_here && !(is_write && only));
            if !agrees {
                let what = if number < 4 { "closed" } else { "read-only" };
                return Some(format!(
                    "page {page} {what}: {outcome:x?}, table {accesses:x?}, registers {:x?}",
                    case.instance.registers
                ));
            }
        }
    }
    None
}

/// Bytes that an instruction may check without an access.
fn checked(case: &Case, observed: &Observed) -> Option<Access> {
    let (decoded, _) = encoding::decode(case.insn.bytes(), case.insn.pc(), 0);
    match decoded.mnemonic() {
        Mnemonic::Enter => {
            // Saved frame pointers, one for each level, and the frame.
            let word = if decoded.code() == Code::Enterw_imm16_imm8 {
                2
            } else {
                8
            };
            let levels = u64::from(decoded.immediate8_2nd() & 31);
            let frame = u64::from(decoded.immediate16());
            Some(Access {
                address: case.instance.registers[4] - (1 + levels) * word - frame,
                size: 8,
                kind: Kind::Write,
            })
        }
        Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
            let whole = Operand {
                pattern: Pattern::Once,
                size: if decoded.mnemonic() == Mnemonic::Maskmovq {
                    8
                } else {
                    16
                },
                ..*case.operands.first()?
            };
            let mut range = None;
            whole.each(observed, |access| range = Some(access))?;
            range
        }
        _ => None,
    }
}
