//! System calls.

use core::mem::{MaybeUninit, offset_of};

use sys::nr;
use sys::raw::syscall_outside as syscall;
use sys::types::{Result, check};
use wire::counters::SlotHead;

pub const PAGE: u64 = 4096;
const READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
/// A forked child finds zeros there (madvise(2)).
const MADV_WIPEONFORK: usize = 18;
const SIG_BLOCK: usize = 0;
const SIG_SETMASK: usize = 2;
const ARCH_SET_GS: usize = 0x1001;
const ARCH_GET_FS: usize = 0x1003;
const ARCH_GET_GS: usize = 0x1004;
const RLIMIT_FSIZE: usize = 1;
const IPC_STAT: usize = 2;
const SHM_REMAP: usize = 0o40000;
/// Words of what is known of memory of System V.
const ABOUT: usize = 14;
const SIGCHLD: usize = 17;
const SIGCONT: usize = 18;
const SIGSTOP: usize = 19;
const WUNTRACED: usize = 2;
const AT_FDCWD: usize = -100isize as usize;

/// The thread pointer; 0: a static program has not set up its first thread yet.
pub fn thread() -> u64 {
    let mut base = 0u64;
    // SAFETY: the kernel writes a word.
    unsafe {
        syscall(
            nr::ARCH_PRCTL,
            [ARCH_GET_FS, &raw mut base as usize, 0, 0, 0, 0],
        )
    };
    if base == 0 {
        return 0;
    }
    let pointer: u64;
    // SAFETY: the first word of the block of a thread is its own address (System V ABI, x86-64 TLS).
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly)) };
    pointer
}

pub fn pid() -> u64 {
    // SAFETY: it takes nothing and changes nothing.
    unsafe { syscall(nr::GETPID, [0; 6]) as u64 }
}

/// Number of the thread.
pub fn thread_number() -> u64 {
    // SAFETY: as above.
    unsafe { syscall(nr::GETTID, [0; 6]) as u64 }
}

pub fn parent() -> u64 {
    // SAFETY: as above.
    unsafe { syscall(nr::GETPPID, [0; 6]) as u64 }
}

pub fn yield_now() {
    // SAFETY: as above.
    unsafe { syscall(nr::SCHED_YIELD, [0; 6]) };
}

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes two words.
    unsafe {
        syscall(
            nr::CLOCK_GETTIME,
            [0, time.as_mut_ptr() as usize, 0, 0, 0, 0],
        )
    };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Blocks all signals; gives the mask before.
pub fn block_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0u64);
    let args = [
        SIG_BLOCK,
        &raw const all as usize,
        &raw mut before as usize,
        8,
        0,
        0,
    ];
    // SAFETY: both words are ours.
    unsafe { syscall(nr::RT_SIGPROCMASK, args) };
    before
}

pub fn restore_signals(mask: u64) {
    let args = [SIG_SETMASK, &raw const mask as usize, 0, 8, 0, 0];
    // SAFETY: the word is ours.
    unsafe { syscall(nr::RT_SIGPROCMASK, args) };
}

/// Has the thread's `%gs` begin at an address.
pub fn set_gs(addr: u64) {
    // SAFETY: the program does not use `%gs`, or it would not have been edited.
    unsafe { syscall(nr::ARCH_PRCTL, [ARCH_SET_GS, addr as usize, 0, 0, 0, 0]) };
}

/// Address at which the thread's `%gs` begins.
pub fn gs() -> u64 {
    let mut base = 0u64;
    // SAFETY: the kernel writes a word.
    unsafe {
        syscall(
            nr::ARCH_PRCTL,
            [ARCH_GET_GS, &raw mut base as usize, 0, 0, 0, 0],
        )
    };
    base
}

/// The base of `%gs` without a system call, once the thread has memory; 0: it has none.
pub fn own_memory() -> u64 {
    let address: u64;
    // SAFETY: who asks has `%gs` begin with a [`SlotHead`], or with zeros.
    unsafe {
        core::arch::asm!(
            "mov {}, gs:[{offset}]",
            out(reg) address,
            offset = const offset_of!(SlotHead, address),
            options(nostack, readonly)
        )
    };
    address
}

/// Memory of zeros at an address; an error if something is there, or there is no room.
pub fn memory_at(at: u64, len: u64) -> Result<()> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    let args = [at as usize, len as usize, READ_WRITE, flags, usize::MAX, 0];
    // SAFETY: new memory, and nothing gives way to it.
    let addr = check(unsafe { syscall(nr::MMAP, args) })? as u64;
    if addr == at {
        return Ok(());
    }
    // Before Linux 4.17 the flag is none, and the address a hint.
    // SAFETY: the memory is new, and nobody knows of it.
    unsafe { syscall(nr::MUNMAP, [addr as usize, len as usize, 0, 0, 0, 0]) };
    Err(EXISTS)
}

/// Memory of zeros.
pub fn memory_kept(len: u64) -> Result<u64> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    let args = [0, len as usize, READ_WRITE, flags, usize::MAX, 0];
    // SAFETY: new memory, where the kernel has room.
    check(unsafe { syscall(nr::MMAP, args) }).map(|addr| addr as u64)
}

/// Memory of zeros, whose first page is zero in a forked child again.
pub fn memory(len: u64) -> Result<u64> {
    let addr = memory_kept(len)?;
    let args = [addr as usize, PAGE as usize, MADV_WIPEONFORK, 0, 0, 0];
    // SAFETY: a page of the new memory.
    check(unsafe { syscall(nr::MADVISE, args) })?;
    Ok(addr)
}

/// Maps a part of a file, at an address if one is given.
///
/// # Safety
/// Memory at the address, if one is given, is the caller's.
pub unsafe fn map_file(at: u64, len: u64, file: i32, offset: u64) -> Result<u64> {
    let fixed = if at == 0 { 0 } else { MAP_FIXED };
    let args = [
        at as usize,
        len as usize,
        READ_WRITE,
        MAP_SHARED | fixed,
        file as usize,
        offset as usize,
    ];
    // SAFETY: the caller's duty.
    check(unsafe { syscall(nr::MMAP, args) }).map(|addr| addr as u64)
}

/// Bytes of memory of System V, by its number; 0: there is none.
pub fn length_of(memory: usize) -> u64 {
    let mut about = MaybeUninit::<[u64; ABOUT]>::zeroed();
    let args = [memory, IPC_STAT, about.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes a structure of 112 bytes.
    match check(unsafe { syscall(nr::SHMCTL, args) }) {
        // SAFETY: zeros, or what the kernel wrote. The length stands behind the rights, which have 48 bytes (shmctl(2)).
        Ok(_) => unsafe { about.assume_init()[6] },
        Err(_) => 0,
    }
}

/// Maps memory of System V, by its number, at an address.
///
/// # Safety
/// Memory at the address is the caller's, as much as is mapped.
pub unsafe fn attach(memory: usize, at: u64) -> bool {
    let args = [memory, at as usize, SHM_REMAP, 0, 0, 0];
    // SAFETY: the caller's duty.
    check(unsafe { syscall(nr::SHMAT, args) }).is_ok()
}

/// Makes a child, which has a copy of this thread alone; gives its number, and 0 in the child.
pub fn fork() -> Result<usize> {
    // SAFETY: the child goes on with a copy of all memory.
    check(unsafe { syscall(nr::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) })
}

/// The lowest byte of the status of a child that stopped.
pub const STOPPED: u32 = 0x7f;

/// Has a child that stopped go on.
pub fn go_on(child: usize) {
    // SAFETY: our own child.
    unsafe { syscall(nr::KILL, [child, SIGCONT, 0, 0, 0, 0]) };
}

/// Stops the process until another has it go on.
pub fn stop() {
    // SAFETY: it takes nothing.
    unsafe { syscall(nr::KILL, [pid() as usize, SIGSTOP, 0, 0, 0, 0]) };
}

/// Waits until a child ends or stops; gives its status.
pub fn wait(child: usize) -> Option<u32> {
    let mut status = 0u32;
    let args = [child, &raw mut status as usize, WUNTRACED, 0, 0, 0];
    // SAFETY: the kernel writes a word.
    let ended = check(unsafe { syscall(nr::WAIT4, args) });
    ended.is_ok_and(|ended| ended == child).then_some(status)
}

/// Writes a word to a pipe.
pub fn write_word(file: i32, word: u32) -> bool {
    let args = [file as usize, &raw const word as usize, 4, 0, 0, 0];
    // SAFETY: the kernel reads a word.
    check(unsafe { syscall(nr::WRITE, args) }) == Ok(4)
}

/// Reads a word from a pipe.
pub fn read_word(file: i32) -> Option<u32> {
    let mut word = 0u32;
    // SAFETY: the word has four bytes.
    let got = unsafe { read(file, (&raw mut word).cast(), 4) };
    (got == 4).then_some(word)
}

/// Opens a path.
///
/// # Safety
/// The path is readable up to a zero.
pub unsafe fn open(path: *const u8, flags: u32) -> Result<i32> {
    const MODE: usize = 0o666;
    let args = [AT_FDCWD, path as usize, flags as usize, MODE, 0, 0];
    // SAFETY: the caller's duty.
    check(unsafe { syscall(nr::OPENAT, args) }).map(|file| file as i32)
}

pub fn close(file: i32) {
    // SAFETY: our own descriptor.
    unsafe { syscall(nr::CLOSE, [file as usize, 0, 0, 0, 0, 0]) };
}

/// # Safety
/// The path is readable up to a zero.
pub unsafe fn remove(path: *const u8) {
    // SAFETY: the caller's duty.
    unsafe { syscall(nr::UNLINK, [path as usize, 0, 0, 0, 0, 0]) };
}

/// Bytes read of a file.
///
/// # Safety
/// The buffer has `len` bytes.
pub unsafe fn read(file: i32, buffer: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's duty.
    check(unsafe { syscall(nr::READ, [file as usize, buffer as usize, len, 0, 0, 0]) }).unwrap_or(0)
}

/// Writes to standard error; what cannot be written is lost.
pub fn say(text: *const u8, len: usize) {
    // SAFETY: the kernel reads, or says that it cannot.
    unsafe { syscall(nr::WRITE, [2, text as usize, len, 0, 0, 0]) };
}

/// Whether memory can be read: the kernel is asked for the target of a link with a path there.
pub fn is_readable(addr: u64) -> bool {
    let mut byte = 0u8;
    let args = [AT_FDCWD, addr as usize, &raw mut byte as usize, 1, 0, 0];
    // SAFETY: the kernel reads the path, or says that it cannot, and writes one byte at most.
    check(unsafe { syscall(nr::READLINKAT, args) }) != Err(FAULT)
}

/// Writes memory to a file at an offset; an error if there is none.
pub fn write_at(file: i32, addr: u64, len: usize, offset: u64) -> Result<()> {
    let args = [file as usize, addr as usize, len, offset as usize, 0, 0];
    // SAFETY: the kernel reads, or says that it cannot.
    match check(unsafe { syscall(nr::PWRITE64, args) })? {
        written if written == len => Ok(()),
        _ => Err(NO_ROOM),
    }
}

/// Ends the program.
pub fn end(status: usize) -> ! {
    loop {
        // SAFETY: it does not come back.
        unsafe { syscall(nr::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}

/// Bytes of the target of a link.
///
/// # Safety
/// The path is readable up to a zero, and the buffer has `len` bytes.
pub unsafe fn link(path: *const u8, buffer: *mut u8, len: usize) -> usize {
    let args = [AT_FDCWD, path as usize, buffer as usize, len, 0, 0];
    // SAFETY: the caller's duty.
    check(unsafe { syscall(nr::READLINKAT, args) }).unwrap_or(0)
}

/// Bytes of the path of the working folder.
///
/// # Safety
/// The buffer has `len` bytes.
pub unsafe fn folder(buffer: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's duty; the kernel counts the zero at the end.
    let written = check(unsafe { syscall(nr::GETCWD, [buffer as usize, len, 0, 0, 0, 0]) });
    written.unwrap_or(0).saturating_sub(1)
}

/// Makes a file longer, with room on the disk for its new bytes.
pub fn lengthen(file: i32, from: u64, len: u64) -> Result<()> {
    may_end_at(from.saturating_add(len))?;
    let args = [file as usize, 0, from as usize, len as usize, 0, 0];
    // SAFETY: our own descriptor.
    check(unsafe { syscall(nr::FALLOCATE, args) }).map(|_| ())
}

/// Whether a file may be so long.
pub fn may_end_at(end: u64) -> Result<()> {
    let mut limit = [0u64; 2];
    let args = [0, RLIMIT_FSIZE, 0, limit.as_mut_ptr() as usize, 0, 0];
    // A longer file would be answered by a signal.
    // SAFETY: the kernel writes two words.
    check(unsafe { syscall(nr::PRLIMIT64, args) })?;
    match end > limit[0] {
        true => Err(NO_ROOM),
        false => Ok(()),
    }
}

/// `ENOSPC`.
const NO_ROOM: sys::Errno = sys::Errno(28);
/// `EEXIST`.
pub const EXISTS: sys::Errno = sys::Errno(17);
/// `EFAULT`.
const FAULT: sys::Errno = sys::Errno(14);
