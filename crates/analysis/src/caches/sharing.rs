//! Lines of memory that several threads use, and whether they use the same bytes.
//!
//! Problem: two threads that use different bytes of one line, of which one writes, take the line from each
//! other all the time (false sharing), and neither's code shows it.
//!
//! Approach: for each line and thread, how often it reads and writes and which bytes. That needs no order
//! of the threads, so it does not depend on time stamps. A second walk says which instructions it is.
//!
//! Limits: that threads use a line does not say that they do so at the same time: memory that is handed from
//! one thread to another looks shared, too. A line is 64 bytes.

use std::io;

use hashbrown::HashMap;
use isa::memory::{Access, Selection};
use trace::{Process, Recording, Thread};

use super::places::Places;
use crate::counts::Counts;
use crate::turns::{self, Turn};
use crate::walk::{Accessed, Bytes, Code, Step, has_addresses};

/// Bytes of a line.
pub const LINE: u64 = 64;

/// A thread's use of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Index of the thread in its process.
    pub thread: usize,
    pub reads: u64,
    pub writes: u64,
    /// Bit n: byte n of the line is read, or written.
    pub read: u64,
    pub written: u64,
    /// The instruction that uses it most, by its index in [`Counts::insns`], and how often.
    pub most: Option<(usize, u64)>,
}

impl Use {
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

/// A line that several threads use, of which at least one writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Index of the process.
    pub process: usize,
    pub address: u64,
    /// Threads, the one with the most accesses first.
    pub uses: Vec<Use>,
}

impl Shared {
    /// Whether no thread writes a byte that another one uses, of those that use the line much: at least
    /// a hundredth as often as the one that has the most accesses.
    pub fn is_false(&self) -> bool {
        let most = self.uses.first().map_or(0, Use::accesses);
        let busy = || self.uses.iter().filter(|one| one.accesses() >= most / 100);
        let is_alone = |writer: &Use| {
            let others = busy().filter(|other| other.thread != writer.thread);
            let mut others = others.map(|other| other.read | other.written);
            others.all(|bytes| bytes & writer.written == 0)
        };
        busy().count() > 1 && busy().all(is_alone)
    }

    /// Accesses by all threads but the one that has the most: at most so often, and once more, does it go
    /// to another thread and back.
    pub fn weight(&self) -> u64 {
        self.uses[1..].iter().map(Use::accesses).sum()
    }
}

/// The `top` shared lines of a trace with the greatest weight; and sentences for threads that could not be
/// read to their end. `counts` are those of the trace's own counts.
pub fn sharing(
    traced: &Recording,
    selection: Selection,
    counts: &Counts,
    top: usize,
) -> (Vec<Shared>, Vec<String>) {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for (index, process) in traced.processes.iter().enumerate() {
        let threads = threads(process);
        if threads.len() < 2 {
            continue;
        }
        let pairs: Vec<(&Process, &Thread)> = threads.iter().map(|(_, pair)| *pair).collect();
        let mut lines = Lines::default();
        let read = turns::apart(&pairs, selection, &mut lines).unwrap_or_default();
        for (read, (_, thread)) in read.into_iter().zip(&pairs) {
            let failed = read.error;
            failures.extend(failed.map(|error| format!("thread {}: {error}", thread.tid)));
        }
        let shared = lines
            .uses
            .into_iter()
            .filter(|(_, uses)| uses.len() > 1 && uses.iter().any(|one| one.writes > 0));
        all.extend(shared.map(|(line, mut uses)| {
            uses.sort_by_key(|one| (std::cmp::Reverse(one.accesses()), one.thread));
            Shared {
                process: index,
                address: line * LINE,
                uses,
            }
        }));
        let weight = |one: &Shared| (std::cmp::Reverse(one.weight()), one.process, one.address);
        all.sort_by_key(weight);
        all.truncate(top);
    }
    for (index, process) in traced.processes.iter().enumerate() {
        let wanted = all.iter_mut().filter(|one| one.process == index);
        let wanted: Vec<&mut Shared> = wanted.collect();
        if !wanted.is_empty() {
            let places = Places::of(counts, index, process);
            find_instructions(process, selection, &places, wanted);
        }
    }
    (all, failures)
}

/// Threads with accesses, by their index in the process.
fn threads(process: &Process) -> Vec<(usize, (&Process, &Thread))> {
    let threads = process.threads.iter().enumerate();
    let threads = threads.filter(|(_, thread)| has_addresses(thread));
    threads
        .map(|(at, thread)| (at, (process, thread)))
        .collect()
}

/// Says which instruction uses each line most, of each thread.
fn find_instructions(
    process: &Process,
    selection: Selection,
    places: &Places<'_>,
    mut wanted: Vec<&mut Shared>,
) {
    let threads = threads(process);
    let pairs: Vec<(&Process, &Thread)> = threads.iter().map(|(_, pair)| *pair).collect();
    let mut users = Users {
        lines: wanted
            .iter()
            .map(|one| one.address / LINE)
            .zip(0..)
            .collect(),
        counts: HashMap::new(),
    };
    // The first walk has said what could not be read.
    let _ = turns::apart(&pairs, selection, &mut users);
    for ((line, thread, fragment, pc), count) in users.counts {
        let uses = &mut wanted[line].uses;
        let Some(one) = uses.iter_mut().find(|one| one.thread == thread) else {
            continue;
        };
        // Among instructions with as many accesses, the last one in the code is taken, so the order of the
        // table does not matter.
        if let Some(at) = places.find(fragment, pc)
            && one
                .most
                .is_none_or(|(other, most)| (most, other) < (count, at))
        {
            one.most = Some((at, count));
        }
    }
    // Indices among the threads with accesses become those of the process.
    for one in wanted.iter_mut().flat_map(|shared| &mut shared.uses) {
        one.thread = threads[one.thread].0;
    }
}

/// Has each line of the accesses of each instruction visited: its number and which bytes of it.
fn each_line(steps: &[Step], all: &[Accessed], mut visit: impl FnMut(&Step, u64, u64, &Accessed)) {
    for accessed in all {
        for number in 0..accessed.times {
            let Access { address, size, .. } = accessed.at(number);
            let (mut at, mut left) = (address, u64::from(size));
            while left > 0 {
                let within = at % LINE;
                let here = left.min(LINE - within);
                let bytes = (u64::MAX >> (LINE - here)) << within;
                visit(&steps[accessed.step as usize], at / LINE, bytes, accessed);
                at = at.wrapping_add(here);
                left -= here;
            }
        }
    }
}

#[derive(Default)]
struct Lines {
    uses: HashMap<u64, Vec<Use>>,
}

impl Turn for Lines {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        each_line(steps, all, |_, line, bytes, accessed| {
            let uses = self.uses.entry(line).or_default();
            // Threads are read one after the other, so it is the last one.
            if uses.last().is_none_or(|last| last.thread != thread) {
                uses.push(Use {
                    thread,
                    ..Use::default()
                });
            }
            let Some(own) = uses.last_mut() else { return };
            if accessed.access.kind.reads() {
                own.reads += 1;
                own.read |= bytes;
            }
            if accessed.access.kind.writes() {
                own.writes += 1;
                own.written |= bytes;
            }
        });
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        Ok(())
    }
}

/// Accesses to some lines, by instruction.
struct Users {
    lines: HashMap<u64, usize>,
    /// By line, thread, piece of code and address.
    counts: HashMap<(usize, usize, u32, u64), u64>,
}

impl Turn for Users {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        each_line(steps, all, |step, line, _, _| {
            if let Some(&line) = self.lines.get(&line) {
                let key = (line, thread, step.fragment, step.pc);
                *self.counts.entry(key).or_default() += 1;
            }
        });
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_is_false_if_no_byte_is_written_and_used_by_another() {
        let one = |thread, read, written| Use {
            thread,
            reads: 3,
            writes: 2,
            read,
            written,
            most: None,
        };
        let shared = |uses| Shared {
            process: 0,
            address: 64,
            uses,
        };
        assert!(shared(vec![one(0, 0xf, 0xf), one(1, 0xf0, 0xf0)]).is_false());
        assert!(shared(vec![one(0, 0xf00, 0xf), one(1, 0xf00, 0)]).is_false());
        assert!(!shared(vec![one(0, 0, 0xf), one(1, 0x8, 0)]).is_false());
        let mut busy = [one(0, 0, 1), one(1, 0, 2)];
        busy.iter_mut().for_each(|one| one.writes = 1000);
        let [first, second] = busy;
        assert!(shared(vec![first.clone(), second, one(2, 3, 0)]).is_false());
        assert!(!shared(vec![first, one(2, 2, 0)]).is_false());
        assert!(!shared(vec![one(0, 0, 0xf), one(1, 0, 0x1f)]).is_false());
        assert_eq!(
            shared(vec![one(0, 0, 1), one(1, 0, 2), one(2, 0, 4)]).weight(),
            10
        );
    }
}
