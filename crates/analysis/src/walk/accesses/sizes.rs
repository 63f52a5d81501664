//! Accesses of a trace by their sizes: tables 5.2 to 5.4 of the mTrace thesis.

use isa::memory::Selection;
use trace::{Recording, Thread};

use super::super::Pieces;
use super::super::segments::{self, Segment, Task};
use super::{AccessEvent, Accesses, has_addresses};

/// Bytes of an access that have a row of their own; the last row has all others.
pub const SIZES: [u32; 8] = [1, 2, 4, 8, 10, 16, 32, 64];
const ROWS: usize = SIZES.len() + 1;

/// Number of accesses of each size. An update is one read and one write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSizes {
    pub reads: [u64; ROWS],
    pub writes: [u64; ROWS],
    /// The reason why not all of the thread could be read.
    pub error: Option<String>,
}

impl AccessSizes {
    pub fn add(&mut self, other: &AccessSizes) {
        for (all, own) in [
            (&mut self.reads, &other.reads),
            (&mut self.writes, &other.writes),
        ] {
            for (sum, number) in all.iter_mut().zip(own) {
                *sum = sum.saturating_add(*number);
            }
        }
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }

    fn executed(&mut self, event: &AccessEvent<'_>) {
        let AccessEvent::Executed(_, all, _) = event else {
            return;
        };
        for one in *all {
            let sizes = SIZES.iter();
            let row = sizes.take_while(|&&size| size != one.access.size).count();
            let kind = one.access.kind;
            for (rows, is_one) in [
                (&mut self.reads, kind.reads()),
                (&mut self.writes, kind.writes()),
            ] {
                if is_one {
                    rows[row] = rows[row].saturating_add(one.times);
                }
            }
        }
    }
}

/// Counts the accesses of all threads, by process, on all processors.
pub fn access_sizes(recording: &Recording, selection: Selection) -> Vec<Vec<AccessSizes>> {
    let tasks = Task::all(recording);
    let work = |pieces: &mut Pieces, thread: &Thread, segment: Segment| {
        let mut sizes = AccessSizes::default();
        if !has_addresses(thread) {
            return sizes;
        }
        let mut accesses = Accesses::of(pieces, thread, segment, selection);
        while let Some(event) = accesses.next() {
            match event {
                Ok(event) => sizes.executed(&event),
                Err(error) => sizes.error = Some(error.to_string()),
            }
        }
        sizes
    };
    let given = segments::each_of(recording, &tasks, work);
    let threads = recording.processes.iter().map(|process| &process.threads);
    let mut all: Vec<Vec<AccessSizes>> = threads
        .map(|threads| vec![AccessSizes::default(); threads.len()])
        .collect();
    for (task, sizes) in tasks.iter().zip(given) {
        all[task.process][task.thread].add(&sizes);
    }
    all
}
