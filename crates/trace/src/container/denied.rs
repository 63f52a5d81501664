//! Threads that did not get memory for what they did: one chunk before the last, if there are any.

use std::io::Write;

use wire::denied::Denial;

use super::chunk::{Kind, write_chunk};
use super::codec::{Decoder, Encoder};
use crate::error::{ReadError, WriteError};

pub(super) fn write(out: &mut impl Write, denied: &[Denial]) -> Result<(), WriteError> {
    if denied.is_empty() {
        return Ok(());
    }
    write_chunk(out, Kind::DENY, &put(denied).bytes)
}

pub(super) fn put(denied: &[Denial]) -> Encoder {
    let mut out = Encoder::default();
    for denial in denied {
        out.uint(denial.since_ns);
        for number in [denial.pid, denial.tid, denial.why] {
            out.uint(number.into());
        }
        out.uint(denial.times);
    }
    out
}

pub(super) fn get(input: &mut Decoder<'_>) -> Result<Vec<Denial>, ReadError> {
    let mut denied = Vec::new();
    while !input.is_empty() {
        denied.push(Denial {
            since_ns: input.uint()?,
            pid: input.u32()?,
            tid: input.u32()?,
            why: input.u32()?,
            times: input.uint()?,
        });
    }
    Ok(denied)
}
