//! Calls that see synchronous signals which the program blocks: sigtimedwait, and what reads or
//! waits for a signalfd.
//!
//! Problem: the kernel never blocks these signals for the program, so they are never pending.
//!
//! Approach: such a call is made here, and not in the cache. The kernel blocks in it what the
//! program blocks, and gets those that are held before. No fault is possible meanwhile. A signal
//! that comes before the call, or has it restarted, finds the thread at an address of
//! `everypath_await`: it sends it out of there, and the program's call is executed again behind
//! the handler. What is pending still comes here when the mask is lifted, and is held again.

use core::arch::global_asm;
use core::mem::offset_of;

use agent::held_signals;
use agent::sigcalls;
use agent::signals::{HOLD, quiesce, requeue_held};
use agent::thread::{Thread, ThreadContext};
use sys::signal::*;

use crate::dispatch::{After, Call};

global_asm!(
    // rdi: [nr, six arguments]. Makes the call unless a signal is there.
    ".global everypath_await",
    "everypath_await:",
    "push r15",
    "mov rax, [rdi]",
    "mov rsi, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov r10, [rdi + 32]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov rdi, [rdi + 8]",
    "lea r15, [rip + everypath_await_end]",
    ".global everypath_await_check",
    "everypath_await_check:",
    "cmp qword ptr gs:[{pending}], 0",
    "jne everypath_await_abandoned",
    "jmp qword ptr [rip + {gate}]",
    ".global everypath_await_abandoned",
    "everypath_await_abandoned:",
    "mov rax, {not_made}",
    ".global everypath_await_end",
    "everypath_await_end:",
    "pop r15",
    "ret",
    gate = sym sys::gate::JUMP,
    pending = const offset_of!(ThreadContext, pending),
    not_made = const NOT_MADE,
);

// SAFETY: defined above; the statics are labels, only their addresses are taken.
unsafe extern "C" {
    static everypath_await_check: u8;
    static everypath_await_abandoned: u8;
    static everypath_await_end: u8;
    fn everypath_await(call: *const [u64; 7]) -> isize;
}

/// Result of `everypath_await` if a signal came before the call: no error of the kernel.
const NOT_MADE: isize = -4096;

/// Sends a thread in `everypath_await` out of it, if the call has not been made, or would be
/// restarted: the kernel has it at the instruction then.
pub fn abandon(uc: &mut UContext) {
    let registers = &mut uc.mcontext;
    let abandoned = &raw const everypath_await_abandoned as u64;
    let before = &raw const everypath_await_check as u64..abandoned;
    let at_gate = registers.rip == sys::gate::jump(false)
        && registers.r15 == &raw const everypath_await_end as u64;
    if before.contains(&registers.rip) || at_gate {
        registers.rip = abandoned;
    }
}

/// Whether `call`, which would be made in the cache, is to be made here.
pub fn is_due(thread: &Thread, call: &Call) -> bool {
    thread.blocked != SigSet::EMPTY
        && !call.outside
        && sigcalls::sees_blocked(call.number, call.args)
}

/// Makes it.
pub fn make(thread: &mut Thread, call: &Call) -> After {
    // The handler changes the thread until the end.
    let thread = core::hint::black_box(thread);
    let Some(before) = quiesce(thread) else {
        return After::Again;
    };
    let blocked = thread.blocked;
    let mut words = [call.number; 7];
    words[1..].copy_from_slice(&call.args);
    sys::sigprocmask(SIG_BLOCK, blocked);
    let waits = held_signals::wait_for(blocked);
    requeue_held(thread, blocked);
    thread.awaits = true;
    sys::sigprocmask(SIG_SETMASK, before.with(blocked));
    // SAFETY: the program's own call. Signals that come in it become pending and are delivered
    // on the way back.
    let result = unsafe { everypath_await(&words) };
    // One that the program does not block may come once more, in front of this.
    sys::sigprocmask(SIG_SETMASK, HOLD.with(blocked));
    let thread = core::hint::black_box(thread);
    thread.awaits = false;
    drop(waits);
    let mask = match thread.pending.is_some() {
        true => HOLD,
        false => before,
    };
    sys::sigprocmask(SIG_SETMASK, mask);
    match result {
        NOT_MADE => After::Again,
        result => After::Result(result),
    }
}
