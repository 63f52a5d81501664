//! Counters of threads.

use core::sync::atomic::{AtomicU64, Ordering};

use wire::counters::{FIRST, FileHeader, Process, SPARE, SlotHead, State, Told};

use crate::{calls, files};

/// Takes the lock of a process's state. That of a process which forked while another thread had it is nobody's.
///
/// # Safety
/// `state` is valid.
pub unsafe fn lock(state: *mut State) {
    let own = calls::pid();
    // SAFETY: the caller's duty; all use of the word is atomic.
    let word = unsafe { AtomicU64::from_ptr(&raw mut (*state).lock) };
    loop {
        let holder = word.load(Ordering::Relaxed);
        if holder != own
            && word
                .compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return;
        }
        calls::yield_now();
    }
}

/// Gives it back.
///
/// # Safety
/// The caller has the lock.
pub unsafe fn unlock(state: *mut State) {
    // SAFETY: as above.
    let word = unsafe { AtomicU64::from_ptr(&raw mut (*state).lock) };
    word.store(0, Ordering::Release);
}

/// Gives the thread the counters of one that ended and had the same thread pointer, or else new ones.
///
/// # Safety
/// The caller has the lock, and the process has begun.
pub unsafe fn take(told: &Told, state: *mut State) {
    let own = calls::thread();
    // SAFETY: addresses in the state are those of memory that is never given back.
    unsafe {
        let process = (*state).process as *mut Process;
        if process.is_null() {
            calls::set_gs(state as u64 + SPARE);
            return;
        }
        let mut slot = (*process).first as *mut SlotHead;
        while !slot.is_null() {
            if (*slot).owner == own {
                calls::set_gs(slot as u64);
                return;
            }
            slot = (*slot).next as *mut SlotHead;
        }
        let Ok(new) = calls::memory(FIRST + told.stride) else {
            lose(process);
            calls::set_gs(state as u64 + SPARE);
            return;
        };
        if !files::map_slot(told, state, process, new) {
            lose(process);
        }
        let head = new as *mut SlotHead;
        (*head).owner = own;
        (*head).next = (*process).first;
        (*process).first = new;
        calls::set_gs(new);
    }
}

/// Says in the file that a thread's counts are not in it.
///
/// # Safety
/// The caller has the lock, and the process has begun.
unsafe fn lose(process: *mut Process) {
    // SAFETY: the header is mapped as long as the process is there.
    unsafe {
        let header = (*process).header as *mut FileHeader;
        if !header.is_null() {
            (*header).lost += 1;
        }
    }
}
