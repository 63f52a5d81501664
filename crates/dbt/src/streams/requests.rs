//! Tracing that begins and ends while the program runs: by request, or by a signal.
//!
//! Approach: a word of the pool says what is wanted. The engine compares it with what it
//! knows whenever a thread comes to it, and severs all blocks where it is another
//! ([`super::controls`]). For threads that do not come, emitted code polls
//! ([`agent::polls`]): where it is not traced, as a superblock begins that does not only go
//! forward, and else behind system calls; a traced thread comes when a chunk is full, besides.
//!
//! A signal begins or ends it where its handler is called, exactly.
//!
//! Invariants:
//! - what the engine knows changes only when all blocks are severed;
//! - a poll is at a boundary and changes nothing; one that faults is left out.
//!
//! Limits: a traced thread that makes no system calls goes on for up to a chunk of a lane
//! after tracing has ended, unless another thread of its process comes to the engine.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use agent::polls;
use agent::thread::ThreadContext;
use isa::Flow;
use sys::signal::{UContext, pf, trap};
use wire::poll;
use wire::view::Pool;

use crate::engine::{self, Engine};
use crate::pcmap::Recipe;
use crate::superblock::Superblock;
use crate::translate::Emit;

/// Length of `mov dword gs:[disp], imm`.
const POLL_BYTES: u64 = 12;

/// Requests that the engine has heard of.
#[derive(Debug)]
pub struct Requests {
    paused: bool,
    /// 0: none.
    start_signal: u32,
    stop_signal: u32,
}

impl Requests {
    pub fn new(pool: &Pool) -> Requests {
        let config = &pool.header().config;
        Requests {
            paused: pool.header().paused.load(Acquire) != 0,
            start_signal: config.start_signal.load(Relaxed),
            stop_signal: config.stop_signal.load(Relaxed),
        }
    }

    pub fn is_on(&self) -> bool {
        !self.paused
    }

    /// Whether nothing is to be traced once a handler of that signal is called.
    fn after(&self, signal: u32) -> bool {
        match (signal == self.start_signal, signal == self.stop_signal) {
            (true, true) => !self.paused,
            (true, false) => false,
            (false, true) => true,
            (false, false) => self.paused,
        }
    }
}

impl Engine {
    fn requests(&self) -> Option<&Requests> {
        self.controls()?.requests.as_ref()
    }

    /// Whether tracing may begin and end by request.
    pub fn is_by_request(&self) -> bool {
        self.requests().is_some()
    }

    /// Looks at what is wanted now; in chaos of this kind, at what chance wants.
    pub fn heed(&mut self) {
        if self.settings.chaos & 8 != 0 && self.is_by_request() {
            // Seldom enough for blocks to be used between two times.
            let blocks = &self.process.log.process().stats[wire::stat::BLOCKS];
            let rarely = blocks.load(Relaxed).max(64);
            let toggles = u32::from(self.roll().is_multiple_of(rarely));
            let header = self.process.log.pool.header();
            header.paused.fetch_xor(toggles, Release);
        }
        let wanted = self.process.log.pool.header().paused.load(Acquire) != 0;
        let streams = self.streams.as_mut();
        let controls = streams.and_then(|streams| streams.controls.as_mut());
        let Some(requests) = controls.and_then(|controls| controls.requests.as_mut()) else {
            return;
        };
        if core::mem::replace(&mut requests.paused, wanted) != wanted {
            self.sever_all();
        }
    }

    /// A handler of the program is called for that signal.
    pub fn heed_signal(&mut self, signal: u32) {
        self.heed();
        let Some(requests) = self.requests() else {
            return;
        };
        let wanted = requests.after(signal);
        if wanted == requests.paused {
            return;
        }
        let header = self.process.log.pool.header();
        header.paused.store(wanted.into(), Release);
        // The CLI sees to it that other processes hear of it.
        header.chunks.closed.fetch_add(1, Release);
        sys::futex_wake(&header.chunks.closed, 1);
        self.heed();
    }

    /// Lets who executes it hear of requests.
    pub fn emit_poll(&self, emit: &mut Emit<'_>) {
        let Some(requests) = self.requests() else {
            return;
        };
        let side = match requests.is_on() {
            true => poll::ON,
            false => poll::OFF,
        };
        let from = emit.asm.here();
        emit.asm.mov_gs_imm32(polls::AT[side], 0);
        debug_assert_eq!(emit.asm.here() - from, POLL_BYTES);
        emit.cover(true, Recipe::NONE);
    }
}

/// Whether control may get to where it has been. Each cycle has such a superblock, so it is
/// enough that those poll.
pub fn may_come_back(source: &Superblock) -> bool {
    source.insns.iter().any(|insn| match insn.flow() {
        Flow::Next => false,
        Flow::Cond(_, target)
        | Flow::CountJump(target)
        | Flow::Jump(target)
        | Flow::Call(target)
        | Flow::TransactionBegin(target) => target <= insn.pc(),
        _ => true,
    })
}

/// If emitted code of the calling thread polled and there is something to hear, it has.
pub fn polled(context: &ThreadContext, uc: &mut UContext) -> bool {
    let registers = &mut uc.mcontext;
    let is_store = registers.trapno == trap::PAGE_FAULT && registers.err & pf::WRITE != 0;
    let is_poll = is_store && polls::contains(context.this, registers.cr2);
    if !is_poll || !crate::start::arena_contains(registers.rip) {
        return false;
    }
    engine::with(Engine::heed);
    registers.rip += POLL_BYTES;
    true
}
