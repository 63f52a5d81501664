//! A thread's stream (`wire::stream`) as it is kept: compressed parts.
//!
//! A part is decompressed when it is read, one at a time, so a trace may be larger than
//! memory would be. Where the next part begins has no meaning: an item may be in two.

use std::fmt;

use crate::container::chunk;
use crate::error::ReadError;

/// Bytes of a part before compression, about: enough for good compression, little enough
/// to have many at a time.
pub(crate) const PART: usize = 1 << 20;
/// Begins a part in a file: a skippable frame with one byte (RFC 8878, 3.1.2).
const LEAD: [u8; 8] = [0x51, 0x2A, 0x4D, 0x18, 1, 0, 0, 0];
/// What the compressor may take; the program waits for it if it writes quicker.
const LEVEL: i32 = 1;

/// Bytes of a stream, compressed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Which of the thread's.
    pub lane: u8,
    pub(crate) len: u32,
    /// A zstd frame, then perhaps a skippable frame as padding.
    pub(crate) stored: Vec<u8>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({} in {})", self.len, self.stored.len())
    }
}

impl Part {
    /// At most [`MAX_RAW`](crate::container::MAX_RAW) bytes.
    pub fn pack(lane: u8, raw: &[u8]) -> std::io::Result<Part> {
        let stored = chunk::compress(raw, LEVEL)?;
        Ok(Part {
            lane,
            len: raw.len() as u32,
            stored,
        })
    }

    /// As it is in a file: its lane, in a frame that decompressors skip.
    pub(crate) fn with_lead(&self) -> Vec<u8> {
        let mut bytes = LEAD.to_vec();
        bytes.push(self.lane);
        bytes.extend(&self.stored);
        bytes
    }

    pub(crate) fn stored(len: u32, stored: Vec<u8>) -> Part {
        let (lane, stored) = match stored.strip_prefix(&LEAD) {
            Some([lane, rest @ ..]) => (*lane, rest.to_vec()),
            _ => (0, stored),
        };
        Part { lane, len, stored }
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
