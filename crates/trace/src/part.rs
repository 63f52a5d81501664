//! A thread's stream (`wire::stream`) as it is kept: compressed parts.
//!
//! A part is decompressed when it is read, one at a time, so a trace may be larger than
//! memory would be. Where the next part begins has no meaning: an item may be in two.

use std::fmt;
use std::io;

use crate::container::chunk;
use crate::error::ReadError;

/// Bytes of a part before compression, about: enough for good compression, little enough
/// to have many at a time.
pub(crate) const PART: usize = 1 << 20;
/// What the compressor may take; the program waits for it if it writes quicker.
pub(crate) const LEVEL: i32 = 1;

/// Bytes of a stream, compressed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Which stream of the thread it goes on.
    pub stream: u16,
    /// When it was taken out of the thread's memory, nanoseconds since 1970; 0: not known.
    pub taken_unix_ns: u64,
    pub(crate) len: u32,
    /// A zstd frame, then perhaps a skippable frame as padding; nothing of a part that is
    /// missing in the file.
    pub(crate) stored: Vec<u8>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({} in {})", self.len, self.stored.len())
    }
}

impl Part {
    /// At most [`MAX_RAW`](crate::container::MAX_RAW) bytes.
    pub fn pack(raw: &[u8]) -> io::Result<Part> {
        Packer::new()?.pack(raw)
    }

    /// What is in a file that has lost so many bytes of the stream there.
    pub(crate) fn lost(stream: u16, len: u32) -> Part {
        Part {
            stream,
            len,
            ..Part::default()
        }
    }

    /// Whether the file has lost it: nothing but its length is known.
    pub fn is_lost(&self) -> bool {
        self.stored.is_empty()
    }

    /// Before compression.
    pub fn len(&self) -> u64 {
        self.len.into()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// On disk.
    pub fn stored_len(&self) -> u64 {
        self.stored.len() as u64
    }

    /// The bytes of the stream.
    pub fn unpack(&self) -> Result<Vec<u8>, ReadError> {
        let (kind, at) = (chunk::Kind::STRM, 0);
        chunk::decompress(&self.stored, self.len).ok_or(ReadError::Compression { kind, at })
    }
}

/// Makes parts.
pub(crate) struct Packer(zstd::bulk::Compressor<'static>);

impl Packer {
    pub(crate) fn new() -> io::Result<Packer> {
        Packer::at_level(LEVEL)
    }

    pub(crate) fn at_level(level: i32) -> io::Result<Packer> {
        zstd::bulk::Compressor::new(level).map(Packer)
    }

    pub(crate) fn pack(&mut self, raw: &[u8]) -> io::Result<Part> {
        Ok(Part {
            len: raw.len() as u32,
            stored: self.stored(raw)?,
            ..Part::default()
        })
    }

    /// Anything else, as it is stored.
    pub(crate) fn stored(&mut self, raw: &[u8]) -> io::Result<Vec<u8>> {
        chunk::compress_with(&mut self.0, raw)
    }
}
