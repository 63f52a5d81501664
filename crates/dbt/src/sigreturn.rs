//! The program's system calls about signals that need the thread's state: waiting
//! under another mask, and the return from a handler.

use agent::memory;
use agent::signals::{HOLD, change_altstack, held, quiesce, requeue_held};
use agent::thread::{Pending, Thread, ThreadContext, reg};
use sys::signal::*;

use wire::stream::why;

use crate::deliver::{deliver, information};
use crate::dispatch::Call;
use crate::engine;
use crate::entry;
use crate::pcmap::Place;
use crate::signals::{TRAP_FLAG, before_held};
use crate::synthetic_faults::raise_under;

/// A call that waits under a mask of its own (sigsuspend, ppoll...). It is made here, where all
/// signals are blocked before and behind it, so that a signal which comes in it is known to have
/// come under that mask: the handler runs with it, and returns to the program's.
///
/// The mask may open synchronous signals that the program blocks. The kernel does not block them,
/// so one that came before is held here: it is queued again before the call, as natively.
///
/// `None`: a signal comes first.
pub fn waiting_call(thread: &mut Thread, call: &Call, mask: SigSet) -> Option<isize> {
    let opened = thread.blocked.without(mask);
    // The handler changes the thread while the call below waits.
    let thread = core::hint::black_box(thread);
    let before = quiesce(thread)?;
    // A filter's SIGSYS for the call itself must arrive.
    let trapped = SigSet::only(SIGSYS).without(opened);
    sys::sigprocmask(SIG_SETMASK, SigSet::ALL.without(trapped));
    // A descriptor that is waited for may show those that stay blocked.
    let shown = agent::sigcalls::sees_blocked(call.number, call.args);
    let seen = if shown { thread.blocked } else { opened };
    let waits = agent::held_signals::wait_for(seen);
    requeue_held(thread, seen);
    thread.opened = opened;
    thread.waits_under = Some(mask.without(SigSet::UNBLOCKABLE));
    // SAFETY: the program's own call. Signals that interrupt it become pending
    // and are delivered on the way back, behind the call.
    let result =
        unsafe { sys::raw::syscall(call.number as usize, call.args.map(|arg| arg as usize)) };
    drop(waits);
    let thread = core::hint::black_box(thread);
    thread.opened = SigSet::EMPTY;
    thread.waits_under = None;
    if let Some(pending) = &mut thread.pending {
        // A signal came in the call.
        pending.mask = before;
        sys::sigprocmask(SIG_SETMASK, HOLD);
    } else {
        sys::sigprocmask(SIG_SETMASK, before);
    }
    Some(result)
}

/// The program's rt_sigreturn: its frame, with the engine's address for rip, through the kernel,
/// which restores all state at once. The kernel also judges it: see [`rejected`].
///
/// The order is that of kernels from 6.12 on: the mask, the alternate stack by the stack pointer
/// of the call, then the registers. The return address and the information that came with the
/// signal are not looked at.
///
/// `None`: a signal comes first.
pub fn sigreturn(context: &mut ThreadContext, thread: &mut Thread, call: &Call) -> Option<isize> {
    let sp = context.regs[reg::RSP];
    // From here to the kernel's restore nothing may come in that would find
    // the state half changed.
    let before = quiesce(thread)?;
    engine::with(|engine| engine.is_at(context, call.next, sp));
    let Some(mut uc) = memory::read::<UContext>(sp) else {
        // SIGSEGV behind the call.
        let details = (0, trap::GENERAL_PROTECTION, 0);
        let raised = (information(SIGSEGV, code::SI_KERNEL), details);
        raise_under(context, thread, call.next, before, raised);
        return Some(0);
    };
    let mask = uc.sigmask.without(SigSet::UNBLOCKABLE);
    thread.blocked = SigSet(mask.0 & SigSet::SYNCHRONOUS.0);
    let minimum = engine::with(|engine| engine.process.minimum_altstack);
    // The kernel ignores these errors, too.
    let _ = change_altstack(thread, &uc.stack, sp, minimum);
    let (pc, sp) = (uc.mcontext.rip, uc.mcontext.rsp);
    let arrival = crate::contexts::on_sigreturn(context, pc);
    context.resume_app = pc;
    engine::with(|engine| engine.goes_to(context, why::SIGRETURN, pc, sp));
    if uc.mcontext.eflags & TRAP_FLAG != 0 {
        thread.step_from = pc;
    } else {
        thread.stepped_to = (0, 0);
    }
    context.exit = arrival as u32;
    uc.mcontext.rip = entry::resume_address();
    uc.sigmask = mask.without(SigSet::SYNCHRONOUS);
    uc.stack = thread.signal_stack;
    thread.foreign_cs = replace_foreign_cs(&mut uc.mcontext);
    let ready = held(thread).without(thread.blocked);
    if ready != SigSet::EMPTY {
        // The frame's mask opens them again, in the kernel's restore.
        sys::sigprocmask(SIG_BLOCK, ready);
        requeue_held(thread, ready);
    }
    let frame = SigFrame {
        pretcode: 0,
        uc,
        info: SigInfo::NONE,
    };
    // SAFETY: a complete frame of the kernel's own layout; does not return.
    unsafe { entry::everypath_sigreturn(&frame, context.rflags) }
}

/// A selector that is, or may be, of 32-bit code would be taken, with the engine's address. The
/// kernel is given one of data instead, which is refused; the program sees its own refused.
fn replace_foreign_cs(registers: &mut SigContext) -> Option<u16> {
    const USER: u16 = 3;
    const LOCAL: u16 = 4;
    let cs = registers.cs() | USER;
    let foreign = cs == USER32_CS || cs & LOCAL != 0;
    if foreign && crate::far::is_foreign(cs) {
        crate::far::tell_foreign(cs);
    }
    foreign.then(|| {
        registers.set_cs(USER_DS);
        cs
    })
}

/// Whether a fault at `rip` is the kernel's, or the processor's, refusal of a frame.
pub fn is_rejected(signal: u32, rip: u64) -> bool {
    matches!(signal, SIGSEGV | SIGBUS) && rip == entry::resume_address()
}

/// The kernel did not take the program's frame (its extended state), or the processor its
/// segments: the signal is the program's, with the registers as they came from the frame, at the
/// address where it was to go on. Nothing but a return from a signal can fault there.
pub fn rejected(
    context: &mut ThreadContext,
    thread: &mut Thread,
    (signal, info): (u32, &SigInfo),
    uc: &mut UContext,
) {
    if let Some(cs) = thread.foreign_cs.take() {
        if uc.mcontext.cs() == USER_DS | 3 {
            uc.mcontext.err = u64::from(cs & !3);
        }
        uc.mcontext.set_cs(cs);
    }
    let details = (uc.mcontext.err, uc.mcontext.trapno, uc.mcontext.cr2);
    let mask = before_held(context, thread, uc);
    thread.pending = Some(Pending {
        signal,
        info: *info,
        action: thread.action_at_arrival(signal),
        mask,
        fault: Some(details),
        temporary: None,
    });
    let place = Place::boundary(context.resume_app);
    deliver(context, thread, uc, place);
}
