//! Handlers of signals: their activations, and where those that they interrupt go on.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use agent::thread::{ThreadContext, reg};
use wire::node::LABEL_SIGNAL;

use super::{Budget, Tool, share_index, tool_of};
use crate::block::Arrival;
use crate::contexts::Contexts;
use crate::engine;
use crate::pcmap::Place;

/// Places that signals interrupted, innermost last.
pub type Interrupted = Vec<Point>;

/// A place in the middle of an activation.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Top of the shadow stack, from its base, which moves when it grows.
    pub(super) height: u64,
    /// Whose instructions were counted (`costs`).
    pub(super) cost_state: u64,
    pub(super) leaf_state: u64,
    /// In the middle of a basic block: the instruction that was about to be executed.
    middle: Option<u64>,
    /// The stack pointer before it was loaded, if control did not go elsewhere yet.
    stack_left: u64,
}

/// A handler is about to be called at `place`: its activations are under a root of
/// their own.
pub fn on_handler(
    context: &mut ThreadContext,
    signal: u32,
    frame: u64,
    restorer: u64,
    place: &Place,
) {
    let Some(tool) = tool_of(context) else { return };
    tool.settle(context);
    let root = engine::with(|engine| {
        tool.interrupt(context, place);
        let pool = engine.process.log.pool;
        let contexts = engine.contexts.as_mut()?;
        contexts.note_behind_load(place.app_pc);
        if !contexts.restorers.contains(&restorer) {
            contexts.restorers.push(restorer);
        }
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        let root = tool.forest.root(LABEL_SIGNAL + signal, &mut budget)?;
        if let Some(node) = pool.at::<wire::node::Node>(root.0.wrapping_sub(pool.base())) {
            node.count.store(node.count.load(Relaxed) + 1, Relaxed);
        }
        engine.publish_chunk(tool);
        Some(root)
    });
    share_index(context, tool);
    let current = tool.state(context);
    let counting = engine::with(|engine| engine.contexts.as_ref().map(Contexts::is_counting));
    let state = if current == tool.muted || counting != Some(true) {
        current
    } else {
        root.unwrap_or(tool.truncated)
    };
    tool.push(context, frame + 16, state);
    tool.go_on(context);
}

/// The handler's frame is left by rt_sigreturn, for `pc`: back to what was
/// interrupted. How control arrives there.
pub fn on_sigreturn(context: &mut ThreadContext, pc: u64) -> Arrival {
    let Some(tool) = tool_of(context) else {
        return Arrival::Inside;
    };
    let barrier = context.regs[reg::RSP].wrapping_add(8);
    let mut at = context.shadow_top;
    while at > tool.shadow {
        if tool.records.get(at).0 == barrier {
            tool.settle(context);
            tool.pop(context, at);
            return match tool.resume(context) == Some(pc) {
                true => Arrival::Middle,
                false => Arrival::Inside,
            };
        }
        at -= 16;
    }
    Arrival::Inside
}

impl Tool {
    /// A handler is about to be called.
    fn interrupt(&mut self, context: &mut ThreadContext, place: &Place) {
        let height = context.shadow_top - self.shadow;
        // A jump left the handlers above.
        self.interrupted.retain(|point| point.height < height);
        self.interrupted.push(Point {
            height,
            cost_state: context.cost_state,
            leaf_state: context.leaf_state,
            middle: place.middle.then_some(place.app_pc),
            stack_left: core::mem::take(&mut context.stack_left),
        });
    }

    /// A handler has returned to where the shadow stack is as high as now: which
    /// instruction was about to be executed, if it was in the middle of a block.
    fn resume(&mut self, context: &mut ThreadContext) -> Option<u64> {
        let height = context.shadow_top - self.shadow;
        let found = self
            .interrupted
            .iter()
            .rposition(|point| point.height == height);
        let Some(point) = found.and_then(|at| self.interrupted.drain(at..).next()) else {
            self.go_on(context);
            return None;
        };
        context.cost_state = point.cost_state;
        context.leaf_state = point.leaf_state;
        context.stack_left = point.stack_left;
        point.middle
    }
}
