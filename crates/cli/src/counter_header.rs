//! The parts of a file of counters: its head, and the chunks with the counters of threads ([`wire::counters`]).

use std::fs::{self, File};
use std::io::Read;
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use wire::counters::{
    ARGUMENTS, CHUNK_HEAD, CHUNK_MAGIC, COUNTS_BYTES, COUNTS_MAGIC, ChunkHead, CountsHead, FIRST,
    FOLDER, FileHeader, HEAD, ID, Lane, MAGIC, MODULES, Module, NUMBERED, PATH, SEVERAL,
    STREAM_MAGIC, StreamHead, VERSION,
};

use crate::output::reason;
use crate::snapshots;

/// Whether a file has counters. A pipe has none: nobody else could read what was read here.
pub fn is_one(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == MAGIC
}

/// The header of a file.
#[derive(Debug)]
pub struct Header {
    pub by_fork: bool,
    /// Edited files that were executed.
    pub parts: Vec<Part>,
    /// The file when counters were reset; empty: they never were.
    at_reset: Vec<u8>,
    /// Threads, and edited files, without counters, as there was no room.
    pub lost: u64,
    pub lost_parts: u64,
    pub pid: u32,
    pub parent: u32,
    pub started: u64,
    pub program: String,
    pub arguments: Vec<String>,
    /// Numbers of threads by slot.
    threads: Vec<u32>,
    /// Pieces of streams, with the slot, and how many bytes of its stream come before.
    streams: Vec<(u64, u64, StoredPiece)>,
    /// Counters of calls by context: the slot, the number of the first context, and bytes of the file.
    counts: Vec<(u64, u64, Range<usize>)>,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPiece {
    /// Bytes of the file; fewer than those of the stream are a block of LZ4.
    pub stored: Range<usize>,
    /// Number of the stream's bytes.
    pub bytes: u64,
}

/// A thread's stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Stream {
    pub slot: u64,
    /// Number of the thread, or [`SEVERAL`].
    pub thread: u32,
    /// Its thread pointer.
    pub pointer: u64,
    pub pieces: Vec<StoredPiece>,
    /// There was no room for its end.
    pub is_cut: bool,
}

/// An edited file that was executed.
#[derive(Debug)]
pub struct Part {
    /// Identity of its plan.
    pub id: [u8; ID],
    /// Addresses in memory less link addresses.
    pub bias: u64,
    /// Bytes of a thread's counters.
    bytes: u64,
    /// Path where it was written to, of one that was edited together with others.
    pub path: Option<String>,
    /// Slots of threads, and bytes of the file that have their counters.
    chunks: Vec<(u64, Range<usize>)>,
}

impl Part {
    /// Bytes of the file that have its counters, of each thread.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.chunks.iter().map(|(_, range)| range.clone())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) as u32
}

const PAGE: usize = FIRST as usize;
const CUT: &str = "is cut off: counters of threads are missing";
const DAMAGED: &str = "is damaged: its parts are not where its head says";

impl Header {
    /// That of a file, and all bytes of it.
    pub fn of(path: &Path) -> Result<(Header, Vec<u8>)> {
        let shown = path.display();
        let bytes = fs::read(path);
        let bytes = bytes.map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
        let mut header = Header::parse(&bytes).map_err(|what| anyhow!("'{shown}' {what}"))?;
        header.at_reset = snapshots::at_reset(path)?;
        Ok((header, bytes))
    }

    /// Reads it; the error is the end of a sentence that begins with the file's name.
    pub fn parse(bytes: &[u8]) -> Result<Header, &'static str> {
        if bytes.len() < offset_of!(FileHeader, by_fork) {
            return Err("is cut off: it has no counters");
        }
        if half(bytes, offset_of!(FileHeader, version)) != VERSION {
            return Err("is of another version of everypath");
        }
        if bytes.len() < HEAD as usize {
            return Err("is cut off: it has no counters");
        }
        let text = |at: usize, most: usize, len: u32| {
            let len = (len as usize).min(most);
            bytes[at..at + len].to_vec()
        };
        let program = text(
            offset_of!(FileHeader, path),
            PATH,
            half(bytes, offset_of!(FileHeader, path_len)),
        );
        let arguments = text(
            offset_of!(FileHeader, arguments),
            ARGUMENTS,
            half(bytes, offset_of!(FileHeader, arguments_len)),
        );
        let arguments = arguments.split(|&byte| byte == 0);
        let mut arguments: Vec<String> = arguments
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect();
        // Each ends with a zero.
        arguments.pop();
        let mut header = Header {
            by_fork: half(bytes, offset_of!(FileHeader, by_fork)) != 0,
            parts: parts(bytes)?,
            at_reset: Vec::new(),
            lost: word(bytes, offset_of!(FileHeader, lost)),
            lost_parts: word(bytes, offset_of!(FileHeader, lost_modules)),
            pid: half(bytes, offset_of!(FileHeader, pid)),
            parent: half(bytes, offset_of!(FileHeader, parent)),
            started: word(bytes, offset_of!(FileHeader, started)),
            program: String::from_utf8_lossy(&program).into_owned(),
            arguments,
            threads: (0..NUMBERED)
                .map(|at| half(bytes, offset_of!(FileHeader, threads) + 4 * at))
                .collect(),
            streams: Vec::new(),
            counts: Vec::new(),
        };
        header.add_chunks(bytes)?;
        Ok(header)
    }

    /// Finds the chunks behind the head.
    fn add_chunks(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let mut at = HEAD as usize;
        for _ in 0..word(bytes, offset_of!(FileHeader, chunks)) {
            if bytes
                .get(at..)
                .is_some_and(|rest| rest.starts_with(&STREAM_MAGIC))
            {
                at = self.add_piece(bytes, at)?;
                continue;
            }
            if bytes
                .get(at..)
                .is_some_and(|rest| rest.starts_with(&COUNTS_MAGIC))
            {
                let start = at + CHUNK_HEAD as usize;
                let end = start + COUNTS_BYTES as usize;
                let slot = word(bytes, at + offset_of!(CountsHead, slot));
                let first = word(bytes, at + offset_of!(CountsHead, first));
                if end > bytes.len() {
                    return Err(CUT);
                }
                self.counts.push((slot, first, start..end));
                at = end;
                continue;
            }
            let head = bytes.get(at..at + CHUNK_HEAD as usize).ok_or(CUT)?;
            if !head.starts_with(&CHUNK_MAGIC) {
                return Err(DAMAGED);
            }
            let module = word(head, offset_of!(ChunkHead, module));
            let part = usize::try_from(module).ok();
            let part = part.and_then(|part| self.parts.get_mut(part));
            let part = part.ok_or(DAMAGED)?;
            let path = &head[offset_of!(ChunkHead, path)..][..FOLDER];
            let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
            if !path.is_empty() {
                part.path = Some(String::from_utf8_lossy(path).into_owned());
            }
            let start = at + CHUNK_HEAD as usize;
            let end = usize::try_from(part.bytes).ok();
            let end = end.and_then(|bytes| start.checked_add(bytes));
            let end = end.filter(|end| *end <= bytes.len()).ok_or(CUT)?;
            let slot = word(head, offset_of!(ChunkHead, slot));
            part.chunks.push((slot, start..end));
            at = end;
        }
        Ok(())
    }

    /// A piece of a stream; gives where the next chunk begins.
    fn add_piece(&mut self, bytes: &[u8], at: usize) -> Result<usize, &'static str> {
        let start = at + size_of::<StreamHead>();
        let stored = word(bytes, at + offset_of!(StreamHead, stored));
        let size = usize::try_from(stored).ok();
        let end = size.and_then(|size| start.checked_add(size));
        let end = end.filter(|end| *end <= bytes.len()).ok_or(CUT)?;
        self.streams.push((
            word(bytes, at + offset_of!(StreamHead, slot)),
            word(bytes, at + offset_of!(StreamHead, before)),
            StoredPiece {
                stored: start..end,
                bytes: word(bytes, at + offset_of!(StreamHead, bytes)),
            },
        ));
        end.checked_next_multiple_of(PAGE).ok_or(DAMAGED)
    }

    /// The streams of threads, whose lanes are the counters of an edited file.
    pub fn streams(&self, bytes: &[u8], part: usize) -> Result<Vec<Stream>, &'static str> {
        let part = &self.parts[part];
        if part.bytes != Lane::BYTES {
            return Err(DAMAGED);
        }
        let streams = part.chunks.iter().map(|(slot, lane)| {
            let mut stream = Stream {
                slot: *slot,
                thread: self.thread(*slot),
                pointer: word(bytes, lane.start + offset_of!(Lane, pointer)),
                pieces: Vec::new(),
                is_cut: false,
            };
            let mut own = 0;
            for (_, before, piece) in self.streams.iter().filter(|(other, ..)| other == slot) {
                if *before != own {
                    return Err(DAMAGED);
                }
                own = own.checked_add(piece.bytes).ok_or(DAMAGED)?;
                stream.pieces.push(piece.clone());
            }
            let cursor = word(bytes, lane.start + offset_of!(Lane, cursor));
            let before = word(bytes, lane.start + offset_of!(Lane, before));
            stream.is_cut = before == Lane::ENDED;
            // A lane that was written, and not emptied yet, has what the last piece has.
            if before == own {
                let used = Lane::ROOM.wrapping_add(cursor);
                let used = used.min(Lane::BYTES - Lane::HEAD);
                let start = lane.start + Lane::HEAD as usize;
                stream.pieces.push(StoredPiece {
                    stored: start..start + used as usize,
                    bytes: used,
                });
            }
            Ok(stream)
        });
        streams.collect()
    }

    /// Calls of the context of a thread with a number; `None`: they are not in the file.
    pub fn calls(&self, bytes: &[u8], slot: u64, context: u64) -> Option<u64> {
        let mut pieces = self.counts.iter();
        pieces.find_map(|(own, first, range)| {
            let at = context.checked_sub(*first).filter(|_| *own == slot)?;
            let at = (at < COUNTS_BYTES / 8).then(|| range.start + 8 * at as usize)?;
            Some(word(bytes, at).saturating_sub(self.before(at)))
        })
    }

    /// Number of the thread that has a slot.
    fn thread(&self, slot: u64) -> u32 {
        let number = usize::try_from(slot).ok();
        let number = number.and_then(|slot| self.threads.get(slot));
        number.copied().unwrap_or(SEVERAL)
    }

    /// The counters of threads in an edited file, by their numbers; `width`: bytes of one. Those of one byte are marks, and are of the
    /// process. All edited files of a process have the same threads.
    pub fn counters(
        &self,
        bytes: &[u8],
        part: usize,
        count: usize,
        width: usize,
    ) -> Result<Vec<(u32, Vec<u64>)>, &'static str> {
        let part = &self.parts[part];
        let size = (count as u64).checked_mul(width as u64);
        if size.is_none_or(|size| size > part.bytes) {
            return Err(CUT);
        }
        let mut threads: Vec<(u32, Vec<u64>)> = Vec::new();
        for (slot, range) in &part.chunks {
            let number = match width {
                1 => self.pid,
                _ => self.thread(*slot),
            };
            let known = threads.iter().position(|(known, _)| *known == number);
            let own = known.unwrap_or_else(|| {
                threads.push((number, vec![0; count]));
                threads.len() - 1
            });
            let sums = &mut threads[own].1;
            let own = bytes[range.clone()].chunks_exact(width);
            for (at, (sum, counter)) in sums.iter_mut().zip(own).enumerate() {
                *sum = sum.saturating_add(match counter.first_chunk() {
                    Some(word) => {
                        let before = self.before(range.start + at * width);
                        u64::from_le_bytes(*word).saturating_sub(before)
                    }
                    None => counter[0].into(),
                });
            }
        }
        Ok(threads)
    }

    /// Whether counters were reset.
    pub fn was_reset(&self) -> bool {
        !self.at_reset.is_empty()
    }

    /// A word of the file when counters were reset: the chunk was there, or it is 0.
    fn before(&self, at: usize) -> u64 {
        word(&self.at_reset, at)
    }

    /// Bytes of the file that have counters.
    pub fn chunks(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.parts.iter().flat_map(Part::ranges)
    }

    /// Reads a table of an edited file, by its number: pairs of a value and its count, from a word on. `take` gets them with the
    /// number of the thread.
    pub fn pairs(
        &self,
        bytes: &[u8],
        part: usize,
        (table, pairs): (usize, usize),
        take: &mut dyn FnMut(u32, u64, u64),
    ) {
        for (slot, range) in &self.parts[part].chunks {
            let number = self.thread(*slot);
            let chunk = &bytes[range.clone()];
            let at = table.saturating_mul(8).min(chunk.len());
            for (number_of_pair, pair) in chunk[at..].chunks_exact(16).take(pairs).enumerate() {
                // A value stays where it is, once it was there.
                let before = self.before(range.start + at + 16 * number_of_pair + 8);
                let (value, count) = (word(pair, 0), word(pair, 8).saturating_sub(before));
                if count > 0 {
                    take(number, value, count);
                }
            }
        }
    }
}

/// Edited files that a header names.
fn parts(bytes: &[u8]) -> Result<Vec<Part>, &'static str> {
    let count = word(bytes, offset_of!(FileHeader, count));
    if count > MODULES as u64 {
        return Err(DAMAGED);
    }
    let parts = (0..count as usize).map(|number| {
        let at = offset_of!(FileHeader, modules) + number * size_of::<Module>();
        let id = at + offset_of!(Module, id);
        Ok(Part {
            id: bytes[id..id + ID].try_into().map_err(|_| DAMAGED)?,
            bias: word(bytes, at + offset_of!(Module, bias)),
            bytes: word(bytes, at + offset_of!(Module, bytes)),
            path: None,
            chunks: Vec::new(),
        })
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of three threads and two edited files, of which the second has chunks of two threads.
    fn whole() -> Vec<u8> {
        let mut bytes = vec![0; HEAD as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(offset_of!(FileHeader, version), &VERSION.to_le_bytes());
        put(offset_of!(FileHeader, slots), &3u64.to_le_bytes());
        put(offset_of!(FileHeader, chunks), &5u64.to_le_bytes());
        put(offset_of!(FileHeader, count), &2u64.to_le_bytes());
        put(offset_of!(FileHeader, path_len), &4u32.to_le_bytes());
        put(offset_of!(FileHeader, path), b"/a/b");
        put(offset_of!(FileHeader, arguments_len), &4u32.to_le_bytes());
        put(offset_of!(FileHeader, arguments), b"a\0b\0");
        for (slot, number) in [7u32, 8, SEVERAL].into_iter().enumerate() {
            put(
                offset_of!(FileHeader, threads) + 4 * slot,
                &number.to_le_bytes(),
            );
        }
        for module in 0..2 {
            let at = offset_of!(FileHeader, modules) + module * size_of::<Module>();
            put(at + offset_of!(Module, bytes), &(PAGE as u64).to_le_bytes());
        }
        for (slot, module) in [(0u64, 0u64), (1, 0), (1, 1), (2, 0), (2, 1)] {
            let mut head = vec![0; CHUNK_HEAD as usize];
            head[..8].copy_from_slice(&CHUNK_MAGIC);
            head[8..16].copy_from_slice(&slot.to_le_bytes());
            head[16..24].copy_from_slice(&module.to_le_bytes());
            bytes.extend(head);
            let words = (0..PAGE as u64 / 8).map(|word| (slot + 1) * 1000 + word);
            bytes.extend(words.flat_map(u64::to_le_bytes));
        }
        bytes
    }

    #[test]
    fn a_file_has_the_counters_of_each_thread() {
        let bytes = whole();
        let mut header = Header::parse(&bytes).expect("a file");
        assert_eq!(header.arguments, ["a", "b"]);
        let first = header.counters(&bytes, 0, 3, 8).expect("counters");
        let all = |number: u32, from: u64| (number, vec![from, from + 1, from + 2]);
        assert_eq!(first, [all(7, 1000), all(8, 2000), all(SEVERAL, 3000)]);
        let second = header.counters(&bytes, 1, 3, 8).expect("counters");
        assert_eq!(second, [all(8, 2000), all(SEVERAL, 3000)]);
        assert_eq!(header.counters(&bytes, 1, PAGE, 8), Err(CUT));
        let mut pairs = Vec::new();
        header.pairs(&bytes, 0, (2, 1), &mut |number, value, count| {
            pairs.push((number, value, count));
        });
        assert_eq!(
            pairs,
            [(7, 1002, 1003), (8, 2002, 2003), (SEVERAL, 3002, 3003)]
        );
        // A reset takes off the counters that the file had then; the last chunk was not there yet.
        let last = bytes.len() - PAGE - CHUNK_HEAD as usize;
        header.at_reset = bytes[..last].to_vec();
        let second = header.counters(&bytes, 1, 3, 8).expect("counters");
        assert_eq!(second, [(8, vec![0, 0, 0]), all(SEVERAL, 3000)]);
    }

    /// Any change of a file is refused, or its parts are within it.
    #[test]
    fn damaged_files_do_no_harm() {
        let whole = whole();
        let mut random = 88_172_645_463_325_252u64;
        let mut below = |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % limit as u64) as usize
        };
        let mut read = 0;
        let mut bytes = whole.clone();
        for turn in 0..20_000 {
            let mut changed = Vec::new();
            for _ in 0..=below(3) {
                // The head, its list of edited files, heads of chunks.
                let at = match below(3) {
                    0 => below(80),
                    1 => 4048 + below(112),
                    _ => HEAD as usize + below(5) * 2 * PAGE + below(24),
                };
                changed.push(at);
                bytes[at] = [0, 1, 0x7f, 0xff, below(256) as u8][below(5)];
            }
            let cut = if turn % 4 == 0 {
                below(bytes.len())
            } else {
                bytes.len()
            };
            if let Ok(header) = Header::parse(&bytes[..cut]) {
                read += 1;
                for part in 0..header.parts.len() {
                    for width in [1, 8] {
                        let count = below(600);
                        let counters = header.counters(&bytes[..cut], part, count, width);
                        let threads = counters.unwrap_or_default();
                        assert!(threads.iter().all(|(_, own)| own.len() == count));
                    }
                    header.pairs(&bytes[..cut], part, (below(600), 4), &mut |_, _, _| {});
                }
            }
            for at in changed {
                bytes[at] = whole[at];
            }
        }
        assert!(read > 2000, "{read} were read");
    }
}
