//! Indirect jumps by tables: which table, and how many elements it may have.
//!
//! Problem: the base of a jump table may be loaded far before the jump, kept in a register over a loop or
//! spilled; its index is compared before, perhaps through a copy or in memory.
//!
//! Approach: a propagation of values over the function's graph. Bounds that grow several times are given
//! up, so it ends.

use std::collections::{BTreeSet, HashMap, HashSet};

use isa::{Flow, Insn};

use crate::code::Code;
use crate::graph::{EdgeKind, Graph, To};
use crate::state::State;
use crate::values::Table;

/// Visits of a block after which bounds that still grow are given up.
const GROWTHS: u8 = 3;
/// Visits of a block after which nothing is known of the function.
const MOST_VISITS: u8 = 40;
/// Blocks before an indirect jump that are looked at first, and then.
const NEAR: usize = 5;
const FAR: usize = 30;
/// Blocks of a function that is not looked at as a whole.
const MOST_BLOCKS: usize = 20_000;
/// Visits of all blocks after which nothing is known.
const MOST_WORK: usize = 60_000;

/// A shape of an indirect jump's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Added to each element.
    pub base: u64,
    pub table: Table,
}

/// The target of an indirect jump, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    OfTable(Shape),
    /// A constant address: a label whose address was taken.
    Label(u64),
}

/// Targets of indirect jumps of a graph, by their addresses.
///
/// Most tables are made and bounded a few blocks before their jump, so these are looked at first, with
/// nothing known before them; what is left, or has no bound there, asks for more, and then for the whole function.
pub(crate) fn targets(
    code: &Code<'_>,
    graph: &Graph,
    entries: &[u64],
    jumps: &[u64],
) -> HashMap<u64, Target> {
    let before = graph.predecessors();
    let mut found: HashMap<u64, Target> = HashMap::new();
    for layers in [NEAR, FAR, usize::MAX] {
        let left = jumps.iter().copied();
        let is_bounded = |target: &Target| match target {
            Target::OfTable(shape) => shape.table.is_guarded,
            Target::Label(_) => true,
        };
        let left: Vec<u64> = left
            .filter(|jump| !found.get(jump).is_some_and(is_bounded))
            .collect();
        if left.is_empty() {
            break;
        }
        let wanted = near(graph, &before, &left, layers);
        if layers > NEAR && graph.blocks.len() > MOST_BLOCKS {
            break;
        }
        let entries = if layers == usize::MAX { entries } else { &[] };
        for (jump, target) in propagate(code, graph, &wanted, &before, entries) {
            let near = found.entry(jump).or_insert(target);
            if let (Target::OfTable(known), Target::OfTable(shape)) = (&mut *near, target)
                && known.base == shape.base
                && known.table.address == shape.table.address
            {
                *known = shape;
            }
        }
    }
    found
}

/// Blocks from which control comes to a jump by so many edges at most.
fn near(graph: &Graph, before: &[Vec<u32>], jumps: &[u64], layers: usize) -> Vec<bool> {
    let mut near = vec![false; graph.blocks.len()];
    let blocks = jumps.iter();
    let mut layer: Vec<usize> = blocks
        .filter_map(|&jump| graph.block_at(image::LinkAddr(jump)))
        .collect();
    for _ in 0..layers {
        if layer.is_empty() {
            break;
        }
        let mut next = Vec::new();
        for block in layer {
            if !std::mem::replace(&mut near[block], true) {
                next.extend(before[block].iter().map(|&block| block as usize));
            }
        }
        layer = next;
    }
    near
}

/// Targets of the indirect jumps in the blocks that are `wanted`, which control enters at `entries`
/// and from other blocks.
fn propagate(
    code: &Code<'_>,
    graph: &Graph,
    wanted: &[bool],
    predecessors: &[Vec<u32>],
    entries: &[u64],
) -> HashMap<u64, Target> {
    let mut found = HashMap::new();
    let mut flow = Propagation {
        code,
        graph,
        wanted,
        before: vec![None; graph.blocks.len()],
        visits: vec![0; graph.blocks.len()],
        waiting: BTreeSet::new(),
    };
    for &entry in entries {
        if let Some(block) = graph.block_from(image::LinkAddr(entry)) {
            flow.enter(block, &State::at_entry(entry));
        }
    }
    for (block, before) in predecessors.iter().enumerate() {
        let is_first = before.is_empty() || before.iter().any(|&one| !wanted[one as usize]);
        if wanted[block] && is_first && entries.is_empty() {
            flow.enter(block, &State::at_entry(graph.blocks[block].start.0));
        }
    }
    if !flow.run() {
        return found;
    }
    flow.at_indirect_jumps(|insn, state| {
        if let Some(target) = state.target(insn) {
            found.insert(insn.pc(), target);
        }
    });
    found
}

/// Indirect jumps of a function at which the stack pointer is that with which it was entered, at one place.
pub(crate) fn without_frame(code: &Code<'_>, graph: &Graph, entry: u64) -> HashSet<u64> {
    let mut found = HashSet::new();
    if graph.blocks.len() > MOST_BLOCKS {
        return found;
    }
    let mut flow = Propagation {
        code,
        graph,
        wanted: &vec![true; graph.blocks.len()],
        before: vec![None; graph.blocks.len()],
        visits: vec![0; graph.blocks.len()],
        waiting: BTreeSet::new(),
    };
    if let Some(block) = graph.block_from(image::LinkAddr(entry)) {
        flow.enter(block, &State::at_entry(entry));
    }
    if flow.run() {
        flow.at_indirect_jumps(|insn, state| {
            if state.has_no_frame() {
                found.insert(insn.pc());
            }
        });
    }
    found
}

struct Propagation<'a> {
    code: &'a Code<'a>,
    graph: &'a Graph,
    wanted: &'a [bool],
    before: Vec<Option<State>>,
    visits: Vec<u8>,
    waiting: BTreeSet<usize>,
}

impl Propagation<'_> {
    /// `false`: it did not come to an end.
    fn run(&mut self) -> bool {
        let mut work = 0;
        while let Some(block) = self.waiting.pop_first() {
            work += 1;
            if work > MOST_WORK {
                return false;
            }
            let Some(mut state) = self.before[block].clone() else {
                continue;
            };
            let mut last = None;
            self.execute(block, &mut state, |insn, _| last = Some(*insn));
            let Some(last) = last else { continue };
            let edges = self.graph.edges_of(block).to_vec();
            for edge in edges {
                let To::Block(to) = edge.to else { continue };
                if !self.wanted[to as usize] {
                    continue;
                }
                match last.flow() {
                    _ if edge.kind == EdgeKind::LandingPad => {
                        self.enter(to as usize, &State::at_pad(&state, last.pc()));
                    }
                    Flow::Cond(cc, _) if state.is_compared() => {
                        let mut state = state.clone();
                        state.branch(cc.0, edge.kind == EdgeKind::Taken);
                        self.enter(to as usize, &state);
                    }
                    _ => self.enter(to as usize, &state),
                }
            }
            if self.visits[block] >= MOST_VISITS {
                return false;
            }
        }
        true
    }

    /// Looks at the indirect jumps, with what is known before them.
    fn at_indirect_jumps(&self, mut each: impl FnMut(&Insn, &State)) {
        for (block, state) in self.before.iter().enumerate() {
            let Some(state) = state else { continue };
            self.execute(block, &mut state.clone(), |insn, state| {
                if insn.flow() == Flow::IndirectJump {
                    each(insn, state);
                }
            });
        }
    }

    /// Control comes to a block with this state.
    fn enter(&mut self, block: usize, state: &State) {
        let widens = self.visits[block] >= GROWTHS;
        match &mut self.before[block] {
            None => self.before[block] = Some(state.clone()),
            Some(before) => {
                if !before.join(state, block as u64, widens) {
                    return;
                }
            }
        }
        self.visits[block] = self.visits[block].saturating_add(1);
        self.waiting.insert(block);
    }

    fn execute(&self, block: usize, state: &mut State, mut each: impl FnMut(&Insn, &State)) {
        let block = &self.graph.blocks[block];
        let mut addr = block.start.0;
        let mut reader = self.code.reader(addr);
        while addr < block.end.0 {
            let Ok(insn) = reader.decode(addr) else {
                return;
            };
            each(&insn, state);
            state.execute(&insn);
            addr = insn.next_pc();
        }
    }
}
