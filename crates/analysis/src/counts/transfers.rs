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
//! A call goes on behind itself as often as something returned there. What comes to a
//! function's first instruction from elsewhere is there, too ([`Transfer::from`] is `None`).
//!
//! Limits: recordings older than version 6 do not say where indirect jumps and calls went,
//! and what returned: then a call is taken to go on as often as nothing else explains what
//! ran behind it.

mod tables;

use std::collections::{BTreeMap, HashMap};
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
    /// `None`: from another file, or by what is not known.
    pub from: Option<u64>,
    pub to: u64,
    pub count: u64,
}

/// Transfers of control in the file `unit`, by address. `to_link` gives the address of an
/// offset of the file.
pub fn of(
    counts: &Counts,
    unit: u32,
    text: &Text<'_>,
    to_link: impl Fn(u64) -> Option<u64>,
) -> Vec<Transfer> {
    let leaders = tables::leaders(text);
    let insns = &counts.insns;
    let places: Vec<Option<u64>> = insns
        .iter()
        .map(|insn| to_link(insn.at).filter(|_| insn.unit == unit))
        .collect();
    let place = |at: Option<u32>| at.and_then(|at| places[at as usize]);
    let mut sums = Sums {
        sums: BTreeMap::new(),
        arrived: HashMap::new(),
        returned: HashMap::new(),
        executed: executed(counts, &places),
    };
    let mut calls = Vec::new();
    for (at, (insn, from)) in insns.iter().zip(&places).enumerate() {
        for went in counts.went_from(at) {
            match (insn.flow, from, place(went.to)) {
                (Flow::Return(_), _, Some(to)) => sums.return_to(to, went.count),
                (_, Some(from), Some(to)) => sums.add(*from, to, went.count),
                _ => {}
            }
        }
        let Some(from) = *from else { continue };
        let to = place(insn.target);
        match (insn.flow, to) {
            (Flow::Cond(..) | Flow::CountJump(_), Some(to)) => sums.add(from, to, insn.taken()),
            (Flow::Jump(_) | Flow::Call(_), Some(to)) => sums.add(from, to, insn.count),
            _ => {}
        }
        let next = from.wrapping_add(insn.bytes.len() as u64);
        match insn.flow {
            Flow::Jump(_) | Flow::IndirectJump | Flow::Return(_) | Flow::Far(_) => {}
            Flow::Cond(..) | Flow::CountJump(_) => {
                sums.add(from, next, insn.fell);
            }
            flow => {
                if !leaders.contains(&next) {
                    continue;
                }
                match flow {
                    Flow::Call(_) | Flow::IndirectCall => calls.push((from, next, insn.count)),
                    _ => sums.add(from, next, insn.fell),
                }
            }
        }
    }
    sums.finish(text, &calls, counts.went.is_empty())
}

struct Sums {
    /// By from and to.
    sums: BTreeMap<(u64, u64), u64>,
    /// Arrivals, by target.
    arrived: HashMap<u64, u64>,
    /// Returns, by where they went.
    returned: HashMap<u64, u64>,
    executed: HashMap<u64, u64>,
}

impl Sums {
    /// Adds what follows from the rest: calls that came back, and entries from elsewhere.
    /// `guessed`: returns are not known.
    fn finish(
        mut self,
        text: &Text<'_>,
        calls: &[(u64, u64, u64)],
        guessed: bool,
    ) -> Vec<Transfer> {
        for &(from, to, count) in calls {
            let back = match guessed {
                true => self.unexplained(to),
                false => self.returned.get(&to).copied().unwrap_or(0),
            };
            self.add(from, to, back.min(count));
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

    fn return_to(&mut self, to: u64, count: u64) {
        let sum = self.returned.entry(to).or_default();
        *sum = sum.saturating_add(count);
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
