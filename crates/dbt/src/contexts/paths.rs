//! The code of contexts of basic blocks (`blocks`): an event where a path ends.
//!
//! | where | code |
//! |---|---|
//! | a branch out of the middle of a superblock | on its way out, in cold code |
//! | what ends a superblock | before it, or behind its spills |
//! | a function is entered | a record whose state is `entry_state` |
//!
//! Whatever the event stands before may fault or be interrupted, so the map says at
//! each instruction which path was entered and is not on record, and whether it is in the
//! middle of a block (`pcmap`).

use alloc::vec::Vec;
use core::mem::offset_of;

use agent::thread::{TRANSITION_STATES, TRANSITION_TAGS, ThreadContext};
use isa::Reg;
use wire::node::{Node, PLACED_FUNCS, place, step, tag};

use super::emit::{CODE, NODE, RETURN, SHADOW, code, emit_push};
use crate::block::{Arrival, BlockId, ExitKind, Key};
use crate::engine::Engine;
use crate::entry::Routine;
use crate::indirect::{emit_restores, emit_spills};
use crate::pcmap::Recipe;
use crate::translate::Emit;

const ENTRY_STATE: i32 = offset_of!(ThreadContext, entry_state) as i32;
/// Of an edge, where it leads.
const NEXT: i32 = NODE + offset_of!(Node, depth_flags) as i32;
/// Most bytes of [`emit_way`].
const WAY_BYTES: u64 = 184;

/// What a superblock being emitted enters.
#[derive(Debug, Default)]
pub struct Paths {
    /// For each instruction, the path that was entered when it is executed, and whether
    /// a block begins with it; empty where none are counted.
    pub plan: Vec<(u32, bool)>,
    /// What was entered by now and is not on record.
    pub entered: u32,
}

impl Emit<'_> {
    /// Before instruction `i`: it is the first of a block, or is not.
    pub fn begin_insn(&mut self, i: usize) {
        match self.paths.plan.get(i) {
            Some((_, true)) if i > 0 => self.map.entered(self.paths.entered, false),
            Some((_, false)) if i == 0 => self.map.entered(0, true),
            _ => {}
        }
    }

    /// Behind instruction `i`: the block that it began is entered.
    pub fn end_insn(&mut self, i: usize) {
        if let Some(&(path, true)) = self.paths.plan.get(i) {
            self.paths.entered = path;
            self.map.entered(path, true);
        }
    }

    /// What is to go on record where instruction `i`, a branch, is taken.
    pub fn path_at(&self, i: usize) -> Option<u32> {
        let &(path, _) = self.paths.plan.get(i)?;
        (path != 0).then_some(path)
    }

    /// Takes what is to go on record before instruction `i`, a branch, is executed.
    pub fn path_through(&mut self, i: usize) -> Option<u32> {
        self.paths.entered = 0;
        self.path_at(i)
    }

    /// What was entered is on record; `middle`: the instruction that comes is in the
    /// middle of a block.
    pub fn recorded(&mut self, middle: bool) {
        if !self.paths.plan.is_empty() {
            self.map.entered(0, middle);
        }
    }
}

impl Engine {
    /// The way out of a branch on which `path` goes on record.
    pub fn attach_path(&mut self, id: BlockId, site: u64, kind: ExitKind, path: u32) {
        let lookup = self.cache.thunk(Routine::Lookup);
        self.attach_way(id, site, kind, WAY_BYTES, |asm| {
            emit_way(asm, path, lookup);
        });
    }

    /// What was entered up to instruction `i`, which leaves the superblock, goes on
    /// record before it.
    pub fn record(&mut self, emit: &mut Emit<'_>, i: usize) {
        if let Some(path) = emit.path_through(i) {
            emit_spills(&mut emit.asm);
            self.emit_path(emit, path);
            emit_restores(&mut emit.asm);
            emit.cover(true, Recipe::NONE);
            emit.recorded(true);
        }
    }

    /// The same behind instruction `i`, where the superblock ends; `middle`: control goes
    /// on in the middle of a block.
    pub fn record_end(&mut self, emit: &mut Emit<'_>, i: usize, middle: bool) {
        if emit.path_at(i).is_some() {
            emit.map.entered(emit.paths.entered, middle);
            self.record(emit, i);
        }
        emit.recorded(middle);
    }

    /// The same where blocks are counted: they begin anew.
    pub(super) fn emit_activation(&mut self, emit: &mut Emit<'_>, event: Key) {
        let by_jump = event.arrival == Arrival::Jump;
        if by_jump {
            self.emit_compare(emit);
        }
        emit.asm.mov_r_gs(Reg::Rdx, ENTRY_STATE);
        emit_push(&mut emit.asm, by_jump);
        emit_restores(&mut emit.asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// The event of a path, before the branch that ends it; rcx and rdx are spilled and
    /// free.
    pub fn emit_path(&mut self, emit: &mut Emit<'_>, path: u32) {
        emit.asm.mov_r_gs(Reg::Rcx, SHADOW);
        emit.asm.mov_r_mem(Reg::Rdx, Reg::Rcx, 8);
        self.emit_transition(emit, path, false);
        emit_edge(&mut emit.asm);
    }
}

/// rdx: an edge. Counts it, and its state becomes that on top.
fn emit_edge(asm: &mut isa::Asm<'_>) {
    asm.mov_r_gs_mem(Reg::Rcx, Reg::Rdx, NODE);
    asm.lea(Reg::Rcx, Reg::Rcx, 1);
    asm.mov_gs_mem_r(Reg::Rdx, NODE, Reg::Rcx);
    asm.mov_r32_gs_mem(Reg::Rdx, Reg::Rdx, NEXT);
    asm.mov_r_gs(Reg::Rcx, SHADOW);
    asm.mov_mem_r(Reg::Rcx, 8, Reg::Rdx);
}

/// The event of a path on a way out, where nothing is spilled and a slow path is in line.
fn emit_way(asm: &mut isa::Asm<'_>, path: u32, lookup: u64) {
    emit_spills(asm);
    asm.mov_r_gs(Reg::Rcx, SHADOW);
    asm.mov_r_mem(Reg::Rdx, Reg::Rcx, 8);
    let entry = 4 * place(path) as i32;
    let hit = (path < PLACED_FUNCS).then(|| {
        asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
        asm.mov_r32_gs_index4(Reg::Rcx, Reg::Rcx, TRANSITION_TAGS + entry);
        asm.lea_sum32(Reg::Rcx, Reg::Rcx, Reg::Rdx, tag(path) as i8);
        asm.jrcxz()
    });
    /// Bytes of what is left of the slow path behind the load of `back`, and of the
    /// instructions that take the edge from the table.
    const REST: u64 = 9 + 10 + 5 + 4 + 9;
    asm.mov_gs_imm32(CODE, code::LOOKUP);
    let load = match u32::try_from(asm.here() + 10 + REST) {
        Ok(_) => 5,
        Err(_) => 10,
    };
    let back = asm.here() + load + REST;
    asm.mov_r_imm(Reg::Rcx, back);
    asm.mov_gs_r(RETURN, Reg::Rcx);
    asm.mov_r_imm(Reg::Rcx, step(path));
    asm.jmp(lookup);
    if let Some(hit) = hit {
        asm.bind(hit);
    }
    asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
    asm.mov_r32_gs_index4(Reg::Rdx, Reg::Rcx, TRANSITION_STATES + entry);
    assert_eq!(asm.here(), back, "the slow path comes back here");
    emit_edge(asm);
    emit_restores(asm);
}
