//! Threads that compress what is about memory.
//!
//! Problem: a program with `--memory` writes several times as much as one thread compresses, and
//! waits for it.
//!
//! Approach: bytes are handed to a few [`Packers`], each with a compressor of its own, while whoever
//! drains reads on. Before it writes, it [waits](Packers::wait), and compresses what nobody has
//! begun. The threads begin with the first bytes, so other traces have none.
//!
//! Invariant: parts are as if they had been packed one after the other.
//!
//! Limits: if no thread can be had, whoever drains does all.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::part::{Packer, Part};

/// More threads would wait for the one that reads.
const MOST: usize = 6;

/// Bytes that are to be packed.
pub(super) struct Job {
    pub stream: u16,
    pub raw: Vec<u8>,
    /// As [`Packer::hurry`] takes it.
    pub haste: usize,
}

/// A part, and the room that its bytes had.
type Packed = io::Result<(Part, Vec<u8>)>;

/// The place where a part comes.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Packed>>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is a job, or no more will come.
    some: Condvar,
    /// A job was done.
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Job, Arc<Slot>)>,
    is_over: bool,
}

#[derive(Default)]
pub(super) struct Packers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    has_begun: bool,
}

/// A lock that a thread held when it failed is as good as any: what it guards is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Packers {
    /// Has it packed; the part comes to the slot.
    pub fn ask(&mut self, job: Job) -> Arc<Slot> {
        if !self.has_begun {
            self.has_begun = true;
            self.begin();
        }
        let slot = Arc::<Slot>::default();
        lock(&self.shared.queue)
            .jobs
            .push_back((job, Arc::clone(&slot)));
        self.shared.some.notify_one();
        slot
    }

    fn begin(&mut self) {
        let most = thread::available_parallelism().map_or(1, usize::from);
        for _ in 1..most.min(MOST + 1) {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("compress".into());
            // What is asked for is also done by who waits for it.
            self.threads
                .extend(thread.spawn(move || shared.work()).ok());
        }
    }

    /// The part that was asked for. Meanwhile `packer` packs others.
    pub fn wait(&self, slot: &Slot, packer: &mut Packer) -> Packed {
        loop {
            if let Some(packed) = lock(&slot.0).take() {
                return packed;
            }
            let mut queue = lock(&self.shared.queue);
            if let Some((job, slot)) = queue.jobs.pop_front() {
                drop(queue);
                *lock(&slot.0) = Some(job.pack(packer));
                continue;
            }
            // Whoever puts a part into its slot takes the queue's lock before it says so.
            if lock(&slot.0).is_none() {
                drop(self.shared.done.wait(queue));
            }
        }
    }
}

impl Drop for Packers {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_over = true;
        self.shared.some.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that failed has left its job to nobody, who waits no more.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut packer = None;
        while let Some((job, slot)) = self.next() {
            let filling = Filling { shared: self, slot };
            let packed = match &mut packer {
                Some(packer) => job.pack(packer),
                none => Packer::new().and_then(|new| job.pack(none.insert(new))),
            };
            *lock(&filling.slot.0) = Some(packed);
        }
    }

    fn next(&self) -> Option<(Job, Arc<Slot>)> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_over {
                return None;
            }
            queue = self
                .some
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job that was begun. Whoever waits for it is told, also if the thread fails.
struct Filling<'a> {
    shared: &'a Shared,
    slot: Arc<Slot>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let failed = || Err(io::Error::other("a thread that compresses has failed"));
        lock(&self.slot.0).get_or_insert_with(failed);
        drop(lock(&self.shared.queue));
        self.shared.done.notify_all();
    }
}

impl Job {
    fn pack(mut self, packer: &mut Packer) -> Packed {
        packer.hurry(self.haste)?;
        let part = packer.pack(Some(self.stream), &self.raw)?;
        self.raw.clear();
        Ok((part, self.raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::stream::VALUE_STREAM;

    #[test]
    fn parts_come_as_if_packed_one_after_the_other() {
        let raw = |number: usize| vec![number as u8; 1000 * (number % 50 + 1)];
        let (mut packers, mut packer) = (Packers::default(), Packer::new().unwrap());
        for _ in 0..20 {
            let slots: Vec<_> = (0..200)
                .map(|number| {
                    packers.ask(Job {
                        stream: VALUE_STREAM,
                        raw: raw(number),
                        haste: number % 3,
                    })
                })
                .collect();
            for (number, slot) in slots.iter().enumerate() {
                let (part, room) = packers.wait(slot, &mut packer).unwrap();
                assert_eq!(part.unpack().unwrap(), raw(number));
                assert!(room.is_empty() && room.capacity() >= 1000);
            }
        }
    }
}
