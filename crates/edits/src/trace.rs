//! `trace`: witnesses, from which everything that the program executed is recomputed (`wire::witness`).
//!
//! Problem: a trace of a program says little that its code does not say already, and to write all of it costs more than the program.
//!
//! Approach: as QPT, the program writes the least from which the rest follows. A function is cut into pieces without cycles, whose
//! paths have numbers ([`placement::paths`]); a number is one byte, appended where a path ends: at calls, returns and loop heads. What
//! the path's ways add up to is known ([`values`]) where only one path leads there; where several do, a register that is dead all the
//! way has the sum, and where there is none paths end before. Calls and returns between functions that moved need no token of their own.
//! Code that is not moved enters functions by the code in front of them, which says so, and what comes back from it says that
//! ([`shape`]).
//!
//! Invariant: a handler of a signal may append at any moment ([`probe::Lane`]), and sums are in registers, which the kernel keeps meanwhile.
//!
//! Limits: where the stack is changed without `longjmp`'s help, frames are not followed; a jump by a table that several share has
//! two tokens.
//!
//! Source: J. Larus and T. Ball, "Rewriting Executable Files to Measure Program Behavior" (1994); "Optimally Profiling and Tracing
//! Programs" (TOPLAS 1994), 4.

mod inputs;
mod shape;
mod slices;
mod tokens;
mod values;

use std::collections::BTreeMap;

use flow::Program;
use image::{Image, LinkAddr};
use placement::{plan, traced};
use probe::{Item, Lane, Op, Word};
use rewrite::{FULL, Form, Memory, Outcome, Plan, Section, StaticTool, Unit, Version, Why};
use wire::counters::{FIRST, Lane as Layout};
use wire::witness;

use crate::Wanted;
use crate::counting::uncounted;
use crate::known::Known;
use crate::weights::Weights;
use inputs::{Inputs, Registers};
use shape::Shape;
use slices::Slices;

/// The lane of witnesses.
const LANE: Lane = Lane {
    cursor: Word(FIRST as u32),
    end: (FIRST + Layout::HEAD + Layout::ROOM) as i32,
    routine: FULL,
};

/// The register that code in front of entries uses.
const R11: Registers = 1 << isa::Reg::R11 as u16;

/// Appends an item.
fn append(item: Item) -> Op {
    Op::Append { lane: LANE, item }
}

/// A token with an address.
fn with_address(kind: u8, addr: u32) -> [Op; 2] {
    [append(Item::Imm8(kind)), append(Item::Imm32(addr))]
}

/// Witnesses of a file's functions.
pub struct Trace<'d> {
    image: &'d Image,
    wanted: Wanted<'d>,
    known: Known<'d>,
    /// Registers that addresses are made of, if the trace is to have them.
    inputs: Option<Inputs>,
    planned: BTreeMap<usize, traced::Function>,
}

impl<'d> Trace<'d> {
    pub fn new(image: &'d Image, program: &'d Program, wanted: Wanted<'d>) -> Trace<'d> {
        let known = Known::new(program, &wanted);
        Trace {
            image,
            wanted,
            inputs: wanted.memory.then(|| Inputs::of(image, &known)),
            known,
            planned: BTreeMap::new(),
        }
    }
}

impl Trace<'_> {
    /// Registers whose values are told where other code comes to an entry.
    fn needs(&self, entry: u64) -> Registers {
        let inputs = self.inputs.as_ref();
        inputs.map_or(0, |inputs| inputs.needs(entry))
    }
}

impl StaticTool for Trace<'_> {
    fn plan(&mut self, unit: &Unit<'_>, _: Version, out: &mut Plan) -> Result<(), Why> {
        if self.known.stays[unit.number] {
            return Err(Why::NoPlace);
        }
        let entries = unit.function.entry_blocks().into_iter();
        let mut entries = entries.map(|block| unit.function.graph.blocks[block as usize].start);
        if entries.any(|entry| self.needs(entry.0) & R11 != 0) {
            return Err(Why::NoPlace);
        }
        let weights = Weights::of(unit.function, self.wanted.profile);
        let mut shape = Shape::of(unit, &self.known, &weights)?;
        let planned = values::assign(unit, self.image, &mut shape)?;
        let slices = self.inputs.as_ref().map(|inputs| {
            let program = (self.image, &self.known, inputs);
            Slices::of(unit, program, &shape, &planned)
        });
        let slices = slices.transpose()?;
        tokens::add(unit, (&self.known, &shape, &planned), slices.as_ref(), out)?;
        let mut own = shape.into_plan(unit, &self.known, &planned.paths);
        for (block, values) in slices.into_iter().flat_map(Slices::into_values).enumerate() {
            (own.blocks[block].values, own.blocks[block].results) = values;
        }
        for entry in own.entries.iter_mut() {
            let start = own.blocks[entry.block as usize].start;
            entry.registers = self.needs(start);
        }
        self.planned.insert(unit.number, own);
        Ok(())
    }

    fn spills(&self) -> bool {
        true
    }

    fn inserts_anywhere(&self) -> bool {
        self.inputs.is_some()
    }

    fn skip(&mut self, function: usize) {
        self.planned.remove(&function);
    }

    fn memory(&self) -> Option<Memory<'_>> {
        Some(Memory {
            bytes: Layout::BYTES,
            form: Form::Lane,
            files: self.wanted.files,
            part: self.wanted.part,
        })
    }

    fn entered(&self, entry: LinkAddr) -> Vec<Op> {
        let number = self.known.number_of(entry);
        let (kind, item) = match u16::try_from(self.known.by_entry.len()) {
            Ok(_) if self.known.base == 0 => (witness::ENTER, Item::Imm16(number as u16)),
            _ => (witness::ENTER_FAR, Item::Imm32(number)),
        };
        let mut ops = vec![append(Item::Imm8(kind)), append(item)];
        let needs = match (entry.0, &self.inputs) {
            (0, Some(inputs)) => slices::each(!R11).take(inputs.most()).collect(),
            (entry, _) => slices::each(self.needs(entry)).collect::<Vec<_>>(),
        };
        let values: Vec<_> = needs.into_iter().map(|register| (register, 8)).collect();
        ops.extend(slices::ops(&values));
        ops
    }

    fn section(&self, outcome: &Outcome<'_>) -> Option<Section> {
        let file = traced::File {
            original: self.wanted.original.to_owned(),
            size: outcome.input.len() as u64,
            hash: plan::hash(outcome.input),
            base: self.known.base,
            has_values: self.inputs.is_some(),
            functions: self.planned.values().cloned().collect(),
            uncounted: uncounted(outcome),
        };
        let bytes = file.encode();
        let id = plan::hash(&bytes);
        Some(Section { bytes, id })
    }

    fn says(&self) -> String {
        let functions = self.planned.values();
        let blocks = functions.flat_map(|function| &function.blocks);
        format!(
            "{} places with tokens",
            blocks.filter(|block| block.tells).count()
        )
    }
}
