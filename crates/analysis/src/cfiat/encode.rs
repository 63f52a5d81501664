//! Loads to descriptors.

use super::{CLASSES, Cache, Config, Memory, class};
use crate::walk::{Bytes, Operation};

/// A load whose value is not known from what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// Loads of the thread since its last descriptor (fahCnt).
    pub hits: u32,
    /// The value, from the lowest address on; `None`: the trace has none.
    pub value: Option<&'a [u8]>,
    pub size: u32,
}

/// Hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    pub hits: u64,
    pub misses: u64,
}

impl Hits {
    fn add(&mut self, is_hit: bool) {
        match is_hit {
            true => self.hits += 1,
            false => self.misses += 1,
        }
    }

    pub fn all(&self) -> u64 {
        self.hits + self.misses
    }
}

/// Figures of a thread, as figure 4.38 has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads and stores by their class: whether all lines were in the cache.
    pub cache: [Hits; CLASSES],
    /// Loads that were: whether all flags were set.
    pub flags: [Hits; CLASSES],
    pub loads: u64,
    pub descriptors: u64,
    /// Bytes of the values of all descriptors.
    pub value_bytes: u64,
    /// Descriptors without a value.
    pub unknown: u64,
    /// Loads that would have been counted, and whose values others have changed.
    pub invalidated: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        for (all, own) in [
            (&mut self.cache, &other.cache),
            (&mut self.flags, &other.flags),
        ] {
            for (sum, one) in all.iter_mut().zip(own) {
                sum.hits += one.hits;
                sum.misses += one.misses;
            }
        }
        self.loads += other.loads;
        self.descriptors += other.descriptors;
        self.value_bytes += other.value_bytes;
        self.unknown += other.unknown;
        self.invalidated += other.invalidated;
    }
}

/// A cache, and what a decoder knows: of one thread, or of several.
pub struct Shared {
    cache: Cache,
    memory: Option<Memory>,
}

impl Shared {
    pub fn new(config: &Config) -> Shared {
        Shared {
            cache: Cache::new(config),
            memory: config.coherent.then(Memory::default),
        }
    }
}

/// Makes the descriptors of one thread.
#[derive(Default)]
pub struct Encoder {
    hits: u32,
    pub counts: Counts,
}

impl Encoder {
    /// A load or a store; the descriptor that it has.
    #[inline]
    pub fn operation<'a>(
        &mut self,
        shared: &mut Shared,
        operation: &Operation,
        bytes: Bytes<'a>,
    ) -> Option<Descriptor<'a>> {
        let Operation { address, size, .. } = *operation;
        let value = operation.value.map(|value| bytes.of(value));
        if operation.is_store {
            if size > 0 {
                let is_cached = shared.cache.store(address, size);
                self.counts.cache[class(size)].add(is_cached);
            }
            if let (Some(memory), Some(value)) = (&mut shared.memory, value) {
                memory.set(address, value);
            }
            return None;
        }
        self.counts.loads += 1;
        let mut is_known = false;
        if size > 0 {
            let found = shared.cache.load(address, size);
            is_known = found.is_known;
            if let (true, Some(memory), Some(value)) = (is_known, &mut shared.memory, value)
                && !memory.has(address, value)
            {
                shared.cache.reload(address, size);
                self.counts.invalidated += 1;
                is_known = false;
            }
            self.counts.cache[class(size)].add(found.is_cached);
            if found.is_cached {
                self.counts.flags[class(size)].add(is_known);
            }
        }
        if is_known && self.hits < u32::MAX {
            self.hits += 1;
            return None;
        }
        if let (Some(memory), Some(value)) = (&mut shared.memory, value) {
            memory.set(address, value);
        }
        self.counts.descriptors += 1;
        self.counts.value_bytes += u64::from(size);
        self.counts.unknown += u64::from(value.is_none());
        let hits = std::mem::take(&mut self.hits);
        Some(Descriptor { hits, value, size })
    }
}
