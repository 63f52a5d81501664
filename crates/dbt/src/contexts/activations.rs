//! Activations of a thread: its shadow stack and forest, the slow paths of
//! events, and what threads, forks, signals and jumps into functions do to them.

use core::sync::atomic::Ordering::{Relaxed, Release};

use agent::thread::{CELL_TAGS, ContextTail, TRANSITION_TAGS, ThreadContext, reg};
use forest::{Forest, Memory, State};
use wire::func;
use wire::node::{FIRST_FUNC, FUNC_SHIFT, PLACED_FUNCS, State32, nodes_base, transition};
use wire::view::Pool;

mod costs;
mod edges;
mod handlers;
mod live;
mod stacks;
mod threads;

pub use costs::{leave_out, set_tsc, settle};
pub use edges::record_path;
pub use handlers::{on_handler, on_sigreturn};
pub use threads::{
    Shadow, begin_thread, deepest, end_thread, fork_child, grow_shadow, publish_thread, snapshot,
};

use self::live::{Activation, Kinds, live_path};
pub use self::stacks::Stacks;
use self::stacks::{How, Stack};
use super::emit::{code, is_above};
use crate::engine::{self, Engine};

/// Entry stack pointer of the root record: above all that stacks have, and near enough for
/// the sign test (`emit_is_negative`). A stack pointer that is above it for that test raises
/// it ([`pop_while`]). It is odd, as none of a stack is.
const HIGHEST: u64 = (1 << 55) + 1;
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
    /// Told apart from those of other threads by this.
    number: u64,
    stack: Stack,
    /// Return addresses of the newest activations when the stack pointer was loaded, if what was
    /// called since may have written over them.
    words: alloc::vec::Vec<u64>,
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

    fn new(
        forest: Forest,
        records: Records,
        (shadow, shadow_len): (u64, u64),
        [root, muted, waiting, truncated]: [State; 4],
        (number, stack): (u64, Stack),
        costs: u32,
    ) -> Tool {
        Tool {
            forest,
            records,
            shadow,
            shadow_len,
            root,
            muted,
            waiting,
            truncated,
            record: 0,
            costs,
            interrupted: handlers::Interrupted::default(),
            number,
            stack,
            words: alloc::vec::Vec::new(),
        }
    }

    fn kinds(&self) -> Kinds {
        Kinds {
            owner: self.number,
            root: self.root,
            muted: self.muted,
            waiting: self.waiting,
            truncated: self.truncated,
        }
    }

    fn begins(&self, context: &ThreadContext) -> live::Begins {
        live::Begins {
            root: self.root,
            entry: State(self.records.0.wrapping_add(context.entry_state)),
            muted: self.muted,
            waiting: self.waiting,
            truncated: self.truncated,
        }
    }

    /// Live activations, apart from the forest.
    fn live(&self, context: &ThreadContext) -> alloc::vec::Vec<Activation> {
        let records = self.records_from(context, self.shadow);
        live_path(&self.forest, &self.kinds(), &records, self.state(context))
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
    if context.exit == code::LOOKUP {
        lookup(context, tool);
    } else {
        arrive(context, tool);
    }
    context.resume_host = context.event_return;
}

/// Control is about to arrive where activations may have ended, or on another stack.
fn arrive(context: &mut ThreadContext, tool: &mut Tool) {
    let rsp = context.regs[reg::RSP];
    let left = core::mem::take(&mut context.stack_left);
    let how = match context.exit {
        code::POP_THROUGH if left == 0 => {
            return pop_while(context, tool, |entry| entry == rsp || is_above(rsp, entry));
        }
        code::CALL if left == 0 => return,
        _ if left == 0 => return pop_while(context, tool, |entry| is_above(rsp, entry)),
        code::POP_THROUGH => How::Return,
        code::JUMP => How::Jump(context.regs[reg::RCX]),
        code::CALL => How::Call,
        _ => How::Entry,
    };
    stacks::arrive(context, tool, how, left);
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
