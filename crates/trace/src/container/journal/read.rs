//! Reading what a [`Journal`](super::Journal) has written, or what is left of it.
//!
//! Problem: of a long trace a damaged disk or a copy that went wrong takes some chunks. What
//! is behind them can be read if it is known what they were.
//!
//! Approach: each chunk says what was written before it: how many items, and of a part how
//! many parts and bytes its stream has before it. So parts that are missing are told, with
//! their length, by the next one of their stream ([`Part::is_lost`]). Items that are missing
//! are the end: numbers in what comes behind are numbers of items.
//!
//! Limits: chunks of builds that did not write this end at the first that is missing; parts
//! that are missing at the end of a stream are not told by anybody.

use std::collections::HashMap;
use std::io::Read;

use super::LEAD_LEN;
use crate::container::MAX_RAW;
use crate::container::chunk::{Chunk, Chunks, Kind, LEAD};
use crate::container::codec::Decoder;
use crate::container::items::Reader;
use crate::container::read::{self, Loss};
use crate::container::{denied, natives};
use crate::error::ReadError;
use crate::model::Recording;
use crate::part::Part;

/// Parts that may be missing, so that a small file does not cost much memory.
const MOST_LOST: u32 = 1 << 16;

/// Everything behind `META`; why that is not all.
pub(in crate::container) fn read<R: Read>(
    recording: &mut Recording,
    chunks: &mut Chunks<R>,
) -> Option<Loss> {
    let mut file = File::default();
    loop {
        let at = chunks.at;
        let chunk = match chunks.next() {
            Ok(chunk) => chunk,
            Err(error) => match chunks.search(at) {
                Ok(true) => {
                    file.losses.push(Loss::between(at, chunks.at, error));
                    continue;
                }
                _ => return file.ends(at, unfinished(error, at)),
            },
        };
        match file.feed(recording, chunk) {
            Ok(Step::More) => {}
            Ok(Step::Done) => {
                file.losses.extend(read::trailing(chunks));
                return Loss::all(file.losses);
            }
            Err(error) => return file.ends(at, error),
        }
    }
}

/// Turns a truncation into the error for a file whose writer was killed.
fn unfinished(error: ReadError, at: u64) -> ReadError {
    match error {
        ReadError::Truncated { at: end } => ReadError::Unfinished { torn: end - at },
        error => error,
    }
}

enum Step {
    More,
    Done,
}

/// Contents of a file read so far.
#[derive(Default)]
struct File {
    items: Reader,
    parts: u64,
    raw: u64,
    /// Parts of a stream and their bytes, those that are lost as well; by process, thread
    /// and stream.
    streams: HashMap<(u32, u32, u16), (u32, u64)>,
    lost: u32,
    losses: Vec<Loss>,
}

impl File {
    /// Nothing is read from `at` on.
    fn ends(mut self, at: u64, error: ReadError) -> Option<Loss> {
        match self.losses.last_mut() {
            Some(last) if last.to == Some(at) => last.to = None,
            _ => self.losses.push(Loss::onward(at, error)),
        }
        Loss::all(self.losses)
    }

    fn feed(&mut self, recording: &mut Recording, chunk: Chunk) -> Result<Step, ReadError> {
        let mut input = Decoder::new(&chunk);
        match chunk.kind {
            Kind::LOGS => {
                self.check_items(chunk.told, &chunk)?;
                self.items.feed(recording, input)?;
            }
            Kind::STRM => {
                self.parts += 1;
                self.raw += chunk.part.len();
                self.part(recording, chunk)?;
            }
            Kind::DONE => {
                let totals = [self.items.count, self.parts, self.raw];
                let totals = self.losses.is_empty().then_some(totals);
                done(recording, input, totals)?;
                return Ok(Step::Done);
            }
            Kind::DENY => recording.denied = denied::get(&mut input)?,
            Kind::NATV => recording.natives = natives::get(&mut input)?,
            kind if kind.may_be_skipped() => {}
            _ => return Err(read::unexpected(&chunk)),
        }
        Ok(Step::More)
    }

    /// Whether all items are there that were written before a chunk.
    fn check_items(&self, told: Option<u64>, chunk: &Chunk) -> Result<(), ReadError> {
        let is_whole = match told {
            Some(told) => told <= self.items.told,
            None => self.losses.is_empty(),
        };
        let (kind, at) = (chunk.kind, chunk.at);
        let what = "items before it are missing";
        is_whole
            .then_some(())
            .ok_or(ReadError::Malformed { kind, at, what })
    }

    fn part(&mut self, recording: &mut Recording, mut chunk: Chunk) -> Result<(), ReadError> {
        let (kind, at) = (chunk.kind, chunk.at);
        let malformed = |what| ReadError::Malformed { kind, at, what };
        let Some(lead) = chunk.part.stored.first_chunk::<LEAD_LEN>() else {
            return Err(malformed("it is too short for its beginning"));
        };
        let lead = Lead::of(lead);
        if lead.begins != (LEAD, LEAD_LEN as u32 - 8) {
            return Err(malformed("it does not begin as a part of a stream does"));
        }
        self.check_items((lead.told > 0).then_some(lead.told), &chunk)?;
        let thread = recording
            .processes
            .get_mut(lead.process as usize)
            .and_then(|process| process.threads.get_mut(lead.thread as usize))
            .ok_or_else(|| malformed("it is of a thread that is not there"))?;
        let stream =
            u16::try_from(lead.stream).map_err(|_| malformed("there are not so many streams"))?;
        let gone = || thread.gone(stream);
        let whose = (lead.process, lead.thread, stream);
        let (parts, bytes) = self.streams.entry(whose).or_insert_with(gone);
        if lead.sequence != *parts {
            let missing = lead.sequence.checked_sub(*parts);
            let missing = missing.filter(|&parts| parts <= MOST_LOST - self.lost);
            let len = lead.before.checked_sub(*bytes);
            let lost = missing
                .zip(len)
                .and_then(|(parts, len)| lost(stream, parts, len));
            let error = malformed("parts of its stream before it are missing");
            let Some(lost) = lost.filter(|_| lead.told > 0) else {
                return Err(error);
            };
            self.lost += lost.len() as u32;
            thread.stream.extend(lost);
            (*parts, *bytes) = (lead.sequence, lead.before);
            if self.losses.is_empty() {
                self.losses.push(Loss::between(at, at, error));
            }
        }
        *parts = parts.wrapping_add(1);
        *bytes = bytes.wrapping_add(chunk.part.len());
        chunk.part.stored.drain(..LEAD_LEN);
        thread.stream.push(Part {
            stream,
            taken_unix_ns: lead.taken_unix_ns,
            ..chunk.part
        });
        Ok(())
    }
}

/// Header of a part's stored bytes.
struct Lead {
    begins: (u32, u32),
    process: u32,
    thread: u32,
    sequence: u32,
    stream: u32,
    taken_unix_ns: u64,
    /// Bytes of the stream before it.
    before: u64,
    /// Items before it, but marks; 0: it is not known.
    told: u64,
}

impl Lead {
    fn of(lead: &[u8; LEAD_LEN]) -> Lead {
        let word =
            |at: usize| u32::from_le_bytes([lead[at], lead[at + 1], lead[at + 2], lead[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Lead {
            begins: (word(0), word(4)),
            process: word(8),
            thread: word(12),
            sequence: word(16),
            stream: word(20),
            taken_unix_ns: long(24),
            before: long(32),
            told: long(40),
        }
    }
}

/// `parts` lost parts of `len` bytes together; `None`: they cannot have so many.
fn lost(stream: u16, parts: u32, len: u64) -> Option<Vec<Part>> {
    let most = u64::from(parts) * u64::from(MAX_RAW);
    let mut left = (u64::from(parts)..=most).contains(&len).then_some(len)?;
    let one = |behind: u32| {
        let len = (left - u64::from(behind)).min(MAX_RAW.into());
        left -= len;
        Part::lost(stream, len as u32)
    };
    Some((0..parts).rev().map(one).collect())
}

/// The end of the file; with totals, if it is whole.
fn done(
    recording: &mut Recording,
    mut input: Decoder<'_>,
    totals: Option<[u64; 3]>,
) -> Result<(), ReadError> {
    let duration_ns = input.uint()?;
    let end = read::end(&mut input)?;
    for at in 0..3 {
        let total = input.uint()?;
        if totals.is_some_and(|totals| totals[at] != total) {
            return Err(input.malformed("its totals are not those of the file"));
        }
    }
    input.end()?;
    recording.meta.duration_ns = duration_ns;
    recording.meta.end = end;
    Ok(())
}
