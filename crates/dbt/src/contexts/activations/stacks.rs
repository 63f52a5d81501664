//! Stacks that a thread leaves and comes back to: coroutines, fibers, goroutines, greenlets.
//!
//! Problem: activations are told apart by the stack pointer, and there are several stacks: a
//! stack pointer that is above or below that of an activation says nothing if it is another's.
//!
//! Approach: where rsp is loaded with what is not within the frame of the activation on top,
//! emitted code keeps what it was (`stack_left`), and the next return, indirect jump or call
//! comes here. Whose the code in between is stays as it was, so that every instruction is that
//! of the function that executes it. Then, by where the stack pointer is now:
//!
//! | it is | then |
//! |---|---|
//! | where a stack was left that still has its return addresses | that one's activations go on |
//! | within the stack that is left, in the middle of a function | activations below it end; if rsp was added to, they are kept, as a slice that may come back |
//! | elsewhere, where the return addresses of a stack are that was left | that one has moved (Go) |
//! | elsewhere | a new stack |
//!
//! A call begins on the other stack what its caller called: between the activations of the two
//! stacks there is a *bridge*, a record with the caller's state.
//!
//! The activations of a new stack are under the activation that went there, if that is on the
//! first stack of its thread, and under the thread's root otherwise: coroutines that are begun
//! by each other would be contexts without end.
//!
//! Stacks that were left are the process's, as another thread may go on with one. The states of
//! its activations are those of the thread that left it then; they are made anew in the other
//! thread's forest.
//!
//! Limits: [`MOST`] stacks. A stack is recognised by the newest [`WORDS`] return addresses. A
//! switch whose load of rsp is followed by a branch before a call or an indirect jump is seen at
//! the next return. With contexts of basic blocks, a stack that goes on in another thread is new.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use agent::thread::{ThreadContext, reg};
use forest::State;
use isa::{Flow, Insn};

use super::handlers::Interrupted;
use super::live::{self, Kinds};
use super::threads::{GUARD, map_shadow, unmap_shadow};
use super::{Budget, HIGHEST, Tool, pop_while, share_index};
use crate::contexts::Contexts;
use crate::contexts::emit::is_above;
use crate::engine;
use wire::view::Pool;

/// Most stacks that are kept.
const MOST: usize = 1 << 16;
/// Most records of a slice that is kept.
const LONGEST: u64 = 1 << 12;
/// Return addresses by which a stack is recognised.
const WORDS: usize = 16;
/// Most stacks that are asked whether the stack pointer is theirs, and whether they moved.
const NEAR: usize = 64;
const MOVED: usize = 1 << 12;
/// Bytes above the first stack pointer of a stack that may be its, too.
const ABOVE: u64 = 64;
/// A call with a stack pointer that is less below the one before is on the same stack.
const FRAME: u64 = 64 << 10;
/// Bytes below the entry of an activation within which a handler on another stack finds it again.
const INTERRUPTED: u64 = 8 << 20;

/// The stack that a thread is on.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    number: u64,
    /// Highest stack pointer.
    top: u64,
    /// The thread began on it.
    is_first: bool,
    /// The number of the stack from which the newest bridge leads here.
    bridge: u64,
}

/// Activations of a stack that was left.
#[derive(Debug)]
pub struct Left {
    stack: Stack,
    /// Only the newest activations of it, and the stack went on without them.
    is_slice: bool,
    /// Entry stack pointers and states, oldest first.
    records: Vec<(u64, State)>,
    /// The state of the activation on top.
    state: State,
    /// Return addresses at the entries of the newest records, newest first.
    words: Vec<u64>,
    interrupted: Interrupted,
    kinds: Kinds,
}

/// All stacks of a process that were left, by the stack pointer.
#[derive(Debug, Default)]
pub struct Stacks {
    left: BTreeMap<u64, Left>,
    last_number: u64,
}

/// The branch by which control goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Return,
    /// By the jump at this address.
    Jump(u64),
    /// By a jump to a function's entry.
    Entry,
    Call,
}

/// The branch, and where it leads.
#[derive(Clone, Copy, Debug)]
struct Branch {
    how: How,
    /// To the entry of a function.
    enters: bool,
    /// A jump within a function.
    stays: bool,
}

impl Stack {
    /// The first stack of a thread that begins with this stack pointer; 0: it is not known,
    /// and nothing is above it.
    pub fn first(stacks: &mut Stacks, sp: u64) -> Stack {
        let top = match sp {
            0 => HIGHEST,
            sp => sp.wrapping_add(ABOVE),
        };
        stacks.begin(top, true)
    }

    /// The entry of the record below all: no function's.
    pub fn bottom(self) -> u64 {
        self.top | 1
    }
}

impl Stacks {
    pub fn new_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn begin(&mut self, top: u64, is_first: bool) -> Stack {
        Stack {
            number: self.new_number(),
            top,
            is_first,
            bridge: 0,
        }
    }

    fn keep(&mut self, low: u64, left: Left) {
        if self.left.len() >= MOST {
            self.left.pop_first();
        }
        self.left.insert(low, left);
    }

    /// The stack, or slice of stack `running`, that goes on at `sp`, by where it was left. `own`: the
    /// stack pointer with which the running one is left, if `sp` is within that one.
    fn at(&self, sp: u64, running: u64, own: Option<u64>) -> Option<u64> {
        let mut below = self.left.range(..=sp).rev().take(NEAR);
        let (&low, _) = below.find(|&(_, left)| {
            (!left.is_slice || left.stack.number == running) && left.goes_on_at(sp)
        })?;
        own.is_none_or(|own| low >= own).then_some(low)
    }

    /// The stack whose return addresses are where they would be if it had moved, so that the newest
    /// is at `newest`; and how far it did.
    fn moved_to(&self, newest: u64) -> Option<(u64, u64)> {
        self.left.iter().take(MOVED).find_map(|(&low, left)| {
            let by = newest.wrapping_sub(left.newest()?);
            // The newest is below the stack pointer, and not moved along.
            (by != 0 && !left.is_slice && left.has_words(1, by)).then_some((low, by))
        })
    }
}

impl Left {
    /// Entries that have a return address, newest first.
    fn entries(&self) -> impl Iterator<Item = u64> + Clone {
        entries(&self.records)
    }

    fn newest(&self) -> Option<u64> {
        self.entries().next()
    }

    fn goes_on_at(&self, sp: u64) -> bool {
        let is_passed = |&entry: &u64| entry.wrapping_add(8) < sp;
        let passed = self.entries().take_while(is_passed).count();
        match self.is_slice {
            true => passed == 0 && self.has_words(0, 0),
            false => sp <= self.stack.top && self.has_words(passed, 0),
        }
    }

    /// Whether the return addresses are in memory, `by` bytes further, but for the newest `passed`.
    fn has_words(&self, passed: usize, by: u64) -> bool {
        let mut words = self.entries().zip(&self.words).skip(passed);
        (by == 0 || self.words.len() > passed)
            && words.all(|(entry, &word)| word_at(entry.wrapping_add(by)) == word)
    }

    /// A stack that has moved `by` bytes.
    fn shifted(mut self, by: u64) -> Left {
        for (entry, _) in &mut self.records {
            *entry = entry.wrapping_add(by);
        }
        self.stack.top = self.stack.top.wrapping_add(by);
        self
    }
}

/// Control arrives elsewhere, and the stack pointer was loaded when it was `left`.
pub(super) fn arrive(context: &mut ThreadContext, tool: &mut Tool, how: How, left: u64) {
    let sp = context.regs[reg::RSP];
    let (target, landing) = match how {
        How::Return => (agent::memory::read(sp), sp.wrapping_add(8)),
        How::Jump(pc) => (jump_target(context, pc), sp),
        How::Entry | How::Call => (None, sp),
    };
    tool.settle(context);
    let found = engine::with(|engine| {
        let (contexts, process) = (engine.contexts.as_mut()?, &engine.process);
        let enters = how == How::Entry || target.is_some_and(|at| contexts.begins(at, process));
        let function = |pc| contexts.function_at(pc, process);
        let stays = match (how, target) {
            (How::Jump(pc), Some(at)) => function(pc).is_some() && function(pc) == function(at),
            _ => false,
        };
        let branch = Branch { how, enters, stays };
        let found = tool.find(&contexts.stacks, branch, (left, sp, landing));
        let pool = process.log.pool;
        tool.follow(context, contexts, pool, found, branch, (left, landing));
        engine.publish_chunk(tool);
        Some(found)
    });
    share_index(context, tool);
    match (found, how) {
        (Some(Found::Same), How::Call) => context.stack_left = left,
        (_, How::Call) => {}
        (_, How::Return) => {
            pop_while(context, tool, |entry| entry == sp || is_above(sp, entry));
        }
        (_, How::Jump(_) | How::Entry) => pop_while(context, tool, |entry| is_above(sp, entry)),
    }
    if context.stack_left == 0 {
        tool.words.clear();
        context.stack_added = 0;
    }
    tool.go_on(context);
}

/// Which activations go on.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Activations of the stack that the thread is on.
    Same,
    /// Activations of the stack that was left there, and how far it has moved since.
    Left(u64, u64),
    New,
}

impl Tool {
    fn find(&self, stacks: &Stacks, branch: Branch, (left, sp, landing): (u64, u64, u64)) -> Found {
        let Branch { how, enters, stays } = branch;
        let is_own = left <= sp && sp <= self.stack.top;
        if let Some(low) = stacks.at(sp, self.stack.number, is_own.then_some(left)) {
            return Found::Left(low, 0);
        }
        let is_near = sp < left && left - sp < FRAME;
        if !enters && (is_own || is_near && (stays || how == How::Call)) {
            return Found::Same;
        }
        // A stack may have moved to where it is near the one that is left.
        if !enters
            && how != How::Call
            && let Some((low, by)) = stacks.moved_to(landing.wrapping_sub(8))
        {
            return Found::Left(low, by);
        }
        if !enters && is_near {
            return Found::Same;
        }
        // A handler on a stack of its own jumps to what it interrupted.
        if let Some(height) = self.interrupted.last().map(|point| point.height) {
            let (entry, _) = self.records.get(self.shadow + height);
            if !enters && sp <= entry && entry.min(self.stack.top) - sp < INTERRUPTED {
                return Found::Same;
            }
        }
        Found::New
    }

    /// The thread goes to the stack that was found.
    fn follow(
        &mut self,
        context: &mut ThreadContext,
        contexts: &mut Contexts,
        pool: Pool,
        found: Found,
        branch: Branch,
        (low, landing): (u64, u64),
    ) {
        let how = branch.how;
        let kept = match found {
            Found::Same if how == How::Call => return self.remember_words(context),
            Found::Same => return self.keep_slice(context, contexts, low, landing),
            Found::New => None,
            Found::Left(at, by) => contexts
                .stacks
                .left
                .remove(&at)
                .map(|left| left.shifted(by)),
        };
        let caller = self.state(context);
        let kept = match kept {
            Some(slice) if slice.is_slice => return self.bring_back(context, contexts, slice, low),
            kept => kept,
        };
        let is_maker = self.stack.is_first && !self.has_bridge(context);
        let begins_under = if is_maker { caller } else { self.root };
        let (bridge, was) = (self.bridge(context), self.stack);
        self.leave(context, contexts, low);
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        let kept = kept.and_then(|left| self.own(context, left, &mut budget));
        match kept {
            Some(left) => {
                self.put(context, &left.records, left.state);
                (self.stack, self.interrupted) = (left.stack, left.interrupted);
                if bridge == Some(self.stack.number) && self.forest.has_edges() {
                    context.block_state = self.records.offset(caller);
                }
            }
            None => self.begin_stack(context, contexts, landing, (begins_under, caller)),
        }
        if how == How::Call {
            self.end_through(context, landing.wrapping_sub(1));
            self.push(context, landing.wrapping_sub(1), caller);
            self.stack.bridge = was.number;
        } else if branch.enters {
            self.end_through(context, landing);
            if context.shadow_top == self.shadow && !self.stack.is_first {
                // All that was on it had ended: its memory is another stack's now.
                self.begin_stack(context, contexts, landing, (begins_under, caller));
            }
        }
    }

    /// A stack on which nothing was executed yet. `states`: under which its activations are, and of
    /// who went there.
    fn begin_stack(
        &mut self,
        context: &mut ThreadContext,
        contexts: &mut Contexts,
        landing: u64,
        (under, caller): (State, State),
    ) {
        self.stack = contexts.stacks.begin(landing.wrapping_add(ABOVE), false);
        self.interrupted = Interrupted::default();
        self.put(context, &[(self.stack.bottom(), under)], caller);
    }

    /// All that is live on the thread's stack is put aside.
    fn leave(&mut self, context: &ThreadContext, contexts: &mut Contexts, low: u64) {
        let first = if self.stack.is_first { 0 } else { 16 };
        if self.shadow + first > context.shadow_top {
            return;
        }
        let mut left = self.aside(context, self.shadow);
        left.interrupted = core::mem::take(&mut self.interrupted);
        contexts.stacks.keep(low, left);
    }

    /// The records from `from` on, as those of a stack that is left.
    fn aside(&mut self, context: &ThreadContext, from: u64) -> Left {
        let records = self.records_from(context, from);
        Left {
            stack: self.stack,
            is_slice: false,
            words: self.words_of(&records),
            records,
            state: self.state(context),
            interrupted: Interrupted::default(),
            kinds: self.kinds(),
        }
    }

    /// Keeps the activations that end because the stack pointer is loaded: they may come back.
    fn keep_slice(
        &mut self,
        context: &mut ThreadContext,
        contexts: &mut Contexts,
        low: u64,
        landing: u64,
    ) {
        if context.stack_added == 0 {
            return;
        }
        let mut from = context.shadow_top + 16;
        while from - 16 > self.shadow && is_above(landing, self.records.get(from - 16).0) {
            from -= 16;
        }
        // Above the stack pointer, too, memory may be another slice's now.
        let was = self
            .words
            .iter()
            .skip(((context.shadow_top + 16 - from) / 16) as usize);
        for &word in was {
            let (entry, _) = self.records.get(from - 16);
            if from - 16 == self.shadow || word_at(entry) == word {
                break;
            }
            from -= 16;
        }
        let ended = (context.shadow_top + 16 - from) / 16;
        if (1..=LONGEST).contains(&ended) {
            let mut left = self.aside(context, from);
            left.is_slice = true;
            contexts.stacks.keep(low, left);
            self.pop(context, from);
        }
    }

    /// A slice goes on in place of what is live where it is; that is a slice now.
    fn bring_back(
        &mut self,
        context: &mut ThreadContext,
        contexts: &mut Contexts,
        slice: Left,
        low: u64,
    ) {
        let Some(&(highest, _)) = slice.records.first() else {
            return;
        };
        self.keep_slice(context, contexts, low, highest.wrapping_add(1));
        self.end_through(context, highest);
        if slice.kinds.owner != self.number {
            return;
        }
        let below = self.state(context);
        let mut records = slice.records;
        if let Some(first) = records.first_mut().filter(|_| self.forest.has_edges()) {
            first.1 = below;
        }
        let mut all = self.records_from(context, self.shadow);
        all.append(&mut records);
        self.put(context, &all, slice.state);
    }

    /// Activations that another thread had begun, in this one's forest.
    fn own(
        &mut self,
        context: &ThreadContext,
        mut left: Left,
        budget: &mut Budget<'_>,
    ) -> Option<Left> {
        if left.kinds.owner == self.number {
            return Some(left);
        }
        if self.forest.has_edges() {
            return None;
        }
        let path = live::live_path(&self.forest, &left.kinds, &left.records, left.state);
        let begins = self.begins(context);
        left.records = begins.states(&mut self.forest, &path, self.root, budget);
        left.records[0].0 = left.stack.bottom();
        left.state = left.records.last().map_or(self.root, |newest| newest.1);
        left.kinds = self.kinds();
        left.interrupted.clear();
        Some(left)
    }

    /// The shadow stack has these records.
    fn put(&mut self, context: &mut ThreadContext, records: &[(u64, State)], state: State) {
        let needed = 16 * records.len() as u64 + GUARD;
        if needed > self.shadow_len {
            let len = needed.next_power_of_two();
            let Some(fresh) = map_shadow(len) else {
                return;
            };
            unmap_shadow(self);
            (self.shadow, self.shadow_len) = (fresh, len);
        }
        for (at, &(entry, state)) in (self.shadow..).step_by(16).zip(records) {
            self.records.set(at, entry, state);
            context.shadow_top = at;
        }
        if self.forest.has_edges() {
            context.block_state = self.records.offset(state);
        }
    }

    pub(super) fn records_from(&self, context: &ThreadContext, from: u64) -> Vec<(u64, State)> {
        let records = (from..=context.shadow_top).step_by(16);
        records.map(|at| self.records.get(at)).collect()
    }

    /// Ends activations whose entry is not above `sp`, and bridges.
    fn end_through(&self, context: &mut ThreadContext, sp: u64) {
        while context.shadow_top > self.shadow && self.records.get(context.shadow_top).0 <= sp {
            self.pop(context, context.shadow_top);
        }
    }

    /// Keeps the return addresses: what is called now may put another slice in place of this one.
    fn remember_words(&mut self, context: &ThreadContext) {
        if context.stack_added != 0 {
            let records = self.records_from(context, self.shadow);
            let words = entries(&records).take(LONGEST as usize);
            self.words = words.map(word_at).collect();
        }
    }

    /// Return addresses of the newest of `records`, which are the newest of all.
    fn words_of(&mut self, records: &[(u64, State)]) -> Vec<u64> {
        match core::mem::take(&mut self.words) {
            none if none.is_empty() => words_of(records),
            mut kept => {
                kept.truncate(entries(records).count().min(WORDS));
                kept
            }
        }
    }

    fn has_bridge(&self, context: &ThreadContext) -> bool {
        let mut records = (self.shadow + 16..=context.shadow_top).step_by(16);
        records.any(|at| !is_entry(self.records.get(at).0))
    }

    /// The stack from which the activation on top went here by a bridge.
    fn bridge(&self, context: &ThreadContext) -> Option<u64> {
        let is_above_all = context.shadow_top > self.shadow;
        let (entry, _) = self.records.get(context.shadow_top);
        (is_above_all && !is_entry(entry)).then_some(self.stack.bridge)
    }
}

/// The target of the indirect jump at `pc`, whose registers are spilled.
fn jump_target(context: &ThreadContext, pc: u64) -> Option<u64> {
    let mut bytes = [0; isa::insn::MAX_LEN];
    let got = agent::memory::read_some(pc, &mut bytes);
    let insn = Insn::decode(&bytes[..got], pc).ok()?;
    let mut regs = context.regs;
    (regs[reg::RCX], regs[reg::RDX]) = (context.spill[1], context.spill[2]);
    if insn.flow() != Flow::IndirectJump {
        return None;
    }
    match insn.branch_register() {
        Some(register) => Some(regs[register]),
        None => agent::memory::read(insn.addresses(&regs)[0]?),
    }
}

fn entries(records: &[(u64, State)]) -> impl Iterator<Item = u64> + Clone {
    let entries = records.iter().rev().map(|&(entry, _)| entry);
    entries.filter(|&entry| is_entry(entry))
}

fn words_of(records: &[(u64, State)]) -> Vec<u64> {
    entries(records).take(WORDS).map(word_at).collect()
}

/// Bridges, and the record below all, have entries that no function has.
fn is_entry(entry: u64) -> bool {
    entry.is_multiple_of(2)
}

fn word_at(address: u64) -> u64 {
    agent::memory::read(address).unwrap_or(0)
}
