//! Tracers in the run (ptrace): which calls attach, and the question that the tracer's engine asks
//! the engine of the one that it attaches to (`dbt::detach`).
//!
//! The question is a SIGFPE with a code of our own: the engine blocks it for moments only, and seldom is
//! another one pending, with which the kernel would merge it. The thread that gets it leaves translation at
//! the next boundary. A call in which it waits is interrupted by that, and natively would not be:
//! so the question carries its number, and the call is made again.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use sys::signal::{SIGFPE, SigContext, SigInfo, SigSet};
use sys::{Errno, Timespec, nr};
use wire::view::Pool;
use wire::{ProcessRecord, ThreadRecord};

use crate::procfs;

const ATTACH: u64 = 16;
const SEIZE: u64 = 0x4206;

/// Code of the question.
const ASKS: i32 = -0x4550;

/// Whether a signal is the question.
pub fn is_question(signal: u32, info: &SigInfo) -> bool {
    signal == SIGFPE && info.code == ASKS
}

/// It waits in no call.
const NONE: u32 = u32::MAX;

/// An answer is waited for in so many steps of [`STEP_NS`].
const STEPS: u32 = 200_000;
const STEP_NS: i64 = 100_000;

/// Most records that are looked at.
const MOST: u32 = 1_000_000;

pub fn attaches(request: u64) -> bool {
    matches!(request, ATTACH | SEIZE)
}

/// The record of the thread `tid`, if it runs under the engine.
pub fn record_of(pool: &Pool, tid: u32) -> Option<u64> {
    let mut left = MOST;
    let mut at = pool.header().processes.load(Acquire);
    while let Some(process) = pool.at::<ProcessRecord>(at).filter(|_| at != 0 && left > 0) {
        let mut thread_at = process.threads.load(Acquire);
        while let Some(thread) = pool.at::<ThreadRecord>(thread_at)
            && thread_at != 0
            && left > 0
        {
            let lives = thread.ended.load(Acquire) == 0;
            if lives && thread.tid.load(Relaxed) == tid {
                return Some(thread_at);
            }
            left -= 1;
            thread_at = thread.next.load(Relaxed);
        }
        left = left.saturating_sub(1);
        at = process.next.load(Relaxed);
    }
    None
}

/// A question to a thread that can answer it.
#[derive(Debug)]
pub struct Question<'a> {
    record: &'a ThreadRecord,
    pid: u32,
    /// The call that it waits in.
    call: u32,
    /// Looks at its call that are left.
    patience: u32,
}

impl Question<'_> {
    /// `None`: it is not to be asked, because it is stopped, ended, traced already, or one thread
    /// of several. `shares`: its memory is the caller's.
    pub fn of(pool: &Pool, record: u64, pid: u32, shares: bool) -> Option<Question<'_>> {
        let state = procfs::standing(pid)?;
        let is_process = state.pid == pid && (shares || state.threads == 1);
        let can_answer = is_process && state.tracer == 0 && !state.is_stopped;
        can_answer.then_some(())?;
        let record = pool.at::<ThreadRecord>(record)?;
        let call = procfs::waits_in(pid).unwrap_or(NONE);
        Some(Question {
            record,
            pid,
            call,
            patience: 100,
        })
    }

    /// Asks, and waits until it has left; not for ever.
    pub fn ask(mut self) {
        let mut info = SigInfo::NONE;
        info.signo = SIGFPE as i32;
        info.code = ASKS;
        info.fields[2] = self.call.into();
        let info = &raw const info as usize;
        let stayed = self.record.stayed.load(Acquire);
        let target = [
            self.pid as usize,
            self.pid as usize,
            SIGFPE as usize,
            info,
            0,
            0,
        ];
        // SAFETY: queues a signal; the kernel copies the information.
        let asked = unsafe { sys::raw::syscall(nr::RT_TGSIGQUEUEINFO, target) };
        // It blocks all signals while it leaves; its record has ended by then.
        let everything = SigSet::ALL.without(SigSet::UNBLOCKABLE);
        for _ in 0..if asked == 0 { STEPS } else { 0 } {
            // In this order: it blocks them before its record ends.
            let has_left = self.record.ended.load(Acquire) != 0;
            let state = procfs::standing(self.pid).filter(|state| !state.is_stopped);
            let is_over = state.is_none_or(|state| has_left && state.blocked != everything);
            let stays = self.record.stayed.load(Acquire) != stayed;
            if stays || is_over && self.waits_again() {
                return;
            }
            let step = Timespec {
                sec: 0,
                nsec: STEP_NS,
            };
            // Nobody wakes it.
            let _ = sys::futex_wait(&self.record.ended, u32::from(has_left), Some(step));
        }
    }

    /// Whether it is back in its call; it may be past that.
    fn waits_again(&mut self) -> bool {
        self.patience = self.patience.saturating_sub(1);
        self.call == NONE || self.patience == 0 || procfs::waits_in(self.pid) == Some(self.call)
    }
}

/// The thread was interrupted by the question in the call that it says: makes it again.
pub fn restart(registers: &mut SigContext, info: &SigInfo) {
    const EINTR: Errno = Errno(4);
    let call = info.fields[2];
    if call != u64::from(NONE) && registers.rax as isize == EINTR.as_result() {
        let before = registers.rip.wrapping_sub(2);
        if crate::memory::read::<[u8; 2]>(before) == Some([0x0f, 0x05]) {
            registers.rip = before;
            registers.rax = call;
        }
    }
}
