//! Chunks of [`crate::Mode::Counts`]: fragments, cuts, sources and counts.
//!
//! Numbers are differences to those of the item before in the chunk, where that
//! makes them small. What fits together only with instructions decoded (events
//! and cuts) is for `analysis` to check.

use super::codec::{Decoder, Encoder};
use crate::error::ReadError;
use crate::model::{Cut, Event, EventKind, Fragment, Jump, Piece, SlotCount, Source};

/// More slots than a thread can have.
const MAX_SLOTS: u64 = 1 << 28;

fn delta(now: u64, then: u64) -> i64 {
    now.wrapping_sub(then).cast_signed()
}

/// Base of a fragment's differences.
#[derive(Clone, Copy, Default)]
pub(super) struct Before {
    slot: u64,
    pc: u64,
}

impl Before {
    pub(super) fn after(fragment: &Fragment) -> Before {
        Before {
            slot: fragment.first_slot,
            pc: fragment.pieces.first().map_or(0, |piece| piece.pc),
        }
    }
}

pub(super) fn put_fragment(out: &mut Encoder, before: Before, fragment: &Fragment) {
    out.uint(fragment.id.into());
    out.int(delta(fragment.first_slot, before.slot));
    out.flag(fragment.faults);
    let mut last = before.pc;
    out.list(&fragment.pieces, |out, piece| {
        out.int(delta(piece.pc, last));
        out.uint(piece.len.into());
        out.option(piece.module, |out, module| out.uint(module.into()));
        last = piece.pc;
    });
    out.list(&fragment.events, |out, event| {
        out.uint(event.from.into());
        out.uint(event.to.into());
        out.uint(event.kind as u64);
    });
    out.blob(&fragment.code);
}

fn event([from, to, kind]: [u64; 3]) -> Option<Event> {
    let (from, to) = (u16::try_from(from).ok()?, u16::try_from(to).ok()?);
    let kind = EventKind::of(kind)?;
    (from < to).then_some(Event { from, to, kind })
}

pub(super) fn fragment(input: &mut Decoder<'_>, before: Before) -> Result<Fragment, ReadError> {
    let id = input.u32()?;
    let first_slot = before.slot.wrapping_add_signed(input.int()?);
    let faults = input.flag()?;
    let mut last = before.pc;
    let pieces = input.list(|input| {
        last = last.wrapping_add_signed(input.int()?);
        Ok(Piece {
            pc: last,
            len: input.u32()?,
            module: input.option(Decoder::u32)?,
        })
    })?;
    let events = input.list(|input| {
        let word = [input.uint()?, input.uint()?, input.uint()?];
        event(word).ok_or_else(|| input.malformed("an event is none"))
    })?;
    let code = input.blob()?.to_vec();
    let lens = pieces.iter().map(|piece| u64::from(piece.len));
    if lens.sum::<u64>() != code.len() as u64 {
        return Err(input.malformed("a fragment has more or less code than its pieces"));
    }
    if first_slot >= MAX_SLOTS {
        return Err(input.malformed("a slot has a number that no slot has"));
    }
    Ok(Fragment {
        id,
        faults,
        pieces,
        code,
        first_slot,
        events,
    })
}

pub(super) fn put_cut(out: &mut Encoder, cut: &Cut) {
    out.uint(cut.slot);
    out.uint(cut.fragment.into());
    out.uint(cut.at.into());
    out.int(cut.ahead.into());
}

pub(super) fn cut(input: &mut Decoder<'_>) -> Result<Cut, ReadError> {
    Ok(Cut {
        slot: input.uint()?,
        fragment: input.u32()?,
        at: input.u32()?,
        ahead: input.i32()?,
    })
}

pub(super) fn put_jump(out: &mut Encoder, before: Jump, jump: &Jump) {
    out.int(delta(jump.slot, before.slot));
    out.int(i64::from(jump.fragment) - i64::from(before.fragment));
    out.int(delta(jump.pc, before.pc));
    out.option(jump.module, |out, module| out.uint(module.into()));
}

pub(super) fn jump(input: &mut Decoder<'_>, before: Jump) -> Result<Jump, ReadError> {
    let slot = before.slot.wrapping_add_signed(input.int()?);
    let fragment = i64::from(before.fragment).checked_add(input.int()?);
    let fragment = fragment.and_then(|id| u32::try_from(id).ok());
    Ok(Jump {
        slot,
        fragment: fragment.ok_or_else(|| input.malformed("a number is longer than 32 bits"))?,
        pc: before.pc.wrapping_add_signed(input.int()?),
        module: input.option(Decoder::u32)?,
    })
}

pub(super) fn put_source(out: &mut Encoder, before: u64, source: &Source) {
    out.uint(source.module.into());
    out.int(delta(source.offset, before));
    out.option(source.function, |out, (name, offset)| {
        out.uint(name.into());
        out.uint(offset);
    });
    out.option(source.line, |out, (file, line)| {
        out.uint(file.into());
        out.uint(line.into());
    });
}

pub(super) fn source(input: &mut Decoder<'_>, before: u64) -> Result<Source, ReadError> {
    Ok(Source {
        module: input.u32()?,
        offset: before.wrapping_add_signed(input.int()?),
        function: input.option(|input| Ok((input.u32()?, input.uint()?)))?,
        line: input.option(|input| Ok((input.u32()?, input.u32()?)))?,
    })
}

pub(super) fn put_count(out: &mut Encoder, before: u64, counted: &SlotCount) {
    out.int(delta(counted.slot, before));
    out.uint(counted.count);
}

pub(super) fn count(input: &mut Decoder<'_>, before: u64) -> Result<SlotCount, ReadError> {
    Ok(SlotCount {
        slot: before.wrapping_add_signed(input.int()?),
        count: input.uint()?,
    })
}
