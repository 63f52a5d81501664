//! Streams: the control flow of a thread as bytes ([`crate::Mode::Trace`]).
//!
//! Problem: the address of every instruction that a thread executes, in order, is to be
//! written by the code that executes it, for next to nothing.
//!
//! Approach: who has the code needs to know only how branches ended. The bytes say
//! that, in the order of execution. There are several streams of a thread side by side
//! ([`LANES`]): the address of the first branch in a byte says which one it is in
//! ([`lane`]), escapes are in all of them.
//!
//! | byte | meaning |
//! |---|---|
//! | 2 to 255 | one to seven outcomes behind the highest bit, first to last |
//! | 1, kind... | an [escape](escape) |
//! | 0 | never written |
//!
//! An *outcome* is 1 if a branch was taken. These have one: conditional branches;
//! direct jumps and calls that do not go forward; `xbegin`, which always aborts. Indirect
//! branches and returns have [where they went](TargetNumber) in lane [`TARGETS`]. So what is executed
//! without an outcome never comes back to where it was.
//!
//! Streams are chains of [`Chunk`]s. Emitted code appends without looking: behind a chunk
//! is a page that cannot be written.
//!
//! Lane [`TARGETS`] may have time stamps, too ([`STAMP`]).
//!
//! A *keyframe* is an [`escape::AT`] in all lanes that the headers of its chunks point to.
//! A reader that begins there needs nothing from before.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Size of a chunk in bytes, its header and guard page included.
pub const CHUNK: u64 = 64 * crate::PAGE;
/// Offsets in a chunk of its first byte and of the end of its bytes; the guard page, at which
/// emitted code faults, begins there.
pub const BEGIN: u64 = size_of::<Chunk>() as u64;
pub const END: u64 = CHUNK - crate::PAGE;

/// Offset of the first byte in chaos: so little fits that small programs fill many chunks.
pub const BEGIN_TINY: u64 = END - 2048;

/// A thread makes a keyframe when it has filled so many chunks since the one before; in
/// chaos, so few.
pub const KEYFRAME_EVERY: u32 = 16;
pub const KEYFRAME_EVERY_TINY: u32 = 3;

/// Outcomes of one byte at most.
pub const PER_BYTE: u32 = 7;

/// Streams that a thread writes side by side: appends to one wait for each other.
pub const LANES: usize = OUTCOMES + 1;
/// Lanes for outcomes of branches; the last lane has where indirect branches went.
pub const OUTCOMES: usize = 4;
pub const TARGETS: usize = OUTCOMES;

/// Lane with [addresses](memory) of memory accesses, if they are recorded; escapes are not in it.
pub const ADDRESSES: usize = LANES;
/// Lane with the values that were read and written, if those are recorded, too.
pub const VALUES: usize = ADDRESSES + 1;
/// All lanes.
pub const ALL_LANES: usize = VALUES + 1;
/// Number of lanes about memory.
pub const MEMORY_LANES: usize = ALL_LANES - LANES;
/// Numbers of those lanes' streams in a recording; of other lanes it is the lane.
pub const ADDRESS_STREAM: u16 = 16;
pub const VALUE_STREAM: u16 = 17;

/// Whether the stream is about memory.
pub const fn is_of_memory(stream: u16) -> bool {
    matches!(stream, ADDRESS_STREAM | VALUE_STREAM)
}

/// Bits of [`crate::Config::memory`]. The addresses are words whose meaning follows from the code
/// (`isa::memory::recorded`), in the order of execution.
pub mod memory {
    pub const LOADS: u32 = 1;
    pub const STORES: u32 = 2;
    /// Also addresses that follow from others.
    pub const ALL_WORDS: u32 = 4;
    /// Also values: as many bytes for each as the code says (`isa::memory::values`).
    pub const VALUES: u32 = 8;
    /// Most bytes of a stretch of code, in each of the lanes, that are not part of the stream yet.
    pub const PENDING: usize = 120;
}

/// Bytes of an entry in a lane for outcomes while the program runs: one of the stream, and
/// instructions.
pub const ENTRY: usize = 2;

/// Bytes that a byte of the stream takes in a chunk of the lane.
pub const fn entry(lane: usize) -> usize {
    if lane < OUTCOMES { ENTRY } else { 1 }
}

/// Lane of a byte whose first outcome is that of the branch at `pc`.
pub const fn lane(pc: u64) -> usize {
    ((pc ^ pc >> 2 ^ pc >> 4) % OUTCOMES as u64) as usize
}

/// First byte of where an indirect branch went: up to [`went::SHORT`], one outcome, which
/// is 1.
pub const WENT: u8 = 0b11;

/// First bytes of where an indirect branch went, each up to the next; [`WENT`] before.
pub mod went {
    /// The byte is all.
    pub const SHORT: u8 = 4;
    /// One more byte: low bits of the number.
    pub const MIDDLE: u8 = 128;
    /// Two more bytes.
    pub const LONG: u8 = 192;
    /// How many numbers each has.
    pub const SHORTS: u32 = (MIDDLE - SHORT) as u32;
    pub const MIDDLES: u32 = ((LONG - MIDDLE) as u32) << 8;
    pub const LONGS: u32 = (256 - LONG as u32) << 16;
}

/// Marks, listed instead of a target: they say how many bytes the numbers of later targets have.
/// Nothing is at these addresses, which are not canonical.
pub mod mark {
    pub const SHORT: u64 = 1 << 63 | 1;
    pub const MIDDLE: u64 = 1 << 63 | 2;
    pub const LONG: u64 = 1 << 63 | 3;
    /// In pools before version 13, once: see [`TargetNumber`](super::TargetNumber).
    pub const OLD: u64 = 0;
}

/// Target of an indirect branch, in lane [`TARGETS`].
///
/// Records [`crate::log::Target`] list addresses, and [marks](mark) between them. Each address
/// has the next number of those as long as the mark before it says. It may be listed again, and
/// has several numbers then: code is made anew when it is known what runs, and who makes it may
/// give shorter ones to that.
///
/// | bytes | |
/// |---|---|
/// | 4 to 127 | number of one byte, and 4 |
/// | 128 to 191, u8 | of two, high byte first |
/// | 192 to 255, u16 | of three, low byte first behind the first |
/// | 3, u16, 1, 4, u64 | an address, its low bits before it, by an [escape] |
///
/// In pools of versions 11 and 12 all that is listed counts, the mark included, and numbers
/// of three bytes go on where those of two end; the first 124 behind the [mark](mark::OLD) have one
/// of one byte, too. Before there were 3, u16 only: the first one listed with these low bits, or the
/// escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetNumber {
    Short(u8),
    Middle(u16),
    Long(u32),
    To(u64),
}

impl TargetNumber {
    /// Most bytes of one.
    pub const MOST: usize = 3 + 10;

    /// Its bytes, and how many. Numbers are within [`went`].
    pub fn bytes(self) -> ([u8; TargetNumber::MOST], usize) {
        let mut bytes = [0; TargetNumber::MOST];
        let len = match self {
            TargetNumber::Short(number) => {
                bytes[0] = went::SHORT + number;
                1
            }
            TargetNumber::Middle(number) => {
                bytes[0] = went::MIDDLE + (number >> 8) as u8;
                bytes[1] = number as u8;
                2
            }
            TargetNumber::Long(number) => {
                bytes[0] = went::LONG + (number >> 16) as u8;
                bytes[1] = number as u8;
                bytes[2] = (number >> 8) as u8;
                3
            }
            TargetNumber::To(pc) => {
                let pc = pc.to_le_bytes();
                bytes[..5].copy_from_slice(&[WENT, pc[0], pc[1], ESCAPE, escape::TARGET]);
                bytes[5..].copy_from_slice(&pc);
                TargetNumber::MOST
            }
        };
        (bytes, len)
    }
}

/// First byte of an escape.
pub const ESCAPE: u8 = 1;

/// First byte of a time stamp, in lane [`TARGETS`] only: a [kind](stamp), u64. A stamp is
/// about what comes next, by the code: it stands between the items of that lane as it was
/// executed. 0: the program had forbidden to read the counter.
pub const STAMP: u8 = 2;
/// Bytes of one.
pub const STAMP_LEN: usize = 10;

/// Kinds of stamps.
pub mod stamp {
    /// When the next instruction that is atomic or a fence had been executed.
    pub const SYNC: u8 = 1;
    /// When the next system call was about to be made, and when it was back.
    pub const ENTER: u8 = 2;
    pub const LEAVE: u8 = 3;
    /// When control had gone where the escape before says: the thread begins, a handler
    /// begins or returns, a keyframe.
    pub const CAME: u8 = 4;
    /// When the thread ended.
    pub const END: u8 = 5;
    /// No time: the stack pointer, behind the next instruction that says something about it
    /// which the code does not say, and where control had gone by an escape.
    pub const STACK: u8 = 6;
    /// A stack pointer after an instruction that loads it from the frame pointer.
    pub const FRAME: u8 = 7;

    /// Whether the number is a stack pointer, and no time.
    pub const fn is_stack(kind: u8) -> bool {
        matches!(kind, STACK | FRAME)
    }
}

/// Events that have stamps ([`crate::Config::order`]).
pub mod order {
    /// Nothing.
    pub const CHUNK: u32 = 0;
    /// All events listed in [`stamp`](super::stamp) that are times.
    pub const SYNC: u32 = 1;
    /// As [`SYNC`]; and atomic instructions and fences are executed one after the other, their
    /// stamps in that order.
    pub const FINE: u32 = 2;
}

/// Not 0: some thread executes an atomic instruction ([`order::FINE`]).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Turn(pub AtomicU32);

/// Kinds of escapes, the byte after [`ESCAPE`]; integers are little-endian.
pub mod escape {
    /// u64: without another outcome, control came to this address; what is there is not
    /// executed yet.
    pub const AT: u8 = 1;
    /// Bytes of all of it.
    pub const AT_LEN: usize = 2 + 8;
    /// u8 [why](super::why), u64: from where it was, control went to this address.
    pub const TO: u8 = 2;
    /// u32: without another outcome, control came to the beginning of the fragment with
    /// this id; until it leaves that, the fragment's code is executed.
    pub const CODE: u8 = 3;
    /// u64: where the indirect branch before it went. In lane [`TARGETS`](super::TARGETS) only.
    pub const TARGET: u8 = 4;
}

/// Why control went elsewhere without a branch: a number of a signal, or one of these.
pub mod why {
    /// The thread begins.
    pub const START: u8 = 0;
    /// Return from a signal's handler.
    pub const SIGRETURN: u8 = 0x80;
    /// A call of the vsyscall page, and the return from it.
    pub const VSYSCALL: u8 = 0x81;
    /// Code executed since the escape before was not selected, or ran while tracing was off.
    pub const UNSELECTED: u8 = 0x82;
    pub const OFF: u8 = 0x83;
    /// It is there already, and no instruction can be fetched there.
    pub const NOWHERE: u8 = 0x84;
    /// The far branch before was made.
    pub const FAR: u8 = 0x85;
}

/// Header of a chunk.
#[derive(Debug)]
#[repr(C)]
pub struct Chunk {
    /// Next chunk of the same thread, or the next free one (offset, 0: none).
    pub next: AtomicU64,
    /// While emitted code appends: offset of a word that holds where to, as an address in
    /// the process that has its pool at `base`.
    pub live: AtomicU64,
    pub base: AtomicU64,
    /// Bytes, once it is closed.
    pub used: AtomicU32,
    /// [`OPEN`], [`CLOSED`] or [`LOST`].
    pub closed: AtomicU32,
    /// Offset of the first byte: [`BEGIN`], or [`BEGIN_TINY`].
    pub begin: AtomicU32,
    /// How many of its bytes are before the keyframe in it, of which there is one at most.
    pub before_keyframe: AtomicU32,
    /// Which keyframe of the thread that is; 0: there is none. Stored last.
    pub keyframe: AtomicU32,
    pub reserved: AtomicU32,
    /// Sum of the thread's counters of instructions at the keyframe.
    pub keyframe_insns: AtomicU64,
}

/// State of a chunk: it is written to.
pub const OPEN: u32 = 0;
/// Nothing is written to it any more.
pub const CLOSED: u32 = 1;
/// State of a closed chunk after which the thread's actions are not recorded.
pub const LOST: u32 = 2;

/// All chunks of a pool.
#[derive(Debug)]
#[repr(C)]
pub struct Chunks {
    /// First of those that are free.
    ///
    /// ```text
    ///  | how often it was changed 32 | offset / PAGE 32 |
    /// ```
    pub free: AtomicU64,
    /// How many are closed and not freed yet.
    pub waiting: AtomicU64,
    /// Futex word: raised when one was freed.
    pub freed: AtomicU32,
    /// Futex word: raised when one was closed.
    pub closed: AtomicU32,
}

impl Chunks {
    /// Takes a chunk that is free, of those of `pool`.
    pub fn take(&self, pool: &crate::view::Pool) -> Option<u64> {
        use core::sync::atomic::Ordering::{AcqRel, Acquire};
        let mut head = self.free.load(Acquire);
        loop {
            let offset = (head & 0xffff_ffff) * crate::PAGE;
            let chunk: &Chunk = pool.at(offset).filter(|_| offset != 0)?;
            let next = chunk.next.load(Acquire) / crate::PAGE;
            let changes = (head >> 32).wrapping_add(1) << 32;
            let new = changes | (next & 0xffff_ffff);
            match self.free.compare_exchange(head, new, AcqRel, Acquire) {
                Ok(_) => return Some(offset),
                Err(now) => head = now,
            }
        }
    }

    /// Frees one that nobody reads or writes.
    pub fn free(&self, pool: &crate::view::Pool, offset: u64) {
        use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
        let Some(chunk) = pool.at::<Chunk>(offset) else {
            return;
        };
        let mut head = self.free.load(Acquire);
        loop {
            chunk
                .next
                .store((head & 0xffff_ffff) * crate::PAGE, Release);
            let changes = (head >> 32).wrapping_add(1) << 32;
            let new = changes | (offset / crate::PAGE);
            match self.free.compare_exchange(head, new, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.waiting.fetch_sub(1, Relaxed);
        self.freed.fetch_add(1, Release);
    }
}

const _: () = assert!(size_of::<Chunk>() == 56);
