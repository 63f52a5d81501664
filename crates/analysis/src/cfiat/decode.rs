//! Descriptors back to the values of all loads.

use super::Memory;
use crate::walk::{Bytes, Operation};

/// Numbers of the loads that a decoder made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    pub loads: u64,
    /// Loads that had descriptors.
    pub described: u64,
    /// Loads that are not what the trace has.
    pub wrong: u64,
    /// Loads of which the trace has no value: nobody knows whether they are right.
    pub unknown: u64,
}

impl Decoded {
    pub fn add(&mut self, other: &Decoded) {
        self.loads += other.loads;
        self.described += other.described;
        self.wrong += other.wrong;
        self.unknown += other.unknown;
    }
}

/// Makes the loads of one thread.
#[derive(Default)]
pub struct Decoder {
    hits: u32,
    /// Number of bytes that a value has at most, and the value of the last load.
    value: Vec<u8>,
    pub decoded: Decoded,
}

impl Decoder {
    /// A load or a store. `next` is the count of the descriptor that comes next, if it is of this thread;
    /// `take` gives its value. Gives the value of a load.
    pub fn operation(
        &mut self,
        memory: &mut Memory,
        operation: &Operation,
        bytes: Bytes<'_>,
        next: Option<u32>,
        take: impl FnOnce(&mut Vec<u8>),
    ) -> Option<&[u8]> {
        let traced = operation.value.map(|value| bytes.of(value));
        if operation.is_store {
            if let Some(value) = traced {
                memory.set(operation.address, value);
            }
            return None;
        }
        self.decoded.loads += 1;
        if next == Some(self.hits) {
            self.hits = 0;
            self.value.clear();
            take(&mut self.value);
            self.decoded.described += 1;
            // A value that the trace has not is 0 in its descriptor, and tells nothing.
            if traced.is_some() {
                memory.set(operation.address, &self.value);
            }
        } else {
            self.hits = self.hits.saturating_add(1);
            let len = traced.map_or(operation.size as usize, <[u8]>::len);
            self.value.resize(len, 0);
            memory.get(operation.address, &mut self.value);
        }
        match traced {
            None => self.decoded.unknown += 1,
            Some(traced) => self.decoded.wrong += u64::from(traced != self.value),
        }
        Some(&self.value)
    }
}
