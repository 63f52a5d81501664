//! Code for words that say where the program is, and for records ([`crate::Offsets`]).

use isa::{Cc, Flags, Reg};

use super::{Lowering, TO_ROUTINE, to_routine};
use crate::{NoScratch, Offsets, Sink, Symbol, Word};

impl<'a, S: Sink<'a>> Lowering<'_, S> {
    pub(super) fn here(&mut self, word: Word, value: u32) {
        let at = word.0.cast_signed();
        let asm = self.out.asm();
        asm.mov_gs_r32(at, Reg::Rsp);
        asm.mov_gs_imm32(at + 4, value);
    }

    pub(super) fn tell(&mut self, routine: Symbol, facts: [u32; 4]) {
        let behind = self.out.asm().here() + TO_ROUTINE;
        to_routine(self.out, routine, behind);
        for fact in facts {
            self.out.asm().bytes(&fact.to_le_bytes());
        }
    }

    pub(super) fn unwind(
        &mut self,
        top: Word,
        record: Offsets,
        word: Word,
    ) -> Result<(), NoScratch> {
        self.keep_flags(Flags::ALL);
        let (work, _) = self.scratch.work.ok_or(NoScratch)?;
        let asm = self.out.asm();
        asm.mov_r_gs(work, top.0.cast_signed());
        let again = asm.here();
        asm.cmp_gs_mem_r(work, record.level, Reg::Rsp);
        let holds = asm.jcc_short(Cc(3));
        asm.mov_r32_gs_mem(work, work, record.below);
        asm.jmp(again);
        asm.bind(holds);
        asm.mov_gs_r(top.0.cast_signed(), work);
        asm.mov_r_gs_mem(work, work, record.value);
        asm.mov_gs_r(word.0.cast_signed(), work);
        Ok(())
    }
}
