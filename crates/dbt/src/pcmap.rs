//! The stored map from cache addresses to program state (design D7).
//!
//! Per block, a byte string that is walked from the block's start with two
//! cursors, cache address and program address:
//!
//! | byte | meaning |
//! |---|---|
//! | `0x01..=0x0F` = n | n bytes copied as they are: an instruction; both cursors move |
//! | `0x10`, recipe, n | n cache bytes in the middle of the instruction here |
//! | `0x11`, recipe, n | the same, and their first byte is an exact boundary |
//! | `0x12` + b, registers, u16 = n | n cache bytes that read memory to record it, before or behind the instruction here ([`Reading`]); with b = 1 their first byte is an exact boundary |
//! | `0x81..=0x8F` = 0x80+n | the instruction here is over: program cursor moves n |
//! | `0x90`, i32 | program cursor goes to block start + i32 |
//! | `0xB0` + m, u32 = p | the basic blocks entered, and not yet on record, are path p; with m = 1 the instruction here is in the middle of one |
//! | `0xC0` + c | the next instruction is of class c ([`isa::Class`]); without it, of none, or that is not counted |
//! | `0xD0` + 2l + b | a branch of lane l had outcome b, which is not in the stream yet (`streams`) |
//! | `0xE0` | all outcomes are in the stream |
//! | `0xE1`, u8 = n | the stream, or the thread's words, have all instructions before this one, and n from here on |
//! | `0xE2`, u8 = n | n bytes about accesses to memory are stored and not in the stream (`accesses`), besides those before |
//! | `0xE3` | all of those are in the stream, and those of `0xE4` |
//! | `0xE4`, u8 = n | as `0xE2`, n bytes of values |
//! | `0xA0` + w, u8 = n | n instructions from here on have been counted already, in word w; with 0, those from here on will be |
//!
//! A *recipe* says what a fault in those bytes must undo: which registers'
//! program values are in spill slots (see [`Recipe`]).

use alloc::vec::Vec;

use isa::{Class, Reg};

use crate::accesses::Bytes;
use crate::streams::Outcomes;

/// Registers whose program values are in the thread block's spill slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe(pub u8);

impl Recipe {
    /// All registers hold the program's values.
    pub const NONE: Recipe = Recipe(0);
    /// rcx and rdx are in slots 1 and 2.
    pub const RCX_RDX: Recipe = Recipe(2);

    /// fs has the program's gs base (`ThreadContext::app_fs` has that of fs), also at the
    /// boundary that these bytes begin with.
    pub const FS: Recipe = Recipe(0x20);

    /// One register, by encoding number, is in slot 3.
    pub const fn other(register: u8) -> Recipe {
        Recipe(0x10 | register)
    }

    /// (register, slot) pairs to restore.
    pub fn spilled(self) -> impl Iterator<Item = (usize, usize)> {
        let fixed: &[_] = match self {
            Recipe::RCX_RDX => &[(1, 1), (2, 2)],
            _ => &[],
        };
        let other = (self.0 & 0x10 != 0).then_some(((self.0 & 0xF) as usize, 3));
        fixed.iter().copied().chain(other)
    }
}

/// Writes a block's map while it is emitted.
#[derive(Debug, Default)]
pub struct Writer {
    pub bytes: Vec<u8>,
    /// Bytes about the accesses of the instruction here.
    pub accessing: Bytes,
}

impl Writer {
    pub fn verbatim(&mut self, len: usize) {
        self.bytes.push(len as u8);
        self.accessed();
    }

    /// The instruction here is over: its accesses were made.
    fn accessed(&mut self) {
        let Bytes { addresses, values } = core::mem::take(&mut self.accessing);
        for (code, bytes) in [(0xE2, addresses), (0xE4, values)] {
            if bytes > 0 {
                self.bytes.extend_from_slice(&[code, bytes]);
            }
        }
    }

    /// All words of accesses are in the stream.
    pub fn accesses_written(&mut self) {
        self.bytes.push(0xE3);
    }

    pub fn piece(&mut self, boundary: bool, recipe: Recipe, len: usize) {
        let mut left = len;
        let mut boundary = boundary;
        while left > 0 {
            let step = left.min(255);
            self.bytes
                .extend_from_slice(&[0x10 | u8::from(boundary), recipe.0, step as u8]);
            boundary = false;
            left -= step;
        }
    }

    /// Code that reads memory to record it, with these registers in the spill slots of
    /// [`Reading`].
    pub fn reading(&mut self, boundary: bool, [first, second]: [Reg; 2], len: usize) {
        let registers = (first as u8) << 4 | second as u8;
        let [low, high] = (len as u16).to_le_bytes();
        let code = 0x12 | u8::from(boundary);
        self.bytes.extend_from_slice(&[code, registers, low, high]);
    }

    pub fn advance(&mut self, len: usize) {
        self.bytes.push(0x80 | len as u8);
        self.accessed();
    }

    pub fn goto(&mut self, distance: i32) {
        self.bytes.push(0x90);
        self.bytes.extend_from_slice(&distance.to_le_bytes());
    }

    /// From here on path `path` was entered and is not on record.
    pub fn entered(&mut self, path: u32, middle: bool) {
        self.bytes.push(0xB0 | u8::from(middle));
        self.bytes.extend_from_slice(&path.to_le_bytes());
    }

    /// A branch had this outcome, which is not in the stream yet.
    pub fn outcome(&mut self, lane: usize, outcome: bool) {
        self.bytes
            .push(0xD0 | (lane as u8) << 1 | u8::from(outcome));
    }

    /// All outcomes are in the stream.
    pub fn outcomes_written(&mut self) {
        self.bytes.push(0xE0);
    }

    /// All instructions before this one are told, and so many from here on.
    pub fn accounted(&mut self, ahead: u8) {
        self.bytes.extend_from_slice(&[0xE1, ahead]);
    }

    /// Sets the class of the next instruction.
    pub fn class(&mut self, class: Class) {
        if class != Class::default() {
            self.bytes.push(0xC0 | class.0);
        }
    }

    /// From here on `instructions` are counted that are not retired yet; each
    /// that retires makes it one less, and below 0 they are still to be counted. Word:
    /// one of the thread's `insns`, that they are counted in or another of its kind.
    pub fn counted(&mut self, instructions: u8, word: u8) {
        self.bytes.extend_from_slice(&[0xA0 + word, instructions]);
    }
}

/// Entry of the map for a cache address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub app_pc: u64,
    /// Registers are the program's and `app_pc` is about to run.
    pub boundary: bool,
    pub recipe: Recipe,
    /// Instructions counted but not yet retired; less than 0: the reverse.
    pub counted_ahead: i64,
    /// Branches, loads and stores counted ahead.
    pub classes_ahead: [i64; 3],
    /// In which of the thread's `insns`.
    pub word: usize,
    /// Instructions of the block before this one.
    pub index: u16,
    /// Fragment that the block is translated from (`edge_counters`); 0: that is not known.
    pub fragment: u32,
    /// Basic blocks that were entered and are not on record (`contexts::blocks`).
    pub path: u32,
    /// In the middle of a basic block.
    pub middle: bool,
    /// Outcomes that are not in the stream yet.
    pub outcomes: Outcomes,
    /// Instructions that were executed and are not told; less than 0: the reverse.
    pub unaccounted: i64,
    /// Bytes about accesses that are stored and not in the stream yet.
    pub accesses: Bytes,
    /// The code here reads memory to record it.
    pub reading: Option<Reading>,
}

/// Code that reads memory to record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Registers whose program values are in spill slots 3 and 1.
    registers: u8,
    /// Bytes from here to behind it.
    pub left: u16,
}

impl Reading {
    /// (register, slot) pairs to restore.
    pub fn spilled(self) -> [(usize, usize); 2] {
        [(self.registers >> 4, 3), (self.registers & 15, 1)]
            .map(|(register, slot)| (register.into(), slot))
    }
}

impl Place {
    /// A boundary: `app_pc` is about to run, and everything before it is counted.
    pub fn boundary(app_pc: u64) -> Place {
        Place {
            app_pc,
            boundary: true,
            recipe: Recipe::NONE,
            counted_ahead: 0,
            classes_ahead: [0; 3],
            word: 0,
            index: 0,
            fragment: 0,
            path: 0,
            middle: false,
            outcomes: Outcomes::NONE,
            unaccounted: 0,
            accesses: Bytes::default(),
            reading: None,
        }
    }
}

/// Looks up `offset` bytes into the code of a block that begins at `pc`.
pub fn find(map: &[u8], pc: u64, offset: u64) -> Option<Place> {
    let place = walk(map, pc, offset)?;
    Some(Place {
        classes_ahead: classes(map, i64::from(place.index), place.counted_ahead),
        ..place
    })
}

/// How many of the `ahead` instructions from the one with that index on are of each
/// class; if that is less than 0, of those before it, as numbers less than 0.
fn classes(map: &[u8], index: i64, ahead: i64) -> [i64; 3] {
    let (from, to, one) = match ahead {
        0.. => (index, index + ahead, 1),
        _ => (index + ahead, index, -1),
    };
    let mut sums = [0; 3];
    let (mut at, mut class) = (0, Class::default());
    let mut rest = map;
    while let [code, tail @ ..] = rest {
        let (skip, ends) = match *code {
            1..=15 | 0x81..=0x8F => (0, true),
            0x10 | 0x11 => (2, false),
            0x12 | 0x13 => (3, false),
            0x90 | 0xB0 | 0xB1 => (4, false),
            0xA0..=0xA7 | 0xE1 | 0xE2 | 0xE4 => (1, false),
            0xD0..=0xE0 | 0xE3 => (0, false),
            code => {
                class = Class(code & 7);
                (0, false)
            }
        };
        if ends {
            if (from..to).contains(&at) {
                for (sum, amount) in sums.iter_mut().zip(class.amounts()) {
                    *sum += one * i64::from(amount);
                }
            }
            (at, class) = (at + 1, Class::default());
        }
        rest = tail.get(skip..).unwrap_or_default();
    }
    sums
}

// Long function: one row per code of the map.
fn walk(map: &[u8], pc: u64, offset: u64) -> Option<Place> {
    let (mut host, mut app, mut ahead, mut word) = (0u64, pc, None::<i64>, 0);
    let (mut index, mut path, mut middle) = (0, 0, false);
    let (mut outcomes, mut accounted, mut accesses) = (Outcomes::NONE, 0, Bytes::default());
    let mut rest = map;
    while let [code, tail @ ..] = rest {
        match *code {
            n @ 1..=15 => {
                if offset == host {
                    return Some(Place {
                        counted_ahead: ahead.unwrap_or(0),
                        word,
                        index,
                        path,
                        middle,
                        outcomes,
                        unaccounted: i64::from(index) - accounted,
                        accesses,
                        ..Place::boundary(app)
                    });
                }
                host += u64::from(n);
                app += u64::from(n);
                ahead = ahead.map(|ahead| ahead - 1);
                index += 1;
                rest = tail;
            }
            0x10..=0x13 => {
                let (recipe, len, behind) = match (*code, tail) {
                    (0x10 | 0x11, [recipe, len, tail @ ..]) => (*recipe, u16::from(*len), tail),
                    (_, [registers, low, high, tail @ ..]) => {
                        (*registers, u16::from_le_bytes([*low, *high]), tail)
                    }
                    _ => return None,
                };
                let end = host + u64::from(len);
                if host <= offset && offset < end {
                    let boundary = *code & 1 != 0 && offset == host;
                    let reading = Reading {
                        registers: recipe,
                        left: (end - offset) as u16,
                    };
                    let reads = *code >= 0x12;
                    return Some(Place {
                        boundary,
                        recipe: if reads { Recipe::NONE } else { Recipe(recipe) },
                        reading: reads.then_some(reading),
                        counted_ahead: ahead.unwrap_or(0),
                        word,
                        index,
                        path,
                        middle,
                        outcomes,
                        unaccounted: i64::from(index) - accounted,
                        accesses,
                        ..Place::boundary(app)
                    });
                }
                host = end;
                rest = behind;
            }
            n @ 0x81..=0x8F => {
                app += u64::from(n & 15);
                ahead = ahead.map(|ahead| ahead - 1);
                index += 1;
                rest = tail;
            }
            0x90 => {
                let (distance, tail) = tail.split_first_chunk::<4>()?;
                app = pc.wrapping_add(i64::from(i32::from_le_bytes(*distance)) as u64);
                rest = tail;
            }
            0xB0 | 0xB1 => {
                let (bytes, tail) = tail.split_first_chunk::<4>()?;
                (path, middle) = (u32::from_le_bytes(*bytes), *code == 0xB1);
                rest = tail;
            }
            0xC0..=0xC7 => rest = tail,
            0xD0..=0xDF => {
                outcomes = outcomes.and(usize::from(*code >> 1 & 7), *code & 1 != 0);
                rest = tail;
            }
            0xE0 => {
                outcomes = Outcomes::NONE;
                rest = tail;
            }
            0xE1 => {
                let [n, tail @ ..] = tail else { return None };
                accounted = i64::from(index) + i64::from(*n);
                rest = tail;
            }
            0xE2 => {
                let [n, tail @ ..] = tail else { return None };
                accesses.addresses += n;
                rest = tail;
            }
            0xE3 => {
                accesses = Bytes::default();
                rest = tail;
            }
            0xE4 => {
                let [n, tail @ ..] = tail else { return None };
                accesses.values += n;
                rest = tail;
            }
            0xA0..=0xA7 => {
                let [n, tail @ ..] = tail else { return None };
                word = usize::from(*code - 0xA0);
                ahead = Some(i64::from(*n));
                rest = tail;
            }
            _ => return None,
        }
        if host > offset {
            return None;
        }
    }
    None
}
