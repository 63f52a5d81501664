//! Fixed structures of the pool. All integers are native (x86-64) order.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of every pool.
pub const MAGIC: u64 = u64::from_le_bytes(*b"EVPPOOL\x01");
/// Raised whenever a structure in this crate changes its layout or meaning.
///
/// | version | change |
/// |---|---|
/// | 1 | first |
/// | 2 | children that nobody asked for say so: `made` and `hidden` |
/// | 3 | a file is known by its inode's last change, too; tables are in a list |
/// | 4 | nodes with costs; counts of fragments |
/// | 5 | forests of basic blocks |
/// | 6 | costs besides instructions; a word for each |
/// | 7 | windows of blocks and their cells; streams of what threads executed |
/// | 8 | several streams of each thread, they say if they end early, and the CLI that it lives; counts of where indirect branches go |
/// | 9 | chunks of streams say where they begin and where a keyframe is |
/// | 10 | which calls, and numbers of instructions, tracing begins and ends at; only the executable's own code; time stamps in streams, and whose turn it is |
/// | 11 | where indirect branches went, by number |
/// | 12 | tracing is asked for and not, while the program runs, and by signals |
/// | 13 | what is listed as targets says how long their numbers are |
/// | 14 | entries of streams say how many instructions were executed; each keyframe how many are in no entry |
/// | 15 | memory that threads did not get |
/// | 16 | numbers of instructions that threads share |
pub const VERSION: u32 = 19;

/// Allocation granularity of the pool, the page size of x86-64.
pub const PAGE: u64 = 4096;

/// Instrumentation that the engine inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Translate only.
    Run = 0,
    /// Function-mode calling contexts (IHPP chapter 4.2).
    Contexts = 1,
    /// Executions of every piece of straight code and of every way out of it.
    Counts = 2,
    /// Contexts of basic blocks in each activation of a function (chapter 4.3).
    Intra = 3,
    /// Contexts of basic blocks as if there were no functions (chapter 4.4).
    Inter = 4,
    /// Every instruction of every thread in order ([`crate::stream`]).
    Trace = 5,
}

/// Bits of [`Config::flags`].
pub mod flag {
    /// Children made by fork, vfork, clone and exec run under the engine too.
    pub const FOLLOW: u32 = 1 << 0;
    /// Recursion of one function makes a node per level (IHPP 4.2.3).
    pub const UNROLL: u32 = 1 << 1;
    /// Count retired instructions per thread.
    pub const COUNT_INSNS: u32 = 1 << 2;
    /// Only functions whose table entry says `SELECTED` make nodes.
    pub const SELECT: u32 = 1 << 3;
    /// Nothing is counted before a function marked `START` is entered.
    pub const START_FUNC: u32 = 1 << 4;
    /// Entering a function marked `STOP` ends counting for good.
    pub const STOP_FUNC: u32 = 1 << 5;
    /// Files were selected, not functions: with `SELECT`, whatever is called in a
    /// covered file counts, also where its table knows no function.
    pub const BY_MODULE: u32 = 1 << 6;
    /// Measure the time spent translating.
    pub const CLOCK: u32 = 1 << 7;
    /// Translate direct calls wrongly: they complement the carry flag. Only to
    /// show that [`Config::lockstep`] sees it.
    pub const MISTRANSLATE: u32 = 1 << 8;
    /// A block that was executed before, of those that lead to the state, is gone
    /// back to (4.3.4); `k` is infinite then.
    pub const ROLL_LOOPS: u32 = 1 << 9;
    /// Blocks end at branches only, also where one is known to go (4.3.1).
    pub const DYNAMIC_BLOCKS: u32 = 1 << 10;
    /// States of basic blocks are places in the k-slab forest, also where k is finite;
    /// otherwise they are windows of the last k blocks.
    pub const SLABS: u32 = 1 << 11;
    /// Code is not laid out anew by the clock, for tests that compare how much was
    /// translated.
    pub const STEADY: u32 = 1 << 12;
    /// Only code of the executable itself is traced.
    pub const OWN_CODE: u32 = 1 << 13;
    /// Tracing begins and ends as [`PoolHeader::paused`] says.
    pub const BY_REQUEST: u32 = 1 << 14;
    /// A jump of a function to its own first instruction is an activation.
    pub const SELF_JUMPS: u32 = 1 << 15;
    /// `skip` and `count` are of all threads together ([`PoolHeader::budgets`]).
    pub const TOGETHER: u32 = 1 << 16;
    /// Flags about functions in tables.
    pub const OF_TABLES: u32 = SELECT | START_FUNC | STOP_FUNC;
}

/// Options of the run, from the CLI to the engine; written once, before the target starts.
#[derive(Debug)]
#[repr(C)]
pub struct Config {
    /// A [`Mode`] as its number.
    pub mode: AtomicU32,
    /// Bits from [`flag`].
    pub flags: AtomicU32,
    /// k of the k-slab forest; 0 stands for infinity.
    pub k: AtomicU32,
    /// 0: no lockstep. Otherwise about every how many exits from the cache a
    /// window is compared with a native run.
    pub lockstep: AtomicU32,
    /// 0: no chaos. Otherwise the seed of the chaos switch (tiny cache, flush
    /// storms, unlinking, early signals).
    pub chaos_seed: AtomicU64,
    /// Nodes after which a process's forests end in `[truncated]` nodes.
    pub max_nodes: AtomicU64,
    /// Costs that nodes carry besides calls: bits from [`crate::cost`].
    pub costs: AtomicU32,
    /// Events of a trace that have time stamps ([`crate::stream::order`]).
    pub order: AtomicU32,
    /// Chunks of streams that may wait for their reader ([`crate::stream`]).
    pub max_chunks: AtomicU64,
    /// Which call of a function marked `START`, and of one marked `STOP`, tracing begins
    /// and ends at.
    pub start_call: AtomicU64,
    pub stop_call: AtomicU64,
    /// How many instructions of each thread, or of all together, are not traced first, and how
    /// many are then (0: all).
    pub skip: AtomicU64,
    pub count: AtomicU64,
    /// The signals whose handlers begin and end tracing; 0: none. With one for both, each
    /// does what the one before did not.
    pub start_signal: AtomicU32,
    pub stop_signal: AtomicU32,
    /// Memory accesses that a trace records: bits from [`crate::stream::memory`]; 0: none.
    pub memory: AtomicU32,
    pub reserved: AtomicU32,
}

/// First page of the pool.
#[derive(Debug)]
#[repr(C)]
pub struct PoolHeader {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    /// 1 while the CLI serves requests; 0 when it is gone or never was.
    pub cli_alive: AtomicU32,
    /// Size of the file in bytes; allocations end here.
    pub size: AtomicU64,
    /// Offset of the first byte never allocated. Advanced by `fetch_add`, by
    /// the target's processes and the CLI alike.
    pub bump: AtomicU64,
    /// Futex word: incremented and woken by a target that wants an answer.
    pub doorbell: AtomicU32,
    /// Newest ProcessRecord (offset, 0: none); they chain by `next`.
    pub processes: AtomicU64,
    /// Newest FuncTable, in the same way.
    pub tables: AtomicU64,
    pub config: Config,
    pub chunks: crate::stream::Chunks,
    /// Raised several times a second by who takes chunks out.
    pub beats: AtomicU32,
    /// Process that holds the pool open, and its descriptor of it.
    pub owner: AtomicU32,
    pub owner_fd: AtomicU32,
    /// Nonzero: nothing is to be traced now, by request.
    pub paused: AtomicU32,
    /// The owner's descriptors of files of [`POLLS`] pages, which emitted code stores to:
    /// while it is traced, and while it is not. One of them is empty, so who is to go over to
    /// the other state faults. In the order of [`poll`].
    pub polls: [AtomicU32; 2],
    /// Turn of the atomic instructions that are executed one after the other.
    pub turn: crate::stream::Turn,
    /// Memory that threads did not get.
    pub denied: crate::denied::Denied,
    /// Programs that were executed natively.
    pub natives: crate::natives::Natives,
    /// Remainders of [`Config::skip`] and [`Config::count`], if threads share them.
    pub budgets: [crate::budget::Budget; 2],
}

/// Pages of a file that emitted code polls; threads have different ones.
pub const POLLS: u64 = 64;

/// Which of the files of [`PoolHeader::polls`].
pub mod poll {
    /// Polled by code that was made while tracing was on.
    pub const ON: usize = 0;
    pub const OFF: usize = 1;
}

/// How a process record stands.
pub mod process_state {
    pub const RUNNING: u32 = 1;
    /// Replaced itself by exec; the new program has a record of its own.
    pub const EXECED: u32 = 2;
    /// Called exit_group; `end_status` holds the code.
    pub const EXITED: u32 = 3;
}

/// Longest path and command line kept in a process record; longer ones are cut.
pub const PATH_MAX: usize = 1024;
pub const CMDLINE_MAX: usize = 1536;
/// Engine statistics per process, see [`stat`].
pub const STATS: usize = 32;

/// Indices into [`ProcessRecord::stats`]. Recordings keep them by index, so they are
/// appended and never moved.
pub mod stat {
    pub const BLOCKS: usize = 0;
    pub const APP_INSNS_TRANSLATED: usize = 1;
    pub const APP_BYTES_TRANSLATED: usize = 2;
    pub const CACHE_BYTES: usize = 3;
    pub const EXITS_DIRECT: usize = 4;
    pub const EXITS_INDIRECT: usize = 5;
    pub const EXITS_SYSCALL: usize = 6;
    pub const EXITS_EVENT: usize = 7;
    pub const LINKS: usize = 8;
    pub const INVALIDATIONS: usize = 9;
    pub const FLUSHES: usize = 10;
    pub const SIGNALS: usize = 11;
    pub const SMC_FAULTS: usize = 12;
    pub const TRANSLATE_CYCLES: usize = 13;
    pub const HEAP_BYTES: usize = 14;
    pub const TRANSITIONS: usize = 15;
    pub const APP_BYTES_AGAIN: usize = 16;
    /// From here to the divergences only with [`Config::lockstep`].
    pub const LOCKSTEP: usize = 17;
    pub const LOCKSTEP_WINDOWS: usize = 17;
    pub const LOCKSTEP_STEPS: usize = 18;
    pub const LOCKSTEP_AUDITS: usize = 19;
    pub const LOCKSTEP_INTERRUPTED: usize = 20;
    pub const LOCKSTEP_THREADS: usize = 21;
    pub const LOCKSTEP_REFUSED: usize = 22;
    pub const LOCKSTEP_RECIPES: usize = 23;
    pub const LOCKSTEP_DIVERGENCES: usize = 24;
    /// Contexts of basic blocks: paths for which neither cell nor table had the edge.
    pub const EDGE_LOOKUPS: usize = 25;
    /// Not the engine's: the CLI stores in a trace's first process how often the counter of
    /// time stamps counts in a second.
    pub const TICKS_PER_SECOND: usize = 26;
    /// With [`crate::flag::CLOCK`], nanoseconds: from the engine's own first instruction to the program's, without
    /// waiting; and those of waiting for answers about functions.
    pub const STARTING_NS: usize = 27;
    pub const WAITING_NS: usize = 28;
    /// Human names, index by index; no name: not shown.
    pub const NAMES: [&str; 29] = [
        "blocks translated",
        "instructions translated",
        "code bytes translated",
        "cache bytes used",
        "cache exits, direct",
        "cache exits, indirect",
        "cache exits, system call",
        "cache exits, event",
        "links made",
        "blocks invalidated",
        "cache flushes",
        "signals delivered",
        "writes to translated code",
        "translation time (TSC cycles)",
        "engine heap bytes",
        "transitions looked up by the engine",
        "code bytes translated again",
        "lockstep windows",
        "lockstep boundaries compared",
        "lockstep resumptions of recovered state",
        "lockstep windows cut short",
        "lockstep windows left out: threads",
        "lockstep windows left out: no native run",
        "lockstep recoveries from within an instruction",
        "lockstep divergences",
        "edges looked up",
        "",
        "start of the engine (ns)",
        "waiting for answers (ns)",
    ];
    /// Names of the gauges of runs without lockstep.
    pub const NAMES_ALONE: [&str; NAMES.len()] = {
        let mut names = NAMES;
        let mut at = LOCKSTEP;
        while at <= LOCKSTEP_DIVERGENCES {
            names[at] = "";
            at += 1;
        }
        names
    };
}

/// One process image: a new one begins at fork, clone without `CLONE_VM`, and exec.
#[derive(Debug)]
#[repr(C)]
pub struct ProcessRecord {
    /// Older record (offset, 0: last).
    pub next: AtomicU64,
    /// Record of the image that forked or exec'd this one (offset, 0: none).
    pub parent: AtomicU64,
    pub pid: AtomicU32,
    /// See [`process_state`].
    pub state: AtomicU32,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: AtomicU64,
    pub end_ns: AtomicU64,
    /// Exit code given to exit_group when `state` is `EXITED`.
    pub end_status: AtomicU32,
    /// How it came to be; see [`made`].
    pub made: AtomicU32,
    /// First LogChunk (offset). A forked child begins a new log; what its
    /// parent logged before `parent_log_mark` bytes belongs to it too.
    pub log: AtomicU64,
    /// Number of log records of `parent` that were complete at the fork.
    pub parent_log_mark: AtomicU64,
    /// Newest ThreadRecord (offset, 0: none); they chain by `next`.
    pub threads: AtomicU64,
    /// Address at which this process maps the pool (needed for node keys).
    pub pool_base: AtomicU64,
    /// Futex word: the CLI stores the sequence number of the last request it answered.
    pub answered: AtomicU32,
    /// Sequence number of the last request the process made.
    pub asked: AtomicU32,
    /// File path of the module the last request is about lives in the log;
    /// this is the number of log records published when it was made.
    pub asked_records: AtomicU64,
    /// FuncTable (offset, 0: none) that answers the last request.
    pub answer: AtomicU64,
    pub stats: [AtomicU64; STATS],
    /// Executed file, not NUL terminated; length first.
    pub exe_len: AtomicU32,
    pub cmdline_len: AtomicU32,
    pub exe: [u8; PATH_MAX],
    /// Arguments, each ended by a NUL.
    pub cmdline: [u8; CMDLINE_MAX],
}

/// Values of [`ProcessRecord::made`].
pub mod made {
    pub const BY_EXEC: u32 = 0;
    /// The image existed before.
    pub const BY_FORK: u32 = 1;
    /// A forked child that nobody asked to record; readers leave it out.
    pub const BY_FORK_HIDDEN: u32 = 2;
}

/// One thread of a process image.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadRecord {
    pub next: AtomicU64,
    pub tid: AtomicU32,
    /// 0: running, 1: ended.
    pub ended: AtomicU32,
    pub start_ns: AtomicU64,
    pub end_ns: AtomicU64,
    /// Retired instructions (with `COUNT_INSNS`, and those of a trace that no entry tells of) of an
    /// ended thread.
    pub insns: AtomicU64,
    /// While the thread runs: offset of the [`InsnWords`] that emitted code counts in,
    /// to be added to `insns` (0: none).
    pub live_insns: AtomicU64,
    /// First NodeChunk (offset, 0: none yet).
    pub nodes: AtomicU64,
    /// Function events that found the node limit reached.
    pub truncated_events: AtomicU64,
    /// Most activations live at once; 0 unless contexts were counted and the
    /// thread ended in order.
    pub max_depth: AtomicU64,
    /// 1: a vfork child that nobody asked for; readers leave it out.
    pub hidden: AtomicU32,
    /// How often the thread was asked to run natively, for a tracer, and stayed.
    pub stayed: AtomicU32,
    /// With costs, until the thread ends: offset of [`LiveStates`] (0: none), which say
    /// whose the instructions in [`InsnWords`] are...
    pub live_states: AtomicU64,
    /// ...and what to add to a state for the offset of its node.
    pub states_from: AtomicU64,
    /// While the thread has them: offset of its slots, 64-bit counters by number
    /// ([`Mode::Counts`]; 0: none).
    pub slots: AtomicU64,
    /// Once it has ended: offset of its [`SavedCounts`] (0: none).
    pub counts: AtomicU64,
    /// The first [`crate::stream::Chunk`] of each of its lanes (offset, 0: none).
    pub streams: [AtomicU64; crate::stream::ALL_LANES],
}

/// The states that instructions are counted for which no node has got yet.
#[derive(Debug)]
#[repr(C)]
pub struct LiveStates {
    /// Whose those in the first [`COST_WORDS`] words are, and in the next.
    pub states: [AtomicU64; 2],
}

/// Slots of an ended thread that are not 0; so many [`SavedCount`] follow.
#[derive(Debug)]
#[repr(C)]
pub struct SavedCounts {
    pub used: AtomicU64,
}

#[derive(Debug)]
#[repr(C)]
pub struct SavedCount {
    pub slot: AtomicU64,
    pub count: AtomicU64,
}

/// Counters of retired instructions of a running thread; their sum counts. There are several,
/// because an addition waits for the one before it to the same word.
#[derive(Debug)]
#[repr(C)]
pub struct InsnWords {
    pub words: [AtomicU64; INSN_WORDS],
}

pub const INSN_WORDS: usize = 8;
/// While contexts carry costs, each state has a word for each cost of
/// [`crate::cost::OF_INSTRUCTIONS`], in the order of their bits.
pub const COST_WORDS: usize = crate::cost::OF_INSTRUCTIONS.count_ones() as usize;

const _: () = assert!(2 * COST_WORDS == INSN_WORDS);

/// Header of a chunk of nodes; the nodes follow it.
#[derive(Debug)]
#[repr(C)]
pub struct NodeChunk {
    /// Next chunk of the same thread (offset, 0: last).
    pub next: AtomicU64,
    /// Nodes published.
    pub used: AtomicU32,
    /// Nodes that fit.
    pub capacity: AtomicU32,
}

/// One state of one file: another file under its name, or other contents, have
/// another id. All 0: no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FileId {
    pub dev: u64,
    pub ino: u64,
    /// Last change of the inode, in nanoseconds since 1970.
    pub changed: u64,
}

impl FileId {
    pub fn new(dev: u64, ino: u64, changed_s: u64, changed_ns: u64) -> FileId {
        FileId {
            dev,
            ino,
            changed: changed_s
                .wrapping_mul(1_000_000_000)
                .wrapping_add(changed_ns),
        }
    }
}

/// Answer of the CLI to "which functions are in this file": sorted by `start`.
/// A table never changes once it is in the list that begins in the header.
#[derive(Debug)]
#[repr(C)]
pub struct FuncTable {
    pub count: AtomicU64,
    /// 1: every function of the file is selected.
    pub covered: AtomicU64,
    /// The table listed before (offset, 0: none).
    pub next: AtomicU64,
    /// The file: its [`FileId`], and the length of its path, by which modules
    /// are chosen.
    pub dev: AtomicU64,
    pub ino: AtomicU64,
    pub changed: AtomicU64,
    pub path_len: AtomicU64,
    // FuncEntry[count] and the path follow.
}

/// Bits of [`FuncEntry::flags`].
pub mod func {
    /// Control arriving here by call, jump or fall-through begins an activation.
    pub const ENTRY: u32 = 1 << 0;
    /// A PLT stub: never a function, whatever arrives.
    pub const PLT: u32 = 1 << 1;
    /// Chosen by `--funcs` / `--modules` (meaningful with `flag::SELECT`).
    pub const SELECTED: u32 = 1 << 2;
    pub const START: u32 = 1 << 3;
    pub const STOP: u32 = 1 << 4;
    /// Lazy binding and the like: neither it nor what it calls is counted.
    pub const MUTE: u32 = 1 << 5;
    /// A `.cold` or other part that belongs to the function at `owner`.
    pub const PART: u32 = 1 << 6;
}

/// One extent of code in file offsets of the module's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FuncEntry {
    pub start: u64,
    pub end: u64,
    /// Start of the function this extent belongs to (itself, except for `PART`).
    pub owner: u64,
    /// Bits from [`func`].
    pub flags: u32,
    pub reserved: u32,
}

const _: () = {
    assert!(size_of::<PoolHeader>() <= PAGE as usize);
    assert!(size_of::<ProcessRecord>() <= PAGE as usize);
    assert!(size_of::<NodeChunk>() == 16);
    assert!(size_of::<FuncEntry>() == 32);
};
