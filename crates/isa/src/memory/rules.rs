//! Forms whose accesses are not those of the decoder's entry.
//!
//! | forms | accesses |
//! |---|---|
//! | `clflush`, `clflushopt`, `clwb`, `umonitor` | none: they name a line |
//! | `movsxd` to 16 bits | 4 bytes, as processors read them; the SDM says 2 |
//! | repeated strings | one for each step, of the size of the string's elements |
//! | `bt`, `bts`, `btr`, `btc` with a register | where the bit is, which may be far from the operand |
//! | gathers, scatters | one for each element whose mask bit is set |
//! | `vmaskmov`, `vpmaskmov`, `maskmovq`, `maskmovdqu`, masked EVEX forms | the elements whose mask bit is set |
//! | compress, expand | as many elements as bits are set |
//! | embedded and other broadcasts | one element, if any bit is set |
//! | [`UNSUPPRESSED`] | all of the operand, whatever the mask (SDM vol. 2, 2.7.11: exception types with NF) |
//! | `xsave` and its like | an area |

use iced_x86::{Code, Instruction, MemorySize, Mnemonic, OpKind, Register};

use super::{Kind, Mask, Operand, Pattern, Vector};

/// Instructions that access no data at their operand.
const LINES: [Mnemonic; 4] = [
    Mnemonic::Clflush,
    Mnemonic::Clflushopt,
    Mnemonic::Clwb,
    Mnemonic::Umonitor,
];

/// Masked forms that read the whole operand: faults are not suppressed.
const UNSUPPRESSED: &[Mnemonic] = &[
    Mnemonic::Valignd,
    Mnemonic::Valignq,
    Mnemonic::Vdbpsadbw,
    Mnemonic::Vgf2p8affineinvqb,
    Mnemonic::Vgf2p8affineqb,
    Mnemonic::Vinsertf32x4,
    Mnemonic::Vinsertf32x8,
    Mnemonic::Vinsertf64x2,
    Mnemonic::Vinsertf64x4,
    Mnemonic::Vinserti32x4,
    Mnemonic::Vinserti32x8,
    Mnemonic::Vinserti64x2,
    Mnemonic::Vinserti64x4,
    Mnemonic::Vmovddup,
    Mnemonic::Vmovshdup,
    Mnemonic::Vmovsldup,
    Mnemonic::Vpackssdw,
    Mnemonic::Vpacksswb,
    Mnemonic::Vpackusdw,
    Mnemonic::Vpackuswb,
    Mnemonic::Vpalignr,
    Mnemonic::Vpconflictd,
    Mnemonic::Vpconflictq,
    Mnemonic::Vpermb,
    Mnemonic::Vpermd,
    Mnemonic::Vpermi2b,
    Mnemonic::Vpermi2d,
    Mnemonic::Vpermi2pd,
    Mnemonic::Vpermi2ps,
    Mnemonic::Vpermi2q,
    Mnemonic::Vpermi2w,
    Mnemonic::Vpermilpd,
    Mnemonic::Vpermilps,
    Mnemonic::Vpermpd,
    Mnemonic::Vpermps,
    Mnemonic::Vpermq,
    Mnemonic::Vpermt2b,
    Mnemonic::Vpermt2d,
    Mnemonic::Vpermt2pd,
    Mnemonic::Vpermt2ps,
    Mnemonic::Vpermt2q,
    Mnemonic::Vpermt2w,
    Mnemonic::Vpermw,
    Mnemonic::Vpmaddubsw,
    Mnemonic::Vpmaddwd,
    Mnemonic::Vpmultishiftqb,
    Mnemonic::Vpshufb,
    Mnemonic::Vpshufbitqmb,
    Mnemonic::Vpshufd,
    Mnemonic::Vpshufhw,
    Mnemonic::Vpshuflw,
    Mnemonic::Vpunpckhbw,
    Mnemonic::Vpunpckhdq,
    Mnemonic::Vpunpckhqdq,
    Mnemonic::Vpunpckhwd,
    Mnemonic::Vpunpcklbw,
    Mnemonic::Vpunpckldq,
    Mnemonic::Vpunpcklqdq,
    Mnemonic::Vpunpcklwd,
    Mnemonic::Vshuff32x4,
    Mnemonic::Vshuff64x2,
    Mnemonic::Vshufi32x4,
    Mnemonic::Vshufi64x2,
    Mnemonic::Vshufpd,
    Mnemonic::Vshufps,
    Mnemonic::Vunpckhpd,
    Mnemonic::Vunpckhps,
    Mnemonic::Vunpcklpd,
    Mnemonic::Vunpcklps,
    Mnemonic::Vcvtne2ps2bf16,
];

/// Shifts of all elements by one number.
const SHIFTS: [Mnemonic; 9] = [
    Mnemonic::Vpslld,
    Mnemonic::Vpsllq,
    Mnemonic::Vpsllw,
    Mnemonic::Vpsrad,
    Mnemonic::Vpsraq,
    Mnemonic::Vpsraw,
    Mnemonic::Vpsrld,
    Mnemonic::Vpsrlq,
    Mnemonic::Vpsrlw,
];

/// Bytes of memory for each bit of the mask, where the decoder says something else.
const ELEMENTS: [(Mnemonic, u16); 8] = [
    (Mnemonic::Vdpbf16ps, 4),
    (Mnemonic::Vpdpbusd, 4),
    (Mnemonic::Vpdpbusds, 4),
    (Mnemonic::Vpdpwssd, 4),
    (Mnemonic::Vpdpwssds, 4),
    (Mnemonic::Vpmuldq, 8),
    (Mnemonic::Vpmulhrsw, 2),
    (Mnemonic::Vpmuludq, 8),
];

/// The operand that ModRM names.
pub(super) fn explicit(raw: &Instruction, plain: Operand) -> Option<Operand> {
    let mnemonic = raw.mnemonic();
    if LINES.contains(&mnemonic) {
        return None;
    }
    if raw.code() == Code::Movsxd_r16_rm16 {
        return Some(Operand { size: 4, ..plain });
    }
    let pattern = match mnemonic {
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
            if raw.op1_kind() == OpKind::Register =>
        {
            Pattern::BitString(super::register64(raw.op1_register())?)
        }
        _ if raw.is_vsib() => vector(raw, plain)?,
        _ if is_area(mnemonic) => Pattern::Area,
        Mnemonic::Vmaskmovps
        | Mnemonic::Vmaskmovpd
        | Mnemonic::Vpmaskmovd
        | Mnemonic::Vpmaskmovq => return Some(signs(raw, plain)),
        _ if raw.op_mask() != Register::None => return Some(masked(raw, plain)),
        _ => plain.pattern,
    };
    Some(Operand { pattern, ..plain })
}

/// The stack, strings, and what a register addresses by itself.
pub(super) fn implicit(raw: &Instruction, plain: Operand) -> Option<Operand> {
    let mnemonic = raw.mnemonic();
    if LINES.contains(&mnemonic) {
        return None;
    }
    let is_repeated = raw.has_rep_prefix() || raw.has_repne_prefix();
    Some(match mnemonic {
        _ if raw.is_string_instruction() && is_repeated => Operand {
            size: raw.memory_size().size() as u16,
            pattern: Pattern::Repeated,
            ..plain
        },
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => Operand {
            size: 1,
            pattern: Pattern::Elements(Mask::Signs(number(raw.op2_register()), 1), 16),
            ..plain
        },
        Mnemonic::Maskmovq => Operand {
            size: 1,
            pattern: Pattern::Elements(Mask::Mmx(number(raw.op2_register())), 8),
            ..plain
        },
        _ => plain,
    })
}

fn is_area(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Xsave
            | M::Xsave64
            | M::Xsavec
            | M::Xsavec64
            | M::Xsaveopt
            | M::Xsaveopt64
            | M::Xsaves
            | M::Xsaves64
            | M::Xrstor
            | M::Xrstor64
            | M::Xrstors
            | M::Xrstors64
    )
}

/// Number of a vector, mask or MMX register.
fn number(register: Register) -> u8 {
    register.number() as u8
}

/// `vmaskmov` and its like: the mask is the second operand, of elements as large as the memory's.
fn signs(raw: &Instruction, plain: Operand) -> Operand {
    let element = raw.memory_size().element_size() as u8;
    let elements = (plain.size / u16::from(element.max(1))) as u8;
    let mask = Mask::Signs(number(raw.op1_register()), element);
    Operand {
        size: element.into(),
        pattern: Pattern::Elements(mask, elements),
        ..plain
    }
}

/// Forms with a mask register.
fn masked(raw: &Instruction, plain: Operand) -> Operand {
    use Mnemonic as M;
    let mask = Mask::Opmask(number(raw.op_mask()));
    let memory = raw.memory_size();
    let own = ELEMENTS
        .iter()
        .find(|(mnemonic, _)| *mnemonic == raw.mnemonic());
    let element = own.map_or(memory.element_size() as u16, |(_, size)| *size);
    let elements = (plain.size / element.max(1)) as u8;
    let (size, pattern) = match raw.mnemonic() {
        mnemonic if UNSUPPRESSED.contains(&mnemonic) => (plain.size, Pattern::Once),
        // Shifts by a number in memory read all of it, those of memory by a constant do not.
        mnemonic if SHIFTS.contains(&mnemonic) && raw.op1_kind() != OpKind::Memory => {
            (plain.size, Pattern::Once)
        }
        _ if raw.is_broadcast() => {
            let all = embedded(memory) / plain.size.max(1);
            (plain.size, Pattern::IfAny(mask, all as u8))
        }
        M::Vbroadcastss
        | M::Vbroadcastsd
        | M::Vpbroadcastb
        | M::Vpbroadcastw
        | M::Vpbroadcastd
        | M::Vpbroadcastq
        | M::Vbroadcastf32x2
        | M::Vbroadcasti32x2
        | M::Vbroadcastf32x4
        | M::Vbroadcasti32x4
        | M::Vbroadcastf64x2
        | M::Vbroadcasti64x2
        | M::Vbroadcastf32x8
        | M::Vbroadcasti32x8
        | M::Vbroadcastf64x4
        | M::Vbroadcasti64x4 => (plain.size, Pattern::IfAny(mask, lanes(raw, element))),
        M::Vcompressps
        | M::Vcompresspd
        | M::Vpcompressb
        | M::Vpcompressw
        | M::Vpcompressd
        | M::Vpcompressq
        | M::Vexpandps
        | M::Vexpandpd
        | M::Vpexpandb
        | M::Vpexpandw
        | M::Vpexpandd
        | M::Vpexpandq => (element, Pattern::Packed(mask, elements)),
        _ => (element, Pattern::Elements(mask, elements)),
    };
    Operand {
        size,
        pattern,
        ..plain
    }
}

/// Bytes that an embedded broadcast stands for.
fn embedded(memory: MemorySize) -> u16 {
    // The decoder's kinds of broadcasts are in the order of their widths.
    match memory {
        _ if memory >= MemorySize::Broadcast512_Int16 => 64,
        _ if memory >= MemorySize::Broadcast256_Int16 => 32,
        _ if memory >= MemorySize::Broadcast128_Int16 => 16,
        _ if memory >= MemorySize::Broadcast64_UInt32 => 8,
        _ => 4,
    }
}

/// Elements of the widest register operand.
fn lanes(raw: &Instruction, element: u16) -> u8 {
    let registers = (0..raw.op_count()).filter(|&at| raw.op_kind(at) == OpKind::Register);
    let sizes = registers
        .map(|at| raw.op_register(at))
        .filter(|register| register.is_vector_register());
    let widest = sizes.map(Register::size).max().unwrap_or(0);
    (widest / usize::from(element.max(1))) as u8
}

/// A gather or scatter. Its mask is a mask register, or, with VEX, the signs of a vector.
fn vector(raw: &Instruction, plain: Operand) -> Option<Pattern> {
    let index = raw.memory_index();
    let index_size = if raw.is_vsib64() { 8 } else { 4 };
    let data = match plain.kind {
        Kind::Read => raw.op0_register(),
        _ => raw.op1_register(),
    };
    let element = plain.size.max(1);
    let elements = (index.size() / index_size).min(data.size() / usize::from(element));
    let mask = match raw.op_mask() {
        // Prefetching gathers have no register for data, and access none.
        Register::None if raw.op_count() < 3 => return None,
        Register::None => Mask::Signs(number(raw.op2_register()), element as u8),
        mask => Mask::Opmask(number(mask)),
    };
    Some(Pattern::Vector(Vector {
        register: number(index),
        index_size: index_size as u8,
        scale: raw.memory_index_scale() as u8,
        elements: elements as u8,
        mask,
    }))
}
