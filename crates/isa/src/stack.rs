//! Effects of instructions on the stack pointer, for a reader that follows it without its value.

use iced_x86::{
    InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
    UsedRegister,
};

use crate::{Insn, StackMove};

/// A register that keeps its value over calls, by its place in [`KEPT`].
pub type Kept = u8;

/// Registers that calls leave as they were.
pub const KEPT: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The place of the frame pointer among them.
pub const RBP: Kept = 1;

/// Effect of an instruction on rsp, and on registers that may hold a former value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEffect {
    Nothing,
    /// A constant is added to rsp; calls and returns included.
    Adds(i64),
    /// 8 is added, and the register is loaded, mostly with what the caller had.
    Pops(Kept),
    /// rsp = register + n.
    From(Kept, i64),
    /// register = rsp + n.
    Into(Kept, i64),
    /// rsp = rbp + 8, and rbp is loaded.
    Leave,
    /// Low bits of rsp are cleared.
    Aligns(i64),
    /// rsp is loaded with what no constant says.
    Loads,
    /// Registers are written with what it does not say: a bit each.
    Loses(u8),
}

/// Origin of the value that an instruction loads the stack pointer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackFrom {
    /// A general register, by the order of its encoding; or its sum with the stack pointer.
    Register(usize),
    /// A word of the frame.
    Frame,
    /// Any other word of memory, or a choice.
    Elsewhere,
}

fn kept(register: Register) -> Option<Kept> {
    let at = KEPT.iter().position(|&kept| kept == register)?;
    Some(at as Kept)
}

impl Insn {
    /// Origin of the stack pointer's new value, if that is no former one by a constant.
    pub fn stack_from(&self) -> Option<StackFrom> {
        if self.stack_move() != StackMove::Arbitrary {
            return None;
        }
        let raw = &self.raw;
        let from = match (raw.mnemonic(), raw.op1_kind()) {
            (Mnemonic::Mov | Mnemonic::Add, OpKind::Register) => {
                StackFrom::Register(raw.op1_register().number())
            }
            (Mnemonic::Mov, OpKind::Memory)
                if matches!(raw.memory_base(), Register::RSP | Register::RBP) =>
            {
                StackFrom::Frame
            }
            _ => StackFrom::Elsewhere,
        };
        Some(from)
    }

    /// The general register that an instruction copies the stack pointer to, also with a constant added.
    pub fn copy_of_stack(&self) -> Option<usize> {
        let raw = &self.raw;
        let is_copy = match raw.mnemonic() {
            Mnemonic::Mov => {
                raw.op0_kind() == OpKind::Register && raw.op1_register() == Register::RSP
            }
            Mnemonic::Lea => raw.memory_base() == Register::RSP,
            _ => false,
        };
        let to = raw.op0_register();
        (is_copy && to.is_gpr64()).then(|| to.number())
    }

    pub fn stack_effect(&self) -> StackEffect {
        if let Some(effect) = self.named_effect() {
            return effect;
        }
        match (self.raw.stack_pointer_increment(), self.written()) {
            (0, 0) => StackEffect::Nothing,
            (0, written) => StackEffect::Loses(written),
            (n, _) => StackEffect::Adds(n.into()),
        }
    }

    /// Effect of an instruction that names the stack or frame pointer.
    fn named_effect(&self) -> Option<StackEffect> {
        let raw = &self.raw;
        let (to, from) = (raw.op0_register(), raw.op1_register());
        let number = || raw.try_immediate(1).ok().map(|number| number as i64);
        let address = || {
            let plain = raw.memory_index() == Register::None;
            (
                plain.then(|| raw.memory_base()),
                raw.memory_displacement64() as i64,
            )
        };
        Some(match (raw.mnemonic(), to) {
            (Mnemonic::Leave, _) => StackEffect::Leave,
            (Mnemonic::Enter, _) => StackEffect::Loses(1 << RBP),
            (Mnemonic::Pop, _) if let Some(register) = kept(to) => StackEffect::Pops(register),
            (Mnemonic::Add, Register::RSP) => StackEffect::Adds(number()?),
            // By a register: lower by something, which is not known.
            (Mnemonic::Sub, Register::RSP) => match number() {
                Some(n) => StackEffect::Adds(n.wrapping_neg()),
                None => StackEffect::Nothing,
            },
            (Mnemonic::And, Register::RSP) => StackEffect::Aligns(number()?),
            (Mnemonic::Mov, Register::RSP) if let Some(register) = kept(from) => {
                StackEffect::From(register, 0)
            }
            (Mnemonic::Mov, _) if from == Register::RSP => StackEffect::Into(kept(to)?, 0),
            (Mnemonic::Lea, Register::RSP) => match address() {
                (Some(Register::RSP), n) => StackEffect::Adds(n),
                (Some(base), n) if let Some(register) = kept(base) => {
                    StackEffect::From(register, n)
                }
                // Mostly of a frame that was aligned, before it returns.
                _ => StackEffect::Nothing,
            },
            (Mnemonic::Lea, _) => match address() {
                (Some(Register::RSP), n) => StackEffect::Into(kept(to)?, n),
                _ => return None,
            },
            _ if self.stack_move() == StackMove::Arbitrary => StackEffect::Loads,
            _ => return None,
        })
    }

    /// Whether it may do to the stack pointer what neither constants nor rbp say: traces have
    /// its value behind each of these. Some that only read it are among them.
    pub fn tells_stack(&self) -> bool {
        let raw = &self.raw;
        let is_named = |register| {
            use Register::{ESP, RSP, SP, SPL};
            matches!(register, RSP | ESP | SP | SPL)
        };
        let (to, from) = (raw.op0_register(), raw.op1_register());
        match raw.mnemonic() {
            Mnemonic::Enter => true,
            Mnemonic::Xchg | Mnemonic::Xadd => is_named(to) || is_named(from),
            _ if !is_named(to) => false,
            Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test => false,
            _ => match self.named_effect() {
                Some(StackEffect::Adds(_) | StackEffect::Aligns(_)) => false,
                Some(StackEffect::From(register, _)) => register != RBP,
                _ => true,
            },
        }
    }

    /// Whether it loads rsp with what rbp says: traces have the value behind it, apart from those
    /// that [`Insn::tells_stack`] names, as older ones have none.
    pub fn tells_frame(&self) -> bool {
        let effect = self.named_effect();
        matches!(effect, Some(StackEffect::Leave | StackEffect::From(RBP, _)))
    }

    /// Which of [`KEPT`] it may write.
    fn written(&self) -> u8 {
        let mut factory = InstructionInfoFactory::new();
        let without = InstructionInfoOptions::NO_MEMORY_USAGE;
        let info = factory.info_options(&self.raw, without);
        let writes =
            |used: &&UsedRegister| !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
        let written = info.used_registers().iter().filter(writes);
        let bits = written.filter_map(|used| kept(used.register().full_register()));
        bits.fold(0, |all, register| all | 1 << register)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_those_of_the_manual() {
        let table: &[(&[u8], StackEffect)] = &[
            (&[0x55], StackEffect::Adds(-8)),
            (&[0x5d], StackEffect::Pops(1)),
            (&[0x5c], StackEffect::Loads),
            (&[0xc9], StackEffect::Leave),
            (&[0xe8, 0, 0, 0, 0], StackEffect::Adds(-8)),
            (&[0xc3], StackEffect::Adds(8)),
            (&[0xc2, 0x10, 0], StackEffect::Adds(24)),
            (&[0x48, 0x83, 0xec, 0x18], StackEffect::Adds(-24)),
            (&[0x48, 0x83, 0xc4, 0x18], StackEffect::Adds(24)),
            (&[0x48, 0x83, 0xe4, 0xf0], StackEffect::Aligns(-16)),
            (&[0x48, 0x29, 0xc4], StackEffect::Nothing),
            (&[0x48, 0x89, 0xe5], StackEffect::Into(1, 0)),
            (&[0x48, 0x89, 0xec], StackEffect::From(1, 0)),
            (&[0x48, 0x8d, 0x65, 0xd8], StackEffect::From(1, -40)),
            (&[0x48, 0x8d, 0x64, 0x24, 0x08], StackEffect::Adds(8)),
            (&[0x4c, 0x89, 0xc4], StackEffect::Loads),
            (&[0x48, 0x94], StackEffect::Loads),
            (&[0x31, 0xed], StackEffect::Loses(2)),
            (&[0x48, 0x89, 0xdc], StackEffect::From(0, 0)),
            (&[0x41, 0x5f], StackEffect::Pops(5)),
            (&[0x48, 0x89, 0xc8], StackEffect::Nothing),
            (&[0x48, 0x39, 0xe0], StackEffect::Nothing),
            (&[0xc8, 0x20, 0, 0], StackEffect::Loses(2)),
            (&[0x48, 0x0f, 0x44, 0xe0], StackEffect::Loads),
        ];
        for &(bytes, expected) in table {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            assert_eq!(insn.stack_effect(), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn what_no_constant_says_is_told() {
        let table: &[(&[u8], bool)] = &[
            (&[0x55], false),                         // push rbp
            (&[0x54], false),                         // push rsp
            (&[0xc9], false),                         // leave
            (&[0xc3], false),                         // ret
            (&[0x48, 0x83, 0xec, 0x18], false),       // sub rsp, 24
            (&[0x48, 0x83, 0xe4, 0xf0], false),       // and rsp, -16
            (&[0x48, 0x89, 0xec], false),             // mov rsp, rbp
            (&[0x48, 0x89, 0xe5], false),             // mov rbp, rsp
            (&[0x48, 0x8d, 0x65, 0xd8], false),       // lea rsp, [rbp-40]
            (&[0x48, 0x8d, 0x64, 0x24, 0x08], false), // lea rsp, [rsp+8]
            (&[0x48, 0x39, 0xc4], false),             // cmp rsp, rax
            (&[0x48, 0x89, 0xc8], false),             // mov rax, rcx
            (&[0x5c], true),                          // pop rsp
            (&[0x48, 0x29, 0xc4], true),              // sub rsp, rax
            (&[0x83, 0xc4, 0x08], true),              // add esp, 8
            (&[0x48, 0x21, 0xc4], true),              // and rsp, rax
            (&[0x48, 0x89, 0xdc], true),              // mov rsp, rbx
            (&[0x49, 0x8d, 0x62, 0xf8], true),        // lea rsp, [r10-8]
            (&[0x48, 0x8d, 0x24, 0x04], true),        // lea rsp, [rsp+rax]
            (&[0x48, 0x87, 0x27], true),              // xchg [rdi], rsp
            (&[0x48, 0x94], true),                    // xchg rsp, rax
            (&[0x48, 0x0f, 0x44, 0xe0], true),        // cmove rsp, rax
            (&[0xc8, 0x20, 0, 0], true),              // enter 32, 0
        ];
        for &(bytes, expected) in table {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            assert_eq!(insn.tells_stack(), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn what_the_frame_pointer_says_is_told_apart() {
        let told: [&[u8]; 3] = [
            &[0xc9],                   // leave
            &[0x48, 0x89, 0xec],       // mov rsp, rbp
            &[0x48, 0x8d, 0x65, 0xd8], // lea rsp, [rbp-40]
        ];
        let others: [&[u8]; 4] = [
            &[0x48, 0x89, 0xe5],             // mov rbp, rsp
            &[0x5d],                         // pop rbp
            &[0x48, 0x89, 0xdc],             // mov rsp, rbx
            &[0x48, 0x8d, 0x6c, 0x24, 0x08], // lea rbp, [rsp+8]
        ];
        let tells = |bytes: &&[u8]| Insn::decode(bytes, 0x1000).unwrap().tells_frame();
        assert!(told.iter().all(tells));
        assert!(!others.iter().any(tells));
    }
}
