//! The return-address stack: calls push, returns pop (figures 4.24, 4.25, 4.33). It goes
//! round: the deepest calls overwrite the oldest.

#[derive(Debug)]
pub struct Ras {
    entries: Vec<u64>,
    top: usize,
}

impl Ras {
    pub fn new(entries: usize) -> Ras {
        Ras {
            entries: vec![0; entries],
            top: 0,
        }
    }

    pub fn push(&mut self, address: u64) {
        if !self.entries.is_empty() {
            self.top = (self.top + 1) % self.entries.len();
            self.entries[self.top] = address;
        }
    }

    /// Where a return goes, it says.
    pub fn pop(&mut self) -> Option<u64> {
        let address = *self.entries.get(self.top)?;
        self.top = self.top.checked_sub(1).unwrap_or(self.entries.len() - 1);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_overwritten() {
        let mut ras = Ras::new(4);
        (1..=6).for_each(|address| ras.push(address));
        let popped: Vec<_> = (0..5).map(|_| ras.pop().unwrap()).collect();
        assert_eq!(popped, [6, 5, 4, 3, 6]);
        assert_eq!(Ras::new(0).pop(), None);
    }

    /// Figure 4.33: below the first call there is nothing.
    #[test]
    fn an_empty_stack_says_zero() {
        let mut ras = Ras::new(32);
        ras.push(0x4004A6);
        assert_eq!(ras.pop(), Some(0x4004A6));
        assert_eq!(ras.pop(), Some(0));
    }
}
