//! Recording what every thread executes: `trace`.
//!
//! Problem: to append to the thread's stream (`wire::stream`) what its instructions
//! can be found by, in code that may be left at every branch.
//!
//! Approach: outcomes of branches that stay in a superblock are known where it is left, so
//! each way out appends them at once; usually one byte, and none if it has no branch. A
//! thread has several streams (lanes): which one the byte goes to, the address of its first
//! branch says, so that appends in a row seldom wait for each other.
//!
//! ```text
//!   mov gs:[spill], rdx           not where rdx is spilled anyway
//!   mov rdx, gs:[lane]
//!   mov byte [rdx], outcomes      faults if the chunk is full: `chunks::overflowed`
//!   lea rdx, [rdx + 1]
//!   mov gs:[lane], rdx            from here on it is part of the stream
//!   mov rdx, gs:[spill]
//! ```
//!
//! The target of an indirect branch is appended in the landing pad, or
//! by the engine: there it is a constant.
//!
//! Whoever reads the stream walks from branch to branch through code that the log has.
//! If bytes are not those that their addresses had when they were first translated, the
//! code says so as it runs: it appends an escape. What the engine does (signals, the first
//! instruction, system calls that do not come back) it appends itself. A signal finds in the
//! map which outcomes are not in the stream yet, and they are appended first.
//!
//! When it was, stamps say ([`stamps`]).
//!
//! Invariants:
//! - code, and targets, are in the log before code that refers to them can run;
//! - rdx is the one register that emitted code appends with;
//! - what is between a lane's word and the end of its chunk is not part of the stream;
//! - escapes stand in all lanes, between the same outcomes; where a branch went, only in
//!   its own.
//!
//! Limits: when the log is full, what is translated from then on cannot be read; when there
//! is no room for a chunk, and nobody frees one, the thread's stream ends there. The pool's
//! `denied` says so.

mod append;
mod chunks;
mod code_log;
mod controls;
mod icount;
mod requests;
pub mod shared_budget;
pub mod skip_count;
pub mod stamps;
mod targets;

use core::mem::offset_of;
use core::sync::atomic::Ordering::{Relaxed, Release};

use agent::thread::{ThreadContext, reg};
use isa::{Asm, Reg};
use wire::ThreadRecord;
use wire::stream::{self, ESCAPE, TargetNumber, escape};

pub use append::Append;
use chunks::{close_chunk, drop_stream, new_chunk, next_chunk, open_chunk, sink_buffer};
pub use chunks::{keyframe_is_due, overflowed, storing_register};
pub use code_log::Streams;
pub use controls::Controls;
use requests::may_come_back;
pub use requests::polled;

use icount::Rest;

use crate::accesses::{Bytes, Stored};
use crate::counting::Compensation;
use crate::engine::Engine;
use crate::indirect::SPILL_OTHER;
use crate::pcmap::{self, Recipe};
use crate::superblock::Superblock;
use crate::translate::Emit;

const STREAMS: i32 = offset_of!(ThreadContext, streams) as i32;

/// More outcomes are appended before the superblock is left: one less than what one byte
/// holds.
const MOST: u32 = stream::PER_BYTE - 1;

/// Outcomes of branches that are not in the stream yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Outcomes after the highest bit.
    bits: u8,
    /// That of the first one's branch.
    lane: u8,
}

impl Outcomes {
    pub const NONE: Outcomes = Outcomes { bits: 1, lane: 0 };

    pub fn and(self, lane: usize, outcome: bool) -> Outcomes {
        Outcomes {
            bits: self.bits << 1 | u8::from(outcome),
            lane: match self.bits {
                1 => lane as u8,
                _ => self.lane,
            },
        }
    }

    fn are_none(self) -> bool {
        self.bits == 1
    }
}

/// Outcomes of the superblock being emitted that are not appended yet, if a trace is made.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    is_on: bool,
    outcomes: Outcomes,
    /// Instructions that are taken from what is left where it begins.
    counted: usize,
    /// Number of leading instructions already accounted for in the stream or the thread's counters.
    accounted: usize,
    /// Addition for the instructions after them that no append has.
    rest: Option<Rest>,
    /// Number of instructions that have ended with what is being emitted.
    over: usize,
    /// Words of accesses to memory.
    pub stored: Stored,
}

impl Pending {
    pub fn new(source: &Superblock) -> Pending {
        Pending {
            is_on: source.traced,
            outcomes: Outcomes::NONE,
            counted: match source.counted && !source.traced {
                true => source.insns.len(),
                false => 0,
            },
            accounted: 0,
            rest: None,
            over: 0,
            stored: Stored::default(),
        }
    }

    /// Compensation on the side exit after instruction `i` for this outcome of the branch at `pc`;
    /// `None`: the exit needs none.
    pub fn compensation(&self, pc: u64, outcome: bool, i: usize) -> Option<Compensation> {
        match (self.is_on, self.counted.saturating_sub(i + 1)) {
            (true, _) => Some(Compensation::Appended(self.way(pc, outcome, None))),
            (false, 0) => None,
            (false, unexecuted) => Some(skip_count::gives_back(unexecuted)),
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// As [`Self::compensation`], where control goes on at `to` as if there was no branch.
    pub fn compensation_onward(&self, pc: u64, to: u64) -> Option<Compensation> {
        let mark = self.stored.is_known.then_some(to);
        let is_on = self.is_on;
        is_on.then(|| Compensation::Appended(self.way(pc, false, mark)))
    }

    /// Append on a side exit on which the branch at `pc` has this outcome.
    fn way(&self, pc: u64, outcome: bool, mark: Option<u64>) -> Append {
        Append {
            outcomes: self.outcomes.and(stream::lane(pc), outcome),
            insns: self.unaccounted(),
            stored: self.stored,
            mark,
            added: None,
        }
    }

    /// Append of an indirect branch before it goes, or of the end of a superblock: of outcomes and
    /// accesses, if there are any.
    pub fn not_appended(&self) -> Option<Append> {
        let append = self.everything(None);
        (!append.is_nothing()).then_some(append)
    }

    fn everything(&self, mark: Option<u64>) -> Append {
        Append {
            outcomes: self.outcomes,
            insns: self.unaccounted(),
            stored: self.stored,
            mark,
            added: None,
        }
    }

    /// Instructions that are over and in no append.
    fn unaccounted(&self) -> u8 {
        self.over.saturating_sub(self.accounted) as u8
    }
}

/// Appends to a lane what `store` puts where rdx points to; it gives how many bytes.
fn append(asm: &mut Asm<'_>, lane: usize, store: impl FnOnce(&mut Asm<'_>) -> i32) {
    let word = STREAMS + 8 * lane as i32;
    asm.mov_r_gs(Reg::Rdx, word);
    let len = store(asm);
    asm.lea(Reg::Rdx, Reg::Rdx, len);
    asm.mov_gs_r(word, Reg::Rdx);
}

/// Appends an escape to all lanes.
fn append_escape(asm: &mut Asm<'_>, bytes: &[u8]) {
    for lane in 0..stream::OUTCOMES {
        append(asm, lane, |asm| {
            for (at, &byte) in (0..).step_by(stream::ENTRY).zip(bytes) {
                asm.mov_mem_imm16(Reg::Rdx, at, byte.into());
            }
            (stream::ENTRY * bytes.len()) as i32
        });
    }
    store(asm, stream::TARGETS, bytes);
}

/// Appends that, and stores some bytes behind it.
fn store(asm: &mut Asm<'_>, lane: usize, bytes: &[u8]) {
    append(asm, lane, |asm| {
        for (at, four) in (0..).step_by(4).zip(bytes.chunks(4)) {
            let mut word = [0; 4];
            word[..four.len()].copy_from_slice(four);
            asm.mov_mem_imm32(Reg::Rdx, at, u32::from_le_bytes(word));
        }
        bytes.len() as i32
    });
}

fn spilled(asm: &mut Asm<'_>, emit: impl FnOnce(&mut Asm<'_>)) {
    asm.mov_gs_r(SPILL_OTHER, Reg::Rdx);
    emit(asm);
    asm.mov_r_gs(Reg::Rdx, SPILL_OTHER);
}

/// Most bytes of [`emit_went`].
pub const WENT_BYTES: u64 = 9 + 4 * 7 + 4 + 9;

/// Says where the indirect branch went that led here; rdx is free.
pub fn emit_went(asm: &mut Asm<'_>, went: TargetNumber) {
    let (bytes, len) = went.bytes();
    match len {
        1 => append(asm, stream::TARGETS, |asm| {
            asm.mov_mem_imm8(Reg::Rdx, 0, bytes[0]);
            1
        }),
        _ => store(asm, stream::TARGETS, &bytes[..len]),
    }
}

impl Emit<'_> {
    /// The branch at `pc` had this outcome and control stays here.
    pub fn passed(&mut self, pc: u64, outcome: bool) {
        if self.pending.is_on {
            let lane = stream::lane(pc);
            self.pending.outcomes = self.pending.outcomes.and(lane, outcome);
            self.map.outcome(lane, outcome);
        }
    }

    /// Adds the outcome of a direct jump or call that always goes to `target`.
    pub fn went(&mut self, from: u64, target: u64) {
        if target <= from {
            self.passed(from, true);
        }
    }

    fn keep_outcomes_few(&mut self) {
        if self.pending.outcomes.bits.ilog2() >= MOST {
            self.write_outcomes(0);
        }
    }

    /// Appends what is not in the stream yet, where control is at a boundary. So many
    /// instructions are in it that are not executed yet.
    pub fn write_outcomes(&mut self, ahead: u8) {
        self.append_pending(ahead, None);
    }

    /// As [`Self::write_outcomes`], where the superblock ends and control goes on at `pc` as if
    /// it did not.
    pub fn end_onward(&mut self, pc: u64) {
        let mark = self.pending.stored.is_known.then_some(pc);
        self.append_pending(0, mark.filter(|_| self.pending.is_on));
    }

    fn append_pending(&mut self, ahead: u8, mark: Option<u64>) {
        let append = self.pending.everything(mark);
        if append.is_nothing() {
            return;
        }
        append.emit_spilled(&mut self.asm);
        self.cover(true, Recipe::other(Reg::Rdx as u8));
        if append.has_outcomes() {
            self.map.outcomes_written();
            self.map.accounted(ahead);
            self.pending.outcomes = Outcomes::NONE;
            self.pending.accounted = self.pending.over;
        }
        self.stored_written();
    }

    /// Words of accesses that are stored become part of the stream, at a boundary.
    pub fn write_addresses(&mut self) {
        let append = Append {
            outcomes: Outcomes::NONE,
            ..self.pending.everything(None)
        };
        append.emit_spilled(&mut self.asm);
        self.cover(true, Recipe::other(Reg::Rdx as u8));
        self.stored_written();
    }

    fn stored_written(&mut self) {
        if !self.pending.stored.bytes.is_none() {
            self.map.accesses_written();
            self.pending.stored.bytes = Bytes::default();
        }
    }

    /// Says that the code which follows is `fragment`'s.
    pub fn begin_fragment(&mut self, fragment: u32) {
        spilled(&mut self.asm, |asm| {
            let mut bytes = [ESCAPE, escape::CODE, 0, 0, 0, 0];
            bytes[2..].copy_from_slice(&fragment.to_le_bytes());
            append_escape(asm, &bytes);
        });
        self.cover(true, Recipe::other(Reg::Rdx as u8));
    }
}

impl Engine {
    /// The indirect branch that led to the engine went to `pc`.
    pub fn went_to(&mut self, context: &mut ThreadContext, pc: u64) {
        if context.stream_gap == 0
            && let Some(went) = self.went(pc)
        {
            let (bytes, len) = went.bytes();
            self.append(context, stream::TARGETS, &bytes[..len]);
        }
    }

    /// The thread goes on at `pc`: the first time, its stream says so.
    pub fn begin_at(&mut self, context: &mut ThreadContext, pc: u64) {
        if self.streams.is_some() && context.stream_begun == 0 {
            context.stream_begun = 1;
            self.append_escape(context, escape::TO, Some(stream::why::START), pc);
            self.follow_stack(context, context.regs[reg::RSP]);
            self.stamp(context, stream::stamp::CAME);
            self.tell_stack(context, context.regs[reg::RSP]);
        }
    }

    /// The thread leaves a superblock at `place`, which is no exit of it.
    /// `false`: no trace is made.
    pub fn leave_at(&mut self, context: &mut ThreadContext, place: &pcmap::Place, sp: u64) -> bool {
        if self.streams.is_none() {
            return false;
        }
        let ahead = place.counted_ahead.cast_unsigned();
        context.stream_left = context.stream_left.wrapping_add(ahead);
        skip_count::heed(context);
        self.give_turn_back(context);
        if context.stream_gap == 0 {
            let outcomes = place.outcomes;
            if !outcomes.are_none() {
                self.append(context, outcomes.lane.into(), &[outcomes.bits]);
            }
            context.streams[stream::ADDRESSES] += u64::from(place.accesses.addresses);
            context.streams[stream::VALUES] += u64::from(place.accesses.values);
            let unaccounted = place.unaccounted.cast_unsigned();
            context.insns[0] = context.insns[0].wrapping_add(unaccounted);
            self.is_at(context, place.app_pc, sp);
        }
        true
    }

    /// The thread is at `pc`, and did not get there by an outcome. If one is due, that is a
    /// keyframe.
    pub fn is_at(&mut self, context: &mut ThreadContext, pc: u64, sp: u64) {
        if self.streams.is_none() || context.stream_gap != 0 {
            return;
        }
        let pool = self.process.log.pool;
        if !chunks::is_due(&pool, context) {
            self.append_escape(context, escape::AT, None, pc);
            return self.follow_stack(context, sp);
        }
        for lane in 0..stream::ALL_LANES {
            chunks::prepare_keyframe(&pool, context, lane);
        }
        self.append_escape(context, escape::AT, None, pc);
        context.stream_keyframe += 1;
        context.stream_filled = 0;
        let (_, len) = escape(escape::AT, None, pc);
        for lane in 0..stream::ALL_LANES {
            let escape = match lane {
                stream::LANES.. => 0,
                _ => len * stream::entry(lane),
            };
            chunks::mark_keyframe(&pool, context, lane, escape);
        }
        self.follow_stack(context, sp);
        self.stamp(context, stream::stamp::CAME);
    }

    /// From there it goes to `pc` with the stack pointer `sp`, for this reason.
    pub fn goes_to(&mut self, context: &mut ThreadContext, why: u8, pc: u64, sp: u64) {
        if self.streams.is_some() && context.stream_gap == 0 {
            self.append_escape(context, escape::TO, Some(why), pc);
            self.follow_stack(context, sp);
            self.stamp(context, stream::stamp::CAME);
            self.tell_stack(context, sp);
        }
    }

    /// To all lanes: the reader does not know which one it comes to next.
    fn append_escape(&mut self, context: &mut ThreadContext, kind: u8, why: Option<u8>, pc: u64) {
        let (bytes, len) = escape(kind, why, pc);
        for lane in 0..stream::LANES {
            self.append(context, lane, &bytes[..len]);
        }
    }

    pub fn append(&mut self, context: &mut ThreadContext, lane: usize, bytes: &[u8]) {
        if context.streams[lane] == 0 {
            return;
        }
        let entry = stream::entry(lane) as u64;
        if context.streams[lane] + bytes.len() as u64 * entry > context.stream_ends[lane] {
            next_chunk(&self.process.log.pool, context, lane);
        }
        for &byte in bytes {
            let mut at = context.streams[lane];
            for byte in [byte, 0].into_iter().take(entry as usize) {
                // SAFETY: between the chunk's begin and the page behind it, by the test
                // above; the calling thread's own, and its emitted code does not run now.
                unsafe { (at as *mut u8).write_volatile(byte) };
                at += 1;
            }
            // Both bytes at once are part of the stream.
            context.streams[lane] = at;
        }
    }

    /// The thread with `record` begins to write its streams.
    pub fn begin_streams(&mut self, context: &mut ThreadContext, record: &ThreadRecord) {
        if self.streams.is_none() {
            return;
        }
        let is_hidden = record.hidden.load(Relaxed) != 0;
        let is_left_out = self.process.is_child && !self.settings.follow;
        self.begin_counting(context, is_hidden || is_left_out);
        let pool = self.process.log.pool;
        // Not needed yet, and it may be that it never is.
        let _ = sink_buffer();
        let lanes = match self.settings.memory {
            Some(selection) if selection.values => stream::ALL_LANES,
            Some(_) => stream::ADDRESSES + 1,
            None => stream::LANES,
        };
        let mut firsts = [None; stream::ALL_LANES];
        for (lane, first) in firsts.iter_mut().enumerate().take(lanes) {
            *first = new_chunk(&pool);
            let opened = first.and_then(|first| open_chunk(&pool, context, lane, first));
            if opened.is_none() {
                drop_stream(context, lane);
            }
        }
        // A lane without a chunk is no lane, and one missing is all missing. Those about memory
        // come first, so whoever sees the others knows whether there are any.
        for (first, chunk) in record.streams.iter().zip(firsts).rev() {
            first.store(chunk.unwrap_or(0), Release);
        }
    }

    /// The thread executes no more.
    pub fn end_streams(&mut self, context: &mut ThreadContext) {
        if self.streams.is_none() {
            return;
        }
        self.stamp(context, stream::stamp::END);
        for lane in 0..stream::ALL_LANES {
            if context.stream_ends[lane] != 0 {
                close_chunk(&self.process.log.pool, context, lane, 0, stream::CLOSED);
                (context.streams[lane], context.stream_ends[lane]) = (0, 0);
            }
        }
    }
}

/// Bytes of the longest escape.
const LONGEST: usize = 11;

/// An escape, and how many bytes it has.
fn escape(kind: u8, why: Option<u8>, pc: u64) -> ([u8; LONGEST], usize) {
    let mut bytes = [0; LONGEST];
    bytes[..2].copy_from_slice(&[ESCAPE, kind]);
    let at = match why {
        Some(why) => {
            bytes[2] = why;
            3
        }
        None => 2,
    };
    bytes[at..at + 8].copy_from_slice(&pc.to_le_bytes());
    (bytes, at + 8)
}
