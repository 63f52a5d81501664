//! Tokens of a function, and what its paths add up, as ops at its edges.

use placement::traced::{Arrival, Back, End};
use probe::{At, Item, Op};
use rewrite::{Plan, Unit, Why};
use wire::witness;

use super::shape::{In, Shape};
use super::slices::Slices;
use super::values::{Planned, Value};
use super::{append, with_address};
use crate::known::Known;

/// Adds all tokens and sums of a function.
///
/// # Errors
/// There is no place for one, or no register.
pub fn add(
    unit: &Unit<'_>,
    (known, shape, planned): (&Known<'_>, &Shape, &Planned),
    slices: Option<&Slices>,
    out: &mut Plan,
) -> Result<(), Why> {
    let mut out = Tokens {
        unit,
        known,
        slices,
        out,
    };
    out.add_returns(shape)?;
    if let Some(slices) = slices {
        slices.add_early(unit, planned, out.out)?;
    }
    for (node, ways) in shape.ins.iter().enumerate() {
        for way in ways {
            out.add_way(shape, planned, node, way)?;
        }
    }
    for node in 0..shape.blocks {
        out.add_node(shape, planned, node)?;
    }
    Ok(())
}

struct Tokens<'a, 'u> {
    unit: &'a Unit<'u>,
    known: &'a Known<'a>,
    slices: Option<&'a Slices>,
    out: &'a mut Plan,
}

impl Tokens<'_, '_> {
    fn add(&mut self, at: At, op: Op) -> Result<(), Why> {
        match self.unit.takes(at, op) {
            true => self.out.add(self.unit, at, op),
            false => Err(Why::NoPlace),
        }
    }

    /// Tokens of calls that came back.
    fn add_returns(&mut self, shape: &Shape) -> Result<(), Why> {
        for (block, end) in shape.ends.iter().enumerate().take(shape.blocks) {
            let End::Call { back, next, .. } = *end else {
                continue;
            };
            let Some(next) = next.filter(|_| back != Back::Nothing) else {
                continue;
            };
            let to = self.unit.function.graph.blocks[block].end;
            let to = self.known.token_of(to);
            let from = rewrite::unit::Node::End(block as u32);
            let edges = self.unit.edges.iter();
            let mut edges = edges.enumerate().filter(|(_, edge)| edge.from == from);
            let way = edges.find(|(_, edge)| edge.to == rewrite::unit::Node::Start(next));
            let at = At::Edge(way.ok_or(Why::NoPlace)?.0 as u32);
            match back {
                Back::Site => self.add(at, append(Item::Imm8(witness::back(to))))?,
                _ => {
                    for op in point(to) {
                        self.add(at, op)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ops on a way into a node: the sum comes into the register that the node has it in; or the token.
    fn add_way(
        &mut self,
        shape: &Shape,
        planned: &Planned,
        node: usize,
        way: &In,
    ) -> Result<(), Why> {
        let (value, increment) = planned.coming(way.from);
        // Jumps by tables come to an arrival, too.
        let is_silent = shape.arrivals[node] == Arrival::Silent;
        let is_alone = shape.ins[node].len() == 1 && node < shape.blocks && is_silent;
        let at = match is_alone {
            true => At::Block(node as u32),
            false => At::Edge(way.edge as u32),
        };
        let stops = planned.paths.stops[node];
        let tells = stops && planned.paths.tells[node];
        let own = planned.values[node];
        if stops && !tells {
            return Ok(());
        }
        let early = way.from.and_then(|(from, _)| planned.early[from]);
        match (value, own) {
            (Value::Constant(_), Value::In(register))
                if early == Some(register) && increment == 0 => {}
            (Value::Constant(_), Value::In(register)) if early == Some(register) => {
                let amount = increment.cast_signed();
                self.add(at, Op::Sum { register, amount })?;
            }
            (Value::Constant(sum), Value::In(register)) => self.add(
                at,
                Op::Let {
                    register,
                    value: sum + increment,
                },
            )?,
            (Value::In(register), _) if increment > 0 => self.add(
                at,
                Op::Sum {
                    register,
                    amount: increment.cast_signed(),
                },
            )?,
            _ => {}
        }
        if !tells || !has_own_tokens(shape, own, node) {
            return Ok(());
        }
        match value {
            Value::Constant(sum) => self.add(at, append(Item::Imm8((sum + increment) as u8))),
            Value::In(register) => self.add(at, append(Item::Low(register))),
            Value::None | Value::Several => Ok(()),
        }
    }

    /// Ops before a block's first instruction, and its last.
    fn add_node(&mut self, shape: &Shape, planned: &Planned, node: usize) -> Result<(), Why> {
        let at = At::Block(node as u32);
        let value = planned.values[node];
        let tells = planned.paths.stops[node] && planned.paths.tells[node];
        if tells && !has_own_tokens(shape, value, node) {
            match value {
                Value::Constant(sum) => self.add(at, append(Item::Imm8(sum as u8)))?,
                Value::In(register) => self.add(at, append(Item::Low(register)))?,
                Value::None | Value::Several => {}
            }
        }
        let start = self.unit.function.graph.blocks[node].start;
        let start = self.known.token_of(start);
        match shape.arrivals[node] {
            Arrival::Silent => {}
            Arrival::Number(number) => self.add(at, append(Item::Imm8(number + 1)))?,
            Arrival::Address => {
                for op in with_address(witness::WENT, start) {
                    self.add(at, op)?;
                }
            }
            Arrival::Pad => {
                for op in with_address(witness::PAD, start) {
                    self.add(at, op)?;
                }
            }
        }
        if let Some(slices) = self.slices {
            slices.add_at(self.unit, (node, planned), self.out)?;
        }
        if let Some(register) = planned.early[node] {
            let value = match value {
                Value::Constant(sum) if !planned.paths.stops[node] => sum,
                _ => 1,
            };
            self.add(at, Op::Let { register, value })?;
        }
        let last = At::Last(node as u32);
        if shape.is_out[node] {
            self.add(last, append(Item::Imm8(witness::OUT)))?;
        }
        if shape.ends[node] == (End::Return { tells: true }) {
            self.add(last, append(Item::Imm8(witness::LEAVE)))?;
        }
        Ok(())
    }
}

/// Whether the tokens of paths that stop before a node are on the ways to it: it has another token behind, or they differ.
fn has_own_tokens(shape: &Shape, value: Value, node: usize) -> bool {
    node >= shape.blocks || shape.arrivals[node] != Arrival::Silent || value == Value::Several
}

/// The token of a call that may come back twice, or on another stack.
fn point(to: u32) -> [Op; 4] {
    let [kind, place] = with_address(witness::POINT, to);
    let register = |register| append(Item::Register(register));
    [
        kind,
        place,
        register(isa::Reg::Rsp),
        register(isa::Reg::Rax),
    ]
}
