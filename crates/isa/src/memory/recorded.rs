//! Words that a trace keeps of each memory operand, and its accesses by them.
//!
//! | operand | words |
//! |---|---|
//! | once, all its registers [known](Known) | none |
//! | once, `[base + d]` with a small d | [`Word::Base`] |
//! | once, anything else | [`Word::Address`] |
//! | another pattern | [`Word::Wide`], which need not be accessed; and behind it: |
//! | of a repeated string | [`Word::Behind`]: the address after the instruction |
//! | with a mask | [`Word::Mask`] |
//! | of a vector of indices | [`Word::Mask`], [`Word::Indices`] |
//! | of a bit string | [`Word::Number`]: which bit |
//! | an area | [`Word::Components`] |
//! | the stack pointer, where it is not known after the instruction | [`Word::Stack`] |
//!
//! Words of 6 bytes are addresses below 2^47, so their highest bit is 0: a word with that bit
//! is a [mark](MARK). Longer ones have what they hold at their end ([`Word::skips`]), so storing
//! it comes to the end of the word.
//!
//! Invariants: recorder and reader ask the same functions, so both know which words there are. Words
//! come in the order of the operands, [`Word::Behind`] after all others.
//!
//! Limits: addresses from 2^47 on, which only programs have that ask for them (5-level paging), are
//! cut. A string instruction that is interrupted in its middle has the steps from there on only.

use alloc::vec::Vec;

use super::known::{Effect, Known};
use super::values::{self, Values};
use super::{Access, Address, Kind, Machine, Mask, Operand, Pattern, Segment};
use crate::{Flow, Insn, Reg};

/// Bit of a word of 6 bytes, which is an address of code then: there, nothing is known any more.
pub const MARK: u64 = 1 << 47;
/// Bytes of most words. Others have a multiple of that, so that whoever compresses them finds
/// like bytes at like places.
pub const SHORT: usize = 6;
/// Bytes of a number of 8 bytes, and of half a vector register and a whole one.
const LONG: usize = 12;
const HALF: usize = 36;
const WHOLE: usize = 66;
/// Most bytes of a vector register.
pub const VECTOR: usize = 64;
/// Most bytes of a word.
pub const LONGEST: usize = WHOLE;

/// A displacement that is smaller than any address that can be accessed, so the base of an address
/// with it is below 2^47, too.
const SMALL: i64 = 4096;

/// Which operands are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    pub loads: bool,
    pub stores: bool,
    /// Addresses that follow from others are not recorded.
    pub elision: bool,
    /// Values that were read and written are recorded, too.
    pub values: bool,
    /// Among them those of elements; traces before version 16 have none.
    pub elements: bool,
}

impl Selection {
    /// The addresses of all accesses, each with words of its own.
    pub const EVERY_ADDRESS: Selection = Selection {
        loads: true,
        stores: true,
        elision: false,
        values: false,
        elements: false,
    };
}

/// One thing that is recorded of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The base register, cut to 6 bytes.
    Base(Reg),
    /// The address, cut to 6 bytes.
    Address(Address),
    /// The address.
    Wide(Address),
    /// The address after the instruction.
    Behind(Address),
    /// Which elements: a bit each, from the lowest on.
    Mask(Mask),
    /// A vector register, and how many bytes of it.
    Indices(u8, usize),
    Number(Reg),
    /// eax, then edx.
    Components,
    /// The stack pointer after the instruction.
    Stack,
}

impl Word {
    /// In bytes.
    pub fn len(self) -> usize {
        match self {
            Word::Base(_) | Word::Address(_) | Word::Stack => SHORT,
            Word::Indices(_, len) if len < VECTOR => HALF,
            Word::Indices(..) => WHOLE,
            _ => LONG,
        }
    }

    pub fn is_empty(self) -> bool {
        false
    }

    /// Bytes before what it holds.
    pub fn skips(self) -> usize {
        match self {
            Word::Base(_) | Word::Address(_) | Word::Stack => 0,
            Word::Indices(_, len) => self.len() - len,
            _ => LONG - size_of::<u64>(),
        }
    }

    /// Recorded after the instruction.
    pub fn is_behind(self) -> bool {
        matches!(self, Word::Behind(_) | Word::Stack)
    }
}

/// All that recording an instruction needs to know of it.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Operands that are recorded.
    pub operands: Vec<Operand>,
    /// Values of each, if they are recorded.
    pub values: Vec<Values>,
    pub effect: Effect,
    /// General registers that it names or uses, a bit each.
    pub uses: u16,
}

impl Recorded {
    pub fn of(insn: &Insn, selection: Selection) -> Recorded {
        let mut operands = insn.memory();
        operands.retain(|operand| {
            let is_wanted = selection.loads && operand.kind.reads()
                || selection.stores && operand.kind.writes();
            is_wanted && operand.pattern != Pattern::Unknown
        });
        // The engine executes them.
        if matches!(insn.flow(), Flow::Far(_)) {
            operands.clear();
        }
        let (effect, uses) = insn.effect();
        let values = match selection.values {
            true => values::of(insn, &operands, &effect, selection),
            false => Vec::new(),
        };
        Recorded {
            operands,
            values,
            effect,
            uses,
        }
    }
}

/// The words of an operand that does not follow from what is known.
fn words(operand: &Operand) -> Vec<Word> {
    let address = operand.address;
    let mut words = Vec::with_capacity(3);
    match operand.pattern {
        Pattern::Once => {
            words.push(match (address.base, plain_displacement(&address)) {
                (Some(base), Some(_)) => Word::Base(base),
                _ => Word::Address(address),
            });
            return words;
        }
        Pattern::Unknown => return words,
        _ => words.push(Word::Wide(address)),
    }
    match operand.pattern {
        Pattern::Repeated => words.push(Word::Behind(address)),
        Pattern::Elements(mask, _) | Pattern::Packed(mask, _) | Pattern::IfAny(mask, _) => {
            words.push(Word::Mask(mask));
        }
        Pattern::Vector(vector) => {
            words.push(Word::Mask(vector.mask));
            let len = usize::from(vector.elements) * usize::from(vector.index_size);
            let is_short = vector.register < 16 && len <= VECTOR / 2;
            let len = if is_short { VECTOR / 2 } else { VECTOR };
            words.push(Word::Indices(vector.register, len));
        }
        Pattern::BitString(register) => words.push(Word::Number(register)),
        Pattern::Area => words.push(Word::Components),
        Pattern::Once | Pattern::Unknown => {}
    }
    words
}

/// The displacement of `[base + d]`, if it is small.
fn plain_displacement(address: &Address) -> Option<u64> {
    let is_plain = address.index.is_none() && address.segment.is_none() && !address.is_32_bit;
    let is_small = (address.displacement as i64).unsigned_abs() < SMALL as u64;
    (is_plain && is_small && address.base.is_some()).then_some(address.displacement)
}

impl Known {
    /// The words of the operand; none: its address follows.
    pub fn words(&self, operand: &Operand, selection: Selection) -> Vec<Word> {
        let follows = selection.elision
            && matches!(operand.pattern, Pattern::Once)
            && self.address(&operand.address).is_some();
        match follows {
            true => Vec::new(),
            false => words(operand),
        }
    }

    /// The instruction was executed. Whether [`Word::Stack`] is its last word.
    #[inline]
    pub fn executed(&mut self, recorded: &Recorded, selection: Selection) -> bool {
        self.apply(&recorded.effect);
        let tells = selection.elision && self.lacks_stack();
        self.set_stack_known();
        tells
    }

    /// The operand's words were recorded: for a reader, with that address.
    pub fn recorded(&mut self, operand: &Operand, selection: Selection, address: u64) {
        if selection.elision && matches!(operand.pattern, Pattern::Once) {
            self.learn(&operand.address, address);
        }
    }
}

/// Values of the words of an operand.
#[derive(Clone, Debug)]
pub struct Read {
    pub address: u64,
    behind: u64,
    mask: u64,
    number: u64,
    indices: [u8; VECTOR],
}

impl Default for Read {
    fn default() -> Read {
        Read {
            address: 0,
            behind: 0,
            mask: 0,
            number: 0,
            indices: [0; VECTOR],
        }
    }
}

impl Read {
    /// The bytes of a word that was recorded of `operand`.
    pub fn take(&mut self, operand: &Operand, word: Word, bytes: &[u8]) {
        let bytes = bytes.get(word.skips()..).unwrap_or_default();
        let mut number = [0; 8];
        let len = bytes.len().min(number.len());
        number[..len].copy_from_slice(&bytes[..len]);
        let number = u64::from_le_bytes(number);
        match word {
            Word::Base(_) | Word::Address(_) => self.address = operand.short_word(number),
            Word::Wide(_) => self.address = number,
            Word::Behind(_) => self.behind = number,
            Word::Mask(_) => self.mask = number,
            Word::Number(_) | Word::Components => self.number = number,
            Word::Stack => {}
            Word::Indices(..) => {
                let len = bytes.len().min(VECTOR);
                self.indices[..len].copy_from_slice(&bytes[..len]);
            }
        }
    }

    /// Bits of the elements that are accessed, in their order.
    pub fn elements(&self) -> u64 {
        self.mask
    }

    /// First access of a repeated string instruction, how many there are, and whether they go
    /// backwards.
    pub fn repeated(&self, operand: &Operand) -> Option<(Access, u64, bool)> {
        let distance = self.behind.wrapping_sub(self.address).cast_signed();
        let steps = distance.unsigned_abs() / u64::from(operand.size.max(1));
        let access = Access {
            address: self.address,
            size: operand.size.into(),
            kind: operand.kind,
        };
        (steps > 0).then_some((access, steps, distance < 0))
    }

    /// Calls `each` with every access of the operand, which is not repeated. `area` gives the size of an area with these
    /// components.
    pub fn each(&self, operand: &Operand, area: impl Fn(u64) -> u32, each: impl FnMut(Access)) {
        let known = Operand {
            address: Address {
                segment: None,
                base: None,
                index: None,
                displacement: self.address,
                is_32_bit: false,
            },
            pattern: by_bits(operand.pattern),
            ..*operand
        };
        let machine = Words {
            read: self,
            area: area(self.number),
        };
        // Unknown patterns are not recorded.
        let _ = known.each(&machine, each);
    }
}

impl Operand {
    /// The address, by the only word of an operand with [`Pattern::Once`].
    pub fn short_word(&self, word: u64) -> u64 {
        match plain_displacement(&self.address) {
            Some(displacement) => word.wrapping_add(displacement) & (MARK << 1).wrapping_sub(1),
            None => word,
        }
    }
}

/// The pattern with its mask as bits.
fn by_bits(pattern: Pattern) -> Pattern {
    let bits = Mask::Opmask(0);
    match pattern {
        Pattern::Elements(_, count) => Pattern::Elements(bits, count),
        Pattern::Packed(_, count) => Pattern::Packed(bits, count),
        Pattern::IfAny(_, count) => Pattern::IfAny(bits, count),
        Pattern::Vector(vector) => Pattern::Vector(super::Vector {
            mask: bits,
            ..vector
        }),
        other => other,
    }
}

/// Recorded words as a machine: what a pattern asks for.
struct Words<'a> {
    read: &'a Read,
    area: u32,
}

impl Machine for Words<'_> {
    fn register(&self, _: Reg) -> u64 {
        self.read.number
    }

    fn base(&self, _: Segment) -> u64 {
        0
    }

    fn is_backwards(&self) -> bool {
        false
    }

    fn steps(&self) -> u64 {
        0
    }

    fn vector(&self, _: u8) -> [u8; 64] {
        self.read.indices
    }

    fn opmask(&self, _: u8) -> u64 {
        self.read.mask
    }

    fn mmx(&self, _: u8) -> u64 {
        0
    }

    fn area(&self) -> u32 {
        self.area
    }
}

/// Whether control that leaves an instruction with this flow behind it can have got there without
/// a branch. Elsewhere nothing is known.
pub fn falls_through(flow: Flow, is_taken: bool) -> bool {
    match flow {
        Flow::Next => true,
        Flow::Cond(..) | Flow::CountJump(_) => !is_taken,
        _ => false,
    }
}

/// Whether an operand reads or writes, as a letter for each.
pub fn letters(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "R",
        Kind::Update => "RW",
        Kind::Write => "W",
    }
}
