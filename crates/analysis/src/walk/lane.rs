//! The bytes of one lane of a thread, part after part.

use trace::stream::escape;
use trace::{Part, Thread};

use super::Unsound;

pub(super) struct Lane<'a> {
    parts: Vec<&'a Part>,
    /// The part that comes next.
    part: usize,
    raw: Vec<u8>,
    /// How many of `raw` were read.
    at: usize,
    /// How many bytes of the next part are left out, and how many come at most.
    skipped: u64,
    left: u64,
}

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
            Escape::To(..) => 3 + 8,
            Escape::Code(_) => 2 + 4,
        }
    }
}

impl<'a> Lane<'a> {
    /// What is behind `from` bytes of it, or behind what is missing, up to `to`.
    pub fn between(thread: &'a Thread, number: usize, from: u64, to: Option<u64>) -> Lane<'a> {
        let is_of = |part: &&Part| usize::from(part.stream) == number;
        let parts: Vec<&Part> = thread.stream.iter().filter(is_of).collect();
        let gone = thread.gap.map_or(0, |gap| gap.bytes[number]);
        let from = from.max(gone);
        let mut skipped = from - gone;
        let mut part = 0;
        while let Some(next) = parts.get(part).filter(|next| next.len() <= skipped) {
            skipped -= next.len();
            part += 1;
        }
        Lane {
            parts,
            part,
            raw: Vec::new(),
            at: 0,
            skipped,
            left: to.map_or(u64::MAX, |to| to.saturating_sub(from)),
        }
    }

    /// Bytes of all its parts.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Nothing more comes.
    pub fn is_over(&self) -> bool {
        self.at == self.raw.len() && (self.left == 0 || self.part == self.parts.len())
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
            && let Some(part) = self.parts.get(self.part)
        {
            let more = part.unpack().map_err(Unsound::Part)?;
            let skipped = (more.len() as u64).min(self.skipped) as usize;
            let more = &more[skipped..];
            let most = (more.len() as u64).min(self.left) as usize;
            let more = &more[..most];
            self.raw.drain(..self.at);
            self.raw.extend(more);
            self.skipped -= skipped as u64;
            self.left -= more.len() as u64;
            (self.part, self.at) = (self.part + 1, 0);
        }
        let to = self.raw.len().min(self.at + len);
        Ok(&self.raw[self.at..to])
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
        let there = self.ahead(11)?;
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
