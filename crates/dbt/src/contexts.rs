//! The contexts tool: events in the code, the shadow stack, the slow paths.
//!
//! A *record* on the shadow stack is an activation: its entry stack pointer A,
//! and its node (the forest's state).
//!
//! ```text
//!  shadow_top -> | A | node |  topmost activation
//!                | A | node |  ...
//!                | A | root |  never ends (A is above all addresses)
//! ```
//!
//! | event | code | effect |
//! |---|---|---|
//! | function entered by call | before the body, in blocks for arrivals by call | push |
//! | called by itself | the same, without asking for the next node if the top one is its own | push |
//! | entered by jump, return, fall-through | the same; E is rsp | E = A: the record becomes the callee's; E < A: push; E > A: pop first |
//! | return | before the pop of the return address | E = A: pop; E < A: nothing; E > A: pop all that ended |
//! | rsp loaded with something else | around the instruction | kept what it was (`activations::stacks`) |
//! | indirect jump or call behind that | before it | pop all with A below rsp, or another stack's records |
//!
//! Functions that call nothing get no record (`leaves.rs`).
//!
//! The next node comes from a direct-mapped table of transitions per thread, by
//! place and tag (`wire::node`). A miss looks
//! into the forest's index (`everypath_lookup`, without leaving the cache), then
//! asks the engine for a new node. No event touches flags; they use rcx and
//! rdx, spilled.
//!
//! Contexts of basic blocks are made of the same parts (`blocks`).
//!
//! Limits: docs/design/0047.

use core::sync::atomic::Ordering::Relaxed;

use agent::syscalls::Process;
use forest::Rolling;
use hashbrown::HashMap;
use wire::node::{FIRST_FUNC, MAX_FUNC};
use wire::view::Pool;
use wire::{FuncEntry, FuncTable, func};

use crate::block::{Arrival, Key};
use crate::engine::Engine;

mod activations;
mod blocks;
mod emit;
mod leaves;
mod paths;

pub use emit::code::LOOKUP;
pub use paths::Paths;

pub use activations::{
    Shadow, begin_thread, deepest, end_thread, event, fork_child, grow_shadow, jump_into,
    leave_out, on_handler, on_sigreturn, publish_thread, record_path, set_tsc, settle, snapshot,
    unwind,
};

/// Most places that are kept as behind a load of rsp.
const MOST_BEHIND_LOADS: usize = 1 << 16;

/// A function's id, and its table and place in a file if it is a file's.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    id: u32,
    place: Option<(u32, u64)>,
}

/// Process-wide state of the tool.
#[derive(Debug)]
pub struct Contexts {
    k: u32,
    rolling: Rolling,
    select: bool,
    /// With `select`: by file, not by function.
    by_module: bool,
    /// A function's jump to its own entry is an event.
    self_jumps: bool,
    started: bool,
    stopped: bool,
    nodes_left: u64,
    /// Whether recursion is rolled, and counting does not end before the program.
    rolls: bool,
    ids: HashMap<u64, Numbered, core::hash::BuildHasherDefault<crate::block::PcHasher>>,
    flags: alloc::vec::Vec<u32>,
    /// Addresses that signal handlers return to: the kernel put them there, so
    /// arriving is no jump of the program.
    restorers: alloc::vec::Vec<u64>,
    leaves: leaves::Leaves,
    /// Contexts are of basic blocks.
    blocks: Option<blocks::BasicBlocks>,
    /// The extent looked at last: most questions are about the same one.
    last_function: core::ops::Range<u64>,
    /// Stacks that threads have left.
    stacks: activations::Stacks,
    /// Places in the middle of straight code where blocks may begin, so that a load of rsp may be
    /// in the block before: where signals interrupted, and where a block with a load was cut.
    behind_loads: alloc::collections::BTreeSet<u64>,
}

impl Contexts {
    pub fn new(pool: &Pool) -> Contexts {
        let config = &pool.header().config;
        let flags = config.flags.load(Relaxed);
        let k = config.k.load(Relaxed);
        Contexts {
            k,
            rolling: match flags {
                _ if flags & wire::flag::ROLL_LOOPS != 0 => Rolling::Loops,
                _ if flags & wire::flag::UNROLL != 0 => Rolling::Nothing,
                _ => Rolling::Recursion,
            },
            select: flags & wire::flag::SELECT != 0,
            by_module: flags & wire::flag::BY_MODULE != 0,
            self_jumps: flags & wire::flag::SELF_JUMPS != 0,
            started: flags & wire::flag::START_FUNC == 0,
            stopped: false,
            nodes_left: config.max_nodes.load(Relaxed),
            rolls: flags & (wire::flag::UNROLL | wire::flag::STOP_FUNC) == 0,
            ids: HashMap::default(),
            flags: alloc::vec::Vec::new(),
            restorers: alloc::vec::Vec::new(),
            behind_loads: alloc::collections::BTreeSet::new(),
            leaves: leaves::Leaves::default(),
            blocks: blocks::BasicBlocks::new(config.mode.load(Relaxed), k, flags),
            last_function: 0..0,
            stacks: activations::Stacks::default(),
        }
    }

    /// The id of the function at `pc`, if it has one.
    fn number_at(&self, pc: u64, process: &Process) -> Option<u32> {
        let known = self.ids.get(&pc)?;
        (known.place == place_in_file(pc, process)).then_some(known.id)
    }

    /// The extent that holds `pc`, from the CLI's table of its file.
    fn extent(&self, pc: u64, process: &Process) -> Option<(FuncEntry, u64)> {
        extent(pc, process)
    }

    fn has_table(&self, pc: u64, process: &Process) -> bool {
        process
            .regions
            .find(pc)
            .is_some_and(|region| region.table != 0)
    }

    /// Whether a function that the user wants, or at which counting begins or
    /// ends, begins at `pc` according to the tables.
    fn begins(&self, pc: u64, process: &Process) -> bool {
        let wanted = func::SELECTED | func::START | func::STOP;
        self.extent(pc, process).is_some_and(|(entry, offset)| {
            entry.start == offset
                && entry.flags & func::ENTRY != 0
                && entry.flags & func::PLT == 0
                && (!self.select || entry.flags & wanted != 0)
        })
    }

    /// Whether a call of `pc` counts though no function is known to begin there.
    fn is_called_function(&self, pc: u64, process: &Process) -> bool {
        let covered = || {
            let table = process.regions.find(pc)?.table.checked_sub(1)?;
            let table = *process.regions.tables.get(table as usize)?;
            let table: &FuncTable = process.log.pool.at(table)?;
            Some(table.covered.load(Relaxed) != 0)
        };
        let wanted = !self.select || self.by_module && covered() == Some(true);
        wanted
            && self
                .extent(pc, process)
                .is_none_or(|(entry, _)| entry.flags & func::PLT == 0)
    }

    fn is_counting(&self) -> bool {
        self.started && !self.stopped
    }

    /// Arrivals that are events; all others are `Inside`.
    pub fn canonical(&self, key: Key, process: &Process) -> Key {
        if process.regions.find(key.pc).is_none() {
            return Key {
                arrival: Arrival::Inside,
                ..key
            };
        }
        let event = match key.arrival {
            Arrival::Outside | Arrival::Far | Arrival::Skipped | Arrival::CountReached => false,
            // Nothing begins there, nor where functions make no difference.
            Arrival::Middle => return key,
            _ if self.blocks.as_ref().is_some_and(|blocks| !blocks.intra) => false,
            Arrival::Inside | Arrival::Stub => false,
            Arrival::Jump => self.begins(key.pc, process) && !self.restorers.contains(&key.pc),
            Arrival::Call | Arrival::Again => {
                self.begins(key.pc, process) || self.is_called_function(key.pc, process)
            }
        };
        if event {
            return key;
        }
        let arrival = match key.arrival {
            Arrival::Call | Arrival::Stub if self.is_stub(key.pc, process) => Arrival::Stub,
            _ => Arrival::Inside,
        };
        Key { arrival, ..key }
    }

    /// Whether a stub of the dynamic linker is at `pc`.
    fn is_stub(&self, pc: u64, process: &Process) -> bool {
        let extent = self.extent(pc, process);
        extent.is_some_and(|(entry, _)| entry.flags & func::PLT != 0)
    }

    /// Whether a direct jump leaves its function for the middle of another.
    pub fn jumps_into(&self, from: u64, to: u64, process: &Process) -> bool {
        if self.last_function.contains(&from) && self.last_function.contains(&to) {
            return false;
        }
        let (Some((source, _)), Some((target, at))) =
            (self.extent(from, process), self.extent(to, process))
        else {
            return false;
        };
        let regions = &process.regions;
        let same_file = regions.find(from).map(|r| r.table) == regions.find(to).map(|r| r.table);
        let functions = (source.flags | target.flags) & func::PLT == 0;
        same_file && functions && source.owner != target.owner && at != target.start
    }

    /// A block may begin at `pc`, behind a load of rsp.
    fn note_behind_load(&mut self, pc: u64) {
        if self.behind_loads.len() < MOST_BEHIND_LOADS {
            self.behind_loads.insert(pc);
        }
    }

    /// The id of the function whose extent holds `pc`, if it was ever entered.
    fn owner_of(&self, pc: u64, process: &Process) -> Option<u32> {
        let (entry, _) = self.extent(pc, process)?;
        let region = process.regions.find(pc)?;
        let start = region
            .start
            .wrapping_add(entry.owner.wrapping_sub(region.offset));
        self.number_at(start, process)
    }

    /// How control without a call arrives: an event from another function only, or with
    /// `self_jumps`.
    pub fn arrive_by_jump(&self, from: u64, to: u64, process: &Process) -> Key {
        let inside = Key {
            pc: to,
            arrival: Arrival::Inside,
        };
        // In the middle of an extent no function begins.
        if to != self.last_function.start && self.last_function.contains(&to) {
            return inside;
        }
        if !self.has_table(to, process) || !self.begins(to, process) {
            return inside;
        }
        let (source, target) = (self.extent(from, process), self.extent(to, process));
        let same_file = process.regions.find(from).map(|r| r.table)
            == process.regions.find(to).map(|r| r.table);
        match (source, target) {
            _ if self.self_jumps => Key {
                pc: to,
                arrival: Arrival::Jump,
            },
            (Some((source, _)), Some((target, _))) if same_file && source.owner == target.owner => {
                inside
            }
            _ => Key {
                pc: to,
                arrival: Arrival::Jump,
            },
        }
    }
}

/// Number of the function table of the file whose code is at `pc`, and the position in the file.
fn place_in_file(pc: u64, process: &Process) -> Option<(u32, u64)> {
    let region = process
        .regions
        .find(pc)
        .filter(|region| region.table != 0)?;
    Some((region.table, region.file_offset(pc)))
}

/// The extent that holds `pc`, from the CLI's table of its file; and where `pc` is in that.
pub fn extent(pc: u64, process: &Process) -> Option<(FuncEntry, u64)> {
    let region = process.regions.find(pc)?;
    let table = *process
        .regions
        .tables
        .get(region.table.checked_sub(1)? as usize)?;
    let pool = process.log.pool;
    let count = pool.at::<FuncTable>(table)?.count.load(Relaxed);
    let offset = region.file_offset(pc);
    let entries = pool.slice::<FuncEntry>(table + size_of::<FuncTable>() as u64, count)?;
    let after = entries.partition_point(|entry| entry.start <= offset);
    let entry = *entries[..after].last()?;
    (offset < entry.end).then_some((entry, offset))
}

impl Engine {
    /// How a direct call at `from` arrives at `to`.
    pub fn called_from(&self, from: u64, to: u64) -> Key {
        let own = self.contexts.as_ref().is_some_and(|contexts| {
            contexts.rolls
                && to < from
                && contexts
                    .function_at(from, &self.process)
                    .is_some_and(|(start, ..)| start == to)
        });
        let arrival = if own { Arrival::Again } else { Arrival::Call };
        Key { pc: to, arrival }
    }

    /// The id of the function at `pc`, logged when it is new.
    fn function_id(&mut self, pc: u64) -> u32 {
        let Some(contexts) = &mut self.contexts else {
            return FIRST_FUNC;
        };
        if let Some(id) = contexts.number_at(pc, &self.process) {
            return id;
        }
        let flags = contexts
            .extent(pc, &self.process)
            .filter(|(entry, at)| entry.start == *at)
            .map_or(func::SELECTED, |(entry, _)| entry.flags);
        let id = (FIRST_FUNC + contexts.flags.len() as u32).min(MAX_FUNC);
        contexts.flags.push(flags);
        let place = place_in_file(pc, &self.process);
        contexts.ids.insert(pc, Numbered { id, place });
        self.process.log.function(pc, id);
        id
    }

    /// Functions of unmapped code get new ids when their addresses are re-used, but those of files
    /// that come back to their places.
    pub fn forget_functions(&mut self, start: u64, end: u64) {
        self.forget_selection();
        if let Some(contexts) = &mut self.contexts {
            contexts
                .ids
                .retain(|&pc, known| pc < start || end <= pc || known.place.is_some());
            if let Some(blocks) = &mut contexts.blocks {
                blocks.forget(start..end);
            }
            contexts.last_function = 0..0;
        }
    }
}
