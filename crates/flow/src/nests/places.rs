//! Source lines of loops.
//!
//! Approach: each piece of code has the line that the line table says, and the lines of the calls by which it was inlined. A piece is
//! *of* a file's lines if one of these is in that file.
//!
//! Limits: inlined calls are known from DWARF of the file itself only, and the file of a call is that of the caller's first code.

use std::collections::BTreeSet;

use image::{FileOffset, Image, LineTable, LinkAddr, Scope};

use super::{Nest, NestLoop};
use crate::{Function, Program};

/// A line of a source file, by its number in [`Places::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    pub file: u32,
    pub line: u32,
}

/// Code that was inlined by a call on a line.
#[derive(Clone, Copy, Debug)]
struct Inlined {
    start: LinkAddr,
    end: LinkAddr,
    call: Line,
}

/// Source lines of an image's code.
pub struct Places<'d> {
    image: &'d Image,
    table: LineTable,
    /// By start.
    inlined: Vec<Inlined>,
    /// Longest of them.
    longest: u64,
}

/// Lines of a loop in the file of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub file: u32,
    pub first: u32,
    pub last: u32,
}

impl<'d> Places<'d> {
    /// Lines of the line table alone.
    pub fn of(image: &'d Image) -> Places<'d> {
        Places {
            image,
            table: image.line_table(),
            inlined: Vec::new(),
            longest: 0,
        }
    }

    /// Adds the lines of calls by which code was inlined, which takes a while for large programs.
    pub fn add_inlined(&mut self) {
        for scope in self.image.scopes() {
            self.add(&scope);
        }
        self.inlined.sort_by_key(|one| one.start);
        let bytes = self.inlined.iter().map(|one| one.end.0 - one.start.0);
        self.longest = bytes.max().unwrap_or(0);
    }

    /// Paths of source files.
    pub fn files(&self) -> &[String] {
        &self.table.files
    }

    /// The first code of a file.
    pub fn first_code(&self, file: u32) -> Option<FileOffset> {
        let mut ranges = self.table.ranges.iter();
        ranges
            .find(|range| range.file == file)
            .map(|range| range.start)
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.table.ranges.is_empty()
    }

    fn add(&mut self, scope: &Scope) {
        let own = scope.ranges.first().and_then(|range| self.row(range.0));
        for inner in &scope.inlined {
            if let (Some(own), Some((line, _))) = (own, inner.call) {
                let call = Line {
                    file: own.file,
                    line,
                };
                let ranges = inner.ranges.iter();
                self.inlined
                    .extend(ranges.map(|&(start, end)| Inlined { start, end, call }));
            }
            self.add(inner);
        }
    }

    /// The line of an address, as the line table has it.
    pub fn row(&self, at: LinkAddr) -> Option<Line> {
        let offset = self.image.file_offset(at)?;
        let ranges = &self.table.ranges;
        let after = ranges.partition_point(|range| range.start <= offset);
        let range = ranges[..after].last().filter(|range| offset < range.end)?;
        (range.line > 0).then_some(Line {
            file: range.file,
            line: range.line,
        })
    }

    /// The lines of an address: that of the line table, and those of calls by which it was inlined.
    pub fn lines(&self, at: LinkAddr) -> Vec<Line> {
        let after = self.inlined.partition_point(|one| one.start <= at);
        let before = self.inlined[..after].iter().rev();
        let near = before.take_while(|one| at.0 - one.start.0 < self.longest);
        let calls = near.filter(|one| at < one.end).map(|one| one.call);
        self.row(at).into_iter().chain(calls).collect()
    }

    /// Beginnings of pieces of a loop's code that have one line each, with the line of the table.
    pub(super) fn pieces(
        &self,
        function: &Function,
        one: &NestLoop,
    ) -> impl Iterator<Item = (LinkAddr, Line)> {
        let mut pieces = Vec::new();
        for &block in &one.blocks {
            let block = &function.graph.blocks[block as usize];
            let (Some(start), bytes) = (
                self.image.file_offset(block.start),
                block.end.0 - block.start.0,
            ) else {
                continue;
            };
            let ranges = &self.table.ranges;
            let first = ranges.partition_point(|range| range.end <= start);
            let own = ranges[first..].iter();
            let own = own.take_while(|range| range.start.0 < start.0 + bytes);
            for range in own.filter(|range| range.line > 0) {
                let into = range.start.0.saturating_sub(start.0);
                let line = Line {
                    file: range.file,
                    line: range.line,
                };
                pieces.push((LinkAddr(block.start.0 + into), line));
            }
        }
        pieces.into_iter()
    }

    /// First and last line of a loop in the file of its header's code, or of its first code that has a line.
    pub fn extent(&self, program: &Program, nest: &Nest, at: usize) -> Option<Extent> {
        let function = &program.functions[nest.function];
        let one = &nest.loops[at];
        let header = self.row(one.header);
        let file = match header {
            Some(line) => line.file,
            None => self.pieces(function, one).next()?.1.file,
        };
        let own = self.pieces(function, one);
        let lines: BTreeSet<u32> = own
            .filter(|(_, line)| line.file == file)
            .map(|(_, line)| line.line)
            .collect();
        Some(Extent {
            file,
            first: *lines.first()?,
            last: *lines.last()?,
        })
    }
}
