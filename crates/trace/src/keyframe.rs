//! Keyframes: places from which the streams of a thread can be read.

use wire::stream::LANES;

/// A place in the streams of a thread where all of them say where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keyframe {
    /// Bytes of each stream that come before.
    pub at: [u64; LANES],
    /// Instructions that the thread executed before, if somebody has counted them.
    pub insns: Option<u64>,
}

/// The beginning of a thread's streams that is not kept, as only the newest was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Number of parts before it, for each stream.
    pub parts: [u32; LANES],
    /// Their bytes, as they were written by the program.
    pub bytes: [u64; LANES],
    /// And all of them on disk.
    pub stored: u64,
}
