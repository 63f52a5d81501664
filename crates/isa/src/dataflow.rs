//! Instructions as an analysis of values sees them: what is computed from what, by a few kinds.
//!
//! Problem: whoever follows addresses, indices and their bounds through code (jump tables) needs to
//! know a dozen kinds of instructions exactly, and of all others only which registers they change.
//!
//! Invariant: a register that an instruction may change is the destination of its kind, or in the set of
//! [`Op::Other`].

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::memory::Address;
use crate::{Insn, Reg};

/// Bits of general registers, by their encoding.
pub type Registers = u16;

/// A place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Register(Reg),
    Memory(Address),
}

/// Meaning of an instruction. Widths are bytes; operands of 4 bytes clear the upper half of
/// their destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// to = a constant.
    Constant {
        to: Reg,
        value: u64,
    },
    /// to = the address.
    Address {
        to: Reg,
        address: Address,
        width: u8,
    },
    /// to = the low bytes of what is at `from`, extended to all of it.
    Load {
        to: Reg,
        from: Place,
        width: u8,
        /// With the sign to 4 or 8 bytes, else with zeros.
        is_signed: bool,
        to_width: u8,
    },
    /// A register is stored.
    Store {
        to: Address,
        from: Option<Reg>,
        width: u8,
    },
    /// to += from.
    Add {
        to: Reg,
        from: Place,
        width: u8,
    },
    /// to += a constant.
    AddConstant {
        to: Reg,
        value: i64,
        width: u8,
    },
    /// to -= a constant; flags as of [`Op::Compare`].
    SubtractConstant {
        to: Reg,
        value: u64,
        width: u8,
    },
    /// to -= from.
    Subtract {
        to: Reg,
        from: Place,
        width: u8,
    },
    /// to &= a constant.
    And {
        to: Reg,
        value: u64,
        width: u8,
    },
    /// to >>= a constant, with zeros.
    ShiftRight {
        to: Reg,
        by: u8,
        width: u8,
    },
    /// to <<= a constant.
    ShiftLeft {
        to: Reg,
        by: u8,
        width: u8,
    },
    /// Flags of `left` - a constant.
    Compare {
        left: Place,
        right: u64,
        width: u8,
    },
    Push(Option<Reg>),
    Pop(Option<Reg>),
    /// Anything else, which changes these registers, flags, and memory perhaps.
    Other {
        changes: Registers,
        stores: bool,
    },
}

impl Insn {
    /// The instruction as one of a few kinds.
    pub fn op(&self) -> Op {
        let raw = &self.raw;
        known(raw).unwrap_or_else(|| self.other())
    }

    /// Whether it changes an arithmetic flag.
    pub fn changes_flags(&self) -> bool {
        self.raw.rflags_modified() != 0
    }

    /// `endbr64`, where indirect branches may land.
    pub fn is_landing(&self) -> bool {
        self.raw.mnemonic() == Mnemonic::Endbr64
    }

    /// `hlt`, which faults in a program.
    pub fn is_halt(&self) -> bool {
        self.raw.mnemonic() == Mnemonic::Hlt
    }

    /// The register that an indirect jump goes by.
    pub fn jump_register(&self) -> Option<Reg> {
        low(&self.raw, 0).map(|(register, _)| register)
    }

    /// The memory operand as an address.
    pub fn operand_address(&self) -> Option<Address> {
        let raw = &self.raw;
        let has = (0..raw.op_count()).any(|at| raw.op_kind(at) == OpKind::Memory);
        has.then(|| address(raw)).flatten()
    }

    fn other(&self) -> Op {
        let mut changes = 0;
        let mut stores = false;
        let mut factory = iced_x86::InstructionInfoFactory::new();
        let info = factory.info(&self.raw);
        for used in info.used_registers() {
            use iced_x86::OpAccess as A;
            let is_changed = matches!(
                used.access(),
                A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite
            );
            if let Some(register) = general(used.register()).filter(|_| is_changed) {
                changes |= 1 << register as u16;
            }
        }
        for used in info.used_memory() {
            use iced_x86::OpAccess as A;
            stores |= !matches!(
                used.access(),
                A::Read | A::CondRead | A::NoMemAccess | A::None
            );
        }
        Op::Other { changes, stores }
    }
}

/// The general register that a register is a part of.
fn general(register: Register) -> Option<Reg> {
    let full = register.full_register();
    let number = (full as u32).checked_sub(Register::RAX as u32)?;
    Reg::ALL.get(number as usize).copied()
}

/// A register by its low bytes, and how many.
fn low(raw: &Instruction, at: u32) -> Option<(Reg, u8)> {
    use Register::{AH, BH, CH, DH};
    if raw.op_count() <= at || raw.op_kind(at) != OpKind::Register {
        return None;
    }
    let register = raw.op_register(at);
    let found = general(register).filter(|_| !matches!(register, AH | BH | CH | DH))?;
    Some((found, register.size() as u8))
}

fn address(raw: &Instruction) -> Option<Address> {
    if raw.is_vsib()
        || !matches!(
            raw.segment_prefix(),
            Register::None | Register::CS | Register::DS | Register::ES | Register::SS
        )
    {
        return None;
    }
    let base = raw.memory_base();
    let is_relative = raw.is_ip_rel_memory_operand();
    if base != Register::None && !is_relative && base.size() != 8 {
        return None;
    }
    let index = raw.memory_index();
    if index != Register::None && index.size() != 8 {
        return None;
    }
    Some(Address {
        segment: None,
        base: general(base).filter(|_| !is_relative),
        index: general(index).map(|register| crate::memory::Index {
            register,
            scale: raw.memory_index_scale() as u8,
            is_byte: false,
        }),
        displacement: match is_relative {
            true => raw.ip_rel_memory_address(),
            false => raw.memory_displacement64(),
        },
        is_32_bit: false,
    })
}

fn place(raw: &Instruction, at: u32) -> Option<(Place, u8)> {
    if raw.op_count() > at && raw.op_kind(at) == OpKind::Memory {
        let width = raw.memory_size().size() as u8;
        return Some((Place::Memory(address(raw)?), width));
    }
    low(raw, at).map(|(register, width)| (Place::Register(register), width))
}

// Long function: one arm for each kind.
fn known(raw: &Instruction) -> Option<Op> {
    use Mnemonic as M;
    let constant = |at: u32| raw.try_immediate(at).ok().filter(|_| raw.op_count() > at);
    Some(match raw.mnemonic() {
        M::Lea => {
            let (to, width) = low(raw, 0)?;
            let address = address(raw)?;
            Op::Address { to, address, width }
        }
        M::Xor | M::Sub if low(raw, 0).is_some() && low(raw, 0) == low(raw, 1) => {
            let (to, _) = low(raw, 0).filter(|(_, width)| *width >= 4)?;
            Op::Constant { to, value: 0 }
        }
        M::Mov if let Some((to, width)) = low(raw, 0) => {
            if let Some(value) = constant(1) {
                let value = if width == 4 {
                    value & 0xFFFF_FFFF
                } else {
                    value
                };
                return (width >= 4).then_some(Op::Constant { to, value });
            }
            let (from, from_width) = place(raw, 1)?;
            if width < 4 || from_width != width {
                return None;
            }
            Op::Load {
                to,
                from,
                width,
                is_signed: false,
                to_width: width,
            }
        }
        M::Mov if raw.op0_kind() == OpKind::Memory => Op::Store {
            to: address(raw)?,
            from: low(raw, 1).map(|(register, _)| register),
            width: raw.memory_size().size() as u8,
        },
        M::Movzx | M::Movsx | M::Movsxd => {
            let (to, to_width) = low(raw, 0).filter(|(_, width)| *width >= 4)?;
            let (from, width) = place(raw, 1)?;
            let is_signed = raw.mnemonic() != M::Movzx;
            Op::Load {
                to,
                from,
                width,
                is_signed,
                to_width,
            }
        }
        M::Cdqe => Op::Load {
            to: Reg::Rax,
            from: Place::Register(Reg::Rax),
            width: 4,
            is_signed: true,
            to_width: 8,
        },
        M::Add | M::Sub | M::And | M::Shr | M::Shl | M::Inc | M::Dec => {
            let (to, width) = low(raw, 0).filter(|(_, width)| *width >= 4)?;
            let value = constant(1);
            match (raw.mnemonic(), value) {
                (M::Inc, _) => Op::AddConstant {
                    to,
                    value: 1,
                    width,
                },
                (M::Dec, _) => Op::AddConstant {
                    to,
                    value: -1,
                    width,
                },
                (M::Add, Some(value)) => Op::AddConstant {
                    to,
                    value: value as i64,
                    width,
                },
                (M::Sub, Some(value)) => Op::SubtractConstant { to, value, width },
                (M::And, Some(value)) => Op::And { to, value, width },
                (M::Shr, Some(value)) => Op::ShiftRight {
                    to,
                    by: value as u8 & 63,
                    width,
                },
                (M::Shl, Some(value)) => Op::ShiftLeft {
                    to,
                    by: value as u8 & 63,
                    width,
                },
                (M::Add, None) => Op::Add {
                    to,
                    from: place(raw, 1)?.0,
                    width,
                },
                (M::Sub, None) => Op::Subtract {
                    to,
                    from: place(raw, 1)?.0,
                    width,
                },
                _ => return None,
            }
        }
        M::Cmp => {
            let (left, width) = place(raw, 0)?;
            Op::Compare {
                left,
                right: constant(1)?,
                width,
            }
        }
        M::Push => Op::Push(low(raw, 0).map(|(register, _)| register)),
        M::Pop => Op::Pop(low(raw, 0).map(|(register, _)| register)),
        _ => return None,
    })
}
