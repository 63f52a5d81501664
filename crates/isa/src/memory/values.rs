//! Values that a trace keeps of each memory operand: where each is taken from.
//!
//! Problem: the value that an instruction saw or wrote is to be recorded, not what is there a
//! moment before or after: another thread may write the same place.
//!
//! Approach: a value that is in a register before or after the instruction is taken from there, so
//! memory is accessed once, by the program:
//!
//! | form | read | written |
//! |---|---|---|
//! | `mov`, `movzx`, `movsx`, `pop`, `leave`, `lods` to a register | the register after it | |
//! | moves to a vector register, broadcasts | its low bytes after it | |
//! | `mov`, `push`, `movnti`, `stos` of a register | | the register before it |
//! | moves from a vector register | | its low bytes before it |
//! | elements under a mask, gathers, scatters | [`elements`] | [`elements`] |
//! | `mov`, `push` of a constant, calls | | the code says it |
//! | `push`, `pop`, `movs` from memory to memory | memory before it | what was read |
//! | `xchg` | the register after it | the register before it |
//! | `cmpxchg` | rax after it | memory after it |
//! | `xadd` | the register after it | memory after it |
//! | anything else | memory before it | memory after it |
//!
//! Limits: in the last three rows memory is accessed once more, so a value that another thread writes
//! in between is taken for the instruction's. Not known are values of strings that are repeated, but
//! what `rep stos` writes; of some forms with masks ([`elements`]), bit strings and saved areas; of
//! operands with more than 64 bytes; and those written at an address whose registers the
//! instruction changes (`xadd [rax], rax`).

mod elements;

use alloc::vec::Vec;

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

use super::recorded::VECTOR;
use super::{Address, Effect, Kind, Operand, Pattern, Selection, register64};
use crate::{Flow, Insn, Reg};

pub use elements::Elements;

/// Most bytes of the values that are recorded of an instruction.
pub const MOST: usize = 64 + 32;

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is not known.
    Unknown,
    /// The code says it.
    Constant(u64),
    /// It is what the first operand read.
    First,
    Before(Place),
    Behind(Place),
}

/// Place whose low bytes a value is, before an instruction or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Register(Reg),
    Vector(Vector),
    Memory(Address),
    Elements(Elements),
}

/// A vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    pub number: u8,
    pub encoding: Encoding,
}

/// Encodings by which a vector register is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// 16 bytes.
    Sse,
    /// 32 bytes.
    Vex,
    /// 64 bytes.
    Evex,
}

/// Values of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    pub read: Origin,
    pub written: Origin,
    /// Bytes of each: of the operand, or of all its elements, from the first on, also those that
    /// are not accessed.
    pub size: u8,
}

impl Values {
    const UNKNOWN: Values = Values {
        read: Origin::Unknown,
        written: Origin::Unknown,
        size: 0,
    };

    /// Both, if they are recorded: from before the instruction, or from behind it.
    pub fn recorded(self, is_behind: bool) -> impl Iterator<Item = Place> + Clone {
        let both = [self.read, self.written].into_iter();
        both.filter_map(move |origin| match origin {
            Origin::Before(place) if !is_behind => Some(place),
            Origin::Behind(place) if is_behind => Some(place),
            _ => None,
        })
    }

    /// In bytes.
    fn len(self) -> usize {
        let number = self.recorded(false).count() + self.recorded(true).count();
        number * usize::from(self.size)
    }
}

/// Values of the operands of an instruction with this effect.
pub(super) fn of(
    insn: &Insn,
    operands: &[Operand],
    effect: &Effect,
    selection: Selection,
) -> Vec<Values> {
    let mut room = MOST;
    let first_is_read = operands.first().is_some_and(|first| first.kind.reads());
    let each = operands.iter().map(|operand| {
        let mut values = match operand.pattern {
            Pattern::Elements(..) | Pattern::Packed(..) | Pattern::Vector(_) => {
                let values = elements::of_operand(&insn.raw, operand);
                let values = values.filter(|_| selection.elements);
                values.unwrap_or(Values::UNKNOWN)
            }
            _ => of_operand(insn, operand, effect),
        };
        if !selection.loads {
            values.read = Origin::Unknown;
        }
        if !selection.stores {
            values.written = Origin::Unknown;
        }
        if values.written == Origin::First && !(selection.loads && first_is_read) {
            values.written = Origin::Unknown;
        }
        match room.checked_sub(values.len()) {
            Some(left) => room = left,
            None => values = Values::UNKNOWN,
        }
        values
    });
    each.collect()
}

fn of_operand(insn: &Insn, operand: &Operand, effect: &Effect) -> Values {
    let raw = &insn.raw;
    let size = match u8::try_from(operand.size) {
        Ok(size @ 1..) if usize::from(size) <= VECTOR => size,
        _ => return Values::UNKNOWN,
    };
    match operand.pattern {
        Pattern::Once => {}
        Pattern::Repeated if is_store_of_string(raw) => {
            return Values {
                written: Origin::Before(Place::Register(Reg::Rax)),
                size,
                ..Values::UNKNOWN
            };
        }
        _ => return Values::UNKNOWN,
    }
    // Emitted code is behind these only.
    let comes_behind = insn.flow() == Flow::Next;
    let memory = Origin::Before(Place::Memory(operand.address));
    let read = match operand.kind {
        Kind::Write => Origin::Unknown,
        _ if !comes_behind => memory,
        Kind::Read => loaded(raw, operand).map_or(memory, Origin::Behind),
        Kind::Update => exchanged(raw).map_or(memory, Origin::Behind),
    };
    let behind = effect.address_behind(&operand.address);
    let behind = behind
        .filter(|_| comes_behind)
        .map_or(Origin::Unknown, |address| {
            Origin::Behind(Place::Memory(address))
        });
    let written = match operand.kind {
        Kind::Read => Origin::Unknown,
        Kind::Write => stored(insn, operand).unwrap_or(behind),
        Kind::Update if raw.mnemonic() == Mnemonic::Xchg => {
            register(raw, 1).map_or(behind, |from| Origin::Before(Place::Register(from)))
        }
        Kind::Update => behind,
    };
    Values {
        read,
        written,
        size,
    }
}

/// The general register that an operand is the low bytes of.
fn register(raw: &Instruction, at: u32) -> Option<Reg> {
    use Register::{AH, BH, CH, DH};
    if raw.op_count() <= at || raw.op_kind(at) != OpKind::Register {
        return None;
    }
    let register = raw.op_register(at);
    register64(register).filter(|_| !matches!(register, AH | BH | CH | DH))
}

/// The vector register that an operand is.
fn vector(raw: &Instruction, at: u32) -> Option<Place> {
    if raw.op_count() <= at || raw.op_kind(at) != OpKind::Register {
        return None;
    }
    let register = raw.op_register(at);
    let encoding = match raw.encoding() {
        EncodingKind::Legacy => Encoding::Sse,
        EncodingKind::VEX => Encoding::Vex,
        EncodingKind::EVEX if register.number() < 16 && register.size() <= 32 => Encoding::Vex,
        EncodingKind::EVEX => Encoding::Evex,
        _ => return None,
    };
    register.is_vector_register().then(|| {
        Place::Vector(Vector {
            number: register.number() as u8,
            encoding,
        })
    })
}

/// Register in which a value that was read is behind the instruction.
fn loaded(raw: &Instruction, operand: &Operand) -> Option<Place> {
    use Mnemonic as M;
    let mnemonic = raw.mnemonic();
    let has_room = raw.op0_register().size() >= usize::from(operand.size);
    let is_load = raw.op_count() == 2 && raw.op1_kind() == OpKind::Memory && has_room;
    match mnemonic {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd if is_load => {
            register(raw, 0).map(Place::Register)
        }
        M::Pop => register(raw, 0).map(Place::Register),
        M::Leave => Some(Place::Register(Reg::Rbp)),
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => Some(Place::Register(Reg::Rax)),
        _ if is_load && (is_move(mnemonic) || is_broadcast(mnemonic)) => vector(raw, 0),
        _ => None,
    }
}

/// Register that has what an exchange read.
fn exchanged(raw: &Instruction) -> Option<Place> {
    match raw.mnemonic() {
        Mnemonic::Xchg | Mnemonic::Xadd => register(raw, 1).map(Place::Register),
        Mnemonic::Cmpxchg => Some(Place::Register(Reg::Rax)),
        _ => None,
    }
}

/// A value that is written, known before.
fn stored(insn: &Insn, operand: &Operand) -> Option<Origin> {
    use Mnemonic as M;
    let raw = &insn.raw;
    if matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall) {
        return Some(Origin::Constant(insn.next_pc()));
    }
    let before = |register| Origin::Before(Place::Register(register));
    let is_memory = |at: u32| raw.op_count() > at && raw.op_kind(at) == OpKind::Memory;
    match raw.mnemonic() {
        M::Mov | M::Movnti if is_memory(0) => {
            register(raw, 1).map(before).or_else(|| constant(raw, 1))
        }
        M::Push if is_memory(0) => Some(Origin::First),
        M::Push => register(raw, 0).map(before).or_else(|| constant(raw, 0)),
        M::Pop if is_memory(0) => Some(Origin::First),
        M::Movsb | M::Movsw | M::Movsd | M::Movsq if raw.is_string_instruction() => {
            Some(Origin::First)
        }
        _ if is_store_of_string(raw) => Some(before(Reg::Rax)),
        M::Enter => (operand.size == 8).then_some(Origin::Unknown),
        mnemonic if is_memory(0) && is_move(mnemonic) => vector(raw, 1).map(Origin::Before),
        _ => None,
    }
}

fn constant(raw: &Instruction, at: u32) -> Option<Origin> {
    raw.try_immediate(at).ok().map(Origin::Constant)
}

fn is_store_of_string(raw: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(raw.mnemonic(), M::Stosb | M::Stosw | M::Stosd | M::Stosq)
}

/// Whether it moves the low bytes of a vector register, from memory or to it.
fn is_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Movaps
            | M::Movapd
            | M::Movups
            | M::Movupd
            | M::Movdqa
            | M::Movdqu
            | M::Movss
            | M::Movsd
            | M::Movd
            | M::Movq
            | M::Movntps
            | M::Movntpd
            | M::Movntdq
            | M::Movntdqa
            | M::Lddqu
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovdqa
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovdqu
            | M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
            | M::Vmovss
            | M::Vmovsd
            | M::Vmovd
            | M::Vmovq
            | M::Vmovntps
            | M::Vmovntpd
            | M::Vmovntdq
            | M::Vmovntdqa
            | M::Vlddqu
    )
}

fn is_broadcast(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Vbroadcastss
            | M::Vbroadcastsd
            | M::Vbroadcastf128
            | M::Vbroadcasti128
            | M::Vpbroadcastb
            | M::Vpbroadcastw
            | M::Vpbroadcastd
            | M::Vpbroadcastq
    )
}
