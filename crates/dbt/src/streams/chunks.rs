//! Chunks of the calling thread's stream: full, and the next one.
//!
//! Chunks that were read come back by a list of the whole pool. A thread has one
//! whatever happens; it is the closed ones, which wait for their reader, that are limited.
//!
//! At a keyframe each lane's chunk says where that is; one that has one already is closed, so
//! that each has one at most.
//!
//! Limits: a reader that shows no life for ten seconds is taken for dead, and after two if its
//! file of the pool is gone. One that lives may take its time.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use agent::thread::ThreadContext;
use sys::signal::{UContext, pf, trap};
use wire::denied::why;
use wire::stream::{self, Chunk, TargetNumber};
use wire::view::Pool;

use crate::accesses::stored_by;
use crate::engine;
use crate::signals::register_of;

/// Bytes that one append has at most: in the lanes about memory.
const MOST: usize = stream::memory::PENDING + 8;
const _: () = assert!(MOST >= TargetNumber::MOST && MOST >= stream::ENTRY * super::LONGEST);

/// How long the reader of its chunks may show no life while a thread waits.
const PATIENCE_NS: u64 = 10_000_000_000;
/// After that it is looked for.
const SILENCE_NS: u64 = 2_000_000_000;

/// If emitted code of the calling thread came to the end of its chunk, it goes on in
/// another.
pub fn overflowed(context: &mut ThreadContext, uc: &mut UContext) -> bool {
    let registers = &mut uc.mcontext;
    let is_store = registers.trapno == trap::PAGE_FAULT && registers.err & pf::WRITE != 0;
    let is_at = |end: u64| end != 0 && (end..end + wire::PAGE).contains(&registers.cr2);
    let ends = context.stream_ends;
    if !is_store || !ends.into_iter().any(is_at) || !crate::start::arena_contains(registers.rip) {
        return false;
    }
    let (rip, fault) = (registers.rip, registers.cr2);
    let register = register_of(registers, storing_register(rip));
    // Lanes without a chunk may be in the same place.
    let of = |(lane, end): (usize, u64)| {
        let is_it = end != 0 && (end..end + wire::PAGE).contains(&fault);
        is_it && context.streams[lane] == *register
    };
    let Some(lane) = (0..).zip(ends).position(of) else {
        return false;
    };
    // The bytes stored before the fault; the rest is stored again.
    let mut partly = [0u8; MOST];
    let (from, end) = (context.streams[lane], context.stream_ends[lane]);
    let len = (end.saturating_sub(from) as usize).min(partly.len());
    for (at, byte) in partly[..len].iter_mut().enumerate() {
        // SAFETY: the last bytes of the thread's chunk, which it still has.
        *byte = unsafe { ((from + at as u64) as *const u8).read_volatile() };
    }
    let pool = engine::with(|engine| {
        engine.heed();
        engine.process.log.pool
    });
    next_chunk(&pool, context, lane);
    for (at, &byte) in partly[..len].iter().enumerate() {
        let to = context.streams[lane] + at as u64;
        // SAFETY: the first bytes of the thread's new chunk, which has more.
        unsafe { (to as *mut u8).write_volatile(byte) };
    }
    *register = context.streams[lane];
    true
}

/// Number of the register that emitted code at `rip` stores by.
pub fn storing_register(rip: u64) -> usize {
    let mut code = [0; 8];
    let read = agent::memory::read_some(rip, &mut code);
    stored_by(&code[..read])
}

fn is_chaos(pool: &Pool) -> bool {
    pool.header().config.chaos_seed.load(Relaxed) != 0
}

/// A chunk for the calling thread, its last page closed off.
pub(super) fn new_chunk(pool: &Pool) -> Option<u64> {
    let offset = match pool.header().chunks.take(pool) {
        Some(offset) => offset,
        None => agent::pool::allocate_backed(pool, stream::CHUNK, stream::END)?,
    };
    let guard = pool.base() + offset + stream::END;
    // SAFETY: a page of a chunk that is the caller's; nobody is to use it.
    let closed = unsafe { sys::mprotect(guard, wire::PAGE, sys::PROT_NONE) };
    if let Err(error) = closed {
        agent::pool::deny_for(pool, error);
        return None;
    }
    let chunk: &Chunk = pool.at(offset)?;
    let begin = match is_chaos(pool) {
        true => stream::BEGIN_TINY,
        false => stream::BEGIN,
    };
    chunk.next.store(0, Relaxed);
    chunk.used.store(0, Relaxed);
    chunk.live.store(0, Relaxed);
    chunk.begin.store(begin as u32, Relaxed);
    chunk.keyframe.store(0, Relaxed);
    chunk.closed.store(stream::OPEN, Release);
    Some(offset)
}

/// Waits while as many chunks wait for their reader as may. `false`: there seems to be none.
fn wait_for_reader(pool: &Pool) -> bool {
    let header = pool.header();
    let (chunks, most) = (&header.chunks, &header.config.max_chunks);
    let mut heard = (header.beats.load(Relaxed), sys::monotonic_ns());
    loop {
        if header.cli_alive.load(Acquire) == 0 {
            return false;
        }
        let freed = chunks.freed.load(Acquire);
        if chunks.waiting.load(Relaxed) < most.load(Relaxed) {
            return true;
        }
        let now = sys::monotonic_ns();
        let beats = header.beats.load(Relaxed);
        if beats != heard.0 {
            heard = (beats, now);
        }
        let silent = now.saturating_sub(heard.1);
        if silent > PATIENCE_NS || silent > SILENCE_NS && !is_there(pool) {
            // Nobody else need find out.
            header.cli_alive.store(0, Release);
            return false;
        }
        let timeout = sys::Timespec {
            sec: 0,
            nsec: 100_000_000,
        };
        let _ = sys::futex_wait(&chunks.freed, freed, Some(timeout));
    }
}

/// Whether the file of the pool can still be reached through its owner: `/proc/PID/fd/FD`.
fn is_there(pool: &Pool) -> bool {
    let mut path = [0u8; 40];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        path[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let header = pool.header();
    for (text, number) in [(&b"/proc/"[..], &header.owner), (b"/fd/", &header.owner_fd)] {
        put(text);
        let (mut digits, mut first, mut left) = ([0u8; 10], 10, number.load(Relaxed));
        while left > 0 || first == 10 {
            first -= 1;
            digits[first] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        put(&digits[first..]);
    }
    sys::faccessat(sys::AT_FDCWD, path.as_ptr() as u64, 0, 0).is_ok()
}

/// The thread appends to this chunk from now on.
pub(super) fn open_chunk(
    pool: &Pool,
    context: &mut ThreadContext,
    lane: usize,
    offset: u64,
) -> Option<()> {
    let chunk: &Chunk = pool.at(offset)?;
    let word = &raw const context.streams[lane] as u64;
    let begin = u64::from(chunk.begin.load(Relaxed));
    context.streams[lane] = pool.base() + offset + begin;
    context.stream_ends[lane] = pool.base() + offset + stream::END;
    chunk.base.store(pool.base(), Relaxed);
    chunk.live.store(word.wrapping_sub(pool.base()), Release);
    Some(())
}

/// The chunk that the thread appends to, if it is not one that nobody reads.
fn current_chunk(pool: &Pool, context: &ThreadContext, lane: usize) -> Option<u64> {
    let end = context.stream_ends[lane].checked_sub(pool.base())?;
    end.checked_sub(stream::END).filter(|_| end <= pool.len())
}

/// Bytes in the lane's chunk, which is at `offset`.
fn used(pool: &Pool, context: &ThreadContext, lane: usize, offset: u64) -> u32 {
    let begin = |chunk: &Chunk| u64::from(chunk.begin.load(Relaxed));
    let begin = pool.at(offset).map_or(0, begin);
    (context.streams[lane] - (pool.base() + offset + begin)) as u32
}

/// Nothing is appended to the lane's chunk any more; `next` comes behind it. How it is
/// closed: [`stream::CLOSED`], or [`stream::LOST`].
pub(super) fn close_chunk(pool: &Pool, context: &ThreadContext, lane: usize, next: u64, how: u32) {
    let Some(offset) = current_chunk(pool, context, lane) else {
        return;
    };
    let Some(chunk) = pool.at::<Chunk>(offset) else {
        return;
    };
    let used = used(pool, context, lane, offset);
    chunk.next.store(next, Relaxed);
    chunk.used.store(used, Relaxed);
    chunk.live.store(0, Relaxed);
    let chunks = &pool.header().chunks;
    chunks.waiting.fetch_add(1, Relaxed);
    chunk.closed.store(how, Release);
    let closed = &chunks.closed;
    closed.fetch_add(1, Release);
    sys::futex_wake(closed, 1);
}

/// The lane's chunk is full: another.
pub(super) fn next_chunk(pool: &Pool, context: &mut ThreadContext, lane: usize) {
    if current_chunk(pool, context, lane).is_none() {
        context.streams[lane] = context.stream_ends[lane] - stream::END;
        return;
    }
    // Their chunks fill much more often than the others.
    context.stream_filled += u32::from(lane < stream::LANES);
    let chunk = match wait_for_reader(pool) {
        true => new_chunk(pool),
        false => {
            agent::pool::deny(pool, why::UNREAD);
            None
        }
    };
    match chunk {
        Some(offset) => {
            close_chunk(pool, context, lane, offset, stream::CLOSED);
            open_chunk(pool, context, lane, offset);
        }
        None => {
            close_chunk(pool, context, lane, 0, stream::LOST);
            drop_stream(context, lane);
        }
    }
}

/// Whether the thread has written so much since its last keyframe that another is due.
pub fn keyframe_is_due(context: &ThreadContext) -> bool {
    engine::with(|engine| is_due(&engine.process.log.pool, context))
}

pub(super) fn is_due(pool: &Pool, context: &ThreadContext) -> bool {
    let every = match is_chaos(pool) {
        true => stream::KEYFRAME_EVERY_TINY,
        false => stream::KEYFRAME_EVERY,
    };
    context.stream_filled >= every && context.stream_keyframe < u32::MAX
}

/// Makes room for a keyframe in the lane's chunk.
pub(super) fn prepare_keyframe(pool: &Pool, context: &mut ThreadContext, lane: usize) {
    let chunk = current_chunk(pool, context, lane).and_then(|offset| pool.at::<Chunk>(offset));
    if chunk.is_some_and(|chunk| chunk.keyframe.load(Relaxed) != 0) {
        next_chunk(pool, context, lane);
    }
}

/// The last `len` bytes of the lane's chunk are those of the keyframe with the thread's
/// next number.
pub(super) fn mark_keyframe(pool: &Pool, context: &ThreadContext, lane: usize, len: usize) {
    let Some(offset) = current_chunk(pool, context, lane) else {
        return;
    };
    if let Some(chunk) = pool.at::<Chunk>(offset) {
        let before = used(pool, context, lane, offset) - len as u32;
        let insns = context.insns.iter();
        let insns = insns.fold(0u64, |sum, &word| sum.wrapping_add(word));
        chunk.before_keyframe.store(before, Relaxed);
        chunk.keyframe_insns.store(insns, Relaxed);
        chunk.keyframe.store(context.stream_keyframe, Release);
    }
}

/// As large as a chunk and closed off like one: where all threads of the process append that
/// have none. 0: not made.
static SINK: AtomicU64 = AtomicU64::new(0);

/// Makes that place while it can be: later the program may forbid the calls.
pub(super) fn sink_buffer() -> Option<u64> {
    let made = SINK.load(Relaxed);
    if made != 0 {
        return Some(made);
    }
    let start = agent::memory::map_private(stream::CHUNK)?;
    // SAFETY: the last page of our own fresh mapping.
    unsafe { sys::mprotect(start + stream::END, wire::PAGE, sys::PROT_NONE) }.ok()?;
    SINK.store(start, Relaxed);
    Some(start)
}

/// There is no chunk: what the thread appends from now on goes where nobody reads it.
pub(super) fn drop_stream(context: &mut ThreadContext, lane: usize) {
    let Some(start) = sink_buffer() else {
        // Not even that: emitted code cannot go on.
        sys::exit_group(125)
    };
    context.streams[lane] = start;
    context.stream_ends[lane] = start + stream::END;
}
