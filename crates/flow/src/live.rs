//! Registers and flags that are live at every point of a function.
//!
//! Problem: code that is inserted needs registers whose values nobody reads any more, and it changes flags.
//!
//! Approach: the usual backward propagation, over the graphs of all functions of the file together, until the sets grow no
//! more:
//!
//! - Before a direct call what the callee reads is live, and what is live behind the call unless the callee may change
//!   it. So nothing is assumed of how functions of one file call each other: hand-written code has its own
//!   ways, and GCC relies on what a callee happens to leave as it was (`-fipa-ra`).
//! - At a return registers of results are live, others that a callee may change if a caller reads them, and those that
//!   it leaves as they were if they are live behind any call of it.
//! - All else is said by the System V convention: a call by an address or of another file's function reads the
//!   registers of arguments, and any function may be called so. Only a call by a word of
//!   the dynamic linker ends the lives of registers that a callee need not preserve. A call or a tail call by an address ends that of
//!   `r11`: its caller does not know the callee, and the linker's code, by which it may go, changes `r11` (System V ABI 3.2.1).
//! - Registers that a callee preserves are live at every call, as exceptions and `longjmp` give them back to callers.
//!
//! Invariant: a register or flag that is not live can be changed, and nothing that the program does depends on it. All
//! are live in a function whose graph may lack something ([`Function::is_complete`], unwind tables apart), and before
//! calls of it. What is live behind its own calls is not known: registers of results, and what the callee
//! leaves as it was. In languages with conventions of their own all are live at calls by address and at returns.
//!
//! Limits: x87 and MMX registers and the direction flag are not followed. A handler of a signal or a debugger
//! sees dead registers as well. Calls from code that was not found do not count.

mod effects;

use std::collections::{HashMap, VecDeque};

use image::{Image, Language, LinkAddr};
use isa::{EffectsOf, Flags, Insn, RegisterSet};
use rayon::prelude::*;

use crate::Gate;
use crate::code::Code;
use crate::function::Function;
use crate::graph::{Block, EdgeKind, To};
use crate::processors::with_processors;
use crate::program::Program;
use effects::{CallOf, OfBlock, OfFunction, Transfer, is_call, own_effects};

/// `rax`, `rdx`, `rcx` and `xmm0` to `xmm3`: results, as far as compilers go
/// (System V ABI 3.2.3; LLVM's `RetCC_X86Common`).
const RESULTS: RegisterSet = RegisterSet {
    general: 0b111,
    vectors: 0xf,
    ..RegisterSet::NONE
};
/// `rbx`, `rsp`, `rbp` and `r12` to `r15`: a callee preserves them.
const PRESERVED: RegisterSet = RegisterSet {
    general: 0xf038,
    ..RegisterSet::NONE
};
/// `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`, `rax` with the number of vectors, `r10` of closures, `xmm0` to `xmm7`.
const ARGUMENTS: RegisterSet = RegisterSet {
    general: 0x07c7,
    vectors: 0xff,
    ..RegisterSet::NONE
};
const R11: RegisterSet = RegisterSet {
    general: 0x0800,
    ..RegisterSet::NONE
};
const FLAGS: RegisterSet = RegisterSet {
    flags: Flags::ALL,
    ..RegisterSet::NONE
};
/// Functions that preserve more than others: they are called before there is a frame.
const KEEP_ALL: [&str; 4] = ["mcount", "_mcount", "__fentry__", "__morestack"];

/// Live sets of the functions of a program.
pub struct Liveness<'d> {
    code: Code<'d>,
    program: &'d Program,
    /// All of its code keeps to the System V convention.
    is_usual: bool,
    /// Starts and ends of functions' ranges, and the functions' numbers, by start.
    owners: Vec<(LinkAddr, LinkAddr, usize)>,
    /// By function.
    effects: Vec<OfFunction>,
    /// Numbers of entries, also of others than the first one of a function.
    entries: HashMap<LinkAddr, u32>,
    /// By entry; `None`: nothing is known so far.
    at_entry: Vec<Option<RegisterSet>>,
    /// By function: what it may change before it returns, with all that it calls, and flags.
    changed: Vec<RegisterSet>,
    /// By function: what is live at its returns of what it may change.
    results: Vec<RegisterSet>,
    /// By function: what is live at its returns of what it leaves as it was.
    kept: Vec<RegisterSet>,
    /// Registers that functions read which lack something: those of the convention while sets grow, then all.
    unknown: RegisterSet,
}

/// Live sets at both ends of each block of a function.
#[derive(Clone, Debug, Default)]
pub struct Live {
    pub before: Vec<RegisterSet>,
    /// The set behind its last instruction; behind a call, when it has returned.
    pub after: Vec<RegisterSet>,
}

impl<'d> Liveness<'d> {
    /// Live sets of `program`, which is that of `image`.
    pub fn new(image: &'d Image, program: &'d Program) -> Liveness<'d> {
        let (language, _) = image.origin();
        let is_usual = matches!(language, Language::C | Language::Cpp | Language::Rust);
        let at_return = match is_usual {
            true => RESULTS.with(PRESERVED),
            false => RegisterSet::ALL,
        };
        let count = program.functions.len();
        let functions = (0..).zip(&program.functions);
        let ranges = functions.flat_map(|(at, function)| {
            let ranges = function.ranges.iter();
            ranges.map(move |range| (range.start, range.end, at))
        });
        let mut owners: Vec<_> = ranges.collect();
        owners.sort_unstable();
        let entries = program.functions.iter();
        let entries = entries.flat_map(|function| function.others.iter().chain([&function.entry]));
        let entries = entries.copied().zip(0..).collect::<HashMap<_, _>>();
        let mut liveness = Liveness {
            code: Code::of(image),
            program,
            is_usual,
            owners,
            effects: Vec::new(),
            at_entry: vec![None; entries.len()],
            entries,
            changed: Vec::new(),
            results: vec![at_return; count],
            kept: vec![RegisterSet::NONE; count],
            unknown: at_return.with(ARGUMENTS),
        };
        liveness.effects = with_processors(|| {
            let functions = program.functions.par_iter();
            let effects = functions.map_init(EffectsOf::new, |finder, function| {
                liveness.effects_of(function, finder)
            });
            effects.collect()
        });
        liveness.changed = liveness.changed_by_all();
        liveness.propagate();
        liveness.keep();
        liveness.unknown = RegisterSet::ALL;
        liveness
    }

    /// Until nothing changes at entries and returns.
    fn propagate(&mut self) {
        let functions = &self.program.functions;
        let mut callers = vec![Vec::new(); functions.len()];
        for (caller, function) in (0..).zip(functions) {
            for edge in &function.graph.edges {
                if let Some(callee) = self.callee(edge.to) {
                    callers[callee].push(caller);
                }
            }
        }
        for callers in &mut callers {
            callers.sort_unstable();
            callers.dedup();
        }
        // Callees mostly stand before their callers.
        let mut waiting: VecDeque<usize> = (0..functions.len()).collect();
        let mut waits = vec![true; functions.len()];
        while let Some(at) = waiting.pop_front() {
            waits[at] = false;
            let function = &functions[at];
            let live = self.with(at, self.results[at]);
            let mut again = Vec::new();
            let entries = function.others.iter().chain([&function.entry]);
            for &entry in entries.filter(|_| is_whole(function)) {
                let block = function.graph.block_from(entry);
                let set = block.map_or(RegisterSet::ALL, |block| live.before[block]);
                if self.at_entry[self.entries[&entry] as usize].replace(set) != Some(set) {
                    again.clone_from(&callers[at]);
                }
            }
            for edge in &function.graph.edges {
                let Some(callee) = self.callee(edge.to) else {
                    continue;
                };
                let behind = match edge.kind {
                    EdgeKind::NoReturn => RegisterSet::NONE,
                    EdgeKind::Call if !is_whole(function) => {
                        RegisterSet::ALL.without(self.changed[callee])
                    }
                    EdgeKind::Call => live.after[edge.from as usize],
                    _ => self.results[at],
                };
                let changed = self.changed[callee];
                let left = behind.without(changed);
                self.kept[callee] = self.kept[callee].with(left).without(FLAGS);
                let wider = self.results[callee].with(behind.without(left));
                if std::mem::replace(&mut self.results[callee], wider) != wider {
                    again.push(callee);
                }
            }
            for other in again {
                if !std::mem::replace(&mut waits[other], true) {
                    waiting.push_back(other);
                }
            }
        }
    }

    /// Callees keep what a function leaves as it was.
    fn keep(&mut self) {
        let functions = &self.program.functions;
        let mut waiting: Vec<usize> = (0..functions.len()).collect();
        while let Some(at) = waiting.pop() {
            let kept = self.kept[at];
            for edge in &functions[at].graph.edges {
                let Some(callee) = self.callee(edge.to).filter(|callee| *callee != at) else {
                    continue;
                };
                let wider = self.kept[callee].with(kept.without(self.changed[callee]));
                if std::mem::replace(&mut self.kept[callee], wider) != wider {
                    waiting.push(callee);
                }
            }
        }
    }

    /// Registers that each function may change before it returns, with all that it calls, and flags.
    fn changed_by_all(&self) -> Vec<RegisterSet> {
        let functions = &self.program.functions;
        let by_others = RegisterSet::ALL.without(PRESERVED);
        let mut all = Vec::with_capacity(functions.len());
        let mut calls = Vec::with_capacity(functions.len());
        for (function, effects) in functions.iter().zip(&self.effects) {
            let mut own = FLAGS.with(effects.written);
            let edges = function.graph.edges.iter();
            let leaving = edges.filter(|edge| edge.kind != EdgeKind::Return);
            let leaving = leaving.filter(|edge| !matches!(edge.to, To::Block(_)));
            let callees: Vec<Option<usize>> = leaving.map(|edge| self.callee(edge.to)).collect();
            if callees.contains(&None) || !is_whole(function) {
                own = own.with(by_others);
            }
            all.push(own);
            calls.push(callees.into_iter().flatten().collect::<Vec<_>>());
        }
        loop {
            let mut is_new = false;
            for (at, callees) in calls.iter().enumerate() {
                let wider = callees
                    .iter()
                    .fold(all[at], |set, callee| set.with(all[*callee]));
                is_new |= std::mem::replace(&mut all[at], wider) != wider;
            }
            if !is_new {
                return all;
            }
        }
    }

    /// The function whose code an edge leads to.
    fn callee(&self, to: To) -> Option<usize> {
        match to {
            To::Address(addr) => self.index_at(addr),
            _ => None,
        }
    }

    /// Number of the function with an address.
    fn index_at(&self, addr: LinkAddr) -> Option<usize> {
        let after = self.owners.partition_point(|(start, ..)| *start <= addr);
        let &(_, end, function) = self.owners.get(after.checked_sub(1)?)?;
        (addr < end).then_some(function)
    }

    fn insns(&self, block: &Block) -> Vec<Insn> {
        let mut reader = self.code.reader(block.start.0);
        let mut all = Vec::with_capacity(block.insns as usize);
        let mut at = block.start.0;
        while at < block.end.0 {
            let Ok(insn) = reader.decode(at) else {
                break;
            };
            at = insn.next_pc();
            all.push(insn);
        }
        all
    }

    /// Live sets of a function of the program.
    pub fn of(&self, function: &Function) -> Live {
        let all = &self.program.functions;
        let at = all.binary_search_by_key(&function.entry, |one| one.entry);
        let at = at.expect("a function of the program");
        self.with(at, self.results[at].with(self.kept[at]))
    }

    /// Live sets of the function with this number that has this set at its returns.
    fn with(&self, number: usize, at_return: RegisterSet) -> Live {
        let function = &self.program.functions[number];
        let blocks = &function.graph.blocks;
        if !is_whole(function) {
            let all = vec![RegisterSet::ALL; blocks.len()];
            return Live {
                before: all.clone(),
                after: all,
            };
        }
        let effects = self.effects[number].blocks.iter();
        let transfers: Vec<Transfer> = effects
            .map(|effects| match effects.call {
                Some(call) => effects.own.then(self.change_by(call)),
                None => effects.own,
            })
            .collect();
        let mut live = Live {
            before: vec![RegisterSet::NONE; blocks.len()],
            after: vec![RegisterSet::NONE; blocks.len()],
        };
        let before = function.graph.predecessors();
        let mut waiting: VecDeque<u32> = (0..blocks.len() as u32).rev().collect();
        let mut waits = vec![true; blocks.len()];
        while let Some(number) = waiting.pop_front() {
            let at = number as usize;
            waits[at] = false;
            let after = self.after(function, at, at_return, &live);
            let now = transfers[at].before(after);
            live.after[at] = after;
            if now != live.before[at] {
                live.before[at] = now;
                for &other in &before[at] {
                    if !std::mem::replace(&mut waits[other as usize], true) {
                        waiting.push_back(other);
                    }
                }
            }
        }
        live
    }

    /// The live set before each instruction of a block of `function`, whose `live` this is.
    pub fn within(
        &self,
        function: &Function,
        live: &Live,
        block: usize,
    ) -> Vec<(LinkAddr, RegisterSet)> {
        let own = &function.graph.blocks[block];
        let mut finder = EffectsOf::new();
        let mut now = live.after[block];
        let mut all = Vec::with_capacity(own.insns as usize);
        for insn in self.insns(own).iter().rev() {
            if is_whole(function) {
                let step = self.step(function, block as u32, insn, &mut finder);
                now = step.before(now);
            }
            all.push((LinkAddr(insn.pc()), now));
        }
        all.reverse();
        all
    }

    /// The live set before the last instruction of a block of `function`, whose `live` this is.
    pub fn before_last(&self, function: &Function, live: &Live, block: u32) -> RegisterSet {
        let after = live.after[block as usize];
        let last = function.graph.blocks[block as usize].last;
        match self.code.reader(last.0).decode(last.0) {
            Ok(insn) if is_whole(function) => {
                let step = self.step(function, block, &insn, &mut EffectsOf::new());
                step.before(after)
            }
            _ => RegisterSet::ALL,
        }
    }

    /// Effects of a function's instructions, each decoded once.
    fn effects_of(&self, function: &Function, finder: &mut EffectsOf) -> OfFunction {
        let mut all = OfFunction::default();
        for (number, block) in (0..).zip(&function.graph.blocks) {
            let mut effects = OfBlock::default();
            for insn in self.insns(block) {
                let (own, written) = own_effects(&insn, finder);
                all.written = all.written.with(written);
                effects.own = effects.own.then(own);
                // A call is the last one of its block.
                effects.call = is_call(&insn).then(|| self.call(function, number));
            }
            all.blocks.push(effects);
        }
        all
    }

    /// The change by an instruction of the live set behind it.
    fn step(
        &self,
        function: &Function,
        block: u32,
        insn: &Insn,
        finder: &mut EffectsOf,
    ) -> Transfer {
        let (own, _) = own_effects(insn, finder);
        match is_call(insn) {
            true => own.then(self.change_by(self.call(function, block))),
            false => own,
        }
    }

    /// The call at the end of a block.
    fn call(&self, function: &Function, block: u32) -> CallOf {
        let edges = function.graph.edges_of(block as usize).iter();
        let is_call = |kind| matches!(kind, EdgeKind::Call | EdgeKind::NoReturn);
        let mut calls = edges.filter(|edge| is_call(edge.kind));
        let to = calls.next().map_or(To::Unknown, |edge| edge.to);
        let slot = match to {
            To::Address(addr) => self.program.stubs.get(&addr).copied(),
            To::Slot(slot) => Some(slot),
            _ => None,
        };
        let name = slot.and_then(|slot| self.program.slots.get(&slot));
        if let (To::Address(addr), None) = (to, slot) {
            return CallOf::Function {
                number: self.callee(to).map(|number| number as u32),
                entry: self.entries.get(&addr).copied(),
            };
        }
        match name {
            _ if !self.is_usual => CallOf::Unknown,
            Some(name) if !KEEP_ALL.contains(&name.as_str()) => CallOf::Usual,
            None if to == To::Unknown => CallOf::Address,
            _ => CallOf::KeepsAll,
        }
    }

    /// The change by what is called, as far as it is known.
    fn change_by(&self, call: CallOf) -> Transfer {
        let (number, entry) = match call {
            CallOf::Function { number, entry } => (number.map(|at| at as usize), entry),
            CallOf::Unknown => {
                return Transfer {
                    read: RegisterSet::ALL,
                    overwritten: RegisterSet::NONE,
                };
            }
            CallOf::Usual => {
                return Transfer {
                    read: ARGUMENTS.with(PRESERVED),
                    overwritten: RegisterSet::ALL.without(PRESERVED),
                };
            }
            CallOf::Address => {
                return Transfer {
                    read: ARGUMENTS.with(PRESERVED),
                    overwritten: FLAGS.with(R11),
                };
            }
            CallOf::KeepsAll => {
                return Transfer {
                    read: ARGUMENTS.with(PRESERVED),
                    overwritten: FLAGS,
                };
            }
        };
        let changed = number.map_or(RegisterSet::NONE, |at| self.changed[at]);
        Transfer {
            read: self.enter(number, entry).with(PRESERVED),
            overwritten: changed.without(PRESERVED).with(FLAGS),
        }
    }

    /// The live set at the end of a block, as far as it is known of those that follow it.
    fn after(
        &self,
        function: &Function,
        block: usize,
        at_return: RegisterSet,
        live: &Live,
    ) -> RegisterSet {
        let mut after = RegisterSet::NONE;
        for edge in function.graph.edges_of(block) {
            let of_edge = match (edge.kind, edge.to) {
                (_, To::Block(to)) => live.before[to as usize],
                (EdgeKind::Call, _) => RegisterSet::NONE,
                (EdgeKind::NoReturn, _) => PRESERVED,
                (EdgeKind::Return, _) => at_return,
                (_, To::Address(addr)) => match self.program.stubs.contains_key(&addr) {
                    true => self.at_tail_call(at_return),
                    false => self.into(addr).with(at_return),
                },
                (EdgeKind::TailCall, To::Unknown) if self.is_usual => {
                    self.at_tail_call(at_return).without(R11)
                }
                (EdgeKind::TailCall, _) => self.at_tail_call(at_return),
                _ => RegisterSet::ALL,
            };
            after = after.with(of_edge);
        }
        after
    }

    /// The live set at a jump to a function that is not of this file, or not known.
    fn at_tail_call(&self, at_return: RegisterSet) -> RegisterSet {
        match self.is_usual {
            true => at_return.with(ARGUMENTS),
            false => RegisterSet::ALL,
        }
    }

    /// The live set where control comes to another function's code.
    fn into(&self, addr: LinkAddr) -> RegisterSet {
        self.enter(self.index_at(addr), self.entries.get(&addr).copied())
    }

    /// The live set at an entry, if it is one, of a function of the program, if it is one.
    fn enter(&self, function: Option<usize>, entry: Option<u32>) -> RegisterSet {
        let known = entry.and_then(|entry| self.at_entry[entry as usize]);
        let is_known = function.is_some_and(|at| is_whole(&self.program.functions[at]));
        known.unwrap_or(match is_known {
            true => RegisterSet::NONE,
            false => self.unknown,
        })
    }
}

/// Whether a graph has everything that can be executed.
fn is_whole(function: &Function) -> bool {
    let of_frames = |gate| matches!(gate, Gate::Unwind | Gate::NoUnwind);
    function.failed.iter().all(|failed| of_frames(failed.gate))
}
