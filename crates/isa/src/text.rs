//! Instructions as text, in Intel's syntax.

use alloc::format;
use alloc::string::String;

use iced_x86::{
    CC_a, CC_ae, CC_e, CC_g, CC_ge, CC_ne, Decoder, DecoderOptions, FormatMnemonicOptions,
    Formatter, Instruction, IntelFormatter, Mnemonic,
};

/// The instruction of `bytes` at `pc`. `target` names where a direct branch goes; without a
/// name that is shown as a distance from `pc`. Bytes that are no instruction are
/// shown as such.
pub fn of(bytes: &[u8], pc: u64, target: Option<&str>) -> String {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut instruction);
    let mut formatter = formatter();
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

/// The mnemonic of an instruction, without prefixes. Bytes that are no instruction have none.
pub fn mnemonic(bytes: &[u8], pc: u64) -> String {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut instruction);
    let mut text = String::new();
    let options = FormatMnemonicOptions::NO_PREFIXES;
    formatter().format_mnemonic_options(&instruction, &mut text, options);
    text
}

fn formatter() -> IntelFormatter {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    formatter
}

/// The instruction as text, with the target of a branch as an address and conditions by the names
/// that Intel's own decoder gives them: `jnbe`, `jz`.
pub fn absolute(bytes: &[u8], pc: u64) -> String {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut instruction);
    if instruction.is_invalid() {
        return String::from("(bad)");
    }
    let mut formatter = formatter();
    let options = formatter.options_mut();
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    if !matches!(instruction.mnemonic(), Mnemonic::Loope | Mnemonic::Loopne) {
        options.set_cc_a(CC_a::nbe);
        options.set_cc_ae(CC_ae::nb);
        options.set_cc_e(CC_e::z);
        options.set_cc_ne(CC_ne::nz);
        options.set_cc_g(CC_g::nle);
        options.set_cc_ge(CC_ge::nl);
    }
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    text
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
    /// The cases are branches that figures of the mTrace thesis show.
    #[test]
    fn branches_have_absolute_targets() {
        let cases: [(&[u8], u64, &str); 10] = [
            (&[0x0F, 0x87, 0xC5, 0, 0, 0], 0x4004D3, "jnbe 0x40059e"),
            (&[0x0F, 0x83, 0xBF, 0, 0, 0], 0x4004D9, "jnb 0x40059e"),
            (&[0x74, 0x00], 0x4004F5, "jz 0x4004f7"),
            (&[0xE2, 0xFE], 0x400572, "loop 0x400572"),
            (&[0xE1, 0xFE], 0x40057B, "loope 0x40057b"),
            (&[0xE0, 0xFE], 0x40057B, "loopne 0x40057b"),
            (&[0xEB, 0x03], 0x40058F, "jmp 0x400594"),
            (&[0xE8, 0x1A, 0xFE, 0xFF, 0xFF], 0x400599, "call 0x4003b8"),
            (&[0xC3], 0x40059F, "ret"),
            (&[0xFF, 0xD0], 0x400511, "call rax"),
        ];
        for (bytes, pc, text) in cases {
            assert_eq!(absolute(bytes, pc), text);
        }
    }
}
