//! Has streams taken out of the pool while the program runs.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::fs::Timespec;
use rustix::thread::futex;
use wire::view::Pool;

use crate::Drain;

/// Looked at that often even if nobody says that there is something.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

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
        let _ = futex::wait(&chunks.closed, flags, closed, Some(&PATIENCE));
    }
}

/// Wakes the server.
pub(crate) fn ring(pool: &Pool) {
    let closed = &pool.header().chunks.closed;
    closed.fetch_add(1, Release);
    let _ = futex::wake(closed, futex::Flags::empty(), 1);
}
