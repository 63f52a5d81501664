//! Debugging information of moved code: DWARF in which functions, inlined functions and lines are where the code is now.
//!
//! Problem: debuggers and `addr2line` find functions and lines by address, and the old addresses are those of code that is not
//! executed any more.
//!
//! Approach:
//!
//! | section | what is done |
//! |---|---|
//! | `.debug_info`, `.debug_addr` | addresses, lengths and offsets are overwritten at their places ([`info`]) |
//! | `.debug_line` | programs are written anew, from the rows of the old ones ([`lines`]) |
//! | `.debug_rnglists`, `.debug_loclists`, and their elder forms | lists are added behind the old ones ([`ranges`]) |
//! | `.debug_aranges` | written anew |
//! | `.gdb_index` | loses its name: gdb makes its own |
//!
//! Sections that are not loaded are no part of what runs, so those that grow are written again at the end of the file.
//!
//! Source: DWARF 5, 2.6.2, 2.17, 6.1.2, 6.2, 7.7.3, 7.25, 7.28; versions 2 to 4 for `.debug_ranges` and `.debug_loc`.
//!
//! Limits: a section that cannot be understood stays as it is, with all others, and so do compressed ones and those of a
//! 64-bit format. Numbers of views (`DW_AT_GNU_locviews`) stay those of the old lists.

mod info;
mod lines;
mod ranges;

use std::ops::Range;

use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use image::LinkAddr;

use crate::address::New;
use crate::file::File;
use crate::layout::Moved;
use crate::versions::Version;

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// New places of code, by the old ones. Where one place is asked for, it is that in the first version of the code.
pub struct Moves<'m> {
    /// Old code with the functions that it is of, by address.
    parts: Vec<(Range<LinkAddr>, &'m Moved)>,
    /// The last version that a function has.
    last: Version,
    /// Code of functions that stay.
    stay: Vec<Range<LinkAddr>>,
}

impl<'m> Moves<'m> {
    /// `stay` has the ranges of all other functions.
    pub fn new(moved: impl Iterator<Item = &'m Moved>, stay: Vec<Range<LinkAddr>>) -> Moves<'m> {
        let mut last = Version::FIRST;
        let mut parts = Vec::new();
        for one in moved {
            for (label, _) in one.parts() {
                last = last.max(label.version);
                if label.version == Version::FIRST {
                    parts.push((label.old..one.part_end(label.old), one));
                }
            }
        }
        parts.sort_by_key(|(range, _)| range.start);
        Moves { parts, last, stay }
    }

    /// Number of the part with an address.
    fn part(&self, old: LinkAddr) -> Option<usize> {
        let after = self.parts.partition_point(|(range, _)| range.start <= old);
        let at = after.checked_sub(1)?;
        self.parts[at].0.contains(&old).then_some(at)
    }

    fn stays(&self, old: LinkAddr) -> bool {
        self.stay.iter().any(|range| range.contains(&old))
    }

    /// All versions, of which a function may have fewer.
    fn versions(&self) -> impl Iterator<Item = Version> + use<> {
        (0..=self.last.0).map(Version)
    }

    /// Whether a version has something of a part.
    fn has(&self, part: usize, version: Version) -> bool {
        let (range, moved) = &self.parts[part];
        moved.has_part(version.at(range.start))
    }

    /// The new address in a version of what is in a part, or its end.
    fn within(&self, part: usize, version: Version, old: LinkAddr) -> Option<New> {
        let (range, moved) = &self.parts[part];
        moved.within(old.min(range.end), version.at(range.start))
    }

    /// The new address of an instruction, if it moved.
    fn moved(&self, old: LinkAddr) -> Option<New> {
        self.within(self.part(old)?, Version::FIRST, old)
    }

    /// Code of an old range, where it is now. Whole functions, and versions of one, are joined if they are neighbours.
    fn ranges(&self, old: Range<LinkAddr>) -> Vec<Range<New>> {
        self.ranges_in(self.last, old)
    }

    /// Does the same for the versions up to one.
    fn ranges_in(&self, last: Version, old: Range<LinkAddr>) -> Vec<Range<New>> {
        /// Functions are aligned, with bytes between them that are nobody's.
        const BETWEEN: u64 = 80;
        let mut found: Vec<Range<New>> = Vec::new();
        let mut is_to_end = false;
        let first = self
            .parts
            .partition_point(|(range, _)| range.end <= old.start);
        for (at, (range, _)) in self.parts.iter().enumerate().skip(first) {
            if range.start >= old.end {
                break;
            }
            let ends = [range.start.max(old.start), range.end.min(old.end)];
            let [from_start, to_end] = [ends[0] == range.start, ends[1] == range.end];
            for version in (0..=last.0).map(Version) {
                let ends = ends.map(|addr| self.within(at, version, addr));
                let [Some(start), Some(end)] = ends else {
                    continue;
                };
                if start == end && version != Version::FIRST {
                    continue;
                }
                let before = found.last_mut().filter(|before| {
                    let is_near = before.end <= start && start.behind(before.end) < BETWEEN;
                    is_near && is_to_end && from_start
                });
                match before {
                    Some(before) => before.end = end,
                    None => found.push(start..end),
                }
                is_to_end = to_end;
            }
        }
        let stay = self.stay.iter();
        let stay = stay.map(|range| range.start.max(old.start)..range.end.min(old.end));
        let stay = stay.filter(|range| range.start < range.end);
        found.extend(stay.map(|range| New::of_old(range.start)..New::of_old(range.end)));
        found
    }
}

/// Has debugging information describe moved code, if the file has some.
pub fn move_all(file: &mut File<'_>, moves: &Moves<'_>) {
    if file.is_compressed(".debug_info") || file.section(".debug_info").is_none() {
        return;
    }
    // All or nothing: sections lead into each other.
    if let Some(edits) = all(file, moves) {
        edits.apply(file);
    }
}

/// Sections with other contents.
struct Edits {
    info: Vec<u8>,
    addresses: Vec<u8>,
    /// Names of sections that have another size, with their contents.
    replaced: Vec<(&'static str, Vec<u8>)>,
}

impl Edits {
    fn apply(self, file: &mut File<'_>) {
        let what = "debugging information of moved functions";
        for (name, bytes) in [(".debug_info", self.info), (".debug_addr", self.addresses)] {
            if !bytes.is_empty() {
                file.patch_section(name, bytes, what);
            }
        }
        for (name, bytes) in self.replaced {
            file.replace_section(name, bytes);
        }
        file.rename(".gdb_index", ".everypath.old_gdb_index");
    }
}

fn all(file: &File<'_>, moves: &Moves<'_>) -> Option<Edits> {
    let names = [
        ".debug_line",
        ".debug_rnglists",
        ".debug_ranges",
        ".debug_loclists",
        ".debug_loc",
    ];
    if names.iter().any(|name| file.is_compressed(name)) {
        return None;
    }
    let load = |id: SectionId| {
        let section = file.section(id.name()).map_or(&[][..], |(_, bytes)| bytes);
        Ok::<_, gimli::Error>(EndianSlice::new(section, LittleEndian))
    };
    let dwarf: Dwarf<Slice<'_>> = Dwarf::load(load).ok()?;
    let (_, lines) = file.section(".debug_line")?;
    let lines = lines::write(lines, moves)?;
    let mut lists = ranges::Lists::of(file);
    let (info, addresses) = info::write(&dwarf, file, moves, &lines, &mut lists)?;
    let mut replaced = vec![(".debug_line", lines.bytes)];
    replaced.extend(lists.finish());
    if let Some((_, bytes)) = file.section(".debug_aranges") {
        replaced.push((".debug_aranges", ranges::table(bytes, moves)?));
    }
    Some(Edits {
        info,
        addresses,
        replaced,
    })
}

/// Writes a number of seven bits a byte.
fn uleb(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes one with a sign.
fn sleb(mut value: i64, out: &mut Vec<u8>) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        let is_end = value == if byte & 0x40 == 0 { 0 } else { -1 };
        out.push(if is_end { byte } else { byte | 0x80 });
        if is_end {
            return;
        }
    }
}
