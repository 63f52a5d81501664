//! Block leaders and jump tables: a reading of the code and of the data that it
//! addresses, without any execution.

use std::collections::{BTreeSet, HashSet};
use std::ops::{Bound, Range};

use isa::{Flow, Insn};

use super::Text;
use crate::counts::target;

/// One function, decoded.
struct Body {
    starts: HashSet<u64>,
    /// Data that it addresses.
    tables: Vec<u64>,
    /// Whether it has an indirect jump.
    jumps: bool,
}

/// Leaders of blocks, but for instructions that follow a branch.
pub(super) fn leaders(text: &Text<'_>) -> HashSet<u64> {
    let mut leaders = HashSet::new();
    let mut bodies = Vec::new();
    for function in text.functions {
        bodies.push(body(text, function, &mut leaders));
    }
    let addressed: BTreeSet<u64> = bodies
        .iter()
        .flat_map(|body| body.tables.iter().copied())
        .collect();
    for body in bodies.iter().filter(|body| body.jumps) {
        for &table in &body.tables {
            let behind = (Bound::Excluded(table), Bound::Unbounded);
            let end = addressed.range(behind).next().copied();
            let bytes = (text.read)(table);
            let len = end.map_or(bytes.len() as u64, |end| end - table);
            let bytes = &bytes[..bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
            leaders.extend(entries(table, bytes, &body.starts));
        }
    }
    leaders
}

fn body(text: &Text<'_>, function: &Range<u64>, leaders: &mut HashSet<u64>) -> Body {
    let mut body = Body {
        starts: HashSet::new(),
        tables: Vec::new(),
        jumps: false,
    };
    for insn in decoded(text, function) {
        let (place, flow) = (insn.pc(), insn.flow());
        body.starts.insert(place);
        let is_call = matches!(flow, Flow::Call(_));
        if let Some(target) = target(flow).filter(|_| !is_call)
            && function.contains(&target)
        {
            leaders.insert(target);
        }
        let near = insn.rip_relative().map(|(addr, _)| addr);
        let far = absolute_table(insn.bytes());
        body.tables.extend(near.into_iter().chain(far));
        body.jumps |= flow == Flow::IndirectJump;
    }
    body
}

/// Targets of the jump table at `table`, if there is one.
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
