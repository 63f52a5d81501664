//! A folder, named relative to an edited program's own, in which it finds its libraries.
//!
//! Problem: an edited program of a folder is to use the libraries that were edited with it, and neither its environment nor its
//! path may say so, as the program sees both and its children inherit them.
//!
//! Approach: the file's own search path (`DT_RPATH`, gABI 5.3) gets the folder as its first entry. Its text stands in a table of
//! strings that is longer, in the new segment. A file without such a path has spare entries in its dynamic section, as GNU's
//! linkers leave some; otherwise the entry gives way that counts relative relocations, which is a hint that loaders do
//! without.
//!
//! A path of the kind that holds for the file itself alone (`DT_RUNPATH`) becomes one that also holds for what it
//! loads.

use object::elf::{self, DynamicTag};
use object::endian::LittleEndian as LE;

use crate::Refused;
use crate::file::File;
use crate::segment::{Contents, Plan};

const STRINGS: &str = ".dynstr";
/// Bytes of an entry of the dynamic section: its kind and its value.
const ENTRY: usize = 16;

/// Has the dynamic linker look into `folder` first.
pub fn search_first(file: &mut File<'_>, plan: &mut Plan, folder: &str) -> Result<(), Refused> {
    let malformed = Refused::Malformed("dynamic section");
    let mut programs = file.programs.iter();
    let dynamic = programs.find(|program| program.p_type.get(LE) == elf::PT_DYNAMIC);
    let (start, size) = match dynamic {
        Some(dynamic) => (dynamic.p_offset.get(LE), dynamic.p_filesz.get(LE)),
        None => return Ok(()),
    };
    let bytes = file.bytes_at(start, size).ok_or(malformed)?;
    let entries = entries(bytes);
    let position = |kind: DynamicTag| entries.iter().position(|entry| entry.0 == kind);
    let value = |kind: DynamicTag| position(kind).map(|at| entries[at].1);
    let (Some(strings), Some(length)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
        return Err(malformed);
    };
    let mut text = file
        .offset_of(strings)
        .and_then(|offset| file.bytes_at(offset, length))
        .ok_or(malformed)?
        .to_vec();
    let (slot, old) = slot(&entries).ok_or(Refused::NoSpareEntry)?;
    let old = old.and_then(|old| text.get(old as usize..)?.split(|&byte| byte == 0).next());
    let old = old.map(<[u8]>::to_vec);
    let path = text.len() as u64;
    text.extend_from_slice(folder.as_bytes());
    if let Some(old) = old {
        text.push(b':');
        text.extend_from_slice(&old);
    }
    text.push(0);

    let mut set = |at: usize, kind: DynamicTag, value: u64| {
        let offset = start + (at * ENTRY) as u64;
        let bytes = [kind.0.to_le_bytes(), value.to_le_bytes()].concat();
        file.patch(offset, bytes, "search path of libraries");
    };
    set(slot, elf::DT_RPATH, path);
    let places = [
        (elf::DT_STRTAB, plan.next(1).0),
        (elf::DT_STRSZ, text.len() as u64),
    ];
    for (kind, value) in places {
        set(position(kind).ok_or(malformed)?, kind, value);
    }
    file.replace_strings(STRINGS, plan.sections());
    plan.push(Contents {
        name: STRINGS,
        kind: elf::SHT_STRTAB,
        is_code: false,
        align: 1,
        bytes: text,
    });
    Ok(())
}

/// Kinds and values of the dynamic section.
fn entries(bytes: &[u8]) -> Vec<(DynamicTag, u64)> {
    let entries = bytes.chunks_exact(ENTRY);
    let entries = entries.map(|entry| {
        let word = |at: usize| entry[at..at + 8].first_chunk().copied().unwrap_or_default();
        let kind = DynamicTag(i64::from_le_bytes(word(0)));
        (kind, u64::from_le_bytes(word(8)))
    });
    entries.collect()
}

/// The entry of the dynamic section for the path, and the place of the path that it has already.
fn slot(entries: &[(DynamicTag, u64)]) -> Option<(usize, Option<u64>)> {
    let position = |kind: DynamicTag| entries.iter().position(|entry| entry.0 == kind);
    let has = [elf::DT_RUNPATH, elf::DT_RPATH]
        .into_iter()
        .find_map(position);
    if let Some(at) = has {
        return Some((at, Some(entries[at].1)));
    }
    let end = position(elf::DT_NULL)?;
    let is_spare = entries
        .get(end + 1)
        .is_some_and(|entry| entry.0 == elf::DT_NULL);
    let count = || position(elf::DT_RELACOUNT);
    is_spare.then_some(end).or_else(count).map(|at| (at, None))
}
