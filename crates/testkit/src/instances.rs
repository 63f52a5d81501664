//! Random instances of instructions, in random states, natively and in every mode.
//!
//! Problem: a translator that copies machine code is right about an instruction only if
//! it is right about every register, address form, prefix and flag that can stand in it,
//! and about what stands around it. A compiler writes a small part of that.
//!
//! Approach: an [`Instance`] is up to six instructions with branches between them
//! ([`make`]), drawn as bytes ([`encoding`]), and the registers that they begin with. The
//! program `tests/instances/runner.c` executes each and prints a hash of the state that it
//! left. The native run is the oracle ([`check`]). An instance whose lines differ is made
//! smaller, and is shown with the part of the state that differs ([`reduce`]).
//!
//! Undefined flags are compared like all others: the processor is the same.

pub mod accesses;
pub mod branches;
pub mod check;
pub mod encoding;
pub mod make;
pub mod reduce;

pub use make::Instance;

use std::ops::Range;

/// Bytes of an instance's code, without the jump at its end.
pub const CODE: usize = 128;
/// Bytes from an instance's code to the next one.
pub const SLOT: u64 = 192;
/// Offsets in the memory of an instance that pointers to it have. The bases of fs and gs
/// lead to the two pages behind.
pub const AREA_POINTERS: Range<u64> = 0x400..0xC00;

/// A place for code and the memory of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Below 4 GB, where the cache of the runner's translation can reach it.
    Low,
    /// Out of reach.
    High,
}

impl Place {
    /// Whether addresses of 32 bits lead there.
    #[must_use]
    pub const fn is_low(self) -> bool {
        matches!(self, Place::Low)
    }

    /// The first instance's code.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Place::Low => 0x6900_0000,
            Place::High => 0x6A00_9000_0000,
        }
    }

    /// The memory of its operands; the runner has it, too. No product of such an address by 2
    /// to 5, 8 or 9, nor its low 32 bits, lies in the engine's memory, which is mapped
    /// (docs/limits.md).
    #[must_use]
    pub const fn area(self) -> u64 {
        match self {
            Place::Low => 0x6700_0000,
            Place::High => 0x6A00_8D00_0000,
        }
    }
}
