//! Threads and processes: clone, fork, exec, exit.
//!
//! A child that shares memory gets a thread block of its own and starts in the
//! engine; a child with a copy keeps the cache (private memory, copied on
//! write) and begins records of its own. All signals are blocked from before
//! the kernel makes the child until the child can take them.

use alloc::boxed::Box;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use agent::filters::Filter;
use agent::pool::ProcessLog;
use agent::signals::SignalTable;
use agent::thread::{self, Thread, ThreadContext, reg};
use sys::signal::{SIG_SETMASK, SigAction, SigSet};
use sys::{
    CLONE_CLEAR_SIGHAND, CLONE_SIGHAND, CLONE_THREAD, CLONE_VFORK, CLONE_VM, CloneArgs, Errno,
    gate, nr,
};
use wire::{ThreadRecord, process_state};

use crate::dispatch::{Call, finish_call};
use crate::engine::{self, Engine};
use crate::entry;
use crate::thread_exit;

/// Arguments that the calls of the clone family have in common.
struct Wish {
    flags: u64,
    /// Stack pointer of the child; 0: as the parent's.
    sp: u64,
    /// The kernel call: number and arguments.
    raw: [u64; 7],
    /// The way through the gate that it takes.
    gate: u64,
}

/// `clone(flags, stack, parent_tid, child_tid, tls)`.
pub fn clone(context: &mut ThreadContext, thread: &mut Thread, call: &Call) -> Option<isize> {
    let [flags, sp, a, b, c, d] = call.args;
    make(
        context,
        thread,
        call,
        Wish {
            // The kernel looks at the lower half only.
            flags: flags & 0xffff_ffff,
            sp,
            raw: [call.number, flags, sp, a, b, c, d],
            gate: gate::jump(call.outside),
        },
    )
}

/// `clone3(args, size)`. The program's structure is not written to.
pub fn clone3(context: &mut ThreadContext, thread: &mut Thread, call: &Call) -> Option<isize> {
    let [at, size, ..] = call.args;
    let (mut args, size) = match clone_args(at, size) {
        Ok(read) => read,
        Err(errno) => return Some(errno.as_result()),
    };
    let sp = args.stack + args.stack_size;
    if args.flags & CLONE_VM == 0 {
        (args.stack, args.stack_size) = (0, 0);
    }
    let raw = [call.number, &raw const args as u64, size, 0, 0, 0, 0];
    make(
        context,
        thread,
        call,
        Wish {
            flags: args.flags,
            sp,
            raw,
            gate: gate::jump(call.outside),
        },
    )
}

/// The structure of a clone3 call, checked as far as we change it before the
/// kernel sees it (`kernel/fork.c`: `copy_clone_args_from_user`, `clone3_stack_valid`).
fn clone_args(at: u64, size: u64) -> Result<(CloneArgs, u64), Errno> {
    const E2BIG: Errno = Errno(7);
    const KNOWN: u64 = size_of::<CloneArgs>() as u64;
    if size > 4096 {
        return Err(E2BIG);
    }
    if size < 64 {
        return Err(Errno::EINVAL);
    }
    let args = agent::memory::read_prefix::<CloneArgs>(at, size.min(KNOWN) as usize);
    let args = args.ok_or(Errno::EFAULT)?;
    // Fields of a newer structure are accepted as long as they say nothing.
    for byte in KNOWN..size {
        match agent::memory::read::<u8>(at + byte) {
            None => return Err(Errno::EFAULT),
            Some(0) => {}
            Some(_) => return Err(E2BIG),
        }
    }
    let end = args.stack.checked_add(args.stack_size);
    if (args.stack == 0) != (args.stack_size == 0) || end.is_none_or(|end| end >= 1 << 47) {
        return Err(Errno::EINVAL);
    }
    Ok((args, size.min(KNOWN)))
}

/// `fork()` and `vfork()`.
pub fn fork(
    context: &mut ThreadContext,
    thread: &mut Thread,
    call: &Call,
    vfork: bool,
) -> Option<isize> {
    let flags = if vfork { CLONE_VM | CLONE_VFORK } else { 0 };
    let number = if call.outside {
        call.number
    } else {
        nr::CLONE as u64
    };
    let raw = [number, flags | sys::signal::SIGCHLD as u64, 0, 0, 0, 0, 0];
    let gate = gate::jump(call.outside);
    make(
        context,
        thread,
        call,
        Wish {
            flags,
            sp: 0,
            raw,
            gate,
        },
    )
}

/// `None`: a signal comes first.
fn make(
    context: &mut ThreadContext,
    thread: &mut Thread,
    call: &Call,
    wish: Wish,
) -> Option<isize> {
    let mask = agent::signals::quiesce(thread)?;
    let result = if wish.flags & CLONE_VM != 0 {
        make_sharing(context, thread, call, &wish, mask)
    } else {
        make_copy(context, thread, wish)
    };
    sys::sigprocmask(SIG_SETMASK, mask);
    agent::signals::release_held(thread);
    Some(result)
}

/// A child in the same memory: a thread, or a vfork child.
// Long function: the fields of a child, one after the other.
fn make_sharing(
    context: &mut ThreadContext,
    thread: &mut Thread,
    call: &Call,
    wish: &Wish,
    mask: SigSet,
) -> isize {
    let made = engine::with(|engine| {
        let pool = engine.process.log.pool;
        let behind = engine.behind();
        let mut child = engine.process.blocks.take(&pool, behind)?;
        child.owns_signals = wish.flags & CLONE_SIGHAND == 0;
        child.signals = if child.owns_signals {
            // SAFETY: the parent's table is live.
            Box::into_raw(Box::new(unsafe { (*thread.signals).clone() }))
        } else {
            thread.signals
        };
        let cleared = wish.flags & CLONE_CLEAR_SIGHAND != 0;
        if child.owns_signals && cleared {
            // SAFETY: the child's own table, made above.
            unsafe { (*child.signals).clear() };
        }
        child.is_vfork_child = wish.flags & CLONE_THREAD == 0;
        child.blocked = thread.blocked;
        child.implies_exec = thread.implies_exec;
        child.filters = AtomicPtr::new(thread.filters.load(Relaxed));
        if wish.flags & CLONE_VFORK != 0 {
            child.altstack = thread.altstack;
        }
        // SAFETY: a fresh block that no thread runs on yet.
        let fresh = unsafe { &mut *child.context };
        fresh.regs = context.regs;
        fresh.rflags = context.rflags;
        fresh.xmm = context.xmm;
        fresh.app_gs = context.app_gs;
        fresh.tsc_forbidden = context.tsc_forbidden;
        fresh.epoch = engine.epoch;
        if wish.sp != 0 {
            fresh.regs[reg::RSP] = wish.sp;
        }
        finish_call(fresh, 0, call.next);
        fresh.resume_app = call.next;
        // Kept until the child has started: the mask it begins with.
        fresh.spill[0] = mask.0;
        fresh.spill[1] = u64::from(cleared);
        engine.threads.push(child.context);
        crate::contexts::begin_thread(engine, fresh, Some(context), child.is_vfork_child);
        Some(Box::leak(child) as *mut Thread)
    });
    let Some(child) = made else {
        return Errno::EAGAIN.as_result();
    };
    // SAFETY: the child's block is complete; the assembly switches to it before
    // it touches any memory. Arguments are the program's own.
    let result = unsafe { entry::everypath_clone(&wish.raw, (*child).context, wish.gate) };
    if result < 0 || wish.flags & CLONE_VFORK != 0 {
        engine::with(|engine| {
            // SAFETY: there is no child, or the kernel let us go on because it
            // has exec'd or exited: it no longer runs in this memory.
            unsafe { thread_exit::drop_block(engine, child) }
        });
    }
    result
}

/// First thing a thread in shared memory does, on its own runtime stack.
///
/// # Safety
/// Called by the assembly only, with the block made for this thread.
pub unsafe extern "C" fn child_start(context: *mut ThreadContext) {
    // SAFETY: the block made for this thread by `make_sharing`.
    let (context, thread) = unsafe { (&mut *context, &mut *((*context).thread as *mut Thread)) };
    let mask = SigSet(context.spill[0]);
    let cleared = context.spill[1] != 0;
    let fsgsbase = engine::with(|engine| engine.settings.fsgsbase);
    thread::set_gs(context, fsgsbase);
    if cleared {
        // The kernel took our handlers, too.
        // SAFETY: the child's table is live, and its own.
        agent::signals::install(unsafe { &*thread.signals }, entry::signal_entry());
    }
    adopt(context, thread);
    let key = crate::block::Key {
        pc: context.resume_app,
        arrival: crate::block::Arrival::Inside,
    };
    crate::dispatch::go_to(context, key);
    sys::sigprocmask(SIG_SETMASK, mask);
}

/// Registers the running thread: its number, record and signal stack.
pub fn adopt(context: &mut ThreadContext, thread: &mut Thread) {
    thread.tid = sys::gettid();
    // SAFETY: the stack belongs to the block for as long as the thread lives.
    let _ = unsafe { sys::sigaltstack(&thread.signal_stack) };
    engine::with(|engine| {
        let hidden = thread.is_vfork_child && !engine.settings.follow;
        if let Some(offset) = engine.process.log.thread(thread.tid, hidden) {
            thread.record = offset;
            let pool = engine.process.log.pool;
            if let Some(record) = pool.at::<ThreadRecord>(offset) {
                let word = &raw const context.insns as u64;
                record
                    .live_insns
                    .store(word.wrapping_sub(pool.base()), Relaxed);
                if engine.settings.costs != 0 {
                    let state = &raw const context.cost_state as u64;
                    let from = context.nodes_base.wrapping_sub(pool.base());
                    record.states_from.store(from, Relaxed);
                    record
                        .live_states
                        .store(state.wrapping_sub(pool.base()), Relaxed);
                }
            }
            if let Some(record) = pool.at::<ThreadRecord>(offset) {
                engine.publish_slots(record, context);
                engine.begin_streams(context, record);
            }
            crate::contexts::publish_thread(engine, context, offset);
        }
    });
}

/// A child with a copy of memory.
fn make_copy(context: &mut ThreadContext, thread: &mut Thread, wish: Wish) -> isize {
    let mut raw = wish.raw;
    if raw[0] == nr::CLONE as u64 {
        // The child goes on here, on this stack; the program's comes later.
        raw[2] = 0;
    }
    // The block is in the pool, shared with the parent: the child needs what
    // it says now, not what the parent makes of it.
    let snapshot = Box::new(Snapshot {
        regs: context.regs,
        rflags: context.rflags,
        xmm: context.xmm,
        app_gs: context.app_gs,
        tsc_forbidden: context.tsc_forbidden,
    });
    let shadow = crate::contexts::snapshot(context);
    // Held across fork: in the child nobody else can hold it.
    let mut guard = engine::ENGINE.lock();
    // SAFETY: no child context: the child returns here on a copy of this stack.
    let result = unsafe { entry::everypath_clone(&raw, core::ptr::null_mut(), wish.gate) };
    if result == 0 {
        if wish.flags & CLONE_CLEAR_SIGHAND != 0 {
            // The kernel took our handlers, too.
            // SAFETY: the child's copy of the table; it has one thread.
            let table = unsafe { &mut *thread.signals };
            table.clear();
            agent::signals::install(table, entry::signal_entry());
        }
        engine::ENGINE.forget_waiters();
        let engine = guard.as_mut().expect("start set the engine");
        become_child(engine, thread, &snapshot, wish.sp, shadow);
    }
    drop(guard);
    if result == 0 {
        // SAFETY: `become_child` put this thread on a block of its own.
        let context = unsafe { &mut *thread.context };
        adopt(context, thread);
    }
    result
}

struct Snapshot {
    regs: [u64; 16],
    rflags: u64,
    xmm: [[u64; 2]; 16],
    app_gs: u64,
    tsc_forbidden: u64,
}

/// In the forked child: records, thread block and forest of its own.
fn become_child(
    engine: &mut Engine,
    thread: &mut Thread,
    snapshot: &Snapshot,
    sp: u64,
    shadow: crate::contexts::Shadow,
) {
    let old = &engine.process.log;
    let (pool, parent, mark) = (old.pool, old.record, old.records);
    let parent_record = pool.at::<wire::ProcessRecord>(parent);
    let made = match engine.settings.follow {
        true => wire::made::BY_FORK,
        false => wire::made::BY_FORK_HIDDEN,
    };
    engine.process.is_child = true;
    let log = ProcessLog::begin(pool, parent, made, mark, |record, offset| {
        if let Some(parent) = parent_record {
            copy_identity(&pool, parent, offset, record);
        }
    });
    if let Some(log) = log {
        engine.process.log = log;
    }
    engine.process.blocks.forget_all();
    let behind = engine.behind();
    let Some(fresh) = engine.process.blocks.take(&pool, behind) else {
        // No memory for a block: end as fork would have failed, but in the child.
        sys::exit_group(125);
    };
    // SAFETY: a fresh block; nothing else refers to it.
    let context = unsafe { &mut *fresh.context };
    context.regs = snapshot.regs;
    context.rflags = snapshot.rflags;
    context.xmm = snapshot.xmm;
    context.app_gs = snapshot.app_gs;
    context.tsc_forbidden = snapshot.tsc_forbidden;
    context.epoch = engine.epoch;
    if sp != 0 {
        context.regs[reg::RSP] = sp;
    }
    thread.context = fresh.context;
    thread.block = fresh.block;
    thread.signal_stack = fresh.signal_stack;
    thread.held = SigSet::EMPTY;
    agent::held_signals::clear();
    agent::procfs::open_files::clear();
    context.thread = &raw const *thread as u64;
    thread::set_gs(context, engine.settings.fsgsbase);
    engine.threads.clear();
    engine.threads.push(thread.context);
    engine.forget_layouts();
    crate::contexts::fork_child(engine, context, shadow);
}

fn copy_identity(
    pool: &wire::view::Pool,
    parent: &wire::ProcessRecord,
    child: u64,
    record: &wire::ProcessRecord,
) {
    use core::mem::offset_of;
    record.exe_len.store(parent.exe_len.load(Relaxed), Relaxed);
    record
        .cmdline_len
        .store(parent.cmdline_len.load(Relaxed), Relaxed);
    pool.write_bytes(
        child + offset_of!(wire::ProcessRecord, exe) as u64,
        &parent.exe,
    );
    pool.write_bytes(
        child + offset_of!(wire::ProcessRecord, cmdline) as u64,
        &parent.cmdline,
    );
}

/// execve and execveat; returns only on failure. `None`: a signal that came in
/// is to be handled by this program before.
// Long function: the steps of one call, each undone if it fails.
pub fn exec(thread: &mut Thread, call: agent::exec::Call) -> Option<isize> {
    // The new program inherits the mask that the program set, not the engine's.
    let blocked = thread.blocked;
    let filters = Filter::of(thread);
    let ignored = ignored_synchronous(thread);
    for signal in (1..=31).filter(|&signal| ignored.has(signal)) {
        let action = SigAction {
            handler: sys::signal::SIG_IGN,
            ..SigAction::default()
        };
        // SAFETY: a plain disposition; restored below if exec fails.
        let _ = unsafe { sys::sigaction(signal, Some(&action), None) };
    }
    let (heritage, record, pool, follow) = engine::with(|engine| {
        if !thread.is_vfork_child {
            engine.publish_gauges(crate::start::heap_bytes());
        }
        (
            engine.heritage.clone(),
            engine.process.log.record,
            engine.process.log.pool,
            // An exec by the program's own process makes no child.
            engine.settings.follow || !(engine.process.is_child || thread.is_vfork_child),
        )
    });
    if !thread.is_vfork_child
        && let Some(process) = pool.at::<wire::ProcessRecord>(record)
    {
        process.state.store(process_state::EXECED, Relaxed);
        process.end_ns.store(sys::monotonic_ns(), Relaxed);
    }
    let nowhere = alloc::vec![0u8];
    let traced = follow && agent::procfs::traced_by_target();
    if traced {
        agent::pool::deny(&pool, wire::denied::why::TRACED);
    }
    let payload = if follow && !traced {
        &heritage.payload
    } else {
        &nowhere
    };
    // Last thing before the kernel's exec: until then faults must arrive.
    let mut interrupted = false;
    let mut ready = || {
        if blocked != SigSet::EMPTY {
            sys::sigprocmask(sys::signal::SIG_BLOCK, blocked);
            agent::signals::requeue_held(thread, blocked);
        }
        // A signal that waits for the way out would be lost, and its mask,
        // which blocks everything, inherited.
        // SAFETY: the thread's own block; signals may come in at any moment.
        interrupted =
            unsafe { core::ptr::read_volatile(&raw const (*thread.context).pending) } != 0;
        if !interrupted {
            thread.tell_personality(true);
        }
        !interrupted
    };
    let heritage = agent::exec::Heritage {
        pool: &heritage.pool,
        payload,
        filters: Filter::store(filters, &pool),
        natives: (follow && !traced).then(|| &pool.header().natives),
    };
    // The lock is not held: exec reads the program's memory and may block.
    // Only the path of the program is read from the process state.
    let result = with_process_exe(|process| agent::exec::exec(process, call, heritage, &mut ready));
    if let Some(process) = pool.at::<wire::ProcessRecord>(record)
        && !thread.is_vfork_child
    {
        process.state.store(process_state::RUNNING, Relaxed);
    }
    thread.tell_personality(false);
    // SAFETY: the table is live.
    agent::signals::install(unsafe { &*thread.signals }, entry::signal_entry());
    if blocked != SigSet::EMPTY {
        sys::sigprocmask(sys::signal::SIG_UNBLOCK, blocked);
    }
    (!interrupted).then_some(result)
}

/// Runs `work` on a copy of what exec needs to know about the process.
fn with_process_exe(work: impl FnOnce(&[u8]) -> isize) -> isize {
    let exe = engine::with(|engine| engine.process.exe.clone());
    work(&exe)
}

fn ignored_synchronous(thread: &Thread) -> SigSet {
    let mut set = SigSet::EMPTY;
    for signal in 1..=31 {
        // SAFETY: the table is live.
        let action = unsafe { (*thread.signals).action(signal) };
        if agent::signals::always_ours(signal) && action.handler == sys::signal::SIG_IGN {
            set = set.with(SigSet::only(signal));
        }
    }
    set
}

/// The table a new process image begins with.
pub fn first_table() -> *mut SignalTable {
    let mut table = Box::new(SignalTable::new());
    table.inherit();
    Box::into_raw(table)
}
