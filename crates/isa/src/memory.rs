//! Memory operands: which addresses an instruction reads and writes, and how many bytes at each.
//!
//! Problem: a memory trace needs every access of every instruction form, also the implicit ones
//! (stack, strings, saved state), and only those that happen: masked elements are left out.
//!
//! Approach: the decoder lists the memory that an instruction uses. Each entry becomes an
//! [`Operand`]: an address expression over registers, a size, a kind, and a [`Pattern`] that says
//! how often and where it is accessed. [`rules`] has a row for each group of forms for which the
//! decoder's entry is not what the Intel SDM says. [`Operand::each`] gives the accesses for the
//! registers of a [`Machine`]; [`recorded`] what a trace keeps of an operand instead of registers.
//!
//! Invariants: operands come in the order reads, updates, writes. A pattern gives the same
//! accesses whether the instruction faults or not.
//!
//! Limits: tiles (AMX), VIA's hash and cipher instructions and lists of model-specific registers
//! have no known accesses ([`Pattern::Unknown`]). Prefetches and cache-line instructions access no
//! data. A `lock`ed compare-and-exchange that fails writes back what it read (SDM, CMPXCHG).
//!
//! The page-protection test of testkit holds the table against the processor, and QBDI's
//! accesses are an outside opinion (docs/design/0036).

mod accesses;
mod known;
pub mod recorded;
mod rules;
pub mod values;

pub use accesses::{Access, Machine};
pub use known::{Effect, Known};
pub use recorded::{Recorded, Selection, Word};

use alloc::vec::Vec;

use iced_x86::{
    CodeSize, Instruction, InstructionInfoFactory, InstructionInfoOptions, MemorySize, OpAccess,
    Register, UsedMemory,
};

use crate::{Insn, Reg};

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub address: Address,
    /// Bytes of one access; 0 if the pattern says it.
    pub size: u16,
    pub kind: Kind,
    pub pattern: Pattern,
}

/// Whether memory is read, written, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Read,
    /// Read, then written at the same address.
    Update,
    Write,
}

impl Kind {
    pub fn reads(self) -> bool {
        self != Kind::Write
    }

    pub fn writes(self) -> bool {
        self != Kind::Read
    }
}

/// A segment whose base is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    Fs,
    Gs,
}

/// segment base + base + index * scale + displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub segment: Option<Segment>,
    pub base: Option<Reg>,
    pub index: Option<Index>,
    /// With what the instruction pointer adds.
    pub displacement: u64,
    /// Whether the sum without the segment's base is cut to 32 bits.
    pub is_32_bit: bool,
}

/// An index register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    pub register: Reg,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Whether only the low byte counts (`xlatb`).
    pub is_byte: bool,
}

/// Bits that say which elements are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Bits of a mask register, from the lowest on.
    Opmask(u8),
    /// The highest bit of each element of a vector register; bytes of an element.
    Signs(u8, u8),
    /// The highest bit of each byte of an MMX register.
    Mmx(u8),
}

/// Places and number of the accesses of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Once,
    /// Once for each step of a repeated string instruction; the address moves by the size,
    /// backwards if the direction flag is set.
    Repeated,
    /// Each element whose bit is set; the size is an element's.
    Elements(Mask, u8),
    /// As many elements as bits are set, without gaps (compress and expand).
    Packed(Mask, u8),
    /// Once, if any of so many bits is set (embedded broadcast).
    IfAny(Mask, u8),
    /// Each element whose bit is set at an address of its own (gather and scatter).
    Vector(Vector),
    /// Once, moved by the bit number that the register holds, in units of the size (`bt`).
    BitString(Reg),
    /// The area of `xsave` and its like: its size depends on components that are in use.
    Area,
    /// Accesses that are not known.
    Unknown,
}

/// Addresses of a gather or scatter: the operand's address has no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Number of the vector register with the indices.
    pub register: u8,
    /// Bytes of an index: 4 or 8.
    pub index_size: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    pub elements: u8,
    pub mask: Mask,
}

impl Insn {
    /// The memory operands: reads, then updates, then writes.
    pub fn memory(&self) -> Vec<Operand> {
        let raw = &self.raw;
        let mut factory = InstructionInfoFactory::new();
        let without = InstructionInfoOptions::NO_REGISTER_USAGE;
        let info = factory.info_options(raw, without);
        let used = info.used_memory().iter();
        let mut operands: Vec<Operand> = used.filter_map(|used| operand(raw, used)).collect();
        operands.sort_by_key(|operand| operand.kind);
        operands
    }
}

/// The operand of an entry of the decoder's list, if it accesses data.
fn operand(raw: &Instruction, used: &UsedMemory) -> Option<Operand> {
    let kind = match used.access() {
        OpAccess::None | OpAccess::NoMemAccess => return None,
        OpAccess::Read | OpAccess::CondRead => Kind::Read,
        OpAccess::Write | OpAccess::CondWrite => Kind::Write,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Kind::Update,
    };
    let plain = Operand {
        address: address(used),
        size: used.memory_size().size() as u16,
        kind,
        pattern: match used.memory_size() {
            MemorySize::Unknown | MemorySize::Tile => Pattern::Unknown,
            _ => Pattern::Once,
        },
    };
    match is_explicit(raw, used) {
        true => rules::explicit(raw, plain),
        false => rules::implicit(raw, plain),
    }
}

/// Whether an entry is of the operand that ModRM names, and not of the stack or a string.
fn is_explicit(raw: &Instruction, used: &UsedMemory) -> bool {
    let has = (0..raw.op_count()).any(|at| raw.op_kind(at) == iced_x86::OpKind::Memory);
    // A pop into memory uses the stack pointer after it was moved.
    let is_relative = matches!(raw.memory_base(), Register::RIP | Register::EIP);
    let is_same = used.base() == raw.memory_base() || is_relative;
    has && is_same && used.index() == raw.memory_index() && !is_stack(raw, used)
}

/// Whether an entry is what the instruction pushes or pops.
fn is_stack(raw: &Instruction, used: &UsedMemory) -> bool {
    let moved = i64::from(raw.stack_pointer_increment());
    let is_push = matches!(used.access(), OpAccess::Write) && moved < 0;
    let is_pop = matches!(used.access(), OpAccess::Read) && moved > 0;
    let displacement = used.displacement() as i64;
    used.base() == Register::RSP
        && used.index() == Register::None
        && (is_push && displacement == moved || is_pop && displacement == 0)
}

fn address(used: &UsedMemory) -> Address {
    let index = match used.index() {
        Register::None => None,
        Register::AL => Some((Reg::Rax, true)),
        register => register64(register).map(|register| (register, false)),
    };
    Address {
        segment: match used.segment() {
            Register::FS => Some(Segment::Fs),
            Register::GS => Some(Segment::Gs),
            _ => None,
        },
        base: register64(used.base()),
        index: index.map(|(register, is_byte)| Index {
            register,
            scale: used.scale() as u8,
            is_byte,
        }),
        displacement: used.displacement(),
        is_32_bit: used.address_size() == CodeSize::Code32,
    }
}

/// The general register that a register is a part of.
fn register64(register: Register) -> Option<Reg> {
    let full = register.full_register();
    let number = (full as u32).checked_sub(Register::RAX as u32)?;
    Reg::ALL.get(number as usize).copied()
}

#[cfg(test)]
mod tests;
