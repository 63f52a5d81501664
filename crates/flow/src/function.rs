//! A function: its code, the evidence for it, its graph, and what that may lack.

use std::ops::Range;

use image::LinkAddr;

use crate::Failed;
use crate::graph::Graph;
use crate::tables::JumpTable;

/// Reasons to take an address for the beginning of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// An unwind table begins there.
    pub unwind: bool,
    /// A symbol, or the entry point, or an element of an array of initializers.
    pub named: bool,
    /// A relocation points there.
    pub pointer: bool,
    /// It is called directly.
    pub called: bool,
    /// An instruction takes its address.
    pub taken: bool,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    pub entry: LinkAddr,
    /// As the symbol table has it.
    pub name: Option<String>,
    /// Its own code, then its parts elsewhere.
    pub ranges: Vec<Range<LinkAddr>>,
    pub evidence: Evidence,
    /// Entries besides the first one, by jumps and calls into its middle.
    pub others: Vec<LinkAddr>,
    pub graph: Graph,
    pub tables: Vec<JumpTable>,
    /// Indirect jumps that leave the function with the caller's frame.
    pub tail_jumps: Vec<LinkAddr>,
    pub returns: bool,
    /// Reasons for the graph not to be complete.
    pub failed: Vec<Failed>,
}

impl Function {
    /// Whether the graph has every instruction and edge that can be executed.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    /// Whether a call by address may lead to it, as far as this file shows: its address is in an instruction or in
    /// data.
    pub fn is_taken(&self) -> bool {
        self.evidence.pointer || self.evidence.taken
    }

    /// Bytes of its ranges.
    pub fn len(&self) -> u64 {
        let each = self.ranges.iter();
        each.map(|range| range.end.0 - range.start.0).sum()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All blocks where control enters it.
    pub fn entry_blocks(&self) -> Vec<u32> {
        let all = [self.entry].into_iter().chain(self.others.iter().copied());
        let blocks = all.filter_map(|entry| self.graph.block_from(entry));
        blocks.map(|block| block as u32).collect()
    }
}
