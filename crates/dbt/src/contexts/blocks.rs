//! Contexts of basic blocks: `--mode intra` and `--mode inter`.
//!
//! Problem: an event per basic block is an event every five instructions.
//!
//! Approach: which blocks a superblock executes is known where it is left. So there
//! is one event per exit: for the *path*, the blocks that were entered since the last
//! event. A path is a symbol like a function of the function mode, and a state and a
//! path lead to an *edge* of the forest (`forest::Forest::edge`), found in the path's
//! cell (`paths`) or the same table of transitions. The edge is counted and holds the
//! next state; what its blocks count for is worked out when the recording is read.
//!
//! ```text
//!   state   top record of the shadow stack, [shadow_top + 8]
//!   event   cell[path], for this state? or table[state, path]
//!           -> edge, next;  edge.count += 1;  state = next
//! ```
//!
//! | | intra | inter |
//! |---|---|---|
//! | a function is entered | a record whose state is `entry_state`; no lookup | nothing |
//! | it returns | the record goes, its caller's state is on top again | nothing |
//! | a signal's handler | a record under the signal's root | the same |
//!
//! A *block* ends behind a branch, call, return or system call, and before a leader:
//! where a function begins and, unless blocks are dynamic, where a direct branch goes
//! that stands in the same extent of code, executed or not. It is entered when its
//! first instruction is executed.
//!
//! Superblocks end and begin anywhere, also in the middle of a block
//! ([`Arrival::Middle`]): nothing is entered there. Signals and faults leave them
//! anywhere; the map says which path was entered by then (`pcmap`), and it goes on
//! record at the delivery (`activations::record_path`).
//!
//! Limits: an event comes before the branch that ends the path, so a block of one
//! instruction which is a branch and faults counts as entered. Leaders that only code of
//! another extent goes to, or an indirect branch, are not known before they are gone to.

use alloc::vec::Vec;
use core::ops::Range;

use agent::syscalls::Process;
use forest::History;
use hashbrown::HashMap;
use isa::insn::{MAX_LEN, Reader};
use isa::{Flow, Insn};
use wire::node::{FIRST_BLOCK, FIRST_FUNC};
use wire::{func, log};

use super::{Contexts, Paths};
use crate::block::{Arrival, PcHasher};
use crate::engine::Engine;
use crate::superblock::Superblock;

/// Most bytes of a block that are kept.
const LONGEST: usize = 4096;
/// Longest extent that is searched for leaders, in bytes.
const MOST_CODE: u64 = 4 << 20;

type Map<K, V> = HashMap<K, V, core::hash::BuildHasherDefault<PcHasher>>;

/// Code of one function, or a part of it.
#[derive(Debug)]
struct Extent {
    /// Whether its blocks are counted.
    wanted: bool,
    /// Targets of its direct branches within it, sorted.
    leaders: Vec<u64>,
}

/// Blocks and paths found so far.
#[derive(Debug)]
pub struct BasicBlocks {
    /// Per activation of a function, not per thread.
    pub intra: bool,
    pub history: History,
    dynamic: bool,
    /// By file and address: the code there may change.
    ids: Map<(u32, u64), u32>,
    last_id: u32,
    /// By what comes before, and the last block.
    paths: Map<(u32, u32), u32>,
    /// Paths by id.
    by_id: Vec<(u32, u32)>,
    /// Extents that were looked at, by their first address.
    extents: Map<u64, Extent>,
    /// The one looked at last: most questions are about the same one.
    here: Range<u64>,
    /// Scratch for [`BasicBlocks::blocks_of`].
    steps: Vec<u32>,
}

impl BasicBlocks {
    pub fn new(mode: u32, k: u32, flags: u32) -> Option<BasicBlocks> {
        let intra = mode == wire::Mode::Intra as u32;
        let any = intra || mode == wire::Mode::Inter as u32;
        any.then(|| BasicBlocks {
            intra,
            history: match k == 0 || flags & wire::flag::SLABS != 0 {
                true => History::Slabs,
                false => History::Windows,
            },
            dynamic: flags & wire::flag::DYNAMIC_BLOCKS != 0,
            ids: Map::default(),
            last_id: FIRST_BLOCK - 1,
            paths: Map::default(),
            by_id: Vec::new(),
            extents: Map::default(),
            here: 0..0,
            steps: Vec::new(),
        })
    }

    /// Forgets the extents that begin in `range`, whose code has changed.
    pub fn forget(&mut self, range: Range<u64>) {
        self.extents.retain(|start, _| !range.contains(start));
        self.here = 0..0;
    }

    /// The blocks of a path, in order.
    pub fn blocks_of(&mut self, path: u32) -> &[u32] {
        self.steps.clear();
        let mut at = path;
        while let Some(&(before, block)) = index(at).and_then(|at| self.by_id.get(at)) {
            self.steps.push(block);
            at = before;
        }
        self.steps.reverse();
        &self.steps
    }
}

/// Index of a path in the list of all.
fn index(path: u32) -> Option<usize> {
    Some(path.checked_sub(FIRST_FUNC)? as usize)
}

impl Contexts {
    /// Whether blocks at `pc` are counted.
    fn wants_blocks(&self, pc: u64, process: &Process) -> bool {
        let Some((entry, at)) = self.extent(pc, process) else {
            return self.is_called_function(pc, process);
        };
        let owner = pc.wrapping_sub(at).wrapping_add(entry.owner);
        let flags = match entry.owner == entry.start {
            true => entry.flags,
            false => self
                .extent(owner, process)
                .map_or(entry.flags, |(owner, _)| owner.flags),
        };
        entry.flags & func::PLT == 0 && (!self.select || flags & func::SELECTED != 0)
    }
}

impl Engine {
    fn basic_blocks(&self) -> Option<&BasicBlocks> {
        self.contexts.as_ref()?.blocks.as_ref()
    }

    /// Whether blocks have contexts, and activations do.
    pub fn has_blocks(&self) -> bool {
        self.basic_blocks().is_some()
    }

    pub fn has_activations(&self) -> bool {
        self.basic_blocks().is_none_or(|blocks| blocks.intra)
    }

    /// How control arrives behind `insn`, at `pc`: in the middle of a block, if there is
    /// such a thing and no block begins there.
    pub fn arrival_behind(&mut self, insn: &Insn, pc: u64) -> Arrival {
        match self.has_blocks() && !self.begins_block(insn, pc) {
            true => Arrival::Middle,
            false => Arrival::Inside,
        }
    }

    /// Whether a block begins at `pc`, where control comes to from `insn`.
    fn begins_block(&mut self, insn: &Insn, pc: u64) -> bool {
        let ends = !matches!(insn.flow(), Flow::Next | Flow::Trap | Flow::Odd);
        ends || self.is_leader(pc)
    }

    fn is_leader(&mut self, pc: u64) -> bool {
        let (intra, dynamic) = match self.basic_blocks() {
            Some(blocks) => (blocks.intra, blocks.dynamic),
            None => return false,
        };
        let Some((start, extent)) = self.extent_at(pc) else {
            return false;
        };
        match start == pc {
            true => intra || !dynamic,
            false => extent.leaders.binary_search(&pc).is_ok(),
        }
    }

    /// The first address of the extent of code that holds `pc`, and what is known of it.
    fn extent_at(&mut self, pc: u64) -> Option<(u64, &Extent)> {
        let contexts = self.contexts.as_ref()?;
        let blocks = contexts.blocks.as_ref()?;
        if !blocks.here.contains(&pc) {
            let (start, end, _) = contexts.function_at(pc, &self.process)?;
            let made = match blocks.extents.contains_key(&start) {
                true => None,
                false => Some(Extent {
                    wanted: contexts.wants_blocks(pc, &self.process),
                    leaders: match blocks.dynamic {
                        true => Vec::new(),
                        false => find_leaders(start, self.present_end(start, end)),
                    },
                }),
            };
            let blocks = self.contexts.as_mut()?.blocks.as_mut()?;
            if let Some(made) = made {
                blocks.extents.insert(start, made);
            }
            blocks.here = start..end;
        }
        let blocks = self.basic_blocks()?;
        Some((blocks.here.start, blocks.extents.get(&blocks.here.start)?))
    }

    /// Whether blocks at `pc` are counted.
    fn wants_block(&mut self, pc: u64) -> bool {
        if let Some((_, extent)) = self.extent_at(pc) {
            return extent.wanted;
        }
        let contexts = self.contexts.as_ref();
        contexts.is_some_and(|contexts| contexts.wants_blocks(pc, &self.process))
    }

    /// For each instruction of `source` the path that was entered when it is executed,
    /// and whether a block begins with it. Empty: no blocks are counted.
    pub fn plan_paths(&mut self, source: &Superblock, arrival: Arrival) -> Paths {
        let Paths { mut plan, .. } = core::mem::take(&mut self.scratch.paths);
        plan.clear();
        if self.has_blocks() {
            self.plan_into(source, arrival, &mut plan);
        }
        Paths {
            begins: self.has_activations() && arrival.is_event(),
            plan,
            entered: 0,
        }
    }

    fn plan_into(&mut self, source: &Superblock, arrival: Arrival, plan: &mut Vec<(u32, bool)>) {
        let insns = &source.insns;
        let mut path = 0;
        for (i, insn) in insns.iter().enumerate() {
            let begins = match i.checked_sub(1) {
                None => arrival != Arrival::Middle,
                Some(last) => self.begins_block(&insns[last], insn.pc()),
            };
            if begins && self.wants_block(insn.pc()) {
                let block = self.block_at(&insns[i..]);
                path = self.path(path, block);
            }
            plan.push((path, begins));
        }
    }

    /// The id of the block that `insns` begin with, logged when it is new.
    fn block_at(&mut self, insns: &[Insn]) -> u32 {
        let pc = insns.first().map_or(0, Insn::pc);
        let region = self.process.regions.find(pc);
        let place = (region.map_or(0, |region| region.table), pc);
        let known = self.basic_blocks().and_then(|all| all.ids.get(&place));
        if let Some(&known) = known {
            return known;
        }
        let code = self.block_code(insns);
        let Some(blocks) = self.contexts.as_mut().and_then(|all| all.blocks.as_mut()) else {
            return FIRST_BLOCK;
        };
        blocks.last_id += 1;
        let id = blocks.last_id;
        blocks.ids.insert(place, id);
        self.process.log.function(pc, id);
        self.process.log.block(pc, id, &code);
        id
    }

    /// The bytes of the block that `insns` begin with; it may go on behind them.
    fn block_code(&mut self, insns: &[Insn]) -> Vec<u8> {
        let mut code = Vec::new();
        for insn in insns {
            code.extend_from_slice(insn.bytes());
            if self.begins_block(insn, insn.next_pc()) {
                return code;
            }
        }
        let mut at = insns.last().map_or(0, Insn::next_pc);
        while code.len() < LONGEST {
            let mut bytes = [0; MAX_LEN];
            let room = self.present_end(at, at + MAX_LEN as u64) - at;
            let got = agent::memory::read_some(at, &mut bytes[..room as usize]);
            let Ok(insn) = Insn::decode(&bytes[..got], at) else {
                break;
            };
            code.extend_from_slice(insn.bytes());
            at = insn.next_pc();
            if self.begins_block(&insn, at) {
                break;
            }
        }
        code
    }

    /// The id of the path that goes on with `block`, logged when it is new.
    fn path(&mut self, before: u32, block: u32) -> u32 {
        let Some(blocks) = self.contexts.as_mut().and_then(|all| all.blocks.as_mut()) else {
            return before;
        };
        let id = FIRST_FUNC + blocks.by_id.len() as u32;
        let known = *blocks.paths.entry((before, block)).or_insert(id);
        if known == id {
            blocks.by_id.push((before, block));
            self.process.log.path(log::Path {
                id,
                before,
                block,
                reserved: 0,
            });
        }
        known
    }
}

/// Targets within `start..end` of the direct branches in it.
fn find_leaders(start: u64, end: u64) -> Vec<u64> {
    let len = end.saturating_sub(start).min(MOST_CODE) as usize;
    let mut bytes = alloc::vec![0; len];
    let got = agent::memory::read_some(start, &mut bytes);
    let bytes = &bytes[..got];
    let mut reader = Reader::new(bytes, start);
    let mut leaders = Vec::new();
    let mut pc = start;
    while pc < start + got as u64 {
        let Ok(insn) = reader.decode(pc) else {
            // Data among code: the next byte may be an instruction.
            pc += 1;
            continue;
        };
        if let Flow::Jump(target) | Flow::Cond(_, target) | Flow::CountJump(target) = insn.flow()
            && (start..end).contains(&target)
        {
            leaders.push(target);
        }
        pc = insn.next_pc();
    }
    leaders.sort_unstable();
    leaders.dedup();
    leaders
}
