//! Accesses of all threads, counted and checked.

use isa::memory::Selection;
use trace::{Part, Recording, Thread};

use super::super::Pieces;
use super::super::segments::{self, Segment, Task};
use super::replay::{Memory, Replayed};
use super::{AccessEvent, Accesses, has_addresses};

const SYSCALL: [u8; 2] = [0x0F, 0x05];

/// Accesses of a thread, counted.
#[derive(Clone, Debug, Default)]
pub struct AccessesCount {
    pub accesses: u64,
    /// Bytes of words and values that no instruction has, though the thread came to its end.
    pub left: u64,
    /// The thread came to its end, but the words end before.
    pub is_short: bool,
    /// Values that are to be recorded and are not known.
    pub unknown: u64,
    /// With all values: whether what was read is what was written before.
    pub replayed: Replayed,
    pub error: Option<String>,
}

/// Reads the accesses of all threads, by process; each is read as a whole.
pub fn count_accesses(recording: &Recording, selection: Selection) -> Vec<Vec<AccessesCount>> {
    let tasks = Task::whole(recording);
    let is_replayed = selection.values && selection.loads && selection.stores;
    let work = |pieces: &mut Pieces, thread: &Thread, segment: Segment| {
        let mut count = AccessesCount::default();
        if !has_addresses(thread) {
            return count;
        }
        let mut accesses = Accesses::of(pieces, thread, segment, selection);
        let (mut memory, mut last) = (Memory::default(), None);
        while let Some(event) = accesses.next() {
            match event {
                Ok(AccessEvent::Executed(steps, all, bytes)) => {
                    last = steps.last().copied();
                    if is_replayed {
                        memory.execute(steps, all, bytes);
                    }
                    for one in all {
                        count.accesses = count.accesses.saturating_add(one.times);
                        let unknown = u64::from(one.lacks(selection)).saturating_mul(one.times);
                        count.unknown = count.unknown.saturating_add(unknown);
                    }
                }
                Ok(AccessEvent::Went { .. }) => memory.forget(),
                Err(error) => count.error = Some(error.to_string()),
            }
        }
        count.replayed = memory.replayed;
        // A thread that another one ended has executed more than branches tell, unless it was in
        // a system call.
        let is_call = last.is_some_and(|last| *accesses.code().bytes(&last) == SYSCALL);
        if is_call && thread.end_ns.is_some() && thread.missing.is_none() {
            count.left = accesses.left();
            let is_whole = !thread.stream.iter().any(Part::is_lost);
            count.is_short = is_whole && count.error.is_none() && accesses.is_short();
        }
        count
    };
    let counts = segments::each_of(recording, &tasks, work);
    let mut all: Vec<Vec<_>> = recording.processes.iter().map(|_| Vec::new()).collect();
    for (task, count) in tasks.iter().zip(counts) {
        all[task.process].push(count);
    }
    all
}
