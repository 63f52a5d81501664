//! Counts in the slots of threads.
//!
//! A running thread's are one array, as long as the log of its process says; an
//! ended one's are pairs of slot and count. What a slot stands for, and so how many
//! instructions a thread retired, is in the fragments.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::{SavedCount, SavedCounts, ThreadRecord};

use super::Walk;
use crate::model::{Cut, EventKind, Fragment, Jump, Process, SlotCount, Thread};

/// Offsets of a thread's counts in the pool.
#[derive(Clone, Copy)]
pub(super) struct Place {
    live: u64,
    saved: u64,
}

impl Place {
    /// A thread that ends meanwhile saves first.
    pub(super) fn of(record: &ThreadRecord) -> Place {
        let live = record.slots.load(Acquire);
        Place {
            live,
            saved: record.counts.load(Acquire),
        }
    }
}

/// Fills in the counts of `process`, whose fragments are there, and drops the
/// fragments that none of its threads executed.
pub(super) fn read(walk: &mut Walk, process: &mut Process, places: &[Place]) {
    let Process {
        threads,
        fragments,
        cuts,
        jumps,
        ..
    } = process;
    let ends = fragments.iter().map(|fragment| end(fragment));
    let cut = cuts.iter().map(|cut| cut.slot + 1);
    let jumped = jumps.iter().map(|jump| jump.slot + 1);
    let slots = ends.chain(cut).chain(jumped).max();
    let Some(slots) = slots else { return };
    let mut used: HashSet<u64> = HashSet::new();
    for (thread, place) in threads.iter_mut().zip(places) {
        thread.counts = match *place {
            Place { saved: 0, live } => live_counts(walk, live, slots),
            Place { saved, .. } => saved_counts(walk, saved, slots),
        };
        used.extend(thread.counts.iter().map(|counted| counted.slot));
    }
    cuts.retain(|cut| used.contains(&cut.slot));
    jumps.retain(|jump| used.contains(&jump.slot));
    let cut = cuts.iter().map(|cut| cut.fragment);
    let jumped = jumps.iter().map(|jump| jump.fragment);
    let named: HashSet<u32> = cut.chain(jumped).collect();
    fragments.retain(|fragment| {
        (fragment.first_slot..end(fragment)).any(|slot| used.contains(&slot))
            || named.contains(&fragment.id)
    });
    let weights = weights(fragments, cuts, jumps);
    for thread in threads {
        thread.insns = retired(thread, &weights);
    }
}

/// First slot after the fragment's.
fn end(fragment: &Fragment) -> u64 {
    fragment.first_slot + fragment.events.len() as u64
}

fn live_counts(walk: &mut Walk, offset: u64, slots: u64) -> Vec<SlotCount> {
    if offset == 0 {
        return Vec::new();
    }
    let granted = walk.grant(offset, slots.saturating_mul(8)) / 8;
    let count = |slot: u64| {
        let word = walk.pool.at::<AtomicU64>(offset.checked_add(slot * 8)?)?;
        let count = word.load(Relaxed);
        (count != 0).then_some(SlotCount { slot, count })
    };
    (0..granted).filter_map(count).collect()
}

fn saved_counts(walk: &mut Walk, offset: u64, slots: u64) -> Vec<SlotCount> {
    let Some(saved) = walk.pool.at::<SavedCounts>(offset) else {
        return Vec::new();
    };
    let first = offset + size_of::<SavedCounts>() as u64;
    let size = size_of::<SavedCount>() as u64;
    let used = saved.used.load(Acquire).min(slots);
    let used = walk.grant(first, used * size) / size;
    let mut counts: Vec<SlotCount> = Vec::new();
    for at in 0..used {
        let Some(saved) = walk.pool.at::<SavedCount>(first + at * size) else {
            break;
        };
        let (slot, count) = (saved.slot.load(Relaxed), saved.count.load(Relaxed));
        let is_next = counts.last().is_none_or(|last| last.slot < slot);
        if slot >= slots || !is_next || count == 0 {
            break;
        }
        counts.push(SlotCount { slot, count });
    }
    counts
}

/// Instructions that one more in a slot stands for.
fn weights(fragments: &[Arc<Fragment>], cuts: &[Cut], jumps: &[Jump]) -> HashMap<u64, i64> {
    let mut weights = HashMap::new();
    let mut of_jump = HashMap::new();
    for fragment in fragments {
        for (slot, event) in (fragment.first_slot..).zip(&fragment.events) {
            let length = i64::from(event.to) - i64::from(event.from);
            let weight = match event.kind {
                EventKind::Executed => length,
                EventKind::Again => length - 1,
                EventKind::Less => -length,
                EventKind::Taken | EventKind::Fell => 0,
            };
            weights.insert(slot, weight);
        }
        if let Some(event) = fragment.jump_event() {
            let slot = fragment.first_slot + event as u64;
            of_jump.insert(fragment.id, weights.get(&slot).copied().unwrap_or(0));
        }
    }
    for jump in jumps {
        let weight = of_jump.get(&jump.fragment).copied().unwrap_or(0);
        weights.insert(jump.slot, weight);
    }
    for cut in cuts {
        weights.insert(cut.slot, -i64::from(cut.ahead));
    }
    weights
}

fn retired(thread: &Thread, weights: &HashMap<u64, i64>) -> u64 {
    thread.counts.iter().fold(0u64, |sum, counted| {
        let weight = weights.get(&counted.slot).copied().unwrap_or(0);
        sum.wrapping_add(counted.count.wrapping_mul(weight.cast_unsigned()))
    })
}
