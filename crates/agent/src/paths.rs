//! Calls that take a path, which may name a file of `/proc/self` that is to be the program's.
//!
//! [`wanted`] reads the path and says which file it is; nothing of it needs the engine's lock, so
//! a thread whose path lies in memory that another thread has to provide (userfaultfd) waits
//! alone. Nearly all paths name other files, and their calls run as written.

use sys::{Errno, nr};

use crate::memory;
use crate::procfs::{self, Own, Shown};
use crate::syscalls::Kind;

const RESOLVE_CACHED: u64 = 0x20;
const O_PATH: u32 = 0o10_000_000;
const O_NOFOLLOW: u32 = 0o400_000;
const O_DIRECTORY: u32 = 0o200_000;
const O_ACCMODE: u32 = 3;
/// An open with one of these is not for reading the text.
const NOT_TO_READ: u32 = O_ACCMODE | O_PATH | O_DIRECTORY;
/// The device whose ioctl makes descriptors of userfaultfd.
const DEV_USERFAULTFD: &[u8] = b"/dev/userfaultfd";
const ETXTBSY: Errno = Errno(26);

/// Meaning of a call with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Another file: the call runs as written.
    Other,
    /// The program's file is opened; the path is the argument at `index`.
    OpenExe { index: usize, flags: u32 },
    /// The program's file, by another call.
    Exe { index: usize },
    /// The name of the program's file is read.
    ExeLink { index: usize },
    /// A file is opened whose text is put right.
    Shown { shown: Shown, cloexec: bool },
    /// The memory of the process is opened for writing.
    Memory,
}

/// Meaning of a call of this kind; `None`: it takes no path.
pub fn wanted(kind: Kind, args: [u64; 6], number: u64) -> Option<Wanted> {
    Some(match kind {
        Kind::Open => opened(args[1] as u32, args, 0),
        Kind::Openat => opened(args[2] as u32, args, 1),
        Kind::Openat2 => match (memory::read::<u64>(args[2]), memory::read(args[2] + 16)) {
            // Flags, and how to resolve: all ways but one refuse this link.
            (Some(flags), Some(0 | RESOLVE_CACHED)) if args[3] >= 24 => {
                opened(flags as u32, args, 1)
            }
            _ => Wanted::Other,
        },
        Kind::Readlink => link(args, 0),
        Kind::Readlinkat => link(args, 1),
        Kind::Path(index) => match own(args, index) {
            Some(Own::Exe) if !keeps_link(number, args) => Wanted::Exe { index },
            _ => Wanted::Other,
        },
        _ => return None,
    })
}

fn opened(flags: u32, args: [u64; 6], index: usize) -> Wanted {
    if is_path(args[index], DEV_USERFAULTFD) {
        memory::set_served();
    }
    match own(args, index) {
        Some(Own::Exe) if flags & O_NOFOLLOW == 0 => Wanted::OpenExe { index, flags },
        Some(Own::Mem) if flags & O_ACCMODE != 0 => Wanted::Memory,
        Some(Own::Shown(shown)) if flags & NOT_TO_READ == 0 => Wanted::Shown {
            shown,
            cloexec: flags & sys::O_CLOEXEC != 0,
        },
        _ => Wanted::Other,
    }
}

fn link(args: [u64; 6], index: usize) -> Wanted {
    match own(args, index) {
        Some(Own::Exe) => Wanted::ExeLink { index },
        _ => Wanted::Other,
    }
}

/// Whether the path at `at` is `name`, as written.
fn is_path(at: u64, name: &[u8]) -> bool {
    let mut text = [0u8; 32];
    memory::read_string(at, &mut text).is_some_and(|len| &text[..len] == name)
}

/// Which file of this process the path argument at `index` names, behind the directory if
/// there is one.
fn own(args: [u64; 6], index: usize) -> Option<Own> {
    let mut text = [0u8; 128];
    let len = memory::read_string(args[index], &mut text)?;
    let path = &text[..len];
    if let Some(own) = procfs::recognise(path) {
        return Some(own);
    }
    let directory = directory(args, index);
    if procfs::is_shown_name(path) {
        return procfs::recognise_in(directory, path);
    }
    let odd = path == b"exe" || path.ends_with(b"/exe");
    (odd && procfs::leads_to_own_exe(directory, args[index], path)).then_some(Own::Exe)
}

/// The program's own call on its file `exe`, a path ended by NUL. `None`: as written.
pub fn call_with_exe(wanted: Wanted, exe: &[u8], args: [u64; 6], number: u64) -> Option<isize> {
    match wanted {
        Wanted::OpenExe { flags, .. } if flags & O_ACCMODE != 0 && flags & O_PATH == 0 => {
            // The file of a running program is busy, or may not be written at all.
            let write = sys::faccessat(sys::AT_FDCWD, exe.as_ptr() as u64, 2, 0);
            Some(write.err().unwrap_or(ETXTBSY).as_result())
        }
        Wanted::OpenExe { index, .. } | Wanted::Exe { index } => {
            with_exe_path(exe, args, number, index)
        }
        Wanted::ExeLink { index } => Some(readlink(exe, number, index, args)),
        _ => None,
    }
}

/// Makes the call with the program's path in place of `/proc/self/exe`.
fn with_exe_path(exe: &[u8], args: [u64; 6], number: u64, index: usize) -> Option<isize> {
    if is_missing(directory(args, index), args[index]) {
        // There is no /proc: the kernel's error.
        return None;
    }
    let mut args = args.map(|arg| arg as usize);
    args[index] = exe.as_ptr() as usize;
    // SAFETY: the program's own call, with a path that outlives it.
    Some(unsafe { sys::raw::syscall(number as usize, args) })
}

fn readlink(exe: &[u8], number: u64, index: usize, args: [u64; 6]) -> isize {
    let (buffer, size) = (args[index + 1], args[index + 2]);
    let mut unused = [0u8; 8];
    let mut real = args.map(|arg| arg as usize);
    real[index + 1] = unused.as_mut_ptr() as usize;
    real[index + 2] = (size as i32).min(8) as isize as usize;
    // SAFETY: the program's own call into a buffer of ours: its errors are
    // the kernel's, and a filter sees it.
    let result = unsafe { sys::raw::syscall(number as usize, real) };
    if result < 0 {
        return result;
    }
    let name = &exe[..exe.len() - 1];
    let len = name.len().min(size as usize);
    match memory::write_bytes(buffer, &name[..len]) {
        true => len as isize,
        false => Errno::EFAULT.as_result(),
    }
}

/// Directory to which the path argument at `index` is relative: the calls have the
/// directory's descriptor before it.
fn directory(args: [u64; 6], index: usize) -> i32 {
    match index {
        0 => sys::AT_FDCWD,
        _ => args[index - 1] as i32,
    }
}

/// Whether a path leads nowhere: `/proc` may be absent or hidden.
fn is_missing(directory: i32, path: u64) -> bool {
    sys::faccessat(directory, path, 0, 0) == Err(Errno::ENOENT)
}

/// Whether a call asks about the link itself, which is a link as natively.
fn keeps_link(number: u64, args: [u64; 6]) -> bool {
    let flags = match number as usize {
        nr::NEWFSTATAT | nr::FACCESSAT2 => args[3],
        nr::STATX => args[2],
        _ => 0,
    };
    flags & u64::from(sys::AT_SYMLINK_NOFOLLOW) != 0
}
