//! Values in a chunk: LEB128 varints, zigzag for signed ones, strings and
//! lists with their length before them.

use super::chunk::{Chunk, Kind};
use crate::error::ReadError;
use crate::model::Function;

/// Maps small negative and positive numbers to small unsigned ones.
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Base of a function's differences: the function
/// before it in the chunk, zero for the first.
#[derive(Clone, Copy, Default)]
pub(super) struct Base {
    pub id: u32,
    pub pc: u64,
    pub file_offset: u64,
}

impl From<&Function> for Base {
    fn from(function: &Function) -> Base {
        Base {
            id: function.id,
            pc: function.pc,
            file_offset: function.file_offset,
        }
    }
}

/// The contents of a chunk while it is written.
#[derive(Default)]
pub(super) struct Encoder {
    pub bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn uint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn int(&mut self, value: i64) {
        self.uint(zigzag(value));
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.bytes.push(value.into());
    }

    pub(super) fn blob(&mut self, value: &[u8]) {
        self.uint(value.len() as u64);
        self.bytes.extend(value);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.blob(value.as_bytes());
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Encoder, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    pub(super) fn list<T>(&mut self, values: &[T], mut put: impl FnMut(&mut Encoder, &T)) {
        self.uint(values.len() as u64);
        for value in values {
            put(self, value);
        }
    }
}

/// The contents of a chunk while it is read.
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    kind: Kind,
    at: u64,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(chunk: &'a Chunk) -> Decoder<'a> {
        Decoder {
            rest: &chunk.raw,
            kind: chunk.kind,
            at: chunk.at,
        }
    }

    pub(super) fn malformed(&self, what: &'static str) -> ReadError {
        ReadError::Malformed {
            kind: self.kind,
            at: self.at,
            what,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// To be called last: nothing may be left.
    pub(super) fn end(self) -> Result<(), ReadError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.malformed("it has bytes left over"))
        }
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        let (&first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| self.malformed("it ends in a value"))?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub(super) fn uint(&mut self) -> Result<u64, ReadError> {
        // Nearly all values of nodes are one byte.
        match *self.rest {
            [byte @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_uint(),
        }
    }

    fn long_uint(&mut self) -> Result<u64, ReadError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number is longer than 64 bits"))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, ReadError> {
        let value = self.uint()?;
        u32::try_from(value).map_err(|_| self.malformed("a number is longer than 32 bits"))
    }

    pub(super) fn int(&mut self) -> Result<i64, ReadError> {
        self.uint().map(unzigzag)
    }

    pub(super) fn i32(&mut self) -> Result<i32, ReadError> {
        let value = self.int()?;
        i32::try_from(value).map_err(|_| self.malformed("a number is longer than 32 bits"))
    }

    pub(super) fn flag(&mut self) -> Result<bool, ReadError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(super) fn blob(&mut self) -> Result<&'a [u8], ReadError> {
        let len = self.uint()?;
        let split = usize::try_from(len)
            .ok()
            .and_then(|len| self.rest.split_at_checked(len));
        let (blob, rest) = split.ok_or_else(|| self.malformed("it ends in a string"))?;
        self.rest = rest;
        Ok(blob)
    }

    pub(super) fn text(&mut self) -> Result<String, ReadError> {
        let blob = self.blob()?;
        let text = std::str::from_utf8(blob);
        text.map(str::to_owned)
            .map_err(|_| self.malformed("a string is not UTF-8"))
    }

    pub(super) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut Decoder<'a>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        self.flag()?.then(|| get(self)).transpose()
    }

    /// A count of things that take at least `least` bytes each. Post-invariant
    /// (nothing is allocated by a declared size): they fit what is left.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, ReadError> {
        let count = self.uint()?;
        let fits = usize::try_from(count)
            .ok()
            .filter(|&count| count <= self.rest.len() / least);
        fits.ok_or_else(|| self.malformed("it declares more values than it holds"))
    }

    pub(super) fn list<T>(
        &mut self,
        mut get: impl FnMut(&mut Decoder<'a>) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let count = self.count(1)?;
        (0..count).map(|_| get(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(raw: Vec<u8>) -> Result<u64, ReadError> {
        let chunk = Chunk {
            kind: Kind::META,
            at: 0,
            raw,
            part: Default::default(),
            told: None,
        };
        let mut decoder = Decoder::new(&chunk);
        let value = decoder.uint()?;
        decoder.end().map(|()| value)
    }

    #[test]
    fn numbers_round_trip_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut encoder = Encoder::default();
                encoder.uint(value);
                assert_eq!(decode(encoder.bytes).unwrap(), value);
                assert_eq!(zigzag(unzigzag(value)), value);
            }
        }
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(1);
        assert_eq!(decode(bytes.clone()).unwrap(), u64::MAX);
        bytes[9] = 2;
        assert!(decode(bytes.clone()).is_err());
        bytes[9] = 0x80;
        bytes.push(0);
        assert!(decode(bytes).is_err());
    }
}
