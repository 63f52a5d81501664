//! Dependences among accesses of nests of loops, from a trace with addresses: which iteration needs what another one read or wrote.
//!
//! Approach: each thread is followed through its trace. An entry of a nest has the numbers of iterations of its loops, as heads of loops
//! come, and a [`shadow`] of the memory that is accessed while it lasts: who wrote each piece last, and who read it since. An access that
//! meets one of these is a [`Dependence`]: its *distance* is the difference of the numbers of iterations of the loops that both accesses
//! are in. Code that the nest calls belongs to the call, but for what is below the stack at the call, which no other iteration sees.
//!
//! A read depends on the last write (RAW), a write on the last write (WAW) and on each read since then (WAR). Reads of one reference are
//! kept as a range of iterations, so the distance of a WAR is a range; what follows from it ([`legality`]) may forbid too much, and never
//! too little.
//!
//! Invariant: what is said holds for this run alone.
//!
//! Limits: accesses of one thread; memory that another thread writes is no dependence. A function that is left by `longjmp` or an
//! exception ends what it was in only when an outer function goes on. The kernel's accesses are not in traces.

pub mod legality;
mod shadow;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use isa::Flow;
use isa::memory::Selection;
use trace::Process;

use crate::turns::{self, Turn};
use crate::walk::{Accessed, Bytes, Code, Step, has_addresses};
use shadow::{At, Shadow};

/// Most loops around each other; nests with more are not followed.
pub const DEPTH: usize = 6;
/// Most distances of a dependence that are kept apart.
const VECTORS: usize = 64;
/// A stack has fewer bytes.
const STACK: u64 = 8 << 20;

/// Kinds of dependences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A read after a write: true, or flow.
    Raw,
    /// A write after a read: anti.
    War,
    /// A write after a write: output.
    Waw,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Raw => "RAW",
            Kind::War => "WAR",
            Kind::Waw => "WAW",
        }
    }
}

/// Something that accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The instruction, as linked; of a call it is the call.
    pub at: u64,
    /// Index of the innermost loop that it is in.
    pub number: usize,
    /// It is code that is called there.
    pub is_call: bool,
}

/// Distances in a loop, from the least to the greatest.
pub type Range = (i64, i64);

/// A dependence of one reference on another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence {
    /// Accesses that depend.
    pub count: u64,
    /// Distances, and how often each came; outermost loop first.
    pub distances: BTreeMap<Vec<Range>, u64>,
    /// Distances were left out of these, but the kinds of all of them are in `signs`.
    pub has_more: bool,
    /// Signs that distances may have, by loop: bits of [`legality`].
    pub signs: std::collections::BTreeSet<Vec<u8>>,
}

/// A nest, and its dependences in all entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub entries: u64,
    /// Iterations of each loop.
    pub iterations: Vec<u64>,
    /// By kind, and the references from and to which they go.
    pub all: BTreeMap<(Kind, Reference, Reference), Dependence>,
    /// References by the stack or frame pointer: whether each had one address alone in every entry, as spilled registers and variables
    /// have.
    pub on_stack: BTreeMap<u64, bool>,
}

/// A loop of a nest, by addresses as linked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Index of the loop around it.
    pub parent: Option<usize>,
    pub header: u64,
    /// Starts and ends of its code, that of inner loops among it.
    pub code: Vec<(u64, u64)>,
}

/// Loops of a nest, outer ones before inner ones.
pub type Nest = Vec<Loop>;

/// Whether the operand of an instruction is at a constant distance from the stack or frame pointer.
pub type IsOnStack<'a> = &'a dyn Fn(u64) -> bool;

/// A place in a nest.
#[derive(Clone, Copy)]
struct Place {
    nest: u32,
    number: u32,
}

/// Nests by their code.
pub struct Nests<'a> {
    nests: &'a [Nest],
    /// Address of the first byte of any of them.
    from: u64,
    /// One more than the index of a place, for each byte from there on.
    places: Vec<u32>,
    all: Vec<Place>,
    /// By nest, and two loops of it: how many loops they are both in.
    common: Vec<Vec<Vec<usize>>>,
}

impl<'a> Nests<'a> {
    pub fn of(nests: &'a [Nest]) -> Nests<'a> {
        let mut ranges = Vec::new();
        let mut all = Vec::new();
        for (nest, one) in (0..).zip(nests) {
            if (0..one.len()).any(|number| path(one, number).len() > DEPTH) {
                continue;
            }
            for (number, own) in (0..).zip(one) {
                all.push(Place { nest, number });
                // Inner loops are behind outer ones, and are written over them.
                let code = own.code.iter();
                ranges.extend(code.map(|(start, end)| (*start, *end, all.len() as u32)));
            }
        }
        let from = ranges.iter().map(|(start, ..)| *start).min().unwrap_or(0);
        let to = ranges.iter().map(|(_, end, _)| *end).max().unwrap_or(0);
        let mut places = vec![0; (to - from) as usize];
        for (start, end, place) in ranges {
            places[(start - from) as usize..(end - from) as usize].fill(place);
        }
        let table = |nest: &Nest| {
            let row = |one| {
                (0..nest.len())
                    .map(|other| common(nest, one, other))
                    .collect()
            };
            (0..nest.len()).map(row).collect()
        };
        Nests {
            nests,
            from,
            places,
            all,
            common: nests.iter().map(table).collect(),
        }
    }

    fn at(&self, at: u64) -> Option<Place> {
        let index = at.checked_sub(self.from)?;
        let place = *self.places.get(index as usize)?;
        self.all.get((place as usize).checked_sub(1)?).copied()
    }

    /// Whether a loop is another one or around it.
    fn is_around(&self, nest: u32, outer: usize, inner: usize) -> bool {
        let nest = &self.nests[nest as usize];
        let mut next = Some(inner);
        while let Some(at) = next.filter(|at| *at != outer) {
            next = nest[at].parent;
        }
        next.is_some()
    }
}

/// An entry of a nest that lasts.
struct Entry {
    nest: u32,
    /// Calls around it.
    depth: i64,
    /// Loops that control is in, and their numbers of iterations.
    path: Vec<(usize, i64)>,
    /// The last instruction of the nest's own, and what its call put on the stack.
    last: u64,
    top: u64,
    shadow: Shadow,
    /// First address of each reference to the stack; `None`: it had several.
    stack: BTreeMap<u64, Option<u64>>,
}

impl Entry {
    fn at(&self, reference: Reference) -> At {
        let mut numbers = [0; DEPTH];
        for (own, (_, number)) in numbers.iter_mut().zip(&self.path) {
            *own = *number;
        }
        At { reference, numbers }
    }
}

/// Follows one thread.
struct Follower<'a> {
    nests: &'a Nests<'a>,
    /// Distance from addresses as linked.
    bias: u64,
    depth: i64,
    entries: Vec<Entry>,
    found: Vec<Found>,
    is_on_stack: IsOnStack<'a>,
    /// Its answers.
    on_stack: HashMap<u64, bool>,
}

/// Dependences of nests in a process that has their file so far from where it was linked; sentences about threads that could not be
/// read to their end.
pub fn of_process(
    process: &Process,
    selection: Selection,
    bias: u64,
    (nests, is_on_stack): (&Nests<'_>, IsOnStack<'_>),
) -> (Vec<Found>, Vec<String>) {
    let mut all: Vec<Found> = nests.nests.iter().map(|_| Found::default()).collect();
    let mut failures = Vec::new();
    for thread in process.threads.iter().filter(|one| has_addresses(one)) {
        let mut follower = Follower {
            nests,
            bias,
            depth: 0,
            entries: Vec::new(),
            found: nests.nests.iter().map(|_| Found::default()).collect(),
            is_on_stack,
            on_stack: HashMap::new(),
        };
        let read = turns::apart(&[(process, thread)], selection, &mut follower);
        while let Some(entry) = follower.entries.pop() {
            follower.end(entry);
        }
        let failed = read.unwrap_or_default().into_iter();
        failures.extend(failed.filter_map(|read| read.error));
        for (all, own) in all.iter_mut().zip(follower.found) {
            all.add(own);
        }
    }
    (all, failures)
}

impl Found {
    /// Adds those of another thread or process.
    pub fn add(&mut self, other: Found) {
        self.entries += other.entries;
        self.iterations
            .resize(self.iterations.len().max(other.iterations.len()), 0);
        for (own, more) in self.iterations.iter_mut().zip(&other.iterations) {
            *own += more;
        }
        for (key, more) in other.all {
            let own = self.all.entry(key).or_default();
            own.count += more.count;
            own.has_more |= more.has_more;
            own.signs.extend(more.signs);
            for (distance, count) in more.distances {
                own.keep(distance, count);
            }
        }
        for (at, is_single) in other.on_stack {
            self.note_stack(at, is_single);
        }
    }
}

impl Found {
    /// A reference had one address in an entry, or several: these stay known.
    fn note_stack(&mut self, at: u64, is_single: bool) {
        *self.on_stack.entry(at).or_insert(true) &= is_single;
    }
}

impl Dependence {
    fn keep(&mut self, distance: Vec<Range>, count: u64) {
        let is_full = self.distances.len() >= VECTORS;
        match self.distances.get_mut(&distance) {
            Some(own) => *own += count,
            None if is_full => self.has_more = true,
            None => drop(self.distances.insert(distance, count)),
        }
    }

    fn add(&mut self, distance: Vec<Range>) {
        self.count += 1;
        let signs: Vec<u8> = distance
            .iter()
            .map(|range| legality::signs(*range))
            .collect();
        if !self.signs.contains(&signs) {
            self.signs.insert(signs);
        }
        self.keep(distance, 1);
    }
}

impl Turn for Follower<'_> {
    fn executed(&mut self, _: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        let mut accessed = all.iter().peekable();
        for (number, step) in (0..).zip(steps) {
            let at = step.pc.wrapping_sub(self.bias);
            self.comes_to(at);
            while let Some(one) = accessed.next_if(|one| one.step == number) {
                self.accesses(at, step, one);
            }
            match step.flow {
                Flow::Call(_) | Flow::IndirectCall => self.depth += 1,
                Flow::Return(_) => self.depth -= 1,
                _ => {}
            }
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> std::io::Result<()> {
        Ok(())
    }
}

impl Follower<'_> {
    /// An instruction is executed: nests are left, entered, or come to an iteration.
    fn comes_to(&mut self, at: u64) {
        let place = self.nests.at(at);
        let depth = self.depth;
        let is_left = |entry: &Entry| {
            entry.depth > depth
                || entry.depth == depth && place.is_none_or(|place| place.nest != entry.nest)
        };
        while let Some(entry) = self.entries.pop_if(|entry| is_left(entry)) {
            self.end(entry);
        }
        let Some(place) = place else { return };
        let number = place.number as usize;
        let nest = &self.nests.nests[place.nest as usize];
        let is_head = nest[number].header == at;
        let is_there = |entry: &&mut Entry| entry.depth == depth;
        let Some(entry) = self.entries.last_mut().filter(is_there) else {
            if is_head && number == 0 {
                self.begin(place.nest, at);
            }
            return;
        };
        entry.last = at;
        while let Some((inner, _)) = entry.path.last() {
            if self.nests.is_around(place.nest, *inner, number) {
                break;
            }
            entry.path.pop();
        }
        if is_head {
            match entry.path.last_mut() {
                Some((own, count)) if *own == number => *count += 1,
                _ => entry.path.push((number, 0)),
            }
            let found = &mut self.found[place.nest as usize];
            found.iterations[number] += 1;
        }
    }

    fn begin(&mut self, nest: u32, at: u64) {
        let loops = self.nests.nests[nest as usize].len();
        let found = &mut self.found[nest as usize];
        found.entries += 1;
        found.iterations.resize(loops, 0);
        found.iterations[0] += 1;
        self.entries.push(Entry {
            nest,
            depth: self.depth,
            path: vec![(0, 0)],
            last: at,
            top: 0,
            shadow: Shadow::default(),
            stack: BTreeMap::new(),
        });
    }

    fn end(&mut self, entry: Entry) {
        let found = &mut self.found[entry.nest as usize];
        for (at, first) in entry.stack {
            found.note_stack(at, first.is_some());
        }
    }

    fn accesses(&mut self, at: u64, step: &Step, accessed: &Accessed) {
        let is_call = matches!(step.flow, Flow::Call(_) | Flow::IndirectCall);
        for index in 0..self.entries.len() {
            let is_own = self.entries[index].depth == self.depth;
            if is_own && is_call {
                self.entries[index].top = accessed.access.address;
                continue;
            }
            if is_own && self.is_on_stack(at) {
                let address = accessed.access.address;
                let first = self.entries[index].stack.entry(at);
                let first = first.or_insert(Some(address));
                *first = first.filter(|first| *first == address);
            }
            let entry = &self.entries[index];
            let Some((number, _)) = entry.path.last() else {
                continue;
            };
            let reference = Reference {
                at: if is_own { at } else { entry.last },
                number: *number,
                is_call: !is_own,
            };
            for time in 0..accessed.times {
                let one = accessed.at(time);
                let below = self.entries[index].top.wrapping_sub(one.address);
                if !is_own && below < STACK {
                    continue;
                }
                self.access(index, reference, one);
            }
        }
    }

    fn access(&mut self, index: usize, reference: Reference, one: isa::memory::Access) {
        let entry = &mut self.entries[index];
        let now = entry.at(reference);
        let common = &self.nests.common[entry.nest as usize];
        let all = &mut self.found[entry.nest as usize].all;
        let mut depends = |kind: Kind, source: Reference, low: &[i64], high: &[i64]| {
            let distance = (0..common[source.number][reference.number])
                .map(|at| (now.numbers[at] - high[at], now.numbers[at] - low[at]))
                .collect();
            let own = all.entry((kind, source, reference)).or_default();
            own.add(distance);
        };
        entry.shadow.access(&now, one, &mut depends);
    }

    fn is_on_stack(&mut self, at: u64) -> bool {
        let known = self.on_stack.entry(at);
        *known.or_insert_with(|| (self.is_on_stack)(at))
    }
}

/// A loop and those around it, outermost first.
fn path(nest: &Nest, number: usize) -> Vec<usize> {
    let around = std::iter::successors(Some(number), |at| nest[*at].parent);
    let mut path: Vec<usize> = around.collect();
    path.reverse();
    path
}

/// The number of loops that two loops are both in.
fn common(nest: &Nest, one: usize, other: usize) -> usize {
    let (one, other) = (path(nest, one), path(nest, other));
    let both = one.iter().zip(&other);
    both.take_while(|(one, other)| one == other).count()
}
