//! Emitted code where the program asks for an exception at each address that is not aligned
//! (EFLAGS.AC).
//!
//! Problem: what is counted or appended is loaded and stored at any address. Natively none
//! of that happens, so no exception is the program's.
//!
//! Approach: such an instruction is executed once more, without AC, and traps behind it; then
//! AC is as the program has it. Handlers and the engine run without it (`entry`).
//!
//! Limits: a signal for each. Nobody asks for these exceptions for long.

use agent::thread::{Thread, ThreadContext};
use sys::signal::{UContext, trap};
use wire::stream::{ADDRESSES, TARGETS, VALUES};

use crate::signals::{TRAP_FLAG, register_of};
use crate::streams::storing_register;

const ALIGNMENT_CHECK: u64 = 1 << 18;
/// Emitted code reaches all that is the thread's by gs; what the program has there is
/// addressed in other ways.
const GS: u8 = 0x65;

/// If the exception is not the program's, the instruction is executed.
pub fn goes_on(context: &ThreadContext, thread: &mut Thread, uc: &mut UContext) -> bool {
    let registers = &mut uc.mcontext;
    if registers.trapno != trap::ALIGNMENT || !crate::start::arena_contains(registers.rip) {
        return false;
    }
    let mut code = [0];
    let read = agent::memory::read_some(registers.rip, &mut code) == 1;
    let by = *register_of(registers, storing_register(registers.rip));
    let appends = by != 0
        && [TARGETS, ADDRESSES, VALUES]
            .iter()
            .any(|&lane| context.streams[lane] == by);
    if !(appends || read && code == [GS] || crate::accesses::reads(registers.rip)) {
        return false;
    }
    thread.aligns = Some(registers.eflags & TRAP_FLAG != 0);
    registers.eflags &= !ALIGNMENT_CHECK;
    registers.eflags |= TRAP_FLAG;
    true
}

/// The trap behind it. `false`: somebody else waits for a trap there, too.
pub fn has_gone_on(thread: &mut Thread, uc: &mut UContext) -> bool {
    let Some(others) = thread.aligns.take() else {
        return false;
    };
    uc.mcontext.eflags |= ALIGNMENT_CHECK;
    if others || thread.stepping {
        return false;
    }
    uc.mcontext.eflags &= !TRAP_FLAG;
    true
}
