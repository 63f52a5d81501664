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

use std::collections::{BTreeMap, BTreeSet, HashSet};

use flow::{EdgeKind, Function, Live, Liveness, Program, To};
use image::{Image, LinkAddr};
use isa::{Flow, Insn, RegisterSet};
use probe::{At, Exit, Op, Site, Spill, Test};

use crate::abandons::Abandons;
use crate::jump_tables::NewTables;
use crate::layout::{Inserted, Insertions, RESIDENT};
use crate::skipped::Why;
use crate::twice::{self, Exits};
use crate::versions::{Label, Version, Versions};
pub(crate) use entries::Entries;
use entries::{R11, bare_entries};
use exits::way_to_function;
use table::Table;
pub use transfers::Transfer;

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
    /// Nodes of these tables by their addresses.
    shared: BTreeMap<LinkAddr, u32>,
    /// Blocks to which calls return that may return in a forked child.
    forks: BTreeSet<LinkAddr>,
}

/// Ops that are to be inserted into a function, by edge.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    ops: BTreeMap<usize, Vec<Op>>,
    /// Ops before the transfer at the end of a block.
    lasts: BTreeMap<u32, Vec<Op>>,
}

impl Plan {
    /// Has something done, behind what is done there already.
    pub fn add(&mut self, unit: &Unit<'_>, at: At, op: Op) -> Result<(), Why> {
        match at {
            At::Last(block) if !unit.is_alone(block) => {
                self.lasts.entry(block).or_default().push(op);
            }
            _ => {
                let edge = unit.edge_at(at).ok_or(Why::NoPlace)?;
                self.ops.entry(edge).or_default().push(op);
            }
        }
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
        match at {
            At::Last(block) if !self.is_alone(block) => {
                let live = self.before_last(block);
                live.is_some_and(|live| probe::fits(&[op], &self.site(live)))
            }
            _ => {
                let edge = self.edge_at(at).and_then(|edge| self.edges.get(edge));
                edge.is_some_and(|edge| edge.takes(op))
            }
        }
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
            At::Block(block) | At::Last(block) => self.through.get(block as usize).copied(),
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
        for (block, ops) in plan.lasts {
            let live = self.before_last(block);
            let live = live.filter(|_| versions.has(version, block));
            let site = self.site(live.ok_or(Why::NoPlace)?);
            let last = self.function.graph.blocks[block as usize].last;
            insertions.blocks.insert(last, Inserted::of(ops, site)?);
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

/// Makes units of a program's functions.
pub(crate) struct Units<'d> {
    program: &'d Program,
    liveness: Liveness<'d>,
    abandons: Abandons<'d>,
    /// Entries to which functions jump.
    jumped: HashSet<LinkAddr>,
    /// Entries that may be called or jumped to directly.
    direct: HashSet<LinkAddr>,
}

impl<'d> Units<'d> {
    pub fn new(image: &'d Image, program: &'d Program) -> Units<'d> {
        let edges = program
            .functions
            .iter()
            .flat_map(|function| &function.graph.edges);
        let jumps = edges.filter(|edge| !matches!(edge.kind, EdgeKind::Call | EdgeKind::NoReturn));
        let jumped = jumps.filter_map(|edge| match edge.to {
            To::Address(target) => Some(target),
            _ => None,
        });
        let (liveness, (abandons, direct)) = rayon::join(
            || Liveness::new(image, program),
            || {
                rayon::join(
                    || Abandons::of(image, program),
                    || direct::targets(image, program),
                )
            },
        );
        Units {
            program,
            jumped: jumped.collect(),
            direct,
            liveness,
            abandons,
        }
    }

    /// The unit of a function, by its number.
    pub fn unit<'b>(
        &self,
        number: usize,
        switches: &NewTables,
        bytes: &dyn Fn(LinkAddr) -> &'b [u8],
        (has_memory, spills): (bool, bool),
    ) -> Result<Unit<'d>, Why> {
        let function = &self.program.functions[number];
        if has_memory && self.abandons.is_left(number) {
            return Err(Why::Forks);
        }
        let mut unit = Unit {
            number,
            function,
            edges: Vec::new(),
            transfers: Vec::new(),
            tables: 0,
            through: Vec::new(),
            live: self.liveness.of(function),
            spill: match spills && red_zone::is_free(function, bytes) {
                true => Spill::RedZone,
                false => Spill::Never,
            },
            before_last: BTreeMap::new(),
            shared: BTreeMap::new(),
            forks: BTreeSet::new(),
        };
        self.add_edges(&mut unit, switches, bytes)?;
        if !has_memory {
            unit.forks.clear();
        }
        Ok(unit)
    }

    /// Facts of the entries of a unit's function.
    pub fn entries(&self, unit: &Unit<'_>) -> Entries {
        let is_called = self.is_called(unit.function);
        Entries {
            bare: bare_entries(unit.function, &unit.live, is_called),
            keeps_r11: is_called && self.direct.contains(&unit.function.entry),
        }
    }

    /// Whether a function is called, by the System V convention, in which flags are no argument; parts of functions are jumped to
    /// in any state.
    fn is_called(&self, function: &Function) -> bool {
        let evidence = function.evidence;
        let is_part = |name: &str| name.contains(".cold") || name.contains(".part");
        let is_named = function.name.as_deref().is_some_and(|name| !is_part(name));
        let is_called = evidence.called || function.is_taken() || is_named;
        is_called || !self.jumped.contains(&function.entry)
    }

    /// Edges of all blocks.
    // Long function: one match on the kinds of edges.
    fn add_edges<'b>(
        &self,
        unit: &mut Unit<'_>,
        switches: &NewTables,
        bytes: &dyn Fn(LinkAddr) -> &'b [u8],
    ) -> Result<(), Why> {
        let function = unit.function;
        let graph = &function.graph;
        let first = graph.block_from(function.entry).ok_or(Why::Code)? as u32;
        unit.add_ways_in(first);
        for (number, block) in (0..).zip(&graph.blocks) {
            let (start, end) = (Node::Start(number), Node::End(number));
            let place = Place::Block(block.start);
            unit.through.push(unit.edges.len());
            unit.add(start, end, Kind::Block, place, Vec::new());
            let last = bytes(block.last);
            let last = Insn::decode(&last[..last.len().min(15)], block.last.0);
            let last = last.map_err(|_| Why::Code)?;
            let transfer = transfers::of(unit, number, &last, (&self.liveness, switches));
            unit.transfers.extend(transfer);
            let flow = last.flow();
            let before = graph.edges.partition_point(|edge| edge.from < number);
            let own = graph.edges_of(number as usize);
            let mut leaves = own.is_empty();
            for (at, edge) in own.iter().enumerate() {
                let To::Block(to) = edge.to else {
                    if let Some((kind, place)) = way_to_function(edge, block.last, flow)? {
                        unit.add(end, Node::Outside, kind, place, vec![before + at]);
                        continue;
                    }
                    leaves |= edge.kind != EdgeKind::Call;
                    if edge.kind == EdgeKind::Call {
                        self.add_call(unit, number, block.end, edge.to);
                    }
                    continue;
                };
                let target = graph.blocks[to as usize].start;
                let (kind, place) = match edge.kind {
                    // A jump leads over the same instruction without a prefix.
                    EdgeKind::FallThrough if to != number + 1 => {
                        (Kind::Falls, Place::Taken(block.last, target))
                    }
                    EdgeKind::FallThrough => (Kind::Falls, Place::Falls(target)),
                    // It has no long form.
                    EdgeKind::Taken if matches!(flow, Flow::CountJump(_)) => {
                        (Kind::Taken, Place::Nowhere)
                    }
                    EdgeKind::Taken => (Kind::Taken, Place::Taken(block.last, target)),
                    EdgeKind::Case => {
                        let table = Table::of(function, switches, block.last);
                        if to == first && !table.is_new {
                            // Callers come by the same jump from its old place.
                            return Err(Why::NoPlace);
                        }
                        unit.add_case(number, to, &table, before + at);
                        continue;
                    }
                    EdgeKind::LandingPad => continue,
                    _ => return Err(Why::Code),
                };
                unit.add(end, Node::Start(to), kind, place, vec![before + at]);
            }
            if let Some(exits) = twice::exits(function, number as usize, bytes) {
                let kind = match exits {
                    Exits::Thread => Kind::Abandoned,
                    Exits::Process => Kind::End,
                };
                unit.add(end, Node::Outside, kind, Place::Nowhere, Vec::new());
            }
            let own_edges = unit.edges.iter().rev();
            let mut own_edges = own_edges.take_while(|edge| edge.from == end);
            if leaves || own_edges.any(|edge| edge.to == Node::Outside) {
                let live = self.liveness.before_last(function, &unit.live, number);
                unit.before_last.insert(number, live);
            }
            if leaves {
                let ends = own
                    .iter()
                    .any(|edge| edge.kind == EdgeKind::NoReturn && self.abandons.ends(edge.to));
                let kind = if ends { Kind::End } else { Kind::Out };
                unit.add(end, Node::Outside, kind, Place::Nowhere, Vec::new());
            }
        }
        Ok(())
    }

    /// A call at the end of a block, which returns to an address.
    fn add_call(&self, unit: &mut Unit<'_>, block: u32, behind: LinkAddr, callee: To) {
        if self.abandons.may_abandon(callee) {
            let kind = match self.abandons.ends(callee) {
                true => Kind::End,
                false => Kind::Abandoned,
            };
            let end = Node::End(block);
            unit.add(end, Node::Outside, kind, Place::Nowhere, Vec::new());
        }
        if self.abandons.forks(callee) {
            unit.forks.insert(behind);
        }
    }
}
