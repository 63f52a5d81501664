//! Branches to constant targets: taken apart, and written again in their short or long form.

use image::LinkAddr;
use isa::Insn;

use super::Kind;
use crate::address::New;
use crate::skipped::Why;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Jump,
    Call,
    /// By a condition.
    Cond(u8),
    /// `loop`, `jrcxz` and their like have no long form.
    Count,
}

impl Form {
    /// Bytes of the long form without prefixes.
    pub(super) fn long_size(self) -> u8 {
        match self {
            Form::Cond(_) => 6,
            _ => 5,
        }
    }
}

/// A branch to a constant target, taken apart.
pub(super) fn branch(insn: &Insn, target: LinkAddr) -> Result<Kind, Why> {
    let prefixes = insn.prefixes();
    // A size prefix cuts the target on some processors.
    if insn.is_16_bit_branch() {
        return Err(Why::Code);
    }
    let form = match insn.bytes()[prefixes..] {
        [0xeb, _] | [0xe9, _, _, _, _] => Form::Jump,
        [0xe8, _, _, _, _] => Form::Call,
        [opcode @ 0x70..=0x7f, _] => Form::Cond(opcode & 15),
        [0x0f, opcode @ 0x80..=0x8f, _, _, _, _] => Form::Cond(opcode & 15),
        [0xe0..=0xe3, _] => Form::Count,
        _ => return Err(Why::Code),
    };
    Ok(Kind::Branch {
        prefixes: prefixes as u8,
        form,
        target,
    })
}

/// Writes a branch behind its prefixes; `short` is the opcode of its short form, `next` the address behind it.
pub(super) fn write_branch(
    out: &mut [u8],
    form: Form,
    short: u8,
    target: New,
    next: New,
) -> Result<(), Why> {
    if out.len() == 2 {
        let distance = target.0.wrapping_sub(next.0) as i64;
        let distance = i8::try_from(distance).map_err(|_| Why::ShortBranch)?;
        out[0] = short;
        out[1] = distance as u8;
        return Ok(());
    }
    match form {
        Form::Jump => out[0] = 0xe9,
        Form::Call => out[0] = 0xe8,
        Form::Cond(cc) => out[..2].copy_from_slice(&[0x0f, 0x80 | cc]),
        Form::Count => return Err(Why::ShortBranch),
    }
    let opcode = out.len() - 4;
    out[opcode..].copy_from_slice(&target.displacement(next)?);
    Ok(())
}
