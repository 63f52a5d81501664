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
            Escape::At(_) => 2 + 8,
            Escape::To(..) => 3 + 8,
            Escape::Code(_) => 2 + 4,
        }
    }
}

impl<'a> Lane<'a> {
    pub fn of(thread: &'a Thread, number: usize) -> Lane<'a> {
        let is_of = |part: &&Part| usize::from(part.stream) == number;
        Lane {
            parts: thread.stream.iter().filter(is_of).collect(),
            part: 0,
            raw: Vec::new(),
            at: 0,
        }
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
            && let Some(part) = self.parts.get(self.part)
        {
            let more = part.unpack().map_err(Unsound::Part)?;
            self.raw.drain(..self.at);
            self.raw.extend(more);
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
