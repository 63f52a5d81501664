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
//! Limits: where indirect jumps and calls went is not recorded; what they add up to at
//! a function's first instruction is ([`Transfer::from`] is `None`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use isa::{Flow, Insn};

use super::{Counts, target};

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
    let leaders = leaders(text);
    let insns = &counts.insns;
    let places: Vec<Option<u64>> = insns
        .iter()
        .map(|insn| to_link(insn.at).filter(|_| insn.unit == unit))
        .collect();
    let place = |at: Option<u32>| at.and_then(|at| places[at as usize]);
    let mut sums: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut arrived: HashMap<u64, u64> = HashMap::new();
    let mut add = |from: u64, to: u64, count: u64| {
        if count > 0 {
            let sum = sums.entry((from, to)).or_default();
            *sum = sum.saturating_add(count);
            let sum = arrived.entry(to).or_default();
            *sum = sum.saturating_add(count);
        }
    };
    let mut calls = Vec::new();
    for (insn, from) in insns.iter().zip(&places) {
        let Some(from) = *from else { continue };
        let to = place(insn.target);
        match (insn.flow, to) {
            (Flow::Cond(..) | Flow::CountJump(_), Some(to)) => add(from, to, insn.taken()),
            (Flow::Jump(_) | Flow::Call(_), Some(to)) => add(from, to, insn.count),
            _ => {}
        }
        let next = from.wrapping_add(insn.bytes.len() as u64);
        match insn.flow {
            Flow::Jump(_) | Flow::IndirectJump | Flow::Return(_) => {}
            Flow::Cond(..) | Flow::CountJump(_) => {
                add(from, next, insn.fell);
            }
            flow => {
                if !leaders.contains(&next) {
                    continue;
                }
                match flow {
                    Flow::Call(_) | Flow::IndirectCall => calls.push((from, next, insn.count)),
                    _ => add(from, next, insn.fell),
                }
            }
        }
    }
    let executed = executed(counts, &places);
    finish(text, sums, arrived, &calls, &executed)
}

/// Adds what only follows from the rest: calls that came back, and unknown entries.
fn finish(
    text: &Text<'_>,
    mut sums: BTreeMap<(u64, u64), u64>,
    arrived: HashMap<u64, u64>,
    calls: &[(u64, u64, u64)],
    executed: &HashMap<u64, u64>,
) -> Vec<Transfer> {
    let unknown = |to: u64| {
        let executed = executed.get(&to).copied().unwrap_or(0);
        executed.saturating_sub(arrived.get(&to).copied().unwrap_or(0))
    };
    for &(from, to, count) in calls {
        let back = unknown(to).min(count);
        if back > 0 {
            sums.insert((from, to), back);
        }
    }
    let entries = text.functions.iter().map(|function| Transfer {
        from: None,
        to: function.start,
        count: unknown(function.start),
    });
    let known = sums.into_iter().map(|((from, to), count)| Transfer {
        from: Some(from),
        to,
        count,
    });
    entries
        .filter(|entry| entry.count > 0)
        .chain(known)
        .collect()
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

/// Where blocks begin, but for what follows a branch.
fn leaders(text: &Text<'_>) -> HashSet<u64> {
    let mut leaders = HashSet::new();
    let mut addressed: BTreeSet<u64> = BTreeSet::new();
    let mut wanted: Vec<(u64, usize)> = Vec::new();
    let mut starts: Vec<HashSet<u64>> = Vec::new();
    for (number, function) in text.functions.iter().enumerate() {
        let mut own = HashSet::new();
        let mut jumps_indirectly = false;
        let mut tables = Vec::new();
        for insn in decoded(text, function) {
            own.insert(insn.pc());
            let flow = insn.flow();
            let is_call = matches!(flow, Flow::Call(_));
            if let Some(target) = target(flow).filter(|_| !is_call)
                && function.contains(&target)
            {
                leaders.insert(target);
            }
            jumps_indirectly |= flow == Flow::IndirectJump;
            tables.extend(insn.rip_relative().map(|(addr, _)| addr));
            tables.extend(absolute_table(insn.bytes()));
        }
        addressed.extend(&tables);
        if jumps_indirectly {
            wanted.extend(tables.into_iter().map(|table| (table, number)));
        }
        starts.push(own);
    }
    for (table, number) in wanted {
        let end = addressed.range(table + 1..).next().copied();
        let bytes = (text.read)(table);
        let len = end.map_or(bytes.len() as u64, |end| end - table);
        let bytes = &bytes[..bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
        leaders.extend(entries(table, bytes, &starts[number]));
    }
    leaders
}

/// Where a jump table leads, if that is what lies at `table`.
fn entries(table: u64, bytes: &[u8], starts: &HashSet<u64>) -> Vec<u64> {
    let near = bytes.chunks_exact(4).map(|entry| {
        let distance = i32::from_le_bytes(entry.try_into().unwrap_or_default());
        table.wrapping_add_signed(distance.into())
    });
    let near: Vec<u64> = near.take_while(|to| starts.contains(to)).collect();
    if !near.is_empty() {
        return near;
    }
    let far = bytes
        .chunks_exact(8)
        .map(|entry| u64::from_le_bytes(entry.try_into().unwrap_or_default()));
    far.take_while(|to| starts.contains(to)).collect()
}

/// The table of `jmp *TABLE(,%reg,8)`, in programs at a fixed address.
fn absolute_table(bytes: &[u8]) -> Option<u64> {
    let at = bytes.windows(2).position(|pair| pair == [0xff, 0x24])?;
    let (scale, displacement) = bytes[at + 2..].split_first()?;
    let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
    (scale & 0xc7 == 0xc5).then_some(displacement as u64)
}

fn decoded<'t>(text: &'t Text<'_>, function: &Range<u64>) -> impl Iterator<Item = Insn> + 't {
    let len = function.end.saturating_sub(function.start);
    let bytes = (text.read)(function.start);
    let mut bytes = &bytes[..bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
    let mut at = function.start;
    std::iter::from_fn(move || {
        let insn = Insn::decode(bytes, at).ok()?;
        bytes = &bytes[insn.len()..];
        at = insn.next_pc();
        Some(insn)
    })
}

#[cfg(test)]
mod tests {
    use super::{absolute_table, entries};

    #[test]
    fn a_table_ends_at_the_first_entry_that_leads_nowhere() {
        let starts = [0x1000, 0x1004, 0x1010].into_iter().collect();
        let near: Vec<u8> = [-0x1000i32, -0xff0, -0xffc, 7, -0x1000]
            .iter()
            .flat_map(|distance| distance.to_le_bytes())
            .collect();
        assert_eq!(entries(0x2000, &near, &starts), [0x1000, 0x1010, 0x1004]);
        let far: Vec<u8> = [0x1004u64, 0x1000, 0]
            .iter()
            .flat_map(|to| to.to_le_bytes())
            .collect();
        assert_eq!(entries(0x2000, &far, &starts), [0x1004, 0x1000]);
        assert_eq!(entries(0x2000, &[1, 2], &starts), []);
    }

    #[test]
    fn a_jump_by_table_is_known_by_its_bytes() {
        let jump = [0xff, 0x24, 0xc5, 0x10, 0x20, 0x40, 0];
        assert_eq!(absolute_table(&jump), Some(0x40_2010));
        assert_eq!(absolute_table(&[0xff, 0x24, 0x24]), None);
    }
}
