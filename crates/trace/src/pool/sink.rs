//! Output of a trace: the file, until it is full, fails, or reaches its limit.
//!
//! Invariant: whoever writes here need not care; what was written before stays readable, and
//! how threads ended is said if there is room for that.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;

use super::ring::Ring;
use crate::container::Shared;
use crate::container::journal::{Journal, Place};
use crate::error::WriteError;
use crate::keyframe::Keyframe;
use crate::model::{Fragment, Meta, Missing, Module, Process, Recording, Source as Origin, Thread};
use crate::part::Part;

/// The part of a limit that names of code have at least, as a divisor.
const NAMES: u64 = 8;
/// Most bytes for how the recording, each process, and each thread ended, and for the number
/// of a keyframe.
const END: u64 = 256;
const END_OF_PROCESS: u64 = 192;
const END_OF_THREAD: u64 = 64;
const NUMBER_OF_KEYFRAME: u64 = 10;

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
    /// At most so many bytes; the first ones are kept.
    First(u64),
    /// At most so many bytes; the newest are kept.
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
    /// Most bytes of the whole file.
    limit: u64,
    /// Most bytes that the ends of processes and threads take.
    tail: u64,
    /// A chunk had no room within the limit, so there are no more until the end.
    is_full: bool,
    /// The names that were written in the end.
    pub names: Names,
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
            tail: END,
            is_full: false,
            names: Names::All,
            ring,
            missing: HashMap::new(),
            keyframes: HashMap::new(),
        })
    }

    fn write(&mut self, write: impl FnOnce(&mut Journal<W>) -> Result<(), WriteError>) {
        if self.error.is_some() || self.is_full {
            return;
        }
        self.journal.limit = match self.limit {
            u64::MAX => u64::MAX,
            _ => self.journal.written + self.room(),
        };
        match write(&mut self.journal) {
            Ok(()) => {}
            Err(WriteError::Limit) => self.fill_up(),
            Err(error) => self.fail(error),
        }
    }

    /// Bytes that code and streams may still take.
    pub(super) fn room(&self) -> u64 {
        let tail = self.tail.max(self.limit / NAMES);
        let taken = self.journal.written.saturating_add(tail);
        self.limit.saturating_sub(taken)
    }

    /// The limit is reached: nothing more is kept than is in the file.
    fn fill_up(&mut self) {
        self.stopped = Some(Missing::Limit);
        self.is_full = true;
        self.journal.forget_items();
    }

    /// Nothing more can be written.
    pub(super) fn fail(&mut self, error: WriteError) {
        if self.error.is_none() {
            self.error = Some(error);
            self.stopped = Some(Missing::Place);
            self.take_back();
        }
    }

    /// Removes the rest after the last whole chunk; returns true if that could be done.
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
        self.tail += END_OF_PROCESS;
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
        self.tail += END_OF_THREAD;
        self.write(|journal| journal.thread(process, thread));
    }

    pub(super) fn keyframe(&mut self, process: usize, thread: usize, keyframe: &Keyframe) {
        match &mut self.ring {
            Some(ring) => ring.keyframe((process, thread), keyframe),
            None if self.stopped.is_some() => {}
            None => {
                self.tail += NUMBER_OF_KEYFRAME;
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
            ring.wrote(journal.wrote.iter_mut().flat_map(mem::take));
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

    /// Names, ends, and the end of the file: of a recording as it is [in the file](Self::in_file).
    pub(super) fn finish(&mut self, recording: &Recording) -> Result<(), WriteError> {
        self.names = self.names_with_room(recording);
        (self.is_full, self.limit) = (false, u64::MAX);
        let names = self.names;
        self.write(|journal| say_end(journal, recording, names));
        let Some(error) = self.error.take() else {
            return Ok(());
        };
        // Perhaps there is room for that much.
        if self.take_back() && self.say_ends(recording).is_err() {
            self.take_back();
        }
        Err(error)
    }

    /// The most that the limit has room for.
    fn names_with_room(&self, recording: &Recording) -> Names {
        let room = self.limit.saturating_sub(self.journal.written);
        let has_room = |names: &Names| {
            self.limit == u64::MAX || end_len(recording, *names).is_ok_and(|len| len <= room)
        };
        let most = [Names::All, Names::Functions].into_iter().find(has_room);
        most.unwrap_or(Names::None)
    }

    /// How those ended that are in the file.
    fn say_ends(&mut self, recording: &Recording) -> Result<(), WriteError> {
        for (index, process) in recording.processes.iter().enumerate() {
            self.journal.end(index, process)?;
        }
        self.journal.denied(&recording.denied)?;
        self.journal.natives(&recording.natives)?;
        let meta = &recording.meta;
        self.journal.done(meta.duration_ns, meta.end)
    }

    /// A recording without what of it is not in the file, with what is missing of its threads,
    /// and how many instructions are before their keyframes.
    pub(super) fn in_file(&self, recording: &Recording) -> Recording {
        let mut recording = recording.clone();
        let processes = &mut recording.processes;
        for (&whose, &why) in &self.missing {
            if let Some(thread) = thread(processes, whose) {
                thread.missing = Some(why);
            }
        }
        for (&whose, known) in &self.keyframes {
            if let Some(thread) = thread(processes, whose) {
                thread.keyframes.clone_from(known);
            }
        }
        processes.truncate(self.journal.kept.len());
        for (process, kept) in processes.iter_mut().zip(&self.journal.kept) {
            process.modules.truncate(kept.modules);
            process.fragments.truncate(kept.fragments);
            process.threads.truncate(kept.threads.len());
            for (thread, &keyframes) in process.threads.iter_mut().zip(&kept.threads) {
                thread.keyframes.truncate(keyframes);
            }
        }
        recording
    }
}

/// The names of code that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    All,
    /// Names of functions, without files and lines.
    Functions,
    /// Neither names nor build ids.
    None,
}

impl Names {
    /// A process with so much of its names.
    fn of(self, process: &Process) -> Cow<'_, Process> {
        let mut less = match self {
            Names::All => return Cow::Borrowed(process),
            Names::Functions | Names::None => process.clone(),
        };
        let sources = mem::take(&mut less.sources);
        let texts = mem::take(&mut less.texts);
        if self == Names::None {
            let modules = less.modules.iter_mut();
            modules.for_each(|module| module.build_id = None);
            return Cow::Owned(less);
        }
        let mut numbers = HashMap::new();
        let mut number = |old: u32| {
            *numbers.entry(old).or_insert_with(|| {
                let text = texts.get(old as usize).cloned();
                less.texts.push(text.unwrap_or_default());
                less.texts.len() as u32 - 1
            })
        };
        // One row for what was a row for each line.
        let start = |source: &Origin| {
            let function = source.function;
            let start = function.map(|(text, behind)| (text, source.offset.wrapping_sub(behind)));
            (source.module, start)
        };
        less.sources = sources;
        less.sources.dedup_by_key(|source| start(source));
        for source in &mut less.sources {
            let function = source.function;
            source.function = function.map(|(text, behind)| (number(text), behind));
            source.line = None;
        }
        Cow::Owned(less)
    }
}

/// Names and ends of the processes of a file, and its end.
fn say_end(
    journal: &mut Journal<impl Write>,
    recording: &Recording,
    names: Names,
) -> Result<(), WriteError> {
    for (index, process) in recording.processes.iter().enumerate() {
        journal.names_and_end(index, &names.of(process))?;
    }
    journal.denied(&recording.denied)?;
    journal.natives(&recording.natives)?;
    journal.done(recording.meta.duration_ns, recording.meta.end)
}

/// Most bytes that this takes.
fn end_len(recording: &Recording, names: Names) -> Result<u64, WriteError> {
    /// The three totals of a file may be longer numbers than those of the end alone.
    const TOTALS: u64 = 3 * 9;
    let mut journal = Journal::new(io::sink(), &recording.meta)?;
    let begun = journal.written;
    say_end(&mut journal, recording, names)?;
    Ok(journal.written - begun + TOTALS)
}

fn thread(processes: &mut [Process], (process, thread): (usize, usize)) -> Option<&mut Thread> {
    processes.get_mut(process)?.threads.get_mut(thread)
}
