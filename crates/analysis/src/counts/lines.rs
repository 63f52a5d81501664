//! Source lines: how often each was entered, and where its branches went.
//!
//! Problem: a line has several basic blocks, and the most executed of them says as
//! little of "how often was this line executed" as their sum does: the head of
//! `for (i = 0; i < n; i++)` is three blocks, in two places.
//!
//! Approach: as gcov counts lines (gcc's `gcov.cc`, `accumulate_line_info`). A line is executed
//! once for each time that control enters a basic block with code of the line, unless it comes from code of the line, and once for each turn of a loop
//! that stays on the line ([`cycles`]). So the head above has n + 1, and `while (*p++) ;` one for
//! each turn. What a call of the line does in between is no arrival: it comes back to the line. A
//! line that has two pieces in one block is entered once, since nothing can come in between.
//!
//! Invariant: a line with code has an entry, also if that never ran.
//!
//! Limits: gcov counts before the compiler optimises, and this what was made of it: without `-O0`
//! lines have other blocks. A block of several lines is gcov's last line's, which alone is entered
//! from it; here each line has it. Of recordings older than version 6, jumps that are
//! indirect count as arrivals, also within one line; and a call that does not come back and is
//! followed by code of its line that others enter may hide as many entries as it made.

mod cycles;

use std::collections::{BTreeMap, BTreeSet};

use isa::{Flow, Insn};

use self::cycles::Arc;
use super::blocks::{Block, Blocks, EdgeKind};
use super::is_conditional;
use super::{Counted, Counts};

/// Code of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offsets in the file.
    pub start: u64,
    pub end: u64,
    /// The caller's number of file and line.
    pub line: u32,
}

/// Counts of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub count: u64,
    /// By place.
    pub branches: BTreeMap<u64, Branch>,
}

/// A conditional branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    pub taken: u64,
    /// It went on behind the branch.
    pub fell: u64,
}

impl Branch {
    pub fn was_executed(&self) -> bool {
        self.taken > 0 || self.fell > 0
    }
}

/// Lines of the file `unit`, by the caller's number. `ranges` are sorted and disjoint;
/// `code` is the whole file, empty if it is not there: then branches that never ran
/// are not found. `blocks` are those of `counts`.
pub fn of(
    counts: &Counts,
    blocks: &Blocks,
    unit: u32,
    ranges: &[Range],
    code: &[u8],
) -> BTreeMap<u32, Line> {
    let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
    for range in ranges {
        let line = lines.entry(range.line).or_default();
        for at in conditional_branches(range, code) {
            line.branches.insert(at, Branch::default());
        }
    }
    let line_of = |at: u64| {
        let after = ranges.partition_point(|range| range.start <= at);
        let range = &ranges[after.checked_sub(1)?];
        (at < range.end).then_some(range.line)
    };
    let all: Vec<Option<u32>> = counts
        .insns
        .iter()
        .map(|insn| line_of(insn.at).filter(|_| insn.unit == unit))
        .collect();
    for (line, count) in entered(counts, blocks, &all) {
        if let Some(line) = lines.get_mut(&line) {
            line.count = count;
        }
    }
    let conditional = |insn: &&Counted| insn.is_conditional();
    let branches = counts.insns.iter().zip(&all);
    for (insn, line) in branches.filter(|(insn, _)| conditional(insn)) {
        let Some(line) = line.and_then(|line| lines.get_mut(&line)) else {
            continue;
        };
        let branch = line.branches.entry(insn.at).or_default();
        branch.taken = branch.taken.saturating_add(insn.taken());
        branch.fell = branch.fell.saturating_add(insn.fell);
    }
    lines
}

/// Executions of each line: entries of its blocks from elsewhere, and turns of loops on the line.
fn entered(counts: &Counts, blocks: &Blocks, line_of: &[Option<u32>]) -> BTreeMap<u32, u64> {
    let lines_of = |block: &Block| {
        let mut lines: Vec<u32> = line_of[block.first..block.first + block.len]
            .iter()
            .filter_map(|line| *line)
            .collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    };
    let mut lines: Vec<Vec<u32>> = blocks.blocks.iter().map(lines_of).collect();
    leave_out_epilogues(counts, blocks, &mut lines);
    let mut inside: BTreeMap<u32, Vec<Arc>> = BTreeMap::new();
    for arc in arcs(counts, blocks) {
        let from = &blocks.blocks[arc.from];
        let left = line_of[from.first + from.len - 1];
        if let Some(line) = left.filter(|line| lines[arc.to].binary_search(line).is_ok()) {
            inside.entry(line).or_default().push(arc);
        }
    }
    let mut entered: BTreeMap<u32, u64> = BTreeMap::new();
    for (block, lines) in blocks.blocks.iter().zip(&lines) {
        for &line in lines {
            let sum = entered.entry(line).or_default();
            *sum = sum.saturating_add(block.count);
        }
    }
    for (line, mut arcs) in inside {
        let within = arcs.iter().map(|arc| arc.count);
        let within = within.fold(0, u64::saturating_add);
        let sum = entered.entry(line).or_default();
        *sum = sum
            .saturating_sub(within)
            .saturating_add(cycles::turns(&mut arcs));
    }
    entered
}

/// Takes blocks that only leave the function out of lines that have others, too: what the compiler put at
/// the closing brace for another line's `return` does not enter the brace's own code again.
fn leave_out_epilogues(counts: &Counts, blocks: &Blocks, lines: &mut [Vec<u32>]) {
    let is_epilogue: Vec<bool> = blocks
        .blocks
        .iter()
        .map(|block| {
            let insns = &counts.insns[block.first..block.first + block.len];
            matches!(insns[block.len - 1].flow, Flow::Return(_)) && insns.iter().all(restores)
        })
        .collect();
    let mut has_others: BTreeSet<u32> = BTreeSet::new();
    for (lines, is_epilogue) in lines.iter().zip(&is_epilogue) {
        has_others.extend(lines.iter().filter(|_| !is_epilogue));
    }
    for (lines, _) in lines.iter_mut().zip(is_epilogue).filter(|(_, is)| *is) {
        lines.retain(|line| !has_others.contains(line));
    }
}

/// Instructions of which compilers make epilogues (Intel SDM vol. 2): `leave`, `pop r64`, `add imm, %rsp`,
/// `mov disp8(%rbp), r64`, `nop`, `ret`.
fn restores(insn: &Counted) -> bool {
    matches!(
        insn.bytes[..],
        [0xc9 | 0xc3 | 0x90 | 0x58..=0x5f]
            | [0x41, 0x58..=0x5f]
            | [0x48, 0x83 | 0x81, 0xc4, ..]
            | [
                0x48 | 0x4c,
                0x8b,
                0x45 | 0x4d | 0x55 | 0x5d | 0x65 | 0x6d | 0x75 | 0x7d,
                _
            ]
    )
}

/// Transfers of control from block to block within functions: branches, falling through, and calls that came
/// back.
fn arcs(counts: &Counts, blocks: &Blocks) -> Vec<Arc> {
    let stays = |kind| !matches!(kind, EdgeKind::Call | EdgeKind::Return);
    let edges = blocks.edges.iter().filter(|edge| stays(edge.kind));
    let mut arcs: Vec<Arc> = edges
        .filter_map(|edge| {
            Some(Arc {
                from: edge.from,
                to: edge.to?,
                count: edge.count,
            })
        })
        .collect();
    let mut known = vec![0u64; blocks.blocks.len()];
    for arc in &arcs {
        known[arc.to] = known[arc.to].saturating_add(arc.count);
    }
    let returned = returned(counts);
    // A call comes back as often as something returned there; if that is not known, at most
    // as often as nothing else explains what ran behind it.
    for (from, block) in blocks.blocks.iter().enumerate() {
        let last = &counts.insns[block.first + block.len - 1];
        let to = last.next.and_then(|next| {
            let starts = |block: &Block| block.first;
            let at = blocks.blocks.binary_search_by_key(&(next as usize), starts);
            at.ok()
        });
        let is_call = matches!(last.flow, Flow::Call(_) | Flow::IndirectCall);
        let Some(to) = to.filter(|_| is_call) else {
            continue;
        };
        let behind = &blocks.blocks[to];
        let count = match counts.went.is_empty() {
            true => last.count.min(behind.count.saturating_sub(known[to])),
            false => returned[behind.first].min(behind.count),
        };
        arcs.push(Arc { from, to, count });
    }
    arcs
}

/// How often something returned to each instruction.
fn returned(counts: &Counts) -> Vec<u64> {
    let mut returned = vec![0u64; counts.insns.len()];
    for went in &counts.went {
        let is_return = matches!(counts.insns[went.from as usize].flow, Flow::Return(_));
        if let Some(to) = went.to.filter(|_| is_return) {
            let sum = &mut returned[to as usize];
            *sum = sum.saturating_add(went.count);
        }
    }
    returned
}

/// Addresses of conditional branches in the code of `range`.
fn conditional_branches(range: &Range, code: &[u8]) -> Vec<u64> {
    let bytes = usize::try_from(range.start)
        .ok()
        .zip(usize::try_from(range.end).ok())
        .and_then(|(start, end)| code.get(start..end.min(code.len())));
    let (mut bytes, mut at) = (bytes.unwrap_or_default(), range.start);
    let mut found = Vec::new();
    while let Ok(insn) = Insn::decode(bytes, at) {
        if is_conditional(insn.flow()) {
            found.push(at);
        }
        bytes = &bytes[insn.len()..];
        at = insn.next_pc();
    }
    found
}
