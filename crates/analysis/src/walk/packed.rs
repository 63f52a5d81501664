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
//! Outcomes that the code says are bits that cost next to nothing.
//!
//! A long thread is in segments: each has those three, its model has seen nothing before, and it
//! begins and ends at a keyframe. So it is read without the others, also where one is lost. The
//! thread's keyframes are where the streams of segments begin; keyframes within a segment are
//! escapes like others.
//!
//! Invariant: who packs walks the lanes, and who reads walks the same way ([`Walk`] asks in
//! both cases here), so the model knows the same.

mod bits;
mod stamps;
mod whole;

use trace::stream::LANES;
use trace::{Part, Thread};

use super::code::Turn;
use super::lane::Escape;
use super::segments::{Segment, segments};
use super::{Kind, Known, Site, Stamp, Unsound, Walk};
use crate::pack::{Coder, Cut, LARGEST, Model, SMALLEST};
use bits::Bits;
use stamps::Stamps;
pub use whole::{Digest, Refused, SEGMENT, check, pack, recording};

/// Streams of a packed thread.
pub const BRANCHES: u16 = LANES as u16;
pub const EVENTS: u16 = BRANCHES + 1;
pub const STAMPS: u16 = BRANCHES + 2;

/// Kinds of events.
const END: u8 = 0;
const AT: u8 = 1;
const TO: u8 = 2;
const CODE: u8 = 3;

/// Whether a thread's streams are packed.
pub fn is_packed(thread: &Thread) -> bool {
    let packed = BRANCHES..=STAMPS;
    thread
        .stream
        .iter()
        .any(|part| packed.contains(&part.stream))
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

/// How many streams each of its segments has.
pub(super) fn streams(thread: &Thread) -> usize {
    2 + usize::from(has_stamps(thread))
}

/// Next item of a packed stream.
pub(super) enum Next {
    Outcome,
    Escape(Escape),
    End,
}

/// Rest of a packed thread.
pub(super) struct Rest<'a> {
    thread: &'a Thread,
    segments: std::vec::IntoIter<Segment>,
    /// All stamps are read, though nobody asks for them.
    pub reads_stamps: bool,
}

impl<'a> Rest<'a> {
    /// Segment that ends somewhere, alone, or else all segments from it on.
    pub fn of(thread: &'a Thread, segment: Segment) -> Rest<'a> {
        let mut segments = match segment.to {
            Some(_) => vec![segment],
            None => segments(thread),
        };
        segments.retain(|other| other.from >= segment.from);
        Rest {
            thread,
            segments: segments.into_iter(),
            reads_stamps: false,
        }
    }
}

impl Walk<'_> {
    /// Begins with the next segment of what is packed; `false`: there is none.
    pub(super) fn open(&mut self) -> Result<bool, Unsound> {
        let Some(rest) = &mut self.rest else {
            return Err(Unsound::Cut);
        };
        let Some(segment) = rest.segments.next() else {
            return Ok(false);
        };
        self.packed = None;
        self.packed = Some(Box::new(Packed::read(rest.thread, &segment)?));
        self.begins = segment.from.is_some() || rest.thread.gap.is_some();
        Ok(true)
    }

    /// Leaves the rest of a segment out; `false`: it is the last.
    pub(super) fn leave(&mut self) -> bool {
        self.packed = None;
        let rest = self.rest.as_ref();
        rest.is_some_and(|rest| !rest.segments.as_slice().is_empty())
    }
}

/// The streams of a segment of a packed thread, being read or written.
pub(super) struct Packed<'a> {
    model: Model,
    branches: Bits<'a>,
    events: Bits<'a>,
    /// None: nobody kept them. What is damaged there is told to who asks for them.
    stamps: Option<Result<Stamps<'a>, Cut>>,
    /// Outcomes before the next event; who writes: since the last one.
    outcomes: u64,
    /// The number of outcomes is read already.
    is_counted: bool,
    /// Numbers of branches in the model, by their numbers in the code; 0: none.
    numbers: Vec<u32>,
    last_number: u32,
}

impl<'a> Packed<'a> {
    /// Writer for so many bytes of lanes.
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
            outcomes: 0,
            is_counted: false,
            numbers: Vec::new(),
            last_number: 0,
        }
    }

    fn read(thread: &'a Thread, segment: &Segment) -> Result<Packed<'a>, Unsound> {
        let bits = |stream: u16| {
            let at = usize::from(stream - BRANCHES);
            let from = segment.from.map_or(0, |from| from[at]);
            Bits::read(thread, stream, from, segment.to.map(|to| to[at]))
        };
        let mut events = bits(EVENTS)?;
        let stamps = has_stamps(thread).then(|| bits(STAMPS).map(Stamps::new).map_err(|_| Cut));
        Ok(Packed {
            model: Model::new(put_size(&mut events, 0)?),
            branches: bits(BRANCHES)?,
            events,
            stamps,
            outcomes: 0,
            is_counted: false,
            numbers: Vec::new(),
            last_number: 0,
        })
    }

    /// The file has lost what it would read next.
    pub fn is_lost(&mut self) -> bool {
        let stamps = self.stamps.as_mut();
        let stamps = stamps.and_then(|stamps| stamps.as_mut().ok());
        self.branches.is_lost()
            || self.events.is_lost()
            || stamps.is_some_and(|stamps| stamps.is_lost())
    }

    fn is_read(&self) -> bool {
        matches!(self.branches, Bits::Read(_))
    }

    /// Next item, for a reader.
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
        if kind == END {
            let is_over = self.branches.is_over() && self.events.is_over();
            return is_over.then_some(Next::End).ok_or(Unsound::Cut);
        }
        let mut number = || self.model.number(&mut self.events, 0);
        Ok(match kind {
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

    /// The stamp that comes before the next target or escape, for who reads.
    pub fn stamp(&mut self, is_wanted: bool) -> Result<Option<Stamp>, Unsound> {
        match &mut self.stamps {
            Some(stamps) if is_wanted => match stamps {
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

    /// Codes the target of the indirect branch of a piece; a reader passes any target.
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

/// Return address of a call.
fn behind(site: &Site) -> u64 {
    site.step.pc.wrapping_add(site.step.len.into())
}
