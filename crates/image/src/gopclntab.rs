//! Functions and lines of Go programs without a symbol table and DWARF (`-ldflags=-s -w`).
//!
//! The runtime needs them to print stacks and to move them, so they are in the program itself: the section
//! `.gopclntab` (Go's `runtime/symtab.go`, types `pcHeader`, `functab`, `_func`; `debug/gosym/pclntab.go` for the
//! versions). Read here: the layouts of Go 1.16, 1.18 and 1.20 and later. Numbers are
//! those of a 64-bit little-endian program.
//!
//! ```text
//! header: magic, word size, counts, offsets of the tables that follow
//! functab: offset of entry from the text's start, offset of the function's record; ...; end of the last one
//! record: entry, name, ..., its tables of files and of lines (steps of value and address, as varints)
//! ```
//!
//! Limits: what was inlined has its own lines, but not its own name.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::addr::{FileOffset, Segment, to_file};
use crate::elf::Elf;
use crate::lines::{LineRange, LineTable};
use object::read::elf::SectionHeader;
use object::{LittleEndian as LE, ReadRef};

/// Magic numbers by version (`debug/gosym/pclntab.go`).
const GO_1_16: u32 = 0xffff_fffa;
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;

/// Names of the section; position-independent programs have the other one.
const SECTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];

/// A function.
pub(crate) struct GoFunction<'a> {
    pub(crate) entry: u64,
    pub(crate) end: u64,
    pub(crate) name: &'a [u8],
    /// Offset of its record in the table.
    record: usize,
}

/// The table of one program.
pub(crate) struct GoTable {
    bytes: Vec<u8>,
    /// Entries are addresses of eight bytes, and not offsets of four.
    wide: bool,
    text: u64,
    functions: usize,
    names: usize,
    units: usize,
    files: usize,
    steps: usize,
    table: usize,
    /// The function that was asked about last: a table of steps is read from its start, and most questions come in order.
    last: Mutex<Option<Places>>,
}

/// Files and lines of a function, by the ends of their steps.
struct Places {
    code: Range<u64>,
    files: Vec<(u64, Option<String>)>,
    lines: Vec<(u64, i64)>,
}

impl Places {
    fn find(&self, addr: u64) -> Option<(String, u32)> {
        let (_, file) = self.files.get(behind(&self.files, addr))?;
        let (_, line) = self.lines.get(behind(&self.lines, addr))?;
        Some((file.clone()?, u32::try_from(*line).ok()?))
    }
}

/// The number of steps that end at `addr` or before.
fn behind<T>(steps: &[(u64, T)], addr: u64) -> usize {
    steps.partition_point(|(end, _)| *end <= addr)
}

impl GoTable {
    pub(crate) fn read<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<GoTable> {
        let section = SECTIONS.iter().find_map(|name| elf.section(name))?;
        let text = elf.section(b".text").map_or(0, |text| text.sh_addr(LE));
        GoTable::of(section.data(LE, elf.data).ok()?, text)
    }

    /// `text` is where the section of code begins, for versions that do not say it.
    fn of(bytes: &[u8], text: u64) -> Option<GoTable> {
        let word = |number: usize| u64_at(bytes, 8 + 8 * number);
        let offset = |number: usize| usize::try_from(word(number)?).ok();
        // Instructions of any length, words of eight bytes.
        if bytes.get(6..8)? != [1, 8] {
            return None;
        }
        let wide = match u32_at(bytes, 0)? {
            GO_1_16 => true,
            GO_1_18 | GO_1_20 => false,
            _ => return None,
        };
        // The older header has no start of the text.
        let first = if wide { 2 } else { 3 };
        let start = if wide { 0 } else { word(2)? };
        Some(GoTable {
            wide,
            text: match (wide, start) {
                (true, _) => 0,
                (false, 0) => text,
                (false, start) => start,
            },
            functions: offset(0)?,
            names: offset(first)?,
            units: offset(first + 1)?,
            files: offset(first + 2)?,
            steps: offset(first + 3)?,
            table: offset(first + 4)?,
            bytes: bytes.to_vec(),
            last: Mutex::new(None),
        })
    }

    /// In the order of their addresses; those before damage.
    pub(crate) fn functions(&self) -> impl Iterator<Item = GoFunction<'_>> {
        (0..self.functions).map_while(|number| self.function(number))
    }

    fn function(&self, number: usize) -> Option<GoFunction<'_>> {
        let entry = self.entry(number)?;
        let record = self
            .table
            .checked_add(self.half(number.checked_mul(2)?.checked_add(1)?)? as usize)?;
        let name = u32_at(
            &self.bytes,
            record.checked_add(if self.wide { 8 } else { 4 })?,
        )?;
        Some(GoFunction {
            entry,
            end: self.entry(number + 1)?,
            name: text_at(&self.bytes, self.names.checked_add(name as usize)?)?,
            record,
        })
    }

    fn entry(&self, number: usize) -> Option<u64> {
        self.text.checked_add(self.half(number.checked_mul(2)?)?)
    }

    /// One half of a pair of the table of functions.
    fn half(&self, number: usize) -> Option<u64> {
        let size = if self.wide { 8 } else { 4 };
        let at = self.table.checked_add(number.checked_mul(size)?)?;
        match self.wide {
            true => u64_at(&self.bytes, at),
            false => u32_at(&self.bytes, at).map(u64::from),
        }
    }

    /// The function that holds an address, by halving.
    fn function_at(&self, addr: u64) -> Option<GoFunction<'_>> {
        let (mut low, mut high) = (0, self.functions);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle)? <= addr {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let found = self.function(low.checked_sub(1)?)?;
        (addr < found.end).then_some(found)
    }

    /// File and line of an address.
    pub(crate) fn find(&self, addr: u64) -> Option<(String, u32)> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.code.contains(&addr)) {
            return last.find(addr);
        }
        let function = self.function_at(addr)?;
        last.insert(self.places(&function)?).find(addr)
    }

    fn places(&self, function: &GoFunction<'_>) -> Option<Places> {
        let steps = |field| {
            let steps = self.steps_of(function, field)?;
            Some(steps.filter(|step| step.start < step.end))
        };
        let file = |value| self.file(function, u32::try_from(value).ok()?);
        let files = steps(FILES)?.map(|step| (step.end, file(step.value)));
        let lines = steps(LINES)?.map(|step| (step.end, step.value));
        Some(Places {
            code: function.entry..function.end,
            files: files.collect(),
            lines: lines.collect(),
        })
    }

    /// All lines of all functions.
    pub(crate) fn table(&self, segments: &[Segment]) -> LineTable {
        let mut table = LineTable::default();
        let mut numbers = std::collections::HashMap::new();
        for function in self.functions() {
            let (Some(lines), Some(files)) = (
                self.steps_of(&function, LINES),
                self.steps_of(&function, FILES),
            ) else {
                continue;
            };
            let files: Vec<Step> = files.collect();
            for line in lines {
                let file = files.iter().find(|file| line.start < file.end);
                let name =
                    file.and_then(|file| self.file(&function, u32::try_from(file.value).ok()?));
                let placed = crate::addr::LinkAddr(line.start);
                let start = to_file(segments, placed);
                let (Some(name), Some(FileOffset(start)), Ok(number)) =
                    (name, start, u32::try_from(line.value))
                else {
                    continue;
                };
                let next = numbers.len() as u32;
                let file = *numbers.entry(name.clone()).or_insert(next);
                if file == next {
                    table.files.push(name);
                }
                table.ranges.push(LineRange {
                    start: FileOffset(start),
                    end: FileOffset(start.saturating_add(line.end - line.start)),
                    file,
                    line: number,
                    discriminator: 0,
                });
            }
        }
        table
            .ranges
            .retain(|range| range.line != 0 && range.start < range.end);
        table.ranges.sort_by_key(|range| range.start);
        table
    }

    /// Name of a file by its number in the function's compilation unit.
    fn file(&self, function: &GoFunction<'_>, number: u32) -> Option<String> {
        let unit = self.field(function, UNIT)?;
        let at = (unit.checked_add(number)? as usize).checked_mul(4)?;
        let file = u32_at(&self.bytes, self.units.checked_add(at)?)?;
        let name = text_at(&self.bytes, self.files.checked_add(file as usize)?)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// A field of a function's record, by its number of words behind the entry.
    fn field(&self, function: &GoFunction<'_>, number: usize) -> Option<u32> {
        let entry = if self.wide { 8 } else { 4 };
        u32_at(
            &self.bytes,
            function.record.checked_add(entry + 4 * number)?,
        )
    }

    fn steps_of(&self, function: &GoFunction<'_>, field: usize) -> Option<Steps<'_>> {
        let at = self
            .steps
            .checked_add(self.field(function, field)? as usize)?;
        Some(Steps {
            rest: self.bytes.get(at..)?,
            at: function.entry,
            end: function.end,
            value: -1,
            is_first: true,
        })
    }
}

/// Fields of `_func` behind its entry.
const FILES: usize = 4;
const LINES: usize = 5;
const UNIT: usize = 7;

/// One value of a table of a function: from an address up to another.
struct Step {
    start: u64,
    end: u64,
    value: i64,
}

/// A table of values by address: differences of values, zigzag, and of addresses, as varints; a difference of 0 ends
/// it, but for the first one.
struct Steps<'a> {
    rest: &'a [u8],
    at: u64,
    end: u64,
    value: i64,
    is_first: bool,
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.at >= self.end {
            return None;
        }
        let difference = varint(&mut self.rest)?;
        if difference == 0 && !std::mem::take(&mut self.is_first) {
            return None;
        }
        self.is_first = false;
        let signed = (difference >> 1) as i64 ^ -((difference & 1) as i64);
        self.value = self.value.checked_add(signed)?;
        let start = self.at;
        self.at = start.checked_add(varint(&mut self.rest)?)?;
        Some(Step {
            start,
            end: self.at.min(self.end),
            value: self.value,
        })
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*found))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*found))
}

fn text_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    Some(&rest[..memchr::memchr(0, rest)?])
}
