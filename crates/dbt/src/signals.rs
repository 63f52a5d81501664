//! Signals: from the kernel's frame to the program's, at exact boundaries.
//!
//! Delivery depends on where the engine's handler interrupts the thread:
//!
//! | interrupted at | asynchronous signal | fault |
//! |---|---|---|
//! | a boundary in the cache | deliver now | program state is at hand |
//! | elsewhere in a block | step (trap flag) to a boundary, then deliver | undo by recipe, deliver |
//! | the way into the cache | step, as above | engine bug |
//! | the engine | `pending`; trap at the way out, deliver there | recovery label, or engine bug |
//! | a program address | - | control escaped the cache: go on in the engine |
//!
//! While a signal is held all others are blocked by the mask in the frame that
//! the kernel restores, so there is never more than one; the true mask is kept
//! with it and becomes the one the program sees.

use crate::deliver::{deliver, go_on, information, uncount};
use crate::engine;
use crate::entry;
use crate::locate::{Where, locate, place_of};
use crate::lockstep;
use crate::pcmap;
use crate::sigreturn;
use crate::single_step;
use crate::unaligned;
use agent::memory;
use agent::signals::{self as table, HOLD, requeue, requeue_held};
use agent::thread::{Pending, Thread, ThreadContext, reg};
use agent::tracers::is_question;
use sys::signal::*;

pub const TRAP_FLAG: u64 = 1 << 8;
const RESUME_FLAG: u64 = 1 << 16;

/// The engine's handler for every signal it installs one for.
///
/// # Safety
/// Called by the kernel on the thread's signal stack with its frame.
pub unsafe extern "C" fn on_signal(signal: i32, info: *mut SigInfo, uc: *mut UContext) {
    // SAFETY: the kernel's frame on our signal stack, and the thread's own
    // block: gs is ours whenever signals can arrive.
    let (info, uc, context) = unsafe { (&*info, &mut *uc, &mut *agent::thread::current()) };
    // SAFETY: boxed for the life of the block; the interrupted engine code
    // does not hold references across points where it can be interrupted that
    // this handler changes, except `pending`, which it re-reads.
    let thread = unsafe { &mut *(context.thread as *mut Thread) };
    let signal = signal as u32;
    let rip = uc.mcontext.rip;
    let kernel_sent = info.code > 0;
    let nested = in_handler(thread, uc);
    match signal {
        SIGTRAP if entry::at_delivery(rip) => deliver_pending(context, thread, uc),
        SIGTRAP if kernel_sent && unaligned::has_gone_on(thread, uc) => {}
        SIGTRAP if lockstep::steps() && kernel_sent && uc.mcontext.trapno == trap::DEBUG => {
            lockstep::stepped(context, uc)
        }
        SIGTRAP if thread.stepping && kernel_sent && uc.mcontext.trapno == trap::DEBUG => {
            stepped(context, thread, uc)
        }
        _ if SigSet::SYNCHRONOUS.has(signal) && kernel_sent => {
            fault(context, thread, signal, info, uc)
        }
        _ => arrived(context, thread, signal, info, uc),
    }
    let mut ready = table::held(thread).without(thread.blocked);
    if table::holds_question(thread) {
        ready = ready.with(SigSet::only(SIGFPE));
    }
    if ready != SigSet::EMPTY && thread.pending.is_none() && !nested {
        // Blocked until this handler returns, so that they come one by one.
        sys::sigprocmask(SIG_BLOCK, ready);
        requeue_held(thread, ready);
    }
}

/// Whether what was interrupted is the engine's handler itself: only there, and
/// in a call that waits for the program, are synchronous signals blocked.
fn in_handler(thread: &Thread, uc: &UContext) -> bool {
    let waits = thread.waits_under.is_some() || thread.awaits;
    uc.sigmask.0 & SigSet::SYNCHRONOUS.0 != 0 && !waits
}

/// Holds an asynchronous signal and gets the thread to a boundary.
fn arrived(
    context: &mut ThreadContext,
    thread: &mut Thread,
    signal: u32,
    info: &SigInfo,
    uc: &mut UContext,
) {
    let blocked = thread.blocked.without(thread.opened);
    let is_synchronous = SigSet::SYNCHRONOUS.has(signal);
    if is_synchronous && blocked.has(signal) && !is_question(signal, info) {
        return table::hold_blocked(thread, signal, info);
    }
    if is_synchronous && (thread.pending.is_some() || in_handler(thread, uc)) {
        return table::hold(thread, signal, info);
    }
    if thread.pending.is_some() {
        // Two at the end of a call that waited: this one comes again.
        requeue(signal, info);
        uc.sigmask = HOLD;
        return;
    }
    lockstep::interrupted(context, uc);
    thread.pending = Some(Pending {
        signal,
        info: *info,
        action: thread.action_at_arrival(signal),
        mask: uc.sigmask,
        fault: None,
        temporary: thread.waits_under,
    });
    uc.sigmask = HOLD;
    context.pending = 1;
    if thread.awaits {
        crate::signal_waits::abandon(uc);
    }
    advance(context, thread, uc);
}

/// Delivers the held signal if the thread is at a boundary, else makes it go on.
fn advance(context: &mut ThreadContext, thread: &mut Thread, uc: &mut UContext) {
    let rip = uc.mcontext.rip;
    uc.mcontext.eflags &= !TRAP_FLAG;
    thread.stepping = false;
    if entry::in_window(rip) {
        return step(thread, uc);
    }
    match locate(rip) {
        Where::Boundary(place) => deliver(context, thread, uc, place),
        Where::Inside if finish_system_call(uc) => advance(context, thread, uc),
        Where::Inside => step(thread, uc),
        // The engine looks at `pending` on its way out.
        Where::Engine => {}
    }
}

/// Most signals come at the end of a system call, one instruction before a
/// boundary: the `mov rcx, imm` that `emit_syscall` puts there. Doing it here
/// saves a step, which is a signal of its own.
fn finish_system_call(uc: &mut UContext) -> bool {
    let mut bytes = [0u8; 10];
    let got = memory::read_some(uc.mcontext.rip, &mut bytes);
    let (value, len) = match bytes[..got] {
        [0xB9, a, b, c, d, ..] => (u64::from(u32::from_le_bytes([a, b, c, d])), 5),
        [0x48, 0xC7, 0xC1, a, b, c, d, ..] => (
            i64::from(i32::from_le_bytes([a, b, c, d])).cast_unsigned(),
            7,
        ),
        [0x48, 0xB9, a, b, c, d, e, f, g, h] => (u64::from_le_bytes([a, b, c, d, e, f, g, h]), 10),
        _ => return false,
    };
    uc.mcontext.rcx = value;
    uc.mcontext.rip += len;
    true
}

fn step(thread: &mut Thread, uc: &mut UContext) {
    thread.stepping = true;
    uc.mcontext.eflags |= TRAP_FLAG;
}

fn stepped(context: &mut ThreadContext, thread: &mut Thread, uc: &mut UContext) {
    uc.mcontext.eflags &= !TRAP_FLAG;
    thread.stepping = false;
    if thread.stepping_on {
        // Go on with fresh code, as soon as all registers are the program's again.
        let place = match locate(uc.mcontext.rip) {
            Where::Boundary(place) => Some(place),
            Where::Inside => return step(thread, uc),
            Where::Engine => None,
        };
        thread.stepping_on = false;
        if let Some(held) = thread.pending.take_if(|held| held.signal == 0) {
            uc.sigmask = held.mask;
        }
        if let Some(place) = place {
            uncount(context, &place, uc.mcontext.rsp);
            go_on(context, uc, &place);
        }
        return;
    }
    if thread.pending.is_some() {
        advance(context, thread, uc);
    }
}

/// The trap on the way out of the engine: the program's state is complete, the
/// thread was about to go to `resume_host`.
fn deliver_pending(context: &mut ThreadContext, thread: &mut Thread, uc: &mut UContext) {
    uc.mcontext.rip = context.resume_host;
    uc.mcontext.eflags &= !RESUME_FLAG;
    if thread.pending.is_some() && context.resume_host == 0 {
        // Raised by the engine itself, or instead of that: the state is the program's at
        // `resume_app`, with the flag that the processor sets for a fault.
        if let Some(Pending {
            fault: Some((_, trap::PAGE_FAULT | trap::GENERAL_PROTECTION, _)),
            ..
        }) = thread.pending
        {
            uc.mcontext.eflags |= RESUME_FLAG;
        }
        let place = pcmap::Place::boundary(context.resume_app);
        return deliver(context, thread, uc, place);
    }
    if thread.pending.is_none() {
        context.pending = 0;
        return;
    }
    advance(context, thread, uc);
}

/// A signal raised by an instruction.
// Long function: one test after the other; the order is the point.
fn fault(
    context: &mut ThreadContext,
    thread: &mut Thread,
    signal: u32,
    info: &SigInfo,
    uc: &mut UContext,
) {
    let rip = uc.mcontext.rip;
    if let Some(next) = memory::recovery_for(rip)
        && (signal == SIGSEGV || signal == SIGBUS)
    {
        uc.mcontext.rip = next;
        return;
    }
    if sigreturn::is_rejected(signal, rip) {
        return sigreturn::rejected(context, thread, (signal, info), uc);
    }
    if signal == SIGSEGV && crate::streams::overflowed(context, uc) {
        return step_to_keyframe(context, thread, uc);
    }
    if matches!(signal, SIGSEGV | SIGBUS) && crate::accesses::passed_over(context, uc) {
        return;
    }
    if signal == SIGSEGV && crate::streams::stamps::is_forbidden(uc) {
        return;
    }
    if signal == SIGBUS
        && (crate::streams::polled(context, uc) || unaligned::goes_on(context, thread, uc))
    {
        return;
    }
    if signal == SIGTRAP && uc.mcontext.trapno == trap::DEBUG {
        // The program set the trap flag. Only its own instructions count.
        if let Where::Boundary(place) = locate(rip) {
            single_step::trapped(context, thread, info, uc, place);
        }
        return;
    }
    let fetch = uc.mcontext.trapno == trap::PAGE_FAULT && uc.mcontext.err & pf::FETCH != 0;
    if fetch && signal == SIGSEGV {
        return escaped(context, uc);
    }
    let store = signal == SIGSEGV
        && uc.mcontext.trapno == trap::PAGE_FAULT
        && uc.mcontext.err & pf::WRITE != 0;
    let filtered = signal == SIGSYS && info.code == code::SYS_SECCOMP;
    let Some(place) = place_of(rip) else {
        if filtered {
            // A call that the engine made; the call fails here, and is trapped
            // once more in the cache if it was the program's.
            thread.trapped = Some(info.fields[1] as u32);
            uc.mcontext.rax = sys::Errno::ENOSYS.as_result() as u64;
            return;
        }
        engine_bug(signal, uc);
    };
    if store && info.code == code::SEGV_ACCERR && guarded_store(context, thread, uc, place) {
        return;
    }
    let after_trap = matches!(uc.mcontext.trapno, trap::BREAKPOINT | trap::DEBUG);
    let Some(mut place) = place else {
        engine_bug(signal, uc);
    };
    if crate::contexts::grow_shadow(context, uc) {
        return;
    }
    if filtered && thread.strict {
        crate::filters::kill_strict(context, thread);
    }
    lockstep::interrupted(context, uc);
    restore_spilled(context, uc, &place);
    if !after_trap && !filtered && comes_first(thread) {
        // The instruction is executed again after the handler, and faults again.
        uc.mcontext.eflags &= !TRAP_FLAG;
        return deliver(context, thread, uc, place);
    }
    let mut info = *info;
    // The kernel gives the address of the instruction for these.
    if matches!(signal, SIGILL | SIGFPE) || (signal == SIGTRAP && !after_trap) {
        info.fields[0] = place.app_pc;
    }
    if signal == SIGTRAP && info.fields[0] == rip {
        info.fields[0] = place.app_pc;
    }
    if filtered {
        // Trapped behind the instruction, where rcx and the address say so.
        place = behind(rip, place);
        uc.mcontext.rcx = place.app_pc;
        info.fields[0] = place.app_pc;
    }
    let details = (uc.mcontext.err, uc.mcontext.trapno, uc.mcontext.cr2);
    let mask = before_held(context, thread, uc);
    if core::mem::take(&mut thread.stepping) {
        uc.mcontext.eflags &= !TRAP_FLAG;
    }
    thread.stepping_on = false;
    thread.pending = Some(Pending {
        signal,
        info,
        action: thread.action_at_arrival(signal),
        mask,
        fault: Some(details),
        temporary: None,
    });
    deliver(context, thread, uc, place);
}

/// Whether a signal is on its way to a boundary. The kernel took it before the instruction that
/// the thread is at.
fn comes_first(thread: &Thread) -> bool {
    thread.pending.is_some_and(|held| held.signal != 0)
}

fn restore_spilled(context: &ThreadContext, uc: &mut UContext, place: &pcmap::Place) {
    if !place.boundary {
        for (register, slot) in place.recipe.spilled() {
            *register_of(&mut uc.mcontext, register) = context.spill[slot];
        }
    }
}

/// A fault comes before what was being stepped to a boundary: that is queued
/// again. The mask that was in force.
pub fn before_held(context: &mut ThreadContext, thread: &mut Thread, uc: &UContext) -> SigSet {
    let Some(held) = thread.pending.take() else {
        return uc.sigmask;
    };
    context.pending = 0;
    requeue(held.signal, &held.info);
    held.mask
}

/// The place of the instruction after the one at `place`, whose code goes on at
/// `rip`: it begins within the length of the longest move that may be left.
fn behind(rip: u64, place: pcmap::Place) -> pcmap::Place {
    (rip..rip + 16)
        .filter_map(|at| place_of(at).flatten())
        .find(|next| next.app_pc != place.app_pc)
        .unwrap_or(place)
}

/// A store to a page that the engine guards. The page is opened; if the store
/// is from that page, only the store runs before control comes back.
fn guarded_store(
    context: &mut ThreadContext,
    thread: &mut Thread,
    uc: &mut UContext,
    place: Option<pcmap::Place>,
) -> bool {
    let (address, rip) = (uc.mcontext.cr2, uc.mcontext.rip);
    let own = engine::with(|engine| {
        let own = engine.runs_from_page(rip, address & !4095);
        engine.on_store(address).then_some(own)
    });
    let Some(own) = own else { return false };
    if own {
        lockstep::interrupted(context, uc);
        if let Some(place) = place.filter(|_| comes_first(thread)) {
            restore_spilled(context, uc, &place);
            uc.mcontext.eflags &= !TRAP_FLAG;
            deliver(context, thread, uc, place);
            return true;
        }
        let mask = before_held(context, thread, uc);
        step_on(thread, uc, mask);
    }
    true
}

/// If a keyframe is due, which is made wherever code is left, leaves it at the next boundary.
fn step_to_keyframe(context: &ThreadContext, thread: &mut Thread, uc: &mut UContext) {
    let is_free = thread.pending.is_none() && uc.mcontext.eflags & TRAP_FLAG == 0;
    if is_free && crate::streams::keyframe_is_due(context) {
        step_on(thread, uc, uc.sigmask);
    }
}

/// Goes on with fresh code at the next boundary. Nothing else may come before the trap.
fn step_on(thread: &mut Thread, uc: &mut UContext, mask: SigSet) {
    thread.pending = Some(Pending {
        signal: 0,
        info: information(0, 0),
        action: SigAction::default(),
        mask,
        fault: None,
        temporary: None,
    });
    uc.sigmask = HOLD;
    thread.stepping_on = true;
    step(thread, uc);
}

/// The program's pages are never executable: control that escapes the cache
/// faults at its first instruction, with the program's state.
fn escaped(context: &mut ThreadContext, uc: &mut UContext) {
    context.resume_app = uc.mcontext.rip;
    context.exit = 1;
    uc.mcontext.rip = entry::resume_address();
}

pub fn register_of(registers: &mut SigContext, number: usize) -> &mut u64 {
    match number {
        reg::RAX => &mut registers.rax,
        reg::RCX => &mut registers.rcx,
        reg::RDX => &mut registers.rdx,
        reg::RBX => &mut registers.rbx,
        reg::RSP => &mut registers.rsp,
        reg::RBP => &mut registers.rbp,
        reg::RSI => &mut registers.rsi,
        reg::RDI => &mut registers.rdi,
        8 => &mut registers.r8,
        9 => &mut registers.r9,
        10 => &mut registers.r10,
        11 => &mut registers.r11,
        12 => &mut registers.r12,
        13 => &mut registers.r13,
        14 => &mut registers.r14,
        _ => &mut registers.r15,
    }
}

/// A fault in the engine itself. Say so clearly and end as by that signal.
fn engine_bug(signal: u32, uc: &UContext) -> ! {
    let mut text = agent::procfs::Text::default();
    let (rip, address) = (uc.mcontext.rip, uc.mcontext.cr2);
    let base = crate::start::payload_base();
    let _ = core::fmt::Write::write_fmt(
        &mut text,
        format_args!(
            "everypath: internal error: signal {signal} in the engine at payload+{:#x} (rip {rip:#x}, address {address:#x}); \
             what was recorded so far is kept, please report this\n",
            rip.wrapping_sub(base)
        ),
    );
    let _ = sys::write(2, &text.0);
    // SAFETY: the default disposition.
    let _ = unsafe { sys::sigaction(SIGABRT, Some(&SigAction::default()), None) };
    sys::sigprocmask(SIG_SETMASK, SigSet::EMPTY);
    let _ = sys::tgkill(sys::getpid(), sys::gettid(), SIGABRT);
    sys::exit_group(125)
}
