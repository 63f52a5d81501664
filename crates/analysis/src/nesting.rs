//! Nests of loops through a trace with addresses: which of them a thread is in, and the numbers of iterations of their loops.
//!
//! Approach: heads of loops are counted as they come. An [`Entry`] of a nest lasts until control is at other code of the same call, or
//! the call is over; calls are told apart by the [`frames`] of return addresses. What is done with entries and accesses is the
//! [`Watch`]'s.
//!
//! Limits: threads whose stacks are switched (coroutines) have calls that are taken for others.

mod frames;

use isa::Flow;
use isa::memory::Selection;
use trace::Process;

use crate::turns::{self, Turn};
use crate::walk::{Accessed, Bytes, Code, Step, Why, has_addresses};
use frames::Frames;

/// Most loops around each other; nests with more are not followed.
pub const DEPTH: usize = 6;
/// A stack has fewer bytes.
pub const STACK: u64 = 8 << 20;

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

/// A place in a nest.
#[derive(Clone, Copy)]
struct Place {
    nest: u32,
    number: u32,
}

/// The nests of a file, by their code.
pub struct Nests<'a> {
    nests: &'a [Nest],
    /// Address of the first byte of any of them, as linked.
    from: u64,
    /// One more than the index of a place, for each byte from there on.
    places: Vec<u32>,
    all: Vec<Place>,
}

impl<'a> Nests<'a> {
    pub fn of(nests: &'a [Nest]) -> Nests<'a> {
        let mut ranges = Vec::new();
        let mut all = Vec::new();
        for (nest, one) in (0..).zip(nests) {
            if !is_followed(one) {
                continue;
            }
            for (number, own) in (0..).zip(one) {
                all.push(Place { nest, number });
                // Inner loops come after outer ones, and are written over them.
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
        Nests {
            nests,
            from,
            places,
            all,
        }
    }

    pub fn all(&self) -> &'a [Nest] {
        self.nests
    }

    fn at(&self, at: u64) -> Option<Place> {
        let index = at.checked_sub(self.from)?;
        let place = *self.places.get(index as usize)?;
        self.all.get((place as usize).checked_sub(1)?).copied()
    }
}

/// Whether a nest is not too deep to be followed.
pub fn is_followed(nest: &Nest) -> bool {
    (0..nest.len()).all(|number| path(nest, number).len() <= DEPTH)
}

/// Whether a loop is another one or around it.
fn is_around(nest: &Nest, outer: usize, inner: usize) -> bool {
    let mut next = Some(inner);
    while let Some(at) = next.filter(|at| *at != outer) {
        next = nest[at].parent;
    }
    next.is_some()
}

/// A loop and those around it, outermost first.
pub fn path(nest: &Nest, number: usize) -> Vec<usize> {
    let around = std::iter::successors(Some(number), |at| nest[*at].parent);
    let mut path: Vec<usize> = around.collect();
    path.reverse();
    path
}

/// Index of a file, and that of a nest in it.
pub type Id = (usize, usize);

/// An entry of a nest that lasts.
pub struct Entry<E> {
    pub id: Id,
    /// Loops that control is in, outermost first, and the numbers of their iterations.
    pub path: Vec<(usize, i64)>,
    /// The last instruction of the nest's own, as linked.
    pub last: u64,
    /// The place of the return address of the call there.
    pub top: u64,
    /// Calls around it.
    depth: i64,
    pub own: E,
}

impl<E> Entry<E> {
    /// Numbers of iterations, outermost first, and how many they are.
    pub fn numbers(&self) -> ([i64; DEPTH], usize) {
        let mut numbers = [0; DEPTH];
        for (own, (_, number)) in numbers.iter_mut().zip(&self.path) {
            *own = *number;
        }
        (numbers, self.path.len().min(DEPTH))
    }
}

/// An access of an instruction.
pub struct Access<'a> {
    /// The instruction, as linked in the file of the entry.
    pub at: u64,
    pub step: &'a Step,
    pub accessed: &'a Accessed,
    /// Its number among the accesses of the instruction.
    pub nth: usize,
    /// It is the nest's own; otherwise one of code that is called there.
    pub is_own: bool,
}

/// Receiver of entries of nests.
pub trait Watch {
    /// Something that is kept with each entry.
    type Own;

    /// A nest is entered, while so many entries of it last; `None`: this one is not followed.
    fn begin(&mut self, id: Id, lasting: usize) -> Option<Self::Own>;

    /// An iteration of the innermost loop of the entry's path begins.
    fn iterates(&mut self, entry: &mut Entry<Self::Own>);

    /// A loop is left, after so many iterations; the entry's path is that of the loops around it.
    fn leaves(&mut self, entry: &mut Entry<Self::Own>, number: usize, iterations: i64);

    /// Memory is accessed in an entry.
    fn accesses(&mut self, entry: &mut Entry<Self::Own>, access: &Access<'_>);

    /// An entry is over; `is_lost`: its call was left in the middle of it.
    fn ends(&mut self, entry: Entry<Self::Own>, is_lost: bool);
}

/// Follows one thread.
struct Follower<'a, W: Watch> {
    /// Nests of each file, and how far it is from where it was linked.
    files: &'a [(&'a Nests<'a>, u64)],
    frames: Frames,
    entries: Vec<Entry<W::Own>>,
    watch: W,
}

/// Follows the threads of a process, which has each file so far from where it was linked, with a [`Watch`] for each thread; gives
/// these, and sentences about threads that could not be read to their end.
pub fn of_process<W: Watch>(
    process: &Process,
    selection: Selection,
    files: &[(&Nests<'_>, u64)],
    mut watch: impl FnMut() -> W,
) -> (Vec<W>, Vec<String>) {
    let mut all = Vec::new();
    let mut failures = Vec::new();
    for thread in process.threads.iter().filter(|one| has_addresses(one)) {
        let mut follower = Follower {
            files,
            frames: Frames::default(),
            entries: Vec::new(),
            watch: watch(),
        };
        let read = turns::apart(&[(process, thread)], selection, &mut follower);
        while let Some(entry) = follower.entries.pop() {
            follower.end(entry, true);
        }
        let failed = read.unwrap_or_default().into_iter();
        failures.extend(failed.filter_map(|read| read.error));
        all.push(follower.watch);
    }
    (all, failures)
}

impl<W: Watch> Turn for Follower<'_, W> {
    fn executed(&mut self, _: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        let mut accessed = all.iter().peekable();
        for (number, step) in (0..).zip(steps) {
            let place = self.comes_to(step.pc);
            let mut nth = 0;
            let mut link = None;
            while let Some(one) = accessed.next_if(|one| one.step == number) {
                self.accesses((step, one), nth, place);
                link = Some(one.access.address);
                nth += 1;
            }
            match (step.flow, link) {
                (Flow::Call(_) | Flow::IndirectCall, link) => {
                    let back = step.pc.wrapping_add(step.len.into());
                    let link = link.unwrap_or(0);
                    if self.frames.leave(link) {
                        self.end_lost();
                    }
                    self.frames.call(link, back);
                }
                (Flow::Return(_), Some(link)) => self.frames.returns(link),
                _ => {}
            }
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> std::io::Result<()> {
        Ok(())
    }

    fn went(&mut self, _: usize, why: Why, to: u64) {
        match why {
            Why::Signal(_) => self.frames.handle(),
            Why::Sigreturn => self.frames.handled(),
            _ => self.frames.back_at(to),
        }
    }
}

impl<W: Watch> Follower<'_, W> {
    /// The nest that an instruction is in, and the innermost loop.
    fn place(&self, pc: u64) -> Option<(Id, usize)> {
        let files = self.files.iter().enumerate();
        let mut places = files.filter_map(|(file, (nests, bias))| {
            let place = nests.at(pc.wrapping_sub(*bias))?;
            Some(((file, place.nest as usize), place.number as usize))
        });
        places.next()
    }

    /// An instruction is executed: nests are left, entered, or come to an iteration. Gives the nest that it is in.
    fn comes_to(&mut self, pc: u64) -> Option<Id> {
        let place = self.place(pc);
        let depth = self.frames.depth();
        let is_there = |entry: &Entry<W::Own>| {
            entry.depth < depth
                || entry.depth == depth && place.is_some_and(|(id, _)| id == entry.id)
        };
        while let Some(entry) = self.entries.pop_if(|entry| !is_there(entry)) {
            let is_lost = entry.depth > depth;
            self.end(entry, is_lost);
        }
        let (id, number) = place?;
        let (nests, bias) = self.files[id.0];
        let (nest, at) = (&nests.nests[id.1], pc.wrapping_sub(bias));
        let is_head = nest[number].header == at;
        let is_inside = self.entries.last().is_some_and(|one| one.depth == depth);
        let is_first = is_head && number == 0;
        let is_followed = is_inside || is_first && self.begin(id, at);
        if !is_followed {
            return Some(id);
        }
        let entry = self.entries.last_mut()?;
        entry.last = at;
        while let Some((inner, count)) =
            (entry.path).pop_if(|(inner, _)| !is_around(nest, *inner, number))
        {
            self.watch.leaves(entry, inner, count + 1);
        }
        if is_head {
            match entry.path.last_mut() {
                Some((own, count)) if *own == number => *count += 1,
                _ => entry.path.push((number, 0)),
            }
            self.watch.iterates(entry);
        }
        Some(id)
    }

    /// Enters a nest, if it is to be followed.
    fn begin(&mut self, id: Id, at: u64) -> bool {
        let lasting = self.entries.iter().filter(|entry| entry.id == id).count();
        let Some(own) = self.watch.begin(id, lasting) else {
            return false;
        };
        self.entries.push(Entry {
            id,
            path: Vec::new(),
            last: at,
            top: 0,
            depth: self.frames.depth(),
            own,
        });
        true
    }

    /// Calls are over that did not return.
    fn end_lost(&mut self) {
        let depth = self.frames.depth();
        while let Some(entry) = self.entries.pop_if(|entry| entry.depth > depth) {
            self.end(entry, true);
        }
    }

    fn end(&mut self, mut entry: Entry<W::Own>, is_lost: bool) {
        if !is_lost {
            while let Some((inner, count)) = entry.path.pop() {
                self.watch.leaves(&mut entry, inner, count + 1);
            }
        }
        self.watch.ends(entry, is_lost);
    }

    fn accesses(&mut self, (step, one): (&Step, &Accessed), nth: usize, place: Option<Id>) {
        let depth = self.frames.depth();
        let is_call = matches!(step.flow, Flow::Call(_) | Flow::IndirectCall);
        for entry in &mut self.entries {
            let is_own = entry.depth == depth && place == Some(entry.id);
            if is_own && is_call {
                entry.top = one.access.address;
            }
            let (_, bias) = self.files[entry.id.0];
            let access = Access {
                at: step.pc.wrapping_sub(bias),
                step,
                accessed: one,
                nth,
                is_own,
            };
            self.watch.accesses(entry, &access);
        }
    }
}
