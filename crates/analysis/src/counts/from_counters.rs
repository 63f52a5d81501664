//! Counts from the counters of an edited program: what `everypath count` would have recorded of its functions.
//!
//! Problem: few edges have counters, and the analyses of counts know fragments with slots.
//!
//! Approach: counts of all blocks and edges follow from the counters ([`placement::solve`]). Each block that was executed becomes a
//! fragment with a slot; a conditional branch at its end has one for when it was taken, a switch one for each target.
//!
//! Invariants: as much comes to a block as leaves it. Where counters do not allow that, as when the process was killed in the
//! middle of it, the function is told.
//!
//! Limits: where calls by address, returns, and jumps by a table that several jumps share went is not known.

mod marks;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use isa::{Flow, Insn};
use placement::plan::{File, Function, Kind, PlannedEdge, Tool, end_of, start_of};
use trace::{Event, EventKind, Fragment, Jump, Piece, Process, SlotCount, Thread};

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
    pub thread: Thread,
    /// Entries of functions with blocks that more left than came to, or the other way round.
    pub unsound: Vec<u64>,
    /// The program's main function returned, or a call ended the program; `None`: nothing says where its main function is.
    pub ended: Option<bool>,
    /// Direct calls, by link address, of functions without counters.
    pub calls: BTreeMap<u64, u64>,
    /// Instructions of all functions with counters.
    pub insns: u64,
}

impl Counted {
    /// Counts from the counters of a process whose code is at its link addresses and `bias`.
    pub fn of(file: &File, counters: &[u64], bias: u64, code: &dyn CodeOf) -> Counted {
        let mut counted = Counted {
            ended: (file.main != 0).then_some(false),
            calls: file
                .uncounted
                .functions
                .iter()
                .map(|left| (left.entry, 0))
                .collect(),
            ..Counted::default()
        };
        // Main comes last: whether it was still running follows from the others.
        let (main, others): (Vec<_>, Vec<_>) = file
            .functions
            .iter()
            .partition(|function| function.entry == file.main);
        for function in others.into_iter().chain(main) {
            let first = usize::try_from(function.first).unwrap_or(usize::MAX);
            let own = counters.get(first..first.saturating_add(function.counters()));
            let solved = own.and_then(|own| match file.tool {
                Tool::Coverage => Some(Solved::of_marks(function, own)),
                Tool::Edges | Tool::Blocks => Solved::of(function, own),
            });
            match solved {
                Some(mut solved) => {
                    if solved.ends(function, function.entry == file.main) {
                        counted.ended = counted.ended.map(|_| true);
                    }
                    if !solved.is_sound {
                        counted.unsound.push(function.entry);
                    }
                    if function.entry == file.main && counted.ended == Some(false) {
                        solved.runs(function);
                    }
                    counted.add(function, &solved, bias, code);
                }
                None => counted.unsound.push(function.entry),
            }
        }
        counted.calls.retain(|_, calls| *calls > 0);
        counted
    }

    /// The parts of a process that are known from counters.
    pub fn into_process(self, process: Process) -> Process {
        Process {
            fragments: self.fragments,
            jumps: self.jumps,
            threads: vec![self.thread],
            ..process
        }
    }

    fn slot(&mut self, slot: u64, count: u64) {
        if count > 0 {
            self.thread.counts.push(SlotCount { slot, count });
        }
    }

    fn add(&mut self, function: &Function, solved: &Solved, bias: u64, code: &dyn CodeOf) {
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
            self.add_block((pc, module), bytes, extent, count, |from| {
                solved.leaving(function, number, from, bias)
            });
        }
    }

    /// A block with what it executed; `leaving` gives how often its last instruction was taken, or where it went.
    fn add_block(
        &mut self,
        (pc, module): (u64, u32),
        bytes: &[u8],
        extent: Extent,
        count: u64,
        leaving: impl Fn(Flow) -> Leaving,
    ) {
        let Extent {
            bytes: at,
            insns,
            flow,
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
        self.thread.insns = self
            .thread
            .insns
            .saturating_add(count.saturating_mul(insns.into()));
        match leaving(flow) {
            Leaving::Somewhere => self.slot(first_slot, count),
            Leaving::Taken(taken) => {
                fragment.events.push(executed(EventKind::Taken, insns - 1));
                self.slot(first_slot, count);
                self.slot(first_slot + 1, taken.min(count));
            }
            Leaving::To(targets) => {
                // Each jump says that the block was executed once more.
                let all: u64 = targets.iter().map(|(_, count)| count).sum();
                self.slot(first_slot, count.saturating_sub(all));
                for (slot, (target, count)) in (first_slot + 1..).zip(targets) {
                    self.jumps.push(Jump {
                        slot,
                        fragment: id,
                        pc: target,
                        module: Some(module),
                    });
                    self.slot(slot, count);
                }
            }
        }
        self.fragments.push(Arc::new(fragment));
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

/// Ways out of a block, and how often it was left by them.
enum Leaving {
    Somewhere,
    Taken(u64),
    /// Addresses, and how often.
    To(Vec<(u64, u64)>),
}

/// Counts of a function's blocks and edges.
struct Solved {
    blocks: Vec<u64>,
    edges: Vec<u64>,
    is_sound: bool,
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

    fn leaving(&self, function: &Function, block: u32, flow: Flow, bias: u64) -> Leaving {
        let edges = function.edges.iter().zip(&self.edges);
        let own = edges.filter(|(edge, _)| edge.from == end_of(block));
        if super::is_conditional(flow) {
            // All that does not fall through, also to other functions.
            let taken = own.filter(|(edge, _)| {
                !matches!(edge.kind, Kind::Falls | Kind::Abandoned | Kind::End)
            });
            return Leaving::Taken(taken.map(|(_, count)| count).sum());
        }
        let is_case = |edge: &&PlannedEdge| edge.kind == Kind::Case;
        let cases = own.filter(|(edge, _)| is_case(edge));
        let targets = cases.filter_map(|(edge, &count)| {
            let to = function.block_of(edge.to)?;
            debug_assert_eq!(edge.to, start_of(to));
            let (start, _) = function.blocks[to as usize];
            (count > 0).then(|| (start.wrapping_add(bias), count))
        });
        let targets: Vec<_> = targets.collect();
        match targets.is_empty() {
            true => Leaving::Somewhere,
            false => Leaving::To(targets),
        }
    }
}
