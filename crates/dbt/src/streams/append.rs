//! Appends: what emitted code does where it leaves a superblock of which something is recorded.
//!
//! One append has outcomes of branches, instructions that no outcome tells of, and the end of
//! what is stored of accesses to memory; each only if there is any.

use isa::memory::recorded;
use isa::{Asm, Reg};
use wire::stream;

use super::{Outcomes, append, spilled};
use crate::accesses::Stored;

/// Outcomes, and the end of what is stored of accesses, that emitted code appends.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    pub(super) outcomes: Outcomes,
    /// Executed since the append before.
    pub(super) insns: u8,
    pub(super) stored: Stored,
    /// Address behind which nothing is known of registers.
    pub(super) mark: Option<u64>,
    /// Instructions that no outcome tells of, and the word that they are added to.
    pub(super) added: Option<(i32, i32)>,
}

impl Append {
    /// Most bytes of code, with the spill and without.
    const SPILL: u64 = 18;
    const OUTCOMES: u64 = 9 + 5 + 4 + 9;
    const ADDED: u64 = 9 + 7 + 9;
    const STORED: u64 = 9 + 7 + 6 + 7 + 9;
    const VALUES: u64 = 9 + 7 + 9;

    pub(super) fn is_nothing(self) -> bool {
        self.outcomes.are_none() && self.stored.bytes.is_none() && self.mark.is_none()
    }

    pub fn has_outcomes(self) -> bool {
        !self.outcomes.are_none()
    }

    pub fn and_add(self, word: i32, number: i32) -> Append {
        Append {
            added: Some((word, number)),
            ..self
        }
    }

    /// Without the accesses of the last instruction.
    pub fn without_last(self) -> Append {
        let bytes = self.stored.bytes.without(self.stored.last);
        Append {
            stored: Stored {
                bytes,
                ..self.stored
            },
            ..self
        }
    }

    pub fn bytes(self) -> u64 {
        let stored = self.stored.bytes.addresses > 0 || self.mark.is_some();
        let parts = [
            (self.stored.bytes.values > 0, Append::VALUES),
            (self.has_outcomes(), Append::OUTCOMES),
            (self.added.is_some(), Append::ADDED),
            (stored, Append::STORED),
        ];
        let parts = parts.into_iter().filter(|(has, _)| *has);
        parts.map(|(_, bytes)| bytes).sum()
    }

    pub fn spilled_bytes(self) -> u64 {
        self.bytes() + Append::SPILL
    }

    /// With rdx free.
    pub fn emit(self, asm: &mut Asm<'_>) {
        if self.has_outcomes() {
            append(asm, self.outcomes.lane.into(), |asm| {
                let entry = [self.outcomes.bits, self.insns];
                asm.mov_mem_imm16(Reg::Rdx, 0, u16::from_le_bytes(entry));
                stream::ENTRY as i32
            });
        }
        if let Some((word, number)) = self.added {
            asm.mov_r_gs(Reg::Rdx, word);
            asm.lea(Reg::Rdx, Reg::Rdx, number);
            asm.mov_gs_r(word, Reg::Rdx);
        }
        self.emit_stored(asm);
    }

    /// The ends of the lanes go behind what is stored, and a mark.
    fn emit_stored(self, asm: &mut Asm<'_>) {
        if self.stored.bytes.values > 0 {
            append(asm, stream::VALUES, |_| self.stored.bytes.values.into());
        }
        let at = self.stored.bytes.addresses as i8;
        if at == 0 && self.mark.is_none() {
            return;
        }
        append(asm, stream::ADDRESSES, |asm| {
            let Some(pc) = self.mark else {
                return at.into();
            };
            let mark = pc | recorded::MARK;
            asm.mov_mem_imm32(Reg::Rdx, at, mark as u32);
            asm.mov_mem_imm16(Reg::Rdx, at + 4, (mark >> 32) as u16);
            i32::from(at) + recorded::SHORT as i32
        });
    }

    pub fn emit_spilled(self, asm: &mut Asm<'_>) {
        spilled(asm, |asm| self.emit(asm));
    }
}
