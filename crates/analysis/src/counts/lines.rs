//! Source lines: how often each was entered, and where its branches went.
//!
//! Problem: a line has several basic blocks, and the most executed of them says as
//! little of "how often was this line executed" as their sum does: the head of
//! `for (i = 0; i < n; i++)` is three blocks, in two places.
//!
//! Approach: a line is executed once for each time that control arrives at code of the
//! line from code of another line or from another function, and once for each jump
//! back within its code. So the head above has n + 1, as gcov counts it, and
//! `while (*p++) ;` one for each turn. What a call of the line does in between is no
//! arrival: it comes back to the line. An instruction's arrivals are its executions
//! without those that came from the line itself, by the next instruction or forward.
//!
//! Invariant: a line with code has an entry, also if that never ran.
//!
//! Limits: of recordings older than version 6, jumps that are indirect count as arrivals,
//! also within one line; and a call that does not come back and is followed by code of its
//! line that others enter may hide as many entries as it made.

use std::collections::BTreeMap;

use isa::{Flow, Insn};

use super::Counts;
use super::is_conditional;

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
/// are not found.
pub fn of(counts: &Counts, unit: u32, ranges: &[Range], code: &[u8]) -> BTreeMap<u32, Line> {
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
    let from_itself = from_itself(counts, &all);
    for ((insn, line), inside) in counts.insns.iter().zip(&all).zip(from_itself) {
        let Some(line) = line.and_then(|line| lines.get_mut(&line)) else {
            continue;
        };
        line.count = line.count.saturating_add(insn.count.saturating_sub(inside));
        if insn.is_conditional() {
            let branch = line.branches.entry(insn.at).or_default();
            branch.taken = branch.taken.saturating_add(insn.taken());
            branch.fell = branch.fell.saturating_add(insn.fell);
        }
    }
    lines
}

/// For each instruction, the executions that are no arrival at its line.
fn from_itself(counts: &Counts, lines: &[Option<u32>]) -> Vec<u64> {
    let insns = &counts.insns;
    // All that is known to come to an instruction, and what of it is inside.
    let mut known = vec![0u64; insns.len()];
    let mut inside = vec![0u64; insns.len()];
    let mut calls = Vec::new();
    for (at, insn) in insns.iter().enumerate() {
        let mut edge = |to: Option<u32>, count: u64, stays: bool| {
            let Some(to) = to.map(|to| to as usize) else {
                return;
            };
            known[to] = known[to].saturating_add(count);
            if stays && lines[at].is_some() && lines[at] == lines[to] {
                inside[to] = inside[to].saturating_add(count);
            }
        };
        let is_forward = insn.target.is_some_and(|to| to as usize > at);
        match insn.flow {
            Flow::Cond(..) | Flow::CountJump(_) => {
                edge(insn.next, insn.fell, true);
                edge(insn.target, insn.taken(), is_forward);
            }
            Flow::Jump(_) | Flow::TransactionBegin(_) => {
                edge(insn.target, insn.count, is_forward);
            }
            Flow::Call(_) | Flow::IndirectCall => calls.push(at),
            Flow::IndirectJump => {
                for went in counts.went_from(at) {
                    let is_forward = went.to.is_some_and(|to| to as usize > at);
                    edge(went.to, went.count, is_forward);
                }
            }
            Flow::Return(_) | Flow::Far(_) => {}
            Flow::Next | Flow::Syscall | Flow::Int80 | Flow::Odd | Flow::Trap => {
                edge(insn.next, insn.fell, true);
            }
        }
    }
    let returned = returned(counts);
    // A call comes back as often as something returned there; if that is not known, at most
    // as often as nothing else explains what ran behind it.
    for at in calls {
        let Some(next) = insns[at].next.map(|next| next as usize) else {
            continue;
        };
        if lines[at].is_some() && lines[at] == lines[next] {
            let back = match counts.went.is_empty() {
                true => insns[next].count.saturating_sub(known[next]),
                false => returned[next],
            };
            inside[next] = inside[next].saturating_add(back.min(insns[at].count));
        }
    }
    inside
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
