//! Code of probes, decoded by another decoder: it changes nothing that is live.

use arbtest::arbtest;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess, RflagsBits};
use isa::{Flags, RegisterSet};
use probe::{Probe, lower};

/// Flags by the bits of [`Flags`].
const BITS: [(u32, u8); 6] = [
    (RflagsBits::OF, 1),
    (RflagsBits::SF, 2),
    (RflagsBits::ZF, 4),
    (RflagsBits::AF, 8),
    (RflagsBits::CF, 16),
    (RflagsBits::PF, 32),
];

#[test]
fn live_registers_and_flags_stay() {
    arbtest(|u| {
        let live = RegisterSet {
            general: u.arbitrary()?,
            flags: Flags(u.int_in_range(0..=63)?),
            ..RegisterSet::ALL
        };
        let at = u.int_in_range(4096..=1 << 30)?;
        let probe = *u.choose(&[Probe::Add(at), Probe::Mark(at)])?;
        let Some(code) = lower(probe, live) else {
            // Only where flags are live and no register but rsp is dead.
            assert!(live.flags != Flags::NONE && live.general | 1 << 4 == 0xffff);
            return Ok(());
        };
        let decoded: Vec<_> = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE)
            .into_iter()
            .collect();
        let mut finder = InstructionInfoFactory::new();
        let (mut written, mut accesses) = (0u16, 0);
        let mut saved = None;
        for insn in &decoded {
            assert!(!insn.is_invalid());
            let info = finder.info(insn);
            for register in info.used_registers() {
                if matches!(register.access(), OpAccess::Write | OpAccess::ReadWrite) {
                    written |= 1 << register.register().full_register().number();
                }
            }
            for memory in info.used_memory() {
                accesses += 1;
                assert_eq!(memory.displacement(), u64::from(at));
                assert_eq!(memory.segment(), iced_x86::Register::GS);
            }
            if insn.mnemonic() == Mnemonic::Mov && insn.op0_kind() == iced_x86::OpKind::Register {
                saved = Some(insn.op0_register());
            }
        }
        assert_eq!(accesses, 1);
        let changes: u32 = decoded
            .iter()
            .map(|insn| insn.rflags_modified())
            .fold(0, |a, b| a | b);
        let restores = decoded.iter().any(|insn| insn.mnemonic() == Mnemonic::Sahf);
        for (bit, flag) in BITS {
            if live.flags.0 & flag != 0 && changes & bit != 0 {
                assert!(restores, "{code:02x?}");
            }
        }
        // rax comes back if it was kept.
        if saved == Some(iced_x86::Register::RAX) {
            written &= !1;
        }
        assert_eq!(written & live.general, 0, "{code:02x?}");
        Ok(())
    });
}

#[test]
fn the_usual_probe_is_one_instruction() {
    let code = lower(Probe::Add(0x1008), RegisterSet::NONE).expect("nothing is live");
    assert_eq!(code, [0x65, 0x48, 0xff, 0x04, 0x25, 8, 0x10, 0, 0]);
    let carry = RegisterSet {
        flags: Flags(16),
        ..RegisterSet::NONE
    };
    assert_eq!(lower(Probe::Add(0x1008), carry), Some(code));
}
