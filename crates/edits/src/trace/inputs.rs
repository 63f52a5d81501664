//! Registers from which addresses of accesses are computed, and what of them has to be in the stream.
//!
//! Problem: a reader who knows what was executed computes most addresses itself, but not those that come from memory, from a call of
//! other code or from the system.
//!
//! Approach: as QPT, backwards from each access. A register is *needed* before an instruction if an address behind it is made of it. An
//! instruction that computes it from others ([`isa::compute`]) needs those instead; one that does not has its value written to the
//! stream ([`super::slices`]). Before a call the callee's needs are the caller's, so arguments are not written; where other code
//! enters a function, the code in front of it writes them. What is needed behind a call is kept by the callee, if it is of the
//! registers that callees preserve (System V ABI 3.2.1) and the callee is not seen to change it, or written when it comes back.
//!
//! Invariant: [`Inputs::needs`] has all that a function's addresses are made of, as its callers see it.
//!
//! Limits: a function with an access that no register says (under a mask, of a vector of indices, `xsave`) is left. A callee of
//! another file is taken to preserve what the convention says.

use std::collections::{HashMap, VecDeque};

use flow::{EdgeKind, Function, To};
use image::{Image, LinkAddr};
use isa::Reg;
use isa::compute::Computed;
use isa::insn::Reader;
use isa::memory::recorded::{Recorded, Selection};
use isa::memory::{Pattern, Segment};
use rayon::prelude::*;

use crate::known::Known;

/// Registers, a bit each.
pub type Registers = u16;

const STACK: Registers = 1 << Reg::Rsp as u16;
/// `rbx`, `rbp`, `r12` to `r15`: a callee preserves them. And the stack pointer, which a return gives back.
pub const KEPT: Registers = 0xf028 | STACK;

/// An instruction, as far as addresses depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub at: LinkAddr,
    pub computed: Computed,
    /// Registers of its own addresses.
    pub reads: Registers,
    /// Registers whose values behind it are words of its accesses.
    pub tells: Registers,
}

impl Step {
    /// Registers that it changes.
    pub fn changes(&self) -> Registers {
        let result = self.computed.result;
        result.map_or(0, |(to, _)| 1 << to as u16) | self.written()
    }

    /// Registers that it changes by what no reader computes.
    pub fn written(&self) -> Registers {
        let loaded = self.computed.loaded;
        self.computed.lost | loaded.map_or(0, |loaded| 1 << loaded.to as u16)
    }

    /// The needs before it, without its own.
    fn moved(&self, behind: Registers) -> Registers {
        let mut before = behind & !self.changes();
        if let Some((to, value)) = self.computed.result
            && behind >> to as u16 & 1 != 0
        {
            before |= value.reads();
        }
        before
    }

    /// The needs before it.
    pub fn before(&self, behind: Registers) -> Registers {
        self.moved(behind) | self.reads
    }
}

/// The instructions of a block; `None`: an access is not said by registers.
pub fn steps(image: &Image, block: &flow::Block) -> Option<Vec<Step>> {
    let mut reader = Reader::new(image.bytes_from(block.start), block.start.0);
    let mut all = Vec::with_capacity(block.insns as usize);
    let mut at = block.start.0;
    while at < block.end.0 {
        let insn = reader.decode(at).ok()?;
        let mut step = Step {
            at: LinkAddr(at),
            computed: insn.computes(),
            reads: 0,
            tells: 0,
        };
        for operand in Recorded::of(&insn, Selection::EVERY_ADDRESS).operands {
            let address = operand.address;
            if address.segment == Some(Segment::Gs) {
                return None;
            }
            step.reads |= address.reads();
            match operand.pattern {
                Pattern::Once => {}
                Pattern::Repeated => step.tells |= address.reads(),
                Pattern::BitString(register) => step.reads |= 1 << register as u16,
                _ => return None,
            }
        }
        all.push(step);
        at = insn.next_pc();
    }
    Some(all)
}

/// The needs before a block, by those behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    own: Registers,
    /// By register that is needed behind it.
    from: [Registers; 16],
}

impl Transfer {
    fn of(steps: &[Step]) -> Transfer {
        let mut transfer = Transfer {
            own: 0,
            from: std::array::from_fn(|register| 1 << register),
        };
        for step in steps.iter().rev() {
            transfer.own = step.before(transfer.own);
            for from in &mut transfer.from {
                *from = step.moved(*from);
            }
        }
        transfer
    }

    fn before(&self, behind: Registers) -> Registers {
        let from = self.from.iter().enumerate();
        let from = from.filter(|(register, _)| behind >> register & 1 != 0);
        from.fold(self.own, |all, (_, from)| all | from)
    }
}

/// Needs at the entries of all functions.
#[derive(Debug, Default)]
pub struct Inputs {
    by_entry: HashMap<u64, Registers>,
    /// By function: registers that callees preserve, and this one may not.
    changed: Vec<Registers>,
}

/// A function while needs grow.
struct Growing {
    transfers: Vec<Transfer>,
    changed: Registers,
    saved: Registers,
}

impl Inputs {
    pub fn of(image: &Image, known: &Known<'_>) -> Inputs {
        let functions = &known.program.functions;
        let all = functions
            .par_iter()
            .map(|function| growing(image, function));
        let all: Vec<Growing> = all.collect();
        let mut inputs = Inputs {
            by_entry: HashMap::new(),
            changed: changed(known, &all),
        };
        let mut callers = vec![Vec::new(); functions.len()];
        for (caller, function) in functions.iter().enumerate() {
            for edge in &function.graph.edges {
                if let Some((callee, _)) = known.moved(edge.to) {
                    callers[callee].push(caller);
                }
            }
        }
        let mut waiting: VecDeque<usize> = (0..functions.len()).collect();
        let mut waits = vec![true; functions.len()];
        while let Some(number) = waiting.pop_front() {
            waits[number] = false;
            let function = &functions[number];
            let own = &all[number];
            let before = settle(function, |block, before| {
                let behind = inputs.behind(known, function, block, before, |_, needs| needs & KEPT);
                own.transfers[block].before(behind)
            });
            let mut is_new = false;
            for block in function.entry_blocks() {
                let entry = function.graph.blocks[block as usize].start.0;
                let needs = before[block as usize];
                is_new |= inputs.by_entry.insert(entry, needs) != Some(needs);
            }
            for &caller in callers[number].iter().filter(|_| is_new) {
                if !std::mem::replace(&mut waits[caller], true) {
                    waiting.push_back(caller);
                }
            }
        }
        inputs
    }

    /// Needs at an entry.
    pub fn needs(&self, entry: u64) -> Registers {
        self.by_entry.get(&entry).copied().unwrap_or(0)
    }

    /// The largest number of needs at an entry.
    pub fn most(&self) -> usize {
        let all = self.by_entry.values();
        let most = all.map(|needs| needs.count_ones()).max();
        most.unwrap_or(0) as usize
    }

    /// Registers that callees preserve, and this function may not.
    pub fn changed(&self, function: usize) -> Registers {
        self.changed[function]
    }

    /// Needs behind a block, by those before others; `kept` gives, of the needs where a call returns, those at the call.
    pub fn behind(
        &self,
        known: &Known<'_>,
        function: &Function,
        block: usize,
        before: &[Registers],
        kept: impl Fn(To, Registers) -> Registers,
    ) -> Registers {
        let of = |to: To| match to {
            To::Block(to) => before[to as usize],
            to => known.moved(to).map_or(0, |(_, entry)| self.needs(entry)),
        };
        let edges = function.graph.edges_of(block);
        let mut calls = edges.iter();
        let call = calls.find(|edge| matches!(edge.kind, EdgeKind::Call | EdgeKind::NoReturn));
        edges.iter().fold(0, |all, edge| {
            all | match (edge.kind, call) {
                (EdgeKind::LandingPad, _) => 0,
                (EdgeKind::FallThrough, Some(call)) => kept(call.to, of(edge.to)),
                _ => of(edge.to),
            }
        })
    }
}

fn growing(image: &Image, function: &Function) -> Growing {
    let mut own = Growing {
        transfers: Vec::with_capacity(function.graph.blocks.len()),
        changed: 0,
        saved: 0,
    };
    for block in &function.graph.blocks {
        let steps = steps(image, block).unwrap_or_default();
        for step in &steps {
            own.changed |= step.changes() & KEPT & !STACK;
            own.saved |= saves(image, step.at);
        }
        own.transfers.push(Transfer::of(&steps));
    }
    own
}

/// The register that an instruction stores on the stack, as functions do with those that they preserve.
fn saves(image: &Image, at: LinkAddr) -> Registers {
    let Ok(insn) = Reader::new(image.bytes_from(at), at.0).decode(at.0) else {
        return 0;
    };
    match insn.op() {
        isa::dataflow::Op::Push(Some(register)) => 1 << register as u16,
        isa::dataflow::Op::Store {
            to,
            from: Some(register),
            width: 8,
        } if matches!(to.base, Some(Reg::Rsp | Reg::Rbp)) => 1 << register as u16,
        _ => 0,
    }
}

/// By function, the registers to preserve that it changes, or what it calls, without saving them.
fn changed(known: &Known<'_>, all: &[Growing]) -> Vec<Registers> {
    let mut changed: Vec<Registers> = all.iter().map(|own| own.changed & !own.saved).collect();
    let functions = &known.program.functions;
    let mut is_new = true;
    while std::mem::take(&mut is_new) {
        for (number, function) in functions.iter().enumerate() {
            let edges = function.graph.edges.iter();
            let callees = edges.filter_map(|edge| known.moved(edge.to));
            let wider = callees.fold(changed[number], |set, (callee, _)| {
                set | changed[callee] & !all[number].saved
            });
            is_new |= std::mem::replace(&mut changed[number], wider) != wider;
        }
    }
    changed
}

/// Needs before the blocks of a function: `of` gives those before a block by those before all.
pub fn settle(
    function: &Function,
    of: impl Fn(usize, &[Registers]) -> Registers,
) -> Vec<Registers> {
    let mut before = vec![0; function.graph.blocks.len()];
    let mut is_new = true;
    while std::mem::take(&mut is_new) {
        for block in (0..before.len()).rev() {
            let now = of(block, &before);
            is_new |= std::mem::replace(&mut before[block], now) != now;
        }
    }
    before
}
