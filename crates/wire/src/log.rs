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

/// Kind of the record after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A [`Map`] and then the path (bytes to the end of the record).
    Map = 1,
    /// An [`Unmap`].
    Unmap = 2,
    /// A [`Func`].
    Func = 3,
    /// A [`Fragment`], its pieces, its events and the bytes of its code.
    Fragment = 4,
    /// A [`Cut`].
    Cut = 5,
    /// A [`Block`] and the bytes of its code.
    Block = 6,
    /// A [`Path`].
    Path = 7,
    /// A [`Target`].
    Target = 8,
    /// A [`Jump`].
    Jump = 9,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Record {
    /// Bytes of payload after this header, without padding.
    pub len: u32,
    pub kind: u16,
    pub reserved: u16,
    /// CLOCK_MONOTONIC, nanoseconds, of [`Kind::Map`] and [`Kind::Unmap`].
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

/// Basic block `id` (dense from `node::FIRST_BLOCK`) begins at `pc`. Its bytes follow.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Block {
    pub pc: u64,
    pub id: u32,
    pub reserved: u32,
}

/// Blocks executed when path `id` is taken: all of path `before` (0: none), then
/// `block`.
///
/// It has at most [`MAX_PATH`] blocks.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Path {
    pub id: u32,
    pub before: u32,
    pub block: u32,
    pub reserved: u32,
}

/// Most blocks of a [`Path`].
pub const MAX_PATH: usize = 96;

/// A straight piece of translated code with one entry ([`crate::Mode::Counts`]):
/// instructions that are executed in order until it is left.
///
/// With [`crate::Mode::Trace`] it has no slots, and id 0 if all of its code is what its
/// addresses are known to hold: of each byte, that which came first in the log.
///
/// The record continues with `pieces` times (address u64, bytes u64), in the order of execution;
/// `events` times an [event](Event) as one u64; then the bytes of all pieces.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fragment {
    /// Slot of the first event; those of the others follow.
    pub first_slot: u64,
    /// Dense from 1; a forked child goes on with its parent's numbers. See above for 0.
    pub id: u32,
    /// Bits of [`fragment_flag`].
    pub flags: u32,
    pub pieces: u32,
    pub events: u32,
}

/// The indirect jump, call or return that ends `fragment` went to `pc`, as often as `slot`
/// says; each time, all that the last of the fragment's events which reach its end stands
/// for was executed, too.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Jump {
    pub slot: u64,
    pub pc: u64,
    pub fragment: u32,
    pub reserved: u32,
}

/// Indirect branches go to `pc`; or a mark ([`crate::stream::TargetNumber`]).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Target {
    pub pc: u64,
}

/// Bits of [`Fragment::flags`].
pub mod fragment_flag {
    /// Nothing can be executed behind the last instruction: the way on faults.
    pub const FAULTS: u32 = 1;
}

/// Event that a slot counts: the instructions `from..to` of the fragment, in its order.
///
/// ```text
///  | 0 29 | kind 3 | to 16 | from 16 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub from: u16,
    pub to: u16,
    pub kind: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// They were executed.
    Executed = 0,
    /// They were counted elsewhere and not executed.
    Less = 1,
    /// The branch that is the fragment's last instruction was taken.
    Taken = 2,
    /// It was not.
    Fell = 3,
    /// All but the last were executed; that one is a jump and is made again.
    Again = 4,
}

impl EventKind {
    /// `None`: no kind.
    pub fn of(number: u64) -> Option<EventKind> {
        Some(match number {
            0 => EventKind::Executed,
            1 => EventKind::Less,
            2 => EventKind::Taken,
            3 => EventKind::Fell,
            4 => EventKind::Again,
            _ => return None,
        })
    }
}

impl Event {
    pub fn word(self) -> u64 {
        u64::from(self.from) | u64::from(self.to) << 16 | (self.kind as u64) << 32
    }

    /// `None`: no event.
    pub fn of(word: u64) -> Option<Event> {
        let kind = EventKind::of(word >> 32)?;
        let (from, to) = (word as u16, (word >> 16) as u16);
        (from < to).then_some(Event { from, to, kind })
    }
}

/// A fragment was left before its instruction `at`, by a signal or a fault, as
/// often as `slot` says.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cut {
    pub slot: u64,
    pub fragment: u32,
    pub at: u32,
    /// Number of instructions from `at` on that had been counted; less than 0: number of
    /// instructions before it that had not been.
    pub ahead: i64,
}

const _: () = {
    assert!(size_of::<Fragment>() == 24 && size_of::<Cut>() == 24);
    assert!(size_of::<Block>() == 16 && size_of::<Path>() == 16);
    assert!(size_of::<LogChunk>() == 16);
    assert!(size_of::<Record>() == 16);
    assert!(size_of::<Map>() == 48);
};
