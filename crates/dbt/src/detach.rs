//! A process that a debugger traces leaves translation, for good.
//!
//! Problem: a tracer (ptrace) sees the tracee stop at the engine's faults and traps, with the
//! engine's registers, mask and handlers; no emulation of ours can stand between them.
//!
//! Approach: the tracee goes on natively before the tracer can see it. What it was is given back
//! to the kernel: rights of pages, handlers, mask, alternate stack, base of gs, registers; nothing
//! of the engine runs in it any more. What was counted until then is kept, and a row says what is
//! missing ([`why::TRACED`]).
//!
//! | who becomes traced | leaves |
//! |---|---|
//! | a process by PTRACE_TRACEME | at its next system call, unless that is exec (`process::exec`); before that, where it traps or cannot be fetched |
//! | a vfork child by PTRACE_TRACEME | before that call: its engine is its parent's |
//! | one that a tracer in the run attaches to | before that, asked by the tracer's engine ([`ask`]) |
//!
//! Between PTRACE_TRACEME and the next system call the tracer would see the engine's own faults;
//! polls of tracing by request, which fault when there is a request, are silenced at the former.
//!
//! Limits: a process leaves that has one thread, or a vfork child with handlers of its own; others
//! stay. Who is stopped already is not asked. `/proc/self/exe` is the engine's file from then on. A
//! load or store that faults between PTRACE_TRACEME and the next system call is seen in the cache.

use core::sync::atomic::Ordering::Release;

use agent::signals::{always_ours, is_handled, requeue, requeue_held};
use agent::thread::{Pending, Thread, ThreadContext, reg};
use agent::tracers::{self, Question};
use sys::nr;
use sys::signal::*;
use wire::ThreadRecord;
use wire::denied::why;

use crate::deliver;
use crate::dispatch::{After, Call};
use crate::engine::{self, Engine};
use crate::locate::place_of;
use crate::thread_exit;

mod frame;

const TRACEME: u64 = 0;

/// Whether the thread's process can leave.
fn can_leave(thread: &Thread) -> bool {
    thread.owns_signals
        || !thread.is_vfork_child && engine::with(|engine| engine.threads.len()) == 1
}

/// Whether the thread is to leave where it is about to make `call`.
fn is_due(thread: &Thread, call: &Call) -> bool {
    let begins = call.number == nr::PTRACE as u64 && call.args[0] == TRACEME;
    let is_exec = [nr::EXECVE as u64, nr::EXECVEAT as u64].contains(&call.number);
    let due = begins && thread.is_vfork_child || thread.is_traced && !is_exec;
    due && can_leave(thread)
}

/// Leaves at `call`, whose instruction in the cache is at `raw`, if the thread is to.
pub fn leave_if_due(context: &mut ThreadContext, thread: &mut Thread, call: &Call, raw: u64) {
    if !is_due(thread, call) {
        return;
    }
    if let Some(place) = place_of(raw).flatten() {
        deliver::uncount(context, &place, context.regs[reg::RSP]);
    }
    leave(context, thread, call.pc)
}

/// Leaves at `pc`, where an instruction traps or none can be fetched, if a tracer waits for that.
pub fn leave_before_fault(context: &mut ThreadContext, thread: &mut Thread, pc: u64) {
    if thread.is_traced && can_leave(thread) {
        engine::with(|engine| engine.is_at(context, pc, context.regs[reg::RSP]));
        leave(context, thread, pc)
    }
}

fn leave(context: &mut ThreadContext, thread: &mut Thread, pc: u64) -> ! {
    let mask = sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    // The handler changes the thread until the mask is set.
    let thread = core::hint::black_box(thread);
    let held = thread.pending.take();
    if let Some(held) = &held {
        // It comes again, before the instruction.
        requeue(held.signal, &held.info);
    }
    let mut area = frame::Area::new();
    let mut uc = frame::of(context, pc, &mut area);
    let mask = held.map_or(mask, |held| held.mask);
    go(context, thread, &mut uc, mask)
}

/// The call `ptrace` in a process that is translated.
pub fn ptrace(context: &ThreadContext, thread: &mut Thread, call: &Call) -> After {
    match call.args[0] {
        TRACEME if can_leave(thread) => {
            // SAFETY: the program's own call; it changes nothing here.
            let result = unsafe { sys::raw::syscall(nr::PTRACE, [0; 6]) };
            thread.is_traced = result == 0;
            if thread.is_traced {
                agent::polls::silence(context.this);
                engine::with(|engine| {
                    engine.leaves_at_traps = true;
                    engine.watch_calls();
                });
            }
            After::Result(result)
        }
        request if tracers::attaches(request) => {
            ask(call.args[1] as u32);
            After::Raw
        }
        _ => After::Raw,
    }
}

/// Asks the process `pid`, which is about to be traced, to leave, and waits until it has.
fn ask(pid: u32) {
    let (pool, ours) = engine::with(|engine| {
        let mut threads = engine.threads.iter();
        let ours = threads.find_map(|&context| {
            // SAFETY: the context of a live thread, under the lock.
            let thread = unsafe { &*((*context).thread as *const Thread) };
            (thread.tid == pid).then_some(thread.owns_signals)
        });
        (engine.process.log.pool, ours)
    });
    // Only a vfork child with its own handlers can leave among the threads of this memory.
    if ours == Some(false) {
        return;
    }
    let record = tracers::record_of(&pool, pid);
    let question = |record| Question::of(&pool, record, pid, ours.is_some());
    if let Some(question) = record.and_then(question) {
        question.ask();
    }
}

/// A thread that was asked is at a boundary in the cache, with its state in `uc`. Returns if it stays.
pub fn answer(context: &mut ThreadContext, thread: &mut Thread, uc: &mut UContext, held: &Pending) {
    uc.sigmask = held.mask;
    if !can_leave(thread) {
        return engine::with(|engine| {
            let pool = engine.process.log.pool;
            if let Some(record) = pool.at::<ThreadRecord>(thread.record) {
                record.stayed.fetch_add(1, Release);
            }
        });
    }
    tracers::restart(&mut uc.mcontext, &held.info);
    sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    go(context, thread, uc, held.mask)
}

/// From here on natively, with the registers in `uc`. All signals are blocked.
fn go(context: &mut ThreadContext, thread: &mut Thread, uc: &mut UContext, mask: SigSet) -> ! {
    thread.has_left = true;
    engine::with(|engine| {
        agent::pool::deny(&engine.process.log.pool, why::TRACED);
        // Its part of a number that all threads count (`streams::shared_budget`) is for others.
        while engine.leaves_part(context) {}
        thread_exit::close_records(engine, thread, context);
        if !thread.is_vfork_child {
            engine.publish_gauges(crate::start::heap_bytes());
        }
        engine.give_rights_back();
    });
    give_handlers_back(thread);
    requeue_held(thread, SigSet::SYNCHRONOUS);
    thread.tell_personality(true);
    uc.sigmask = mask.with(thread.blocked);
    uc.stack = thread.altstack;
    if uc.stack.size == 0 {
        uc.stack.flags |= SS_DISABLE;
    }
    let _ = sys::arch_prctl(sys::ARCH_SET_GS, context.app_gs);
    // SAFETY: a complete frame with the program's state. The engine's gs is not needed any more.
    unsafe { frame::load(uc) }
}

fn give_handlers_back(thread: &Thread) {
    for signal in 1..=NSIG {
        // SAFETY: the table lives as long as any thread that uses it.
        let action = unsafe { (*thread.signals).shown(signal) };
        if is_handled(&action) || always_ours(signal) {
            // SAFETY: the program's own handler, which runs natively from now on.
            let _ = unsafe { sys::sigaction(signal, Some(&action), None) };
        }
    }
}

impl Engine {
    /// Pages have the rights that the program gave them.
    fn give_rights_back(&mut self) {
        self.drop_all_pages();
        for region in self.process.regions.iter() {
            set_rights(region.start, region.end, region.prot);
        }
    }

    /// A vfork child has left, and is gone: the parent's code is no longer executable in truth.
    pub fn take_rights_again(&mut self) {
        for region in self.process.regions.iter() {
            set_rights(
                region.start,
                region.end,
                agent::loader::real_prot(region.prot),
            );
        }
    }
}

fn set_rights(start: u64, end: u64, prot: u32) {
    // SAFETY: rights that the program asked for, less the execute bit where we translate.
    let done = unsafe { sys::mprotect(start, end - start, prot) };
    if done.is_err()
        && let Some((from, to)) = agent::procfs::mapping_of(end - 1)
    {
        // A stack, which has not grown down to where it may.
        let start = start.max(from);
        // SAFETY: as above.
        let _ = unsafe { sys::mprotect(start, end.min(to) - start, prot) };
    }
}
