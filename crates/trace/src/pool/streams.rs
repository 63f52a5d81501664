//! Streams of threads, taken out of the pool while they are written.
//!
//! Chunks that are closed are read and freed, and what was read is compressed. When the
//! processes have ended, what is left in open chunks is read too: up to where the thread's
//! own word says that it had got.
//!
//! Invariant: a chunk is freed once, after it was read, and only if it is closed; and a
//! list of records is followed to what is known, so each is entered once.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::stream::{BEGIN, Chunk, END};
use wire::view::Pool;
use wire::{ProcessRecord, ThreadRecord};

use crate::part::{PART, Part};

/// What was taken out of a pool so far.
#[derive(Debug, Default)]
pub struct Drain {
    /// Newest thread known of each process, by the offsets of their records.
    processes: HashMap<u64, u64>,
    threads: HashMap<u64, Thread>,
    /// Threads whose streams are not over.
    open: Vec<u64>,
    error: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Thread {
    /// Chunk to be read next; 0: the stream is over.
    chunk: u64,
    raw: Vec<u8>,
    parts: Vec<Part>,
}

impl Drain {
    /// Reads and frees every chunk that is closed. Whether there was one.
    pub fn drain(&mut self, pool: &Pool) -> bool {
        if !pool.is_valid() {
            return false;
        }
        self.look_for_threads(pool);
        let mut freed = false;
        for record in std::mem::take(&mut self.open) {
            let Some(thread) = self.threads.get_mut(&record) else {
                continue;
            };
            while let Some(chunk) = pool.at::<Chunk>(thread.chunk)
                && thread.chunk != 0
                && chunk.closed.load(Acquire) == 1
            {
                let next = chunk.next.load(Acquire);
                let used = chunk.used.load(Relaxed).into();
                let done = thread.take(pool, used);
                pool.header().chunks.free(pool, thread.chunk);
                thread.chunk = next;
                freed = true;
                self.error = self.error.take().or(done.err());
            }
            if thread.chunk != 0 {
                self.open.push(record);
            }
        }
        freed
    }

    /// The first thing that went wrong.
    pub fn error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn look_for_threads(&mut self, pool: &Pool) {
        let mut entered = HashSet::new();
        let mut at = pool.header().processes.load(Acquire);
        while let Some(process) = pool.at::<ProcessRecord>(at)
            && at != 0
            && entered.insert(at)
        {
            let newest = process.threads.load(Acquire);
            let known = self.processes.insert(at, newest).unwrap_or(0);
            self.add_threads(pool, newest, known);
            at = process.next.load(Acquire);
        }
    }

    fn add_threads(&mut self, pool: &Pool, newest: u64, known: u64) {
        let mut at = newest;
        while at != known
            && !self.threads.contains_key(&at)
            && let Some(record) = pool.at::<ThreadRecord>(at).filter(|_| at != 0)
        {
            let chunk = record.stream.load(Acquire);
            if chunk == 0 {
                // It has not begun; it is looked at again.
                self.processes.clear();
            } else {
                let thread = Thread {
                    chunk,
                    ..Thread::default()
                };
                self.threads.insert(at, thread);
                self.open.push(at);
            }
            at = record.next.load(Acquire);
        }
    }

    /// The whole stream of the thread with `record`, after the last [`Drain::drain`].
    pub(super) fn finish(&mut self, pool: &Pool, record: u64) -> Vec<Part> {
        let Some(mut thread) = self.threads.remove(&record) else {
            return Vec::new();
        };
        if let Some(chunk) = pool.at::<Chunk>(thread.chunk)
            && thread.chunk != 0
        {
            let done = thread.take(pool, written(pool, thread.chunk, chunk));
            self.error = self.error.take().or(done.err());
        }
        let done = thread.pack();
        self.error = self.error.take().or(done.err());
        thread.parts
    }
}

/// Bytes of an open chunk.
fn written(pool: &Pool, offset: u64, chunk: &Chunk) -> u64 {
    let live = chunk.live.load(Acquire);
    match pool.at::<AtomicU64>(live).filter(|_| live != 0) {
        None => chunk.used.load(Relaxed).into(),
        Some(word) => {
            let at = word.load(Acquire).wrapping_sub(chunk.base.load(Relaxed));
            at.checked_sub(offset + BEGIN)
                .filter(|&used| used <= END - BEGIN)
                .unwrap_or(0)
        }
    }
}

impl Thread {
    fn take(&mut self, pool: &Pool, used: u64) -> io::Result<()> {
        let used = used.min(END - BEGIN) as usize;
        let before = self.raw.len();
        self.raw.resize(before + used, 0);
        pool.read_bytes(self.chunk + BEGIN, &mut self.raw[before..]);
        match self.raw.len() + (END - BEGIN) as usize > PART {
            true => self.pack(),
            false => Ok(()),
        }
    }

    fn pack(&mut self) -> io::Result<()> {
        if !self.raw.is_empty() {
            self.parts.push(Part::pack(&self.raw)?);
            self.raw.clear();
        }
        Ok(())
    }
}
