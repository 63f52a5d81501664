//! Edges of indirect jumps, calls and returns, for `count`.
//!
//! Problem: how often each of them went to each target, exactly, at the price of how often
//! it was executed.
//!
//! Approach: who comes to a landing pad is told by the pad. Each such branch is a *site*
//! with a key of its own, by which it looks further on in the table than others
//! (`indirect`); so no two sites find one target in the same slot, and a pad that checks
//! its target is the pad of one pair. It counts in the pair's slot, and the site counts
//! nothing: its executions are the sum over its pairs.
//!
//! ```text
//!  site:  ...;  mov gs:[site], number;  edx = 16 bits of target;  jmp [table + key*8 + rdx*8]
//!  pad:   is it the target?  mov rdx, gs:[slot];  lea;  mov;  restores;  jmp block
//! ```
//!
//! A site that predicts its target counts in that pair's slot itself (`usual`). The engine, which
//! a pair comes to for the first time, finds the site in the thread's context and counts.
//!
//! Invariants:
//! - a site has the same number in whatever code its fragment has, so a pad is right as long
//!   as its target's block is;
//! - keys are the low bits of numbers; numbers with other high bits have other tables.
//!
//! Limits: without room for a pair, where the branch went is lost, and not that it was
//! executed; the pool's `denied` says so.

use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use core::mem::offset_of;

use agent::thread::ThreadContext;
use hashbrown::HashMap;
use isa::{Asm, Reg};
use wire::log;

use super::{add_one, displacement};
use crate::block::{Arrival, BlockId, PcHasher};
use crate::counting::Compensation;
use crate::engine::Engine;

const SITE: i32 = offset_of!(ThreadContext, site) as i32;
/// Keys of a table.
pub const KEYS: u32 = 1 << 14;

/// Bytes that a site adds to a look-up.
pub const SITE_BYTES: u64 = 12;
/// Bytes of [`emit_count`].
pub const COUNT_BYTES: u64 = 9 + 7 + 9;

/// An indirect branch at the end of a fragment, by number; 0: it counts its executions
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site(u32);

impl Site {
    const NONE: Site = Site(0);

    /// Whose tables those come by who arrive like that, in code that is not traced; one
    /// for all of them.
    pub fn of_arrivals(arrival: Arrival) -> Option<Site> {
        match arrival {
            Arrival::Outside => Some(Site(KEYS)),
            Arrival::Skipped => Some(Site(2 * KEYS)),
            Arrival::CountReached => Some(Site(3 * KEYS)),
            Arrival::Far => Some(Site(4 * KEYS)),
            _ => None,
        }
    }

    /// By how many slots it looks further on.
    pub fn key(self) -> u32 {
        self.0 % KEYS
    }

    /// Which tables it has.
    pub fn set(self) -> usize {
        (self.0 / KEYS) as usize
    }

    pub fn is_counted(self) -> bool {
        self.key() != 0
    }

    /// Says who comes.
    pub fn emit(self, asm: &mut Asm<'_>) {
        if self.is_counted() || self == Site::NONE {
            asm.mov_gs_imm32(SITE, self.0);
        }
    }
}

/// Counts in a slot; rdx is free.
pub fn emit_count(asm: &mut Asm<'_>, slot: u32) {
    let word = displacement(slot);
    asm.mov_r_gs(Reg::Rdx, word);
    asm.lea(Reg::Rdx, Reg::Rdx, 1);
    asm.mov_gs_r(word, Reg::Rdx);
}

#[derive(Clone, Copy, Debug)]
struct Known {
    fragment: u32,
    /// Counts executions that went nobody knows where.
    slot: u32,
    call: bool,
    /// The newest of its pairs, as a number from 1 on; 0: none.
    newest: u32,
}

/// Target of a site, and its counter.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub target: u64,
    pub slot: u32,
    /// The one before, 0: none.
    before: u32,
}

/// Sites and pairs of a process.
#[derive(Debug, Default)]
pub struct Jumps {
    /// By number; those with key 0 are none.
    sites: Vec<Known>,
    of_fragment: HashMap<u32, Site, BuildHasherDefault<PcHasher>>,
    pairs: Vec<Pair>,
    /// The slot of each pair.
    slots: HashMap<(Site, u64), u32, BuildHasherDefault<PcHasher>>,
    /// Owner of the landing pad, for blocks that have one.
    pads: HashMap<u32, Site, BuildHasherDefault<PcHasher>>,
    /// Sites that went to an address.
    comers: HashMap<u64, Vec<Site>, BuildHasherDefault<PcHasher>>,
}

impl Jumps {
    pub fn site_of(&self, fragment: u32) -> Option<Site> {
        self.of_fragment.get(&fragment).copied()
    }

    /// Targets of `site` so far.
    pub fn pairs_of(&self, site: Site) -> impl Iterator<Item = Pair> {
        let mut at = self
            .sites
            .get(site.0 as usize)
            .map_or(0, |site| site.newest);
        core::iter::from_fn(move || {
            let pair = *self.pairs.get(at.checked_sub(1)? as usize)?;
            at = pair.before;
            Some(pair)
        })
    }
}

impl Engine {
    /// The site that ends block `id`, `None` if where branches go is not counted, and what
    /// is left of what it owes.
    pub fn site(
        &mut self,
        id: BlockId,
        compensation: Option<Compensation>,
        call: bool,
    ) -> (Option<Site>, Option<Compensation>) {
        let arrival = self.left_from_side(id);
        let Some(edge_counters) = &mut self.edge_counters else {
            return (Site::of_arrivals(arrival), compensation);
        };
        let fragment = edge_counters.fragment_of(id);
        let Some(word) = compensation
            .and_then(Compensation::word)
            .filter(|_| fragment != 0)
        else {
            return (Some(Site::NONE), compensation);
        };
        if let Some(&site) = edge_counters.jumps.of_fragment.get(&fragment) {
            return (Some(site), None);
        }
        let known = Known {
            fragment,
            slot: ((word - displacement(0)) / 8) as u32,
            call,
            newest: 0,
        };
        let sites = &mut edge_counters.jumps.sites;
        let number = sites.len() as u32;
        if number.is_multiple_of(KEYS) {
            if !self.tables.add_set((number / KEYS) as usize) {
                return (Some(Site::NONE), compensation);
            }
            sites.push(known);
        }
        let site = Site(sites.len() as u32);
        sites.push(known);
        edge_counters.jumps.of_fragment.insert(fragment, site);
        (Some(site), None)
    }

    /// The slot of a pair, new or known.
    pub fn jump_slot(&mut self, site: Site, target: u64) -> u32 {
        let Some(edge_counters) = &self.edge_counters else {
            return 0;
        };
        if let Some(&slot) = edge_counters.jumps.slots.get(&(site, target)) {
            return slot;
        }
        let known = edge_counters.jumps.sites[site.0 as usize];
        let new = self.take_slots(1).and_then(|slot| {
            let jump = log::Jump {
                slot,
                pc: target,
                fragment: known.fragment,
                reserved: 0,
            };
            self.process.log.jump(jump).map(|()| slot as u32)
        });
        let slot = new.unwrap_or(known.slot);
        if let Some(edge_counters) = &mut self.edge_counters {
            let jumps = &mut edge_counters.jumps;
            jumps.slots.insert((site, target), slot);
            jumps.comers.entry(target).or_default().push(site);
            if new.is_some() {
                let before = known.newest;
                jumps.pairs.push(Pair {
                    target,
                    slot,
                    before,
                });
                jumps.sites[site.0 as usize].newest = jumps.pairs.len() as u32;
            }
        }
        slot
    }

    /// The branch that led to the engine went to `target`. Which it was; `None`: that is
    /// not counted.
    pub fn count_jump(&mut self, context: &mut ThreadContext, target: u64) -> Option<Site> {
        self.edge_counters.as_ref()?;
        let site = Site(context.site);
        if site.is_counted() {
            // Its pad is made next.
            if self.cache.is_full() {
                self.next_segment();
            }
            let slot = self.jump_slot(site, target);
            add_one(context, slot);
        }
        Some(site)
    }

    /// The pad in front of a new block counts for this site.
    pub fn keep_pad_of(&mut self, id: BlockId, site: Site) {
        if let Some(edge_counters) = &mut self.edge_counters {
            edge_counters.jumps.pads.insert(id.0, site);
        }
    }

    pub fn has_pad_of(&self, id: BlockId, site: Site) -> bool {
        let edge_counters = self.edge_counters.as_ref();
        edge_counters
            .is_some_and(|edge_counters| edge_counters.jumps.pads.get(&id.0) == Some(&site))
    }

    pub fn forget_pad_of(&mut self, id: BlockId) {
        if let Some(edge_counters) = &mut self.edge_counters {
            edge_counters.jumps.pads.remove(&id.0);
        }
    }

    /// The slots of tables in which pads of pairs with this target are.
    pub fn slots_of_comers(&mut self, target: u64) -> Vec<usize> {
        let Some(edge_counters) = &self.edge_counters else {
            return Vec::new();
        };
        let jumps = &edge_counters.jumps;
        let comers = jumps.comers.get(&target).into_iter().flatten();
        comers
            .map(|&site| {
                let call = jumps.sites[site.0 as usize].call;
                self.tables.of(target, call, Some(site))
            })
            .collect()
    }
}
