//! Transfers of control between basic blocks as a reader of the whole file sees them,
//! such as an optimiser of binaries.
//!
//! Problem: the blocks of [`super::blocks`] begin where control was seen to come from
//! elsewhere. A reader of the file also begins one where a branch that never ran goes,
//! and asks how often control went on into it.
//!
//! Approach: each function is decoded from its first byte to its last. A block begins
//! where a direct branch or an entry of a jump table goes. A jump table is data that
//! the function addresses: 32-bit distances from the table, or 64-bit addresses, read
//! up to the first that leads to no instruction of the function, or to the next such
//! table.
//!
//! Where indirect jumps went is not recorded. Of one by a table it follows, if no other
//! jump leads to the same places: what arrived there and nothing else explains; it is
//! taken only if that is, to the last one, how often the jump was executed.
//!
//! Limits: other indirect jumps are left out, and indirect calls; what these add up to
//! at a function's first instruction is there ([`Transfer::from`] is `None`).

mod tables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use isa::Flow;

use super::Counts;

/// A file: everything by link address.
pub struct Text<'a> {
    /// Bytes from an address on; empty where the file has none.
    pub read: &'a dyn Fn(u64) -> &'a [u8],
    /// Functions, sorted by address.
    pub functions: &'a [Range<u64>],
}

/// From the last instruction of a block to the first of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// `None`: by what is not known.
    pub from: Option<u64>,
    pub to: u64,
    pub count: u64,
}

/// What is known of the file `unit`, by address. `to_link` gives the address of an
/// offset of the file.
pub fn of(
    counts: &Counts,
    unit: u32,
    text: &Text<'_>,
    to_link: impl Fn(u64) -> Option<u64>,
) -> Vec<Transfer> {
    let layout = tables::layout(text);
    let insns = &counts.insns;
    let places: Vec<Option<u64>> = insns
        .iter()
        .map(|insn| to_link(insn.at).filter(|_| insn.unit == unit))
        .collect();
    let place = |at: Option<u32>| at.and_then(|at| places[at as usize]);
    let mut sums = Sums {
        sums: BTreeMap::new(),
        arrived: HashMap::new(),
        executed: executed(counts, &places),
    };
    let mut calls = Vec::new();
    for (insn, from) in insns.iter().zip(&places) {
        let Some(from) = *from else { continue };
        let to = place(insn.target);
        match (insn.flow, to) {
            (Flow::Cond(..) | Flow::CountJump(_), Some(to)) => sums.add(from, to, insn.taken()),
            (Flow::Jump(_) | Flow::Call(_), Some(to)) => sums.add(from, to, insn.count),
            _ => {}
        }
        let next = from.wrapping_add(insn.bytes.len() as u64);
        match insn.flow {
            Flow::Jump(_) | Flow::IndirectJump | Flow::Return(_) => {}
            Flow::Cond(..) | Flow::CountJump(_) => {
                sums.add(from, next, insn.fell);
            }
            flow => {
                if !layout.leaders.contains(&next) {
                    continue;
                }
                match flow {
                    Flow::Call(_) | Flow::IndirectCall => calls.push((from, next, insn.count)),
                    _ => sums.add(from, next, insn.fell),
                }
            }
        }
    }
    sums.finish(text, &calls, &layout.jumps)
}

struct Sums {
    /// By from and to.
    sums: BTreeMap<(u64, u64), u64>,
    /// The same by to.
    arrived: HashMap<u64, u64>,
    executed: HashMap<u64, u64>,
}

impl Sums {
    /// Adds what only follows from the rest: calls that came back, jumps by tables, and
    /// unknown entries.
    fn finish(
        mut self,
        text: &Text<'_>,
        calls: &[(u64, u64, u64)],
        jumps: &[(u64, BTreeSet<u64>)],
    ) -> Vec<Transfer> {
        for &(from, to, count) in calls {
            self.add(from, to, self.unexplained(to).min(count));
        }
        for (from, targets) in self.of_tables(jumps) {
            for (to, count) in targets {
                self.add(from, to, count);
            }
        }
        let entries = text.functions.iter().map(|function| Transfer {
            from: None,
            to: function.start,
            count: self.unexplained(function.start),
        });
        let known = self.sums.iter().map(|(&(from, to), &count)| Transfer {
            from: Some(from),
            to,
            count,
        });
        let entries = entries.filter(|entry| entry.count > 0);
        entries.chain(known).collect()
    }

    /// Where indirect jumps went, if only they explain it, and all of it.
    fn of_tables(&self, jumps: &[(u64, BTreeSet<u64>)]) -> Vec<(u64, Vec<(u64, u64)>)> {
        let mut users: HashMap<u64, u32> = HashMap::new();
        for to in jumps.iter().flat_map(|(_, targets)| targets) {
            *users.entry(*to).or_default() += 1;
        }
        let mut sure = Vec::new();
        for (from, targets) in jumps {
            let targets: Vec<(u64, u64)> = targets
                .iter()
                .filter(|to| users.get(to) == Some(&1))
                .map(|&to| (to, self.unexplained(to)))
                .collect();
            let sum: u128 = targets.iter().map(|(_, count)| u128::from(*count)).sum();
            let count = self.executed.get(from).copied().unwrap_or(0);
            if sum == u128::from(count) {
                sure.push((*from, targets));
            }
        }
        sure
    }

    fn add(&mut self, from: u64, to: u64, count: u64) {
        if count > 0 {
            let sum = self.sums.entry((from, to)).or_default();
            *sum = sum.saturating_add(count);
            let sum = self.arrived.entry(to).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Executions of an instruction without those that are known to come to it.
    fn unexplained(&self, at: u64) -> u64 {
        let executed = self.executed.get(&at).copied().unwrap_or(0);
        executed.saturating_sub(self.arrived.get(&at).copied().unwrap_or(0))
    }
}

fn executed(counts: &Counts, places: &[Option<u64>]) -> HashMap<u64, u64> {
    let mut executed: HashMap<u64, u64> = HashMap::new();
    for (insn, place) in counts.insns.iter().zip(places) {
        if let Some(place) = place {
            let sum = executed.entry(*place).or_default();
            *sum = sum.saturating_add(insn.count);
        }
    }
    executed
}
