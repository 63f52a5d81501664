//! The program's gs: how each instruction is executed whose access it is part of.
//!
//! Problem: gs is the engine's, so an override of gs must not reach the processor.
//!
//! Approach: an operand that is named in full can be addressed by a register that holds
//! its linear address ([`GsUse::Operand`]). Everything else (implied operands of string
//! instructions, `xlat`, masked moves; vectors of indices; absolute 64-bit addresses) is
//! executed with fs for gs, while fs has the program's gs base ([`GsUse::Base`]).
//!
//! Invariant: the processor ignores overrides of cs, ds, es and ss beside one of gs,
//! and of fs and gs the last one counts, as the decoder has it.

use alloc::vec::Vec;

use iced_x86::{Code, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpKind, Register};

use crate::{Insn, Reg};

const GS: u8 = 0x65;
const FS: u8 = 0x64;

/// How an instruction comes to the program's gs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsUse {
    Nothing,
    /// By a memory operand that a register can address.
    Operand,
    /// By its encoding as a whole.
    Base,
}

/// `rdgsbase`, `wrgsbase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsBaseAccess {
    pub write: bool,
    pub register: Reg,
    /// 64 bits of it, else 32.
    pub wide: bool,
}

impl Insn {
    /// Whether gs may be in it at all: as a prefix, which may say nothing, as its base, or as a selector. It is not in an
    /// instruction without prefixes but one REX, unless that is `mov` to a selector, `pop gs` or `lgs`; to read or write
    /// the base takes a prefix.
    #[inline]
    pub fn may_name_gs(&self) -> bool {
        let [first, second, third, ..] = *self.all_bytes();
        let (opcode, next) = match first {
            0x40..=0x4F => (second, third),
            _ => (first, second),
        };
        match opcode {
            0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3 => true,
            0x8E => true,
            0x0F => matches!(next, 0xA9 | 0xB5),
            _ => false,
        }
    }

    /// Whether it has a memory operand through the program's gs.
    pub fn uses_gs(&self) -> bool {
        self.raw.segment_prefix() == Register::GS
            && self.raw.mnemonic() != Mnemonic::Lea
            && (0..self.raw.op_count()).any(|i| self.raw.op_kind(i) == OpKind::Memory)
    }

    /// How it uses the program's gs.
    pub fn gs_use(&self) -> GsUse {
        if self.raw.segment_prefix() != Register::GS || self.raw.mnemonic() == Mnemonic::Lea {
            return GsUse::Nothing;
        }
        if self.uses_gs() && !self.is_addressed_as_a_whole() {
            return GsUse::Operand;
        }
        let mut factory = InstructionInfoFactory::new();
        let without = InstructionInfoOptions::NO_REGISTER_USAGE;
        let used = factory.info_options(&self.raw, without).used_memory();
        match used.iter().any(|memory| memory.segment() == Register::GS) {
            true => GsUse::Base,
            false => GsUse::Nothing,
        }
    }

    /// Whether its memory operand cannot be that of a register's value.
    fn is_addressed_as_a_whole(&self) -> bool {
        let raw = &self.raw;
        if matches!(raw.memory_base(), Register::RIP | Register::EIP) {
            return false;
        }
        let absolute = matches!(
            raw.code(),
            Code::Mov_AL_moffs8
                | Code::Mov_AX_moffs16
                | Code::Mov_EAX_moffs32
                | Code::Mov_RAX_moffs64
                | Code::Mov_moffs8_AL
                | Code::Mov_moffs16_AX
                | Code::Mov_moffs32_EAX
                | Code::Mov_moffs64_RAX
        );
        // The address of what is popped to follows the pop; that of `xlat` has registers of
        // its own. The size of addresses is that of
        // another operand. The index is more than a part of the address. The kernel stores
        // for the last five, and reads their prefixes.
        let special = matches!(
            raw.mnemonic(),
            Mnemonic::Pop
                | Mnemonic::Xlatb
                | Mnemonic::Movdir64b
                | Mnemonic::Enqcmd
                | Mnemonic::Enqcmds
                | Mnemonic::Bndldx
                | Mnemonic::Bndstx
                | Mnemonic::Tileloadd
                | Mnemonic::Tileloaddt1
                | Mnemonic::Tilestored
                | Mnemonic::Sgdt
                | Mnemonic::Sidt
                | Mnemonic::Sldt
                | Mnemonic::Smsw
                | Mnemonic::Str
        );
        absolute || special || raw.memory_index().is_vector_register()
    }

    /// Its bytes with overrides of fs for those of gs, and the reverse: as many of both as
    /// before, and the last is one of fs.
    pub fn with_fs_for_gs(&self) -> Vec<u8> {
        let mut bytes = self.bytes().to_vec();
        for prefix in &mut bytes[..self.prefixes()] {
            match *prefix {
                GS => *prefix = FS,
                FS => *prefix = GS,
                _ => {}
            }
        }
        bytes
    }

    /// The instruction without an override of gs that says nothing: with one of ds, which never does. So
    /// a prefix of gs in the cache is the engine's.
    pub fn without_idle_gs(&self) -> Insn {
        const DS: u8 = 0x3E;
        let number = self.prefixes();
        let mut other = *self;
        for prefix in &mut other.bytes_mut()[..number] {
            if *prefix == GS {
                *prefix = DS;
            }
        }
        other
    }

    pub fn gs_base_access(&self) -> Option<GsBaseAccess> {
        let (write, wide) = match self.raw.code() {
            _ if self.raw.has_lock_prefix() => return None,
            Code::Rdgsbase_r64 => (false, true),
            Code::Rdgsbase_r32 => (false, false),
            Code::Wrgsbase_r64 => (true, true),
            Code::Wrgsbase_r32 => (true, false),
            _ => return None,
        };
        let register = Reg::ALL[self.raw.op0_register().number()];
        Some(GsBaseAccess {
            write,
            register,
            wide,
        })
    }

    /// Whether it writes a selector to gs that is not that of [`Insn::gs_selector_write`]: there
    /// is no other register that it could be given to.
    pub fn writes_gs_from_memory(&self) -> bool {
        let is_move = matches!(
            self.raw.code(),
            Code::Mov_Sreg_rm16 | Code::Mov_Sreg_r32m16 | Code::Mov_Sreg_r64m16
        );
        self.raw.mnemonic() == Mnemonic::Lgs
            || is_move && self.raw.op0_register() == Register::GS && self.uses_gs()
    }

    /// `mov gs, x`, or `pop gs` and the number of bytes it pops.
    pub fn gs_selector_write(&self) -> Option<u8> {
        match self.raw.code() {
            Code::Mov_Sreg_rm16 | Code::Mov_Sreg_r32m16 | Code::Mov_Sreg_r64m16
                if self.raw.op0_register() == Register::GS && !self.uses_gs() =>
            {
                Some(0)
            }
            Code::Popw_GS => Some(2),
            Code::Popq_GS => Some(8),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_its_way_to_gs() {
        let table: &[(&[u8], GsUse)] = &[
            (&[0x65, 0x48, 0x8b, 0x07], GsUse::Operand), // mov rax, gs:[rdi]
            (&[0x48, 0x8b, 0x07], GsUse::Nothing),       // mov rax, [rdi]
            (&[0x65, 0x48, 0x8d, 0x07], GsUse::Nothing), // lea
            (&[0x65, 0xa4], GsUse::Base),                // movsb
            (&[0xf3, 0x65, 0xa4], GsUse::Base),          // rep movsb
            (&[0x65, 0xaa], GsUse::Nothing),             // stosb: es
            (&[0x65, 0xd7], GsUse::Base),                // xlat
            (&[0x65, 0x66, 0x0f, 0xf7, 0xc1], GsUse::Base), // maskmovdqu
            (&[0x65, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0], GsUse::Base), // mov al, gs:[absolute]
            (&[0x65, 0x8f, 0x04, 0x24], GsUse::Base),    // pop gs:[rsp]
            (&[0x65, 0x64, 0xa4], GsUse::Nothing),       // fs is last
            (&[0x64, 0x65, 0x2e, 0xa4], GsUse::Base),    // gs is
            (&[0x65, 0x50], GsUse::Nothing),             // push rax
        ];
        for &(bytes, expected) in table {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            assert_eq!(insn.gs_use(), expected, "{bytes:x?}");
        }
        let rep = Insn::decode(&[0xf3, 0x2e, 0x65, 0xa4], 0x1000).unwrap();
        assert_eq!(rep.with_fs_for_gs(), [0xf3, 0x2e, 0x64, 0xa4]);
        let push = Insn::decode(&[0x65, 0x47, 0x55], 0x1000).unwrap();
        assert_eq!(push.without_idle_gs().bytes(), [0x3e, 0x47, 0x55]);
    }
}
