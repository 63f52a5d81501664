//! Ranges of a function's numbers.

/// Ranges that are taken, by their beginnings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The first number from `from` on at which so many are free.
    pub fn free_from(&self, from: u64, len: u64) -> Option<u64> {
        let mut first = from;
        for &(start, end) in &self.0 {
            if start >= first.checked_add(len)? {
                break;
            }
            first = first.max(end);
        }
        first.checked_add(len)?;
        Some(first)
    }

    /// Takes a range that is free; one without numbers is none.
    pub fn take(&mut self, first: u64, len: u64) {
        if len == 0 {
            return;
        }
        let at = self.0.partition_point(|(start, _)| *start < first);
        self.0.insert(at, (first, first + len));
        // Neighbours become one.
        for at in [at + 1, at] {
            if at > 0 && at < self.0.len() && self.0[at - 1].1 == self.0[at].0 {
                self.0[at - 1].1 = self.0[at].1;
                self.0.remove(at);
            }
        }
    }

    /// The number behind the last one that is taken.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |(_, end)| *end)
    }
}
