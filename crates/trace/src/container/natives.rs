//! Programs that were executed natively: one chunk before the last, if there are any.

use std::io::Write;

use super::chunk::{Kind, write_chunk};
use super::codec::{Decoder, Encoder};
use crate::error::{ReadError, WriteError};
use crate::model::Native;

pub(super) fn write(out: &mut impl Write, natives: &[Native]) -> Result<(), WriteError> {
    match natives.is_empty() {
        true => Ok(()),
        false => write_chunk(out, Kind::NATV, &put(natives).bytes),
    }
}

pub(super) fn put(natives: &[Native]) -> Encoder {
    let mut out = Encoder::default();
    for native in natives {
        out.text(&native.name);
        out.uint(native.why.into());
        out.uint(native.times);
    }
    out
}

pub(super) fn get(input: &mut Decoder<'_>) -> Result<Vec<Native>, ReadError> {
    let mut natives = Vec::new();
    while !input.is_empty() {
        natives.push(Native {
            name: input.text()?,
            why: input.u32()?,
            times: input.uint()?,
        });
    }
    Ok(natives)
}
