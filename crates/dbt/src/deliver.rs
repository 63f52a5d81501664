//! Delivery of a signal to the program: its handler's frame, or the default action.
//!
//! The thread is at an exact boundary and `uc` holds the program's registers there. The steps and
//! their order are the kernel's (`kernel/signal.c:get_signal`, `arch/x86/kernel/signal.c:handle_signal`).
//! A frame that cannot be written forces SIGSEGV, whose frame is tried next; the signal whose frame
//! failed is lost, and blocks nothing. If SIGSEGV is blocked or ignored, or its own frame fails, the
//! process ends by it.
//!
//! Invariant: called where the engine's lock is not held by the thread.

use agent::signals::{StackUnwritable, push_frame, requeue};
use agent::thread::{Pending, Thread, ThreadContext};
use agent::tracers::is_question;
use sys::signal::*;
use wire::stat;

use crate::block::Arrival;
use crate::detach;
use crate::engine;
use crate::entry;
use crate::pcmap;

/// Information of a signal that the engine raises itself.
pub fn information(signal: u32, code: i32) -> SigInfo {
    SigInfo {
        signo: signal as i32,
        errno: 0,
        code,
        pad: 0,
        fields: [0; 14],
    }
}

/// The thread leaves the cache at `place`, with the stack pointer `sp`. Puts right what only the cache knows of:
/// instructions that were counted and did not retire, or the reverse; blocks that
/// were entered; and the program's fs.
pub fn uncount(context: &mut ThreadContext, place: &pcmap::Place, sp: u64) {
    if place.recipe == pcmap::Recipe::FS {
        agent::thread::set_fs(context.app_fs);
    }
    if place.path != 0 {
        crate::contexts::record_path(context, place.path);
    }
    if place.fragment != 0 {
        return engine::with(|engine| engine.cut(context, place));
    }
    if engine::with(|engine| engine.leave_at(context, place, sp)) {
        return;
    }
    // Only the sum of words that are used in turn matters.
    let [branches, loads, stores] = place.classes_ahead;
    let ahead = [place.counted_ahead, branches, loads, stores];
    for (word, ahead) in context.insns[place.word..].iter_mut().zip(ahead) {
        *word = word.wrapping_sub(ahead.cast_unsigned());
    }
}

/// Delivers the pending signal to the program at `place`.
pub fn deliver(
    context: &mut ThreadContext,
    thread: &mut Thread,
    uc: &mut UContext,
    place: pcmap::Place,
) {
    let Some(held) = thread.pending.take() else {
        return;
    };
    context.pending = 0;
    thread.stepping = false;
    uncount(context, &place, uc.mcontext.rsp);
    uc.mcontext.rip = place.app_pc;
    if is_question(held.signal, &held.info) {
        detach::answer(context, thread, uc, &held);
        return go_on(context, uc, &place);
    }
    if let Some((err, trapno, cr2)) = held.fault {
        (uc.mcontext.err, uc.mcontext.trapno, uc.mcontext.cr2) = (err, trapno, cr2);
    }
    if act(context, thread, uc, &held, &place).is_ok() {
        return;
    }
    // As `force_sigsegv`.
    let forced = Pending {
        signal: SIGSEGV,
        info: information(SIGSEGV, code::SI_KERNEL),
        action: thread.action_at_arrival(SIGSEGV),
        fault: None,
        ..held
    };
    let failed = held.signal == SIGSEGV || act(context, thread, uc, &forced, &place).is_err();
    if failed {
        default_action(thread, uc, forced, &place);
    }
}

/// Does with one signal what the program wants. Nothing has changed if its frame cannot be
/// written, but a disposition that is used once.
fn act(
    context: &mut ThreadContext,
    thread: &mut Thread,
    uc: &mut UContext,
    held: &Pending,
    place: &pcmap::Place,
) -> Result<(), StackUnwritable> {
    let action = held.action;
    use_up(thread, held);
    let mask = held.mask.with(thread.blocked);
    let synchronous =
        held.fault.is_some() || held.info.code > 0 && SigSet::SYNCHRONOUS.has(held.signal);
    let in_force = held.temporary.unwrap_or(mask);
    let refused = synchronous && in_force.has(held.signal);
    match action.handler {
        SIG_DFL => default_action(thread, uc, *held, place),
        SIG_IGN if synchronous => default_action(thread, uc, *held, place),
        SIG_IGN => resume(context, uc, held.mask, place),
        _ if refused => default_action(thread, uc, *held, place),
        _ => return call_handler(context, thread, uc, (held, &action, mask), place),
    }
    Ok(())
}

/// A handler that is for one signal is gone now.
fn use_up(thread: &Thread, held: &Pending) {
    engine::with(|engine| {
        engine.count(stat::SIGNALS);
        // SAFETY: the table lives as long as any thread using it; the lock orders writers.
        unsafe { (*thread.signals).use_up(held.signal, &held.action) };
    });
}

/// Builds the program's frame and sends the thread to its handler. `mask` is the one that the
/// handler's return restores.
fn call_handler(
    context: &mut ThreadContext,
    thread: &mut Thread,
    uc: &mut UContext,
    (held, action, mask): (&Pending, &SigAction, SigSet),
    place: &pcmap::Place,
) -> Result<(), StackUnwritable> {
    let signal = held.signal;
    let frame = push_frame(thread, action, (signal, &held.info), uc, mask);
    let frame = frame.or_else(|failed| {
        // It may be on a page that the engine guards.
        engine::with(|engine| engine.open_range(failed.at, failed.len));
        push_frame(thread, action, (signal, &held.info), uc, mask)
    })?;
    let mut blocked = held.temporary.unwrap_or(mask).with(action.mask);
    if action.flags & SA_NODEFER == 0 {
        blocked = blocked.with(SigSet::only(signal));
    }
    thread.blocked = SigSet(blocked.0 & SigSet::SYNCHRONOUS.0);
    crate::contexts::on_handler(context, signal, frame, action.restorer, place);
    engine::with(|engine| {
        engine.heed_signal(signal);
        engine.goes_to(context, signal as u8, action.handler, frame);
    });
    context.resume_app = action.handler;
    context.exit = 2; // a handler is called
    uc.mcontext.rip = entry::resume_address();
    uc.sigmask = blocked.without(SigSet::SYNCHRONOUS);
    Ok(())
}

/// Goes on with the program's state in `uc` at `place`.
fn resume(context: &mut ThreadContext, uc: &mut UContext, mask: SigSet, place: &pcmap::Place) {
    go_on(context, uc, place);
    uc.sigmask = mask.without(SigSet::SYNCHRONOUS);
}

/// In the cache again, at `place`.
pub fn go_on(context: &mut ThreadContext, uc: &mut UContext, place: &pcmap::Place) {
    let arrival = match place.middle {
        true => Arrival::Middle,
        false => Arrival::Inside,
    };
    context.resume_app = place.app_pc;
    context.exit = arrival as u32;
    uc.mcontext.rip = entry::resume_address();
}

/// The signal's default action, by the kernel: the same signal again with the
/// default disposition, so that wait status and core dump are as natively.
fn default_action(thread: &mut Thread, uc: &mut UContext, held: Pending, place: &pcmap::Place) {
    // SAFETY: the default disposition.
    let _ = unsafe { sys::sigaction(held.signal, Some(&SigAction::default()), None) };
    requeue(held.signal, &held.info);
    // It kills (or stops) when the handler returns and the mask is restored.
    uc.sigmask = held
        .mask
        .without(SigSet::only(held.signal))
        .without(SigSet::SYNCHRONOUS);
    // If it does not (a stop signal, continued), go on where the program was.
    let context = thread.context;
    // SAFETY: the thread's own block.
    go_on(unsafe { &mut *context }, uc, place);
}
