//! Misses by instruction.

use std::io;

use hashbrown::HashMap;
use isa::memory::{Access, Kind, Selection};
use trace::{Process, Recording, Thread};

use super::places::Places;
use super::{Cache, Config, Updates};
use crate::counts::Counts;
use crate::turns::{self, Turn};
use crate::walk::{Accessed, Bytes, Code, Step, has_addresses, packed};

/// Costs of an instruction besides its executions, as cachegrind names them: fetches that miss the first and
/// the last level; reads, and those that miss them; the same of writes; pages of fetches and of data that
/// miss the translation buffers.
pub const EVENTS: [&str; 10] = [
    "I1mr", "ILmr", "Dr", "D1mr", "DLmr", "Dw", "D1mw", "DLmw", "ITm", "DTm",
];
const I1MR: usize = 0;
const ILMR: usize = 1;
const READS: usize = 2;
const WRITES: usize = 5;
const ITM: usize = 8;
const DTM: usize = 9;

/// Instructions that are found without a table of all, by the low bits of their addresses.
const RECENT: usize = 1 << 16;

type Row = [u64; EVENTS.len()];

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
    /// A sentence for each thread that could not be read to its end.
    pub failures: Vec<String>,
}

impl Costs {
    /// Names of the events, that of fetches first.
    pub fn names(&self) -> Vec<&'static str> {
        let own = self.events.iter().map(|&event| EVENTS[event]);
        ["Ir"].into_iter().chain(own).collect()
    }

    /// Adds what the instructions of a process cost.
    fn add(&mut self, caches: &Caches, (index, process): (usize, &Process), counts: &Counts) {
        let places = Places::of(counts, index, process);
        let rows = caches.known.iter();
        for ((fragment, pc), row) in rows.map(|(key, &at)| (*key, caches.rows[at])) {
            add(&mut self.total, &row);
            if let Some(found) = places.find(fragment, pc) {
                add(&mut self.insns[found], &row);
            }
        }
    }
}

fn add(sums: &mut Row, row: &Row) {
    sums.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
}

/// Has all threads of a trace use the caches. `counts` are those of the trace's own counts
/// ([`from_trace`](crate::counts::from_trace)).
pub fn costs(traced: &Recording, selection: Selection, counts: &Counts, config: &Config) -> Costs {
    let mut costs = Costs {
        insns: vec![[0; EVENTS.len()]; counts.insns.len()],
        events: (0..EVENTS.len())
            .filter(|&event| match event {
                ITM => config.itlb.is_some(),
                DTM => config.dtlb.is_some(),
                _ => true,
            })
            .collect(),
        ..Costs::default()
    };
    for (index, process) in traced.processes.iter().enumerate() {
        let threads = process
            .threads
            .iter()
            .filter(|thread| has_addresses(thread));
        let threads: Vec<(&Process, &Thread)> = threads.map(|thread| (process, thread)).collect();
        if threads.is_empty() {
            continue;
        }
        let mut caches = Caches::new(config, threads.len());
        let is_ordered = threads.iter().all(|(_, thread)| packed::has_stamps(thread));
        let read = match is_ordered && threads.len() > 1 {
            true => turns::together(&threads, selection, &mut caches),
            false => turns::apart(&threads, selection, &mut caches),
        };
        let read = read.unwrap_or_default();
        for (read, (_, thread)) in read.into_iter().zip(&threads) {
            costs.fetches += read.insns;
            let failed = read.error;
            let failed = failed.map(|error| format!("thread {}: {error}", thread.tid));
            costs.failures.extend(failed);
        }
        costs.add(&caches, (index, process), counts);
    }
    costs
}

/// Caches and translation buffers of one thread.
struct Core {
    l1i: Cache,
    l1d: Cache,
    itlb: Option<Cache>,
    dtlb: Option<Cache>,
}

/// The caches of a process, and what its instructions cost.
struct Caches {
    cores: Vec<Core>,
    ll: Cache,
    updates: Updates,
    /// Bytes of the shortest line.
    least: u64,
    /// Rows of instructions, by piece of code and address.
    known: HashMap<(u32, u64), usize>,
    /// The instruction that was looked up last for each of its places, and its row.
    recent: Vec<((u32, u64), usize)>,
    rows: Vec<Row>,
}

impl Caches {
    fn new(config: &Config, threads: usize) -> Caches {
        let core = |_| Core {
            l1i: config.l1i.make(),
            l1d: config.l1d.make(),
            itlb: config.itlb.map(|level| level.make()),
            dtlb: config.dtlb.map(|level| level.make()),
        };
        let levels = [config.l1i, config.l1d, config.ll];
        let least = levels.iter().map(|level| level.line).min();
        Caches {
            cores: (0..threads).map(core).collect(),
            ll: config.ll.make(),
            updates: config.updates,
            least: least.unwrap_or(1),
            known: HashMap::new(),
            // No instruction is at the last address.
            recent: vec![((0, u64::MAX), 0); RECENT],
            rows: Vec::new(),
        }
    }

    /// The row of an instruction.
    #[inline]
    fn row(&mut self, step: &Step) -> usize {
        let key = (step.fragment, step.pc);
        let recent = &mut self.recent[step.pc as usize % RECENT];
        if recent.0 != key {
            let row = *self.known.entry(key).or_insert_with(|| {
                self.rows.push([0; EVENTS.len()]);
                self.rows.len() - 1
            });
            *recent = (key, row);
        }
        recent.1
    }

    /// Fetches an instruction, whose row it gives.
    fn fetch(&mut self, thread: usize, step: &Step) -> usize {
        let number = self.row(step);
        let (row, core) = (&mut self.rows[number], &mut self.cores[thread]);
        let size = u64::from(step.len).max(1);
        if let Some(itlb) = &mut core.itlb {
            row[ITM] += u64::from(!itlb.access(step.pc, size));
        }
        if !core.l1i.access(step.pc, size) {
            row[I1MR] += 1;
            row[ILMR] += u64::from(!self.ll.access(step.pc, size));
        }
        number
    }

    /// A read or a write, whose costs begin at `first` in a row.
    fn data(&mut self, thread: usize, row: usize, first: usize, access: Access) {
        let address = access.address;
        if access.size == 0 {
            return;
        }
        let size = u64::from(access.size).min(self.least);
        let (row, core) = (&mut self.rows[row], &mut self.cores[thread]);
        row[first] += 1;
        if let Some(dtlb) = &mut core.dtlb {
            row[DTM] += u64::from(!dtlb.access(address, size));
        }
        if !core.l1d.access(address, size) {
            row[first + 1] += 1;
            row[first + 2] += u64::from(!self.ll.access(address, size));
        }
    }
}

impl Turn for Caches {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        let mut rest = all.chunk_by(|one, other| one.step == other.step).peekable();
        for (at, step) in (0..).zip(steps) {
            let row = self.fetch(thread, step);
            let Some(own) = rest.next_if(|own| own[0].step == at) else {
                continue;
            };
            let most = own.iter().map(|one| one.times).max().unwrap_or(0);
            for number in 0..most {
                let now = || own.iter().filter(|one| number < one.times);
                for one in now().filter(|one| one.access.kind.reads()) {
                    self.data(thread, row, READS, one.at(number));
                }
                let has_both = self.updates == Updates::Both;
                let is_counted = |kind: Kind| kind.writes() && (has_both || !kind.reads());
                let writes = now().filter(|one| is_counted(one.access.kind));
                for one in writes {
                    self.data(thread, row, WRITES, one.at(number));
                }
            }
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        Ok(())
    }
}
