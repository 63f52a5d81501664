//! Probes: what is to be inserted into a program, as data, and the code for it.
//!
//! Problem: inserted code may change nothing that the program reads, and is best if it is one instruction. Tools should say what they
//! want, and not how: neither bytes nor registers.
//!
//! Approach: an [`Op`] says what is done, a [`Site`] what is live there and where registers may be kept. [`lower`] is the one place
//! that makes code of them, through the assembler of `isa`; [`size`] does the same and counts bytes. Addresses are [`Symbol`]s that
//! whoever places the code knows. [`entry_stub`] is the code in front of an entry.
//!
//! | op | flags | code |
//! |---|---|---|
//! | [`Op::Add`] | dead | `incq`, `decq`, or `addq $n, %gs:D` |
//! | [`Op::Set`] | any | `movb $1, %gs:D` |
//! | [`Op::Bump`] | dead | `incb %gs:D` |
//! | [`Op::Append`] | dead | `mov %gs:C, %s; movb item, %gs:E(%s); incq %gs:C; js` over the way to a routine |
//! | … of more than a byte | dead | `mov $n, %s; xadd %s, %gs:C; mov item, %gs:E(%s); js` over it |
//! | [`Op::Here`] | any | `movabs $n << 32, %s; mov %esp, %t; lea (%s, %t), %s; mov %s, %gs:D`, or, without registers, `mov %esp, %gs:D; movl $n, %gs:D+4` |
//! | [`Op::Tell`] | dead | as [`Op::Call`], with facts behind it |
//! | [`Op::Look`] | any | the same |
//! | [`Op::Again`] | any | `cmpb $0, %gs:B; je` over `incq %gs:D` and a jump, to the code of [`Op::Look`] |
//! | [`Op::Expect`] | any | `mov %gs:I, %s; imul %gs:S, %s; add %gs:D, %s`, the parts of the address added; `jne` over `incq %gs:C` and a jump, to a comparison, `incq %gs:D` and a jump, or the code of [`Op::Look`] |
//! | [`Op::Put`] | dead | moves to the record above the top; where there is no room, or the kernel may have come, as [`Op::Tell`] |
//! | [`Op::Count`] | dead | compares the context with that of the last time; if it is another one, as [`Op::Tell`] |
//! | [`Op::Unwind`] | dead | `mov %gs:T, %s`; `cmp %rsp, %gs:L(%s); jae` over `mov %gs:B(%s), %s` and a jump back; `mov %s, %gs:T; mov %gs:V(%s), %s; mov %s, %gs:D` |
//! | [`Op::Let`] | any | `mov $n, %r` |
//! | [`Op::Sum`] | any | `lea n(%r), %r` |
//! | [`Op::Guard`] | dead | a comparison, and a jump over the way elsewhere |
//! | [`Op::Tally`] | dead | `mov value, %r11` if it is in memory; `cmpq %gs:T, value; je` over the way to a routine and what it needs to know; `incq %gs:T+8` |
//! | [`Op::Jump`] | any | `jmp` |
//! | [`Op::Call`] | any | `lea behind(%rip), %r11; jmp` |
//! | what needs flags that are live | live | `lahf; seto %al;` that `; addb $127, %al; sahf` |
//!
//! Registers that are used are dead ones; or they are kept in a dead one, or where the site says ([`Spill`]), and given back.
//! Neighbours share what is kept: two counters behind one another save flags once.
//!
//! Each counter and each cursor is changed by one instruction, so a handler of a signal that comes in between, and counts or appends
//! as well, loses nothing. No code moves the stack pointer: unwind tables hold in it.
//!
//! Invariant: code of a probe changes no register and no flag that is live. [`NoScratch`]: there is no such code.
//!
//! Source: Intel SDM volume 2, `INC`, `LAHF`, `SAHF`, `SETcc`, `ADD`, `CMP`.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

mod lower;
mod stub;

use isa::{Asm, Reg, RegisterSet};

pub use lower::{code, fits, lower, size};
pub use stub::{FRONT, entry_stub, stub_size};

/// A word of 64 bits, by its displacement from `%gs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u32);

/// A byte, by its displacement from `%gs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Byte(pub u32);

/// An address that is known when code is placed; what the numbers mean is the matter of who places it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol(pub u64);

/// A position in a unit of code, as a function; numbers are those of whoever made the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At its entry, for callers.
    Entry,
    /// Before the first instruction of a block.
    Block(u32),
    /// On an edge.
    Edge(u32),
    /// Before the last instruction of a block.
    Last(u32),
    /// Before the instruction that begins so many bytes behind the beginning of a block.
    Inside(u32, u32),
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Add a constant to a word.
    Add { word: Word, amount: i32 },
    /// Set a byte to 1.
    Set { byte: Byte },
    /// Add 1 to a byte.
    Bump { byte: Byte },
    /// Store an item behind those that a lane has, and if it is longer than a byte, behind one that stays free. Neighbours are stored
    /// together, the first one last.
    Append { lane: Lane, item: Item },
    /// Give a register a value; it is dead there, and no code before the value's last use changes it.
    Let { register: Reg, value: u32 },
    /// Add a constant to such a register.
    Sum { register: Reg, amount: i32 },
    /// Go elsewhere if a test holds.
    Guard { test: Test, exit: Exit },
    /// Go to other code, for good: what would be done behind it is left out.
    Jump { to: Symbol },
    /// Go to a routine, which goes on behind it: that address is in `r11`, and all else is as it was.
    Call { routine: Symbol },
    /// Give the upper half of a word a value, and the lower one that of the stack pointer.
    Here { word: Word, value: u32 },
    /// Go to a routine, which goes on behind these facts: their address is in `r11`, all else is as it was, and flags are dead. It keeps
    /// registers from 16 bytes below the stack pointer on.
    Tell { routine: Symbol, facts: [u32; 4] },
    /// Anywhere: go to a routine, which goes on behind these facts: their address is in `r11`, all else is as it was, flags too. It
    /// finds all other registers as the program has them.
    Look { routine: Symbol, facts: [u32; 4] },
    /// Anywhere: add 1 to a word if a byte is not 0, and otherwise as [`Op::Look`].
    Again {
        byte: Byte,
        word: Word,
        routine: Symbol,
        facts: [u32; 4],
    },
    /// Anywhere: count whether the address of a value in memory is as forecast; without a forecast as [`Op::Look`].
    Expect {
        value: Value,
        forecast: Forecast,
        routine: Symbol,
        facts: [u32; 4],
    },
    /// At an entry, to which other code comes: put a record of contexts on top ([`wire::contexts`]), or, if it may be the kernel that
    /// comes, have a routine do it. Facts and registers are those of [`Op::Tell`]. Elsewhere the routine alone is quicker.
    Put { routine: Symbol, facts: [u32; 4] },
    /// At an entry: count the call in its context ([`wire::contexts::Calls`]). Facts and registers are those of [`Op::Tell`]; the third
    /// fact is the displacement from `%gs` of the word that says which context it was last time.
    Count { routine: Symbol, facts: [u32; 4] },
    /// Take off records while the stack pointer is above their level, and give a word the value that the top record has of it then.
    Unwind {
        /// The top record's displacement from `%gs`.
        top: Word,
        record: Offsets,
        word: Word,
    },
    /// Count a value, which is not 0, among those that come here. `r11` and flags are dead.
    Tally {
        value: Value,
        tables: Tables,
        routine: Symbol,
    },
}

/// Offsets in a record: of its level, of the displacement of the record below, and of the value of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    pub level: i32,
    pub below: i32,
    pub value: i32,
}

/// Tables in which a value is counted: pairs of words, one for a value and one for how often it came.
///
/// The first pair of the site's own table is looked at by inserted code, all others by a routine ([`Tallied`]). Values for which
/// they have no room are counted in a table that all sites share, by a value with [`Tallied::NUMBER_AT`] the number of the site;
/// one for which it has no room is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// The site's own, of [`Tallied::PAIRS`].
    pub own: Word,
    /// Number of the site.
    pub number: u32,
    /// The one that sites share, and the logarithm of its pairs; 0: there is none.
    pub shared: Word,
    pub bits: u8,
}

/// A value of 64 bits that an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Register(Reg),
    /// In memory, at base + index * scale + displacement; from the thread pointer on, if it is a thread's.
    Memory {
        is_thread: bool,
        base: Option<Reg>,
        index: Option<(Reg, u8)>,
        displacement: i32,
    },
    /// In memory, at a constant address.
    At(u64),
}

/// Facts for the routine of an [`Op::Tally`], to which `r11` leads: it goes on behind the op.
///
/// | offset | bytes | what |
/// |---:|---:|---|
/// | 0 | 4 | distance from here to where it goes on |
/// | 4 | 4 | the site's table, by its displacement from `%gs` |
/// | 8 | 4 | displacement of the value in memory |
/// | 12 | 1 | number of the register that has the value, or of the base; [`Tallied::NONE`], [`Tallied::HERE`] |
/// | 13 | 1 | number of the index, or [`Tallied::NONE`] |
/// | 14 | 1 | power of two of its scale; [`Tallied::REGISTER`], [`Tallied::THREAD`] |
/// | 15 | 1 | logarithm of the pairs of the table that sites share |
/// | 16 | 4 | that table, by its displacement from `%gs` |
/// | 20 | 4 | number of the site |
#[derive(Clone, Copy, Debug)]
pub struct Tallied;

impl Tallied {
    pub const BYTES: u64 = 24;
    /// Pairs of a site's own table.
    pub const PAIRS: u32 = 4;
    /// The bit from which on a value of the table that sites share has the number of the site.
    pub const NUMBER_AT: u32 = 47;
    /// There is no such register.
    pub const NONE: u8 = 0xff;
    /// The displacement is one from these facts.
    pub const HERE: u8 = 0xfe;
    /// The value is in a register.
    pub const REGISTER: u8 = 0x80;
    /// The address is one from the thread pointer on.
    pub const THREAD: u8 = 0x40;
}

/// Words of an address that is forecast: it is as expected if it, `less` and `step` times `number` make 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    pub number: Word,
    pub step: Word,
    pub less: Word,
    /// 0: there is no forecast, and a routine looks at the address.
    pub is_made: Byte,
    /// Counts of addresses that were as expected, and of others.
    pub counts: [Word; 2],
}

/// Memory of a thread that is filled from its beginning to its end.
///
/// Its cursor counts up to 0: what is not negative any more behind an item is the sign that it is full. There is room for more behind
/// its end, as handlers of signals may append before the routine is reached.
///
/// A byte is stored before the cursor is moved, which is twice as quick as to move it first. So a handler that comes in between may not
/// begin with a byte: what is longer leaves one free in front of it, which the byte has then, and behind the handler's bytes one is left
/// that nobody writes. Readers leave out bytes that are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Number of bytes that are free, negative.
    pub cursor: Word,
    /// Displacement of its end from `%gs`.
    pub end: i32,
    /// Makes room: a routine for each register, [`Lane::ROUTINE`] bytes apart by its number, that has the address at which it goes on.
    pub routine: Symbol,
}

impl Lane {
    pub const ROUTINE: u64 = 32;
}

/// Something that is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    Imm8(u8),
    Imm16(u16),
    Imm32(u32),
    /// All 64 bits of a register.
    Register(Reg),
    /// The lowest 8 bits of a register.
    Low(Reg),
    /// The lowest 16 and 32 bits of a register.
    Low16(Reg),
    Low32(Reg),
}

impl Item {
    pub const fn size(self) -> i32 {
        match self {
            Item::Imm8(_) | Item::Low(_) => 1,
            Item::Imm16(_) | Item::Low16(_) => 2,
            Item::Imm32(_) | Item::Low32(_) => 4,
            Item::Register(_) => 8,
        }
    }

    /// The register of which it is, if it is of one.
    pub const fn register(self) -> Option<Reg> {
        match self {
            Item::Register(register)
            | Item::Low(register)
            | Item::Low16(register)
            | Item::Low32(register) => Some(register),
            Item::Imm8(_) | Item::Imm16(_) | Item::Imm32(_) => None,
        }
    }
}

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The 32 bits at an address are 0.
    IsZero(Symbol),
    /// A byte of the thread is not 0.
    IsSet(Byte),
    /// A byte of the thread is below a number.
    IsBelow(Byte, u8),
    /// The first word at `%gs` is not the thread pointer: the memory there is another thread's, or nobody's.
    IsOtherThread,
}

/// The way that a guard leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// To a routine that goes on behind the guard: its address is in `r11`, and all else is as it was.
    Routine(Symbol),
    /// To other code, for good.
    To(Symbol),
}

/// A place where ops are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Registers and flags that are read behind it.
    pub live: RegisterSet,
    pub spill: Spill,
}

/// Memory in which registers may be kept that are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spill {
    Never,
    /// In two words of the thread that nothing else uses, also no handler of a signal.
    Words([Word; 2]),
    /// Below the stack pointer: nothing is there, as at the entry of a function, and handlers of signals leave 128 bytes alone.
    RedZone,
}

/// Nothing that may be used is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoScratch;

/// A place for code.
pub trait Sink<'a> {
    fn asm(&mut self) -> &mut Asm<'a>;
    fn address(&self, symbol: Symbol) -> u64;
}

/// Code that is placed where the assembler stands.
#[derive(Debug)]
pub struct Placed<'a, F> {
    pub asm: Asm<'a>,
    /// Addresses of symbols.
    pub address: F,
}

impl<'a, F: Fn(Symbol) -> u64> Sink<'a> for Placed<'a, F> {
    fn asm(&mut self) -> &mut Asm<'a> {
        &mut self.asm
    }

    fn address(&self, symbol: Symbol) -> u64 {
        (self.address)(symbol)
    }
}
