//! A set of addresses as sorted, disjoint spans.

use alloc::vec::Vec;

/// Memory of one kind.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    fn first_behind(&self, start: u64) -> usize {
        self.0.partition_point(|&(_, end)| end <= start)
    }

    /// Whether the set has an address of `start..end`.
    pub fn meets(&self, start: u64, end: u64) -> bool {
        let next = self.0.get(self.first_behind(start));
        next.is_some_and(|&(first, _)| first < end)
    }

    /// Takes `start..end` out.
    pub fn remove(&mut self, start: u64, end: u64) {
        let mut at = self.first_behind(start);
        while let Some(&(first, last)) = self.0.get(at).filter(|(first, _)| *first < end) {
            self.0.remove(at);
            for (first, last) in [(first, start.min(last)), (end.max(first), last)] {
                if first < last {
                    self.0.insert(at, (first, last));
                    at += 1;
                }
            }
        }
    }

    /// Adds `start..end`.
    pub fn insert(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        let at = self.first_behind(start);
        self.0.insert(at, (start, end));
    }

    /// The parts of `start..end` that the set has.
    pub fn parts(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let inside = |&(first, last): &(u64, u64)| (first.max(start), last.min(end));
        let parts = self.0[self.first_behind(start)..].iter().map(inside);
        parts.take_while(|(first, last)| first < last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    #[test]
    fn spans_are_cut_and_joined_by_address() {
        let mut spans = Spans::default();
        spans.insert(10, 20);
        spans.insert(30, 40);
        spans.insert(15, 35);
        assert_eq!(spans.parts(0, 100), [(10, 15), (15, 35), (35, 40)]);
        spans.remove(12, 36);
        assert_eq!(spans.parts(0, 100), [(10, 12), (36, 40)]);
        spans.remove(37, 38);
        assert_eq!(spans.parts(11, 39), [(11, 12), (36, 37), (38, 39)]);
        assert!(spans.meets(0, 11) && !spans.meets(12, 36) && spans.meets(39, 50));
        spans.remove(0, 100);
        assert!(!spans.meets(0, 100));
    }
}
