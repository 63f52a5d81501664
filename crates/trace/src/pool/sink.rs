//! Where a trace goes: the file, until it is full, fails, or as much is kept as was asked for.
//!
//! Invariant: whoever writes here need not care; what was written before stays readable, and
//! how threads ended is said if there is room for that.

use std::collections::HashMap;
use std::io::{self, Write};

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
}

impl Keep for Vec<u8> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(len as usize);
        Ok(())
    }
}

pub(super) struct Sink<W> {
    journal: Journal<W>,
    /// Why no more code and streams are kept.
    pub stopped: Option<Missing>,
    error: Option<WriteError>,
    limit: u64,
    /// Threads, by process and index, of which something is missing.
    missing: HashMap<(usize, usize), Missing>,
}

impl<W: Keep> Sink<W> {
    pub(super) fn new(out: W, meta: &Meta, limit: Option<u64>) -> Result<Sink<W>, WriteError> {
        Ok(Sink {
            journal: Journal::new(out, meta)?,
            stopped: None,
            error: None,
            limit: limit.unwrap_or(u64::MAX),
            missing: HashMap::new(),
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
        if self.stopped.is_none() {
            self.write(|journal| journal.keyframe(process, thread, keyframe));
        }
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
            self.journal.end(index, process)?;
        }
        let meta = &recording.meta;
        self.journal.done(meta.duration_ns, meta.end)
    }

    /// The processes, with what is missing of their threads.
    fn ended(&self, recording: &Recording) -> Vec<Process> {
        let mut processes = recording.processes.clone();
        for (&(process, thread), &why) in &self.missing {
            let process = processes.get_mut(process);
            let thread = process.and_then(|process| process.threads.get_mut(thread));
            if let Some(thread) = thread {
                thread.missing = Some(why);
            }
        }
        processes
    }
}
