//! Sets whose lines leave in the order in which they were used.

use super::Model;

/// No line: an address has fewer bits for its line.
const NONE: u64 = u64::MAX;

/// The lines of each set, the one that was used last first.
pub struct Lru {
    lines: Vec<u64>,
    ways: usize,
    mask: u64,
}

impl Lru {
    pub fn new(sets: u64, ways: u64) -> Lru {
        Lru {
            lines: vec![NONE; (sets * ways) as usize],
            ways: ways as usize,
            mask: sets - 1,
        }
    }
}

impl Model for Lru {
    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        let first = (line & self.mask) as usize * self.ways;
        let set = &mut self.lines[first..first + self.ways];
        if set[0] == line {
            return true;
        }
        let at = set.iter().position(|&there| there == line);
        let last = at.unwrap_or(set.len() - 1);
        set.copy_within(..last, 1);
        set[0] = line;
        at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_line_leaves() {
        let mut cache = Lru::new(2, 2);
        // Lines 0, 2 and 4 are of one set.
        let found: Vec<bool> = [0, 2, 0, 4, 0, 2, 1, 3, 1]
            .map(|line| cache.touch(line))
            .into();
        assert_eq!(
            found,
            [false, false, true, false, true, false, false, false, true]
        );
    }
}
