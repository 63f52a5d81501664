//! Memory whose accesses are shown, and nothing else: addresses of a process, and whether reads count.

use std::collections::BTreeMap;
use std::ops::Range;

use analysis::walk::Accessed;
use isa::memory::Access;

/// Accesses that are shown.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Addresses by index of the process; one that is not here has none of them.
    pub places: BTreeMap<usize, Vec<Range<u64>>>,
    /// Only accesses that write.
    pub writes: bool,
}

impl Memory {
    /// Whether an access of a process, or one of its repetitions, is to a byte of these addresses.
    pub fn has(&self, process: usize, accessed: &Accessed) -> bool {
        if self.writes && !accessed.access.kind.writes() || accessed.access.size == 0 {
            return false;
        }
        let Some(places) = self.places.get(&process) else {
            return false;
        };
        let last = accessed.at(accessed.times.saturating_sub(1));
        let (low, high) = match accessed.is_backwards {
            true => (last, accessed.access),
            false => (accessed.access, last),
        };
        let end = end(high);
        places
            .iter()
            .any(|place| low.address < place.end && place.start < end)
    }
}

/// The address behind an access.
fn end(access: Access) -> u64 {
    access.address.saturating_add(access.size.into())
}

#[cfg(test)]
mod tests {
    use isa::memory::Kind;

    use super::*;

    fn accessed(address: u64, size: u32, kind: Kind, times: u64, is_backwards: bool) -> Accessed {
        Accessed {
            step: 0,
            access: Access {
                address,
                size,
                kind,
            },
            times,
            is_backwards,
            read: None,
            written: None,
        }
    }

    #[test]
    fn accesses_are_of_a_range_by_any_of_their_bytes() {
        let mut memory = Memory {
            places: BTreeMap::from([(1, vec![0x100..0x108, 0x200..0x201])]),
            writes: false,
        };
        let cases = [
            (0xf8, 8, 1, false, false),
            (0xf9, 8, 1, false, true),
            (0x107, 1, 1, false, true),
            (0x108, 8, 1, false, false),
            (0x200, 64, 1, false, true),
            // Repeated ones: forwards up to 0x1ff, and to 0x200; backwards down to 0x208, and to 0x200.
            (0x1f0, 8, 2, false, false),
            (0x1f0, 8, 3, false, true),
            (0x218, 8, 3, true, false),
            (0x218, 8, 4, true, true),
        ];
        for (address, size, times, is_backwards, expected) in cases {
            let read = accessed(address, size, Kind::Read, times, is_backwards);
            assert_eq!(memory.has(1, &read), expected, "{address:#x} {times}");
            assert!(!memory.has(0, &read));
        }
        memory.writes = true;
        for (kind, expected) in [
            (Kind::Read, false),
            (Kind::Write, true),
            (Kind::Update, true),
        ] {
            assert_eq!(memory.has(1, &accessed(0x100, 4, kind, 1, false)), expected);
        }
    }
}
