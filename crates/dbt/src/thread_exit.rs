//! The ends of threads and processes, and the last figures of their records.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Relaxed, Release};

use agent::thread::{self, Thread, ThreadContext};
use sys::nr;
use sys::signal::{SIG_SETMASK, SigSet};
use wire::{ThreadRecord, process_state};

use crate::engine::{self, Engine};

/// # Safety
/// No thread may run on the block any more.
pub unsafe fn drop_block(engine: &mut Engine, thread: *mut Thread) {
    // SAFETY: the caller gives the thread up.
    let thread = unsafe { Box::from_raw(thread) };
    engine.threads.retain(|&context| context != thread.context);
    if thread.has_left {
        engine.take_rights_again();
    }
    if thread.owns_signals {
        // SAFETY: no other thread has this table.
        drop(unsafe { Box::from_raw(thread.signals) });
    }
    // SAFETY: the block is still the thread's, and nothing runs on it.
    settle_record(engine, thread.record, unsafe { &mut *thread.context });
    end_record(engine, thread.record, thread.context, false);
    engine.keep_slots(thread.record, thread.context);
    // SAFETY: as above.
    engine.end_streams(unsafe { &mut *thread.context });
    engine.process.blocks.give_back(thread.block);
}

/// The thread runs no more: what it counted gets to its nodes.
fn settle_record(engine: &Engine, offset: u64, context: &mut ThreadContext) {
    crate::contexts::settle(context);
    if let Some(record) = engine.process.log.pool.at::<ThreadRecord>(offset) {
        record.live_states.store(0, Relaxed);
    }
}

/// `runs`: it goes on for a moment, and counts what it does.
fn end_record(engine: &Engine, offset: u64, context: *const ThreadContext, runs: bool) {
    if offset == 0 {
        return;
    }
    if let Some(record) = engine.process.log.pool.at::<ThreadRecord>(offset) {
        // SAFETY: the thread is ending or gone; the words are counters.
        let insns = unsafe { core::ptr::read_volatile(&raw const (*context).insns) };
        // So does, with costs, one whose words its nodes have not got yet.
        if record.live_states.load(Relaxed) == 0 && !runs {
            record.live_insns.store(0, Relaxed);
            let sum = insns.iter().fold(0u64, |sum, &word| sum.wrapping_add(word));
            record.insns.store(sum, Relaxed);
        }
        // SAFETY: as above, and the caller holds the engine.
        let deepest = unsafe { crate::contexts::deepest(context) };
        record.max_depth.store(deepest, Relaxed);
        record.end_ns.store(sys::monotonic_ns(), Relaxed);
        record.ended.store(1, Release);
    }
}

/// The thread ends, or runs natively from now on.
pub fn close_records(engine: &mut Engine, thread: &Thread, context: &mut ThreadContext) {
    settle_record(engine, thread.record, context);
    end_record(engine, thread.record, context, false);
    engine.keep_slots(thread.record, context);
    engine.end_streams(context);
    crate::contexts::end_thread(engine, context);
}

/// exit(2): this thread only.
pub fn exit_thread(context: &mut ThreadContext, thread: &mut Thread, code: i32) -> ! {
    sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    let used = engine::with(|engine| {
        close_records(engine, thread, context);
        let used = engine.process.blocks.free_flag(thread.block);
        // A vfork child's block is given back by its parent.
        engine.threads.retain(|&other| other != thread.context);
        used
    });
    if thread.is_vfork_child {
        sys_exit(code);
    }
    // SAFETY: nothing of the block is used after the routine's store.
    unsafe { thread::everypath_exit_thread(used, code) }
}

fn sys_exit(code: i32) -> ! {
    loop {
        // SAFETY: ends this thread.
        unsafe { sys::raw::syscall(nr::EXIT, [code as usize, 0, 0, 0, 0, 0]) };
    }
}

/// exit_group: the end of the process (of the child, if it is a vfork child).
pub fn exit_group(thread: &mut Thread, code: i32) -> ! {
    if !thread.is_vfork_child {
        engine::with(|engine| {
            engine.publish_gauges(crate::start::heap_bytes());
            for &context in &engine.threads {
                // SAFETY: contexts of live threads, under the lock.
                let record = unsafe { (*((*context).thread as *const Thread)).record };
                end_record(engine, record, context, context != thread.context);
            }
            let process = engine.process.log.process();
            process.end_status.store(code as u32, Relaxed);
            process.end_ns.store(sys::monotonic_ns(), Relaxed);
            process.state.store(process_state::EXITED, Release);
        });
    }
    sys::exit_group(code)
}
