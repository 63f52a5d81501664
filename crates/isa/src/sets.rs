//! Sets of registers: those that an instruction reads, and those whose old value it leaves nothing of.
//!
//! Invariant: a register is in [`Effects::overwritten`] only if no part of its old value is left, on any
//! processor: `mov al, 1` overwrites nothing, `mov eax, 1` overwrites `rax`, `movaps xmm0, xmm1` leaves the upper part
//! of `ymm0`, `vmovaps` does not.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, Register};

use crate::{Flags, Insn, Reg};

/// Registers, a bit each, by their encoding, and flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterSet {
    /// `rax` to `r15`.
    pub general: u16,
    /// `xmm0` to `xmm31`.
    pub vectors: u32,
    /// The parts of `zmm0` to `zmm31` above those: code without AVX neither reads nor writes it.
    pub uppers: u32,
    /// `k0` to `k7`.
    pub masks: u8,
    pub flags: Flags,
}

impl RegisterSet {
    pub const NONE: RegisterSet = RegisterSet {
        general: 0,
        vectors: 0,
        uppers: 0,
        masks: 0,
        flags: Flags::NONE,
    };
    pub const ALL: RegisterSet = RegisterSet {
        general: !0,
        vectors: !0,
        uppers: !0,
        masks: !0,
        flags: Flags::ALL,
    };

    #[must_use]
    pub const fn with(self, other: RegisterSet) -> RegisterSet {
        RegisterSet {
            general: self.general | other.general,
            vectors: self.vectors | other.vectors,
            uppers: self.uppers | other.uppers,
            masks: self.masks | other.masks,
            flags: self.flags.with(other.flags),
        }
    }

    #[must_use]
    pub const fn without(self, other: RegisterSet) -> RegisterSet {
        RegisterSet {
            general: self.general & !other.general,
            vectors: self.vectors & !other.vectors,
            uppers: self.uppers & !other.uppers,
            masks: self.masks & !other.masks,
            flags: self.flags.without(other.flags),
        }
    }

    /// Names of its registers and flags; vector registers as `xmm0`, those of whose upper parts something is in it as
    /// `zmm0`.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let general = Reg::ALL.into_iter();
        let general = general.filter(|reg| self.general >> (*reg as u8) & 1 != 0);
        let vectors = (0..32).filter(|at| (self.vectors | self.uppers) >> at & 1 != 0);
        let masks = (0..8).filter(|at| self.masks >> at & 1 != 0);
        let mut names: Vec<String> = general.map(|reg| reg.name().to_owned()).collect();
        names.extend(vectors.map(|at| match self.uppers >> at & 1 {
            0 => format!("xmm{at}"),
            _ => format!("zmm{at}"),
        }));
        names.extend(masks.map(|at| format!("k{at}")));
        names.extend(self.flags.names().map(str::to_owned));
        names
    }

    fn add(&mut self, register: Register) {
        let bit = register.number();
        if register.is_gpr() {
            self.general |= 1 << register.full_register().number();
        } else if register.is_vector_register() {
            self.vectors |= 1 << bit;
            if !register.is_xmm() {
                self.uppers |= 1 << bit;
            }
        } else if register.is_k() {
            self.masks |= 1 << bit;
        }
    }
}

/// Registers and flags of an instruction. What its branch does elsewhere is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub read: RegisterSet,
    /// Nothing of their old values is left.
    pub overwritten: RegisterSet,
    /// Registers whose values it may change; flags are not among them.
    pub written: RegisterSet,
}

/// Finds [`Effects`]; it keeps the room for it.
#[derive(Debug)]
pub struct EffectsOf(InstructionInfoFactory);

impl Default for EffectsOf {
    fn default() -> EffectsOf {
        EffectsOf(InstructionInfoFactory::new())
    }
}

impl EffectsOf {
    #[must_use]
    pub fn new() -> EffectsOf {
        EffectsOf::default()
    }

    pub fn of(&mut self, insn: &Insn) -> Effects {
        let mut effects = Effects::default();
        for used in self.0.info(&insn.raw).used_registers() {
            let register = used.register();
            if used.access() == OpAccess::Write && is_whole(register) {
                effects.overwritten.add(register);
            }
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => effects.read.add(register),
                OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                    effects.read.add(register);
                    effects.written.add(register);
                }
                OpAccess::Write => effects.written.add(register),
                OpAccess::None | OpAccess::NoMemAccess => {}
            }
        }
        if saves_vectors(insn.raw.mnemonic()) {
            effects.read.vectors = !0;
            effects.read.uppers = !0;
            effects.read.masks = !0;
        }
        effects.read.flags = insn.flags_read();
        effects.overwritten.flags = insn.flags_overwritten();
        effects
    }
}

/// Whether nothing is left of a register's value after this part of it was written.
fn is_whole(register: Register) -> bool {
    let is_vector = register.is_xmm() || register.is_zmm();
    register.is_gpr32() || register.is_gpr64() || is_vector || register.is_k()
}

/// Whether vector registers are written to an area of memory, which is no operand that names them.
fn saves_vectors(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Fxsave
            | Mnemonic::Fxsave64
            | Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xsaves
            | Mnemonic::Xsaves64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Effects {
        EffectsOf::new().of(&Insn::decode(bytes, 0x1000).unwrap())
    }

    #[test]
    fn what_is_left_of_a_register_counts() {
        // mov al, 1; mov eax, 1; mov ax, 1
        assert_eq!(of(&[0xb0, 1]).overwritten.general, 0);
        assert_eq!(of(&[0xb8, 1, 0, 0, 0]).overwritten.general, 1);
        assert_eq!(of(&[0x66, 0xb8, 1, 0]).overwritten.general, 0);
        // movaps xmm0, xmm1; vmovaps xmm0, xmm1
        let vectors = |bytes: &[u8]| {
            let effects = of(bytes);
            let of = |set: RegisterSet| (set.vectors, set.uppers);
            (of(effects.read), of(effects.overwritten))
        };
        assert_eq!(vectors(&[0x0f, 0x28, 0xc1]), ((2, 0), (1, 0)));
        assert_eq!(vectors(&[0xc5, 0xf8, 0x28, 0xc1]), ((2, 0), (1, 1)));
        // vmovaps ymm0, ymm1
        assert_eq!(vectors(&[0xc5, 0xfc, 0x28, 0xc1]), ((2, 2), (1, 1)));
        // movsd xmm0, [rax] clears the other half; all the following leave something of xmm0:
        assert_eq!(vectors(&[0xf2, 0x0f, 0x10, 0x00]), ((0, 0), (1, 0)));
        for partial in [
            &[0xf2, 0x0f, 0x10, 0xc1][..],      // movsd xmm0, xmm1
            &[0x0f, 0x12, 0x00],                // movlps xmm0, [rax]
            &[0xf2, 0x0f, 0x2a, 0xc0],          // cvtsi2sd xmm0, eax
            &[0xf2, 0x0f, 0x51, 0xc1],          // sqrtsd xmm0, xmm1
            &[0xf3, 0x0f, 0x5a, 0xc1],          // cvtss2sd xmm0, xmm1
            &[0x66, 0x0f, 0x3a, 0x22, 0xc0, 1], // pinsrd xmm0, eax, 1
            &[0x66, 0x0f, 0x3a, 0x0b, 0xc1, 0], // roundsd xmm0, xmm1, 0
            &[0xf3, 0x0f, 0x53, 0xc1],          // rcpss xmm0, xmm1
        ] {
            let ((read, _), _) = vectors(partial);
            assert_eq!(read & 1, 1, "{partial:x?}");
        }
        // xorps xmm0, xmm0; pcmpeqd xmm0, xmm0
        assert_eq!(vectors(&[0x0f, 0x57, 0xc0]), ((0, 0), (1, 0)));
        // lea eax, [rax+1]: read and overwritten.
        let lea = of(&[0x8d, 0x40, 1]);
        assert_eq!((lea.read.general, lea.overwritten.general), (1, 1));
        // cmove eax, ecx clears the upper half, and reads the lower one.
        let cmov = of(&[0x0f, 0x44, 0xc1]);
        assert_eq!((cmov.read.general, cmov.overwritten.general), (3, 1));
        // xor eax, eax reads nothing.
        assert_eq!(of(&[0x31, 0xc0]).read.general, 0);
        // vpaddd zmm1{k2}, zmm3, zmm4: elements of the old value may be left.
        let masked = of(&[0x62, 0xf1, 0x65, 0x4a, 0xfe, 0xcc]);
        assert_eq!((masked.read.vectors, masked.read.masks), (0b11010, 4));
        // fxsave [rax]
        assert_eq!(of(&[0x0f, 0xae, 0x00]).read.vectors, !0);
    }

    #[test]
    fn flags_by_a_count_may_be_left() {
        // shl eax, cl; add eax, ecx; inc eax
        assert_eq!(of(&[0xd3, 0xe0]).overwritten.flags, Flags::NONE);
        assert_eq!(of(&[0x01, 0xc8]).overwritten.flags, Flags::ALL);
        assert_ne!(of(&[0xff, 0xc0]).overwritten.flags, Flags::ALL);
        // pushfq reads all of them.
        assert_eq!(of(&[0x9c]).read.flags, Flags::ALL);
    }
}
