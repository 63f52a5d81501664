//! The most executed blocks and lines, and totals.

use hashbrown::HashMap;

use super::blocks::{Block, Blocks};
use super::{Counted, Counts};

/// Sums over everything that was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Executed instructions.
    pub executed: u128,
    /// Distinct ones.
    pub insns: u64,
    pub blocks: u64,
    /// Distinct conditional branches, and those of them that went one way only.
    pub branches: u64,
    pub never_taken: u64,
    pub always_taken: u64,
    /// How often conditional branches were executed, and taken.
    pub decided: u128,
    pub taken: u128,
}

pub fn totals(counts: &Counts, blocks: &Blocks) -> Totals {
    let mut totals = Totals {
        insns: counts.insns.len() as u64,
        blocks: blocks.blocks.len() as u64,
        ..Totals::default()
    };
    for insn in &counts.insns {
        totals.executed += u128::from(insn.count);
        if insn.is_conditional() {
            totals.branches += 1;
            totals.decided += u128::from(insn.count);
            totals.taken += u128::from(insn.taken());
            totals.never_taken += u64::from(insn.taken() == 0);
            totals.always_taken += u64::from(insn.fell == 0);
        }
    }
    totals
}

/// Executed instructions of a block.
pub fn weight(block: &Block) -> u128 {
    u128::from(block.count) * block.len as u128
}

/// The blocks with the most executed instructions whose first instruction is `wanted`.
pub fn blocks<'a>(
    counts: &Counts,
    blocks: &'a Blocks,
    top: usize,
    wanted: impl Fn(&Counted) -> bool,
) -> Vec<&'a Block> {
    let all = blocks.blocks.iter();
    let mut hot: Vec<&Block> = all
        .filter(|block| wanted(&counts.insns[block.first]))
        .collect();
    hot.sort_by_key(|block| (std::cmp::Reverse(weight(block)), block.first));
    hot.truncate(top);
    hot
}

/// A source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Index into [`Counts::texts`].
    pub file: u32,
    pub line: u32,
    /// Executed instructions.
    pub executed: u128,
    /// Executions of the instruction of it that was executed most.
    pub most: u64,
    /// Text of the function's name.
    pub function: Option<u32>,
}

/// The lines with the most executed instructions.
pub fn lines(counts: &Counts, top: usize, wanted: impl Fn(&Counted) -> bool) -> Vec<Line> {
    let mut lines: HashMap<(u32, u32), Line> = HashMap::new();
    for insn in counts.insns.iter().filter(|insn| wanted(insn)) {
        let Some((file, line)) = insn.source.line else {
            continue;
        };
        let sum = lines.entry((file, line)).or_insert(Line {
            file,
            line,
            executed: 0,
            most: 0,
            function: insn.source.function.map(|(name, _)| name),
        });
        sum.executed += u128::from(insn.count);
        sum.most = sum.most.max(insn.count);
    }
    let mut hot: Vec<Line> = lines.into_values().collect();
    hot.sort_by_key(|line| {
        let file = &counts.texts[line.file as usize];
        (std::cmp::Reverse(line.executed), file.clone(), line.line)
    });
    hot.truncate(top);
    hot
}
