//! Far branches: branches that load the code segment, too.
//!
//! Sizes are those of 64-bit mode (Intel SDM vol. 2, `CALL`, `JMP`, `RET`, `IRET`; AMD APM
//! vol. 3). With REX.W the pointer in memory has an offset of 64 bits on Intel's processors; AMD's
//! read one of 32 bits, and push 64 bits nevertheless.

use iced_x86::{Code, Mnemonic, Register};

use crate::Insn;

/// Kinds of far branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarKind {
    /// `ljmp` to a pointer in memory.
    Jump,
    /// `lcall` to a pointer in memory.
    Call,
    /// `lret`
    Return,
    /// `iret`
    InterruptReturn,
}

/// A far branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    pub kind: FarKind,
    /// Bytes of what it pushes or pops each time.
    pub operand: u64,
    /// Bytes of the offset in the pointer, before the selector.
    pub offset: u64,
    /// Bytes that a return frees besides.
    pub extra: u64,
}

impl Insn {
    pub(crate) fn far_kind(&self) -> Option<FarKind> {
        let raw = &self.raw;
        Some(match raw.mnemonic() {
            Mnemonic::Retf => FarKind::Return,
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => FarKind::InterruptReturn,
            _ if raw.is_jmp_far_indirect() => FarKind::Jump,
            _ if raw.is_call_far_indirect() => FarKind::Call,
            _ => return None,
        })
    }

    /// Its details, if it is a far branch.
    pub fn far(&self) -> Option<Far> {
        const REX: core::ops::RangeInclusive<u8> = 0x40..=0x4F;
        const W: u8 = 8;
        let kind = self.far_kind()?;
        let last_prefix = self.prefixes().checked_sub(1).map(|at| self.bytes()[at]);
        let is_wide = last_prefix.is_some_and(|byte| REX.contains(&byte) && byte & W != 0);
        let is_short = matches!(
            self.raw.code(),
            Code::Jmp_m1616 | Code::Call_m1616 | Code::Retfw | Code::Retfw_imm16 | Code::Iretw
        );
        let operand = match (is_wide, is_short) {
            (true, _) => 8,
            (_, true) => 2,
            _ => 4,
        };
        let offset = match is_wide && crate::vendor::is_amd() {
            true => 4,
            false => operand,
        };
        let has_number = kind == FarKind::Return && self.raw.op_count() == 1;
        Some(Far {
            kind,
            operand,
            offset,
            extra: u64::from(if has_number {
                self.raw.immediate16()
            } else {
                0
            }),
        })
    }

    /// Address of the pointer that a far jump or call loads, given the general registers in the
    /// order of their encoding and the bases of fs and gs.
    pub fn far_pointer(&self, regs: &[u64; 16], fs: impl FnOnce() -> u64, gs: u64) -> Option<u64> {
        let base = match self.raw.memory_segment() {
            Register::FS => fs(),
            Register::GS => gs,
            _ => 0,
        };
        self.raw.virtual_address(0, 0, |register, _, _| {
            if register.is_segment_register() {
                return Some(base);
            }
            let general = register.is_gpr().then(|| register.full_register().number());
            regs.get(general?).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Far, FarKind};
    use crate::{Flow, Insn};

    #[test]
    fn far_branches_have_the_sizes_of_the_manual() {
        let far = |kind, operand, extra| Far {
            kind,
            operand,
            offset: operand,
            extra,
        };
        let table: &[(&[u8], Far)] = &[
            (&[0xCB], far(FarKind::Return, 4, 0)),
            (&[0x48, 0xCB], far(FarKind::Return, 8, 0)),
            (&[0x66, 0xCB], far(FarKind::Return, 2, 0)),
            (&[0x66, 0x48, 0xCB], far(FarKind::Return, 8, 0)),
            (&[0xCA, 0x18, 0x80], far(FarKind::Return, 4, 0x8018)),
            (&[0xCF], far(FarKind::InterruptReturn, 4, 0)),
            (&[0x48, 0xCF], far(FarKind::InterruptReturn, 8, 0)),
            (&[0x66, 0xCF], far(FarKind::InterruptReturn, 2, 0)),
            (&[0xFF, 0x28], far(FarKind::Jump, 4, 0)),
            (&[0x66, 0xFF, 0x28], far(FarKind::Jump, 2, 0)),
            (&[0xFF, 0x18], far(FarKind::Call, 4, 0)),
        ];
        for &(bytes, expected) in table {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            let found = insn.far().unwrap();
            let is_wide = Far {
                offset: found.operand,
                ..found
            };
            assert_eq!(is_wide, expected, "{bytes:x?}");
            assert_eq!(insn.flow(), Flow::Far(expected.kind), "{bytes:x?}");
        }
        for (bytes, kind) in [
            ([0x48, 0xFF, 0x28], FarKind::Jump),
            ([0x48, 0xFF, 0x18], FarKind::Call),
        ] {
            let insn = Insn::decode(&bytes, 0x1000).unwrap();
            let far = insn.far().unwrap();
            assert_eq!((far.kind, far.operand), (kind, 8));
        }
        // Faults by definition: locked, `hlt`, `sysret`.
        for bytes in [&[0xF0, 0xCB][..], &[0xF4], &[0x0F, 0x07]] {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            assert!(!matches!(insn.flow(), Flow::Far(_)), "{bytes:x?}");
        }
    }

    #[test]
    fn pointers_are_addressed_by_registers_and_segments() {
        let mut regs = [0; 16];
        (regs[0], regs[4], regs[9]) = (0x1_0000_1000, 0x2000, 0x10);
        let table: &[(&[u8], u64)] = &[
            (&[0xFF, 0x28], 0x1_0000_1000),
            (&[0x67, 0xFF, 0x28], 0x1000),
            (&[0xFF, 0x6C, 0x24, 0x08], 0x2008),
            (&[0x49, 0xFF, 0x69, 0x08], 0x18),
            (&[0x64, 0xFF, 0x6C, 0x24, 0x08], 0x5_2008),
            (&[0x65, 0x42, 0xFF, 0x2C, 0x0C], 0x0a_2010),
            (&[0xFF, 0x2D, 0x10, 0, 0, 0], 0x1016),
        ];
        for &(bytes, expected) in table {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            let found = insn.far_pointer(&regs, || 0x5_0000, 0xa_0000);
            assert_eq!(found, Some(expected), "{bytes:x?}");
        }
    }
}
