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

use wire::stream::{BEGIN, Chunk, END, LANES};
use wire::view::Pool;
use wire::{ProcessRecord, ThreadRecord};

use crate::part::{PART, Part};

/// What was taken out of a pool so far.
#[derive(Debug, Default)]
pub struct Drain {
    /// Newest thread known of each process, by the offsets of their records.
    processes: HashMap<u64, u64>,
    /// By the offset of the thread's record and the number of the lane.
    lanes: HashMap<(u64, u8), Lane>,
    /// Lanes that are not over.
    open: Vec<(u64, u8)>,
    error: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Lane {
    number: u8,
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
        for name in std::mem::take(&mut self.open) {
            let Some(lane) = self.lanes.get_mut(&name) else {
                continue;
            };
            while let Some(chunk) = pool.at::<Chunk>(lane.chunk)
                && lane.chunk != 0
                && chunk.closed.load(Acquire) == 1
            {
                let next = chunk.next.load(Acquire);
                let used = chunk.used.load(Relaxed).into();
                let done = lane.take(pool, used);
                pool.header().chunks.free(pool, lane.chunk);
                lane.chunk = next;
                freed = true;
                self.error = self.error.take().or(done.err());
            }
            if lane.chunk != 0 {
                self.open.push(name);
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
            && !self.lanes.contains_key(&(at, 0))
            && let Some(record) = pool.at::<ThreadRecord>(at).filter(|_| at != 0)
        {
            let firsts = record.streams.each_ref().map(|first| first.load(Acquire));
            if firsts.contains(&0) {
                // It has not begun; it is looked at again.
                self.processes.clear();
            } else {
                for (number, chunk) in (0..).zip(firsts) {
                    let lane = Lane {
                        number,
                        chunk,
                        ..Lane::default()
                    };
                    self.lanes.insert((at, number), lane);
                    self.open.push((at, number));
                }
            }
            at = record.next.load(Acquire);
        }
    }

    /// The streams of the thread with `record`, after the last [`Drain::drain`].
    pub(super) fn finish(&mut self, pool: &Pool, record: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        for number in 0..LANES as u8 {
            let Some(mut lane) = self.lanes.remove(&(record, number)) else {
                continue;
            };
            if let Some(chunk) = pool.at::<Chunk>(lane.chunk)
                && lane.chunk != 0
            {
                let done = lane.take(pool, written(pool, lane.chunk, chunk));
                self.error = self.error.take().or(done.err());
            }
            let done = lane.pack();
            self.error = self.error.take().or(done.err());
            parts.append(&mut lane.parts);
        }
        parts
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

impl Lane {
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
            self.parts.push(Part::pack(self.number, &self.raw)?);
            self.raw.clear();
        }
        Ok(())
    }
}
