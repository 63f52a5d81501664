//! A place in shared memory that one thread takes and fills in, and all read when it is done.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const READY: u32 = 2;

/// State of such a place; zeros are a free one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Claim(AtomicU32);

impl Claim {
    /// Whether the caller has it now, and is to fill it in and to [`publish`](Claim::publish) it.
    pub(crate) fn take(&self) -> bool {
        let taken = self.0.compare_exchange(FREE, TAKEN, AcqRel, Acquire);
        taken.is_ok()
    }

    /// Others see what was written before.
    pub(crate) fn publish(&self) {
        self.0.store(READY, Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.load(Acquire) == READY
    }
}

#[cfg(test)]
mod tests {
    use super::Claim;

    #[test]
    fn one_has_it_and_others_see_it_when_it_is_done() {
        let claim = Claim::default();
        assert!(claim.take() && !claim.take() && !claim.is_ready());
        claim.publish();
        assert!(claim.is_ready() && !claim.take());
    }
}
