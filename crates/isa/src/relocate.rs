//! Forms of an instruction that must change when it moves.

use alloc::vec::Vec;

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, OpKind, Register};

use crate::insn::MAX_LEN;
use crate::{Insn, Reg};

/// No form of this instruction exists for the place it was to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotEncode;

fn encode(instruction: &Instruction, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let mut encoder = Encoder::try_new(64).map_err(|_| CannotEncode)?;
    encoder.encode(instruction, at).map_err(|_| CannotEncode)?;
    Ok(encoder.take_buffer())
}

/// `mov target, <operand 0>` for an indirect branch, to run at `at`; `movzx` for one of
/// 16 bits. Fails if a rip-relative operand is out of reach.
///
/// The branch is `FF` with its operand in the ModRM byte, and the load `8B` (`0F B7`) with
/// the same: only what a program has many of is changed byte by byte, because
/// the encoder's tables cost every process a third of a megabyte.
pub fn load_branch_operand(insn: &Insn, target: Reg, at: u64) -> Result<Vec<u8>, CannotEncode> {
    const BRANCH: u8 = 0xFF;
    const LOAD: u8 = 0x8B;
    const LOAD_16: [u8; 2] = [0x0F, 0xB7];
    const SHORT_ADDRESS: u8 = 0x67;
    const FS: u8 = 0x64;
    let (prefixes, rest) = insn.bytes().split_at(insn.prefixes());
    let &[BRANCH, modrm, ref operand @ ..] = rest else {
        return Err(CannotEncode);
    };
    // One that is not the last prefix is ignored.
    let rex = prefixes.last().filter(|last| (0x40..=0x4F).contains(*last));
    let short = prefixes.contains(&SHORT_ADDRESS);
    let mut out = Vec::with_capacity(MAX_LEN);
    // The others mean nothing to a load.
    out.extend(short.then_some(SHORT_ADDRESS));
    let fs = modrm < 0xC0 && insn.raw.segment_prefix() == Register::FS;
    out.extend(fs.then_some(FS));
    // W, and R from the target; X and B as they were.
    out.push(0x48 | target.high() << 2 | rex.unwrap_or(&0) & 3);
    match insn.is_16_bit_branch() {
        true => out.extend(LOAD_16),
        false => out.push(LOAD),
    }
    out.push(modrm & 0xC7 | target.low() << 3);
    if !insn.raw.is_ip_rel_memory_operand() {
        out.extend_from_slice(operand);
        return Ok(out);
    }
    let next = at + out.len() as u64 + 4;
    let distance = insn.raw.ip_rel_memory_address().wrapping_sub(next) as i64;
    let displacement = distance as i32;
    if !short && i64::from(displacement) != distance {
        return Err(CannotEncode);
    }
    out.extend_from_slice(&displacement.to_le_bytes());
    Ok(out)
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

/// The instruction with `[base]` in place of its memory operand, through the base of fs if that
/// counts. An address of 32 bits is still one: other operands may be addressed by its size.
pub fn with_memory_at(insn: &Insn, base: Reg, at: u64) -> Result<Vec<u8>, CannotEncode> {
    let mut changed = insn.raw;
    changed.set_memory_base(match insn.raw.memory_base() {
        Register::EIP => base.iced() - Register::RAX as u32 + Register::EAX as u32,
        _ => base.iced(),
    });
    changed.set_memory_index(Register::None);
    changed.set_memory_index_scale(1);
    changed.set_memory_displacement64(0);
    changed.set_memory_displ_size(0);
    if insn.raw.segment_prefix() != Register::FS {
        changed.set_segment_prefix(Register::None);
    }
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
/// than `taken`, and that it can address memory by. rsp and rbp are never chosen.
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
    // ah, ch, dh and bh cannot be named beside a register that needs REX.
    if (0..insn.raw.op_count()).any(|i| is_high_byte(insn.raw.op_register(i))) {
        // rax is an implicit operand of `cmpxchg`.
        return [Reg::Rsi, Reg::Rdi, Reg::Rbx, Reg::Rdx, Reg::Rcx]
            .into_iter()
            .find(|&reg| !taken.contains(&reg) && !uses(reg))
            .unwrap_or(Reg::Rax);
    }
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

fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::CH | Register::DH | Register::BH
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The load as the general encoder makes it.
    fn encoded(insn: &Insn, target: Reg, at: u64) -> Result<Vec<u8>, CannotEncode> {
        let raw = &insn.raw;
        let load = match raw.op0_kind() {
            OpKind::Register => {
                let from = raw.op0_register().full_register();
                Instruction::with2(Code::Mov_r64_rm64, target.iced(), from)
            }
            _ => Instruction::with2(Code::Mov_r64_rm64, target.iced(), memory_operand(raw)),
        };
        encode(&load.map_err(|_| CannotEncode)?, at)
    }

    /// Operands and effects of an instruction, however it is encoded.
    fn meaning(bytes: &[u8], at: u64) -> impl PartialEq + core::fmt::Debug {
        let raw = Insn::decode(bytes, at).expect("an instruction").raw;
        assert_eq!(raw.len(), bytes.len());
        (
            raw.code(),
            raw.op0_register(),
            raw.op1_kind(),
            raw.op1_register(),
            (
                raw.memory_base(),
                raw.memory_index(),
                raw.memory_index_scale(),
            ),
            raw.memory_displacement64(),
            raw.segment_prefix() == Register::FS,
        )
    }

    /// A high byte, the base of fs, and an address of 32 bits stay what they are.
    #[test]
    fn another_base_leaves_the_other_operands() {
        let table: [(&[u8], Reg, &[u8]); 4] = [
            // adc ch, [rip+n]: adc ch, [rsi]
            (&[0x12, 0x2D, 9, 0, 0, 0], Reg::Rsi, &[0x12, 0x2E]),
            // cmpxchg [rip+n], dh
            (
                &[0x0F, 0xB0, 0x35, 9, 0, 0, 0],
                Reg::Rsi,
                &[0x0F, 0xB0, 0x36],
            ),
            // sbb edx, fs:[rip+n]
            (
                &[0x64, 0x1B, 0x15, 9, 0, 0, 0],
                Reg::R8,
                &[0x64, 0x41, 0x1B, 0x10],
            ),
            // sbb edx, [eip+n]
            (
                &[0x67, 0x1B, 0x15, 9, 0, 0, 0],
                Reg::R8,
                &[0x67, 0x41, 0x1B, 0x10],
            ),
        ];
        for (bytes, scratch, expected) in table {
            let insn = Insn::decode(bytes, 0x1000).expect("an instruction");
            assert_eq!(free_register(&insn, &[]), scratch, "{bytes:x?}");
            let changed = with_memory_at(&insn, scratch, 0x7000_0000_0000);
            assert_eq!(changed.as_deref(), Ok(expected), "{bytes:x?}");
        }
    }

    /// Every ModRM byte of both branches, with prefixes and without, into a low
    /// and a high register, near and out of reach: as the encoder has it.
    #[test]
    fn branch_operands_are_loaded_as_the_encoder_does() {
        let prefixes: [&[u8]; 11] = [
            &[],
            &[0x41],
            &[0x42],
            &[0x4F],
            &[0x64],
            &[0x3E],
            &[0xF2],
            &[0x67],
            &[0x67, 0x64, 0x43],
            &[0x48, 0x41],
            &[0x41, 0x2E],
        ];
        let (pc, near, far) = (0x5555_0000_1000, 0x5555_1000_0123, 0x7FFF_0000_0000);
        let mut compared = 0;
        for prefix in prefixes {
            for modrm in 0..=255u8 {
                let is_branch = matches!(modrm >> 3 & 7, 2 | 4);
                let bytes = [prefix, &[0xFF, modrm, 0x9C, 0x44, 0x33, 0x22, 0x11, 0x05]].concat();
                let Some(insn) = Insn::decode(&bytes, pc).ok().filter(|_| is_branch) else {
                    continue;
                };
                for (target, at) in [(Reg::Rcx, near), (Reg::R10, near), (Reg::Rcx, far)] {
                    let (ours, theirs) = (
                        load_branch_operand(&insn, target, at),
                        encoded(&insn, target, at),
                    );
                    match (&ours, &theirs) {
                        (Ok(ours), Ok(theirs)) => {
                            assert_eq!(meaning(ours, at), meaning(theirs, at), "{bytes:x?}");
                        }
                        _ => assert_eq!(ours, theirs, "{bytes:x?}"),
                    }
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, prefixes.len() * 2 * 32 * 3);
    }
}
