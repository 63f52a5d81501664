//! The code of contexts of basic blocks (`blocks`): an event where a path ends.
//!
//! | where | code |
//! |---|---|
//! | a branch out of the middle of a superblock | on its way out, in cold code |
//! | what ends a superblock | before it, or behind its spills |
//! | a function is entered | a record whose state is `entry_state` |
//!
//! An event asks its path's cell first: a state, the edge that the path is from there, and
//! the state that this leads to. Two of three events find theirs, mostly more
//! (docs/design/0018), and then nothing waits for the event before but a branch that is
//! predicted. What the cell does not have, the table of transitions has, or the index.
//!
//! Whatever the event stands before may fault or be interrupted, so the map says at
//! each instruction which path was entered and is not on record, and whether it is in the
//! middle of a block (`pcmap`).

use alloc::vec::Vec;
use core::mem::offset_of;

use agent::thread::{CELL_TAGS, TRANSITION_STATES, TRANSITION_TAGS, ThreadContext};
use isa::asm::Short;
use isa::{Asm, Reg};
use wire::node::{PLACED_FUNCS, place, tag};

use super::emit::{NODE, RECORD, RETURN, SHADOW, emit_above, emit_push};
use crate::block::{Arrival, ExitKind, Key};
use crate::engine::Engine;
use crate::entry::Routine;
use crate::indirect::{emit_restores, emit_spills};
use crate::pcmap::Recipe;
use crate::translate::Emit;

const ENTRY_STATE: i32 = offset_of!(ThreadContext, entry_state) as i32;
const STATE: i32 = offset_of!(ThreadContext, block_state) as i32;
/// Most bytes of [`emit_way`].
const WAY_BYTES: u64 = SLOW + 120;

/// Paths of blocks that a superblock being emitted enters.
#[derive(Debug, Default)]
pub struct Paths {
    /// For each instruction, the path that was entered when it is executed, and whether
    /// a block begins with it; empty where none are counted.
    pub plan: Vec<(u32, bool)>,
    /// Path entered by now that is not on record.
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

    /// Ends instruction `i`: the block that it began is entered.
    pub fn end_insn(&mut self, i: usize) {
        if let Some(&(path, true)) = self.paths.plan.get(i) {
            self.paths.entered = path;
            self.map.entered(path, true);
        }
    }

    /// Path to put on record where instruction `i`, a branch, is taken.
    pub fn path_at(&self, i: usize) -> Option<u32> {
        let &(path, _) = self.paths.plan.get(i)?;
        (path != 0).then_some(path)
    }

    /// Takes what is to go on record before instruction `i`, a branch, is executed.
    pub fn path_through(&mut self, i: usize) -> Option<u32> {
        self.paths.entered = 0;
        self.path_at(i)
    }

    /// Notes that the entered path is on record; `middle`: the next instruction is in the
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
        let event = self.path_event(emit, path);
        self.attach_way(emit.id, site, kind, WAY_BYTES, |asm| emit_way(asm, &event));
    }

    /// Puts the path entered up to instruction `i`, which leaves the superblock, on
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

    /// Puts the path on record after instruction `i`, where the superblock ends; `middle`: control goes
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
        const POP: u64 = 4 + 9 + 4 + 9;
        let back = asm.here() + 5 + POP;
        let rare = self.rare_return(back);
        let asm = &mut emit.asm;
        asm.jmp(rare);
        asm.bind(pop);
        asm.mov_r_mem(Reg::Rcx, Reg::Rdx, 8);
        asm.mov_gs_r(STATE, Reg::Rcx);
        asm.lea(Reg::Rdx, Reg::Rdx, -16);
        asm.mov_gs_r(SHADOW, Reg::Rdx);
        assert_eq!(asm.here(), back, "the slow path comes back here");
    }

    /// The event of a path, before the branch that ends it; rcx and rdx are spilled and
    /// free.
    pub fn emit_path(&mut self, emit: &mut Emit<'_>, path: u32) {
        let event = self.path_event(emit, path);
        emit.paths.begins = false;
        let asm = &mut emit.asm;
        let hit = event.emit_search(asm);
        let back = asm.here() + 5 + FOUND;
        let slow = self
            .cache
            .cold(event.slow_bytes(), 1, |asm| event.emit_slow(asm, back))
            .expect("make_room leaves room for a block's slow paths");
        let asm = &mut emit.asm;
        asm.jmp(slow);
        if let Some(hit) = hit {
            asm.bind(hit);
        }
        event.emit_found(asm);
        assert_eq!(asm.here(), back, "the slow path comes back here");
        emit_count(asm);
    }

    fn path_event(&self, emit: &Emit<'_>, path: u32) -> PathEvent {
        let known = match emit.paths.state() {
            ENTRY_STATE => Routine::KnownFirst,
            _ => Routine::Known,
        };
        PathEvent {
            path,
            state: emit.paths.state(),
            ask: self.cache.thunk(Routine::Edge),
            known: self.cache.thunk(known),
        }
    }
}

/// The event of a path.
struct PathEvent {
    path: u32,
    /// The word that the state is in.
    state: i32,
    /// Address of the routine that looks for edges that are neither in the cell nor in the table.
    ask: u64,
    /// Address of the routine that follows edges that are in the table.
    known: u64,
}

/// Bytes of [`PathEvent::emit_search`], and of what it has for a path that is in no table.
const SEARCH: u64 = LOAD + 8 + 5 + 2;
const LOAD: u64 = 9;
/// Bytes of [`PathEvent::emit_found`].
const FOUND: u64 = 8 + 9 + 8;
/// Bytes of [`PathEvent::emit_slow`], and of what it has for a path that is in no table.
const SLOW: u64 = ASK + 20 + 18;
const ASK: u64 = 7 + 9 + 5 + 5;

impl PathEvent {
    /// Whether there is a place in the tables for it.
    fn is_placed(&self) -> bool {
        self.path < PLACED_FUNCS
    }

    fn slow_bytes(&self) -> u64 {
        if self.is_placed() { SLOW } else { ASK }
    }

    /// Displacement of the path's cell.
    fn cell(&self) -> i32 {
        CELL_TAGS + (self.path as u16 as i32) * 16
    }

    /// rdx: the state; jumps if the cell has an edge from there.
    fn emit_search(&self, asm: &mut Asm<'_>) -> Option<Short> {
        asm.mov_r_gs(Reg::Rdx, self.state);
        self.is_placed().then(|| {
            asm.mov_r32_gs(Reg::Rcx, self.cell());
            asm.lea_sum32(Reg::Rcx, Reg::Rcx, Reg::Rdx, (self.path >> 16) as i8);
            asm.jrcxz()
        })
    }

    /// rdx becomes the edge that the cell has, and the state that it leads to is that on
    /// top. What is slow has done all this.
    fn emit_found(&self, asm: &mut Asm<'_>) {
        asm.mov_r32_gs(Reg::Rcx, self.cell() + 4);
        asm.mov_gs_r(STATE, Reg::Rcx);
        asm.mov_r32_gs(Reg::Rdx, self.cell() + 8);
    }

    /// Emits the way past the cell: the table of transitions may have the edge. The rest is shared
    /// by all paths (`everypath_edge`):
    ///
    /// ```text
    ///          event_return = back
    ///          table[rdx, path]? -> found
    ///          rcx = path; jmp ask
    ///   found: rdx = the edge; jmp known
    /// ```
    fn emit_slow(&self, asm: &mut Asm<'_>, back: u64) {
        let begin = asm.here();
        asm.lea_rip(Reg::Rcx, back);
        asm.mov_gs_r(RETURN, Reg::Rcx);
        let entry = 4 * place(self.path) as i32;
        let found = self.is_placed().then(|| {
            asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
            asm.mov_r32_gs_index4(Reg::Rcx, Reg::Rcx, TRANSITION_TAGS + entry);
            asm.lea_sum32(Reg::Rcx, Reg::Rcx, Reg::Rdx, tag(self.path) as i8);
            asm.jrcxz()
        });
        asm.mov_r_imm(Reg::Rcx, self.path.into());
        asm.jmp(self.ask);
        if let Some(found) = found {
            asm.bind(found);
            asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
            asm.mov_r32_gs_index4(Reg::Rdx, Reg::Rcx, TRANSITION_STATES + entry);
            asm.jmp(self.known);
        }
        assert_eq!(asm.here(), begin + self.slow_bytes());
    }
}

/// rdx: an edge.
fn emit_count(asm: &mut Asm<'_>) {
    asm.mov_r_gs_mem(Reg::Rcx, Reg::Rdx, NODE);
    asm.lea(Reg::Rcx, Reg::Rcx, 1);
    asm.mov_gs_mem_r(Reg::Rdx, NODE, Reg::Rcx);
}

/// The event of a path on a way out, where nothing is spilled; returns where it is
/// entered. What is slow stands before that, out of the way of what is fetched.
///
/// ```text
/// slow: see `PathEvent::emit_slow`
/// entry: spills; rdx = state; hit? -> found, else jmp slow
/// found: edge and next state from the cell
/// back: count; restores
/// ```
fn emit_way(asm: &mut Asm<'_>, event: &PathEvent) -> u64 {
    /// Bytes of the spills.
    const SPILLS: u64 = 9 + 9;
    let slow = asm.here();
    let search = if event.is_placed() { SEARCH } else { LOAD };
    let back = slow + event.slow_bytes() + SPILLS + search + 5 + FOUND;
    event.emit_slow(asm, back);
    let entry = asm.here();
    emit_spills(asm);
    let hit = event.emit_search(asm);
    asm.jmp(slow);
    if let Some(hit) = hit {
        asm.bind(hit);
    }
    event.emit_found(asm);
    assert_eq!(asm.here(), back, "the slow path comes back here");
    emit_count(asm);
    emit_restores(asm);
    entry
}
