//! Code for words that say where the program is, and for records ([`crate::Offsets`]).

use core::mem::offset_of;

use isa::{Cc, Flags, Reg};
use wire::contexts::{BYTES, Entry, RECORD, Record, State};
use wire::counters::FIRST;

use super::{LINK, Lowering, TO_ROUTINE, give_back, keep, to_routine};
use crate::{NoScratch, Offsets, Sink, Symbol, Word};

const BELOW: Cc = Cc(2);
const EQUAL: Cc = Cc(4);
const NOT_EQUAL: Cc = Cc(5);
const ABOVE: Cc = Cc(7);
const NOT_ABOVE: Cc = Cc(6);

/// The top record that leaves no room above.
const LAST: u32 = (FIRST + BYTES - 4 * RECORD) as u32;

const fn word(offset: usize) -> i32 {
    (FIRST as usize + offset) as i32
}

const NUMBER: i32 = word(offset_of!(State, number));
const SITE: i32 = word(offset_of!(State, site));
const TOP: i32 = word(offset_of!(State, top));

impl<'a, S: Sink<'a>> Lowering<'_, S> {
    pub(super) fn here(&mut self, word: Word, value: u32) {
        let at = word.0.cast_signed();
        let asm = self.out.asm();
        match self.scratch.pair {
            // It will be read as a whole, which waits for two stores to be done, and not for one.
            Some((whole, half)) => {
                asm.mov_r_imm(whole, u64::from(value) << 32);
                asm.mov_r32_r32(half, Reg::Rsp);
                asm.lea_sum(whole, whole, half, 0);
                asm.mov_gs_r(at, whole);
            }
            None => {
                asm.mov_gs_r32(at, Reg::Rsp);
                asm.mov_gs_imm32(at + 4, value);
            }
        }
    }

    pub(super) fn tell(&mut self, routine: Symbol, facts: [u32; 4]) {
        let behind = self.out.asm().here() + TO_ROUTINE;
        to_routine(self.out, routine, behind);
        for fact in facts {
            self.out.asm().bytes(&fact.to_le_bytes());
        }
    }

    pub(super) fn look(&mut self, routine: Symbol, facts: [u32; 4]) {
        self.give_back_flags();
        self.has_flags = false;
        self.tell(routine, facts);
    }

    pub(super) fn put(&mut self, routine: Symbol, facts: [u32; 4]) -> Result<(), NoScratch> {
        let (copy, kept) = self.scratch.copy.ok_or(NoScratch)?;
        let [entry, by, kind, has_node] = facts;
        let new = |offset: usize| (RECORD as usize + offset) as i32;
        let asm = self.out.asm();
        if let Some(kept) = kept {
            keep(asm, copy, kept);
        }
        // The third argument of a handler is what the kernel puts behind its return address.
        asm.lea(copy, Reg::Rsp, 8);
        asm.cmp_r_r(copy, Reg::Rdx);
        let may_be_handler = asm.jcc_short(EQUAL);
        asm.mov_r_gs(LINK, TOP);
        asm.cmp_gs_mem_r(LINK, offset_of!(Record, level) as i32, Reg::Rsp);
        let is_left = asm.jcc_short(NOT_ABOVE);
        asm.cmp_r32_imm(LINK, LAST);
        let has_no_room = asm.jcc_short(ABOVE);
        asm.mov_gs_mem_r(LINK, new(offset_of!(Record, level)), Reg::Rsp);
        asm.mov_r_gs(copy, NUMBER);
        asm.mov_gs_mem_r(LINK, new(offset_of!(Record, number)), copy);
        asm.mov_r_gs(copy, SITE);
        asm.mov_gs_mem_r(LINK, new(offset_of!(Record, site)), copy);
        asm.mov_gs_mem_imm32(LINK, new(offset_of!(Record, entry)), entry);
        asm.mov_gs_mem_imm32(LINK, new(offset_of!(Record, by)), by);
        asm.mov_gs_mem_imm32(LINK, new(offset_of!(Record, kind)), kind);
        asm.mov_gs_mem_r32(LINK, new(offset_of!(Record, below)), LINK);
        if has_node != 0 {
            asm.mov_gs_mem_imm32(LINK, new(offset_of!(Record, interrupted)), 0);
        }
        asm.lea(LINK, LINK, RECORD as i32);
        asm.mov_gs_r(TOP, LINK);
        if let Some(kept) = kept {
            give_back(asm, copy, kept);
        }
        let done = asm.jmp_short();
        for jump in [may_be_handler, is_left, has_no_room] {
            asm.bind(jump);
        }
        if let Some(kept) = kept {
            give_back(asm, copy, kept);
        }
        self.tell(routine, facts);
        self.out.asm().bind(done);
        Ok(())
    }

    pub(super) fn count(&mut self, routine: Symbol, facts: [u32; 4]) -> Result<(), NoScratch> {
        let (copy, kept) = self.scratch.copy.ok_or(NoScratch)?;
        let [function, _, last, _] = facts;
        let asm = self.out.asm();
        if let Some(kept) = kept {
            keep(asm, copy, kept);
        }
        let word = |at: usize| (offset_of!(Entry, words) + 8 * at) as i32;
        // Two functions may have one word.
        asm.mov_r_gs(LINK, last.cast_signed());
        asm.cmp_r32_imm(LINK, 0);
        let is_none = asm.jcc_short(EQUAL);
        asm.mov_r_mem(copy, LINK, word(0));
        asm.cmp_r32_imm(copy, function);
        let is_other = asm.jcc_short(NOT_EQUAL);
        asm.mov_r_mem(copy, LINK, word(1));
        asm.cmp_r_gs(copy, NUMBER);
        let has_other_number = asm.jcc_short(NOT_EQUAL);
        asm.mov_r_gs(copy, TOP);
        asm.cmp_gs_mem_r(copy, offset_of!(Record, level) as i32, Reg::Rsp);
        let is_left = asm.jcc_short(BELOW);
        asm.mov_r32_gs_mem(copy, copy, offset_of!(Record, interrupted) as i32);
        asm.cmp_r_mem(copy, LINK, word(2));
        let has_other_node = asm.jcc_short(NOT_EQUAL);
        asm.mov_r_mem(LINK, LINK, offset_of!(Entry, value) as i32);
        asm.inc_mem(LINK);
        if let Some(kept) = kept {
            give_back(asm, copy, kept);
        }
        let done = asm.jmp_short();
        let jumps = [is_none, is_other, has_other_number, is_left, has_other_node];
        for jump in jumps {
            asm.bind(jump);
        }
        if let Some(kept) = kept {
            give_back(asm, copy, kept);
        }
        self.tell(routine, facts);
        self.out.asm().bind(done);
        Ok(())
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
