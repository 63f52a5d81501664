//! Makes a small program of one that diverges: pieces are left out, many at
//! once first, for as long as what is left still diverges.
//!
//! Limits: it stops at a deadline; a divergence that comes and goes is kept
//! larger than it could be, because a try that shows nothing counts as none.

use std::collections::BTreeSet;
use std::time::Instant;

use super::check::{Bench, Divergence, Finding};
use super::source::Source;

/// Attempts to see the divergence again.
const ATTEMPTS: usize = 3;

/// The numbers of the pieces of `source` that the divergence does not need.
#[must_use]
pub fn reduce(
    source: &Source,
    divergence: &Divergence,
    bench: &Bench,
    deadline: Instant,
) -> BTreeSet<usize> {
    let attempts = if divergence.stepped { 0 } else { ATTEMPTS };
    let modes = vec![divergence.arguments.clone(); attempts];
    let diverges = |left_out: &BTreeSet<usize>| {
        matches!(
            bench.check(&source.text(left_out), &modes, divergence.stepped),
            Finding::Diverges(_)
        )
    };
    smallest(source.pieces(), deadline, diverges)
}

/// Leaves out runs of numbers, halving their length down to one.
fn smallest(
    count: usize,
    deadline: Instant,
    diverges: impl Fn(&BTreeSet<usize>) -> bool,
) -> BTreeSet<usize> {
    let mut left_out = BTreeSet::new();
    let mut length = count.div_ceil(2);
    while length > 0 {
        let mut first = 0;
        while first < count && Instant::now() < deadline {
            let mut more = left_out.clone();
            more.extend(first..(first + length).min(count));
            if more != left_out && diverges(&more) {
                left_out = more;
            }
            first += length;
        }
        length /= 2;
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_needed_is_left() {
        let needed = [3, 17, 18];
        let deadline = Instant::now() + Duration::from_secs(60);
        let left_out = smallest(40, deadline, |left_out| {
            needed.iter().all(|piece| !left_out.contains(piece))
        });
        let left: Vec<usize> = (0..40).filter(|piece| !left_out.contains(piece)).collect();
        assert_eq!(left, needed);
    }
}
