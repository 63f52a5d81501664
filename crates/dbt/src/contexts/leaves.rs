//! Functions that need no record on the shadow stack.
//!
//! Problem: half of all calls and more go to functions that call nothing. A
//! record says who the caller of the next function is, and in such an
//! activation there is no next one; yet pushing and popping it costs more than
//! counting it.
//!
//! Approach: a *leaf* is a function whose every instruction is known and which
//! can only end by a return to its caller: no calls, indirect jumps, system
//! calls or traps, no jumps out of its extent, and at every return the stack
//! pointer is where it was at the entry. Its event counts and pushes nothing;
//! its returns pop nothing. Arriving by jump (a tail call) ends the jumper, so
//! then the event pops the jumper's record instead of replacing it.
//!
//! Invariant: who is in a leaf came in by its event, so that the record on top
//! is the caller's. A jump or call from elsewhere into its middle breaks that:
//! the jumper's record is on top, for the return to pop. Such an entry is seen
//! when the jump is translated, or when an indirect one first lands, before it
//! is made ([`Engine::enter_inside`]); from then on the function is no leaf and
//! all its blocks are translated anew. Threads that are in it came in by the
//! event; a return that finds no record of its own pops nothing.
//!
//! Only code in file mappings that cannot be written counts; when a page of it
//! changes nevertheless, all blocks of its leaves go with it.
//!
//! Limit: a signal handler that sends a function that is no leaf on into the
//! middle of another one that is, is not seen.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use isa::insn::Reader;
use isa::{Flow, Insn};
use wire::func;

use super::Contexts;
use crate::engine::Engine;

/// Longest function looked at, in bytes. A page: neighbours' leaves overlap a
/// page only if they begin on it or the one before.
const LONGEST: u64 = 4096;
/// Most instructions looked at.
const MOST: usize = 512;

/// By address of the first byte: where a leaf ends; `None`: no leaf, for good.
#[derive(Debug, Default)]
pub(super) struct Leaves(BTreeMap<u64, Option<u64>>);

impl Leaves {
    /// Leaves that have bytes in `start..end`, as pairs of first and end address.
    fn overlapping(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let near = self.0.range(start.saturating_sub(LONGEST)..end);
        near.filter_map(|(&first, &end)| Some((first, end?)))
            .filter(|&(_, end)| end > start)
            .collect()
    }
}

impl Contexts {
    /// The function whose extent holds `pc`: its first byte, its end, its flags.
    pub(super) fn function_at(
        &self,
        pc: u64,
        process: &agent::syscalls::Process,
    ) -> Option<(u64, u64, u32)> {
        let (entry, at) = self.extent(pc, process)?;
        let start = pc.wrapping_sub(at - entry.start);
        Some((
            start,
            start.wrapping_add(entry.end - entry.start),
            entry.flags,
        ))
    }
}

impl Engine {
    /// Whether the function that begins at `start` is a leaf.
    pub(super) fn is_leaf(&mut self, start: u64) -> bool {
        let Some(contexts) = &self.contexts else {
            return false;
        };
        // Cycles are read where the context changes, and calling a leaf changes it, too.
        if contexts.blocks.is_some() || self.settings.costs & wire::cost::CYCLES != 0 {
            return false;
        }
        if let Some(known) = contexts.leaves.0.get(&start) {
            return known.is_some();
        }
        let end = self.looks_like_leaf(start);
        if let Some(contexts) = &mut self.contexts {
            contexts.leaves.0.insert(start, end);
        }
        end.is_some()
    }

    /// Whether a return at `pc` needs no event.
    pub(super) fn returns_from_leaf(&mut self, pc: u64) -> bool {
        let contexts = self.contexts.as_ref();
        let function = contexts.and_then(|contexts| contexts.function_at(pc, &self.process));
        function.is_some_and(|(start, ..)| self.is_leaf(start))
    }

    /// The end of the leaf at `start`, if it is one.
    fn looks_like_leaf(&self, start: u64) -> Option<u64> {
        let contexts = self.contexts.as_ref()?;
        let region = self.process.regions.find(start)?;
        let (first, end, flags) = contexts.function_at(start, &self.process)?;
        let special = func::PLT | func::START | func::STOP | func::MUTE;
        let fixed = region.prot & sys::PROT_WRITE == 0 && !self.is_volatile(start);
        if first != start
            || end - start > LONGEST
            || !fixed
            || flags & special != 0
            || !contexts.begins(start, &self.process)
        {
            return None;
        }
        if self.present_end(start, end) < end {
            return None;
        }
        let mut bytes = alloc::vec![0u8; (end - start) as usize];
        let got = agent::memory::read_some(start, &mut bytes);
        let is_leaf = got == bytes.len() && ends_by_return(&bytes, start, contexts.self_jumps);
        is_leaf.then_some(end)
    }

    /// The questions to come are about the function at `pc`.
    pub fn look_at(&mut self, pc: u64) {
        if let Some(contexts) = &mut self.contexts {
            let function = contexts.function_at(pc, &self.process);
            contexts.last_function = function.map_or(0..0, |(start, end, _)| start..end);
        }
    }

    /// Control goes from `from` to `to` by a jump.
    pub fn note_jump(&mut self, from: u64, to: u64) {
        let Some(contexts) = &self.contexts else {
            return;
        };
        if !contexts.last_function.contains(&from) {
            self.look_at(from);
        }
        let contexts = self.contexts.as_ref();
        if contexts.is_some_and(|contexts| !contexts.last_function.contains(&to)) {
            self.enter_inside(to);
        }
    }

    /// Control comes to `pc` from another function, not by its event: the
    /// function there is no leaf, or none any more.
    pub fn enter_inside(&mut self, pc: u64) {
        let Some(contexts) = &mut self.contexts else {
            return;
        };
        let Some((start, ..)) = contexts.function_at(pc, &self.process) else {
            return;
        };
        if start == pc {
            return;
        }
        if let Some(Some(end)) = contexts.leaves.0.insert(start, None) {
            self.sever_function(start, end);
        }
    }

    /// Code in `start..end` changed or is gone: what was a leaf may be none now.
    pub fn forget_leaves(&mut self, start: u64, end: u64) {
        let Some(contexts) = &mut self.contexts else {
            return;
        };
        let stale = contexts.leaves.overlapping(start, end);
        for (start, _) in &stale {
            contexts.leaves.0.remove(start);
        }
        for (start, end) in stale {
            self.sever_function(start, end);
        }
    }

    fn sever_function(&mut self, start: u64, end: u64) {
        for page in (start & !4095..end).step_by(4096) {
            self.sever_page(page);
        }
    }
}

/// Whether the function `bytes` at `start` can only end by a return to its caller. `once`:
/// it must not jump to its start, either.
fn ends_by_return(bytes: &[u8], start: u64, once: bool) -> bool {
    let end = start + bytes.len() as u64;
    // Stack pointer at the instruction at each byte, less that at the entry.
    let mut seen: Vec<Option<i64>> = alloc::vec![None; bytes.len()];
    let mut looked_at = 0;
    let mut reader = Reader::new(bytes, start);
    let mut insn = Insn::default();
    let mut open = alloc::vec![(start, 0i64)];
    while let Some((mut pc, mut depth)) = open.pop() {
        loop {
            if !(start..end).contains(&pc) || looked_at > MOST {
                return false;
            }
            match seen[(pc - start) as usize].replace(depth) {
                None => looked_at += 1,
                Some(before) if before == depth => break,
                Some(_) => return false,
            }
            if reader.decode_into(pc, &mut insn).is_err() {
                return false;
            }
            let flow = insn.flow();
            let target = match flow {
                Flow::Jump(target) | Flow::Cond(_, target) | Flow::CountJump(target) => target,
                _ => end,
            };
            if once && target == start {
                return false;
            }
            match flow {
                Flow::Next => match insn.stack_delta() {
                    Some(delta) => depth += i64::from(delta),
                    None => return false,
                },
                Flow::Jump(target) => {
                    pc = target;
                    continue;
                }
                Flow::Cond(_, target) | Flow::CountJump(target) => open.push((target, depth)),
                Flow::Return(_) if depth == 0 => break,
                _ => return false,
            }
            pc = insn.next_pc();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Leaves, ends_by_return};

    #[test]
    fn a_range_meets_the_leaves_with_bytes_in_it() {
        let leaves = [
            (0x1000, Some(0x1010)),
            (0x1ff0, Some(0x2008)),
            (0x2008, None),
            (0x3000, Some(0x3001)),
        ];
        let leaves = Leaves(leaves.into_iter().collect());
        assert_eq!(leaves.overlapping(0x2000, 0x3000), [(0x1ff0, 0x2008)]);
        assert_eq!(leaves.overlapping(0x1010, 0x1ff0), []);
        assert_eq!(leaves.overlapping(0, 0x4000).len(), 3);
    }

    #[test]
    fn a_balanced_function_is_a_leaf() {
        // push rbx; sub rsp, 16; test edi, edi; je +1; nop; add rsp, 16; pop rbx; ret
        let code = [
            0x53, 0x48, 0x83, 0xEC, 0x10, 0x85, 0xFF, 0x74, 0x01, 0x90, 0x48, 0x83, 0xC4, 0x10,
            0x5B, 0xC3,
        ];
        assert!(ends_by_return(&code, 0x1000, true));
    }

    #[test]
    fn a_jump_to_the_start_may_be_an_activation() {
        // dec edi; jnz -4; ret
        let code = [0xFF, 0xCF, 0x75, 0xFC, 0xC3];
        assert!(ends_by_return(&code, 0x1000, false));
        assert!(!ends_by_return(&code, 0x1000, true));
    }

    #[test]
    fn what_leaves_otherwise_is_none() {
        let cases: [(&str, &[u8]); 8] = [
            ("push rax; ret", &[0x50, 0xC3]),
            ("call", &[0xE8, 0, 0, 0, 0, 0xC3]),
            ("jmp rax", &[0xFF, 0xE0]),
            ("syscall; ret", &[0x0F, 0x05, 0xC3]),
            ("jmp out", &[0xEB, 0x10]),
            ("falls out", &[0x90]),
            ("mov rsp, rdi; ret", &[0x48, 0x89, 0xFC, 0xC3]),
            // je +1; push rax; ret: by one way with another depth.
            ("je +1; push rax; ret", &[0x74, 0x01, 0x50, 0xC3]),
        ];
        for (what, code) in cases {
            assert!(!ends_by_return(code, 0x1000, false), "{what}");
        }
    }
}
