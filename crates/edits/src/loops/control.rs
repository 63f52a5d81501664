//! Ops at heads of loops and on the ways into and out of nests.

use std::mem::offset_of;

use flow::nests::{Nest, NestLoop};
use probe::{At, Byte, Exit, Op, Test, Word};
use rewrite::unit::{Edge, Kind, Node};
use rewrite::{HEAD, LEFT, Label, Unit, Version};
use wire::loops::{EXACT, Facts, Loop, Nest as State};

use super::{FOLLOWED, Loops, Place, QUIET};

/// The innermost loop of a nest that has a block.
fn inner(nest: &Nest, block: u32) -> Option<usize> {
    let has = |one: &NestLoop| one.blocks.binary_search(&block).is_ok();
    nest.loops.iter().rposition(has)
}

/// The innermost loop of a nest that has a block and is a loop or is around it.
fn common(nest: &Nest, own: usize, block: Option<u32>) -> Option<usize> {
    let mut at = Some(own);
    while let Some(number) = at {
        let one = &nest.loops[number];
        if block.is_some_and(|block| one.blocks.binary_search(&block).is_ok()) {
            break;
        }
        at = one.parent;
    }
    at
}

impl Loops<'_> {
    /// Ops at heads of loops and on ways out, in a version.
    pub(super) fn of_control(
        &self,
        unit: &Unit<'_>,
        place: &Place<'_>,
        version: Version,
    ) -> Vec<(At, Vec<Op>)> {
        let heads = (0..place.nest.loops.len())
            .filter_map(|number| self.head(unit, place, version, number));
        let edges = (0..).zip(&unit.edges);
        let ways_out = edges.filter_map(|edge| self.way_out(unit, place, version, edge));
        heads.chain(ways_out).collect()
    }

    /// The choice, as the resident code reads it beside a depth.
    fn about(&self) -> u32 {
        let exact = if self.choice.is_exact { EXACT } else { 0 };
        u32::from(self.choice.entries) << 16 | exact
    }

    fn head(
        &self,
        unit: &Unit<'_>,
        place: &Place<'_>,
        version: Version,
        number: usize,
    ) -> Option<(At, Vec<Op>)> {
        let one = &place.nest.loops[number];
        let header = unit.function.graph.block_from(one.header)? as u32;
        let at = At::Block(header);
        if version == QUIET {
            let word = Word(place.loops[number] + offset_of!(Loop, iteration) as u32);
            return (number > 0).then(|| (at, vec![Op::Add { word, amount: 1 }]));
        }
        let parent = one.parent.map_or(0, |parent| place.loops[parent]);
        let depth = one.depth | self.about();
        let facts: Facts = [place.loops[number], parent, place.state, depth];
        if self.choice.is_exact {
            let own = place.loops[number];
            let again = Op::Again {
                byte: Byte(own + offset_of!(Loop, active) as u32),
                word: Word(own + offset_of!(Loop, iteration) as u32),
                routine: HEAD,
                facts,
            };
            return Some((at, vec![again]));
        }
        let mut ways = vec![(offset_of!(State, ends), Version::FIRST)];
        if number > 0 {
            ways.push((offset_of!(State, quiet), QUIET));
        }
        let mut ops = vec![Op::Look {
            routine: HEAD,
            facts,
        }];
        for (flag, to) in ways {
            if let Some(label) = unit.label(to, header) {
                let test = Test::IsSet(place.byte(flag));
                let exit = Exit::To(label.symbol());
                ops.push(Op::Guard { test, exit });
            }
        }
        Some((at, ops))
    }

    /// Ops on an edge, if it leaves a loop that the version has.
    fn way_out(
        &self,
        unit: &Unit<'_>,
        place: &Place<'_>,
        version: Version,
        (number, edge): (u32, &Edge),
    ) -> Option<(At, Vec<Op>)> {
        let nest = place.nest;
        let Node::End(from) = edge.from else {
            return None;
        };
        let own = inner(nest, from).filter(|&own| version == FOLLOWED || own > 0)?;
        let to = match edge.to {
            Node::Start(to) => Some(to),
            _ => None,
        };
        let common = common(nest, own, to);
        if common == Some(own) {
            return None;
        }
        let at = match edge.kind {
            _ if edge.has_place() => At::Edge(number),
            Kind::Out => At::Last(from),
            _ => return None,
        };
        let to_loop = common.map_or(0, |at| place.loops[at]);
        let facts: Facts = [place.loops[own], to_loop, place.state, self.about()];
        let left = Op::Look {
            routine: LEFT,
            facts,
        };
        let quiet = match (version, common, to) {
            (QUIET, Some(common), Some(to)) => goes_back(unit, place, common, to, left),
            _ => None,
        };
        Some((at, quiet.unwrap_or_else(|| vec![left])))
    }

    /// Guards on the ways into a nest in the original code.
    pub(super) fn ways_in(&self, unit: &Unit<'_>, place: &Place<'_>) -> Vec<(At, Op)> {
        let outermost = &place.nest.loops[0];
        let Some(header) = unit.function.graph.block_from(outermost.header) else {
            return Vec::new();
        };
        let label = unit.label(FOLLOWED, header as u32);
        let is_in = |block: u32| outermost.blocks.binary_search(&block).is_ok();
        let edges = (0..).zip(&unit.edges);
        let into = edges.filter(|(_, edge)| {
            edge.to == Node::Start(header as u32)
                && matches!(edge.from, Node::End(from) if !is_in(from))
        });
        let test = Test::IsBelow(place.byte(offset_of!(State, off)), 1);
        into.filter_map(|(number, _)| {
            let exit = Exit::To(label?.symbol());
            Some((At::Edge(number), Op::Guard { test, exit }))
        })
        .collect()
    }
}

/// Ops where a quiet loop is left to a loop around it: the followed version goes on, unless the loop that went on quietly is still
/// around both.
fn goes_back(
    unit: &Unit<'_>,
    place: &Place<'_>,
    common: usize,
    to: u32,
    left: Op,
) -> Option<Vec<Op>> {
    let label = |version| unit.label(version, to).map(Label::symbol);
    let (quiet, followed) = (label(QUIET)?, label(FOLLOWED)?);
    let mut ops = vec![left, Op::Jump { to: followed }];
    if common > 0 {
        let depth = place.nest.loops[common].depth as u8;
        let test = Test::IsBelow(place.byte(offset_of!(State, quiet)), depth + 1);
        let exit = Exit::To(quiet);
        ops.insert(0, Op::Guard { test, exit });
    }
    Some(ops)
}

impl Place<'_> {
    /// A byte of the nest's state.
    fn byte(&self, offset: usize) -> Byte {
        Byte(self.state + offset as u32)
    }
}
