//! Edited files of a process: where they find each other, and their counters.
//!
//! A file that was edited alone has its state in its own data. Files that were edited together have one, in memory at an
//! address that all of them know: the first that is entered maps it, and the kernel lets one do so. Where something else is there, the
//! next address is tried.

use core::sync::atomic::{AtomicU64, Ordering};

use wire::counters::{
    ANCHOR, ANCHOR_DISTANCE, ANCHOR_MAGIC, ANCHORS, COUNTERS, Configuration, FIRST, FileHeader, MODULES,
    Module, Process, SPARE, SlotHead, State,
};

use crate::{calls, files};

/// The state of a file's process.
///
/// # Safety
/// `own` is the file's own data.
pub unsafe fn state(configuration: &Configuration, own: *mut State) -> *mut State {
    if configuration.group == 0 {
        return own;
    }
    for number in 0..ANCHORS {
        let at = ANCHOR + number * ANCHOR_DISTANCE;
        let state = at as *mut State;
        match calls::memory_at(at, SPARE + FIRST + configuration.window) {
            Ok(()) => {
                // SAFETY: new memory, which others look at when the word is there.
                unsafe {
                    (*state).group = configuration.group;
                    let magic = AtomicU64::from_ptr(&raw mut (*state).magic);
                    magic.store(ANCHOR_MAGIC, Ordering::Release);
                }
                return state;
            }
            Err(calls::EXISTS) => {}
            Err(_) => break,
        }
        // SAFETY: memory that can be read, of a state or of the program.
        unsafe {
            if !is_state(state) {
                continue;
            }
            if (*state).group == configuration.group {
                return state;
            }
            // Its threads' memory is at the same register.
            say_and_end(OTHERS);
        }
    }
    say_and_end(NO_MEMORY)
}

const OTHERS: &[u8] = b"everypath: files of two edits with counters are in one process, which cannot be; edit them together\n";
const NO_MEMORY: &[u8] =
    b"everypath: there is no address space for the counters of this program and its libraries\n";

fn say_and_end(sentence: &[u8]) -> ! {
    calls::say(sentence.as_ptr(), sentence.len());
    calls::end(125)
}

/// Whether a state is at an address where something is; one that is being made is waited for.
///
/// # Safety
/// The address is one of states, and not at the end of the address space.
unsafe fn is_state(state: *mut State) -> bool {
    for _ in 0..TURNS {
        if !calls::is_readable(state as u64) {
            return false;
        }
        // SAFETY: it can be read; the first page of mapped memory has all words before the modules.
        let word = unsafe { AtomicU64::from_ptr(&raw mut (*state).magic).load(Ordering::Acquire) };
        match word {
            ANCHOR_MAGIC => return true,
            0 => calls::yield_now(),
            _ => return false,
        }
    }
    false
}

/// Looks at a state that another thread is making, before it is taken for something else.
const TURNS: u32 = 100_000;

/// Gives an edited file its counters in the memory of all threads that have some.
///
/// # Safety
/// The caller has the lock.
pub unsafe fn add(configuration: &Configuration, state: *mut State) {
    // SAFETY: a state that only the holder of the lock uses; addresses in it are those of memory that is never given back.
    unsafe {
        let process = (*state).process as *mut Process;
        if process.is_null() {
            return;
        }
        for number in 0..(*state).count {
            let known = module(state, number);
            // One that was unloaded, and loaded again.
            if (*known).id == configuration.id && (*known).at == configuration.at {
                (*known).configuration = configuration as *const Configuration as u64;
                return;
            }
        }
        let header = (*process).header as *mut FileHeader;
        let number = (*state).count;
        if number >= MODULES as u64 {
            if !header.is_null() {
                (*header).lost_modules += 1;
            }
            return;
        }
        // All files append to one lane, which is the first one's.
        let bytes = match (configuration.form, number) {
            (COUNTERS, _) | (_, 0) => configuration.bytes,
            _ => 0,
        };
        let address = configuration as *const Configuration as u64;
        module(state, number).write(Module {
            id: configuration.id,
            bias: address.wrapping_sub(configuration.link),
            at: configuration.at,
            bytes,
            configuration: address,
        });
        (*state).count = number + 1;
        if !header.is_null() {
            tell(header, state, number);
        }
        let mut slot = (*process).first as *mut SlotHead;
        while !slot.is_null() {
            if !files::map_chunk(state, process, slot, number) {
                files::lose(process);
            }
            slot = (*slot).next as *mut SlotHead;
        }
    }
}

/// A module of a state, by its number, which is below [`MODULES`].
///
/// # Safety
/// The state is valid.
pub unsafe fn module(state: *mut State, number: u64) -> *mut Module {
    // SAFETY: the caller's duty.
    unsafe {
        (&raw mut (*state).modules)
            .cast::<Module>()
            .add(number as usize)
    }
}

/// Writes a module of a state into the head of the file.
///
/// # Safety
/// The header is mapped, and the caller has the lock.
pub unsafe fn tell(header: *mut FileHeader, state: *mut State, number: u64) {
    // SAFETY: the caller's duty.
    unsafe {
        let own = (&raw mut (*header).modules).cast::<Module>();
        own.add(number as usize).write(*module(state, number));
        (*header).count = number + 1;
    }
}
