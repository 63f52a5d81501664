//! Chunks: a header of 16 bytes and one zstd stream.
//!
//! ```text
//!  0  kind         four ASCII letters
//!  4  raw length   u32, bytes after decompression
//!  8  stored       u32, bytes that follow this header
//! 12  checksum     u32, CRC-32C of bytes 0..12 and the stored bytes
//! 16  stored bytes: a zstd frame, then perhaps a skippable frame as padding
//! ```

use std::fmt;
use std::io::{self, Read, Write};

use super::index::Identity;
use super::search::Again;
use super::{MAX_RATIO, MAX_RAW, MAX_TOTAL, RATIO_FREE};
use crate::delta::DeltaEncoded;
use crate::error::{ReadError, WriteError};
use crate::part::Part;

/// Four letters that say what a chunk holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub [u8; 4]);

impl Kind {
    /// Options and end of the run; the first chunk.
    pub const META: Kind = Kind(*b"META");
    /// A process begins.
    pub const PROC: Kind = Kind(*b"PROC");
    /// Modules of the process, as many chunks as needed.
    pub const MODS: Kind = Kind(*b"MODS");
    /// Functions of the process, as many chunks as needed.
    pub const FUNC: Kind = Kind(*b"FUNC");
    /// A thread of the process begins.
    pub const THRD: Kind = Kind(*b"THRD");
    /// Nodes of the thread, as many chunks as needed.
    pub const NODE: Kind = Kind(*b"NODE");
    /// A cost of the thread's nodes, as many chunks as needed. A reader may pass over it.
    pub const COST: Kind = Kind(*b"cost");
    /// Fragments of the process, as many chunks as needed.
    pub const FRAG: Kind = Kind(*b"FRAG");
    /// Cuts of the process, as many chunks as needed.
    pub const CUTS: Kind = Kind(*b"CUTS");
    /// Targets of the process's indirect branches, as many chunks as needed.
    pub const JUMP: Kind = Kind(*b"JUMP");
    /// Texts of the process, as many chunks as needed.
    pub const TEXT: Kind = Kind(*b"TEXT");
    /// Sources of the process, as many chunks as needed.
    pub const SRCS: Kind = Kind(*b"SRCS");
    /// Counts of the thread, as many chunks as needed.
    pub const CNTS: Kind = Kind(*b"CNTS");
    /// Basic blocks of the process, as many chunks as needed.
    pub const BLKS: Kind = Kind(*b"BLKS");
    /// Columns of the process's basic blocks. A reader may pass over it.
    pub const COLS: Kind = Kind(*b"cols");
    /// Targets of indirect branches of the process, as many chunks as needed.
    pub const TRGT: Kind = Kind(*b"TRGT");
    /// A part of a thread's stream, as many chunks as needed.
    pub const STRM: Kind = Kind(*b"STRM");
    /// Processes, code and threads of a trace, while it is made.
    pub const LOGS: Kind = Kind(*b"LOGS");
    /// Threads for which there was no memory. A reader may pass over it.
    pub const DENY: Kind = Kind(*b"deny");
    /// Programs that were executed natively. A reader may pass over it.
    pub const NATV: Kind = Kind(*b"natv");
    /// Totals; the last chunk.
    pub const DONE: Kind = Kind(*b"DONE");
    /// In a file beside a trace: how many instructions are before its keyframes.
    pub const NUMB: Kind = Kind(*b"NUMB");

    /// Whether a reader that does not know the kind may pass over it.
    pub(super) fn may_be_skipped(self) -> bool {
        self.0[0].is_ascii_lowercase()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({self})")
    }
}

pub(crate) const HEADER: usize = 16;
/// Generous bound of the bytes that zstd adds to incompressible ones.
const MAX_STORED: u32 = MAX_RAW + (1 << 20);
/// A speed at which the disk, not the compressor, is waited for.
const LEVEL: i32 = 3;
/// No frame of ours needs a larger window, as no chunk is larger.
const WINDOW_LOG_MAX: u32 = MAX_RAW.trailing_zeros();
/// First magic number of zstd's skippable frames (RFC 8878, 3.1.2).
const SKIPPABLE: u32 = 0x184D_2A50;
/// Another: what begins a part of a stream.
pub(super) const LEAD: u32 = SKIPPABLE + 1;
/// How items begin: a skippable frame of eight bytes.
pub(super) const TOLD: &[u8] = &[0x51, 0x2A, 0x4D, 0x18, 8, 0, 0, 0];
/// With those.
const TOLD_LEN: usize = 16;
/// Another: what begins a part of a stream whose stamps are [apart](crate::apart).
const APART: &[u8] = &[0x52, 0x2A, 0x4D, 0x18, 8, 0, 0, 0];

/// Fewest stored bytes with which a chunk of `raw` bytes is accepted.
fn least_stored(raw: u64) -> u64 {
    raw.saturating_sub(RATIO_FREE).div_ceil(MAX_RATIO)
}

pub(super) fn write_chunk(out: &mut impl Write, kind: Kind, raw: &[u8]) -> Result<(), WriteError> {
    let raw_len = raw_len(kind, raw)?;
    let stored = compress(raw, LEVEL)?;
    write_stored(out, kind, raw_len, &[&stored])
}

/// Length of `raw`, or an error if it is too large for a chunk.
pub(super) fn raw_len(kind: Kind, raw: &[u8]) -> Result<u32, WriteError> {
    let raw_len = u32::try_from(raw.len()).ok().filter(|&len| len <= MAX_RAW);
    raw_len.ok_or(WriteError::TooLarge {
        kind,
        bytes: raw.len(),
    })
}

/// Writes a chunk whose bytes are compressed already, in one piece.
pub(super) fn write_stored(
    out: &mut impl Write,
    kind: Kind,
    raw_len: u32,
    stored: &[&[u8]],
) -> Result<(), WriteError> {
    let len: usize = stored.iter().map(|bytes| bytes.len()).sum();
    let stored_len = u32::try_from(len).ok().filter(|&len| len <= MAX_STORED);
    let stored_len = stored_len.ok_or(WriteError::TooLarge {
        kind,
        bytes: raw_len as usize,
    })?;
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&kind.0);
    header[4..8].copy_from_slice(&raw_len.to_le_bytes());
    header[8..12].copy_from_slice(&stored_len.to_le_bytes());
    let sum = crc32c::crc32c(&header[..12]);
    let sum = stored
        .iter()
        .fold(sum, |sum, bytes| crc32c::crc32c_append(sum, bytes));
    header[12..].copy_from_slice(&sum.to_le_bytes());
    let mut chunk = header.to_vec();
    chunk.reserve_exact(len);
    stored.iter().for_each(|bytes| chunk.extend(*bytes));
    out.write_all(&chunk)?;
    Ok(())
}

/// As it is stored: not less than a reader accepts.
pub(crate) fn compress(raw: &[u8], level: i32) -> io::Result<Vec<u8>> {
    compress_with(&mut zstd::bulk::Compressor::new(level)?, raw)
}

/// Compresses with a compressor that is used again.
pub(crate) fn compress_with(
    compressor: &mut zstd::bulk::Compressor<'_>,
    raw: &[u8],
) -> io::Result<Vec<u8>> {
    let mut stored = compressor.compress(raw)?;
    pad(&mut stored, least_stored(raw.len() as u64) as usize);
    Ok(stored)
}

/// A part of `raw` bytes with its stamps apart, and before that how many bytes of items there
/// are, and of all.
pub(crate) fn compress_delta(
    compressor: &mut zstd::bulk::Compressor<'_>,
    encoded: &DeltaEncoded,
    raw: usize,
) -> io::Result<Vec<u8>> {
    let mut stored = APART.to_vec();
    stored.extend((encoded.items as u32).to_le_bytes());
    stored.extend((encoded.bytes.len() as u32).to_le_bytes());
    stored.extend(compressor.compress(&encoded.bytes)?);
    pad(&mut stored, least_stored(raw as u64) as usize);
    Ok(stored)
}

/// These numbers.
pub(crate) fn delta_parts(stored: &[u8]) -> Option<(u32, u32)> {
    let numbers = stored.strip_prefix(APART)?.first_chunk::<8>()?;
    let [items @ .., _, _, _, _] = *numbers;
    let [_, _, _, _, all @ ..] = *numbers;
    Some((u32::from_le_bytes(items), u32::from_le_bytes(all)))
}

/// Makes `stored` at least `least` bytes with a skippable frame of zeros.
fn pad(stored: &mut Vec<u8>, least: usize) {
    let missing = least.saturating_sub(stored.len());
    if missing > 0 {
        let zeros = missing.saturating_sub(8);
        stored.extend(SKIPPABLE.to_le_bytes());
        stored.extend((zeros as u32).to_le_bytes());
        stored.resize(stored.len() + zeros, 0);
    }
}

/// Header of a chunk.
pub(super) struct Head {
    pub kind: Kind,
    pub raw_len: u32,
    pub stored_len: u32,
}

impl Head {
    pub(super) fn of(header: &[u8; HEADER]) -> Head {
        let word = |from: usize| {
            u32::from_le_bytes([
                header[from],
                header[from + 1],
                header[from + 2],
                header[from + 3],
            ])
        };
        Head {
            kind: Kind([header[0], header[1], header[2], header[3]]),
            raw_len: word(4),
            stored_len: word(8),
        }
    }
}

/// Whether the checksum of a chunk is right.
pub(super) fn is_sound(header: &[u8; HEADER], stored: &[u8]) -> bool {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), stored);
    header[12..] == sum.to_le_bytes()
}

/// A checked and decompressed chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub kind: Kind,
    /// Offset of its header in the file.
    pub at: u64,
    pub raw: Vec<u8>,
    /// Contents of a chunk of a stream, instead.
    pub part: Part,
    /// As it says: items that are written before it, but marks.
    pub told: Option<u64>,
}

/// Reads chunk after chunk and knows where it is.
pub(super) struct Chunks<R> {
    pub(super) input: Again<R>,
    /// Offset of the next byte in the file.
    pub at: u64,
    /// Identity of the chunks that were good.
    pub identity: Identity,
    raw_left: u64,
    /// The bytes of a chunk that was refused for what it is as a whole.
    pub(super) refused: Vec<u8>,
}

impl<R: Read> Chunks<R> {
    pub(super) fn new(input: R) -> Chunks<R> {
        Chunks {
            input: Again::new(input),
            at: 0,
            identity: Identity::default(),
            raw_left: MAX_TOTAL,
            refused: Vec::new(),
        }
    }

    /// Exactly `N` bytes, or fewer at the end of the file.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<Result<[u8; N], usize>, ReadError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => return Ok(Err(filled)),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += N as u64;
        Ok(Ok(bytes))
    }

    pub(super) fn next(&mut self) -> Result<Chunk, ReadError> {
        let at = self.at;
        self.refused.clear();
        let header: [u8; HEADER] = self.bytes()?.map_err(|read| ReadError::Truncated {
            at: at + read as u64,
        })?;
        self.refused = header.to_vec();
        let Head {
            kind,
            raw_len,
            stored_len,
        } = Head::of(&header);
        self.check_sizes(kind, at, raw_len, stored_len)?;
        let stored = self.stored(stored_len)?;
        if !is_sound(&header, &stored) {
            self.refused.extend(stored);
            return Err(ReadError::Checksum { kind, at });
        }
        self.identity = Identity {
            bytes: self.at,
            sum: crc32c::crc32c_append(self.identity.sum, &header),
        };
        if kind == Kind::STRM {
            return Ok(Chunk {
                kind,
                at,
                raw: Vec::new(),
                part: Part {
                    len: raw_len,
                    stored,
                    ..Part::default()
                },
                told: None,
            });
        }
        self.raw_left -= u64::from(raw_len);
        let raw = decompress(&stored, raw_len).ok_or(ReadError::Compression { kind, at })?;
        let part = Part::default();
        Ok(Chunk {
            kind,
            at,
            raw,
            part,
            told: told(&stored),
        })
    }

    pub(super) fn check_sizes(
        &self,
        kind: Kind,
        at: u64,
        raw: u32,
        stored: u32,
    ) -> Result<(), ReadError> {
        let bytes = u64::from(raw);
        let left = match kind {
            // It stays compressed.
            Kind::STRM => u64::MAX,
            _ => self.raw_left,
        };
        if raw > MAX_RAW || bytes > left || u64::from(stored) < least_stored(bytes) {
            return Err(ReadError::TooLarge { kind, at, bytes });
        }
        if stored > MAX_STORED {
            return Err(ReadError::TooLarge {
                kind,
                at,
                bytes: stored.into(),
            });
        }
        Ok(())
    }

    /// The stored bytes; memory grows only as they really come.
    fn stored(&mut self, len: u32) -> Result<Vec<u8>, ReadError> {
        let mut stored = Vec::new();
        let read = self
            .input
            .by_ref()
            .take(len.into())
            .read_to_end(&mut stored)?;
        self.at += read as u64;
        if read < len as usize {
            self.refused.extend(stored);
            return Err(ReadError::Truncated { at: self.at });
        }
        Ok(stored)
    }
}

/// Number in the skippable frame of eight bytes that the stored bytes begin with, if they do.
fn told(stored: &[u8]) -> Option<u64> {
    let lead = stored.first_chunk::<TOLD_LEN>()?;
    let (head, number) = lead.split_last_chunk()?;
    (head == TOLD).then(|| u64::from_le_bytes(*number))
}

/// `None` unless the frames are sound and give exactly `raw_len` bytes.
pub(crate) fn decompress(stored: &[u8], raw_len: u32) -> Option<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stored).ok()?;
    decoder.window_log_max(WINDOW_LOG_MAX).ok()?;
    let mut raw = Vec::new();
    // One byte more than declared is enough to see that there is too much.
    decoder
        .take(u64::from(raw_len) + 1)
        .read_to_end(&mut raw)
        .ok()?;
    (raw.len() == raw_len as usize).then_some(raw)
}
