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
//! That makes each superblock wait for the one before it. So as long as many more are to be
//! skipped it is done in another way: what is left is shared out to several words that are used in
//! turn ([`share`]), and instructions are counted run by run, as `counting` does, mostly where
//! flags are dead. The first addition of a superblock is followed by a branch on its sign. That
//! may be behind some of its instructions, so who finds too little there has gone on
//! already. But [`RESERVE`] instructions are in none of these words: when all together are few,
//! the rest is skipped in the first way, which is exact.
//!
//! A thread is in one of four phases, and blocks of each phase lead to blocks of the same:
//!
//! | phase | blocks | instructions |
//! |---|---|---|
//! | far | [`Arrival::Far`] | counted, in several words, and not traced |
//! | skipping | [`Arrival::Skipped`] | counted and not traced |
//! | tracing | others | traced, and counted, if that is to end |
//! | done | [`Arrival::CountReached`] | neither |
//!
//! Invariants:
//! - where a thread leaves a superblock in its middle, the map says how many instructions
//!   are counted that were not executed, or the reverse;
//! - far away, the sum of all words is what is to be skipped yet, and is more than a superblock
//!   has: a word is less than 0 by no more than one has that is counted in it, as its first
//!   run is looked at, and what is in no word is at least half of [`RESERVE`].
//!
//! Limits: code that is traced and counted is made of basic blocks.

use core::mem::offset_of;

use agent::thread::{FAR_WORDS, ThreadContext};
use isa::{Asm, Cc, Insn, Reg};

use crate::block::{Arrival, BlockId, ExitKind, Key};
use crate::counting::{Compensation, Counting, Place, Run};
use crate::engine::Engine;
use crate::indirect::SPILL_OTHER;
use crate::pcmap::Recipe;
use crate::superblock::MAX_INSNS;
use crate::translate::Emit;

const LEFT: i32 = offset_of!(ThreadContext, stream_left) as i32;
const FAR_LEFT: i32 = offset_of!(ThreadContext, stream_far) as i32;

/// Values of [`ThreadContext::stream_phase`].
pub const TRACING: u32 = 0;
pub const SKIPPING: u32 = 1;
pub const DONE: u32 = 2;
pub const FAR: u32 = 3;

/// Number of instructions counted at once: it has 32 bits.
const SLICE: u64 = 1 << 31;

/// The least that is shared out, and what of that is in none of the words.
const LEAST: u64 = 1 << 14;
const RESERVE: u64 = 1 << 12;
const _: () = assert!(MAX_INSNS as u64 * 4 < RESERVE && RESERVE * 2 < LEAST);

/// Conditional branches on a result that is less than 0.
const SIGN: Cc = Cc(8);

/// How a superblock of that arrival is counted, if it is far away.
pub fn far(id: BlockId, arrival: Arrival) -> Option<Counting> {
    // Neighbours in time use different words.
    let word = FAR_LEFT + 8 * (id.0 % FAR_WORDS as u32) as i32;
    (arrival == Arrival::Far).then(|| Counting::of_left(word))
}

/// How a thread arrives whose phase is not traced.
pub fn arrival(context: &ThreadContext) -> Option<Arrival> {
    match context.stream_phase {
        FAR => Some(Arrival::Far),
        SKIPPING => Some(Arrival::Skipped),
        DONE => Some(Arrival::CountReached),
        _ => None,
    }
}

/// Sum of the remainders in all counters.
fn all(context: &ThreadContext) -> u64 {
    let parts = [context.stream_left, context.stream_more];
    let parts = context.stream_far.iter().chain(&parts);
    parts.fold(0u64, |sum, &part| sum.wrapping_add(part))
}

/// From here on a thread that was far away counts in the other way.
pub(super) fn come_near(context: &mut ThreadContext) {
    (context.stream_phase, context.stream_left) = (SKIPPING, all(context));
    (context.stream_more, context.stream_far) = (0, [0; FAR_WORDS]);
}

/// Shares out what is left to the words, if that is enough. Else they have nothing, and who
/// comes to a block leaves for the engine.
pub(super) fn share(context: &mut ThreadContext) {
    let all = all(context);
    let each = match all >= LEAST {
        true => ((all - RESERVE) / FAR_WORDS as u64).min(SLICE),
        false => 0,
    };
    context.stream_far = [each; FAR_WORDS];
    context.stream_left = all - each * FAR_WORDS as u64;
    context.stream_more = 0;
}

/// A thread has left a superblock in its middle: what is not shared out has to be enough
/// for that.
pub fn heed(context: &mut ThreadContext) {
    if context.stream_phase == FAR && context.stream_left.cast_signed() < RESERVE as i64 / 2 {
        share(context);
    }
}

/// Most instructions of a superblock whose accesses are recorded; with values, too.
const MOST_RECORDED: usize = 48;
const MOST_WITH_VALUES: usize = 24;

/// Compensation on a side exit that leaves `insns` counted instructions unexecuted.
pub fn gives_back(insns: usize) -> Compensation {
    Compensation::add(LEFT, insns as i32)
}

impl Engine {
    /// A thread begins; one that is `hidden` is no part of the trace.
    pub fn begin_counting(&mut self, context: &mut ThreadContext, hidden: bool) {
        let Some(controls) = self.controls() else {
            return;
        };
        (context.stream_holds, context.stream_waits) = (0, 0);
        if controls.together {
            (context.stream_left, context.stream_more) = (0, 0);
            context.stream_phase = self.begins_in(hidden);
            return;
        }
        let (phase, more) = match controls.skip {
            0 => (TRACING, controls.count),
            skip @ LEAST.. => (FAR, skip),
            skip => (SKIPPING, skip),
        };
        (context.stream_phase, context.stream_left) = (phase, 0);
        (context.stream_more, context.stream_far) = (more, [0; FAR_WORDS]);
        if phase == FAR {
            share(context);
        }
    }

    /// Whether what is executed at a block with that key is traced.
    pub fn is_traced(&self, key: Key) -> bool {
        !key.arrival.is_off() && self.traces(key.pc)
    }

    /// Whether the instructions of a block are counted.
    pub fn counts_insns(&self, key: Key, traced: bool) -> bool {
        let ends = || self.controls().is_some_and(|controls| controls.count != 0);
        key.arrival == Arrival::Skipped || traced && ends()
    }

    /// How many a superblock may have.
    pub fn most_insns(&self, most: usize) -> usize {
        // The stores for each instruction make code longer.
        let most = match self.settings.memory {
            None => most,
            Some(selection) if selection.values => most.min(MOST_WITH_VALUES),
            Some(_) => most.min(MOST_RECORDED),
        };
        let fewer = self.controls().and_then(|controls| controls.most_insns);
        fewer.map_or(most, |fewer| fewer.min(most))
    }

    /// The last instruction of a block was counted and is executed once more.
    pub fn makes_again(&self, context: &mut ThreadContext, block: BlockId) {
        let key = self.blocks[block.0 as usize].key();
        // Far away its way out has done that.
        if key.arrival != Arrival::Far && self.counts_insns(key, self.is_traced(key)) {
            context.stream_left += 1;
        }
        if self.is_traced(key) && self.streams.is_some() {
            context.insns[0] = context.insns[0].wrapping_sub(1);
        }
    }

    /// Before instruction `i`: the run is counted if this is the place.
    pub fn count_run(&mut self, emit: &mut Emit<'_>, run: &Run, insn: &Insn, i: usize) {
        if !self.count_checked(emit, run, insn, i) {
            emit.count_at(run, i);
        }
    }

    /// Before instruction `i` of the first run, if it is here that it is counted and looked
    /// whether there are as many. `false`: it is not.
    ///
    /// ```text
    ///   add gs:[word], -n;  js way         way: give back those from i on; jmp engine
    /// ```
    fn count_checked(&mut self, emit: &mut Emit<'_>, run: &Run, insn: &Insn, i: usize) -> bool {
        let Some(word) = emit.counting.left().filter(|_| run.first == 0) else {
            return false;
        };
        let key = Key {
            pc: insn.pc(),
            arrival: Arrival::Far,
        };
        match run.place {
            Place::Add(at) if at == i => {}
            Place::Spilled if i == 0 => {
                self.emit_count(emit, key, run.end);
                return true;
            }
            _ => return false,
        }
        emit.asm.add_gs_imm(word, -(run.end as i32));
        emit.asm.align_displacement(2);
        let site = emit.asm.jcc(SIGN, emit.asm.here());
        emit.cover(true, Recipe::NONE);
        let back = Compensation::add(word, (run.end - i) as i32);
        self.attach_compensation(emit.id, site, ExitKind::Event(key), back);
        emit.map.counted((run.end - i) as u8, 0);
        true
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
        let word = emit.counting.left().unwrap_or(LEFT);
        let add = |asm: &mut Asm<'_>, number: i32| {
            asm.mov_r_gs(Reg::Rcx, word);
            asm.lea(Reg::Rcx, Reg::Rcx, number);
            asm.mov_gs_r(word, Reg::Rcx);
        };
        let asm = &mut emit.asm;
        asm.mov_gs_r(SPILL_OTHER, Reg::Rcx);
        add(asm, -(number as i32));
        asm.mov_r32_gs(Reg::Rcx, word + 4);
        let on = asm.jrcxz();
        add(asm, number as i32);
        asm.mov_r_gs(Reg::Rcx, SPILL_OTHER);
        let site = self.emit_unlinked_jump(emit);
        emit.asm.bind(on);
        emit.asm.mov_r_gs(Reg::Rcx, SPILL_OTHER);
        emit.cover(true, Recipe::other(Reg::Rcx as u8));
        let arrival = match key.arrival {
            off if off.is_off() => off,
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
                context.stream_waits = 0;
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
        if self.counts_together() {
            let block = self.take_part(context, key);
            return block.unwrap_or_else(|| self.next_phase(context, key));
        }
        if context.stream_phase == FAR {
            share(context);
            let arrival = match context.stream_far[0] {
                0 => {
                    (context.stream_phase, context.stream_more) = (SKIPPING, context.stream_left);
                    context.stream_left = 0;
                    Arrival::Skipped
                }
                _ => Arrival::Far,
            };
            return self.find(Key { arrival, ..key }, None);
        }
        if context.stream_more > 0 {
            let slice = context.stream_more.min(SLICE);
            context.stream_left += slice;
            context.stream_more -= slice;
            return self.find(key, None);
        }
        if context.stream_left > 0 {
            return self.short(key, context.stream_left as usize);
        }
        self.next_phase(context, key)
    }

    /// The block at which a thread goes on in the next phase.
    fn next_phase(&mut self, context: &mut ThreadContext, key: Key) -> BlockId {
        let controls = self.controls().filter(|controls| !controls.together);
        let count = controls.map_or(0, |controls| controls.count);
        (context.stream_phase, context.stream_more) = match context.stream_phase {
            SKIPPING => (TRACING, count),
            _ => (DONE, 0),
        };
        let arrival = Arrival::Inside;
        let key = self.enter(context, Key { arrival, ..key });
        self.find(key, None)
    }

    /// A block of so many instructions, which is executed once.
    pub(super) fn short(&mut self, key: Key, insns: usize) -> BlockId {
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
