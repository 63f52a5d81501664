//! The ring: which parts of the file are given up when it is too large.
//!
//! Problem: a file that is appended to grows; whoever is killed, what is in it is to be read.
//!
//! Approach: when the file has grown to its limit, the oldest parts are left out of a copy that
//! takes its name, until the rest is half of the limit. So what is written grows by two
//! or three times, and at every moment there is a whole file. The copy has first all logs but
//! those that are about keyframes, which are made anew, with the gaps; then the parts.
//!
//! Invariant: of a thread that goes on, everything from its newest keyframe on stays, so that
//! its end can always be read.
//!
//! Limits: logs stay (code, modules, processes), and so does what threads have since their
//! newest keyframes: if that is more than half of the limit, the file has up to half of the
//! limit more. What comes in one look at the pool, at most the buffer, is written before.

use std::collections::BTreeMap;
use std::ops::Range;

use wire::stream::{ALL_LANES, LANES, escape};

use super::sink::Source;
use crate::container::journal::{Mark, What, Wrote};
use crate::keyframe::{Gap, Keyframe};

/// A thread: its process, and its index there.
pub(super) type Whose = (usize, usize);

pub(super) struct Ring {
    limit: u64,
    /// The file is copied when it has so many bytes.
    pub full: u64,
    chunks: Vec<Wrote>,
    threads: BTreeMap<Whose, Streams>,
    /// Keyframes that are not in the file yet.
    new: Vec<Mark>,
}

/// Keyframes and sizes of a thread's streams.
#[derive(Default)]
struct Streams {
    keyframes: Vec<Keyframe>,
    /// Bytes of each that are in the file, or were.
    ends: [u64; ALL_LANES],
    gap: Gap,
    /// How many are over.
    over: usize,
}

impl Streams {
    /// First byte of each stream that has to stay.
    fn needed(&self) -> [u64; ALL_LANES] {
        let lanes = LANES + self.ends[LANES..].iter().filter(|&&end| end > 0).count();
        if self.over == lanes {
            return [u64::MAX; ALL_LANES];
        }
        let is_there = |keyframe: &&Keyframe| {
            let mut lanes = keyframe.at.iter().zip(&self.ends);
            let mut memory = keyframe.memory.iter().zip(&self.ends[LANES..]);
            lanes.all(|(at, end)| at + escape::AT_LEN as u64 <= *end)
                && memory.all(|(at, end)| at <= end)
        };
        let newest = self.keyframes.iter().rev().find(is_there);
        newest.map_or([0; ALL_LANES], Keyframe::all)
    }
}

/// A smaller file: what it is made of, and what comes of it.
pub(super) struct Smaller {
    /// Ranges of the file, before and behind the new chunk about keyframes and gaps.
    pub logs: Vec<Range<u64>>,
    pub parts: Vec<Range<u64>>,
    pub marks: Vec<Mark>,
    /// Items, parts and their bytes that are not in it.
    pub gone: [u64; 3],
}

impl Smaller {
    /// It, with the chunk.
    pub fn pieces<'a>(&self, marks: &'a [u8]) -> Vec<Source<'a>> {
        let logs = self.logs.iter().cloned().map(Source::Old);
        let parts = self.parts.iter().cloned().map(Source::Old);
        let chunk = std::iter::once(Source::New(marks));
        logs.chain(chunk).chain(parts).collect()
    }
}

impl Ring {
    pub(super) fn new(limit: u64) -> Ring {
        Ring {
            limit,
            full: limit,
            chunks: Vec::new(),
            threads: BTreeMap::new(),
            new: Vec::new(),
        }
    }

    pub(super) fn keyframe(&mut self, whose: Whose, keyframe: &Keyframe) {
        self.new.push(Mark::Keyframe(whose, *keyframe));
        let streams = self.threads.entry(whose).or_default();
        streams.keyframes.push(*keyframe);
    }

    /// One of its streams is over.
    pub(super) fn over(&mut self, whose: Whose) {
        self.threads.entry(whose).or_default().over += 1;
    }

    /// Keyframes that are to be written.
    pub(super) fn take_new(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.new)
    }

    pub(super) fn wrote(&mut self, chunks: impl IntoIterator<Item = Wrote>) {
        for chunk in chunks {
            if let What::Part { whose, stream, raw } = chunk.what {
                let streams = self.threads.entry(whose).or_default();
                if let Some(place) = Gap::place(stream) {
                    streams.ends[place] += raw;
                }
            }
            self.chunks.push(chunk);
        }
    }

    /// Gives up the oldest parts of a file of `len` bytes.
    pub(super) fn shrink(&mut self, mut len: u64) -> Smaller {
        let mut smaller = Smaller {
            logs: Vec::new(),
            parts: Vec::new(),
            marks: Vec::new(),
            gone: [0; 3],
        };
        let mut ends: BTreeMap<Whose, [u64; ALL_LANES]> = BTreeMap::new();
        let chunks = std::mem::take(&mut self.chunks);
        for chunk in &chunks {
            match chunk.what {
                What::Logs => smaller.logs.push(chunk.at.clone()),
                What::Marks { items } => smaller.gone[0] += items,
                What::Part { whose, stream, raw } => {
                    let streams = self.threads.entry(whose).or_default();
                    let end = ends.entry(whose).or_insert(streams.gap.bytes);
                    let Some(stream) = Gap::place(stream) else {
                        continue;
                    };
                    end[stream] += raw;
                    if len > self.limit / 2 && end[stream] <= streams.needed()[stream] {
                        let stored = chunk.at.end - chunk.at.start;
                        streams.gap.parts[stream] += 1;
                        streams.gap.bytes[stream] += raw;
                        streams.gap.stored += stored;
                        len -= stored;
                        smaller.gone[1] += 1;
                        smaller.gone[2] += raw;
                    } else {
                        smaller.parts.push(chunk.at.clone());
                        self.chunks.push(chunk.clone());
                    }
                }
            }
        }
        let logs = chunks
            .into_iter()
            .filter(|chunk| matches!(chunk.what, What::Logs));
        self.chunks.splice(..0, logs);
        for (&whose, streams) in &mut self.threads {
            let gap = streams.gap;
            let is_kept = |keyframe: &Keyframe| {
                let mut lanes = keyframe.all().into_iter().zip(gap.bytes);
                lanes.all(|(at, gone)| at >= gone)
            };
            streams.keyframes.retain(is_kept);
            if gap != Gap::default() {
                smaller.marks.push(Mark::Gap(whose, gap));
            }
            let keyframes = streams.keyframes.iter();
            let keyframes = keyframes.map(|keyframe| Mark::Keyframe(whose, *keyframe));
            smaller.marks.extend(keyframes);
        }
        smaller
    }

    /// The smaller file is there, with a chunk of `marks` bytes and so many items.
    pub(super) fn shrunk(&mut self, marks: u64, items: u64) -> u64 {
        let logs = |chunk: &Wrote| matches!(chunk.what, What::Logs);
        let before = self.chunks.partition_point(logs);
        let chunk = Wrote {
            at: 0..marks,
            what: What::Marks { items },
        };
        self.chunks.insert(before, chunk);
        let mut len = 0;
        for chunk in &mut self.chunks {
            let size = chunk.at.end - chunk.at.start;
            chunk.at = len..len + size;
            len += size;
        }
        self.full = self.limit.max(len.saturating_add(self.limit / 2));
        len
    }
}
