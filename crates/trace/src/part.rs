//! A thread's stream (`wire::stream`) as it is kept: compressed parts.
//!
//! A part is decompressed when it is read, one at a time, so a trace may be larger than
//! memory would be. Where the next part begins has no meaning: an item may be in two.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use wire::stream::{ADDRESS_STREAM, TARGETS, is_of_memory};

use crate::container::chunk;
use crate::delta;
use crate::error::ReadError;
use crate::planes;

/// Bytes of a part before compression, about: enough for good compression, little enough
/// to have many at a time.
pub(crate) const PART: usize = 1 << 20;
/// Level of zstd for parts; the program waits for the compressor if it writes quicker.
pub(crate) const LEVEL: i32 = 1;

/// Levels of zstd for addresses and values, of which there may be a hundred times as many bytes: the less
/// room is left for what the program writes, the later one.
const LEVELS_OF_MEMORY: [i32; 3] = [LEVEL, -7, -40];

static UNPACKED: AtomicU64 = AtomicU64::new(0);

/// Bytes of all parts that this process has unpacked so far, which says how far it has come with
/// a trace.
pub fn unpacked() -> u64 {
    UNPACKED.load(Relaxed)
}

/// Bytes of a stream, compressed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Which stream of the thread it goes on.
    pub stream: u16,
    /// When it was taken out of the thread's memory, nanoseconds since 1970; 0: not known.
    pub taken_unix_ns: u64,
    pub(crate) len: u32,
    /// A zstd frame, then perhaps a skippable frame as padding; before them a skippable frame,
    /// if its stamps are [apart]; addresses in [planes]; nothing of a part that is missing in the file.
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
        Packer::new()?.pack(None, raw)
    }

    /// A part of the stream with this number; at most [`MAX_RAW`](crate::container::MAX_RAW) bytes.
    pub fn of_stream(stream: u16, raw: &[u8]) -> io::Result<Part> {
        Packer::new()?.pack(Some(stream), raw)
    }

    /// A part that stands for `len` lost bytes of the stream.
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
        UNPACKED.fetch_add(self.len(), Relaxed);
        let (kind, at) = (chunk::Kind::STRM, 0);
        let raw = match chunk::delta_parts(&self.stored) {
            None => {
                let raw = chunk::decompress(&self.stored, self.len);
                match self.stream {
                    ADDRESS_STREAM => raw.map(|planes| planes::joined(&planes)),
                    _ => raw,
                }
            }
            Some((items, len)) => self.together(items, len),
        };
        raw.ok_or(ReadError::Compression { kind, at })
    }

    fn together(&self, items: u32, len: u32) -> Option<Vec<u8>> {
        let bytes = chunk::decompress(&self.stored, len.min(self.len))?;
        let (items, numbers) = bytes.split_at_checked(items as usize)?;
        delta::decode(items, numbers, self.len as usize)
    }
}

/// Makes parts.
pub(crate) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    of_memory: zstd::bulk::Compressor<'static>,
    level_of_memory: i32,
    planes: Vec<u8>,
}

impl Packer {
    pub(crate) fn new() -> io::Result<Packer> {
        Packer::at_level(LEVEL)
    }

    pub(crate) fn at_level(level: i32) -> io::Result<Packer> {
        Ok(Packer {
            compressor: zstd::bulk::Compressor::new(level)?,
            of_memory: zstd::bulk::Compressor::new(level)?,
            level_of_memory: level,
            planes: Vec::new(),
        })
    }

    /// Packs what is about memory quicker and worse from now on: 0 is best, 2 is quickest.
    pub(crate) fn hurry(&mut self, haste: usize) -> io::Result<()> {
        let level = LEVELS_OF_MEMORY[haste.min(LEVELS_OF_MEMORY.len() - 1)];
        if level != self.level_of_memory {
            self.level_of_memory = level;
            self.of_memory.set_compression_level(level)?;
        }
        Ok(())
    }

    /// Packs bytes of a stream; `None`: of none that a thread writes.
    pub(crate) fn pack(&mut self, stream: Option<u16>, raw: &[u8]) -> io::Result<Part> {
        if let Some(stream) = stream.filter(|&stream| is_of_memory(stream)) {
            let raw = match stream {
                ADDRESS_STREAM => {
                    planes::apart(raw, &mut self.planes);
                    &self.planes
                }
                _ => raw,
            };
            return Ok(Part {
                len: raw.len() as u32,
                stream,
                stored: chunk::compress_with(&mut self.of_memory, raw)?,
                ..Part::default()
            });
        }
        let has_stamps = stream.map(usize::from) == Some(TARGETS);
        let encoded = has_stamps.then(|| delta::encode(raw)).flatten();
        Ok(Part {
            len: raw.len() as u32,
            stream: stream.unwrap_or_default(),
            stored: match encoded {
                None => self.stored(raw)?,
                Some(encoded) => chunk::compress_delta(&mut self.compressor, &encoded, raw.len())?,
            },
            ..Part::default()
        })
    }

    /// Anything else, as it is stored.
    pub(crate) fn stored(&mut self, raw: &[u8]) -> io::Result<Vec<u8>> {
        chunk::compress_with(&mut self.compressor, raw)
    }
}
