//! The return-address stack: calls push, returns pop (figures 4.24, 4.25, 4.33).
//!
//! The thesis shows no stack that overflows: in figure 4.33 seven of its entries are used, and
//! the one below the first call says 0. Both kinds of [`Overflow`] give that figure.

/// Behaviour when more calls are open than the stack has entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The deepest calls overwrite the oldest, and returns go round: below the oldest entry the
    /// newest is read again. Processors do this.
    #[default]
    Circular,
    /// The oldest entry is dropped, and an empty stack says 0.
    DropOldest,
}

#[derive(Debug)]
pub struct Ras {
    entries: Vec<u64>,
    top: usize,
    /// Entries that were pushed and not popped; at most as many as there are.
    used: usize,
    overflow: Overflow,
}

impl Ras {
    pub fn new(entries: usize, overflow: Overflow) -> Ras {
        Ras {
            entries: vec![0; entries],
            top: 0,
            used: 0,
            overflow,
        }
    }

    pub fn push(&mut self, address: u64) {
        if !self.entries.is_empty() {
            self.top = (self.top + 1) % self.entries.len();
            self.entries[self.top] = address;
            self.used = (self.used + 1).min(self.entries.len());
        }
    }

    /// The predicted target of a return; `None`: the stack has no entries.
    pub fn pop(&mut self) -> Option<u64> {
        let address = *self.entries.get(self.top)?;
        if self.used == 0 && self.overflow == Overflow::DropOldest {
            return Some(0);
        }
        self.top = self.top.checked_sub(1).unwrap_or(self.entries.len() - 1);
        self.used = self.used.saturating_sub(1);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped_after_six_calls(overflow: Overflow) -> Vec<u64> {
        let mut ras = Ras::new(4, overflow);
        (1..=6).for_each(|address| ras.push(address));
        (0..6).map(|_| ras.pop().unwrap()).collect()
    }

    #[test]
    fn a_circular_stack_reads_the_newest_again() {
        assert_eq!(
            popped_after_six_calls(Overflow::Circular),
            [6, 5, 4, 3, 6, 5]
        );
        assert_eq!(Ras::new(0, Overflow::Circular).pop(), None);
    }

    #[test]
    fn a_stack_that_dropped_the_oldest_is_empty_behind_the_rest() {
        assert_eq!(
            popped_after_six_calls(Overflow::DropOldest),
            [6, 5, 4, 3, 0, 0]
        );
        assert_eq!(Ras::new(0, Overflow::DropOldest).pop(), None);
        let mut ras = Ras::new(2, Overflow::DropOldest);
        assert_eq!(ras.pop(), Some(0));
        [7, 8].into_iter().for_each(|address| ras.push(address));
        assert_eq!([(); 3].map(|()| ras.pop()), [Some(8), Some(7), Some(0)]);
    }

    /// Figure 4.33: below the first call there is nothing.
    #[test]
    fn an_empty_stack_says_zero() {
        for overflow in [Overflow::Circular, Overflow::DropOldest] {
            let mut ras = Ras::new(32, overflow);
            ras.push(0x4004A6);
            assert_eq!(ras.pop(), Some(0x4004A6));
            assert_eq!(ras.pop(), Some(0));
        }
    }
}
