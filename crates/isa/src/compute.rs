//! General registers behind an instruction, as far as they follow from those before it.
//!
//! Problem: a trace of addresses need not have what its reader can compute itself: a sum, a copy, the stack pointer.
//!
//! Approach: of a few dozen forms [`Insn::computes`] says which register gets which value ([`Value`]) of registers. What comes from memory,
//! from flags or from anywhere else is *lost*; of a load it is known how many bytes it has ([`Loaded`]).
//!
//! Invariant: a register that an instruction may change is computed, loaded or lost.
//!
//! Limits: parts of registers (`mov al, …`) are lost as a whole.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::dataflow::{Op, Place, Registers};
use crate::memory::Address;
use crate::{Flow, Insn, Reg};

/// A value of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Constant(u64),
    /// A register and a constant.
    Plus(Reg, i64),
    /// An address without a segment's base, cut to so many bytes.
    Address(Address, u8),
    /// The low bytes of a register, extended.
    Extended(Reg, Form),
    /// An operation of two registers, or of one and a constant, of so many bytes.
    Two(Operation, Reg, Right, u8),
    /// Copies of the highest bit of rax, or of eax.
    Sign(u8),
}

/// The form in which bytes are in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Number of bytes.
    pub width: u8,
    /// They are extended with their sign, to 4 or 8 bytes, or with zeros.
    pub is_signed: bool,
    pub to_width: u8,
}

impl Form {
    /// A whole register.
    pub const WHOLE: Form = Form {
        width: 8,
        is_signed: false,
        to_width: 8,
    };

    /// The register's value, by one with these bytes.
    #[must_use]
    pub fn extend(self, value: u64) -> u64 {
        let value = cut(value, self.width);
        if !self.is_signed || self.width >= 8 {
            return value;
        }
        let shift = 64 - 8 * u32::from(self.width);
        cut(
            ((value << shift).cast_signed() >> shift).cast_unsigned(),
            self.to_width,
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add,
    Subtract,
    And,
    Or,
    Xor,
    Multiply,
    ShiftLeft,
    ShiftRight,
    /// With copies of the sign.
    ShiftSigned,
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Register(Reg),
    Constant(u64),
}

/// A register that a load fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub to: Reg,
    pub form: Form,
}

/// The registers behind an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// A register with a value of those before.
    pub result: Option<(Reg, Value)>,
    pub loaded: Option<Loaded>,
    /// Further registers that may have changed, a bit each.
    pub lost: Registers,
}

/// Values of registers, and the base of fs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub registers: [u64; 16],
    pub fs: u64,
}

impl State {
    /// The value that an instruction computes.
    #[must_use]
    pub fn value(&self, value: Value) -> u64 {
        let of = |register: Reg| self.registers[register as usize];
        match value {
            Value::Constant(value) => value,
            Value::Plus(register, added) => of(register).wrapping_add_signed(added),
            Value::Address(address, width) => cut(address.of_state(self), width),
            Value::Extended(register, form) => form.extend(of(register)),
            Value::Sign(width) => {
                Form {
                    width,
                    is_signed: true,
                    to_width: 8,
                }
                .extend(of(Reg::Rax))
                .cast_signed()
                .wrapping_shr(63)
                .cast_unsigned()
                    & cut(u64::MAX, width)
            }
            Value::Two(operation, left, right, width) => {
                let right = match right {
                    Right::Register(register) => of(register),
                    Right::Constant(value) => value,
                };
                cut(operation.of(cut(of(left), width), right, width), width)
            }
        }
    }
}

impl Value {
    /// The registers that it is made of.
    #[must_use]
    pub fn reads(self) -> Registers {
        match self {
            Value::Constant(_) => 0,
            Value::Plus(register, _) | Value::Extended(register, _) => bit(register),
            Value::Address(address, _) => address.reads(),
            Value::Sign(_) => bit(Reg::Rax),
            Value::Two(_, left, Right::Register(right), _) => bit(left) | bit(right),
            Value::Two(_, left, Right::Constant(_), _) => bit(left),
        }
    }
}

impl Address {
    /// The registers that it is made of.
    #[must_use]
    pub fn reads(&self) -> Registers {
        let index = self.index.map_or(0, |index| bit(index.register));
        self.base.map_or(0, bit) | index
    }

    /// The address for these registers.
    #[must_use]
    pub fn of_state(&self, state: &State) -> u64 {
        let of = |register: Reg| state.registers[register as usize];
        let index = self.index.map_or(0, |index| {
            let value = of(index.register);
            let value = if index.is_byte { value & 0xff } else { value };
            value.wrapping_mul(index.scale.into())
        });
        let sum = self.displacement.wrapping_add(self.base.map_or(0, of));
        let sum = sum.wrapping_add(index);
        let sum = if self.is_32_bit { cut(sum, 4) } else { sum };
        sum.wrapping_add(self.segment.map_or(0, |_| state.fs))
    }
}

impl Operation {
    /// The operation of numbers of so many bytes; of the result these are right.
    fn of(self, left: u64, right: u64, width: u8) -> u64 {
        let by = right as u32 & if width == 8 { 63 } else { 31 };
        match self {
            Operation::Add => left.wrapping_add(right),
            Operation::Subtract => left.wrapping_sub(right),
            Operation::And => left & right,
            Operation::Or => left | right,
            Operation::Xor => left ^ right,
            Operation::Multiply => left.wrapping_mul(right),
            Operation::ShiftLeft => left << by,
            Operation::ShiftRight => left >> by,
            Operation::ShiftSigned => {
                let unused = 64 - 8 * u32::from(width);
                ((left << unused).cast_signed() >> unused >> by).cast_unsigned()
            }
        }
    }
}

fn bit(register: Reg) -> Registers {
    1 << register as u16
}

/// The low bytes of a number.
fn cut(value: u64, width: u8) -> u64 {
    match width {
        0..8 => value & ((1 << (8 * width)) - 1),
        _ => value,
    }
}

impl Computed {
    fn of(to: Reg, value: Value) -> Computed {
        Computed {
            result: Some((to, value)),
            ..Computed::default()
        }
    }

    fn loads(to: Reg, form: Form) -> Computed {
        Computed {
            loaded: Some(Loaded { to, form }),
            ..Computed::default()
        }
    }

    fn loses(lost: Registers) -> Computed {
        Computed {
            lost,
            ..Computed::default()
        }
    }

    fn and_stack(mut self, value: Value) -> Computed {
        self.result = Some((Reg::Rsp, value));
        self
    }
}

impl Insn {
    /// The general registers behind it. Of a call, it has not been made yet.
    #[must_use]
    pub fn computes(&self) -> Computed {
        let raw = &self.raw;
        if raw.code() == Code::Leaveq {
            let popped = Computed::loads(Reg::Rbp, Form::WHOLE);
            return popped.and_stack(Value::Plus(Reg::Rbp, 8));
        }
        let moved = i64::from(raw.stack_pointer_increment());
        let stack = Value::Plus(Reg::Rsp, moved);
        match self.op() {
            Op::Push(_) => Computed::default().and_stack(stack),
            Op::Pop(Some(Reg::Rsp)) => Computed::loads(Reg::Rsp, Form::WHOLE),
            Op::Pop(Some(to)) if moved == 8 => Computed::loads(to, Form::WHOLE).and_stack(stack),
            Op::Pop(Some(to)) => Computed::loses(bit(to)).and_stack(stack),
            Op::Pop(None) => Computed::default().and_stack(stack),
            Op::Store { .. } | Op::Compare { .. } => Computed::default(),
            Op::Other { .. } if matches!(self.flow(), Flow::Call(_) | Flow::IndirectCall) => {
                Computed::default()
            }
            Op::Other { changes, .. } => self.computes_other(changes, moved),
            op => known(op),
        }
    }

    fn computes_other(&self, changes: Registers, moved: i64) -> Computed {
        if let Some((to, value)) = arithmetic(&self.raw) {
            return Computed::of(to, value);
        }
        let lost = match self.flow() {
            Flow::Syscall | Flow::Int80 => changes | bit(Reg::Rax),
            _ => changes,
        };
        match (self.raw.mnemonic(), moved) {
            (Mnemonic::Enter, _) | (_, 0) => Computed::loses(lost),
            _ => Computed::loses(lost & !bit(Reg::Rsp)).and_stack(Value::Plus(Reg::Rsp, moved)),
        }
    }
}

fn known(op: Op) -> Computed {
    let two = |operation, to, from, width| match from {
        Place::Register(from) => {
            Computed::of(to, Value::Two(operation, to, Right::Register(from), width))
        }
        Place::Memory(_) => Computed::loses(bit(to)),
    };
    let constant = |operation, to, value, width| {
        Computed::of(to, Value::Two(operation, to, Right::Constant(value), width))
    };
    match op {
        Op::Constant { to, value } => Computed::of(to, Value::Constant(value)),
        Op::Address { to, address, width } if width >= 4 => {
            Computed::of(to, Value::Address(address, width))
        }
        Op::Address { to, .. } => Computed::loses(bit(to)),
        Op::Load {
            to,
            from,
            width,
            is_signed,
            to_width,
        } => {
            let form = Form {
                width,
                is_signed,
                to_width,
            };
            match from {
                Place::Register(from) => Computed::of(to, Value::Extended(from, form)),
                Place::Memory(_) => Computed::loads(to, form),
            }
        }
        Op::Add { to, from, width } => two(Operation::Add, to, from, width),
        Op::Subtract { to, from, width } => two(Operation::Subtract, to, from, width),
        Op::AddConstant { to, value, width } => {
            constant(Operation::Add, to, value.cast_unsigned(), width)
        }
        Op::SubtractConstant { to, value, width } => {
            constant(Operation::Subtract, to, value, width)
        }
        Op::And { to, value, width } => constant(Operation::And, to, value, width),
        Op::ShiftRight { to, by, width } => constant(Operation::ShiftRight, to, by.into(), width),
        Op::ShiftLeft { to, by, width } => constant(Operation::ShiftLeft, to, by.into(), width),
        Op::Store { .. } | Op::Compare { .. } | Op::Push(_) | Op::Pop(_) | Op::Other { .. } => {
            Computed::default()
        }
    }
}

/// A register of at least 4 bytes, by its operand.
fn wide(raw: &Instruction, at: u32) -> Option<(Reg, u8)> {
    if raw.op_count() <= at || raw.op_kind(at) != OpKind::Register {
        return None;
    }
    let register = raw.op_register(at);
    let number = (register.full_register() as u32).checked_sub(Register::RAX as u32)?;
    let found = Reg::ALL.get(number as usize).copied()?;
    let width = register.size() as u8;
    (width >= 4 && register.is_gpr()).then_some((found, width))
}

/// Arithmetic that [`Op`] does not know.
fn arithmetic(raw: &Instruction) -> Option<(Reg, Value)> {
    match raw.mnemonic() {
        Mnemonic::Cdq => return Some((Reg::Rdx, Value::Sign(4))),
        Mnemonic::Cqo => return Some((Reg::Rdx, Value::Sign(8))),
        _ => {}
    }
    let (to, width) = wide(raw, 0)?;
    let constant = |at: u32| {
        let value = raw.try_immediate(at).ok().filter(|_| raw.op_count() > at);
        value.map(Right::Constant)
    };
    let right = |at: u32| {
        let register = wide(raw, at).map(|(register, _)| Right::Register(register));
        register.or_else(|| constant(at))
    };
    let two = |operation, right| Some((to, Value::Two(operation, to, right, width)));
    match raw.mnemonic() {
        Mnemonic::And => two(Operation::And, right(1)?),
        Mnemonic::Or => two(Operation::Or, right(1)?),
        Mnemonic::Xor => two(Operation::Xor, right(1)?),
        Mnemonic::Sar => two(Operation::ShiftSigned, constant(1)?),
        Mnemonic::Not => two(Operation::Xor, Right::Constant(u64::MAX)),
        Mnemonic::Imul if raw.op_count() == 2 => two(Operation::Multiply, right(1)?),
        Mnemonic::Imul if raw.op_count() == 3 => {
            let (left, _) = wide(raw, 1)?;
            let right = constant(2)?;
            Some((to, Value::Two(Operation::Multiply, left, right, width)))
        }
        _ => None,
    }
}
