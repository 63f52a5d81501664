//! Shapes: the parts of a run of instructions that matter for activations.

use isa::{FarKind, Flow, Insn, StackEffect, StackMove};

use super::Costs;
use super::extents::{Functions, Place};
use crate::walk::{Code, Step};

/// How control came to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Call,
    Return,
    Jump,
    /// The instruction before loads the stack pointer.
    Stack,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    pub kind: Kind,
    /// It goes where a register or memory says.
    pub indirect: bool,
    pub place: Place,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Control goes on from one of its instructions to the next, behind these costs.
    Arrive {
        costs: Costs,
        last: Executed,
        place: Place,
    },
    Effect(StackEffect),
    /// The stack pointer is loaded; the costs up to then.
    Load(Costs),
    /// A call was made that comes back there.
    Call(u64),
    Kernel(Back),
}

/// The kernel was entered, and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    pub pc: u64,
    /// The code says that it was asked for vfork.
    pub from_vfork: bool,
}

/// Number of that system call.
const VFORK: u32 = 58;

/// Shape of a run.
#[derive(Debug)]
pub(super) struct Shape {
    pub start: Place,
    pub acts: Box<[Act]>,
    pub last: Executed,
    pub flow: Flow,
    /// Address after the last instruction, if that does not branch.
    pub next: u64,
    pub costs: Costs,
}

pub(super) fn of(steps: &[Step], code: &Code, functions: &mut Functions<'_>) -> Option<Shape> {
    let (first, final_step) = (steps.first()?, steps.last()?);
    let start = functions.place(first.fragment, first.pc);
    let mut acts: Vec<Act> = Vec::new();
    let mut costs = [0; 4];
    let mut last: Option<Executed> = None;
    // The constant that the code last moved to the register.
    let mut eax = None;
    for step in steps {
        let place = functions.place(step.fragment, step.pc);
        if let Some(last) = last
            && (last.kind != Kind::Plain
                || last.place.function != place.function
                || last.place.stub)
        {
            acts.push(Act::Arrive { costs, last, place });
        }
        let insn = Insn::decode(&code.bytes(step), step.pc).ok();
        let effect = insn.map_or(StackEffect::Nothing, |insn| insn.stack_effect());
        costs[0] += 1;
        if let Some(insn) = insn {
            for (sum, amount) in costs[1..].iter_mut().zip(insn.class().amounts()) {
                *sum += u64::from(amount);
            }
        }
        let next = step.pc.wrapping_add(step.len.into());
        let kind = branch_kind(step.flow).unwrap_or_else(|| kind_of(insn.as_ref()));
        match step.flow {
            _ if kind == Kind::Call => acts.push(Act::Call(next)),
            Flow::Syscall | Flow::Int80 => acts.push(Act::Kernel(Back {
                pc: next,
                from_vfork: eax == Some(VFORK),
            })),
            _ => {}
        }
        push(&mut acts, kind, effect, costs);
        eax = match insn {
            Some(insn) if insn.constant_eax().is_some() => insn.constant_eax(),
            Some(insn) if !insn.may_write_rax() => eax,
            _ => None,
        };
        let indirect = is_indirect(step.flow);
        last = Some(Executed {
            kind,
            indirect,
            place,
        });
    }
    Some(Shape {
        start,
        acts: acts.into(),
        last: last?,
        flow: final_step.flow,
        next: final_step.pc.wrapping_add(final_step.len.into()),
        costs,
    })
}

/// Adds the effect of an instruction on the stack pointer to those before.
fn push(acts: &mut Vec<Act>, kind: Kind, effect: StackEffect, costs: Costs) {
    match (kind, effect) {
        (Kind::Call | Kind::Return, _) | (_, StackEffect::Nothing) => {}
        (_, StackEffect::Loads) => acts.push(Act::Load(costs)),
        (_, StackEffect::Adds(more)) => match acts.last_mut() {
            Some(Act::Effect(StackEffect::Adds(sum))) => *sum += more,
            _ => acts.push(Act::Effect(effect)),
        },
        (_, StackEffect::Loses(more)) => match acts.last_mut() {
            Some(Act::Effect(StackEffect::Loses(all))) => *all |= more,
            _ => acts.push(Act::Effect(effect)),
        },
        _ => acts.push(Act::Effect(effect)),
    }
}

/// Kind of a branch, near or far, or system call.
fn branch_kind(flow: Flow) -> Option<Kind> {
    Some(match flow {
        Flow::Call(_) | Flow::IndirectCall | Flow::Far(FarKind::Call) => Kind::Call,
        // Its target is known at the end of the run only.
        Flow::Return(_) | Flow::Far(FarKind::Return | FarKind::InterruptReturn) => Kind::Return,
        Flow::Jump(_)
        | Flow::Cond(..)
        | Flow::CountJump(_)
        | Flow::IndirectJump
        | Flow::Far(FarKind::Jump) => Kind::Jump,
        Flow::Syscall | Flow::Int80 => Kind::Plain,
        _ => return None,
    })
}

/// Kind of an instruction that does not branch.
fn kind_of(insn: Option<&Insn>) -> Kind {
    match insn.map(Insn::stack_move) {
        Some(StackMove::Arbitrary) => Kind::Stack,
        _ => Kind::Plain,
    }
}

/// Whether a branch goes where a register or memory says.
fn is_indirect(flow: Flow) -> bool {
    matches!(
        flow,
        Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_)
    )
}
