//! The code of events; the table in `contexts.rs` says which there are.

use core::mem::offset_of;

use agent::thread::{TRANSITION_STATES, TRANSITION_TAGS, ThreadContext};
use isa::Reg;
use wire::cost;
use wire::node::{FIRST_STATE, FUNC_SHIFT, Node, PLACED_FUNCS, place, step, tag};

use crate::block::{Arrival, Key};
use crate::counting::Words;
use crate::engine::Engine;
use crate::entry::Routine;
use crate::indirect::{SPILL, emit_restores, emit_spills};
use crate::pcmap::Recipe;
use crate::superblock::End;
use crate::translate::Emit;

const NODE_KEY: i8 = offset_of!(Node, neg_key) as i8;
pub(super) const SHADOW: i32 = offset_of!(ThreadContext, shadow_top) as i32;
/// A node, from gs and its state.
pub(super) const NODE: i32 = -(FIRST_STATE as i32);
const NODES: i32 = offset_of!(ThreadContext, nodes_base) as i32;
pub(super) const RECORD: i32 = offset_of!(ThreadContext, event_record) as i32;
pub(super) const RETURN: i32 = offset_of!(ThreadContext, event_return) as i32;
pub(super) const CODE: i32 = offset_of!(ThreadContext, exit) as i32;
const COST_STATE: i32 = offset_of!(ThreadContext, cost_state) as i32;
const LEAF_STATE: i32 = offset_of!(ThreadContext, leaf_state) as i32;
const SPILL_RAX: i32 = SPILL;
/// Address of a node, kept for a moment.
const SUM: i32 = offset_of!(ThreadContext, cost_node) as i32;
const CYCLES_FROM: i32 = offset_of!(ThreadContext, cycles_from) as i32;
const TSC_FORBIDDEN: i32 = offset_of!(ThreadContext, tsc_forbidden) as i32;
const CYCLES_NOW: i32 = offset_of!(ThreadContext, cycles_now) as i32;
const LEFT: i32 = offset_of!(ThreadContext, stack_left) as i32;
const ADDED: i32 = offset_of!(ThreadContext, stack_added) as i32;
const CYCLES_SPILL: i32 = offset_of!(ThreadContext, cycles_spill) as i32;

/// Requests of a slow path to the engine (in `ThreadContext::exit`).
pub mod code {
    /// A transition that neither the table nor the index holds; the registers
    /// are as at [`super::Routine::Lookup`], rdx becomes the next state.
    pub const LOOKUP: u32 = 0;
    /// A return: pop activations with A <= rsp.
    pub const POP_THROUGH: u32 = 1;
    /// A function is arrived at by a jump: pop activations with A < rsp.
    pub const POP_BELOW: u32 = 2;
    /// An indirect jump, whose address is in rcx, does the same.
    pub const JUMP: u32 = 3;
    /// A call after the stack pointer was loaded.
    pub const CALL: u32 = 4;
}

impl Engine {
    /// The event of a function, behind its spills of rcx and rdx and before its
    /// code: accounts for the arrival.
    pub fn emit_event(&mut self, emit: &mut Emit<'_>, event: Key) {
        if self.has_blocks() {
            return self.emit_activation(emit, event);
        }
        let id = self.function_id(event.pc);
        let leaf = self.is_leaf(event.pc);
        let by_jump = event.arrival == Arrival::Jump;
        let is_behind_gs = self.has_nodes_behind_gs();
        let has_costs = self.settings.costs != 0;
        if by_jump {
            if has_costs {
                emit.asm.mov_r_gs(Reg::Rdx, COST_STATE);
                self.emit_settle(&mut emit.asm, Words::Own);
            }
            self.emit_compare(emit);
        }
        emit.asm.mov_r_gs(Reg::Rcx, SHADOW);
        emit.asm.mov_r_mem(Reg::Rdx, Reg::Rcx, 8);
        if has_costs && !by_jump && !leaf {
            // The caller is the top activation.
            self.emit_settle(&mut emit.asm, Words::Own);
        }
        if leaf && !by_jump {
            // No record, but one more activation at once (`deepest`).
            emit.asm.mov_mem_r(Reg::Rcx, 16, Reg::Rcx);
        }
        self.emit_transition(emit, id, event.arrival == Arrival::Again);
        let asm = &mut emit.asm;
        if has_costs {
            asm.mov_gs_r(if leaf { LEAF_STATE } else { COST_STATE }, Reg::Rdx);
        }
        match (leaf, by_jump) {
            (false, _) => emit_push(asm, by_jump),
            (true, false) => {}
            (true, true) => {
                // The jumper has ended.
                asm.mov_r_gs(Reg::Rcx, RECORD);
                asm.mov_mem_r(Reg::Rcx, 0, Reg::Rcx);
                asm.lea(Reg::Rcx, Reg::Rcx, -16);
                asm.mov_gs_r(SHADOW, Reg::Rcx);
                if has_costs {
                    asm.mov_r_mem(Reg::Rcx, Reg::Rcx, 8);
                    asm.mov_gs_r(COST_STATE, Reg::Rcx);
                }
            }
        }
        if is_behind_gs {
            asm.mov_r_gs_mem(Reg::Rcx, Reg::Rdx, NODE);
            asm.lea(Reg::Rcx, Reg::Rcx, 1);
            asm.mov_gs_mem_r(Reg::Rdx, NODE, Reg::Rcx);
        } else {
            asm.mov_r_gs(Reg::Rcx, NODES);
            asm.lea_sum(Reg::Rdx, Reg::Rdx, Reg::Rcx, 0);
            asm.mov_r_mem(Reg::Rcx, Reg::Rdx, 0);
            asm.lea(Reg::Rcx, Reg::Rcx, 1);
            asm.mov_mem_r(Reg::Rdx, 0, Reg::Rcx);
        }
        emit_restores(asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// Whether states count from the thread's context (`activations::Records`).
    fn has_nodes_behind_gs(&self) -> bool {
        self.settings.chaos == 0 || self.has_blocks()
    }

    /// rdx: a state; becomes that after a call of `id`. `again`: perhaps they are
    /// the same.
    pub(super) fn emit_transition(&mut self, emit: &mut Emit<'_>, id: u32, again: bool) {
        /// Bytes of the instructions that take the state from the table.
        const FROM_TABLE: u64 = 4 + 9;
        let near = self.process.log.pool.base() + self.process.log.record;
        let is_behind_gs = self.has_nodes_behind_gs();
        let asm = &mut emit.asm;
        let again = again.then(|| {
            // Recursion is rolled: the node on top is this function's already.
            if is_behind_gs {
                asm.mov_r32_gs_mem(Reg::Rcx, Reg::Rdx, NODE + i32::from(NODE_KEY) + 4);
            } else {
                asm.mov_r_gs(Reg::Rcx, NODES);
                asm.mov_r32_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, NODE_KEY + 4);
            }
            asm.lea32(Reg::Rcx, Reg::Rcx, label_check(id, near));
            asm.jrcxz()
        });
        let entry = 4 * place(id) as i32;
        asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
        asm.mov_r32_gs_index4(Reg::Rcx, Reg::Rcx, TRANSITION_TAGS + entry);
        asm.lea_sum32(Reg::Rcx, Reg::Rcx, Reg::Rdx, tag(id) as i8);
        // A function that is in no table never hits.
        let hit = (id < PLACED_FUNCS).then(|| asm.jrcxz());
        let back = asm.here() + 5 + FROM_TABLE;
        let slow = self.slow_path(Routine::Lookup, code::LOOKUP, step(id), back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        if let Some(hit) = hit {
            asm.bind(hit);
        }
        asm.movzx_r32_r16(Reg::Rcx, Reg::Rdx);
        asm.mov_r32_gs_index4(Reg::Rdx, Reg::Rcx, TRANSITION_STATES + entry);
        debug_assert_eq!(asm.here(), back);
        if let Some(again) = again {
            asm.bind(again);
        }
    }

    /// Arrival by jump: sets `event_record` to the top record (E = A) or the
    /// one above it (E < A).
    pub(super) fn emit_compare(&mut self, emit: &mut Emit<'_>) {
        let again = emit.asm.here();
        let slow = self.slow_path(Routine::Event, code::POP_BELOW, 0, again);
        let asm = &mut emit.asm;
        asm.mov_r_gs(Reg::Rdx, SHADOW);
        asm.mov_gs_r(RECORD, Reg::Rdx);
        emit_above(asm, Reg::Rdx);
        let same = asm.jrcxz();
        let below = emit_is_negative(asm);
        asm.jmp(slow);
        asm.bind(below);
        asm.lea(Reg::Rdx, Reg::Rdx, 16);
        asm.mov_gs_r(RECORD, Reg::Rdx);
        asm.bind(same);
    }

    /// Adds what the thread has counted in `words` to the node of the state in rdx
    /// (`activations::costs`); changes rcx.
    fn emit_settle(&self, asm: &mut isa::Asm<'_>, words: Words) {
        let costs = self.settings.costs;
        asm.mov_gs_r(SPILL_RAX, Reg::Rax);
        for (word, bit) in words.of_costs(costs) {
            asm.mov_r_gs(Reg::Rax, word);
            self.emit_add_cost(asm, bit);
            asm.mov_gs_imm64(word, 0);
        }
        if costs & cost::CYCLES != 0 {
            emit_cycles(asm);
            self.emit_add_cost(asm, cost::CYCLES.trailing_zeros());
        }
        asm.mov_r_gs(Reg::Rax, SPILL_RAX);
    }

    /// Adds rax to the cost with this bit of the state in rdx; changes rax and rcx.
    fn emit_add_cost(&self, asm: &mut isa::Asm<'_>, bit: u32) {
        let offset = wire::node::cost_offset(self.settings.costs, bit) as i32;
        if self.has_nodes_behind_gs() {
            asm.mov_r_gs_mem(Reg::Rcx, Reg::Rdx, NODE + offset);
            asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rax, 0);
            asm.mov_gs_mem_r(Reg::Rdx, NODE + offset, Reg::Rcx);
        } else {
            asm.mov_r_gs(Reg::Rcx, NODES);
            asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
            asm.mov_gs_r(SUM, Reg::Rcx);
            asm.mov_r_mem(Reg::Rcx, Reg::Rcx, offset);
            asm.lea_sum(Reg::Rax, Reg::Rcx, Reg::Rax, 0);
            asm.mov_r_gs(Reg::Rcx, SUM);
            asm.mov_mem_r(Reg::Rcx, offset, Reg::Rax);
        }
    }

    /// The words that the code at `pc` counts instructions in, if they are counted.
    pub fn words_at(&mut self, pc: u64) -> Option<Words> {
        let has_costs = self.settings.costs != 0;
        let words = match has_costs && self.returns_from_leaf(pc) {
            true => Words::Leaf,
            false if has_costs => Words::Own,
            false => Words::All,
        };
        self.settings.count_instructions.then_some(words)
    }

    /// Before the return at `pc` pops: rcx and rdx are spilled and free.
    pub fn emit_return_event(&mut self, emit: &mut Emit<'_>, pc: u64) {
        if self.contexts.is_none() || !self.has_activations() {
            return;
        }
        let has_costs = self.settings.costs != 0;
        if self.returns_from_leaf(pc) {
            if has_costs {
                emit.asm.mov_r_gs(Reg::Rdx, LEAF_STATE);
                self.emit_settle(&mut emit.asm, Words::Leaf);
            }
            return;
        }
        if has_costs {
            emit.asm.mov_r_gs(Reg::Rdx, COST_STATE);
            self.emit_settle(&mut emit.asm, Words::Own);
        }
        if self.has_blocks() {
            return self.emit_deactivation(emit);
        }
        self.emit_pop_through(emit);
        if has_costs {
            emit.asm.mov_r_gs(Reg::Rdx, SHADOW);
            emit.asm.mov_r_mem(Reg::Rdx, Reg::Rdx, 8);
            emit.asm.mov_gs_r(COST_STATE, Reg::Rdx);
        }
    }

    /// Pops the activations that a return ends.
    fn emit_pop_through(&mut self, emit: &mut Emit<'_>) {
        let asm = &mut emit.asm;
        asm.mov_r_gs(Reg::Rdx, SHADOW);
        emit_above(asm, Reg::Rdx);
        let pop = asm.jrcxz();
        let pop_code: u64 = 4 + 9;
        let back = asm.here() + 5 + pop_code;
        let rare = self.rare_return(back);
        let asm = &mut emit.asm;
        asm.jmp(rare);
        asm.bind(pop);
        asm.lea(Reg::Rdx, Reg::Rdx, -16);
        asm.mov_gs_r(SHADOW, Reg::Rdx);
        debug_assert_eq!(asm.here(), back);
    }

    /// Cold code of a return that does not end the activation on top. rcx: how far the stack
    /// pointer is above its entry.
    ///
    /// ```text
    ///        above? or stack_left? -> the engine, and back
    ///        jmp back
    /// ```
    pub(super) fn rare_return(&mut self, back: u64) -> u64 {
        const BYTES: u64 = NEGATIVE + ASK + UNLESS_LEFT + 5;
        let engine = self.cache.thunk(Routine::Event);
        let start = self.cache.cold(BYTES, 1, |asm| {
            let below = emit_is_negative(asm);
            let ask = asm.here();
            emit_ask(asm, code::POP_THROUGH, back);
            asm.jmp(engine);
            asm.bind(below);
            let nothing = emit_unless_left(asm, ask);
            asm.bind(nothing);
            asm.jmp(back);
        });
        start.expect("make_room leaves room for a block's slow paths")
    }

    /// Whether rsp may have been loaded in a block that ends before `pc`.
    pub fn is_behind_load(&self, pc: u64) -> bool {
        let contexts = self.contexts.as_ref();
        contexts.is_some_and(|contexts| contexts.behind_loads.contains(&pc))
    }

    /// A block has ended so; rsp was perhaps `loaded` in it, or before it.
    pub fn end_behind_load(&mut self, loaded: bool, end: End) {
        if let (true, End::Goto(key), Some(contexts)) = (loaded, end, &mut self.contexts) {
            contexts.note_behind_load(key.pc);
        }
    }

    /// Before rsp is loaded with something that is not made from it.
    pub fn emit_before_load(&mut self, emit: &mut Emit<'_>, adds: bool) {
        emit.asm.mov_gs_r(LEFT, Reg::Rsp);
        if adds {
            emit.asm.mov_gs_imm64(ADDED, 1);
        }
        emit.cover(true, Recipe::NONE);
    }

    /// After it: within the frame of the activation on top, no stack was left.
    pub fn emit_after_load(&mut self, emit: &mut Emit<'_>) {
        let asm = &mut emit.asm;
        emit_spills(asm);
        let within = emit_until_top(asm);
        let above = asm.jmp_short();
        asm.bind(within);
        asm.mov_r_gs(Reg::Rcx, LEFT);
        asm.not(Reg::Rcx);
        asm.lea_sum(Reg::Rcx, Reg::Rsp, Reg::Rcx, 1);
        let below = emit_is_negative(asm);
        asm.mov_gs_imm64(LEFT, 0);
        asm.bind(above);
        asm.bind(below);
        emit_restores(asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// Before the indirect jump at `pc`, which may end activations or lead to another stack.
    pub fn emit_jump_check(&mut self, emit: &mut Emit<'_>, pc: u64) {
        emit.count_before_check();
        begin_check(emit);
        let within = emit_until_top(&mut emit.asm);
        let back = emit.asm.here() + 5 + UNLESS_LEFT;
        let slow = self.slow_path(Routine::Event, code::JUMP, pc, back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        asm.bind(within);
        let nothing = emit_unless_left(asm, slow);
        asm.bind(nothing);
        debug_assert_eq!(asm.here(), back);
        emit_restores(asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// Before a call, behind a load of rsp.
    pub fn emit_call_check(&mut self, emit: &mut Emit<'_>) {
        begin_check(emit);
        let back = emit.asm.here() + UNLESS_LEFT;
        let slow = self.slow_path(Routine::Event, code::CALL, 0, back);
        let asm = &mut emit.asm;
        let nothing = emit_unless_left(asm, slow);
        asm.bind(nothing);
        debug_assert_eq!(asm.here(), back);
        emit_restores(asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// After rsp was loaded, where only handlers of signals have activations.
    pub fn emit_stack_check(&mut self, emit: &mut Emit<'_>) {
        emit_spills(&mut emit.asm);
        let fine = emit_until_top(&mut emit.asm);
        let back = emit.asm.here() + 5;
        let slow = self.slow_path(Routine::Event, code::POP_BELOW, 0, back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        asm.bind(fine);
        emit_restores(asm);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// Cold code that goes to `routine`, and perhaps to [`event`] with a code,
    /// with `word` in rcx, and goes on at `back`.
    pub(super) fn slow_path(&mut self, routine: Routine, what: u32, word: u64, back: u64) -> u64 {
        let engine = self.cache.thunk(routine);
        let loaded = if word == 0 { 0 } else { 10 };
        self.cache
            .cold(ASK + loaded, 1, |asm| {
                emit_ask(asm, what, back);
                if word != 0 {
                    asm.mov_r_imm(Reg::Rcx, word);
                }
                asm.jmp(engine);
            })
            .expect("make_room leaves room for a block's slow paths")
    }
}

/// Constant that makes 0 with the upper half of a node's negated key if the node is
/// `func`'s, not a root, and its parent is in the same 4 GB as `near`, an address in
/// the pool. For any other node, the sum is not 0.
fn label_check(func: u32, near: u64) -> u32 {
    // The key's lower half is that of the parent's address, which is not 0, so
    // negation borrows from the upper half.
    ((near >> 32) as u32)
        .wrapping_add(func << (FUNC_SHIFT - 32))
        .wrapping_add(1)
}

/// rax: the cycles since they were asked for last, 0 while the program forbids to ask;
/// changes rcx. Flags stay, so the halves of the counter are put together in memory.
fn emit_cycles(asm: &mut isa::Asm<'_>) {
    asm.mov_r_gs(Reg::Rcx, TSC_FORBIDDEN);
    let allowed = asm.jrcxz();
    asm.mov_r_imm(Reg::Rax, 0);
    let done = asm.jmp_short();
    asm.bind(allowed);
    asm.mov_gs_r(CYCLES_SPILL, Reg::Rdx);
    asm.rdtsc();
    asm.mov_gs_r(CYCLES_NOW, Reg::Rax);
    asm.mov_gs_r(CYCLES_NOW + 4, Reg::Rdx);
    asm.mov_r_gs(Reg::Rdx, CYCLES_SPILL);
    asm.mov_r_gs(Reg::Rax, CYCLES_NOW);
    asm.mov_r_gs(Reg::Rcx, CYCLES_FROM);
    asm.mov_gs_r(CYCLES_FROM, Reg::Rax);
    asm.not(Reg::Rcx);
    asm.lea_sum(Reg::Rax, Reg::Rax, Reg::Rcx, 1);
    asm.bind(done);
}

/// rdx: the state. Writes the record above the top one, or the one found by
/// the comparison of an arrival by jump.
pub(super) fn emit_push(asm: &mut isa::Asm<'_>, by_jump: bool) {
    if by_jump {
        asm.mov_r_gs(Reg::Rcx, RECORD);
    } else {
        asm.mov_r_gs(Reg::Rcx, SHADOW);
        asm.lea(Reg::Rcx, Reg::Rcx, 16);
    }
    asm.mov_mem_r(Reg::Rcx, 8, Reg::Rdx);
    asm.mov_mem_r(Reg::Rcx, 0, Reg::Rsp);
    asm.mov_gs_r(SHADOW, Reg::Rcx);
}

/// rcx: how far the stack pointer is above that of the record at `record`.
pub(super) fn emit_above(asm: &mut isa::Asm<'_>, record: Reg) {
    asm.mov_r_mem(Reg::Rcx, record, 0);
    asm.not(Reg::Rcx);
    asm.lea_sum(Reg::Rcx, Reg::Rsp, Reg::Rcx, 1);
}

/// Bytes of [`emit_ask`], with the jump behind it.
const ASK: u64 = 13 + 10 + 9 + 5;

/// Says what the engine is asked for, and where to go on then; changes rcx.
fn emit_ask(asm: &mut isa::Asm<'_>, what: u32, back: u64) {
    asm.mov_gs_imm32(CODE, what);
    asm.mov_r_imm(Reg::Rcx, back);
    asm.mov_gs_r(RETURN, Reg::Rcx);
}

/// Begins a check in front of a branch with a boundary. Where a block begins with the check, a
/// signal that arrives at once would otherwise be stepped to the same branch behind it: with
/// timers that expire sooner than this takes, the program would never go on.
fn begin_check(emit: &mut Emit<'_>) {
    emit_spills(&mut emit.asm);
    emit.cover(true, Recipe::NONE);
}

/// Jumps (forward) unless rsp is above the entry of the activation on top; changes rcx.
fn emit_until_top(asm: &mut isa::Asm<'_>) -> isa::asm::Short {
    asm.mov_r_gs(Reg::Rcx, SHADOW);
    asm.mov_r_mem(Reg::Rcx, Reg::Rcx, 0);
    asm.not(Reg::Rcx);
    // rsp - A - 1: negative unless rsp is above A.
    asm.lea_sum(Reg::Rcx, Reg::Rsp, Reg::Rcx, 0);
    emit_is_negative(asm)
}

/// Bytes of [`emit_unless_left`].
pub(super) const UNLESS_LEFT: u64 = 9 + 2 + 5;

/// Goes to `slow` if rsp was loaded and control did not go elsewhere yet, and otherwise jumps
/// (forward); changes rcx.
pub(super) fn emit_unless_left(asm: &mut isa::Asm<'_>, slow: u64) -> isa::asm::Short {
    asm.mov_r_gs(Reg::Rcx, LEFT);
    let nothing = asm.jrcxz();
    asm.jmp(slow);
    nothing
}

/// Bytes of [`emit_is_negative`], at most.
const NEGATIVE: u64 = 20;

/// Jumps (forward) if rcx is negative: its top byte is 0xFF then, for any
/// difference of user addresses. Changes rcx, no flags.
pub(super) fn emit_is_negative(asm: &mut isa::Asm<'_>) -> isa::asm::Short {
    asm.bswap(Reg::Rcx);
    asm.movzx_r32_r8(Reg::Rcx, Reg::Rcx);
    asm.lea(Reg::Rcx, Reg::Rcx, -255);
    asm.jrcxz()
}

/// Whether a stack pointer is above that of a record, as emitted code has it, which goes on
/// only where it is not.
pub(super) fn is_above(rsp: u64, entry: u64) -> bool {
    rsp != entry && rsp.wrapping_sub(entry) >> 56 != 0xFF
}
