//! Places of the counts of a run of instructions.

use isa::Flags;
use isa::{Flow, Insn};

#[derive(Clone, Copy, Debug, Default)]
pub enum Place {
    /// Before this instruction, where flags are dead.
    Add(usize),
    AtBranch,
    /// With the next run, and on the way that the branch at its end takes.
    Later,
    #[default]
    Spilled,
}

/// The last place in `insns` from which every flag is overwritten before it is read, or a
/// handler might see it.
pub(super) fn dead_flags(insns: &[Insn]) -> Option<usize> {
    let mut live = Flags::ALL;
    let mut dead = None;
    for (i, insn) in insns.iter().enumerate().rev() {
        live = match insn.may_fault() {
            // A handler sees the flags as they were.
            true => Flags::ALL,
            false => live
                .without(insn.flags_overwritten())
                .with(insn.flags_read()),
        };
        if live == Flags::NONE {
            dead = Some(i);
        }
    }
    dead
}

pub(super) fn is_indirect(insn: &Insn) -> bool {
    matches!(
        insn.flow(),
        Flow::Return(_) | Flow::IndirectJump | Flow::IndirectCall
    )
}

/// Place of the count of instructions executed one after the other, the first of them with
/// that index.
pub fn place_of(insns: &[Insn], first: usize) -> Place {
    match dead_flags(insns) {
        Some(at) => Place::Add(first + at),
        None if insns.last().is_some_and(is_indirect) => Place::AtBranch,
        None => Place::Spilled,
    }
}
