//! Keyframes, put together from what the chunks of each lane say of them.
//!
//! Invariant: what is given was found in all lanes. Memory is bounded: of a thread whose
//! lanes do not all go on, the newest [`MOST`] are remembered.

use std::collections::{BTreeMap, HashMap};

use wire::stream::LANES;

use crate::keyframe::Keyframe;

/// Those of a thread that are not found in all lanes yet, at most.
const MOST: usize = 64;

/// A thread: its process, and its index there.
type Whose = (usize, usize);

#[derive(Default)]
pub(super) struct Found {
    partly: HashMap<Whose, BTreeMap<u32, [Option<u64>; LANES]>>,
}

impl Found {
    /// One was found in a lane, behind so many bytes. The whole, if it was the last lane.
    pub(super) fn add(
        &mut self,
        whose: Whose,
        lane: usize,
        (number, at): (u32, u64),
    ) -> Option<Keyframe> {
        let partly = self.partly.entry(whose).or_default();
        let lanes = partly.entry(number).or_default();
        *lanes.get_mut(lane)? = Some(at);
        if lanes.contains(&None) {
            if partly.len() > MOST {
                partly.pop_first();
            }
            return None;
        }
        let at = lanes.map(Option::unwrap_or_default);
        *partly = partly.split_off(&number);
        partly.remove(&number);
        Some(Keyframe { at, insns: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyframe_is_whole_when_all_lanes_have_it() {
        let mut found = Found::default();
        let mut given = Vec::new();
        for number in 1..=3u32 {
            for lane in 0..LANES {
                // The second is missing in a lane.
                if (number, lane) != (2, 3) {
                    let at = u64::from(number) * 100 + lane as u64;
                    given.extend(found.add((0, 0), lane, (number, at)));
                }
            }
        }
        let at = [1u64, 3].map(|number| std::array::from_fn(|lane| number * 100 + lane as u64));
        let given: Vec<_> = given.iter().map(|keyframe| keyframe.at).collect();
        assert_eq!(given, at);
        assert!(found.partly[&(0, 0)].is_empty());
        for number in 4..400 {
            found.add((0, 0), 0, (number, 0));
        }
        assert_eq!(found.partly[&(0, 0)].len(), MOST);
    }
}
