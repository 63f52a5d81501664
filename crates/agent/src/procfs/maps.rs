//! `/proc/self/maps` without the engine: ranges of the engine are cut out of the kernel's
//! mappings, and rights are those that the program asked for.

use alloc::vec::Vec;
use core::fmt::Write;

use super::Text;
use crate::memory;
use crate::regions::Regions;

/// One line of maps, in its fields.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub start: u64,
    pub end: u64,
    pub rights: &'a str,
    offset: u64,
    device: &'a str,
    /// Inode and name, as they are written.
    rest: &'a str,
}

/// Memory of the program within one mapping of the kernel, with the rights it has natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub start: u64,
    pub end: u64,
    pub rights: [u8; 4],
}

impl<'a> Line<'a> {
    pub fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let line = core::str::from_utf8(line).ok()?;
        let mut fields = line.splitn(5, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (
            u64::from_str_radix(start, 16).ok()?,
            u64::from_str_radix(end, 16).ok()?,
        );
        let rights = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        Some(Line {
            start,
            end,
            rights,
            offset,
            device: fields.next()?,
            rest: fields.next()?,
        })
    }

    pub fn name(&self) -> &'a str {
        self.rest
            .split_once(' ')
            .map_or("", |(_inode, name)| name.trim_start())
    }

    /// The ranges of the mapping that are the program's, cut also where rights change.
    pub fn pieces(&self, regions: &Regions) -> Vec<Piece> {
        let mut cuts: Vec<u64> = alloc::vec![self.start, self.end];
        memory::for_each_range(|a, b| cuts.extend([a, b]));
        for region in regions.iter() {
            cuts.extend([region.start, region.end]);
        }
        cuts.retain(|&cut| self.start <= cut && cut <= self.end);
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces: Vec<Piece> = Vec::new();
        for pair in cuts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            if memory::is_ours(start, end) {
                continue;
            }
            let rights = shown_rights(self.rights, start, regions);
            match pieces.last_mut() {
                Some(last) if last.end == start && last.rights == rights => last.end = end,
                _ => pieces.push(Piece { start, end, rights }),
            }
        }
        pieces
    }

    /// The line of one piece.
    pub fn write(&self, piece: &Piece, out: &mut Text) {
        let file = self
            .rest
            .split_ascii_whitespace()
            .next()
            .is_some_and(|inode| inode != "0");
        let offset = match file {
            true => self.offset + (piece.start - self.start),
            false => self.offset,
        };
        let rights = core::str::from_utf8(&piece.rights).unwrap_or("----");
        let (Piece { start, end, .. }, device, rest) = (piece, self.device, self.rest);
        // A text in memory takes every byte.
        let _ = writeln!(
            out,
            "{start:08x}-{end:08x} {rights} {offset:08x} {device} {rest}"
        );
    }
}

/// The kernel's list as it would be without the engine.
pub fn without_engine(text: &[u8], regions: &Regions) -> Vec<u8> {
    let mut out = Text::default();
    for line in text.split(|&byte| byte == b'\n').filter_map(Line::parse) {
        for piece in line.pieces(regions) {
            line.write(&piece, &mut out);
        }
    }
    out.0
}

fn shown_rights(real: &str, addr: u64, regions: &Regions) -> [u8; 4] {
    let mut shown = [b'-'; 4];
    for (slot, byte) in shown.iter_mut().zip(real.bytes()) {
        *slot = byte;
    }
    if let Some(region) = regions.find(addr) {
        for (slot, (bit, letter)) in shown.iter_mut().zip([
            (sys::PROT_READ, b'r'),
            (sys::PROT_WRITE, b'w'),
            (sys::PROT_EXEC, b'x'),
        ]) {
            *slot = if region.prot & bit != 0 { letter } else { b'-' };
        }
    }
    shown
}
