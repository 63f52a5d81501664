//! Calls that a program has logged with their contexts, in the streams of its threads ([`trace::contexts::LANE_AT`]).

use std::collections::HashMap;

use lz4_flex::block::decompress_into;
use trace::contexts::{
    ALONE, BOTTOM, CALLED, COUNTED, EVENT, GOES_ON, IS_LOST, LEFT, LOGGED, MORE, RECORD, RETURNED,
    Record, SHORT,
};

use super::{Decoder, Function, Moment, Unknown};
use crate::regenerate::Piece;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Called,
    /// Called for the first time in this context, whose number is the first value.
    Counted,
    /// Called, and its path was not asked for.
    Alone,
    Returned,
    /// It went on by a jump, as code that does not log its end.
    Left,
    /// It went on as a function that does.
    GoesOn,
}

/// A call of a function, or its end.
#[derive(Clone, Debug)]
pub struct Event {
    pub function: Function,
    pub what: What,
    /// By the processor's counter.
    pub time: u64,
    /// The first three arguments of a call; else the first alone, also of what it goes on as, or the result.
    pub values: [u64; 3],
    /// The state, whole only at calls.
    pub moment: Moment,
}

/// Most bytes of a piece.
const MOST_PIECE: usize = 1 << 20;

/// The bytes of a piece of a stream.
///
/// # Errors
/// It is damaged.
pub fn unpacked(piece: &Piece<'_>) -> Result<Vec<u8>, Unknown> {
    if piece.stored.len() as u64 == piece.bytes {
        return Ok(piece.stored.to_vec());
    }
    let bytes = usize::try_from(piece.bytes).ok();
    let bytes = bytes.filter(|bytes| *bytes <= MOST_PIECE);
    let mut out = vec![0; bytes.ok_or(Unknown::Event)?];
    match decompress_into(piece.stored, &mut out) {
        Ok(len) if len == out.len() => Ok(out),
        _ => Err(Unknown::Event),
    }
}

/// A thread's stream, as far as it was read: its records by their displacements.
#[derive(Debug, Default)]
pub struct Stream {
    records: HashMap<u32, Record>,
}

impl Stream {
    /// Reads the events of the bytes of the next piece; one that is damaged is the last.
    pub fn read(&mut self, decoder: &Decoder, bytes: &[u8]) -> Vec<Result<Event, Unknown>> {
        let (mut rest, mut all) = (bytes, Vec::new());
        while !rest.is_empty() {
            let head = rest
                .first_chunk()
                .map_or(0, |head| u64::from_le_bytes(*head));
            let len = (head >> 48) as usize;
            let own = rest.get(..len).filter(|_| len >= 8 * SHORT);
            let event = match own.map(|own| self.event(decoder, own)) {
                Some(Ok(None)) => None,
                Some(Ok(Some(event))) => Some(event),
                Some(Err(_)) | None => {
                    all.push(Err(Unknown::Event));
                    break;
                }
            };
            all.extend(event);
            rest = &rest[len..];
        }
        all
    }

    /// An event of its bytes; `None`: it has records of the next one. The error says that it is damaged.
    fn event(
        &mut self,
        decoder: &Decoder,
        bytes: &[u8],
    ) -> Result<Option<Result<Event, Unknown>>, Unknown> {
        let (words, rest) = bytes.as_chunks();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let kind = (words[0] >> 32) as u32 & 0xffff;
        let what = match kind & ((1 << IS_LOST) - 1) {
            CALLED => Some(What::Called),
            COUNTED => Some(What::Counted),
            RETURNED => Some(What::Returned),
            LEFT => Some(What::Left),
            GOES_ON => Some(What::GoesOn),
            ALONE => Some(What::Alone),
            MORE => None,
            _ => return Err(Unknown::Event),
        };
        let is_whole = matches!(what, None | Some(What::Called | What::Counted));
        let head = if is_whole { EVENT } else { SHORT };
        if !rest.is_empty() || words.len() < head || !is_whole && words.len() > head {
            return Err(Unknown::Event);
        }
        let (records, rest) = bytes[8 * head..].as_chunks::<{ 8 * LOGGED }>();
        if !rest.is_empty() {
            return Err(Unknown::Event);
        }
        for own in records {
            let (at, record) = own.split_first_chunk().ok_or(Unknown::Event)?;
            let record: &[u8; RECORD as usize] = record.first_chunk().ok_or(Unknown::Event)?;
            let at = u32::try_from(u64::from_le_bytes(*at)).map_err(|_| Unknown::Event)?;
            self.records.insert(at, Record::of(record));
        }
        let Some(what) = what else {
            return Ok(None);
        };
        let mut moment = Moment {
            stack: words[2],
            lost: if kind >> IS_LOST & 1 == 0 {
                0
            } else {
                u64::MAX
            },
            ..Moment::default()
        };
        let mut values = [words[3], 0, 0];
        if is_whole {
            (moment.number, moment.site) = (words[4], words[5]);
            (values[1], values[2]) = (words[7], words[8]);
            moment.records = self.chain(words[6])?;
        }
        let function = decoder.function_of_token(words[0] as u32);
        Ok(Some(function.map(|function| Event {
            function,
            what,
            time: words[1],
            values,
            moment,
        })))
    }

    /// Records from one on down to the bottom.
    fn chain(&self, top: u64) -> Result<Vec<Record>, Unknown> {
        let mut all = Vec::new();
        let mut at = u32::try_from(top).map_err(|_| Unknown::Event)?;
        while u64::from(at) != BOTTOM {
            let record = self.records.get(&at).ok_or(Unknown::Event)?;
            all.push(*record);
            // They are below each other, so there is an end.
            at = Some(record.below)
                .filter(|below| *below < at)
                .ok_or(Unknown::Event)?;
        }
        Ok(all)
    }
}

impl Decoder {
    /// The function that an event or a record is of.
    pub(super) fn function_of_token(&self, token: u32) -> Result<Function, Unknown> {
        let mut files = self.files.iter().enumerate();
        let found = files.find_map(|(file, known)| {
            let function = *known.functions.get(&token)?;
            Some(Function { file, function })
        });
        found.ok_or(Unknown::Nothing(token.into()))
    }
}
