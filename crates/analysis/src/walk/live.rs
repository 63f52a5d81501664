//! Processes that still run: their code and streams, as they come.
//!
//! Problem: who keeps a trace gives parts of streams now and then, some lanes of a thread
//! ahead of others; a walk reads whichever lane the next branch is in.
//!
//! Approach: each walk is in a thread of its own, and waits for what it asks for: a part of
//! one lane, or, where the code is not known yet, any part.
//!
//! Invariants:
//! - code and targets come before the parts that need them, so who has a byte of a stream
//!   but a stamp has what it needs to read up to it;
//! - a thread is *at work* from when it has what it waited for, not from when it notices: so
//!   where nobody is, all wait for what was not taken yet.
//!
//! Limits: waiting parts are in memory, up to the limit of [`Room`] and what the pool holds.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use trace::stream::LANES;
use trace::{Fragment, Part};

/// How much may wait for walks, of all processes together.
#[derive(Debug)]
pub struct Room {
    limit: u64,
    /// Bytes of parts, compressed.
    waiting: AtomicU64,
    /// Walks that have what they asked for.
    at_work: AtomicU64,
}

impl Room {
    pub fn new(limit: u64) -> Room {
        Room {
            limit,
            waiting: AtomicU64::new(0),
            at_work: AtomicU64::new(0),
        }
    }

    /// Whether more can come: there is room, or nobody can go on without more.
    pub fn is_left(&self) -> bool {
        !self.is_full() || !self.is_used()
    }

    /// Nobody can go on, though there is no room left.
    pub fn is_in_vain(&self) -> bool {
        self.is_full() && !self.is_used()
    }

    fn is_full(&self) -> bool {
        self.waiting.load(Relaxed) >= self.limit
    }

    fn is_used(&self) -> bool {
        self.at_work.load(Acquire) > 0
    }
}

/// A process that runs.
#[derive(Debug)]
pub struct LiveProcess {
    room: Arc<Room>,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    fragments: Vec<Arc<Fragment>>,
    targets: Vec<u64>,
    threads: Vec<Waiting>,
}

/// A thread's parts that were not read yet.
#[derive(Debug, Default)]
struct Waiting {
    lanes: [VecDeque<Part>; LANES],
    over: [bool; LANES],
    /// Data that its walk waits for.
    wants: Option<Wanted>,
    /// Nobody reads it any more.
    is_left: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// The next part of a lane.
    Lane(usize),
    Any,
}

impl Waiting {
    /// Whether it has that, or will never have it.
    fn has(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Lane(lane) => self.over[lane] || !self.lanes[lane].is_empty(),
            Wanted::Any => {
                let is_over = self.over.iter().all(|over| *over);
                is_over || self.lanes.iter().any(|lane| !lane.is_empty())
            }
        }
    }
}

impl LiveProcess {
    /// That has these fragments and targets of its parent, if it was forked.
    pub fn new(room: &Arc<Room>, parent: Option<(&LiveProcess, usize, usize)>) -> LiveProcess {
        let mut state = State::default();
        if let Some((parent, fragments, targets)) = parent {
            let parent = parent.state();
            state.fragments = parent.fragments.iter().take(fragments).cloned().collect();
            state.targets = parent.targets.iter().take(targets).copied().collect();
        }
        LiveProcess {
            room: Arc::clone(room),
            state: Mutex::new(state),
            more: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn fragment(&self, fragment: &Arc<Fragment>) {
        self.state().fragments.push(Arc::clone(fragment));
    }

    pub fn target(&self, target: u64) {
        self.state().targets.push(target);
    }

    /// Another thread of it begins.
    pub fn thread(self: &Arc<LiveProcess>) -> Tail {
        let mut state = self.state();
        state.threads.push(Waiting::default());
        self.room.at_work.fetch_add(1, Release);
        Tail {
            thread: state.threads.len() - 1,
            process: Arc::clone(self),
        }
    }

    /// The next part of one of a thread's lanes.
    pub fn part(&self, thread: usize, part: Part) {
        let lane = usize::from(part.stream);
        self.change(thread, |waiting, room| {
            if let Some(parts) = waiting.lanes.get_mut(lane)
                && !waiting.is_left
            {
                room.waiting.fetch_add(part.stored_len(), Relaxed);
                parts.push_back(part);
            }
        });
    }

    /// Nothing more comes of that lane.
    pub fn over(&self, thread: usize, lane: u16) {
        self.change(thread, |waiting, _| {
            if let Some(over) = waiting.over.get_mut(usize::from(lane)) {
                *over = true;
            }
        });
    }

    /// Nothing more comes.
    pub fn end(&self) {
        let threads = self.state().threads.len();
        for thread in 0..threads {
            self.change(thread, |waiting, _| waiting.over = [true; LANES]);
        }
    }

    fn change(&self, thread: usize, change: impl FnOnce(&mut Waiting, &Room)) {
        let mut state = self.state();
        let Some(waiting) = state.threads.get_mut(thread) else {
            return;
        };
        change(waiting, &self.room);
        if waiting.wants.is_some_and(|wanted| waiting.has(wanted)) {
            waiting.wants = None;
            self.room.at_work.fetch_add(1, Release);
            self.more.notify_all();
        }
    }

    /// Waits until the thread has that.
    fn wait(&self, thread: usize, wanted: Wanted) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if !state.threads[thread].has(wanted) {
            state.threads[thread].wants = Some(wanted);
            self.room.at_work.fetch_sub(1, Release);
            while state.threads[thread].wants.is_some() {
                let woken = self.more.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
        state
    }

    /// Code and targets behind so many.
    pub(super) fn news(&self, [fragments, targets]: [usize; 2]) -> (Vec<Arc<Fragment>>, Vec<u64>) {
        let state = self.state();
        let fragments = state.fragments.get(fragments..).unwrap_or_default();
        let targets = state.targets.get(targets..).unwrap_or_default();
        (fragments.to_vec(), targets.to_vec())
    }
}

/// Streams of one thread as they come, for their only reader. Once it is dropped, nothing more is kept for it.
#[derive(Debug)]
pub struct Tail {
    process: Arc<LiveProcess>,
    thread: usize,
}

impl Tail {
    /// Process of the thread.
    pub fn process(&self) -> &Arc<LiveProcess> {
        &self.process
    }

    /// The next part of a lane.
    pub(super) fn next(&self, lane: usize) -> Option<Part> {
        let mut state = self.process.wait(self.thread, Wanted::Lane(lane));
        let part = state.threads[self.thread].lanes[lane].pop_front()?;
        let waiting = &self.process.room.waiting;
        waiting.fetch_sub(part.stored_len(), Relaxed);
        Some(part)
    }

    /// Whether there is a part of a lane that was not read.
    pub(super) fn has(&self, lane: usize) -> bool {
        !self.process.state().threads[self.thread].lanes[lane].is_empty()
    }

    /// Waits until there is a part that was not read. `false`: none will be.
    pub(super) fn wait(&self) -> bool {
        let state = self.process.wait(self.thread, Wanted::Any);
        let mut lanes = state.threads[self.thread].lanes.iter();
        lanes.any(|lane| !lane.is_empty())
    }

    /// Nothing more comes of the lane.
    pub(super) fn is_over(&self, lane: usize) -> bool {
        let state = self.process.state();
        let waiting = &state.threads[self.thread];
        waiting.over[lane] && waiting.lanes[lane].is_empty()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let mut state = self.process.state();
        let waiting = &mut state.threads[self.thread];
        waiting.is_left = true;
        let lanes = std::mem::take(&mut waiting.lanes);
        let left: u64 = lanes.iter().flatten().map(Part::stored_len).sum();
        self.process.room.waiting.fetch_sub(left, Relaxed);
        self.process.room.at_work.fetch_sub(1, Release);
    }
}
