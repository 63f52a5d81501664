//! Which thread is next, where all are put in one order by their stamps.
//!
//! A thread goes on from one stamp to the next; of those that wait, the one with the oldest
//! stamp does.
//!
//! Invariant: what one thread did stays in its order, also where its stamps are not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Threads that wait for their turn, by number.
#[derive(Debug)]
pub struct Order {
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The newest stamp of each.
    newest: Vec<u64>,
}

impl Order {
    /// Order of so many threads, which all come to their first stamps now.
    pub fn of(threads: usize) -> Order {
        Order {
            waiting: (0..threads).map(|thread| Reverse((0, thread))).collect(),
            newest: vec![0; threads],
        }
    }

    /// Whose turn it is, up to its next stamp; then it is [`put`](Order::put) back.
    #[expect(
        clippy::should_implement_trait,
        reason = "no iterator: what it gives depends on what is put back"
    )]
    pub fn next(&mut self) -> Option<usize> {
        let Reverse((_, thread)) = self.waiting.pop()?;
        Some(thread)
    }

    /// The thread whose turn it is has come to a stamp: whether it is its turn again. If not,
    /// it waits.
    pub fn stays(&mut self, thread: usize, time: u64) -> bool {
        let time = time.max(self.newest[thread]);
        let oldest = self.waiting.peek();
        if oldest.is_some_and(|&Reverse(oldest)| oldest < (time, thread)) {
            self.put(thread, time);
            return false;
        }
        self.newest[thread] = time;
        true
    }

    /// The thread has come to a stamp.
    pub fn put(&mut self, thread: usize, time: u64) {
        let time = time.max(self.newest[thread]);
        self.newest[thread] = time;
        self.waiting.push(Reverse((time, thread)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stamp_is_next() {
        let stamps = [vec![5, 20, 7], vec![6, 21], vec![]];
        let mut at = [0; 3];
        let mut order = Order::of(3);
        let mut given = Vec::new();
        while let Some(thread) = order.next() {
            given.push(thread);
            if let Some(&time) = stamps[thread].get(at[thread]) {
                at[thread] += 1;
                order.put(thread, time);
            }
        }
        assert_eq!(given, [0, 1, 2, 0, 1, 0, 0, 1]);
        order.put(0, 30);
        order.put(1, 25);
        assert_eq!(order.next(), Some(1));
        assert!(order.stays(1, 29));
        assert!(!order.stays(1, 31));
        assert_eq!(order.next(), Some(0));
    }
}
