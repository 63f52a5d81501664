//! Misses by instruction.

use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use hashbrown::HashMap;
use isa::memory::Selection;
use trace::{Process, Recording, Thread};

use super::core::{Core, Missed, OfNode, Touch};
use super::last_level;
use super::places::Places;
use super::{Cache, Config};
use crate::activations::contexts::Log;
use crate::counts::Counts;
use crate::turns::{self, Read, Turn};
use crate::walk::{Accessed, Bytes, Code, Step, has_addresses, packed};

/// Costs of an instruction besides its executions, as cachegrind names them: fetches that miss the first and
/// the last level; reads, and those that miss them; the same of writes; pages of fetches and of data that
/// miss the translation buffers.
pub const EVENTS: [&str; 10] = [
    "I1mr", "ILmr", "Dr", "D1mr", "DLmr", "Dw", "D1mw", "DLmw", "ITm", "DTm",
];
pub(super) const I1MR: usize = 0;
pub(super) const ILMR: usize = 1;
pub(super) const DR: usize = 2;
pub(super) const DW: usize = 5;
pub(super) const ITM: usize = 8;
pub(super) const DTM: usize = 9;

pub(super) type Row = [u64; EVENTS.len()];

/// Costs of all instructions.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// In the order of [`Counts::insns`].
    pub insns: Vec<Row>,
    /// Instructions that were fetched.
    pub fetches: u64,
    pub total: Row,
    /// Which of [`EVENTS`] the configuration has.
    pub events: Vec<usize>,
    /// Misses of the contexts of each thread that has accesses, if they were asked for.
    pub contexts: Vec<ContextMisses>,
    /// A sentence for each thread that could not be read to its end.
    pub failures: Vec<String>,
}

impl Costs {
    /// Names of the events, that of fetches first.
    pub fn names(&self) -> Vec<&'static str> {
        let own = self.events.iter().map(|&event| EVENTS[event]);
        ["Ir"].into_iter().chain(own).collect()
    }

    /// Adds what the instructions of a thread cost.
    fn add(&mut self, done: &Done, places: &Places<'_>) {
        let rows = done.known.iter();
        for ((fragment, pc), row) in rows.map(|(key, &at)| (*key, done.rows[at])) {
            add(&mut self.total, &row);
            if let Some(found) = places.find(fragment, pc) {
                add(&mut self.insns[found], &row);
            }
        }
    }
}

/// Misses of the contexts of a thread.
#[derive(Clone, Debug, Default)]
pub struct ContextMisses {
    /// Index of the process, and of the thread in it.
    pub thread: (usize, usize),
    /// By node: misses of fetches and of data in the first level, and of both in the last one.
    pub nodes: Vec<OfNode>,
}

fn add(sums: &mut Row, row: &Row) {
    sums.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
}

/// Misses of all processes, by address.
pub struct Misses {
    /// Threads of each process.
    all: Vec<(usize, Vec<Done>)>,
    events: Vec<usize>,
    has_contexts: bool,
}

/// Has all threads of a trace use caches. `logs`: of the contexts of each thread's instructions, if misses of contexts are
/// asked for.
pub fn misses(
    traced: &Recording,
    selection: Selection,
    config: &Config,
    logs: Option<&[Vec<Log>]>,
) -> Misses {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Relaxed)
            && let Some(process) = traced.processes.get(index)
        {
            let logs = logs.map(|logs| logs.get(index).map_or(&[][..], |logs| logs));
            done.push((index, of_process(process, selection, config, logs)));
        }
        done
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let mut all: Vec<(usize, Vec<Done>)> = thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let done = started.into_iter().map(|worker| worker.join());
        done.flat_map(|done| done.expect("a walk gives errors, no panics"))
            .collect()
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    let has_event = |&event: &usize| match event {
        ITM => config.itlb.is_some(),
        DTM => config.dtlb.is_some(),
        _ => true,
    };
    Misses {
        all,
        events: (0..EVENTS.len()).filter(has_event).collect(),
        has_contexts: logs.is_some(),
    }
}

impl Misses {
    /// Adds up what the instructions of a trace cost, by their places in its counts.
    #[must_use]
    pub fn at(self, traced: &Recording, counts: &Counts) -> Costs {
        let mut costs = Costs {
            insns: vec![[0; EVENTS.len()]; counts.insns.len()],
            events: self.events,
            ..Costs::default()
        };
        for (index, threads) in self.all {
            let process = &traced.processes[index];
            let places = Places::of(counts, index, process);
            for done in threads {
                costs.add(&done, &places);
                costs.fetches += done.read.insns;
                let tid = process.threads[done.number].tid;
                let failed = done.read.error;
                let failed = failed.map(|error| format!("thread {tid}: {error}"));
                costs.failures.extend(failed);
                if self.has_contexts {
                    costs.contexts.push(ContextMisses {
                        thread: (index, done.number),
                        nodes: done.nodes,
                    });
                }
            }
        }
        costs
    }
}

/// The costs of a thread.
struct Done {
    /// Its number in its process.
    number: usize,
    read: Read,
    /// Rows of instructions, by piece of code and address.
    known: HashMap<(u32, u64), usize>,
    rows: Vec<Row>,
    nodes: Vec<OfNode>,
}

/// Has the threads of a process use their caches.
fn of_process(
    process: &Process,
    selection: Selection,
    config: &Config,
    logs: Option<&[Log]>,
) -> Vec<Done> {
    let threads = process.threads.iter().enumerate();
    let threads = threads.filter(|(_, thread)| has_addresses(thread));
    let (numbers, threads): (Vec<usize>, Vec<(&Process, &Thread)>) = threads
        .map(|(number, thread)| (number, (process, thread)))
        .unzip();
    let log = |&number: &usize| logs.and_then(|logs| logs.get(number));
    let logs: Vec<Option<&Log>> = numbers.iter().map(log).collect();
    let is_ordered = threads.iter().all(|(_, thread)| packed::has_stamps(thread));
    let at_once = (is_ordered || threads.len() == 1) && threads.len() <= config.at_once;
    let all = match at_once {
        _ if threads.is_empty() => Vec::new(),
        true => last_level::run(&threads, selection, config, &logs),
        false => one_by_one(&threads, selection, config, &logs, is_ordered),
    };
    let all = all.into_iter().zip(numbers);
    all.map(|((core, read), number)| Done {
        number,
        read,
        known: core.known,
        rows: core.rows,
        nodes: core.nodes,
    })
    .collect()
}

/// Has many threads, or those without an order, use their caches, without workers.
fn one_by_one<'a>(
    threads: &[(&'a Process, &'a Thread)],
    selection: Selection,
    config: &Config,
    logs: &[Option<&'a Log>],
    is_ordered: bool,
) -> Vec<(Core<'a>, Read)> {
    let mut all = Together {
        cores: logs
            .iter()
            .map(|&log| (Core::new(config, log), Missed::default()))
            .collect(),
        ll: config.ll.make(),
        taken: Vec::new(),
    };
    let read = match is_ordered {
        true => turns::together(threads, selection, &mut all),
        false => turns::apart(threads, selection, &mut all),
    };
    let cores = all.cores.into_iter().map(|(mut core, missed)| {
        core.missed(&missed);
        core
    });
    cores.zip(read.unwrap_or_default()).collect()
}

/// The caches of a process.
struct Together<'a> {
    cores: Vec<(Core<'a>, Missed)>,
    ll: Cache,
    taken: Vec<Touch>,
}

impl Turn for Together<'_> {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>) {
        let (core, missed) = &mut self.cores[thread];
        core.executed(thread, steps, all, bytes);
        std::mem::swap(&mut core.touches, &mut self.taken);
        for touch in self.taken.drain(..) {
            if !self.ll.access(touch.address, touch.size.into()) {
                missed.add(&touch);
            }
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> std::io::Result<()> {
        Ok(())
    }
}
