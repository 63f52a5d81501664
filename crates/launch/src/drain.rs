//! Has streams taken out of the pool while the program runs.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::fs::Timespec;
use rustix::thread::futex;
use wire::view::Pool;

use crate::Drain;

/// Serves until `done`, and does something else as often.
pub(crate) fn serve(
    pool: &Pool,
    drain: &mut (dyn Drain + Send),
    done: &AtomicBool,
    meanwhile: impl Fn(),
) {
    let chunks = &pool.header().chunks;
    while !done.load(Acquire) {
        pool.header().beats.fetch_add(1, Release);
        let closed = chunks.closed.load(Acquire);
        meanwhile();
        if drain.drain(pool) {
            let _ = futex::wake(&chunks.freed, futex::Flags::empty(), i32::MAX as u32);
        }
        let flags = futex::Flags::empty();
        let patience = drain.patience();
        let patience = Timespec {
            tv_sec: patience.as_secs().cast_signed(),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let _ = futex::wait(&chunks.closed, flags, closed, Some(&patience));
    }
}

/// Wakes the server.
pub(crate) fn ring(pool: &Pool) {
    let closed = &pool.header().chunks.closed;
    closed.fetch_add(1, Release);
    let _ = futex::wake(closed, futex::Flags::empty(), 1);
}
