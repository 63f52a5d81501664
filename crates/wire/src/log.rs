//! The log of a process image: what was mapped where, and which functions
//! were met, in order. One writer (the engine, under its lock), records of
//! variable length in chained chunks.
//!
//! ```text
//! LogChunk { next, used, capacity }  Record  payload  pad to 8  Record ...
//!                        `used` bytes of records are complete ^
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::FileId;

/// Size of a chunk with its header.
pub const CHUNK: u64 = 16 * crate::PAGE;

#[derive(Debug)]
#[repr(C)]
pub struct LogChunk {
    pub next: AtomicU64,
    /// Bytes of complete records after this header.
    pub used: AtomicU32,
    pub capacity: AtomicU32,
}

/// What follows a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A [`Map`] and then the path (bytes to the end of the record).
    Map = 1,
    /// An [`Unmap`].
    Unmap = 2,
    /// A [`Func`].
    Func = 3,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Record {
    /// Bytes of payload after this header, without padding.
    pub len: u32,
    pub kind: u16,
    pub reserved: u16,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
}

/// A file (or the vdso) was mapped executable.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    /// File offset of `start`.
    pub offset: u64,
    pub file: FileId,
}

/// `start..end` no longer holds what was mapped there.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Unmap {
    pub start: u64,
    pub end: u64,
}

/// Function `id` (dense from `node::FIRST_FUNC`) begins at `pc`, named by the
/// mapping that is newest at this place of the log.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Func {
    pub pc: u64,
    pub id: u32,
    pub reserved: u32,
}

const _: () = {
    assert!(size_of::<LogChunk>() == 16);
    assert!(size_of::<Record>() == 16);
    assert!(size_of::<Map>() == 48);
};
