//! `/proc/self/smaps` without the engine, and sizes of memory made of it.
//!
//! The kernel may keep one mapping for memory of the program and of the engine, or for code and
//! data of the program, which differ in a right that it is not told of. The figures of such a
//! mapping are divided by how many pages of each part are present (`/proc/self/pagemap`).

use alloc::vec::Vec;
use core::fmt::Write;

use super::maps::{Line, Piece};
use super::{KB, PAGE, Text, read_file};
use crate::regions::Regions;

/// Bytes of one part of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub size: u64,
    pub resident: u64,
    pub anonymous: u64,
    pub shared_memory: u64,
    /// Private and writable, without stacks.
    pub data: u64,
}

/// The engine's memory, and the program's code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub engine: Part,
    /// Bytes of the program that can be executed and not written.
    pub code: u64,
}

/// One mapping: its line, and the lines with figures below it.
pub struct Block<'a> {
    pub line: Line<'a>,
    figures: &'a [&'a [u8]],
}

/// Calls `each` with every mapping of a text of smaps.
pub fn for_each_block(text: &[u8], mut each: impl FnMut(Block<'_>)) {
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let heads: Vec<usize> = (0..lines.len())
        .filter(|&at| Line::parse(lines[at]).is_some())
        .collect();
    for (index, &head) in heads.iter().enumerate() {
        let end = heads.get(index + 1).copied().unwrap_or(lines.len());
        if let Some(line) = Line::parse(lines[head]) {
            let figures = &lines[head + 1..end];
            each(Block { line, figures });
        }
    }
}

impl Block<'_> {
    /// The bytes of a figure.
    pub fn figure(&self, name: &str) -> u64 {
        let found = self.figures.iter().find_map(|line| {
            let (key, kilobytes) = figure(line)?;
            (key == name).then_some(kilobytes)
        });
        found.unwrap_or(0) * KB
    }

    /// For each piece, how much of the mapping's resident memory it has.
    pub fn shares(&self, pieces: &[Piece]) -> Vec<u64> {
        let resident = self.figure("Rss");
        let whole = pieces.len() == 1
            && pieces[0].start == self.line.start
            && pieces[0].end == self.line.end;
        pieces
            .iter()
            .map(|piece| match (whole, resident) {
                (true, _) | (_, 0) => resident,
                _ => present(piece.start, piece.end).min(resident),
            })
            .collect()
    }
}

/// `Name:   12 kB`.
pub fn figure(line: &[u8]) -> Option<(&str, u64)> {
    let line = core::str::from_utf8(line).ok()?;
    let (name, value) = line.split_once(':')?;
    let value = value.trim().strip_suffix(" kB")?;
    Some((name, value.parse().ok()?))
}

/// Bytes of pages that are in memory; 0 where the kernel does not say.
pub fn present(start: u64, end: u64) -> u64 {
    const PRESENT: u64 = 1 << 63;
    const AT_ONCE: u64 = 512;
    let flags = sys::O_RDONLY | sys::O_CLOEXEC;
    let Ok(fd) = sys::open(c"/proc/self/pagemap", flags) else {
        return 0;
    };
    let (mut page, last) = (start / PAGE, end / PAGE);
    let mut found = 0;
    while page < last {
        let mut entries = [0u8; AT_ONCE as usize * 8];
        let wanted = (last - page).min(AT_ONCE) as usize * 8;
        let Ok(got @ 8..) = sys::pread(fd, &mut entries[..wanted], page * 8) else {
            break;
        };
        let entry = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        found += entries[..got]
            .chunks_exact(8)
            .filter(|bytes| entry(bytes) & PRESENT != 0)
            .count() as u64;
        page += got as u64 / 8;
    }
    sys::close(fd);
    found * PAGE
}

/// `part` of `whole` of a figure, rounded to whole pages as the kernel's are.
pub fn scaled(kilobytes: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        _ if part == whole => kilobytes,
        _ => (u128::from(kilobytes) * u128::from(part) / u128::from(whole)) as u64 & !3,
    }
}

/// The kernel's text as it would be without the engine.
pub fn without_engine(text: &[u8], regions: &Regions) -> Vec<u8> {
    let mut out = Text::default();
    for_each_block(text, |block| {
        let pieces = block.line.pieces(regions);
        let resident = block.figure("Rss");
        for (piece, share) in pieces.iter().zip(block.shares(&pieces)) {
            block.line.write(piece, &mut out);
            for line in block.figures {
                write_figure(line, piece, (share, resident), &mut out);
            }
        }
    });
    out.0
}

fn write_figure(line: &[u8], piece: &Piece, (share, resident): (u64, u64), out: &mut Text) {
    let Ok(text) = core::str::from_utf8(line) else {
        return;
    };
    // A text in memory takes every byte.
    let _ = match figure(line) {
        Some(("Size", _)) => writeln!(out, "Size:{:19} kB", (piece.end - piece.start) / KB),
        Some(("KernelPageSize" | "MMUPageSize", _)) => writeln!(out, "{text}"),
        Some((name, kilobytes)) => {
            let width = 23usize.saturating_sub(name.len());
            let value = scaled(kilobytes, share, resident);
            writeln!(out, "{name}:{value:width$} kB")
        }
        None if text.starts_with("VmFlags:") && piece.rights[2] == b'x' => {
            writeln!(out, "{}", executable(text))
        }
        None if text.is_empty() => Ok(()),
        None => writeln!(out, "{text}"),
    };
}

/// `VmFlags: rd mr ...` with `ex` where the kernel would have it.
fn executable(flags: &str) -> alloc::string::String {
    let mut out = alloc::string::String::new();
    for flag in flags.split_inclusive(' ') {
        // Rights come first, then what they may become.
        let right = matches!(flag.trim_end(), "VmFlags:" | "rd" | "wr");
        if !right && !out.contains("ex ") {
            out.push_str("ex ");
        }
        out.push_str(flag);
    }
    out
}

/// Measures the engine's memory in this process, and the program's code.
pub fn of_process(regions: &Regions) -> Sizes {
    let mut sizes = Sizes::default();
    let Some(text) = read_file(c"/proc/thread-self/smaps") else {
        return sizes;
    };
    for_each_block(&text, |block| {
        let line = block.line;
        let pieces = line.pieces(regions);
        let size = line.end - line.start;
        let programs: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        for piece in &pieces {
            if piece.rights[1..3] == *b"-x" && line.name() != "[vsyscall]" {
                sizes.code += piece.end - piece.start;
            }
        }
        if programs == size {
            return;
        }
        let resident = block.figure("Rss");
        let shares: u64 = block.shares(&pieces).iter().sum();
        let left = resident.saturating_sub(shares);
        let engine = &mut sizes.engine;
        engine.size += size - programs;
        engine.resident += left;
        match line.rights.ends_with('s') {
            true => engine.shared_memory += left,
            false => {
                let anonymous = block.figure("Anonymous") / KB;
                engine.anonymous += scaled(anonymous, left, resident) * KB;
            }
        }
        if line.rights.starts_with("rw") && line.rights.ends_with('p') {
            engine.data += size - programs;
        }
    });
    sizes
}
