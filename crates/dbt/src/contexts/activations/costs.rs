//! Costs of contexts: which context the last counted instructions belong to.
//!
//! Problem: each instruction counts for the context that runs it, and where that
//! context's node lies is not known when code is translated.
//!
//! Approach: code counts into words of the thread, as without contexts
//! (`crate::counting`), and `cost_state` says whose they are. Where that changes,
//! they are *settled*: added to its node and set to zero. A leaf counts into words of
//! its own, for `leaf_state`: calling one changes nothing for its caller. Emitted code
//! settles in events and returns (`contexts::emit`), this file where the engine
//! changes what is live.
//!
//! | whose the next instructions are | from |
//! |---|---|
//! | a function's | its event on |
//! | the caller's, a tail callee included | the return |
//! | a handler's | the delivery |
//! | who was interrupted | the return from the handler |
//! | the top activation's | a load of the stack pointer, or a jump, that ends others |
//!
//! Invariant: the costs of a thread's nodes and its words add up to what it
//! retired. Who settles adds first and clears then, so a thread that is killed in
//! between counts some instructions twice, and never loses any.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use agent::thread::ThreadContext;
use wire::{COST_WORDS, cost};

use super::{Tool, tool_of};
use crate::engine::Engine;

/// The time-stamp counter, if the running thread and the one of `context` may read it.
fn stamp(context: &ThreadContext) -> Option<u64> {
    // SAFETY: the running thread's own block.
    let own = unsafe { (*agent::thread::current()).tsc_forbidden };
    (own | context.tsc_forbidden == 0).then(read_stamp)
}

fn read_stamp() -> u64 {
    // SAFETY: rdtsc reads a counter, and the caller looked whether it is forbidden.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Adds what the thread has counted to its nodes.
pub fn settle(context: &mut ThreadContext) {
    if let Some(tool) = tool_of(context) {
        tool.settle(context);
    }
}

/// The program allows or forbids the running thread to read the time-stamp counter. While
/// it is forbidden no cycles are counted: reading it would end the program. `change` does it.
pub fn set_tsc(
    context: &mut ThreadContext,
    forbids: bool,
    change: impl FnOnce() -> isize,
) -> isize {
    let was_forbidden = context.tsc_forbidden != 0;
    if forbids {
        settle(context);
        context.tsc_forbidden = 1;
    }
    let result = change();
    // A call that the kernel refused changed nothing.
    let is_forbidden = if result == 0 { forbids } else { was_forbidden };
    if !is_forbidden && context.tsc_forbidden != 0 {
        context.tsc_forbidden = 0;
        if let Some(tool) = tool_of(context) {
            tool.begin_cycles(context);
        }
    }
    result
}

/// Cycles of the running thread that belong to no context: what was asked for took them.
pub fn leave_out(engine: &Engine, cycles: u64) {
    if engine.settings.costs & cost::CYCLES == 0 {
        return;
    }
    // SAFETY: the thread's own block, of which this word is read and written here only.
    let from = unsafe { &mut (*agent::thread::current()).cycles_from };
    *from = from.wrapping_add(cycles);
}

impl Tool {
    /// Adds what was counted to the nodes whose it is.
    pub(super) fn settle(&self, context: &mut ThreadContext) {
        if self.costs == 0 {
            return;
        }
        let states = [context.cost_state, context.leaf_state];
        for (state, words) in states.into_iter().zip(context.insns.chunks_mut(COST_WORDS)) {
            for (number, word) in (0..).zip(words) {
                let counted = core::mem::take(word);
                let cost = cost::of_word(self.costs, number);
                if counted != 0 && self.costs & cost != 0 {
                    self.add(state, cost.trailing_zeros(), counted);
                }
            }
        }
        if self.costs & cost::CYCLES != 0
            && let Some(now) = stamp(context)
        {
            let cycles = now.wrapping_sub(context.cycles_from);
            context.cycles_from = now;
            self.add(context.cost_state, cost::CYCLES.trailing_zeros(), cycles);
        }
    }

    /// Adds to the cost with this bit of a state's node.
    fn add(&self, state: u64, bit: u32, counted: u64) {
        let node = self.records.0.wrapping_add(state);
        let at = node + wire::node::cost_offset(self.costs, bit);
        // SAFETY: states are those of nodes in the pool, behind which their costs
        // stand (`wire::node::stride`); only this thread writes them.
        let cost = unsafe { &*(at as *const AtomicU64) };
        cost.store(cost.load(Relaxed).wrapping_add(counted), Relaxed);
    }

    /// Nothing was counted yet.
    pub(super) fn begin(&self, context: &mut ThreadContext) {
        self.go_on(context);
        context.leaf_state = context.cost_state;
        self.begin_cycles(context);
    }

    /// Cycles are counted from here on, if they are. The running thread may have no block yet.
    fn begin_cycles(&self, context: &mut ThreadContext) {
        if self.costs & cost::CYCLES != 0 && context.tsc_forbidden == 0 {
            context.cycles_from = read_stamp();
        }
    }

    /// Counts from here on for the top activation.
    pub(super) fn go_on(&self, context: &mut ThreadContext) {
        let (_, state) = self.records.get(context.shadow_top);
        context.cost_state = state.0.wrapping_sub(self.records.0);
    }
}
