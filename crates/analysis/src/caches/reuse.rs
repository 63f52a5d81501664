//! Reuse distances: how many other lines a thread accesses before it comes back to one.
//!
//! Problem: which size of cache would help a program is a question to all sizes at once, and a simulation answers for one.
//!
//! Approach: an access's *distance* is the number of different lines that the thread accessed since its last access to the same line. A
//! fully associative cache of so many lines, or fewer, which keeps those that were used last, misses it; a larger one does not. So the
//! counts of distances by powers of two are the misses of all such caches. Each line has a mark at the time of its last access, and
//! marks behind a time are counted in a tree of sums; times are numbered anew when they have come to the tree's end.
//!
//! Limits: data alone, of each thread for itself. An access to two lines has the larger of their distances.
//!
//! Source: F. Olken, "Efficient Methods for Calculating the Success Function of Fixed Space Replacement Policies" (1981).

use std::io;
use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use hashbrown::HashMap;
use isa::memory::{Access, Selection};
use trace::{Process, Recording, Thread};

use crate::turns::{self, Turn};
use crate::walk::{Accessed, Bytes, Code, Step, has_addresses};

/// Counts of distances: number n is of those below 2^n, from half of that on; number 0 of distance 0.
pub const SIZES: usize = 48;

/// Distances of all threads of a run, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Bytes of a line.
    pub line: u64,
    /// Accesses by distance.
    pub distances: Vec<u64>,
    /// Accesses to a line that the thread had not accessed before.
    pub first: u64,
    /// Different lines of each thread, added up, and those of the thread that has most.
    pub lines: u64,
    pub most_lines: u64,
    /// Sentences on threads that could not be read to their end.
    pub failures: Vec<String>,
}

impl Reuse {
    pub fn accesses(&self) -> u64 {
        self.first + self.distances.iter().sum::<u64>()
    }

    /// Misses of fully associative caches of 2^`size` lines, one for each thread.
    pub fn misses(&self, size: usize) -> u64 {
        let far = self.distances.iter().skip(size + 1);
        self.first + far.sum::<u64>()
    }

    fn add(&mut self, other: &Reuse) {
        self.first += other.first;
        self.lines += other.lines;
        self.most_lines = self.most_lines.max(other.most_lines);
        for (own, more) in self.distances.iter_mut().zip(&other.distances) {
            *own += more;
        }
        self.failures.extend(other.failures.iter().cloned());
    }

    fn of(line: u64) -> Reuse {
        Reuse {
            line,
            distances: vec![0; SIZES],
            ..Reuse::default()
        }
    }
}

/// Distances of all accesses of a trace, in lines of so many bytes, a power of two.
pub fn reuse(traced: &Recording, selection: Selection, line: u64) -> Reuse {
    let threads = traced.processes.iter().flat_map(|process| {
        let threads = process.threads.iter();
        let threads = threads.filter(|thread| has_addresses(thread));
        threads.map(move |thread| (process, thread))
    });
    let threads: Vec<(&Process, &Thread)> = threads.collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut sum = Reuse::of(line);
        while let Some(&pair) = threads.get(next.fetch_add(1, Relaxed)) {
            sum.add(&of_thread(pair, selection, line));
        }
        sum
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let mut all = thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let mut all = Reuse::of(line);
        for worker in started {
            all.add(&worker.join().expect("a walk gives errors, no panics"));
        }
        all
    });
    all.failures.sort();
    all
}

fn of_thread(pair: (&Process, &Thread), selection: Selection, line: u64) -> Reuse {
    let mut distances = Distances::new(line);
    let read = turns::apart(&[pair], selection, &mut distances).unwrap_or_default();
    let tid = pair.1.tid;
    let errors = read.into_iter().filter_map(|read| read.error);
    let failures = errors.map(|error| format!("thread {tid}: {error}"));
    distances.found.failures.extend(failures);
    distances.found.lines = distances.times.len() as u64;
    distances.found.most_lines = distances.found.lines;
    distances.found
}

/// Sums of marks before each time (a Fenwick tree).
struct Sums(Vec<u32>);

impl Sums {
    /// Adds to the mark of a time; what is taken off was there.
    fn add(&mut self, time: usize, less: bool) {
        let mut at = time + 1;
        while let Some(sum) = self.0.get_mut(at) {
            *sum = if less { *sum - 1 } else { *sum + 1 };
            at += at & at.wrapping_neg();
        }
    }

    /// Marks up to a time.
    fn up_to(&self, time: usize) -> u64 {
        let (mut at, mut sum) = (time + 1, 0);
        while at > 0 {
            sum += u64::from(self.0[at]);
            at &= at - 1;
        }
        sum
    }
}

/// Distances of a thread.
struct Distances {
    bits: u32,
    /// The time of each line's last access.
    times: HashMap<u64, u32>,
    sums: Sums,
    now: usize,
    last: Option<u64>,
    found: Reuse,
}

/// Times before they are numbered anew, at first.
const TIMES: usize = 1 << 12;

impl Distances {
    fn new(line: u64) -> Distances {
        Distances {
            bits: line.trailing_zeros(),
            times: HashMap::new(),
            sums: Sums(vec![0; TIMES + 1]),
            now: 0,
            last: None,
            found: Reuse::of(line),
        }
    }

    /// An access to a line: its distance; `None`: it is the first one.
    fn touch(&mut self, line: u64) -> Option<u64> {
        if self.last == Some(line) {
            return Some(0);
        }
        self.last = Some(line);
        if self.now + 1 == self.sums.0.len() {
            self.number_anew();
        }
        let now = self.now;
        self.now += 1;
        let before = self.times.insert(line, now as u32);
        let others = self.times.len() as u64 - 1;
        let distance = before.map(|before| {
            let distance = others + 1 - self.sums.up_to(before as usize);
            self.sums.add(before as usize, true);
            distance
        });
        self.sums.add(now, false);
        distance
    }

    /// Times without marks are left out, and there are at least three times as many of them as lines.
    fn number_anew(&mut self) {
        let mut all: Vec<(u32, u64)> = self
            .times
            .iter()
            .map(|(line, time)| (*time, *line))
            .collect();
        all.sort_unstable();
        let len = TIMES.max(4 * all.len());
        self.sums.0.clear();
        self.sums.0.resize(len + 1, 0);
        for (now, (_, line)) in all.iter().enumerate() {
            self.times.insert(*line, now as u32);
            self.sums.add(now, false);
        }
        self.now = all.len();
    }

    fn access(&mut self, access: Access) {
        if access.size == 0 {
            return;
        }
        let size = u64::from(access.size).min(1 << self.bits);
        let first = access.address >> self.bits;
        let last = access.address.wrapping_add(size - 1) >> self.bits;
        let mut distance = self.touch(first);
        if first != last {
            let other = self.touch(last);
            distance = distance.zip(other).map(|(one, other)| one.max(other));
        }
        match distance {
            None => self.found.first += 1,
            Some(distance) => {
                let size = (u64::BITS - distance.leading_zeros()) as usize;
                self.found.distances[size.min(SIZES - 1)] += 1;
            }
        }
    }
}

impl Turn for Distances {
    fn executed(&mut self, _: usize, _: &[Step], all: &[Accessed], _: Bytes<'_>) {
        for own in all.chunk_by(|one, other| one.step == other.step) {
            let most = own.iter().map(|one| one.times).max().unwrap_or(0);
            for number in 0..most {
                let now = || own.iter().filter(|one| number < one.times);
                let reads = now().filter(|one| one.access.kind.reads());
                reads.for_each(|one| self.access(one.at(number)));
                let writes = now().filter(|one| one.access.kind.writes());
                writes.for_each(|one| self.access(one.at(number)));
            }
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances by looking back, line by line.
    fn slow(lines: &[u64]) -> Vec<Option<u64>> {
        let of = |at: usize| {
            let before = lines[..at].iter().rposition(|line| *line == lines[at])?;
            let mut others = lines[before + 1..at].to_vec();
            others.sort_unstable();
            others.dedup();
            Some(others.len() as u64)
        };
        (0..lines.len()).map(of).collect()
    }

    #[test]
    fn distances_are_those_by_looking_back() {
        let mut random = 88_172_645_463_325_252u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        for lines in [3, 50, 700] {
            let all: Vec<u64> = (0..3000).map(|_| below(lines)).collect();
            let mut distances = Distances::new(64);
            // Times come to their end many times.
            distances.sums = Sums(vec![0; 8]);
            let found: Vec<Option<u64>> = all
                .iter()
                .map(|&line| {
                    let found = distances.touch(line);
                    if distances.now > 4 * lines as usize + 8 {
                        distances.number_anew();
                    }
                    found
                })
                .collect();
            assert_eq!(found, slow(&all));
        }
    }

    #[test]
    fn misses_follow_from_distances() {
        let mut reuse = Reuse::of(64);
        // Distances 0, 1, 2, 3 and 4, one each, and two first accesses.
        reuse.distances[..4].copy_from_slice(&[1, 1, 2, 1]);
        reuse.first = 2;
        let misses: Vec<u64> = (0..4).map(|size| reuse.misses(size)).collect();
        // Caches of 1, 2, 4 and 8 lines.
        assert_eq!(misses, [6, 5, 3, 2]);
        assert_eq!(reuse.accesses(), 7);
    }
}
