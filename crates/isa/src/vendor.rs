//! Whose processor this is, where their encodings differ.
//!
//! AMD's execute a near branch with an operand size prefix with 16 bits of its target;
//! Intel's ignore the prefix. Code is decoded as the processor would on which this runs.

use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU8, Ordering};

/// 0: not asked yet.
static VENDOR: AtomicU8 = AtomicU8::new(0);
const AMD: u8 = 1;
const OTHER: u8 = 2;

/// Whether it is AMD's, or made after theirs. The processor is asked once.
pub(crate) fn is_amd() -> bool {
    match VENDOR.load(Ordering::Relaxed) {
        0 => {
            let is_amd = asked();
            let vendor = if is_amd { AMD } else { OTHER };
            VENDOR.store(vendor, Ordering::Relaxed);
            is_amd
        }
        vendor => vendor == AMD,
    }
}

fn asked() -> bool {
    let name = __cpuid(0);
    let name = [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes);
    [b"AuthenticAMD", b"HygonGenuine"].contains(&name.as_flattened().try_into().unwrap_or(&[0; 12]))
}
