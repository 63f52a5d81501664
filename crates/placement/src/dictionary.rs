//! The dictionary of programs whose calling contexts are numbers: what a number and records (`wire::contexts`) say is in it, and the
//! program itself needs it not.
//!
//! It has the call graph, from which the numbering follows (crate `encoding`), names of functions, lines of calls, and where new code
//! came from. On disk it is a list of numbers, as the plan of [`crate::plan`], for each file that was edited.
//!
//! Invariants: [`File::decode`] takes any bytes, and its memory is in proportion to theirs; numbers of functions, sites and sources are
//! below those of what they name.

use crate::plan::{Reader, put, put_text, unzigzag, zigzag};

/// The first bytes of a dictionary.
pub const DICTIONARY: [u8; 8] = *b"EVPDICTS";
const MAGIC: [u8; 8] = *b"EVPCALL2";

/// Writes the dictionary of files that were edited together.
pub fn encode(files: &[File]) -> Vec<u8> {
    let mut out = DICTIONARY.to_vec();
    put(&mut out, files.len() as u64);
    for file in files {
        let bytes = file.encode();
        put(&mut out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
    }
    out
}

/// Reads what [`encode`] wrote; `None`: these are other bytes.
pub fn decode(bytes: &[u8]) -> Option<Vec<File>> {
    let mut reader = Reader(bytes.strip_prefix(&DICTIONARY)?);
    let mut files = Vec::new();
    for _ in 0..reader.number()? {
        let len = usize::try_from(reader.number()?).ok()?;
        files.push(File::decode(reader.take(len)?)?);
    }
    reader.0.is_empty().then_some(files)
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub entry: u64,
    /// Entries besides the first one.
    pub others: Vec<u64>,
    /// As the symbol table has it; empty: it has none.
    pub name: String,
    /// It was moved, so its calls are in the numbers.
    pub is_moved: bool,
    /// Functions as which it may go on, and these, too.
    pub tails: Vec<u32>,
    /// Beginnings and bytes of its code.
    pub ranges: Vec<(u64, u64)>,
}

/// Kind of a site that is a trap, behind which old code may go on.
pub const SITE_OF_TRAP: u8 = 3;

/// A call, a jump by which a function goes on as other code, or a trap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Address of the instruction.
    pub at: u64,
    /// Number of the function.
    pub caller: u32,
    /// As in the call graph: 0 closed, 1 shared, 2 open; or [`SITE_OF_TRAP`], which is open.
    pub kind: u8,
    /// Number of its source, and its line; 0: they are not known.
    pub source: u32,
    pub line: u32,
}

/// A function whose calls are logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    pub function: u32,
    /// The word by which it was asked for; empty: one that was goes on as it, by a jump.
    pub word: String,
    /// It could not be moved, so they are not.
    pub is_left: bool,
}

/// Instructions of moved code: where each is, and was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Insn {
    /// Address of what is inserted before it, and its own.
    pub front: u64,
    pub new: u64,
    pub old: u64,
}

/// An edited file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Path of the original, its size, and the hash of its bytes.
    pub original: String,
    /// Name of the edited file, in a folder with its libraries.
    pub name: String,
    pub size: u64,
    pub hash: [u8; 16],
    /// The address of the file's first byte.
    pub start: u64,
    /// Added to addresses, it makes those of records.
    pub base: u64,
    /// Most numbers of a function.
    pub most: u64,
    /// All calls of a function by another add the same, and a call of a function by itself does nothing.
    pub by_function: bool,
    pub functions: Vec<Function>,
    pub sites: Vec<Site>,
    /// Sites, functions that they call, and how often, as it was expected.
    pub edges: Vec<(u32, u32, u64)>,
    /// Paths of source files; the first one has the number 1.
    pub sources: Vec<String>,
    /// Instructions by which functions are left: before them, their record may have been taken off. Sorted.
    pub exits: Vec<u64>,
    /// Instructions before which a function's number is given back: landing pads, and where calls come back twice. Sorted.
    pub restored: Vec<u64>,
    /// Instructions before which what a call added is taken off, as it comes back. Sorted.
    pub returns: Vec<u64>,
    pub logged: Vec<Logged>,
    /// Addresses of all that was added, and instructions in it by their new addresses; the rest is inserted.
    pub added: (u64, u64),
    pub code: Vec<Insn>,
}

impl File {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_text(&mut out, &self.original);
        put_text(&mut out, &self.name);
        put(&mut out, self.size);
        out.extend_from_slice(&self.hash);
        put(&mut out, self.start);
        put(&mut out, self.base);
        put(&mut out, self.most);
        put(&mut out, self.by_function.into());
        self.encode_functions(&mut out);
        put(&mut out, self.sources.len() as u64);
        for source in &self.sources {
            put_text(&mut out, source);
        }
        put(&mut out, self.sites.len() as u64);
        let mut before = 0;
        for site in &self.sites {
            put(&mut out, zigzag(site.at.wrapping_sub(before)));
            before = site.at;
            put(&mut out, site.caller.into());
            out.push(site.kind);
            put(&mut out, site.source.into());
            put(&mut out, site.line.into());
        }
        put(&mut out, self.edges.len() as u64);
        for &(site, callee, weight) in &self.edges {
            put(&mut out, site.into());
            put(&mut out, callee.into());
            put(&mut out, weight);
        }
        for places in [&self.exits, &self.restored, &self.returns] {
            put(&mut out, places.len() as u64);
            before = 0;
            for &place in places {
                put(&mut out, place.wrapping_sub(before));
                before = place;
            }
        }
        put(&mut out, self.logged.len() as u64);
        for logged in &self.logged {
            put(&mut out, logged.function.into());
            put_text(&mut out, &logged.word);
            put(&mut out, logged.is_left.into());
        }
        put(&mut out, self.added.0);
        put(&mut out, self.added.1.wrapping_sub(self.added.0));
        put(&mut out, self.code.len() as u64);
        let mut last = Insn::default();
        for insn in &self.code {
            put(&mut out, zigzag(insn.front.wrapping_sub(last.new)));
            put(&mut out, insn.new.wrapping_sub(insn.front));
            put(&mut out, zigzag(insn.old.wrapping_sub(last.old)));
            last = *insn;
        }
        out
    }

    fn encode_functions(&self, out: &mut Vec<u8>) {
        put(out, self.functions.len() as u64);
        let mut before = 0;
        for function in &self.functions {
            function.encode(before, out);
            before = function.entry;
        }
    }

    /// Reads what [`File::encode`] wrote; `None`: these are other bytes.
    pub fn decode(bytes: &[u8]) -> Option<File> {
        let mut reader = Reader(bytes.strip_prefix(&MAGIC)?);
        let mut file = File {
            original: reader.text()?,
            name: reader.text()?,
            size: reader.number()?,
            hash: *reader.take(16)?.first_chunk()?,
            start: reader.number()?,
            base: reader.number()?,
            most: reader.number()?,
            by_function: reader.number()? != 0,
            ..File::default()
        };
        let below = |number: u64, count: usize| {
            let number = u32::try_from(number).ok()?;
            ((number as usize) < count).then_some(number)
        };
        file.decode_functions(&mut reader)?;
        let (functions, mut before) = (file.functions.len(), 0u64);
        for _ in 0..reader.number()? {
            file.sources.push(reader.text()?);
        }
        for _ in 0..reader.number()? {
            before = before.wrapping_add(unzigzag(reader.number()?));
            file.sites.push(Site {
                at: before,
                caller: below(reader.number()?, functions)?,
                kind: reader.byte().filter(|kind| *kind <= SITE_OF_TRAP)?,
                source: below(reader.number()?, file.sources.len() + 1)?,
                line: u32::try_from(reader.number()?).ok()?,
            });
        }
        for _ in 0..reader.number()? {
            let site = below(reader.number()?, file.sites.len())?;
            let callee = below(reader.number()?, functions)?;
            file.edges.push((site, callee, reader.number()?));
        }
        for places in [&mut file.exits, &mut file.restored, &mut file.returns] {
            before = 0;
            for _ in 0..reader.number()? {
                before = before.wrapping_add(reader.number()?);
                places.push(before);
            }
        }
        for _ in 0..reader.number()? {
            file.logged.push(Logged {
                function: below(reader.number()?, functions)?,
                word: reader.text()?,
                is_left: reader.number()? != 0,
            });
        }
        file.decode_code(&mut reader)?;
        reader.0.is_empty().then_some(file)
    }
}

impl File {
    fn decode_functions(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let functions = usize::try_from(reader.number()?).ok()?;
        // Each has some bytes.
        (functions <= reader.0.len()).then_some(())?;
        let mut before = 0u64;
        for _ in 0..functions {
            let function = Function::decode(reader, before, functions)?;
            before = function.entry;
            self.functions.push(function);
        }
        Some(())
    }

    /// Reads where new code is.
    fn decode_code(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        self.added.0 = reader.number()?;
        self.added.1 = self.added.0.wrapping_add(reader.number()?);
        let mut last = Insn::default();
        for _ in 0..reader.number()? {
            last.front = last.new.wrapping_add(unzigzag(reader.number()?));
            last.new = last.front.wrapping_add(reader.number()?);
            last.old = last.old.wrapping_add(unzigzag(reader.number()?));
            self.code.push(last);
        }
        Some(())
    }
}

impl Function {
    /// Writes it; `before`: the entry of the one before.
    fn encode(&self, before: u64, out: &mut Vec<u8>) {
        put(out, zigzag(self.entry.wrapping_sub(before)));
        put(out, self.others.len() as u64);
        for other in &self.others {
            put(out, zigzag(other.wrapping_sub(self.entry)));
        }
        put_text(out, &self.name);
        put(out, self.is_moved.into());
        put(out, self.tails.len() as u64);
        for tail in &self.tails {
            put(out, (*tail).into());
        }
        put(out, self.ranges.len() as u64);
        for &(start, len) in &self.ranges {
            put(out, zigzag(start.wrapping_sub(self.entry)));
            put(out, len);
        }
    }

    /// Reads one of so many; `before`: the entry of the one before.
    fn decode(reader: &mut Reader<'_>, before: u64, functions: usize) -> Option<Function> {
        let entry = before.wrapping_add(unzigzag(reader.number()?));
        let mut others = Vec::new();
        for _ in 0..reader.number()? {
            others.push(entry.wrapping_add(unzigzag(reader.number()?)));
        }
        let name = reader.text()?;
        let is_moved = reader.number()? != 0;
        let mut tails = Vec::new();
        for _ in 0..reader.number()? {
            let tail = u32::try_from(reader.number()?).ok()?;
            tails.push(Some(tail).filter(|tail| (*tail as usize) < functions)?);
        }
        let mut ranges = Vec::new();
        for _ in 0..reader.number()? {
            let start = entry.wrapping_add(unzigzag(reader.number()?));
            ranges.push((start, reader.number()?));
        }
        Some(Function {
            entry,
            others,
            name,
            is_moved,
            tails,
            ranges,
        })
    }
}
