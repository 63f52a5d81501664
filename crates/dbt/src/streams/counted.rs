//! Tracing that begins behind so many instructions of each thread, and ends after so many.
//!
//! Problem: it is to begin and end at exactly the N-th instruction, and counting is not to
//! cost much more than executing.
//!
//! Approach: a superblock takes the instructions that it has from what is left when it is
//! entered, and a way out in its middle gives back those behind it. If not as many are left, it
//! leaves for the engine, which makes a superblock of exactly as many, to be executed once. What is left is a word whose upper half is 0 until there is too little:
//! so nothing has to be compared, and flags stay as they are.
//!
//! A thread is in one of three phases, and blocks of each phase lead to blocks of the same
//! ([`Arrival::Skipped`], [`Arrival::Done`]): instructions are counted and not traced; what
//! is traced is counted, if that is to end; nothing is counted, or traced.
//!
//! Invariants: where a thread leaves a superblock in its middle, the map says how many
//! instructions are counted that were not executed.
//!
//! Limits: code that is traced and counted is made of basic blocks.

use agent::thread::ThreadContext;
use isa::{Asm, Reg};

use crate::block::{Arrival, BlockId, ExitKind, Key};
use crate::counting::Owed;
use crate::engine::Engine;
use crate::indirect::SPILL_OTHER;
use crate::pcmap::Recipe;
use crate::translate::Emit;

const LEFT: i32 = core::mem::offset_of!(ThreadContext, stream_left) as i32;

/// Values of [`ThreadContext::stream_phase`].
pub const TRACING: u32 = 0;
pub const SKIPPING: u32 = 1;
pub const DONE: u32 = 2;

/// So many instructions are counted at once: their number has 32 bits.
const SLICE: u64 = 1 << 31;

/// What a way out does that leaves so many instructions behind which were counted.
pub fn gives_back(insns: usize) -> Owed {
    Owed::add(LEFT, insns as i32)
}

impl Engine {
    /// A thread begins.
    pub fn begin_counting(&mut self, context: &mut ThreadContext) {
        let Some(controls) = self.controls() else {
            return;
        };
        let (phase, more) = match controls.skip {
            0 => (TRACING, controls.count),
            skip => (SKIPPING, skip),
        };
        (context.stream_phase, context.stream_left) = (phase, 0);
        context.stream_more = more;
    }

    /// Whether what is executed at a block with that key is traced.
    pub fn is_traced(&self, key: Key) -> bool {
        !matches!(key.arrival, Arrival::Skipped | Arrival::Done) && self.traces(key.pc)
    }

    /// Whether the instructions of a block are counted.
    pub fn counts_insns(&self, key: Key, traced: bool) -> bool {
        let ends = || self.controls().is_some_and(|controls| controls.count != 0);
        key.arrival == Arrival::Skipped || traced && ends()
    }

    /// How many a superblock may have.
    pub fn most_insns(&self, most: usize) -> usize {
        let fewer = self.controls().and_then(|controls| controls.most_insns);
        fewer.map_or(most, |fewer| fewer.min(most))
    }

    /// The last instruction of a block was counted and is executed once more.
    pub fn makes_again(&self, context: &mut ThreadContext, block: BlockId) {
        let key = self.blocks[block.0 as usize].key();
        if self.counts_insns(key, self.is_traced(key)) {
            context.stream_left += 1;
        }
        if self.settings.count_instructions && self.streams.is_some() {
            context.insns[0] = context.insns[0].wrapping_sub(1);
        }
    }

    /// ```text
    ///   mov gs:[spill], rcx
    ///   mov rcx, gs:[left];  lea rcx, [rcx - n];  mov gs:[left], rcx
    ///   mov ecx, gs:[left + 4];  jrcxz on                   0, if there were as many
    ///   mov rcx, gs:[left];  lea rcx, [rcx + n];  mov gs:[left], rcx
    ///   mov rcx, gs:[spill];  jmp engine
    /// on: mov rcx, gs:[spill]
    /// ```
    pub fn emit_count(&mut self, emit: &mut Emit<'_>, key: Key, number: usize) {
        let add = |asm: &mut Asm<'_>, number: i32| {
            asm.mov_r_gs(Reg::Rcx, LEFT);
            asm.lea(Reg::Rcx, Reg::Rcx, number);
            asm.mov_gs_r(LEFT, Reg::Rcx);
        };
        let asm = &mut emit.asm;
        asm.mov_gs_r(SPILL_OTHER, Reg::Rcx);
        add(asm, -(number as i32));
        asm.mov_r32_gs(Reg::Rcx, LEFT + 4);
        let on = asm.jrcxz();
        add(asm, number as i32);
        asm.mov_r_gs(Reg::Rcx, SPILL_OTHER);
        let site = self.emit_unlinked_jump(emit);
        emit.asm.bind(on);
        emit.asm.mov_r_gs(Reg::Rcx, SPILL_OTHER);
        emit.cover(true, Recipe::other(Reg::Rcx as u8));
        let arrival = match key.arrival {
            Arrival::Skipped => Arrival::Skipped,
            _ => Arrival::Inside,
        };
        self.attach(emit.id, site, ExitKind::Event(Key { arrival, ..key }));
        emit.map.counted(number as u8, 0);
    }

    /// A block was left for the engine: a call is to be counted, or it has more instructions
    /// than are left. `false`: that is not what it was left for.
    pub fn control(&mut self, context: &mut ThreadContext, key: Key) -> bool {
        if self.controls().is_none() {
            return false;
        }
        self.arrive(context);
        let id = match key.arrival {
            Arrival::Middle => {
                self.called(key.pc);
                let key = self.enter(context, key);
                self.find(key, None)
            }
            _ => self.spend(context, key),
        };
        context.resume_host = self.block(id).host;
        true
    }

    /// The block at which a thread goes on that has too few instructions left for the one
    /// with that key.
    fn spend(&mut self, context: &mut ThreadContext, key: Key) -> BlockId {
        if context.stream_more > 0 {
            let slice = context.stream_more.min(SLICE);
            context.stream_left += slice;
            context.stream_more -= slice;
            return self.find(key, None);
        }
        if context.stream_left > 0 {
            return self.short(key, context.stream_left as usize);
        }
        let count = self.controls().map_or(0, |controls| controls.count);
        (context.stream_phase, context.stream_more) = match context.stream_phase {
            SKIPPING => (TRACING, count),
            _ => (DONE, 0),
        };
        let arrival = Arrival::Inside;
        let key = self.enter(context, Key { arrival, ..key });
        self.find(key, None)
    }

    /// A block of so many instructions, which is executed once.
    fn short(&mut self, key: Key, insns: usize) -> BlockId {
        let usual = self.map.get(key, &self.blocks);
        self.limit(Some(insns));
        let id = self.translate(key, None);
        self.limit(None);
        self.sever(id);
        if let Some(usual) = usual.filter(|usual| !self.blocks[usual.0 as usize].dead) {
            self.map.insert(usual, &self.blocks);
        }
        id
    }

    fn limit(&mut self, insns: Option<usize>) {
        let streams = self.streams.as_mut();
        if let Some(controls) = streams.and_then(|streams| streams.controls.as_mut()) {
            controls.most_insns = insns;
        }
    }
}
