//! The contexts tool: events in the code, the shadow stack, the slow paths.
//! Long file: emitted code and slow paths share one picture of the records.
//!
//! A *record* on the shadow stack is an activation: the complement of its
//! entry stack pointer A, and the address of its node (the forest's state).
//!
//! ```text
//!  shadow_top -> | ~A | node |  topmost activation
//!                | ~A | node |  ...
//!                | ~A | root |  never ends (A is above all addresses)
//! ```
//!
//! | event | code | effect |
//! |---|---|---|
//! | function entered by call | in a block of its own before the body | push |
//! | entered by jump, return, fall-through | the same; E is rsp | E = A: the record becomes the callee's; E < A: push; E > A: pop first |
//! | return | before the pop of the return address | E = A: pop; E < A: nothing; E > A: pop all that ended |
//! | rsp loaded with something else | after the instruction | pop all with A below rsp |
//!
//! The next node comes from a direct-mapped cache of transitions per thread:
//! `key = node + step(function)`, index = low 16 bits of the key. A miss looks
//! into the forest's index (`everypath_lookup`, without leaving the cache), then
//! asks the engine for a new node. No event touches flags; they use rax, rcx,
//! rdx, spilled.
//!
//! Limits: stacks are told apart by address only. Coroutines whose stacks lie
//! above their caller's end the caller's activations when they run.

use alloc::boxed::Box;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Relaxed, Release};

use agent::syscalls::Process;
use agent::thread::{TRANSITION_KEYS, TRANSITION_STATES, TRANSITIONS, ThreadContext, reg};
use forest::{Forest, Memory, State};
use hashbrown::HashMap;
use isa::Reg;
use wire::node::{
    FIRST_FUNC, FUNC_SHIFT, LABEL_MUTED, LABEL_ROOT, LABEL_SIGNAL, LABEL_THREAD, LABEL_WAITING,
    MAX_FUNC, key, step,
};
use wire::view::Pool;
use wire::{FuncEntry, FuncTable, func};

use crate::block::{Arrival, ExitKind, Key};
use crate::engine::{self, Engine};
use crate::entry::Routine;
use crate::indirect::{SPILL_RAX, SPILL_RCX, SPILL_RDX};
use crate::pcmap::Recipe;
use crate::translate::Emit;

const SHADOW: i32 = offset_of!(ThreadContext, shadow_top) as i32;
const RECORD: i32 = offset_of!(ThreadContext, event_record) as i32;
const RETURN: i32 = offset_of!(ThreadContext, event_return) as i32;
const CODE: i32 = offset_of!(ThreadContext, exit) as i32;

/// What a slow path is about (in `ThreadContext::exit`).
mod code {
    /// rdx is a key that neither the transition cache nor the index holds; rax
    /// is its low 16 bits.
    pub const LOOKUP: u32 = 0;
    /// Pop activations with A <= rsp.
    pub const POP_THROUGH: u32 = 1;
    /// Pop activations with A < rsp.
    pub const POP_BELOW: u32 = 2;
}

/// Entry stack pointer of the root record: above all, and near enough for the
/// sign test (`emit_is_negative`).
const HIGHEST: u64 = 1 << 47;
/// First size of a shadow stack; it doubles when it is full.
const SHADOW_LEN: u64 = 256 << 10;
const GUARD: u64 = 4096;

/// Process-wide state of the tool.
#[derive(Debug)]
pub struct Contexts {
    k: u32,
    unroll: bool,
    select: bool,
    /// With `select`: by file, not by function.
    by_module: bool,
    started: bool,
    stopped: bool,
    nodes_left: u64,
    ids: HashMap<u64, u32, core::hash::BuildHasherDefault<crate::block::PcHasher>>,
    flags: alloc::vec::Vec<u32>,
    /// Where signal handlers return to: the kernel put the address there, so
    /// arriving is no jump of the program.
    restorers: alloc::vec::Vec<u64>,
}

/// Tool state of a thread; private memory.
#[derive(Debug)]
struct Tool {
    forest: Forest,
    shadow: u64,
    shadow_len: u64,
    root: State,
    /// What lazy binding calls.
    muted: State,
    /// Before counting begins and after it has ended.
    waiting: State,
    truncated: State,
    record: u64,
}

/// What a forked child needs of its parent's block.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    top: u64,
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

impl Contexts {
    pub fn new(pool: &Pool) -> Contexts {
        let config = &pool.header().config;
        let flags = config.flags.load(Relaxed);
        Contexts {
            k: config.k.load(Relaxed),
            unroll: flags & wire::flag::UNROLL != 0,
            select: flags & wire::flag::SELECT != 0,
            by_module: flags & wire::flag::BY_MODULE != 0,
            started: flags & wire::flag::START_FUNC == 0,
            stopped: false,
            nodes_left: config.max_nodes.load(Relaxed),
            ids: HashMap::default(),
            flags: alloc::vec::Vec::new(),
            restorers: alloc::vec::Vec::new(),
        }
    }

    /// The extent that holds `pc`, from the CLI's table of its file.
    fn extent(&self, pc: u64, process: &Process) -> Option<(FuncEntry, u64)> {
        let region = process.regions.find(pc)?;
        let table = *process
            .regions
            .tables
            .get(region.table.checked_sub(1)? as usize)?;
        let pool = process.log.pool;
        let count = pool.at::<FuncTable>(table)?.count.load(Relaxed);
        let offset = region.file_offset(pc);
        let at = |i: u64| {
            pool.at::<FuncEntry>(
                table + (size_of::<FuncTable>() + i as usize * size_of::<FuncEntry>()) as u64,
            )
            .copied()
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if at(middle)?.start <= offset {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let entry = at(low.checked_sub(1)?)?;
        (offset < entry.end).then_some((entry, offset))
    }

    fn has_table(&self, pc: u64, process: &Process) -> bool {
        process
            .regions
            .find(pc)
            .is_some_and(|region| region.table != 0)
    }

    /// Whether a function that the user wants, or at which counting begins or
    /// ends, begins at `pc` according to the tables.
    fn begins(&self, pc: u64, process: &Process) -> bool {
        let wanted = func::SELECTED | func::START | func::STOP;
        self.extent(pc, process).is_some_and(|(entry, offset)| {
            entry.start == offset
                && entry.flags & func::ENTRY != 0
                && entry.flags & func::PLT == 0
                && (!self.select || entry.flags & wanted != 0)
        })
    }

    /// Whether a call of `pc` counts though no function is known to begin there.
    fn is_called_function(&self, pc: u64, process: &Process) -> bool {
        let covered = || {
            let table = process.regions.find(pc)?.table.checked_sub(1)?;
            let table = *process.regions.tables.get(table as usize)?;
            let table: &FuncTable = process.log.pool.at(table)?;
            Some(table.covered.load(Relaxed) != 0)
        };
        let wanted = !self.select || self.by_module && covered() == Some(true);
        wanted
            && self
                .extent(pc, process)
                .is_none_or(|(entry, _)| entry.flags & func::PLT == 0)
    }

    fn is_counting(&self) -> bool {
        self.started && !self.stopped
    }

    /// Arrivals that are events; all others are `Inside`.
    pub fn canonical(&self, key: Key, process: &Process) -> Key {
        if process.regions.find(key.pc).is_none() {
            return Key {
                arrival: Arrival::Inside,
                ..key
            };
        }
        let event = match key.arrival {
            Arrival::Inside => false,
            Arrival::Jump => self.begins(key.pc, process) && !self.restorers.contains(&key.pc),
            Arrival::Call => {
                self.begins(key.pc, process) || self.is_called_function(key.pc, process)
            }
        };
        if event {
            key
        } else {
            Key {
                arrival: Arrival::Inside,
                ..key
            }
        }
    }

    /// Whether a direct jump leaves its function for the middle of another.
    pub fn jumps_into(&self, from: u64, to: u64, process: &Process) -> bool {
        let (Some((source, _)), Some((target, at))) =
            (self.extent(from, process), self.extent(to, process))
        else {
            return false;
        };
        let regions = &process.regions;
        let same_file = regions.find(from).map(|r| r.table) == regions.find(to).map(|r| r.table);
        let functions = (source.flags | target.flags) & func::PLT == 0;
        same_file && functions && source.owner != target.owner && at != target.start
    }

    /// The id of the function whose extent holds `pc`, if it was ever entered.
    fn owner_of(&self, pc: u64, process: &Process) -> Option<u32> {
        let (entry, _) = self.extent(pc, process)?;
        let region = process.regions.find(pc)?;
        let start = region
            .start
            .wrapping_add(entry.owner.wrapping_sub(region.offset));
        self.ids.get(&start).copied()
    }

    /// How control without a call arrives: an event only from another function.
    pub fn arrive_by_jump(&self, from: u64, to: u64, process: &Process) -> Key {
        let inside = Key {
            pc: to,
            arrival: Arrival::Inside,
        };
        if !self.has_table(to, process) || !self.begins(to, process) {
            return inside;
        }
        let (source, target) = (self.extent(from, process), self.extent(to, process));
        let same_file = process.regions.find(from).map(|r| r.table)
            == process.regions.find(to).map(|r| r.table);
        match (source, target) {
            (Some((source, _)), Some((target, _))) if same_file && source.owner == target.owner => {
                inside
            }
            _ => Key {
                pc: to,
                arrival: Arrival::Jump,
            },
        }
    }
}

impl Engine {
    /// The id of the function at `pc`, logged when it is new.
    fn function_id(&mut self, pc: u64) -> u32 {
        let Some(contexts) = &mut self.contexts else {
            return FIRST_FUNC;
        };
        if let Some(&id) = contexts.ids.get(&pc) {
            return id;
        }
        let flags = contexts
            .extent(pc, &self.process)
            .filter(|(entry, at)| entry.start == *at)
            .map_or(func::SELECTED, |(entry, _)| entry.flags);
        let id = (FIRST_FUNC + contexts.flags.len() as u32).min(MAX_FUNC);
        contexts.flags.push(flags);
        contexts.ids.insert(pc, id);
        self.process.log.function(pc, id);
        id
    }

    /// Functions of unmapped code get new ids when their addresses are re-used.
    pub fn forget_functions(&mut self, start: u64, end: u64) {
        if let Some(contexts) = &mut self.contexts {
            contexts.ids.retain(|&pc, _| pc < start || end <= pc);
        }
    }

    /// The event block of a function: account for the arrival, go to the body.
    pub fn emit_event(&mut self, emit: &mut Emit<'_>, event: Key) {
        let id = self.function_id(event.pc);
        let asm = &mut emit.asm;
        asm.mov_gs_r(SPILL_RAX, Reg::Rax);
        asm.mov_gs_r(SPILL_RCX, Reg::Rcx);
        asm.mov_gs_r(SPILL_RDX, Reg::Rdx);
        let by_jump = event.arrival == Arrival::Jump;
        if by_jump {
            self.emit_compare(emit);
        }
        let asm = &mut emit.asm;
        asm.mov_r_gs(Reg::Rcx, SHADOW);
        asm.mov_r_mem(Reg::Rdx, Reg::Rcx, 8);
        asm.mov_r_imm(Reg::Rax, step(id));
        asm.lea_sum(Reg::Rdx, Reg::Rdx, Reg::Rax, 0);
        asm.movzx_r32_r16(Reg::Rax, Reg::Rdx);
        asm.mov_r_gs_index8(Reg::Rcx, Reg::Rax, TRANSITION_KEYS);
        asm.lea_sum(Reg::Rcx, Reg::Rcx, Reg::Rdx, 0);
        let hit = asm.jrcxz();
        let back = asm.here() + 5;
        let slow = self.slow_path(Routine::Lookup, code::LOOKUP, back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        asm.bind(hit);
        asm.mov_r_gs_index8(Reg::Rdx, Reg::Rax, TRANSITION_STATES);
        asm.mov_r_mem(Reg::Rax, Reg::Rdx, 0);
        asm.lea(Reg::Rax, Reg::Rax, 1);
        asm.mov_mem_r(Reg::Rdx, 0, Reg::Rax);
        if by_jump {
            asm.mov_r_gs(Reg::Rcx, RECORD);
        } else {
            asm.mov_r_gs(Reg::Rcx, SHADOW);
            asm.lea(Reg::Rcx, Reg::Rcx, 16);
        }
        asm.mov_mem_r(Reg::Rcx, 8, Reg::Rdx);
        asm.mov_r_r(Reg::Rdx, Reg::Rsp);
        asm.not(Reg::Rdx);
        asm.mov_mem_r(Reg::Rcx, 0, Reg::Rdx);
        asm.mov_gs_r(SHADOW, Reg::Rcx);
        asm.mov_r_gs(Reg::Rax, SPILL_RAX);
        asm.mov_r_gs(Reg::Rcx, SPILL_RCX);
        asm.mov_r_gs(Reg::Rdx, SPILL_RDX);
        emit.cover(false, Recipe::RAX_RCX_RDX);
        self.emit_exit(
            emit,
            ExitKind::Direct(Key {
                arrival: Arrival::Inside,
                ..event
            }),
        );
    }

    /// Arrival by jump: sets `event_record` to the top record (E = A) or the
    /// one above it (E < A).
    fn emit_compare(&mut self, emit: &mut Emit<'_>) {
        let again = emit.asm.here();
        let slow = self.slow_path(Routine::Event, code::POP_BELOW, again);
        let asm = &mut emit.asm;
        asm.mov_r_gs(Reg::Rdx, SHADOW);
        asm.mov_gs_r(RECORD, Reg::Rdx);
        asm.mov_r_mem(Reg::Rcx, Reg::Rdx, 0);
        asm.lea_sum(Reg::Rcx, Reg::Rsp, Reg::Rcx, 1);
        let same = asm.jrcxz();
        let below = emit_is_negative(asm);
        asm.jmp(slow);
        asm.bind(below);
        asm.lea(Reg::Rdx, Reg::Rdx, 16);
        asm.mov_gs_r(RECORD, Reg::Rdx);
        asm.bind(same);
    }

    /// Before a return pops: rcx and rdx are spilled and free.
    pub fn emit_return_event(&mut self, emit: &mut Emit<'_>) {
        let asm = &mut emit.asm;
        asm.mov_r_gs(Reg::Rdx, SHADOW);
        asm.mov_r_mem(Reg::Rcx, Reg::Rdx, 0);
        asm.lea_sum(Reg::Rcx, Reg::Rsp, Reg::Rcx, 1);
        let pop = asm.jrcxz();
        let nothing = emit_is_negative(asm);
        let pop_code: u64 = 4 + 9;
        let back = asm.here() + 5 + pop_code;
        let slow = self.slow_path(Routine::Event, code::POP_THROUGH, back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        asm.bind(pop);
        asm.lea(Reg::Rdx, Reg::Rdx, -16);
        asm.mov_gs_r(SHADOW, Reg::Rdx);
        asm.bind(nothing);
        debug_assert_eq!(asm.here(), back);
    }

    /// After rsp was loaded with something not derived from it.
    pub fn emit_stack_check(&mut self, emit: &mut Emit<'_>) {
        let asm = &mut emit.asm;
        asm.mov_gs_r(SPILL_RCX, Reg::Rcx);
        asm.mov_gs_r(SPILL_RDX, Reg::Rdx);
        asm.mov_r_gs(Reg::Rcx, SHADOW);
        asm.mov_r_mem(Reg::Rcx, Reg::Rcx, 0);
        // rsp - A - 1: negative unless rsp is above A.
        asm.lea_sum(Reg::Rcx, Reg::Rsp, Reg::Rcx, 0);
        let fine = emit_is_negative(asm);
        let back = asm.here() + 5;
        let slow = self.slow_path(Routine::Event, code::POP_BELOW, back);
        let asm = &mut emit.asm;
        asm.jmp(slow);
        asm.bind(fine);
        asm.mov_r_gs(Reg::Rcx, SPILL_RCX);
        asm.mov_r_gs(Reg::Rdx, SPILL_RDX);
        emit.cover(false, Recipe::RCX_RDX);
    }

    /// Cold code that goes to `routine`, and perhaps to [`event`] with a code,
    /// and goes on at `back`.
    fn slow_path(&mut self, routine: Routine, what: u32, back: u64) -> u64 {
        let engine = self.cache.thunk(routine);
        self.cache
            .cold(13 + 10 + 9 + 5, 1, |asm| {
                asm.mov_gs_imm32(CODE, what);
                asm.mov_r_imm(Reg::Rcx, back);
                asm.mov_gs_r(RETURN, Reg::Rcx);
                asm.jmp(engine);
            })
            .expect("make_room leaves room for a block's slow paths")
    }
}

/// Jumps (forward) if rcx is negative: its top byte is 0xFF then, for any
/// difference of user addresses. Changes rcx, no flags.
fn emit_is_negative(asm: &mut isa::Asm<'_>) -> isa::asm::Short {
    asm.bswap(Reg::Rcx);
    asm.movzx_r32_r8(Reg::Rcx, Reg::Rcx);
    asm.lea(Reg::Rcx, Reg::Rcx, -255);
    asm.jrcxz()
}

fn tool_of(context: &ThreadContext) -> Option<&'static mut Tool> {
    // SAFETY: 0 or a leaked box of this thread; only the thread itself (or,
    // before it runs and after fork, its maker under the lock) uses it.
    unsafe { (context.tool as *mut Tool).as_mut() }
}

/// A record of the shadow stack.
fn record(at: u64) -> (u64, State) {
    // SAFETY: `at` lies between the base and the top of the thread's shadow
    // stack, which only this thread writes.
    unsafe { (!*(at as *const u64), State(*((at + 8) as *const u64))) }
}

fn set_record(at: u64, entry: u64, state: State) {
    // SAFETY: as in `record`.
    unsafe {
        *(at as *mut u64) = !entry;
        *((at + 8) as *mut u64) = state.0;
    }
}

/// A slow path of emitted code.
pub fn event(context: &mut ThreadContext) {
    let Some(tool) = tool_of(context) else { return };
    let rsp = context.regs[reg::RSP];
    match context.exit {
        code::LOOKUP => lookup(context, tool),
        code::POP_THROUGH => pop_while(context, tool, |entry| entry <= rsp),
        _ => pop_while(context, tool, |entry| entry < rsp),
    }
    context.resume_host = context.event_return;
}

fn pop_while(context: &mut ThreadContext, tool: &Tool, ended: impl Fn(u64) -> bool) {
    while context.shadow_top > tool.shadow && ended(record(context.shadow_top).0) {
        context.shadow_top -= 16;
    }
}

/// Tells emitted code where the index is; after every change of the forest.
fn share_index(context: &mut ThreadContext, tool: &Tool) {
    (context.index, context.index_len) = tool.forest.table();
    context.wrap_depth = tool.forest.wrap_depth().map_or(u64::MAX, u64::from);
}

/// Empties a thread's transition cache. Another thread may be using it: its
/// entries are words, and one written at the same time stays at worst.
fn forget_transitions(context: &ThreadContext) {
    let base = &raw const *context as u64 + TRANSITION_KEYS as u64;
    for entry in 0..TRANSITIONS as u64 {
        // SAFETY: the table behind the context (agent::thread).
        unsafe { core::ptr::write_volatile((base + entry * 16) as *mut u64, 0) };
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
    let wanted = context.regs[reg::RDX];
    let from = record(context.shadow_top).1;
    let function = (wanted.wrapping_sub(from.0) >> FUNC_SHIFT) as u32;
    let (next, remember) = engine::with(|engine| engine.transition(context, tool, from, function));
    if next == tool.truncated
        && let Some(record) = engine::with(|engine| {
            engine
                .process
                .log
                .pool
                .at::<wire::ThreadRecord>(tool.record)
                .map(|r| &r.truncated_events as *const _)
        })
    {
        // SAFETY: thread records live as long as the pool.
        let counter: &core::sync::atomic::AtomicU64 = unsafe { &*record };
        counter.fetch_add(1, Relaxed);
    }
    share_index(context, tool);
    let entry = &raw const *context as u64 + TRANSITION_KEYS as u64 + (wanted & 0xFFFF) * 8;
    // SAFETY: the thread's own table behind its context (agent::thread).
    unsafe {
        *(entry as *mut u64) = if remember { wanted.wrapping_neg() } else { 0 };
        *((entry + 8) as *mut u64) = next.0;
    }
}

impl Engine {
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
        // What was live when counting began is not known: the root stands for it.
        let from = if from == tool.waiting {
            tool.root
        } else {
            from
        };
        if contexts.select && flags & func::SELECTED == 0 {
            // It only marks where counting begins: no node, and no count.
            uncount(&pool, from);
            return (from, false);
        }
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        let next = tool.forest.step(from, function, &mut budget);
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
        if record(context.shadow_top).1 != tool.waiting {
            for at in (tool.shadow..=context.shadow_top).step_by(16) {
                set_record(at, record(at).0, tool.waiting);
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

    fn new_tool(&mut self, context: &mut ThreadContext) -> Option<Tool> {
        let pool = self.process.log.pool;
        let contexts = self.contexts.as_mut()?;
        let mut forest = Forest::new(pool, contexts.k, contexts.unroll);
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        let label = if contexts.select {
            LABEL_ROOT
        } else {
            LABEL_THREAD
        };
        let root = forest.root(label, &mut budget)?;
        let muted = forest.root(LABEL_MUTED, &mut budget)?;
        let waiting = forest.root(LABEL_WAITING, &mut budget)?;
        let truncated = forest.reserve_truncated(&mut budget)?;
        let shadow = map_shadow(SHADOW_LEN)?;
        let first = if contexts.is_counting() {
            root
        } else {
            waiting
        };
        context.stopped = u64::from(contexts.stopped);
        set_record(shadow, HIGHEST, first);
        context.shadow_top = shadow;
        Some(Tool {
            forest,
            shadow,
            shadow_len: SHADOW_LEN,
            root,
            muted,
            waiting,
            truncated,
            record: 0,
        })
    }
}

/// A shadow stack with a guard page behind it.
fn map_shadow(len: u64) -> Option<u64> {
    let base = agent::memory::map_private(len + GUARD)?;
    // SAFETY: the last page of our own fresh mapping.
    unsafe { sys::mprotect(base + len, GUARD, sys::PROT_NONE) }.ok()?;
    Some(base)
}

/// A new thread (or vfork child) gets a forest and a shadow stack.
pub fn begin_thread(
    engine: &mut Engine,
    context: &mut ThreadContext,
    _parent: Option<&ThreadContext>,
    _vfork: bool,
) {
    if let Some(tool) = engine.new_tool(context) {
        context.pool_base = engine.process.log.pool.base();
        share_index(context, &tool);
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
        tool: context.tool,
    }
}

/// In a forked child: a forest of its own with the path of live activations,
/// all counters zero.
pub fn fork_child(engine: &mut Engine, context: &mut ThreadContext, shadow: Shadow) {
    context.tool = shadow.tool;
    context.shadow_top = shadow.top;
    let Some(old) = tool_of(context) else { return };
    let pool = engine.process.log.pool;
    let Some(contexts) = engine.contexts.as_mut() else {
        return;
    };
    let mut forest = Forest::new(pool, contexts.k, contexts.unroll);
    let mut budget = Budget {
        pool,
        left: &mut contexts.nodes_left,
    };
    let label = if contexts.select {
        LABEL_ROOT
    } else {
        LABEL_THREAD
    };
    let (Some(root), Some(muted), Some(waiting), Some(truncated)) = (
        forest.root(label, &mut budget),
        forest.root(LABEL_MUTED, &mut budget),
        forest.root(LABEL_WAITING, &mut budget),
        forest.reserve_truncated(&mut budget),
    ) else {
        context.tool = 0;
        return;
    };
    let (mut last, mut below) = (root, old.root);
    for at in (old.shadow..=shadow.top).step_by(16) {
        let (entry, state) = record(at);
        last = if state == old.muted {
            muted
        } else if state == old.waiting {
            waiting
        } else if state == old.truncated {
            truncated
        } else if old.forest.is_root(state) {
            let label = old.forest.label(state);
            forest.root(label, &mut budget).unwrap_or(truncated)
        } else {
            // The function, and the tail callers that its record replaced.
            let begin = if last == waiting { root } else { last };
            let steps = old.forest.steps(below, state);
            steps.iter().rev().fold(begin, |from, &function| {
                forest.step(from, function, &mut budget)
            })
        };
        below = state;
        set_record(at, entry, last);
    }
    // What the parent had called deeper is not the child's.
    let mut above = shadow.top + 16;
    while above < old.shadow + old.shadow_len && record(above).0 != !0 {
        // SAFETY: the thread's own shadow stack.
        unsafe { *(above as *mut u64) = 0 };
        above += 16;
    }
    (old.forest, old.root, old.muted, old.record) = (forest, root, muted, 0);
    (old.waiting, old.truncated) = (waiting, truncated);
    context.pool_base = pool.base();
    share_index(context, old);
}

/// A handler is about to be called: its activations are under a root of their own.
pub fn on_handler(context: &mut ThreadContext, signal: u32, frame: u64, restorer: u64) {
    let Some(tool) = tool_of(context) else { return };
    let root = engine::with(|engine| {
        let pool = engine.process.log.pool;
        let contexts = engine.contexts.as_mut()?;
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
    let current = record(context.shadow_top).1;
    let counting = engine::with(|engine| {
        let contexts = engine.contexts.as_ref();
        contexts.is_some_and(Contexts::is_counting)
    });
    let state = if current == tool.muted || !counting {
        current
    } else {
        root.unwrap_or(tool.truncated)
    };
    context.shadow_top += 16;
    set_record(context.shadow_top, frame + 16, state);
}

/// The handler's frame is left by rt_sigreturn: back to what was interrupted.
pub fn on_sigreturn(context: &mut ThreadContext, _resumed_sp: u64) {
    let Some(tool) = tool_of(context) else { return };
    let barrier = context.regs[reg::RSP].wrapping_add(8);
    let mut at = context.shadow_top;
    while at > tool.shadow {
        if record(at).0 == barrier {
            context.shadow_top = at - 16;
            return;
        }
        at -= 16;
    }
}

/// A jump into the middle of another function: if that is live below, the
/// activations above it have ended (paper, 5.7.2).
pub fn jump_into(context: &mut ThreadContext, pc: u64) {
    let Some(tool) = tool_of(context) else { return };
    let owner = engine::with(|engine| engine.contexts.as_ref()?.owner_of(pc, &engine.process));
    let Some(owner) = owner else { return };
    let mut at = context.shadow_top;
    while at > tool.shadow {
        // A record stands for its function and the tail callers before it.
        let below = record(at - 16).1;
        let (entry, state) = record(at);
        if tool.forest.is_root(state) {
            return;
        }
        let steps = tool.forest.steps(below, state);
        if let Some(dead) = steps.iter().position(|&function| function == owner) {
            let live = match dead {
                0 => state,
                _ => tool.forest.known(below, &steps[dead..]).unwrap_or(state),
            };
            set_record(at, entry, live);
            context.shadow_top = at;
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

/// Keeps the key's definition and this file's arithmetic together.
const _: () = assert!(key(0, 1) == step(1));
