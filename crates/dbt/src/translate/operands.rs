//! Instructions whose memory operand, or selector, is not the cache's: out of reach, or
//! relative to gs, which is the engine's.

use isa::{Insn, Reg, relocate};

use super::{APP_GS, Emit};
use crate::engine::Engine;
use crate::indirect::{SPILL_OTHER, SPILL_RDX};
use crate::pcmap::Recipe;

impl Engine {
    /// Pushes the program's return address as one 8-byte store.
    pub(super) fn emit_push_return(&mut self, emit: &mut Emit<'_>, address: u64) {
        if address as i64 == i64::from(address as i32) {
            emit.asm.push_imm32(address as i32);
            return;
        }
        let literal = self
            .cache
            .cold(8, 8, |asm| asm.bytes(&address.to_le_bytes()))
            .expect("make_room leaves room for a block's literals");
        emit.asm.push_mem_rip(literal);
    }

    pub(super) fn emit_far_operand(&mut self, emit: &mut Emit<'_>, insn: &Insn, target: u64) {
        let scratch = relocate::free_register(insn, &[]);
        emit.asm.mov_gs_r(SPILL_OTHER, scratch);
        emit.asm.mov_r_imm(scratch, target);
        emit.cover(true, Recipe::other(scratch as u8));
        self.emit_changed(emit, insn, scratch);
    }

    pub(super) fn emit_gs_operand(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        let scratch = relocate::free_register(insn, &[]);
        let second = relocate::free_register(insn, &[scratch]);
        emit.asm.mov_gs_r(SPILL_OTHER, scratch);
        emit.cover(true, Recipe::NONE);
        let at = emit.asm.here();
        match (
            insn.rip_relative(),
            relocate::load_address(insn, scratch, at),
        ) {
            (Some((target, _)), _) => emit.asm.mov_r_imm(scratch, target),
            (None, Ok(bytes)) => emit.asm.bytes(&bytes),
            (None, Err(_)) => emit.asm.bytes(&[0x0F, 0x0B]),
        }
        emit.asm.mov_gs_r(SPILL_RDX, second);
        emit.asm.mov_r_gs(second, APP_GS);
        emit.asm.lea_sum(scratch, scratch, second, 0);
        emit.asm.mov_r_gs(second, SPILL_RDX);
        emit.cover(false, Recipe::other(scratch as u8));
        self.emit_changed(emit, insn, scratch);
    }

    /// A selector written to gs. gs itself stays the engine's: es makes the
    /// checks. What is left to the program is the base, which a null selector
    /// and every usable one make 0 (old AMD processors keep it for the former).
    pub(super) fn emit_gs_selector(&mut self, emit: &mut Emit<'_>, insn: &Insn, popped: u8) {
        let scratch = relocate::free_register(insn, &[]);
        emit.asm.mov_gs_r(SPILL_OTHER, scratch);
        emit.cover(true, Recipe::NONE);
        emit.asm.mov_r_es(scratch);
        emit.asm.mov_gs_r(SPILL_RDX, scratch);
        emit.asm.mov_r_gs(scratch, SPILL_OTHER);
        match relocate::load_other_selector(insn, emit.asm.here()) {
            Ok(bytes) => emit.asm.bytes(&bytes),
            Err(_) => emit.asm.bytes(&[0x0F, 0x0B]),
        }
        emit.cover(false, Recipe::other(scratch as u8));
        // Done: from here a signal steps on to the boundary.
        if popped > 0 {
            emit.asm.lea(Reg::Rsp, Reg::Rsp, i32::from(popped));
        }
        if self.settings.null_clears_base {
            emit.asm.mov_r_imm(scratch, 0);
            emit.asm.mov_gs_r(APP_GS, scratch);
        }
        emit.asm.mov_r_gs(scratch, SPILL_RDX);
        emit.asm.mov_es_r(scratch);
        emit.asm.mov_r_gs(scratch, SPILL_OTHER);
        emit.cover(false, Recipe::other(scratch as u8));
        emit.map.advance(insn.len());
    }

    /// `insn` with `[scratch]` for its operand, then the restore of scratch.
    pub(super) fn emit_changed(&mut self, emit: &mut Emit<'_>, insn: &Insn, scratch: Reg) {
        let at = emit.asm.here();
        match relocate::with_memory_at(insn, scratch, at) {
            Ok(bytes) => emit.asm.bytes(&bytes),
            Err(_) => emit.asm.bytes(&[0x0F, 0x0B]),
        }
        emit.cover(false, Recipe::other(scratch as u8));
        // The instruction is done; a signal here steps on to the boundary.
        emit.asm.mov_r_gs(scratch, SPILL_OTHER);
        emit.cover(false, Recipe::other(scratch as u8));
        emit.map.advance(insn.len());
    }
}
