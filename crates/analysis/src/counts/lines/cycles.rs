//! Turns of the loops that stay on one line.
//!
//! A loop goes round as often as control goes back in it and gets to where it went back without leaving
//! the line: of a jump back, as much counts as can flow from its target to it over arcs of
//! the line. Flow is used up path by path, as gcov does with elementary cycles, so that what goes round in an
//! inner loop does not count for the outer one, too.
//!
//! Complexity: each path uses up an arc, so a line with n arcs costs at most n searches for each jump
//! back.

use hashbrown::HashMap;

/// Control that went from the end of one block to the beginning of another, by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) count: u64,
}

/// All turns over the arcs within one line, whose counts are used up.
pub(super) fn turns(arcs: &mut [Arc]) -> u64 {
    let mut leaving: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, arc) in arcs.iter().enumerate() {
        leaving.entry(arc.from).or_default().push(at);
    }
    let mut turns = 0u64;
    let back: Vec<usize> = (0..arcs.len())
        .filter(|&at| arcs[at].to <= arcs[at].from)
        .collect();
    for at in back {
        while arcs[at].count > 0 {
            let Some(mut path) = path(arcs, &leaving, arcs[at].to, arcs[at].from) else {
                break;
            };
            path.push(at);
            let least = path.iter().map(|&arc| arcs[arc].count).min().unwrap_or(0);
            for arc in path {
                arcs[arc].count -= least;
            }
            turns = turns.saturating_add(least);
        }
    }
    turns
}

/// A shortest path over arcs that are not used up.
fn path(
    arcs: &[Arc],
    leaving: &HashMap<usize, Vec<usize>>,
    start: usize,
    end: usize,
) -> Option<Vec<usize>> {
    let mut came_by: HashMap<usize, usize> = HashMap::new();
    let mut open = std::collections::VecDeque::from([start]);
    while let Some(block) = open.pop_front() {
        if block == end {
            break;
        }
        let arcs_from = leaving.get(&block).into_iter().flatten();
        for &at in arcs_from.filter(|&&at| arcs[at].count > 0) {
            let to = arcs[at].to;
            if to != start && !came_by.contains_key(&to) {
                came_by.insert(to, at);
                open.push_back(to);
            }
        }
    }
    let (mut path, mut at) = (Vec::new(), end);
    while at != start {
        let arc = *came_by.get(&at)?;
        path.push(arc);
        at = arcs[arc].from;
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::{Arc, turns};

    fn of(arcs: &[(usize, usize, u64)]) -> u64 {
        let arc = |&(from, to, count)| Arc { from, to, count };
        let mut arcs: Vec<Arc> = arcs.iter().map(arc).collect();
        turns(&mut arcs)
    }

    #[test]
    fn a_block_that_jumps_to_itself_turns_as_often() {
        assert_eq!(of(&[(3, 3, 7)]), 7);
    }

    #[test]
    fn a_jump_back_that_leaves_the_line_is_no_turn() {
        assert_eq!(of(&[(5, 2, 7), (1, 5, 1)]), 0);
        // Three of the seven get back to the jump.
        assert_eq!(of(&[(5, 2, 7), (2, 5, 3)]), 3);
    }

    #[test]
    fn loops_within_each_other_turn_by_themselves() {
        // for (i < 2) for (j < 3): head 2, inner body 3, inner test 4, outer test 5.
        let arcs = [(2, 4, 2), (4, 3, 6), (3, 4, 6), (4, 5, 2), (5, 2, 2)];
        assert_eq!(of(&arcs), 8);
    }

    #[test]
    fn two_ways_round_are_added_up() {
        let arcs = [(1, 2, 4), (1, 3, 6), (2, 4, 4), (3, 4, 6), (4, 1, 10)];
        assert_eq!(of(&arcs), 10);
    }
}
