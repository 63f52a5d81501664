//! Counters of a file's functions: their numbers, and the plan that says to readers what each counts.
//!
//! A block is two nodes and the edge between them ([`placement::plan`]), so a counter is at an edge; [`rewrite::Unit`] says where that
//! may be. Each tool has its [`Rule`]: which edges have counters, and what a counter is. A function whose counts would not follow is
//! left as it is.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use flow::Program;
use image::{Image, LinkAddr};
use isa::Insn;
use placement::plan::{self, PlannedEdge, Site, Tool, end_of, start_of};
use placement::{Chords, Graph, OUTSIDE, Place};
use probe::{At, Op, Tables, Tallied, Word};
use rewrite::unit::{self, Kind, Node};
use rewrite::{Form, Memory, Outcome, Plan, Section, StaticTool, TALLY, Unit, Version, Why};
use wire::counters::FIRST;

use crate::Wanted;
use crate::weights::Weights;

/// Cost of a counter in a line with other code, and of one that needs a jump; the factor of one that keeps flags. They are measured
/// (`benches/runs/2026-11-29-leads.md`).
const INLINE: u64 = 2;
const JUMPED: u64 = 6;
const KEEPS_FLAGS: u64 = 6;
/// Bytes of a program's first instructions.
const FIRST_INSNS: u64 = 48;
/// Bytes of code for each pair of the table of targets for which sites have no room, and logarithms of its pairs.
const CODE_OF_PAIR: u64 = 256;
const LEAST_BITS: u32 = 6;
const MOST_BITS: u32 = 15;
/// Most sites with targets: their numbers have that many bits less one in the table that they share.
const MOST_SITES: u32 = 1 << (64 - Tallied::NUMBER_AT - 1);

// Inserted code and readers agree.
const _: () = assert!(Tallied::PAIRS as usize == Site::PAIRS);
const _: () = assert!(Tallied::NUMBER_AT == Site::NUMBER_AT);

/// Most counters: their displacements are numbers of 31 bits.
const MOST: u64 = (1 << 28) - 1024;

/// The difference between tools that count.
pub trait Rule: Send {
    /// The tool, for readers.
    const TOOL: Tool;
    /// Bytes of a counter.
    const BYTES: u64 = 8;

    /// The work of a counter, by its place in memory.
    fn op(at: u64) -> Op {
        add(at)
    }

    /// Numbers of a function's edges that have counters; `None`: counts would not follow from any.
    fn choose(_unit: &Unit<'_>, graph: &Graph) -> Option<Vec<usize>> {
        chords(graph)
    }

    /// The choice for a block's counter, if there is one.
    fn place_of_block(place: Place) -> Place {
        place
    }
}

/// Chooses counters for one function after the other.
pub struct Counting<'d, R> {
    wanted: Wanted<'d>,
    image: &'d Image,
    program: &'d Program,
    /// Number of the next counter.
    next: u64,
    /// Calls and jumps by an address with tables, and the logarithm of the pairs of the table that they share.
    sites: u32,
    shared_bits: u8,
    /// By function.
    planned: BTreeMap<usize, plan::Function>,
    rule: PhantomData<R>,
}

impl<'d, R: Rule> Counting<'d, R> {
    pub fn new(image: &'d Image, program: &'d Program, wanted: Wanted<'d>) -> Counting<'d, R> {
        let pairs = (program.code / CODE_OF_PAIR).max(1);
        let bits = match wanted.targets {
            true => pairs.ilog2().clamp(LEAST_BITS, MOST_BITS),
            false => 0,
        };
        Counting {
            wanted,
            image,
            program,
            next: if bits > 0 { 2 << bits } else { 0 },
            sites: 0,
            shared_bits: bits as u8,
            planned: BTreeMap::new(),
            rule: PhantomData,
        }
    }

    /// The function whose address the program's first instructions put into rdi: its main function. Programs made for older
    /// C libraries have two more there, in other registers.
    fn main(&self) -> u64 {
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

    /// Has targets of calls and jumps by an address counted, in tables from the word `next` on; gives those that have one. `before`:
    /// bytes before the first word.
    fn add_tables(
        &self,
        unit: &Unit<'_>,
        (before, next): (u64, &mut u64),
        out: &mut Plan,
    ) -> Result<Vec<Site>, Why> {
        let mut sites = Vec::new();
        for transfer in unit.transfers.iter().filter(|_| self.wanted.targets) {
            let number = self.sites + sites.len() as u32;
            let tables = Tables {
                own: Word((before + *next * R::BYTES) as u32),
                number,
                shared: Word(before as u32),
                bits: if number < MOST_SITES {
                    self.shared_bits
                } else {
                    0
                },
            };
            let op = Op::Tally {
                value: transfer.target,
                tables,
                routine: TALLY,
            };
            if transfer.takes(op) {
                let block = transfer.block;
                out.add(unit, At::Last(block), op)?;
                *next += Site::WORDS as u64;
                sites.push(Site { block, number });
            }
        }
        Ok(sites)
    }

    /// A function's graph with what counters would cost.
    fn graph(&self, unit: &Unit<'_>) -> Graph {
        let weights = Weights::of(unit.function, self.wanted.profile);
        let blocks = unit.function.graph.blocks.len() as u32;
        let edges = unit.edges.iter().map(|edge| {
            let place = match edge.takes(add(FIRST)) {
                true => Place::May(cost(edge, &weights)),
                false => Place::Never,
            };
            placement::Edge {
                from: number_of(edge.from, blocks),
                to: number_of(edge.to, blocks),
                place: match edge.kind {
                    Kind::Block => R::place_of_block(place),
                    _ => place,
                },
            }
        });
        Graph {
            nodes: start_of(blocks) + unit.tables,
            edges: edges.collect(),
        }
    }
}

impl<R: Rule> StaticTool for Counting<'_, R> {
    fn plan(&mut self, unit: &Unit<'_>, _: Version, out: &mut Plan) -> Result<(), Why> {
        let chosen = R::choose(unit, &self.graph(unit)).ok_or(Why::NoPlace)?;
        let first = self.next;
        let before = FIRST + self.wanted.part.map_or(0, |part| part.at);
        let mut next = first + chosen.len() as u64;
        let sites = self.add_tables(unit, (before, &mut next), out)?;
        if next > MOST - before / 8 {
            return Err(Why::NoPlace);
        }
        let mut edges = planned_edges(unit);
        for (number, &at) in (first..).zip(&chosen) {
            edges[at].has_counter = true;
            let op = R::op(before + number * R::BYTES);
            out.add(unit, At::Edge(at as u32), op)?;
        }
        self.next = next;
        self.sites += sites.len() as u32;
        let blocks = unit.function.graph.blocks.iter();
        let planned = plan::Function {
            entry: unit.function.entry.0,
            first,
            blocks: blocks
                .map(|block| (block.start.0, (block.end.0 - block.start.0) as u32))
                .collect(),
            tables: unit.tables,
            edges,
            sites,
        };
        self.planned.insert(unit.number, planned);
        Ok(())
    }

    fn skip(&mut self, function: usize) {
        self.planned.remove(&function);
    }

    fn memory(&self) -> Option<Memory<'_>> {
        Some(Memory {
            bytes: (self.next * R::BYTES).next_multiple_of(FIRST).max(FIRST),
            form: Form::Counters,
            files: self.wanted.files,
            part: self.wanted.part,
        })
    }

    /// Graphs of the functions that moved, and which edges have counters.
    fn section(&self, outcome: &Outcome<'_>) -> Option<Section> {
        let file = plan::File {
            tool: R::TOOL,
            original: self.wanted.original.to_owned(),
            size: outcome.input.len() as u64,
            hash: plan::hash(outcome.input),
            main: self.main(),
            shared_bits: self.shared_bits,
            functions: self.planned.values().cloned().collect(),
            uncounted: uncounted(outcome),
        };
        let bytes = file.encode();
        let id = plan::hash(&bytes);
        Some(Section { bytes, id })
    }

    fn records_targets(&self) -> bool {
        self.wanted.targets
    }

    fn says(&self) -> String {
        let counters: usize = self.planned.values().map(plan::Function::counters).sum();
        format!("{counters} counters")
    }
}

/// Adds one to a counter of 64 bits by its place in memory.
fn add(at: u64) -> Op {
    Op::Add {
        word: Word(at as u32),
        amount: 1,
    }
}

/// Edges off a spanning tree: the counts of all others follow from theirs.
fn chords(graph: &Graph) -> Option<Vec<usize>> {
    Chords::of(graph)
        .ok()
        .map(|chords| chords.edges().collect())
}

/// Edges as readers know them, without counters.
pub fn planned_edges(unit: &Unit<'_>) -> Vec<PlannedEdge> {
    let blocks = unit.function.graph.blocks.len() as u32;
    let edges = unit.edges.iter();
    edges
        .map(|edge| PlannedEdge {
            from: number_of(edge.from, blocks),
            to: number_of(edge.to, blocks),
            kind: match edge.kind {
                Kind::Block => plan::Kind::Block,
                Kind::In => plan::Kind::In,
                Kind::Falls => plan::Kind::Falls,
                Kind::Taken => plan::Kind::Taken,
                Kind::Case => plan::Kind::Case,
                Kind::Out => plan::Kind::Out,
                Kind::Abandoned => plan::Kind::Abandoned,
                Kind::End => plan::Kind::End,
            },
            has_counter: false,
        })
        .collect()
}

/// Number of a node for readers, in a function with so many blocks.
fn number_of(node: Node, blocks: u32) -> u32 {
    match node {
        Node::Outside => OUTSIDE,
        Node::Start(block) => start_of(block),
        Node::End(block) => end_of(block),
        Node::Table(table) => start_of(blocks) + table,
    }
}

/// Cost of a counter, by how often control probably comes there.
fn cost(edge: &unit::Edge, weights: &Weights) -> u64 {
    let mut each = match edge.needs_jump() {
        true => JUMPED,
        false => INLINE,
    };
    if edge.live.flags != isa::Flags::NONE {
        each *= KEEPS_FLAGS;
    }
    let weight = match (edge.kind, edge.from) {
        (Kind::Block, Node::Start(block)) => weights.blocks[block as usize],
        (Kind::In, _) if edge.is_entry() => weights.entry,
        _ => edge.graph.first().map_or(0, |first| weights.edges[*first]),
    };
    // Several jumps go by one table.
    let others = edge.graph.iter().skip(1);
    let others = others.map(|other| weights.edges[*other].saturating_mul(JUMPED));
    others.fold(weight.saturating_mul(each), u64::saturating_add)
}

/// Code without counters.
pub fn uncounted(outcome: &Outcome<'_>) -> plan::Uncounted {
    let mut uncounted = plan::Uncounted {
        outside: outcome.program.code_outside(),
        of: outcome.program.code,
        ..plan::Uncounted::default()
    };
    let mut reasons: Vec<Why> = Vec::new();
    for &(number, why) in outcome.skipped {
        let reason = reasons.iter().position(|known| *known == why);
        let reason = reason.unwrap_or_else(|| {
            reasons.push(why);
            reasons.len() - 1
        });
        let function = &outcome.program.functions[number];
        let sizes = function
            .ranges
            .iter()
            .map(|range| range.end.0 - range.start.0);
        uncounted.functions.push(plan::Left {
            entry: function.entry.0,
            bytes: sizes.sum(),
            reason: reason as u32,
        });
    }
    uncounted
        .functions
        .sort_unstable_by_key(|function| function.entry);
    let texts = reasons.iter();
    uncounted.reasons = texts
        .map(|why| format!("{}, {}", why.name(), why.reason()))
        .collect();
    uncounted
}

/// `lea rdi, [rip + x]` or `mov rdi, x`.
fn writes_rdi(insn: &Insn) -> bool {
    let bytes = insn.bytes();
    [&[0x48, 0x8d, 0x3d][..], &[0x48, 0xc7, 0xc7], &[0xbf]]
        .iter()
        .any(|form| bytes.starts_with(form))
}
