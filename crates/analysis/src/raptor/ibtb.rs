//! The indirect branch target buffer of figures 4.26 and 4.27: sets of two targets, found by
//! the branch's address and a register of the path of indirect branches.

use std::marker::PhantomData;

use super::Targets;

/// Rule for a target that counts as predicted.
pub trait Rule {
    fn holds(ways: [u64; 2], last: usize, target: u64) -> bool;
}

/// The target is in either way, as figure 4.27 has it. A decoder cannot know in which.
#[derive(Debug)]
pub struct Either;

/// It is in the way that was used last.
#[derive(Debug)]
pub struct Last;

impl Rule for Either {
    fn holds(ways: [u64; 2], _: usize, target: u64) -> bool {
        ways.contains(&target)
    }
}

impl Rule for Last {
    fn holds(ways: [u64; 2], last: usize, target: u64) -> bool {
        ways[last] == target
    }
}

#[derive(Clone, Copy, Debug)]
struct Set {
    ways: [u64; 2],
    last: u8,
}

#[derive(Debug)]
pub struct Ibtb<R> {
    sets: Vec<Set>,
    /// The path information register.
    path: u16,
    /// Address of the branch that was asked for last.
    pc: u64,
    rule: PhantomData<R>,
}

impl<R: Rule> Ibtb<R> {
    /// `entries` is a power of two, and at least 2.
    pub fn new(entries: usize) -> Ibtb<R> {
        let empty = Set {
            ways: [0; 2],
            last: 1,
        };
        Ibtb {
            sets: vec![empty; (entries / 2).next_power_of_two()],
            path: 0,
            pc: 0,
            rule: PhantomData,
        }
    }

    pub fn index(&self, pc: u64) -> usize {
        ((u64::from(self.path >> 8) ^ pc >> 4) & (self.sets.len() as u64 - 1)) as usize
    }

    pub fn path(&self) -> u16 {
        self.path
    }
}

impl<R: Rule> Targets for Ibtb<R> {
    fn predict(&mut self, pc: u64) -> Option<u64> {
        self.pc = pc;
        let set = &self.sets[self.index(pc)];
        Some(set.ways[usize::from(set.last)])
    }

    fn learn(&mut self, target: u64) -> bool {
        let index = self.index(self.pc);
        let set = &mut self.sets[index];
        let predicted = R::holds(set.ways, set.last.into(), target);
        set.last = match set.ways.iter().position(|&way| way == target) {
            Some(way) => way as u8,
            None => {
                let oldest = 1 - set.last;
                set.ways[usize::from(oldest)] = target;
                oldest
            }
        };
        self.path = self.path << 2 ^ (self.pc >> 4 & 0x1FFF) as u16 | 1;
        predicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures 4.34 and 4.35: ten calls of one function.
    #[test]
    fn the_calls_of_the_figure() {
        let mut ibtb = Ibtb::<Either>::new(64);
        let mut seen = Vec::new();
        for _ in 0..10 {
            let (path, index) = (ibtb.path(), ibtb.index(0x40049C));
            ibtb.predict(0x40049C);
            let hit = ibtb.learn(0x400474);
            seen.push((path, index, hit));
        }
        // The figure shows what remains of the register in eight bits after each.
        let after = [0x49, 0x6D, 0xFD, 0xBD];
        assert_eq!(seen[0], (0, 9, false));
        assert_eq!(seen[1], (0x49, 9, true));
        assert_eq!(seen[2], (0x16D, 8, false));
        assert_eq!(seen[8], (0xAABD, 3, true));
        assert_eq!(seen[9], (0xAABD, 3, true));
        let low = |at: usize| seen[at].0 & 0xFF;
        assert_eq!([low(1), low(2), low(3), low(9)], after);
    }

    #[test]
    fn either_way_is_more_than_the_last() {
        let calls = [1, 2, 1, 1, 2, 3, 2];
        let hits = |predictor: &mut dyn Targets| {
            calls.map(|target| {
                predictor.predict(0);
                predictor.learn(target)
            })
        };
        // Without bits of the address, the set of the first four is the same.
        let either = hits(&mut Ibtb::<Either>::new(2));
        let last = hits(&mut Ibtb::<Last>::new(2));
        assert_eq!(either, [false, false, true, true, true, false, true]);
        assert_eq!(last, [false, false, false, true, false, false, false]);
    }
}
