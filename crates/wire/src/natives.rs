//! Programs that were executed natively, so that nothing of them is recorded: which, why, and how often.
//!
//! Limits: [`KEPT`] pairs of a name and a reason; of more, only how often. A name is the file's own, cut off after
//! [`NAME`] bytes.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::claim::Claim;

/// Rows that are kept.
pub const KEPT: usize = 16;
/// Bytes of a name.
pub const NAME: usize = 32;

/// Reasons.
pub mod why {
    /// It has a set-user-ID or set-group-ID bit.
    pub const SET_ID: u32 = 1;
    /// It has file capabilities.
    pub const CAPABILITIES: u32 = 2;
    /// It is no 64-bit x86-64 program.
    pub const FOREIGN: u32 = 3;
    /// It may be executed and not read.
    pub const UNREADABLE: u32 = 4;
    /// The process cannot reach the recording any more: it gave up its rights, or has another root or /proc.
    pub const UNREACHABLE: u32 = 5;
    /// It is a file without a name that execve(2) closes.
    pub const NAMELESS: u32 = 6;
    /// There is no room for descriptors, or only the kernel knows the format.
    pub const OTHER: u32 = 7;
}

/// One program and one reason.
#[derive(Debug)]
#[repr(C)]
pub struct Row {
    claim: Claim,
    why: AtomicU32,
    times: AtomicU64,
    /// Little-endian, filled up with zeros.
    name: [AtomicU64; NAME / 8],
}

/// Contents of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    pub name: [u8; NAME],
    pub why: u32,
    pub times: u64,
}

/// All rows.
#[derive(Debug)]
#[repr(C)]
pub struct Natives {
    rows: [Row; KEPT],
    /// Executions that no row had room for.
    others: AtomicU64,
}

impl Natives {
    /// A program is about to be executed; `path` may have folders. The count, for [`take_back`].
    pub fn note(&self, path: &[u8], why: u32) -> &AtomicU64 {
        let name = name_of(path);
        let times = self.times_of(&name, why);
        times.fetch_add(1, AcqRel);
        times
    }

    fn times_of(&self, name: &[u8; NAME], why: u32) -> &AtomicU64 {
        for row in &self.rows {
            if row.claim.take() {
                row.why.store(why, Relaxed);
                for (word, bytes) in row.name.iter().zip(name.chunks_exact(8)) {
                    let bytes = bytes.try_into().unwrap_or_default();
                    word.store(u64::from_le_bytes(bytes), Relaxed);
                }
                row.claim.publish();
                return &row.times;
            }
            // A row that is being written is another thread's.
            let is_same = row
                .read()
                .is_some_and(|known| (&known.name, known.why) == (name, why));
            if is_same {
                return &row.times;
            }
        }
        &self.others
    }

    /// The rows of what was executed, and how often others were.
    pub fn rows(&self) -> (impl Iterator<Item = Native>, u64) {
        let rows = self.rows.iter().filter_map(Row::read);
        (rows.filter(|row| row.times > 0), self.others.load(Relaxed))
    }
}

/// It was not executed: the kernel refused it.
pub fn take_back(times: &AtomicU64) {
    times.fetch_sub(1, AcqRel);
}

fn name_of(path: &[u8]) -> [u8; NAME] {
    let own = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let mut name = [0; NAME];
    for (to, &from) in name.iter_mut().zip(own) {
        *to = from;
    }
    name
}

impl Row {
    fn read(&self) -> Option<Native> {
        if !self.claim.is_ready() {
            return None;
        }
        let mut name = [0; NAME];
        for (bytes, word) in name.chunks_exact_mut(8).zip(&self.name) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        Some(Native {
            name,
            why: self.why.load(Relaxed),
            times: self.times.load(Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_name_and_reason() {
        // SAFETY: all fields are numbers, of which zeros are the pool's beginning.
        let natives: Natives = unsafe { core::mem::zeroed() };
        natives.note(b"/usr/bin/sudo", why::SET_ID);
        natives.note(b"sudo", why::SET_ID);
        natives.note(b"/opt/sudo", why::UNREACHABLE);
        take_back(natives.note(b"gone", why::OTHER));
        for number in 0..KEPT as u8 {
            natives.note(&[b'a' + number], why::FOREIGN);
        }
        let (rows, others) = natives.rows();
        let mut seen = 0;
        for (at, row) in rows.enumerate() {
            let expected: (&[u8], u32, u64) = match at {
                0 => (b"sudo", why::SET_ID, 2),
                1 => (b"sudo", why::UNREACHABLE, 1),
                _ => (&[b'a' + at as u8 - 2], why::FOREIGN, 1),
            };
            let len = row.name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
            assert_eq!((&row.name[..len], row.why, row.times), expected);
            seen += 1;
        }
        // The row of what was refused is kept.
        assert_eq!((seen, others), (KEPT - 1, 3));
    }
}
