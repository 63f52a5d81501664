//! Units of all functions of a program.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use flow::{EdgeKind, Function, Liveness, Program, To};
use image::{Image, LinkAddr};
use isa::{Flow, Insn};
use probe::Spill;

use super::entries::{Entries, bare_entries};
use super::exits::way_to_function;
use super::table::Table;
use super::{Kind, Node, Place, Unit, direct, red_zone, transfers};
use crate::abandons::Abandons;
use crate::jump_tables::NewTables;
use crate::skipped::Why;
use crate::twice::{self, Exits};

/// Facts of a tool for units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// Threads have memory.
    pub has_memory: bool,
    /// Registers may be kept below the stack pointer.
    pub spills: bool,
    /// Something is inserted before instructions anywhere in a block.
    pub anywhere: bool,
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
        wants: Wants,
    ) -> Result<Unit<'d>, Why> {
        let Wants {
            has_memory,
            spills,
            anywhere,
        } = wants;
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
            inside: HashMap::new(),
            shared: BTreeMap::new(),
            forks: BTreeSet::new(),
        };
        self.add_edges(&mut unit, switches, bytes)?;
        if anywhere {
            let blocks = 0..function.graph.blocks.len();
            let within = |block| self.liveness.within(function, &unit.live, block);
            unit.inside = blocks.flat_map(within).collect();
        }
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
