//! Memory of threads whose calling contexts are numbers: what inserted code writes, and who reads it finds.
//!
//! ```text
//!  at %gs + FIRST    State      the number, the site, the top record
//!         + 64       Record     the bottom, which is never taken off
//!         + 128      Record     ...
//! ```
//!
//! The number grows at calls and shrinks when they are back. Where a path of the call graph begins, at an entry that other code comes
//! to and at calls that close a cycle, a record is put on top, with the number as it was: the number of the path is the difference.
//! Nothing need be done where functions are left. A record holds while the stack pointer is not above its level; who puts one on top
//! or comes back from a call that may have, takes off those that do not hold any more. All is written by the thread itself, also in
//! handlers of signals.

use core::mem::offset_of;

use crate::counters::{FIRST, Lane};

/// Words of a thread, behind [`FIRST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// The number: the sum of what the calls added that are not back.
    pub number: u64,
    /// A call of other code that is not back: its site above 32 bits of the stack pointer; 0: none. What was put on top below that
    /// stack pointer has been left, if the thread is in other code.
    pub site: u64,
    /// The top record, by its displacement from `%gs`.
    pub top: u64,
    /// Not 0: records were left out, as there was no room, at this stack pointer; or, if all bits are set, as a handler of a signal
    /// cannot be followed. Contexts are not known then.
    pub lost: u64,
    /// Number of records of handlers that are there.
    pub handlers: u64,
    /// [`MAGIC`].
    pub magic: u64,
}

/// Programs know by it that they were edited (`include/everypath.h`).
pub const MAGIC: u64 = u64::from_le_bytes(*b"EVPCCTX\0");

/// A record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// It holds while the stack pointer is not above this: that of a function when it is entered.
    pub level: u64,
    /// The number when it was put on top.
    pub number: u64,
    /// The site then.
    pub site: u64,
    /// The instruction that a handler interrupted, and its own stack pointer when it was entered. The lower half of
    /// the first of these is the number of a node for other records ([`Calls`]), or 0.
    pub interrupted: u64,
    pub stack: u64,
    /// The stack pointer that was interrupted.
    pub stack_before: u64,
    /// The entry of the function, and of [`Kind::Call`] the site; of a handler that has another stack the bytes that are free there.
    pub entry: u32,
    pub by: u32,
    /// The record below, by its displacement from `%gs`.
    pub below: u32,
    pub kind: u32,
}

impl Record {
    /// Whether it holds where this is the stack pointer.
    pub fn holds(&self, stack: u64) -> bool {
        match (Kind::of(self.kind), self.by) {
            (Some(Kind::Handler), 0) => self.stack >= stack,
            (Some(Kind::Handler), free) => {
                (self.stack.wrapping_sub(free.into())..=self.stack).contains(&stack)
            }
            _ => self.level >= stack,
        }
    }

    /// Reads one.
    pub fn of(bytes: &[u8; size_of::<Record>()]) -> Record {
        let word = |at: usize| {
            let word = bytes[at..].first_chunk().copied();
            u64::from_le_bytes(word.unwrap_or_default())
        };
        let half = |at: usize| {
            let half = bytes[at..].first_chunk().copied();
            u32::from_le_bytes(half.unwrap_or_default())
        };
        Record {
            level: word(offset_of!(Record, level)),
            number: word(offset_of!(Record, number)),
            site: word(offset_of!(Record, site)),
            interrupted: word(offset_of!(Record, interrupted)),
            stack: word(offset_of!(Record, stack)),
            stack_before: word(offset_of!(Record, stack_before)),
            entry: half(offset_of!(Record, entry)),
            by: half(offset_of!(Record, by)),
            below: half(offset_of!(Record, below)),
            kind: half(offset_of!(Record, kind)),
        }
    }
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// The bottom.
    Bottom = 0,
    /// Other code came to an entry; at a function that takes off what a handler leaves, too.
    Entered = 1,
    EnteredLeaves = 2,
    /// A call of which the site is known, and the function.
    Call = 3,
    /// A function has been entered in which control may go on elsewhere than where a call returns: nothing of the path.
    Mark = 4,
    /// A mark below which nothing is known.
    Lost = 5,
    /// The kernel came to an entry, with a signal.
    Handler = 6,
}

impl Kind {
    pub fn of(kind: u32) -> Option<Kind> {
        const ALL: [Kind; 7] = [
            Kind::Bottom,
            Kind::Entered,
            Kind::EnteredLeaves,
            Kind::Call,
            Kind::Mark,
            Kind::Lost,
            Kind::Handler,
        ];
        ALL.get(kind as usize).copied()
    }
}

/// Bytes of all, and of the words in front of the records.
pub const BYTES: u64 = 4 << 20;
pub const HEAD: u64 = 64;
pub const RECORD: u64 = size_of::<Record>() as u64;

/// Bytes of facts of a routine.
pub const FACTS: u64 = 16;

/// Displacement behind [`FIRST`] of the [`Lane`] of a program whose calls of some functions are logged. Its stream is events of 64-bit
/// words, and a piece of it has whole ones:
///
/// | word | what |
/// |---:|---|
/// | 0 | the function's entry in the lower half; then 16 bits of the kind, with the bit [`IS_LOST`] if contexts are not known ([`State::lost`]), and 16 of the event's bytes |
/// | 1 | time, by the processor's counter |
/// | 2 | the stack pointer |
/// | 3 | the first argument, also of a function as which it goes on by a jump; of a return its result |
/// | 4, 5 | from here on of [`CALLED`] and [`MORE`] alone: the number and the site |
/// | 6 | the displacement of the top record from `%gs` |
/// | 7, 8 | the second argument and the third |
/// | from 9 on | records that are not as earlier events of the stream have them, [`LOGGED`] words each: the displacement, and the record |
pub const LANE_AT: u64 = BYTES;
/// Displacement of the thread's copy of a record from the record: it is as the stream has it.
pub const COPY: u64 = BYTES + Lane::BYTES;
pub const CALLED: u32 = 0;
pub const RETURNED: u32 = 1;
/// It goes on by a jump: as code that does not log its end, or that does.
pub const LEFT: u32 = 2;
pub const GOES_ON: u32 = 3;
/// It is called, and its path is not asked for.
pub const ALONE: u32 = 4;
/// Records of the next event, which has no room for all.
pub const MORE: u32 = 5;
pub const IS_LOST: u32 = 14;
/// The first call of a context whose calls are counted ([`Calls`]): as [`CALLED`], with the context's number in the place of the first
/// argument.
pub const COUNTED: u32 = 6;
/// Words of an event: of a short one, and before records.
pub const SHORT: usize = 4;
pub const EVENT: usize = 9;
pub const LOGGED: usize = 9;
/// Most bytes behind which no record begins: what is behind the end of a full lane has room for so many and another record.
pub const MOST_EVENT: u64 = 3840;

/// Displacement behind [`FIRST`] of [`Calls`], in a program whose calls are counted by context, and bytes there.
pub const CALLS_AT: u64 = COPY + BYTES;
pub const CALLS_BYTES: u64 = 4096 + 8 * LAST_CONTEXTS;
/// Words behind the first page there: each has the address of the [`Entry`] of the context in which a function was called last, or 0.
/// Functions share them.
pub const LAST_CONTEXTS: u64 = 4096;

/// Displacement from `%gs` of the word of a function.
pub const fn last_context(function: u32) -> u32 {
    let number = function.wrapping_mul(FACTOR as u32) >> (32 - LAST_CONTEXTS.trailing_zeros());
    (FIRST + CALLS_AT + 4096) as u32 + 8 * number
}

/// Counted calls of a thread: a hash table of contexts with their numbers, and a counter for each.
///
/// A context is a function and its number below the node of the top record; a node is a record below another node. Both are entries of
/// one table, from the place on that [`hash`] says. The counters are mapped from pieces of the file ([`crate::counters::CountsHead`]);
/// the first call of a context is an event ([`COUNTED`]), from whose records readers make the path.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    /// Address of the table; 0: there is none.
    pub table: u64,
    /// 64 less the logarithm of the number of its entries; and all bits of displacements in it.
    pub shift: u64,
    pub mask: u64,
    /// Address of the counters, by the number of a context. That with number 0 counts calls for which there was no room.
    pub counts: u64,
    /// The next number, and the first one without a counter.
    pub next: u64,
    pub limit: u64,
}

/// An entry of the table: its words, and the number of a node, or the address of a context's counter; 0: it is free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Entry {
    pub words: [u64; 3],
    pub value: u64,
}

/// The node of contexts that are not known.
pub const NODE_UNKNOWN: u64 = 1;
/// Number of the first context.
pub const FIRST_CONTEXT: u64 = 2;
/// Most contexts and nodes of a thread: numbers of nodes have fewer than 28 bits.
pub const MOST_CONTEXTS: u64 = 1 << 24;
/// Upper half of the first word of a context; the lower half is the function's entry.
pub const CONTEXT: u32 = u32::MAX;
/// Places in the lower half of the third word of a node: above its parent's number the kind of the record, then whether its function
/// was come to by a jump. The upper half is the site.
pub const NODE_KIND: u32 = 28;
pub const NODE_JUMP: u32 = 31;

/// Factor of the hash.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of an entry's words: its upper bits are a place in the table.
pub const fn hash(words: [u64; 3]) -> u64 {
    let one = words[0].wrapping_mul(FACTOR) ^ words[1];
    let two = one.wrapping_mul(FACTOR) ^ words[2];
    two.wrapping_mul(FACTOR)
}

/// Displacement of the bottom.
pub const BOTTOM: u64 = FIRST + HEAD;
/// Levels of marks are that much below the stack pointer at the entry, which is a multiple of 8.
pub const MARK_BELOW: u64 = 4;

const _: () = assert!(size_of::<State>() as u64 <= HEAD && RECORD == 64);
