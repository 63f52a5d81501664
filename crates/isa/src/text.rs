//! Instructions as text, in Intel's syntax.

use alloc::format;
use alloc::string::String;

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};

/// The instruction of `bytes` at `pc`. `target` names where a direct branch goes; without a
/// name that is shown as a distance from `pc`. Bytes that are no instruction are
/// shown as such.
pub fn of(bytes: &[u8], pc: u64, target: Option<&str>) -> String {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut instruction);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    let mut text = String::new();
    if instruction.is_invalid() {
        return String::from("(bad)");
    }
    if instruction.near_branch_target() == 0 && target.is_none() {
        formatter.format(&instruction, &mut text);
        return text;
    }
    formatter.format_mnemonic(&instruction, &mut text);
    let distance = instruction
        .near_branch_target()
        .wrapping_sub(pc)
        .cast_signed();
    match target {
        Some(name) => format!("{text} {name}"),
        None if distance < 0 => format!("{text} -{:#x}", distance.unsigned_abs()),
        None => format!("{text} +{distance:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_name_their_targets() {
        let cases: [(&[u8], Option<&str>, &str); 6] = [
            (&[0x48, 0x89, 0xE5], None, "mov rbp, rsp"),
            (&[0x75, 0x10], None, "jne +0x12"),
            (&[0xEB, 0xF0], None, "jmp -0xe"),
            (&[0xE8, 0, 0, 0, 0], Some("work"), "call work"),
            (&[0x8B, 0x05, 4, 0, 0, 0], None, "mov eax, [rip+4]"),
            (&[0x06], None, "(bad)"),
        ];
        for (bytes, target, text) in cases {
            assert_eq!(of(bytes, 0x1000, target), text);
        }
    }
}
