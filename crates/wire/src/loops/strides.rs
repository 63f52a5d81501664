//! Steps of a reference from one access to the next, as they come: an example of something that is done with each address.
//!
//! A reference that is `irregular` may still have few steps: a list whose nodes lie one behind another but for some, two rows that take
//! turns. The first steps that come have counts of their own, all others one together.

/// Steps that have counts of their own.
pub const KEPT: usize = 6;

/// The steps of a reference, behind its [`super::Model`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Strides {
    /// Entry of the nest, from 1 on, and the address of the last access.
    pub entry: u64,
    pub last: u64,
    pub strides: [i64; KEPT],
    /// 0: the step beside it has not come, nor have those behind it.
    pub counts: [u64; KEPT],
    pub others: u64,
}

impl Strides {
    /// Takes an address, in an entry of the nest; there is no step from one entry to the next.
    pub fn add(&mut self, entry: u64, address: u64) {
        let stride = address.wrapping_sub(self.last).cast_signed();
        let is_first = self.entry != entry;
        (self.entry, self.last) = (entry, address);
        if is_first {
            return;
        }
        for (own, count) in self.strides.iter_mut().zip(&mut self.counts) {
            if *count == 0 {
                *own = stride;
            }
            if *own == stride {
                *count += 1;
                return;
            }
        }
        self.others += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_in_the_order_in_which_they_come() {
        let mut strides = Strides::default();
        for address in [100, 108, 116, 16, 24, 24] {
            strides.add(1, address);
        }
        // Another entry, and more steps than are kept.
        for address in [5000, 5001, 5003, 5006, 5010, 5015, 5021] {
            strides.add(2, address);
        }
        assert_eq!(strides.strides, [8, -100, 0, 1, 2, 3]);
        assert_eq!(strides.counts, [3, 1, 1, 1, 1, 1]);
        assert_eq!(strides.others, 3);
    }
}
