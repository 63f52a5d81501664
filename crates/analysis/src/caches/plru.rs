//! Sets with a tree of bits, each of which points to the half that was not used last.

use super::Model;

const NONE: u64 = u64::MAX;

/// Pseudo-LRU: a bit for each inner node of a tree of ways, as processors have it.
pub struct TreePlru {
    lines: Vec<u64>,
    /// Node n of a set's tree has bit n; 1 is the root, 2n and 2n + 1 are below n. Set: the line that
    /// leaves is on the right.
    trees: Vec<u64>,
    ways: usize,
    mask: u64,
}

impl TreePlru {
    /// The number of ways is a power of two up to 64.
    pub fn new(sets: u64, ways: u64) -> TreePlru {
        TreePlru {
            lines: vec![NONE; (sets * ways) as usize],
            trees: vec![0; sets as usize],
            ways: ways as usize,
            mask: sets - 1,
        }
    }
}

impl Model for TreePlru {
    fn touch(&mut self, line: u64) -> bool {
        let number = (line & self.mask) as usize;
        let set = &mut self.lines[number * self.ways..][..self.ways];
        let tree = &mut self.trees[number];
        let there = set.iter().position(|&one| one == line);
        let way = there.unwrap_or_else(|| {
            // A way that was never used comes first.
            let free = set.iter().position(|&one| one == NONE);
            free.unwrap_or_else(|| {
                let mut node = 1;
                while node < self.ways {
                    node = 2 * node + (*tree >> node & 1) as usize;
                }
                node - self.ways
            })
        });
        set[way] = line;
        let mut node = way + self.ways;
        while node > 1 {
            let (parent, is_right) = (node / 2, node % 2 == 1);
            *tree = *tree & !(1 << parent) | u64::from(!is_right) << parent;
            node = parent;
        }
        there.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_half_that_was_not_used_last_leaves() {
        let mut cache = TreePlru::new(1, 4);
        for line in 0..4 {
            assert!(!cache.touch(line));
        }
        assert!(cache.touch(0));
        // The right half, and in it the way that was not used last.
        assert!(!cache.touch(4));
        assert_eq!(cache.lines, [0, 1, 4, 3]);
        // Then the left one: true LRU would take line 1, too.
        assert!(!cache.touch(5));
        assert_eq!(cache.lines, [0, 5, 4, 3]);
        assert!(cache.touch(3) && cache.touch(0) && !cache.touch(6));
        assert_eq!(cache.lines, [0, 5, 6, 3]);
    }

    #[test]
    fn one_way_and_two_are_lru() {
        for ways in [1, 2] {
            let (mut tree, mut lru) =
                (TreePlru::new(4, ways), super::super::lru::Lru::new(4, ways));
            let mut state = 1u64;
            for _ in 0..10_000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let line = state >> 60;
                assert_eq!(tree.touch(line), lru.touch(line));
            }
        }
    }
}
