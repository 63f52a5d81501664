//! Indirect branches: two tables shared by all threads, verified where they land.
//!
//! ```text
//!  site:  spill rcx, rdx;  rcx = target;  edx = 16 bits of it;  jmp [table + rdx*8]
//!  pad:   rdx = -tag;  rcx += rdx;  jrcxz hit;  jmp miss;  hit: restore rcx, rdx
//! ```
//!
//! ```text
//!  site:  spill rcx, rdx;  rcx = target;  rdx = -guess;  rcx += rdx;  jrcxz hit;  jmp other
//!  hit:   restore rcx, rdx;  jmp to the guess             other (cold): the site above
//! ```
//!
//! Predicted targets are the subject of `prediction` and `edge_counters::profile`. No flags are
//! touched. Returns and jumps index by the low 16 bits of the target, calls (aligned functions) by
//! bits 4 to 19 if the machine has `rorx`. An empty slot holds the engine's miss routine. Two
//! targets with one index are chained: the first pad's miss branch goes to a check for the second.
//!
//! When edges are counted, every site has slots of its own, with landing pads that
//! count (`edge_counters::indirect`).
//!
//! The tables lie below 2 GB, so that one `jmp` can address them without a base
//! register. Entries are aligned words; a reader sees an old or a new one, and
//! both are right because the pad verifies.

use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use isa::asm::Short;
use isa::{Asm, Flow, Insn, Reg};
use wire::stream::TargetNumber;

use crate::block::{Arrival, BlockId, ExitKind, Key, Pad, PcHasher};
use crate::counting::Compensation;
use crate::edge_counters::{self, Site};
use crate::engine::Engine;
use crate::entry::Routine;
use crate::pcmap::Recipe;
use crate::slab::Slab;
use crate::streams;
use crate::translate::Emit;

const SLOTS: u64 = 1 << 16;
const HUGE_PAGE: u64 = 2 << 20;
/// Bytes of the spills of rcx and rdx, with which an event begins: who has
/// spilled them already goes on behind them.
pub const RCX_RDX_SPILLS: u64 = 18;

/// Bytes of a landing pad: `mov rdx, imm64; lea; jrcxz; jmp; 2 restores`, padding included.
pub const PAD: usize = 10 + 4 + 2 + 4 + 5 + 18;

/// Spill slots of rcx and rdx, as displacements from gs.
pub const SPILL: i32 = core::mem::offset_of!(agent::thread::ThreadContext, spill) as i32;
pub const SPILL_RCX: i32 = SPILL + 8;
pub const SPILL_RDX: i32 = SPILL + 16;
pub const SPILL_OTHER: i32 = SPILL + 24;

/// Most pairs of tables.
const SETS: usize = 32;

#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Pairs of tables, that of jumps before that of calls; 0: not there.
    sets: [u64; SETS],
    /// Slots of a table: one for each index, and one more for each key that is added to it.
    len: u64,
    /// Contents of an empty slot of each table.
    empty: [u64; 2],
    rotate_calls: bool,
}

impl Tables {
    /// `keys`: what branches add to an index is less.
    pub fn new(empty: [u64; 2], rotate_calls: bool, keys: u32) -> Option<Tables> {
        let mut tables = Tables {
            sets: [0; SETS],
            len: SLOTS + u64::from(keys),
            empty,
            rotate_calls,
        };
        tables.add_set(0).then_some(tables)
    }

    /// Adds table pairs up to `sets`.
    pub fn with_sets(mut self, sets: usize) -> Option<Tables> {
        (1..sets).all(|set| self.add_set(set)).then_some(self)
    }

    /// Maps a pair of tables in low memory and fills it with the miss routines, if it is
    /// not there. Whether it is.
    pub fn add_set(&mut self, set: usize) -> bool {
        match self.sets.get(set) {
            None => return false,
            Some(0) => {}
            Some(_) => return true,
        }
        // Odd places that linkers, sanitizers and JITs do not ask for.
        let candidates = (0..64).map(|i| 0x3a60_0000 + i * 0x0060_0000);
        let prot = sys::PROT_READ | sys::PROT_WRITE;
        let bytes = (self.len * 16).next_multiple_of(HUGE_PAGE);
        let Some(jump) = candidates
            .into_iter()
            .find_map(|at| agent::memory::map_at(at, bytes, prot, sys::MAP_FIXED_NOREPLACE))
        else {
            return false;
        };
        self.sets[set] = jump;
        // A huge page, or one call for 256 faults; older kernels do not know it.
        // SAFETY: advice on our own mapping.
        let _ = unsafe {
            let _ = sys::madvise(jump, bytes, sys::MADV_HUGEPAGE);
            sys::madvise(jump, self.len * 16, sys::MADV_POPULATE_WRITE)
        };
        let len = self.len as usize;
        for (table, empty) in self.empty.into_iter().enumerate() {
            // SAFETY: that half of the fresh mapping, which no other thread knows yet.
            let slots = unsafe {
                core::slice::from_raw_parts_mut((jump as *mut u64).add(table * len), len)
            };
            slots.fill(empty);
        }
        true
    }

    /// A slot's word. Those of calls follow those of jumps, those of a set the set before.
    fn word(&self, slot: usize) -> &'static AtomicU64 {
        let pair = 2 * self.len as usize;
        let (set, slot) = (slot / pair, slot % pair);
        let table = self.sets[set];
        assert!(table != 0);
        // SAFETY: a word of our mapping, which is never removed; all access is
        // atomic.
        unsafe { &*((table as *const AtomicU64).add(slot)) }
    }

    /// The slot for a target.
    pub fn of(&self, pc: u64, call: bool, site: Option<Site>) -> usize {
        let bits = if call && self.rotate_calls {
            pc >> 4
        } else {
            pc
        };
        let key = u64::from(site.map_or(0, Site::key));
        let table = 2 * site.map_or(0, Site::set) + usize::from(call);
        ((bits & (SLOTS - 1)) + key + table as u64 * self.len) as usize
    }

    /// Emits the lookup of the target in rcx (rcx, rdx already spilled).
    pub fn emit_lookup(&self, asm: &mut Asm<'_>, call: bool, site: Option<Site>) {
        if let Some(site) = site {
            site.emit(asm);
        }
        if call && self.rotate_calls {
            asm.rorx(Reg::Rdx, Reg::Rcx, 4);
            asm.movzx_r32_r16(Reg::Rdx, Reg::Rdx);
        } else {
            asm.movzx_r32_r16(Reg::Rdx, Reg::Rcx);
        }
        let jump = self.sets[site.map_or(0, Site::set)];
        let first = u64::from(site.map_or(0, Site::key)) + if call { self.len } else { 0 };
        asm.jmp_table(Reg::Rdx, (jump + first * 8) as u32);
    }

    /// Whether a slot is in a table of calls.
    fn is_of_calls(&self, slot: usize) -> bool {
        !(slot / self.len as usize).is_multiple_of(2)
    }
}

/// Emits a pad up to where the target is the right one, rcx and rdx still
/// spilled; returns the displacement address of its miss branch.
pub fn emit_check(asm: &mut Asm<'_>, pc: u64, miss: u64) -> (u64, Short) {
    asm.mov_r_imm(Reg::Rdx, pc.wrapping_neg());
    asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
    let hit = asm.jrcxz();
    asm.align_displacement(1);
    (asm.jmp(miss), hit)
}

/// Emits the pad of the block that follows; for an event, with the spills that
/// it begins with, which the pad jumps over. `went`: what who comes appends. `counted`: the
/// slot that it counts in. Returns the pad and the address of the block.
pub fn emit_pad(
    asm: &mut Asm<'_>,
    key: Key,
    miss: u64,
    went: Option<TargetNumber>,
    counted: Option<u32>,
) -> (Pad, u64) {
    let start = asm.here();
    let (miss, right) = emit_check(asm, key.pc, miss);
    if !key.arrival.is_event() {
        asm.bind(right);
        let hit = asm.here();
        if let Some(went) = went {
            streams::emit_went(asm, went);
        }
        if let Some(slot) = counted {
            edge_counters::emit_count(asm, slot);
        }
        emit_restores(asm);
        return (Pad { start, miss, hit }, asm.here());
    }
    let host = asm.here();
    emit_spills(asm);
    asm.bind(right);
    let hit = asm.here();
    (Pad { start, miss, hit }, host)
}

/// [`RCX_RDX_SPILLS`] bytes.
pub fn emit_spills(asm: &mut Asm<'_>) {
    asm.mov_gs_r(SPILL_RCX, Reg::Rcx);
    asm.mov_gs_r(SPILL_RDX, Reg::Rdx);
}

pub fn emit_restores(asm: &mut Asm<'_>) {
    asm.mov_r_gs(Reg::Rcx, SPILL_RCX);
    asm.mov_r_gs(Reg::Rdx, SPILL_RDX);
}

/// One member of a slot's chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    block: BlockId,
    /// The next member, 0: none.
    next: u32,
    /// Displacement address of the branch taken if this member is not the target.
    miss: u64,
}

/// The chains of both tables' slots. Most have one member, and a large program has
/// a hundred thousand.
#[derive(Debug, Default)]
pub struct Chains {
    /// By slot, first member; members count from 1.
    first: HashMap<u32, u32, BuildHasherDefault<PcHasher>>,
    links: Slab<Link>,
    /// Members that are free, linked.
    free: u32,
}

impl Chains {
    fn first_of(&self, slot: usize) -> u32 {
        self.first.get(&(slot as u32)).copied().unwrap_or(0)
    }

    fn link(&mut self, member: u32) -> &mut Link {
        &mut self.links[member as usize - 1]
    }

    /// The members of a slot's chain, in order.
    fn members(&self, slot: usize) -> impl Iterator<Item = Link> {
        let mut at = self.first_of(slot);
        core::iter::from_fn(move || {
            let link = self.links[at.checked_sub(1)? as usize];
            at = link.next;
            Some(link)
        })
    }

    fn push(&mut self, slot: usize, block: BlockId, miss: u64) {
        let link = Link {
            block,
            next: 0,
            miss,
        };
        let new = self.free;
        let new = if new == 0 {
            self.links.push(link) as u32 + 1
        } else {
            self.free = core::mem::replace(self.link(new), link).next;
            new
        };
        let mut last = self.first_of(slot);
        if last == 0 {
            self.first.insert(slot as u32, new);
            return;
        }
        while self.link(last).next != 0 {
            last = self.link(last).next;
        }
        self.link(last).next = new;
    }

    /// Forgets a chain.
    fn clear(&mut self, slot: usize) {
        let mut at = self.first.remove(&(slot as u32)).unwrap_or(0);
        while at != 0 {
            let free = self.free;
            let next = core::mem::replace(&mut self.link(at).next, free);
            self.free = at;
            at = next;
        }
    }

    pub fn bytes(&self) -> usize {
        self.first.allocation_size() + self.links.bytes()
    }
}

/// Longer chains are cut: the newest target takes the slot.
const MAX_CHAIN: usize = 6;

impl Engine {
    /// rcx: a target. On to it by a table.
    pub fn emit_lookup(&mut self, emit: &mut Emit<'_>, call: bool) {
        let compensation = emit.compensation();
        let (site, compensation) = self.site(emit.id, compensation, call);
        if let Some(compensation) = compensation {
            compensation.emit(&mut emit.asm);
        }
        if !self.emit_usual(emit, call, site) {
            self.tables.emit_lookup(&mut emit.asm, call, site);
        }
    }

    /// Attaches the exit of a stub that is not bound yet, at `site`: the jump is made again, what
    /// came before it is not. `all`: the count with the jump.
    fn attach_unbound(
        &mut self,
        emit: &mut Emit<'_>,
        insn: &Insn,
        site: u64,
        all: Option<Compensation>,
    ) {
        // The block's event, if it has one, has been.
        let arrival = match self.block(emit.id).key().arrival {
            Arrival::Stub => Arrival::Stub,
            _ => Arrival::Inside,
        };
        let pc = insn.pc();
        let kind = ExitKind::Bound(Key { pc, arrival });
        let compensation = match all {
            Some(all) => all.without_last(),
            None => emit.not_executed(),
        };
        let Some(compensation) = compensation else {
            return self.attach(emit.id, site, kind);
        };
        self.attach_way(emit.id, site, kind, compensation.bytes(), |asm| {
            let entry = asm.here();
            compensation.emit(asm);
            entry
        })
    }

    /// Emits the check of a predicted target against rcx, and the way on to `key` if it is right.
    pub fn emit_predicted(&mut self, emit: &mut Emit<'_>, insn: &Insn, key: Key, lazy: bool) {
        let key = self.canonical(key);
        let call = insn.flow() == Flow::IndirectCall;
        let all = emit.compensation();
        let (site, compensation) = self.site(emit.id, all, call);
        let slot = site
            .filter(|site| site.is_counted())
            .map(|site| self.jump_slot(site, key.pc));
        let other = match lazy {
            true => emit.asm.here(),
            false => self.make_other(call, key.pc, compensation, site),
        };
        let (site, right) = emit_check(&mut emit.asm, key.pc, other);
        if lazy {
            self.attach_unbound(emit, insn, site, all);
        }
        emit.asm.bind(right);
        if let Some(compensation) = compensation {
            compensation.emit(&mut emit.asm);
        }
        if let Some(slot) = slot {
            edge_counters::emit_count(&mut emit.asm, slot);
        }
        if emit.pending.is_on()
            && let Some(went) = self.went(key.pc)
        {
            streams::emit_went(&mut emit.asm, went);
        }
        let kind = if key.arrival.is_event() {
            ExitKind::Spilled(key)
        } else {
            emit_restores(&mut emit.asm);
            ExitKind::Direct(key)
        };
        // No boundary: the target may be further away than the map can say.
        let site = self.emit_unlinked_jump(emit);
        emit.cover(false, Recipe::RCX_RDX);
        emit.map.advance(insn.len());
        self.attach(emit.id, site, kind);
    }

    /// Code for a target that is not the guessed one: rcx is their difference.
    pub fn make_other(
        &mut self,
        call: bool,
        guessed: u64,
        compensation: Option<Compensation>,
        site: Option<Site>,
    ) -> u64 {
        const LOOKUP: u64 = 10 + 4 + 6 + 4 + 8 + edge_counters::SITE_BYTES;
        let tables = self.tables;
        let room = LOOKUP + compensation.map_or(0, Compensation::bytes);
        let code = self.cache.cold(room, 1, |asm| {
            asm.mov_r_imm(Reg::Rdx, guessed);
            asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
            if let Some(compensation) = compensation {
                compensation.emit(asm);
            }
            tables.emit_lookup(asm, call, site);
        });
        code.expect("make_room leaves room for a block's predictions")
    }

    fn verify_routine(&self, call: bool) -> u64 {
        self.cache.thunk(if call {
            Routine::VerifyCall
        } else {
            Routine::VerifyJump
        })
    }

    fn empty_routine(&self, call: bool) -> u64 {
        self.cache.thunk(if call {
            Routine::EmptyCall
        } else {
            Routine::EmptyJump
        })
    }

    /// Makes `id` reachable through a table: a pad, and the slot or a place on
    /// the chain of whoever has the slot.
    pub fn publish_indirect(&mut self, id: BlockId, call: bool, site: Option<Site>) {
        if self.block(id).volatile {
            return;
        }
        let pc = self.block(id).key().pc;
        let slot = self.tables.of(pc, call, site);
        let counted = site.filter(|site| site.is_counted());
        let members = self.chains.members(slot);
        let (length, last) = members.fold((0, None), |(length, _), link| (length + 1, Some(link)));
        if self.chains.members(slot).any(|link| link.block == id) {
            return;
        }
        let last = last.filter(|_| length < MAX_CHAIN);
        if last.is_none() {
            self.cut_chain(slot);
        }
        let pad = match counted {
            None => self.ensure_pad(id, call),
            Some(site) if self.has_pad_of(id, site) => self.block(id).pad(call),
            Some(site) => return self.publish_pair(id, site, slot, last),
        };
        let Some(pad) = pad else { return };
        let Some(last) = last else {
            self.chains.push(slot, id, pad.miss);
            self.tables.word(slot).store(pad.start, Ordering::Release);
            return;
        };
        let last_pc = self.block(last.block).key().pc;
        let verify = self.verify_routine(call);
        let mut miss = 0;
        let stub = self.cache.cold(48, 8, |asm| {
            // rcx = target - last_pc, rdx = -last_pc.
            asm.mov_r_imm(Reg::Rdx, last_pc.wrapping_sub(pc));
            asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
            let hit = asm.jrcxz();
            asm.mov_r_imm(Reg::Rdx, pc.wrapping_neg());
            asm.align_displacement(1);
            miss = asm.jmp(verify);
            asm.bind(hit);
            asm.jmp(pad.hit);
        });
        let Some(stub) = stub else { return };
        self.cache.patch(last.miss, stub);
        self.chains.push(slot, id, miss);
    }

    /// Publishes a cold pad, which counts that `site` went to `id`. `last`: the
    /// last one of the slot's chain.
    fn publish_pair(&mut self, id: BlockId, site: Site, slot: usize, last: Option<Link>) {
        const ROOM: u64 = 10 + 4 + 2 + 10 + 3 + 5 + edge_counters::COUNT_BYTES + 18 + 5;
        let (pc, host) = (self.block(id).key().pc, self.block(id).host);
        let last_pc = last.map(|last| self.block(last.block).key().pc);
        let call = self.tables.is_of_calls(slot);
        let (verify, counted) = (self.verify_routine(call), self.jump_slot(site, pc));
        let mut miss = 0;
        let pad = self.cache.cold(ROOM, 8, |asm| {
            let right = match last_pc {
                None => {
                    let right;
                    (miss, right) = emit_check(asm, pc, verify);
                    right
                }
                Some(last_pc) => {
                    // rcx = target - last_pc, rdx = -last_pc.
                    asm.mov_r_imm(Reg::Rdx, last_pc.wrapping_sub(pc));
                    asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
                    let right = asm.jrcxz();
                    asm.mov_r_imm(Reg::Rdx, pc.wrapping_neg());
                    asm.align_displacement(1);
                    miss = asm.jmp(verify);
                    right
                }
            };
            asm.bind(right);
            edge_counters::emit_count(asm, counted);
            emit_restores(asm);
            asm.jmp(host);
        });
        let Some(pad) = pad else { return };
        match last {
            None => self.tables.word(slot).store(pad, Ordering::Release),
            Some(last) => self.cache.patch(last.miss, pad),
        }
        self.chains.push(slot, id, miss);
    }

    /// Empties a slot and lets every member of its chain miss to the engine.
    fn cut_chain(&mut self, slot: usize) {
        let call = self.tables.is_of_calls(slot);
        let (verify, empty) = (self.verify_routine(call), self.empty_routine(call));
        self.tables.word(slot).store(empty, Ordering::Release);
        for link in self.chains.members(slot) {
            self.cache.patch(link.miss, verify);
        }
        self.chains.clear(slot);
    }

    /// Cuts every chain with a pad or check in `range`.
    pub fn cut_chains_through(&mut self, range: &core::ops::Range<u64>) {
        let slots: Vec<u32> = self.chains.first.keys().copied().collect();
        for slot in slots.into_iter().map(|slot| slot as usize) {
            let lies_here = |link: Link| range.contains(&link.miss);
            if self.chains.members(slot).any(lies_here) {
                self.cut_chain(slot);
            }
        }
    }

    /// Takes a dying block out of both tables.
    pub fn unpublish_indirect(&mut self, id: BlockId) {
        let Key { pc, arrival } = self.block(id).key();
        self.forget_pad_of(id);
        for slot in self.slots_of_comers(pc) {
            if self.chains.members(slot).any(|link| link.block == id) {
                self.cut_chain(slot);
            }
        }
        for call in [false, true] {
            if self.block(id).pad(call).is_none() {
                continue;
            }
            let slot = self.tables.of(pc, call, Site::of_arrivals(arrival));
            if self.chains.members(slot).any(|link| link.block == id) {
                self.cut_chain(slot);
            }
        }
    }

    /// The pad of a block for a table: made with the block, or cold.
    fn ensure_pad(&mut self, id: BlockId, call: bool) -> Option<Pad> {
        let block = *self.block(id);
        if let Some(pad) = block.pad(call) {
            return Some(pad);
        }
        let verify = self.verify_routine(call);
        let went = self.went_by(block.key());
        let room = PAD as u64 + 8 + went.map_or(0, |_| streams::WENT_BYTES);
        let (mut miss, mut hit) = (0, 0);
        let start = self.cache.cold(room, 8, |asm| {
            let right;
            (miss, right) = emit_check(asm, block.key().pc, verify);
            asm.bind(right);
            hit = asm.here();
            if block.key().arrival.is_event() {
                asm.jmp(block.host + RCX_RDX_SPILLS);
            } else {
                if let Some(went) = went {
                    streams::emit_went(asm, went);
                }
                emit_restores(asm);
                asm.jmp(block.host);
            }
        })?;
        let pad = Pad { start, miss, hit };
        self.block(id).set_pad(call, pad);
        Some(pad)
    }
}
