//! Recording what every thread executes: `trace`.
//!
//! Problem: to append to the thread's stream (`wire::stream`) what its instructions
//! can be found by, in code that may be left at every branch.
//!
//! Approach: outcomes of branches that stay in a superblock are known where it is left, so
//! each way out appends them at once; usually one byte, and none if it has no branch.
//!
//! ```text
//!   mov gs:[spill], rdx           not where rdx is spilled anyway
//!   mov rdx, gs:[stream]
//!   mov byte [rdx], outcomes      faults if the chunk is full: `chunks::overflowed`
//!   mov word [rdx + 1], cx        of an indirect branch: where it goes
//!   lea rdx, [rdx + 3]
//!   mov gs:[stream], rdx          from here on it is part of the stream
//!   mov rdx, gs:[spill]
//! ```
//!
//! Whoever reads the stream walks from branch to branch through code that the log has.
//! Where bytes are not those that their addresses had when they were first translated, or
//! where the low bits of a target are those of another, the code says so as it runs: it
//! appends an escape. What the engine does (signals, the first instruction, system calls
//! that do not come back) it appends itself. A signal finds in the map which outcomes
//! are not in the stream yet, and they are appended first.
//!
//! Invariants:
//! - code, and targets, are in the log before code that refers to them can run;
//! - rdx is the one register that emitted code appends with;
//! - what is between `stream` and the end of the chunk is not part of the stream.
//!
//! Limits: when the log is full, what is translated from then on cannot be read; when there
//! is no room for a chunk, and nobody frees one, the thread's stream ends there. The pool's
//! `denied` says so.

mod chunks;
mod known;

use core::mem::offset_of;
use core::sync::atomic::Ordering::Release;

use agent::thread::ThreadContext;
use isa::{Asm, Reg};
use wire::ThreadRecord;
use wire::stream::{self, ESCAPE, escape};

pub use chunks::overflowed;
use chunks::{close_chunk, lose, new_chunk, next_chunk, open_chunk};
pub use known::Streams;

use crate::engine::Engine;
use crate::indirect::SPILL_OTHER;
use crate::pcmap::{self, Recipe};
use crate::translate::Emit;

const STREAM: i32 = offset_of!(ThreadContext, stream) as i32;

/// More outcomes are appended before the superblock is left: one byte less than what one
/// store holds.
const MOST: u32 = 3 * stream::PER_BYTE - 1;

/// Outcomes of the superblock being emitted that are not in the stream yet.
#[derive(Clone, Copy, Debug)]
pub struct Outcomes {
    is_on: bool,
    /// Behind the highest bit.
    bits: u32,
}

impl Outcomes {
    pub fn new(is_on: bool) -> Outcomes {
        Outcomes { is_on, bits: 1 }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// What a way out appends on which the branch has this outcome.
    pub fn way(&self, outcome: bool) -> Append {
        Append {
            bits: self.bits << 1 | u32::from(outcome),
            target: Goes::Nowhere,
        }
    }

    /// What an indirect branch appends, with its target in rcx.
    pub fn indirect(&self) -> Append {
        Append {
            target: Goes::Rcx,
            ..self.way(true)
        }
    }

    fn all(&self) -> Option<Append> {
        (self.bits > 1).then_some(Append {
            bits: self.bits,
            target: Goes::Nowhere,
        })
    }
}

/// Something that emitted code appends.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    bits: u32,
    target: Goes,
}

/// Where an indirect branch goes.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Nowhere,
    Rcx,
    To(u64),
}

impl Append {
    /// Most bytes of code, with the spill and without.
    pub const SPILLED: u64 = Append::BYTES + 18;
    pub const BYTES: u64 = 9 + 7 + 6 + 4 + 9;

    /// The same of a branch that is known to go there.
    pub fn to(self, target: u64) -> Append {
        Append {
            target: Goes::To(target),
            ..self
        }
    }

    /// The same if the indirect branch at the end is not executed.
    pub fn without_last(self) -> Option<Append> {
        let before = Outcomes {
            is_on: true,
            bits: self.bits >> 1,
        };
        before.all()
    }

    /// With rdx free.
    pub fn emit(self, asm: &mut Asm<'_>) {
        asm.mov_r_gs(Reg::Rdx, STREAM);
        let (bytes, len) = stream::outcomes(self.bits);
        match len {
            1 => asm.mov_mem_imm8(Reg::Rdx, 0, bytes[0]),
            2 => asm.mov_mem_imm16(Reg::Rdx, 0, u16::from_le_bytes([bytes[0], bytes[1]])),
            _ => asm.mov_mem_imm32(Reg::Rdx, 0, u32::from_le_bytes(bytes)),
        }
        let len = len as i8;
        let end = match self.target {
            Goes::Nowhere => len,
            Goes::Rcx => {
                asm.mov_mem_r16(Reg::Rdx, len, Reg::Rcx);
                len + 2
            }
            Goes::To(target) => {
                asm.mov_mem_imm16(Reg::Rdx, len, target as u16);
                len + 2
            }
        };
        emit_commit(asm, end);
    }

    pub fn emit_spilled(self, asm: &mut Asm<'_>) {
        spilled(asm, |asm| self.emit(asm));
    }
}

fn emit_commit(asm: &mut Asm<'_>, appended: i8) {
    asm.lea(Reg::Rdx, Reg::Rdx, appended.into());
    asm.mov_gs_r(STREAM, Reg::Rdx);
}

fn spilled(asm: &mut Asm<'_>, emit: impl FnOnce(&mut Asm<'_>)) {
    asm.mov_gs_r(SPILL_OTHER, Reg::Rdx);
    emit(asm);
    asm.mov_r_gs(Reg::Rdx, SPILL_OTHER);
}

/// Most bytes of [`emit_target`].
pub const TARGET_BYTES: u64 = 9 + 5 + 7 + 7 + 4 + 9;

/// Says where the indirect branch went that led here; rdx is free.
pub fn emit_target(asm: &mut Asm<'_>, pc: u64) {
    asm.mov_r_gs(Reg::Rdx, STREAM);
    asm.mov_mem_imm16(Reg::Rdx, 0, u16::from_le_bytes([ESCAPE, escape::TARGET]));
    asm.mov_mem_imm32(Reg::Rdx, 2, pc as u32);
    asm.mov_mem_imm32(Reg::Rdx, 6, (pc >> 32) as u32);
    emit_commit(asm, 10);
}

impl Emit<'_> {
    /// The branch had this outcome and control stays here.
    pub fn passed(&mut self, outcome: bool) {
        if self.outcomes.is_on {
            self.outcomes.bits = self.outcomes.bits << 1 | u32::from(outcome);
            self.map.outcome(outcome);
        }
    }

    /// The same of a direct jump or call that always goes to `target`.
    pub fn went(&mut self, from: u64, target: u64) {
        if target <= from {
            self.passed(true);
        }
    }

    /// Before an instruction: no way out has more outcomes than can be appended at once.
    pub fn keep_outcomes_few(&mut self) {
        if self.outcomes.bits.ilog2() >= MOST {
            self.write_outcomes();
        }
    }

    /// Appends what is not in the stream yet, where control is at a boundary.
    pub fn write_outcomes(&mut self) {
        let Some(append) = self.outcomes.all() else {
            return;
        };
        append.emit_spilled(&mut self.asm);
        self.cover(true, Recipe::other(Reg::Rdx as u8));
        self.map.outcomes_written();
        self.outcomes.bits = 1;
    }

    /// Says that the code which follows is `fragment`'s.
    pub fn begin_fragment(&mut self, fragment: u32) {
        spilled(&mut self.asm, |asm| {
            asm.mov_r_gs(Reg::Rdx, STREAM);
            asm.mov_mem_imm16(Reg::Rdx, 0, u16::from_le_bytes([ESCAPE, escape::CODE]));
            asm.mov_mem_imm32(Reg::Rdx, 2, fragment);
            emit_commit(asm, 6);
        });
        self.cover(true, Recipe::other(Reg::Rdx as u8));
    }
}

impl Engine {
    /// The indirect branch that led to the engine went to `pc`.
    pub fn name_target(&mut self, context: &mut ThreadContext, pc: u64) {
        if self.must_name_target(pc) {
            self.append_escape(context, escape::TARGET, None, pc);
        }
    }

    /// The thread goes on at `pc`: the first time, its stream says so.
    pub fn begin_at(&mut self, context: &mut ThreadContext, pc: u64) {
        if self.streams.is_some() && context.stream_begun == 0 {
            context.stream_begun = 1;
            self.append_escape(context, escape::TO, Some(stream::why::START), pc);
        }
    }

    /// The thread leaves a superblock at `place`, which is no exit of it.
    pub fn leave_at(&mut self, context: &mut ThreadContext, place: &pcmap::Place) {
        if self.streams.is_some() {
            let (bytes, len) = stream::outcomes(place.outcomes);
            self.append(context, &bytes[..len]);
            self.is_at(context, place.app_pc);
        }
    }

    /// The thread is at `pc`, and did not get there by an outcome.
    pub fn is_at(&mut self, context: &mut ThreadContext, pc: u64) {
        if self.streams.is_some() {
            self.append_escape(context, escape::AT, None, pc);
        }
    }

    /// From there it goes to `pc`, for this reason.
    pub fn goes_to(&mut self, context: &mut ThreadContext, why: u8, pc: u64) {
        if self.streams.is_some() {
            self.append_escape(context, escape::TO, Some(why), pc);
        }
    }

    fn append_escape(&mut self, context: &mut ThreadContext, kind: u8, why: Option<u8>, pc: u64) {
        let mut bytes = [0; 11];
        bytes[..2].copy_from_slice(&[ESCAPE, kind]);
        let at = match why {
            Some(why) => {
                bytes[2] = why;
                3
            }
            None => 2,
        };
        bytes[at..at + 8].copy_from_slice(&pc.to_le_bytes());
        self.append(context, &bytes[..at + 8]);
    }

    fn append(&mut self, context: &mut ThreadContext, bytes: &[u8]) {
        if context.stream == 0 {
            return;
        }
        if context.stream + bytes.len() as u64 > context.stream_end {
            next_chunk(&self.process.log.pool, context);
        }
        for &byte in bytes {
            // SAFETY: between the chunk's begin and the page behind it, by the test
            // above; the calling thread's own, and its emitted code does not run now.
            unsafe { (context.stream as *mut u8).write_volatile(byte) };
            context.stream += 1;
        }
    }

    /// The thread with `record` begins to write a stream.
    pub fn begin_stream(&mut self, context: &mut ThreadContext, record: &ThreadRecord) {
        if self.streams.is_none() {
            return;
        }
        let pool = self.process.log.pool;
        let chunk = new_chunk(&pool).and_then(|offset| {
            open_chunk(&pool, context, offset)?;
            record.stream.store(offset, Release);
            Some(())
        });
        if chunk.is_none() {
            lose(&pool, context);
        }
    }

    /// The thread executes no more.
    pub fn end_stream(&self, context: &mut ThreadContext) {
        if self.streams.is_some() && context.stream_end != 0 {
            close_chunk(&self.process.log.pool, context, 0);
            (context.stream, context.stream_end) = (0, 0);
        }
    }
}
