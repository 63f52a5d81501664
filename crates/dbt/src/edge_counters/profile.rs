//! Profile of code, for its second translation.
//!
//! # Where an indirect branch mostly goes
//!
//! Problem: each pair of a branch and a target has a landing pad and a place in a table of
//! its own (`jumps`), so a program with many of them waits for its caches, though many a
//! return or call goes nearly always to one place.
//!
//! Approach: code is laid out anew once it is known what runs (`evict`), and then the slots
//! of the pairs say how often each branch went where. One that mostly went to one target
//! compares with it, counts, and goes on by a link:
//!
//! ```text
//!  site:  spills;  rcx = target;  rdx = -usual;  rcx += rdx;  jrcxz hit;  jmp other
//!  hit:   count the pair;  restores;  jmp usual     other (cold): by the table, as ever
//! ```
//!
//! # Which branches hardly ever leave their superblock
//!
//! Instructions before such a branch are counted with those after it, and on its side exit if it
//! leaves after all: an addition less for each pass (`counting`). Events are others then, so it
//! is another fragment, with slots of its own, and both are counted.
//!
//! Invariant: what is counted does not depend on what is guessed.

use alloc::vec::Vec;

use agent::thread::{SLOTS, ThreadContext};
use isa::{Asm, Flow};

use super::Known;
use super::indirect::Site;
use crate::block::{Arrival, ExitKind, Key};
use crate::counting::{Place, Run};
use crate::engine::Engine;
use crate::indirect::{emit_check, emit_restores};
use crate::superblock::Superblock;
use crate::translate::Emit;

/// Executions from which on it is known where a branch goes, and the part of them with one
/// target from which on that is guessed.
const ENOUGH: u64 = 32;
const MOSTLY: (u64, u64) = (3, 4);
/// A branch that leaves not more than once in so many times hardly ever does.
const RARELY: u64 = 16;
/// Most threads whose counts are looked at.
const THREADS: usize = 4;

/// Branches of a superblock that hardly ever leave it, by index of the instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rare(u128);

impl Rare {
    pub const NONE: Rare = Rare(0);

    pub fn has(self, branch: usize) -> bool {
        branch < 128 && self.0 >> branch & 1 == 1
    }

    /// Adds a branch; branches beyond the capacity are dropped.
    pub fn add(&mut self, branch: usize) {
        if branch < 128 {
            self.0 |= 1 << branch;
        }
    }
}

/// Count of the thread in a slot so far.
fn counted(context: *const ThreadContext, slot: u32) -> u64 {
    let word = (context as u64 + SLOTS as u64 + 8 * u64::from(slot)) as *const u64;
    // SAFETY: a slot that was handed out is backed in every thread that runs in the cache;
    // the thread may write the aligned word meanwhile, and an old number does as well.
    unsafe { word.read_volatile() }
}

impl Engine {
    /// Sum of the first threads' counts in a slot.
    fn counted_so_far(&self, slot: u32) -> u64 {
        let threads = self.threads.iter().take(THREADS);
        threads.map(|&thread| counted(thread, slot)).sum()
    }

    /// Executions that say enough. Chaos tries what is rare otherwise.
    fn enough(&self) -> u64 {
        match self.settings.chaos {
            0 => ENOUGH,
            _ => 2,
        }
    }

    /// Branches that hardly ever left `source`, whose fragment is `known` if no branch
    /// is taken for rare.
    pub(super) fn rare_branches(&self, source: &Superblock, known: Known) -> Rare {
        let mut rare = Rare::NONE;
        // The runs: end, whether it is counted by itself, executions.
        let mut runs: Vec<(usize, bool, u64)> = Vec::new();
        let mut first = 0;
        while first < source.insns.len() {
            let run = Run::plan(&source.insns, first, 0, true, Rare::NONE);
            let slot = known.first_slot + runs.len() as u32;
            let is_own = matches!(run.place, Place::Add(_));
            runs.push((run.end, is_own, self.counted_so_far(slot)));
            first = run.end;
        }
        if let Some((.., last)) = runs.last_mut() {
            *last += self.jumped(known.id);
        }
        for at in (1..runs.len()).rev() {
            let behind = runs[at].2;
            let (end, is_own, executed) = &mut runs[at - 1];
            if !*is_own {
                // Counted with the next one, or all by itself: no less than that.
                *executed = behind.max(*executed);
                continue;
            }
            let branch = *end - 1;
            let leaves = executed.saturating_sub(behind);
            let is_cond = matches!(source.insns[branch].flow(), Flow::Cond(..));
            if is_cond && *executed >= self.enough() && leaves * RARELY <= *executed {
                rare.add(branch);
            }
        }
        rare
    }

    /// How often the indirect branch of a fragment went somewhere.
    fn jumped(&self, fragment: u32) -> u64 {
        let jumps = self
            .edge_counters
            .as_ref()
            .map(|edge_counters| &edge_counters.jumps);
        let site = jumps.and_then(|jumps| Some((jumps, jumps.site_of(fragment)?)));
        site.map_or(0, |(jumps, site)| {
            let pairs = jumps.pairs_of(site);
            pairs.map(|pair| self.counted_so_far(pair.slot)).sum()
        })
    }

    /// The target that `site` mostly goes to, and the slot of that pair.
    fn usual_target(&self, site: Site) -> Option<(u64, u32)> {
        let jumps = &self.edge_counters.as_ref()?.jumps;
        let (mut all, mut most) = (0u64, (0, 0, 0));
        for pair in jumps.pairs_of(site) {
            let count = self.counted_so_far(pair.slot);
            all += count;
            if count > most.0 {
                most = (count, pair.target, pair.slot);
            }
        }
        let (count, target, slot) = most;
        let is_usual = all >= self.enough() && count * MOSTLY.1 >= all * MOSTLY.0;
        (is_usual && self.process.regions.find(target).is_some()).then_some((target, slot))
    }

    /// rcx: the target of `site`. On to the usual one by a link, to others by the table;
    /// `false`: there is none.
    pub fn emit_usual(&mut self, emit: &mut Emit<'_>, call: bool, site: Option<Site>) -> bool {
        let counted = site.filter(|site| site.is_counted());
        let usual = counted.and_then(|site| self.usual_target(site));
        let Some((target, slot)) = usual else {
            return false;
        };
        let other = self.make_other(call, target, None, site);
        let asm: &mut Asm<'_> = &mut emit.asm;
        let (_, right) = emit_check(asm, target, other);
        asm.bind(right);
        super::emit_count(asm, slot);
        emit_restores(asm);
        let key = Key {
            pc: target,
            arrival: Arrival::Inside,
        };
        let link = self.emit_unlinked_jump(emit);
        self.attach(emit.id, link, ExitKind::Direct(key));
        true
    }
}
