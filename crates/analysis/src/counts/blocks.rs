//! Basic blocks and edges.
//!
//! A block is entered at its first instruction only and left at its last: it begins
//! where a direct branch goes, behind a branch, and wherever control arrived
//! otherwise (a handler, the target of an indirect branch, where a system call or a
//! signal came back to), which shows in the counts: more was executed than
//! came from the instruction before, or less.
//!
//! Invariant: all instructions of a block have its count, so that the sum over
//! blocks of count times instructions is what was retired.

use isa::Flow;

use super::Counts;

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of its first instruction in [`Counts::insns`], and how many it has.
    pub first: usize,
    pub len: usize,
    pub count: u64,
}

/// How control goes from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// To what follows: nothing branches, or the branch is not taken.
    Fall,
    /// A conditional branch that is taken.
    Taken,
    Jump,
    Call,
    Return,
}

/// From block to block, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    /// `None`: to where nothing was executed, such as a fault.
    pub to: Option<usize>,
    pub kind: EdgeKind,
    pub count: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// In the order of the instructions.
    pub blocks: Vec<Block>,
    /// By block they come from; none has a count of 0.
    pub edges: Vec<Edge>,
}

/// The blocks of what was counted, and the edges that are known.
pub fn of(counts: &Counts) -> Blocks {
    let insns = &counts.insns;
    let is_leader = leaders(counts);
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of = vec![0; insns.len()];
    for (at, insn) in insns.iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if !is_leader[at] => block.len += 1,
            _ => blocks.push(Block {
                first: at,
                len: 1,
                count: insn.count,
            }),
        }
        block_of[at] = blocks.len() - 1;
    }
    let mut edges = Vec::new();
    for (from, block) in blocks.iter().enumerate() {
        let last = &insns[block.first + block.len - 1];
        let to = |insn: Option<u32>| insn.map(|at| block_of[at as usize]);
        let mut edge = |kind, to, count| {
            if count > 0 {
                edges.push(Edge {
                    from,
                    to,
                    kind,
                    count,
                });
            }
        };
        match last.flow {
            Flow::Cond(..) | Flow::CountJump(_) => {
                edge(EdgeKind::Fall, to(last.next), last.fell);
                edge(EdgeKind::Taken, to(last.target), last.taken());
            }
            Flow::Jump(_) | Flow::TransactionBegin(_) => {
                edge(EdgeKind::Jump, to(last.target), last.count);
            }
            Flow::Call(_) => edge(EdgeKind::Call, to(last.target), last.count),
            Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_) => {
                let kind = match last.flow {
                    Flow::IndirectJump => EdgeKind::Jump,
                    Flow::IndirectCall => EdgeKind::Call,
                    _ => EdgeKind::Return,
                };
                for went in counts.went_from(block.first + block.len - 1) {
                    edge(kind, to(went.to), went.count);
                }
            }
            // Its targets are not counted.
            Flow::Far(_) => {}
            Flow::Next | Flow::Syscall | Flow::Int80 | Flow::Odd | Flow::Trap => {
                edge(EdgeKind::Fall, to(last.next), last.fell);
            }
        }
    }
    Blocks { blocks, edges }
}

/// Whether each instruction begins a block.
fn leaders(counts: &Counts) -> Vec<bool> {
    let insns = &counts.insns;
    let mut is_leader = vec![false; insns.len()];
    for to in counts.went.iter().filter_map(|went| went.to) {
        is_leader[to as usize] = true;
    }
    for (at, insn) in insns.iter().enumerate() {
        if let Some(target) = insn.target {
            is_leader[target as usize] = true;
        }
        // The next instruction of the list begins a block, unless this one falls through to it.
        let behind = at + 1;
        if behind >= insns.len() {
            continue;
        }
        let other = &insns[behind];
        let follows = insn.next == Some(behind as u32)
            && insn.flow == Flow::Next
            && insn.unit == other.unit
            && insn.at.wrapping_add(insn.bytes.len() as u64) == other.at;
        if !follows || insn.count != other.count {
            is_leader[behind] = true;
        }
    }
    if let Some(first) = is_leader.first_mut() {
        *first = true;
    }
    is_leader
}
