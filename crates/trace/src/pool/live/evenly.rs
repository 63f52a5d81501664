//! Writing a trace of which only the beginning is kept.
//!
//! Problem: code is written before the streams that run it, all that came since the last time
//! at once. A limit that is reached in that code leaves no room for any of the streams.
//!
//! Approach: what may have no room is written in steps, which are smaller the less room there is.
//! Each has the same fraction of what every image logged, and the same fraction of every stream,
//! so a reader comes about as far in all of them wherever the file ends. Code has at least half
//! of the bytes of a step, because most code runs early: a stream that is cut in its middle needs
//! more than half of the code.

use std::collections::{HashMap, HashSet};

use wire::view::Pool;

use super::super::log::Entry;
use super::super::sink::Keep;
use super::{Live, Ready};

/// A step takes about this part of the room that is left, as a divisor, and no less than
/// [`LEAST`].
const STEP: u64 = 4;
const LEAST: u64 = 1024;
/// The fraction that stands for everything.
const WHOLE: u64 = 1 << 16;
/// Roughly the most bytes that an entry of a log takes in the file besides its code, and a part
/// besides its streams.
const ENTRY: u64 = 32;
const PART: u64 = 96;

/// A number of bytes, and the fraction of them that is written.
#[derive(Clone, Copy)]
struct Share {
    bytes: u64,
    fraction: u64,
}

impl Share {
    fn new(bytes: u64) -> Share {
        Share { bytes, fraction: 0 }
    }

    fn left(self) -> u64 {
        self.bytes * (WHOLE - self.fraction) / WHOLE
    }

    /// About so many bytes further, at least one step of the fraction.
    fn and(self, more: u64) -> Share {
        let more = (more * WHOLE).checked_div(self.bytes).unwrap_or(WHOLE);
        let fraction = (self.fraction + 1 + more).min(WHOLE);
        Share { fraction, ..self }
    }
}

/// The fractions of the code of all images and of all streams that are written.
#[derive(Clone, Copy)]
struct Done {
    code: Share,
    streams: Share,
}

impl Done {
    fn is_whole(self) -> bool {
        self.code.fraction == WHOLE && self.streams.fraction == WHOLE
    }

    fn whole(mut self) -> Done {
        self.code.fraction = WHOLE;
        self.streams.fraction = WHOLE;
        self
    }
}

/// A part, and its place in what its stream has: behind `before` of `all` parts.
struct Turn {
    before: u64,
    all: u64,
    ready: Ready,
}

impl<W: Keep> Live<W> {
    pub(super) fn write_evenly(&mut self, pool: &Pool) {
        let ready = self.take_ready();
        let threads: HashSet<_> = ready
            .iter()
            .map(|ready| (ready.place.process, ready.place.thread))
            .collect();
        let mut images = self.open.clone();
        images.extend(ready.iter().map(|ready| ready.image));
        images.sort_unstable();
        images.dedup();
        let logs: Vec<(usize, Vec<Option<Entry>>)> = images
            .into_iter()
            .map(|at| (at, self.images[at].logged(pool)))
            .collect();
        let entries = logs.iter().flat_map(|(_, entries)| entries);
        let parts = ready.iter().map(|ready| PART + ready.part.stored_len());
        let done = Done {
            code: Share::new(entries.map(len).sum()),
            streams: Share::new(parts.sum()),
        };
        self.write_in_steps(done, logs, in_turn(ready));
        if let Some(why) = self.sink.stopped {
            // Perhaps what is left out is code of what is not.
            threads
                .into_iter()
                .for_each(|(process, thread)| self.sink.lost(process, thread, why));
        }
    }

    /// The fractions at which the next step ends.
    fn step(&self, done: Done) -> Done {
        let room = self.sink.room();
        let (code, streams) = (done.code.left(), done.streams.left());
        if code + streams <= room || self.sink.stopped.is_some() {
            return done.whole();
        }
        let step = (room / STEP).max(LEAST);
        let for_code = (step * code / (code + streams)).max(step / 2).min(code);
        Done {
            code: done.code.and(for_code),
            streams: done.streams.and(step - for_code),
        }
    }

    fn write_in_steps(
        &mut self,
        mut done: Done,
        logs: Vec<(usize, Vec<Option<Entry>>)>,
        turns: Vec<Turn>,
    ) {
        let mut turns = turns.into_iter().peekable();
        let mut logs: Vec<_> = logs
            .into_iter()
            .map(|(at, entries)| (at, entries.len() as u64, entries.into_iter()))
            .collect();
        let mut read: Vec<Ready> = Vec::new();
        while !done.is_whole() {
            done = self.step(done);
            for (at, all, entries) in &mut logs {
                let before = *all - entries.len() as u64;
                let more = *all * done.code.fraction / WHOLE - before;
                self.feed(*at, entries.by_ref().take(more as usize));
            }
            let streams = done.streams.fraction;
            while let Some(turn) = turns.next_if(|turn| turn.before * WHOLE < turn.all * streams) {
                self.sink.part(turn.ready.place, &turn.ready.part);
                read.push(turn.ready);
            }
            self.sink.flush();
        }
        // A follower needs the code first, all of it.
        read.into_iter().for_each(|ready| self.pass_on(ready));
    }
}

/// Parts in the order in which all streams come to their ends together.
fn in_turn(ready: Vec<Ready>) -> Vec<Turn> {
    let stream = |ready: &Ready| (ready.place.process, ready.place.thread, ready.part.stream);
    let mut counts: HashMap<_, u64> = HashMap::new();
    let mut turns: Vec<Turn> = Vec::with_capacity(ready.len());
    for ready in ready {
        let count = counts.entry(stream(&ready)).or_default();
        let before = *count;
        *count += 1;
        turns.push(Turn {
            before,
            all: 0,
            ready,
        });
    }
    for turn in &mut turns {
        turn.all = counts[&stream(&turn.ready)];
    }
    turns.sort_by(|a, b| (a.before * b.all).cmp(&(b.before * a.all)));
    turns
}

fn len(entry: &Option<Entry>) -> u64 {
    match entry {
        Some(Entry::Fragment(fragment)) => ENTRY + fragment.code.len() as u64,
        _ => ENTRY,
    }
}
