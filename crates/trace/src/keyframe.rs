//! Keyframes: places from which the streams of a thread can be read.

use wire::stream::{ADDRESS_STREAM, ALL_LANES, LANES, MEMORY_LANES, VALUE_STREAM};

/// A place in the streams of a thread where all of them say where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keyframe {
    /// Bytes of each stream that come before.
    pub at: [u64; LANES],
    /// Bytes of the streams of addresses and values that come before; 0 if there is none.
    pub memory: [u64; MEMORY_LANES],
    /// Instructions that the thread executed before, if somebody has counted them.
    pub insns: Option<u64>,
}

/// The beginning of a thread's streams that is not kept, as only the newest was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Number of parts before it, for each stream.
    pub parts: [u32; ALL_LANES],
    /// Their bytes, as they were written by the program.
    pub bytes: [u64; ALL_LANES],
    /// And all of them on disk.
    pub stored: u64,
}

impl Gap {
    /// Place of a stream in its arrays.
    pub fn place(stream: u16) -> Option<usize> {
        match stream {
            ADDRESS_STREAM => Some(LANES),
            VALUE_STREAM => Some(LANES + 1),
            stream => Some(usize::from(stream)).filter(|&stream| stream < LANES),
        }
    }
}

impl Gap {
    /// A gap before these bytes of the lanes.
    pub fn before(lanes: [u64; LANES]) -> Gap {
        let mut gap = Gap::default();
        gap.bytes[..LANES].copy_from_slice(&lanes);
        gap
    }

    /// Bytes of each lane.
    pub fn lanes(&self) -> [u64; LANES] {
        let mut lanes = [0; LANES];
        lanes.copy_from_slice(&self.bytes[..LANES]);
        lanes
    }
}

impl Keyframe {
    /// Bytes of each stream that come before, as [`Gap::place`] numbers them.
    pub fn all(&self) -> [u64; ALL_LANES] {
        let mut all = [0; ALL_LANES];
        all[..LANES].copy_from_slice(&self.at);
        all[LANES..].copy_from_slice(&self.memory);
        all
    }
}
