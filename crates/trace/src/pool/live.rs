//! A trace, kept while the program runs.
//!
//! Problem: whoever is killed, what threads executed until then is to be in the file, and
//! can be read: with the code, the targets and the modules that it needs.
//!
//! Approach: at each look ([`Live::drain`]) closed chunks are read and freed. What was read
//! is packed when there is a part's worth of it, or when it is [due](Due), with what is in
//! open chunks; then the logs are read on, which say what that needs, and both are written.
//!
//! Invariants:
//! - bytes of a stream are read before the logs, and written after them (but near a limit of
//!   the file, see `evenly`): code is in the log before a stream refers to it;
//! - chunks are freed whether or not anything can be written, so the program never waits
//!   for a full disk;
//! - after the first failure nothing more is written until the end is said.
//!
//! Somebody may follow ([`Follow`]): reads what is taken out, as it would be read of the file.
//! A full disk or a failed write ends the file, not the followers; a writer without room
//! has the program wait.
//!
//! Limits: what came in the last [`Due::BUSY`] and the time between two looks is lost if this
//! process is killed, and of threads that do little, in the last [`Due::MOST`]. Of a process
//! that was killed, the chunks stay in the pool.

mod evenly;
mod haste;
mod image;
mod packers;
mod packing;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use wire::stream::LANES;
use wire::view::Pool;
use wire::{ProcessRecord, ThreadRecord, made, process_state};

use super::follow::Follow;
use super::keyframes;
use super::log::{Entry, Replay};
use super::sink::{Keep, Most, Names, Sink};
use super::streams::{self, Chain};
use crate::container::journal::Place;
use crate::container::{MAX_SHARED, Shared};
use crate::error::WriteError;
use crate::keyframe::Keyframe;
use crate::model::{Meta, Missing, Recording};
use crate::part::{PART, Packer, Part};
use image::{Image, Log};
use packers::Packers;
use packing::Coming;

/// When open chunks are read, too: nobody can read further than the lane of a thread that
/// was taken out least.
///
/// After a short time first, and then when as much again has passed, so something is there of a
/// short run, too. Parts of threads that do little would be too small to be compressed well.
struct Due {
    /// The short time after which open chunks are first read.
    least: Duration,
    began: Instant,
    /// When those of busy threads were read, and those of all.
    busy: Instant,
    all: Instant,
}

impl Due {
    const LEAST: Duration = Duration::from_millis(20);
    const BUSY: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_millis(300);
    /// Used if only the beginning is kept: the less is written at a time, the better do code and
    /// streams fit together at its end.
    const LEAST_OF_CUT: Duration = Duration::from_millis(2);

    fn new(is_cut: bool) -> Due {
        let now = Instant::now();
        Due {
            least: if is_cut {
                Due::LEAST_OF_CUT
            } else {
                Due::LEAST
            },
            began: now,
            busy: now,
            all: now,
        }
    }

    /// Time until the chunks of busy threads are read again.
    fn wait(&self) -> Duration {
        (self.busy - self.began).clamp(self.least, Due::BUSY)
    }

    /// Which are read, and counted as such from now on; `all` in any case.
    fn now(&mut self, all: bool) -> Open {
        let now = Instant::now();
        let wait = self.wait();
        if all || now - self.all >= Due::MOST {
            (self.busy, self.all) = (now, now);
            Open::All
        } else if now - self.busy >= wait {
            self.busy = now;
            Open::Busy
        } else {
            Open::None
        }
    }
}

/// Whose open chunks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    None,
    /// Open chunks of threads that have written [`BUSY`] since.
    Busy,
    All,
}

/// Bytes in all lanes of a thread.
const BUSY: u64 = 64 << 10;

/// A trace that is being kept.
pub struct Live<W> {
    sink: Sink<W>,
    packer: Packer,
    packers: Packers,
    /// Bytes of a part at most.
    piece: usize,
    /// Only the beginning is kept.
    is_cut: bool,
    images: Vec<Image>,
    /// Images by the offsets of their records.
    by_record: HashMap<u64, usize>,
    /// Newest process record that is known.
    newest: u64,
    /// Images that may still do something.
    open: Vec<usize>,
    threads: Vec<Writer>,
    /// Room for bytes of streams, to be used again.
    spare: Vec<Vec<u8>>,
    ready: Vec<Coming>,
    keyframes: keyframes::Found,
    /// Keyframes of what is ready, by process and thread.
    found: Vec<(usize, usize, Keyframe)>,
    due: Due,
    /// Items that forked children share with their parents so far.
    shared: u64,
    follow: Option<Arc<dyn Follow>>,
    /// Streams that are over when `ready` is written, for who follows.
    ended: Vec<(usize, usize, u16)>,
    /// How quickly parts about memory are packed ([`Packer::hurry`]).
    haste: usize,
    /// Nothing runs any more.
    settles: bool,
}

/// A stream of a thread that is not over.
struct Writer {
    image: usize,
    thread: Option<usize>,
    /// Streams about memory that the thread has.
    of_memory: usize,
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
            packers: Packers::default(),
            // A limit of the file bounds the pieces, too.
            piece: limit.map_or(PART, |limit| (limit / 16).clamp(1024, PART as u64) as usize),
            is_cut: matches!(most, Most::First(_)),
            images: Vec::new(),
            by_record: HashMap::new(),
            newest: 0,
            open: Vec::new(),
            threads: Vec::new(),
            spare: Vec::new(),
            ready: Vec::new(),
            keyframes: keyframes::Found::default(),
            found: Vec::new(),
            due: Due::new(matches!(most, Most::First(_))),
            shared: 0,
            follow: None,
            ended: Vec::new(),
            haste: 0,
            settles: false,
        })
    }

    /// Has somebody read it, too.
    #[must_use]
    pub fn followed_by(mut self, follow: Option<Arc<dyn Follow>>) -> Live<W> {
        self.follow = follow;
        self
    }

    /// Reads and frees every chunk that is closed. Whether there was one.
    pub fn drain(&mut self, pool: &Pool) -> bool {
        if !pool.is_valid() {
            return false;
        }
        let mut freed = false;
        if self.is_cut && pool.header().processes.load(Acquire) != self.newest {
            // Code of parents comes before children that have it.
            freed = self.take(pool, Open::All);
            self.write(pool);
        }
        self.look_for_processes(pool);
        self.look_for_threads(pool);
        if self.images.is_empty() {
            // Nothing runs yet.
            self.due = Due::new(self.is_cut);
        }
        let starves = self.follow.as_ref().is_some_and(|follow| follow.starves());
        let mut open = match self.due.now(starves) {
            // No lane may end before the others do.
            Open::Busy if self.is_cut => Open::All,
            open => open,
        };
        freed |= self.take(pool, open);
        if self.is_cut && open == Open::None && !self.ready.is_empty() {
            // One has, as its chunk was closed: the open ones of the others come along.
            open = self.due.now(true);
            freed |= self.take(pool, open);
        }
        if open != Open::None || !self.ready.is_empty() {
            self.write(pool);
        }
        freed
    }

    /// Time for which nobody need look at the pool, if no chunk is closed.
    pub fn patience(&self) -> Duration {
        const MOST: Duration = Duration::from_millis(50);
        match self.is_cut && self.sink.stopped.is_none() {
            true => self.due.wait().min(MOST),
            false => MOST,
        }
    }

    /// Everything that is left in the pool when all has ended, and what there is but streams.
    pub fn settle(&mut self, pool: &Pool, meta: Meta) -> Recording {
        let mut recording = Recording {
            meta,
            processes: Vec::new(),
            denied: Vec::new(),
            natives: Vec::new(),
        };
        self.settles = true;
        if !pool.is_valid() {
            return recording;
        }
        self.drain(pool);
        for writer in &mut self.threads {
            writer.chain.take_open(pool);
        }
        self.take(pool, Open::All);
        self.write(pool);
        for writer in &self.threads {
            self.images[writer.image].tells(writer.thread, writer.chain.insns);
        }
        for image in self.images.iter().filter(|image| image.index.is_some()) {
            recording.processes.push(image.whole(pool));
        }
        let end = recording.meta.end;
        if let Some(process) = super::last_image_of_first(&mut recording.processes) {
            process.end = end;
        }
        recording.denied = super::denied(pool);
        recording.natives = super::natives(pool);
        recording
    }

    /// The part of a recording that is in the file: only its names are needed.
    pub fn in_file(&self, recording: &Recording) -> Recording {
        self.sink.in_file(recording)
    }

    /// Names and the end of what is [in the file](Self::in_file). What went wrong until now, or
    /// then.
    pub fn finish(&mut self, recording: &Recording) -> Result<(), WriteError> {
        self.sink.finish(recording)
    }

    /// Whether more than the limit came.
    pub fn is_at_limit(&self) -> bool {
        self.sink.stopped == Some(Missing::Limit)
    }

    /// The names that the file had room for.
    pub fn names(&self) -> Names {
        self.sink.names
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
            if let Some(follow) = &self.follow {
                let shared = shared.unwrap_or_default();
                let has = parent_index.map(|at| (at, shared.fragments, shared.targets));
                follow.process(index, has);
            }
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
            told: HashMap::new(),
            exited: None,
            replaced: false,
            log,
        });
    }

    /// Code and modules of a child that was forked when `parent` had `mark` records.
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
            let follow = self.follow.as_deref();
            image.look(pool, record, &mut self.sink, follow);
            let mut left = Vec::new();
            for (offset, thread) in mem::take(&mut image.waiting) {
                let chains = pool.at::<ThreadRecord>(offset).map(streams::chains);
                let chains = chains.unwrap_or_default();
                if chains.is_empty() {
                    left.push((offset, thread));
                }
                image.writers += chains.len();
                let of_memory = chains.len().saturating_sub(LANES);
                self.threads.extend(chains.into_iter().map(|chain| Writer {
                    image: at,
                    thread,
                    of_memory,
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

    /// Drains the chunks that threads have written.
    fn take(&mut self, pool: &Pool, open: Open) -> bool {
        let mut freed = false;
        let busy = match open {
            Open::Busy => self.busy(pool),
            Open::None | Open::All => HashSet::new(),
        };
        for at in (0..self.threads.len()).rev() {
            let (took, has_room) = self.take_closed(pool, at);
            freed |= took;
            // Closed chunks that were not taken come before the open one.
            let writer = &mut self.threads[at];
            let is_read = open == Open::All || busy.contains(&(writer.image, writer.thread));
            if !is_read || !has_room {
                continue;
            }
            match self.images[writer.image].has_no_threads() {
                true => writer.chain.end(pool),
                false => writer.chain.take_open(pool),
            }
            self.pack(at);
            if self.threads[at].chain.is_over() {
                let writer = self.threads.swap_remove(at);
                let image = &mut self.images[writer.image];
                image.writers -= 1;
                image.tells(writer.thread, writer.chain.insns);
                if let Some((process, thread)) = image.index.zip(writer.thread) {
                    self.sink.over(process, thread);
                    self.ended.push((process, thread, writer.chain.stream));
                }
            }
        }
        freed
    }

    /// Threads that have written much since all of it was packed.
    fn busy(&self, pool: &Pool) -> HashSet<(usize, Option<usize>)> {
        let mut waiting: HashMap<_, u64> = HashMap::new();
        for writer in &self.threads {
            let bytes = waiting.entry((writer.image, writer.thread)).or_default();
            *bytes += writer.chain.waiting(pool);
        }
        waiting.retain(|_, bytes| *bytes >= BUSY);
        waiting.into_keys().collect()
    }

    /// Whether who follows takes more.
    fn has_room(&self) -> bool {
        let follow = self.follow.as_ref();
        self.settles || follow.is_none_or(|follow| follow.has_room())
    }

    /// Writes what is ready, and before it what it needs.
    fn write(&mut self, pool: &Pool) {
        match self.is_cut {
            true => self.write_evenly(pool),
            false => self.write_all(pool),
        }
        for (process, thread, keyframe) in mem::take(&mut self.found) {
            self.sink.keyframe(process, thread, &keyframe);
        }
        for (process, thread, stream) in mem::take(&mut self.ended) {
            if let Some(follow) = &self.follow {
                follow.over(process, thread, stream);
            }
        }
        self.sink.flush();
    }

    fn write_all(&mut self, pool: &Pool) {
        for at in self.open.clone() {
            self.read_log(pool, at);
        }
        for ready in self.take_ready() {
            // An image that is over has logged something since it was read.
            self.read_log(pool, ready.image);
            self.sink.part(ready.place, &ready.part);
            self.pass_on(ready);
        }
    }

    /// Gives a part to the follower.
    fn pass_on(&self, ready: Ready) {
        if let Some(follow) = &self.follow {
            follow.part(ready.place.process, ready.place.thread, ready.part);
        }
    }

    fn read_log(&mut self, pool: &Pool, at: usize) {
        let entries = self.images[at].logged(pool);
        self.feed(at, entries);
    }

    fn feed(&mut self, at: usize, entries: impl IntoIterator<Item = Option<Entry>>) {
        let image = &mut self.images[at];
        for entry in entries {
            let follow = self.follow.as_deref();
            image.log.feed(entry, image.index, &mut self.sink, follow);
        }
    }
}
