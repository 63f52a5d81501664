//! Conclusions from the dependences of a run: which loop carries them, and what could be done to the nest without turning one around.
//!
//! Approach: of each distance only the signs matter. A transformation is legal, as far as the run goes, if no distance that may come has
//! a negative first component, other than 0, behind it.
//!
//! Source: U. Banerjee, "Loop Transformations for Restructuring Compilers: The Foundations" (1993).

use super::{Dependence, Found, Kind, Range, Reference};

/// Signs that a distance may have.
pub const NEGATIVE: u8 = 1;
pub const ZERO: u8 = 2;
pub const POSITIVE: u8 = 4;

/// The signs of a range.
pub fn signs((low, high): Range) -> u8 {
    let mut signs = 0;
    if low < 0 {
        signs |= NEGATIVE;
    }
    if low <= 0 && high >= 0 {
        signs |= ZERO;
    }
    if high > 0 {
        signs |= POSITIVE;
    }
    signs
}

/// The meaning of a dependence for who would change the nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It has to be kept.
    Ordinary,
    /// A place is read and written again in each iteration: a sum or product may be reordered, anything else may not.
    Update,
    /// A place of the stack: a spilled register, or a variable of a program that was not optimised.
    Stack,
}

impl Class {
    pub const fn name(self) -> &'static str {
        match self {
            Class::Ordinary => "ordinary",
            Class::Update => "update",
            Class::Stack => "stack",
        }
    }
}

/// A dependence by its kind and references.
pub type Key = (Kind, Reference, Reference);

impl Found {
    pub fn class(&self, key: &Key) -> Class {
        let (kind, source, sink) = key;
        let is_stack = |one: &Reference| !one.is_call && self.on_stack.get(&one.at) == Some(&true);
        if is_stack(source) || is_stack(sink) {
            return Class::Stack;
        }
        // Read and written in the same iteration.
        let updates = |read: &Reference, write: &Reference| {
            read == write && !read.is_call || {
                let same = self.all.get(&(Kind::War, *read, *write));
                same.is_some_and(|one| {
                    one.signs
                        .iter()
                        .all(|signs| signs.iter().all(|one| *one == ZERO))
                })
            }
        };
        let is_update = match kind {
            Kind::Raw => updates(sink, source),
            Kind::War => updates(source, sink),
            Kind::Waw => {
                let mut reads = self.all.keys().filter(|(own, ..)| *own == Kind::War);
                let is_read = reads.any(|(_, read, write)| write == source && updates(read, write));
                let by_itself = self.all.contains_key(&(Kind::Raw, *source, *sink));
                source == sink && (is_read || by_itself)
            }
        };
        match is_update && !source.is_call && !sink.is_call {
            true => Class::Update,
            false => Class::Ordinary,
        }
    }
}

/// A distance's signs, each -1, 0 or 1.
type Vector = Vec<i8>;

/// All vectors that signs allow, but for those whose sink would come before its source.
fn vectors(signs: &[u8]) -> Vec<Vector> {
    let mut all: Vec<Vector> = vec![Vec::new()];
    for own in signs {
        let kinds = [(NEGATIVE, -1), (ZERO, 0), (POSITIVE, 1)];
        let kinds = kinds.into_iter().filter(|(bit, _)| own & bit != 0);
        let kinds: Vec<i8> = kinds.map(|(_, sign)| sign).collect();
        let longer = all.iter().flat_map(|vector| {
            let with = |sign: &i8| [&vector[..], &[*sign]].concat();
            kinds.iter().map(with).collect::<Vec<_>>()
        });
        all = longer.collect();
    }
    all.retain(|vector| first(vector.iter()) >= 0);
    all
}

/// The first sign that is not 0; 0: all are.
fn first<'a>(signs: impl Iterator<Item = &'a i8>) -> i8 {
    signs.copied().find(|sign| *sign != 0).unwrap_or(0)
}

impl Dependence {
    fn any(&self, is_one: impl Fn(&[i8]) -> bool) -> bool {
        let mut all = self.signs.iter().flat_map(|signs| vectors(signs));
        all.any(|vector| is_one(&vector))
    }

    /// Whether the loop of a depth, from 1 on, may carry it: both ends are in the same iterations of the loops around that.
    pub fn is_carried_at(&self, depth: usize) -> bool {
        let is_zero = |sign: &i8| *sign == 0;
        self.any(|vector| {
            vector.len() >= depth
                && vector[..depth - 1].iter().all(is_zero)
                && vector[depth - 1] != 0
        })
    }

    /// Whether both ends may be in the same iteration of all loops that they are in.
    pub fn is_independent(&self) -> bool {
        self.any(|vector| first(vector.iter()) == 0)
    }

    /// Whether it would be turned around if the loop of a depth, from 1 on, and the next inner one changed places.
    pub fn forbids_interchange(&self, depth: usize) -> bool {
        self.any(|vector| {
            let mut vector = vector.to_vec();
            if vector.len() > depth {
                vector.swap(depth - 1, depth);
            }
            first(vector.iter()) < 0
        })
    }

    /// Whether it forbids tiles of the loops of some depths: no loop around them carries it, and it is negative in one of them.
    pub fn forbids_tiles(&self, depths: std::ops::RangeInclusive<usize>) -> bool {
        self.any(|vector| {
            let around = vector
                .iter()
                .take(depths.start() - 1)
                .all(|sign| *sign == 0);
            let mut band = vector.iter().take(*depths.end()).skip(depths.start() - 1);
            around && band.any(|sign| *sign < 0)
        })
    }

    /// The least distance in the loop of a depth, of those that it may carry.
    pub fn least_at(&self, depth: usize) -> Option<i64> {
        let distances = self.distances.keys();
        let carried = distances.filter(|one| {
            let around = one
                .iter()
                .take(depth - 1)
                .all(|(low, high)| *low <= 0 && *high >= 0);
            around && one.get(depth - 1).is_some_and(|(_, high)| *high > 0)
        });
        carried.map(|one| one[depth - 1].0.max(1)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(distances: &[&[Range]]) -> Dependence {
        let mut made = Dependence::default();
        for distance in distances {
            made.add(distance.to_vec());
        }
        made
    }

    #[test]
    fn signs_say_what_may_be_done() {
        // A wave: (1, -1) is turned around by an interchange, and (1, 1) is not.
        let wave = of(&[&[(1, 1), (-1, -1)]]);
        assert!(wave.is_carried_at(1) && !wave.is_carried_at(2) && !wave.is_independent());
        assert!(
            wave.forbids_interchange(1) && wave.forbids_tiles(1..=2) && !wave.forbids_tiles(2..=2)
        );
        let forward = of(&[&[(1, 1), (1, 1)], &[(0, 0), (2, 2)]]);
        assert!(!forward.forbids_interchange(1) && !forward.forbids_tiles(1..=2));
        assert!(forward.is_carried_at(2) && forward.least_at(2) == Some(2));
        // A range whose sink would come first in part: that part is no distance.
        let range = of(&[&[(0, 1), (-3, 2)]]);
        assert!(range.is_independent() && range.is_carried_at(1) && range.is_carried_at(2));
        assert!(range.forbids_interchange(1));
        let same = of(&[&[(0, 0), (0, 0)]]);
        assert!(same.is_independent() && !same.is_carried_at(1) && !same.forbids_interchange(1));
    }
}
