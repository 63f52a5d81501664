//! Shadow stacks and forests of threads: as they begin, fork and end.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use agent::thread::{ThreadContext, reg};
use forest::Forest;
use wire::node::{LABEL_ROOT, LABEL_THREAD};

use super::live::Activation;
use super::stacks::Stack;
use super::{Budget, Records, Tool, live, share_index, tool_of};
use crate::engine::Engine;

/// First size of a shadow stack; it doubles when it is full.
const SHADOW_LEN: u64 = 256 << 10;
pub(super) const GUARD: u64 = 4096;

/// Contents of the parent's block that a forked child needs.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    top: u64,
    /// With edges, the state on top.
    state: u64,
    tool: u64,
}

impl Engine {
    /// State of a thread in which `path` is live (the parent's, after fork).
    fn new_tool(
        &mut self,
        context: &mut ThreadContext,
        path: &[Activation],
        stack: Option<Stack>,
    ) -> Option<Tool> {
        let pool = self.process.log.pool;
        context.edge_lookups = self.stat(wire::stat::EDGE_LOOKUPS).as_ptr() as u64;
        let contexts = self.contexts.as_mut()?;
        let counting = contexts.is_counting();
        (context.stopped, context.stack_left) = (u64::from(contexts.stopped), 0);
        let mut forest = Forest::new(pool, contexts.k, contexts.rolling, self.settings.costs);
        let blocks = contexts.blocks.as_ref().map(|all| (all.intra, all.history));
        let intra = blocks.map(|blocks| blocks.0);
        let number = contexts.stacks.new_number();
        let sp = context.regs[reg::RSP];
        let stack = stack.unwrap_or_else(|| Stack::first(&mut contexts.stacks, sp));
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        let label = [LABEL_THREAD, LABEL_ROOT][usize::from(contexts.select)];
        let mut begins = live::Begins::new(&mut forest, label, &mut budget)?;
        let shadow_len = SHADOW_LEN.max((path.len() as u64 * 32).next_power_of_two());
        let shadow = map_shadow(shadow_len)?;
        let far = self.settings.chaos != 0 && intra.is_none();
        let records = Records::from(context, begins.root, far);
        let mut first = [begins.waiting, begins.root][usize::from(counting)];
        if let Some((intra, history)) = blocks {
            begins.entry = forest.begin_blocks(history, records.0, &mut budget)?;
            context.entry_state = begins.entry.0.wrapping_sub(records.0);
            first = if intra { begins.entry } else { begins.root };
        }
        let states = begins.states(&mut forest, path, first, &mut budget);
        let mut held = first;
        for (at, &(entry, state)) in (shadow..).step_by(16).zip(&states) {
            let entry = if at == shadow { stack.bottom() } else { entry };
            // A record of blocks has the state of the activation below it.
            records.set(at, entry, if intra.is_some() { held } else { state });
            (held, context.shadow_top) = (state, at);
        }
        context.has_blocks = u64::from(intra.is_some());
        context.block_state = records.offset(held);
        (context.pool_base, context.nodes_base) = (pool.base(), records.0);
        let states = [begins.root, begins.muted, begins.waiting, begins.truncated];
        let (shadow, stack, costs) = ((shadow, shadow_len), (number, stack), self.settings.costs);
        let tool = Tool::new(forest, records, shadow, states, stack, costs);
        tool.begin(context);
        share_index(context, &tool);
        Some(tool)
    }
}

/// A shadow stack with a guard page behind it.
pub(super) fn map_shadow(len: u64) -> Option<u64> {
    let base = agent::memory::map_needed(len + GUARD)?;
    // SAFETY: the last page of our own fresh mapping.
    unsafe { sys::mprotect(base + len, GUARD, sys::PROT_NONE) }.ok()?;
    Some(base)
}

/// The shadow stack of a thread is not needed any more.
pub(super) fn unmap_shadow(tool: &Tool) {
    agent::memory::forget(tool.shadow, tool.shadow_len + GUARD);
    // SAFETY: the thread's own shadow stack, which it uses no more.
    let _ = unsafe { sys::munmap(tool.shadow, tool.shadow_len + GUARD) };
}

/// A new thread gets a forest and a shadow stack. A vfork child goes on where
/// its parent is, if it does so on the same stack.
pub fn begin_thread(
    engine: &mut Engine,
    context: &mut ThreadContext,
    parent: Option<&ThreadContext>,
    vfork: bool,
) {
    let parent = parent.filter(|parent| vfork && parent.regs[reg::RSP] == context.regs[reg::RSP]);
    let parent = parent.and_then(|parent| {
        let tool = tool_of(parent)?;
        Some((tool.live(parent), tool.stack))
    });
    let (path, stack) = parent.unzip();
    if let Some(tool) = engine.new_tool(context, &path.unwrap_or_default(), stack) {
        context.tool = Box::into_raw(Box::new(tool)) as u64;
    }
}

/// The thread's record exists: its forest can be found from there.
pub fn publish_thread(engine: &Engine, context: &ThreadContext, offset: u64) {
    let Some(tool) = tool_of(context) else { return };
    tool.record = offset;
    engine.publish_chunk(tool);
    // The root stands for the thread's one start.
    let root = tool.root;
    let pool = engine.process.log.pool;
    if let Some(node) = pool.at::<wire::node::Node>(root.0.wrapping_sub(pool.base()))
        && node.count.load(Relaxed) == 0
    {
        node.count.store(1, Relaxed);
    }
}

/// The most activations that were live at once on a stack: records are pushed one by
/// one and never erased, so the first word that is zero lies above the highest.
///
/// # Safety
/// `context` is that of a thread of this process, and the engine is locked.
pub unsafe fn deepest(context: *const ThreadContext) -> u64 {
    // SAFETY: as the caller says; the word does not change while a thread lives.
    let tool = unsafe { core::ptr::read_volatile(&raw const (*context).tool) } as *const Tool;
    // SAFETY: 0 or a leaked box that only `end_thread`, under the lock, takes away.
    let Some(tool) = (unsafe { tool.as_ref() }) else {
        return 0;
    };
    let (mut low, mut high) = (0, tool.shadow_len / 16);
    while low < high {
        let middle = (low + high) / 2;
        // Another thread's shadow stack may move while we look.
        if agent::memory::read::<u64>(tool.shadow + middle * 16).unwrap_or(0) != 0 {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // Not counted: the root.
    low.saturating_sub(1)
}

pub fn end_thread(_engine: &Engine, context: &mut ThreadContext) {
    let Some(tool) = tool_of(context) else { return };
    context.tool = 0;
    unmap_shadow(tool);
    // SAFETY: made by `begin_thread`, not used again.
    drop(unsafe { Box::from_raw(tool) });
}

pub fn snapshot(context: &ThreadContext) -> Shadow {
    Shadow {
        top: context.shadow_top,
        state: context.block_state,
        tool: context.tool,
    }
}

/// In a forked child: a forest of its own with the path of live activations,
/// all counters zero.
pub fn fork_child(engine: &mut Engine, context: &mut ThreadContext, shadow: Shadow) {
    context.tool = shadow.tool;
    let Some(old) = tool_of(context) else { return };
    context.shadow_top = shadow.top;
    context.block_state = shadow.state;
    let path = old.live(context);
    let fresh = engine.new_tool(context, &path, Some(old.stack));
    end_thread(engine, context);
    context.tool = fresh.map_or(0, |tool| Box::into_raw(Box::new(tool)) as u64);
}

/// A fault in the guard page of the shadow stack: twice the size, and on.
pub fn grow_shadow(context: &mut ThreadContext, uc: &mut sys::signal::UContext) -> bool {
    let Some(tool) = tool_of(context) else {
        return false;
    };
    let end = tool.shadow + tool.shadow_len;
    let address = uc.mcontext.cr2;
    if !(end..end + GUARD).contains(&address) {
        return false;
    }
    let Some(fresh) = map_shadow(tool.shadow_len * 2) else {
        return false;
    };
    // SAFETY: both are mappings of ours, the new one twice as long.
    unsafe {
        core::ptr::copy_nonoverlapping(
            tool.shadow as *const u8,
            fresh as *mut u8,
            tool.shadow_len as usize,
        )
    };
    let moved = fresh.wrapping_sub(tool.shadow);
    // SAFETY: the old stack is not referred to any more: the registers and
    // words that hold addresses in it are moved below.
    let _ = unsafe { sys::munmap(tool.shadow, tool.shadow_len + GUARD) };
    agent::memory::forget(tool.shadow, tool.shadow_len + GUARD);
    uc.mcontext.rcx = uc.mcontext.rcx.wrapping_add(moved);
    context.shadow_top = context.shadow_top.wrapping_add(moved);
    context.event_record = context.event_record.wrapping_add(moved);
    (tool.shadow, tool.shadow_len) = (fresh, tool.shadow_len * 2);
    true
}
