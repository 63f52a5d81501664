//! Functions without an unwind table: where they begin and end.
//!
//! Problem: assembly, C libraries that are built without tables, and languages with tables of their own have functions that no symbol
//! and no table describes.
//!
//! Approach: one begins where control comes to code that is no function's, or where a word of data or the program's first function
//! has an address of code; it ends before the next one, and behind the last instruction that its entry leads to. Where nothing but an
//! instruction with its address says that it is one, it is a *guess*: it is followed, and not complete.

use image::LinkAddr;

use super::Making;
use crate::descent::Descent;
use crate::function::{Evidence, Function};
use crate::{Failed, Gate};

impl Making<'_> {
    /// A function at an address where none is known.
    pub(super) fn hidden(&mut self, addr: u64, evidence: Evidence) -> Option<usize> {
        let is_code = self.code.contains(addr) && self.owner(addr).is_none();
        if !is_code
            || self.program.stubs.contains_key(&LinkAddr(addr))
            || self.code.insn(addr).is_none()
        {
            return None;
        }
        let next = self.owners.range(addr..).next().map(|(&start, _)| start);
        let end = self.code.end(addr).min(next.unwrap_or(u64::MAX));
        let index = self.program.functions.len();
        self.add(Function {
            entry: LinkAddr(addr),
            ranges: vec![LinkAddr(addr)..LinkAddr(end)],
            evidence,
            ..Function::default()
        });
        Some(index)
    }

    /// Ends a function without a table and a symbol, whose range is what was left of its section, behind what its entry leads to.
    pub(super) fn trim_first(&mut self, index: usize) {
        let function = &self.program.functions[index];
        let Evidence { unwind, named, .. } = function.evidence;
        let is_described = unwind || named && function.entry != self.start;
        let [range] = &function.ranges[..] else {
            return;
        };
        let range = range.start.0..range.end.0;
        let mut descent = Descent::new(std::slice::from_ref(&range));
        if is_described || !descent.try_follow(self.code, self, range.start) {
            return;
        }
        if let Some(end) = descent.reached() {
            self.program.functions[index].ranges[0].end = LinkAddr(end);
            self.owners.insert(range.start, (end, index));
        }
    }

    /// Ends a function that nothing describes behind its last instruction, if all its ways are known: others may follow.
    pub(super) fn trim(&mut self, index: usize) {
        let function = &mut self.program.functions[index];
        let evidence = function.evidence;
        let is_followed = |failed: &Failed| failed.gate == Gate::NoUnwind;
        if evidence.unwind || evidence.named || !function.failed.iter().all(is_followed) {
            return;
        }
        let end = function.graph.blocks.last().map(|block| block.end);
        if let ([range], Some(end)) = (&mut function.ranges[..], end) {
            range.end = end;
            self.owners.insert(range.start.0, (end.0, index));
        }
    }

    /// A function whose address was taken, and of which nothing else is known, if the bytes there are code that ends. The one that is
    /// executed first hands such functions to the C library, which calls them.
    pub(super) fn take_function(&mut self, addr: u64) -> Option<usize> {
        let next = self.owners.range(addr..).next().map(|(&start, _)| start);
        let end = self.code.end(addr).min(next.unwrap_or(u64::MAX));
        let range = addr..end;
        let mut descent = Descent::new(std::slice::from_ref(&range));
        if addr >= end || !descent.try_follow(self.code, self, addr) {
            return None;
        }
        let first = self.first_taken.contains(&addr);
        if !first {
            self.guesses.insert(addr);
        }
        self.hidden(
            addr,
            Evidence {
                taken: true,
                called: first,
                ..Evidence::default()
            },
        )
    }

    /// Whether a function without a table is one, and its code is only code: a label whose address was taken may say where code is
    /// interrupted, as those around musl's system calls do.
    pub(super) fn is_certain(&self, function: &Function) -> bool {
        let is_guess = self.guesses.contains(&function.entry.0) && !function.evidence.called;
        let mut others = function.others.iter();
        !is_guess && !others.any(|entry| self.taken.contains(&entry.0))
    }
}
