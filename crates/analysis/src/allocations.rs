//! Allocations by context: all of them, those that were there at the peak, those that were never freed, and how long blocks lived.
//!
//! Approach: calls of allocating functions are replayed in the order of time. A block is there from the return of the call that gave it
//! to the call that frees it. What such a function does by calling another one is its own business and not counted again.
//!
//! Limits: blocks that a forked child has from its parent are not known in it; to free one there is counted as of a block of nobody.

use std::collections::{BTreeMap, HashMap};

/// Kinds of functions: which of their arguments say what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Malloc,
    /// A number and the bytes of each.
    Calloc,
    /// A block that is given up, and bytes.
    Realloc,
    /// An alignment and bytes.
    Aligned,
    /// A block that is given up.
    Free,
}

impl Kind {
    /// Functions of the C library, and of allocators that take its place.
    pub const NAMES: [(&str, Kind); 7] = [
        ("malloc", Kind::Malloc),
        ("calloc", Kind::Calloc),
        ("realloc", Kind::Realloc),
        ("memalign", Kind::Aligned),
        ("aligned_alloc", Kind::Aligned),
        ("valloc", Kind::Malloc),
        ("free", Kind::Free),
    ];
}

/// A call of such a function.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub process: u32,
    pub thread: u32,
    pub kind: Kind,
    /// When it was called, by the processor's counter.
    pub time: u64,
    pub values: [u64; 3],
    /// Its result, and when it returned.
    pub returned: Option<(u64, u64)>,
    /// Number of the path by which it was called.
    pub path: u32,
}

/// Figures of a path, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Allocations, and their bytes.
    pub blocks: u64,
    pub bytes: u64,
    /// Never freed.
    pub leaked_blocks: u64,
    pub leaked_bytes: u64,
    /// There when most bytes were.
    pub peak_blocks: u64,
    pub peak_bytes: u64,
    /// Time that blocks which were freed were there, all together.
    pub freed: u64,
    pub lifetime: u64,
}

impl Figures {
    /// Adds those of another path.
    pub fn add(&mut self, other: &Figures) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.leaked_blocks += other.leaked_blocks;
        self.leaked_bytes += other.leaked_bytes;
        self.peak_blocks += other.peak_blocks;
        self.peak_bytes += other.peak_bytes;
        self.freed += other.freed;
        self.lifetime += other.lifetime;
    }
}

/// Allocations of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    pub all: Figures,
    /// By number of the path; those that allocated nothing are not there.
    pub paths: BTreeMap<u32, Figures>,
    /// When most bytes were there, by the processor's counter.
    pub peak_at: u64,
    /// Calls that freed no block that is known, and those that gave none.
    pub strange: u64,
    pub failed: u64,
}

/// A block.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    path: u32,
    since: u64,
}

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug)]
enum Change {
    Taken { at: u64, bytes: u64, path: u32 },
    Freed { at: u64 },
}

impl Allocations {
    /// Replays calls, which are sorted by time.
    pub fn of(calls: &[Call]) -> Allocations {
        let mut made = Allocations::default();
        let mut processes: BTreeMap<u32, Vec<(u64, Change)>> = BTreeMap::new();
        // By thread: until when it is in a call that was counted.
        let mut within: HashMap<(u32, u32), u64> = HashMap::new();
        for call in calls {
            let until = within.entry((call.process, call.thread)).or_default();
            if call.time < *until {
                continue;
            }
            *until = call.returned.map_or(0, |(_, time)| time);
            made.failed += u64::from(!add(call, processes.entry(call.process).or_default()));
        }
        let mut highest = 0;
        for (_, mut changes) in processes {
            changes.sort_by_key(|(time, _)| *time);
            made.replay(&changes, &mut highest);
        }
        made
    }

    /// Adds what a process did. `highest`: the highest peak of those before.
    fn replay(&mut self, changes: &[(u64, Change)], highest: &mut u64) {
        let mut live: HashMap<u64, Block> = HashMap::new();
        let (mut now, mut peak) = (0u64, (0, 0));
        for (number, &(time, change)) in changes.iter().enumerate() {
            match change {
                Change::Taken { at, bytes, path } => {
                    let figures = self.paths.entry(path).or_default();
                    for figures in [figures, &mut self.all] {
                        figures.blocks += 1;
                        figures.bytes += bytes;
                    }
                    let since = time;
                    // Its end was not seen: another function gave it back.
                    let before = live.insert(at, Block { bytes, path, since });
                    now = now - before.map_or(0, |block| block.bytes) + bytes;
                    if now > peak.0 {
                        peak = (now, number + 1);
                    }
                }
                Change::Freed { at } => match live.remove(&at) {
                    Some(block) => {
                        now -= block.bytes;
                        let figures = self.paths.entry(block.path).or_default();
                        for figures in [figures, &mut self.all] {
                            figures.freed += 1;
                            figures.lifetime += time.saturating_sub(block.since);
                        }
                    }
                    None => self.strange += 1,
                },
            }
        }
        for block in live.values() {
            let figures = self.paths.entry(block.path).or_default();
            for figures in [figures, &mut self.all] {
                figures.leaked_blocks += 1;
                figures.leaked_bytes += block.bytes;
            }
        }
        if peak.0 > *highest {
            *highest = peak.0;
            self.peak_at = changes[peak.1 - 1].0;
            self.note_peak(&changes[..peak.1]);
        }
    }

    /// Notes what is there after some changes.
    fn note_peak(&mut self, changes: &[(u64, Change)]) {
        let mut live = HashMap::new();
        for &(_, change) in changes {
            match change {
                Change::Taken { at, bytes, path } => drop(live.insert(at, (bytes, path))),
                Change::Freed { at } => drop(live.remove(&at)),
            }
        }
        for figures in self.paths.values_mut().chain([&mut self.all]) {
            (figures.peak_blocks, figures.peak_bytes) = (0, 0);
        }
        for (bytes, path) in live.into_values() {
            let figures = self.paths.entry(path).or_default();
            for figures in [figures, &mut self.all] {
                figures.peak_blocks += 1;
                figures.peak_bytes += bytes;
            }
        }
    }
}

/// Adds what a call does; `false`: it gave no block.
fn add(call: &Call, changes: &mut Vec<(u64, Change)>) -> bool {
    let [first, second, _] = call.values;
    let (given_up, bytes) = match call.kind {
        Kind::Malloc => (0, first),
        Kind::Calloc => (0, first.saturating_mul(second)),
        Kind::Aligned => (0, second),
        Kind::Realloc => (first, second),
        Kind::Free => (first, 0),
    };
    let (result, until) = call.returned.unwrap_or((0, call.time));
    let is_free = call.kind == Kind::Free;
    // A block that cannot be made longer stays as it is, unless no bytes were asked for.
    let is_given_up = given_up != 0 && (is_free || result != 0 || bytes == 0);
    if is_given_up {
        changes.push((call.time, Change::Freed { at: given_up }));
    }
    if !is_free && result != 0 {
        changes.push((
            until,
            Change::Taken {
                at: result,
                bytes,
                path: call.path,
            },
        ));
    }
    is_free || is_given_up || call.returned.is_none_or(|(result, _)| result != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(
        kind: Kind,
        time: u64,
        values: [u64; 2],
        returned: Option<(u64, u64)>,
        path: u32,
    ) -> Call {
        Call {
            process: 1,
            thread: 1,
            kind,
            time,
            values: [values[0], values[1], 0],
            returned,
            path,
        }
    }

    #[test]
    fn blocks_are_followed() {
        let calls = [
            call(Kind::Malloc, 10, [100, 0], Some((0x1000, 11)), 0),
            // Within it, a call of another function is its own business.
            call(Kind::Realloc, 20, [0, 50], Some((0x2000, 29)), 1),
            call(Kind::Malloc, 21, [50, 0], Some((0x2000, 28)), 2),
            call(Kind::Realloc, 30, [0x1000, 300], Some((0x3000, 40)), 3),
            call(Kind::Calloc, 50, [3, 5], Some((0x4000, 51)), 0),
            call(Kind::Free, 60, [0x2000, 0], None, 4),
            call(Kind::Free, 61, [0x9000, 0], None, 4),
            call(Kind::Free, 62, [0, 0], None, 4),
            call(Kind::Aligned, 70, [64, 7], Some((0, 71)), 0),
        ];
        let made = Allocations::of(&calls);
        let all = Figures {
            blocks: 4,
            bytes: 100 + 50 + 300 + 15,
            leaked_blocks: 2,
            leaked_bytes: 315,
            peak_blocks: 3,
            peak_bytes: 365,
            freed: 2,
            lifetime: 19 + 31,
        };
        assert_eq!(made.all, all);
        assert_eq!((made.peak_at, made.strange, made.failed), (51, 1, 1));
        assert_eq!(made.paths.keys().copied().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(
            (made.paths[&0].bytes, made.paths[&0].leaked_bytes),
            (115, 15)
        );
    }

    #[test]
    fn processes_have_blocks_of_their_own() {
        let mut calls = vec![call(Kind::Malloc, 1, [8, 0], Some((0x1000, 2)), 0)];
        calls.push(Call {
            process: 2,
            ..call(Kind::Free, 3, [0x1000, 0], None, 1)
        });
        let made = Allocations::of(&calls);
        assert_eq!((made.all.leaked_bytes, made.strange), (8, 1));
    }
}
