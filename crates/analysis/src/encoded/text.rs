//! Contexts in texts: words such as `evp:1180.1c5.2.1189.0.0` that programs put into their logs (`include/everypath.h`).
//!
//! ```text
//!  evp:FUNCTION.NUMBER{.KIND.ENTRY.SITE.NUMBER}
//! ```
//!
//! All are hexadecimal: the function that asks, by its distance from the beginning of its file in memory, and the thread's number; then
//! for each record that holds, from the top on, its kind, function, site, and number. `?` at the end: records are missing.

use std::ops::Range;

use trace::contexts::{Kind, Record};

use super::{By, Decoder, End, Frame, Function, Unknown};

/// The beginning of such a word.
const BEGIN: &str = "evp:";
/// Numbers of a record.
const RECORD: usize = 4;

/// Words in a text, by their places.
pub fn words(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let starts = text.match_indices(BEGIN);
    starts.map(|(start, _)| {
        let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b'?');
        let rest = &text.as_bytes()[start + BEGIN.len()..];
        let len = rest.iter().take_while(|byte| is_part(byte)).count();
        // The end of a sentence is none of it.
        let word = &text[start..start + BEGIN.len() + len];
        start..start + word.trim_end_matches('.').len()
    })
}

/// The numbers of a word.
fn numbers(word: &str) -> Result<Vec<u64>, Unknown> {
    let numbers = word.strip_prefix(BEGIN).ok_or(Unknown::Word)?;
    if numbers.ends_with('?') {
        return Err(Unknown::Lost);
    }
    let numbers = numbers.split('.');
    let numbers = numbers.map(|number| u64::from_str_radix(number, 16));
    numbers.collect::<Result<_, _>>().map_err(|_| Unknown::Word)
}

impl Decoder {
    /// The path of a word, the outermost function first; the last one is that which asked.
    ///
    /// # Errors
    /// It is no such word, or not known.
    pub fn path_of_word(&self, word: &str) -> Result<Vec<Frame>, Unknown> {
        let numbers = numbers(word)?;
        let ([distance, number], records) = numbers.split_first_chunk().ok_or(Unknown::Word)?;
        let (records, rest) = records.as_chunks::<RECORD>();
        let first = records.first().filter(|_| rest.is_empty());
        let file = self.file_of(first.ok_or(Unknown::Word)?[1])?;
        let start = self.files[file].file.start.wrapping_add(*distance);
        let function = self.files[file].function_at(start);
        let mut end = Some(End {
            function: Function {
                file,
                function: function.ok_or(Unknown::Nothing(start))?,
            },
            number: *number,
            stack: 0,
            is_jump: false,
        });
        let mut frames = Vec::new();
        for &[kind, entry, site, number] in records {
            let own = end.take().ok_or(Unknown::Word)?;
            let record = Record {
                entry: u32::try_from(entry).map_err(|_| Unknown::Word)?,
                number,
                ..Record::default()
            };
            let call = match site {
                0 => None,
                site => Some(self.site(u32::try_from(site).map_err(|_| Unknown::Word)?)?),
            };
            let kind = u32::try_from(kind).ok().and_then(Kind::of);
            let by = match (kind, call) {
                (Some(Kind::Call), Some(call)) => By::Call(call),
                (Some(Kind::Entered | Kind::EnteredLeaves), Some(call)) => By::Other(call),
                (Some(Kind::Entered | Kind::EnteredLeaves), None) => By::Outside,
                (Some(Kind::Handler), _) => By::Signal,
                (Some(Kind::Lost), _) => By::Unknown,
                _ => return Err(Unknown::Word),
            };
            self.add_piece(&own, &record, by, &mut frames)?;
            if let By::Call(call) | By::Other(call) = by {
                end = Some(End {
                    function: self.caller(call),
                    number,
                    stack: 0,
                    is_jump: false,
                });
            }
        }
        // The text had no room for all.
        if let (Some(_), Some(frame)) = (end, frames.last_mut()) {
            frame.0.by = By::Unknown;
        }
        frames.reverse();
        Ok(frames.into_iter().map(|(frame, _)| frame).collect())
    }
}
