//! The parts of a file of counters: its head, and the chunks with the counters of threads ([`wire::counters`]).

use std::fs::{self, File};
use std::io::Read;
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use wire::counters::{
    ARGUMENTS, CHUNK_HEAD, CHUNK_MAGIC, ChunkHead, FOLDER, FileHeader, HEAD, ID, MAGIC, MODULES,
    Module, NUMBERED, PATH, SEVERAL, VERSION,
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
    pub started: u64,
    pub program: String,
    pub arguments: Vec<String>,
    /// Numbers of threads by slot.
    threads: Vec<u32>,
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

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) as u32
}

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
            started: word(bytes, offset_of!(FileHeader, started)),
            program: String::from_utf8_lossy(&program).into_owned(),
            arguments,
            threads: (0..NUMBERED)
                .map(|at| half(bytes, offset_of!(FileHeader, threads) + 4 * at))
                .collect(),
        };
        header.add_chunks(bytes)?;
        Ok(header)
    }

    /// Finds the chunks behind the head.
    fn add_chunks(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let mut at = HEAD as usize;
        for _ in 0..word(bytes, offset_of!(FileHeader, chunks)) {
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
            let number = usize::try_from(*slot).ok();
            let number = number.and_then(|slot| self.threads.get(slot));
            let number = match width {
                1 => self.pid,
                _ => number.copied().unwrap_or(SEVERAL),
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
        let parts = self.parts.iter();
        parts.flat_map(|part| part.chunks.iter().map(|(_, range)| range.clone()))
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
            let number = usize::try_from(*slot).ok();
            let number = number.and_then(|slot| self.threads.get(slot));
            let number = number.copied().unwrap_or(SEVERAL);
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
