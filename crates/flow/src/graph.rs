//! Basic blocks and edges of a function.

use image::{CallSite, LinkAddr};
use isa::Flow;

use crate::descent::{Descent, Step};

/// Instructions that are executed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: LinkAddr,
    pub end: LinkAddr,
    /// Its last instruction.
    pub last: LinkAddr,
    pub insns: u32,
}

/// Kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// To the code behind, also that of a call which returned, and that of another function.
    FallThrough,
    /// By a jump, or a conditional one that is taken.
    Taken,
    /// By a jump table.
    Case,
    /// To another function, which returns to the caller of this one.
    TailCall,
    Call,
    /// A call that does not come back.
    NoReturn,
    Return,
    /// A call that throws.
    LandingPad,
}

impl EdgeKind {
    pub const ALL: [EdgeKind; 8] = [
        EdgeKind::FallThrough,
        EdgeKind::Taken,
        EdgeKind::Case,
        EdgeKind::TailCall,
        EdgeKind::Call,
        EdgeKind::NoReturn,
        EdgeKind::Return,
        EdgeKind::LandingPad,
    ];

    pub fn name(self) -> &'static str {
        match self {
            EdgeKind::FallThrough => "fall-through",
            EdgeKind::Taken => "taken",
            EdgeKind::Case => "case",
            EdgeKind::TailCall => "tail call",
            EdgeKind::Call => "call",
            EdgeKind::NoReturn => "call without return",
            EdgeKind::Return => "return",
            EdgeKind::LandingPad => "landing pad",
        }
    }
}

/// End of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// Index of a block of the function.
    Block(u32),
    /// Code of another function.
    Address(LinkAddr),
    /// The function whose address the dynamic linker puts in this word.
    Slot(LinkAddr),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Index of a block.
    pub from: u32,
    pub to: To,
    pub kind: EdgeKind,
}

/// Blocks and edges of a function.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// By address.
    pub blocks: Vec<Block>,
    /// By the block that they come from.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Index of the block with an address.
    pub fn block_at(&self, addr: LinkAddr) -> Option<usize> {
        let after = self.blocks.partition_point(|block| block.start <= addr);
        let at = after.checked_sub(1)?;
        (addr < self.blocks[at].end).then_some(at)
    }

    /// Index of the block that begins at an address.
    pub fn block_from(&self, start: LinkAddr) -> Option<usize> {
        self.blocks
            .binary_search_by_key(&start, |block| block.start)
            .ok()
    }

    /// Edges of the block with this index.
    pub fn edges_of(&self, block: usize) -> &[Edge] {
        let from = |edge: &Edge| edge.from as usize;
        let first = self.edges.partition_point(|edge| from(edge) < block);
        let rest = &self.edges[first..];
        let own = rest.iter().take_while(|edge| from(edge) == block);
        &rest[..own.count()]
    }

    /// The graph of what was found; `cases` gives the targets of the indirect jump at an address, if
    /// it has a table. `sites`: calls with landing pads.
    pub(crate) fn of(
        descent: &Descent,
        cases: &dyn Fn(u64) -> Option<Vec<u64>>,
        sites: &[CallSite],
    ) -> Graph {
        let mut steps: Vec<&Step> = descent.steps.iter().collect();
        steps.sort_unstable_by_key(|step| step.addr);
        let mut graph = Graph::default();
        let mut lasts: Vec<&Step> = Vec::new();
        let mut before: Option<&Step> = None;
        for step in steps {
            let goes_on = before.is_some_and(|before| {
                before.end() == step.addr && !ends_block(before) && !descent.is_leader(step.addr)
            });
            match graph.blocks.last_mut().filter(|_| goes_on) {
                Some(block) => {
                    block.end = LinkAddr(step.end());
                    block.last = LinkAddr(step.addr);
                    block.insns += 1;
                    lasts.pop();
                }
                None => graph.blocks.push(Block {
                    start: LinkAddr(step.addr),
                    end: LinkAddr(step.end()),
                    last: LinkAddr(step.addr),
                    insns: 1,
                }),
            }
            lasts.push(step);
            before = Some(step);
        }
        for (from, last) in lasts.iter().enumerate() {
            graph.leave(descent, from as u32, last, cases);
            if matches!(last.flow, Flow::Call(_) | Flow::IndirectCall) {
                // They are sorted and do not overlap.
                let after = sites.partition_point(|site| site.start.0 <= last.addr);
                let near = after.checked_sub(1).map(|at| sites[at]);
                if let Some(site) = near.filter(|site| last.addr < site.end.0) {
                    graph.add(from as u32, site.pad.0, EdgeKind::LandingPad);
                }
            }
        }
        graph.edges.sort_unstable();
        graph.edges.dedup();
        // Graphs of all functions are kept.
        graph.blocks.shrink_to_fit();
        graph.edges.shrink_to_fit();
        graph
    }

    /// The edges behind the last instruction of a block.
    fn leave(
        &mut self,
        descent: &Descent,
        from: u32,
        last: &Step,
        cases: &dyn Fn(u64) -> Option<Vec<u64>>,
    ) {
        let slot = last
            .slot
            .map_or(To::Unknown, |slot| To::Slot(LinkAddr(slot)));
        let call = match last.is_last {
            true => EdgeKind::NoReturn,
            false => EdgeKind::Call,
        };
        let outside = |target: u64| To::Address(LinkAddr(target));
        match last.flow {
            Flow::Cond(_, target) | Flow::CountJump(target) | Flow::TransactionBegin(target) => {
                if !descent.is_inside(target) {
                    self.leave_to(from, outside(target), EdgeKind::TailCall);
                } else {
                    self.add(from, target, EdgeKind::Taken);
                }
            }
            Flow::Jump(target) if !descent.is_inside(target) => {
                self.leave_to(from, outside(target), EdgeKind::TailCall);
            }
            Flow::Jump(target) => self.add(from, target, EdgeKind::Taken),
            Flow::Call(target) => self.leave_to(from, outside(target), call),
            Flow::IndirectCall => self.leave_to(from, slot, call),
            Flow::Return(_) => self.leave_to(from, To::Unknown, EdgeKind::Return),
            Flow::IndirectJump => match cases(last.addr) {
                Some(targets) => {
                    for target in targets {
                        match descent.is_inside(target) {
                            true => self.add(from, target, EdgeKind::Case),
                            false => self.leave_to(from, outside(target), EdgeKind::Case),
                        }
                    }
                }
                None => self.leave_to(from, slot, EdgeKind::TailCall),
            },
            _ => {}
        }
        if falls_through(last) {
            match descent.runs_into(last.end()) {
                None => self.add(from, last.end(), EdgeKind::FallThrough),
                Some(entry) => self.leave_to(from, outside(entry), EdgeKind::FallThrough),
            }
        }
    }

    fn leave_to(&mut self, from: u32, to: To, kind: EdgeKind) {
        self.edges.push(Edge { from, to, kind });
    }

    /// An edge to the block at an address, if there is one.
    fn add(&mut self, from: u32, target: u64, kind: EdgeKind) {
        if let Some(to) = self.block_from(LinkAddr(target)) {
            let to = To::Block(to as u32);
            self.edges.push(Edge { from, to, kind });
        }
    }
}

/// A system call ends its block: it may end the thread, or begin another program.
fn ends_block(step: &Step) -> bool {
    !matches!(step.flow, Flow::Next | Flow::Int80)
}

fn falls_through(step: &Step) -> bool {
    match step.flow {
        Flow::Next | Flow::Syscall | Flow::Int80 => true,
        Flow::Cond(..) | Flow::CountJump(_) | Flow::TransactionBegin(_) => true,
        Flow::Call(_) | Flow::IndirectCall => !step.is_last,
        _ => false,
    }
}
