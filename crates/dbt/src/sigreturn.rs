//! The program's system calls about signals that need the thread's state: waiting
//! under another mask, and the return from a handler.

use agent::memory;
use agent::signals::{HOLD, quiesce, requeue_held};
use agent::thread::{Thread, ThreadContext, reg};
use sys::signal::*;

use wire::stream::why;

use crate::dispatch::Call;
use crate::engine;
use crate::entry;
use crate::signals::{TRAP_FLAG, Unfetchable, raise_fetch_fault};

/// A call that waits under a mask of its own (sigsuspend, ppoll...) which opens
/// synchronous signals that the program blocks. The kernel does not block them,
/// so a signal that came before would be held here while the call sleeps:
/// around this call they are blocked and queued as natively. `None`: the call
/// opens nothing and can be made in the cache.
pub fn waiting_call(thread: &mut Thread, call: &Call, mask: SigSet) -> Option<isize> {
    let opened = thread.blocked.without(mask);
    if opened == SigSet::EMPTY {
        return None;
    }
    // The handler changes the thread while the call below waits.
    let thread = core::hint::black_box(thread);
    let before = quiesce(thread);
    sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    requeue_held(thread, opened);
    thread.opened = opened;
    // SAFETY: the program's own call. Signals that interrupt it become pending
    // and are delivered on the way back, behind the call.
    let result =
        unsafe { sys::raw::syscall(call.number as usize, call.args.map(|arg| arg as usize)) };
    thread.opened = SigSet::EMPTY;
    if let Some(pending) = &mut thread.pending {
        // A signal came in the call.
        pending.mask = before;
        sys::sigprocmask(SIG_SETMASK, HOLD);
    } else {
        sys::sigprocmask(SIG_SETMASK, before);
    }
    Some(result)
}

/// The program's rt_sigreturn: its frame, with the engine's address for rip,
/// through the kernel, which restores all state at once.
pub fn sigreturn(context: &mut ThreadContext, thread: &mut Thread) -> isize {
    let at = context.regs[reg::RSP].wrapping_sub(8);
    let Some(mut frame) = memory::read::<SigFrame>(at) else {
        return bad_frame(context, thread);
    };
    // From here to the kernel's restore nothing may come in that would find
    // the state half changed.
    quiesce(thread);
    let mask = frame.uc.sigmask.without(SigSet::UNBLOCKABLE);
    thread.blocked = SigSet(mask.0 & SigSet::SYNCHRONOUS.0);
    let stack = frame.uc.stack;
    if stack.flags & SS_ONSTACK == 0 || stack.flags & SS_DISABLE != 0 {
        thread.altstack = SigStack {
            flags: stack.flags & (SS_DISABLE | SS_AUTODISARM),
            ..stack
        };
    } else {
        thread.altstack = SigStack {
            flags: stack.flags & SS_AUTODISARM,
            ..stack
        };
    }
    let arrival = crate::contexts::on_sigreturn(context, frame.uc.mcontext.rip);
    context.resume_app = frame.uc.mcontext.rip;
    let (pc, sp) = (frame.uc.mcontext.rip, frame.uc.mcontext.rsp);
    engine::with(|engine| engine.goes_to(context, why::SIGRETURN, pc, sp));
    if frame.uc.mcontext.eflags & TRAP_FLAG != 0 {
        thread.step_from = context.resume_app;
    }
    context.exit = arrival as u32;
    frame.uc.mcontext.rip = entry::resume_address();
    frame.uc.sigmask = mask.without(SigSet::SYNCHRONOUS);
    frame.uc.stack = thread.signal_stack;
    let ready = thread.held.without(thread.blocked);
    if ready != SigSet::EMPTY {
        // The frame's mask opens them again, in the kernel's restore.
        sys::sigprocmask(SIG_BLOCK, ready);
        requeue_held(thread, ready);
    }
    // SAFETY: a complete frame of the kernel's own layout; does not return.
    unsafe { entry::everypath_sigreturn(&frame) }
}

fn bad_frame(context: &mut ThreadContext, thread: &mut Thread) -> isize {
    let pc = context.regs[reg::RCX];
    raise_fetch_fault(context, thread, pc, 0, Unfetchable::NonCanonical);
    0
}
