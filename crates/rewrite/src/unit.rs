//! A function as tools see it: blocks and the edges between them, with what is live there, and where code can be inserted.
//!
//! A block is two nodes and the edge between them, so what is inserted is always at an edge:
//!
//! | edge | code is inserted |
//! |---|---|
//! | block | before its first instruction |
//! | way in at the entry | before that, for callers only |
//! | to the code behind | between the two blocks |
//! | by a branch or a table that is made anew | behind the function, or before the target where nobody falls through to it |
//! | other ways in, ways out, calls that do not come back | nowhere |

mod direct;
mod entries;
mod exits;
mod red_zone;
mod table;
mod transfers;
mod units;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use flow::{EdgeKind, Function, Live, To};
use image::LinkAddr;
use isa::RegisterSet;
use probe::{At, Exit, Op, Site, Spill, Test};

use crate::layout::{Inserted, Insertions, RESIDENT};
use crate::skipped::Why;
use crate::versions::{Label, Version, Versions};
pub(crate) use entries::Entries;
use entries::R11;
use table::Table;
pub use transfers::Transfer;
pub(crate) use units::{Units, Wants};

/// Gives a forked child memory of its own.
const GIVE_MEMORY: Op = Op::Guard {
    test: Test::IsOtherThread,
    exit: Exit::Routine(RESIDENT),
};

/// An end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    Outside,
    /// Before and behind a block, by its number.
    Start(u32),
    End(u32),
    /// A table that several jumps go by, where each goes is not known.
    Table(u32),
}

/// A kind of edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Through a block.
    Block,
    /// Into the function: at entries and landing pads.
    In,
    /// To the code behind.
    Falls,
    /// By a branch to a constant target.
    Taken,
    /// By a table.
    Case,
    /// Out of the function.
    Out,
    /// By a call that may not come back.
    Abandoned,
    /// By what ends the program.
    End,
}

/// An edge.
#[derive(Clone, Debug)]
pub struct Edge {
    pub from: Node,
    pub to: Node,
    pub kind: Kind,
    /// Registers and flags that are live on it.
    pub live: RegisterSet,
    /// Edges of the function's graph that it stands for, by their numbers.
    pub graph: Vec<usize>,
    place: Place,
    spill: Spill,
}

impl Edge {
    /// Whether something can be inserted that finds registers enough.
    pub fn takes(&self, op: Op) -> bool {
        self.has_place() && probe::fits(&[op], &self.site())
    }

    /// Whether code can be inserted.
    pub fn has_place(&self) -> bool {
        self.place != Place::Nowhere
    }

    /// Whether what is inserted needs a jump more.
    pub fn needs_jump(&self) -> bool {
        matches!(self.place, Place::Taken(..))
    }

    /// Whether it is that of calls of the function.
    pub fn is_entry(&self) -> bool {
        self.place == Place::Entry
    }

    fn site(&self) -> Site {
        Site {
            live: self.live,
            spill: self.spill,
        }
    }
}

/// The place of an edge's code, by old addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Block(LinkAddr),
    Entry,
    Falls(LinkAddr),
    /// See [`Insertions::taken`].
    Taken(LinkAddr, LinkAddr),
}

/// A function.
#[derive(Debug)]
pub struct Unit<'u> {
    /// Number of the function.
    pub number: usize,
    pub function: &'u Function,
    pub edges: Vec<Edge>,
    /// Calls and jumps by an address of which no edge says where they went.
    pub transfers: Vec<Transfer>,
    /// Tables that several jumps go by.
    pub tables: u32,
    /// Numbers of the edges through blocks, by block.
    through: Vec<usize>,
    live: Live,
    /// The place where registers may be kept.
    spill: Spill,
    /// Registers and flags that are live before the last instructions of blocks that leave the function, or may.
    before_last: BTreeMap<u32, RegisterSet>,
    /// Registers and flags that are live before each instruction, for tools that insert anywhere.
    inside: HashMap<LinkAddr, RegisterSet>,
    /// Nodes of these tables by their addresses.
    shared: BTreeMap<LinkAddr, u32>,
    /// Blocks to which calls return that may return in a forked child.
    forks: BTreeSet<LinkAddr>,
}

/// Ops that are to be inserted into a function, by edge.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    ops: BTreeMap<usize, Vec<Op>>,
    /// Ops before other instructions than the first ones of blocks, by the block and the instruction.
    inside: BTreeMap<(u32, LinkAddr), Vec<Op>>,
    /// General registers, a bit each, that what is inserted elsewhere has a value in.
    kept: BTreeMap<usize, u16>,
    kept_inside: BTreeMap<(u32, LinkAddr), u16>,
}

impl Plan {
    /// Has something done, behind what is done there already.
    pub fn add(&mut self, unit: &Unit<'_>, at: At, op: Op) -> Result<(), Why> {
        match unit.inside_at(at) {
            Some(place) => self.inside.entry(place).or_default().push(op),
            None => {
                let edge = unit.edge_at(at).ok_or(Why::NoPlace)?;
                self.ops.entry(edge).or_default().push(op);
            }
        }
        Ok(())
    }

    /// Has general registers, a bit each, left alone by what is done at a position: what is inserted elsewhere has a value in them.
    ///
    /// # Errors
    /// Nothing can be inserted there.
    pub fn keep(&mut self, unit: &Unit<'_>, at: At, registers: u16) -> Result<(), Why> {
        let own = match unit.inside_at(at) {
            Some(place) => self.kept_inside.entry(place).or_default(),
            None => {
                let edge = unit.edge_at(at).ok_or(Why::NoPlace)?;
                self.kept.entry(edge).or_default()
            }
        };
        *own |= registers;
        Ok(())
    }
}

impl Unit<'_> {
    /// The beginning of a block in a version, for who goes there.
    #[must_use]
    pub fn label(&self, version: Version, block: u32) -> Option<Label> {
        let block = self.function.graph.blocks.get(block as usize)?;
        Some(version.at(block.start))
    }

    /// Registers and flags that are live before the last instruction of a block, if it leaves the function, or may, or goes by an
    /// address.
    fn before_last(&self, block: u32) -> Option<RegisterSet> {
        let transfer = self
            .transfers
            .iter()
            .find(|transfer| transfer.block == block);
        let live = transfer.map(|transfer| transfer.live);
        live.or_else(|| self.before_last.get(&block).copied())
    }

    fn site(&self, live: RegisterSet) -> Site {
        Site {
            live,
            spill: self.spill,
        }
    }

    /// Registers and flags that are live before a block.
    #[must_use]
    pub fn live_before(&self, block: u32) -> RegisterSet {
        self.live_at(Node::Start(block), Node::Outside)
    }

    /// Whether something can be done at a position that finds registers enough.
    #[must_use]
    pub fn takes(&self, at: At, op: Op) -> bool {
        self.takes_all(at, &[op], 0)
    }

    /// Whether several things can be done together, with registers that are left alone ([`Plan::keep`]).
    #[must_use]
    pub fn takes_all(&self, at: At, ops: &[Op], kept: u16) -> bool {
        let Some(mut live) = self.live_for(at) else {
            return false;
        };
        live.general |= kept;
        probe::fits(ops, &self.site(live))
    }

    /// Registers and flags that are live at a position; `None`: nothing can be inserted there.
    #[must_use]
    pub fn live_for(&self, at: At) -> Option<RegisterSet> {
        match self.inside_at(at) {
            Some((block, insn)) => self.live_inside(block, insn),
            None => {
                let edge = self.edge_at(at).and_then(|edge| self.edges.get(edge));
                edge.filter(|edge| edge.has_place()).map(|edge| edge.live)
            }
        }
    }

    /// The block and the instruction of a position that is not at a block's beginning.
    fn inside_at(&self, at: At) -> Option<(u32, LinkAddr)> {
        let block = |block: u32| self.function.graph.blocks.get(block as usize);
        match at {
            At::Last(number) if !self.is_alone(number) => Some((number, block(number)?.last)),
            At::Inside(number, bytes) if bytes > 0 => {
                Some((number, block(number)?.start + bytes.into()))
            }
            _ => None,
        }
    }

    /// Registers and flags that are live before an instruction that is not a block's first one.
    fn live_inside(&self, block: u32, insn: LinkAddr) -> Option<RegisterSet> {
        let known = self.inside.get(&insn).copied();
        let is_last = || self.function.graph.blocks[block as usize].last == insn;
        known.or_else(|| is_last().then(|| self.before_last(block)).flatten())
    }

    /// Whether the call at the end of a block may come back in a forked child, with memory of its own.
    #[must_use]
    pub fn forks(&self, block: u32) -> bool {
        let block = self.function.graph.blocks.get(block as usize);
        block.is_some_and(|block| self.forks.contains(&block.end))
    }

    /// Number of the edge that a position is.
    fn edge_at(&self, at: At) -> Option<usize> {
        match at {
            At::Edge(edge) => Some(edge as usize),
            At::Entry => self.edges.iter().position(Edge::is_entry),
            At::Block(block) | At::Last(block) | At::Inside(block, _) => {
                self.through.get(block as usize).copied()
            }
        }
    }

    /// Whether the last instruction of a block is its only one.
    fn is_alone(&self, block: u32) -> bool {
        let block = self.function.graph.blocks.get(block as usize);
        block.is_some_and(|block| block.start == block.last)
    }

    /// The code of a plan for a version. Where a call may return in a forked child, the child is given memory of its own first, if
    /// threads have memory.
    pub(crate) fn insertions(
        &self,
        plan: Plan,
        version: Version,
        versions: &Versions,
    ) -> Result<Insertions, Why> {
        let is_there = |edge: &Edge| match edge.from {
            Node::Start(block) | Node::End(block) => versions.has(version, block),
            Node::Outside => version == Version::FIRST,
            Node::Table(_) => true,
        };
        let mut insertions = Insertions::default();
        for ((block, insn), ops) in plan.inside {
            let live = self.live_inside(block, insn);
            let live = live.filter(|_| versions.has(version, block));
            let mut site = self.site(live.ok_or(Why::NoPlace)?);
            site.live.general |= plan.kept_inside.get(&(block, insn)).unwrap_or(&0);
            insertions.blocks.insert(insn, Inserted::of(ops, site)?);
        }
        let mut ops = plan.ops;
        for block in &self.forks {
            let is_it = |edge: &Edge| edge.place == Place::Falls(*block);
            let edge = self.edges.iter().position(is_it).ok_or(Why::NoPlace)?;
            if is_there(&self.edges[edge]) {
                ops.entry(edge).or_default().insert(0, GIVE_MEMORY);
            }
        }
        for (at, ops) in ops {
            let edge = &self.edges[at];
            if !is_there(edge) {
                return Err(Why::NoPlace);
            }
            let mut site = edge.site();
            site.live.general |= plan.kept.get(&at).unwrap_or(&0);
            if matches!(edge.place, Place::Falls(behind) if self.forks.contains(&behind)) {
                // A call has returned (System V ABI, x86-64, 3.2.1), whatever its callee, which is C's, is taken to read.
                site.live.flags = isa::Flags::NONE;
                site.live.general &= !R11;
            }
            let inserted = Inserted::of(ops, site)?;
            match edge.place {
                Place::Nowhere => return Err(Why::NoPlace),
                Place::Block(block) => {
                    insertions.blocks.insert(block, inserted);
                }
                Place::Entry => insertions.entry = Some(inserted),
                Place::Falls(block) => {
                    insertions.falls.insert(block, inserted);
                }
                Place::Taken(from, to) => {
                    insertions.taken.insert((from, to), inserted);
                }
            }
        }
        Ok(insertions)
    }

    /// Registers and flags that are live on the way to a node.
    fn live_at(&self, to: Node, from: Node) -> RegisterSet {
        let block = |node: Node| match node {
            Node::Start(block) | Node::End(block) => Some(block),
            Node::Outside | Node::Table(_) => None,
        };
        let live = block(to).or(block(from)).unwrap_or(0);
        let live = self.live.before.get(live as usize);
        live.copied().unwrap_or(RegisterSet::ALL)
    }

    fn add(&mut self, from: Node, to: Node, kind: Kind, place: Place, graph: Vec<usize>) {
        let live = self.live_at(to, from);
        self.edges.push(Edge {
            from,
            to,
            kind,
            live,
            graph,
            place,
            spill: self.spill,
        });
    }

    /// Ways in: at entries, and where landing pads are.
    fn add_ways_in(&mut self, first: u32) {
        let all = self.function.graph.edges.iter();
        let pads = all.filter(|edge| edge.kind == EdgeKind::LandingPad);
        let pads: BTreeSet<u32> = pads
            .filter_map(|edge| match edge.to {
                To::Block(to) => Some(to),
                _ => None,
            })
            .collect();
        let mut ways_in = pads.clone();
        ways_in.extend(self.function.entry_blocks());
        for block in ways_in {
            let place = match block == first && !pads.contains(&first) {
                true => Place::Entry,
                false => Place::Nowhere,
            };
            self.add(
                Node::Outside,
                Node::Start(block),
                Kind::In,
                place,
                Vec::new(),
            );
        }
    }

    /// A way by a table. Where several jumps go by it, only their sum is known at each target.
    fn add_case(&mut self, from: u32, to: u32, table: &Table, graph: usize) {
        let target = self.function.graph.blocks[to as usize].start;
        let place = match table.is_new {
            true => Place::Taken(table.old, target),
            false => Place::Nowhere,
        };
        if !table.is_shared {
            self.add(
                Node::End(from),
                Node::Start(to),
                Kind::Case,
                place,
                vec![graph],
            );
            return;
        }
        let next = self.tables;
        let number = *self.shared.entry(table.old).or_insert(next);
        self.tables = self.shared.len() as u32;
        let node = Node::Table(number);
        let has = |unit: &Unit<'_>, from, to| {
            let mut all = unit.edges.iter();
            all.position(|edge: &Edge| (edge.from, edge.to) == (from, to))
        };
        if has(self, Node::End(from), node).is_none() {
            self.add(
                Node::End(from),
                node,
                Kind::Case,
                Place::Nowhere,
                Vec::new(),
            );
        }
        match has(self, node, Node::Start(to)) {
            None => self.add(node, Node::Start(to), Kind::Case, place, vec![graph]),
            Some(at) => self.edges[at].graph.push(graph),
        }
    }
}
