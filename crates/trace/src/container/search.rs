//! Search for the next good chunk after damage.
//!
//! Problem: a chunk whose checksum is wrong may be damaged in its length, too, and bytes may
//! be missing or added before the next one.
//!
//! Approach: from the byte behind where the chunk began on, every place is tried that has the
//! name of a kind; the first whose checksum is right is it.
//!
//! Invariants: no more is held than a chunk may have, and a piece; a file made to have many
//! places that are none is given up ([`MOST_TRIES`]).

use std::io::{self, Read};

use super::chunk::{Chunks, HEADER, Head, Kind, is_sound};
use crate::error::ReadError;

/// Places that look like the beginning of a chunk and are none. Of bytes that are random,
/// a billion have less than one.
const MOST_TRIES: u32 = 64;
/// How much is read at a time.
const PIECE: u64 = 1 << 16;
const KINDS: [Kind; 3] = [Kind::LOGS, Kind::STRM, Kind::DONE];

/// Bytes that are read again, and what comes behind them.
pub(super) struct Again<R> {
    held: Vec<u8>,
    /// How many of them were read.
    read: usize,
    input: R,
}

impl<R: Read> Again<R> {
    pub(super) fn new(input: R) -> Again<R> {
        Again {
            held: Vec::new(),
            read: 0,
            input,
        }
    }

    /// These come first now.
    fn hold(&mut self, mut bytes: Vec<u8>) {
        bytes.extend(&self.held[self.read..]);
        (self.held, self.read) = (bytes, 0);
    }
}

impl<R: Read> Read for Again<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let held = &self.held[self.read..];
        if held.is_empty() {
            return self.input.read(buffer);
        }
        let some = held.len().min(buffer.len());
        buffer[..some].copy_from_slice(&held[..some]);
        self.read += some;
        if self.read == self.held.len() {
            (self.held, self.read) = (Vec::new(), 0);
        }
        Ok(some)
    }
}

impl<R: Read> Chunks<R> {
    /// Goes to the next good chunk behind the one that was refused, which began at `at`.
    /// Whether there is one.
    pub(super) fn search(&mut self, at: u64) -> Result<bool, ReadError> {
        let mut held = std::mem::take(&mut self.refused);
        let (mut begin, mut from, mut tries) = (at, 1, 0);
        loop {
            let Some(found) = next_kind(&held, from) else {
                // A name may be half there.
                let gone = held.len().saturating_sub(3);
                held.drain(..gone);
                begin += gone as u64;
                from = usize::from(begin == at);
                if self.more(&mut held, PIECE)? == 0 {
                    return Ok(false);
                }
                continue;
            };
            if self.is_chunk(&mut held, begin, found)? {
                held.drain(..found);
                self.at = begin + found as u64;
                self.input.hold(held);
                return Ok(true);
            }
            from = found + 1;
            tries += 1;
            if tries == MOST_TRIES {
                return Ok(false);
            }
        }
    }

    fn is_chunk(&mut self, held: &mut Vec<u8>, begin: u64, at: usize) -> Result<bool, ReadError> {
        self.until(held, at + HEADER)?;
        let Some(header) = held[at..].first_chunk::<HEADER>().copied() else {
            return Ok(false);
        };
        let head = Head::of(&header);
        let place = begin + at as u64;
        let sizes = self.check_sizes(head.kind, place, head.raw_len, head.stored_len);
        if sizes.is_err() {
            return Ok(false);
        }
        let (from, to) = (at + HEADER, at + HEADER + head.stored_len as usize);
        self.until(held, to)?;
        Ok(held
            .get(from..to)
            .is_some_and(|stored| is_sound(&header, stored)))
    }

    /// Reads until so many are held, or there are no more.
    fn until(&mut self, held: &mut Vec<u8>, len: usize) -> Result<(), ReadError> {
        let missing = len.saturating_sub(held.len());
        self.more(held, missing as u64).map(|_| ())
    }

    fn more(&mut self, held: &mut Vec<u8>, most: u64) -> Result<usize, ReadError> {
        Ok(self.input.by_ref().take(most).read_to_end(held)?)
    }
}

/// Offset of the next name of a kind.
fn next_kind(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let is_kind = |four: &[u8]| KINDS.iter().any(|kind| four == kind.0);
    rest.windows(4).position(is_kind).map(|at| from + at)
}
