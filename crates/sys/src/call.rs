//! The calls the engine and the launcher make themselves.

use crate::nr;
use crate::raw::syscall;
use crate::signal::{SigAction, SigSet, SigStack};
use crate::types::{MmMap, Result, Stat, Timespec, check};

/// # Safety
/// With `MAP_FIXED` the range must belong to the caller.
pub unsafe fn mmap(
    addr: u64,
    len: u64,
    prot: u32,
    flags: u32,
    fd: i32,
    offset: u64,
) -> Result<u64> {
    // SAFETY: mmap reads no memory of ours; overlaying is the caller's duty.
    check(unsafe {
        syscall(
            nr::MMAP,
            [
                addr as usize,
                len as usize,
                prot as usize,
                flags as usize,
                fd as isize as usize,
                offset as usize,
            ],
        )
    })
    .map(|addr| addr as u64)
}

/// # Safety
/// Nothing may use the range afterwards.
pub unsafe fn munmap(addr: u64, len: u64) -> Result<()> {
    // SAFETY: the caller gives the range up.
    check(unsafe { syscall(nr::MUNMAP, [addr as usize, len as usize, 0, 0, 0, 0]) }).map(drop)
}

/// Maps what is mapped shared at `from` at `to`, too.
///
/// # Safety
/// What is at `to` is the caller's, and nothing uses it.
pub unsafe fn map_again(from: u64, len: u64, to: u64) -> Result<()> {
    const MAYMOVE_FIXED: usize = 3;
    // SAFETY: with an old length of 0 nothing is moved; `to` is the caller's duty.
    let mapped = unsafe {
        syscall(
            nr::MREMAP,
            [
                from as usize,
                0,
                len as usize,
                MAYMOVE_FIXED,
                to as usize,
                0,
            ],
        )
    };
    check(mapped).map(drop)
}

/// # Safety
/// No code may rely on rights that are taken away.
pub unsafe fn mprotect(addr: u64, len: u64, prot: u32) -> Result<()> {
    // SAFETY: only rights change.
    check(unsafe {
        syscall(
            nr::MPROTECT,
            [addr as usize, len as usize, prot as usize, 0, 0, 0],
        )
    })
    .map(drop)
}

/// # Safety
/// `MADV_DONTNEED` and its like destroy contents.
pub unsafe fn madvise(addr: u64, len: u64, advice: u32) -> Result<()> {
    // SAFETY: the caller owns the range.
    check(unsafe {
        syscall(
            nr::MADVISE,
            [addr as usize, len as usize, advice as usize, 0, 0, 0],
        )
    })
    .map(drop)
}

/// Opens a path given as NUL-terminated bytes.
pub fn open(path: &core::ffi::CStr, flags: u32) -> Result<i32> {
    openat(crate::AT_FDCWD, path.as_ptr() as u64, flags)
}

/// Opens a path at an address of the program; a bad address is `EFAULT`.
pub fn openat(dir: i32, path: u64, flags: u32) -> Result<i32> {
    // SAFETY: the kernel validates the pointer.
    check(unsafe {
        syscall(
            nr::OPENAT,
            [
                dir as isize as usize,
                path as usize,
                flags as usize,
                0,
                0,
                0,
            ],
        )
    })
    .map(|fd| fd as i32)
}

pub fn close(fd: i32) {
    // SAFETY: closes a descriptor of ours.
    unsafe { syscall(nr::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Whether exec closes the descriptor; `false` if it is not open.
pub fn is_cloexec(fd: i32) -> bool {
    const F_GETFD: usize = 1;
    // SAFETY: only asks.
    let flags = unsafe { syscall(nr::FCNTL, [fd as usize, F_GETFD, 0, 0, 0, 0]) };
    flags > 0 && flags & 1 != 0
}

pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: the kernel writes within `buffer`.
    check(unsafe {
        syscall(
            nr::PREAD64,
            [
                fd as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                offset as usize,
                0,
                0,
            ],
        )
    })
}

pub fn pwrite(fd: i32, bytes: &[u8], offset: u64) -> Result<usize> {
    let (at, len) = (bytes.as_ptr() as usize, bytes.len());
    let args = [fd as usize, at, len, offset as usize, 0, 0];
    // SAFETY: the kernel reads `bytes`.
    check(unsafe { syscall(nr::PWRITE64, args) })
}

/// The offset at which the next read of a file begins.
pub fn position(fd: i32) -> Result<u64> {
    const SEEK_CUR: usize = 1;
    // SAFETY: only asks.
    let position = unsafe { syscall(nr::LSEEK, [fd as usize, 0, SEEK_CUR, 0, 0, 0]) };
    check(position).map(|position| position as u64)
}

/// Gives a file this length.
pub fn truncate(fd: i32, len: u64) -> Result<()> {
    // SAFETY: changes a file; Rust's memory is not mapped from it.
    let result = unsafe { syscall(nr::FTRUNCATE, [fd as usize, len as usize, 0, 0, 0, 0]) };
    check(result).map(|_| ())
}

pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes within `buffer`.
    check(unsafe {
        syscall(
            nr::READ,
            [
                fd as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
                0,
            ],
        )
    })
}

pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads within `bytes`.
    check(unsafe {
        syscall(
            nr::WRITE,
            [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
        )
    })
}

pub fn fstat(fd: i32) -> Result<Stat> {
    let mut stat = Stat::default();
    // SAFETY: the kernel fills `stat`.
    check(unsafe { syscall(nr::FSTAT, [fd as usize, &raw mut stat as usize, 0, 0, 0, 0]) })?;
    Ok(stat)
}

/// Whether an open file has an extended attribute.
pub fn has_attribute(fd: i32, name: &core::ffi::CStr) -> bool {
    // SAFETY: the kernel reads a C string, and writes nothing: the size is 0.
    let size = unsafe {
        syscall(
            nr::FGETXATTR,
            [fd as usize, name.as_ptr() as usize, 0, 0, 0, 0],
        )
    };
    check(size).is_ok()
}

pub fn geteuid() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall(nr::GETEUID, [0; 6]) as u32 }
}

/// `readlinkat` of a path at an address; returns the length written.
pub fn readlink(path: &core::ffi::CStr, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel reads a C string and writes within `buffer`.
    check(unsafe {
        syscall(
            nr::READLINK,
            [
                path.as_ptr() as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
                0,
            ],
        )
    })
}

pub fn faccessat(dir: i32, path: u64, mode: u32, flags: u32) -> Result<()> {
    // SAFETY: the kernel validates the pointer.
    check(unsafe {
        syscall(
            nr::FACCESSAT2,
            [
                dir as isize as usize,
                path as usize,
                mode as usize,
                flags as usize,
                0,
                0,
            ],
        )
    })
    .map(drop)
}

pub fn memfd_create(name: &core::ffi::CStr, flags: u32) -> Result<i32> {
    // SAFETY: the kernel reads a C string.
    check(unsafe {
        syscall(
            nr::MEMFD_CREATE,
            [name.as_ptr() as usize, flags as usize, 0, 0, 0, 0],
        )
    })
    .map(|fd| fd as i32)
}

pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall(nr::GETTID, [0; 6]) as u32 }
}

pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall(nr::GETPID, [0; 6]) as u32 }
}

/// Process group of a process, 0: this one. 0 is a group that is in no namespace of the caller, as that of
/// process 1 of a new one.
pub fn getpgid(pid: u32) -> Result<u32> {
    // SAFETY: no pointers.
    let group = unsafe { syscall(nr::GETPGID, [pid as usize, 0, 0, 0, 0, 0]) };
    check(group).map(|group| group as u32)
}

pub fn tgkill(tgid: u32, tid: u32, signal: u32) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe {
        syscall(
            nr::TGKILL,
            [tgid as usize, tid as usize, signal as usize, 0, 0, 0],
        )
    })
    .map(drop)
}

/// A child with a copy of memory, whose end sends no signal and which only
/// [`reap`] sees. Returns its number, and 0 in the child.
///
/// # Safety
/// The child has this thread only; memory that is shared stays shared.
pub unsafe fn fork_unseen() -> Result<u32> {
    // SAFETY: no flags: the child goes on here on a copy of this stack.
    check(unsafe { syscall(nr::CLONE, [0; 6]) }).map(|pid| pid as u32)
}

/// Waits for the end of a child, whatever signal it sends.
pub fn reap(pid: u32) -> Result<()> {
    const WALL: usize = 0x4000_0000;
    loop {
        // SAFETY: no status is asked for.
        match check(unsafe { syscall(nr::WAIT4, [pid as usize, 0, WALL, 0, 0, 0]) }) {
            Err(crate::Errno::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

pub fn exit_group(code: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { syscall(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]) };
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = Timespec::default();
    // SAFETY: the kernel fills `time`.
    unsafe { syscall(nr::CLOCK_GETTIME, [1, &raw mut time as usize, 0, 0, 0, 0]) };
    time.sec as u64 * 1_000_000_000 + time.nsec as u64
}

/// Nanoseconds that all threads of a process have executed until now; `None`: there is no such process.
pub fn executed_ns(pid: u32) -> Option<u64> {
    /// Kind of a clock that is named by a process: time on a processor (clock_getcpuclockid(3)).
    const EXECUTED: usize = 2;
    let clock = (!(pid as usize)) << 3 | EXECUTED;
    let mut time = Timespec::default();
    // The kernel takes the clock as an `int`.
    let arguments = [clock as u32 as usize, &raw mut time as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills `time`, or says that there is no such clock.
    let error = unsafe { syscall(nr::CLOCK_GETTIME, arguments) };
    (error == 0).then_some(time.sec as u64 * 1_000_000_000 + time.nsec as u64)
}

/// Sleeps while `*word == expected`, at most `timeout`.
pub fn futex_wait(
    word: &core::sync::atomic::AtomicU32,
    expected: u32,
    timeout: Option<Timespec>,
) -> Result<()> {
    let timeout = timeout
        .as_ref()
        .map_or(0, |t| t as *const Timespec as usize);
    // SAFETY: the word outlives the call; the timeout too.
    check(unsafe {
        syscall(
            nr::FUTEX,
            [
                word.as_ptr() as usize,
                crate::FUTEX_WAIT as usize,
                expected as usize,
                timeout,
                0,
                0,
            ],
        )
    })
    .map(drop)
}

pub fn futex_wake(word: &core::sync::atomic::AtomicU32, count: u32) {
    // SAFETY: wakes sleepers only.
    unsafe {
        syscall(
            nr::FUTEX,
            [
                word.as_ptr() as usize,
                crate::FUTEX_WAKE as usize,
                count as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// # Safety
/// `action.handler` must be able to run at any instruction.
pub unsafe fn sigaction(
    signal: u32,
    action: Option<&SigAction>,
    old: Option<&mut SigAction>,
) -> Result<()> {
    let action = action.map_or(0, |a| a as *const SigAction as usize);
    let old = old.map_or(0, |a| a as *mut SigAction as usize);
    // SAFETY: pointers are to live structures of the kernel's layout.
    check(unsafe { syscall(nr::RT_SIGACTION, [signal as usize, action, old, 8, 0, 0]) }).map(drop)
}

/// Changes this thread's signal mask and returns the old one.
pub fn sigprocmask(how: u32, set: SigSet) -> SigSet {
    let mut old = SigSet::EMPTY;
    // SAFETY: pointers are to live sets.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [
                how as usize,
                &raw const set as usize,
                &raw mut old as usize,
                8,
                0,
                0,
            ],
        )
    };
    old
}

/// # Safety
/// The stack must stay mapped as long as it is installed.
pub unsafe fn sigaltstack(new: &SigStack) -> Result<()> {
    // SAFETY: reads one structure.
    check(unsafe {
        syscall(
            nr::SIGALTSTACK,
            [new as *const SigStack as usize, 0, 0, 0, 0, 0],
        )
    })
    .map(drop)
}

pub fn arch_prctl(code: u32, addr: u64) -> Result<()> {
    // SAFETY: the SET forms take a value; callers of GET pass a live word.
    check(unsafe { syscall(nr::ARCH_PRCTL, [code as usize, addr as usize, 0, 0, 0, 0]) }).map(drop)
}

/// Whether the thread may not read the time-stamp counter (`prctl(PR_GET_TSC)`).
pub fn is_tsc_forbidden() -> bool {
    let mut mode = 0u32;
    // SAFETY: writes one int.
    let got = check(unsafe {
        syscall(
            nr::PRCTL,
            [
                crate::PR_GET_TSC as usize,
                &raw mut mode as usize,
                0,
                0,
                0,
                0,
            ],
        )
    });
    got.is_ok() && mode == crate::PR_TSC_SIGSEGV
}

/// `prctl(PR_SET_NAME)`; `name` ends with NUL.
pub fn set_name(name: &[u8; 16]) {
    // SAFETY: reads at most 16 bytes.
    unsafe {
        syscall(
            nr::PRCTL,
            [
                crate::PR_SET_NAME as usize,
                name.as_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    };
}

/// `prctl(PR_SET_MM, PR_SET_MM_MAP)`.
pub fn set_mm_map(map: &MmMap) -> Result<()> {
    // SAFETY: reads one structure of the size given.
    check(unsafe {
        syscall(
            nr::PRCTL,
            [
                crate::PR_SET_MM as usize,
                crate::PR_SET_MM_MAP as usize,
                map as *const MmMap as usize,
                size_of::<MmMap>(),
                0,
                0,
            ],
        )
    })
    .map(drop)
}

/// Moves or queries the program break; returns where it is.
pub fn brk(addr: u64) -> u64 {
    // SAFETY: addr 0 only asks; others move the program's own break.
    unsafe { syscall(nr::BRK, [addr as usize, 0, 0, 0, 0, 0]) as u64 }
}
