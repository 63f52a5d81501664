//! Places of functions' declarations, for reports that show one line for a function.
//!
//! Problem: the first instruction of a function is often one of a callee that was inlined, so the
//! line table gives a line of another file for the function's entry.
//!
//! Approach: the attributes `DW_AT_decl_file` and `DW_AT_decl_line` (DWARF 5, 2.14) of the entry whose
//! code begins at the asked address, or of the entries that it refers to. Only units whose
//! code holds an asked address are walked. All questions are asked together, because the sections
//! are read for them.
//!
//! Limits: only debug information in the image itself is read. In packages of debug information
//! it is compressed, and the C library's alone takes longer to unpack than a short run takes; there,
//! the first row of the line table at the entry counts, which compilers make for the function's
//! first line ([`crate::lines`]). No split DWARF, and no entries that `dwz` moved to another file.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use gimli::{
    AttributeValue, DebugInfoOffset, Dwarf, DwarfSections, EndianSlice, LittleEndian as LE,
    SectionId, Unit, UnitHeader, UnitOffset,
};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::lines::{Slice, join};

/// File and line.
pub(crate) type Place = (String, u32);

/// Deepest chain of entries that say more of a function; a longer one is damage.
const CHAIN: usize = 8;

type Entry<'d> = gimli::DebuggingInformationEntry<Slice<'d>>;

/// Declarations of the functions that begin at the asked link addresses.
pub(crate) fn read(image: &[u8], asked: &BTreeSet<u64>) -> HashMap<u64, Place> {
    let Ok(file) = ElfFile64::<object::LittleEndian, _>::parse(image) else {
        return HashMap::new();
    };
    if asked.is_empty() || file.section_by_name(".debug_info").is_none() {
        return HashMap::new();
    }
    let load = |id: SectionId| -> Result<Cow<'_, [u8]>, Infallible> {
        let section = file.section_by_name(id.name());
        let bytes = section.and_then(|section| section.uncompressed_data().ok());
        Ok(bytes.unwrap_or_default())
    };
    let Ok(sections) = DwarfSections::load(load);
    let dwarf: Dwarf<Slice<'_>> = sections.borrow(|bytes| EndianSlice::new(bytes, LE));
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        headers.push(header);
    }
    let walk = Walk {
        dwarf: &dwarf,
        headers: &headers,
        asked,
    };
    let mut found = HashMap::new();
    for header in &headers {
        if let Ok(unit) = dwarf.unit(*header)
            && walk.holds_asked(&unit)
        {
            walk.unit(&unit, &mut found);
        }
    }
    found
}

struct Walk<'w, 'd> {
    dwarf: &'w Dwarf<Slice<'d>>,
    /// In the order of the section.
    headers: &'w [UnitHeader<Slice<'d>>],
    asked: &'w BTreeSet<u64>,
}

impl<'d> Walk<'_, 'd> {
    /// Whether code of the unit, or of one that does not say where its code is, was asked for.
    fn holds_asked(&self, unit: &Unit<Slice<'d>>) -> bool {
        let Ok(mut ranges) = self.dwarf.unit_ranges(unit) else {
            return true;
        };
        let mut has_some = false;
        while let Ok(Some(range)) = ranges.next() {
            has_some = true;
            if range.begin < range.end && self.asked.range(range.begin..range.end).next().is_some()
            {
                return true;
            }
        }
        !has_some
    }

    fn unit(&self, unit: &Unit<Slice<'d>>, found: &mut HashMap<u64, Place>) {
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let Ok(mut ranges) = self.dwarf.die_ranges(unit, entry) else {
                continue;
            };
            while let Ok(Some(range)) = ranges.next() {
                if range.begin != 0
                    && self.asked.contains(&range.begin)
                    && let Some(place) = self.declared(unit, entry)
                {
                    found.entry(range.begin).or_insert(place);
                }
            }
        }
    }

    /// By the entry itself, or else by those that it refers to.
    fn declared(&self, unit: &Unit<Slice<'d>>, entry: &Entry<'d>) -> Option<Place> {
        let mut other;
        let (mut unit, mut entry) = (unit, entry.clone());
        for _ in 0..CHAIN {
            let number = |name| entry.attr_value(name)?.udata_value();
            if let Some(line) = number(gimli::DW_AT_decl_line) {
                // Left out where it is that of the declaration, which comes next.
                let file = entry.attr_value(gimli::DW_AT_decl_file);
                let file = match file {
                    Some(AttributeValue::FileIndex(index)) => Some(index),
                    Some(value) => value.udata_value(),
                    None => self.file_of_declaration(unit, &entry),
                };
                let line = u32::try_from(line).ok()?;
                return Some((self.path(unit, file?)?, line));
            }
            let (at_unit, offset) = self.reference(unit, &entry)?;
            if let Some(header) = at_unit {
                other = self.dwarf.unit(*header).ok()?;
                unit = &other;
                entry = unit.entry(offset).ok()?;
            } else {
                entry = unit.entry(offset).ok()?;
            }
        }
        None
    }

    /// An out-of-class definition may have only its line, when its file is the declaration's.
    fn file_of_declaration(&self, unit: &Unit<Slice<'d>>, entry: &Entry<'d>) -> Option<u64> {
        let (None, offset) = self.reference(unit, entry)? else {
            return None;
        };
        let declaration = unit.entry(offset).ok()?;
        match declaration.attr_value(gimli::DW_AT_decl_file)? {
            AttributeValue::FileIndex(index) => Some(index),
            value => value.udata_value(),
        }
    }

    /// The entry that has the other attributes; with its unit if that is another one.
    fn reference(
        &self,
        unit: &Unit<Slice<'d>>,
        entry: &Entry<'d>,
    ) -> Option<(Option<&UnitHeader<Slice<'d>>>, UnitOffset)> {
        let value = entry
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
        match value {
            AttributeValue::UnitRef(offset) => Some((None, offset)),
            AttributeValue::DebugInfoRef(offset) => {
                let header = self.header_at(offset)?;
                let inside = offset.to_unit_offset(header)?;
                let is_other = header.offset() != unit.header.offset();
                Some((is_other.then_some(header), inside))
            }
            _ => None,
        }
    }

    fn header_at(&self, offset: DebugInfoOffset) -> Option<&UnitHeader<Slice<'d>>> {
        let begins = |header: &UnitHeader<Slice<'d>>| {
            let at = header.debug_info_offset();
            at.is_some_and(|at| at.0 <= offset.0)
        };
        let after = self.headers.partition_point(begins);
        self.headers.get(after.checked_sub(1)?)
    }

    /// Path of a file of the unit's line program (DWARF 5, 6.2.4).
    fn path(&self, unit: &Unit<Slice<'d>>, index: u64) -> Option<String> {
        let header = unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let text = |value| {
            let text = self.dwarf.attr_string(unit, value).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        let folder = file.directory(header).and_then(text).unwrap_or_default();
        let own = unit
            .comp_dir
            .map_or_else(String::new, |folder| folder.to_string_lossy().into_owned());
        let path = join(&folder, &text(file.path_name())?);
        Some(join(&own, &path))
    }
}
