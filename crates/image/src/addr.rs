//! The two address spaces of a file.
//!
//! A *file offset* counts bytes of the file. A *link address* is where the
//! linker believed a byte would be mapped; the run-time address of a
//! position-independent file is the link address plus a bias this crate never
//! sees. `PT_LOAD` segments are the only way between them.

use std::{fmt, ops};

/// Position in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(pub u64);

/// Address the linker gave, before any load bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddr(pub u64);

impl ops::Add<u64> for LinkAddr {
    type Output = LinkAddr;

    fn add(self, bytes: u64) -> LinkAddr {
        LinkAddr(self.0 + bytes)
    }
}

/// Bytes from one address to another one that is not before it.
impl ops::Sub for LinkAddr {
    type Output = u64;

    fn sub(self, start: LinkAddr) -> u64 {
        self.0 - start.0
    }
}

impl fmt::LowerHex for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::LowerHex for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// One `PT_LOAD`, cut to the bytes the file really has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub offset: FileOffset,
    pub addr: LinkAddr,
    /// Bytes backed by the file. Invariant: `offset + file_size` and
    /// `addr + file_size` do not overflow.
    pub file_size: u64,
    /// Bytes in memory; what exceeds `file_size` is zero.
    pub mem_size: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

impl Segment {
    fn holds_addr(&self, addr: LinkAddr) -> bool {
        addr.0
            .checked_sub(self.addr.0)
            .is_some_and(|into| into < self.file_size)
    }

    fn holds_offset(&self, offset: FileOffset) -> bool {
        offset
            .0
            .checked_sub(self.offset.0)
            .is_some_and(|into| into < self.file_size)
    }
}

/// Offset in the file of the byte at `addr`; executable segments win when
/// (in odd files) several hold the address.
pub(crate) fn to_file(segments: &[Segment], addr: LinkAddr) -> Option<FileOffset> {
    let segment = best(segments, |segment| segment.holds_addr(addr))?;
    Some(FileOffset(segment.offset.0 + (addr.0 - segment.addr.0)))
}

/// Link address of the byte at `offset`; executable segments win when the
/// same page of the file is mapped twice (ld does that at segment borders).
pub(crate) fn to_link(segments: &[Segment], offset: FileOffset) -> Option<LinkAddr> {
    let segment = best(segments, |segment| segment.holds_offset(offset))?;
    Some(LinkAddr(segment.addr.0 + (offset.0 - segment.offset.0)))
}

fn best(segments: &[Segment], holds: impl Fn(&Segment) -> bool) -> Option<&Segment> {
    let mut found = None;
    for segment in segments.iter().filter(|segment| holds(segment)) {
        if segment.executable {
            return Some(segment);
        }
        found = found.or(Some(segment));
    }
    found
}
