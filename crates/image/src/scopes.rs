//! Functions and what was inlined into them, from DWARF.
//!
//! Approach: one walk over the entries of all units. Functions are kept by their place
//! in the section, because an inlined copy names the abstract function, maybe in
//! another unit; scopes are the entries that have code, each within the one around it.
//!
//! Limits: of the image itself, not of a separate debug file; no split DWARF.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;

use gimli::{AttributeValue, Dwarf, DwarfSections, LittleEndian as LE, SectionId, Unit};
use object::read::elf::ElfFile64;

use crate::addr::LinkAddr;
use crate::lines::{Slice, section};

/// A function's code, or a copy of a function's code that was inlined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The linker's name, or the only one it has.
    pub name: String,
    /// Line of the function's declaration.
    pub line: u32,
    /// Link addresses; the first range begins with the entry.
    pub ranges: Vec<(LinkAddr, LinkAddr)>,
    /// Line and discriminator of the call, for an inlined copy.
    pub call: Option<(u32, u32)>,
    /// Copies of functions that were inlined into it.
    pub inlined: Vec<Scope>,
}

impl Scope {
    pub fn contains(&self, addr: LinkAddr) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(start, end)| (*start..*end).contains(&addr))
    }
}

/// Attributes of a function's entry.
#[derive(Default)]
struct Named {
    linkage: Option<String>,
    name: Option<String>,
    line: Option<u32>,
    /// Entry with the other attributes: the abstract function, or the declaration.
    more: Option<usize>,
}

/// By where an entry is in the section.
type Functions = HashMap<usize, Named>;

/// Deepest chain of entries that say more of a function; a longer one is damage.
const CHAIN: usize = 8;

/// Scopes within each other beyond which a file is ill-made.
const DEPTH: usize = 500;

/// All functions with code, as the image has them, else its debug file.
pub(crate) fn of<'d>(image: &[u8], debug: impl FnOnce() -> Option<&'d Path>) -> Vec<Scope> {
    let own = read(image);
    let separate = || std::fs::read(debug()?).ok();
    match own.is_empty().then(separate).flatten() {
        Some(bytes) => read(&bytes),
        None => own,
    }
}

fn read(image: &[u8]) -> Vec<Scope> {
    let Ok(file) = ElfFile64::<object::LittleEndian, _>::parse(image) else {
        return Vec::new();
    };
    let load = |id: SectionId| -> Result<Vec<u8>, Infallible> { Ok(section(&file, id.name())) };
    let Ok(sections) = DwarfSections::load(load);
    let dwarf: Dwarf<Slice<'_>> = sections.borrow(|bytes| Slice::new(bytes, LE));
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        units.extend(dwarf.unit(header));
    }
    let mut functions = Functions::new();
    for unit in &units {
        collect(&dwarf, unit, &mut functions);
    }
    let mut scopes = Vec::new();
    for unit in &units {
        scopes.extend(scopes_of(&dwarf, unit, &functions));
    }
    scopes
}

type Entry<'d> = gimli::DebuggingInformationEntry<Slice<'d>>;

fn collect<'d>(dwarf: &Dwarf<Slice<'d>>, unit: &Unit<Slice<'d>>, functions: &mut Functions) {
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let Some(place) = entry.offset().to_debug_info_offset(&unit.header) else {
            continue;
        };
        let text = |name| {
            let text = dwarf.attr_string(unit, entry.attr_value(name)?).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        let linkage = text(gimli::DW_AT_linkage_name);
        let named = Named {
            linkage: linkage.or_else(|| text(gimli::DW_AT_MIPS_linkage_name)),
            name: text(gimli::DW_AT_name),
            line: number(entry, gimli::DW_AT_decl_line),
            more: reference(unit, entry, gimli::DW_AT_abstract_origin)
                .or_else(|| reference(unit, entry, gimli::DW_AT_specification)),
        };
        functions.insert(place.0, named);
    }
}

fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u32> {
    let value = entry.attr_value(name)?.udata_value()?;
    u32::try_from(value).ok()
}

fn reference<'d>(unit: &Unit<Slice<'d>>, entry: &Entry<'d>, name: gimli::DwAt) -> Option<usize> {
    match entry.attr_value(name)? {
        AttributeValue::UnitRef(offset) => Some(offset.to_debug_info_offset(&unit.header)?.0),
        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

fn scopes_of<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    unit: &Unit<Slice<'d>>,
    functions: &Functions,
) -> Vec<Scope> {
    let mut done = Vec::new();
    // The scopes around the current entry, with their depths in the tree of entries.
    let mut open: Vec<(isize, Scope)> = Vec::new();
    let close = |open: &mut Vec<(isize, Scope)>, done: &mut Vec<Scope>| {
        if let Some((_, scope)) = open.pop() {
            match open.last_mut() {
                Some((_, around)) if scope.call.is_some() => around.inlined.push(scope),
                _ => done.push(scope),
            }
        }
    };
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        let depth = entry.depth();
        while open.last().is_some_and(|(around, _)| *around >= depth) {
            close(&mut open, &mut done);
        }
        let scope = scope(dwarf, unit, functions, entry);
        if let Some(scope) = scope.filter(|_| open.len() < DEPTH) {
            open.push((depth, scope));
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut done);
    }
    done
}

/// If the entry has code.
fn scope<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    unit: &Unit<Slice<'d>>,
    functions: &Functions,
    entry: &Entry<'d>,
) -> Option<Scope> {
    let (place, call) = match entry.tag() {
        gimli::DW_TAG_subprogram => {
            let place = entry.offset().to_debug_info_offset(&unit.header)?;
            (place.0, None)
        }
        gimli::DW_TAG_inlined_subroutine => {
            let line = number(entry, gimli::DW_AT_call_line).unwrap_or(0);
            let discriminator = number(entry, gimli::DW_AT_GNU_discriminator).unwrap_or(0);
            let place = reference(unit, entry, gimli::DW_AT_abstract_origin)?;
            (place, Some((line, discriminator)))
        }
        _ => return None,
    };
    let mut ranges = Vec::new();
    let mut found = dwarf.die_ranges(unit, entry).ok()?;
    while let Ok(Some(range)) = found.next() {
        // Code that the linker left out lies at 0.
        if range.begin != 0 && range.begin < range.end {
            ranges.push((LinkAddr(range.begin), LinkAddr(range.end)));
        }
    }
    let (name, line) = name_of(functions, place)?;
    (!ranges.is_empty()).then_some(Scope {
        name,
        line,
        ranges,
        call,
        inlined: Vec::new(),
    })
}

/// Name and line by the function's entry, or else by those that it refers to.
fn name_of(functions: &Functions, place: usize) -> Option<(String, u32)> {
    let (mut linkage, mut name, mut line) = (None, None, None);
    let mut next = Some(place);
    for _ in 0..CHAIN {
        let Some(function) = next.and_then(|place| functions.get(&place)) else {
            break;
        };
        linkage = linkage.or(function.linkage.as_ref());
        name = name.or(function.name.as_ref());
        line = line.or(function.line);
        next = function.more;
    }
    Some((linkage.or(name)?.clone(), line?))
}
