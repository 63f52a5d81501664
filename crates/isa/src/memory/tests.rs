//! Forms that the page-protection test does not execute, by the descriptions in the Intel SDM,
//! vol. 2, and one of each pattern.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Access, Kind, Machine, Pattern, Segment};
use crate::{Insn, Reg};

/// Registers with easy numbers: register n holds 0x1000 * (n + 1).
struct Easy;

impl Machine for Easy {
    fn register(&self, register: Reg) -> u64 {
        match register {
            Reg::Rcx => 3,
            register => 0x1000 * (register as u64 + 1),
        }
    }

    fn base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => 0x10_0000,
            Segment::Gs => 0x20_0000,
        }
    }

    fn is_backwards(&self) -> bool {
        false
    }

    fn steps(&self) -> u64 {
        3
    }

    /// Elements of 32 bits: 0, -16, 32, -48, ...
    fn vector(&self, _: u8) -> [u8; 64] {
        let mut vector = [0; 64];
        for (number, element) in vector.chunks_mut(4).enumerate() {
            let value = 16 * number as i32 * if number % 2 == 0 { 1 } else { -1 };
            element.copy_from_slice(&value.to_le_bytes());
        }
        vector
    }

    fn opmask(&self, _: u8) -> u64 {
        0b1010
    }

    fn mmx(&self, _: u8) -> u64 {
        0x80
    }

    fn area(&self) -> u32 {
        2696
    }
}

/// `r1000:8` for a read of 8 bytes at 0x1000, `u` for an update, `w` for a write.
fn shown(bytes: &[u8]) -> String {
    let insn = Insn::decode(bytes, 0x40_0000).unwrap();
    assert_eq!(insn.len(), bytes.len(), "{bytes:02x?}");
    let mut accesses: Vec<Access> = Vec::new();
    for operand in insn.memory() {
        let known = operand.each(&Easy, |access| accesses.push(access));
        assert_eq!(known.is_none(), operand.pattern == Pattern::Unknown);
    }
    let text = accesses.iter().map(|access| {
        let kind = match access.kind {
            Kind::Read => 'r',
            Kind::Update => 'u',
            Kind::Write => 'w',
        };
        format!("{kind}{:x}:{}", access.address, access.size)
    });
    text.collect::<Vec<String>>().join(" ")
}

#[test]
fn branches_and_the_stack() {
    // rsp is 0x5000, rbp 0x6000, rax 0x1000.
    let cases: [(&[u8], &str); 20] = [
        (&[0xE8, 0, 0, 0, 0], "w4ff8:8"),
        (&[0xFF, 0x10], "r1000:8 w4ff8:8"),
        (&[0xFF, 0xD0], "w4ff8:8"),
        (&[0xC3], "r5000:8"),
        (&[0xC2, 0x10, 0], "r5000:8"),
        (&[0xFF, 0x20], "r1000:8"),
        (&[0xFF, 0xE0], ""),
        (&[0xEB, 0], ""),
        (&[0x74, 0], ""),
        // jmp [rip + 0x10]: the next instruction is at 0x400006.
        (&[0xFF, 0x25, 0x10, 0, 0, 0], "r400016:8"),
        // jmp fs:[rax]
        (&[0x64, 0xFF, 0x20], "r101000:8"),
        (&[0x50], "w4ff8:8"),
        (&[0x66, 0x50], "w4ffe:2"),
        (&[0x58], "r5000:8"),
        // push [rsp + 8] reads with the stack pointer before, pop [rsp + 8] writes with that after.
        (&[0xFF, 0x74, 0x24, 8], "r5008:8 w4ff8:8"),
        (&[0x8F, 0x44, 0x24, 8], "r5000:8 w5010:8"),
        (&[0x9C], "w4ff8:8"),
        (&[0x9D], "r5000:8"),
        (&[0xC9], "r6000:8"),
        // enter 16, 2
        (&[0xC8, 0x10, 0, 2], "r5ff8:8 w4ff8:8 w4ff0:8 w4fe8:8"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(shown(bytes), expected, "{bytes:02x?}");
    }
}

#[test]
fn every_pattern() {
    let cases: [(&[u8], &str); 22] = [
        // Names of lines, hints and addresses.
        (&[0x48, 0x8D, 0x00], ""),
        (&[0x0F, 0x18, 0x08], ""),
        (&[0x0F, 0xAE, 0x38], ""),
        (&[0x0F, 0x1F, 0x00], ""),
        // Read-modify-write, also where the comparison fails; 16 bytes.
        (&[0x48, 0x01, 0x00], "u1000:8"),
        (&[0xF0, 0x48, 0x0F, 0xB1, 0x10], "u1000:8"),
        (&[0xF0, 0x48, 0x0F, 0xC7, 0x08], "u1000:16"),
        (&[0x48, 0x0F, 0x44, 0x00], "r1000:8"),
        // movsb, rep movsd, rep stosq, repne scasw: rsi is 0x7000, rdi 0x8000.
        (&[0xA4], "r7000:1 w8000:1"),
        (
            &[0xF3, 0xA5],
            "r7000:4 r7004:4 r7008:4 w8000:4 w8004:4 w8008:4",
        ),
        (&[0xF3, 0x48, 0xAB], "w8000:8 w8008:8 w8010:8"),
        (&[0xF2, 0x66, 0xAF], "r8000:2 r8002:2 r8004:2"),
        // lodsb with gs, and with addresses of 32 bits.
        (&[0x65, 0xAC], "r207000:1"),
        (&[0x67, 0xAC], "r7000:1"),
        // bt [rax], rdx: bit 0x3000 is 0x600 bytes behind.
        (&[0x48, 0x0F, 0xA3, 0x10], "r1600:8"),
        // fld m80, fxsave, xsave, which reads what its header has.
        (&[0xDB, 0x28], "r1000:10"),
        (&[0x0F, 0xAE, 0x00], "w1000:512"),
        (&[0x0F, 0xAE, 0x20], "u1000:2696"),
        // vpgatherdd xmm1, [rax + xmm2 * 4], xmm3: elements with a sign.
        (&[0xC4, 0xE2, 0x61, 0x90, 0x0C, 0x90], "rfc0:4 rf40:4"),
        // vmovdqu32 xmm1 {k1}, [rax]; vpcompressd [rax] {k1}, xmm1; vaddps with a broadcast.
        (&[0x62, 0xF1, 0x7E, 0x09, 0x6F, 0x08], "r1004:4 r100c:4"),
        (&[0x62, 0xF2, 0x7D, 0x09, 0x8B, 0x08], "w1000:4 w1004:4"),
        (&[0x62, 0xF1, 0x6C, 0x19, 0x58, 0x08], "r1000:4"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(shown(bytes), expected, "{bytes:02x?}");
    }
}

#[test]
fn unknown_accesses_are_not_guessed() {
    // tileloadd tmm0, [rax + rcx]
    let insn = Insn::decode(&[0xC4, 0xE2, 0x7B, 0x4B, 0x04, 0x08], 0x1000).unwrap();
    let patterns: Vec<Pattern> = insn
        .memory()
        .iter()
        .map(|operand| operand.pattern)
        .collect();
    assert_eq!(patterns, [Pattern::Unknown]);
}
