//! The action of a signal, to be read by the engine's handler.
//!
//! The handler runs wherever the thread is, also in a change of the action, which the engine's
//! lock protects. There are two copies: a change fills the one that is not in force, then puts it
//! in force. A reader takes the one in force, and again if two changes came meanwhile, so it
//! never waits for the thread that it interrupted.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sys::signal::{SigAction, SigSet};

type Copy = [AtomicU64; 4];

/// One signal's action. There is one writer at a time.
#[derive(Debug)]
pub struct Taken {
    /// Counts changes; the lowest bit selects the copy in force.
    changes: AtomicU32,
    copies: [Copy; 2],
}

impl Taken {
    /// The default action.
    pub const fn new() -> Taken {
        Taken {
            changes: AtomicU32::new(0),
            copies: [const { [const { AtomicU64::new(0) }; 4] }; 2],
        }
    }

    /// Puts `action` in force.
    pub fn publish(&self, action: &SigAction) {
        let next = self.changes.load(Ordering::Relaxed).wrapping_add(1);
        let words = [action.handler, action.flags, action.restorer, action.mask.0];
        // A reader of these words sees the change before this one, which made them free.
        core::sync::atomic::fence(Ordering::Release);
        for (place, word) in self.copies[next as usize & 1].iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.changes.store(next, Ordering::Release);
    }

    /// The action in force.
    pub fn read(&self) -> SigAction {
        loop {
            let before = self.changes.load(Ordering::Acquire);
            let copy = &self.copies[before as usize & 1];
            let [handler, flags, restorer, mask] =
                [0, 1, 2, 3].map(|at| copy[at].load(Ordering::Relaxed));
            core::sync::atomic::fence(Ordering::Acquire);
            if self.changes.load(Ordering::Relaxed) == before {
                return SigAction {
                    handler,
                    flags,
                    restorer,
                    mask: SigSet(mask),
                };
            }
        }
    }
}

impl Default for Taken {
    fn default() -> Self {
        Taken::new()
    }
}

impl Clone for Taken {
    fn clone(&self) -> Self {
        let copy = Taken::new();
        copy.publish(&self.read());
        copy
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    fn action(word: u64) -> SigAction {
        SigAction {
            handler: word,
            flags: word,
            restorer: word,
            mask: SigSet(word),
        }
    }

    #[test]
    fn the_last_action_is_read() {
        let taken = Taken::new();
        assert_eq!(taken.read(), SigAction::default());
        for word in 1..5 {
            taken.publish(&action(word));
            assert_eq!(taken.read(), action(word));
            assert_eq!(taken.clone().read(), action(word));
        }
    }

    #[test]
    fn an_action_is_never_read_in_part() {
        let taken = Taken::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..200_000).for_each(|word| taken.publish(&action(word))));
            let mut last = 0;
            while last < 199_999 {
                let read = taken.read();
                assert_eq!(read, action(read.handler));
                assert!(read.handler >= last);
                last = read.handler;
            }
        });
    }
}
