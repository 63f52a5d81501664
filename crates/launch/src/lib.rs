//! Starts a target under the engine and waits for it.
//!
//! The launcher makes two memory files, the *pool* (shared with every process
//! of the target tree) and the payload, forks, and the child executes the
//! payload, which loads the program. While the program runs, a thread answers
//! the engine's questions about functions; the launcher waits, and reports how the program
//! ended. The process that a shell sees does as the program does (`face`, `watch`).
//!
//! Invariant: knows nothing of what the records in the pool mean, and never
//! touches the target's standard streams.

use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::MemfdFlags;
use thiserror::Error;
use wire::view::Pool;
use wire::{Mode, PAGE};

mod control;
mod drain;
mod face;
mod in_place;
mod inherit;
mod link;
mod orphans;
mod passed_on;
mod pool;
mod proc;
mod requests;
mod sampling;
mod script;
mod signals;
mod ticks;
mod wait;
mod watch;
mod witness;

pub use control::{Control, Standing, Wish, ask};
pub use face::{Role, split};
pub use in_place::{give_up, stand_aside};
pub use inherit::restore as restore_signals;
pub use orphans::Inherited;
pub use passed_on::{PassedOn, pass_on};
pub use pool::OwnedPool;
pub use sampling::{Samples, Times};
pub use ticks::Reading;

use control::Switch;

/// The freestanding program that runs inside the target.
static PAYLOAD: &[u8] = include_bytes!(env!("EVERYPATH_PAYLOAD"));

/// A program to run, and the options of the run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file to execute, as found.
    pub program: PathBuf,
    /// Arguments, argv[0] first.
    pub argv: Vec<OsString>,
    pub mode: Mode,
    /// k of the k-slab forest; `None`: infinite.
    pub k: Option<u32>,
    /// Bits from `wire::flag`.
    pub flags: u32,
    pub chaos: Option<u64>,
    /// Exits from the cache between two windows of lockstep.
    pub lockstep: Option<u32>,
    pub max_nodes: u64,
    /// Costs that contexts carry besides calls: bits from `wire::cost`.
    pub costs: u32,
    /// Events of a trace that have time stamps (`wire::stream::order`).
    pub order: u32,
    /// Memory accesses that a trace records (`wire::stream::memory`).
    pub memory: u32,
    /// Bytes of streams that may wait to be taken out of the pool.
    pub buffer: u64,
    /// Which calls tracing begins and ends at; 0: none.
    pub calls: [u64; 2],
    /// How many instructions of each thread, or of all together (`flag::TOGETHER`), are not
    /// traced first, and are then; 0: all.
    pub insns: [u64; 2],
    /// How tracing begins and ends while the program runs; `None`: it does not.
    pub control: Option<Control>,
    /// The run lasts until the last process ends, and not the first.
    pub waits_for_all: bool,
    /// Whether it is looked at where threads are: contexts get times.
    pub samples: bool,
}

/// Answers the engine's questions.
pub trait Tables {
    /// Function extents of the file at `path`, sorted by start; empty: no table.
    fn table(&mut self, path: &Path) -> Vec<wire::FuncEntry>;

    /// A file that will be asked for, each once, in the order of the questions:
    /// its table is made while nobody asks.
    fn expected(&mut self) -> Option<PathBuf> {
        None
    }
}

/// Takes what the target has written out of the pool while it runs.
pub trait Drain {
    /// Whether anything was freed.
    fn drain(&mut self, pool: &Pool) -> bool;

    /// When to look again even if nobody says that there is something.
    fn patience(&self) -> Duration {
        Duration::from_millis(50)
    }
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signaled {
        signal: i32,
        core: bool,
    },
    /// It has, and somebody else knows how.
    Unknown,
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    pub ended: Ended,
    pub pool: OwnedPool,
    pub duration: Duration,
    pub started: SystemTime,
    /// How often the time-stamp counter counts in a second, if that could be measured.
    pub ticks_per_second: Option<u64>,
    /// Times of nodes, if they were asked for.
    pub samples: Samples,
}

#[derive(Debug, Error)]
pub enum LaunchError {
    #[error(
        "cannot make a memory file for {what} ({source}); is there enough memory, and is memfd_create allowed here?"
    )]
    Memory {
        what: &'static str,
        source: rustix::io::Errno,
    },
    #[error("cannot start a process ({0})")]
    Fork(std::io::Error),
    #[error(
        "cannot execute the engine inside the new process ({error}); {}",
        advice(error)
    )]
    Exec { error: std::io::Error },
    #[error(
        "cannot take requests of `everypath ctl` ({source}); does another run write the same file?"
    )]
    Control { source: std::io::Error },
    #[error("cannot wait for the program ({0})")]
    Wait(std::io::Error),
}

/// Advice to a person about an error of exec.
fn advice(error: &std::io::Error) -> &'static str {
    match error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error)
    {
        Some(rustix::io::Errno::MFILE) => "allow more open files (ulimit -n 64)",
        Some(rustix::io::Errno::NOMEM | rustix::io::Errno::AGAIN) => {
            "allow more memory or processes (ulimit -v, ulimit -u)"
        }
        _ => "are files in memory allowed to be executed here (sysctl vm.memfd_noexec)?",
    }
}

impl LaunchError {
    pub fn exit_code(&self) -> u8 {
        125
    }
}

/// Runs the program to its end.
pub fn run(
    request: &Request,
    tables: &mut (dyn Tables + Send),
    drain: Option<&mut (dyn Drain + Send)>,
) -> Result<Run, LaunchError> {
    let pool = OwnedPool::create(request.mode)?;
    configure(&pool, request);
    let switch = request
        .control
        .as_ref()
        .map(|control| Switch::new(control, &pool.view()));
    let switch = switch.transpose()?;
    let payload = payload_file()?;
    let started = SystemTime::now();
    let clock = Instant::now();
    let begin = Reading::now();
    let watch = wait::spawn(&pool, &payload, request)?;
    let done = AtomicBool::new(false);
    let view = pool.view();
    let (ended, samples) = std::thread::scope(|scope| {
        let server = asks(request).then(|| scope.spawn(|| requests::serve(view, tables, &done)));
        let done = &done;
        let switch = switch.as_ref();
        let drain = drain.map(|drain| {
            let meanwhile = move || switch.into_iter().for_each(|switch| switch.show(&view));
            scope.spawn(move || drain::serve(&view, drain, done, meanwhile))
        });
        if let Some(switch) = switch {
            scope.spawn(move || switch.serve(&view, done));
        }
        let sampler = request
            .samples
            .then(|| scope.spawn(move || sampling::serve(&view, done)));
        let ended = watch.watch();
        done.store(true, Release);
        switch.into_iter().for_each(Switch::ring);
        requests::ring(&view);
        if let Some(drain) = drain {
            drain::ring(&view);
            let _ = drain.join();
        }
        if let Some(server) = server {
            let _ = server.join();
        }
        let samples = sampler.and_then(|sampler| sampler.join().ok());
        (ended, samples.unwrap_or_default())
    });
    pool.view().header().cli_alive.store(0, Release);
    let rate = |begin: Reading| Reading::now()?.per_second_since(begin);
    Ok(Run {
        ended: ended?,
        pool,
        duration: clock.elapsed(),
        started,
        ticks_per_second: begin.and_then(rate),
        samples,
    })
}

/// Whether the engine will ask for functions of files.
fn asks(request: &Request) -> bool {
    match request.mode {
        Mode::Contexts | Mode::Intra | Mode::Inter => true,
        Mode::Trace => request.flags & wire::flag::OF_TABLES != 0,
        Mode::Run | Mode::Counts => false,
    }
}

fn configure(owned: &OwnedPool, request: &Request) {
    let pool = owned.view();
    let header = pool.header();
    header.bump.store(PAGE, Relaxed);
    header.size.store(pool.len(), Relaxed);
    header.version.store(wire::VERSION, Relaxed);
    header.cli_alive.store(1, Relaxed);
    header.owner.store(std::process::id(), Relaxed);
    let descriptor = owned.file().as_raw_fd().cast_unsigned();
    header.owner_fd.store(descriptor, Relaxed);
    let config = &header.config;
    config.mode.store(request.mode as u32, Relaxed);
    config.flags.store(request.flags, Relaxed);
    config.k.store(request.k.unwrap_or(0), Relaxed);
    config.chaos_seed.store(request.chaos.unwrap_or(0), Relaxed);
    config
        .lockstep
        .store(request.lockstep.unwrap_or(0), Relaxed);
    config.max_nodes.store(request.max_nodes, Relaxed);
    config.costs.store(request.costs, Relaxed);
    config.start_call.store(request.calls[0], Relaxed);
    config.stop_call.store(request.calls[1], Relaxed);
    config.skip.store(request.insns[0], Relaxed);
    config.count.store(request.insns[1], Relaxed);
    for (budget, insns) in header.budgets.iter().zip(request.insns) {
        budget.set(insns);
    }
    config.order.store(request.order, Relaxed);
    config.memory.store(request.memory, Relaxed);
    let chunks = request.buffer.div_ceil(wire::stream::CHUNK);
    // A pool that is small, for a limit of file sizes, has room for other things, too.
    let most = pool.len() / 4 / wire::stream::CHUNK;
    config.max_chunks.store(chunks.min(most).max(1), Relaxed);
    header.magic.store(wire::MAGIC, Release);
}

fn payload_file() -> Result<OwnedFd, LaunchError> {
    let memory = |source| LaunchError::Memory {
        what: "the engine",
        source,
    };
    // MFD_EXEC says that it will be executed; older kernels do not know it.
    let exec = MemfdFlags::CLOEXEC | MemfdFlags::from_bits_retain(0x10);
    let file = rustix::fs::memfd_create("everypath", exec)
        .or_else(|_| rustix::fs::memfd_create("everypath", MemfdFlags::CLOEXEC))
        .map_err(memory)?;
    let _raised = pool::Raised::new();
    let mut rest = PAYLOAD;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(memory)?;
        rest = &rest[written..];
    }
    Ok(file)
}

/// The engine's orders, as `agent::start` reads them: `file` is loaded, `name` is what it was
/// called by.
fn orders(pool: &OwnedPool, payload: &OwnedFd, file: &Path, name: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt;
    let me = std::process::id();
    let mut text = format!(
        "/proc/{me}/fd/{}\n/proc/{me}/fd/{}\n0\n{}\n",
        pool.file().as_raw_fd(),
        payload.as_raw_fd(),
        file.as_os_str().len()
    )
    .into_bytes();
    text.extend_from_slice(file.as_os_str().as_bytes());
    text.extend_from_slice(name.as_os_str().as_bytes());
    CString::new(text).expect("a path that was found holds no NUL")
}
