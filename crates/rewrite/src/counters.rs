//! Counters of a file's functions: where they are, and the code that counts.
//!
//! A block is two nodes and the edge between them ([`placement::plan`]), so a counter may be in a block or on a way to one:
//!
//! | edge | its counter |
//! |---|---|
//! | block | before its first instruction |
//! | way in at the entry | before that, for callers only |
//! | to the code behind | between the two blocks |
//! | by a branch or a table that is made anew | behind the function, or before the target where nobody falls through to it |
//! | other ways in, ways out, calls that do not come back | none: they follow from the others |
//!
//! (QP, 3.3 and figure 5.) A function whose counts would not follow is left as it is.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use flow::{EdgeKind, Function, Live, Liveness, Program, To};
use image::{Image, LinkAddr};
use isa::{Flow, Insn, RegisterSet};
use placement::plan::{self, Kind, PlannedEdge, Tool, end_of, start_of};
use placement::{Chords, Edge, Graph, OUTSIDE, Place};
use probe::{Byte, Exit, Op, Site, Spill, Test, Word};
use wire::counters::FIRST;

use crate::abandons::Abandons;
use crate::coverage::marks;
use crate::left::Why;
use crate::relocate::{Inserted, Insertions, RESIDENT};
use crate::switches::Switches;
use crate::weights::{Profile, Weights};

/// `r11`, which inserted code at entries uses.
const R11: u16 = 1 << 11;
/// Cost of a counter in a line with other code, and of one that needs a jump; of one that keeps flags.
const INLINE: u64 = 2;
const JUMPED: u64 = 3;
const KEEPS_FLAGS: u64 = 3;
/// Bytes of a program's first instructions.
const FIRST_INSNS: u64 = 48;
/// Most counters: their displacements are numbers of 31 bits.
const MOST: u64 = (1 << 28) - 1024;

/// A request for counters.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub tool: Tool,
    /// Path of the original, for who reads the counts.
    pub original: &'a str,
    /// An earlier run.
    pub profile: Option<&'a Profile>,
    pub files: CounterFiles<'a>,
}

/// The place of files of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterFiles<'a> {
    /// The folder that `EVERYPATH_COUNTERS` names when the program runs, else that in which it runs.
    WorkingFolder,
    /// The folder of the edited program.
    Beside,
    /// This one, of at most 511 bytes, if `EVERYPATH_COUNTERS` names no other.
    Folder(&'a str),
}

/// Counters of a function.
pub struct Found {
    pub planned: plan::Function,
    /// The code for them.
    pub insertions: Insertions,
    /// Old places of its entries that code in front of them would harm.
    pub bare: Vec<u64>,
    pub is_called: bool,
}

/// Chooses counters for one function after the other.
pub struct Counters<'d> {
    wanted: Wanted<'d>,
    image: &'d Image,
    program: &'d Program,
    liveness: Liveness<'d>,
    abandons: Abandons<'d>,
    /// Entries to which functions jump.
    jumped: HashSet<LinkAddr>,
    /// Number of the next counter.
    next: u64,
}

/// Edges of a function with what they need.
struct Edges<'c> {
    live: &'c Live,
    weights: &'c Weights,
    all: Vec<PlannedEdge>,
    places: Vec<Place>,
    keys: Vec<Key>,
    /// Nodes of tables that several jumps go by, by address.
    tables: BTreeMap<u64, u32>,
    /// Blocks to which calls return that may return in a forked child: the thread is given counters then.
    forks: BTreeSet<u64>,
}

/// Place of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Nowhere,
    Block(u64),
    Entry,
    Falls(u64),
    /// See [`Insertions::taken`].
    Taken(u64, u64),
}

impl<'d> Counters<'d> {
    pub fn new(image: &'d Image, program: &'d Program, wanted: Wanted<'d>) -> Counters<'d> {
        let edges = program
            .functions
            .iter()
            .flat_map(|function| &function.graph.edges);
        let jumps = edges.filter(|edge| !matches!(edge.kind, EdgeKind::Call | EdgeKind::NoReturn));
        let jumped = jumps.filter_map(|edge| match edge.to {
            To::Address(target) => Some(target),
            _ => None,
        });
        Counters {
            wanted,
            image,
            program,
            jumped: jumped.collect(),
            liveness: Liveness::new(image, program),
            abandons: Abandons::of(program),
            next: 0,
        }
    }

    /// Bytes of a thread's counters, whole pages.
    pub fn stride(&self) -> u64 {
        let each = match self.wanted.tool {
            Tool::Coverage => 1,
            Tool::Edges | Tool::Blocks => 8,
        };
        (self.next * each).next_multiple_of(FIRST).max(FIRST)
    }

    pub fn files(&self) -> CounterFiles<'_> {
        self.wanted.files
    }

    pub fn tool(&self) -> Tool {
        self.wanted.tool
    }

    /// The function whose address the program's first instructions put into rdi: its main function. Programs made for older
    /// C libraries have two more there, in other registers.
    pub fn main(&self) -> u64 {
        let start = self.image.entry();
        let mut at = start.0;
        while at < start.0 + FIRST_INSNS {
            let bytes = self.image.bytes_from(LinkAddr(at));
            let Ok(insn) = Insn::decode(&bytes[..bytes.len().min(15)], at) else {
                break;
            };
            let address = insn.rip_relative().map(|(address, _)| address);
            let address = address.or_else(|| insn.absolute().map(|(address, _)| address.into()));
            let entry = address.filter(|address| {
                let function = self.program.function_from(LinkAddr(*address));
                function.is_some_and(|function| function.entry != start)
            });
            if let Some(entry) = entry.filter(|_| writes_rdi(&insn)) {
                return entry;
            }
            at = insn.next_pc();
        }
        0
    }

    pub fn original(&self) -> &str {
        self.wanted.original
    }

    /// Counters of a function, and the code for them.
    pub fn of<'b>(
        &mut self,
        function: &Function,
        switches: &Switches,
        bytes: &dyn Fn(u64) -> &'b [u8],
    ) -> Result<Found, Why> {
        let live = self.liveness.of(function);
        let weights = Weights::of(function, self.wanted.profile);
        let mut insertions = Insertions::default();
        let mut edges = Edges {
            live: &live,
            weights: &weights,
            all: Vec::new(),
            places: Vec::new(),
            keys: Vec::new(),
            tables: BTreeMap::new(),
            forks: BTreeSet::new(),
        };
        self.add_edges(function, switches, bytes, &mut edges)?;
        let all = edges.all.iter().zip(&edges.places);
        let graph = Graph {
            nodes: start_of(function.graph.blocks.len() as u32) + edges.tables.len() as u32,
            edges: all
                .map(|(edge, &place)| Edge {
                    from: edge.from,
                    to: edge.to,
                    place,
                })
                .collect(),
        };
        let chosen = edges.chosen(&graph, self.wanted.tool)?;
        let first = self.next;
        let count = chosen.len() as u64;
        if first + count > MOST {
            return Err(Why::Uncounted);
        }
        edges.lower(&chosen, self.wanted.tool, first, &mut insertions)?;
        self.next += count;
        let blocks = function.graph.blocks.iter();
        let planned = plan::Function {
            entry: function.entry.0,
            first,
            blocks: blocks
                .map(|block| (block.start.0, (block.end.0 - block.start.0) as u32))
                .collect(),
            tables: edges.tables.len() as u32,
            edges: edges.all,
        };
        Ok(Found {
            bare: self.bare_entries(function, &live),
            is_called: self.is_called(function),
            planned,
            insertions,
        })
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

    /// Old places of a function's entries that code in front of them would harm: it changes a register, and flags.
    fn bare_entries(&self, function: &Function, live: &Live) -> Vec<u64> {
        let is_called = self.is_called(function);
        let first = [function.entry].into_iter().filter(|_| !is_called);
        let entries = function.others.iter().copied().chain(first);
        let bare = entries.filter(|entry| {
            let block = function.graph.block_from(*entry);
            block.is_some_and(|block| !is_free(live.before[block]))
        });
        bare.map(|entry| entry.0).collect()
    }

    /// Ways in: at entries, and where landing pads are.
    fn add_ways_in(function: &Function, first: u32, edges: &mut Edges<'_>) {
        let all = function.graph.edges.iter();
        let pads = all.filter(|edge| edge.kind == EdgeKind::LandingPad);
        let pads: BTreeSet<u32> = pads
            .filter_map(|edge| match edge.to {
                To::Block(to) => Some(to),
                _ => None,
            })
            .collect();
        let mut ways_in = pads.clone();
        ways_in.extend(function.entry_blocks());
        for block in ways_in {
            let (key, weight) = match block == first && !pads.contains(&first) {
                true => (Key::Entry, edges.weights.entry),
                false => (Key::Nowhere, 0),
            };
            edges.add(OUTSIDE, start_of(block), Kind::In, key, weight);
        }
    }

    /// Edges of all blocks.
    // Long function: one match on the kinds of edges.
    fn add_edges<'b>(
        &self,
        function: &Function,
        switches: &Switches,
        bytes: &dyn Fn(u64) -> &'b [u8],
        edges: &mut Edges<'_>,
    ) -> Result<(), Why> {
        let graph = &function.graph;
        let first = graph.block_from(function.entry).ok_or(Why::Code)? as u32;
        Self::add_ways_in(function, first, edges);
        for (number, block) in (0..).zip(&graph.blocks) {
            let weight = edges.weights.blocks[number as usize];
            let key = Key::Block(block.start.0);
            edges.add(start_of(number), end_of(number), Kind::Block, key, weight);
            if self.wanted.tool == Tool::Blocks
                && let Some(place @ Place::May(_)) = edges.places.last_mut()
            {
                *place = Place::Always;
            }
            let last = bytes(block.last.0);
            let last = Insn::decode(&last[..last.len().min(15)], block.last.0);
            let flow = last.map_err(|_| Why::Code)?.flow();
            let before = graph.edges.partition_point(|edge| edge.from < number);
            let own = graph.edges_of(number as usize);
            let mut leaves = own.is_empty();
            for (at, edge) in own.iter().enumerate() {
                let weight = edges.weights.edges[before + at];
                let To::Block(to) = edge.to else {
                    leaves |= edge.kind != EdgeKind::Call;
                    if edge.kind == EdgeKind::Call {
                        self.add_call(number, block.end.0, edge.to, edges);
                    }
                    continue;
                };
                let target = graph.blocks[to as usize].start.0;
                let (kind, key) = match edge.kind {
                    EdgeKind::FallThrough => (Kind::Falls, Key::Falls(target)),
                    // It has no long form.
                    EdgeKind::Taken if matches!(flow, Flow::CountJump(_)) => {
                        (Kind::Taken, Key::Nowhere)
                    }
                    EdgeKind::Taken => (Kind::Taken, Key::Taken(block.last.0, target)),
                    EdgeKind::Case => {
                        let table = Table::of(function, switches, block.last.0);
                        if to == first && !table.is_new {
                            // Callers come by the same jump from its old place.
                            return Err(Why::Uncounted);
                        }
                        edges.add_case(function, number, to, &table, weight);
                        continue;
                    }
                    EdgeKind::LandingPad => continue,
                    _ => return Err(Why::Code),
                };
                edges.add(end_of(number), start_of(to), kind, key, weight);
            }
            if leaves {
                let ends = own
                    .iter()
                    .any(|edge| edge.kind == EdgeKind::NoReturn && self.abandons.ends(edge.to));
                let kind = if ends { Kind::End } else { Kind::Out };
                edges.add(end_of(number), OUTSIDE, kind, Key::Nowhere, 0);
            }
        }
        for &block in &edges.forks {
            let block = graph.block_from(LinkAddr(block)).ok_or(Why::Uncounted)?;
            if !is_free(edges.live.before[block]) {
                return Err(Why::Uncounted);
            }
        }
        Ok(())
    }

    /// A call at the end of a block, which returns to an address.
    fn add_call(&self, block: u32, behind: u64, callee: To, edges: &mut Edges<'_>) {
        if self.abandons.may_abandon(callee) {
            let kind = match self.abandons.ends(callee) {
                true => Kind::End,
                false => Kind::Abandoned,
            };
            edges.add(end_of(block), OUTSIDE, kind, Key::Nowhere, 0);
        }
        if self.abandons.forks(callee) {
            edges.forks.insert(behind);
        }
    }
}

/// Gives a forked child counters of its own.
const GIVE_COUNTERS: Op = Op::Guard {
    test: Test::IsOtherThread,
    exit: Exit::Routine(RESIDENT),
};

/// Adds one to a counter by its number.
fn add(number: u64) -> Op {
    Op::Add {
        word: Word((FIRST + number * 8) as u32),
        amount: 1,
    }
}

fn site(live: RegisterSet) -> Site {
    Site {
        live,
        spill: Spill::Never,
    }
}

/// Whether code with a comparison that uses `r11` can be inserted.
fn is_free(live: RegisterSet) -> bool {
    live.flags == isa::Flags::NONE && live.general & R11 == 0
}

/// The table that an indirect jump goes by.
struct Table {
    /// Address of the old one; 0: labels of a computed goto.
    old: u64,
    is_new: bool,
    /// Several jumps go by it.
    is_shared: bool,
}

impl Table {
    fn of(function: &Function, switches: &Switches, jump: u64) -> Table {
        let own = function.tables.iter().find(|table| table.jump.0 == jump);
        let old = own.map_or(0, |table| table.table.0);
        let new = switches
            .tables
            .iter()
            .find(|table| table.jumps.contains(&jump));
        let others = function.tables.iter().filter(|table| table.table.0 == old);
        Table {
            old,
            is_new: new.is_some(),
            is_shared: old == 0 || others.count() > 1,
        }
    }
}

impl Edges<'_> {
    /// Registers and flags that are live on the way to a node.
    fn live_at(&self, to: u32, from: u32) -> RegisterSet {
        let block = plan::block_of(to).or(plan::block_of(from)).unwrap_or(0);
        let live = self.live.before.get(block as usize);
        live.copied().unwrap_or(RegisterSet::ALL)
    }

    /// Indices of the edges with counters or marks.
    fn chosen(&self, graph: &Graph, tool: Tool) -> Result<Vec<usize>, Why> {
        if tool == Tool::Coverage {
            let has_place = |at: usize| self.keys[at] != Key::Nowhere;
            let blocks = self.live.before.len() as u32;
            return Ok(marks(blocks, &self.all, &has_place));
        }
        let chords = Chords::of(graph).map_err(|_| Why::Uncounted)?;
        Ok(chords.edges().collect())
    }

    /// Has ops done at an edge.
    fn insert(&self, at: usize, ops: Vec<Op>, insertions: &mut Insertions) -> Result<(), Why> {
        let edge = &self.all[at];
        let inserted = Inserted::of(ops, site(self.live_at(edge.to, edge.from)))?;
        match self.keys[at] {
            Key::Nowhere => return Err(Why::Uncounted),
            Key::Block(block) => {
                insertions.blocks.insert(block, inserted);
            }
            Key::Entry => insertions.entry = Some(inserted),
            Key::Falls(block) => {
                insertions.falls.insert(block, inserted);
            }
            Key::Taken(from, to) => {
                insertions.taken.insert((from, to), inserted);
            }
        }
        Ok(())
    }

    /// Makes the code of the counters, of which the first has the number `next`.
    fn lower(
        &mut self,
        chosen: &[usize],
        tool: Tool,
        mut next: u64,
        insertions: &mut Insertions,
    ) -> Result<(), Why> {
        let mut forks = std::mem::take(&mut self.forks);
        for &at in chosen {
            self.all[at].has_counter = true;
            let op = match tool {
                Tool::Coverage => Op::Set {
                    byte: Byte((FIRST + next) as u32),
                },
                Tool::Edges | Tool::Blocks => add(next),
            };
            next += 1;
            let mut ops = Vec::new();
            if let Key::Falls(block) = self.keys[at]
                && forks.remove(&block)
            {
                ops.push(GIVE_COUNTERS);
            }
            ops.push(op);
            self.insert(at, ops, insertions)?;
        }
        // Behind calls without a counter of their own.
        for block in forks {
            let is_it = |key: &Key| *key == Key::Falls(block);
            let at = self.keys.iter().position(is_it).ok_or(Why::Uncounted)?;
            self.insert(at, vec![GIVE_COUNTERS], insertions)?;
        }
        Ok(())
    }

    /// A way by a table. Where several jumps go by it, only their sum is known at each target.
    fn add_case(&mut self, function: &Function, from: u32, to: u32, table: &Table, weight: u64) {
        let target = function.graph.blocks[to as usize].start.0;
        let key = match table.is_new {
            true => Key::Taken(table.old, target),
            false => Key::Nowhere,
        };
        if !table.is_shared {
            self.add(end_of(from), start_of(to), Kind::Case, key, weight);
            return;
        }
        let next = start_of(function.graph.blocks.len() as u32) + self.tables.len() as u32;
        let node = *self.tables.entry(table.old).or_insert(next);
        let has = |edges: &Edges<'_>, from, to| {
            let mut all = edges.all.iter();
            all.position(|edge: &PlannedEdge| (edge.from, edge.to) == (from, to))
        };
        if has(self, end_of(from), node).is_none() {
            self.add(end_of(from), node, Kind::Case, Key::Nowhere, 0);
        }
        match has(self, node, start_of(to)) {
            None => self.add(node, start_of(to), Kind::Case, key, weight),
            Some(at) => {
                if let Place::May(sum) = &mut self.places[at] {
                    *sum = sum.saturating_add(weight.saturating_mul(JUMPED));
                }
            }
        }
    }

    fn add(&mut self, from: u32, to: u32, kind: Kind, key: Key, weight: u64) {
        let live = self.live_at(to, from);
        let fits = key != Key::Nowhere && probe::size(&[add(0)], &site(live)).is_ok();
        let mut cost = match key {
            Key::Taken(..) => JUMPED,
            _ => INLINE,
        };
        if live.flags != isa::Flags::NONE {
            cost *= KEEPS_FLAGS;
        }
        self.all.push(PlannedEdge {
            from,
            to,
            kind,
            has_counter: false,
        });
        self.places.push(match fits {
            true => Place::May(weight.saturating_mul(cost)),
            false => Place::Never,
        });
        self.keys.push(key);
    }
}

/// `lea rdi, [rip + x]` or `mov rdi, x`.
fn writes_rdi(insn: &Insn) -> bool {
    let bytes = insn.bytes();
    [&[0x48, 0x8d, 0x3d][..], &[0x48, 0xc7, 0xc7], &[0xbf]]
        .iter()
        .any(|form| bytes.starts_with(form))
}
