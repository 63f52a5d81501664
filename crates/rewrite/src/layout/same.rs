//! New code against the old: decoded again, instruction by instruction, and its tables, element by element.

use isa::{Flow, Insn};

use super::{Kind, Moved, Targets, address_of};

impl Moved {
    /// Whether new code says the same as the old, whose bytes at an address are in `bytes`, instruction by instruction.
    pub fn is_same<'d>(
        &self,
        text: &[u8],
        start: u64,
        targets: &dyn Targets,
        bytes: &dyn Fn(u64) -> &'d [u8],
    ) -> bool {
        self.items.iter().all(|item| {
            let at = self.base + item.offset();
            let own = text.get((at - start) as usize..).unwrap_or_default();
            let Ok(new) = Insn::decode(&own[..own.len().min(15)], at) else {
                return false;
            };
            let len = usize::from(item.len);
            let Ok(old) = Insn::decode(item.bytes(bytes), item.old) else {
                return false;
            };
            let to = |target: u64| self.now_from(item.old, target, targets);
            let is_same_branch = match (old.flow(), new.flow()) {
                (Flow::Jump(one), Flow::Jump(other)) => to(one) == other,
                (Flow::Call(one), Flow::Call(other)) => self.called(one, targets) == other,
                (Flow::Cond(how, one), Flow::Cond(same, other)) => how == same && to(one) == other,
                (Flow::CountJump(one), Flow::CountJump(other)) => to(one) == other,
                (one, other) => {
                    let is_same = match item.kind {
                        Kind::Table { table, .. } => {
                            let (switch, addr) = &self.tables[usize::from(table)];
                            same_but_table(&old, &new, switch.old, *addr)
                        }
                        _ => same_but_displacement(&old, &new),
                    };
                    one == other && new.len() == len && is_same
                }
            };
            new.len() == usize::from(item.size) && is_same_branch
        })
    }

    /// Whether each element of its tables leads where the old one did. `old` has the bytes at an old address.
    pub fn are_tables_same<'d>(
        &self,
        out: &[u8],
        start: u64,
        targets: &dyn Targets,
        old: &dyn Fn(u64) -> &'d [u8],
    ) -> bool {
        let leads_to = |bytes: &[u8], table: u64| match bytes.first_chunk::<8>() {
            Some(&word) => u64::from_le_bytes(word),
            None => {
                let word = bytes.first_chunk::<4>().copied().unwrap_or_default();
                table.wrapping_add(i64::from(i32::from_le_bytes(word)).cast_unsigned())
            }
        };
        self.tables.iter().all(|(switch, addr)| {
            let width = usize::from(switch.width);
            let new = out[(addr - start) as usize..].chunks_exact(width);
            let old = old(switch.old).chunks_exact(width);
            let mut both = new.zip(old).take(switch.cases);
            both.all(|(new, old)| {
                let old = leads_to(old, switch.old);
                self.now_from(switch.old, old, targets) == leads_to(new, *addr)
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
fn same_but_table(old: &Insn, new: &Insn, old_table: u64, new_table: u64) -> bool {
    let (old_at, new_at) = (address_of(old), address_of(new));
    let (Some((one, at)), Some((other, same))) = (old_at, new_at) else {
        return false;
    };
    let around = |insn: &Insn| [insn.bytes()[..at].to_vec(), insn.bytes()[at + 4..].to_vec()];
    at == same && around(old) == around(new) && one == old_table && other == new_table
}
