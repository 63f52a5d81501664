//! Jumps to the new code of functions that are too short for one.
//!
//! Problem: a jump to anywhere has five bytes, and a function that returns a field has four; without an alignment the next
//! one begins there.
//!
//! Approach: such a place gets a jump of two bytes, to at most 128 bytes away, and there, in old code of a moved function that
//! nobody comes to any more, a *hop*, the jump of five bytes.
//!
//! Invariant: a hop is in bytes of instructions of a function of which nothing is read, into which nothing goes but by its
//! patches, and that has no address inside that anybody takes.
//!
//! Limits: functions of one byte, and those without such old code nearby, are left.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use image::LinkAddr;

use super::{Mover, PATCH};
use crate::references::References;

/// Bytes of a jump to a hop.
pub(super) const SHORT: u64 = 2;
/// Distances that such a jump has, from its end.
const BACK: u64 = 128;
const AHEAD: u64 = 127;

/// Places that have room for a short jump only.
#[derive(Debug, Default)]
pub(super) struct Hops {
    /// Hops by place.
    by_place: BTreeMap<LinkAddr, LinkAddr>,
    all: BTreeSet<LinkAddr>,
}

impl Hops {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The hop of a place.
    pub fn of(&self, place: LinkAddr) -> Option<LinkAddr> {
        self.by_place.get(&place).copied()
    }

    fn contains(&self, addr: LinkAddr) -> bool {
        let before = self.all.range(..=addr).next_back();
        before.is_some_and(|hop| addr < *hop + PATCH)
    }
}

/// Old code that has room for hops, and what of it is left.
pub(super) struct Room(BTreeMap<LinkAddr, LinkAddr>);

impl Room {
    /// A hop that a jump at `place` reaches.
    fn take(&mut self, place: LinkAddr) -> Option<LinkAddr> {
        let end = place + SHORT;
        let low = LinkAddr(end.0.saturating_sub(BACK));
        let high = end + AHEAD;
        let first = self.0.range(..=low).next_back().map_or(low, |(at, _)| *at);
        let mut ranges = self.0.range(first..=high);
        let (at, hop, to) = ranges.find_map(|(&from, &to)| {
            let hop = from.max(low);
            (hop <= high && hop + PATCH <= to).then_some((from, hop, to))
        })?;
        self.0.remove(&at);
        for (from, to) in [(at, hop), (hop + PATCH, to)] {
            if to - from >= PATCH {
                self.0.insert(from, to);
            }
        }
        Some(hop)
    }
}

impl Mover<'_> {
    /// Bytes of the jump at a place.
    pub(super) fn width(&self, place: LinkAddr) -> u64 {
        match self.hops.of(place) {
            Some(_) => SHORT,
            None => PATCH,
        }
    }

    /// Whether an old address is within a jump, or a hop, behind its first byte if `is_inside`.
    pub(super) fn is_patched(&self, addr: LinkAddr, is_inside: bool) -> bool {
        let from = u64::from(is_inside);
        let before = |range: std::ops::RangeToInclusive<LinkAddr>| {
            let place = self.patches.range(range).next_back();
            place.is_some_and(|(&place, _)| {
                (place + from..place + self.width(place)).contains(&addr)
            })
        };
        before(..=addr) || self.hops.contains(addr)
    }

    /// Gives each of these places a hop; those without, as there is no room near them.
    pub(super) fn find_hops(
        &mut self,
        short: &[LinkAddr],
        patches: &BTreeMap<LinkAddr, usize>,
        references: &References,
    ) -> Vec<LinkAddr> {
        self.hops = Hops::default();
        if short.is_empty() {
            return Vec::new();
        }
        let mut room = self.room(short, patches, references);
        let mut without = Vec::new();
        for &place in short {
            match room.take(place) {
                Some(hop) => {
                    self.hops.by_place.insert(place, hop);
                    self.hops.all.insert(hop);
                }
                None => without.push(place),
            }
        }
        without
    }

    /// Old code near `short` places in which hops may be.
    fn room(
        &self,
        short: &[LinkAddr],
        patches: &BTreeMap<LinkAddr, usize>,
        references: &References,
    ) -> Room {
        let pointers = references.pointers.iter().chain(&references.taken);
        let inside = pointers.filter(|addr| !patches.contains_key(addr));
        let addresses = inside.chain(&references.read).copied();
        let exits = self
            .moved
            .keys()
            .flat_map(|number| &self.ways[number].exits);
        let exits = exits.copied();
        let exits = exits.filter(|exit| !patches.contains_key(exit));
        let live: HashSet<usize> = addresses
            .chain(exits)
            .filter_map(|addr| self.number_at(addr))
            .collect();
        let is_short: HashSet<LinkAddr> = short.iter().copied().collect();
        // The end of the last jump before an address.
        let patched_to = |addr: LinkAddr| {
            let before = patches.range(..addr).next_back();
            before.map_or(LinkAddr(0), |(&place, _)| match is_short.contains(&place) {
                true => place + SHORT,
                false => place + PATCH,
            })
        };
        let mut room = BTreeMap::new();
        let mut add = |code: Range<LinkAddr>| {
            if code.end >= code.start + PATCH {
                room.insert(code.start, code.end);
            }
        };
        for number in self.near(short) {
            for range in &self.program.functions[number].ranges {
                let (end, next) = (range.end, self.next_owned(range.end));
                if next - end >= PATCH && next - end <= BACK && self.is_padding(end, next) {
                    add(patched_to(next).max(end)..next);
                }
            }
            let Some(moved) = self.moved.get(&number).filter(|_| !live.contains(&number)) else {
                continue;
            };
            let mut all: Vec<Range<LinkAddr>> = moved.old_code().collect();
            all.sort_unstable_by_key(|insn| insn.start);
            let mut run = LinkAddr(0)..LinkAddr(0);
            for insn in all {
                let from = patched_to(insn.end).clamp(insn.start, insn.end);
                if from != run.end {
                    add(std::mem::replace(&mut run, from..from));
                }
                run.end = insn.end;
            }
            add(run);
        }
        Room(room)
    }

    /// Functions with code that jumps at these places reach.
    fn near(&self, places: &[LinkAddr]) -> BTreeSet<usize> {
        let owners = places.iter().flat_map(|&place| {
            let from = self
                .owners
                .partition_point(|(_, end, _)| *end + 2 * BACK <= place);
            let owners = self.owners[from..].iter();
            owners.take_while(move |(start, ..)| *start <= place + AHEAD)
        });
        owners.map(|&(.., number)| number).collect()
    }

    /// First address behind another one at which a function begins.
    fn next_owned(&self, addr: LinkAddr) -> LinkAddr {
        let next = self.owners.partition_point(|(start, ..)| *start < addr);
        self.owners.get(next).map_or(addr, |(start, ..)| *start)
    }
}
