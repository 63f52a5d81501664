//! Registers that an instruction reads and writes, each as the whole register that it is part of.

use alloc::vec::Vec;

use iced_x86::{InstructionInfoFactory, OpAccess, Register};

use crate::Insn;

/// A register, whatever part of it is used. `al` is `General(0)`, `xmm3` is `Vector(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whole {
    /// By its encoding, as [`Reg`](crate::Reg).
    General(u8),
    /// The arithmetic flags.
    Flags,
    /// `xmm`, `ymm`, `zmm`.
    Vector(u8),
    /// `k0` to `k7`.
    Mask(u8),
    /// Registers of x87 and MMX.
    X87(u8),
    /// Segment registers by their encoding, of which only loads are told.
    Segment(u8),
}

/// Registers of an instruction, none twice, in the order of its operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub read: Vec<Whole>,
    pub written: Vec<Whole>,
}

impl Insn {
    /// The registers that it reads, also for addresses, and those that it writes. The instruction
    /// pointer is none.
    pub fn registers(&self) -> Used {
        let mut used = Used::default();
        let mut factory = InstructionInfoFactory::new();
        for one in factory.info(&self.raw).used_registers() {
            let Some(whole) = whole(one.register()) else {
                continue;
            };
            let (reads, writes) = match one.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write => (false, true),
                OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
            };
            add(&mut used.read, whole, reads);
            add(&mut used.written, whole, writes);
        }
        let raw = &self.raw;
        add(&mut used.read, Whole::Flags, raw.rflags_read() != 0);
        add(&mut used.written, Whole::Flags, raw.rflags_modified() != 0);
        used
    }
}

fn add(all: &mut Vec<Whole>, one: Whole, is_used: bool) {
    if is_used && !all.contains(&one) {
        all.push(one);
    }
}

fn whole(register: Register) -> Option<Whole> {
    let number = register.number() as u8;
    Some(match register {
        _ if register.is_gpr() => Whole::General(register.full_register().number() as u8),
        _ if register.is_vector_register() => Whole::Vector(number),
        _ if register.is_k() => Whole::Mask(number),
        _ if register.is_st() || register.is_mm() => Whole::X87(number),
        Register::FS | Register::GS => Whole::Segment(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Whole::{Flags, General, Mask, Vector};

    #[test]
    fn parts_are_whole_registers() {
        for (bytes, read, written) in [
            // mov ah, [rbx+rcx]
            (
                &[0x8a, 0x24, 0x0b][..],
                &[General(3), General(1)][..],
                &[General(0)][..],
            ),
            // adc r9d, edi
            (
                &[0x41, 0x11, 0xf9],
                &[General(9), General(7), Flags],
                &[General(9), Flags],
            ),
            // push rax
            (&[0x50], &[General(0), General(4)], &[General(4)]),
            // vpaddd zmm1{k2}{z}, zmm3, zmm4
            (
                &[0x62, 0xf1, 0x65, 0xca, 0xfe, 0xcc],
                &[Vector(3), Vector(4), Mask(2)],
                &[Vector(1)],
            ),
        ] {
            let used = Insn::decode(bytes, 0x1000).unwrap().registers();
            let sorted = |all: &[Whole]| {
                let mut all = all.to_vec();
                all.sort();
                all
            };
            assert_eq!(sorted(&used.read), sorted(read), "{bytes:x?}");
            assert_eq!(sorted(&used.written), sorted(written), "{bytes:x?}");
        }
    }
}
