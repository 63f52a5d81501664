//! Code in front of an entry of a function: guards that lead to a routine and come back, what else is done, and then the function.
//!
//! ```text
//!  0          lea behind(%rip), %r11; jmp routine
//!  FRONT      mov %r11, -8(%rsp)
//!             a comparison; jcc 0         for each guard
//!             ops, with r11 as their register
//!  behind     mov -8(%rsp), %r11
//!             jmp function
//! ```
//!
//! All have the same size, so that it is known before it is known what follows: where `r11` need not be kept, or the function follows
//! at once, there are nops. At the beginning of a function nothing is below its stack pointer. GCC has callers keep values in
//! registers that a callee happens to leave as they were (`-fipa-ra`), so a function that is called directly may not change `r11`;
//! flags are no argument.

use isa::{Flags, Reg, RegisterSet};

use crate::lower::{TO_ROUTINE, compare, lower, size, to_routine};
use crate::{NoScratch, Op, Sink, Site, Spill, Symbol, Test};

/// Bytes before the address at which it is entered.
pub const FRONT: u64 = TO_ROUTINE;
/// Bytes of keeping `r11`, of giving it back, and of the jump.
const FIVE: u64 = 5;
const BELOW: i32 = -8;

/// The place of ops: only `r11` is free.
const OPS: Site = Site {
    live: RegisterSet {
        general: !(1 << Reg::R11 as u8),
        flags: Flags::NONE,
        ..RegisterSet::ALL
    },
    spill: Spill::Never,
};

/// Bytes of the code with these guards and ops.
///
/// # Errors
/// The ops need more than a register.
pub fn stub_size(tests: &[Test], ops: &[Op]) -> Result<u64, NoScratch> {
    let guards: u64 = tests.iter().map(|test| compare_size(*test)).sum();
    Ok(FRONT + 3 * FIVE + guards + size(ops, &OPS)? as u64)
}

/// Bytes of a comparison and its jump.
fn compare_size(test: Test) -> u64 {
    2 + match test {
        Test::IsZero(_) => 7,
        Test::IsSet(_) | Test::IsBelow(..) => 9,
        Test::IsOtherThread => 18,
    }
}

/// Code in front of a function, which a routine is called for if a test holds, and that does ops. Flags are dead in front of functions.
///
/// # Errors
/// Flags are live, or `r11` is and cannot be kept; or the ops need more than that register.
pub fn entry_stub<'a>(
    (tests, ops): (&[Test], &[Op]),
    routine: Symbol,
    function: Symbol,
    site: &Site,
    out: &mut impl Sink<'a>,
) -> Result<(), NoScratch> {
    let keeps = site.live.general >> Reg::R11 as u8 & 1 != 0;
    if site.live.flags != isa::Flags::NONE || keeps && site.spill != Spill::RedZone {
        return Err(NoScratch);
    }
    let function = out.address(function);
    let start = out.asm().here();
    let end = start + stub_size(tests, ops)?;
    let behind = end - 2 * FIVE - size(ops, &OPS)? as u64;
    to_routine(out, routine, behind);
    match keeps {
        true => out.asm().mov_mem_r(Reg::Rsp, BELOW, Reg::R11),
        false => out.asm().nop(FIVE as usize),
    }
    for &test in tests {
        let holds = compare(out, test);
        out.asm().jcc_near(holds, start);
    }
    lower(ops, &OPS, out)?;
    match keeps {
        true => out.asm().mov_r_mem(Reg::R11, Reg::Rsp, BELOW),
        false => out.asm().nop(FIVE as usize),
    }
    match function == end {
        true => out.asm().nop(FIVE as usize),
        false => {
            out.asm().jmp(function);
        }
    }
    debug_assert!(out.asm().overflowed() || out.asm().here() == end);
    Ok(())
}
