//! Counting every way that control takes: `count`.
//!
//! Problem: how often each instruction ran and each branch was taken, exactly, per
//! thread, whatever is evicted, interrupted or translated again.
//!
//! Approach: a *fragment* is what a superblock was made of: pieces of code, with
//! their bytes, that are executed in order until they are left. Runs are counted
//! where `counting` counts instructions, but each place has a *slot* of its own,
//! to which it adds one. What a slot stands for is an [`Event`]: the instructions
//! that were executed once more. A forward branch counts on the way that it takes,
//! so the sum over the events that hold an instruction is how often it was
//! executed, and a branch was taken as often as it was executed and the next
//! instruction was not.
//!
//! A signal or a fault leaves a fragment in the middle. The map knows how many
//! instructions were counted ahead there, or are to be counted; this becomes a
//! *cut*, which has a slot too, and the reader puts the difference right.
//!
//! Code that is translated again is the same fragment with the same slots, so
//! they are as many as there is code, not as often as it is translated.
//!
//! Invariants:
//! - a fragment is in the log before code that counts in its slots can run;
//! - slots are backed in every thread of the process before they are handed out;
//! - a slot is written by the thread that has it, and nobody else.
//!
//! Limits: when the space for slots or for the log is used up, what is translated
//! from then on is not counted, and the pool's `denied` says so.

use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use core::sync::atomic::Ordering::{Relaxed, Release};

use agent::pool;
use agent::thread::{ContextTail, SLOTS, ThreadContext};
use hashbrown::{HashMap, HashTable};
use isa::Flow;
use wire::denied::why;
use wire::log::{Cut, Event, EventKind, Fragment, fragment_flag};
use wire::view::Pool;
use wire::{SavedCount, SavedCounts, ThreadRecord};

use crate::block::{BlockId, PcHasher};
use crate::counting::{Counting, Place, Run};
use crate::engine::Engine;
use crate::pcmap;
use crate::superblock::{End, Superblock};

mod indirect;
mod profile;

use indirect::Jumps;
pub use indirect::{COUNT_BYTES, KEYS, SITE_BYTES, Site, emit_count};
pub use profile::Rare;

/// Part of the pool that each thread's slots may take: one in so many bytes.
const PART: u64 = 1 << 13;
/// Slots are backed in steps of this many bytes.
const STEP: u64 = 64 << 10;

/// Fragments and slots of a process.
#[derive(Debug)]
pub struct EdgeCounters {
    fragments: HashTable<Known>,
    /// The fragment of each block, by its id; 0: none.
    of_block: Vec<u32>,
    cuts: HashMap<(u32, u16, i16), u32, BuildHasherDefault<PcHasher>>,
    jumps: Jumps,
    /// Slots and fragments handed out.
    slots: u64,
    last_fragment: u32,
    /// Bytes of slots that each thread has, and how many are backed.
    space: u64,
    backed: u64,
    tail: Vec<u8>,
}

/// A fragment that is in the log.
#[derive(Clone, Copy, Debug)]
struct Known {
    hash: u64,
    /// Offset in the pool of its record's payload.
    offset: u64,
    id: u32,
    first_slot: u32,
}

/// Variable part of its record.
struct Shape {
    flags: u32,
    pieces: u32,
    events: u32,
}

impl EdgeCounters {
    pub fn new(pool: &Pool) -> EdgeCounters {
        let space = (pool.len() / PART).next_multiple_of(STEP);
        EdgeCounters {
            fragments: HashTable::new(),
            of_block: Vec::new(),
            cuts: HashMap::default(),
            jumps: Jumps::default(),
            slots: 0,
            last_fragment: 0,
            space,
            backed: STEP,
            tail: Vec::new(),
        }
    }

    pub fn behind(&self) -> ContextTail {
        ContextTail::Slots {
            space: self.space,
            backed: self.backed,
        }
    }

    /// The fragment of a block; 0: none.
    pub fn fragment_of(&self, block: BlockId) -> u32 {
        let at = block.0 as usize;
        self.of_block.get(at).copied().unwrap_or(0)
    }

    fn set_fragment(&mut self, block: BlockId, fragment: u32) {
        let at = block.0 as usize;
        if at >= self.of_block.len() {
            self.of_block.resize(at + 1, 0);
        }
        self.of_block[at] = fragment;
    }
}

/// How the two ways out of a branch that ends a superblock are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastBranch {
    /// There is none, or the instructions behind it tell.
    None,
    /// A forward one, mostly not taken: counted when it is taken.
    Taken,
    /// Counted when it is not.
    Fell,
}

impl LastBranch {
    pub fn of(source: &Superblock) -> LastBranch {
        match source.insns.last().map(|last| (last.flow(), last.pc())) {
            Some((Flow::Cond(_, target), pc)) if target > pc => LastBranch::Taken,
            Some((Flow::Cond(..) | Flow::CountJump(_), _)) => LastBranch::Fell,
            _ => LastBranch::None,
        }
    }
}

/// The events of a superblock, in the order in which `counting` meets them.
/// `lazy`: its last instruction is a jump that is made again once it is bound.
/// `rare`: branches that hardly ever leave it.
fn events(source: &Superblock, lazy: bool, rare: Rare, out: &mut Vec<Event>) {
    let insns = source.insns.as_slice();
    let end = insns.len();
    let mut push = |from: usize, to: usize, kind| {
        out.push(Event {
            from: from as u16,
            to: to as u16,
            kind,
        });
    };
    let (mut first, mut from) = (0, 0);
    while first < end {
        let run = Run::plan(insns, first, 0, true, rare);
        push(from, run.end, EventKind::Executed);
        match run.place {
            Place::AtBranch if lazy => push(from, run.end, EventKind::Again),
            _ => {}
        }
        if !matches!(run.place, Place::Later) {
            from = run.end;
        }
        first = run.end;
    }
    match LastBranch::of(source) {
        LastBranch::None => {}
        LastBranch::Taken => push(end - 1, end, EventKind::Taken),
        LastBranch::Fell => push(end - 1, end, EventKind::Fell),
    }
}

/// Content hash of the record's payload.
pub fn hash(bytes: &[u8], flags: u32) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325 ^ u64::from(flags);
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        mix(u64::from_le_bytes(word));
    }
    for &byte in rest {
        mix(u64::from(byte));
    }
    hash
}

impl Engine {
    /// How the code of block `id`, made of `source`, counts.
    pub fn count_ways(&mut self, id: BlockId, source: &Superblock) -> Counting {
        if self.edge_counters.is_none() {
            let pc = self.block(id).key().pc;
            return Counting::of_instructions(self.words_at(pc), self.settings.costs);
        }
        let last = source.insns.last();
        let branch =
            last.filter(|insn| matches!(insn.flow(), Flow::IndirectJump | Flow::IndirectCall));
        let prediction = branch.and_then(|insn| self.prediction(insn));
        let lazy = prediction.is_some_and(|prediction| prediction.lazy);
        let known = match source.insns.is_empty() {
            true => None,
            false => self.fragment(source, lazy),
        };
        if let Some(edge_counters) = &mut self.edge_counters {
            edge_counters.set_fragment(id, known.map_or(0, |(known, _)| known.id));
        }
        match known {
            Some((known, rare)) => Counting::of_edges(
                displacement(known.first_slot),
                prediction,
                LastBranch::of(source),
                rare,
            ),
            None => Counting::of_nothing(prediction),
        }
    }

    /// The fragment made of `source`, new or known, and its rare branches; `None`: there
    /// is no room.
    fn fragment(&mut self, source: &Superblock, lazy: bool) -> Option<(Known, Rare)> {
        let edge_counters = self.edge_counters.as_mut()?;
        let mut tail = core::mem::take(&mut edge_counters.tail);
        let mut shape = describe(source, lazy, Rare::NONE, &mut tail);
        let mut found = self.known_fragment(&shape, &tail);
        let rare = found.map_or(Rare::NONE, |known| self.rare_branches(source, known));
        if rare != Rare::NONE {
            tail.clear();
            shape = describe(source, lazy, rare, &mut tail);
            found = self.known_fragment(&shape, &tail);
        }
        let known = found.or_else(|| self.new_fragment(&shape, &tail));
        tail.clear();
        self.edge_counters.as_mut()?.tail = tail;
        known.map(|known| (known, rare))
    }

    fn known_fragment(&self, shape: &Shape, tail: &[u8]) -> Option<Known> {
        let hash = hash(tail, shape.flags);
        let pool = &self.process.log.pool;
        let is_it = |known: &Known| {
            let there = pool.at::<Fragment>(known.offset);
            known.hash == hash
                && there.is_some_and(|there| {
                    (there.flags, there.pieces, there.events)
                        == (shape.flags, shape.pieces, shape.events)
                })
                && holds(pool, known.offset + size_of::<Fragment>() as u64, tail)
        };
        self.edge_counters
            .as_ref()?
            .fragments
            .find(hash, is_it)
            .copied()
    }

    fn new_fragment(&mut self, shape: &Shape, tail: &[u8]) -> Option<Known> {
        let first_slot = self.take_slots(shape.events.into())?;
        let edge_counters = self.edge_counters.as_mut()?;
        let id = edge_counters.last_fragment + 1;
        let record = Fragment {
            first_slot,
            id,
            flags: shape.flags,
            pieces: shape.pieces,
            events: shape.events,
        };
        let offset = self.process.log.fragment(record, tail)?;
        edge_counters.last_fragment = id;
        let known = Known {
            hash: hash(tail, shape.flags),
            offset,
            id,
            first_slot: first_slot as u32,
        };
        let rehash = |known: &Known| known.hash;
        edge_counters
            .fragments
            .insert_unique(known.hash, known, rehash);
        Some(known)
    }

    /// Slots that no one has; `None`: there are no more.
    fn take_slots(&mut self, number: u64) -> Option<u64> {
        let edge_counters = self.edge_counters.as_mut()?;
        let first = edge_counters.slots;
        let end = (first + number) * 8;
        if end > edge_counters.backed {
            // More at a time the more there are: each step costs a call per thread.
            let wanted = (end + edge_counters.backed / 4).next_multiple_of(STEP);
            let to = wanted.min(edge_counters.space);
            let pool = &self.process.log.pool;
            if end > to {
                pool::deny(pool, why::FULL);
                return None;
            }
            if let Err(error) = self.process.blocks.back_slots(edge_counters.backed, to) {
                pool::deny_for(pool, error);
                return None;
            }
            edge_counters.backed = to;
        }
        edge_counters.slots += number;
        Some(first)
    }

    /// Memory that follows a new thread's context.
    pub fn behind(&self) -> ContextTail {
        match &self.edge_counters {
            Some(edge_counters) => edge_counters.behind(),
            None if self.has_blocks() => ContextTail::Cells,
            None if self.contexts.is_some() => ContextTail::Transitions,
            None if self.is_by_request() => ContextTail::Polls,
            None => ContextTail::Nothing,
        }
    }

    /// The thread leaves a fragment at `place`, which is no exit of it.
    pub fn cut(&mut self, context: &mut ThreadContext, place: &pcmap::Place) {
        if place.index == 0 && place.counted_ahead == 0 {
            return;
        }
        let ahead = place.counted_ahead as i16;
        let key = (place.fragment, place.index, ahead);
        let Some(edge_counters) = &self.edge_counters else {
            return;
        };
        let slot = match edge_counters.cuts.get(&key) {
            Some(&slot) => slot,
            None => match self.new_cut(key) {
                Some(slot) => slot,
                None => return,
            },
        };
        add_one(context, slot);
    }

    fn new_cut(&mut self, key: (u32, u16, i16)) -> Option<u32> {
        let slot = self.take_slots(1)?;
        let (fragment, at, ahead) = key;
        self.process.log.cut(Cut {
            slot,
            fragment,
            at: at.into(),
            ahead: ahead.into(),
        })?;
        self.edge_counters.as_mut()?.cuts.insert(key, slot as u32);
        Some(slot as u32)
    }

    /// Says where a thread counts.
    pub fn publish_slots(&self, record: &ThreadRecord, context: &ThreadContext) {
        if self.edge_counters.is_some() {
            let pool = &self.process.log.pool;
            if !pool.has(context.this) {
                pool::deny(pool, why::FULL);
            }
            let slots = context.this + SLOTS as u64;
            let offset = slots.wrapping_sub(pool.base());
            record.slots.store(offset, Release);
        }
    }

    /// The thread executes no more: what it counted is kept, and its slots are 0
    /// for the next one.
    pub fn keep_slots(&self, record: u64, context: *const ThreadContext) {
        let Some(edge_counters) = &self.edge_counters else {
            return;
        };
        let pool = &self.process.log.pool;
        let first = (context as u64 + SLOTS as u64) as *mut u64;
        // SAFETY: the slots of a thread that has ended or is here; nobody else
        // writes them, and all that were handed out are backed.
        let slots = unsafe { core::slice::from_raw_parts_mut(first, edge_counters.slots as usize) };
        if let Some(record) = pool.at::<ThreadRecord>(record).filter(|_| record != 0)
            && record.slots.load(Relaxed) != 0
        {
            if let Some(saved) = save(pool, slots) {
                record.counts.store(saved, Release);
            }
            record.slots.store(0, Release);
        }
        slots
            .iter_mut()
            .filter(|slot| **slot != 0)
            .for_each(|slot| *slot = 0);
    }
}

/// Counts in a slot that is backed.
fn add_one(context: &mut ThreadContext, slot: u32) {
    let word = (context.this + SLOTS as u64 + 8 * u64::from(slot)) as *mut u64;
    // SAFETY: a slot of the calling thread, handed out and so backed; code of
    // the program, which counts in others, does not run now.
    unsafe { word.write_volatile(word.read_volatile() + 1) };
}

/// Displacement of a slot from the gs base.
fn displacement(slot: u32) -> i32 {
    SLOTS + 8 * slot as i32
}

/// Writes the pieces that `source` is made of, and says how many.
pub fn describe_pieces(source: &Superblock, tail: &mut Vec<u8>) -> u32 {
    let insns = &source.insns;
    let follows = |at: usize| at > 0 && insns[at - 1].next_pc() == insns[at].pc();
    let mut pieces = 0;
    let mut from = 0;
    for at in 1..=insns.len() {
        if at < insns.len() && follows(at) {
            continue;
        }
        let (start, end) = (insns[from].pc(), insns[at - 1].next_pc());
        tail.extend_from_slice(&start.to_le_bytes());
        tail.extend_from_slice(&end.wrapping_sub(start).to_le_bytes());
        pieces += 1;
        from = at;
    }
    pieces
}

/// Writes what the record of `source` holds behind its fixed part.
fn describe(source: &Superblock, lazy: bool, rare: Rare, tail: &mut Vec<u8>) -> Shape {
    let pieces = describe_pieces(source, tail);
    let mut all = Vec::new();
    events(source, lazy, rare, &mut all);
    for event in &all {
        tail.extend_from_slice(&event.word().to_le_bytes());
    }
    for insn in &source.insns {
        tail.extend_from_slice(insn.bytes());
    }
    let faults = matches!(
        source.end,
        End::Unfetchable(_) | End::Unknown(_) | End::Vsyscall(_)
    );
    Shape {
        flags: if faults { fragment_flag::FAULTS } else { 0 },
        pieces,
        events: all.len() as u32,
    }
}

/// Whether the pool has exactly these bytes at `offset`.
pub fn holds(pool: &Pool, offset: u64, bytes: &[u8]) -> bool {
    let mut buffer = [0; 256];
    let mut at = offset;
    bytes.chunks(buffer.len()).all(|piece| {
        let there = &mut buffer[..piece.len()];
        let got = pool.read_bytes(at, there);
        at += got as u64;
        got == piece.len() && there == piece
    })
}

/// The slots that are not 0, in the pool.
fn save(pool: &Pool, slots: &[u64]) -> Option<u64> {
    let counted = || (0u64..).zip(slots).filter(|(_, count)| **count != 0);
    let used = counted().count() as u64;
    let size = (size_of::<SavedCounts>() + used as usize * size_of::<SavedCount>()) as u64;
    let offset = pool::allocate_backed(pool, size, size)?;
    let mut at = offset + size_of::<SavedCounts>() as u64;
    for (slot, &count) in counted() {
        let saved: &SavedCount = pool.at(at)?;
        saved.slot.store(slot, Relaxed);
        saved.count.store(count, Relaxed);
        at += size_of::<SavedCount>() as u64;
    }
    pool.at::<SavedCounts>(offset)?.used.store(used, Release);
    Some(offset)
}
