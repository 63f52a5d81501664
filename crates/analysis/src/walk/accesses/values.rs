//! Values of accesses, from the stream of a thread that has them and from its code.
//!
//! Values come in the order of the operands: for each instruction those that were taken before it, then
//! those from behind it (`isa::memory::values`).

use isa::memory::values::Origin;
use isa::memory::{Pattern, Recorded};
use trace::Thread;
use trace::stream::VALUE_STREAM;

use super::super::Unsound;
use super::super::lane::Lane;
use super::{Accessed, End};

/// A value among the [`Bytes`] that it is given with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    at: u32,
    len: u8,
}

impl Value {
    /// The value of `len` bytes from `at` on.
    pub fn new(at: u32, len: u8) -> Value {
        Value { at, len }
    }

    /// An element of this value of all elements, of so many bytes.
    fn element(self, number: u32, size: u16) -> Value {
        Value {
            at: self.at + number * u32::from(size),
            len: size as u8,
        }
    }
}

/// Bytes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The bytes of an event, as [`Bytes::all`] gave them.
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(bytes)
    }

    /// All bytes of an event.
    pub fn all(self) -> &'a [u8] {
        self.0
    }

    /// The value's bytes, from the lowest address on.
    pub fn of(self, value: Value) -> &'a [u8] {
        let from = value.at as usize;
        &self.0[from..from + usize::from(value.len)]
    }
}

/// The values that are to be read.
pub(super) struct Reader<'a> {
    pub lane: Lane<'a>,
    /// Bytes of those that were read for what is given next.
    pub bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub fn new(thread: &'a Thread, from: u64) -> Reader<'a> {
        Reader {
            lane: Lane::between(thread, VALUE_STREAM.into(), from, None),
            bytes: Vec::new(),
        }
    }

    /// Reads the values of an instruction. Its accesses are `found`, those of each operand up to its
    /// end. `false`: they are not there.
    pub fn take(
        &mut self,
        recorded: &Recorded,
        found: &mut [Accessed],
        ends: &[End],
    ) -> Result<bool, Unsound> {
        for is_behind in [false, true] {
            let mut from = 0;
            let operands = recorded.operands.iter().zip(&recorded.values);
            for ((operand, values), end) in operands.zip(ends) {
                let size = values.size;
                let own = &mut found[from..end.to];
                from = end.to;
                let by_elements = matches!(
                    operand.pattern,
                    Pattern::Elements(..) | Pattern::Packed(..) | Pattern::Vector(_)
                );
                for (origin, is_read) in [(values.read, true), (values.written, false)] {
                    let value = match origin {
                        Origin::Before(_) if !is_behind => self.next(size)?,
                        Origin::Behind(_) if is_behind => self.next(size)?,
                        Origin::Constant(value) if is_behind => {
                            Some(self.add(&value.to_le_bytes(), size))
                        }
                        _ => continue,
                    };
                    let Some(value) = value else {
                        return Ok(false);
                    };
                    let mut left = end.elements;
                    for accessed in &mut *own {
                        let value = match by_elements {
                            true => value.element(left.trailing_zeros(), operand.size),
                            false => value,
                        };
                        left &= left.wrapping_sub(1);
                        match is_read {
                            true => accessed.read = Some(value),
                            false => accessed.written = Some(value),
                        }
                    }
                }
            }
        }
        let first = found.first().and_then(|first| first.read);
        let mut written = recorded.values.iter().map(|values| values.written);
        if written.any(|origin| origin == Origin::First)
            && let Some(last) = found.last_mut()
        {
            last.written = first;
        }
        Ok(true)
    }

    fn next(&mut self, size: u8) -> Result<Option<Value>, Unsound> {
        let len = usize::from(size);
        let there = self.lane.ahead(len)?;
        if there.len() < len {
            return Ok(None);
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(there);
        self.lane.skip(len);
        Ok(Some(Value { at, len: size }))
    }

    fn add(&mut self, bytes: &[u8], size: u8) -> Value {
        let at = self.bytes.len() as u32;
        let len = size.min(bytes.len() as u8);
        self.bytes.extend_from_slice(&bytes[..len.into()]);
        Value { at, len }
    }
}
