//! One fragment: how often each of its instructions was executed, by its events, cuts and
//! jumps.

use hashbrown::HashMap;
use trace::{EventKind, Fragment, Jump, Process};

use super::table::Place;

/// Cuts of each fragment that are counted: before which instruction, how many were counted
/// ahead, how often.
pub(super) fn cuts(
    process: &Process,
    slots: &HashMap<u64, u64>,
) -> HashMap<u32, Vec<(usize, i64, u64)>> {
    let mut cuts: HashMap<u32, Vec<(usize, i64, u64)>> = HashMap::new();
    for cut in &process.cuts {
        if let Some(&count) = slots.get(&cut.slot) {
            let of_fragment = cuts.entry(cut.fragment).or_default();
            of_fragment.push((cut.at as usize, cut.ahead.into(), count));
        }
    }
    cuts
}

/// Jumps of each fragment that are counted, and how often.
pub(super) fn jumps<'p>(
    process: &'p Process,
    slots: &HashMap<u64, u64>,
) -> HashMap<u32, Vec<(&'p Jump, u64)>> {
    let mut jumps: HashMap<u32, Vec<(&Jump, u64)>> = HashMap::new();
    for jump in &process.jumps {
        if let Some(&count) = slots.get(&jump.slot) {
            jumps.entry(jump.fragment).or_default().push((jump, count));
        }
    }
    jumps
}

/// Adds the jumps of a fragment to the counts of its events.
pub(super) fn add_jumps(
    fragment: &Fragment,
    jumps: &[(&Jump, u64)],
    counts: &mut [u64],
) -> Result<(), &'static str> {
    if jumps.is_empty() {
        return Ok(());
    }
    let event = fragment.jump_event().ok_or("it has no event of a branch")?;
    for (_, count) in jumps {
        counts[event] = counts[event].saturating_add(*count);
    }
    Ok(())
}

/// Executions in a fragment, instruction by instruction.
pub(super) struct Tally {
    pub(super) executed: Vec<i128>,
    /// Arrivals there by who did not execute it.
    pub(super) left: Vec<i128>,
    /// One of the ways out of the last branch.
    pub(super) last: Option<(EventKind, i128)>,
}

pub(super) fn of(
    fragment: &Fragment,
    places: &[Place],
    counts: &[u64],
    cuts: &[(usize, i64, u64)],
) -> Result<Tally, &'static str> {
    let end = places.len();
    let mut executed = Differences(vec![0; end + 1]);
    let mut left = vec![0i128; end + 1];
    let mut last = None;
    for (event, &count) in fragment.events.iter().zip(counts) {
        let (from, to) = (usize::from(event.from), usize::from(event.to));
        let count = i128::from(count);
        if to > end || from >= to {
            return Err("an event is beyond its end");
        }
        match event.kind {
            EventKind::Executed => executed.add(from, to, count),
            // A jump that is made again, once it is bound, is left before it.
            EventKind::Again => {
                executed.add(from, to - 1, count);
                left[to - 1] += count;
            }
            EventKind::Less => {
                executed.add(from, to, -count);
                left[from] += count;
            }
            EventKind::Taken | EventKind::Fell => last = Some((event.kind, count)),
        }
    }
    for &(at, ahead, count) in cuts {
        let other = at as i128 + i128::from(ahead);
        let other = usize::try_from(other).map_err(|_| "a cut is before its start")?;
        if at > end || other > end {
            return Err("a cut is beyond its end");
        }
        left[at] += i128::from(count);
        match ahead >= 0 {
            true => executed.add(at, other, -i128::from(count)),
            false => executed.add(other, at, count.into()),
        }
    }
    Ok(Tally {
        executed: executed.sums(),
        left,
        last,
    })
}

/// Numbers, given as what is added to ranges of them.
struct Differences(Vec<i128>);

impl Differences {
    fn add(&mut self, from: usize, to: usize, value: i128) {
        self.0[from] += value;
        self.0[to] -= value;
    }

    fn sums(self) -> Vec<i128> {
        let mut sum = 0;
        let sums = self.0.into_iter().map(|difference| {
            sum += difference;
            sum
        });
        sums.collect()
    }
}
