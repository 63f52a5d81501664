//! The plan of an edited file whose programs write witnesses (`wire::witness`): graphs of its functions, and where tokens come.
//!
//! With it, and the original file, a reader follows a stream: it knows at each moment which block is executed next, or which token says so.
//! On disk it is a list of numbers, as that of [`crate::plan`].
//!
//! Invariants: [`File::decode`] takes any bytes, and its memory is in proportion to theirs; numbers of blocks are within their function.

use crate::plan::{Reader, Uncounted, put, put_text, unzigzag, zigzag};

const MAGIC: [u8; 8] = *b"EVPTRAC1";

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
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub entry: u64,
    /// Blocks at which others enter it, that of the entry among them, and the numbers of these entries.
    pub entries: Vec<(u32, u32)>,
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
    /// By entry.
    pub functions: Vec<Function>,
    pub uncounted: Uncounted,
}

const STOPS: u64 = 1;
const TELLS: u64 = 2;
const OUT: u64 = 4;

impl Block {
    fn encode(&self, before: u64, out: &mut Vec<u8>) {
        put(out, zigzag(self.start.wrapping_sub(before)));
        put(out, self.len.into());
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        let flags = bit(self.stops, STOPS) | bit(self.tells, TELLS) | bit(self.is_out, OUT);
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
        let some_block = |reader: &mut Reader<'_>| match reader.number()?.checked_sub(1) {
            Some(number) => Some(Some(block(number)?)),
            None => Some(None),
        };
        let target = |reader: &mut Reader<'_>| Some(reader.number()?.checked_sub(1));
        let end = match reader.number()? {
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
        })
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
        put_text(&mut out, &self.original);
        put(&mut out, self.functions.len() as u64);
        let mut before = 0;
        for function in &self.functions {
            put(&mut out, function.entry.wrapping_sub(before));
            before = function.entry;
            put(&mut out, function.blocks.len() as u64);
            put(&mut out, function.entries.len() as u64);
            for &(block, number) in &function.entries {
                put(&mut out, block.into());
                put(&mut out, number.into());
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
                let number = u32::try_from(reader.number()?).ok()?;
                function.entries.push((block, number));
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
            functions,
            uncounted: Uncounted::decode(&mut reader)?,
        })
    }
}
