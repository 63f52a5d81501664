//! A trace, kept while the program runs.
//!
//! Problem: whoever is killed, what threads executed until then is to be in the file, and
//! can be read: with the code, the targets and the modules that it needs.
//!
//! Approach: at each look ([`Live::drain`]) closed chunks are read and freed. What was read
//! is packed when there is a part's worth of it, or after [`EVERY`]; then the logs are
//! read on, which say what that needs, and both are written.
//!
//! Invariants:
//! - bytes of a stream are read before the logs, and written after them: code is in the
//!   log before a stream refers to it;
//! - chunks are freed whether or not anything can be written, so the program never waits
//!   for a full disk;
//! - after the first failure nothing more is written until the end is said.
//!
//! Limits: what came in the last [`EVERY`] and the time between two looks is lost if this
//! process is killed. Of a process that was killed, the chunks stay in the pool.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::stream::{BEGIN, END};
use wire::view::Pool;
use wire::{ProcessRecord, ThreadRecord, made, process_state};

use super::keyframes;
use super::log::{Entry, Replay, Tail};
use super::sink::{Keep, Most, Sink};
use super::streams::{self, Chain};
use crate::container::journal::Place;
use crate::container::{MAX_SHARED, Shared};
use crate::error::WriteError;
use crate::model::{Fragment, Meta, Missing, Process, Recording, Thread};
use crate::part::{PART, Packer, Part};

/// How long something may wait to be written.
const EVERY: Duration = Duration::from_millis(300);
/// After its process ended by itself so long ago, a thread writes nothing any more.
const GRACE: Duration = Duration::from_secs(1);

/// A trace that is being kept.
pub struct Live<W> {
    sink: Sink<W>,
    packer: Packer,
    /// Bytes of a part at most.
    piece: usize,
    images: Vec<Image>,
    /// Images by the offsets of their records.
    by_record: HashMap<u64, usize>,
    /// Newest process record that is known.
    newest: u64,
    /// Images that may still do something.
    open: Vec<usize>,
    threads: Vec<Writer>,
    ready: Vec<Ready>,
    keyframes: keyframes::Found,
    /// When open chunks were read.
    looked: Instant,
    /// What forked children have of their parents so far.
    shared: u64,
}

/// A process image.
struct Image {
    record: u64,
    /// Its number in the file; `None`: nobody asked for it.
    index: Option<usize>,
    /// Without code and streams, as it is in the file.
    process: Process,
    newest_thread: u64,
    /// Records of the threads of `process`.
    records: Vec<u64>,
    /// Threads that have written nothing yet: records, and indices in the process.
    waiting: Vec<(u64, Option<usize>)>,
    /// Threads that write.
    writers: usize,
    exited: Option<Instant>,
    /// By an image of the same process.
    replaced: bool,
    log: Log,
}

/// What an image logged.
#[derive(Default)]
struct Log {
    tail: Tail,
    replay: Replay,
    /// Records of its own that were read.
    records: u64,
    /// Those that are about modules, with their numbers.
    maps: Vec<(u64, Entry)>,
    /// Its own code, and the numbers of the records.
    fragments: Vec<(u64, Arc<Fragment>)>,
    targets: Vec<u64>,
    /// What it has from its parent.
    shared: Shared,
    /// Forked from that image when that had so many records.
    forked: Option<(usize, u64)>,
}

/// A stream of a thread that is not over.
struct Writer {
    image: usize,
    thread: Option<usize>,
    chain: Chain,
}

/// A part that is to be written, and of which image.
struct Ready {
    image: usize,
    place: Place,
    part: Part,
}

impl<W: Keep> Live<W> {
    /// Begins the file. No more than `most` of streams and code is kept.
    pub fn new(out: W, meta: &Meta, most: Most) -> Result<Live<W>, WriteError> {
        let limit = most.bytes();
        Ok(Live {
            sink: Sink::new(out, meta, most)?,
            packer: Packer::new()?,
            // Where there is a limit, it is kept to.
            piece: limit.map_or(PART, |limit| (limit / 16).clamp(1024, PART as u64) as usize),
            images: Vec::new(),
            by_record: HashMap::new(),
            newest: 0,
            open: Vec::new(),
            threads: Vec::new(),
            ready: Vec::new(),
            keyframes: keyframes::Found::default(),
            looked: Instant::now(),
            shared: 0,
        })
    }

    /// Reads and frees every chunk that is closed. Whether there was one.
    pub fn drain(&mut self, pool: &Pool) -> bool {
        if !pool.is_valid() {
            return false;
        }
        self.look_for_processes(pool);
        self.look_for_threads(pool);
        let due = self.looked.elapsed() >= EVERY;
        if due {
            self.looked = Instant::now();
        }
        let freed = self.take(pool, due);
        if due || !self.ready.is_empty() {
            self.write(pool);
        }
        freed
    }

    /// Everything that is left in the pool when all has ended, and what there is but streams.
    pub fn settle(&mut self, pool: &Pool, meta: Meta) -> Recording {
        let mut recording = Recording {
            meta,
            processes: Vec::new(),
        };
        if !pool.is_valid() {
            return recording;
        }
        self.drain(pool);
        for writer in &mut self.threads {
            writer.chain.take_open(pool);
        }
        self.take(pool, true);
        self.write(pool);
        for image in self.images.iter().filter(|image| image.index.is_some()) {
            recording.processes.push(image.whole(pool));
        }
        let end = recording.meta.end;
        if let Some(process) = super::last_image_of_first(&mut recording.processes) {
            process.end = end;
        }
        recording
    }

    /// Names, and the end. What went wrong until now, or then.
    pub fn finish(&mut self, recording: &Recording) -> Result<(), WriteError> {
        self.sink.finish(recording)
    }

    /// Whether more than the limit came.
    pub fn is_at_limit(&self) -> bool {
        self.sink.stopped == Some(Missing::Limit)
    }

    fn look_for_processes(&mut self, pool: &Pool) {
        let newest = pool.header().processes.load(Acquire);
        let (mut found, mut at) = (Vec::new(), newest);
        let mut entered = HashSet::new();
        while at != self.newest
            && !self.by_record.contains_key(&at)
            && entered.insert(at)
            && let Some(record) = pool.at::<ProcessRecord>(at).filter(|_| at != 0)
        {
            found.push(at);
            at = record.next.load(Acquire);
        }
        self.newest = newest;
        for &record in found.iter().rev() {
            self.begin(pool, record);
        }
    }

    fn begin(&mut self, pool: &Pool, at: u64) {
        let Some(record) = pool.at::<ProcessRecord>(at) else {
            return;
        };
        let parent = self.by_record.get(&record.parent.load(Relaxed)).copied();
        let is_shown = record.made.load(Relaxed) != made::BY_FORK_HIDDEN;
        let number = self.images.iter().rev().find_map(|image| image.index);
        let index = is_shown.then_some(number.map_or(0, |last| last + 1));
        let parent_index = parent.and_then(|parent| self.images[parent].index);
        let process = super::process(pool, at, record, parent_index);
        if let (Some(parent), false) = (parent, process.by_fork) {
            let parent = &mut self.images[parent];
            let record = pool.at::<ProcessRecord>(parent.record);
            let state = record.map(|record| record.state.load(Acquire));
            let is_same = parent.process.pid == process.pid;
            parent.replaced |= is_same && state == Some(process_state::EXECED);
        }
        let mut log = Log::default();
        let mark = record.parent_log_mark.load(Relaxed);
        if let Some(parent) = parent.filter(|_| process.by_fork && index.is_some()) {
            self.read_log(pool, parent);
            log.forked = Some((parent, mark));
            log.shared = self.shared_with(parent, mark, &mut log.replay);
        }
        let shared = log.forked.map(|_| log.shared);
        if let Some(index) = index {
            self.sink.process(index, &process, shared);
            for module in mem::take(&mut log.replay.gone) {
                let time = log.replay.modules[module as usize].unmapped_ns;
                self.sink.gone(index, module, time.unwrap_or(0));
            }
        }
        self.by_record.insert(at, self.images.len());
        self.open.push(self.images.len());
        self.images.push(Image {
            record: at,
            index,
            process,
            newest_thread: 0,
            records: Vec::new(),
            waiting: Vec::new(),
            writers: 0,
            exited: None,
            replaced: false,
            log,
        });
    }

    /// What a child has that was forked when `parent` had `mark` records; its modules.
    fn shared_with(&mut self, parent: usize, mark: u64, replay: &mut Replay) -> Shared {
        let mut ancestors = vec![(parent, mark)];
        while let Some(&(last, _)) = ancestors.last()
            && let Some(before) = self.images[last].log.forked
        {
            ancestors.push(before);
        }
        for (ancestor, mark) in ancestors.into_iter().rev() {
            let maps = &self.images[ancestor].log.maps;
            let known = maps.iter().take_while(|(number, _)| *number < mark);
            known.for_each(|(_, entry)| replay.feed(entry, |_| false));
        }
        let log = &self.images[parent].log;
        let before = |number: &u64| *number < mark;
        let fragments = log.fragments.partition_point(|(number, _)| before(number));
        let shared = Shared {
            modules: replay.modules.len(),
            fragments: log.shared.fragments + fragments,
            targets: log.shared.targets + log.targets.partition_point(before),
        };
        self.shared += (shared.modules + shared.fragments + shared.targets) as u64;
        if self.shared > MAX_SHARED {
            self.sink.fail(WriteError::TooShared);
        }
        shared
    }

    fn look_for_threads(&mut self, pool: &Pool) {
        for at in mem::take(&mut self.open) {
            let image = &mut self.images[at];
            let Some(record) = pool.at::<ProcessRecord>(image.record) else {
                continue;
            };
            image.look(pool, record, &mut self.sink);
            let mut left = Vec::new();
            for (offset, thread) in mem::take(&mut image.waiting) {
                let chains = pool.at::<ThreadRecord>(offset).map(streams::chains);
                let chains = chains.unwrap_or_default();
                if chains.is_empty() {
                    left.push((offset, thread));
                }
                image.writers += chains.len();
                self.threads.extend(chains.into_iter().map(|chain| Writer {
                    image: at,
                    thread,
                    chain,
                }));
            }
            image.waiting = left;
            if record.state.load(Acquire) == process_state::EXITED {
                image.exited.get_or_insert_with(Instant::now);
            }
            if !image.is_over() {
                self.open.push(at);
            }
        }
    }

    /// What threads have written; also if that is little.
    fn take(&mut self, pool: &Pool, all: bool) -> bool {
        let mut freed = false;
        for at in (0..self.threads.len()).rev() {
            while self.threads[at].chain.take_closed(pool) {
                freed = true;
                if self.threads[at].chain.raw.len() + (END - BEGIN) as usize > PART {
                    self.pack(at);
                }
            }
            if !all {
                continue;
            }
            let writer = &mut self.threads[at];
            match self.images[writer.image].has_no_threads() {
                true => writer.chain.end(pool),
                false => writer.chain.take_open(pool),
            }
            self.pack(at);
            if self.threads[at].chain.is_over() {
                let writer = self.threads.swap_remove(at);
                let image = &mut self.images[writer.image];
                image.writers -= 1;
                if let Some((process, thread)) = image.index.zip(writer.thread) {
                    self.sink.over(process, thread);
                }
            }
        }
        freed
    }

    /// Makes a part of what was read of a thread's stream.
    fn pack(&mut self, at: usize) {
        let writer = &mut self.threads[at];
        let chain = &mut writer.chain;
        let raw = mem::take(&mut chain.raw);
        let found = mem::take(&mut chain.keyframes);
        let place = self.images[writer.image].index.zip(writer.thread);
        let Some((process, thread)) = place else {
            return;
        };
        for marked in found {
            let keyframe = self
                .keyframes
                .add((process, thread), chain.stream.into(), marked);
            if let Some(keyframe) = keyframe {
                self.sink.keyframe(process, thread, &keyframe);
            }
        }
        if chain.is_lost {
            self.sink.lost(process, thread, Missing::Memory);
        }
        if raw.is_empty() {
            return;
        }
        if let Some(why) = self.sink.stopped {
            return self.sink.lost(process, thread, why);
        }
        let taken_unix_ns = unix_ns();
        for piece in raw.chunks(self.piece) {
            match self.packer.pack(piece) {
                Ok(part) => self.ready.push(Ready {
                    image: writer.image,
                    place: Place {
                        process,
                        thread,
                        sequence: chain.parts,
                    },
                    part: Part {
                        stream: chain.stream,
                        taken_unix_ns,
                        ..part
                    },
                }),
                Err(error) => return self.sink.fail(error.into()),
            }
            chain.parts += 1;
        }
    }

    /// Writes what is ready, and before it what it needs.
    fn write(&mut self, pool: &Pool) {
        for at in self.open.clone() {
            self.read_log(pool, at);
        }
        for ready in mem::take(&mut self.ready) {
            // An image that is over has logged something since it was read.
            self.read_log(pool, ready.image);
            self.sink.part(ready.place, &ready.part);
        }
        self.sink.flush();
    }

    fn read_log(&mut self, pool: &Pool, at: usize) {
        let (image, sink) = (&mut self.images[at], &mut self.sink);
        let Some(record) = pool.at::<ProcessRecord>(image.record) else {
            return;
        };
        let entries = image.log.tail.read(pool, record.log.load(Acquire));
        for entry in entries {
            image.log.feed(entry, image.index, sink);
        }
    }
}

/// Now.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

impl Log {
    fn feed<W: Keep>(&mut self, entry: Option<Entry>, index: Option<usize>, sink: &mut Sink<W>) {
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
                self.replay.place(&mut fragment);
                if let Some(index) = index {
                    sink.fragment(index, &fragment);
                }
                self.fragments.push((number, Arc::new(fragment)));
            }
            Some(Entry::Target(target)) => {
                if let Some(index) = index {
                    sink.target(index, target);
                }
                self.targets.push(number);
            }
            _ => {}
        }
    }
}

impl Image {
    /// Threads that began since.
    fn look<W: Keep>(&mut self, pool: &Pool, record: &ProcessRecord, sink: &mut Sink<W>) {
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
                self.process.threads.push(thread);
                self.records.push(at);
            }
        }
    }

    /// It has ended itself, or was replaced.
    fn has_no_threads(&self) -> bool {
        self.replaced || self.exited.is_some_and(|since| since.elapsed() > GRACE)
    }

    /// Nothing more comes from it.
    fn is_over(&self) -> bool {
        self.has_no_threads() && self.writers == 0
    }

    /// What is known of it when all is over: with its own code, without streams.
    fn whole(&self, pool: &Pool) -> Process {
        let head = pool.at::<ProcessRecord>(self.record);
        let head =
            head.map(|record| super::process(pool, self.record, record, self.process.parent));
        let mut threads = self.process.threads.clone();
        for (thread, &at) in threads.iter_mut().zip(&self.records) {
            let Some(record) = pool.at::<ThreadRecord>(at) else {
                continue;
            };
            let ended = record.ended.load(Acquire) == 1;
            thread.end_ns = ended.then(|| record.end_ns.load(Relaxed));
            thread.insns = super::insns(pool, record);
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
