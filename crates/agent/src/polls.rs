//! Pages that emitted code polls while tracing may begin or end by request.
//!
//! Problem: threads that run in linked code come to the engine when they have something to
//! do there. Who asks for another state is another process, and a signal would end waiting
//! system calls of the program.
//!
//! Approach: emitted code stores to a page of a file that the CLI has. To be heard, it
//! makes that file empty: the next store is a SIGBUS, which is always the engine's. A thread
//! that waits in a system call hears of it when it goes on.
//!
//! ```text
//! gs base -> ThreadContext | page of the file polled while on | of that while off
//! ```
//!
//! Pages of the files are mapped behind each context, so a poll is one instruction
//! without a register; threads have different ones, so that no line is shared.
//!
//! Limits: without the files (no `/proc`) polls do nothing.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::view::Pool;
use wire::{PAGE, POLLS, poll};

use crate::procfs::Text;

/// Displacements of the pages from the gs base, in the order of [`wire::poll`].
pub const AT: [i32; 2] = [PAGE as i32, 2 * PAGE as i32];
/// Bytes that the pages of polls take after a context.
pub const SPACE: u64 = 2 * PAGE;

/// Addresses at which the files are mapped in this process; 0: they are not.
static FILES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Maps the files, where tracing is by request.
pub fn attach(pool: &Pool) {
    let header = pool.header();
    if header.config.flags.load(Relaxed) & wire::flag::BY_REQUEST == 0 {
        return;
    }
    for side in [poll::ON, poll::OFF] {
        let mut path = Text::default();
        let (owner, fd) = (&header.owner, &header.polls[side]);
        let _ = write!(
            path,
            "/proc/{}/fd/{}\0",
            owner.load(Relaxed),
            fd.load(Relaxed)
        );
        let path = CStr::from_bytes_with_nul(&path.0).unwrap_or(c"");
        let Ok(fd) = sys::open(path, sys::O_RDWR | sys::O_CLOEXEC) else {
            return;
        };
        let prot = sys::PROT_READ | sys::PROT_WRITE;
        let mapped = crate::memory::map_in_zone(POLLS * PAGE, |at, how| {
            // SAFETY: a new mapping of a file; nothing existing is touched.
            unsafe { sys::mmap(at, POLLS * PAGE, prot, sys::MAP_SHARED | how, fd, 0) }
        });
        sys::close(fd);
        if let Some(base) = mapped {
            crate::memory::note(base, POLLS * PAGE);
            FILES[side].store(base, Relaxed);
        }
    }
}

/// Maps the pages of the thread whose context is at `context`, with [`SPACE`] behind it.
pub fn map(context: u64) {
    let page = context / PAGE % POLLS * PAGE;
    for (side, at) in AT.into_iter().enumerate() {
        let from = FILES[side].load(Relaxed);
        if from != 0 {
            // SAFETY: over the space behind the context, which nobody uses otherwise.
            let _ = unsafe { sys::map_again(from + page, PAGE, context + at as u64) };
        }
    }
}

/// Makes the polls of the thread whose context is at `context` do nothing, for a thread whose
/// faults a tracer would see.
pub fn silence(context: u64) {
    if FILES.iter().any(|file| file.load(Relaxed) != 0) {
        let prot = sys::PROT_READ | sys::PROT_WRITE;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED;
        // SAFETY: over the space behind the context, which only polls use.
        let _ = unsafe { sys::mmap(context + PAGE, SPACE, prot, flags, -1, 0) };
    }
}

/// Whether a store to that address is a poll of the thread with this context.
pub fn contains(context: u64, address: u64) -> bool {
    (context + PAGE..context + PAGE + SPACE).contains(&address)
}
