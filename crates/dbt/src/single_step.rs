//! A program that steps itself with the trap flag.
//!
//! The CPU traps after every instruction of the cache; the program is to see a
//! trap after every one of its own. So a trap counts at a boundary only, unless
//! the engine's own way led there: from the return of a handler, from the boundary of
//! what is counted before the instruction to that of the instruction, or from that of
//! a block's exit to that of the next block.
//! Neither does one right behind the `popf` that set the flag, or behind a system call
//! (AMD APM vol. 2, 13.1.4; the kernel gives the flag back as `popf` does): there the
//! cache has an instruction of its own, at which the processor traps first.
//!
//! Limits: direct jumps that translation left out give no trap.

use agent::memory;
use agent::thread::{Pending, Thread, ThreadContext};
use isa::insn::MAX_LEN;
use isa::{Flow, Insn};
use sys::signal::*;

use crate::deliver::deliver;
use crate::engine;
use crate::pcmap;

/// A step came to a boundary: the trap, at the instruction it steps to.
pub fn trapped(
    context: &mut ThreadContext,
    thread: &mut Thread,
    info: &SigInfo,
    uc: &mut UContext,
    place: pcmap::Place,
) {
    let to = (uc.mcontext.rip, place.app_pc);
    let last = core::mem::replace(&mut thread.stepped_to, to);
    if core::mem::take(&mut thread.step_from) == place.app_pc
        || is_same_instruction(last, to)
        || is_passed_over(last.1, to)
    {
        // The step that led here was ours, not an instruction of the program.
        return;
    }
    let mut info = *info;
    info.fields[0] = place.app_pc;
    let details = (uc.mcontext.err, uc.mcontext.trapno, uc.mcontext.cr2);
    thread.pending = Some(Pending {
        signal: SIGTRAP,
        info,
        action: thread.action_at_arrival(SIGTRAP),
        mask: uc.sigmask,
        fault: Some(details),
        temporary: None,
    });
    deliver(context, thread, uc, place);
}

/// Whether the trap flag became set by the program's instruction before the boundary `to`,
/// (cache, program) address, so that the one there comes first. `last`: the program
/// address where it trapped last, or would have.
fn is_passed_over(last: u64, to: (u64, u64)) -> bool {
    const POPF: u8 = 0x9D;
    const BEHIND_POPF: [u8; 2] = [POPF, 0x90];
    let before = bytes(to.1.wrapping_sub(2));
    match before {
        Some([0x0F, 0x05] | [0xCD, 0x80]) => last == to.1.wrapping_sub(2),
        // If it was set before `popf`, the trap was at the `nop` behind that. An
        // instruction that goes to itself was here already.
        Some([_, POPF]) => bytes(to.0 - 1) != Some(BEHIND_POPF) && last != to.1,
        _ => false,
    }
}

fn bytes(at: u64) -> Option<[u8; 2]> {
    let mut bytes = [0; 2];
    (memory::read_some(at, &mut bytes) == bytes.len()).then_some(bytes)
}

/// Whether two boundaries, (cache, program) addresses, are before one and the
/// same execution of an instruction: what is counted before it has a boundary too, and so
/// has the jump that leaves a block.
fn is_same_instruction(first: (u64, u64), second: (u64, u64)) -> bool {
    if first.1 != second.1 || first.0 == second.0 {
        return false;
    }
    let one_block = |engine: &mut engine::Engine| {
        engine.cache.block_at(first.0) == engine.cache.block_at(second.0)
    };
    first.0 < second.0 && engine::with(one_block) || is_exit(first.0)
}

/// Whether the jump that leaves a block is at a cache address, with what aligns it.
fn is_exit(mut at: u64) -> bool {
    loop {
        let mut bytes = [0; MAX_LEN];
        let read = memory::read_some(at, &mut bytes);
        match Insn::decode(&bytes[..read], at) {
            Ok(insn) if insn.is_nop() => at = insn.next_pc(),
            Ok(insn) => return matches!(insn.flow(), Flow::Jump(_)),
            Err(_) => return false,
        }
    }
}
