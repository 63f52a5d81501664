//! Calls that a program has logged with their contexts, in the streams of its threads ([`trace::contexts::LANE_AT`]).

use lz4_flex::block::decompress_into;
use trace::contexts::{CALLED, EVENT, GOES_ON, Kind, LEFT, LOGGED, MOST_EVENT, RETURNED, Record};

use super::{Decoder, Function, Moment, Unknown};
use crate::regenerate::Piece;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Called,
    Returned,
    /// It went on by a jump, as code that does not log its end.
    Left,
    /// It went on as a function that does.
    GoesOn,
}

impl What {
    fn of(number: u32) -> Option<What> {
        match number {
            CALLED => Some(What::Called),
            RETURNED => Some(What::Returned),
            LEFT => Some(What::Left),
            GOES_ON => Some(What::GoesOn),
            _ => None,
        }
    }
}

/// A call of a function, or its end.
#[derive(Clone, Debug)]
pub struct Event {
    pub function: Function,
    pub what: What,
    /// By the processor's counter.
    pub time: u64,
    /// The first three arguments, also of what it goes on as; the result of a return.
    pub values: [u64; 3],
    /// The state, without records but at calls.
    pub moment: Moment,
}

/// The bytes of a piece of a stream.
///
/// # Errors
/// It is damaged.
pub fn unpacked(piece: &Piece<'_>) -> Result<Vec<u8>, Unknown> {
    if piece.stored.len() as u64 == piece.bytes {
        return Ok(piece.stored.to_vec());
    }
    // More than a lane has is no piece.
    let bytes = usize::try_from(piece.bytes).ok();
    let bytes = bytes.filter(|bytes| *bytes <= MOST_PIECE);
    let mut out = vec![0; bytes.ok_or(Unknown::Event)?];
    match decompress_into(piece.stored, &mut out) {
        Ok(len) if len == out.len() => Ok(out),
        _ => Err(Unknown::Event),
    }
}

/// Most bytes of a piece.
const MOST_PIECE: usize = 1 << 20;

/// Events of a piece, which the iterator ends at if one is damaged.
#[derive(Debug)]
pub struct Events<'d, 'b> {
    decoder: &'d Decoder,
    rest: &'b [u8],
}

impl Decoder {
    /// Events of the bytes of a piece.
    pub fn events<'d, 'b>(&'d self, bytes: &'b [u8]) -> Events<'d, 'b> {
        Events {
            decoder: self,
            rest: bytes,
        }
    }

    /// The function that an event is of.
    pub(super) fn function_of_token(&self, token: u32) -> Result<Function, Unknown> {
        let mut files = self.files.iter().enumerate();
        let found = files.find_map(|(file, known)| {
            let function = *known.functions.get(&token)?;
            Some(Function { file, function })
        });
        found.ok_or(Unknown::Nothing(token.into()))
    }
}

impl Iterator for Events<'_, '_> {
    type Item = Result<Event, Unknown>;

    fn next(&mut self) -> Option<Self::Item> {
        let head = u64::from_le_bytes(*self.rest.first_chunk()?);
        let bytes = (head >> 48) as usize;
        let is_one = bytes >= 8 * EVENT && bytes.is_multiple_of(8);
        let own = self.rest.get(..bytes).filter(|_| is_one);
        let (Some(own), Some(what)) = (own, What::of((head >> 32) as u32 & 0xffff)) else {
            self.rest = &[];
            return Some(Err(Unknown::Event));
        };
        self.rest = &self.rest[bytes..];
        let words: Vec<u64> = own
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        Some(self.event(&words, what))
    }
}

impl Events<'_, '_> {
    fn event(&self, words: &[u64], what: What) -> Result<Event, Unknown> {
        let mut records = Vec::new();
        let mut rest = &words[EVENT..];
        while let Some((own, behind)) = rest.split_at_checked(LOGGED) {
            rest = behind;
            let mut record = Record {
                level: own[0],
                number: own[1],
                site: own[2],
                entry: own[3] as u32,
                by: (own[3] >> 32) as u32,
                kind: u32::try_from(own[4]).map_err(|_| Unknown::Event)?,
                ..Record::default()
            };
            if Kind::of(record.kind) == Some(Kind::Handler) {
                let (more, behind) = rest.split_first_chunk().ok_or(Unknown::Event)?;
                [record.interrupted, record.stack, record.stack_before] = *more;
                rest = behind;
            }
            records.push(record);
        }
        if !rest.is_empty() {
            return Err(Unknown::Event);
        }
        // There was no room for more: nothing is known below.
        if 8 * words.len() as u64 > MOST_EVENT {
            records.push(Record {
                level: u64::MAX,
                kind: Kind::Lost as u32,
                ..Record::default()
            });
        }
        Ok(Event {
            function: self.decoder.function_of_token(words[0] as u32)?,
            what,
            time: words[1],
            values: [words[6], words[7], words[8]],
            moment: Moment {
                number: words[2],
                site: words[3],
                lost: words[4],
                records,
                at: 0,
                stack: words[5],
            },
        })
    }
}
