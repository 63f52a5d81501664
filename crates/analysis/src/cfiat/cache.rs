//! A set-associative cache whose lines have first-access flags.

use std::ops::Range;

/// Most ways of a set.
const MOST_WAYS: u32 = 1 << 10;
/// Most bytes and lines of a cache.
const MOST_BYTES: u32 = 1 << 30;
const MOST_LINES: u32 = 1 << 24;

/// Which line of a full set goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// From the last way of each set to the first, and again.
    RoundRobin,
    /// The one that was used least recently.
    Lru,
}

/// Lines that an operand of up to 4 bytes is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// The line of its first byte.
    First,
    /// All lines with bytes of it, as of larger operands.
    All,
}

/// A cache with first-access flags. All sizes are powers of two, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub size: u32,
    pub ways: u32,
    pub line: u32,
    /// Bytes that a flag stands for.
    pub granule: u32,
    pub replacement: Replacement,
    pub crossing: Crossing,
    /// Lines that others have written are noticed by their values.
    pub coherent: bool,
}

impl Config {
    /// A sentence if there is no such cache.
    pub fn check(&self) -> Result<(), String> {
        for (name, number) in [
            ("the size of the cache", self.size),
            ("the number of ways", self.ways),
            ("the size of a line", self.line),
            ("the bytes of a flag", self.granule),
        ] {
            if !number.is_power_of_two() {
                return Err(format!("{name} is {number}; give a power of two"));
            }
        }
        let way = u64::from(self.ways) * u64::from(self.line);
        if self.size > MOST_BYTES || self.ways > MOST_WAYS || u64::from(self.size) < way {
            return Err(format!(
                "{} ways of {} bytes have no place in {} bytes; give a cache of at most 1 GB, with at \
                 most {MOST_WAYS} ways, in which one set has place",
                self.ways, self.line, self.size
            ));
        }
        if self.size / self.line > MOST_LINES {
            return Err(format!(
                "the cache has {} lines; give larger lines, so that it has at most {MOST_LINES}",
                self.size / self.line
            ));
        }
        if self.granule > self.line || self.line / self.granule > u64::BITS {
            return Err(format!(
                "a line of {} bytes has {} flags of {} bytes; give 1 to 64 flags",
                self.line,
                self.line / self.granule,
                self.granule
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Default)]
struct Line {
    /// Address without the bits within the line; only if it is valid.
    tag: u64,
    is_valid: bool,
    flags: u64,
    /// When it was used last, in accesses.
    used: u64,
}

/// State of the lines and flags that a load came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// All its lines were in the cache.
    pub is_cached: bool,
    /// All its flags were set.
    pub is_known: bool,
}

pub struct Cache {
    config: Config,
    line_bits: u32,
    granule_bits: u32,
    set_mask: u64,
    lines: Vec<Line>,
    /// The way of each set that goes next, with [`Replacement::RoundRobin`].
    next: Vec<u32>,
    now: u64,
}

impl Cache {
    /// An empty cache. The configuration has to be one that [`Config::check`] lets pass.
    pub fn new(config: &Config) -> Cache {
        let sets = (config.size / (config.ways * config.line)).max(1);
        Cache {
            config: *config,
            line_bits: config.line.trailing_zeros(),
            granule_bits: config.granule.trailing_zeros(),
            set_mask: u64::from(sets - 1),
            lines: vec![Line::default(); sets as usize * config.ways as usize],
            next: vec![config.ways - 1; sets as usize],
            now: 0,
        }
    }

    /// A load: its bytes are known from now on.
    pub fn load(&mut self, address: u64, size: u32) -> Found {
        let mut found = Found {
            is_cached: true,
            is_known: true,
        };
        self.each(address, size, |cache, tag, flags| {
            match cache.find(tag) {
                Some(line) => {
                    found.is_known &= line.flags & flags == flags;
                    line.flags |= flags;
                }
                None => {
                    found = Found {
                        is_cached: false,
                        is_known: false,
                    };
                    cache.replace(tag, flags);
                }
            };
        });
        found
    }

    /// A store: its bytes are known from now on. Whether all its lines were in the cache.
    pub fn store(&mut self, address: u64, size: u32) -> bool {
        let mut is_cached = true;
        self.each(address, size, |cache, tag, flags| match cache.find(tag) {
            Some(line) => line.flags |= flags,
            None => {
                is_cached = false;
                cache.replace(tag, flags);
            }
        });
        is_cached
    }

    /// Others have written to lines of a load: of these, only what was loaded is known.
    pub fn reload(&mut self, address: u64, size: u32) {
        self.each(address, size, |cache, tag, flags| {
            if let Some(line) = cache.find(tag) {
                line.flags = flags;
            }
        });
    }

    /// Has each line of an operand visited, by its tag, with the flags of the operand's bytes.
    #[inline]
    fn each(&mut self, address: u64, size: u32, mut visit: impl FnMut(&mut Cache, u64, u64)) {
        let line = u64::from(self.config.line);
        let is_single = size <= 4 && self.config.crossing == Crossing::First;
        let (mut at, mut left) = (address, u64::from(size));
        while left > 0 {
            self.now += 1;
            let within = at & (line - 1);
            let here = left.min(line - within);
            let flags = self.flags(within..within + here);
            visit(self, at >> self.line_bits, flags);
            if is_single {
                break;
            }
            left -= here;
            at = (at - within).wrapping_add(line);
        }
    }

    fn flags(&self, within: Range<u64>) -> u64 {
        let first = within.start >> self.granule_bits;
        let last = (within.end - 1) >> self.granule_bits;
        (u64::MAX >> (63 - (last - first))) << first
    }

    fn set(&self, tag: u64) -> usize {
        (tag & self.set_mask) as usize
    }

    #[inline]
    fn find(&mut self, tag: u64) -> Option<&mut Line> {
        let ways = self.config.ways as usize;
        let first = self.set(tag) * ways;
        let now = self.now;
        let mut lines = self.lines[first..first + ways].iter_mut();
        let line = lines.find(|line| line.is_valid && line.tag == tag)?;
        line.used = now;
        Some(line)
    }

    fn replace(&mut self, tag: u64, flags: u64) {
        let (set, ways) = (self.set(tag), self.config.ways as usize);
        let lines = &mut self.lines[set * ways..][..ways];
        let way = match self.config.replacement {
            Replacement::RoundRobin => {
                let way = self.next[set] as usize;
                self.next[set] = match way {
                    0 => self.config.ways - 1,
                    way => way as u32 - 1,
                };
                way
            }
            // The last of those that were never used, as the figures have it.
            Replacement::Lru => {
                let oldest = lines.iter().enumerate().rev();
                oldest
                    .min_by_key(|(_, line)| line.used)
                    .map_or(0, |(way, _)| way)
            }
        };
        lines[way] = Line {
            tag,
            is_valid: true,
            flags,
            used: self.now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(replacement: Replacement) -> Cache {
        let config = Config {
            size: 32,
            ways: 2,
            line: 16,
            granule: 4,
            replacement,
            crossing: Crossing::First,
            coherent: false,
        };
        config.check().unwrap();
        Cache::new(&config)
    }

    fn way(cache: &Cache, address: u64) -> Option<usize> {
        let mut lines = cache.lines.iter();
        lines.position(|line| line.is_valid && line.tag == address >> 4)
    }

    #[test]
    fn evict_s_as_figure_4_43() {
        for replacement in [Replacement::RoundRobin, Replacement::Lru] {
            let mut cache = cache(replacement);
            let stack = 0x7fff_a51e_1680;
            assert!(!cache.store(stack, 8));
            assert_eq!(way(&cache, stack), Some(1));
            let found: Vec<(bool, Option<usize>)> = (0..9)
                .map(|number| {
                    let address = stack - 48 + 4 * number;
                    let is_cached = cache.store(address, 4);
                    (is_cached, way(&cache, address))
                })
                .collect();
            let line = |way| {
                [
                    (false, Some(way)),
                    (true, Some(way)),
                    (true, Some(way)),
                    (true, Some(way)),
                ]
            };
            assert_eq!(
                found,
                [&line(0)[..], &line(1), &[(false, Some(0))]].concat()
            );
            let leave = cache.load(stack, 8);
            assert_eq!((leave.is_cached, way(&cache, stack)), (false, Some(1)));
            let ret = cache.load(stack + 8, 8);
            assert_eq!((ret.is_cached, ret.is_known), (true, false));
        }
    }

    #[test]
    fn multiblock_s_as_figure_4_45() {
        for replacement in [Replacement::RoundRobin, Replacement::Lru] {
            let mut cache = cache(replacement);
            let stack = 0x7fff_0000_1000;
            cache.store(stack, 8);
            for offset in [8, 16, 24, 32] {
                cache.store(stack - offset, 8);
            }
            for offset in [8, 16, 24, 32] {
                assert!(cache.load(stack - offset, 8).is_cached);
            }
            let wide = stack - 64;
            assert!(!cache.store(wide, 32));
            let ways = [way(&cache, wide), way(&cache, wide + 16)];
            assert!(
                ways == [Some(0), Some(1)] || ways == [Some(1), Some(0)],
                "{ways:?}"
            );
            let again = cache.load(wide, 32);
            assert!(again.is_cached && again.is_known);
            assert!(!cache.store(stack - 96, 8));
            assert_eq!(way(&cache, wide), None, "the first half went");
            let found = cache.load(wide, 32);
            assert_eq!((found.is_cached, found.is_known), (false, false));
        }
    }

    #[test]
    fn operands_may_cross_lines() {
        let mut cache = cache(Replacement::Lru);
        assert!(!cache.store(14, 4));
        assert_eq!([way(&cache, 0), way(&cache, 16)], [Some(1), None]);
        cache.config.crossing = Crossing::All;
        assert!(!cache.store(14, 4));
        assert!(cache.load(14, 4).is_known);
        cache.reload(16, 2);
        assert!(cache.load(16, 4).is_known);
        assert!(!cache.load(20, 1).is_known);
        // The last byte of all.
        assert!(!cache.load(u64::MAX, 2).is_cached);
    }
}
