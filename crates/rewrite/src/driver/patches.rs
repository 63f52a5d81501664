//! Jumps to new code at the old places where control comes in, and traps in the rest of the old code.

use std::collections::BTreeMap;

use flow::{EdgeKind, Function, To};
use image::LinkAddr;
use isa::Insn;

use super::hops::SHORT;
use super::{Mover, PATCH};
use crate::Refused;
use crate::address::New;
use crate::file::File;
use crate::layout::Moved;
use crate::references::References;
use crate::skipped::Why;
use crate::versions::Version;

impl Mover<'_> {
    /// Places where control comes in, as far as there is room for a jump at each.
    pub(super) fn find_patches(&mut self, references: &References) {
        loop {
            let mut patches = BTreeMap::new();
            for &number in self.moved.keys() {
                let places = self.ways[&number].places.iter();
                patches.extend(places.map(|&place| (place, number)));
            }
            let (mut tight, short) = self.tight(&patches);
            let without = self.find_hops(&short, &patches, references);
            tight.extend(without.iter().filter_map(|place| patches.get(place)));
            // Code that was not taken apart begins there.
            let is_nowhere = |(place, number): &(&LinkAddr, &usize)| {
                self.moved[number]
                    .new_of(Version::FIRST.at(**place))
                    .is_none()
            };
            tight.extend(patches.iter().filter(is_nowhere).map(|(_, &number)| number));
            self.patches = patches;
            tight.extend(self.left_into());
            if !self.skip_without_entry_stub() && tight.is_empty() {
                return;
            }
            for number in tight {
                self.skip(number, Why::NoRoom);
            }
        }
    }

    /// Functions with a patch for which there is no room, and places that have room for a short one.
    fn tight(&self, patches: &BTreeMap<LinkAddr, usize>) -> (Vec<usize>, Vec<LinkAddr>) {
        let (mut tight, mut short) = (Vec::new(), Vec::new());
        let mut places = patches.iter().peekable();
        while let Some((&place, &number)) = places.next() {
            let next = places.peek().map(|(next, _)| **next);
            let has_room = |width| {
                let end = place + width;
                next.is_none_or(|next| end <= next) && self.has_room(number, place, end)
            };
            if has_room(PATCH) {
                continue;
            }
            match has_room(SHORT) {
                true => short.push(place),
                false => tight.push(number),
            }
        }
        (tight, short)
    }

    /// Whether bytes from a place in a function on are its own, or padding.
    fn has_room(&self, number: usize, place: LinkAddr, end: LinkAddr) -> bool {
        let next = self.owners.partition_point(|(start, ..)| *start <= place);
        let mut others = self.owners[next..].iter();
        let runs_into = others
            .next()
            .is_some_and(|(start, _, other)| *start < end && *other != number);
        let is_code = self.image.bytes_from(place).len() as u64 >= end - place
            && self.image.file_offset(place).is_some();
        let own_end = self.function_end(number, place);
        let is_own = own_end.is_some_and(|own| own >= end || self.is_padding(own, end));
        !runs_into && is_code && is_own
    }

    /// Functions that go on in old code where a patch is.
    fn left_into(&self) -> Vec<usize> {
        let all = self.moved.iter();
        let found = all.filter(|(number, _)| {
            let mut exits = self.ways[*number].exits.iter();
            exits.any(|&exit| self.is_patched(exit, true))
        });
        found.map(|(&number, _)| number).collect()
    }

    /// End of the range of a function with an address.
    fn function_end(&self, number: usize, place: LinkAddr) -> Option<LinkAddr> {
        let ranges = self.program.functions[number].ranges.iter();
        let mut own = ranges.filter(|range| range.contains(&place));
        own.next().map(|range| range.end)
    }

    /// Whether bytes between functions are padding of compilers and linkers.
    pub(super) fn is_padding(&self, from: LinkAddr, to: LinkAddr) -> bool {
        let bytes = self.image.bytes_from(from);
        let bytes = bytes.get(..(to - from) as usize).unwrap_or_default();
        let mut at = 0;
        while at < bytes.len() {
            let rest = self.image.bytes_from(from + at as u64);
            match Insn::decode(&rest[..rest.len().min(15)], from.0 + at as u64) {
                Ok(insn) if insn.is_nop() || insn.bytes() == [0xcc] => at += insn.len(),
                _ => return bytes[at..].iter().all(|&byte| byte == 0),
            }
        }
        !bytes.is_empty()
    }

    /// Puts jumps to the new code at the old places.
    pub(super) fn patch(&self, file: &mut File<'_>) -> Result<(), Refused> {
        for (&place, number) in &self.patches {
            let residency = self.residency.as_ref();
            let stub = residency.and_then(|residency| residency.entered_at(place));
            let new = stub.or_else(|| self.moved[number].new_of(Version::FIRST.at(place)));
            let offset = self.image.file_offset(place);
            let (Some(new), Some(offset)) = (new, offset) else {
                return Err(Refused::Check("a place of a jump is not in the file"));
            };
            let (mut from, mut at) = (place, offset);
            if let Some(hop) = self.hops.of(place) {
                let distance = hop.0.wrapping_sub((place + SHORT).0) as i64;
                let distance = i8::try_from(distance).map_err(|_| Refused::NoRoom)?;
                file.patch(at.0, vec![0xeb, distance as u8], "jump to a hop");
                let in_file = self.image.file_offset(hop);
                (from, at) = (
                    hop,
                    in_file.ok_or(Refused::Check("a hop is not in the file"))?,
                );
            }
            let distance = new.displacement(New::of_old(from + PATCH));
            let mut jump = vec![0xe9];
            jump.extend_from_slice(&distance.map_err(|_| Refused::NoRoom)?);
            file.patch(at.0, jump, "jump to moved code");
        }
        Ok(())
    }

    /// Fills old code with traps, but for the jumps.
    pub(super) fn fill(&self, file: &mut File<'_>) {
        let mut runs: Vec<(LinkAddr, LinkAddr)> = Vec::new();
        let code = self.moved.values().flat_map(Moved::old_code);
        let code = code.flat_map(|range| (range.start.0..range.end.0).map(LinkAddr));
        let mut code: Vec<LinkAddr> = code.filter(|at| !self.is_patched(*at, false)).collect();
        code.sort_unstable();
        code.dedup();
        for at in code {
            match runs.last_mut().filter(|run| run.1 == at) {
                Some(run) => run.1 = at + 1,
                None => runs.push((at, at + 1)),
            }
        }
        for (from, to) in runs {
            if let Some(offset) = self.image.file_offset(from) {
                file.patch(
                    offset.0,
                    vec![0xcc; (to - from) as usize],
                    "trap in old code",
                );
            }
        }
    }
}

/// Old addresses at which control comes into the new code of a function from the old, and those to which it leaves it.
pub(super) struct Ways {
    pub places: Vec<LinkAddr>,
    pub exits: Vec<LinkAddr>,
}

impl Ways {
    pub fn of(function: &Function, moved: &Moved) -> Ways {
        let entries = function.others.iter().chain([&function.entry]);
        let mut places: Vec<LinkAddr> = entries.copied().collect();
        for edge in &function.graph.edges {
            let jump = function.graph.blocks[edge.from as usize].last;
            if let (EdgeKind::Case, To::Block(to)) = (edge.kind, edge.to)
                && !moved.has_table_of(jump)
            {
                places.push(function.graph.blocks[to as usize].start);
            }
        }
        Ways {
            places,
            exits: moved.exits().collect(),
        }
    }
}
