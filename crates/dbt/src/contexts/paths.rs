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

use agent::thread::{EDGE_TAGS, ThreadContext};
use isa::Reg;
use wire::node::{PLACED_FUNCS, place, step, tag};

use super::emit::{
    CODE, NODE, RECORD, RETURN, SHADOW, code, emit_above, emit_is_negative, emit_push,
};
use crate::block::{Arrival, ExitKind, Key};
use crate::engine::Engine;
use crate::entry::Routine;
use crate::indirect::{emit_restores, emit_spills};
use crate::pcmap::Recipe;
use crate::translate::Emit;

const ENTRY_STATE: i32 = offset_of!(ThreadContext, entry_state) as i32;
const STATE: i32 = offset_of!(ThreadContext, block_state) as i32;
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
    /// The superblock begins an activation, and nothing went on record since: the state
    /// is [`ENTRY_STATE`].
    pub begins: bool,
}

impl Paths {
    /// The word that has the state. At the begin of an activation that is one that is not
    /// written in between, so that nothing has to wait for the event before.
    fn state(&self) -> i32 {
        match self.begins {
            true => ENTRY_STATE,
            false => STATE,
        }
    }
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
    pub fn attach_path(&mut self, emit: &Emit<'_>, site: u64, kind: ExitKind, path: u32) {
        let lookup = self.cache.thunk(Routine::Lookup);
        let state = emit.paths.state();
        self.attach_way(emit.id, site, kind, WAY_BYTES, |asm| {
            emit_way(asm, path, state, lookup)
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

    /// A function is entered: a record that holds its caller's state. Jumps end the
    /// jumper; its record stays, with its caller's.
    ///
    /// ```text
    ///   [compare; jumper's record: rdx = its caller's state]
    ///   rdx = block_state, of the caller
    ///   push (rsp, rdx)
    ///   block_state = entry_state
    /// ```
    pub(super) fn emit_activation(&mut self, emit: &mut Emit<'_>, event: Key) {
        let by_jump = event.arrival == Arrival::Jump;
        if by_jump {
            self.emit_compare(emit);
            emit.asm.mov_r_gs(Reg::Rcx, SHADOW);
            emit.asm.mov_r_gs(Reg::Rdx, RECORD);
            emit.asm.not(Reg::Rdx);
            // 0 if the record is the one on top, else 16 less.
            emit.asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 1);
            let same = emit.asm.jrcxz();
            emit.asm.mov_r_gs(Reg::Rdx, STATE);
            let pushed = emit.asm.jmp_short();
            emit.asm.bind(same);
            emit.asm.mov_r_gs(Reg::Rdx, SHADOW);
            emit.asm.mov_r_mem(Reg::Rdx, Reg::Rdx, 8);
            emit.asm.bind(pushed);
        } else {
            emit.asm.mov_r_gs(Reg::Rdx, STATE);
        }
        emit_push(&mut emit.asm, by_jump);
        emit.asm.mov_r_gs(Reg::Rdx, ENTRY_STATE);
        emit.asm.mov_gs_r(STATE, Reg::Rdx);
        emit_restores(&mut emit.asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// A return ends the activation on top: its caller's state is that of its record.
    pub(super) fn emit_deactivation(&mut self, emit: &mut Emit<'_>) {
        let asm = &mut emit.asm;
        asm.mov_r_gs(Reg::Rdx, SHADOW);
        emit_above(asm, Reg::Rdx);
        let pop = asm.jrcxz();
        let nothing = emit_is_negative(asm);
        const POP: u64 = 4 + 9 + 4 + 9;
        let back = asm.here() + 5 + POP;
        let slow = self.slow_path(Routine::Event, code::POP_THROUGH, 0, back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        asm.bind(pop);
        asm.mov_r_mem(Reg::Rcx, Reg::Rdx, 8);
        asm.mov_gs_r(STATE, Reg::Rcx);
        asm.lea(Reg::Rdx, Reg::Rdx, -16);
        asm.mov_gs_r(SHADOW, Reg::Rdx);
        asm.bind(nothing);
        assert_eq!(asm.here(), back, "the slow path comes back here");
    }

    /// The event of a path, before the branch that ends it; rcx and rdx are spilled and
    /// free.
    pub fn emit_path(&mut self, emit: &mut Emit<'_>, path: u32) {
        let state = emit.paths.state();
        emit.paths.begins = false;
        let asm = &mut emit.asm;
        let hit = emit_search(asm, path, state);
        let back = asm.here() + 5 + FOUND;
        let slow = self.slow_path(Routine::Lookup, code::LOOKUP, step(path), back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        if let Some(hit) = hit {
            asm.bind(hit);
        }
        emit_found(asm, path);
        assert_eq!(asm.here(), back, "the slow path comes back here");
        emit_count(asm);
    }
}

/// Bytes of [`emit_search`], and of what it has for a path that is in no table.
const SEARCH: u64 = LOAD + 4 + 9 + 5 + 2;
const LOAD: u64 = 9;
/// Bytes of [`emit_found`].
const FOUND: u64 = 4 + 9 + 9 + 9;

/// rdx: the state, which is in the word `state`; jumps if the table has the edge of `path`. A path that is in no table
/// never hits.
fn emit_search(asm: &mut isa::Asm<'_>, path: u32, state: i32) -> Option<isa::asm::Short> {
    asm.mov_r_gs(Reg::Rdx, state);
    (path < PLACED_FUNCS).then(|| {
        asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
        asm.mov_r32_gs_index8(Reg::Rcx, Reg::Rcx, EDGE_TAGS + 8 * place(path) as i32);
        asm.lea_sum32(Reg::Rcx, Reg::Rcx, Reg::Rdx, tag(path) as i8);
        asm.jrcxz()
    })
}

/// rdx: the state; becomes the edge that the table has, and the state that it leads to
/// is that on top. What is slow has done all this.
fn emit_found(asm: &mut isa::Asm<'_>, path: u32) {
    let entry = EDGE_TAGS + 8 * place(path) as i32;
    asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
    asm.mov_r32_gs_index8(Reg::Rdx, Reg::Rcx, entry + 4);
    asm.mov_r32_gs_index8(Reg::Rcx, Reg::Rcx, entry + 8);
    asm.mov_gs_r(STATE, Reg::Rcx);
}

/// rdx: an edge.
fn emit_count(asm: &mut isa::Asm<'_>) {
    asm.mov_r_gs_mem(Reg::Rcx, Reg::Rdx, NODE);
    asm.lea(Reg::Rcx, Reg::Rcx, 1);
    asm.mov_gs_mem_r(Reg::Rdx, NODE, Reg::Rcx);
}

/// The event of a path on a way out, where nothing is spilled; returns where it is
/// entered. What is slow stands before that, out of the way of what is fetched.
///
/// ```text
/// slow: what = LOOKUP; event_return = back; rcx = step; jmp lookup
/// entry: spills; rdx = state; hit? -> found, else jmp slow
/// found: edge and next state from the table
/// back: count; restores
/// ```
fn emit_way(asm: &mut isa::Asm<'_>, path: u32, state: i32, lookup: u64) -> u64 {
    /// Bytes from the entry to `back`, without the search.
    const SPILLS: u64 = 9 + 9;
    /// Bytes of what is left of the slow path behind the load of `back`.
    const REST: u64 = 9 + 10 + 5;
    let slow = asm.here();
    let search = if path < PLACED_FUNCS { SEARCH } else { LOAD };
    let after = REST + SPILLS + search + 2 + FOUND;
    asm.mov_gs_imm32(CODE, code::LOOKUP);
    let load = match u32::try_from(asm.here() + 10 + after) {
        Ok(_) => 5,
        Err(_) => 10,
    };
    let back = asm.here() + load + after;
    asm.mov_r_imm(Reg::Rcx, back);
    asm.mov_gs_r(RETURN, Reg::Rcx);
    asm.mov_r_imm(Reg::Rcx, step(path));
    asm.jmp(lookup);
    let entry = asm.here();
    emit_spills(asm);
    let hit = emit_search(asm, path, state);
    asm.jmp_near(slow);
    if let Some(hit) = hit {
        asm.bind(hit);
    }
    emit_found(asm, path);
    assert_eq!(asm.here(), back, "the slow path comes back here");
    emit_count(asm);
    emit_restores(asm);
    entry
}
