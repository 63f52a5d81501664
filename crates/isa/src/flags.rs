//! Flags that an instruction reads and overwrites, and whether a handler may see them before it.
//!
//! Problem: what is counted changes flags, so it stands where nobody sees them: where all are
//! overwritten before they are read.
//!
//! Invariant: a flag counts as overwritten only if its value does not depend on what it was, on
//! any processor.

use iced_x86::{CpuidFeature, Mnemonic, OpKind, RflagsBits};

use crate::{Flow, Insn};

/// Flags an instruction reads or writes (the six arithmetic ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const ALL: Flags = Flags(0x3F);

    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Names of its flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = ["OF", "SF", "ZF", "AF", "CF", "PF"].into_iter().enumerate();
        let own = all.filter(move |(bit, _)| self.0 >> bit & 1 != 0);
        own.map(|(_, name)| name)
    }

    fn from_iced(bits: u32) -> Flags {
        const TABLE: [(u32, u8); 6] = [
            (RflagsBits::OF, 1),
            (RflagsBits::SF, 2),
            (RflagsBits::ZF, 4),
            (RflagsBits::AF, 8),
            (RflagsBits::CF, 16),
            (RflagsBits::PF, 32),
        ];
        Flags(
            TABLE
                .iter()
                .filter(|(bit, _)| bits & bit != 0)
                .fold(0, |set, (_, flag)| set | flag),
        )
    }
}

impl Insn {
    pub fn flags_read(&self) -> Flags {
        Flags::from_iced(self.raw.rflags_read())
    }

    /// Flags that do not survive the instruction. Those that it leaves undefined mostly do:
    /// AMD's processors keep them in multiplications, divisions and bit tests.
    pub fn flags_overwritten(&self) -> Flags {
        // A shift by a count that may be zero leaves the flags as they were.
        match self.raw.mnemonic() {
            Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
            | Mnemonic::Sal => Flags::NONE,
            _ if self.raw.has_rep_prefix() || self.raw.has_repne_prefix() => Flags::NONE,
            // The adjust flag is undefined behind them, and all processors clear it.
            Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => {
                Flags::from_iced(self.raw.rflags_modified())
            }
            _ => {
                let raw = &self.raw;
                Flags::from_iced(raw.rflags_written() | raw.rflags_cleared() | raw.rflags_set())
            }
        }
    }

    /// Whether a signal handler may see the state before it: everything but
    /// general registers in, general registers out, save for divisions, bases
    /// of segments, and what few processors have.
    pub fn may_fault(&self) -> bool {
        let mnemonic = self.raw.mnemonic();
        if self.raw.has_lock_prefix() {
            // Illegal without a store, and may fault with one.
            return true;
        }
        if matches!(self.flow(), Flow::Jump(_) | Flow::Cond(..)) {
            return false;
        }
        if mnemonic == Mnemonic::Lea || self.is_nop() {
            return false;
        }
        let general =
            |i| self.raw.op_kind(i) != OpKind::Register || self.raw.op_register(i).is_gpr();
        let is_plain = match self.raw.op_count() {
            0 => matches!(
                mnemonic,
                Mnemonic::Cbw
                    | Mnemonic::Cwde
                    | Mnemonic::Cdqe
                    | Mnemonic::Cwd
                    | Mnemonic::Cdq
                    | Mnemonic::Cqo
                    | Mnemonic::Clc
                    | Mnemonic::Stc
                    | Mnemonic::Cmc
                    | Mnemonic::Lahf
                    | Mnemonic::Sahf
            ),
            count => (0..count).all(general) && !self.may_access_memory(),
        };
        // Results and addresses that there are none of.
        let checks = matches!(
            mnemonic,
            Mnemonic::Div | Mnemonic::Idiv | Mnemonic::Wrfsbase | Mnemonic::Wrgsbase
        );
        !is_plain || checks || self.raw.is_privileged() || self.may_be_missing()
    }

    /// Whether it is an invalid opcode of processors that programs are for: what is in use
    /// everywhere, after a look at what the processor has, counts as there.
    fn may_be_missing(&self) -> bool {
        use CpuidFeature as Has;
        let is_common = |feature: &Has| {
            matches!(
                feature,
                Has::INTEL8086
                    | Has::INTEL186
                    | Has::INTEL286
                    | Has::INTEL386
                    | Has::INTEL486
                    | Has::X64
                    | Has::CMOV
                    | Has::MULTIBYTENOP
                    | Has::POPCNT
                    | Has::LZCNT
                    | Has::BMI1
                    | Has::BMI2
                    | Has::ADX
                    | Has::SSE4_2
            )
        };
        !self.raw.cpuid_features().iter().all(is_common)
    }
}
