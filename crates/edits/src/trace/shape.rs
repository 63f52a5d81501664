//! A function as paths see it: what follows each block, and which blocks have tokens of their own.
//!
//! A node is a block, or, behind the blocks, a way by which a conditional branch goes to another function. Paths end at nodes
//! where control leaves the function or a call is made, and at *arrivals*, blocks to which control may come from where nothing can be
//! inserted: landing pads, and targets of jumps whose table stays or is shared. An arrival has a token that names it.

use std::ops::Range;

use flow::{EdgeKind, To};
use image::LinkAddr;
use placement::paths::{Node, Paths, Way};
use placement::traced::{self, Arrival, Back, End};
use probe::{At, Item};
use rewrite::unit::{self, Kind};
use rewrite::{Unit, Why};
use wire::witness;

use super::append;
use crate::known::{Known, comes_twice};
use crate::weights::Weights;

/// Ways from a block by a table that have numbers of paths; with more, its targets are arrivals.
const MOST_CASES: usize = 100;
/// A way into a node: from outside, or from another node by one of its ways.
#[derive(Clone, Copy, Debug)]
pub struct In {
    pub from: Option<(usize, usize)>,
    /// Number of the unit's edge.
    pub edge: usize,
}

/// A function as paths know it.
#[derive(Debug, Default)]
pub struct Shape {
    pub nodes: Vec<Node>,
    /// By node.
    pub ends: Vec<End>,
    pub arrivals: Vec<Arrival>,
    pub is_out: Vec<bool>,
    pub ins: Vec<Vec<In>>,
    /// Number of blocks.
    pub blocks: usize,
    /// Code of the nodes behind: the padding before a function that another one runs into, or an address.
    exits: Vec<Range<LinkAddr>>,
}

impl Shape {
    /// Makes the shape of a function.
    ///
    /// # Errors
    /// Tokens do not say what it executes.
    pub fn of(unit: &Unit<'_>, known: &Known<'_>, weights: &Weights) -> Result<Shape, Why> {
        let graph = &unit.function.graph;
        let blocks = graph.blocks.len();
        let mut shape = Shape {
            nodes: vec![Node::default(); blocks],
            ends: vec![End::Ways; blocks],
            arrivals: vec![Arrival::Silent; blocks],
            is_out: vec![false; blocks],
            ins: vec![Vec::new(); blocks],
            blocks,
            exits: Vec::new(),
        };
        shape.add_ways_in(unit)?;
        for block in 0..blocks {
            shape.add_end(unit, known, block)?;
        }
        for (edge, own) in unit.edges.iter().enumerate() {
            let (unit::Node::End(from), true) = (own.from, own.kind != Kind::Block) else {
                continue;
            };
            let from = from as usize;
            let weight = own.graph.iter().map(|at| weights.edges[*at]).sum();
            match (own.to, shape.ends[from]) {
                (unit::Node::Start(to), End::Ways) => {
                    shape.add_way(from, to as usize, (edge, weight, own.has_place()));
                }
                (unit::Node::Start(to), End::Call { .. }) => {
                    shape.ins[to as usize].push(In { from: None, edge })
                }
                (unit::Node::Outside, End::Ways) if own.has_place() => {
                    let way = own.graph.first().map(|at| &graph.edges[*at]);
                    let exit = shape.add_exit(unit, way.ok_or(Why::Code)?, known);
                    shape.add_way(from, exit, (edge, weight, true));
                }
                _ => {}
            }
        }
        shape.number_arrivals();
        for (node, end) in shape.nodes.iter_mut().zip(&shape.ends) {
            node.stops |= *end != End::Ways || node.ways.is_empty();
        }
        Ok(shape)
    }

    fn add_way(&mut self, from: usize, to: usize, (edge, weight, has_place): (usize, u64, bool)) {
        let way = self.nodes[from].ways.len();
        self.nodes[from].ways.push(Way {
            to: to as u32,
            weight,
            has_place,
        });
        self.ins[to].push(In {
            from: Some((from, way)),
            edge,
        });
    }

    /// A way of a branch into another function.
    fn add_exit(&mut self, unit: &Unit<'_>, way: &flow::Edge, known: &Known<'_>) -> usize {
        self.nodes.push(Node {
            stops: true,
            ..Node::default()
        });
        let target = known.moved(way.to).map(|(_, entry)| entry);
        self.ends.push(End::Tail { target });
        self.arrivals.push(Arrival::Silent);
        self.is_out.push(false);
        self.ins.push(Vec::new());
        let To::Address(to) = way.to else {
            self.exits.push(LinkAddr(0)..LinkAddr(0));
            return self.nodes.len() - 1;
        };
        let padding = padding_before(unit, way);
        self.exits.push(padding.unwrap_or(to..to));
        self.nodes.len() - 1
    }

    /// Entries and landing pads.
    fn add_ways_in(&mut self, unit: &Unit<'_>) -> Result<(), Why> {
        let pads = unit.function.graph.edges.iter();
        let pads = pads.filter(|edge| edge.kind == EdgeKind::LandingPad);
        for pad in pads {
            if let To::Block(block) = pad.to {
                self.arrivals[block as usize] = Arrival::Pad;
            }
        }
        for block in unit.function.entry_blocks() {
            if self.arrivals[block as usize] == Arrival::Pad {
                return Err(Why::NoPlace);
            }
            self.nodes[block as usize].starts = true;
        }
        for (edge, own) in unit.edges.iter().enumerate() {
            if let (Kind::In, unit::Node::Start(block)) = (own.kind, own.to)
                && self.arrivals[block as usize] != Arrival::Pad
            {
                self.ins[block as usize].push(In { from: None, edge });
            }
        }
        Ok(())
    }

    /// Finds what follows a block, by its edges.
    fn add_end(&mut self, unit: &Unit<'_>, known: &Known<'_>, block: usize) -> Result<(), Why> {
        let edges = unit.function.graph.edges_of(block);
        let has = |kind: EdgeKind| edges.iter().find(|edge| edge.kind == kind);
        let own = unit.edges.iter();
        let own = own.filter(|edge| edge.from == unit::Node::End(block as u32));
        let ends = own.clone().any(|edge| edge.kind == Kind::End);
        let leaves = own.clone().any(|edge| edge.kind == Kind::Abandoned);
        let call = has(EdgeKind::Call).or(has(EdgeKind::NoReturn));
        if let Some(call) = call {
            self.ends[block] = self.call_of(unit, known, block, (call, !ends && !leaves))?;
        } else if has(EdgeKind::Return).is_some() {
            // Threads begin, and the program does, in functions whose address code takes.
            let tells = unit.function.evidence.taken && self.takes_last(unit, block);
            self.ends[block] = End::Return { tells };
        } else if own
            .clone()
            .any(|edge| matches!(edge.to, unit::Node::Table(_)))
            || self.has_many(unit, block)
        {
            self.ends[block] = End::Table;
            for edge in edges.iter().filter(|edge| edge.kind == EdgeKind::Case) {
                if let To::Block(to) = edge.to
                    && self.arrivals[to as usize] == Arrival::Silent
                {
                    self.arrivals[to as usize] = Arrival::Address;
                }
            }
        } else if let ([edge], EdgeKind::TailCall | EdgeKind::FallThrough)
        | ([edge], EdgeKind::Taken) = (
            edges,
            edges.first().map_or(EdgeKind::Return, |edge| edge.kind),
        ) && !matches!(edge.to, To::Block(_))
        {
            let target = known.moved(edge.to).map(|(_, entry)| entry);
            self.ends[block] = End::Tail { target };
        } else if edges.is_empty() {
            self.ends[block] = End::Nothing;
        }
        let may_end = ends || has(EdgeKind::NoReturn).is_some() || leaves && call.is_none();
        // In the middle of a path the token would come before that of the path.
        self.is_out[block] =
            may_end && self.ends[block] != End::Ways && self.takes_last(unit, block);
        Ok(())
    }

    /// The call at the end of a block; `returns`: nothing is known by which it would not come back, or call back.
    fn call_of(
        &mut self,
        unit: &Unit<'_>,
        known: &Known<'_>,
        block: usize,
        (call, returns): (&flow::Edge, bool),
    ) -> Result<End, Why> {
        let edges = unit.function.graph.edges_of(block);
        let has = |kind: EdgeKind| edges.iter().find(|edge| edge.kind == kind);
        let next = edges.iter().find(|edge| edge.kind == EdgeKind::FallThrough);
        let next = match next.map(|next| next.to) {
            None => None,
            Some(To::Block(next)) => Some(next),
            Some(_) => return Err(Why::NoPlace),
        };
        let moved = known.moved(call.to);
        let back = match moved {
            _ if next.is_none() => Back::Nothing,
            // The C library's description says that it returns, and calls nothing back.
            None if matches!(call.to, To::Slot(_)) && returns && !known.is_together => {
                Back::Nothing
            }
            _ if comes_twice(known.program, call.to) || unit.forks(block as u32) => Back::Point,
            Some((number, _)) if !known.may_leave[number] => Back::Nothing,
            _ => Back::Site,
        };
        if let Some(next) = next {
            self.nodes[next as usize].starts = true;
        }
        Ok(End::Call {
            target: moved.map(|(_, entry)| entry),
            back,
            next,
            pad: has(EdgeKind::LandingPad).and_then(|edge| match edge.to {
                To::Block(pad) => Some(pad),
                _ => None,
            }),
        })
    }

    /// Whether a token can be appended before the last instruction of a block.
    fn takes_last(&self, unit: &Unit<'_>, block: usize) -> bool {
        unit.takes(At::Last(block as u32), append(Item::Imm8(witness::OUT)))
    }

    /// Whether the ways of a jump by a table are not told by numbers of paths: nothing can be inserted on some, or they are many.
    fn has_many(&self, unit: &Unit<'_>, block: usize) -> bool {
        let own = unit.edges.iter();
        let own = own.filter(|edge| edge.from == unit::Node::End(block as u32));
        let mut cases = own.filter(|edge| edge.kind == Kind::Case);
        let is_bare = |edge: &unit::Edge| !edge.has_place();
        cases.clone().count() > MOST_CASES || cases.any(is_bare)
    }

    /// Arrivals have a number while there are few.
    fn number_arrivals(&mut self) {
        let mut next = 0;
        for (node, arrival) in self.nodes.iter_mut().zip(&mut self.arrivals) {
            if *arrival == Arrival::Silent {
                continue;
            }
            node.stops = true;
            if *arrival == Arrival::Address && next < witness::PATHS {
                *arrival = Arrival::Number(next as u8);
                next += 1;
            }
        }
    }

    /// The address of a node.
    pub fn address(&self, unit: &Unit<'_>, node: usize) -> LinkAddr {
        match unit.function.graph.blocks.get(node) {
            Some(block) => block.start,
            None => self.exits[node - self.blocks].start,
        }
    }

    /// The function as readers know it.
    pub fn into_plan(self, unit: &Unit<'_>, known: &Known<'_>, paths: &Paths) -> traced::Function {
        let entries = unit.function.entry_blocks().into_iter();
        let entries = entries.map(|block| traced::Entry {
            block,
            number: known.number_of(self.address(unit, block as usize)),
            registers: 0,
        });
        let entries = entries.collect();
        let blocks = (0..self.nodes.len()).map(|node| {
            let ways = self.nodes[node].ways.iter().zip(&paths.increments[node]);
            let code = match unit.function.graph.blocks.get(node) {
                Some(block) => block.start..runs_to(unit, node).unwrap_or(block.end),
                None => self.exits[node - self.blocks].clone(),
            };
            traced::Block {
                start: code.start.0,
                len: (code.end - code.start) as u32,
                ways: ways.map(|(way, increment)| (way.to, *increment)).collect(),
                end: self.ends[node],
                arrival: self.arrivals[node],
                paths: paths.counts[node],
                stops: paths.stops[node],
                tells: paths.tells[node],
                is_out: self.is_out[node],
                values: Vec::new(),
                results: 0,
            }
        });
        traced::Function {
            entry: unit.function.entry.0,
            entries,
            blocks: blocks.collect(),
        }
    }
}

/// The padding between the block from which a way leaves a function and the function that it runs into.
fn padding_before(unit: &Unit<'_>, way: &flow::Edge) -> Option<Range<LinkAddr>> {
    let To::Address(to) = way.to else {
        return None;
    };
    let from = unit.function.graph.blocks[way.from as usize].end;
    (way.kind == EdgeKind::FallThrough && to >= from).then_some(from..to)
}

/// The end of a block with the padding behind it, if it runs into another function and goes nowhere else.
fn runs_to(unit: &Unit<'_>, block: usize) -> Option<LinkAddr> {
    match unit.function.graph.edges_of(block) {
        [way] => Some(padding_before(unit, way)?.end),
        _ => None,
    }
}
