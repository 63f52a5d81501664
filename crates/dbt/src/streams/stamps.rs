//! Time stamps: when a thread executed what other threads can see the order of.
//!
//! Problem: streams say what each thread did, and nothing of which came first.
//!
//! Approach: behind an atomic instruction or fence, and on both sides of a system call, emitted
//! code reads the time-stamp counter and appends it to the lane of targets, which the reader
//! comes to in the order of execution. So a stamp needs no position.
//!
//! ```text
//!   mov gs:[spill], rcx, rdx      if turns are taken
//!   mov rdx, turn
//! again:
//!   mov ecx, 1
//!   xchg [rdx], ecx
//!   jrcxz mine                    else wait for a while, then take it as from the dead
//! mine:
//!   mov gs:[has turn], 1
//!   mov rcx, rdx, gs:[spill]
//!   the program's instruction
//!   mov gs:[spill], rax, rcx, rdx
//!   lfence; rdtsc                 the instruction was executed before
//!   mov gs:[has turn], [turn], 0  if turns are taken
//!   append
//!   mov rax, rcx, rdx, gs:[spill]
//! ```
//!
//! Nothing of it changes flags but the waiting, which keeps them.
//!
//! Invariants:
//! - between the instruction and the end of its append there is no boundary, so a thread that
//!   executed it has its stamp, unless it was killed there;
//! - with turns, nobody executes such an instruction while another thread is between its
//!   turn's begin and its reading of the counter. A thread that a signal or a fault takes away
//!   from the instruction itself gives its turn back.
//!
//! Limits: who has waited [`PATIENCE`] rounds takes the turn of one that was killed or stopped.

use core::mem::offset_of;
use core::sync::atomic::Ordering::Release;

use agent::thread::ThreadContext;
use isa::{Asm, Cc, Insn, Reg};
use sys::signal::UContext;
use wire::PoolHeader;
use wire::stream::{STAMP, STAMP_LEN, TARGETS, order, stamp};

use super::STREAMS;
use crate::engine::Engine;
use crate::pcmap::{Place, Recipe};
use crate::translate::Emit;

const WAITS_IN: i32 = offset_of!(ThreadContext, waits_in) as i32;
const HAS_TURN: i32 = offset_of!(ThreadContext, has_turn) as i32;
const SPILL: i32 = offset_of!(ThreadContext, stamp_spill) as i32;
/// Spill slots of rax, rcx and rdx; flags have one more.
const SAVED: [(Reg, i32); 3] = [
    (Reg::Rax, SPILL),
    (Reg::Rcx, SPILL + 8),
    (Reg::Rdx, SPILL + 16),
];
const FLAGS: i32 = SPILL + 24;
const LANE: i32 = STREAMS + 8 * TARGETS as i32;

/// Rounds of waiting for a turn; some tenths of a second.
const PATIENCE: u64 = 1 << 22;

const RDTSC: [u8; 2] = [0x0F, 0x31];

impl Engine {
    /// Whether executions of `insn` have stamps.
    pub fn stamps(&self, insn: &Insn) -> bool {
        self.settings.order != order::CHUNK && self.streams.is_some() && insn.is_sync()
    }

    /// Whether its code is long as that of a way out is, so a superblock has few of them.
    pub fn is_long(&self, insn: &Insn) -> bool {
        self.streams.is_some() && (self.stamps(insn) || stack_stamp(insn).is_some())
    }

    fn takes_turns(&self) -> bool {
        self.settings.order == order::FINE && self.streams.is_some()
    }

    /// Whose turn it is, as an address of this process.
    fn turn(&self) -> u64 {
        self.process.log.pool.base() + offset_of!(PoolHeader, turn) as u64
    }

    /// An instruction that the next one follows.
    pub fn emit_next(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        if !emit.pending.is_on() {
            return self.emit_plain(emit, insn);
        }
        if self.stamps(insn) {
            self.emit_stamped(emit, insn);
        } else {
            self.emit_plain(emit, insn);
        }
        if let Some(kind) = stack_stamp(insn) {
            append_stack(&mut emit.asm, kind);
            emit.cover(false, Recipe::NONE);
        }
    }

    fn emit_stamped(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        let turn = self.takes_turns().then(|| self.turn());
        if let Some(turn) = turn {
            take_turn(&mut emit.asm, turn);
            emit.cover(true, Recipe::NONE);
        }
        self.emit_plain(emit, insn);
        append(&mut emit.asm, stamp::SYNC, turn);
        emit.cover(false, Recipe::NONE);
    }

    /// Before a system call, at its boundary.
    pub fn emit_enter(&self, emit: &mut Emit<'_>) {
        if self.settings.order != order::CHUNK && emit.pending.is_on() {
            append(&mut emit.asm, stamp::ENTER, None);
            emit.cover(true, Recipe::NONE);
        }
    }

    /// Emits the end of a system call, at the boundary after it: it waits no more.
    pub fn emit_leave(&self, emit: &mut Emit<'_>) {
        emit.asm.mov_gs_imm32(WAITS_IN, 0);
        emit.cover(true, Recipe::NONE);
        if emit.pending.is_on() {
            self.emit_poll(emit);
        }
        if self.settings.order != order::CHUNK && emit.pending.is_on() {
            append(&mut emit.asm, stamp::LEAVE, None);
            emit.cover(false, Recipe::NONE);
        }
    }

    /// The thread's stream gets a stamp of this kind, if it is traced now.
    pub fn stamp(&mut self, context: &mut ThreadContext, kind: u8) {
        let is_off = self.settings.order == order::CHUNK || self.streams.is_none();
        if is_off || context.stream_gap != 0 {
            return;
        }
        let now = match context.tsc_forbidden {
            // SAFETY: rdtsc reads a counter, and the program has not forbidden it.
            0 => unsafe { core::arch::x86_64::_rdtsc() },
            _ => 0,
        };
        let mut bytes = [STAMP; STAMP_LEN];
        bytes[1] = kind;
        bytes[2..].copy_from_slice(&now.to_le_bytes());
        self.append(context, TARGETS, &bytes);
    }

    /// The thread's stream gets its stack pointer, if it is traced now.
    pub fn tell_stack(&mut self, context: &mut ThreadContext, sp: u64) {
        if self.streams.is_none() || context.stream_gap != 0 {
            return;
        }
        let mut bytes = [STAMP; STAMP_LEN];
        bytes[1] = stamp::STACK;
        bytes[2..].copy_from_slice(&sp.to_le_bytes());
        self.append(context, TARGETS, &bytes);
    }

    /// The thread leaves the cache; at the instruction that it took its turn for, perhaps.
    pub(super) fn give_turn_back(&self, context: &mut ThreadContext) {
        if core::mem::take(&mut context.has_turn) != 0 {
            self.process.log.pool.header().turn.0.store(0, Release);
        }
    }
}

/// Returns true if the fault is of a stamp's reading, which a program that forbids itself to read
/// the counter did not make. The counter is 0 then.
pub fn is_forbidden(uc: &mut UContext) -> bool {
    let rip = uc.mcontext.rip;
    if !crate::start::arena_contains(rip) {
        return false;
    }
    let mut bytes = [0; 2];
    let is_reading = agent::memory::read_some(rip, &mut bytes) == 2 && bytes == RDTSC;
    let is_ours = |place: Option<Place>| place.is_some_and(|place| !place.boundary);
    if !is_reading || !is_ours(crate::locate::place_of(rip).flatten()) {
        return false;
    }
    (uc.mcontext.rax, uc.mcontext.rdx) = (0, 0);
    uc.mcontext.rip += RDTSC.len() as u64;
    true
}

/// Waits until nobody else executes what takes turns.
fn take_turn(asm: &mut Asm<'_>, turn: u64) {
    let [(_, rax), (_, rcx), (_, rdx)] = SAVED;
    asm.mov_gs_r(rcx, Reg::Rcx);
    asm.mov_gs_r(rdx, Reg::Rdx);
    asm.mov_r_imm(Reg::Rdx, turn);
    let again = asm.here();
    asm.mov_r_imm(Reg::Rcx, 1);
    asm.xchg_mem_r32(Reg::Rdx, Reg::Rcx);
    let mine = asm.jrcxz();
    asm.mov_gs_r(rax, Reg::Rax);
    asm.bytes(&[0x9F, 0x0F, 0x90, 0xC0]); // lahf; seto al
    asm.mov_gs_r(FLAGS, Reg::Rax);
    asm.mov_r_imm(Reg::Rax, PATIENCE);
    let wait = asm.here();
    asm.bytes(&[0xF3, 0x90]); // pause
    asm.mov_r32_mem(Reg::Rcx, Reg::Rdx);
    let free = asm.jrcxz();
    asm.bytes(&[0xFF, 0xC8]); // dec eax
    asm.jcc(Cc(5), wait); // not zero
    asm.mov_mem_imm32(Reg::Rdx, 0, 0);
    asm.bind(free);
    asm.mov_r_gs(Reg::Rax, FLAGS);
    asm.bytes(&[0x04, 0x7F, 0x9E]); // add al, 0x7f; sahf
    asm.mov_r_gs(Reg::Rax, rax);
    asm.jmp(again);
    asm.bind(mine);
    asm.mov_gs_imm32(HAS_TURN, 1);
    asm.mov_r_gs(Reg::Rcx, rcx);
    asm.mov_r_gs(Reg::Rdx, rdx);
}

/// Reads the counter when everything before was executed, gives the turn back, and appends.
fn append(asm: &mut Asm<'_>, kind: u8, turn: Option<u64>) {
    for (register, at) in SAVED {
        asm.mov_gs_r(at, register);
    }
    asm.lfence();
    asm.rdtsc();
    asm.mov_r32_r32(Reg::Rcx, Reg::Rdx);
    if let Some(turn) = turn {
        asm.mov_gs_imm32(HAS_TURN, 0);
        asm.mov_r_imm(Reg::Rdx, turn);
        asm.mov_mem_imm32(Reg::Rdx, 0, 0);
    }
    asm.mov_r_gs(Reg::Rdx, LANE);
    asm.mov_mem_imm16(Reg::Rdx, 0, u16::from_le_bytes([STAMP, kind]));
    asm.mov_mem_r32(Reg::Rdx, 2, Reg::Rax);
    asm.mov_mem_r32(Reg::Rdx, 6, Reg::Rcx);
    asm.lea(Reg::Rdx, Reg::Rdx, STAMP_LEN as i32);
    asm.mov_gs_r(LANE, Reg::Rdx);
    for (register, at) in SAVED {
        asm.mov_r_gs(register, at);
    }
}

/// The kind of stamp that has the stack pointer behind `insn`, where its code does not say
/// what that is.
fn stack_stamp(insn: &Insn) -> Option<u8> {
    match (insn.tells_stack(), insn.tells_frame()) {
        (true, _) => Some(stamp::STACK),
        (_, true) => Some(stamp::FRAME),
        _ => None,
    }
}

/// Appends the stack pointer.
fn append_stack(asm: &mut Asm<'_>, kind: u8) {
    let [.., (spilled, at)] = SAVED;
    asm.mov_gs_r(at, spilled);
    asm.mov_r_gs(Reg::Rdx, LANE);
    asm.mov_mem_imm16(Reg::Rdx, 0, u16::from_le_bytes([STAMP, kind]));
    asm.mov_mem_r(Reg::Rdx, 2, Reg::Rsp);
    asm.lea(Reg::Rdx, Reg::Rdx, STAMP_LEN as i32);
    asm.mov_gs_r(LANE, Reg::Rdx);
    asm.mov_r_gs(spilled, at);
}
