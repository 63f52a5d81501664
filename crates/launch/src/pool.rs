//! The pool as the launcher owns it: a sparse memory file, mapped whole.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wire::Mode;
use wire::view::Pool;

use crate::LaunchError;

/// Size of the file; holes cost nothing. Nodes are named by 32 bits of their
/// offset / 8 (`wire::node`, the index of `forest`).
const SIZE: u64 = 1 << 35;
/// Every thread has a part of it for its slots (`dbt::edge_counters`), most of it a hole.
const SIZE_FOR_COUNTS: u64 = 1 << 38;
/// With less there is no sense in beginning; the engine takes no less, either.
const LEAST: u64 = 1 << 20;

#[derive(Debug)]
pub struct OwnedPool {
    file: OwnedFd,
    base: NonNull<core::ffi::c_void>,
    len: u64,
}

// SAFETY: the mapping is only reached through `Pool`, which is atomic.
unsafe impl Send for OwnedPool {}
// SAFETY: as above.
unsafe impl Sync for OwnedPool {}

impl OwnedPool {
    pub fn create(mode: Mode) -> Result<OwnedPool, LaunchError> {
        let memory = |source| LaunchError::Memory {
            what: "the recording",
            source,
        };
        let file =
            rustix::fs::memfd_create("everypath-pool", MemfdFlags::CLOEXEC).map_err(memory)?;
        let _raised = Raised::new();
        // Limits on file size or address space: as much as they allow.
        let mut len = match mode {
            Mode::Counts => SIZE_FOR_COUNTS,
            _ => SIZE,
        };
        loop {
            let sized = rustix::fs::ftruncate(&file, len);
            // SAFETY: a new shared mapping of our own file, not over anything.
            let mapped = sized.and_then(|()| unsafe {
                let flags = MapFlags::SHARED | MapFlags::NORESERVE;
                rustix::mm::mmap(
                    std::ptr::null_mut(),
                    len as usize,
                    ProtFlags::READ | ProtFlags::WRITE,
                    flags,
                    &file,
                    0,
                )
            });
            match mapped {
                Ok(base) => {
                    let base =
                        NonNull::new(base).expect("mmap does not return null without MAP_FIXED");
                    return Ok(OwnedPool { file, base, len });
                }
                Err(_) if len > LEAST => len /= 2,
                Err(errno) => return Err(memory(errno)),
            }
        }
    }

    /// The pool for reading and allocating. Use it only while `self` lives.
    pub fn view(&self) -> Pool {
        // SAFETY: mapped until `drop`; every user borrows or copies within the
        // life of the run that owns `self`.
        unsafe { Pool::new(self.base.as_ptr().cast(), self.len) }
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The limit of file sizes, raised as far as it may be: it is meant for files that stay.
pub(crate) struct Raised(Rlimit);

impl Raised {
    pub(crate) fn new() -> Raised {
        let limit = getrlimit(Resource::Fsize);
        let (current, maximum) = (limit.maximum, limit.maximum);
        // If it cannot be raised, the pool is smaller.
        let _ = setrlimit(Resource::Fsize, Rlimit { current, maximum });
        Raised(limit)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Fsize, self.0);
    }
}

impl Drop for OwnedPool {
    fn drop(&mut self) {
        // SAFETY: our own mapping, not used after this.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.len as usize) };
    }
}
