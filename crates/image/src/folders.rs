//! In which folder each unit of a file was compiled: for line programs before
//! DWARF 5, which do not say it themselves.

use std::convert::Infallible;
use std::fs::File;
use std::path::{Path, PathBuf};

use gimli::{Dwarf, DwarfSections, LittleEndian as LE, SectionId};
use hashbrown::HashMap;
use object::read::elf::ElfFile64;
use object::{Object, ReadCache, ReadRef};

use crate::lines::{Slice, section};

/// By offset of the unit's line program. What cannot be read is left out.
pub(crate) fn read(image: &[u8], debug: Option<&Path>) -> HashMap<usize, String> {
    let open = |path: &Path| Some(ReadCache::new(File::open(path).ok()?));
    match debug {
        None => of(image, Path::new("/")),
        Some(path) => open(path).and_then(|cache| of(&cache, path)),
    }
    .unwrap_or_default()
}

fn of<'d, R: ReadRef<'d>>(data: R, path: &Path) -> Option<HashMap<usize, String>> {
    let file: ElfFile64<'d, object::LittleEndian, R> = ElfFile64::parse(data).ok()?;
    let own = load(&file);
    let mut dwarf = borrow(&own);
    // The file `dwz` moved common strings to.
    let other = match file.gnu_debugaltlink() {
        Ok(Some((name, _))) => shared(path, name),
        _ => None,
    };
    if let Some(other) = &other {
        dwarf.set_sup(borrow(other));
    }
    let mut folders = HashMap::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        if let (Some(program), Some(folder)) = (&unit.line_program, &unit.comp_dir) {
            folders.insert(
                program.header().offset().0,
                folder.to_string_lossy().into_owned(),
            );
        }
    }
    Some(folders)
}

fn borrow(sections: &DwarfSections<Vec<u8>>) -> Dwarf<Slice<'_>> {
    sections.borrow(|bytes| Slice::new(bytes, LE))
}

fn shared(path: &Path, name: &[u8]) -> Option<DwarfSections<Vec<u8>>> {
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let path: PathBuf = path.parent()?.join(name);
    let cache = ReadCache::new(File::open(path).ok()?);
    let file: ElfFile64<'_, object::LittleEndian, _> = ElfFile64::parse(&cache).ok()?;
    Some(load(&file))
}

/// Sections that the roots of units refer to.
const NEEDED: [SectionId; 6] = [
    SectionId::DebugAbbrev,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

fn load<'d, R: ReadRef<'d>>(
    file: &ElfFile64<'d, object::LittleEndian, R>,
) -> DwarfSections<Vec<u8>> {
    let load = |id: SectionId| -> Result<Vec<u8>, Infallible> {
        Ok(match NEEDED.contains(&id) {
            true => section(file, id.name()),
            false => Vec::new(),
        })
    };
    let Ok(sections) = DwarfSections::load(load);
    sections
}
