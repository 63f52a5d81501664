//! The accesses of an operand for the registers of a machine.

use super::{Address, Index, Kind, Mask, Operand, Pattern, Segment, Vector};
use crate::Reg;

/// Registers, as they are when the instruction begins.
pub trait Machine {
    fn register(&self, register: Reg) -> u64;
    fn base(&self, segment: Segment) -> u64;
    /// The direction flag: strings go backwards.
    fn is_backwards(&self) -> bool;
    /// Steps of the repeated string instruction that is executed.
    fn steps(&self) -> u64;
    fn vector(&self, number: u8) -> [u8; 64];
    fn opmask(&self, number: u8) -> u64;
    fn mmx(&self, number: u8) -> u64;
    /// Bytes of the area of `xsave` and its like.
    fn area(&self) -> u32;
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    pub address: u64,
    /// Bytes.
    pub size: u32,
    pub kind: Kind,
}

impl Address {
    /// The address for the registers of `machine`, moved by `offset`.
    fn of(&self, machine: &impl Machine, offset: u64) -> u64 {
        let index = |index: Index| {
            let value = machine.register(index.register);
            let value = if index.is_byte { value & 0xFF } else { value };
            value.wrapping_mul(index.scale.into())
        };
        let sum = self
            .displacement
            .wrapping_add(self.base.map_or(0, |base| machine.register(base)))
            .wrapping_add(self.index.map_or(0, index))
            .wrapping_add(offset);
        let sum = if self.is_32_bit {
            sum & 0xFFFF_FFFF
        } else {
            sum
        };
        sum.wrapping_add(self.segment.map_or(0, |segment| machine.base(segment)))
    }
}

impl Mask {
    fn is_set(self, machine: &impl Machine, element: u8) -> bool {
        match self {
            Mask::Opmask(number) => machine.opmask(number) >> element & 1 != 0,
            Mask::Signs(number, size) => {
                let last = usize::from(element) * usize::from(size) + usize::from(size) - 1;
                machine.vector(number)[last] & 0x80 != 0
            }
            Mask::Mmx(number) => machine.mmx(number) >> (8 * element + 7) & 1 != 0,
        }
    }
}

impl Operand {
    /// Calls `each` with every access, in the order of the manual's operation. `None`: the
    /// accesses are not known.
    pub fn each(&self, machine: &impl Machine, mut each: impl FnMut(Access)) -> Option<()> {
        let mut at = |offset: u64, size: u32| {
            each(Access {
                address: self.address.of(machine, offset),
                size,
                kind: self.kind,
            });
        };
        let size = u32::from(self.size);
        let step = u64::from(self.size);
        match self.pattern {
            Pattern::Unknown => return None,
            Pattern::Once => at(0, size),
            Pattern::Area => at(0, machine.area()),
            Pattern::Repeated => {
                let step = match machine.is_backwards() {
                    true => step.wrapping_neg(),
                    false => step,
                };
                (0..machine.steps()).for_each(|number| at(number.wrapping_mul(step), size));
            }
            Pattern::Elements(mask, count) => {
                let set = (0..count).filter(|&element| mask.is_set(machine, element));
                set.for_each(|element| at(u64::from(element) * step, size));
            }
            Pattern::Packed(mask, count) => {
                let set = (0..count).filter(|&element| mask.is_set(machine, element));
                (0..set.count()).for_each(|number| at(number as u64 * step, size));
            }
            Pattern::IfAny(mask, count) => {
                if (0..count).any(|element| mask.is_set(machine, element)) {
                    at(0, size);
                }
            }
            Pattern::Vector(vector) => {
                let set = (0..vector.elements).filter(|&e| vector.mask.is_set(machine, e));
                set.for_each(|element| at(vector.offset(machine, element), size));
            }
            Pattern::BitString(register) => {
                let bits = machine.register(register);
                at(self.bit_offset(bits), size);
            }
        }
        Some(())
    }

    /// Bytes from the operand to the word with a bit, of words as large as the operand.
    fn bit_offset(&self, bits: u64) -> u64 {
        let (bits, shift) = match self.size {
            2 => (i64::from(bits as i16), 4),
            4 => (i64::from(bits as i32), 5),
            _ => (bits as i64, 6),
        };
        (bits >> shift).wrapping_mul(self.size.into()) as u64
    }
}

impl Vector {
    fn offset(&self, machine: &impl Machine, element: u8) -> u64 {
        let bytes = machine.vector(self.register);
        let size = usize::from(self.index_size);
        let at = usize::from(element) * size;
        let index = match size {
            4 => {
                let mut index = [0; 4];
                index.copy_from_slice(&bytes[at..at + 4]);
                i64::from(i32::from_le_bytes(index))
            }
            _ => {
                let mut index = [0; 8];
                index.copy_from_slice(&bytes[at..at + 8]);
                i64::from_le_bytes(index)
            }
        };
        (index as u64).wrapping_mul(self.scale.into())
    }
}
