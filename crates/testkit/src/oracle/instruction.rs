//! Kinds of executed instructions: all the oracle knows of the machine.

use std::collections::HashSet;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use super::code::ProgramPc;

/// Longest x86 instruction, Intel SDM vol. 1, 2.3.11.
pub const LONGEST: usize = 15;

/// Effect of an instruction on the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `call`, direct or indirect.
    Call,
    /// `ret`, with or without operand.
    Return,
    /// Any other branch.
    Jump,
    /// `syscall`.
    SystemCall,
    /// A string instruction with a repeat prefix.
    Repeat,
    /// An instruction that loads the stack pointer with a value that is not made from it.
    Stack,
    /// Everything else.
    Plain,
}

impl Kind {
    /// Whether the instruction may go elsewhere than to its successor.
    #[must_use]
    pub fn transfers(self) -> bool {
        matches!(self, Kind::Call | Kind::Return | Kind::Jump)
    }
}

/// Decodes the instruction at `pc`.
#[must_use]
pub fn kind(bytes: &[u8], pc: ProgramPc) -> Kind {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode_out(&mut instruction);
    match instruction.flow_control() {
        FlowControl::Call if instruction.is_call_near() => Kind::Call,
        FlowControl::IndirectCall => Kind::Call,
        FlowControl::Return => Kind::Return,
        FlowControl::UnconditionalBranch
        | FlowControl::ConditionalBranch
        | FlowControl::IndirectBranch => Kind::Jump,
        // `syscall` has this flow control in the decoder's tables.
        FlowControl::Call => Kind::SystemCall,
        _ if instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix()) =>
        {
            Kind::Repeat
        }
        _ if loads_stack_pointer(&instruction) => Kind::Stack,
        _ => Kind::Plain,
    }
}

/// Whether it goes where a register or memory says.
#[must_use]
pub fn is_indirect(bytes: &[u8], pc: ProgramPc) -> bool {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode_out(&mut instruction);
    instruction.is_jmp_near_indirect()
        || instruction.is_call_near_indirect()
        || instruction.mnemonic() == Mnemonic::Ret
}

/// `mov rsp, rbp` goes back to what the same activation had.
fn loads_stack_pointer(instruction: &Instruction) -> bool {
    let moves = matches!(
        instruction.mnemonic(),
        Mnemonic::Mov | Mnemonic::Pop | Mnemonic::Xchg
    );
    let is_target = instruction.op0_register() == Register::RSP
        || instruction.mnemonic() == Mnemonic::Xchg && instruction.op1_register() == Register::RSP;
    let adds =
        instruction.mnemonic() == Mnemonic::Add && instruction.op1_kind() == OpKind::Register;
    (moves || adds) && is_target && instruction.op1_register() != Register::RBP
}

/// Whether the instruction is a near branch, reads memory, writes memory: 1 for each.
#[must_use]
pub fn class(bytes: &[u8], pc: ProgramPc) -> [u8; 3] {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode_out(&mut instruction);
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let (mut loads, mut stores) = (false, false);
    for i in 0..instruction.op_count() {
        let kind = instruction.op_kind(i);
        let far = matches!(kind, OpKind::FarBranch16 | OpKind::FarBranch32);
        let near = matches!(kind, OpKind::Register | OpKind::NearBranch64) || far;
        if near || instruction.try_immediate(i).is_ok() {
            continue;
        }
        let access = info.op_access(i);
        let both = matches!(access, OpAccess::ReadWrite | OpAccess::ReadCondWrite);
        loads |= both || matches!(access, OpAccess::Read | OpAccess::CondRead);
        stores |= both || matches!(access, OpAccess::Write | OpAccess::CondWrite);
    }
    // Pushes and pops are no operands.
    let grows = instruction.stack_pointer_increment();
    loads |= grows > 0 || instruction.mnemonic() == Mnemonic::Leave;
    stores |= grows < 0;
    let is_far = matches!(
        instruction.mnemonic(),
        Mnemonic::Retf | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq
    ) || instruction.is_jmp_far_indirect()
        || instruction.is_call_far_indirect();
    let branches = kind(bytes, pc).transfers() && !is_far;
    [branches, loads, stores].map(u8::from)
}

/// Targets of the direct branches in `bytes`, which begin at `start`.
#[must_use]
pub fn targets(bytes: &[u8], start: ProgramPc) -> HashSet<ProgramPc> {
    let mut targets = HashSet::new();
    let mut at = 0;
    while at < bytes.len() {
        let mut instruction = Instruction::default();
        let pc = start.0 + at as u64;
        Decoder::with_ip(64, &bytes[at..], pc, DecoderOptions::NO_INVALID_CHECK)
            .decode_out(&mut instruction);
        let branches = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        );
        if branches {
            targets.insert(ProgramPc(instruction.near_branch_target()));
        }
        at += match instruction.is_invalid() {
            true => 1,
            false => instruction.len(),
        };
    }
    targets
}

/// Length of the instruction at `pc`, in bytes.
#[must_use]
pub fn length(bytes: &[u8], pc: ProgramPc) -> u64 {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode_out(&mut instruction);
    instruction.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_manual() {
        let table: &[(&[u8], Kind)] = &[
            (&[0xe8, 0, 0, 0, 0], Kind::Call),
            (&[0xff, 0x15, 0, 0, 0, 0], Kind::Call),
            (&[0xc2, 8, 0], Kind::Return),
            (&[0xff, 0xe0], Kind::Jump),
            (&[0xe3, 0], Kind::Jump),
            (&[0x0f, 0x05], Kind::SystemCall),
            (&[0xf3, 0xa4], Kind::Repeat),
            (&[0xf2, 0xae], Kind::Repeat),
            (&[0xa4], Kind::Plain),
            (&[0xf3, 0x90], Kind::Plain),
            (&[0x48, 0x8b, 0x27], Kind::Stack),
            (&[0x48, 0x89, 0xec], Kind::Plain),
            (&[0x48, 0x83, 0xc4, 0x08], Kind::Plain),
        ];
        for &(bytes, expected) in table {
            assert_eq!(kind(bytes, ProgramPc(0x1000)), expected, "{bytes:x?}");
        }
    }
}
