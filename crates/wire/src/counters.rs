//! Counters of an edited program: their memory, their file, and what the editor tells the code that keeps them.
//!
//! ```text
//!  memory of a thread, at its %gs          file NAME.PID.evp
//!  0      SlotHead, zero in a forked child 0       FileHeader
//!  4096   counters: mapped from the file   4096    counters of the first thread
//!                                          4096+n  counters of the second thread, and so on
//! ```
//!
//! A thread has its counters to itself, so each is a plain 64-bit word with one writer; the file has them at every moment,
//! also when the process is killed. All numbers are little-endian.

/// Offset of the first counter from a thread's `%gs`, and of the first thread's counters in the file.
pub const FIRST: u64 = 4096;

/// The first bytes of a file of counters.
pub const MAGIC: [u8; 8] = *b"EVPCNTRS";
/// Version of the file.
pub const VERSION: u32 = 2;

/// Bytes of the identity of an edited file.
pub const ID: usize = 16;
/// Most bytes of the path of the program, and of its arguments, in a file.
pub const PATH: usize = 1024;
pub const ARGUMENTS: usize = 2048;

/// Threads whose numbers a file has.
pub const NUMBERED: usize = 224;
/// The number of counters that several threads used, one after the other.
pub const SEVERAL: u32 = 0;

/// Bytes of the path of the folder for files of counters, with the zero that ends it.
pub const FOLDER: usize = 512;
/// The environment variable that names another folder for them.
pub const FOLDER_VARIABLE: &[u8] = b"EVERYPATH_COUNTERS=";

/// The code inside the edited program begins with a jump of five bytes; this is where the editor writes [`Configuration`].
pub const CONFIGURATION_AT: usize = 8;

/// Facts that the code inside the edited program cannot know, and the editor tells it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Configuration {
    /// Distance of the process's [`State`] from this structure.
    pub state: i64,
    /// Link address of this structure.
    pub link: u64,
    /// Bytes of a thread's counters, whole pages.
    pub stride: u64,
    /// Identity of the edited file.
    pub id: [u8; ID],
    /// 1: files of counters are beside the program, not in the working folder.
    pub is_beside: u64,
    /// Path of the folder where they are, ended by a zero; empty: the working folder.
    pub folder: [u8; FOLDER],
}

/// State of a process: data of the edited program, zero at first.
#[derive(Debug)]
#[repr(C)]
pub struct State {
    /// Not 0: threads may have counters. Code in front of functions looks at it.
    pub started: u32,
    pub unused: u32,
    /// Process whose thread is at work here.
    pub lock: u64,
    /// Address of the [`Process`]; 0: none yet.
    pub process: u64,
    /// Bytes of the folder and the beginning of the file's name in `path`.
    pub stem: u64,
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
    /// Number of threads' counters in the file.
    pub slots: u64,
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
}

/// The first page of a file.
#[derive(Debug)]
#[repr(C)]
pub struct FileHeader {
    pub magic: [u8; 8],
    pub version: u32,
    /// 1: the process was made by `fork` from one with counters.
    pub by_fork: u32,
    pub id: [u8; ID],
    /// Bytes of a thread's counters.
    pub stride: u64,
    /// Threads with counters in the file; those that have the same ones, one after the other, are one.
    pub slots: u64,
    /// Threads without, as there was no room.
    pub lost: u64,
    pub pid: u32,
    pub parent: u32,
    /// Difference of addresses in memory and link addresses.
    pub bias: u64,
    /// Nanoseconds since 1970.
    pub started: u64,
    pub path_len: u32,
    pub arguments_len: u32,
    pub path: [u8; PATH],
    /// Each ended by a zero.
    pub arguments: [u8; ARGUMENTS],
    /// Numbers of the first threads with counters, or [`SEVERAL`].
    pub threads: [u32; NUMBERED],
}

/// Offset behind the [`State`] of memory for all threads for which there is no other: [`FIRST`] bytes and the counters, whose
/// values nobody reads.
pub const SPARE: u64 = 8192;

const _: () = assert!(size_of::<FileHeader>() as u64 <= FIRST);
const _: () = assert!(size_of::<State>() as u64 <= SPARE);
