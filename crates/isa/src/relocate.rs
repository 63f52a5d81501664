//! Forms of an instruction that must change when it moves.

use alloc::vec::Vec;

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, OpKind, Register};

use crate::{Insn, Reg};

/// No form of this instruction exists for the place it was to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotEncode;

fn encode(instruction: &Instruction, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let mut encoder = Encoder::try_new(64).map_err(|_| CannotEncode)?;
    encoder.encode(instruction, at).map_err(|_| CannotEncode)?;
    Ok(encoder.take_buffer())
}

/// `mov target, <operand 0>` for an indirect branch, to run at `at`. Fails if
/// a rip-relative operand is out of reach.
pub fn load_branch_operand(insn: &Insn, target: Reg, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let raw = &insn.raw;
    let load = match raw.op0_kind() {
        OpKind::Register => {
            Instruction::with2(Code::Mov_r64_rm64, target.iced(), raw.op0_register())
        }
        OpKind::Memory => {
            Instruction::with2(Code::Mov_r64_rm64, target.iced(), memory_operand(raw))
        }
        _ => return Err(CannotEncode),
    };
    encode(&load.map_err(|_| CannotEncode)?, at)
}

/// The address of the memory operand of an indirect branch or other
/// instruction, without its segment: `lea target, [operand]`.
pub fn load_address(insn: &Insn, target: Reg, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let mut memory = memory_operand(&insn.raw);
    memory.segment_prefix = Register::None;
    let lea =
        Instruction::with2(Code::Lea_r64_m, target.iced(), memory).map_err(|_| CannotEncode)?;
    encode(&lea, at)
}

/// The same instruction with `[base]` for its memory operand.
pub fn with_memory_at(insn: &Insn, base: Reg, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let mut changed = insn.raw;
    changed.set_memory_base(base.iced());
    changed.set_memory_index(Register::None);
    changed.set_memory_index_scale(1);
    changed.set_memory_displacement64(0);
    changed.set_memory_displ_size(0);
    changed.set_segment_prefix(Register::None);
    encode(&changed, at)
}

/// `mov es, <operand 1>` for `mov gs, operand`, or `mov es, [rsp]` for `pop gs`:
/// the same checks of the selector in a register that addresses nothing.
pub fn load_other_selector(insn: &Insn, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let load = if insn.raw.op_count() == 2 {
        let mut changed = insn.raw;
        changed.set_op0_register(Register::ES);
        changed
    } else {
        let top = MemoryOperand::with_base(Register::RSP);
        Instruction::with2(Code::Mov_Sreg_rm16, Register::ES, top).map_err(|_| CannotEncode)?
    };
    encode(&load, at)
}

/// A scratch register that the instruction neither reads nor writes, other
/// than `taken`. rsp and rbp are never chosen.
pub fn free_register(insn: &Insn, taken: &[Reg]) -> Reg {
    let uses = |reg: Reg| {
        let full = reg.iced();
        let raw = &insn.raw;
        raw.memory_base().full_register() == full
            || raw.memory_index().full_register() == full
            || (0..raw.op_count()).any(|i| {
                raw.op_kind(i) == OpKind::Register && raw.op_register(i).full_register() == full
            })
    };
    // Implicit operands are among the first eight: prefer the others.
    [
        Reg::R8,
        Reg::R9,
        Reg::R10,
        Reg::R12,
        Reg::R13,
        Reg::R14,
        Reg::R15,
        Reg::Rbx,
    ]
    .into_iter()
    .find(|&reg| !taken.contains(&reg) && !uses(reg))
    .unwrap_or(Reg::R11)
}

fn memory_operand(raw: &Instruction) -> MemoryOperand {
    let base = raw.memory_base();
    MemoryOperand::new(
        base,
        raw.memory_index(),
        raw.memory_index_scale(),
        raw.memory_displacement64() as i64,
        if base == Register::RIP {
            8
        } else {
            raw.memory_displ_size()
        },
        false,
        raw.segment_prefix(),
    )
}
