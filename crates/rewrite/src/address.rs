//! Addresses in two files: a [`LinkAddr`] is one in the file that is edited, a [`New`] one in the edited file.

use std::ops::{Add, Range};

use image::LinkAddr;

use crate::skipped::Why;

/// An address in the edited file. What is not moved has the one that it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct New(pub u64);

impl New {
    /// The address of something that stays where it was.
    pub const fn of_old(old: LinkAddr) -> New {
        New(old.0)
    }

    /// The next address that is a multiple.
    pub const fn aligned(self, to: u64) -> New {
        New(self.0.next_multiple_of(to))
    }

    /// Bytes from another address to this one, which is behind it.
    pub const fn behind(self, start: New) -> u64 {
        self.0 - start.0
    }

    /// Bytes of a displacement that leads here from the end of an instruction.
    pub fn displacement(self, next: New) -> Result<[u8; 4], Why> {
        let distance = self.0.wrapping_sub(next.0).cast_signed();
        let distance = i32::try_from(distance).map_err(|_| Why::TooFar)?;
        Ok(distance.to_le_bytes())
    }

    /// This address in four bytes.
    pub fn absolute(self) -> Result<[u8; 4], Why> {
        self.displacement(New(0))
    }
}

impl Add<u64> for New {
    type Output = New;

    fn add(self, bytes: u64) -> New {
        New(self.0 + bytes)
    }
}

/// Bytes of a range.
pub const fn len(range: &Range<New>) -> u64 {
    range.end.0 - range.start.0
}
