//! First-access compression of load values (CFiat), as mlvCFiat of the mTrace thesis has it (figures
//! 3.4 to 3.6 and 4.36 to 4.45).
//!
//! Problem: a debugger that executes a program again needs the values that it loaded, and most of them
//! it knows: the program stored or loaded them before.
//!
//! Approach: a [`Cache`] has a flag for every few bytes of its lines: set if they were stored or
//! loaded since the line came in. [`Encoder`] counts the loads whose flags are all set, and has a
//! [`Descriptor`] of each other one: that count, and the value. [`Memory`] is what somebody knows who
//! has the stores and the descriptors; [`Decoder`] makes all loads again of it.
//!
//! Invariants: the decoder needs no cache, as every load is either counted or has a descriptor. A load
//! that is counted when the count is at its end has a descriptor, too.
//!
//! The thesis leaves choices, which are made so:
//!
//! | thesis | here |
//! |---|---|
//! | no word on replacement; its figures fit two kinds | [`Replacement::RoundRobin`] from the last way down, as the cache that Pin comes with, whose names the figures have; or [`Replacement::Lru`] |
//! | operands of up to 4 bytes are in the line of their first byte, even if they cross it (4.39) | [`Crossing::First`], or [`Crossing::All`] |
//! | a flag is set if one of its bytes is accessed (3.4 has a flag for each byte) | so it is, unless the granule is one byte |
//! | another processor's request clears a line (3.4), which software does not see | `coherent`: a load that would be counted and is not what [`Memory`] has clears its lines, and has a descriptor |
//!
//! Limits: what another thread or the kernel wrote is noticed by its value: the same value written
//! again clears nothing. Areas whose size is not known (`xsave`) are not accessed.

mod cache;
mod decode;
mod encode;
mod memory;

pub use cache::{Cache, Config, Crossing, Replacement};
pub use decode::{Decoded, Decoder};
pub use encode::{Counts, Descriptor, Encoder, Hits, Shared};
pub use memory::Memory;

/// Bytes of operands that are counted by themselves (table 4.4); all others are the last class.
pub const SIZES: [u32; 7] = [1, 2, 4, 8, 10, 16, 32];
pub const CLASSES: usize = SIZES.len() + 1;

/// The class of an operand.
pub fn class(size: u32) -> usize {
    let at = SIZES.iter().position(|&bytes| bytes == size);
    at.unwrap_or(SIZES.len())
}
