//! Random encodings of one instruction that does not branch.
//!
//! Problem: an assembler writes each instruction in one way, and a translator that reads
//! machine code meets all of them: prefixes that mean nothing, several of a kind, forms of
//! REX that are ignored, every base and index.
//!
//! Approach: prefixes, map, opcode, ModRM and what follows are drawn byte by byte, and the
//! decoder says what came out. Displacements are then written again so that the operand
//! lies in the instance's memory.
//!
//! Limits: whatever has another result in each run is left out (clocks, processor numbers,
//! random numbers), also what enters the kernel or waits, what shows the x87 instruction
//! pointer, and what writes a selector to gs (docs/limits.md).

use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind,
    Register,
};

use super::{AREA_POINTERS, Place};
use crate::soak::random::Random;

/// Longest encoding.
const LONGEST: usize = 15;

/// One-byte opcodes that come up more often: what leaves some flags as they were or
/// undefined, and what uses the stack pointer.
const FAVOURITES: [u8; 34] = [
    0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3, 0xF6, 0xF7, 0x69, 0x6B, 0xFE, 0xFF, 0x8F, 0x87, 0x89, 0x8B,
    0x8D, 0x50, 0x54, 0x5C, 0x58, 0x9C, 0x9D, 0xC8, 0xC9, 0x94, 0xA4, 0xA5, 0xA6, 0xAE, 0xAB, 0xAC,
    0x63, 0x9E,
];
/// Opcodes of the map 0F that come up more often, for the same reasons.
const FAVOURITES_0F: [u8; 24] = [
    0xA3, 0xA4, 0xA5, 0xAB, 0xAC, 0xAD, 0xAF, 0xB0, 0xB1, 0xB3, 0xB8, 0xBA, 0xBB, 0xBC, 0xBD, 0xC0,
    0xC1, 0xC7, 0x44, 0x95, 0x9A, 0xB6, 0xBE, 0x10,
];

/// An encoding and what the decoder says of it.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The instruction, decoded where it lies.
    pub instruction: Instruction,
}

/// An instruction to lie at `at`; `first`: nothing was executed before it.
pub fn draw(random: &mut Random, at: u64, place: Place, first: bool) -> Encoding {
    loop {
        let mut bytes = candidate(random);
        let (instruction, offsets) = decode(&bytes, at, DecoderOptions::NO_INVALID_CHECK);
        // Bytes that the decoder does not know are kept at times: they should fault.
        if instruction.is_invalid() {
            if random.percent(3) && may_be_unknown(&bytes) {
                let bytes = bytes[..LONGEST].to_vec();
                return Encoding { bytes, instruction };
            }
            continue;
        }
        bytes.truncate(instruction.len());
        let (strict, _) = decode(&bytes, at, DecoderOptions::NONE);
        if strict.is_invalid() && !random.percent(10) || !is_wanted(&instruction, first) {
            continue;
        }
        if is_unemulated(&instruction, &bytes) {
            continue;
        }
        if !place_operand(random, &mut bytes, &instruction, offsets, place, at) {
            continue;
        }
        let (instruction, _) = decode(&bytes, at, DecoderOptions::NO_INVALID_CHECK);
        return Encoding { bytes, instruction };
    }
}

/// The instruction that `bytes` begin with, as this processor decodes it.
#[must_use]
pub fn decode(bytes: &[u8], at: u64, options: u32) -> (Instruction, ConstantOffsets) {
    let mut decoder = Decoder::with_ip(64, bytes, at, options);
    let instruction = decoder.decode();
    let offsets = decoder.get_constant_offsets(&instruction);
    (instruction, offsets)
}

/// Prefixes, an opcode, and random bytes after it.
fn candidate(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    let kind = random.below(100);
    let legacy = kind < 78;
    for (prefix, percent) in [
        (0x66, 14),
        (0xF2, 7),
        (0xF3, 9),
        (0x67, 8),
        (0x64, 4),
        (0x65, 4),
        (0x2E, 2),
        (0x36, 2),
        (0x3E, 2),
        (0x26, 2),
        (0xF0, 6),
    ] {
        // Before VEX and EVEX they are segments and address sizes, or wrong.
        let rare = !legacy && !matches!(prefix, 0x67 | 0x64 | 0x65);
        if random.percent(percent) && (!rare || random.percent(5)) {
            let at = random.below(bytes.len() + 1);
            bytes.insert(at, prefix);
        }
    }
    if random.percent(50) && (legacy || random.percent(3)) {
        bytes.push(0x40 | random.below(16) as u8);
        if random.percent(3) {
            bytes.push(*random.pick(&[0x48, 0x66, 0x3E, 0x41]));
        }
    }
    match kind {
        0..45 => bytes.push(opcode(random, &FAVOURITES)),
        45..68 => bytes.extend([0x0F, opcode(random, &FAVOURITES_0F)]),
        68..73 => bytes.extend([0x0F, 0x38, random.bits() as u8]),
        73..78 => bytes.extend([0x0F, 0x3A, random.bits() as u8]),
        78..82 => bytes.extend([0xC5, random.bits() as u8, random.bits() as u8]),
        82..90 => {
            let map = [1, 2, 2, 3][random.below(4)] | random.bits() as u8 & 0xE0;
            bytes.extend([0xC4, map, random.bits() as u8, random.bits() as u8]);
        }
        _ => {
            let map = [1, 2, 3, 5][random.below(4)] | random.bits() as u8 & 0xF0;
            let second = random.bits() as u8 | 4;
            bytes.extend([0x62, map, second, random.bits() as u8, random.bits() as u8]);
        }
    }
    let modrm = bytes.len();
    bytes.extend((0..3).flat_map(|_| random.bits().to_le_bytes()));
    // A register operand, a plain base, and the forms of rsp and rip more often.
    let reg = bytes[modrm] & 0x38;
    match random.below(10) {
        0..3 => bytes[modrm] |= 0xC0,
        3 => bytes[modrm] = reg | 5,
        4 => (bytes[modrm], bytes[modrm + 1]) = (reg | 0x44, 0x24),
        _ => {}
    }
    bytes
}

fn opcode(random: &mut Random, favourites: &[u8]) -> u8 {
    match random.percent(45) {
        true => *random.pick(favourites),
        false => random.bits() as u8,
    }
}

/// Not the start of what enters the kernel, or leaves for somewhere.
fn may_be_unknown(bytes: &[u8]) -> bool {
    // Any processor refuses these in 64-bit mode.
    matches!(
        bytes[0],
        0x06 | 0x07
            | 0x0E
            | 0x16
            | 0x17
            | 0x1E
            | 0x1F
            | 0x27
            | 0x2F
            | 0x37
            | 0x3F
            | 0x60
            | 0x61
            | 0x9A
            | 0xCE
            | 0xD4
            | 0xD5
            | 0xD6
            | 0xEA
    )
}

fn is_wanted(instruction: &Instruction, first: bool) -> bool {
    let stays = match instruction.flow_control() {
        FlowControl::Next | FlowControl::Exception => true,
        FlowControl::XbeginXabortXend => instruction.mnemonic() != Mnemonic::Xbegin,
        FlowControl::Interrupt => {
            instruction.code() != Code::Int_imm8 || instruction.immediate8() != 0x80
        }
        _ => false,
    };
    let to_gs =
        instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::GS;
    let is_push = instruction.mnemonic() == Mnemonic::Push;
    let shows_state = matches!(
        instruction.mnemonic(),
        Mnemonic::Fxsave | Mnemonic::Fxsave64 | Mnemonic::Xsave | Mnemonic::Xsave64
    );
    stays
        && (!to_gs || is_push)
        && (!shows_state || first)
        && instruction.code() != Code::INVALID
        && !is_unsteady(instruction.mnemonic())
}

/// The kernel emulates these, but not with two segment overrides; whether it sees both
/// depends on the form that the operand has in the cache.
fn is_unemulated(instruction: &Instruction, bytes: &[u8]) -> bool {
    use Mnemonic as M;
    let is_segment = |byte: &&u8| matches!(byte, 0x26 | 0x2E | 0x36 | 0x3E | 0x64 | 0x65);
    matches!(
        instruction.mnemonic(),
        M::Sgdt | M::Sidt | M::Sldt | M::Smsw | M::Str
    ) && bytes.iter().filter(is_segment).count() > 1
}

fn is_unsteady(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cpuid
            | M::Rdtsc
            | M::Rdtscp
            | M::Rdpmc
            | M::Rdpru
            | M::Rdpid
            | M::Rdrand
            | M::Rdseed
            | M::Xgetbv
            | M::Lsl
            | M::Lgs
            | M::Umwait
            | M::Tpause
            | M::Mwaitx
            | M::Vmcall
            | M::Vmmcall
            | M::Vmgexit
            | M::Xsaveopt
            | M::Xsaveopt64
            | M::Xsavec
            | M::Xsavec64
            | M::Fnstenv
            | M::Fstenv
            | M::Fnsave
            | M::Fsave
    )
}

/// Writes the displacement so that the operand lies in the memory of `place`; false if it
/// cannot.
fn place_operand(
    random: &mut Random,
    bytes: &mut [u8],
    instruction: &Instruction,
    offsets: ConstantOffsets,
    place: Place,
    at: u64,
) -> bool {
    let short = matches!(
        instruction.memory_base().size(),
        4 if instruction.memory_base() != Register::EIP
    ) || instruction.memory_index().size() == 4;
    // Elements of any value, cut to 32 bits, lead to the engine's memory from below 4 GB.
    let by_vector = instruction.memory_index().is_vector_register();
    if short && !place.is_low() || by_vector && place.is_low() {
        return false;
    }
    if !offsets.has_displacement() {
        return true;
    }
    let (start, size) = (offsets.displacement_offset(), offsets.displacement_size());
    let inside = AREA_POINTERS.start + random.below(0x800) as u64;
    let target = place.area() + inside;
    let relative = instruction.is_ip_rel_memory_operand();
    let absolute =
        instruction.memory_base() == Register::None && instruction.memory_index() == Register::None;
    let value = if relative {
        if instruction.memory_base() == Register::EIP && !place.is_low() {
            return false;
        }
        target.wrapping_sub(at + bytes.len() as u64)
    } else if absolute {
        if size < 8 && !place.is_low() {
            return false;
        }
        target
    } else {
        let scale = if size == 1 { 64 } else { 512 };
        (random.range(0, 2 * scale) as u64).wrapping_sub(scale as u64)
    };
    bytes[start..start + size].copy_from_slice(&value.to_le_bytes()[..size]);
    true
}
