//! Writing a trace of which only the beginning is kept.
//!
//! Problem: code is written before the streams that run it, all that came since the last time
//! at once. A limit that is reached in that code leaves no room for any of the streams.
//!
//! Approach: what may have no room is written in steps, which are smaller the less room there is.
//! Each has the same fraction of what each image logged and of what each stream has, so code and
//! streams have come about as far wherever the file ends. Who reads it goes on as far as both do.

use std::collections::{HashMap, HashSet};
use std::mem;

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

/// A part, and its place in what its stream has: behind `before` of `all` parts.
struct Turn {
    before: u64,
    all: u64,
    ready: Ready,
}

impl<W: Keep> Live<W> {
    pub(super) fn write_evenly(&mut self, pool: &Pool) {
        let ready = mem::take(&mut self.ready);
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
        let bytes = entries.map(len).chain(parts).sum();
        self.write_in_steps(bytes, logs, in_turn(ready));
        if let Some(why) = self.sink.stopped {
            // Perhaps what is left out is code of what is not.
            threads
                .into_iter()
                .for_each(|(process, thread)| self.sink.lost(process, thread, why));
        }
    }

    /// The fraction at which the next step ends, of about so many bytes, if the last one ended
    /// at `done`.
    fn step(&self, bytes: u64, done: u64) -> u64 {
        let room = self.sink.room();
        let left = bytes * (WHOLE - done) / WHOLE;
        match left <= room || self.sink.stopped.is_some() {
            true => WHOLE,
            false => (done + 1 + (room / STEP).max(LEAST) * WHOLE / bytes).min(WHOLE),
        }
    }

    fn write_in_steps(
        &mut self,
        bytes: u64,
        logs: Vec<(usize, Vec<Option<Entry>>)>,
        turns: Vec<Turn>,
    ) {
        let mut turns = turns.into_iter().peekable();
        let mut logs: Vec<_> = logs
            .into_iter()
            .map(|(at, entries)| (at, entries.len() as u64, entries.into_iter()))
            .collect();
        let mut read: Vec<Ready> = Vec::new();
        let mut done = 0;
        while done < WHOLE {
            done = self.step(bytes, done);
            for (at, all, entries) in &mut logs {
                let before = *all - entries.len() as u64;
                let more = *all * done / WHOLE - before;
                self.feed(*at, entries.by_ref().take(more as usize));
            }
            while let Some(turn) = turns.next_if(|turn| turn.before * WHOLE < turn.all * done) {
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
