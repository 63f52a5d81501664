//! A program that steps itself with the trap flag.
//!
//! The CPU traps after every instruction of the cache; the program is to see a
//! trap after every one of its own. So a trap counts at a boundary only, unless
//! the engine's own way led there: from the return of a handler, or from the
//! boundary of what is counted before the instruction to that of the instruction.
//!
//! Limits: direct jumps that translation left out give no trap.

use agent::thread::{Pending, Thread, ThreadContext};
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
    if core::mem::take(&mut thread.step_from) == place.app_pc || is_same_instruction(last, to) {
        // The step that led here was ours, not an instruction of the program.
        return;
    }
    let mut info = *info;
    info.fields[0] = place.app_pc;
    let details = (uc.mcontext.err, uc.mcontext.trapno, uc.mcontext.cr2);
    thread.pending = Some(Pending {
        signal: SIGTRAP,
        info,
        mask: uc.sigmask,
        fault: Some(details),
        temporary: None,
    });
    deliver(context, thread, uc, place);
}

/// Whether two boundaries, (cache, program) addresses, are before one and the
/// same execution of an instruction: what is counted before it has a boundary too.
fn is_same_instruction(first: (u64, u64), second: (u64, u64)) -> bool {
    let one_block = |engine: &mut engine::Engine| {
        engine.cache.block_at(first.0) == engine.cache.block_at(second.0)
    };
    first.1 == second.1 && first.0 < second.0 && engine::with(one_block)
}
