//! Bits by their probabilities: a binary range coder.
//!
//! Problem: a bit that is expected with probability p should cost -log2 p, also where that
//! is a thousandth of a bit.
//!
//! Approach: the range coder of LZMA. What is coded is a number in a range that shrinks in
//! proportion to the probability of each bit; its leading bytes leave as they become known,
//! but for a carry that may still come. One function codes both ways ([`Coder::bit`]), so
//! that a model that is driven by it cannot differ between writer and reader.
//!
//! Invariant: `range` is at least 2^24 between bits, so each bit has a part of it.

/// The bytes end too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// Probability that a bit is set, times 2^16; never 0.
///
/// So no bit is free: bytes are fewer than bits by a factor of 360,000 at most.
pub type Probability = u16;

/// Writes bits, or reads them.
pub trait Coder {
    /// Codes `bit`; who reads gives any, and gets what was written.
    fn bit(&mut self, bit: bool, set: Probability) -> Result<bool, Cut>;
}

const TOP: u32 = 1 << 24;

/// All of it but for one in 2^24, at worst, is one of the two parts.
fn part_of(range: u32, set: Probability) -> u32 {
    ((u64::from(range) * u64::from(set)) >> 16) as u32
}

/// Writes.
#[derive(Debug)]
pub struct Encoder {
    low: u64,
    range: u32,
    /// The last byte that left, which a carry may change, and how many 0xff follow it.
    held: u8,
    full: u64,
    is_first: bool,
    bytes: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder {
            low: 0,
            range: u32::MAX,
            held: 0,
            full: 0,
            is_first: true,
            bytes: Vec::new(),
        }
    }
}

impl Encoder {
    /// Takes what is written for good.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub fn written(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the rest.
    pub fn finish(mut self) -> Vec<u8> {
        for _ in 0..5 {
            self.shift();
        }
        self.bytes
    }

    fn shift(&mut self) {
        let carry = (self.low >> 32) as u8;
        if carry != 0 || (self.low as u32) < 0xff00_0000 {
            if !self.is_first {
                self.bytes.push(self.held.wrapping_add(carry));
            }
            self.is_first = false;
            for _ in 0..self.full {
                self.bytes.push(0xffu8.wrapping_add(carry));
            }
            self.full = 0;
            self.held = (self.low >> 24) as u8;
        } else {
            self.full += 1;
        }
        self.low = (self.low << 8) & 0xffff_ffff;
    }
}

impl Coder for Encoder {
    fn bit(&mut self, bit: bool, set: Probability) -> Result<bool, Cut> {
        let part = part_of(self.range, set);
        if bit {
            self.range = part;
        } else {
            self.low += u64::from(part);
            self.range -= part;
        }
        while self.range < TOP {
            self.range <<= 8;
            self.shift();
        }
        Ok(bit)
    }
}

/// Reads, of bytes that come one by one.
pub struct Decoder<I> {
    bytes: I,
    range: u32,
    code: u32,
}

impl<I: Iterator<Item = u8>> Decoder<I> {
    pub fn new(bytes: I) -> Result<Decoder<I>, Cut> {
        let (range, code) = (u32::MAX, 0);
        let mut decoder = Decoder { bytes, range, code };
        for _ in 0..4 {
            decoder.shift()?;
        }
        Ok(decoder)
    }

    /// Source of the bytes.
    pub fn source(&mut self) -> &mut I {
        &mut self.bytes
    }

    fn shift(&mut self) -> Result<(), Cut> {
        let byte = self.bytes.next().ok_or(Cut)?;
        self.code = self.code << 8 | u32::from(byte);
        Ok(())
    }
}

impl<I: Iterator<Item = u8>> Coder for Decoder<I> {
    fn bit(&mut self, _: bool, set: Probability) -> Result<bool, Cut> {
        let part = part_of(self.range, set);
        let bit = self.code < part;
        if bit {
            self.range = part;
        } else {
            // Bytes that no encoder wrote may be beyond the range.
            self.code = self.code.wrapping_sub(part);
            self.range -= part;
        }
        while self.range < TOP {
            self.range <<= 8;
            self.shift()?;
        }
        Ok(bit)
    }
}

#[cfg(test)]
mod tests {
    use arbtest::arbtest;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        arbtest(|u| {
            // Long runs of the likely make long runs of 0xff, and carries behind them.
            let is_likely: bool = u.arbitrary()?;
            let mut bits = Vec::new();
            for _ in 0..u.int_in_range(0..=2000)? {
                let set = match u.int_in_range(0..=3)? {
                    0 => 1,
                    1 => Probability::MAX,
                    _ => u.int_in_range(1..=Probability::MAX)?,
                };
                let bit = u.arbitrary()?;
                bits.push((if is_likely { set > 1 << 15 } else { bit }, set));
            }
            let mut encoder = Encoder::default();
            for &(bit, set) in &bits {
                encoder.bit(bit, set).expect("an encoder needs no bytes");
            }
            let bytes = encoder.finish();
            let mut decoder = Decoder::new(bytes.iter().copied()).expect("four bytes");
            for &(bit, set) in &bits {
                assert_eq!(decoder.bit(false, set), Ok(bit));
            }
            Ok(())
        });
    }

    #[test]
    fn any_bytes_give_bits_and_then_end() {
        arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            if let Ok(mut decoder) = Decoder::new(bytes.iter().copied()) {
                let limit = bytes.len() * 8 + 64;
                assert!((0..limit).any(|_| decoder.bit(false, 1 << 15).is_err()));
            }
            Ok(())
        });
    }
}
