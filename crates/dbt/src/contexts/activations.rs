//! Activations of a thread: its shadow stack and forest, the slow paths of
//! events, and what threads, forks, signals and jumps into functions do to them.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Relaxed, Release};

use agent::thread::{CELL_TAGS, ContextTail, TRANSITION_TAGS, ThreadContext, reg};
use forest::{Forest, Memory, State};
use wire::func;
use wire::node::{
    FIRST_FUNC, FUNC_SHIFT, LABEL_ROOT, LABEL_THREAD, PLACED_FUNCS, State32, nodes_base, transition,
};
use wire::view::Pool;

mod costs;
mod edges;
mod handlers;
mod live;

pub use costs::{leave_out, set_tsc, settle};
pub use edges::record_path;
pub use handlers::{on_handler, on_sigreturn};

use self::live::{Activation, live_path};
use super::emit::{code, is_above};
use crate::engine::{self, Engine};

/// Entry stack pointer of the root record: above all that stacks have, and near enough for
/// the sign test (`emit_is_negative`). A stack pointer that is above it for that test raises
/// it ([`pop_while`]). It is odd, as none of a stack is.
const HIGHEST: u64 = (1 << 55) + 1;
/// First size of a shadow stack; it doubles when it is full.
const SHADOW_LEN: u64 = 256 << 10;
const GUARD: u64 = 4096;

/// Tool state of a thread; private memory.
#[derive(Debug)]
struct Tool {
    forest: Forest,
    records: Records,
    shadow: u64,
    shadow_len: u64,
    root: State,
    /// State of functions called by lazy binding.
    muted: State,
    /// Before counting begins and after it has ended.
    waiting: State,
    truncated: State,
    record: u64,
    /// Costs that nodes carry besides calls.
    costs: u32,
    interrupted: handlers::Interrupted,
}

/// Contents of the parent's block that a forked child needs.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    top: u64,
    /// With edges, the state on top.
    state: u64,
    tool: u64,
}

struct Budget<'a> {
    pool: Pool,
    left: &'a mut u64,
}

impl Memory for Budget<'_> {
    fn chunk(&mut self, bytes: u64) -> Option<u64> {
        agent::pool::allocate(&self.pool, bytes)
    }
    fn take_node(&mut self) -> bool {
        let any = *self.left > 0;
        *self.left = self.left.saturating_sub(1);
        any
    }
}

fn tool_of(context: &ThreadContext) -> Option<&'static mut Tool> {
    // SAFETY: 0 or a leaked box of this thread; only the thread itself (or,
    // before it runs and after fork, its maker under the lock) uses it.
    unsafe { (context.tool as *mut Tool).as_mut() }
}

/// The records of a thread's shadow stack, whose states are offsets from here
/// (`wire::node::nodes_base`): emitted code is shorter by it.
#[derive(Clone, Copy, Debug)]
struct Records(u64);

impl Records {
    /// For a thread whose first node is `first`. The origin is the thread's
    /// context, which lies in the pool before all its nodes, so that emitted code
    /// has them behind gs. In chaos it is so far before the first node that only
    /// the first chunk has states below 4 GB.
    fn from(context: &ThreadContext, first: State, chaos: bool) -> Records {
        const ROOM: u64 = 6 << 10;
        let origin = match chaos {
            true => first.0 + ROOM - (1 << 32),
            false => context.this,
        };
        Records(nodes_base(origin))
    }

    /// Entry stack pointer and state of the record at an address.
    fn get(self, at: u64) -> (u64, State) {
        // SAFETY: `at` lies between the base and the top of the thread's shadow
        // stack, which only this thread writes.
        let (entry, offset) = unsafe { (*(at as *const u64), *((at + 8) as *const u64)) };
        (entry, State(self.0.wrapping_add(offset)))
    }

    /// A state as emitted code has it.
    fn offset(self, state: State) -> u64 {
        state.0.wrapping_sub(self.0)
    }

    fn set(self, at: u64, entry: u64, state: State) {
        // SAFETY: as in `get`.
        unsafe {
            *(at as *mut u64) = entry;
            *((at + 8) as *mut u64) = state.0.wrapping_sub(self.0);
        }
    }
}

impl Tool {
    /// The state of the activation on top. Where blocks are counted it is in the context,
    /// and a record holds that of the activation below its own.
    fn state(&self, context: &ThreadContext) -> State {
        match self.forest.has_edges() {
            true => State(self.records.0.wrapping_add(context.block_state)),
            false => self.records.get(context.shadow_top).1,
        }
    }

    /// An activation begins above that on top, in `state`.
    fn push(&self, context: &mut ThreadContext, entry: u64, state: State) {
        let below = self.state(context);
        context.shadow_top += 16;
        if self.forest.has_edges() {
            self.records.set(context.shadow_top, entry, below);
            context.block_state = self.records.offset(state);
        } else {
            self.records.set(context.shadow_top, entry, state);
        }
    }

    /// The activation of the record at `at` has ended, and all above it.
    fn pop(&self, context: &mut ThreadContext, at: u64) {
        if self.forest.has_edges() {
            context.block_state = self.records.offset(self.records.get(at).1);
        }
        context.shadow_top = at - 16;
    }
}

/// A slow path of emitted code.
pub fn event(context: &mut ThreadContext) {
    let Some(tool) = tool_of(context) else { return };
    let rsp = context.regs[reg::RSP];
    match context.exit {
        code::LOOKUP => lookup(context, tool),
        code::POP_THROUGH => pop_while(context, tool, |entry| entry == rsp || is_above(rsp, entry)),
        _ => pop_while(context, tool, |entry| is_above(rsp, entry)),
    }
    context.resume_host = context.event_return;
}

/// A branch that is made by the engine has raised the stack pointer.
pub fn unwind(context: &mut ThreadContext) {
    let Some(tool) = tool_of(context) else { return };
    let rsp = context.regs[reg::RSP];
    pop_while(context, tool, |entry| is_above(rsp, entry));
}

/// The root's activation never ends; a stack pointer that is above its record's, which no
/// stack has, raises that.
fn pop_while(context: &mut ThreadContext, tool: &Tool, ended: impl Fn(u64) -> bool) {
    tool.settle(context);
    loop {
        let (entry, state) = tool.records.get(context.shadow_top);
        if !ended(entry) {
            break;
        }
        if context.shadow_top == tool.shadow {
            let raised = context.regs[reg::RSP].wrapping_add(HIGHEST);
            tool.records.set(tool.shadow, raised, state);
            break;
        }
        tool.pop(context, context.shadow_top);
    }
    tool.go_on(context);
}

/// Tells emitted code where the index is; after every change of the forest.
fn share_index(context: &mut ThreadContext, tool: &Tool) {
    if context.far == 0 && tool.forest.end() - tool.records.0 > u64::from(u32::MAX) {
        // From here on two states may have the same low 32 bits.
        context.far = 1;
        forget_transitions(context);
    }
    let table = tool.forest.table();
    (context.index, context.index_lines) = (table.entries, table.lines);
    (context.index_step, context.index_homes) = (table.step, table.homes);
    context.index_origin = context.pool_base.wrapping_add(table.origin);
    context.index_scale = table.scale;
    let wraps = tool
        .forest
        .wrap_depth()
        .filter(|_| !tool.forest.has_edges());
    context.wrap_depth = wraps.map_or(u64::MAX, u64::from);
}

/// Empties a thread's transition cache, and the cells if there are any. Another thread may
/// be using the cache: its entries are words, and one written at the same time stays at
/// worst.
fn forget_transitions(context: &ThreadContext) {
    let base = &raw const *context as u64 + TRANSITION_TAGS as u64;
    let behind = match context.has_blocks {
        0 => ContextTail::Transitions,
        _ => ContextTail::Cells,
    };
    for word in 0..behind.space() / 8 {
        // SAFETY: what lies behind the context (agent::thread).
        unsafe { core::ptr::write_volatile((base + word * 8) as *mut u64, 0) };
    }
}

/// Takes back in advance what emitted code is about to count.
fn uncount(pool: &Pool, state: State) {
    if let Some(node) = pool.at::<wire::node::Node>(state.0.wrapping_sub(pool.base())) {
        let count = node.count.load(Relaxed);
        node.count.store(count.wrapping_sub(1), Relaxed);
    }
}

/// The transition is not known: ask the forest, remember the answer.
fn lookup(context: &mut ThreadContext, tool: &mut Tool) {
    let from = tool.state(context);
    let function = (context.regs[reg::RCX] >> FUNC_SHIFT) as u32;
    let (next, remember) = engine::with(|engine| {
        engine.count(wire::stat::TRANSITIONS);
        if engine.has_blocks() {
            // Beyond the limits, too, it will always be the same, and is counted there.
            let (edge, next) = engine.edge(tool, from, function, true);
            context.block_state = tool.records.offset(next);
            return (edge, true);
        }
        let next = engine.transition(context, tool, from, function);
        engine.note_truncated(tool, next.0);
        next
    });
    share_index(context, tool);
    context.regs[reg::RDX] = tool.records.offset(next);
    if remember && function < PLACED_FUNCS && context.far == 0 {
        let from_word = tool.records.offset(from) as State32;
        let (place, tag) = transition(from_word, function);
        let (place, tag) = (u64::from(place), tag.wrapping_neg());
        let next = context.regs[reg::RDX] as State32;
        let table = context.this + TRANSITION_TAGS as u64;
        // SAFETY: the thread's own tables behind its context (agent::thread).
        unsafe {
            *((table + place * 4) as *mut [u32; 2]) = [tag, next];
            if context.has_blocks != 0 {
                let cell = context.this + CELL_TAGS as u64 + u64::from(function as u16) * 16;
                let cell = cell as *mut [u32; 4];
                if *cell == [0; 4] {
                    let tag = (from_word + (function >> 16)).wrapping_neg();
                    *cell = [tag, context.block_state as State32, next, 0];
                }
            }
        }
    }
}

impl Engine {
    /// Says of an event that the limit of nodes was reached.
    fn note_truncated(&self, tool: &Tool, next: State) {
        if next == tool.truncated
            && let Some(record) = self.process.log.pool.at::<wire::ThreadRecord>(tool.record)
        {
            record.truncated_events.fetch_add(1, Relaxed);
        }
    }

    /// Next state, and whether it will always be the same. Emitted code then
    /// counts on that state.
    fn transition(
        &mut self,
        context: &mut ThreadContext,
        tool: &mut Tool,
        from: State,
        function: u32,
    ) -> (State, bool) {
        let pool = self.process.log.pool;
        let alone = self.threads.len() == 1;
        let Some(contexts) = &mut self.contexts else {
            return (from, false);
        };
        let flags = contexts
            .flags
            .get((function.wrapping_sub(FIRST_FUNC)) as usize)
            .copied()
            .unwrap_or(0);
        if !contexts.started && flags & func::START != 0 {
            contexts.started = true;
            forget_transitions(context);
        }
        if flags & func::STOP != 0 && contexts.started && !contexts.stopped {
            contexts.stopped = true;
            self.end_counting();
            return (self.wait_for_good(context, tool), true);
        }
        if contexts.stopped {
            return (self.wait_for_good(context, tool), true);
        }
        if flags & func::MUTE != 0 || from == tool.muted {
            return (tool.muted, true);
        }
        if !contexts.started {
            // The thread that counting begins in forgets this, others cannot.
            return (tool.waiting, alone);
        }
        // Activations that were live when counting began are not known: the root stands for them.
        let began = from == tool.waiting;
        let from = if began { tool.root } else { from };
        if contexts.select && flags & func::SELECTED == 0 {
            // It only marks where counting begins: no node, and no count.
            uncount(&pool, from);
            return (from, false);
        }
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        // `everypath_lookup` has searched the index.
        let next = match began {
            true => tool.forest.step(from, function, &mut budget),
            false => tool.forest.step_anew(from, function, &mut budget),
        };
        self.publish_chunk(tool);
        (next, next != tool.truncated)
    }

    /// No thread may go on by the transitions it remembers. Other threads are
    /// running: each ends its own activations when it next comes to the engine.
    fn end_counting(&self) {
        for &context in &self.threads {
            // SAFETY: the list holds contexts of live threads, under the lock;
            // the word is only compared, by emitted code.
            unsafe { core::ptr::write_volatile(&raw mut (*context).stopped, 1) };
            // SAFETY: as above, and see the function.
            forget_transitions(unsafe { &*context });
        }
    }

    /// All activations of the thread wait from now on.
    fn wait_for_good(&self, context: &ThreadContext, tool: &Tool) -> State {
        if tool.records.get(context.shadow_top).1 != tool.waiting {
            for at in (tool.shadow..=context.shadow_top).step_by(16) {
                tool.records.set(at, tool.records.get(at).0, tool.waiting);
            }
            forget_transitions(context);
        }
        tool.waiting
    }

    fn publish_chunk(&self, tool: &Tool) {
        if let Some(record) = self.process.log.pool.at::<wire::ThreadRecord>(tool.record)
            && tool.record != 0
        {
            record.nodes.store(tool.forest.first_chunk(), Release);
        }
    }

    /// State of a thread in which `path` is live (the parent's, after fork).
    fn new_tool(&mut self, context: &mut ThreadContext, path: &[Activation]) -> Option<Tool> {
        let pool = self.process.log.pool;
        context.edge_lookups = self.stat(wire::stat::EDGE_LOOKUPS).as_ptr() as u64;
        let contexts = self.contexts.as_mut()?;
        let counting = contexts.is_counting();
        context.stopped = u64::from(contexts.stopped);
        let mut forest = Forest::new(pool, contexts.k, contexts.rolling, self.settings.costs);
        let blocks = contexts.blocks.as_ref().map(|all| (all.intra, all.history));
        let intra = blocks.map(|(intra, _)| intra);
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
        records.set(shadow, HIGHEST, first);
        let (mut top, mut state) = (shadow, first);
        for activation in path {
            let below = state;
            state = begins.follow(&mut forest, &activation.what, state, &mut budget);
            if activation.entry != HIGHEST {
                top += 16;
                let held = if intra.is_some() { below } else { state };
                records.set(top, activation.entry, held);
            }
        }
        context.has_blocks = u64::from(intra.is_some());
        context.block_state = records.offset(state);
        context.shadow_top = top;
        context.pool_base = pool.base();
        context.nodes_base = records.0;
        let tool = Tool {
            forest,
            records,
            shadow,
            shadow_len,
            root: begins.root,
            muted: begins.muted,
            waiting: begins.waiting,
            truncated: begins.truncated,
            record: 0,
            costs: self.settings.costs,
            interrupted: handlers::Interrupted::default(),
        };
        tool.begin(context);
        share_index(context, &tool);
        Some(tool)
    }
}

/// A shadow stack with a guard page behind it.
fn map_shadow(len: u64) -> Option<u64> {
    let base = agent::memory::map_needed(len + GUARD)?;
    // SAFETY: the last page of our own fresh mapping.
    unsafe { sys::mprotect(base + len, GUARD, sys::PROT_NONE) }.ok()?;
    Some(base)
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
    let path = parent
        .and_then(|parent| {
            let tool = tool_of(parent)?;
            Some(live_path(tool, parent.shadow_top, tool.state(parent)))
        })
        .unwrap_or_default();
    if let Some(tool) = engine.new_tool(context, &path) {
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

/// How many activations were live at once, at most: records are pushed one by
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
    agent::memory::forget(tool.shadow, tool.shadow_len + GUARD);
    // SAFETY: the thread's own shadow stack; it runs no more program code.
    let _ = unsafe { sys::munmap(tool.shadow, tool.shadow_len + GUARD) };
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
    let state = State(old.records.0.wrapping_add(shadow.state));
    let path = live_path(old, shadow.top, state);
    let fresh = engine.new_tool(context, &path);
    end_thread(engine, context);
    context.tool = fresh.map_or(0, |tool| Box::into_raw(Box::new(tool)) as u64);
}

/// A jump into the middle of another function: if that is live below, the
/// activations above it have ended (paper, 5.7.2).
pub fn jump_into(context: &mut ThreadContext, pc: u64) {
    let Some(tool) = tool_of(context).filter(|tool| !tool.forest.has_edges()) else {
        return;
    };
    let owner = engine::with(|engine| engine.contexts.as_ref()?.owner_of(pc, &engine.process));
    let Some(owner) = owner else { return };
    let mut at = context.shadow_top;
    while at > tool.shadow {
        // A record stands for its function and the tail callers before it.
        let below = tool.records.get(at - 16).1;
        let (entry, state) = tool.records.get(at);
        if tool.forest.is_root(state) {
            return;
        }
        let steps = tool.forest.steps(below, state);
        if let Some(dead) = steps.iter().position(|&function| function == owner) {
            let live = match dead {
                0 => state,
                _ => tool.forest.known(below, &steps[dead..]).unwrap_or(state),
            };
            tool.settle(context);
            tool.records.set(at, entry, live);
            context.shadow_top = at;
            tool.go_on(context);
            return;
        }
        at -= 16;
    }
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
