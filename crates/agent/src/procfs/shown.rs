//! Memory files with what files of `/proc/self` would say without the engine.
//!
//! ```text
//! kernel's text  ->  maps.rs    ranges of the engine cut out, execute bits put back
//!                    sizes.rs   sizes and resident pages of what is left, and of the engine
//!                    status.rs  status, stat, statm: those sizes, and the program's handlers
//!                    rollup.rs, numa.rs, syscall.rs: the files of these names
//! ```
//!
//! Limits: figures of time, faults and page tables have the engine's in them.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;

use sys::Result;
use sys::signal::{NSIG, SIG_DFL, SIG_IGN, SigSet};

use super::status::Signals;
use super::{Shown, ShownFile, Text, limit, maps, numa, read_file, rollup, sizes, status};
use crate::regions::Regions;
use crate::thread::Thread;

/// The engine's knowledge of the program that the kernel's texts lack. It is read under the
/// engine's lock.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub regions: &'a Regions,
    pub thread: &'a Thread,
}

/// The text that the file has now. That of [`ShownFile::Syscall`] is the kernel's: only the translator
/// knows places in the program.
pub fn text(shown: Shown, facts: Facts<'_>) -> Result<Vec<u8>> {
    let regions = facts.regions;
    Ok(match shown.file {
        ShownFile::Maps => maps::without_engine(&kernels(shown)?, regions),
        ShownFile::Smaps => sizes::without_engine(&kernels(shown)?, regions),
        // The sizes first: they are read in the same moment, nearly.
        ShownFile::Status => {
            let sizes = sizes::of_process(regions);
            status::status(&kernels(shown)?, &sizes, &signals(shown, facts.thread))
        }
        ShownFile::Stat => {
            let sizes = sizes::of_process(regions);
            status::stat(&kernels(shown)?, &sizes, &signals(shown, facts.thread))
        }
        ShownFile::Statm => {
            let sizes = sizes::of_process(regions);
            status::statm(&kernels(shown)?, &sizes)
        }
        ShownFile::SmapsRollup => {
            let smaps = kernels(with(shown, ShownFile::Smaps))?;
            rollup::without_engine(&kernels(shown)?, &smaps, regions)
        }
        ShownFile::NumaMaps => {
            let maps = kernels(with(shown, ShownFile::Maps))?;
            numa::without_engine(&kernels(shown)?, &maps, regions)
        }
        ShownFile::Syscall => kernels(shown)?,
    })
}

/// Another file about the same task.
fn with(shown: Shown, file: ShownFile) -> Shown {
    Shown { file, ..shown }
}

/// The file as the kernel has it.
pub fn kernels(shown: Shown) -> Result<Vec<u8>> {
    let name = shown.file.name();
    let mut path = Text::default();
    // A text in memory takes every byte.
    let _ = match shown.task {
        Some(task) => write!(path, "/proc/self/task/{task}/{name}\0"),
        None => write!(path, "/proc/self/{name}\0"),
    };
    let path = CStr::from_bytes_with_nul(&path.0).map_err(|_| sys::Errno::ENOENT)?;
    // Once the first thread has ended, the process's own files list no memory.
    let memory = matches!(shown.file, ShownFile::Maps | ShownFile::Smaps);
    let text = read_file(path);
    if memory && shown.task.is_none() && text.as_ref().is_none_or(Vec::is_empty) {
        let own = match shown.file {
            ShownFile::Maps => c"/proc/thread-self/maps",
            _ => c"/proc/thread-self/smaps",
        };
        return read_file(own).ok_or_else(|| super::why_unreadable(path));
    }
    text.ok_or_else(|| super::why_unreadable(path))
}

/// The program's signals: its handlers, and what the thread that asks has blocked, if the file
/// is about that thread.
fn signals(shown: Shown, thread: &Thread) -> Signals {
    let mut found = Signals::default();
    // SAFETY: the table lives as long as a thread that uses it, and is changed under the
    // engine's lock only, which the caller holds.
    let table = unsafe { &*thread.signals };
    for signal in 1..=NSIG {
        let set = match table.shown(signal).handler {
            SIG_DFL => continue,
            SIG_IGN => &mut found.ignored,
            _ => &mut found.caught,
        };
        *set = set.with(SigSet::only(signal));
    }
    let about = shown.task.unwrap_or_else(sys::getpid);
    if about == sys::gettid() {
        found.blocked = Some(thread.blocked);
        found.held = thread.held;
        found.held_by_all = crate::held_signals::all();
    }
    found
}

/// A memory file of `text`, at its beginning.
pub fn file_of(text: &[u8], cloexec: bool) -> Result<i32> {
    const RLIMIT_FSIZE: usize = 1;
    if limit(RLIMIT_FSIZE) < text.len() as u64 {
        return pipe_of(text, cloexec);
    }
    let fd = sys::memfd_create(c"proc", u32::from(cloexec))?;
    write_all(fd, text);
    // SAFETY: moves the offset of our new descriptor back to the start.
    unsafe { sys::raw::syscall(sys::nr::LSEEK, [fd as usize, 0, 0, 0, 0, 0]) };
    Ok(fd)
}

fn write_all(fd: i32, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        match sys::write(fd, &bytes[done..]) {
            Ok(got @ 1..) => done += got,
            _ => break,
        }
    }
}

/// Replaces what a memory file holds; one that was made smaller and cannot grow is left empty.
pub fn replace(fd: i32, text: &[u8]) {
    if sys::truncate(fd, 0).is_ok() {
        let mut done = 0;
        while done < text.len() {
            match sys::pwrite(fd, &text[done..], done as u64) {
                Ok(got @ 1..) => done += got,
                _ => break,
            }
        }
    }
}

/// A pipe that holds `text`, for a process that may not write a file of that size.
fn pipe_of(text: &[u8], cloexec: bool) -> sys::Result<i32> {
    const F_SETFL: usize = 4;
    const F_SETPIPE_SZ: usize = 1031;
    const O_NONBLOCK: u32 = 0o4000;
    let mut ends = [0i32; 2];
    let flags = O_NONBLOCK | if cloexec { sys::O_CLOEXEC } else { 0 };
    // SAFETY: the kernel fills two descriptors; the others change these only.
    unsafe {
        let pipe = [&raw mut ends as usize, flags as usize, 0, 0, 0, 0];
        sys::check(sys::raw::syscall(sys::nr::PIPE2, pipe))?;
        let size = [ends[1] as usize, F_SETPIPE_SZ, text.len(), 0, 0, 0];
        sys::raw::syscall(sys::nr::FCNTL, size);
        // Reading ends at the end, not with EAGAIN.
        sys::raw::syscall(sys::nr::FCNTL, [ends[0] as usize, F_SETFL, 0, 0, 0, 0]);
    }
    write_all(ends[1], text);
    sys::close(ends[1]);
    Ok(ends[0])
}
