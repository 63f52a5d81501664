//! The bytes of one lane of a thread, part after part.

use std::borrow::Cow;
use std::collections::VecDeque;

use trace::stream::{STAMP, STAMP_LEN, TARGETS, escape};
use trace::{Gap, Part, Thread};

use super::Unsound;
use super::live::Tail;

/// The parts of a lane.
enum Parts<'a> {
    Kept(VecDeque<&'a Part>),
    /// Parts of that lane, as they come.
    LiveProcess(&'a Tail, usize),
}

impl<'a> Parts<'a> {
    /// Waits for it, if it has to come.
    fn next(&mut self) -> Option<Cow<'a, Part>> {
        match self {
            Parts::Kept(parts) => parts.pop_front().map(Cow::Borrowed),
            Parts::LiveProcess(tail, lane) => tail.next(*lane).map(Cow::Owned),
        }
    }
}

pub(super) struct Lane<'a> {
    parts: Parts<'a>,
    raw: Vec<u8>,
    /// How many of `raw` were read.
    at: usize,
    /// Bytes of the lane up to the end of the last part that was taken; of one that comes,
    /// not known.
    taken: u64,
    /// That part is lost.
    is_lost: bool,
    /// How many bytes of the next part are left out, and how many come at most.
    skipped: u64,
    left: u64,
}

/// Bytes of escapes of other kinds than [`escape::AT`].
const TO_LEN: usize = 3 + 8;
const CODE_LEN: usize = 2 + 4;

/// An escape that stands in all lanes.
#[derive(Clone, Copy)]
pub(super) enum Escape {
    At(u64),
    To(u8, u64),
    Code(u32),
}

impl Escape {
    /// In bytes.
    pub fn len(self) -> usize {
        match self {
            Escape::At(_) => escape::AT_LEN,
            Escape::To(..) => TO_LEN,
            Escape::Code(_) => CODE_LEN,
        }
    }
}

impl<'a> Lane<'a> {
    /// Reader of a stream from byte `from` on, or from the end of a gap, up to `to`; a stream of a
    /// packed thread is none of the lanes, but read the same way.
    pub fn between(thread: &'a Thread, number: usize, from: u64, to: Option<u64>) -> Lane<'a> {
        let is_of = |part: &&Part| usize::from(part.stream) == number;
        let mut parts: VecDeque<&Part> = thread.stream.iter().filter(is_of).collect();
        let place = u16::try_from(number).ok().and_then(Gap::place);
        let gone = thread.gap.zip(place);
        let gone = gone.map_or(0, |(gap, place)| gap.bytes[place]);
        let from = from.max(gone);
        let (mut skipped, mut taken) = (from - gone, gone);
        while let Some(next) = parts.pop_front_if(|next| next.len() <= skipped) {
            skipped -= next.len();
            taken += next.len();
        }
        Lane {
            parts: Parts::Kept(parts),
            raw: Vec::new(),
            at: 0,
            taken,
            is_lost: false,
            skipped,
            left: to.map_or(u64::MAX, |to| to.saturating_sub(from)),
        }
    }

    /// All of it, as it comes.
    pub fn live(tail: &'a Tail, number: usize) -> Lane<'a> {
        Lane {
            parts: Parts::LiveProcess(tail, number),
            raw: Vec::new(),
            at: 0,
            taken: 0,
            is_lost: false,
            skipped: 0,
            left: u64::MAX,
        }
    }

    /// Bytes of its parts that were not read; of those that come, none.
    pub fn len(&self) -> u64 {
        match &self.parts {
            Parts::Kept(parts) => {
                let all: u64 = parts.iter().map(|part| part.len()).sum();
                all.saturating_sub(self.skipped).min(self.left)
            }
            Parts::LiveProcess(..) => 0,
        }
    }

    /// Bytes of it before it goes on, if what was to be read next is lost.
    pub fn lost(&self) -> Option<u64> {
        self.is_lost.then_some(self.taken)
    }

    /// Nothing more comes.
    pub fn is_over(&self) -> bool {
        let is_last = match &self.parts {
            Parts::Kept(parts) => parts.is_empty(),
            Parts::LiveProcess(tail, lane) => tail.is_over(*lane),
        };
        self.at == self.raw.len() && (self.left == 0 || is_last)
    }

    /// Whether something of it has come and was not read; of the last one stamps, which are
    /// skipped, do not count.
    pub fn has_come(&mut self) -> Result<bool, Unsound> {
        let Parts::LiveProcess(tail, number) = self.parts else {
            return Ok(true);
        };
        loop {
            let here = &self.raw[self.at..];
            match here.first() {
                Some(&STAMP) if number == TARGETS => {}
                Some(_) => return Ok(true),
                None if number != TARGETS => return Ok(tail.has(number)),
                None => {}
            }
            if here.len() >= STAMP_LEN {
                self.skip(STAMP_LEN);
            } else if tail.has(number) {
                let more = here.len() + 1;
                self.ahead(more)?;
            } else {
                return Ok(false);
            }
        }
    }

    /// Bytes that are unpacked and not read yet.
    #[inline]
    pub fn here(&self) -> &[u8] {
        &self.raw[self.at..]
    }

    /// The next byte; `None`: the lane is over.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<u8>, Unsound> {
        match self.raw.get(self.at) {
            Some(&byte) => Ok(Some(byte)),
            None => Ok(self.ahead(1)?.first().copied()),
        }
    }

    /// The next bytes; fewer at the end of the lane.
    pub fn ahead(&mut self, len: usize) -> Result<&[u8], Unsound> {
        while self.raw.len() - self.at < len
            && self.left > 0
            && !self.is_lost
            && let Some(part) = self.parts.next()
        {
            self.taken = self.taken.saturating_add(part.len());
            if part.is_lost() {
                self.is_lost = true;
                break;
            }
            let more = part.unpack().map_err(Unsound::Part)?;
            let skipped = (more.len() as u64).min(self.skipped) as usize;
            let more = &more[skipped..];
            let most = (more.len() as u64).min(self.left) as usize;
            let more = &more[..most];
            self.raw.drain(..self.at);
            self.raw.extend(more);
            self.skipped -= skipped as u64;
            self.left -= more.len() as u64;
            self.at = 0;
        }
        let to = self.raw.len().min(self.at + len);
        match self.is_lost && to - self.at < len {
            true => Err(Unsound::Lost),
            false => Ok(&self.raw[self.at..to]),
        }
    }

    /// Goes on behind bytes that are there.
    #[inline]
    pub fn skip(&mut self, len: usize) {
        self.at += len;
    }

    /// Goes on behind the bytes that were unpacked.
    pub fn skip_all(&mut self) {
        self.at = self.raw.len();
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Unsound> {
        let bytes = self.ahead(N)?.try_into().map_err(|_| Unsound::Cut)?;
        self.skip(N);
        Ok(bytes)
    }

    /// The escape that comes next, and its bytes.
    pub fn escape(&mut self) -> Result<(Escape, [u8; 11]), Unsound> {
        // No more than it has: what is behind it may come late.
        let len = match self.ahead(2)? {
            [_, escape::AT] => escape::AT_LEN,
            [_, escape::CODE] => CODE_LEN,
            _ => TO_LEN,
        };
        let there = self.ahead(len)?;
        let mut bytes = [0; 11];
        bytes[..there.len()].copy_from_slice(there);
        let number = |from: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(number)
        };
        let item = match bytes[1] {
            escape::AT => Escape::At(number(2)),
            escape::CODE => Escape::Code(number(2) as u32),
            escape::TO => Escape::To(bytes[2], number(3)),
            kind => return Err(Unsound::Item(kind)),
        };
        match there.len() < item.len() {
            true => Err(Unsound::Cut),
            false => Ok((item, bytes)),
        }
    }
}
