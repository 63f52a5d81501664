//! A list that grows without moving.
//!
//! Problem: what the engine remembers of blocks and exits is tens of megabytes
//! for a large program; a vector that doubles has up to twice that, and copies
//! all of it each time.
//!
//! Approach: pieces of one size, each allocated whole when it is begun.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Elements of a piece: 24 KB of blocks, 12 KB of exits, sizes that the heap's
/// lists keep.
const PIECE: usize = 512;

#[derive(Debug)]
pub struct Slab<T> {
    /// All full but the last.
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { pieces: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds an element; returns its index.
    pub fn push(&mut self, element: T) -> usize {
        if self.pieces.last().is_none_or(|last| last.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let piece = self.pieces.len() - 1;
        self.pieces[piece].push(element);
        piece * PIECE + self.pieces[piece].len() - 1
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.pieces.len() * PIECE * size_of::<T>()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten()
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;
    fn index(&self, index: usize) -> &T {
        &self.pieces[index / PIECE][index % PIECE]
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pieces[index / PIECE][index % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_were_put() {
        let mut slab = Slab::default();
        for i in 0..3 * PIECE + 1 {
            assert_eq!(slab.push(i), i);
        }
        slab[PIECE] = 7;
        let all: Vec<usize> = slab.iter_mut().map(|element| *element).collect();
        assert_eq!(all.len(), 3 * PIECE + 1);
        for (i, element) in all.into_iter().enumerate() {
            assert_eq!(element, if i == PIECE { 7 } else { i });
            assert_eq!(slab[i], element);
        }
    }
}
