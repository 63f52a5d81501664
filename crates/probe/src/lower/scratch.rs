//! Registers that the code of ops uses: dead ones of the site, and others whose values are kept meanwhile.

use isa::{Asm, Flags, Reg};

use super::{LINK, written};
use crate::{Exit, NoScratch, Op, Site, Spill, Test, Value};

/// Below the stack pointer, where registers are kept.
const BELOW: [i32; 2] = [-8, -16];

/// A place where the value of a register is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    In(Reg),
    Word(i32),
    BelowStack(i32),
}

/// Registers that the ops of a site use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scratch {
    /// For cursors and comparisons, and where its value is kept.
    pub(super) work: Option<(Reg, Option<Kept>)>,
    pub(super) live_flags: u8,
    /// The place of the value of rax meanwhile.
    pub(super) rax: Option<Kept>,
    /// For what is copied, and where its value is kept, which is free below the stack pointer.
    pub(super) copy: Option<(Reg, Option<Kept>)>,
    /// Two dead ones, for a word that is made of two halves.
    pub(super) pair: Option<(Reg, Reg)>,
}

impl Scratch {
    pub(super) fn of(ops: &[Op], site: &Site) -> Result<Scratch, NoScratch> {
        let live_flags = site.live.flags.0;
        if !ops.iter().all(|op| is_possible(op, site)) {
            return Err(NoScratch);
        }
        let flags = ops.iter().any(|op| written(op).0 & live_flags != 0);
        let mut slots = slots(site.spill);
        let read = read_by(ops);
        let rax = 1u16 << Reg::Rax as u8;
        let live = site.live.general;
        let mut taken = read | if flags { rax } else { 0 };
        let dead = |taken: u16| {
            let free = |register: &&Reg| (live | taken) >> **register as u8 & 1 == 0;
            Reg::ALL.iter().find(free).copied()
        };
        let work = match (ops.iter().any(uses_work), ops.iter().any(uses_link)) {
            (false, _) => None,
            (true, true) => {
                if taken >> LINK as u8 & 1 != 0 {
                    return Err(NoScratch);
                }
                let is_live = live >> LINK as u8 & 1 != 0;
                let kept = is_live.then(|| slots.next().ok_or(NoScratch));
                Some((LINK, kept.transpose()?))
            }
            (true, false) => match dead(taken) {
                Some(register) => Some((register, None)),
                None => {
                    let other = |register: &&Reg| taken >> **register as u8 & 1 == 0;
                    let register = Reg::ALL.iter().rfind(other).copied();
                    let kept = slots.next().ok_or(NoScratch)?;
                    Some((register.ok_or(NoScratch)?, Some(kept)))
                }
            },
        };
        taken |= work.map_or(0, |(register, _)| 1 << register as u8);
        let is_needed = flags && (live | read) & rax != 0;
        let rax = is_needed.then(|| match dead(taken) {
            Some(register) => Ok(Kept::In(register)),
            None => slots.next().ok_or(NoScratch),
        });
        let rax = rax.transpose()?;
        if matches!(rax, Some(Kept::Word(_) | Kept::BelowStack(_))) && forecasts_rax(ops) {
            return Err(NoScratch);
        }
        let copies = |op: &Op| matches!(op, Op::Put { .. } | Op::Count { .. });
        let copy = ops.iter().any(copies).then(|| match dead(taken) {
            Some(register) => (register, None),
            None => (Reg::Rax, Some(Kept::BelowStack(BELOW[1]))),
        });
        let taken = taken | rax_of(rax) | copy.map_or(0, |(register, _)| 1 << register as u8);
        let pair = dead(taken).and_then(|one| Some((one, dead(taken | 1 << one as u8)?)));
        Ok(Scratch {
            pair,
            copy,
            work,
            live_flags,
            rax,
        })
    }
}

/// Whether an address is forecast that rax is a part of.
fn forecasts_rax(ops: &[Op]) -> bool {
    let is_one = |op: &Op| match *op {
        Op::Expect { value, .. } => registers_of(value).contains(&Some(Reg::Rax)),
        _ => false,
    };
    ops.iter().any(is_one)
}

/// Registers that ops read, and the stack pointer.
fn read_by(ops: &[Op]) -> u16 {
    let registers = ops.iter().flat_map(|op| match *op {
        Op::Append { item, .. } => [item.register(), None],
        Op::Let { register, .. } | Op::Sum { register, .. } => [Some(register), None],
        Op::Put { .. } => [Some(Reg::Rdx), None],
        Op::Tally { value, .. } | Op::Expect { value, .. } => registers_of(value),
        _ => [None, None],
    });
    let registers = registers.flatten();
    registers.fold(1 << Reg::Rsp as u8, |read, register| {
        read | 1 << register as u8
    })
}

/// Registers that a value is in, or at.
pub(super) fn registers_of(value: Value) -> [Option<Reg>; 2] {
    match value {
        Value::Register(register) => [Some(register), None],
        Value::Memory { base, index, .. } => [base, index.map(|(index, _)| index)],
        Value::At(_) => [None, None],
    }
}

/// The register that the value of rax is in meanwhile, as a bit.
fn rax_of(kept: Option<Kept>) -> u16 {
    match kept {
        Some(Kept::In(register)) => 1 << register as u8,
        _ => 0,
    }
}

/// Places for registers of a site.
fn slots(spill: Spill) -> impl Iterator<Item = Kept> {
    let both = match spill {
        Spill::Never => None,
        Spill::Words(words) => Some(words.map(|word| Kept::Word(word.0.cast_signed()))),
        Spill::RedZone => Some(BELOW.map(Kept::BelowStack)),
    };
    both.into_iter().flatten()
}

/// Whether an op finds free what it cannot keep.
fn is_possible(op: &Op, site: &Site) -> bool {
    let value = match op {
        Op::Tally { value, .. } => value,
        Op::Tell { .. } | Op::Put { .. } | Op::Count { .. } => {
            return site.live.flags == Flags::NONE;
        }
        _ => return true,
    };
    let read = registers_of(*value);
    let is_live = site.live.general >> LINK as u8 & 1 != 0 || site.live.flags != Flags::NONE;
    !is_live && !read.contains(&Some(LINK))
}

fn uses_work(op: &Op) -> bool {
    uses_link(op) || matches!(op, Op::Append { .. } | Op::Unwind { .. })
}

/// Whether a routine is called, or a comparison uses its register.
fn uses_link(op: &Op) -> bool {
    match op {
        Op::Guard { test, exit } => {
            matches!(exit, Exit::Routine(_)) || matches!(test, Test::IsOtherThread)
        }
        Op::Tally { .. }
        | Op::Tell { .. }
        | Op::Look { .. }
        | Op::Again { .. }
        | Op::Expect { .. }
        | Op::Put { .. }
        | Op::Count { .. }
        | Op::Call { .. } => true,
        Op::Append { .. }
        | Op::Unwind { .. }
        | Op::Here { .. }
        | Op::Add { .. }
        | Op::Set { .. }
        | Op::Bump { .. }
        | Op::Jump { .. }
        | Op::Let { .. }
        | Op::Sum { .. } => false,
    }
}

pub(super) fn keep(asm: &mut Asm<'_>, register: Reg, kept: Kept) {
    match kept {
        Kept::In(other) => asm.mov_r_r(other, register),
        Kept::Word(at) => asm.mov_gs_r(at, register),
        Kept::BelowStack(at) => asm.mov_mem_r(Reg::Rsp, at, register),
    }
}

pub(super) fn give_back(asm: &mut Asm<'_>, register: Reg, kept: Kept) {
    match kept {
        Kept::In(other) => asm.mov_r_r(register, other),
        Kept::Word(at) => asm.mov_r_gs(register, at),
        Kept::BelowStack(at) => asm.mov_r_mem(register, Reg::Rsp, at),
    }
}
