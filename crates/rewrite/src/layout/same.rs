//! New code against the old: decoded again, instruction by instruction, and its tables, element by element.

use image::LinkAddr;
use isa::{Flow, Insn};

use super::{Behind, Kind, Moved, Table, Targets, address_of};
use crate::address::New;

impl Moved {
    /// Whether new code says the same as the old, whose bytes at an address are in `bytes`, instruction by instruction.
    pub fn is_same<'d>(
        &self,
        text: &[u8],
        start: New,
        targets: &dyn Targets,
        bytes: &dyn Fn(LinkAddr) -> &'d [u8],
    ) -> bool {
        self.all().all(|(version, item)| {
            let at = self.base + item.offset();
            let own = text.get(at.behind(start) as usize..).unwrap_or_default();
            let Ok(new) = Insn::decode(&own[..own.len().min(15)], at.0) else {
                return false;
            };
            let len = usize::from(item.len);
            let Ok(old) = Insn::decode(item.bytes(bytes), item.old.0) else {
                return false;
            };
            let to = |target: u64| {
                let from = version.at(item.old);
                self.now_from(from, LinkAddr(target), targets).0
            };
            let is_same_branch = match (old.flow(), new.flow()) {
                (Flow::Jump(one), Flow::Jump(other)) => to(one) == other,
                (Flow::Call(one), Flow::Call(other)) => {
                    self.called(version, LinkAddr(one), targets).0 == other
                }
                (Flow::Cond(how, one), Flow::Cond(same, other)) => how == same && to(one) == other,
                (Flow::CountJump(one), Flow::CountJump(other)) => to(one) == other,
                (one, other) => {
                    let is_same = match item.kind {
                        Kind::Table { table, .. } => {
                            let table = &self.tables[usize::from(table)];
                            same_but_table(&old, &new, table.new.old, table.addr)
                        }
                        _ => same_but_displacement(&old, &new),
                    };
                    one == other && new.len() == len && is_same
                }
            };
            let goes_on = || {
                let behind = own.get(new.len()..).unwrap_or_default();
                let jump = Insn::decode(&behind[..behind.len().min(15)], new.next_pc()).ok()?;
                Some(jump.flow())
            };
            let is_same_behind = match self.behind(version, item, targets) {
                Some(target) => goes_on() == Some(Flow::Jump(target.0)),
                None => item.behind == Behind::Nothing,
            };
            new.len() == usize::from(item.size) && is_same_branch && is_same_behind
        })
    }

    /// Whether each element of its tables leads where the old one did. `old` has the bytes at an old address.
    pub fn are_tables_same<'d>(
        &self,
        out: &[u8],
        start: New,
        targets: &dyn Targets,
        old: &dyn Fn(LinkAddr) -> &'d [u8],
    ) -> bool {
        let leads_to = |bytes: &[u8], table: u64| match bytes.first_chunk::<8>() {
            Some(&word) => u64::from_le_bytes(word),
            None => {
                let word = bytes.first_chunk::<4>().copied().unwrap_or_default();
                table.wrapping_add(i64::from(i32::from_le_bytes(word)).cast_unsigned())
            }
        };
        self.tables.iter().all(|Table { version, new, addr }| {
            let width = usize::from(new.width);
            let from = version.at(new.old);
            let elements = out[addr.behind(start) as usize..].chunks_exact(width);
            let old = old(new.old).chunks_exact(width);
            let mut both = elements.zip(old).take(new.cases);
            both.all(|(element, old)| {
                let old = LinkAddr(leads_to(old, new.old.0));
                self.now_from(from, old, targets).0 == leads_to(element, addr.0)
            })
        })
    }
}

/// Whether two instructions are the same, with the same address if they have one relative to themselves.
fn same_but_displacement(old: &Insn, new: &Insn) -> bool {
    match (old.rip_relative(), new.rip_relative()) {
        (None, None) => old.bytes() == new.bytes(),
        (Some((one, at)), Some((other, same))) => {
            let around =
                |insn: &Insn| [insn.bytes()[..at].to_vec(), insn.bytes()[at + 4..].to_vec()];
            one == other && at == same && around(old) == around(new)
        }
        _ => false,
    }
}

/// Whether two instructions are the same, but that each has the address of its own table.
fn same_but_table(old: &Insn, new: &Insn, old_table: LinkAddr, new_table: New) -> bool {
    let (old_at, new_at) = (address_of(old), address_of(new));
    let (Some((one, at)), Some((other, same))) = (old_at, new_at) else {
        return false;
    };
    let around = |insn: &Insn| [insn.bytes()[..at].to_vec(), insn.bytes()[at + 4..].to_vec()];
    at == same && around(old) == around(new) && one == old_table && other.0 == new_table.0
}
