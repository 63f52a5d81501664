//! Keyframes, put together from what the chunks of each lane say of them.
//!
//! Invariant: what is given was found in all lanes. Memory is bounded: of a thread whose
//! lanes do not all go on, the newest [`MOST`] are remembered.

use std::collections::{BTreeMap, HashMap};

use wire::stream::{ALL_LANES, LANES, MEMORY_LANES};

use super::streams::Marked;
use crate::keyframe::{Gap, Keyframe};

/// Most keyframes of a thread that wait to be found in all lanes.
const MOST: usize = 64;

/// A thread: its process, and its index there.
type Whose = (usize, usize);

#[derive(Default)]
pub(super) struct Found {
    partly: HashMap<Whose, BTreeMap<u32, [Option<Marked>; ALL_LANES]>>,
}

impl Found {
    /// One was found in a stream. The whole, if it was the last one; the thread has so many streams
    /// about memory.
    pub(super) fn add(
        &mut self,
        whose: Whose,
        (stream, of_memory): (u16, usize),
        marked: Marked,
    ) -> Option<Keyframe> {
        let lane = Gap::place(stream)?;
        let number = marked.number;
        let partly = self.partly.entry(whose).or_default();
        let lanes = partly.entry(number).or_default();
        *lanes.get_mut(lane)? = Some(marked);
        let missing = lanes.iter_mut().skip(LANES + of_memory);
        missing.for_each(|lane| *lane = Some(Marked::default()));
        if lanes.contains(&None) {
            if partly.len() > MOST {
                partly.pop_first();
            }
            return None;
        }
        let lanes = lanes.map(Option::unwrap_or_default);
        *partly = partly.split_off(&number);
        partly.remove(&number);
        let told = lanes.iter().map(|marked| marked.insns);
        let all = lanes.map(|marked| marked.at);
        let (mut at, mut memory) = ([0; LANES], [0; MEMORY_LANES]);
        at.copy_from_slice(&all[..LANES]);
        memory.copy_from_slice(&all[LANES..]);
        Some(Keyframe {
            at,
            memory,
            insns: Some(told.fold(marked.beside, u64::wrapping_add)),
        })
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
                    let marked = Marked {
                        number,
                        at: u64::from(number) * 100 + lane as u64,
                        insns: u64::from(number) * 10,
                        beside: u64::MAX,
                    };
                    given.extend(found.add((0, 0), (lane as u16, 0), marked));
                }
            }
        }
        let at = [1u64, 3].map(|number| std::array::from_fn(|lane| number * 100 + lane as u64));
        let insns: Vec<_> = given.iter().map(|keyframe| keyframe.insns).collect();
        let given: Vec<_> = given.iter().map(|keyframe| keyframe.at).collect();
        assert_eq!(given, at);
        assert_eq!(
            insns,
            [1u64, 3].map(|number| Some(number * 10 * LANES as u64 - 1))
        );
        assert!(found.partly[&(0, 0)].is_empty());
        for number in 4..400 {
            found.add(
                (0, 0),
                (0, 0),
                Marked {
                    number,
                    ..Marked::default()
                },
            );
        }
        assert_eq!(found.partly[&(0, 0)].len(), MOST);
    }
}
