//! Values of a function's registers that are in the stream, and the ops that write them.
//!
//! Approach: [`super::inputs`] says what is needed where. A register that is needed and gets its value from memory, from other code or
//! otherwise by what no reader computes is written: the loaded bytes of it, or all. Values of a block wait for each other, up to
//! where one is overwritten or the block ends, so one op writes them, where flags are dead if there is such a place.

use flow::Block;
use image::Image;
use isa::Reg;
use placement::traced::{Back, End, Value};
use probe::{At, Item, Op};
use rewrite::{Plan, Unit, Why};
use wire::witness;

use super::append;
use super::inputs::{Inputs, KEPT, Registers, Step, settle, steps};
use super::shape::Shape;
use super::values::{self, Planned};
use crate::known::Known;

/// A function's values.
#[derive(Debug, Default)]
pub struct Slices {
    /// By block.
    pub values: Vec<Vec<Value>>,
    /// By block, registers that are written when its call has come back.
    pub results: Vec<Registers>,
    places: Vec<Place>,
}

/// A place at which values are written.
#[derive(Debug)]
struct Place {
    /// The block whose values they are, for registers that are in use there.
    block: usize,
    at: At,
    values: Vec<(Reg, u8)>,
}

impl Slices {
    /// Finds the values of a function.
    ///
    /// # Errors
    /// They cannot all be written.
    pub fn of(
        unit: &Unit<'_>,
        (image, known, inputs): (&Image, &Known<'_>, &Inputs),
        shape: &Shape,
        planned: &Planned,
    ) -> Result<Slices, Why> {
        let blocks = &unit.function.graph.blocks;
        let all = blocks.iter().map(|block| steps(image, block));
        let all: Option<Vec<Vec<Step>>> = all.collect();
        let all = all.ok_or(Why::NoPlace)?;
        let behind = |block: usize, before: &[Registers]| {
            inputs.behind(known, unit.function, block, before, |to, needs| {
                needs
                    & kept(
                        shape,
                        block,
                        known.moved(to).map(|(to, _)| inputs.changed(to)),
                    )
            })
        };
        let before = settle(unit.function, |block, before| {
            let behind = behind(block, before);
            let steps = all[block].iter().rev();
            steps.fold(behind, |needs, step| step.before(needs))
        });
        let mut slices = Slices {
            values: vec![Vec::new(); blocks.len()],
            results: vec![0; blocks.len()],
            places: Vec::new(),
        };
        for block in 0..blocks.len() {
            let needs = behind(block, &before);
            if let End::Call {
                next: Some(next),
                target,
                ..
            } = shape.ends[block]
            {
                let changed =
                    target.and_then(|to| known.moved(flow::To::Address(image::LinkAddr(to))));
                let changed = changed.map(|(to, _)| inputs.changed(to));
                let after = before[next as usize];
                slices.results[block] = after & !kept(shape, block, changed);
                slices.add_results(unit, block, next)?;
            }
            if shape.arrivals[block] == placement::traced::Arrival::Pad {
                slices.add_all(block, At::Block(block as u32), before[block]);
            }
            slices.add_block(
                unit,
                (block, &blocks[block]),
                &all[block],
                (needs, busy(planned, block)),
            )?;
        }
        Ok(slices)
    }

    /// By block, its values, and the results of its call.
    pub fn into_values(self) -> impl Iterator<Item = (Vec<Value>, Registers)> {
        self.values.into_iter().zip(self.results)
    }

    /// Whole values of registers, at the beginning of a block.
    fn add_all(&mut self, block: usize, at: At, registers: Registers) {
        let registers = each(registers).map(|register| (register, 8));
        let values: Vec<(Reg, u8)> = registers.collect();
        let told = values.iter().map(|&(register, bytes)| Value {
            behind: 0,
            register: register as u8,
            bytes,
        });
        self.values[block].extend(told);
        if !values.is_empty() {
            self.places.push(Place { block, at, values });
        }
    }

    /// Adds the results of a call that are needed.
    fn add_results(&mut self, unit: &Unit<'_>, block: usize, next: u32) -> Result<(), Why> {
        if self.results[block] > 0 {
            let registers = each(self.results[block]).map(|register| (register, 8));
            self.places.push(Place {
                block,
                at: edge_to(unit, block, next)?,
                values: registers.collect(),
            });
        }
        Ok(())
    }

    /// Adds the values of a block's instructions.
    fn add_block(
        &mut self,
        unit: &Unit<'_>,
        (number, block): (usize, &Block),
        steps: &[Step],
        (needs, busy): (Registers, Registers),
    ) -> Result<(), Why> {
        let mut behind = vec![needs; steps.len()];
        for at in (1..steps.len()).rev() {
            behind[at - 1] = steps[at].before(behind[at]);
        }
        let mut waiting = Waiting {
            unit,
            block: number,
            start: block.start,
            busy,
            values: Vec::new(),
            from: 0,
            best: None,
        };
        for (at, step) in steps.iter().enumerate() {
            waiting.look(at, step);
            let changed = step.changes();
            let mut own = waiting.values.iter();
            if own.any(|(register, _)| changed >> *register as u16 & 1 != 0) {
                self.places.push(waiting.place(at, step)?);
            }
            for register in each((behind[at] | step.tells) & (step.written() | step.tells)) {
                let loaded = step.computed.loaded.filter(|loaded| loaded.to == register);
                let bytes = loaded.map_or(8, |loaded| loaded.form.width);
                waiting.values.push((register, bytes));
                waiting.from = at + 1;
                waiting.best = None;
                self.values[number].push(Value {
                    behind: at as u32 + 1,
                    register: register as u8,
                    bytes,
                });
            }
        }
        if !waiting.values.is_empty() {
            self.places.push(waiting.end(steps)?);
        }
        Ok(())
    }

    /// Adds the ops: those on ways into blocks and inside them come before tokens there.
    ///
    /// # Errors
    /// There is no register for one.
    pub fn add_early(&self, unit: &Unit<'_>, planned: &Planned, out: &mut Plan) -> Result<(), Why> {
        let early = self
            .places
            .iter()
            .filter(|place| !matches!(place.at, At::Block(_)));
        for place in early {
            add(unit, place, planned, out)?;
        }
        Ok(())
    }

    /// Adds those at the beginning of a block, behind its tokens.
    ///
    /// # Errors
    /// There is no register for one.
    pub fn add_at(
        &self,
        unit: &Unit<'_>,
        (node, planned): (usize, &Planned),
        out: &mut Plan,
    ) -> Result<(), Why> {
        let own = |place: &&Place| place.at == At::Block(node as u32);
        for place in self.places.iter().filter(own) {
            add(unit, place, planned, out)?;
        }
        Ok(())
    }
}

fn add(unit: &Unit<'_>, place: &Place, planned: &Planned, out: &mut Plan) -> Result<(), Why> {
    out.keep(unit, place.at, busy(planned, place.block))?;
    for op in ops(&place.values) {
        out.add(unit, place.at, op)?;
    }
    Ok(())
}

/// Registers, one by one.
pub fn each(registers: Registers) -> impl Iterator<Item = Reg> {
    let all = Reg::ALL.into_iter();
    all.filter(move |register| registers >> *register as u16 & 1 != 0)
}

/// Ops that write values.
pub fn ops(values: &[(Reg, u8)]) -> Vec<Op> {
    let mut ops = Vec::new();
    for values in values.chunks(witness::MOST_BYTES / 8) {
        let bytes = values.iter().map(|(_, bytes)| bytes).sum();
        ops.push(append(Item::Imm16(u16::from_le_bytes([
            witness::VALUES,
            bytes,
        ]))));
        ops.extend(values.iter().map(|&(register, bytes)| {
            append(match bytes {
                1 => Item::Low(register),
                2 => Item::Low16(register),
                4 => Item::Low32(register),
                _ => Item::Register(register),
            })
        }));
    }
    ops
}

/// Registers that are as they were when the call at the end of a block has come back.
fn kept(shape: &Shape, block: usize, changed: Option<Registers>) -> Registers {
    match shape.ends[block] {
        // It comes back with registers of another time.
        End::Call {
            back: Back::Point, ..
        } => 0,
        _ => KEPT & !changed.unwrap_or(0),
    }
}

/// The way from a block to the next one.
fn edge_to(unit: &Unit<'_>, block: usize, next: u32) -> Result<At, Why> {
    use rewrite::unit::Node;
    let ends = (Node::End(block as u32), Node::Start(next));
    let mut edges = unit.edges.iter();
    let found = edges.position(|edge| (edge.from, edge.to) == ends && edge.has_place());
    Ok(At::Edge(found.ok_or(Why::NoPlace)? as u32))
}

/// The register that has the sum of a path in a block.
fn busy(planned: &Planned, block: usize) -> Registers {
    let own = match planned.values[block] {
        values::Value::In(register) if !planned.paths.stops[block] => Some(register),
        _ => planned.early[block],
    };
    own.map_or(0, |register| 1 << register as u16)
}

/// Values of a block that are not written yet.
struct Waiting<'u, 'f> {
    unit: &'u Unit<'f>,
    block: usize,
    start: image::LinkAddr,
    busy: Registers,
    values: Vec<(Reg, u8)>,
    /// Number of the instruction before which they can be written at the earliest.
    from: usize,
    /// The last place since then where flags are dead.
    best: Option<At>,
}

impl Waiting<'_, '_> {
    fn at(&self, step: &Step) -> At {
        At::Inside(self.block as u32, (step.at - self.start) as u32)
    }

    fn takes(&self, at: At) -> bool {
        self.unit.takes_all(at, &ops(&self.values), self.busy)
    }

    /// Whether the place before an instruction is a good one.
    fn look(&mut self, number: usize, step: &Step) {
        if self.values.is_empty() || number < self.from {
            return;
        }
        let at = self.at(step);
        let live = self.unit.live_for(at);
        if live.is_some_and(|live| live.flags == isa::Flags::NONE) && self.takes(at) {
            self.best = Some(at);
        }
    }

    /// The place for all of them, before an instruction at the latest.
    fn place(&mut self, number: usize, step: &Step) -> Result<Place, Why> {
        let at = match self.best {
            Some(best) => best,
            None if number >= self.from && self.takes(self.at(step)) => self.at(step),
            None => return Err(Why::NoPlace),
        };
        self.best = None;
        Ok(Place {
            block: self.block,
            at,
            values: std::mem::take(&mut self.values),
        })
    }

    /// The place for those that are left at the end of the block.
    fn end(&mut self, steps: &[Step]) -> Result<Place, Why> {
        let (number, last) = steps.iter().enumerate().next_back().ok_or(Why::Code)?;
        if self.best.is_some() || self.from <= number && self.takes(self.at(last)) {
            return self.place(number, last);
        }
        // The last instruction writes one: behind it comes the next block, and nothing else.
        let [edge] = self.unit.function.graph.edges_of(self.block) else {
            return Err(Why::NoPlace);
        };
        let flow::To::Block(next) = edge.to else {
            return Err(Why::NoPlace);
        };
        Ok(Place {
            block: self.block,
            at: edge_to(self.unit, self.block, next)?,
            values: std::mem::take(&mut self.values),
        })
    }
}
