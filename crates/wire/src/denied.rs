//! Memory of the pool that threads did not get: which thread, since when, and why. What such a
//! thread executes from then on is missing, or in parts.
//!
//! Limits: [`KEPT`] rows; of more threads, or more reasons of one, only how many there were.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::claim::Claim;

/// Rows that are kept.
pub const KEPT: usize = 48;

/// Reasons that are no error number.
pub mod why {
    /// The pool has no room.
    pub const FULL: u32 = 0;
    /// Nobody took chunks of streams out of the pool.
    pub const UNREAD: u32 = u32::MAX;
    /// It was traced by a debugger, and ran natively.
    pub const TRACED: u32 = u32::MAX - 1;
}

/// One thread and one reason.
#[derive(Debug)]
#[repr(C)]
pub struct Row {
    claim: Claim,
    pid: AtomicU32,
    tid: AtomicU32,
    why: AtomicU32,
    /// When it was so first, CLOCK_MONOTONIC.
    since_ns: AtomicU64,
    times: AtomicU64,
}

/// Contents of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denial {
    pub since_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// An error number of the kernel, or one of [`why`].
    pub why: u32,
    pub times: u64,
}

/// All rows.
#[derive(Debug)]
#[repr(C)]
pub struct Denied {
    /// The number of times that memory was denied, in rows or not.
    times: AtomicU64,
    rows: [Row; KEPT],
}

impl Denied {
    pub fn times(&self) -> u64 {
        self.times.load(Acquire)
    }

    /// One more time (`times` of it is not looked at). Any thread of any process may call it.
    pub fn note(&self, denial: Denial) {
        self.times.fetch_add(1, AcqRel);
        for row in &self.rows {
            if row.claim.take() {
                row.pid.store(denial.pid, Relaxed);
                row.tid.store(denial.tid, Relaxed);
                row.why.store(denial.why, Relaxed);
                row.since_ns.store(denial.since_ns, Relaxed);
                row.times.store(1, Relaxed);
                row.claim.publish();
                return;
            }
            // A row that is being written is another thread's.
            let is_same = row.read().is_some_and(|known| {
                (known.pid, known.tid, known.why) == (denial.pid, denial.tid, denial.why)
            });
            if is_same {
                row.times.fetch_add(1, Relaxed);
                return;
            }
        }
    }

    /// The rows until now.
    pub fn rows(&self) -> impl Iterator<Item = Denial> {
        self.rows.iter().filter_map(Row::read)
    }
}

impl Row {
    fn read(&self) -> Option<Denial> {
        self.claim.is_ready().then(|| Denial {
            since_ns: self.since_ns.load(Relaxed),
            pid: self.pid.load(Relaxed),
            tid: self.tid.load(Relaxed),
            why: self.why.load(Relaxed),
            times: self.times.load(Relaxed),
        })
    }
}
