//! In which module the code of a trace lies.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use trace::Process;

/// Modules of code by address; of a byte that several fragments have, that of the first.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    /// By fragment with a number of its own; 0: code of addresses. Where a range begins, its
    /// end and module. Ranges of one fragment do not meet.
    ranges: HashMap<u32, BTreeMap<u64, (u64, Option<u32>)>>,
}

impl Modules {
    pub fn of(process: &Process) -> Modules {
        let mut modules = Modules::default();
        for fragment in &process.fragments {
            let ranges = modules.ranges.entry(fragment.id).or_default();
            for piece in &fragment.pieces {
                let module = piece
                    .module
                    .filter(|&at| (at as usize) < process.modules.len());
                let end = piece.pc.saturating_add(piece.len.into());
                cover(ranges, piece.pc, end, module);
            }
        }
        modules
    }

    /// Whether there is code at an address.
    pub fn has(&self, pc: u64) -> bool {
        let ranges = self.ranges.get(&0);
        let last = ranges.and_then(|ranges| ranges.range(..=pc).next_back());
        last.is_some_and(|(_, &(end, _))| pc < end)
    }

    /// The module of an address, in the code of a fragment.
    pub fn at(&self, fragment: u32, pc: u64) -> Option<u32> {
        let ranges = self.ranges.get(&fragment)?;
        let (_, &(end, module)) = ranges.range(..=pc).next_back()?;
        module.filter(|_| pc < end)
    }
}

/// Gives what is not covered of a range to a module.
fn cover(
    ranges: &mut BTreeMap<u64, (u64, Option<u32>)>,
    mut from: u64,
    end: u64,
    module: Option<u32>,
) {
    if let Some((_, &(before, _))) = ranges.range(..=from).next_back() {
        from = from.max(before);
    }
    while from < end {
        let next = ranges.range(from..).next();
        let (start, behind) = next.map_or((end, end), |(&at, &(behind, _))| (at, behind));
        let until = start.min(end);
        if from < until {
            ranges.insert(from, (until, module));
        }
        from = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_cover_a_byte_has_it() {
        let mut ranges = BTreeMap::new();
        for (from, end, module) in [(10, 20, 1), (5, 12, 2), (15, 40, 3), (0, 50, 4)] {
            cover(&mut ranges, from, end, Some(module));
        }
        let expected = [(0, 5, 4), (5, 10, 2), (10, 20, 1), (20, 40, 3), (40, 50, 4)];
        let found = ranges
            .iter()
            .map(|(&from, &(end, module))| (from, end, module.unwrap()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
