//! Code that a runtime made while the program ran, as the runtime tells of it.
//!
//! Runtimes with a compiler (node, Java, .NET, luajit, Python 3.12) write, if asked, what they
//! made and where, for profilers. Two forms are read:
//!
//! - the map of perf, `/tmp/perf-PID.map` (Linux, `tools/perf/Documentation/jit-interface.txt`):
//!   a line for each piece, `START SIZE NAME`, numbers in base 16;
//! - jitdump, `jit-PID.dump` (`tools/perf/Documentation/jitdump-specification.txt`), version 1:
//!   records of code that was loaded or moved, with source lines.
//!
//! Invariant: pieces do not overlap; of two that do, the one that was told last stays. A place
//! that was used twice has the later name, as neither form says when code was gone.
//!
//! Any bytes give a value or a reason; what is damaged ends what is read.

use std::collections::BTreeMap;

/// Longest name that is kept, in bytes.
const LONGEST: usize = 4096;

/// An address, and file and line of the code from there on.
type Line = (u64, String, u32);

/// A piece of code: a function, a stub, a part of an interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    pub start: u64,
    pub end: u64,
    /// As the runtime gives it.
    pub name: String,
    /// File and line from an address on, ascending; empty: not known.
    pub lines: Vec<Line>,
}

impl Generated {
    /// File and line of the code at `pc`.
    pub fn line_at(&self, pc: u64) -> Option<(&str, u32)> {
        let behind = self.lines.partition_point(|(at, ..)| *at <= pc);
        let (_, file, line) = self.lines.get(behind.saturating_sub(1))?;
        Some((file, *line))
    }
}

/// The pieces of a process, by address.
#[derive(Clone, Debug, Default)]
pub struct GeneratedCode {
    pieces: BTreeMap<u64, Generated>,
}

impl GeneratedCode {
    /// Reads the map of perf. A line that is none is passed over.
    pub fn add_map(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            if let Some(piece) = piece(line.trim_end()) {
                self.add(piece);
            }
        }
    }

    /// Reads a jitdump. The error is why it cannot be read at all; one that is cut is read up to there.
    pub fn add_dump(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        const MAGIC: u32 = 0x4a69_5444;
        const VERSION: u32 = 1;
        let mut head = Fields(bytes);
        match (head.u32(), head.u32()) {
            (Some(MAGIC), Some(VERSION)) => {}
            (Some(MAGIC), _) => return Err("its version is not 1"),
            _ => return Err("it does not begin as a jitdump does"),
        }
        let len = head.u32().unwrap_or(0) as usize;
        let mut rest = Fields(bytes.get(len.max(12)..).unwrap_or_default());
        let mut lines = Vec::new();
        while let Some(()) = self.record(&mut rest, &mut lines) {}
        Ok(())
    }

    /// One record; `lines` are those that were told for the code that is loaded next.
    fn record(&mut self, rest: &mut Fields<'_>, lines: &mut Vec<Line>) -> Option<()> {
        const HEAD: usize = 16;
        const LOAD: u32 = 0;
        const MOVE: u32 = 1;
        const DEBUG_INFO: u32 = 2;
        let (kind, len, _time) = (rest.u32()?, rest.u32()? as usize, rest.u64()?);
        let mut fields = Fields(rest.take(len.checked_sub(HEAD)?)?);
        match kind {
            LOAD => {
                let (_ids, _vma) = (fields.u64()?, fields.u64()?);
                let (start, size, _index) = (fields.u64()?, fields.u64()?, fields.u64()?);
                let end = start.checked_add(size)?;
                let lines = std::mem::take(lines);
                self.add(named(start, end, &fields.text()?, lines));
            }
            MOVE => {
                let (_ids, _vma) = (fields.u64()?, fields.u64()?);
                let (from, to) = (fields.u64()?, fields.u64()?);
                if let Some(piece) = self.pieces.remove(&from) {
                    let moved = |at: u64| at.wrapping_sub(from).wrapping_add(to);
                    let lines = piece.lines.into_iter();
                    self.add(Generated {
                        start: to,
                        end: moved(piece.end),
                        lines: lines
                            .map(|(at, file, line)| (moved(at), file, line))
                            .collect(),
                        ..piece
                    });
                }
            }
            DEBUG_INFO => {
                let (_start, count) = (fields.u64()?, fields.u64()?);
                *lines = fields.lines(count).unwrap_or_default();
            }
            _ => {}
        }
        Some(())
    }

    /// Adds a piece in place of those that it overlaps.
    fn add(&mut self, piece: Generated) {
        if piece.start >= piece.end || piece.name.is_empty() {
            return;
        }
        while let Some((&start, below)) = self.pieces.range(..piece.end).next_back() {
            if below.end <= piece.start {
                break;
            }
            self.pieces.remove(&start);
        }
        self.pieces.insert(piece.start, piece);
    }

    /// The piece that holds `pc`.
    pub fn at(&self, pc: u64) -> Option<&Generated> {
        let (_, piece) = self.pieces.range(..=pc).next_back()?;
        (pc < piece.end).then_some(piece)
    }

    /// All of them, by address.
    pub fn pieces(&self) -> impl Iterator<Item = &Generated> {
        self.pieces.values()
    }
}

/// A line of perf's map.
fn piece(line: &str) -> Option<Generated> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = hex(start)?;
    Some(named(
        start,
        start.checked_add(hex(size)?)?,
        name,
        Vec::new(),
    ))
}

/// A piece whose name may have its place in it. Lines outside of it are not of it; V8 gives them as
/// they would be in a file with an ELF header before the code.
fn named(start: u64, end: u64, name: &str, mut lines: Vec<Line>) -> Generated {
    const ELF_HEADER: u64 = 64;
    lines.sort_by_key(|(at, ..)| *at);
    if lines
        .first()
        .is_some_and(|(at, ..)| at.checked_sub(ELF_HEADER) == Some(start))
    {
        lines.iter_mut().for_each(|(at, ..)| *at -= ELF_HEADER);
    }
    lines.retain(|(at, ..)| (start..end).contains(at));
    let (name, place) = match place(name) {
        Some((name, file, line)) => (name, Some((start, file.to_owned(), line))),
        None => (name, None),
    };
    if lines.is_empty() {
        lines.extend(place);
    }
    let name = cut(name);
    Generated {
        start,
        end,
        name,
        lines,
    }
}

/// Name, file and line of a name that ends with `FILE:LINE:COLUMN`, as V8's do, or with `FILE:LINE` behind
/// `KIND:NAME`, as those of V8 up to 10 do.
fn place(name: &str) -> Option<(&str, &str, u32)> {
    let (name, place) = name.split_once(' ')?;
    let (before, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let with_column = before.rsplit_once(':');
    let with_column = with_column.and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let without = || name.contains(':').then_some((before, last));
    let (file, line) = with_column.or_else(without)?;
    (!file.is_empty()).then_some((name, file, line))
}

/// A name of at most [`LONGEST`] bytes.
fn cut(name: &str) -> String {
    let end = (0..=name.len().min(LONGEST)).rfind(|&end| name.is_char_boundary(end));
    name[..end.unwrap_or(0)].to_owned()
}

/// Little-endian numbers and texts that end with a zero, one behind the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Rows of address, line, column and file; nothing may be behind them but what fills up words.
    fn lines(&mut self, count: u64) -> Option<Vec<Line>> {
        /// Stands for the file of the row before.
        const SAME: &[u8] = b"\xff";
        let mut lines: Vec<Line> = Vec::new();
        for _ in 0..count {
            let (at, line, _column) = (self.u64()?, self.u32()?, self.u32()?);
            let same = self
                .0
                .strip_prefix(SAME)
                .filter(|rest| rest.first() == Some(&0));
            let before = lines.last().filter(|_| same.is_some());
            let before = before.map(|(_, file, _)| file.clone());
            let read = self.text()?;
            lines.push((at, before.unwrap_or(read), line));
        }
        (self.0.len() < 8).then_some(lines)
    }

    fn text(&mut self) -> Option<String> {
        let len = self.0.iter().position(|&byte| byte == 0)?;
        let text = String::from_utf8_lossy(self.take(len)?);
        self.take(1)?;
        Some(cut(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
1000 20 first
1020 10 JS:*fib /src/fib.js:3:14
1040 10 LazyCompile:*fib node:internal/fib:7
not a line
0x2000 0x8 with spaces in it
1010 8 second
2000 8 again
ffffffffffffffff 10 beyond
3000 0 empty
";

    fn map() -> GeneratedCode {
        let mut code = GeneratedCode::default();
        code.add_map(MAP.as_bytes());
        code
    }

    #[test]
    fn a_map_is_read_by_line_and_the_last_word_counts() {
        let code = map();
        let names: Vec<&str> = code.pieces().map(|piece| piece.name.as_str()).collect();
        assert_eq!(names, ["second", "JS:*fib", "LazyCompile:*fib", "again"]);
        assert_eq!(code.at(0x1017).unwrap().name, "second");
        assert_eq!(code.at(0x1018), None);
        assert_eq!(code.at(0x100f), None, "`first` was written over");
        let fib = code.at(0x102f).unwrap();
        assert_eq!(fib.line_at(0x1021), Some(("/src/fib.js", 3)));
        let lazy = code.at(0x1040).unwrap();
        assert_eq!(lazy.line_at(0x1041), Some(("node:internal/fib", 7)));
    }

    /// A record of a jitdump.
    fn record(kind: u32, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let len = body.len() as u32 + 16;
        let time = 7u64.to_le_bytes();
        [&kind.to_le_bytes()[..], &len.to_le_bytes(), &time, &body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn dump() -> Vec<u8> {
        let head = [0x4a69_5444u32, 1, 40, 62, 0, 1, 0, 0, 0, 0];
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        let line = |at: u64, line: u32| {
            [
                &at.to_le_bytes()[..],
                &line.to_le_bytes(),
                &[0; 4],
                b"a.js\0",
            ]
            .concat()
        };
        let lines = [words(&[0x5000, 2]), line(0x5000, 3), line(0x5008, 4)].concat();
        let load = [
            words(&[1, 0x5000, 0x5000, 0x10, 0]),
            b"work\0\x90\x90".to_vec(),
        ]
        .concat();
        let moved = words(&[1, 0x6000, 0x5000, 0x6000, 0x10, 0]);
        [
            head,
            record(2, &[&lines]),
            record(0, &[&load]),
            record(9, &[b"unknown"]),
            record(1, &[&moved]),
        ]
        .concat()
    }

    #[test]
    fn a_dump_has_code_that_was_loaded_and_moved_with_its_lines() {
        let mut code = GeneratedCode::default();
        code.add_dump(&dump()).unwrap();
        assert_eq!(code.at(0x5000), None);
        let work = code.at(0x6009).unwrap();
        assert_eq!(
            (work.name.as_str(), work.start, work.end),
            ("work", 0x6000, 0x6010)
        );
        assert_eq!(work.line_at(0x6007), Some(("a.js", 3)));
        assert_eq!(work.line_at(0x6008), Some(("a.js", 4)));
    }

    #[test]
    fn lines_are_kept_if_they_are_of_the_code() {
        let row = |at: u64, line: u32| (at, "a.js".to_owned(), line);
        let of = |lines: &[Line]| named(0x1000, 0x1100, "f", lines.to_vec()).lines;
        assert_eq!(of(&[row(0x1010, 2), row(0x1100, 3)]), [row(0x1010, 2)]);
        assert_eq!(
            of(&[row(0x1048, 2), row(0x1040, 1)]),
            [row(0x1000, 1), row(0x1008, 2)]
        );
        // Node 20 writes bytes of its own memory in place of some names.
        let torn = [
            words(&[0x5000, 1, 0x5040]),
            words(&[1, 0x53c4, 0x0073_4c22]),
        ]
        .concat();
        let load = [
            words(&[1, 0x5000, 0x5000, 0x10, 0]),
            b"f a.js:7:1\0".to_vec(),
        ]
        .concat();
        let mut code = GeneratedCode::default();
        let head = dump()[..40].to_vec();
        let bytes = [head, record(2, &[&torn]), record(0, &[&load])].concat();
        code.add_dump(&bytes).unwrap();
        assert_eq!(
            code.at(0x5000).unwrap().lines,
            [(0x5000, "a.js".to_owned(), 7)]
        );
    }

    #[test]
    fn damaged_bytes_give_a_value() {
        let whole = dump();
        for len in 0..whole.len() {
            let _ = GeneratedCode::default().add_dump(&whole[..len]);
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let mut code = GeneratedCode::default();
                let _ = code.add_dump(&bytes);
                let ends = code.pieces().map(|piece| (piece.start, piece.end));
                assert!(ends.is_sorted_by(|a, b| a.1 <= b.0));
            }
        }
        assert!(GeneratedCode::default().add_dump(b"JiTD").is_err());
    }
}
