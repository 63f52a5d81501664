//! mlvCFiat as the figures of the mTrace thesis have it, byte by byte.
//!
//! | what | figure |
//! |---|---|
//! | loads and stores of one line after the other | 3.4, 4.41 |
//! | small operands in one line | 4.39 |
//! | replacement | 4.43, 4.45 |
//! | descriptors | 4.40 |

use std::collections::{BTreeMap, BTreeSet};

use crate::cfiat::{Config, Crossing, Replacement};

/// A load or a store.
#[derive(Clone, Debug)]
pub struct Access {
    pub is_store: bool,
    pub address: u64,
    pub size: u32,
    /// The bytes, if they are known.
    pub value: Option<Vec<u8>>,
}

/// A descriptor: loads counted before it, and its value, 0 where that is not known.
pub type Descriptor = (u32, Vec<u8>);

#[derive(Clone)]
struct Line {
    number: u64,
    way: u32,
    /// Granules whose flags are set.
    flags: BTreeSet<u32>,
}

/// One cache, and the memory of whoever decodes, byte by byte.
pub struct Definition {
    config: Config,
    /// Lines of each set; the one that was used last is the last.
    sets: BTreeMap<u64, Vec<Line>>,
    /// Number of lines that came into each set.
    came: BTreeMap<u64, u32>,
    memory: BTreeMap<u64, u8>,
}

/// Loads, stores, hits and misses of one thread.
#[derive(Default)]
pub struct Thread {
    pub hits: u32,
    pub descriptors: Vec<Descriptor>,
    pub cache: [u64; 2],
    pub flags: [u64; 2],
}

impl Definition {
    pub fn new(config: Config) -> Definition {
        Definition {
            config,
            sets: BTreeMap::new(),
            came: BTreeMap::new(),
            memory: BTreeMap::new(),
        }
    }

    pub fn access(&mut self, thread: &mut Thread, access: &Access) {
        let parts = self.parts(access);
        let (mut all_cached, mut all_set) = (true, true);
        for (line, flags) in &parts {
            let (is_cached, is_set) = self.touch(*line, flags);
            all_cached &= is_cached;
            all_set &= is_set;
        }
        if access.size > 0 {
            thread.cache[usize::from(!all_cached)] += 1;
        }
        if access.is_store {
            self.keep(access);
            return;
        }
        let mut is_known = all_cached && all_set && access.size > 0;
        if is_known && self.config.coherent && self.differs(access) {
            is_known = false;
            for (number, flags) in parts {
                let set = self.sets.entry(self.set(number)).or_default();
                let line = set.iter_mut().find(|line| line.number == number);
                line.into_iter().for_each(|line| line.flags = flags.clone());
            }
        }
        if all_cached && access.size > 0 {
            thread.flags[usize::from(!is_known)] += 1;
        }
        if is_known {
            thread.hits += 1;
            return;
        }
        let nothing = vec![0; u8::try_from(access.size).unwrap_or(0).into()];
        let value = access.value.clone().unwrap_or(nothing);
        thread.descriptors.push((thread.hits, value));
        thread.hits = 0;
        self.keep(access);
    }

    fn keep(&mut self, access: &Access) {
        for (at, byte) in (0..).zip(access.value.iter().flatten()) {
            self.memory.insert(access.address.wrapping_add(at), *byte);
        }
    }

    fn differs(&self, access: &Access) -> bool {
        let mut bytes = (0..).zip(access.value.iter().flatten());
        bytes.any(|(at, byte)| {
            let there = self.memory.get(&access.address.wrapping_add(at));
            *byte != there.copied().unwrap_or(0)
        })
    }

    fn set(&self, line: u64) -> u64 {
        let sets = self.config.size / self.config.ways / self.config.line;
        line % u64::from(sets.max(1))
    }

    /// The lines of an operand, and in each the granules that it is in.
    fn parts(&self, access: &Access) -> Vec<(u64, BTreeSet<u32>)> {
        let line = u64::from(self.config.line);
        let mut parts: Vec<(u64, BTreeSet<u32>)> = Vec::new();
        for at in 0..u64::from(access.size) {
            let byte = access.address.wrapping_add(at);
            let granule = (byte % line) as u32 / self.config.granule;
            match parts.last_mut() {
                Some((number, granules)) if *number == byte / line => {
                    granules.insert(granule);
                }
                _ => parts.push((byte / line, BTreeSet::from([granule]))),
            }
        }
        if access.size <= 4 && self.config.crossing == Crossing::First {
            parts.truncate(1);
        }
        parts
    }

    /// Accesses a line: whether it was there, and whether all these flags were set.
    fn touch(&mut self, number: u64, flags: &BTreeSet<u32>) -> (bool, bool) {
        let (set, ways) = (self.set(number), self.config.ways);
        let lines = self.sets.entry(set).or_default();
        if let Some(at) = lines.iter().position(|line| line.number == number) {
            let mut line = lines.remove(at);
            let is_set = line.flags.is_superset(flags);
            line.flags.extend(flags);
            lines.push(line);
            return (true, is_set);
        }
        let came = self.came.entry(set).or_default();
        let turn = ways - 1 - *came % ways;
        *came += 1;
        let way = match self.config.replacement {
            Replacement::RoundRobin => turn,
            Replacement::Lru if (lines.len() as u32) < ways => turn,
            Replacement::Lru => lines[0].way,
        };
        lines.retain(|line| line.way != way);
        lines.push(Line {
            number,
            way,
            flags: flags.clone(),
        });
        (false, false)
    }
}

/// The values of all loads, by who knows the stores and the descriptors.
pub fn decode(accesses: &[Access], descriptors: &[Descriptor]) -> Vec<Vec<u8>> {
    let mut memory: BTreeMap<u64, u8> = BTreeMap::new();
    let (mut loads, mut hits) = (Vec::new(), 0);
    let mut descriptors = descriptors.iter();
    let mut next = descriptors.next();
    for access in accesses {
        let mut keep = |value: &[u8]| {
            for (at, byte) in (0..).zip(value) {
                memory.insert(access.address.wrapping_add(at), *byte);
            }
        };
        match next {
            _ if access.is_store => keep(access.value.as_deref().unwrap_or_default()),
            Some((count, value)) if *count == hits => {
                if access.value.is_some() {
                    keep(value);
                }
                loads.push(value.clone());
                hits = 0;
                next = descriptors.next();
            }
            _ => {
                let bytes = (0..u64::from(access.size)).map(|at| {
                    let there = memory.get(&access.address.wrapping_add(at));
                    there.copied().unwrap_or(0)
                });
                loads.push(bytes.collect());
                hits += 1;
            }
        }
    }
    loads
}
