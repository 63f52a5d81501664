//! Where a trace goes: the file, until it is full, fails, or as much is kept as was asked for.
//!
//! Invariant: whoever writes here need not care; what was written before stays readable, and
//! how threads ended is said if there is room for that.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use super::ring::Ring;
use crate::container::Shared;
use crate::container::journal::{Journal, Place};
use crate::error::WriteError;
use crate::keyframe::Keyframe;
use crate::model::{Fragment, Meta, Missing, Module, Process, Recording, Thread};
use crate::part::Part;

/// A place for a trace.
pub trait Keep: Write {
    /// Takes back what was written behind its first `len` bytes.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Has these bytes from now on, all at once, and goes on behind them.
    fn rewrite(&mut self, pieces: &[Source<'_>]) -> io::Result<()>;
}

/// Bytes of a place: those that it has there, or new ones.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    Old(Range<u64>),
    New(&'a [u8]),
}

/// How much of a trace is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Most {
    #[default]
    All,
    /// So many bytes, the first ones.
    First(u64),
    /// So many, the newest.
    Newest(u64),
}

impl Most {
    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Most::All => None,
            Most::First(bytes) | Most::Newest(bytes) => Some(bytes),
        }
    }
}

impl<K: Keep + ?Sized> Keep for Box<K> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        (**self).cut(len)
    }

    fn rewrite(&mut self, pieces: &[Source<'_>]) -> io::Result<()> {
        (**self).rewrite(pieces)
    }
}

/// A trace that is only followed.
impl Keep for io::Sink {
    fn cut(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn rewrite(&mut self, _: &[Source<'_>]) -> io::Result<()> {
        Ok(())
    }
}

impl Keep for Vec<u8> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(len as usize);
        Ok(())
    }

    fn rewrite(&mut self, pieces: &[Source<'_>]) -> io::Result<()> {
        let all = pieces.iter().flat_map(|piece| match piece {
            Source::Old(range) => &self[range.start as usize..range.end as usize],
            Source::New(bytes) => bytes,
        });
        *self = all.copied().collect();
        Ok(())
    }
}

pub(super) struct Sink<W> {
    journal: Journal<W>,
    /// Why no more code and streams are kept.
    pub stopped: Option<Missing>,
    error: Option<WriteError>,
    limit: u64,
    ring: Option<Ring>,
    /// Threads, by process and index, of which something is missing.
    missing: HashMap<(usize, usize), Missing>,
    /// Keyframes that are in the file, unless only the newest are kept.
    keyframes: HashMap<(usize, usize), Vec<Keyframe>>,
}

impl<W: Keep> Sink<W> {
    pub(super) fn new(out: W, meta: &Meta, most: Most) -> Result<Sink<W>, WriteError> {
        let mut journal = Journal::new(out, meta)?;
        let (limit, ring) = match most {
            Most::All => (u64::MAX, None),
            Most::First(limit) => (limit, None),
            Most::Newest(limit) => (u64::MAX, Some(Ring::new(limit))),
        };
        if ring.is_some() {
            journal.remember();
        }
        Ok(Sink {
            journal,
            stopped: None,
            error: None,
            limit,
            ring,
            missing: HashMap::new(),
            keyframes: HashMap::new(),
        })
    }

    fn write(&mut self, write: impl FnOnce(&mut Journal<W>) -> Result<(), WriteError>) {
        if self.error.is_none()
            && let Err(error) = write(&mut self.journal)
        {
            self.fail(error);
        }
    }

    /// Nothing more can be written.
    pub(super) fn fail(&mut self, error: WriteError) {
        if self.error.is_none() {
            self.error = Some(error);
            self.stopped = Some(Missing::Place);
            self.take_back();
        }
    }

    /// What is not a whole chunk. Whether that could be done.
    fn take_back(&mut self) -> bool {
        self.journal.forget_items();
        let written = self.journal.written;
        self.journal.place().cut(written).is_ok()
    }

    pub(super) fn process(&mut self, index: usize, process: &Process, shared: Option<Shared>) {
        let bare = |shared| Shared {
            fragments: 0,
            targets: 0,
            ..shared
        };
        let shared = match self.stopped {
            Some(_) => shared.map(bare),
            None => shared,
        };
        self.write(|journal| journal.process(index, process, shared));
    }

    pub(super) fn module(&mut self, process: usize, module: &Module) {
        self.write(|journal| journal.module(process, module));
    }

    pub(super) fn gone(&mut self, process: usize, module: u32, time_ns: u64) {
        self.write(|journal| journal.gone(process, module as usize, time_ns));
    }

    pub(super) fn fragment(&mut self, process: usize, fragment: &Fragment) {
        if self.stopped.is_none() {
            self.write(|journal| journal.fragment(process, fragment));
        }
    }

    pub(super) fn target(&mut self, process: usize, target: u64) {
        if self.stopped.is_none() {
            self.write(|journal| journal.target(process, target));
        }
    }

    pub(super) fn thread(&mut self, process: usize, thread: &Thread) {
        self.write(|journal| journal.thread(process, thread));
    }

    pub(super) fn keyframe(&mut self, process: usize, thread: usize, keyframe: &Keyframe) {
        match &mut self.ring {
            Some(ring) => ring.keyframe((process, thread), keyframe),
            None if self.stopped.is_some() => {}
            None => {
                self.write(|journal| journal.keyframe(process, thread, keyframe));
                let known = self.keyframes.entry((process, thread)).or_default();
                known.push(*keyframe);
            }
        }
    }

    /// One of the streams of a thread is over.
    pub(super) fn over(&mut self, process: usize, thread: usize) {
        if let Some(ring) = &mut self.ring {
            ring.over((process, thread));
        }
    }

    /// Gives up the oldest parts, if only the newest are kept and there are too many.
    fn keep_newest(&mut self) {
        let Some(mut ring) = self.ring.take() else {
            return;
        };
        let marks = ring.take_new();
        self.write(|journal| {
            journal.marks(&marks)?;
            ring.wrote(journal.wrote.iter_mut().flat_map(std::mem::take));
            if journal.written < ring.full {
                return Ok(());
            }
            let smaller = ring.shrink(journal.written);
            let (marks, items) = journal.marks_chunk(&smaller.marks)?;
            journal.place().rewrite(&smaller.pieces(&marks))?;
            let len = ring.shrunk(marks.len() as u64, items);
            journal.is_now(len, [items, 0, 0], smaller.gone);
            Ok(())
        });
        self.ring = Some(ring);
    }

    pub(super) fn part(&mut self, place: Place, part: &Part) {
        let after = self.journal.written.saturating_add(part.stored_len());
        if self.stopped.is_none() && after > self.limit {
            self.stopped = Some(Missing::Limit);
        }
        if self.stopped.is_none() {
            self.write(|journal| journal.part(place, part));
        }
        if let Some(why) = self.stopped {
            self.lost(place.process, place.thread, why);
        }
    }

    /// Something of this thread is not kept.
    pub(super) fn lost(&mut self, process: usize, thread: usize, why: Missing) {
        self.missing.entry((process, thread)).or_insert(why);
    }

    pub(super) fn flush(&mut self) {
        self.write(Journal::flush_items);
        self.keep_newest();
    }

    /// Names, ends, and the end of the file.
    pub(super) fn finish(&mut self, recording: &Recording) -> Result<(), WriteError> {
        let meta = &recording.meta;
        if self.error.is_none() {
            let processes: Vec<Process> = self.ended(recording);
            self.write(|journal| {
                for (index, process) in processes.iter().enumerate() {
                    journal.names_and_end(index, process)?;
                }
                journal.done(meta.duration_ns, meta.end)
            });
        }
        let Some(error) = self.error.take() else {
            return Ok(());
        };
        // Perhaps there is room for that much.
        if self.take_back() && self.say_ends(recording).is_err() {
            self.take_back();
        }
        Err(error)
    }

    /// How those ended that are in the file.
    fn say_ends(&mut self, recording: &Recording) -> Result<(), WriteError> {
        let mut processes = self.ended(recording);
        let kept = self.journal.kept.clone();
        for (index, (process, kept)) in processes.iter_mut().zip(kept).enumerate() {
            process.threads.truncate(kept);
            for thread in &mut process.threads {
                // Which of them are in the file is not known.
                thread.keyframes.clear();
            }
            self.journal.end(index, process)?;
        }
        let meta = &recording.meta;
        self.journal.done(meta.duration_ns, meta.end)
    }

    /// The processes, with what is missing of their threads, and how many instructions are
    /// before their keyframes.
    fn ended(&self, recording: &Recording) -> Vec<Process> {
        let mut processes = recording.processes.clone();
        for (&whose, &why) in &self.missing {
            if let Some(thread) = thread(&mut processes, whose) {
                thread.missing = Some(why);
            }
        }
        for (&whose, known) in &self.keyframes {
            if let Some(thread) = thread(&mut processes, whose) {
                thread.keyframes.clone_from(known);
            }
        }
        processes
    }
}

fn thread(processes: &mut [Process], (process, thread): (usize, usize)) -> Option<&mut Thread> {
    processes.get_mut(process)?.threads.get_mut(thread)
}
