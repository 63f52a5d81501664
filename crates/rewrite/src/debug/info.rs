//! `.debug_info` and `.debug_addr`, with values overwritten at their places.
//!
//! An entry's length may have no room for a longer one (`DW_FORM_data1`): then it keeps the old one, which is at most some bytes too
//! short.

use gimli::constants as dw;
use gimli::{AttributeSpecification, AttributeValue, Dwarf, Format, Unit, UnitSectionOffset};
use image::LinkAddr;

use super::lines::Lines;
use super::ranges::Lists;
use super::{Moves, Slice};
use crate::address::{self, New};
use crate::file::File;
use crate::versions::Version;

/// An attribute and the place of its value in the section.
struct Found<'d> {
    spec: AttributeSpecification,
    value: AttributeValue<Slice<'d>>,
    at: usize,
}

/// Both sections with new values; `None`: something is not understood.
pub fn write(
    dwarf: &Dwarf<Slice<'_>>,
    file: &File<'_>,
    moves: &Moves<'_>,
    lines: &Lines,
    lists: &mut Lists,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut writer = Writer {
        dwarf,
        moves,
        lines,
        lists,
        info: file.section(".debug_info")?.1.to_vec(),
    };
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().ok()? {
        if header.format() != Format::Dwarf32 || header.encoding().address_size != 8 {
            return None;
        }
        let UnitSectionOffset(start) = header.offset();
        let unit = dwarf.unit(header).ok()?;
        writer.unit(&unit, start)?;
    }
    let addresses = file
        .section(".debug_addr")
        .map_or(&[][..], |(_, bytes)| bytes);
    Some((writer.info, table(addresses, moves)?))
}

/// `.debug_addr`: headers of eight bytes, then addresses.
fn table(section: &[u8], moves: &Moves<'_>) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    let mut out = section.to_vec();
    let mut at = 0;
    while at < out.len() {
        let length = u32::from_le_bytes(out.get(at..)?.first_chunk().copied()?) as usize;
        let end = at.checked_add(4)?.checked_add(length)?;
        for entry in out.get_mut(at + HEADER..end)?.chunks_exact_mut(8) {
            let old = LinkAddr(u64::from_le_bytes(entry.first_chunk().copied()?));
            if let Some(new) = moves.moved(old) {
                entry.copy_from_slice(&new.0.to_le_bytes());
            }
        }
        at = end;
    }
    Some(out)
}

struct Writer<'w, 'd> {
    dwarf: &'w Dwarf<Slice<'d>>,
    moves: &'w Moves<'w>,
    lines: &'w Lines,
    lists: &'w mut Lists,
    info: Vec<u8>,
}

impl<'d> Writer<'_, 'd> {
    fn unit(&mut self, unit: &Unit<Slice<'d>>, start: usize) -> Option<()> {
        let mut entries = unit.entries_raw(None).ok()?;
        let mut found = Vec::new();
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation().ok()? else {
                continue;
            };
            found.clear();
            for &spec in abbreviation.attributes() {
                let at = start + entries.next_offset().0;
                let value = entries.read_attribute(spec).ok()?.value();
                found.push(Found { spec, value, at });
            }
            self.entry(unit, abbreviation.tag(), &found)?;
        }
        Some(())
    }

    /// Overwrites what an entry says of addresses.
    fn entry(
        &mut self,
        unit: &Unit<Slice<'d>>,
        tag: gimli::DwTag,
        found: &[Found<'d>],
    ) -> Option<()> {
        let of = |name| found.iter().find(|one| one.spec.name() == name);
        let low = of(dw::DW_AT_low_pc);
        let start = match low {
            Some(low) => self.dwarf.attr_address(unit, low.value).ok()?,
            None => None,
        };
        if let (Some(low), Some(start), Some(high)) = (low, start, of(dw::DW_AT_high_pc)) {
            // Versions of a function stand one behind the other; what is within one of them is known in the first only.
            let has_versions = matches!(tag, dw::DW_TAG_compile_unit | dw::DW_TAG_subprogram);
            self.range(low, LinkAddr(start), high, has_versions)?;
        }
        for one in found {
            match one.spec.name() {
                dw::DW_AT_low_pc if of(dw::DW_AT_high_pc).is_some() => {}
                dw::DW_AT_high_pc => {}
                dw::DW_AT_ranges => self.list(unit, one)?,
                _ if matches!(
                    one.value,
                    AttributeValue::LocationListsRef(_) | AttributeValue::DebugLocListsIndex(_)
                ) =>
                {
                    self.locations(unit, one)?;
                }
                dw::DW_AT_stmt_list => {
                    if let AttributeValue::DebugLineRef(old) = one.value {
                        let new = *self.lines.offsets.get(&old.0)?;
                        self.put(one.at, &(new as u32).to_le_bytes())?;
                    }
                }
                _ => {
                    if let (dw::DW_FORM_addr, AttributeValue::Addr(old)) =
                        (one.spec.form(), one.value)
                        && let Some(new) = self.moves.moved(LinkAddr(old))
                    {
                        self.put(one.at, &new.0.to_le_bytes())?;
                    }
                }
            }
        }
        Some(())
    }

    /// A range by its start and its end or length.
    fn range(
        &mut self,
        low: &Found<'d>,
        start: LinkAddr,
        high: &Found<'d>,
        has_versions: bool,
    ) -> Option<()> {
        let end = match high.value {
            AttributeValue::Addr(end) => LinkAddr(end),
            ref length => LinkAddr(start.0.checked_add(length.udata_value()?)?),
        };
        // A unit gets the range of its functions that moved, which are one behind the other.
        let all = match has_versions {
            true => self.moves.ranges(start..end),
            false => self.moves.ranges_in(Version::FIRST, start..end),
        };
        let moved = all
            .iter()
            .filter(|range| !(New::of_old(start)..New::of_old(end)).contains(&range.start));
        let Some(new) = moved
            .cloned()
            .reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
        else {
            return Some(());
        };
        if low.spec.form() == dw::DW_FORM_addr {
            self.put(low.at, &new.start.0.to_le_bytes())?;
        }
        let length = address::len(&new);
        match high.spec.form() {
            dw::DW_FORM_addr => self.put(high.at, &new.end.0.to_le_bytes()),
            dw::DW_FORM_data1 => self.put(
                high.at,
                &u8::try_from(length).unwrap_or(u8::MAX).to_le_bytes(),
            ),
            dw::DW_FORM_data2 => self.put(
                high.at,
                &u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes(),
            ),
            dw::DW_FORM_data4 => self.put(high.at, &u32::try_from(length).ok()?.to_le_bytes()),
            dw::DW_FORM_data8 => self.put(high.at, &length.to_le_bytes()),
            _ => Some(()),
        }
    }

    /// A list of ranges: another one is added, and this entry leads to it.
    fn list(&mut self, unit: &Unit<Slice<'d>>, found: &Found<'d>) -> Option<()> {
        let Some(mut old) = self.dwarf.attr_ranges(unit, found.value).ok()? else {
            return Some(());
        };
        let mut new = Vec::new();
        while let Some(range) = old.next().ok()? {
            new.extend(
                self.moves
                    .ranges(LinkAddr(range.begin)..LinkAddr(range.end)),
            );
        }
        let place = self.lists.add_ranges(unit.encoding().version, &new);
        match found.value {
            AttributeValue::DebugRngListsIndex(index) => {
                let base = unit.rnglists_base.0;
                self.lists.set_offset(true, base, index.0, place)
            }
            _ => self.put(found.at, &place.to_le_bytes()),
        }
    }

    /// A list of locations, likewise.
    fn locations(&mut self, unit: &Unit<Slice<'d>>, found: &Found<'d>) -> Option<()> {
        let Some(mut old) = self.dwarf.attr_locations(unit, found.value).ok()? else {
            return Some(());
        };
        let mut new = Vec::new();
        while let Some(entry) = old.next().ok()? {
            let ranges = {
                let old = entry.range;
                self.moves.ranges(LinkAddr(old.begin)..LinkAddr(old.end))
            };
            let expression = entry.data.0.slice();
            new.extend(ranges.into_iter().map(|range| (range, expression)));
        }
        let place = self.lists.add_locations(unit.encoding().version, &new)?;
        match found.value {
            AttributeValue::DebugLocListsIndex(index) => {
                let base = unit.loclists_base.0;
                self.lists.set_offset(false, base, index.0, place)
            }
            _ => self.put(found.at, &place.to_le_bytes()),
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let place = self.info.get_mut(at..at.checked_add(bytes.len())?)?;
        place.copy_from_slice(bytes);
        Some(())
    }
}
