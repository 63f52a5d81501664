//! Lists of ranges and of locations behind the old ones, and the table of units by address.

use std::ops::Range;

use gimli::{DebugAranges, Format, LittleEndian};
use image::LinkAddr;

use super::{Moves, uleb};
use crate::address::{self, New};
use crate::file::File;

/// Entries of lists of ranges and of locations (DWARF 5, 7.25 and 7.7.3).
const END_OF_LIST: u8 = 0;
const RANGE: u8 = 7;
const LOCATION: u8 = 8;
/// Bytes of the header before added lists: length, version, size of addresses and of segments, count of offsets.
const HEADER: usize = 12;

/// A section of lists that grows.
struct Section {
    name: &'static str,
    has_header: bool,
    /// The old section, with another table of offsets.
    old: Vec<u8>,
    added: Vec<u8>,
}

impl Section {
    fn of(file: &File<'_>, name: &'static str, has_header: bool) -> Section {
        Section {
            name,
            has_header,
            old: file
                .section(name)
                .map_or(&[][..], |(_, bytes)| bytes)
                .to_vec(),
            added: Vec::new(),
        }
    }

    /// The place of the next list.
    fn next(&self) -> u32 {
        let header = if self.has_header { HEADER } else { 0 };
        (self.old.len() + header + self.added.len()) as u32
    }

    fn finish(mut self) -> Option<(&'static str, Vec<u8>)> {
        if self.added.is_empty() {
            return None;
        }
        if self.has_header {
            let length = (HEADER - 4 + self.added.len()) as u32;
            self.old.extend_from_slice(&length.to_le_bytes());
            self.old.extend_from_slice(&[5, 0, 8, 0, 0, 0, 0, 0]);
        }
        self.old.append(&mut self.added);
        Some((self.name, self.old))
    }
}

/// Lists that are added to the sections: of version 5, and of those before.
pub struct Lists {
    ranges: [Section; 2],
    locations: [Section; 2],
}

/// A range with the expression that holds in it.
pub type Location<'d> = (Range<New>, &'d [u8]);

impl Lists {
    pub fn of(file: &File<'_>) -> Lists {
        let both = |new, old| [Section::of(file, new, true), Section::of(file, old, false)];
        Lists {
            ranges: both(".debug_rnglists", ".debug_ranges"),
            locations: both(".debug_loclists", ".debug_loc"),
        }
    }

    /// Adds a list; gives its place in the section.
    pub fn add_ranges(&mut self, version: u16, all: &[Range<New>]) -> u32 {
        let [new, old] = &mut self.ranges;
        if version >= 5 {
            let place = new.next();
            for range in all {
                new.added.push(RANGE);
                new.added.extend_from_slice(&range.start.0.to_le_bytes());
                uleb(address::len(range), &mut new.added);
            }
            new.added.push(END_OF_LIST);
            return place;
        }
        let place = old.next();
        let pairs = all.iter().flat_map(|range| [range.start.0, range.end.0]);
        // The first pair says that addresses are absolute.
        for word in [u64::MAX, 0].into_iter().chain(pairs).chain([0, 0]) {
            old.added.extend_from_slice(&word.to_le_bytes());
        }
        place
    }

    /// Adds a list of locations; gives its place in the section. `None`: an expression is too long.
    pub fn add_locations(&mut self, version: u16, all: &[Location<'_>]) -> Option<u32> {
        let [new, old] = &mut self.locations;
        if version >= 5 {
            let place = new.next();
            for (range, expression) in all {
                new.added.push(LOCATION);
                new.added.extend_from_slice(&range.start.0.to_le_bytes());
                uleb(address::len(range), &mut new.added);
                uleb(expression.len() as u64, &mut new.added);
                new.added.extend_from_slice(expression);
            }
            new.added.push(END_OF_LIST);
            return Some(place);
        }
        let place = old.next();
        let pair = |one: u64, other: u64| [one.to_le_bytes(), other.to_le_bytes()].concat();
        old.added.extend_from_slice(&pair(u64::MAX, 0));
        for (range, expression) in all {
            old.added
                .extend_from_slice(&pair(range.start.0, range.end.0));
            let length = u16::try_from(expression.len()).ok()?;
            old.added.extend_from_slice(&length.to_le_bytes());
            old.added.extend_from_slice(expression);
        }
        old.added.extend_from_slice(&pair(0, 0));
        Some(place)
    }

    /// Has an entry of a table of offsets, which begins at `base`, lead to an added list of ranges or locations.
    pub fn set_offset(
        &mut self,
        is_ranges: bool,
        base: usize,
        index: usize,
        place: u32,
    ) -> Option<()> {
        let section = if is_ranges {
            &mut self.ranges
        } else {
            &mut self.locations
        };
        let at = base.checked_add(index.checked_mul(4)?)?;
        let offset = u32::try_from((place as usize).checked_sub(base)?).ok()?;
        let entry = section[0].old.get_mut(at..at.checked_add(4)?)?;
        entry.copy_from_slice(&offset.to_le_bytes());
        Some(())
    }

    /// The sections with what was added.
    pub fn finish(self) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        let all = self.ranges.into_iter().chain(self.locations);
        all.filter_map(Section::finish)
    }
}

/// `.debug_aranges` anew; `None`: it is not understood.
pub fn table(section: &[u8], moves: &Moves<'_>) -> Option<Vec<u8>> {
    /// Bytes of a header, and with its padding to a multiple of two addresses.
    const TABLE_HEADER: usize = 12;
    const PADDED: usize = 16;
    let mut out = Vec::new();
    let mut headers = DebugAranges::new(section, LittleEndian).headers();
    while let Some(header) = headers.next().ok()? {
        let encoding = header.encoding();
        if encoding.format != Format::Dwarf32 || encoding.address_size != 8 {
            return None;
        }
        let start = out.len();
        let old = header.offset().0;
        out.extend_from_slice(section.get(old..old + TABLE_HEADER)?);
        out.resize(start + PADDED, 0);
        let mut entries = header.entries();
        while let Some(entry) = entries.next_raw().ok()? {
            let start = entry.address();
            let end = start.checked_add(entry.length())?;
            let range = LinkAddr(start)..LinkAddr(end);
            for range in moves.ranges(range) {
                out.extend_from_slice(&range.start.0.to_le_bytes());
                out.extend_from_slice(&address::len(&range).to_le_bytes());
            }
        }
        out.extend_from_slice(&[0; 16]);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
    Some(out)
}
