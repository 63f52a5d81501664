//! File and line of code, from DWARF line programs alone.
//!
//! Problem: a report names a few hundred functions, and a debug file holds
//! megabytes of compressed types and variables that say nothing about lines.
//! A reader that goes from address to compilation unit to line program needs
//! them all: 70 ms for the C library, most of the time of a short run.
//!
//! Approach: only `.debug_line` and its strings are read, and of thousands of
//! line programs only those run that have an answer. Every sequence of a
//! program (DWARF 5, section 6.2.2) begins by setting its address:
//!
//! ```text
//!   00 09 02 [8 bytes]    DW_LNE_set_address, with its length before it
//! ```
//!
//! Searching the section for these three bytes finds all sequences, and a few
//! accidents. A question goes to the program of the last mark before the
//! address; marks at which that program has no row are accidents and are passed
//! over. A program that was run keeps its rows.
//!
//! Before version 5 a program does not say which folder its unit was compiled
//! in. Only when a relative name of such a program is asked for, the units'
//! roots are read too (`folders.rs`).
//!
//! Limits: where sequences overlap, the one that begins last counts. Split DWARF (`.dwo`) is not followed; names in `.debug_str_offsets`
//! are not looked up, which no compiler uses in line programs.

use std::cell::OnceCell;
use std::fs::File;
use std::path::{Path, PathBuf};

use gimli::{
    AttributeValue, ColumnType, DebugLine, DebugLineOffset, DebugLineStr, DebugStr, EndianSlice,
    IncompleteLineProgram, LineInstruction, LineRow, LittleEndian as LE,
};
use hashbrown::HashMap;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ReadCache, ReadRef};

use crate::addr::{FileOffset, LinkAddr, Segment};
use crate::folders;

pub(crate) type Slice<'d> = EndianSlice<'d, LE>;
type Program<'d> = IncompleteLineProgram<Slice<'d>>;

/// Address that the linker gives sequences of code that it dropped.
const DROPPED: u64 = 0;

/// Marks looked at for one question. Three given bytes stand by accident in one
/// of sixteen million places, and then an address behind them must be near; so
/// many in a row are no accident but an ill-made file.
const ACCIDENTS: usize = 64;

/// All lines of an image's code, for who wants also those that never ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTable {
    pub files: Vec<String>,
    /// In the order of the file, disjoint; code made for no line is in none.
    pub ranges: Vec<LineRange>,
}

/// Code that was made of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    pub start: FileOffset,
    pub end: FileOffset,
    /// Index into [`LineTable::files`].
    pub file: u32,
    pub line: u32,
    /// Tells blocks of one line apart (DWARF 5, 6.2.2); mostly 0.
    pub discriminator: u32,
}

/// Checksum and time of a source file in a line table; DWARF 5 has checksums if the
/// compiler makes them, and times if they are not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStamp {
    pub md5: Option<[u8; 16]>,
    /// Seconds since 1970.
    pub modified: Option<u64>,
}

/// Line tables of one image.
pub(crate) struct Lines {
    sections: Sections,
    /// Sorted by address.
    marks: Vec<Mark>,
    /// By offset of the program.
    rows: HashMap<usize, Rows>,
    /// Folders in which units were compiled, by offset of their program.
    folders: Option<HashMap<usize, String>>,
}

/// Decompressed.
struct Sections {
    line: Vec<u8>,
    line_str: Vec<u8>,
    /// Read when a program refers to it, which those of DWARF 5 hardly do.
    str: OnceCell<Vec<u8>>,
    /// File with the debug sections; `None`: the image itself.
    debug: Option<PathBuf>,
}

/// Bytes that look like the beginning of a sequence.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    addr: u64,
    program: usize,
}

/// Rows of one line program, by address.
#[derive(Default)]
struct Rows {
    version: u16,
    rows: Vec<Row>,
    /// Source files that rows name.
    files: HashMap<u64, String>,
    stamps: HashMap<u64, SourceStamp>,
}

/// From `addr` up to the next row.
struct Row {
    addr: u64,
    /// `None`: a sequence ended here. 0: made by the compiler for no line.
    line: Option<u32>,
    /// 0: not known.
    column: u32,
    file: u64,
    discriminator: u32,
}

impl Rows {
    /// The row that holds for `addr`.
    fn at(&self, addr: u64) -> Option<&Row> {
        let after = self.rows.partition_point(|row| row.addr <= addr);
        let row = &self.rows[after.checked_sub(1)?];
        row.line.is_some().then_some(row)
    }
}

impl Lines {
    /// Whether they are in the image, and not in a debug file.
    pub(crate) fn are_own(&self) -> bool {
        self.sections.debug.is_none()
    }

    /// From the image itself, else from its debug file.
    pub(crate) fn load(image: &[u8], debug: Option<&Path>) -> Option<Lines> {
        if let Some(lines) = Lines::read(image, None) {
            return Some(lines);
        }
        let debug = debug?;
        Lines::read(&ReadCache::new(File::open(debug).ok()?), Some(debug))
    }

    fn read<'d, R: ReadRef<'d>>(data: R, debug: Option<&Path>) -> Option<Lines> {
        let file: ElfFile64<'d, object::LittleEndian, R> = ElfFile64::parse(data).ok()?;
        file.section_by_name(".debug_line")?;
        let sections = Sections {
            line: section(&file, ".debug_line"),
            line_str: section(&file, ".debug_line_str"),
            str: OnceCell::new(),
            debug: debug.map(Path::to_owned),
        };
        Some(Lines {
            marks: marks(&sections.line),
            sections,
            rows: HashMap::new(),
            folders: None,
        })
    }

    /// `image` is what [`Lines::load`] was given.
    pub(crate) fn find(&mut self, addr: LinkAddr, image: &[u8]) -> (Option<String>, Option<u32>) {
        self.look_up(addr.0, image).unwrap_or((None, None))
    }

    /// File and line of the first row at an address: at a function's entry, compilers make it for the
    /// first line of the function, and others for what was inlined there.
    pub(crate) fn first(&mut self, addr: LinkAddr, image: &[u8]) -> Option<(String, u32)> {
        let program = self.program_at(addr.0, image)?;
        let rows = &self.rows.get(&program)?.rows;
        let row = &rows[rows.partition_point(|row| row.addr < addr.0)];
        let line = row.line.filter(|&line| line != 0 && row.addr == addr.0)?;
        Some((self.file_of(program, row.file, image)?, line))
    }

    /// The column in its line that a byte of code comes from, where the table has it.
    pub(crate) fn column(&mut self, addr: LinkAddr, image: &[u8]) -> Option<u32> {
        let program = self.program_at(addr.0, image)?;
        let column = self.rows.get(&program)?.at(addr.0)?.column;
        (column != 0).then_some(column)
    }

    /// Checksum and time of the source file that a byte of code comes from.
    pub(crate) fn stamp(&mut self, addr: LinkAddr, image: &[u8]) -> SourceStamp {
        let found = self.program_at(addr.0, image).and_then(|program| {
            let rows = self.rows.get(&program)?;
            rows.stamps.get(&rows.at(addr.0)?.file).copied()
        });
        found.unwrap_or_default()
    }

    fn look_up(&mut self, addr: u64, image: &[u8]) -> Option<(Option<String>, Option<u32>)> {
        let program = self.program_at(addr, image)?;
        let row = self.rows.get(&program)?.at(addr)?;
        let (file, line) = (row.file, row.line.filter(|&line| line != 0));
        Some((self.file_of(program, file, image), line))
    }

    /// Name of a file of a program that was run.
    fn file_of(&mut self, program: usize, index: u64, image: &[u8]) -> Option<String> {
        let found = self.rows.get(&program)?;
        let file = found.files.get(&index)?;
        if found.version >= 5 || file.starts_with('/') {
            return Some(file.clone());
        }
        let debug = self.sections.debug.as_deref();
        let folders = self
            .folders
            .get_or_insert_with(|| folders::read(image, debug));
        let folder = folders.get(&program).map_or("", String::as_str);
        Some(join(folder, file))
    }

    /// Runs all programs. Only code of `segments` that is in the file is of interest.
    pub(crate) fn table(&mut self, segments: &[Segment], image: &[u8]) -> LineTable {
        let mut table = LineTable::default();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut program = 0;
        while let Some(length) = length_of(&self.sections.line, program) {
            let made = self.sections.rows(program, image);
            let indices: Vec<u64> = made.files.keys().copied().collect();
            self.rows.insert(program, made);
            let mut files: HashMap<u64, u32> = HashMap::new();
            for index in indices {
                let name = self.file_of(program, index, image).unwrap_or_default();
                let new = numbers.len() as u32;
                files.insert(index, *numbers.entry(name).or_insert(new));
            }
            if let Some(made) = self.rows.remove(&program) {
                add_ranges(&made.rows, &files, segments, &mut table.ranges);
            }
            program = program.saturating_add(length);
        }
        let mut files: Vec<(String, u32)> = numbers.into_iter().collect();
        files.sort_unstable_by_key(|&(_, number)| number);
        table.files = files.into_iter().map(|(name, _)| name).collect();
        make_disjoint(&mut table.ranges);
        table
    }

    /// The program that has a row for `addr`. It was run.
    fn program_at(&mut self, addr: u64, image: &[u8]) -> Option<usize> {
        let Lines {
            sections,
            marks,
            rows,
            ..
        } = self;
        let after = marks.partition_point(|mark| mark.addr <= addr);
        for mark in marks[..after].iter().rev().take(ACCIDENTS) {
            let made = rows
                .entry(mark.program)
                .or_insert_with(|| sections.rows(mark.program, image));
            if made.at(addr).is_some() {
                return Some(mark.program);
            }
            if made.at(mark.addr).is_some_and(|row| row.addr == mark.addr) {
                return None;
            }
        }
        None
    }
}

/// Checksum and time of a program's source file.
fn stamp(header: &gimli::LineProgramHeader<Slice<'_>>, index: u64) -> SourceStamp {
    let Some(file) = header.file(index) else {
        return SourceStamp::default();
    };
    SourceStamp {
        md5: header.file_has_md5().then(|| *file.md5()),
        modified: Some(file.timestamp()).filter(|&time| time != 0),
    }
}

fn add_ranges(
    rows: &[Row],
    files: &HashMap<u64, u32>,
    segments: &[Segment],
    ranges: &mut Vec<LineRange>,
) {
    let place = |addr| {
        let executable = |segment: &&Segment| segment.executable;
        let segment = segments.iter().filter(executable).find(|segment| {
            let into = u64::checked_sub(addr, segment.addr.0);
            into.is_some_and(|into| into < segment.file_size)
        })?;
        Some(segment.offset.0 + (addr - segment.addr.0))
    };
    for pair in rows.windows(2) {
        let (row, len) = (&pair[0], pair[1].addr.saturating_sub(pair[0].addr));
        let (Some(line), Some(&file)) = (row.line.filter(|&line| line != 0), files.get(&row.file))
        else {
            continue;
        };
        let Some(start) = place(row.addr).filter(|_| len > 0) else {
            continue;
        };
        ranges.push(LineRange {
            start: FileOffset(start),
            end: FileOffset(start.saturating_add(len)),
            file,
            line,
            discriminator: row.discriminator,
        });
    }
}

/// Cuts ranges that overlap: the one that begins last counts.
fn make_disjoint(ranges: &mut Vec<LineRange>) {
    ranges.sort_by_key(|range| range.start);
    for at in 1..ranges.len() {
        let next = ranges[at].start;
        let before = &mut ranges[at - 1];
        before.end = before.end.min(next);
    }
    ranges.retain(|range| range.start < range.end);
}

impl Sections {
    fn program(&self, offset: usize) -> Option<Program<'_>> {
        let lines = DebugLine::new(&self.line, LE);
        lines.program(DebugLineOffset(offset), 8, None, None).ok()
    }

    /// Runs a program. Sequences before damage count.
    fn rows(&self, offset: usize, image: &[u8]) -> Rows {
        let mut found = Rows::default();
        let Some(program) = self.program(offset) else {
            return found;
        };
        found.version = program.header().version();
        let header = program.header().clone();
        let (mut sequences, mut rows) = (Vec::new(), Vec::new());
        let (mut row, mut program) = (LineRow::new(&header), program);
        let (mut instructions, mut begins) = (header.instructions(), None);
        while let Ok(Some(instruction)) = instructions.next_instruction(&header) {
            let is_set = matches!(instruction, LineInstruction::SetAddress(_));
            match row.execute(instruction, &mut program) {
                Ok(true) => {}
                Ok(false) => {
                    // An assembler says the address of a function anew, where rows of the one before it may end.
                    if is_set && begins != Some(row.address()) {
                        begins = Some(row.address());
                        while rows
                            .pop_if(|last: &mut Row| last.addr == row.address())
                            .is_some()
                        {}
                    }
                    continue;
                }
                Err(_) => break,
            }
            let line = row.line().map_or(0, |line| line.get() as u32);
            rows.push(Row {
                addr: row.address(),
                line: (!row.end_sequence()).then_some(line),
                column: match row.column() {
                    ColumnType::LeftEdge => 0,
                    ColumnType::Column(column) => column.get() as u32,
                },
                file: row.file_index(),
                discriminator: row.discriminator() as u32,
            });
            if row.end_sequence() {
                sequences.push(std::mem::take(&mut rows));
            }
            row.reset(&header);
        }
        // In order of address as wholes: the end of one may be the beginning of
        // the next. Of several rows for one address the last one counts.
        sequences.retain(|rows| rows[0].addr != DROPPED);
        sequences.sort_by_key(|rows| rows[0].addr);
        found.rows = sequences.into_iter().flatten().collect();
        // Most rows name the file of the one before.
        for same in found.rows.chunk_by(|a, b| a.file == b.file) {
            let file = same[0].file;
            let name = || self.file(&header, file, image);
            found.files.entry(file).or_insert_with(name);
            found.stamps.insert(file, stamp(&header, file));
        }
        found
    }

    fn file(
        &self,
        header: &gimli::LineProgramHeader<Slice<'_>>,
        index: u64,
        image: &[u8],
    ) -> String {
        let Some(file) = header.file(index) else {
            return String::new();
        };
        let text = |value: Option<_>| value.map_or_else(String::new, |at| self.string(at, image));
        // Directory 0 is the unit's; older programs leave it out.
        let own = (header.version() >= 5)
            .then(|| header.directory(0))
            .flatten();
        let folder = (file.directory_index() != 0)
            .then(|| file.directory(header))
            .flatten();
        let name = text(Some(file.path_name()));
        join(&text(own), &join(&text(folder), &name))
    }

    fn string(&self, value: AttributeValue<Slice<'_>>, image: &[u8]) -> String {
        let found = match value {
            AttributeValue::String(text) => Some(text),
            AttributeValue::DebugLineStrRef(at) => {
                DebugLineStr::new(&self.line_str, LE).get_str(at).ok()
            }
            AttributeValue::DebugStrRef(at) => {
                let strings = self.str.get_or_init(|| self.read_strings(image));
                DebugStr::new(strings, LE).get_str(at).ok()
            }
            _ => None,
        };
        found
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    fn read_strings(&self, image: &[u8]) -> Vec<u8> {
        fn read<'d, R: ReadRef<'d>>(data: R) -> Option<Vec<u8>> {
            let file: ElfFile64<'d, object::LittleEndian, R> = ElfFile64::parse(data).ok()?;
            Some(section(&file, ".debug_str"))
        }
        let found = match &self.debug {
            None => read(image),
            Some(path) => File::open(path)
                .ok()
                .and_then(|file| read(&ReadCache::new(file))),
        };
        found.unwrap_or_default()
    }
}

fn marks(line: &[u8]) -> Vec<Mark> {
    const SET_ADDRESS: [u8; 3] = [0, 9, 2];
    let search = memchr::memmem::Finder::new(&SET_ADDRESS);
    let mut found = Vec::new();
    let mut program = 0;
    while let Some(length) = length_of(line, program) {
        let end = program.saturating_add(length).min(line.len());
        let bytes = &line[program..end];
        for at in search.find_iter(bytes) {
            let addr = bytes[at + SET_ADDRESS.len()..].first_chunk();
            let addr = addr.map_or(DROPPED, |bytes| u64::from_le_bytes(*bytes));
            if addr != DROPPED {
                found.push(Mark { addr, program });
            }
        }
        program = end;
    }
    found.sort_unstable();
    found
}

/// Bytes from one program to the next (DWARF 5, 7.4: the initial length).
fn length_of(line: &[u8], offset: usize) -> Option<usize> {
    let word = |at: usize, size| line.get(at..)?.get(..size);
    let short = u32::from_le_bytes(word(offset, 4)?.try_into().ok()?);
    if short != u32::MAX {
        return (short as usize).checked_add(4);
    }
    let long = u64::from_le_bytes(word(offset + 4, 8)?.try_into().ok()?);
    usize::try_from(long).ok()?.checked_add(12)
}

pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() || name.starts_with('/') {
        return name.to_owned();
    }
    format!("{}/{name}", folder.trim_end_matches('/'))
}

/// Decompressed; empty where there is none.
pub(crate) fn section<'d, R: ReadRef<'d>>(
    file: &ElfFile64<'d, object::LittleEndian, R>,
    name: &str,
) -> Vec<u8> {
    let section = file.section_by_name(name);
    let bytes = section.and_then(|section| section.uncompressed_data().ok());
    bytes.unwrap_or_default().into_owned()
}
