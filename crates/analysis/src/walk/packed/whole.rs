//! Traces, packed; and read again.
//!
//! Threads are packed in segments, several at once. What was packed is read once more, and
//! compared by hashes of everything executed and of all stamps.

use trace::stream::{LANES, is_of_memory};
use trace::{Keyframe, Part, Recording, Thread};

use super::super::code::Place;
use super::super::lane::Lane;
use super::super::segments::{self, Segment, Task};
use super::super::{Found, Unsound, Walk};
use super::{BRANCHES, Packed, is_packed};

/// Digest of a walk: the number of instructions, and hashes of all in their order, and of stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub insns: u64,
    hash: u64,
    stamps: u64,
}

impl Digest {
    fn add(&mut self, walk: &Walk<'_>, found: &Found) {
        let at = |place: Place| match place {
            Place::At(pc) => pc,
            Place::In(id, index) => u64::from(id) << 32 | u64::from(index) | 1 << 63,
        };
        let words = match *found {
            Found::Executed {
                piece,
                from,
                to,
                outcome,
            } => {
                self.insns += u64::from(to - from);
                let place = walk.pieces.known[piece as usize].place;
                let how = outcome.map_or(2, u64::from);
                [at(place), u64::from(from) << 32 | u64::from(to), how]
            }
            Found::Went { why, to } => [to, why.number().into(), 3],
            Found::Entered(place) => [at(place), 0, 4],
            Found::Stamp(_) | Found::Stack(_) => return,
        };
        for word in words {
            self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    /// Digest of the rest of a walk, and of the stamps that it writes or reads meanwhile.
    fn of(walk: &mut Walk<'_>) -> Result<Digest, Unsound> {
        let mut digest = Digest::default();
        while let Some(found) = walk.found() {
            digest.add(walk, &found?);
        }
        // The stamps that follow the last instruction.
        walk.take_stamps()?;
        let packed = walk.packed.as_ref().ok_or(Unsound::Nowhere)?;
        digest.stamps = match &packed.stamps {
            Some(Ok(stamps)) => stamps.digest(),
            _ => 0,
        };
        Ok(digest)
    }
}

/// Digest of the instructions of a packed walk, and of its stamps.
fn digest(mut walk: Walk<'_>) -> Result<Digest, Unsound> {
    if let Some(rest) = &mut walk.rest {
        rest.reads_stamps = true;
    }
    Digest::of(&mut walk)
}

/// The streams of a segment, packed.
fn streams(mut walk: Walk<'_>) -> Result<(Vec<Part>, Digest), Unsound> {
    let bytes = walk.lanes.iter().map(Lane::len).sum();
    walk.packed = Some(Box::new(Packed::write(bytes)));
    let digest = Digest::of(&mut walk)?;
    let packed = walk.packed.ok_or(Unsound::Nowhere)?;
    Ok((packed.finish()?, digest))
}

/// Why a trace was not packed.
#[derive(Debug)]
pub enum Refused {
    /// The thread with this number cannot be read.
    Unsound(u32, Unsound),
    /// Packed, it would not be read as it is.
    Differs(u32),
    /// It is packed.
    IsPacked,
}

/// Packs all threads of a trace, and reads what that gave once more.
pub fn recording(recording: &Recording) -> Result<Recording, Refused> {
    let (packed, digests) = pack(recording, SEGMENT)?;
    check(&packed, &digests)?;
    Ok(packed)
}

/// Bytes of lanes in a segment, at least, but for the last: as many are between keyframes of
/// a usual trace, and a model learns what it needs in a small part of them.
pub const SEGMENT: u64 = 1 << 20;

/// The segments of a thread that are packed, each from a keyframe to a later one; of a thread
/// of which nothing can be read, one.
fn grouped(thread: &Thread, least: u64) -> Vec<Segment> {
    let mut all: Vec<Segment> = Vec::new();
    for next in segments::segments(thread) {
        match all.last_mut() {
            Some(last) if last.len().is_some_and(|len| len < least) => last.to = next.to,
            _ => all.push(next),
        }
    }
    if all.is_empty() {
        all.push(Segment::default());
    }
    all
}

/// Packs all threads of a trace, on all processors, in segments of at least so many bytes of
/// lanes. What [`check`] has to find in it.
pub fn pack(recording: &Recording, least: u64) -> Result<(Recording, Vec<Digest>), Refused> {
    let threads = recording.processes.iter().flat_map(|p| &p.threads);
    if threads.clone().any(is_packed) {
        return Err(Refused::IsPacked);
    }
    let tasks = Task::of(recording, |thread| grouped(thread, least));
    let given = segments::each(recording, &tasks, streams);
    let mut packed = recording.clone();
    for thread in packed.processes.iter_mut().flat_map(|p| &mut p.threads) {
        // Addresses and values are as they were.
        thread.stream.retain(|part| is_of_memory(part.stream));
        thread.keyframes.clear();
    }
    let mut digests = Vec::new();
    let mut before = Before::default();
    for (task, given) in tasks.iter().zip(given) {
        let thread = &mut packed.processes[task.process].threads[task.thread];
        let (parts, digest) = given.map_err(|error| Refused::Unsound(thread.tid, error))?;
        match is_packed(thread) {
            false => before = Before::default(),
            true => thread.keyframes.push(Keyframe {
                at: before.bytes,
                memory: task.segment.memory,
                insns: Some(before.insns),
            }),
        }
        before.insns += digest.insns;
        for part in &parts {
            before.bytes[usize::from(part.stream - BRANCHES)] += part.len();
        }
        thread.stream.extend(parts);
        digests.push(digest);
    }
    Ok((packed, digests))
}

/// Bytes and instructions before a segment.
#[derive(Default)]
struct Before {
    bytes: [u64; LANES],
    insns: u64,
}

/// Reads what was packed, and compares it with what it was packed of.
pub fn check(packed: &Recording, digests: &[Digest]) -> Result<(), Refused> {
    let tasks = Task::all(packed);
    let again = segments::each(packed, &tasks, digest);
    let mut digests = digests.iter();
    for (task, again) in tasks.iter().zip(again) {
        if again.ok().as_ref() != digests.next() {
            let thread = &packed.processes[task.process].threads[task.thread];
            return Err(Refused::Differs(thread.tid));
        }
    }
    match digests.next() {
        None => Ok(()),
        Some(_) => Err(Refused::Differs(0)),
    }
}
