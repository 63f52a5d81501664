//! Dependences among accesses of nests of loops, from a trace with addresses: which iteration needs what another one read or wrote.
//!
//! Approach: each thread is followed through its trace ([`crate::nesting`]). An entry of a nest has the numbers of iterations of its
//! loops, and a [`shadow`] of the memory that is accessed while it lasts: who wrote each piece last, and who read it since. An access that
//! meets one of these is a [`Dependence`]: its *distance* is the difference of the numbers of iterations of the loops that both accesses
//! are in. Code that the nest calls belongs to the call, but for what is below the stack at the call, which no other iteration sees.
//!
//! A read depends on the last write (RAW), a write on the last write (WAW) and on each read since then (WAR). Reads of one reference are
//! kept as a range of iterations, so the distance of a WAR is a range; what follows from it ([`legality`]) may forbid too much, and never
//! too little.
//!
//! Invariant: what is said holds for this run alone.
//!
//! Limits: accesses of one thread; memory that another thread writes is no dependence. The kernel's accesses are not in traces.

pub mod legality;
mod shadow;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use isa::Flow;
use isa::memory::{Access, Selection};
use trace::Process;

use crate::nesting::{self, DEPTH, Entry, Id, Nest, Nests, STACK, Watch, path};
use shadow::{At, Shadow};

/// Most distances of a dependence that are kept apart.
const VECTORS: usize = 64;
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

/// Whether the operand of an instruction is at a constant distance from the stack or frame pointer.
pub type IsOnStack<'a> = &'a dyn Fn(u64) -> bool;

/// State of an entry of a nest.
#[derive(Default)]
struct Own {
    shadow: Shadow,
    /// First address of each reference to the stack; `None`: it had several.
    stack: BTreeMap<u64, Option<u64>>,
}

/// Watches one thread.
struct Watcher<'a> {
    /// By nest, and two loops of it: how many loops they are both in.
    common: &'a [Vec<Vec<usize>>],
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
    let common: Vec<_> = nests.all().iter().map(common_loops).collect();
    let none = || nests.all().iter().map(|_| Found::default()).collect();
    let watch = || Watcher {
        common: &common,
        found: none(),
        is_on_stack,
        on_stack: HashMap::new(),
    };
    let (watchers, failures) = nesting::of_process(process, selection, &[(nests, bias)], watch);
    let mut all: Vec<Found> = none();
    for watcher in watchers {
        for (all, own) in all.iter_mut().zip(watcher.found) {
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

impl Watch for Watcher<'_> {
    type Own = Own;

    fn begin(&mut self, (_, nest): Id, _: usize) -> Option<Own> {
        let found = &mut self.found[nest];
        found.entries += 1;
        found.iterations.resize(self.common[nest].len(), 0);
        Some(Own::default())
    }

    fn iterates(&mut self, entry: &mut Entry<Own>) {
        if let Some((number, _)) = entry.path.last() {
            self.found[entry.id.1].iterations[*number] += 1;
        }
    }

    fn leaves(&mut self, _: &mut Entry<Own>, _: usize, _: i64) {}

    fn accesses(&mut self, entry: &mut Entry<Own>, access: &nesting::Access<'_>) {
        let (at, accessed) = (access.at, access.accessed);
        if access.is_own && matches!(access.step.flow, Flow::Call(_) | Flow::IndirectCall) {
            return;
        }
        if access.is_own && self.is_on_stack(at) {
            let address = accessed.access.address;
            let first = entry.own.stack.entry(at).or_insert(Some(address));
            *first = first.filter(|first| *first == address);
        }
        let Some((number, _)) = entry.path.last() else {
            return;
        };
        let reference = Reference {
            at: if access.is_own { at } else { entry.last },
            number: *number,
            is_call: !access.is_own,
        };
        for time in 0..accessed.times {
            let one = accessed.at(time);
            let below = entry.top.wrapping_sub(one.address);
            if access.is_own || below >= STACK {
                self.access(entry, reference, one);
            }
        }
    }

    fn ends(&mut self, entry: Entry<Own>, _: bool) {
        let found = &mut self.found[entry.id.1];
        for (at, first) in entry.own.stack {
            found.note_stack(at, first.is_some());
        }
    }
}

impl Watcher<'_> {
    fn access(&mut self, entry: &mut Entry<Own>, reference: Reference, one: Access) {
        let (numbers, _) = entry.numbers();
        let now = At { reference, numbers };
        let common = &self.common[entry.id.1];
        let all = &mut self.found[entry.id.1].all;
        let mut depends = |kind: Kind, source: Reference, low: &[i64], high: &[i64]| {
            let distance = (0..common[source.number][reference.number])
                .map(|at| (now.numbers[at] - high[at], now.numbers[at] - low[at]))
                .collect();
            let own = all.entry((kind, source, reference)).or_default();
            own.add(distance);
        };
        entry.own.shadow.access(&now, one, &mut depends);
    }

    fn is_on_stack(&mut self, at: u64) -> bool {
        let known = self.on_stack.entry(at);
        *known.or_insert_with(|| (self.is_on_stack)(at))
    }
}

/// By two loops of a nest: the number of loops that they are both in.
fn common_loops(nest: &Nest) -> Vec<Vec<usize>> {
    let paths: Vec<Vec<usize>> = (0..nest.len()).map(|number| path(nest, number)).collect();
    let common = |one: &Vec<usize>, other: &Vec<usize>| {
        let both = one.iter().zip(other);
        both.take_while(|(one, other)| one == other).count()
    };
    let rows = paths.iter();
    rows.map(|one| paths.iter().map(|other| common(one, other)).collect())
        .collect()
}
