//! Counters of edited files: their memory, the process's file, and what the editor tells the code that keeps them.
//!
//! ```text
//!  memory of a thread, at its %gs              file NAME.PID.evp
//!  0      SlotHead, zero in a forked child     0       FileHeader
//!  4096   counters of one edited file after    16384   ChunkHead, and 4096 bytes behind its beginning
//!         another, each at its own place:              the counters of a thread in one edited file
//!         mapped from the file                 ...     the next chunk
//! ```
//!
//! Files that were edited together, a program and its libraries, share a thread's memory: the editor gives each a part of it
//! ([`Configuration::at`], [`Configuration::window`]). A thread has its counters to itself, so each is a plain 64-bit word with one writer; the file
//! has them at every moment, also when the process is killed. All numbers are little-endian.

use crate::pack;

/// Offset of the first counter from a thread's `%gs`; bytes of a page.
pub const FIRST: u64 = 4096;
/// Bytes of the head of a file.
pub const HEAD: u64 = 16384;
/// Bytes in front of a chunk's counters.
pub const CHUNK_HEAD: u64 = 4096;

/// The first bytes of a file of counters.
pub const MAGIC: [u8; 8] = *b"EVPCNTRS";
/// The first bytes of a chunk.
pub const CHUNK_MAGIC: [u8; 8] = *b"EVPCHUNK";
/// Version of the file.
pub const VERSION: u32 = 5;

/// Bytes of the identity of an edited file.
pub const ID: usize = 16;
/// Most bytes of the path of the program, and of its arguments, in a file.
pub const PATH: usize = 1024;
pub const ARGUMENTS: usize = 2048;

/// Threads whose numbers a file has.
pub const NUMBERED: usize = 224;
/// The number of counters that several threads used, one after the other.
pub const SEVERAL: u32 = 0;
/// Edited files of a process that can have counters.
pub const MODULES: usize = 250;

/// Bytes of the path of the folder for files of counters, and of that of an edited file, with the zero that ends it.
pub const FOLDER: usize = 512;
/// The environment variable that names another folder for them, ended by a zero.
pub const FOLDER_VARIABLE: &[u8] = b"EVERYPATH_COUNTERS\0";

/// Address of the [`State`] of files that were edited together, by which they find each other in a process; where something else
/// is, another one of so many at this distance.
pub const ANCHOR: u64 = 0x2000_0000_0000;
pub const ANCHORS: u64 = 8;
pub const ANCHOR_DISTANCE: u64 = 1 << 36;
/// The first bytes there.
pub const ANCHOR_MAGIC: u64 = u64::from_le_bytes(*b"EVPANCHR");

/// The code inside the edited file begins with a jump of five bytes; this is where the editor writes [`Configuration`].
pub const CONFIGURATION_AT: usize = 8;

/// Offset of the code that counts values in tables, behind the [`Configuration`].
pub const TALLY_AT: usize = CONFIGURATION_AT + size_of::<Configuration>();

/// Offset of the code that executes a function again for each input of a fuzzer, behind that jump.
pub const TURNS_AT: usize = TALLY_AT + 8;

/// Offset of the routines that make room in a lane ([`Lane`]): one for each register by its number, [`FULL_BYTES`] apart, which
/// has the address at which it goes on.
pub const FULL_AT: usize = (TURNS_AT + 8).next_multiple_of(FULL_BYTES);
pub const FULL_BYTES: usize = 32;

/// Offset of the routines for records of contexts ([`crate::contexts`]): put on top, enter, restore, leave, log, count,
/// jump.
pub const CONTEXTS_AT: usize = FULL_AT + 16 * FULL_BYTES;
pub const CONTEXTS_BYTES: usize = 8;

/// Facts that the code inside the edited file cannot know, and the editor tells it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Configuration {
    /// Distance from this structure to the file's own data: its [`State`], or, if it was edited together with others, the word
    /// [`State::started`] alone.
    pub state: i64,
    /// Link address of this structure.
    pub link: u64,
    /// Place of the file's counters behind [`FIRST`], and their bytes: whole pages.
    pub at: u64,
    pub bytes: u64,
    /// Bytes of a thread's counters of all files that were edited together.
    pub window: u64,
    /// Identity of the files that were edited together; 0: this one was edited alone.
    pub group: u64,
    /// [`IN_FOLDER`], [`BESIDE`], [`FUZZER`] or [`NOWHERE`].
    pub place: u64,
    /// [`COUNTERS`], [`LANE`], [`CONTEXTS`], [`EVENTS`] or [`CALLS`].
    pub form: u64,
    /// Identity of the edited file.
    pub id: [u8; ID],
    /// Path of the folder where they are, ended by a zero; empty: the working folder.
    pub folder: [u8; FOLDER],
    /// Path of the edited file, ended by a zero.
    pub path: [u8; FOLDER],
}

/// Files of counters are in the folder that is told, or beside the program; or counters are memory that a fuzzer shares.
pub const IN_FOLDER: u64 = 0;
pub const BESIDE: u64 = 1;
pub const FUZZER: u64 = 2;
/// There are no files: the memory is the process's own, and a forked child goes on with what its parent had.
pub const NOWHERE: u64 = 3;

/// The memory of a thread is counters, a [`Lane`], that of [`crate::contexts`], or this and a lane behind it, or also
/// [`crate::contexts::Calls`] behind this.
pub const COUNTERS: u64 = 0;
pub const LANE: u64 = 1;
pub const CONTEXTS: u64 = 2;
pub const EVENTS: u64 = 3;
pub const CALLS: u64 = 4;

/// An edited file of a process.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Module {
    pub id: [u8; ID],
    /// Difference of addresses in memory and link addresses.
    pub bias: u64,
    /// As in its [`Configuration`].
    pub at: u64,
    pub bytes: u64,
    /// Address of its [`Configuration`].
    pub configuration: u64,
}

/// State of a process, zero at first: data of the edited program, or memory at [`ANCHOR`].
#[derive(Debug)]
#[repr(C)]
pub struct State {
    /// Not 0: threads may have counters. Code in front of functions looks at it.
    pub started: u32,
    pub unused: u32,
    /// [`ANCHOR_MAGIC`], at [`ANCHOR`]; written last.
    pub magic: u64,
    /// As in the [`Configuration`] of each.
    pub group: u64,
    /// Process whose thread is at work here.
    pub lock: u64,
    /// Address of the [`Process`]; 0: none yet.
    pub process: u64,
    /// Bytes of the folder and the beginning of the file's name in `path`.
    pub stem: u64,
    /// Edited files that have counters, and their number.
    pub count: u64,
    pub modules: [Module; MODULES],
    /// Path of the file, ended by a zero.
    pub path: [u8; 4096],
}

/// State of a process that its forked children do not have: there this memory is zero.
#[derive(Debug)]
#[repr(C)]
pub struct Process {
    /// 1: it is there.
    pub alive: u64,
    /// Address of the first [`SlotHead`].
    pub first: u64,
    /// Address of the [`FileHeader`]; 0: there is no file.
    pub header: u64,
    /// One more than the number of the memory that a fuzzer shares; 0: there is none.
    pub fuzzer: u64,
    pub turns: Turns,
    /// Number of threads with counters in the file.
    pub slots: u64,
    /// Bytes of the file.
    pub end: u64,
    /// Address of a [`Scratch`]; 0: there is none yet.
    pub scratch: u64,
    /// Number of pieces that are not compressed, as one before was not much shorter for it.
    pub plain: u64,
}

/// Turns of a function that is executed again for each input of a fuzzer.
#[derive(Debug)]
#[repr(C)]
pub struct Turns {
    /// Turns that have begun.
    pub begun: u64,
    /// Address to which the function really returns, and to which it returns meanwhile.
    pub back: u64,
    pub again: u64,
    /// The process whose turns they are.
    pub pid: u64,
    /// Registers at its beginning, by their numbers, and where it goes on.
    pub registers: [u64; 16],
    pub goes_on: u64,
}

/// The beginning of a thread's memory: zero in a forked child.
#[derive(Debug)]
#[repr(C)]
pub struct SlotHead {
    /// The thread pointer of the thread that it belongs to.
    pub owner: u64,
    /// Address of the next one.
    pub next: u64,
    /// Number of the thread.
    pub thread: u64,
    /// Number of its counters in the file.
    pub slot: u64,
    /// Its own address; 0 in a forked child.
    pub address: u64,
}

/// The head of a file.
#[derive(Debug)]
#[repr(C)]
pub struct FileHeader {
    pub magic: [u8; 8],
    pub version: u32,
    /// 1: the process was made by `fork` from one with counters.
    pub by_fork: u32,
    /// Threads with counters in the file; those that have the same ones, one after the other, are one.
    pub slots: u64,
    /// Chunks in the file.
    pub chunks: u64,
    /// Threads without counters in a file, as there was no room.
    pub lost: u64,
    /// Edited files without, as there were more than [`MODULES`].
    pub lost_modules: u64,
    /// Edited files in `modules`.
    pub count: u64,
    pub pid: u32,
    pub parent: u32,
    /// Nanoseconds since 1970.
    pub started: u64,
    pub path_len: u32,
    pub arguments_len: u32,
    /// Path of the program.
    pub path: [u8; PATH],
    /// Each ended by a zero.
    pub arguments: [u8; ARGUMENTS],
    /// Numbers of the first threads with counters, or [`SEVERAL`].
    pub threads: [u32; NUMBERED],
    pub modules: [Module; MODULES],
}

/// The head of a chunk: the counters of a thread in one edited file.
#[derive(Debug)]
#[repr(C)]
pub struct ChunkHead {
    pub magic: [u8; 8],
    /// Number of the thread's counters.
    pub slot: u64,
    /// Index in [`FileHeader::modules`].
    pub module: u64,
    /// Path of the edited file when it was edited, ended by a zero.
    pub path: [u8; FOLDER],
}

/// The first bytes of a piece of a stream, in the place of a chunk.
pub const STREAM_MAGIC: [u8; 8] = *b"EVPSTREM";

/// The beginning of a thread's memory if that is a lane: bytes that the thread appends to its stream.
///
/// A full lane is written behind the last chunk of the file, as a [`StreamHead`] and its bytes, and is empty again; what is in the
/// lane continues what was written before. So the file has the whole stream at every moment.
#[derive(Debug)]
#[repr(C)]
pub struct Lane {
    /// Number of its bytes that are free, negative; not below 0: it is full, and some are behind its end.
    pub cursor: i64,
    /// Bytes of the stream that were written before; [`Lane::ENDED`]: there is no room for more.
    pub before: u64,
    /// The thread pointer of its thread.
    pub pointer: u64,
}

impl Lane {
    /// All its bytes, and those in front of the first one of the stream.
    pub const BYTES: u64 = 64 << 10;
    pub const HEAD: u64 = 64;
    /// Bytes until it is full; behind them there is room for what is appended until it is written.
    pub const ROOM: u64 = Lane::BYTES - 4096;
    pub const ENDED: u64 = u64::MAX;
}

/// The head of a piece of a stream, whose bytes follow; what comes next begins at a page.
#[derive(Debug)]
#[repr(C)]
pub struct StreamHead {
    pub magic: [u8; 8],
    /// Number of the thread's counters.
    pub slot: u64,
    /// Bytes of the stream that come before.
    pub before: u64,
    pub bytes: u64,
    /// Bytes of the file behind the head: fewer are a block of LZ4 ([`pack`]).
    pub stored: u64,
}

/// The first bytes of a piece of counters of calls ([`crate::contexts::Calls`]), in the place of a chunk: [`CHUNK_HEAD`] bytes,
/// and the counters.
pub const COUNTS_MAGIC: [u8; 8] = *b"EVPCOUNT";
/// Bytes of the counters of a piece.
pub const COUNTS_BYTES: u64 = 64 << 10;

/// The head of such a piece.
#[derive(Debug)]
#[repr(C)]
pub struct CountsHead {
    pub magic: [u8; 8],
    /// Number of the thread's counters.
    pub slot: u64,
    /// Number of the first context.
    pub first: u64,
}

/// A piece of a stream before it is written.
#[derive(Debug)]
#[repr(C)]
pub struct Scratch {
    pub head: StreamHead,
    pub bytes: [u8; Lane::BYTES as usize],
    pub table: pack::Table,
}

/// Offset behind the [`State`] of memory for all threads for which there is no other: [`FIRST`] bytes and the counters, whose
/// values nobody reads.
pub const SPARE: u64 = 20480;

const _: () = assert!(size_of::<FileHeader>() as u64 <= HEAD);
const _: () = assert!(size_of::<Lane>() as u64 <= Lane::HEAD && Lane::BYTES as usize <= pack::MOST);
const _: () = assert!(size_of::<ChunkHead>() as u64 <= CHUNK_HEAD);
const _: () = assert!(size_of::<State>() as u64 <= SPARE);
