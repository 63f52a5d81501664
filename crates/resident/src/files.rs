//! The file of a process.

use core::mem::{MaybeUninit, offset_of};

use wire::counters::{
    ARGUMENTS, BESIDE, CHUNK_HEAD, CHUNK_MAGIC, ChunkHead, Configuration, FIRST, FOLDER,
    FOLDER_VARIABLE, FUZZER, FileHeader, HEAD, MAGIC, NOWHERE, NUMBERED, PATH, Process, SlotHead, State,
    VERSION,
};

use crate::{calls, fuzzer, modules};

const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;
const O_NOFOLLOW: u32 = 0o400_000;
const O_CLOEXEC: u32 = 0o2_000_000;
/// Images of one process that execute each other, each with a file of its own.
const MOST_IMAGES: u64 = 1000;
/// Most bytes of the path of the folder: the program's name comes behind.
const MOST_FOLDER: usize = 4096 - PATH - ROOM;
/// Bytes that a number and the ending of the file's name may need.
const ROOM: usize = 64;

/// Begins the counting of a process: a forked child, or the first one.
///
/// # Safety
/// The caller has the lock.
pub unsafe fn begin(configuration: &Configuration, state: *mut State, by_fork: bool) {
    // A child of a program that is fuzzed goes on as its parent, and one without files.
    let memory = match configuration.place {
        FUZZER | NOWHERE => calls::memory_kept(calls::PAGE),
        _ => calls::memory(calls::PAGE),
    };
    let Ok(memory) = memory else {
        return;
    };
    let process = memory as *mut Process;
    // SAFETY: new memory, and a state that only the holder of the lock uses.
    unsafe {
        (*process).alive = 1;
        if configuration.place == FUZZER {
            let memory = fuzzer::memory();
            (*process).fuzzer = memory.map_or(0, |memory| memory as u64 + 1);
            (*state).process = process as u64;
            return;
        }
        if configuration.place == NOWHERE {
            (*state).process = process as u64;
            return;
        }
        if (*state).stem == 0 {
            let path = &raw mut (*state).path;
            (*state).stem = stem(path, configuration).unwrap_or(0) as u64;
        }
        let made = make(state, by_fork);
        if made.is_none() && !by_fork && configuration.place != BESIDE {
            say_where(state);
        }
        (*process).header = made.unwrap_or(0);
        (*process).end = HEAD;
        (*state).process = memory;
    }
}

/// Writes the folder and the program's name; gives their bytes.
///
/// # Safety
/// The path is the caller's.
unsafe fn stem(path: *mut [u8; 4096], configuration: &Configuration) -> Option<usize> {
    let path = path.cast::<u8>();
    let is_beside = configuration.place == BESIDE;
    let mut name = MaybeUninit::<[u8; PATH]>::uninit();
    let name = name.as_mut_ptr().cast::<u8>();
    // SAFETY: both buffers have the bytes that are told, and room is left for the name behind the folder.
    let (len, folder) = unsafe {
        let len = calls::link(c"/proc/self/exe".as_ptr().cast(), name, PATH);
        let folder = match is_beside {
            true => 0,
            false => folder(path, configuration).unwrap_or(0),
        };
        (len, folder)
    };
    // A name that fills its buffer may be cut off.
    if len >= PATH || folder == 0 && !is_beside {
        return None;
    }
    let mut first = 0;
    // SAFETY: the kernel wrote `len` bytes of the name, and no more than were left for it in the path.
    unsafe {
        for at in 0..len {
            if *name.add(at) == b'/' {
                first = at + 1;
            }
        }
        if is_beside {
            for at in 0..len {
                put(path, at, *name.add(at));
            }
            return (first < len).then_some(len);
        }
        put(path, folder, b'/');
        for at in first..len {
            put(path, folder + 1 + at - first, *name.add(at));
        }
    }
    (first < len).then_some(folder + 1 + len - first)
}

/// Writes the path of the folder for files: that of the environment, else what the editor told, else the working folder. Gives
/// its bytes; `None`: it is too long.
///
/// # Safety
/// The path has [`MOST_FOLDER`] bytes.
unsafe fn folder(path: *mut u8, configuration: &Configuration) -> Option<usize> {
    // SAFETY: the caller's duty.
    unsafe {
        let mut len = variable(FOLDER_VARIABLE, path, MOST_FOLDER)?;
        if len == 0 {
            for &byte in configuration.folder.iter().take_while(|byte| **byte != 0) {
                put(path, len, byte);
                len += 1;
            }
        }
        if len > 0 && path.read_volatile() == b'/' {
            return Some(len);
        }
        // It is in the working folder, which may be another one later: that is put in front.
        let mut working = MaybeUninit::<[u8; PATH]>::uninit();
        let working = working.as_mut_ptr().cast::<u8>();
        let in_front = calls::folder(working, PATH);
        if in_front == 0 || len == 0 {
            for at in 0..in_front {
                put(path, at, *working.add(at));
            }
            return Some(in_front);
        }
        if in_front + 1 + len >= MOST_FOLDER {
            return None;
        }
        for at in (0..len).rev() {
            put(path, in_front + 1 + at, path.add(at).read_volatile());
        }
        for at in 0..in_front {
            put(path, at, *working.add(at));
        }
        put(path, in_front, b'/');
        Some(in_front + 1 + len)
    }
}

/// Writes the value of a variable of the environment, by its name, which a zero ends; gives its bytes, 0 if there is none. `None`: it
/// has as many as there is room for, or more.
///
/// # Safety
/// The value has room for so many bytes.
pub unsafe fn variable(name: &[u8], value: *mut u8, room: usize) -> Option<usize> {
    const CHUNK: usize = 512;
    let mut chunk = MaybeUninit::<[u8; CHUNK]>::uninit();
    let chunk = chunk.as_mut_ptr().cast::<u8>();
    // SAFETY: the kernel wrote `got` bytes of the chunk.
    unsafe {
        let Ok(file) = calls::open(c"/proc/self/environ".as_ptr().cast(), O_CLOEXEC) else {
            return Some(0);
        };
        // Bytes of the variable's name that were met; `None`: this is another one.
        let (mut met, mut len, mut fits) = (Some(0), 0, true);
        'all: loop {
            let got = calls::read(file, chunk, CHUNK);
            if got == 0 {
                break;
            }
            for at in 0..got {
                let byte = *chunk.add(at);
                let next = met.map(|met: usize| (met, name.get(met)));
                match (byte, next) {
                    (0, Some((_, None))) => break 'all,
                    (0, _) => met = Some(0),
                    (_, Some((_, None))) if len + 1 < room => {
                        put(value, len, byte);
                        len += 1;
                    }
                    (_, Some((_, None))) => fits = false,
                    (b'=', Some((so_far, Some(0)))) => met = Some(so_far + 1),
                    (_, Some((so_far, Some(&next)))) if next == byte => met = Some(so_far + 1),
                    _ => met = None,
                }
            }
        }
        calls::close(file);
        fits.then_some(len)
    }
}

/// Says that no file can be made, and what to do.
///
/// # Safety
/// The caller has the lock.
unsafe fn say_where(state: *mut State) {
    const BEFORE: &[u8] = b"everypath: counters cannot be written to '";
    const BEHIND: &[u8] = b"': nothing is counted; EVERYPATH_COUNTERS=DIR names another folder\n";
    // SAFETY: the path has its stem, of the folder and the program's name.
    unsafe {
        let path = (&raw const (*state).path).cast::<u8>();
        calls::say(BEFORE.as_ptr(), BEFORE.len());
        calls::say(path, (*state).stem as usize);
        calls::say(BEHIND.as_ptr(), BEHIND.len());
    }
}

/// Writes a byte, in a way that no compiler makes a call of `memcpy` of: there would be a table with its address.
///
/// # Safety
/// The path has more than `at` bytes.
unsafe fn put(path: *mut u8, at: usize, byte: u8) {
    // SAFETY: the caller's duty.
    unsafe { path.add(at).write_volatile(byte) };
}

/// Writes a dot and a number behind the first `at` bytes of a path; gives the bytes then.
///
/// # Safety
/// The path has 21 bytes more.
unsafe fn number(path: *mut u8, mut at: usize, mut value: u64) -> usize {
    let mut digits = [0u8; 20];
    let mut count = 0;
    while count == 0 || value > 0 {
        if let Some(digit) = digits.get_mut(count) {
            *digit = b'0' + (value % 10) as u8;
        }
        value /= 10;
        count += 1;
    }
    // SAFETY: `ROOM` bytes were left for it.
    unsafe {
        put(path, at, b'.');
        at += 1;
        while count > 0 {
            count -= 1;
            put(path, at, digits.get(count).copied().unwrap_or(b'0'));
            at += 1;
        }
    }
    at
}

/// Makes the file with its header; gives the address of that.
///
/// # Safety
/// The caller has the lock.
unsafe fn make(state: *mut State, by_fork: bool) -> Option<u64> {
    // SAFETY: a state that only the holder of the lock uses, whose path has room behind its stem.
    unsafe {
        let path = (&raw mut (*state).path).cast::<u8>();
        let stem = (*state).stem as usize;
        if stem == 0 {
            return None;
        }
        let pid = calls::pid();
        let mut file = None;
        for image in 0..MOST_IMAGES {
            let mut at = number(path, stem, pid);
            if image > 0 {
                at = number(path, at, image);
            }
            for byte in *b".evp\0" {
                put(path, at, byte);
                at += 1;
            }
            match calls::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW) {
                Ok(new) => {
                    file = Some(new);
                    break;
                }
                Err(sys::Errno(17)) => {}
                Err(_) => return None,
            }
        }
        let file = file?;
        let mapped =
            calls::lengthen(file, 0, HEAD).and_then(|()| calls::map_file(0, HEAD, file, 0));
        calls::close(file);
        let Ok(mapped) = mapped else {
            calls::remove(path);
            return None;
        };
        let header = mapped as *mut FileHeader;
        (*header).version = VERSION;
        (*header).by_fork = by_fork.into();
        (*header).pid = pid as u32;
        (*header).parent = calls::parent() as u32;
        (*header).started = calls::now();
        let own = (&raw mut (*header).path).cast();
        let len = calls::link(c"/proc/self/exe".as_ptr().cast(), own, PATH);
        (*header).path_len = len as u32;
        if let Ok(arguments) = calls::open(c"/proc/self/cmdline".as_ptr().cast(), O_CLOEXEC) {
            let own = (&raw mut (*header).arguments).cast();
            (*header).arguments_len = calls::read(arguments, own, ARGUMENTS) as u32;
            calls::close(arguments);
        }
        // A forked child has its parent's modules.
        for number in 0..(*state).count {
            modules::tell(header, state, number);
        }
        // A reader takes nothing without it for a file of counters.
        (&raw mut (*header).magic).write_volatile(MAGIC);
        Some(mapped)
    }
}

/// Gives a thread, whose memory is at `slot`, a number in the file, and maps its counters of all modules; `false`: some stay memory.
///
/// # Safety
/// The caller has the lock and the memory.
pub unsafe fn map_slot(state: *mut State, process: *mut Process, slot: *mut SlotHead) -> bool {
    // SAFETY: the header is mapped as long as the process is there, and the path is that of its file.
    unsafe {
        if let Some(memory) = (*process).fuzzer.checked_sub(1) {
            return fuzzer::map(slot, memory as usize);
        }
        let header = (*process).header as *mut FileHeader;
        if header.is_null() {
            return false;
        }
        (*slot).slot = (*process).slots;
        name_thread(header, (*process).slots, calls::thread_number() as u32);
        (*process).slots += 1;
        (*header).slots = (*process).slots;
        let mut is_whole = true;
        for number in 0..(*state).count {
            is_whole &= map_chunk(state, process, slot, number);
        }
        is_whole
    }
}

/// Maps a thread's counters of a module, by its number, from a new chunk of the file; `false`: they stay memory.
///
/// # Safety
/// The caller has the lock, and the slot is one of the process.
pub unsafe fn map_chunk(
    state: *mut State,
    process: *mut Process,
    slot: *mut SlotHead,
    number: u64,
) -> bool {
    // SAFETY: the header is mapped as long as the process is there, the path is that of its file, and memory behind the slot is
    // the thread's.
    unsafe {
        let header = (*process).header as *mut FileHeader;
        // One without a number had no room in the file before.
        if header.is_null() || (*slot).slot == u64::MAX {
            return false;
        }
        let Some(file) = again(state) else {
            return false;
        };
        let module = modules::module(state, number);
        let head = [u64::from_le_bytes(CHUNK_MAGIC), (*slot).slot, number];
        let (at, bytes) = ((*process).end, (*module).bytes);
        let own = slot as u64 + FIRST + (*module).at;
        let room = calls::lengthen(file, at, CHUNK_HEAD + bytes);
        let told = room.and_then(|()| {
            let path = (*module).configuration + offset_of!(Configuration, path) as u64;
            // The file may have been unloaded: the kernel says so.
            let _ = calls::write_at(file, path, FOLDER, at + offset_of!(ChunkHead, path) as u64);
            calls::write_at(file, head.as_ptr() as u64, size_of_val(&head), at)
        });
        let mapped = told.and_then(|()| match bytes {
            0 => Ok(()),
            _ => calls::map_file(own, bytes, file, at + CHUNK_HEAD).map(|_| ()),
        });
        calls::close(file);
        if mapped.is_err() {
            return false;
        }
        (*process).end = at + CHUNK_HEAD + bytes;
        (*header).chunks += 1;
        true
    }
}

/// Opens the file of the process.
///
/// # Safety
/// The caller has the lock, and the file was made.
pub unsafe fn again(state: *mut State) -> Option<i32> {
    // SAFETY: the path is that of the file.
    let path = unsafe { (&raw const (*state).path).cast::<u8>() };
    // SAFETY: it is ended by a zero.
    unsafe { calls::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) }.ok()
}

/// Says in the file that counts of a thread are not in it.
///
/// # Safety
/// The caller has the lock, and the process has begun.
pub unsafe fn lose(process: *mut Process) {
    // SAFETY: the header is mapped as long as the process is there.
    unsafe {
        let header = (*process).header as *mut FileHeader;
        if !header.is_null() {
            (*header).lost += 1;
        }
    }
}

/// Writes whose the counters of a slot are.
///
/// # Safety
/// The header is mapped, and the caller has the lock.
pub unsafe fn name_thread(header: *mut FileHeader, slot: u64, thread: u32) {
    if slot < NUMBERED as u64 {
        // SAFETY: the table has so many numbers.
        unsafe {
            let threads = (&raw mut (*header).threads).cast::<u32>();
            threads.add(slot as usize).write_volatile(thread);
        }
    }
}
