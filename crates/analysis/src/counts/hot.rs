//! The most executed blocks and lines, and totals.

use std::hash::Hash;

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

/// Code that has one key, such as that of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<K> {
    pub key: K,
    /// Index of its executed instruction with the lowest offset.
    pub first: usize,
    /// Its lowest and its highest offset.
    pub range: (u64, u64),
    /// Executed instructions.
    pub executed: u128,
    /// Executions of the first instructions of functions.
    pub entered: u64,
}

/// The groups of all `wanted` instructions, those with the most executed instructions first.
pub fn groups<K: Clone + Eq + Hash + Ord>(
    counts: &Counts,
    wanted: impl Fn(&Counted) -> bool,
    key: impl Fn(&Counted) -> K,
) -> Vec<Group<K>> {
    let mut groups: HashMap<K, Group<K>> = HashMap::new();
    for (at, insn) in counts.insns.iter().enumerate() {
        if !wanted(insn) {
            continue;
        }
        let key = key(insn);
        let group = groups.entry(key.clone()).or_insert_with(|| Group {
            key,
            first: at,
            range: (insn.at, insn.at),
            executed: 0,
            entered: 0,
        });
        // Instructions come in the order of their offsets.
        group.range.1 = insn.at;
        group.executed += u128::from(insn.count);
        if insn
            .source
            .function
            .is_some_and(|(_, distance)| distance == 0)
        {
            group.entered = group.entered.saturating_add(insn.count);
        }
    }
    let mut hot: Vec<Group<K>> = groups.into_values().collect();
    hot.sort_by(|a, b| b.executed.cmp(&a.executed).then_with(|| a.key.cmp(&b.key)));
    hot
}

/// A source line, or a function of hand-written assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Index into [`Counts::texts`].
    pub file: u32,
    /// `None`: all lines of a function.
    pub line: Option<u32>,
    /// Executed instructions.
    pub executed: u128,
    /// Executions of the instruction of it that was executed most.
    pub most: u64,
    /// Text of the function's name.
    pub function: Option<u32>,
}

/// The lines with the most executed instructions. The lines of a function in a file that
/// `is_assembly` are one.
pub fn lines(
    counts: &Counts,
    top: usize,
    wanted: impl Fn(&Counted) -> bool,
    is_assembly: impl Fn(&str) -> bool,
) -> Vec<Line> {
    let folded: Vec<bool> = counts.texts.iter().map(|text| is_assembly(text)).collect();
    let mut lines: HashMap<(u32, Option<u32>, Option<u32>), Line> = HashMap::new();
    for insn in counts.insns.iter().filter(|insn| wanted(insn)) {
        let Some((file, line)) = insn.source.line else {
            continue;
        };
        let function = insn.source.function.map(|(name, _)| name);
        let key = match folded[file as usize] {
            true => (file, None, function),
            false => (file, Some(line), None),
        };
        let sum = lines.entry(key).or_insert(Line {
            file,
            line: key.1,
            executed: 0,
            most: 0,
            function,
        });
        sum.executed += u128::from(insn.count);
        sum.most = sum.most.max(insn.count);
    }
    let mut hot: Vec<Line> = lines.into_values().collect();
    hot.sort_by_cached_key(|line| {
        let file = &counts.texts[line.file as usize];
        let name = line
            .function
            .map(|name| counts.texts[name as usize].clone());
        (
            std::cmp::Reverse(line.executed),
            file.clone(),
            line.line,
            name,
        )
    });
    hot.truncate(top);
    hot
}
