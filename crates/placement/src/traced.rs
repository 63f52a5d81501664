//! The plan of an edited file whose programs write witnesses (`wire::witness`): graphs of its functions, and where tokens come.
//!
//! With it, and the original file, a reader follows a stream: it knows at each moment which block is executed next, or which token says so.
//! On disk it is a list of numbers, as that of [`crate::plan`].
//!
//! Invariants: [`File::decode`] takes any bytes, and its memory is in proportion to theirs; numbers of blocks are within their function.

use crate::plan::{Reader, Uncounted, put, put_text, unzigzag, zigzag};

const MAGIC: [u8; 8] = *b"EVPTRAC3";

/// The token with which control comes back from a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// None: the callee's own tokens say when it returns.
    Nothing,
    Site,
    /// It may come back twice.
    Point,
}

/// Continuation of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// One of its ways.
    Ways,
    /// A call: of a function that moved, by its entry, or of other code; the block to which it returns; and its landing pad.
    Call {
        target: Option<u64>,
        back: Back,
        next: Option<u32>,
        pad: Option<u32>,
    },
    /// A return; a token comes before it.
    Return { tells: bool },
    /// Code of another function, which returns to the caller of this one.
    Tail { target: Option<u64> },
    /// The block that a token names.
    Table,
    /// Nothing of this function.
    Nothing,
}

/// The token of a block that says that control came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// None.
    Silent,
    /// By its number among those of the function, or by its address.
    Number(u8),
    Address,
    /// It is a landing pad.
    Pad,
}

/// A value of a register that is in the stream, as nothing says it that is executed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Number of the block's instructions before it.
    pub behind: u32,
    /// Number of the register; the value's low bytes are there, so many.
    pub register: u8,
    pub bytes: u8,
}

impl End {
    /// Reads it; `block` checks numbers of blocks.
    fn decode(reader: &mut Reader<'_>, block: &dyn Fn(u64) -> Option<u32>) -> Option<End> {
        let some_block = |reader: &mut Reader<'_>| match reader.number()?.checked_sub(1) {
            Some(number) => Some(Some(block(number)?)),
            None => Some(None),
        };
        let target = |reader: &mut Reader<'_>| Some(reader.number()?.checked_sub(1));
        Some(match reader.number()? {
            0 => End::Ways,
            1 => End::Call {
                target: target(reader)?,
                back: match reader.number()? {
                    0 => Back::Nothing,
                    1 => Back::Site,
                    2 => Back::Point,
                    _ => return None,
                },
                next: some_block(reader)?,
                pad: some_block(reader)?,
            },
            2 => End::Return { tells: false },
            3 => End::Return { tells: true },
            4 => End::Tail {
                target: target(reader)?,
            },
            5 => End::Table,
            6 => End::Nothing,
            _ => return None,
        })
    }
}

impl Value {
    /// The values of a block, and the registers of its call's results.
    fn decode(reader: &mut Reader<'_>) -> Option<(Vec<Value>, u16)> {
        let results = u16::try_from(reader.number()?).ok()?;
        let mut values = Vec::new();
        for _ in 0..reader.number()? {
            let behind = u32::try_from(reader.number()?).ok()?;
            let &[register, bytes] = reader.take(2)?.first_chunk()?;
            (register < 16 && bytes <= 8).then_some(())?;
            values.push(Value {
                behind,
                register,
                bytes,
            });
        }
        Some((values, results))
    }
}

/// A block, or a way out of the function, which has no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: u64,
    pub len: u32,
    /// Numbers of blocks, and increments.
    pub ways: Vec<(u32, u32)>,
    pub end: End,
    pub arrival: Arrival,
    /// Paths from within it.
    pub paths: u32,
    /// Paths stop before it; they have a token there.
    pub stops: bool,
    pub tells: bool,
    /// A token comes before its last instruction, which may not come back.
    pub is_out: bool,
    /// Values in the stream, in the order of the instructions.
    pub values: Vec<Value>,
    /// Registers, a bit each, whose values are in the stream when its call has come back.
    pub results: u16,
}

/// An entry of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub block: u32,
    pub number: u32,
    /// Registers, a bit each, whose values are in the stream if other code enters there.
    pub registers: u16,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub entry: u64,
    /// Blocks at which others enter it, that of the entry among them.
    pub entries: Vec<Entry>,
    pub blocks: Vec<Block>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path of the original.
    pub original: String,
    /// Its bytes, and a hash of them.
    pub size: u64,
    pub hash: [u8; 16],
    /// Added to link addresses, it makes those of tokens, which differ among files that were edited together.
    pub base: u64,
    /// Values are in the stream, so that all addresses of accesses follow.
    pub has_values: bool,
    /// By entry.
    pub functions: Vec<Function>,
    pub uncounted: Uncounted,
}

const STOPS: u64 = 1;
const TELLS: u64 = 2;
const OUT: u64 = 4;
const VALUES: u64 = 8;

impl Block {
    fn encode(&self, before: u64, out: &mut Vec<u8>) {
        put(out, zigzag(self.start.wrapping_sub(before)));
        put(out, self.len.into());
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        let flags = bit(self.stops, STOPS)
            | bit(self.tells, TELLS)
            | bit(self.is_out, OUT)
            | bit(self.results > 0 || !self.values.is_empty(), VALUES);
        put(out, flags);
        put(out, self.paths.into());
        match self.arrival {
            Arrival::Silent => put(out, 0),
            Arrival::Address => put(out, 1),
            Arrival::Pad => put(out, 2),
            Arrival::Number(number) => put(out, 3 + u64::from(number)),
        }
        put(out, self.ways.len() as u64);
        for &(to, increment) in &self.ways {
            put(out, to.into());
            put(out, increment.into());
        }
        let mut target = |kind: u64, target: Option<u64>| {
            put(out, kind);
            put(out, target.map_or(0, |target| target.wrapping_add(1)));
        };
        match self.end {
            End::Ways => put(out, 0),
            End::Call {
                target: to,
                back,
                next,
                pad,
            } => {
                target(1, to);
                put(out, back as u64);
                for block in [next, pad] {
                    put(out, block.map_or(0, |block| u64::from(block) + 1));
                }
            }
            End::Return { tells } => put(out, if tells { 3 } else { 2 }),
            End::Tail { target: to } => target(4, to),
            End::Table => put(out, 5),
            End::Nothing => put(out, 6),
        }
        if flags & VALUES != 0 {
            put(out, self.results.into());
            put(out, self.values.len() as u64);
            for value in &self.values {
                put(out, value.behind.into());
                out.extend([value.register, value.bytes]);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>, before: u64, blocks: u64) -> Option<Block> {
        let block = |number: u64| {
            let number = u32::try_from(number).ok()?;
            (u64::from(number) < blocks).then_some(number)
        };
        let start = before.wrapping_add(unzigzag(reader.number()?));
        let len = u32::try_from(reader.number()?).ok()?;
        start.checked_add(len.into())?;
        let flags = reader.number()?;
        let paths = u32::try_from(reader.number()?).ok()?;
        let arrival = match reader.number()? {
            0 => Arrival::Silent,
            1 => Arrival::Address,
            2 => Arrival::Pad,
            number => Arrival::Number(u8::try_from(number - 3).ok()?),
        };
        let mut ways = Vec::new();
        for _ in 0..reader.number()? {
            let to = block(reader.number()?)?;
            ways.push((to, u32::try_from(reader.number()?).ok()?));
        }
        let end = End::decode(reader, &block)?;
        let (values, results) = match flags & VALUES {
            0 => (Vec::new(), 0),
            _ => Value::decode(reader)?,
        };
        Some(Block {
            start,
            len,
            ways,
            end,
            arrival,
            paths,
            stops: flags & STOPS != 0,
            tells: flags & TELLS != 0,
            is_out: flags & OUT != 0,
            values,
            results,
        })
    }
}

impl Function {
    /// Has all its addresses be higher by a number.
    pub fn move_by(&mut self, bias: u64) {
        let mut add = |addr: &mut u64| *addr = addr.wrapping_add(bias);
        add(&mut self.entry);
        for block in &mut self.blocks {
            add(&mut block.start);
            if let End::Call { target, .. } | End::Tail { target } = &mut block.end {
                target.iter_mut().for_each(&mut add);
            }
        }
    }
}

impl File {
    /// Whether a section is such a plan.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Its form on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.hash);
        put(&mut out, self.size);
        put(&mut out, self.base);
        put(&mut out, self.has_values.into());
        put_text(&mut out, &self.original);
        put(&mut out, self.functions.len() as u64);
        let mut before = 0;
        for function in &self.functions {
            put(&mut out, function.entry.wrapping_sub(before));
            before = function.entry;
            put(&mut out, function.blocks.len() as u64);
            put(&mut out, function.entries.len() as u64);
            for entry in &function.entries {
                put(&mut out, entry.block.into());
                put(&mut out, entry.number.into());
                put(&mut out, entry.registers.into());
            }
            let mut end = function.entry;
            for block in &function.blocks {
                block.encode(end, &mut out);
                end = block.start.wrapping_add(block.len.into());
            }
        }
        self.uncounted.encode(&mut out);
        out
    }

    /// Reads it; `None`: it is damaged, or something else.
    pub fn decode(bytes: &[u8]) -> Option<File> {
        let mut reader = Reader(bytes.strip_prefix(&MAGIC)?);
        let hash = *reader.take(16)?.first_chunk()?;
        let size = reader.number()?;
        let base = reader.number()?;
        let has_values = reader.number()? != 0;
        let original = reader.text()?;
        let mut functions = Vec::new();
        let mut before = 0u64;
        for _ in 0..reader.number()? {
            before = before.wrapping_add(reader.number()?);
            let mut function = Function {
                entry: before,
                ..Function::default()
            };
            let blocks = reader.number()?;
            for _ in 0..reader.number()? {
                let block = u32::try_from(reader.number()?).ok()?;
                (u64::from(block) < blocks).then_some(())?;
                function.entries.push(Entry {
                    block,
                    number: u32::try_from(reader.number()?).ok()?,
                    registers: u16::try_from(reader.number()?).ok()?,
                });
            }
            let mut end = before;
            for _ in 0..blocks {
                let block = Block::decode(&mut reader, end, blocks)?;
                end = block.start + u64::from(block.len);
                function.blocks.push(block);
            }
            functions.push(function);
        }
        Some(File {
            original,
            size,
            hash,
            base,
            has_values,
            functions,
            uncounted: Uncounted::decode(&mut reader)?,
        })
    }
}
