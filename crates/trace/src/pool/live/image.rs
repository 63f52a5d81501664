//! Process images whose traces are kept: their threads, and what they logged.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use wire::view::Pool;
use wire::{ProcessRecord, ThreadRecord};

use super::super::follow::Follow;
use super::super::log::{Entry, Replay, Tail};
use super::super::sink::{Keep, Sink};
use crate::container::Shared;
use crate::model::{Fragment, Process, Thread};

/// After its process ended by itself so long ago, a thread writes nothing any more.
const GRACE: Duration = Duration::from_secs(1);

/// A process image.
pub(super) struct Image {
    pub record: u64,
    /// Its number in the file; `None`: nobody asked for it.
    pub index: Option<usize>,
    /// Without code and streams, as it is in the file.
    pub process: Process,
    pub newest_thread: u64,
    /// Records of the threads of `process`.
    pub records: Vec<u64>,
    /// Threads that have written nothing yet: records, and indices in the process.
    pub waiting: Vec<(u64, Option<usize>)>,
    /// Threads that write.
    pub writers: usize,
    /// Instructions that streams tell of from which nothing more is read, by thread.
    pub told: HashMap<usize, u64>,
    pub exited: Option<Instant>,
    /// By an image of the same process.
    pub replaced: bool,
    pub log: Log,
}

/// Log of a process image.
#[derive(Default)]
pub(super) struct Log {
    pub tail: Tail,
    pub replay: Replay,
    /// Records of its own that were read.
    pub records: u64,
    /// Records about modules, with their numbers.
    pub maps: Vec<(u64, Entry)>,
    /// Its own code, and the numbers of the records.
    pub fragments: Vec<(u64, Arc<Fragment>)>,
    pub targets: Vec<u64>,
    /// Items shared with its parent.
    pub shared: Shared,
    /// Forked from that image when that had so many records.
    pub forked: Option<(usize, u64)>,
}

impl Log {
    pub fn feed<W: Keep>(
        &mut self,
        entry: Option<Entry>,
        index: Option<usize>,
        sink: &mut Sink<W>,
        follow: Option<&dyn Follow>,
    ) {
        let number = self.records;
        self.records += 1;
        match entry {
            Some(entry @ (Entry::Map { .. } | Entry::Unmap { .. })) => {
                let known = self.replay.modules.len();
                self.replay.feed(&entry, |_| false);
                if let Some(index) = index {
                    for module in mem::take(&mut self.replay.gone) {
                        let time = self.replay.modules[module as usize].unmapped_ns;
                        sink.gone(index, module, time.unwrap_or(0));
                    }
                    let new = &self.replay.modules[known..];
                    new.iter().for_each(|module| sink.module(index, module));
                }
                self.maps.push((number, entry));
            }
            Some(Entry::Fragment(mut fragment)) => {
                self.replay.place(Arc::make_mut(&mut fragment));
                if let Some(index) = index {
                    sink.fragment(index, &fragment);
                    if let Some(follow) = follow {
                        follow.fragment(index, &fragment);
                    }
                }
                self.fragments.push((number, fragment));
            }
            Some(Entry::Target(target)) => {
                if let Some(index) = index {
                    sink.target(index, target);
                    if let Some(follow) = follow {
                        follow.target(index, target);
                    }
                }
                self.targets.push(number);
            }
            _ => {}
        }
    }
}

impl Image {
    /// Threads that began since.
    pub fn look<W: Keep>(
        &mut self,
        pool: &Pool,
        record: &ProcessRecord,
        sink: &mut Sink<W>,
        follow: Option<&dyn Follow>,
    ) {
        let newest = record.threads.load(Acquire);
        let (mut found, mut at) = (Vec::new(), newest);
        let mut entered = HashSet::new();
        while at != self.newest_thread
            && entered.insert(at)
            && let Some(record) = pool.at::<ThreadRecord>(at).filter(|_| at != 0)
        {
            found.push(at);
            at = record.next.load(Acquire);
        }
        self.newest_thread = newest;
        for &at in found.iter().rev() {
            let Some(record) = pool.at::<ThreadRecord>(at) else {
                continue;
            };
            let is_shown = self.index.is_some() && record.hidden.load(Relaxed) == 0;
            let number = self.process.threads.len();
            self.waiting.push((at, is_shown.then_some(number)));
            if let Some(index) = self.index.filter(|_| is_shown) {
                let thread = Thread {
                    tid: record.tid.load(Relaxed),
                    start_ns: record.start_ns.load(Relaxed),
                    ..Thread::default()
                };
                sink.thread(index, &thread);
                if let Some(follow) = follow {
                    follow.thread(index);
                }
                self.process.threads.push(thread);
                self.records.push(at);
            }
        }
    }

    /// Entries that it has logged since; `None` is a record that this build does not know.
    pub fn logged(&mut self, pool: &Pool) -> Vec<Option<Entry>> {
        let record = pool.at::<ProcessRecord>(self.record);
        let log = record.map(|record| record.log.load(Acquire));
        log.map_or_else(Vec::new, |log| self.log.tail.read(pool, log))
    }

    /// It has ended itself, or was replaced.
    pub fn has_no_threads(&self) -> bool {
        self.replaced || self.exited.is_some_and(|since| since.elapsed() > GRACE)
    }

    /// Nothing more comes from it.
    pub fn is_over(&self) -> bool {
        self.has_no_threads() && self.writers == 0
    }

    /// A stream of a thread has told of so many instructions, which is all.
    pub fn tells(&mut self, thread: Option<usize>, insns: u64) {
        if let Some(thread) = thread {
            let told = self.told.entry(thread).or_default();
            *told = told.wrapping_add(insns);
        }
    }

    /// The process after the run: with its own code, without streams.
    pub fn whole(&self, pool: &Pool) -> Process {
        let head = pool.at::<ProcessRecord>(self.record);
        let head = head
            .map(|record| super::super::process(pool, self.record, record, self.process.parent));
        let mut threads = self.process.threads.clone();
        for ((index, thread), &at) in threads.iter_mut().enumerate().zip(&self.records) {
            let Some(record) = pool.at::<ThreadRecord>(at) else {
                continue;
            };
            let ended = record.ended.load(Acquire) == 1;
            thread.end_ns = ended.then(|| record.end_ns.load(Relaxed));
            let told = self.told.get(&index).copied().unwrap_or(0);
            thread.insns = super::super::insns(pool, record).wrapping_add(told);
        }
        Process {
            threads,
            modules: self.log.replay.modules.clone(),
            fragments: self
                .log
                .fragments
                .iter()
                .map(|(_, own)| own.clone())
                .collect(),
            ..head.unwrap_or_else(|| self.process.clone())
        }
    }
}
