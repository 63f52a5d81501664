//! Calls about signals and processes that no library has: real-time signals, who sent a signal,
//! and a fork that goes on in both processes.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::Pid;
use sys::nr;
use sys::raw::syscall;
use sys::signal::{SIGSTOP, SigInfo, SigSet};

pub(crate) const SIGTSTP: u32 = 20;
pub(crate) const SIGTTIN: u32 = 21;
pub(crate) const SIGTTOU: u32 = 22;
/// Signals that stop a process, if it does not decide otherwise.
pub(crate) const STOPS: SigSet =
    SigSet(1 << (SIGSTOP - 1) | 1 << (SIGTSTP - 1) | 1 << (SIGTTIN - 1) | 1 << (SIGTTOU - 1));
/// `si_code` of kill(2), and of sigqueue(3).
pub(crate) const SI_USER: i32 = 0;
pub(crate) const SI_QUEUE: i32 = -1;

/// The process that a signal's information names as its sender.
pub(crate) fn sender(info: &SigInfo) -> Option<Pid> {
    Pid::from_raw(info.fields[0] as i32)
}

/// As kill(2). Who is gone gets nothing.
pub(crate) fn send(to: Pid, signal: u32) {
    kill(Pid::as_raw(Some(to)), signal);
}

/// As kill(2) of a process group.
pub(crate) fn send_group(to: Pid, signal: u32) {
    kill(-Pid::as_raw(Some(to)), signal);
}

fn kill(to: i32, signal: u32) {
    // SAFETY: no pointers.
    unsafe { syscall(nr::KILL, [to as usize, signal as usize, 0, 0, 0, 0]) };
}

/// As sigqueue(3), with the sender and the value that `info` has.
pub(crate) fn queue(to: Pid, info: &SigInfo) {
    let to = Pid::as_raw(Some(to)) as usize;
    let at = std::ptr::from_ref(info) as usize;
    // SAFETY: the kernel reads the 128 bytes of `info`.
    unsafe { syscall(nr::RT_SIGQUEUEINFO, [to, info.signo as usize, at, 0, 0, 0]) };
}

/// Takes a pending signal of `set`, all of which this thread blocks.
pub(crate) fn take(set: SigSet) -> Option<SigInfo> {
    let mut info = SigInfo::NONE;
    let at_once = [0_u64; 2];
    let (set, to) = (&raw const set as usize, &raw mut info as usize);
    let limit = &raw const at_once as usize;
    // SAFETY: the kernel reads a set of 8 bytes and a time of 16, and writes 128 bytes.
    let signal = unsafe { syscall(nr::RT_SIGTIMEDWAIT, [set, to, limit, 8, 0, 0]) };
    (signal > 0).then_some(info)
}

/// Signals that are pending, of those that this thread blocks.
pub(crate) fn pending() -> SigSet {
    let mut set = SigSet::EMPTY;
    let to = &raw mut set as usize;
    // SAFETY: the kernel writes 8 bytes.
    unsafe { syscall(nr::RT_SIGPENDING, [to, 8, 0, 0, 0, 0]) };
    set
}

/// Readable while a signal of `set` is pending.
pub(crate) fn readable(set: SigSet) -> io::Result<OwnedFd> {
    const CLOEXEC: usize = 0o2_000_000;
    let at = &raw const set as usize;
    // SAFETY: the kernel reads a set of 8 bytes.
    let made = unsafe { syscall(nr::SIGNALFD4, [usize::MAX, at, 8, CLOEXEC, 0, 0]) };
    if made < 0 {
        return Err(io::Error::from_raw_os_error(-made as i32));
    }
    // SAFETY: the descriptor is new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

/// Forks; `None` in the child.
///
/// # Safety
/// This is the process's only thread.
pub(crate) unsafe fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: fork(3) of the C library, which keeps what it knows of its threads right in the child.
    unsafe extern "C" {
        fn fork() -> i32;
    }
    // SAFETY: with one thread, no lock is held by another one that the child does not have.
    match unsafe { fork() } {
        ..0 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}
