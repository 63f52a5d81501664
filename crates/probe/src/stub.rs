//! Code in front of an entry of a function: guards that lead to a routine and come back, and then the function.
//!
//! ```text
//!  0          lea behind(%rip), %r11; jmp routine
//!  FRONT      mov %r11, -8(%rsp)
//!             a comparison; jcc 0         for each guard
//!  behind     mov -8(%rsp), %r11
//!             jmp function
//! ```
//!
//! All have the same size, so that it is known before it is known what follows: where `r11` need not be kept, or the function follows
//! at once, there are nops. At the beginning of a function nothing is below its stack pointer. GCC has callers keep values in
//! registers that a callee happens to leave as they were (`-fipa-ra`), so a function that is called directly may not change `r11`;
//! flags are no argument.

use isa::Reg;

use crate::lower::{TO_ROUTINE, compare, to_routine};
use crate::{NoScratch, Sink, Site, Spill, Symbol, Test};

/// Bytes before the address at which it is entered.
pub const FRONT: u64 = TO_ROUTINE;
/// Bytes of keeping `r11`, of giving it back, and of the jump.
const FIVE: u64 = 5;
const BELOW: i32 = -8;

/// Bytes of the code with so many guards.
pub const fn stub_size(tests: &[Test]) -> u64 {
    let (mut size, mut at) = (FRONT + 3 * FIVE, 0);
    while at < tests.len() {
        size += compare_size(tests[at]);
        at += 1;
    }
    size
}

/// Bytes of a comparison and its jump.
const fn compare_size(test: Test) -> u64 {
    2 + match test {
        Test::IsZero(_) => 7,
        Test::IsSet(_) => 9,
        Test::IsOtherThread => 18,
    }
}

/// Code in front of a function, which a routine is called for if a test holds. Flags are dead in front of functions.
///
/// # Errors
/// Flags are live, or `r11` is and cannot be kept.
pub fn entry_stub<'a>(
    tests: &[Test],
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
    let end = start + stub_size(tests);
    let behind = end - 2 * FIVE;
    to_routine(out, routine, behind);
    match keeps {
        true => out.asm().mov_mem_r(Reg::Rsp, BELOW, Reg::R11),
        false => out.asm().nop(FIVE as usize),
    }
    for &test in tests {
        let holds = compare(out, test);
        out.asm().jcc_near(holds, start);
    }
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
