//! Counters of threads.

use core::sync::atomic::{AtomicU64, Ordering};

use wire::counters::{
    CALLS, CHUNK_HEAD, CONTEXTS, Configuration, EVENTS, FIRST, FUZZER, FileHeader, LANE, NOWHERE, NUMBERED,
    Process, SEVERAL, SPARE, SlotHead, State,
};

use crate::{calls, contexts, files, modules, stream};

/// Most bytes of counters of threads in a file that has those of each for itself. Beyond it, and beyond [`NUMBERED`]
/// threads, a thread goes on with the counters of one that ended.
const MOST_APART: u64 = 64 << 20;

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

/// Gives the thread with a pointer its counters: new ones, or if there are many, those of a thread that ended and had the same
/// pointer. The first thread of a static program keeps those that it had before it had a pointer.
///
/// # Safety
/// The caller has the lock, and the process has begun.
pub unsafe fn take(configuration: &Configuration, state: *mut State, own: u64) {
    let number = calls::thread_number();
    // SAFETY: addresses in the state are those of memory that is never given back.
    unsafe {
        let process = (*state).process as *mut Process;
        if process.is_null() {
            use_spare(configuration, state);
            return;
        }
        // A forked child has another number, and what its parent had; a new thread has its creator's.
        let now = calls::gs() as *const SlotHead;
        if configuration.place == NOWHERE && own != 0 && is_slot(process, now) && (*now).owner == own {
            return;
        }
        let mut slot = (*process).first as *mut SlotHead;
        while !slot.is_null() {
            if (*slot).owner == 0 && (*slot).thread == number {
                (*slot).owner = own;
                calls::set_gs(slot as u64);
                return;
            }
            if (*slot).owner == own && own != 0 {
                if (*slot).thread == number || !is_room_apart(state, process) {
                    if matches!(configuration.form, CONTEXTS | EVENTS | CALLS) && (*slot).thread != number {
                        contexts::begin(slot as u64 + FIRST);
                    }
                    share(process, slot, number);
                    calls::set_gs(slot as u64);
                    return;
                }
                // The thread that it belonged to has ended.
                (*slot).owner = 0;
                break;
            }
            slot = (*slot).next as *mut SlotHead;
        }
        let Ok(new) = memory(configuration, process) else {
            files::lose(process);
            use_spare(configuration, state);
            return;
        };
        let head = new as *mut SlotHead;
        // Without a file it has no place there.
        (*head).slot = u64::MAX;
        if configuration.place != NOWHERE && !files::map_slot(state, process, head) {
            files::lose(process);
        }
        match configuration.form {
            LANE => stream::begin(new + FIRST + configuration.at, own),
            CONTEXTS => contexts::begin(new + FIRST),
            EVENTS | CALLS => begin_events(configuration, state, new, own),
            _ => {}
        }
        put_first(process, head, own, number);
    }
}

/// Puts new memory at the front of the process's, and has the calling thread use it.
///
/// # Safety
/// The caller has the lock, and the process has begun.
unsafe fn put_first(process: *mut Process, head: *mut SlotHead, own: u64, number: u64) {
    // SAFETY: the caller's duty.
    unsafe {
        (*head).owner = own;
        (*head).thread = number;
        (*head).address = head as u64;
        (*head).next = (*process).first;
        (*process).first = head as u64;
    }
    calls::set_gs(head as u64);
}

/// Has the memory of a thread's contexts begin, and the lane of events behind it. A forked child goes on with its parent's calls: its
/// memory is the same but for the first page, which is zero.
///
/// # Safety
/// The caller has the lock, the process has begun, and the memory is new.
unsafe fn begin_events(configuration: &Configuration, state: *mut State, new: u64, own: u64) {
    // SAFETY: the caller's duty. The first thread of a process has `%gs` from its parent, if there is any.
    unsafe {
        stream::begin(new + FIRST + configuration.at, own);
        let now = calls::gs() as *const SlotHead;
        let is_first = (*((*state).process as *const Process)).first == 0 && !now.is_null();
        match is_first && now as u64 != state as u64 + SPARE && (*now).owner == 0 {
            true => contexts::copy(now as u64 + FIRST, new + FIRST),
            false => contexts::begin(new + FIRST),
        }
    }
}

/// Gives the calling thread the memory of all for which there is no other.
///
/// # Safety
/// The caller has the lock.
unsafe fn use_spare(configuration: &Configuration, state: *mut State) {
    let spare = state as u64 + SPARE;
    if matches!(configuration.form, CONTEXTS | EVENTS | CALLS) {
        // SAFETY: the editor keeps room for it behind the state.
        unsafe { contexts::begin(spare + FIRST) };
    }
    calls::set_gs(spare);
}

/// Memory for a thread.
///
/// # Safety
/// The process has begun.
unsafe fn memory(configuration: &Configuration, process: *const Process) -> sys::Result<u64> {
    match configuration.place {
        // A child of a program that is fuzzed goes on with its parent's.
        FUZZER => {
            // SAFETY: the caller's duty.
            let map = unsafe { (*process).fuzzer }.checked_sub(1);
            let map = map.map_or(0, |map| calls::length_of(map as usize));
            calls::memory_kept(FIRST + configuration.window.max(map))
        }
        NOWHERE => calls::memory_kept(FIRST + configuration.window),
        _ => calls::memory(FIRST + configuration.window),
    }
}

/// Whether memory is that of a thread.
///
/// # Safety
/// The process has begun.
unsafe fn is_slot(process: *const Process, memory: *const SlotHead) -> bool {
    // SAFETY: the caller's duty; slots are never given back.
    unsafe {
        let mut slot = (*process).first as *const SlotHead;
        while !slot.is_null() && slot != memory {
            slot = (*slot).next as *const SlotHead;
        }
        !slot.is_null()
    }
}

/// Whether a thread that begins has counters to itself, though there are those of one that ended.
///
/// # Safety
/// The process has begun.
unsafe fn is_room_apart(state: *mut State, process: *const Process) -> bool {
    // SAFETY: the caller's duty.
    unsafe {
        let mut bytes = 0;
        for number in 0..(*state).count {
            bytes += CHUNK_HEAD + (*modules::module(state, number)).bytes;
        }
        let slots = (*process).slots;
        (*process).header != 0
            && slots < NUMBERED as u64
            && (*process).end.saturating_add(bytes) <= MOST_APART
    }
}

/// The thread of this number goes on with counters of a slot, perhaps of another thread.
///
/// # Safety
/// The caller has the lock, and the process has begun.
unsafe fn share(process: *mut Process, slot: *mut SlotHead, number: u64) {
    // SAFETY: the header is mapped as long as the process is there.
    unsafe {
        let header = (*process).header as *mut FileHeader;
        if (*slot).thread != number && !header.is_null() {
            files::name_thread(header, (*slot).slot, SEVERAL);
        }
        (*slot).thread = number;
    }
}
