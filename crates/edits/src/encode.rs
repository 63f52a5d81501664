//! `contexts`: every calling context in a number (PCCE), and records where a path of the call graph begins (`wire::contexts`).
//!
//! Problem: who is where in a program, and was called from where, is to be known at any moment, without walking the stack.
//!
//! Approach: calls are numbered ([`encoding`], over the graph of [`Calls`]); what a call adds is added before it and taken off where it
//! comes back, and most add nothing. The rest is done by routines of the resident code:
//!
//! | place | what |
//! |---|---|
//! | a call that closes a cycle | a record with the site is put on top; behind it, it is taken off |
//! | a call of code that does not move, or of nobody knows what | its site is told before; behind it, records that it left go, and the site is told again of the call that is below |
//! | a trap, whose handler may go on in old code behind it | its site is told before |
//! | in front of an entry, for other code | a record |
//! | an entry of a function with landing pads, or that calls `setjmp` | a mark, by which the number is found again there |
//! | returns of functions that may be handlers of signals | if a handler is there, its record is taken off |
//! | entries and returns of functions whose calls are logged | an event is appended to the thread's lane |
//! | entries of all functions, if calls are counted | the counter of the context is looked up, and one is added |
//!
//! Invariant: a context is right, or is said to be unknown (`wire::contexts::State::lost`, [`Kind::Lost`]), also where control leaves by
//! `longjmp`, an exception or a signal.
//!
//! Limits: stacks that are changed by code which is none of [`twice`]: then records of one stack are taken for those of the other.
//!
//! Source: W. Sumner et al., "Precise Calling Context Encoding" (ICSE 2010).

mod dictionary;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use encoding::{Numbering, Options, Step};
use flow::{EdgeKind, Program, To};
use image::{Image, LinkAddr, Unwind};
use placement::plan;
use probe::{At, Byte, Exit, Offsets, Op, Test, Word};
use rewrite::unit::Node;
use rewrite::{
    COUNT, ENTER, Form, GOES, LEAVE, LOG, Memory, Outcome, PUSH, Plan, RESTORE, Section,
    StaticTool, Unit, Version, Why,
};
use wire::contexts::{
    ALONE, BYTES, CALLED, COUNTED, GOES_ON, Kind, LEFT, MARK_BELOW, RETURNED, Record, State,
    last_context,
};
use wire::counters::{FIRST, Lane};

use crate::Wanted;
use crate::contexts::Calls;
use crate::known::{Known, comes_twice, traps};
use crate::logged;
use crate::stacks::switching;

/// Most numbers of a function: what calls add is an operand of 32 bits.
const MOST: u64 = 1 << 31;

/// Beginnings of the names of functions that compilers make to go to an address by a return.
const THUNKS: [&str; 3] = [
    "__x86_indirect_thunk",
    "__llvm_retpoline",
    "__indirect_thunk",
];

const fn word(offset: usize) -> Word {
    Word(FIRST as u32 + offset as u32)
}

const NUMBER: Word = word(offset_of!(State, number));
const SITE: Word = word(offset_of!(State, site));
const TOP: Word = word(offset_of!(State, top));
const HANDLERS: Byte = Byte(word(offset_of!(State, handlers)).0);

/// A call of other code is back.
const BACK: Op = Op::Unwind {
    top: TOP,
    record: Offsets {
        level: offset_of!(Record, level) as i32,
        below: offset_of!(Record, below) as i32,
        value: offset_of!(Record, site) as i32,
    },
    word: SITE,
};

/// The function is left, by what may be a handler of a signal.
const LEAVES: Op = Op::Guard {
    test: Test::IsSet(HANDLERS),
    exit: Exit::Routine(LEAVE),
};

/// Numbers of a file's contexts.
pub struct Contexts<'d> {
    wanted: Wanted<'d>,
    known: Known<'d>,
    calls: Calls,
    numbering: Numbering,
    frames: Unwind<'d>,
    /// By function: a call of it may come back on another stack.
    switches: Vec<bool>,
    /// Functions whose calls are logged, and the words that name them; empty: one of those goes on as this one.
    logged: BTreeMap<usize, String>,
    /// All calls are counted by context.
    counts: bool,
    /// By site: the first site of its function.
    first_sites: Vec<LinkAddr>,
    /// Functions that are planned, and instructions by which they are left, if their record may be taken off before.
    planned: BTreeSet<usize>,
    exits: BTreeSet<u64>,
    /// Instructions before which the number is given back.
    restored: BTreeSet<u64>,
    /// Instructions before which what a call added is taken off.
    returns: BTreeSet<u64>,
    /// Calls that add something, that put a record on top, and of other code.
    adds: usize,
    pushes: usize,
    open: usize,
}

impl<'d> Contexts<'d> {
    pub fn new(
        image: &'d Image,
        program: &'d Program,
        wanted: Wanted<'d>,
        counts: bool,
    ) -> Contexts<'d> {
        let known = Known::new(program, &wanted);
        let calls = Calls::of(program, wanted.profile, &known.stays);
        let options = Options {
            most: MOST,
            by_function: counts,
            ..Options::default()
        };
        let mut first: BTreeMap<u32, LinkAddr> = BTreeMap::new();
        let sites = calls.sites().into_iter().zip(&calls.graph.sites);
        let first_sites = sites.map(|(at, site)| *first.entry(site.caller).or_insert(at));
        Contexts {
            wanted,
            first_sites: first_sites.collect(),
            numbering: Numbering::of(&calls.graph, options),
            known,
            calls,
            frames: Unwind::of(image),
            switches: switching(image, program),
            logged: wanted.log.map_or_else(BTreeMap::new, |list| {
                logged::functions(image, program, list)
            }),
            counts,
            planned: BTreeSet::new(),
            exits: BTreeSet::new(),
            restored: BTreeSet::new(),
            returns: BTreeSet::new(),
            adds: 0,
            pushes: 0,
            open: 0,
        }
    }

    /// The site of a call as it is told. Where calls are counted, one of its function's stands for all: paths are of functions.
    fn site(&self, at: LinkAddr) -> u32 {
        let own = self.calls.site(at).filter(|_| self.counts);
        let first = own.map(|site| self.first_sites[site as usize]);
        self.known.token_of(first.unwrap_or(at))
    }

    /// Tells the site of a call.
    fn tell(&self, at: LinkAddr) -> Op {
        Op::Here {
            word: SITE,
            value: self.site(at),
        }
    }

    /// Tells the site of a jump by which the function goes on as other code, which comes back to the function's caller.
    fn tell_jump(&self, at: LinkAddr) -> Op {
        Op::Tell {
            routine: GOES,
            facts: [self.site(at), 0, 0, 0],
        }
    }

    /// A record of a call that closes a cycle: a path begins at the callee, whose return address will be below the stack pointer.
    fn push(&self, callee: u64, at: LinkAddr) -> Op {
        let level = -8i32;
        Op::Tell {
            routine: PUSH,
            facts: [
                self.known.token_of(LinkAddr(callee)),
                self.site(at),
                Kind::Call as u32,
                level.cast_unsigned(),
            ],
        }
    }

    /// The function is called, returns, or goes on as another one.
    fn log(&self, entry: LinkAddr, what: u32) -> Op {
        Op::Tell {
            routine: LOG,
            facts: [self.known.token_of(entry), what, 0, 0],
        }
    }

    /// A function with landing pads, or that calls `setjmp`, is entered: its mark.
    fn mark(&self, entry: LinkAddr) -> Op {
        let level = -(MARK_BELOW as i32);
        Op::Tell {
            routine: PUSH,
            facts: [
                self.known.token_of(entry),
                0,
                Kind::Mark as u32,
                level.cast_unsigned(),
            ],
        }
    }

    /// Control comes to an address of a function where its number is that of its mark.
    fn restore(&mut self, unit: &Unit<'_>, at: LinkAddr) -> Result<Op, Why> {
        self.restored.insert(at.0);
        let frame = self.frames.frame(at).ok_or(Why::NoPlace)?;
        // The return address is below the frame.
        let level = frame.offset - 8 - MARK_BELOW as i64;
        let level = i32::try_from(level).map_err(|_| Why::NoPlace)?;
        Ok(Op::Tell {
            routine: RESTORE,
            facts: [
                self.known.token_of(unit.function.entry),
                frame.is_frame_pointer.into(),
                Kind::Lost as u32,
                level.cast_unsigned(),
            ],
        })
    }

    /// Whether a call is of a function that comes back more often than it is called, or on another stack.
    fn comes_twice(&self, unit: &Unit<'_>, block: usize) -> bool {
        let edges = unit.function.graph.edges_of(block).iter();
        let mut calls = edges.filter(|edge| edge.kind == EdgeKind::Call);
        calls.any(|call| {
            let callee = match call.to {
                To::Address(entry) => self.known.by_entry.get(&entry),
                _ => None,
            };
            callee.is_some_and(|(callee, _)| self.switches[*callee])
                || comes_twice(self.known.program, call.to)
        })
    }

    /// Adds what is done at a call.
    fn add_call(
        &mut self,
        unit: &Unit<'_>,
        block: usize,
        call: &flow::Edge,
        out: &mut Plan,
    ) -> Result<(), Why> {
        let own = &unit.function.graph.blocks[block];
        let last = At::Last(block as u32);
        let edges = unit.function.graph.edges_of(block).iter();
        let mut next = edges.filter(|edge| edge.kind == EdgeKind::FallThrough);
        let back = match next.next().map(|edge| edge.to) {
            None => None,
            Some(To::Block(next)) => Some(way_back(unit, block, next)?),
            Some(_) => return Err(Why::NoPlace),
        };
        let behind = match self.comes_twice(unit, block) {
            true => self.restore(unit, own.end)?,
            false => BACK,
        };
        let (before, after) = self.ops_of(unit, block, call, behind)?;
        if let Some(op) = before {
            add(unit, last, op, out)?;
        }
        if let Some(at) = back {
            if matches!(after.first(), Some(Op::Add { .. })) {
                self.returns.insert(own.end.0);
            }
            for op in after {
                add(unit, at, op, out)?;
            }
        }
        Ok(())
    }

    /// Ops before a call, and where it comes back; `behind`: what gives back the site.
    fn ops_of(
        &mut self,
        unit: &Unit<'_>,
        block: usize,
        call: &flow::Edge,
        behind: Op,
    ) -> Result<(Option<Op>, Vec<Op>), Why> {
        let at = unit.function.graph.blocks[block].last;
        let callee = self.known.moved(call.to);
        // It returns to a function that it did not come from.
        let is_thunk = |(number, _): &(usize, u64)| {
            let name = self.known.program.functions[*number].name.as_deref();
            name.is_some_and(|name| THUNKS.iter().any(|start| name.starts_with(start)))
        };
        let callee = callee.filter(|callee| !is_thunk(callee));
        let edge = callee.and_then(|(callee, _)| {
            let site = self.calls.site(at)?;
            self.calls.edge(site, callee as u32)
        });
        let ((callee, entry), edge) = match (callee, edge) {
            (Some(callee), Some(edge)) => (callee, edge),
            _ => {
                self.open += 1;
                return Ok((Some(self.tell(at)), vec![behind]));
            }
        };
        let (mut before, mut after) = (None, Vec::new());
        let step = self.numbering.step(edge, 0);
        match step {
            Step::Add(0) => {}
            Step::Add(number) => {
                let amount = i32::try_from(number).map_err(|_| Why::NoPlace)?;
                let add = |amount| Op::Add {
                    word: NUMBER,
                    amount,
                };
                before = Some(add(amount));
                after.push(add(-amount));
                self.adds += 1;
            }
            // The path stays the same.
            Step::Push if self.counts && callee == unit.number => {}
            Step::Push => {
                before = Some(self.push(entry, at));
                self.pushes += 1;
            }
        }
        let is_twice = self.comes_twice(unit, block);
        if before.is_some() && step == Step::Push || is_twice || self.known.may_leave[callee] {
            after.push(behind);
        }
        Ok((before, after))
    }

    /// Adds what is done where a block leaves the function by something else than a call. `leaves`: it may be a handler of a signal.
    fn add_way_out(
        &mut self,
        unit: &Unit<'_>,
        block: usize,
        leaves: bool,
        out: &mut Plan,
    ) -> Result<(), Why> {
        let function = unit.function;
        let own = &function.graph.blocks[block];
        let edges = function.graph.edges_of(block);
        let goes_out = |edge: &&flow::Edge| {
            use EdgeKind::{Case, FallThrough, TailCall, Taken};
            matches!(edge.kind, TailCall | FallThrough | Taken | Case)
                && !matches!(edge.to, To::Block(_))
        };
        let is_return = edges.iter().any(|edge| edge.kind == EdgeKind::Return);
        let by_address = function.tail_jumps.contains(&own.last);
        let ways: Vec<_> = edges.iter().filter(goes_out).collect();
        let is_only = by_address || edges.len() == ways.len();
        if is_return && leaves {
            self.exits.insert(own.last.0);
            add(unit, At::Last(block as u32), LEAVES, out)?;
        }
        if by_address || !ways.is_empty() && is_only {
            let is_open = by_address || ways.iter().any(|edge| self.known.moved(edge.to).is_none());
            if leaves || is_open {
                self.exits.insert(own.last.0);
            }
            // A handler gives back the site of what it interrupted, so that comes last.
            let told = is_open.then(|| self.tell_jump(own.last)).into_iter();
            for op in told.chain(leaves.then_some(LEAVES)) {
                add(unit, At::Last(block as u32), op, out)?;
            }
            return Ok(());
        }
        for way in ways {
            let is_open = self.known.moved(way.to).is_none();
            if !leaves && !is_open {
                continue;
            }
            let from = Node::End(block as u32);
            let is_it = |edge: &rewrite::unit::Edge| {
                let mut graph = edge.graph.iter();
                edge.from == from && graph.any(|at| std::ptr::eq(&function.graph.edges[*at], way))
            };
            let at = unit.edges.iter().position(is_it).ok_or(Why::NoPlace)?;
            let told = is_open.then(|| self.tell_jump(own.last)).into_iter();
            for op in told.chain(leaves.then_some(LEAVES)) {
                add(unit, At::Edge(at as u32), op, out)?;
            }
        }
        Ok(())
    }
}

impl Contexts<'_> {
    /// Logs calls of a function, and where it is left by returns and by jumps that do nothing else.
    fn log_all(&self, unit: &Unit<'_>, out: &mut Plan) -> Result<(), Why> {
        let function = unit.function;
        let graph = &function.graph;
        let word = self.logged.get(&unit.number).map_or("", String::as_str);
        let goes_on_as_it = word.is_empty();
        match word.ends_with(logged::ALONE) {
            _ if goes_on_as_it => {}
            true => return add(unit, At::Entry, self.log(function.entry, ALONE), out),
            false => add(unit, At::Entry, self.log(function.entry, CALLED), out)?,
        }
        for (number, block) in (0..).zip(&graph.blocks) {
            let edges = graph.edges_of(number as usize);
            let returns = edges.iter().any(|edge| edge.kind == EdgeKind::Return);
            let what = match edges {
                [edge] if edge.kind == EdgeKind::TailCall => match self.known.moved(edge.to) {
                    Some((next, _)) if self.logged.contains_key(&next) => GOES_ON,
                    _ => LEFT,
                },
                _ if function.tail_jumps.contains(&block.last) => LEFT,
                _ if returns => RETURNED,
                _ => continue,
            };
            add(unit, At::Last(number), self.log(function.entry, what), out)?;
        }
        Ok(())
    }
}

/// Has something done, or the function is left.
fn add(unit: &Unit<'_>, at: At, op: Op, out: &mut Plan) -> Result<(), Why> {
    match unit.takes(at, op) {
        true => out.add(unit, at, op),
        false => Err(Why::NoPlace),
    }
}

/// The edge by which a call comes back.
fn way_back(unit: &Unit<'_>, block: usize, next: u32) -> Result<At, Why> {
    let is_it = |edge: &rewrite::unit::Edge| {
        edge.from == Node::End(block as u32) && edge.to == Node::Start(next)
    };
    let at = unit.edges.iter().position(is_it).ok_or(Why::NoPlace)?;
    Ok(At::Edge(at as u32))
}

impl StaticTool for Contexts<'_> {
    fn plan(&mut self, unit: &Unit<'_>, _: Version, out: &mut Plan) -> Result<(), Why> {
        if self.known.stays[unit.number] {
            return Err(Why::NoPlace);
        }
        let function = unit.function;
        let graph = &function.graph;
        let pads = graph
            .edges
            .iter()
            .filter_map(|edge| match (edge.kind, edge.to) {
                (EdgeKind::LandingPad, To::Block(pad)) => Some(pad),
                _ => None,
            });
        let pads: BTreeSet<u32> = pads.collect();
        let twice = (0..graph.blocks.len()).any(|block| self.comes_twice(unit, block));
        if self.counts {
            let token = self.known.token_of(function.entry);
            let op = Op::Count {
                routine: COUNT,
                facts: [token, COUNTED, last_context(token), 0],
            };
            add(unit, At::Entry, op, out)?;
        }
        if twice || !pads.is_empty() {
            add(unit, At::Entry, self.mark(function.entry), out)?;
        }
        if self.logged.contains_key(&unit.number) {
            self.log_all(unit, out)?;
        }
        for pad in pads {
            let start = graph.blocks[pad as usize].start;
            add(unit, At::Block(pad), self.restore(unit, start)?, out)?;
        }
        for block in 0..graph.blocks.len() {
            let mut edges = graph.edges_of(block).iter();
            let call = edges.find(|edge| matches!(edge.kind, EdgeKind::Call | EdgeKind::NoReturn));
            match call {
                Some(call) => self.add_call(unit, block, call, out)?,
                None => self.add_way_out(unit, block, function.is_taken(), out)?,
            }
        }
        for trap in traps(function) {
            let at = graph.blocks[trap].last;
            let told = Op::Here {
                word: SITE,
                value: self.known.token_of(at),
            };
            add(unit, At::Last(trap as u32), told, out)?;
        }
        self.planned.insert(unit.number);
        Ok(())
    }

    fn spills(&self) -> bool {
        true
    }

    fn inserts_anywhere(&self) -> bool {
        true
    }

    fn skip(&mut self, function: usize) {
        self.planned.remove(&function);
    }

    fn memory(&self) -> Option<Memory<'_>> {
        let part = self.wanted.part;
        Some(match self.wanted.log {
            _ if self.counts => Memory {
                bytes: Lane::BYTES,
                form: Form::Calls,
                files: self.wanted.files,
                part,
            },
            None => Memory {
                bytes: BYTES,
                form: Form::Records,
                files: rewrite::CounterFiles::Nowhere,
                part,
            },
            Some(_) => Memory {
                bytes: Lane::BYTES,
                form: Form::Events,
                files: self.wanted.files,
                part,
            },
        })
    }

    fn entered(&self, entry: LinkAddr) -> Vec<Op> {
        let function = self.calls.entered(entry);
        let function = function.map(|number| &self.known.program.functions[number as usize]);
        let kind = match function.is_some_and(|function| function.is_taken()) {
            true => Kind::EnteredLeaves,
            false => Kind::Entered,
        };
        vec![Op::Put {
            routine: ENTER,
            facts: [
                self.known.token_of(entry),
                0,
                kind as u32,
                self.counts.into(),
            ],
        }]
    }

    fn section(&self, outcome: &Outcome<'_>) -> Option<Section> {
        let file = self.dictionary(outcome);
        let bytes = file.encode();
        let id = plan::hash(&bytes);
        Some(Section { bytes, id })
    }

    fn is_apart(&self) -> bool {
        true
    }

    fn says(&self) -> String {
        let graph = &self.calls.graph;
        let numbers = (0..graph.functions).map(|function| self.numbering.count(function));
        format!(
            "{} functions with {} calls, and {} contexts of one at most; {} calls add to the number, {} put a record on top, {} are of other code",
            graph.functions,
            graph.edges.len(),
            numbers.max().unwrap_or(0),
            self.adds,
            self.pushes,
            self.open
        )
    }
}
