//! Instructions whose memory operand, or selector, is not the cache's: out of reach, or
//! relative to gs, which is the engine's; and what branches load and push.

use isa::segments::GsBaseAccess;
use isa::{Insn, Reg, relocate};

use super::{APP_GS, Emit};
use crate::engine::Engine;
use crate::indirect::{SPILL_OTHER, SPILL_RDX};
use crate::pcmap::Recipe;

const APP_FS: i32 = core::mem::offset_of!(agent::thread::ThreadContext, app_fs) as i32;

/// `rdgsbase r`, `wrgsbase r`. A base that is no address faults in `wrfsbase`, which makes the
/// same checks.
pub(super) fn emit_gs_base(emit: &mut Emit<'_>, insn: &Insn, access: GsBaseAccess) {
    let register = access.register;
    match (access.write, access.wide) {
        (false, true) => emit.asm.mov_r_gs(register, APP_GS),
        (false, false) => emit.asm.mov_r32_gs(register, APP_GS),
        (true, wide) => {
            let scratch = relocate::free_register(insn, &[]);
            emit.asm.mov_gs_r(SPILL_OTHER, scratch);
            emit.cover(true, Recipe::NONE);
            if wide {
                emit.asm.rdfsbase(scratch);
                emit.asm.wrfsbase(register);
                emit.asm.wrfsbase(scratch);
                emit.asm.mov_gs_r(APP_GS, register);
            } else {
                emit.asm.mov_r32_r32(scratch, register);
                emit.asm.mov_gs_r(APP_GS, scratch);
            }
            emit.asm.mov_r_gs(scratch, SPILL_OTHER);
            emit.cover(false, Recipe::other(scratch as u8));
            return emit.map.advance(insn.len());
        }
    }
    emit.over(insn);
}

/// rcx = what an indirect branch has at the address in rcx.
fn emit_load_from_rcx(emit: &mut Emit<'_>, insn: &Insn) {
    match insn.is_16_bit_branch() {
        true => emit.asm.movzx_r32_mem16(Reg::Rcx, Reg::Rcx),
        false => emit.asm.mov_r_mem(Reg::Rcx, Reg::Rcx, 0),
    }
}

impl Engine {
    /// Pushes the program's return address, that behind `insn`, as one store of 8 bytes; of
    /// 2 if the call has an operand of 16 bits.
    pub(super) fn emit_push_return(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        let address = insn.next_pc();
        if insn.is_16_bit_branch() {
            return emit.asm.push_imm16(address as u16);
        }
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

    /// rcx = the branch's operand. Faults leave all registers as they were.
    pub(super) fn emit_target_load(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        if insn.uses_gs() {
            match (
                insn.relative_target(),
                relocate::load_address(insn, Reg::Rcx, emit.asm.here()),
            ) {
                (Some(target), _) => emit.asm.mov_r_imm(Reg::Rcx, target),
                (None, Ok(bytes)) => emit.asm.bytes(&bytes),
                (None, Err(_)) => emit.asm.bytes(&[0x0F, 0x0B]),
            }
            emit.asm.mov_r_gs(Reg::Rdx, APP_GS);
            emit.asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
            return emit_load_from_rcx(emit, insn);
        }
        match relocate::load_branch_operand(insn, Reg::Rcx, emit.asm.here()) {
            Ok(bytes) => emit.asm.bytes(&bytes),
            Err(_) => {
                let target = insn.rip_relative().map_or(0, |(target, _)| target);
                emit.asm.mov_r_imm(Reg::Rcx, target);
                emit_load_from_rcx(emit, insn);
            }
        }
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
            insn.relative_target(),
            relocate::load_address(insn, scratch, at),
        ) {
            (Some(target), _) => emit.asm.mov_r_imm(scratch, target),
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

    /// `insn` with fs for gs, while fs has the program's gs base.
    ///
    /// ```text
    ///   spill r; rdfsbase r; mov app_fs, r
    ///   mov r, app_gs; wrfsbase r; restore r
    ///   the instruction               a boundary: a repeated one is interrupted here
    ///   mov r, app_fs; wrfsbase r; restore r
    /// ```
    pub(super) fn emit_by_fs(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        let scratch = relocate::free_register(insn, &[]);
        let spilled = Recipe::other(scratch as u8);
        if !self.settings.fsgsbase {
            // A limit: there is no way to it.
            emit.asm.bytes(&[0x0F, 0x0B]);
            return emit.over(insn);
        }
        emit.asm.mov_gs_r(SPILL_OTHER, scratch);
        emit.cover(true, Recipe::NONE);
        emit.asm.rdfsbase(scratch);
        emit.asm.mov_gs_r(APP_FS, scratch);
        emit.asm.mov_r_gs(scratch, APP_GS);
        emit.asm.wrfsbase(scratch);
        emit.asm.mov_r_gs(scratch, SPILL_OTHER);
        emit.cover(false, spilled);
        emit.asm.bytes(&insn.with_fs_for_gs());
        emit.cover(true, Recipe::FS);
        // It does not use the register, so the slot still has its value.
        emit.asm.mov_r_gs(scratch, APP_FS);
        emit.asm.wrfsbase(scratch);
        emit.asm.mov_r_gs(scratch, SPILL_OTHER);
        emit.cover(false, spilled);
        emit.map.advance(insn.len());
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
            Ok(bytes) if !insn.is_reserved() => emit.asm.bytes(&bytes),
            _ => emit.asm.bytes(&[0x0F, 0x0B]),
        }
        emit.cover(false, Recipe::other(scratch as u8));
        // The instruction is done; a signal here steps on to the boundary.
        emit.asm.mov_r_gs(scratch, SPILL_OTHER);
        emit.cover(false, Recipe::other(scratch as u8));
        emit.map.advance(insn.len());
    }
}
