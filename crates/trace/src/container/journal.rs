//! Traces on disk: written while the program runs, so that what was written stays whatever
//! is killed.
//!
//! ```text
//!   header META (LOGS | STRM)* DONE
//! ```
//!
//! Invariants: what a part of a stream needs to be read is in `LOGS` chunks before it, unless a
//! limit of the file comes near (`pool::live::evenly`); a chunk is handed to the system in one
//! piece, so a file ends in at most one torn chunk; without `DONE` the recording was not finished.

mod read;

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use wire::denied::Denial;

use super::chunk::{HEADER, Kind, LEAD, TOLD, raw_len, write_chunk, write_stored};
use super::codec::Encoder;
use super::items::{Begun, Items, Shared};
use super::write::{self, CLOSE_AT};
use super::{denied, natives};
use crate::error::WriteError;
use crate::keyframe::{Gap, Keyframe};
use crate::model::{End, Fragment, Meta, Module, Native, Process, Recording, Source, Thread};
use crate::part::{LEVEL, Packer, Part};

pub(super) use read::read;

/// Length of the header of a part's stored bytes, with the eight bytes of a skippable frame.
const LEAD_LEN: usize = 48;

/// A trace that is being written.
pub(crate) struct Journal<W> {
    out: W,
    items: Items,
    packer: Packer,
    /// Bytes of whole chunks in the file.
    pub written: u64,
    /// Bytes that whole chunks may take.
    pub limit: u64,
    /// The part of each process that is in the file.
    pub kept: Vec<Kept>,
    /// Totals of the file: items, parts, their bytes.
    totals: [u64; 3],
    /// Items that were written, but marks: also of what a smaller file has no more.
    told: u64,
    /// Chunks that were written, if anybody wants to know.
    pub wrote: Option<Vec<Wrote>>,
}

/// A chunk in the file; the first is all that comes before items.
#[derive(Clone, Debug)]
pub(crate) struct Wrote {
    pub at: Range<u64>,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Logs,
    Part {
        whose: (usize, usize),
        stream: u16,
        /// Its bytes, before compression.
        raw: u64,
    },
    Marks {
        items: u64,
    },
}

/// The part of a process that is in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// Modules, those that it has from its parent included.
    pub modules: usize,
    /// Its own fragments.
    pub fragments: usize,
    /// Keyframes of each thread.
    pub threads: Vec<usize>,
}

/// An item about the streams of a thread, given by process and index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Keyframe((usize, usize), Keyframe),
    Gap((usize, usize), Gap),
}

/// Whose a part is: process and thread in it, and how many parts and bytes its stream has
/// before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub process: usize,
    pub thread: usize,
    pub sequence: u32,
    pub before: u64,
}

impl<W: Write> Journal<W> {
    pub(crate) fn new(out: W, meta: &Meta) -> Result<Journal<W>, WriteError> {
        Journal::at_level(out, meta, LEVEL)
    }

    /// Compressed at this level of zstd.
    fn at_level(mut out: W, meta: &Meta, level: i32) -> Result<Journal<W>, WriteError> {
        let mut head = write::header();
        write_chunk(&mut head, Kind::META, &write::meta(meta).bytes)?;
        out.write_all(&head)?;
        Ok(Journal {
            out,
            items: Items::default(),
            packer: Packer::at_level(level)?,
            written: head.len() as u64,
            limit: u64::MAX,
            kept: Vec::new(),
            totals: [0; 3],
            told: 0,
            wrote: None,
        })
    }

    /// Remembers all chunks from now on.
    pub(crate) fn remember(&mut self) {
        self.wrote = Some(vec![Wrote {
            at: 0..self.written,
            what: What::Logs,
        }]);
    }

    fn written(&mut self, stored: &[&[u8]], what: What) {
        let from = self.written;
        self.written += chunk_len(stored);
        if let Some(wrote) = &mut self.wrote {
            let at = from..self.written;
            wrote.push(Wrote { at, what });
        }
    }

    /// Items about streams, in a chunk of their own.
    pub(crate) fn marks(&mut self, marks: &[Mark]) -> Result<(), WriteError> {
        self.flush_items()?;
        if marks.is_empty() {
            return Ok(());
        }
        let (chunk, items) = self.marks_chunk(marks)?;
        self.out.write_all(&chunk)?;
        self.written(&[&chunk[HEADER..]], What::Marks { items });
        self.totals[0] += items;
        Ok(())
    }

    /// That chunk, and how many items it has.
    pub(crate) fn marks_chunk(&mut self, marks: &[Mark]) -> Result<(Vec<u8>, u64), WriteError> {
        let mut items = Items::default();
        for mark in marks {
            match mark {
                Mark::Keyframe((process, thread), mark) => items.keyframe(*process, *thread, mark),
                Mark::Gap((process, thread), mark) => items.gap(*process, *thread, mark),
            }
        }
        let (raw, count, _) = items.take();
        let len = raw_len(Kind::LOGS, &raw)?;
        let stored = self.packer.stored(&raw)?;
        let mut chunk = Vec::new();
        let told = self.told.to_le_bytes();
        write_stored(&mut chunk, Kind::LOGS, len, &[TOLD, &told, &stored])?;
        Ok((chunk, count))
    }

    /// The file is another one, of `len` bytes, with so many items, parts and their bytes
    /// more, and less.
    pub(crate) fn is_now(&mut self, len: u64, more: [u64; 3], less: [u64; 3]) {
        self.written = len;
        for (total, (more, less)) in self.totals.iter_mut().zip(more.into_iter().zip(less)) {
            *total = *total + more - less;
        }
    }

    pub(crate) fn process(
        &mut self,
        index: usize,
        process: &Process,
        shared: Option<Shared>,
    ) -> Result<(), WriteError> {
        self.items.process(index, process, shared);
        self.grown()
    }

    pub(crate) fn module(&mut self, process: usize, module: &Module) -> Result<(), WriteError> {
        self.items.module(process, module);
        self.grown()
    }

    pub(crate) fn gone(
        &mut self,
        process: usize,
        module: usize,
        time_ns: u64,
    ) -> Result<(), WriteError> {
        self.items.gone(process, module, time_ns);
        self.grown()
    }

    pub(crate) fn fragment(
        &mut self,
        process: usize,
        fragment: &Fragment,
    ) -> Result<(), WriteError> {
        self.items.fragment(process, fragment);
        self.grown()
    }

    pub(crate) fn target(&mut self, process: usize, target: u64) -> Result<(), WriteError> {
        self.items.target(process, target);
        self.grown()
    }

    pub(crate) fn thread(&mut self, process: usize, thread: &Thread) -> Result<(), WriteError> {
        self.items.thread(process, thread);
        self.grown()
    }

    pub(crate) fn keyframe(
        &mut self,
        process: usize,
        thread: usize,
        keyframe: &Keyframe,
    ) -> Result<(), WriteError> {
        self.items.keyframe(process, thread, keyframe);
        self.grown()
    }

    /// Names and build ids of its code, and how it ended.
    pub(crate) fn names_and_end(
        &mut self,
        index: usize,
        process: &Process,
    ) -> Result<(), WriteError> {
        self.names(index, process)?;
        self.end(index, process)
    }

    fn names(&mut self, index: usize, process: &Process) -> Result<(), WriteError> {
        for (at, module) in process.modules.iter().enumerate() {
            if let Some(id) = &module.build_id {
                self.items.build(index, at, id);
                self.grown()?;
            }
        }
        for text in &process.texts {
            self.items.text(index, text);
            self.grown()?;
        }
        process.sources.iter().try_for_each(|source: &Source| {
            self.items.source(index, source);
            self.grown()
        })
    }

    /// How it and its threads ended.
    pub(crate) fn end(&mut self, index: usize, process: &Process) -> Result<(), WriteError> {
        self.items.ended(index, process);
        for (at, thread) in process.threads.iter().enumerate() {
            self.items.thread_ended(index, at, thread);
            let keyframes = thread.keyframes.iter();
            let numbers: Vec<u64> = keyframes.map_while(|keyframe| keyframe.insns).collect();
            if !numbers.is_empty() {
                self.items.numbers(index, at, &numbers);
            }
            self.grown()?;
        }
        self.grown()
    }

    /// A part of a thread's stream, and before it the items that came until now.
    pub(crate) fn part(&mut self, place: Place, part: &Part) -> Result<(), WriteError> {
        self.flush_items()?;
        let mut lead = Vec::with_capacity(LEAD_LEN);
        lead.extend(LEAD.to_le_bytes());
        lead.extend((LEAD_LEN as u32 - 8).to_le_bytes());
        lead.extend((place.process as u32).to_le_bytes());
        lead.extend((place.thread as u32).to_le_bytes());
        lead.extend(place.sequence.to_le_bytes());
        lead.extend(u32::from(part.stream).to_le_bytes());
        lead.extend(part.taken_unix_ns.to_le_bytes());
        lead.extend(place.before.to_le_bytes());
        lead.extend(self.told.to_le_bytes());
        let stored: [&[u8]; 2] = [&lead, &part.stored];
        self.room_for(&stored)?;
        write_stored(&mut self.out, Kind::STRM, part.len, &stored)?;
        let what = What::Part {
            whose: (place.process, place.thread),
            stream: part.stream,
            raw: part.len.into(),
        };
        self.written(&stored, what);
        self.totals[1] += 1;
        self.totals[2] += u64::from(part.len);
        Ok(())
    }

    /// All parts of a thread. What is lost stays lost: the next one says so.
    fn parts(&mut self, whose: (usize, usize), thread: &Thread) -> Result<(), WriteError> {
        let mut places: HashMap<u16, (u32, u64)> = HashMap::new();
        for part in &thread.stream {
            let gone = || thread.gone(part.stream);
            let (sequence, before) = places.entry(part.stream).or_insert_with(gone);
            let place = Place {
                process: whose.0,
                thread: whose.1,
                sequence: *sequence,
                before: *before,
            };
            *sequence = sequence.wrapping_add(1);
            *before = before.wrapping_add(part.len());
            if !part.is_lost() {
                self.part(place, part)?;
            }
        }
        Ok(())
    }

    fn grown(&mut self) -> Result<(), WriteError> {
        match self.items.out.bytes.len() >= CLOSE_AT {
            true => self.flush_items(),
            false => Ok(()),
        }
    }

    pub(crate) fn flush_items(&mut self) -> Result<(), WriteError> {
        if self.items.out.bytes.is_empty() {
            return Ok(());
        }
        let told = self.items.told();
        let (raw, count, begun) = self.items.take();
        self.chunk(Kind::LOGS, &raw)?;
        self.totals[0] += count;
        self.told += told;
        for (process, begun) in begun {
            self.keep(process, begun);
        }
        Ok(())
    }

    fn keep(&mut self, process: usize, begun: Begun) {
        if matches!(begun, Begun::Process(_)) {
            self.kept.push(Kept::default());
        }
        let Some(kept) = self.kept.get_mut(process) else {
            return;
        };
        match begun {
            Begun::Process(shared) => kept.modules = shared.modules,
            Begun::Module => kept.modules += 1,
            Begun::Fragment => kept.fragments += 1,
            Begun::Thread => kept.threads.push(0),
            Begun::Keyframe(thread) => {
                if let Some(keyframes) = kept.threads.get_mut(thread) {
                    *keyframes += 1;
                }
            }
        }
    }

    /// Refuses a chunk that the limit leaves no room for.
    fn room_for(&self, stored: &[&[u8]]) -> Result<(), WriteError> {
        match self.written + chunk_len(stored) > self.limit {
            true => Err(WriteError::Limit),
            false => Ok(()),
        }
    }

    fn chunk(&mut self, kind: Kind, raw: &[u8]) -> Result<(), WriteError> {
        let len = raw_len(kind, raw)?;
        let stored = self.packer.stored(raw)?;
        let told = self.told.to_le_bytes();
        let stored: [&[u8]; 3] = [TOLD, &told, &stored];
        self.room_for(&stored)?;
        write_stored(&mut self.out, kind, len, &stored)?;
        self.written(&stored, What::Logs);
        Ok(())
    }

    /// Threads that did not get memory.
    pub(crate) fn denied(&mut self, denied: &[Denial]) -> Result<(), WriteError> {
        match denied.is_empty() {
            true => Ok(()),
            false => self.chunk(Kind::DENY, &denied::put(denied).bytes),
        }
    }

    /// Programs that were executed natively.
    pub(crate) fn natives(&mut self, natives: &[Native]) -> Result<(), WriteError> {
        match natives.is_empty() {
            true => Ok(()),
            false => self.chunk(Kind::NATV, &natives::put(natives).bytes),
        }
    }

    /// The end of the file.
    pub(crate) fn done(&mut self, duration_ns: u64, end: End) -> Result<(), WriteError> {
        self.flush_items()?;
        let mut done = Encoder::default();
        done.uint(duration_ns);
        write::end(&mut done, end);
        for total in self.totals {
            done.uint(total);
        }
        self.chunk(Kind::DONE, &done.bytes)?;
        self.out.flush()?;
        Ok(())
    }

    /// The output, without bytes that are still buffered.
    pub(crate) fn place(&mut self) -> &mut W {
        &mut self.out
    }

    /// Forgets items that are not in the file.
    pub(crate) fn forget_items(&mut self) {
        self.items = Items::default();
    }
}

fn chunk_len(stored: &[&[u8]]) -> u64 {
    let len: usize = stored.iter().map(|bytes| bytes.len()).sum();
    (HEADER + len) as u64
}

/// A whole recording of [`crate::Mode::Trace`].
pub(super) fn write(recording: &Recording, out: impl Write, level: i32) -> Result<(), WriteError> {
    let meta = Meta {
        duration_ns: 0,
        end: End::Unknown,
        ..recording.meta.clone()
    };
    let mut journal = Journal::at_level(out, &meta, level)?;
    for (index, process) in recording.processes.iter().enumerate() {
        let parent = process.parent.map(|at| recording.processes.get(at));
        let parent = match (parent, process.parent) {
            (Some(Some(parent)), Some(at)) if at < index => Some(parent),
            (None, _) => None,
            _ => {
                return Err(WriteError::Inconsistent {
                    what: "process",
                    index,
                });
            }
        };
        let shared = parent.and_then(|parent| shared(parent, process));
        journal.process(index, process, shared)?;
        let from = shared.unwrap_or_default();
        for (at, module) in process.modules.iter().enumerate() {
            match module.unmapped_ns {
                _ if at >= from.modules => journal.module(index, module)?,
                Some(time) => journal.gone(index, at, time)?,
                None => {}
            }
        }
        for fragment in &process.fragments[from.fragments..] {
            journal.fragment(index, fragment)?;
        }
        for &target in &process.targets[from.targets..] {
            journal.target(index, target)?;
        }
        for (at, thread) in process.threads.iter().enumerate() {
            journal.thread(index, thread)?;
            if let Some(gap) = &thread.gap {
                journal.items.gap(index, at, gap);
            }
            for keyframe in &thread.keyframes {
                journal.keyframe(index, at, keyframe)?;
            }
            journal.parts((index, at), thread)?;
        }
        journal.names_and_end(index, process)?;
    }
    journal.denied(&recording.denied)?;
    journal.natives(&recording.natives)?;
    journal.done(recording.meta.duration_ns, recording.meta.end)
}

/// Code and modules that a forked child shares with its parent.
fn shared(parent: &Process, process: &Process) -> Option<Shared> {
    let fragments = parent.fragments.iter().zip(&process.fragments);
    let fragments = fragments.take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
    let alike = |(a, b): &(&Module, &Module)| {
        let bare = |module: &Module| Module {
            unmapped_ns: None,
            build_id: None,
            ..module.clone()
        };
        bare(a) == bare(b)
    };
    let modules = parent.modules.iter().zip(&process.modules);
    let targets = parent.targets.iter().zip(&process.targets);
    (fragments > 0).then(|| Shared {
        modules: modules.take_while(alike).count(),
        fragments,
        targets: targets.take_while(|(a, b)| a == b).count(),
    })
}
