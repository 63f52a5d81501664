//! `.debug_line`: programs that make the old rows at the new addresses.
//!
//! A sequence of the output is the code of one part of a function, or old code that stays. Rows of code that moved are not
//! made at their old addresses.

use std::collections::HashMap;

use gimli::{ColumnType, DebugLine, DebugLineOffset, Format, LineRow, LittleEndian};
use image::LinkAddr;

use super::{Moves, sleb, uleb};
use crate::address::New;
use crate::versions::Version;

/// Opcodes (DWARF 5, 6.2.5.2 and 6.2.5.3).
const COPY: u8 = 1;
const ADVANCE_PC: u8 = 2;
const ADVANCE_LINE: u8 = 3;
const SET_FILE: u8 = 4;
const SET_COLUMN: u8 = 5;
const NEGATE_STATEMENT: u8 = 6;
const SET_BASIC_BLOCK: u8 = 7;
const SET_PROLOGUE_END: u8 = 10;
const SET_EPILOGUE_BEGIN: u8 = 11;
const SET_ISA: u8 = 12;
const END_SEQUENCE: u8 = 1;
const SET_ADDRESS: u8 = 2;
const SET_DISCRIMINATOR: u8 = 4;

/// The new section, and where programs of the old one are in it.
pub struct Lines {
    pub bytes: Vec<u8>,
    pub offsets: HashMap<usize, usize>,
}

/// Writes all programs anew; `None`: one is not understood.
pub fn write(section: &[u8], moves: &Moves<'_>) -> Option<Lines> {
    let all = DebugLine::new(section, LittleEndian);
    let mut lines = Lines {
        bytes: Vec::new(),
        offsets: HashMap::new(),
    };
    let mut at = 0;
    while at < section.len() {
        let program = all.program(DebugLineOffset(at), 8, None, None).ok()?;
        let header = program.header();
        let size = 4 + header.unit_length();
        let is_known = header.format() == Format::Dwarf32
            && header.minimum_instruction_length() == 1
            && header.maximum_operations_per_instruction() == 1
            && header.line_range() > 0
            && header.opcode_base() > SET_BASIC_BLOCK;
        if !is_known || header.address_size() != 8 {
            return None;
        }
        let code = header.raw_program_buf();
        let head = size.checked_sub(code.len())?;
        let start = lines.bytes.len();
        lines.offsets.insert(at, start);
        lines.bytes.extend_from_slice(section.get(at..at + head)?);
        let mut writer = Writer {
            base: header.line_base().into(),
            range: header.line_range().into(),
            opcode_base: header.opcode_base(),
            is_statement: header.default_is_stmt(),
            now: Row::first(header.default_is_stmt()),
            address: New(0),
            out: &mut lines.bytes,
        };
        let mut rows = program.rows();
        let mut sequence: Vec<(LinkAddr, Row)> = Vec::new();
        while let Some((_, row)) = rows.next_row().ok()? {
            let is_end = row.end_sequence();
            sequence.push((LinkAddr(row.address()), Row::of(row)));
            if is_end {
                for version in moves.versions() {
                    writer.sequence(&sequence, moves, version)?;
                }
                sequence.clear();
            }
        }
        let length = (lines.bytes.len() - start - 4) as u32;
        lines.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        at += size;
    }
    Some(lines)
}

/// A row of the table, or the registers of the machine that makes it.
#[derive(Clone, Copy)]
struct Row {
    file: u64,
    line: u64,
    column: u64,
    is_statement: bool,
    is_block: bool,
    is_prologue_end: bool,
    is_epilogue_begin: bool,
    isa: u64,
    discriminator: u64,
}

impl Row {
    fn first(is_statement: bool) -> Row {
        Row {
            file: 1,
            line: 1,
            column: 0,
            is_statement,
            is_block: false,
            is_prologue_end: false,
            is_epilogue_begin: false,
            isa: 0,
            discriminator: 0,
        }
    }

    fn of(row: &LineRow) -> Row {
        Row {
            file: row.file_index(),
            line: row.line().map_or(0, u64::from),
            column: match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => column.into(),
            },
            is_statement: row.is_stmt(),
            is_block: row.basic_block(),
            is_prologue_end: row.prologue_end(),
            is_epilogue_begin: row.epilogue_begin(),
            isa: row.isa(),
            discriminator: row.discriminator(),
        }
    }
}

struct Writer<'o> {
    base: i64,
    range: i64,
    opcode_base: u8,
    /// The value at the beginning of a sequence.
    is_statement: bool,
    now: Row,
    address: New,
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    /// Writes a sequence, whose last row is its end, as one for each part that its code is in now in a version. Code that stays is
    /// that of the first.
    fn sequence(
        &mut self,
        rows: &[(LinkAddr, Row)],
        moves: &Moves<'_>,
        version: Version,
    ) -> Option<()> {
        let mut open: Option<Option<usize>> = None;
        for (number, &(old, row)) in rows.iter().enumerate() {
            let is_end = number + 1 == rows.len();
            let part = moves.part(old);
            let part = part.filter(|part| moves.has(*part, version));
            let stays = || version == Version::FIRST && moves.stays(old);
            let is_code = part.is_some() || stays();
            let in_part = |part: Option<usize>| match part {
                Some(part) => moves.within(part, version, old),
                None => Some(New::of_old(old)),
            };
            if let Some(group) = open.filter(|group| is_end || !is_code || *group != part) {
                self.end(in_part(group)?);
                open = None;
            }
            if is_end || !is_code {
                continue;
            }
            let address = in_part(part)?;
            if open.is_none() {
                self.begin(address);
                open = Some(part);
            }
            self.row(address, row);
        }
        Some(())
    }

    fn begin(&mut self, address: New) {
        self.now = Row::first(self.is_statement);
        self.address = address;
        self.out.extend_from_slice(&[0, 9, SET_ADDRESS]);
        self.out.extend_from_slice(&address.0.to_le_bytes());
    }

    fn end(&mut self, address: New) {
        self.advance(address);
        self.out.extend_from_slice(&[0, 1, END_SEQUENCE]);
    }

    fn advance(&mut self, address: New) {
        if address > self.address {
            self.out.push(ADVANCE_PC);
            uleb(address.behind(self.address), self.out);
            self.address = address;
        }
    }

    /// An opcode with a number, if the program's header knows it.
    fn set(&mut self, opcode: u8, value: u64) {
        if opcode < self.opcode_base {
            self.out.push(opcode);
            uleb(value, self.out);
        }
    }

    fn flag(&mut self, opcode: u8, is_set: bool) {
        if is_set && opcode < self.opcode_base {
            self.out.push(opcode);
        }
    }

    fn row(&mut self, address: New, row: Row) {
        if row.file != self.now.file {
            self.set(SET_FILE, row.file);
        }
        if row.column != self.now.column {
            self.set(SET_COLUMN, row.column);
        }
        if row.isa != self.now.isa {
            self.set(SET_ISA, row.isa);
        }
        self.flag(NEGATE_STATEMENT, row.is_statement != self.now.is_statement);
        self.flag(SET_BASIC_BLOCK, row.is_block);
        self.flag(SET_PROLOGUE_END, row.is_prologue_end);
        self.flag(SET_EPILOGUE_BEGIN, row.is_epilogue_begin);
        if row.discriminator != 0 {
            let mut number = Vec::new();
            uleb(row.discriminator, &mut number);
            self.out.push(0);
            uleb(number.len() as u64 + 1, self.out);
            self.out.push(SET_DISCRIMINATOR);
            self.out.extend_from_slice(&number);
        }
        let bytes = address.0.wrapping_sub(self.address.0);
        let lines = row.line.wrapping_sub(self.now.line).cast_signed();
        match self.special(bytes, lines) {
            Some(opcode) => self.out.push(opcode),
            None => {
                if lines != 0 {
                    self.out.push(ADVANCE_LINE);
                    sleb(lines, self.out);
                }
                self.advance(address);
                self.out.push(COPY);
            }
        }
        self.now = row;
        self.address = address;
    }

    /// The opcode that advances by both and makes a row, if there is one.
    fn special(&self, bytes: u64, lines: i64) -> Option<u8> {
        let line = lines
            .checked_sub(self.base)
            .filter(|line| (0..self.range).contains(line))?;
        let bytes = i64::try_from(bytes).ok()?.checked_mul(self.range)?;
        u8::try_from(
            line.checked_add(bytes)?
                .checked_add(self.opcode_base.into())?,
        )
        .ok()
    }
}
