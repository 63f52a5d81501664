//! Compression of what a program writes while it runs: blocks in the format of LZ4.
//!
//! Problem: witnesses with values have several bytes for each access, and the code that writes them has neither a heap nor a library.
//!
//! Approach: the greedy search of LZ4's quick levels: the last position of each hash of five bytes is a candidate, and what does not
//! match for long is left quicker and quicker. Readers use a library.
//!
//! Invariants: what [`pack`] writes is a block that any decoder of the format makes `from` of. The code cannot panic, as there would be
//! nothing to catch it, and calls nothing of a library.
//!
//! Source: Y. Collet, "LZ4 Block Format Description".

/// Bits of a hash.
const BITS: u32 = 12;
/// Most bytes of a block: positions have 16 bits.
pub const MOST: usize = 1 << 16;
/// Shortest match.
const SHORTEST: usize = 4;
/// A match ends so many bytes before the end, and begins so many before it.
const LAST: usize = 5;
const LAST_MATCH: usize = 12;

/// Positions by hash.
pub type Table = [u16; 1 << BITS];

/// Copies bytes to others, of which there are as many.
pub type Copy = fn(&mut [u8], &[u8]);

/// Compresses at most [`MOST`] bytes, with a table of zeros; the length of the block, or `None`: it is longer than `to`.
pub fn pack(from: &[u8], to: &mut [u8], table: &mut Table, copy: Copy) -> Option<usize> {
    if from.len() > MOST {
        return None;
    }
    let mut out = Out { to, len: 0, copy };
    let (mut at, mut written) = (1, 0);
    let end = from.len().saturating_sub(LAST_MATCH);
    let mut missed = 0;
    while at < end {
        let now = word(from, at);
        let slot = &mut table[hash(now)];
        let candidate = usize::from(*slot);
        *slot = at as u16;
        if candidate >= at || word(from, candidate) as u32 != now as u32 {
            missed += 1;
            at += 1 + (missed >> 6);
            continue;
        }
        missed = 0;
        let before = from.get(written..at)?.iter().rev();
        let behind = from.get(..candidate)?.iter().rev();
        let back = before.zip(behind).take_while(|(one, other)| one == other);
        let back = back.count();
        let (start, candidate) = (at - back, candidate - back);
        let len = back + same(from, at, candidate + back);
        out.sequence(from.get(written..start)?, start - candidate, len)?;
        at = start + len;
        written = at;
        if at < end {
            table[hash(word(from, at - 2))] = (at - 2) as u16;
        }
    }
    out.literals(from.get(written..)?, 0)?;
    Some(out.len)
}

/// Eight bytes.
fn word(from: &[u8], at: usize) -> u64 {
    let bytes = from.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The hash of the lowest five.
fn hash(word: u64) -> usize {
    const PRIME: u64 = 889_523_592_379;
    ((word << 24).wrapping_mul(PRIME) >> (64 - BITS)) as usize
}

/// The number of bytes that are the same at two positions, the later one first.
fn same(from: &[u8], at: usize, candidate: usize) -> usize {
    let most = from.len() - LAST - at;
    let mut len = 0;
    while len + 8 <= most {
        let differs = word(from, at + len) ^ word(from, candidate + len);
        if differs != 0 {
            return len + (differs.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    while len < most && from.get(at + len) == from.get(candidate + len) {
        len += 1;
    }
    len
}

struct Out<'t> {
    to: &'t mut [u8],
    len: usize,
    copy: Copy,
}

impl Out<'_> {
    fn byte(&mut self, byte: u8) -> Option<()> {
        *self.to.get_mut(self.len)? = byte;
        self.len += 1;
        Some(())
    }

    /// The rest of a length whose first 15 are in the token.
    fn rest(&mut self, len: usize) -> Option<()> {
        let Some(mut rest) = len.checked_sub(15) else {
            return Some(());
        };
        while rest >= 255 {
            self.byte(255)?;
            rest -= 255;
        }
        self.byte(rest as u8)
    }

    /// A token, whose low half is given, and literals.
    fn literals(&mut self, literals: &[u8], low: u8) -> Option<()> {
        self.byte((literals.len().min(15) as u8) << 4 | low)?;
        self.rest(literals.len())?;
        let to = self.to.get_mut(self.len..)?.get_mut(..literals.len())?;
        (self.copy)(to, literals);
        self.len += literals.len();
        Some(())
    }

    fn sequence(&mut self, literals: &[u8], distance: usize, len: usize) -> Option<()> {
        let len = len - SHORTEST;
        self.literals(literals, len.min(15) as u8)?;
        let [low, high] = (distance as u16).to_le_bytes();
        self.byte(low)?;
        self.byte(high)?;
        self.rest(len)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{MOST, Table, pack};
    use std::vec::Vec;

    /// Rows of bytes: repeated ones, some that are nearly those before, and noise.
    fn row(random: &mut impl FnMut(usize) -> usize, len: usize) -> Vec<u8> {
        let mut row = Vec::new();
        while row.len() < len {
            match random(4) {
                0 => row.extend((0..random(40)).map(|_| random(256) as u8)),
                1 => row.extend([random(3) as u8].repeat(random(300))),
                _ if row.is_empty() => row.push(7),
                _ => {
                    let from = random(row.len());
                    let to = (from + random(600)).min(row.len());
                    row.extend_from_within(from..to);
                    if random(2) == 0 {
                        let last = row.len() - 1;
                        row[last] ^= 1;
                    }
                }
            }
        }
        row.truncate(len);
        row
    }

    fn packed(from: &[u8], to: &mut [u8]) -> Option<usize> {
        let mut table: Table = [0; _];
        pack(from, to, &mut table, <[u8]>::copy_from_slice)
    }

    #[test]
    fn a_library_reads_what_was_packed() {
        let mut state = 88_172_645_463_325_252u64;
        let mut random = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit.max(1) as u64) as usize
        };
        let mut to = std::vec![0; 2 * MOST];
        let (mut raw, mut all) = (0, 0);
        for turn in 0..600 {
            let len = [0, 1, 5, 12, 13, random(100), random(5000), random(MOST + 1)][turn % 8];
            let from = row(&mut random, len);
            let len = packed(&from, &mut to).expect("there is room");
            let again = lz4_flex::block::decompress(&to[..len], from.len()).expect("a block");
            assert!(again == from, "turn {turn}");
            (raw, all) = (raw + from.len(), all + len);
            // Without room it says so, and writes nothing behind the end.
            if len > 0 {
                assert_eq!(packed(&from, &mut to[..len - 1]), None);
            }
        }
        assert!(all * 4 < raw, "{all} of {raw}");
        assert_eq!(packed(&[0; MOST + 1], &mut to), None);
    }
}
