//! Streams that [`crate::pack`]'s model predicts, in place of lanes.
//!
//! A packed thread has three streams, of bits as [`crate::pack`] codes them:
//!
//! | stream | what |
//! |---|---|
//! | [`BRANCHES`] | outcomes of conditional branches, and targets of indirect ones |
//! | [`EVENTS`] | how many outcomes come before an escape, and that: again and again, until the end |
//! | [`STAMPS`] | [stamps]; not there before version 12 |
//!
//! Outcomes that the code says are bits that cost next to nothing. Keyframes are escapes like others.
//!
//! Invariant: who packs walks the lanes, and who reads walks the same way ([`Walk`] asks in
//! both cases here), so the model knows the same.

mod stamps;

use trace::stream::LANES;
use trace::{Part, Recording, Thread};

use super::code::{Place, Turn};
use super::lane::{Escape, Lane};
use super::segments::{self, Task};
use super::{Found, Kind, Known, Site, Stamp, Unsound, Walk};
use crate::pack::{Coder, Cut, Decoder, Encoder, LARGEST, Model, SMALLEST};
use stamps::Stamps;

/// Streams of a packed thread.
pub const BRANCHES: u16 = LANES as u16;
pub const EVENTS: u16 = BRANCHES + 1;
pub const STAMPS: u16 = BRANCHES + 2;

/// Bytes of a part: so few that who reads is told how far it is.
const PART: usize = 1 << 13;

/// Kinds of events.
const END: u8 = 0;
const AT: u8 = 1;
const TO: u8 = 2;
const CODE: u8 = 3;

/// Whether a thread's streams are packed.
pub fn is_packed(thread: &Thread) -> bool {
    thread.stream.iter().any(|part| part.stream >= BRANCHES)
}

impl From<Cut> for Unsound {
    fn from(_: Cut) -> Unsound {
        Unsound::Cut
    }
}

/// Whether its stamps are kept, if it has any.
pub fn has_stamps(thread: &Thread) -> bool {
    let has = |stream| thread.stream.iter().any(|part| part.stream == stream);
    !is_packed(thread) || has(STAMPS)
}

/// One of the streams.
enum Bits<'a> {
    Written(Vec<Part>, Encoder),
    Read(Box<Decoder<Bytes<'a>>>),
}

impl<'a> Bits<'a> {
    fn written() -> Bits<'a> {
        Bits::Written(Vec::new(), Encoder::default())
    }

    fn read(thread: &'a Thread, stream: u16) -> Result<Bits<'a>, Cut> {
        let mut parts: Vec<&Part> = thread.stream.iter().collect();
        parts.retain(|part| part.stream == stream);
        parts.reverse();
        let raw = Vec::new().into_iter();
        Decoder::new(Bytes { parts, raw }).map(|decoder| Bits::Read(Box::new(decoder)))
    }

    /// Makes a part of what was written, if that is enough for one.
    fn part(&mut self) {
        if let Bits::Written(parts, encoder) = self
            && encoder.written() >= PART
        {
            parts.extend(Part::pack(&encoder.take()));
        }
    }

    /// All that was written.
    fn finish(self) -> Result<Vec<Part>, Cut> {
        let Bits::Written(mut parts, encoder) = self else {
            return Err(Cut);
        };
        parts.extend(Part::pack(&encoder.finish()));
        Ok(parts)
    }
}

impl Coder for Bits<'_> {
    fn bit(&mut self, bit: bool, set: u16) -> Result<bool, Cut> {
        match self {
            Bits::Written(_, encoder) => encoder.bit(bit, set),
            Bits::Read(decoder) => decoder.bit(bit, set),
        }
    }
}

/// The bytes of a stream, part after part; none behind one that cannot be read.
struct Bytes<'a> {
    parts: Vec<&'a Part>,
    raw: std::vec::IntoIter<u8>,
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        loop {
            if let Some(byte) = self.raw.next() {
                return Some(byte);
            }
            match self.parts.pop()?.unpack() {
                Ok(raw) => self.raw = raw.into_iter(),
                Err(_) => self.parts.clear(),
            }
        }
    }
}

/// What comes next.
pub(super) enum Next {
    Outcome,
    Escape(Escape),
    End,
}

/// The streams of a packed thread, being read or written.
pub(super) struct Packed<'a> {
    model: Model,
    branches: Bits<'a>,
    events: Bits<'a>,
    /// None: nobody kept them. What is damaged there is told to who asks for them.
    stamps: Option<Result<Stamps<'a>, Cut>>,
    /// Who reads asks for all stamps.
    reads_stamps: bool,
    /// Outcomes before the next event; who writes: since the last one.
    outcomes: u64,
    /// Who reads knows how many.
    is_counted: bool,
    /// Of branches in the model, by their numbers in the code; 0: none.
    numbers: Vec<u32>,
    last_number: u32,
}

impl<'a> Packed<'a> {
    /// Of so many bytes of lanes.
    pub fn write(bytes: u64) -> Packed<'a> {
        // An entry for two bytes: most hold several outcomes, but few of those are new.
        let size = bytes
            .max(1)
            .ilog2()
            .saturating_sub(1)
            .clamp(SMALLEST, LARGEST);
        let mut events = Bits::written();
        put_size(&mut events, size).expect("an encoder needs no bytes");
        Packed {
            model: Model::new(size),
            branches: Bits::written(),
            events,
            stamps: Some(Ok(Stamps::new(Bits::written()))),
            reads_stamps: false,
            outcomes: 0,
            is_counted: false,
            numbers: Vec::new(),
            last_number: 0,
        }
    }

    pub fn read(thread: &'a Thread) -> Result<Packed<'a>, Unsound> {
        let mut events = Bits::read(thread, EVENTS)?;
        let stamps = has_stamps(thread).then(|| Bits::read(thread, STAMPS).map(Stamps::new));
        Ok(Packed {
            model: Model::new(put_size(&mut events, 0)?),
            branches: Bits::read(thread, BRANCHES)?,
            events,
            stamps,
            reads_stamps: false,
            outcomes: 0,
            is_counted: false,
            numbers: Vec::new(),
            last_number: 0,
        })
    }

    fn is_read(&self) -> bool {
        matches!(self.branches, Bits::Read(_))
    }

    /// What comes next, for who reads.
    pub fn next(&mut self) -> Result<Next, Unsound> {
        if !self.is_counted {
            self.outcomes = self.model.length(&mut self.events, 0)?;
            self.is_counted = true;
        }
        if self.outcomes > 0 {
            self.outcomes -= 1;
            return Ok(Next::Outcome);
        }
        self.is_counted = false;
        let kind = self.model.kind(&mut self.events, 0)?;
        let mut number = || self.model.number(&mut self.events, 0);
        Ok(match kind {
            END => Next::End,
            AT => Next::Escape(Escape::At(number()?)),
            TO => {
                let why = number()? as u8;
                Next::Escape(Escape::To(why, number()?))
            }
            CODE => Next::Escape(Escape::Code(number()? as u32)),
            kind => return Err(Unsound::Item(kind)),
        })
    }

    fn event(&mut self, kind: u8, numbers: &[u64]) -> Result<(), Cut> {
        self.model.length(&mut self.events, self.outcomes)?;
        self.outcomes = 0;
        self.model.kind(&mut self.events, kind)?;
        for &number in numbers {
            self.model.number(&mut self.events, number)?;
        }
        Ok(())
    }

    /// A stamp that was found, for who writes.
    pub fn stamped(&mut self, stamp: Stamp) -> Result<(), Cut> {
        match &mut self.stamps {
            Some(Ok(stamps)) => stamps.write(stamp),
            _ => Ok(()),
        }
    }

    /// Reads all stamps, though nobody asks for them.
    pub fn read_stamps(&mut self) {
        self.reads_stamps = true;
    }

    /// The stamp that comes before the next target or escape, for who reads.
    pub fn stamp(&mut self, is_wanted: bool) -> Result<Option<Stamp>, Unsound> {
        match &mut self.stamps {
            Some(stamps) if is_wanted || self.reads_stamps => match stamps {
                Ok(stamps) => stamps.read(),
                Err(cut) => Err((*cut).into()),
            },
            _ => Ok(None),
        }
    }

    /// A target or an escape came by.
    fn passed(&mut self) {
        if let Some(Ok(stamps)) = &mut self.stamps {
            stamps.passed();
        }
    }

    /// An escape that was found, or that follows.
    pub fn escape(&mut self, escape: Escape) -> Result<(), Cut> {
        self.passed();
        if self.is_read() {
            return Ok(());
        }
        match escape {
            Escape::At(pc) => self.event(AT, &[pc]),
            Escape::To(why, to) => self.event(TO, &[why.into(), to]),
            Escape::Code(id) => self.event(CODE, &[id.into()]),
        }
    }

    /// The outcome of a piece, if it has one; who reads gives any.
    pub fn outcome(
        &mut self,
        known: &Known,
        sites: &[Site],
        outcome: bool,
    ) -> Result<bool, Unsound> {
        for &(_, site) in &known.branches {
            let site = &sites[site as usize];
            if site.kind == Kind::Call {
                self.model.call(behind(site));
            }
        }
        match known.straight.turn {
            Turn::Either(_) => {
                let (number, site) = self.last(known, sites)?;
                let bits = &mut self.branches;
                let taken = self.model.conditional(bits, number, site.target, outcome)?;
                self.coded();
                Ok(taken)
            }
            Turn::Always(_) => {
                let outcome = self.model.certain(&mut self.branches)?;
                self.coded();
                Ok(outcome)
            }
            Turn::Indirect | Turn::Goes(_) | Turn::Unknown => Ok(outcome),
        }
    }

    /// The branch that a piece ends with, and its number for the model: in the order in
    /// which they are first asked for.
    fn last<'s>(&mut self, known: &Known, sites: &'s [Site]) -> Result<(u32, &'s Site), Unsound> {
        let &(_, site) = known.branches.last().ok_or(Unsound::Nowhere)?;
        let at = site as usize;
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, 0);
        }
        if self.numbers[at] == 0 {
            self.last_number += 1;
            self.numbers[at] = self.last_number;
        }
        Ok((self.numbers[at], &sites[at]))
    }

    /// Where the indirect branch of a piece went; who reads gives anything.
    pub fn target(&mut self, known: &Known, sites: &[Site], target: u64) -> Result<u64, Unsound> {
        let (number, site) = self.last(known, sites)?;
        let bits = &mut self.branches;
        let target = self.model.indirect(bits, number, site.kind, target)?;
        if site.kind == Kind::IndirectCall {
            self.model.call(behind(site));
        }
        self.coded();
        self.passed();
        Ok(target)
    }

    /// An outcome more, and a part if that makes one.
    fn coded(&mut self) {
        if self.is_read() {
            return;
        }
        self.outcomes += 1;
        self.branches.part();
        self.events.part();
    }

    /// All that was written.
    fn finish(mut self) -> Result<Vec<Part>, Cut> {
        self.event(END, &[])?;
        let stamps = match self.stamps {
            Some(stamps) => stamps?.finish()?,
            None => Vec::new(),
        };
        let mut all = Vec::new();
        for (stream, mut parts) in [
            (BRANCHES, self.branches.finish()?),
            (EVENTS, self.events.finish()?),
            (STAMPS, stamps),
        ] {
            parts.iter_mut().for_each(|part| part.stream = stream);
            all.extend(parts);
        }
        Ok(all)
    }
}

/// Codes the size of the model's tables, which is below 32.
fn put_size(events: &mut Bits<'_>, size: u32) -> Result<u32, Cut> {
    (0..5).try_fold(0, |read, at| {
        let bit = events.bit(size >> (4 - at) & 1 != 0, 1 << 15)?;
        Ok(read << 1 | u32::from(bit))
    })
}

/// Where a call returns to.
fn behind(site: &Site) -> u64 {
    site.step.pc.wrapping_add(site.step.len.into())
}

/// What a walk gave: how many instructions, and hashes of all in their order, and of stamps.
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

    /// Of the rest of a walk, and what it writes or reads meanwhile.
    fn of(walk: &mut Walk<'_>) -> Result<Digest, Unsound> {
        let mut digest = Digest::default();
        while let Some(found) = walk.found() {
            digest.add(walk, &found?);
        }
        // Those behind everything else.
        walk.take_stamps()?;
        let packed = walk.packed.as_ref().ok_or(Unsound::Nowhere)?;
        digest.stamps = match &packed.stamps {
            Some(Ok(stamps)) => stamps.digest(),
            _ => 0,
        };
        Ok(digest)
    }
}

/// What is executed in a walk of what is packed, and its stamps.
fn digest(mut walk: Walk<'_>) -> Result<Digest, Unsound> {
    if let Some(packed) = &mut walk.packed {
        packed.read_stamps();
    }
    Digest::of(&mut walk)
}

/// The streams of a thread, packed.
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
    let (packed, digests) = pack(recording)?;
    check(&packed, &digests)?;
    Ok(packed)
}

/// Packs all threads of a trace, on all processors. What [`check`] has to find in it.
pub fn pack(recording: &Recording) -> Result<(Recording, Vec<Digest>), Refused> {
    let threads = recording.processes.iter().flat_map(|p| &p.threads);
    if threads.clone().any(is_packed) {
        return Err(Refused::IsPacked);
    }
    let tids: Vec<u32> = threads.map(|thread| thread.tid).collect();
    let tasks = Task::whole(recording);
    let given = segments::each(recording, &tasks, streams);
    let mut packed = recording.clone();
    let threads = packed.processes.iter_mut().flat_map(|p| &mut p.threads);
    let mut digests = Vec::new();
    for ((thread, given), &tid) in threads.zip(given).zip(&tids) {
        let (parts, digest) = given.map_err(|error| Refused::Unsound(tid, error))?;
        thread.stream = parts;
        thread.keyframes.clear();
        digests.push(digest);
    }
    Ok((packed, digests))
}

/// Reads what was packed, and compares it with what it was packed of.
pub fn check(packed: &Recording, digests: &[Digest]) -> Result<(), Refused> {
    let threads = packed.processes.iter().flat_map(|p| &p.threads);
    let again = segments::each(packed, &Task::whole(packed), digest);
    for ((again, digest), thread) in again.into_iter().zip(digests).zip(threads) {
        if again.ok().as_ref() != Some(digest) {
            return Err(Refused::Differs(thread.tid));
        }
    }
    Ok(())
}
