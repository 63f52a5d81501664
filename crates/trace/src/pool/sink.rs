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
use crate::model::{Fragment, Meta, Missing, Module, Process, Recording, Source as Origin, Thread};
use crate::part::Part;

/// Of a limit, what names of code are left at least: this part of it.
const NAMES: u64 = 8;
/// Bytes for how the recording ended, and then for each process, thread and keyframe.
const ENDS: u64 = 256;
const OF_PROCESS: u64 = 192;
const OF_THREAD: u64 = 64;
const OF_KEYFRAME: u64 = 10;

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
    /// Bytes of the whole file, and those that ends and names are left of it.
    limit: u64,
    tail: u64,
    /// No chunk has room any more until the end is said.
    is_full: bool,
    /// Names had none then.
    pub without_names: bool,
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
            tail: ENDS,
            is_full: false,
            without_names: false,
            ring,
            missing: HashMap::new(),
            keyframes: HashMap::new(),
        })
    }

    fn write(&mut self, write: impl FnOnce(&mut Journal<W>) -> Result<(), WriteError>) {
        if self.error.is_some() || self.is_full {
            return;
        }
        let tail = self.tail.max(self.limit / NAMES);
        self.journal.limit = match self.limit {
            u64::MAX => u64::MAX,
            limit => limit.saturating_sub(tail),
        };
        match write(&mut self.journal) {
            Ok(()) => {}
            Err(WriteError::Limit) => self.fill_up(),
            Err(error) => self.fail(error),
        }
    }

    /// What is in the file is all that is kept.
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
        self.tail += OF_PROCESS;
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
        self.tail += OF_THREAD;
        self.write(|journal| journal.thread(process, thread));
    }

    pub(super) fn keyframe(&mut self, process: usize, thread: usize, keyframe: &Keyframe) {
        match &mut self.ring {
            Some(ring) => ring.keyframe((process, thread), keyframe),
            None if self.stopped.is_some() => {}
            None => {
                self.tail += OF_KEYFRAME;
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
        if self.limit != u64::MAX && self.error.is_none() {
            return self.finish_within(recording);
        }
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

    /// The same in what the limit leaves, with as much of the names as there is room for.
    fn finish_within(&mut self, recording: &Recording) -> Result<(), WriteError> {
        self.write(Journal::flush_items);
        let whole = self.in_file(recording);
        let room = self.limit.saturating_sub(self.journal.written);
        for names in [Names::All, Names::Functions, Names::None] {
            let kept = names.of(&whole);
            let mut scratch = Journal::new(io::sink(), &recording.meta)?;
            let begun = scratch.written;
            say_end(&mut scratch, &kept, recording)?;
            // The totals of the file may be longer numbers than those of the scratch one.
            const TOTALS: u64 = 32;
            if scratch.written - begun + TOTALS <= room || names == Names::None {
                self.without_names = names == Names::None;
                self.journal.limit = u64::MAX;
                return say_end(&mut self.journal, &kept, recording);
            }
        }
        Ok(())
    }

    /// How those ended that are in the file.
    fn say_ends(&mut self, recording: &Recording) -> Result<(), WriteError> {
        for (index, process) in self.in_file(recording).iter().enumerate() {
            self.journal.end(index, process)?;
        }
        let meta = &recording.meta;
        self.journal.done(meta.duration_ns, meta.end)
    }

    /// What of the processes is in the file.
    fn in_file(&self, recording: &Recording) -> Vec<Process> {
        let mut processes = self.ended(recording);
        processes.truncate(self.journal.kept.len());
        for (process, kept) in processes.iter_mut().zip(&self.journal.kept) {
            process.modules.truncate(kept.modules);
            process.fragments.truncate(kept.fragments);
            process.threads.truncate(kept.threads.len());
            for (thread, &keyframes) in process.threads.iter_mut().zip(&kept.threads) {
                thread.keyframes.truncate(keyframes);
            }
        }
        processes
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

/// How much of the names is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    All,
    /// Of functions, without files and lines.
    Functions,
    None,
}

impl Names {
    /// The processes with those names of the code that they have.
    fn of(self, processes: &[Process]) -> Vec<Process> {
        let named = processes.iter().map(|process| {
            let mut process = process.clone();
            let sources = std::mem::take(&mut process.sources);
            let texts = std::mem::take(&mut process.texts);
            if self == Names::None {
                return process;
            }
            let code = Code::of(&process);
            let mut numbers = HashMap::new();
            let mut number = |old: u32| {
                *numbers.entry(old).or_insert_with(|| {
                    let text = texts.get(old as usize).cloned().unwrap_or_default();
                    process.texts.push(text);
                    process.texts.len() as u32 - 1
                })
            };
            for source in sources.into_iter().filter(|source| code.has(source)) {
                let line = source.line.filter(|_| self == Names::All);
                process.sources.push(Origin {
                    function: source.function.map(|(text, behind)| (number(text), behind)),
                    line: line.map(|(text, line)| (number(text), line)),
                    ..source
                });
            }
            process
        });
        named.collect()
    }
}

/// Where in files the code of a process is, by module: disjoint ranges in order.
struct Code(HashMap<u32, Vec<Range<u64>>>);

impl Code {
    fn of(process: &Process) -> Code {
        let mut found: HashMap<u32, Vec<Range<u64>>> = HashMap::new();
        let pieces = process
            .fragments
            .iter()
            .flat_map(|fragment| &fragment.pieces);
        for piece in pieces {
            let module = piece
                .module
                .and_then(|at| Some((at, process.modules.get(at as usize)?)));
            let Some((number, module)) = module else {
                continue;
            };
            let from = piece
                .pc
                .wrapping_sub(module.start)
                .wrapping_add(module.offset);
            let ranges = found.entry(number).or_default();
            ranges.push(from..from.saturating_add(piece.len.into()));
        }
        for ranges in found.values_mut() {
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup_by(|next, range| {
                let meets = next.start <= range.end;
                if meets {
                    range.end = range.end.max(next.end);
                }
                meets
            });
        }
        Code(found)
    }

    /// Whether a place is in it.
    fn has(&self, source: &Origin) -> bool {
        self.0.get(&source.module).is_some_and(|ranges| {
            let after = ranges.partition_point(|range| range.start <= source.offset);
            after > 0 && source.offset < ranges[after - 1].end
        })
    }
}

/// Names and ends of the processes that are in a file, and the end of it.
fn say_end(
    journal: &mut Journal<impl Write>,
    processes: &[Process],
    recording: &Recording,
) -> Result<(), WriteError> {
    for (index, process) in processes.iter().enumerate() {
        journal.names_and_end(index, process)?;
    }
    journal.done(recording.meta.duration_ns, recording.meta.end)
}

fn thread(processes: &mut [Process], (process, thread): (usize, usize)) -> Option<&mut Thread> {
    processes.get_mut(process)?.threads.get_mut(thread)
}
