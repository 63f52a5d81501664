//! System calls about signals: the kernel's checks and results, with the
//! engine's handlers behind the program's and the synchronous signals never
//! blocked (see `signals`).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sys::signal::{SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, SigAction, SigSet};
use sys::{Errno, nr};

use crate::memory;
use crate::signals::{self, Entry};
use crate::thread::Thread;

/// The flags that the kernel keeps; others read back as zero (`UAPI_SA_FLAGS`).
const KNOWN_FLAGS: u64 = 0xdc00_0807;

/// `rt_sigaction(signal, new, old, size)`. `change` is [`change_action`] under the engine's
/// lock, which is not held while the program's memory is read and written.
pub fn sigaction(
    args: [u64; 6],
    change: impl FnOnce(u32, Option<SigAction>) -> sys::Result<SigAction>,
) -> isize {
    let [signal, new, old, size, ..] = args;
    if size != 8 {
        return Errno::EINVAL.as_result();
    }
    let wanted = match new {
        0 => None,
        addr => match memory::read::<SigAction>(addr) {
            Some(action) => Some(action),
            None => return Errno::EFAULT.as_result(),
        },
    };
    let number = signal as i32;
    if !(1..=64).contains(&number) || (wanted.is_some() && SigSet::UNBLOCKABLE.has(number as u32)) {
        return Errno::EINVAL.as_result();
    }
    let before = match change(number as u32, wanted) {
        Ok(before) => before,
        Err(errno) => return errno.as_result(),
    };
    if old != 0 && !memory::write(old, &before) {
        return Errno::EFAULT.as_result();
    }
    0
}

/// Changes, if that is wanted, what a signal does; what it did before.
pub fn change_action(
    thread: &Thread,
    entry: Entry,
    number: u32,
    wanted: Option<SigAction>,
) -> sys::Result<SigAction> {
    // SAFETY: the table lives as long as any thread that uses it; writers hold
    // the engine lock.
    let table = unsafe { &mut *thread.signals };
    let before = table.shown(number);
    if let Some(mut action) = wanted {
        action.mask = action.mask.without(SigSet::UNBLOCKABLE);
        action.flags &= KNOWN_FLAGS;
        let last = table.action(number);
        table.set(number, action);
        let kernel = signals::kernel_action(number, &action, entry);
        // SAFETY: either the engine's handler or a plain disposition.
        if let Err(errno) = unsafe { sys::sigaction(number, Some(&kernel), None) } {
            table.set(number, last);
            return Err(errno);
        }
    }
    Ok(before)
}

/// `rt_sigprocmask(how, set, old, size)`. `None`: a signal comes first.
pub fn sigprocmask(thread: &mut Thread, args: [u64; 6]) -> Option<isize> {
    let [how, set, old, size, ..] = args;
    if size != 8 {
        return Some(Errno::EINVAL.as_result());
    }
    let wanted = match set {
        0 => None,
        addr => match memory::read::<SigSet>(addr) {
            Some(set) => Some(set),
            None => return Some(Errno::EFAULT.as_result()),
        },
    };
    if wanted.is_some() && how > u64::from(SIG_SETMASK) {
        return Some(Errno::EINVAL.as_result());
    }
    // Nothing may arrive between reading the mask and setting the new one.
    let before = signals::quiesce(thread)?.with(thread.blocked);
    let after = match (wanted, how as u32) {
        (None, _) => before,
        (Some(set), SIG_BLOCK) => before.with(set),
        (Some(set), SIG_UNBLOCK) => before.without(set),
        (Some(set), _) => set,
    }
    .without(SigSet::UNBLOCKABLE);
    thread.blocked = SigSet(after.0 & SigSet::SYNCHRONOUS.0);
    let mask = after.without(SigSet::SYNCHRONOUS);
    // Synchronous signals come before others, as in the kernel.
    signals::release_held(thread);
    match &mut core::hint::black_box(&mut *thread).pending {
        Some(pending) => pending.mask = mask,
        None => {
            sys::sigprocmask(SIG_SETMASK, mask);
        }
    }
    if old != 0 && !memory::write(old, &before) {
        return Some(Errno::EFAULT.as_result());
    }
    Some(0)
}

/// The mask that a waiting call puts in force, if it names one that can be read.
pub fn waiting_mask(number: u64, args: [u64; 6], index: usize) -> Option<SigSet> {
    let (at, size) = match number as usize {
        nr::PSELECT6 | nr::IO_PGETEVENTS => (
            memory::read(args[5])?,
            memory::read(args[5].wrapping_add(8))?,
        ),
        nr::IO_URING_ENTER => ring_mask(args)?,
        _ => (args[index], args[index + 1]),
    };
    if at == 0 || size != 8 {
        return None;
    }
    memory::read::<SigSet>(at)
}

/// Address and size of the mask of `io_uring_enter`, if it waits.
fn ring_mask(args: [u64; 6]) -> Option<(u64, u64)> {
    const GETEVENTS: u64 = 1;
    const EXT_ARG: u64 = 1 << 3;
    /// The argument is a registered one, by its index.
    const EXT_ARG_REG: u64 = 1 << 6;
    let [_, _, _, flags, at, size] = args;
    if flags & GETEVENTS == 0 || flags & EXT_ARG_REG != 0 {
        return None;
    }
    if flags & EXT_ARG == 0 {
        return Some((at, size));
    }
    // `struct io_uring_getevents_arg`
    let size: u32 = memory::read(at.wrapping_add(8))?;
    Some((memory::read(at)?, size.into()))
}

/// `rt_sigpending(set, size)`: the kernel's, and what we hold.
pub fn sigpending(thread: &Thread, args: [u64; 6]) -> isize {
    if args[1] > 8 {
        return Errno::EINVAL.as_result();
    }
    let mut set = SigSet::EMPTY;
    // SAFETY: the kernel fills `set`.
    unsafe { sys::raw::syscall(nr::RT_SIGPENDING, [&raw mut set as usize, 8, 0, 0, 0, 0]) };
    let bytes = set.with(signals::held(thread)).0.to_ne_bytes();
    let written = memory::write_bytes(args[0], &bytes[..args[1] as usize]);
    if written {
        0
    } else {
        Errno::EFAULT.as_result()
    }
}

/// `signalfd(_, set, size)`: a descriptor may show synchronous signals from now on.
pub fn signalfd(args: [u64; 6]) {
    let set = memory::read::<SigSet>(args[1]).unwrap_or(SigSet::EMPTY);
    if set.0 & SigSet::SYNCHRONOUS.0 != 0 {
        SHOWN.store(true, Relaxed);
    }
}

static SHOWN: AtomicBool = AtomicBool::new(false);

/// Whether a call that the program makes in a thread that blocks synchronous signals may see
/// those that are pending: the kernel must have them then.
pub fn sees_blocked(number: u64, args: [u64; 6]) -> bool {
    match number as usize {
        nr::RT_SIGTIMEDWAIT => true,
        nr::READ | nr::READV if is_signalfd(args[0] as i32) => {
            SHOWN.store(true, Relaxed);
            true
        }
        nr::POLL | nr::SELECT | nr::EPOLL_WAIT => SHOWN.load(Relaxed),
        nr::PPOLL | nr::PSELECT6 | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => SHOWN.load(Relaxed),
        _ => false,
    }
}

/// Whether a file is a descriptor for signals, made here or inherited.
fn is_signalfd(fd: i32) -> bool {
    const TYPE: u32 = 0o170_000;
    // Files of no kind are the kernel's own ("anon_inode").
    let anonymous = sys::fstat(fd).is_ok_and(|stat| stat.mode & TYPE == 0);
    let mut path = [0u8; 64];
    anonymous
        && crate::procfs::fd_path(fd, &mut path)
            .is_some_and(|len| path[..len].ends_with(b"[signalfd]"))
}

/// `rt_sigtimedwait(set, info, ...)`: takes a held signal at once, if wanted.
pub fn sigtimedwait(thread: &mut Thread, args: [u64; 6]) -> Option<isize> {
    let wanted = memory::read::<SigSet>(args[0])?;
    let held = signals::held(thread);
    let signal = (1..=31).find(|&signal| wanted.has(signal) && held.has(signal))?;
    let info = signals::take_held(thread, signal)?;
    if args[1] != 0 && !memory::write(args[1], &info) {
        return Some(Errno::EFAULT.as_result());
    }
    Some(signal as isize)
}
