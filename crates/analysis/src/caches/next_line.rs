//! A prefetcher: a miss brings in the line behind, too.

use super::Model;

pub struct NextLine(pub Box<dyn Model>);

impl Model for NextLine {
    fn touch(&mut self, line: u64) -> bool {
        let is_there = self.0.touch(line);
        if !is_there {
            self.0.touch(line.wrapping_add(1));
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::super::lru::Lru;
    use super::*;

    #[test]
    fn every_second_line_of_a_row_misses() {
        let mut cache = NextLine(Box::new(Lru::new(64, 1)));
        let found: Vec<bool> = (0..6).map(|line| cache.touch(line)).collect();
        assert_eq!(found, [false, true, false, true, false, true]);
    }
}
