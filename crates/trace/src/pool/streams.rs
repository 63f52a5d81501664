//! Streams of threads, taken out of the pool while they are written.
//!
//! Chunks that are closed are read and freed. Of the open one what was appended is read
//! now and then: up to where the thread's own word says that it has got.
//!
//! In lanes for outcomes each byte of the stream has another behind it in the chunk: how many
//! instructions were executed since the thread's entry before. They are added up, and are
//! not kept.
//!
//! Invariant: a chunk is freed once, after it was read, and only if nobody writes to it
//! any more.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::ThreadRecord;
use wire::stream::{ADDRESS_STREAM, BEGIN, CLOSED, Chunk, END, LANES, OPEN, VALUE_STREAM, entry};
use wire::view::Pool;

/// One stream of a thread: a chain of chunks.
#[derive(Debug)]
pub(super) struct Chain {
    /// Its number among those of its thread.
    pub stream: u16,
    /// Chunk to be read next; 0: the stream is over.
    chunk: u64,
    /// Bytes of that chunk that were read.
    taken: u64,
    /// Bytes of the stream that were read.
    read: u64,
    /// Instructions that their entries tell of.
    pub insns: u64,
    /// The chunk's keyframe was found.
    has_keyframe: bool,
    pub keyframes: Vec<Marked>,
    /// Bytes that were read and are in no part yet.
    pub raw: Vec<u8>,
    /// Parts that were made of it.
    pub parts: u32,
    /// Their bytes.
    pub packed: u64,
    /// It ends before its thread does.
    pub is_lost: bool,
}

/// A keyframe in one of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marked {
    pub number: u32,
    /// Bytes of the stream before it.
    pub at: u64,
    /// Instructions that entries of this stream tell of before it.
    pub insns: u64,
    /// Sum of the thread's counters of instructions.
    pub beside: u64,
}

/// The streams that a thread writes, by their numbers. None: it has not begun.
pub(super) fn chains(record: &ThreadRecord) -> Vec<Chain> {
    let firsts = record.streams.each_ref().map(|first| first.load(Acquire));
    let (lanes, memory) = (&firsts[..LANES], &firsts[LANES..]);
    if lanes.contains(&0) {
        return Vec::new();
    }
    let memory = [ADDRESS_STREAM, VALUE_STREAM]
        .into_iter()
        .zip(memory.iter().copied());
    let memory = memory.filter(|&(_, chunk)| chunk != 0);
    let chain = |(stream, chunk)| Chain {
        stream,
        chunk,
        taken: 0,
        read: 0,
        insns: 0,
        has_keyframe: false,
        keyframes: Vec::new(),
        raw: Vec::new(),
        parts: 0,
        packed: 0,
        is_lost: false,
    };
    let lanes = (0..).zip(lanes.iter().copied());
    lanes.chain(memory).map(chain).collect()
}

impl Chain {
    pub(super) fn is_over(&self) -> bool {
        self.chunk == 0
    }

    /// Reads and frees the next chunk, if it is closed.
    pub(super) fn take_closed(&mut self, pool: &Pool) -> bool {
        let Some(chunk) = self.chunk(pool) else {
            return false;
        };
        match chunk.closed.load(Acquire) {
            OPEN => return false,
            CLOSED => {}
            _ => self.is_lost = true,
        }
        let next = chunk.next.load(Acquire);
        self.take(pool, chunk.used.load(Relaxed).into());
        pool.header().chunks.free(pool, self.chunk);
        (self.chunk, self.taken, self.has_keyframe) = (next, 0, false);
        true
    }

    /// Bytes that were read and not packed, and of this chunk those that were not read.
    pub(super) fn waiting(&self, pool: &Pool) -> u64 {
        let open = self.chunk(pool);
        let written = open.map_or(0, |chunk| written(pool, self.chunk, chunk));
        self.raw.len() as u64 + written.saturating_sub(self.taken) / self.entry()
    }

    /// Reads what was appended to the open chunk.
    pub(super) fn take_open(&mut self, pool: &Pool) {
        if let Some(chunk) = self.chunk(pool) {
            let written = written(pool, self.chunk, chunk);
            self.take(pool, written);
        }
    }

    /// Ends a stream whose thread was ended from outside: its chunk is free.
    pub(super) fn end(&mut self, pool: &Pool) {
        self.take_open(pool);
        if self.chunk(pool).is_some() {
            let chunks = &pool.header().chunks;
            chunks.waiting.fetch_add(1, Relaxed);
            chunks.free(pool, self.chunk);
        }
        self.chunk = 0;
    }

    fn chunk<'a>(&self, pool: &'a Pool) -> Option<&'a Chunk> {
        pool.at::<Chunk>(self.chunk).filter(|_| self.chunk != 0)
    }

    /// Reads the chunk's bytes from the last one read up to `used`.
    fn take(&mut self, pool: &Pool, used: u64) {
        let Some(chunk) = self.chunk(pool) else {
            return;
        };
        let first = self.chunk + begin(chunk);
        let entry = self.entry();
        let new = used.min(END - begin(chunk)).saturating_sub(self.taken) / entry;
        self.insns += read(pool, (first + self.taken, new), entry, &mut self.raw);
        self.taken += new * entry;
        self.read += new;
        let number = chunk.keyframe.load(Acquire);
        let before = u64::from(chunk.before_keyframe.load(Relaxed));
        if !self.has_keyframe && number != 0 && before < self.taken {
            self.has_keyframe = true;
            let behind = (self.taken - before) / entry;
            let insns = read(pool, (first + before, behind), entry, &mut Vec::new());
            self.keyframes.push(Marked {
                number,
                at: self.read - behind,
                insns: self.insns - insns,
                beside: chunk.keyframe_insns.load(Relaxed),
            });
        }
    }

    /// Bytes of a chunk for one of the stream.
    fn entry(&self) -> u64 {
        entry(self.stream.into()) as u64
    }
}

/// Puts the stream's bytes of so many entries behind `raw`. How many instructions they tell of.
fn read(pool: &Pool, (at, number): (u64, u64), entry: u64, raw: &mut Vec<u8>) -> u64 {
    let len = raw.len();
    if entry == 1 {
        raw.resize(len + number as usize, 0);
        pool.read_bytes(at, &mut raw[len..]);
        return 0;
    }
    raw.resize(len + number as usize, 0);
    let mut insns = 0;
    let mut some = [0; 256];
    for (first, raw) in (0..)
        .step_by(some.len())
        .zip(raw[len..].chunks_mut(some.len()))
    {
        let some = &mut some[..raw.len()];
        pool.read_words(at + first * entry, some);
        for (byte, entry) in raw.iter_mut().zip(&*some) {
            *byte = *entry as u8;
        }
        // 256 times 255 is less than 65,536.
        let sum: u16 = some.iter().map(|entry| entry >> 8).sum();
        insns += u64::from(sum);
    }
    insns
}

/// Offset of the first byte in a chunk.
fn begin(chunk: &Chunk) -> u64 {
    u64::from(chunk.begin.load(Relaxed)).clamp(BEGIN, END)
}

/// Bytes of an open chunk.
fn written(pool: &Pool, offset: u64, chunk: &Chunk) -> u64 {
    let live = chunk.live.load(Acquire);
    match pool.at::<AtomicU64>(live).filter(|_| live != 0) {
        None => chunk.used.load(Relaxed).into(),
        Some(word) => {
            let at = word.load(Acquire).wrapping_sub(chunk.base.load(Relaxed));
            let begin = begin(chunk);
            at.checked_sub(offset + begin)
                .filter(|&used| used <= END - begin)
                .unwrap_or(0)
        }
    }
}
