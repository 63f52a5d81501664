//! Counts from the counters of an edited program: what `everypath count` would have recorded of its functions.
//!
//! Problem: few edges have counters, and the analyses of counts know fragments with slots.
//!
//! Approach: counts of all blocks and edges follow from the counters ([`placement::solve`]). Each block that was executed becomes a
//! fragment with a slot; a conditional branch at its end has one for when it was taken, a switch one for each target. The counters of
//! each thread are solved by themselves, too: what follows is linear in them, so the threads' counts add up to those of all.
//!
//! Invariants: as much comes to a block as leaves it. Where counters do not allow that, as when the process was killed in the
//! middle of it, the function is told. The counts of all threads come first: where those of single threads do not add up to them,
//! the rest is of no thread in particular.
//!
//! Limits: where returns went is not known, and where calls by an address and jumps by a table that several jumps share went only if
//! the program has tables of their targets ([`targets`]); of these, targets for which there was no room are not known.

mod marks;
mod targets;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use isa::{Flow, Insn};
use placement::marks::Implied;
use placement::plan::{File, Function, Kind, PlannedEdge, Tool, end_of, start_of};
use trace::{Event, EventKind, Fragment, Jump, Piece, Process, SlotCount, Thread};

pub use targets::{Targets, tables};
use ways::{Ways, with_rest};

/// Numbers that a process left.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// Numbers of threads, each once, with the counters of each.
    pub threads: &'a [(u32, Vec<u64>)],
    pub targets: &'a Targets,
}

/// Code of a file by link address.
pub trait CodeOf {
    /// Bytes from an address on, and index of the module that they are in.
    fn at(&self, addr: u64) -> Option<(&[u8], u32)>;
}

/// Counts of one process.
#[derive(Debug, Default)]
pub struct Counted {
    pub fragments: Vec<Arc<Fragment>>,
    pub jumps: Vec<Jump>,
    /// Threads with counters, and if there is anything that no thread has to itself, one whose number is [`Thread::SEVERAL`].
    pub threads: Vec<Thread>,
    /// Entries of functions with blocks that more left than came to, or the other way round.
    pub unsound: Vec<u64>,
    /// The program's main function returned, or a call ended the program; `None`: nothing says where its main function is, as in
    /// a library.
    pub ended: Option<bool>,
    /// Direct calls, by link address, of functions without counters.
    pub calls: BTreeMap<u64, u64>,
    /// Instructions of all functions with counters.
    pub insns: u64,
}

impl Counted {
    /// Counts from the counters of a process whose code is at its link addresses and `bias`; `ended`: code of another file ended
    /// the process.
    pub fn of(
        file: &File,
        Left { threads, targets }: Left<'_>,
        bias: u64,
        code: &dyn CodeOf,
        ended: bool,
    ) -> Counted {
        let sums = sums(threads);
        let left = file.uncounted.functions.iter();
        let own = threads.iter().map(|&(tid, _)| Thread {
            tid,
            ..Thread::default()
        });
        let mut counted = Counted {
            ended: (file.main != 0).then_some(ended),
            calls: left.map(|left| (left.entry, 0)).collect(),
            threads: own.collect(),
            ..Counted::default()
        };
        // Main comes last: whether it was still running follows from the others.
        let (main, others): (Vec<_>, Vec<_>) = file
            .functions
            .iter()
            .partition(|function| function.entry == file.main);
        for function in others.into_iter().chain(main) {
            let first = usize::try_from(function.first).unwrap_or(usize::MAX);
            let own = first..first.saturating_add(function.counters());
            let solved = sums.get(own.clone());
            let solved = solved.and_then(|own| match file.tool {
                Tool::Branches => Some(Solved::of_marks(function, own)),
                Tool::Coverage => Some(Solved::of_marks_of_blocks(function, own)),
                Tool::Edges | Tool::Blocks => Solved::of(function, own),
            });
            match solved {
                Some(mut solved) => {
                    if solved.ends(function, function.entry == file.main) {
                        counted.ended = Some(true);
                    }
                    let parts = match (threads, file.tool) {
                        ([], _) | ([_], _) | (_, Tool::Branches | Tool::Coverage) => Vec::new(),
                        _ => parts(function, threads, own),
                    };
                    if !solved.is_sound || parts.iter().any(|(_, part)| !part.is_sound) {
                        counted.unsound.push(function.entry);
                    }
                    if function.entry == file.main && counted.ended == Some(false) {
                        solved.runs(function);
                    }
                    counted.add(function, (&solved, &parts), targets, (bias, code));
                }
                None => counted.unsound.push(function.entry),
            }
        }
        counted.calls.retain(|_, calls| *calls > 0);
        counted
    }

    /// Adds the counts of another file of the same process, whose modules come behind `modules` others.
    pub fn append(&mut self, other: Counted, modules: u32) {
        let (fragments, slots) = (self.fragments.len() as u32, self.slots());
        let behind = |module: Option<u32>| module.map(|module| module + modules);
        self.fragments
            .extend(other.fragments.into_iter().map(|fragment| {
                let mut fragment = Arc::unwrap_or_clone(fragment);
                fragment.id += fragments;
                fragment.first_slot += slots;
                for piece in &mut fragment.pieces {
                    piece.module = behind(piece.module);
                }
                Arc::new(fragment)
            }));
        self.jumps.extend(other.jumps.into_iter().map(|jump| Jump {
            slot: jump.slot + slots,
            fragment: jump.fragment + fragments,
            module: behind(jump.module),
            ..jump
        }));
        for thread in other.threads {
            let known = self.threads.iter().position(|own| own.tid == thread.tid);
            let own = known.unwrap_or_else(|| {
                self.threads.push(Thread {
                    tid: thread.tid,
                    ..Thread::default()
                });
                self.threads.len() - 1
            });
            let own = &mut self.threads[own];
            own.insns = own.insns.saturating_add(thread.insns);
            own.counts
                .extend(thread.counts.into_iter().map(|count| SlotCount {
                    slot: count.slot + slots,
                    ..count
                }));
        }
        self.ended = match (self.ended, other.ended) {
            (Some(one), Some(other)) => Some(one || other),
            (one, other) => one.or(other),
        };
        self.unsound.extend(other.unsound);
        self.insns += other.insns;
    }

    /// Executions of the block that begins at an address.
    pub fn executions(&self, pc: u64) -> u64 {
        let begins =
            |fragment: &&Arc<Fragment>| fragment.pieces.first().is_some_and(|piece| piece.pc == pc);
        let Some(block) = self.fragments.iter().find(begins) else {
            return 0;
        };
        // An execution whose jump has a known target is counted by the slot of that jump instead of the block's own.
        let jumps = self.jumps.iter().filter(|jump| jump.fragment == block.id);
        let slots: Vec<u64> = jumps
            .map(|jump| jump.slot)
            .chain([block.first_slot])
            .collect();
        let counts = self.threads.iter().flat_map(|thread| &thread.counts);
        let own = counts.filter(|count| slots.contains(&count.slot));
        own.map(|count| count.count).fold(0, u64::saturating_add)
    }

    /// The parts of a process that are known from counters.
    pub fn into_process(self, process: Process) -> Process {
        Process {
            fragments: self.fragments,
            jumps: self.jumps,
            threads: self.threads,
            ..process
        }
    }

    /// Gives the threads what they counted in slots from `first` on; `whole`: of all threads together. A slot of which the
    /// parts are more than the whole has less of the largest; what they lack is of no thread in particular.
    fn share_out(&mut self, block: &Slots, whole: &[u64], parts: &[(usize, Vec<u64>)]) {
        for (at, (slot, &count)) in (block.first..).zip(whole).enumerate() {
            let own = parts.iter();
            let mut own: Vec<(usize, u64)> =
                own.map(|(thread, part)| (*thread, part[at])).collect();
            let sum = |own: &[(usize, u64)]| {
                own.iter()
                    .fold(0u64, |sum, part| sum.saturating_add(part.1))
            };
            while let Some(excess) = sum(&own).checked_sub(count).filter(|excess| *excess > 0)
                && let Some(largest) = own.iter_mut().max_by_key(|part| part.1)
            {
                largest.1 -= excess.min(largest.1);
            }
            let rest = count - sum(&own);
            own.retain(|part| part.1 > 0);
            if rest > 0 {
                own.push((self.several(), rest));
            }
            for (thread, count) in own {
                let thread = &mut self.threads[thread];
                if at < block.executions {
                    let insns = count.saturating_mul(block.insns.into());
                    thread.insns = thread.insns.saturating_add(insns);
                }
                let counts = &mut thread.counts;
                match counts.last_mut() {
                    Some(last) if last.slot == slot => {
                        last.count = last.count.saturating_add(count)
                    }
                    _ => counts.push(SlotCount { slot, count }),
                }
            }
        }
    }

    /// The thread that has what no other has to itself; the only one, if there is only one.
    fn several(&mut self) -> usize {
        let is_it = |thread: &Thread| thread.tid == Thread::SEVERAL;
        let found = match self.threads.len() {
            1 => Some(0),
            _ => self.threads.iter().position(is_it),
        };
        found.unwrap_or_else(|| {
            self.threads.push(Thread {
                tid: Thread::SEVERAL,
                ..Thread::default()
            });
            self.threads.len() - 1
        })
    }

    fn add(
        &mut self,
        function: &Function,
        (solved, parts): (&Solved, &[(usize, Solved)]),
        tables: &Targets,
        (bias, code): (u64, &dyn CodeOf),
    ) {
        for (number, &(start, len)) in (0..).zip(&function.blocks) {
            let count = solved.blocks[number as usize];
            let Some((bytes, module)) = code.at(start) else {
                continue;
            };
            let Some(bytes) = bytes.get(..len as usize) else {
                continue;
            };
            let pc = start.wrapping_add(bias);
            let Some(extent) = extent(pc, bytes) else {
                continue;
            };
            self.insns += u64::from(extent.insns);
            if count == 0 {
                continue;
            }
            if let Flow::Call(target) | Flow::Jump(target) = extent.flow
                && let Some(calls) = self.calls.get_mut(&target.wrapping_sub(bias))
            {
                *calls = calls.saturating_add(count);
            }
            let targets = tables.of(function, number);
            let ways = match targets.is_empty() {
                true => solved.ways(function, number, extent.flow, bias),
                false => Ways::Tallied(targets),
            };
            let slots = self.add_block((pc, module), bytes, extent, &ways);
            let values = |solved: &Solved, tid| match &ways {
                Ways::Tallied(targets) => {
                    let executed = solved.blocks[number as usize];
                    let led = tables.counts((function, number), targets, tid, executed);
                    with_rest(executed, led)
                }
                ways => solved.values(function, number, ways),
            };
            let whole = values(solved, None);
            let threads = &self.threads;
            let own = parts.iter();
            let own: Vec<_> = own
                .map(|(thread, part)| (*thread, values(part, Some(threads[*thread].tid))))
                .collect();
            if let Ways::Tallied(targets) = &ways {
                for (target, count) in targets.iter().zip(&whole[1..]) {
                    if let Some(calls) = self.calls.get_mut(&target.wrapping_sub(bias)) {
                        *calls = calls.saturating_add(*count);
                    }
                }
            }
            self.share_out(&slots, &whole, &own);
        }
    }

    /// A block with a slot for how often it was executed, and those of its ways out.
    fn add_block(
        &mut self,
        (pc, module): (u64, u32),
        bytes: &[u8],
        extent: Extent,
        ways: &Ways,
    ) -> Slots {
        let Extent {
            bytes: at, insns, ..
        } = extent;
        let executed = |kind, from| Event {
            from,
            to: insns,
            kind,
        };
        let id = self.fragments.len() as u32;
        let first_slot = self.slots();
        let mut fragment = Fragment {
            id,
            pieces: vec![Piece {
                pc,
                len: at as u32,
                module: Some(module),
            }],
            code: bytes[..at].to_vec(),
            first_slot,
            events: vec![executed(EventKind::Executed, 0)],
            ..Fragment::default()
        };
        if matches!(ways, Ways::Taken) {
            fragment.events.push(executed(EventKind::Taken, insns - 1));
        }
        // Each jump says that the block was executed once more.
        let targets = ways.targets();
        for (slot, &pc) in (first_slot + 1..).zip(&targets) {
            self.jumps.push(Jump {
                slot,
                fragment: id,
                pc,
                module: Some(module),
            });
        }
        self.fragments.push(Arc::new(fragment));
        Slots {
            first: first_slot,
            executions: 1 + targets.len(),
            insns,
        }
    }

    /// Number of the next slot.
    fn slots(&self) -> u64 {
        let last = self.fragments.last();
        let events = last.map_or(0, |last| last.first_slot + last.events.len() as u64);
        let jumps = self.jumps.last().map_or(0, |last| last.slot + 1);
        events.max(jumps)
    }
}

/// Bytes and number of a block's instructions, and what the last does to control.
#[derive(Clone, Copy, Debug)]
struct Extent {
    bytes: usize,
    insns: u16,
    flow: Flow,
}

/// Bytes and number of a block's instructions, and what the last does to control. A block has no more of them than an
/// event can name.
fn extent(pc: u64, bytes: &[u8]) -> Option<Extent> {
    let (mut at, mut insns, mut flow) = (0, 0u16, Flow::Next);
    while at < bytes.len() && insns < u16::MAX {
        let rest = &bytes[at..];
        let addr = pc.wrapping_add(at as u64);
        let insn = Insn::decode(&rest[..rest.len().min(15)], addr).ok()?;
        insns += 1;
        at += insn.len();
        flow = insn.flow();
    }
    (insns > 0).then_some(Extent {
        bytes: at,
        insns,
        flow,
    })
}

/// Slots of a block.
struct Slots {
    /// Number of the first.
    first: u64,
    /// Slots, from the first on, that count executions of the block.
    executions: usize,
    /// Instructions of the block.
    insns: u16,
}

/// Counters of all threads together.
fn sums(threads: &[(u32, Vec<u64>)]) -> Vec<u64> {
    let mut sums = Vec::new();
    for (_, counters) in threads {
        sums.resize(sums.len().max(counters.len()), 0u64);
        for (sum, counter) in sums.iter_mut().zip(counters) {
            *sum = sum.saturating_add(*counter);
        }
    }
    sums
}

/// Counts of a function in each thread that executed some of it.
fn parts(
    function: &Function,
    threads: &[(u32, Vec<u64>)],
    own: std::ops::Range<usize>,
) -> Vec<(usize, Solved)> {
    let threads = threads.iter().enumerate();
    let parts = threads.filter_map(|(at, (_, counters))| {
        let own = counters.get(own.clone())?;
        let is_used = own.iter().any(|count| *count > 0);
        is_used.then(|| Solved::of(function, own).map(|solved| (at, solved)))?
    });
    parts.collect()
}

/// Counts of a function's blocks and edges.
struct Solved {
    blocks: Vec<u64>,
    edges: Vec<u64>,
    is_sound: bool,
    /// Edges are known, not blocks alone.
    has_ways: bool,
}

impl Solved {
    fn of(function: &Function, counters: &[u64]) -> Option<Solved> {
        let (graph, chords) = function.graph();
        let mut of_edge = vec![0; function.edges.len()];
        for (at, &count) in chords.edges().zip(counters) {
            of_edge[at] = count;
        }
        let counts = placement::solve(&graph, &chords, |at| of_edge[at]).ok()?;
        let mut solved = Solved {
            blocks: vec![0; function.blocks.len()],
            edges: Vec::with_capacity(counts.len()),
            is_sound: true,
            has_ways: true,
        };
        for (edge, &count) in function.edges.iter().zip(&counts) {
            // A call that returns twice, as that of `fork`, is left less often than it was made.
            solved.is_sound &= count >= 0 || matches!(edge.kind, Kind::Abandoned | Kind::End);
            let count = u64::try_from(count.max(0)).unwrap_or(u64::MAX);
            solved.edges.push(count);
            if let (Kind::Block, Some(block)) = (edge.kind, function.block_of(edge.from)) {
                solved.blocks[block as usize] = count;
            }
        }
        Some(solved)
    }

    /// Blocks and edges that were executed count once; a block counts as often as it has ways out that were taken.
    fn of_marks(function: &Function, marks: &[u64]) -> Solved {
        let edges = marks::executed(function, marks);
        let mut taken: HashMap<u32, u64> = HashMap::new();
        for (edge, &executed) in function.edges.iter().zip(&edges) {
            if edge.kind != Kind::Block {
                *taken.entry(edge.from).or_default() += executed;
            }
        }
        let mut blocks = vec![0; function.blocks.len()];
        for (edge, &executed) in function.edges.iter().zip(&edges) {
            if let (Kind::Block, Some(block)) = (edge.kind, function.block_of(edge.from)) {
                let ways = taken.get(&edge.to).copied().unwrap_or(0);
                blocks[block as usize] = if executed > 0 { ways.max(1) } else { 0 };
            }
        }
        Solved {
            blocks,
            edges,
            is_sound: true,
            has_ways: true,
        }
    }

    /// Blocks that were executed count once, and so do their edges if they have no other.
    fn of_marks_of_blocks(function: &Function, marks: &[u64]) -> Solved {
        let graph = function.graph_of_blocks();
        let with_marks = function.edges.iter().filter(|edge| edge.has_counter);
        let marked = with_marks.zip(marks).filter(|(_, mark)| **mark > 0);
        let marked = marked.filter_map(|(edge, _)| function.block_of(edge.from));
        let executed = Implied::of(&graph).executed(marked.map(|block| 1 + block));
        let mut ways: HashMap<u32, u64> = HashMap::new();
        for edge in function
            .edges
            .iter()
            .filter(|edge| edge.kind != Kind::Block)
        {
            *ways.entry(edge.from).or_default() += 1;
        }
        let blocks = executed[1..].iter().take(function.blocks.len());
        let blocks: Vec<u64> = blocks.map(|is_executed| u64::from(*is_executed)).collect();
        let edges = function.edges.iter().map(|edge| {
            let is_only = edge.kind == Kind::Block || ways[&edge.from] == 1;
            let block = function.block_of(edge.from).filter(|_| is_only);
            block.map_or(0, |block| blocks[block as usize])
        });
        Solved {
            edges: edges.collect(),
            blocks,
            is_sound: true,
            has_ways: false,
        }
    }

    /// The process was stopped while this function, its main one, was active: it was entered.
    fn runs(&mut self, function: &Function) {
        let mut blocks = function.blocks.iter();
        if let Some(entry) = blocks.position(|&(start, _)| start == function.entry) {
            self.blocks[entry] = self.blocks[entry].max(1);
        }
    }

    /// Whether the program ended in it.
    fn ends(&self, function: &Function, is_main: bool) -> bool {
        let mut edges = function.edges.iter().zip(&self.edges);
        edges.any(|(edge, &count)| {
            count > 0 && (edge.kind == Kind::End || is_main && edge.kind == Kind::Out)
        })
    }

    /// Ways out of a block that ends with such an instruction.
    fn ways(&self, function: &Function, block: u32, flow: Flow, bias: u64) -> Ways {
        if !self.has_ways {
            return Ways::Somewhere;
        }
        if super::is_conditional(flow) {
            return Ways::Taken;
        }
        let edges = function.edges.iter().enumerate();
        let is_case = |edge: &PlannedEdge| edge.from == end_of(block) && edge.kind == Kind::Case;
        let targets = edges.filter_map(|(at, edge)| {
            let to = function.block_of(edge.to).filter(|_| is_case(edge))?;
            debug_assert_eq!(edge.to, start_of(to));
            let (start, _) = function.blocks[to as usize];
            (self.edges[at] > 0).then(|| (at, start.wrapping_add(bias)))
        });
        let targets: Vec<_> = targets.collect();
        match targets.is_empty() {
            true => Ways::Somewhere,
            false => Ways::To(targets),
        }
    }

    /// Counts of a block's slots.
    fn values(&self, function: &Function, block: u32, ways: &Ways) -> Vec<u64> {
        let count = self.blocks[block as usize];
        match ways {
            Ways::Somewhere | Ways::Tallied(_) => vec![count],
            Ways::Taken => {
                let edges = function.edges.iter().zip(&self.edges);
                let own = edges.filter(|(edge, _)| edge.from == end_of(block));
                // All that does not fall through, also to other functions.
                let taken = own.filter(|(edge, _)| {
                    !matches!(edge.kind, Kind::Falls | Kind::Abandoned | Kind::End)
                });
                let taken: u64 = taken.map(|(_, count)| count).sum();
                vec![count, taken.min(count)]
            }
            Ways::To(targets) => {
                let led = targets.iter().map(|&(edge, _)| self.edges[edge]);
                with_rest(count, led.collect())
            }
        }
    }
}
