//! Places inside functions whose addresses code or data have: entries, or bytes that are no code.

use std::collections::BTreeSet;

use image::LinkAddr;

use super::Making;
use crate::descent::Descent;
use crate::graph::Block;
use crate::{Failed, Gate};

impl Making<'_> {
    /// Looks at addresses that were taken since the last time, and at those in data: a place inside a function is an entry
    /// (receivers of `__builtin_setjmp`, handlers of OCaml, labels that are put together with a base). Gives the functions
    /// for which that is new.
    pub(super) fn take(&mut self) -> BTreeSet<usize> {
        let new = self.taken.difference(&self.looked_at).copied();
        let mut all: Vec<(u64, bool)> = new.map(|addr| (addr, true)).collect();
        self.looked_at.clone_from(&self.taken);
        all.extend(self.pointers.iter().map(|addr| (addr.0, false)));
        let mut changed = BTreeSet::new();
        for (addr, is_taken) in all {
            let Some(index) = self.owner(addr) else {
                changed.extend(self.take_function(addr));
                continue;
            };
            let function = &self.program.functions[index];
            let starts = function.ranges.iter().map(|range| range.start);
            let tables = function.tables.iter().map(|table| table.table);
            let mut known = function.others.iter().copied().chain(starts).chain(tables);
            if function.entry.0 == addr || known.any(|start| start.0 == addr) {
                continue;
            }
            let block = function.graph.block_at(LinkAddr(addr));
            match block.map(|at| function.graph.blocks[at]) {
                // Tables of labels are in data.
                Some(_) if !is_taken => {}
                Some(block) => {
                    if self.is_start(&block, addr) {
                        self.program.functions[index].others.push(LinkAddr(addr));
                        changed.insert(index);
                    }
                }
                None => {
                    if self.unexplained.entry(index).or_default().insert(addr) {
                        changed.insert(index);
                    }
                }
            }
        }
        changed
    }

    /// Whether an instruction of a block begins at an address.
    fn is_start(&self, block: &Block, addr: u64) -> bool {
        let mut at = block.start.0;
        let mut reader = self.code.reader(at);
        while at < addr {
            match reader.decode(at) {
                Ok(insn) => at = insn.next_pc(),
                Err(_) => return false,
            }
        }
        at == addr
    }

    /// Follows control from taken addresses that no block explains; gives the entries that they are, and fails the gate for
    /// the others.
    pub(super) fn follow_taken(&self, index: usize, descent: &mut Descent) -> Vec<LinkAddr> {
        let mut entries = Vec::new();
        for &addr in self.unexplained.get(&index).into_iter().flatten() {
            let has_frame = self.unwind.cfa(LinkAddr(addr)).is_some();
            if !descent.is_unexplained(addr) {
                if descent.is_start(addr) {
                    entries.push(LinkAddr(addr));
                }
            } else if has_frame && descent.try_follow(self.code, self, addr) {
                entries.push(LinkAddr(addr));
            } else {
                descent.failed.push(Failed {
                    gate: Gate::TakenInside,
                    at: LinkAddr(addr),
                });
            }
        }
        entries
    }
}
