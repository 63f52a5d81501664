//! The streams of a packed thread, as bits.

use trace::{Part, Thread};

use super::super::Unsound;
use super::super::lane::Lane;
use crate::pack::{Coder, Cut, Decoder, Encoder};

/// Bytes of a part: so few that who reads is told how far it is.
const PART: usize = 1 << 13;

/// One of the streams, of a segment.
pub(super) enum Bits<'a> {
    Written(Vec<Part>, Encoder),
    Read(Box<Decoder<Bytes<'a>>>),
}

impl<'a> Bits<'a> {
    pub fn written() -> Bits<'a> {
        Bits::Written(Vec::new(), Encoder::default())
    }

    /// Reader of a stream from byte `from` on, up to its end.
    pub fn read(
        thread: &'a Thread,
        stream: u16,
        from: u64,
        to: Option<u64>,
    ) -> Result<Bits<'a>, Unsound> {
        let mut lane = Lane::between(thread, stream.into(), from, to);
        // An error of the lane is reported as such, not as an end of data.
        lane.ahead(4)?;
        let decoder = Decoder::new(Bytes(lane))?;
        Ok(Bits::Read(Box::new(decoder)))
    }

    /// Makes a part of what was written, if that is enough for one.
    pub fn part(&mut self) {
        if let Bits::Written(parts, encoder) = self
            && encoder.written() >= PART
        {
            parts.extend(Part::pack(&encoder.take()));
        }
    }

    /// All that was written.
    pub fn finish(self) -> Result<Vec<Part>, Cut> {
        let Bits::Written(mut parts, encoder) = self else {
            return Err(Cut);
        };
        parts.extend(Part::pack(&encoder.finish()));
        Ok(parts)
    }

    /// The file has lost what it would read next.
    pub fn is_lost(&mut self) -> bool {
        match self {
            Bits::Written(..) => false,
            Bits::Read(decoder) => decoder.source().0.lost().is_some(),
        }
    }

    /// Whether all bytes were read, which they are behind the last bit.
    pub fn is_over(&mut self) -> bool {
        match self {
            Bits::Written(..) => true,
            Bits::Read(decoder) => decoder.source().next().is_none(),
        }
    }
}

impl Coder for Bits<'_> {
    #[inline]
    fn bit(&mut self, bit: bool, set: u16) -> Result<bool, Cut> {
        match self {
            Bits::Written(_, encoder) => encoder.bit(bit, set),
            Bits::Read(decoder) => decoder.bit(bit, set),
        }
    }
}

/// The bytes of a stream; none behind a part that cannot be read.
pub(super) struct Bytes<'a>(Lane<'a>);

impl Iterator for Bytes<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.0.peek().ok().flatten()?;
        self.0.skip(1);
        Some(byte)
    }
}
