//! Numbers of instructions that all threads of all processes share (`trace --together`).
//!
//! Problem: when so many instructions were executed by whichever threads, all go over to the next
//! phase. A common counter would be written to by each superblock of each thread.
//!
//! Approach: threads take parts of what is left (`wire::budget`), the smaller the less there is,
//! and count them down as they count their own number ([`super::counted`]). What is used up is
//! taken anew; a superblock of more instructions than a thread can get is cut to as many. A thread
//! that comes to a system call gives back what it has first, so nobody sleeps on a part: all
//! system calls go through the engine.
//!
//! A thread that finds no budget left waits until no other thread holds a part, or one has given
//! one back. So all instructions of one phase are executed before the first one of the next.
//! Waiting is going round: the block is entered, finds too little, and leaves again, after a
//! short sleep without the lock. So signals come as ever.
//!
//! Invariants:
//! - the parts that were taken, less what was given back, are the instructions that threads
//!   executed in that phase;
//! - a thread that holds a part is on its way to using it up, and waits for nobody.
//!
//! Limits: a thread that is killed does not use up its part, nor does one that goes
//! on in code which is not selected. Whoever has waited for [`PATIENCE_NS`] goes on.

use core::sync::atomic::AtomicU32;

use agent::thread::ThreadContext;
use wire::budget::{Budget, Part};

use super::skip_count::{DONE, FAR, SKIPPING, TRACING, come_near, share};
use crate::block::{Arrival, BlockId, Key};
use crate::engine::Engine;

/// Least and most that is taken at once. Where only some code is traced, the least is also the
/// most: a thread may leave that code for long.
const LEAST: u64 = 256;
const MOST: u64 = 1 << 16;

/// Taken at once while at least so many are to be skipped yet.
const FAR_PART: u64 = 1 << 20;
const RICH: u64 = 1 << 24;

/// For how long a thread waits for those who hold parts: longer than one that can run needs to
/// use it up, also where it waits for a processor.
const PATIENCE_NS: u64 = 200_000_000;

/// How long one round of that takes.
const ROUND: sys::Timespec = sys::Timespec {
    sec: 0,
    nsec: 50_000,
};

impl Engine {
    /// Whether threads share numbers of instructions.
    pub fn counts_together(&self) -> bool {
        self.controls().is_some_and(|controls| controls.together)
    }

    /// The phase in which a thread begins.
    pub(super) fn begins_in(&self, hidden: bool) -> u32 {
        let [skip, count] = &self.process.log.pool.header().budgets;
        let Some(controls) = self.controls() else {
            return TRACING;
        };
        let is_skipping = controls.skip != 0 && !skip.is_over();
        let is_done = controls.count != 0 && count.is_over();
        match (hidden, is_skipping, is_done) {
            (true, _, _) | (false, false, true) => DONE,
            (false, true, _) => SKIPPING,
            (false, false, false) => TRACING,
        }
    }

    /// The budget of the phase that a thread is in.
    fn budget(&self, context: &ThreadContext) -> Option<&Budget> {
        let controls = self.controls().filter(|controls| controls.together)?;
        let [skip, count] = &self.process.log.pool.header().budgets;
        match context.stream_phase {
            SKIPPING => Some(skip),
            TRACING if controls.count != 0 => Some(count),
            _ => None,
        }
    }

    /// The thread is about to make a system call, in which it may sleep. `true`: it has to come
    /// to the call again. One that is far away may have executed more than it has words for, so
    /// it cannot give back all of them, and makes the call nearby.
    pub fn leaves_part(&self, context: &mut ThreadContext) -> bool {
        let is_far = context.stream_phase == FAR && self.counts_together();
        context.stream_waits = 0;
        match is_far {
            true => come_near(context),
            false => self.give_part_back(context),
        }
        is_far
    }

    /// A thread that holds a part does so no more.
    fn give_part_back(&self, context: &mut ThreadContext) {
        if context.stream_holds != 0
            && let Some(budget) = self.budget(context)
            && budget.give_back(context.stream_left)
        {
            (context.stream_holds, context.stream_left) = (0, 0);
        }
    }

    /// The block at which a thread goes on that has fewer instructions than the one with that
    /// key. `None`: its phase is over.
    pub(super) fn take_part(&mut self, context: &mut ThreadContext, key: Key) -> Option<BlockId> {
        if context.stream_phase == FAR {
            return Some(self.take_far_part(context, key));
        }
        if context.stream_left == 0 {
            self.give_part_back(context);
        }
        if context.stream_phase == SKIPPING && self.becomes_rich(context) {
            context.stream_phase = FAR;
            return Some(self.take_far_part(context, key));
        }
        let selects = self
            .controls()
            .is_some_and(|controls| controls.is_partial());
        let most = if selects { LEAST } else { MOST };
        let budget = self.budget(context)?;
        match budget.take(context.stream_holds != 0, (LEAST, most)) {
            Part::Of(insns) => {
                context.stream_left += insns;
                (context.stream_holds, context.stream_waits) = (1, 0);
            }
            _ if context.stream_left > 0 => {
                context.stream_waits = 0;
                return Some(self.short(key, context.stream_left as usize));
            }
            Part::Held => {
                let now = sys::monotonic_ns();
                match context.stream_waits {
                    0 => context.stream_waits = now,
                    since if now.saturating_sub(since) > PATIENCE_NS => budget.end(),
                    _ => {}
                }
            }
            Part::Over => {
                (context.stream_holds, context.stream_waits) = (0, 0);
                return None;
            }
        }
        Some(self.find(key, None))
    }

    /// A thread gets a large part of what is to be skipped, if there is enough.
    fn becomes_rich(&self, context: &mut ThreadContext) -> bool {
        let [skip, _] = &self.process.log.pool.header().budgets;
        let holds = context.stream_holds != 0;
        if skip.left() >= RICH
            && let Part::Of(insns) = skip.take(holds, (FAR_PART, FAR_PART))
        {
            context.stream_left += insns;
            (context.stream_holds, context.stream_waits) = (1, 0);
            return true;
        }
        false
    }

    /// The block at which a thread goes on that is far away and may have too little.
    fn take_far_part(&mut self, context: &mut ThreadContext, key: Key) -> BlockId {
        share(context);
        if context.stream_far[0] == 0 && self.becomes_rich(context) {
            share(context);
        }
        let arrival = match context.stream_far[0] {
            0 => {
                come_near(context);
                Arrival::Skipped
            }
            _ => Arrival::Far,
        };
        self.find(Key { arrival, ..key }, None)
    }
}

/// One round of waiting, if the thread is to wait.
pub fn wait(context: &ThreadContext) {
    if context.stream_waits != 0 {
        let never = AtomicU32::new(0);
        let _ = sys::futex_wait(&never, 0, Some(ROUND));
    }
}
