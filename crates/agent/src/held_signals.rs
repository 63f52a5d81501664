//! Synchronous signals that were sent to the process and that the program blocks.
//!
//! Problem: the kernel never blocks these signals, so it delivers one to any thread, although the
//! program blocks it there, and others may wait for it.
//!
//! Approach: the engine's handler puts the signal here, for all threads of the process. A thread
//! that is about to wait for signals says so ([`wait_for`]), then takes what is here; a handler
//! that has put a signal here looks for such a thread, and sends the signal on. Each does its own
//! first, so one of them sees the other.
//!
//! Invariant: nothing here waits. The engine's handler calls it, wherever a thread is.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use sys::signal::{SigInfo, SigSet};

const EMPTY: u32 = 0;
/// Somebody writes or reads the information.
const BUSY: u32 = 1;
const FULL: u32 = 2;

struct Slot {
    state: AtomicU32,
    info: UnsafeCell<SigInfo>,
}

// SAFETY: `info` belongs to the one who made `state` BUSY.
unsafe impl Sync for Slot {}

static SLOTS: [Slot; 6] = [const {
    Slot {
        state: AtomicU32::new(EMPTY),
        info: UnsafeCell::new(SigInfo::NONE),
    }
}; 6];

/// Place of a synchronous signal among them.
pub fn slot(signal: u32) -> usize {
    let below = SigSet::only(signal).0 - 1;
    (SigSet::SYNCHRONOUS.0 & below).count_ones() as usize
}

/// Keeps a signal. `false`: not now; one that is here already is not kept twice.
pub fn put(signal: u32, info: &SigInfo) -> bool {
    let slot = &SLOTS[slot(signal)];
    match slot.state.compare_exchange(EMPTY, BUSY, SeqCst, SeqCst) {
        Ok(_) => {
            // SAFETY: ours while BUSY.
            unsafe { *slot.info.get() = *info };
            slot.state.store(FULL, SeqCst);
            true
        }
        Err(state) => state == FULL,
    }
}

/// Takes a signal.
pub fn take(signal: u32) -> Option<SigInfo> {
    let slot = &SLOTS[slot(signal)];
    slot.state
        .compare_exchange(FULL, BUSY, SeqCst, SeqCst)
        .ok()?;
    // SAFETY: ours while BUSY.
    let info = unsafe { *slot.info.get() };
    slot.state.store(EMPTY, SeqCst);
    Some(info)
}

/// All that are here.
pub fn all() -> SigSet {
    (1..=31)
        .filter(|&signal| SigSet::SYNCHRONOUS.has(signal))
        .filter(|&signal| SLOTS[slot(signal)].state.load(SeqCst) == FULL)
        .fold(SigSet::EMPTY, |set, signal| set.with(SigSet::only(signal)))
}

/// A forked child has no pending signals.
pub fn clear() {
    for slot in &SLOTS {
        slot.state.store(EMPTY, SeqCst);
    }
    for waiter in &WAITERS {
        waiter.tid.store(FREE, SeqCst);
    }
}

const FREE: u32 = 0;
const CLAIMED: u32 = u32::MAX;

struct Waiter {
    tid: AtomicU32,
    set: AtomicU64,
}

/// Threads beyond these wait for what is sent to them alone.
static WAITERS: [Waiter; 64] = [const {
    Waiter {
        tid: AtomicU32::new(FREE),
        set: AtomicU64::new(0),
    }
}; 64];

/// The calling thread waits for signals until this is dropped.
#[derive(Debug)]
pub struct Waits(Option<usize>);

/// The calling thread begins to wait for signals of `set`, which the kernel blocks.
pub fn wait_for(set: SigSet) -> Waits {
    let claim = |waiter: &Waiter| {
        let free = waiter.tid.compare_exchange(FREE, CLAIMED, SeqCst, SeqCst);
        free.is_ok()
    };
    let index = WAITERS.iter().position(claim);
    if let Some(index) = index {
        WAITERS[index].set.store(set.0, SeqCst);
        WAITERS[index].tid.store(sys::gettid(), SeqCst);
    }
    Waits(index)
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(index) = self.0 {
            WAITERS[index].tid.store(FREE, SeqCst);
        }
    }
}

/// A thread that waits for `signal`.
pub fn waiter(signal: u32) -> Option<u32> {
    WAITERS.iter().find_map(|waiter| {
        let waits = SigSet(waiter.set.load(SeqCst)).has(signal);
        let tid = waiter.tid.load(SeqCst);
        (waits && tid != FREE && tid != CLAIMED).then_some(tid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::signal::{SIGBUS, SIGSEGV, SIGTRAP};

    #[test]
    fn a_signal_is_kept_once_and_found_by_who_waits() {
        let mut info = SigInfo::NONE;
        info.errno = 1;
        assert!(put(SIGSEGV, &info));
        info.errno = 2;
        assert!(put(SIGSEGV, &info));
        assert_eq!(all(), SigSet::only(SIGSEGV));
        assert_eq!(take(SIGSEGV).map(|info| info.errno), Some(1));
        assert!(take(SIGSEGV).is_none());
        assert_eq!(waiter(SIGTRAP), None);
        let waits = wait_for(SigSet::only(SIGTRAP));
        assert_eq!(waiter(SIGTRAP), Some(sys::gettid()));
        assert_eq!(waiter(SIGBUS), None);
        drop(waits);
        assert_eq!(waiter(SIGTRAP), None);
    }
}
