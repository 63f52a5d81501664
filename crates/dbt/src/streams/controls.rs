//! Selection of the code that is traced, and from when to when.
//!
//! Problem: of a program that runs for long, some code or some time is of interest. That is
//! recorded exactly, and the rest runs as if it were only translated.
//!
//! Approach: a superblock is of code that is traced, or of other code, which appends
//! nothing. Where control goes from one to the other, it comes to a block that says so first:
//!
//! | from | to | its block begins with |
//! |---|---|---|
//! | traced | other | `AT pc` in all lanes; the thread is in a gap |
//! | other | traced | `TO why pc` in all lanes; the gap is over |
//! | the same | the same | nothing |
//!
//! The origin of control is part of a block's key ([`Arrival::Inside`] and
//! [`Arrival::Outside`]); so links are never between blocks that do not fit, and
//! indirect branches of code that is not traced have tables of their own. Where the engine leads a
//! thread on, it writes that itself ([`Engine::enter`]).
//!
//! Tracing begins and ends at calls: a function's first instruction then is a block with
//! nothing but a way to the engine, which counts. When it begins or ends, all blocks are
//! severed; threads leave those that they are in at their ends, and come to new ones, of which
//! the table above is true.
//!
//! Invariants:
//! - in a gap nothing is appended, and a gap begins and ends at exact addresses;
//! - a signal comes before a call is counted or when its function begins, not in between.
//!
//! Limits: code is selected by the addresses that tables of files know, so code that belongs
//! to no file is not. Threads that do not call the function themselves begin and end at
//! the end of the superblock they are in.

use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use agent::loader::Code;
use agent::syscalls::Process;
use agent::thread::{ThreadContext, reg};
use isa::Reg;
use wire::stream::{TargetNumber, escape, why};
use wire::view::Pool;
use wire::{FuncTable, Mode, flag, func};

use super::requests::Requests;
use super::{append_escape, may_come_back, skip_count, spilled};
use crate::accesses;
use crate::block::{Arrival, BlockId, Key};
use crate::contexts::extent;
use crate::engine::Engine;
use crate::pcmap::Recipe;
use crate::superblock::Superblock;
use crate::translate::Emit;

const GAP: i32 = core::mem::offset_of!(ThreadContext, stream_gap) as i32;

/// The call of a function at which something happens.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// How its table marks the function.
    mark: u32,
    left: u64,
}

impl Call {
    fn of(mark: u32, number: u64) -> Call {
        let left = number.max(1);
        Call { mark, left }
    }

    /// A function with these marks is called. Whether that is the one.
    fn count(&mut self, marks: u32) -> bool {
        if marks & self.mark == 0 || self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.left == 0
    }
}

/// Selection of the traced code.
#[derive(Debug)]
pub struct Controls {
    /// By tables, and there by whole files.
    select: bool,
    by_module: bool,
    /// Only this code.
    own: Option<Vec<Range<u64>>>,
    start: Option<Call>,
    stop: Option<Call>,
    /// The last request from outside.
    pub(super) requests: Option<Requests>,
    /// Instructions of each thread that are not traced first, and those that are then; 0: all.
    pub(super) skip: u64,
    pub(super) count: u64,
    /// All threads have these numbers together.
    pub(super) together: bool,
    /// The superblock that is made next has no more instructions.
    pub(super) most_insns: Option<usize>,
    /// The code that was asked for last, and whether it is selected.
    last: Cell<(u64, u64, bool)>,
}

impl Controls {
    /// `None`: everything is.
    pub fn new(pool: &Pool, executable: &[Code]) -> Option<Controls> {
        let config = &pool.header().config;
        let flags = config.flags.load(Relaxed);
        let has = |bit| flags & bit != 0;
        let any = flag::OF_TABLES | flag::OWN_CODE | flag::BY_REQUEST;
        let (skip, count) = (config.skip.load(Relaxed), config.count.load(Relaxed));
        let any = has(any) || skip != 0 || count != 0;
        if config.mode.load(Relaxed) != Mode::Trace as u32 || !any {
            return None;
        }
        let call = |bit, mark, number| has(bit).then(|| Call::of(mark, number));
        let own = executable.iter().map(|code| code.start..code.end);
        Some(Controls {
            select: has(flag::SELECT),
            by_module: has(flag::BY_MODULE),
            own: has(flag::OWN_CODE).then(|| own.collect()),
            start: call(
                flag::START_FUNC,
                func::START,
                config.start_call.load(Relaxed),
            ),
            stop: call(flag::STOP_FUNC, func::STOP, config.stop_call.load(Relaxed)),
            requests: has(flag::BY_REQUEST).then(|| Requests::new(pool)),
            skip,
            count,
            together: has(flag::TOGETHER),
            most_insns: None,
            last: Cell::new((0, 0, false)),
        })
    }

    pub fn wants_tables(&self) -> bool {
        self.select || self.marks() != 0
    }

    /// How many pairs of tables for indirect branches there are.
    pub fn table_sets(&self) -> usize {
        match self.skip != 0 || self.count != 0 {
            true => 5,
            false => 2,
        }
    }

    /// How functions are marked whose calls are of interest.
    fn marks(&self) -> u32 {
        let calls = [self.start, self.stop].into_iter().flatten();
        let open = calls.filter(|call| call.left > 0);
        open.fold(0, |marks, call| marks | call.mark)
    }

    fn is_on(&self) -> bool {
        self.requests.as_ref().is_none_or(Requests::is_on)
            && self.start.is_none_or(|call| call.left == 0)
            && self.stop.is_none_or(|call| call.left > 0)
    }

    /// Whether some code is not traced while other code is.
    pub(super) fn is_partial(&self) -> bool {
        self.select || self.own.is_some()
    }

    /// Why what is executed now and not traced is not.
    fn why(&self) -> u8 {
        match self.is_on() {
            true => why::UNSELECTED,
            false => why::OFF,
        }
    }

    fn selects(&self, pc: u64, process: &Process) -> bool {
        let (from, to, selected) = self.last.get();
        if (from..to).contains(&pc) {
            return selected;
        }
        let Some(region) = process.regions.find(pc) else {
            return false;
        };
        let own = self.own.as_ref().is_none_or(|own| {
            let mut own = own.iter();
            own.any(|own| own.contains(&pc))
        });
        let (range, selected) = match own && self.select {
            false => (region.start..region.end, own),
            true if self.by_module => {
                let table = || {
                    let table = *process
                        .regions
                        .tables
                        .get(region.table.checked_sub(1)? as usize)?;
                    process.log.pool.at::<FuncTable>(table)
                };
                let covered = table().is_some_and(|table| table.covered.load(Relaxed) != 0);
                (region.start..region.end, covered)
            }
            true => match extent(pc, process) {
                Some((entry, at)) => {
                    let start = pc.wrapping_sub(at - entry.start).max(region.start);
                    let end = pc.saturating_add(entry.end - at).min(region.end);
                    (start..end, entry.flags & func::SELECTED != 0)
                }
                None => (pc..pc, false),
            },
        };
        self.last.set((range.start, range.end, selected));
        selected
    }
}

impl Engine {
    pub(super) fn controls(&self) -> Option<&Controls> {
        self.streams.as_ref()?.controls.as_ref()
    }

    /// Whether what is executed at `pc` now is traced.
    pub fn traces(&self, pc: u64) -> bool {
        self.streams.is_some()
            && self
                .controls()
                .is_none_or(|controls| controls.is_on() && controls.selects(pc, &self.process))
    }

    /// Other code may be mapped where some was.
    pub fn forget_selection(&self) {
        if let Some(controls) = self.controls() {
            controls.last.set((0, 0, false));
        }
    }

    /// The marks of the function that begins at `pc`, if its calls are counted.
    fn marks_at(&self, pc: u64) -> u32 {
        let marks = self.controls().map_or(0, Controls::marks);
        if marks == 0 {
            return 0;
        }
        let begins = extent(pc, &self.process)
            .filter(|(entry, at)| entry.start == *at && entry.flags & func::ENTRY != 0);
        begins.map_or(0, |(entry, _)| entry.flags & marks)
    }

    /// Whether who comes there in this way is to be counted first.
    pub fn counts_call(&self, key: Key) -> bool {
        !key.arrival.is_off() && key.arrival != Arrival::Middle && self.marks_at(key.pc) != 0
    }

    /// How control arrives that goes from `from` to `to` without a call.
    pub fn arrive_in_trace(&self, from: u64, to: u64) -> Key {
        let arrival = match self.marks_at(to) {
            0 => Arrival::Inside,
            _ => {
                let owner = |pc| extent(pc, &self.process).map(|(entry, _)| entry.owner);
                let region = |pc| self.process.regions.find(pc).map(|region| region.table);
                // A loop of the function itself is no call of it.
                match (owner(from), region(from)) == (owner(to), region(to)) {
                    true => Arrival::Middle,
                    false => Arrival::Jump,
                }
            }
        };
        Key { pc: to, arrival }
    }

    /// Key without the differences that do not matter outside of contexts.
    pub fn canonical_in_trace(&self, key: Key) -> Key {
        let keeps =
            key.arrival.is_off() || matches!(key.arrival, Arrival::Outside | Arrival::Middle);
        let arrival = match keeps && self.controls().is_some() {
            true => key.arrival,
            false => Arrival::Inside,
        };
        Key { arrival, ..key }
    }

    /// Arrival of a thread that leaves a block by a side exit.
    pub fn left_from_side(&self, block: BlockId) -> Arrival {
        let key = self.blocks[block.0 as usize].key();
        match key.arrival {
            off if off.is_off() => off,
            _ if self.controls().is_some() && !self.traces(key.pc) => Arrival::Outside,
            _ => Arrival::Inside,
        }
    }

    /// How who leaves a block arrives.
    pub fn left_from(&self, block: BlockId, key: Key) -> Key {
        if self.controls().is_none() {
            return key;
        }
        let arrival = match self.left_from_side(block) {
            Arrival::Inside | Arrival::Outside if key.arrival == Arrival::Middle => Arrival::Middle,
            side => side,
        };
        Key { arrival, ..key }
    }

    /// Key of a thread that leaves its last block.
    pub fn left_from_stream(&self, context: &ThreadContext, key: Key) -> Key {
        let arrival = match (skip_count::arrival(context), context.stream_gap) {
            (Some(off), _) => off,
            (None, 0) => key.arrival,
            (None, _) => Arrival::Outside,
        };
        Key { arrival, ..key }
    }

    /// As [`Engine::left_from`], where a superblock that begins with `start` goes on.
    pub fn goes_on(&self, start: Key, traced: bool, key: Key) -> Key {
        let arrival = match start.arrival {
            off if off.is_off() => off,
            _ if self.controls().is_some() && !traced => Arrival::Outside,
            _ => key.arrival,
        };
        Key { arrival, ..key }
    }

    /// Append at a landing pad, if arrivals by this key are traced.
    pub fn went_by(&mut self, key: Key) -> Option<TargetNumber> {
        match key.arrival {
            Arrival::Outside => None,
            off if off.is_off() => None,
            _ => self.went(key.pc),
        }
    }

    /// Says whether what the thread executes from here on is traced. The block at which it
    /// goes on.
    pub fn enter(&mut self, context: &mut ThreadContext, key: Key) -> Key {
        self.heed();
        let Some(controls) = self.controls() else {
            return key;
        };
        let why = controls.why();
        if let Some(arrival) = skip_count::arrival(context) {
            self.cross(context, key.pc, false, why::OFF);
            return Key { arrival, ..key };
        }
        let counts = self.marks_at(key.pc) != 0;
        if counts && matches!(key.arrival, Arrival::Call | Arrival::Jump) {
            return self.left_from_stream(context, key);
        }
        let traced = self.traces(key.pc);
        self.cross(context, key.pc, traced, why);
        let arrival = match (counts, traced) {
            (true, _) => Arrival::Middle,
            (false, true) => Arrival::Inside,
            (false, false) => Arrival::Outside,
        };
        Key { arrival, ..key }
    }

    /// Begins or ends tracing at `pc`, for that reason.
    fn cross(&mut self, context: &mut ThreadContext, pc: u64, traced: bool, why: u8) {
        match (traced, context.stream_gap as u8) {
            (true, 0) => {}
            (true, why) => {
                context.stream_gap = 0;
                self.append_escape(context, escape::TO, Some(why), pc);
                self.follow_stack(context, context.regs[reg::RSP]);
            }
            (false, gap) => {
                if gap == 0 {
                    self.append_escape(context, escape::AT, None, pc);
                    self.follow_stack(context, context.regs[reg::RSP]);
                }
                context.stream_gap = why.into();
            }
        }
    }

    /// The thread comes to the engine. If tracing has begun since it ended for it,
    /// says so; the block at which it goes on then.
    pub fn meet(&mut self, context: &mut ThreadContext, key: Key) -> Option<Key> {
        self.heed();
        let off =
            context.stream_gap == why::OFF.into() && context.stream_phase == skip_count::TRACING;
        self.controls().filter(|controls| off && controls.is_on())?;
        let arrival = match key.arrival {
            Arrival::Middle => Arrival::Middle,
            _ => Arrival::Jump,
        };
        Some(self.enter(context, Key { arrival, ..key }))
    }

    /// The function at `pc` is called.
    pub fn called(&mut self, pc: u64) {
        let marks = self.marks_at(pc);
        let streams = self.streams.as_mut();
        let Some(controls) = streams.and_then(|streams| streams.controls.as_mut()) else {
            return;
        };
        let calls = [&mut controls.start, &mut controls.stop].into_iter();
        let reached = calls.flatten().map(|call| call.count(marks));
        if reached.fold(false, |any, reached| any | reached) {
            self.sever_all();
        }
    }

    /// Severs all links, because the selection has changed.
    pub(super) fn sever_all(&mut self) {
        let all = self.blocks.iter().enumerate();
        let alive = all.filter(|(_, block)| !block.dead);
        let alive: Vec<u32> = alive.map(|(id, _)| id as u32).collect();
        for id in alive {
            self.sever(BlockId(id));
        }
    }

    /// Emits the beginning of a block, before its first instruction.
    pub fn emit_beginning(
        &mut self,
        emit: &mut Emit<'_>,
        source: &Superblock,
        key: Key,
        fragment: u32,
    ) {
        if let Some(controls) = self.controls().filter(|_| !self.counts_call(key)) {
            match (key.arrival, emit.pending.is_on()) {
                (Arrival::Inside, false) => {
                    let why = controls.why();
                    emit.end_stretch(key.pc, why, self.follows_stack());
                }
                (Arrival::Outside, true) => emit.begin_stretch(key.pc, self.follows_stack()),
                _ => {}
            }
        }
        if !emit.pending.is_on() && may_come_back(source) {
            self.emit_poll(emit);
        }
        if source.counted && !source.insns.is_empty() {
            self.emit_count(emit, key, source.insns.len());
        }
        if fragment != 0 {
            emit.begin_fragment(fragment);
        }
    }
}

impl Emit<'_> {
    /// From `pc` on nothing is traced.
    fn end_stretch(&mut self, pc: u64, why: u8, follows_stack: bool) {
        let asm = &mut self.asm;
        spilled(asm, |asm| {
            let (bytes, len) = super::escape(escape::AT, None, pc);
            append_escape(asm, &bytes[..len]);
            if follows_stack {
                accesses::append_stack(asm);
            }
            asm.mov_gs_imm32(GAP, why.into());
        });
        self.cover(true, Recipe::other(Reg::Rdx as u8));
    }

    /// From `pc` on it is again.
    fn begin_stretch(&mut self, pc: u64, follows_stack: bool) {
        spilled(&mut self.asm, |asm| {
            let (bytes, len) = super::escape(escape::TO, Some(why::UNSELECTED), pc);
            append_escape(asm, &bytes[..len]);
            if follows_stack {
                accesses::append_stack(asm);
            }
            asm.mov_gs_imm32(GAP, 0);
        });
        self.cover(true, Recipe::other(Reg::Rdx as u8));
    }
}
