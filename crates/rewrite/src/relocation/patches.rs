//! Jumps to new code at the old places where control comes in, and traps in the rest of the old code.

use std::collections::BTreeMap;

use flow::{EdgeKind, Function, To};
use image::LinkAddr;
use isa::Insn;

use super::{Mover, PATCH};
use crate::Refused;
use crate::file::File;
use crate::left::Why;
use crate::relocate::Moved;

impl Mover<'_> {
    /// Places where control comes in, as far as there is room for a jump at each.
    pub(super) fn find_patches(&mut self) {
        loop {
            let mut patches = BTreeMap::new();
            for &number in self.moved.keys() {
                let function = &self.program.functions[number];
                for place in places(function, &self.moved[&number]) {
                    patches.insert(place, number);
                }
            }
            let mut tight = self.tight(&patches);
            // Code that was not taken apart begins there.
            let is_nowhere =
                |(place, number): &(&u64, &usize)| self.moved[number].offset_of(**place).is_none();
            tight.extend(patches.iter().filter(is_nowhere).map(|(_, &number)| number));
            tight.extend(self.left_into(&patches));
            self.patches = patches;
            if !self.leave_without_gate() && tight.is_empty() {
                return;
            }
            for number in tight {
                self.leave(number, Why::NoRoom);
            }
        }
    }

    /// Functions with a patch that would overlap another one, or other code.
    fn tight(&self, patches: &BTreeMap<u64, usize>) -> Vec<usize> {
        let mut tight = Vec::new();
        let mut last: Option<u64> = None;
        for (&place, &number) in patches {
            if last.is_some_and(|before| place - before < PATCH) {
                tight.push(number);
                continue;
            }
            let next = self.owners.partition_point(|(start, ..)| *start <= place);
            let runs_into = self
                .owners
                .get(next)
                .is_some_and(|(start, _, other)| *start < place + PATCH && *other != number);
            let is_code = self.image.bytes_from(LinkAddr(place)).len() as u64 >= PATCH
                && self.image.file_offset(LinkAddr(place)).is_some();
            let is_end = self
                .function_end(number, place)
                .is_none_or(|end| end < place + PATCH && !self.is_padding(end, place + PATCH));
            if runs_into || !is_code || is_end {
                tight.push(number);
                continue;
            }
            last = Some(place);
        }
        tight
    }

    /// Functions that go on in old code where a patch is.
    fn left_into(&self, patches: &BTreeMap<u64, usize>) -> Vec<usize> {
        let is_patched = |addr: u64| {
            let before = patches.range(..addr).next_back();
            before.is_some_and(|(place, _)| addr < place + PATCH)
        };
        let all = self.moved.iter();
        let found = all.filter(|(_, moved)| moved.exits().any(is_patched));
        found.map(|(&number, _)| number).collect()
    }

    /// End of the range of a function with an address.
    fn function_end(&self, number: usize, place: u64) -> Option<u64> {
        let ranges = self.program.functions[number].ranges.iter();
        let mut own = ranges.filter(|range| range.contains(&LinkAddr(place)));
        own.next().map(|range| range.end.0)
    }

    /// Whether bytes between functions are padding of compilers and linkers.
    fn is_padding(&self, from: u64, to: u64) -> bool {
        let bytes = self.image.bytes_from(LinkAddr(from));
        let bytes = bytes.get(..(to - from) as usize).unwrap_or_default();
        let mut at = 0;
        while at < bytes.len() {
            let rest = self.image.bytes_from(LinkAddr(from + at as u64));
            match Insn::decode(&rest[..rest.len().min(15)], from + at as u64) {
                Ok(insn) if insn.is_nop() || insn.bytes() == [0xcc] => at += insn.len(),
                _ => return bytes[at..].iter().all(|&byte| byte == 0),
            }
        }
        !bytes.is_empty()
    }

    /// Puts jumps to the new code at the old places.
    pub(super) fn patch(&self, file: &mut File<'_>) -> Result<(), Refused> {
        for (&place, number) in &self.patches {
            let counted = self.counted.as_ref();
            let gate = counted.and_then(|counted| counted.entered_at(place));
            let new = gate.or_else(|| self.moved[number].new_of(place));
            let offset = self.image.file_offset(LinkAddr(place));
            let (Some(new), Some(offset)) = (new, offset) else {
                return Err(Refused::Check("a place of a jump is not in the file"));
            };
            let distance = new.wrapping_sub(place + PATCH) as i64;
            let distance = i32::try_from(distance).map_err(|_| Refused::NoRoom)?;
            let mut jump = vec![0xe9];
            jump.extend_from_slice(&distance.to_le_bytes());
            file.patch(offset.0, jump, "jump to moved code");
        }
        Ok(())
    }

    /// Fills old code with traps, but for the jumps.
    pub(super) fn fill(&self, file: &mut File<'_>) {
        let is_jump = |at: u64| {
            let before = self.patches.range(..=at).next_back();
            before.is_some_and(|(place, _)| at < place + PATCH)
        };
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let code = self.moved.values().flat_map(Moved::old_code).flatten();
        let mut code: Vec<u64> = code.filter(|at| !is_jump(*at)).collect();
        code.sort_unstable();
        code.dedup();
        for at in code {
            match runs.last_mut().filter(|run| run.1 == at) {
                Some(run) => run.1 += 1,
                None => runs.push((at, at + 1)),
            }
        }
        for (from, to) in runs {
            if let Some(offset) = self.image.file_offset(LinkAddr(from)) {
                file.patch(
                    offset.0,
                    vec![0xcc; (to - from) as usize],
                    "trap in old code",
                );
            }
        }
    }
}

/// Old addresses by which control comes into a function.
fn places(function: &Function, moved: &Moved) -> Vec<u64> {
    let entries = function.others.iter().chain([&function.entry]);
    let mut places: Vec<u64> = entries.map(|entry| entry.0).collect();
    for edge in &function.graph.edges {
        let jump = function.graph.blocks[edge.from as usize].last;
        if let (EdgeKind::Case, To::Block(to)) = (edge.kind, edge.to)
            && !moved.has_table_of(jump.0)
        {
            places.push(function.graph.blocks[to as usize].start.0);
        }
    }
    places
}
