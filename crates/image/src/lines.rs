//! DWARF line lookup, built at the first question.
//!
//! The sections are copied (and decompressed) once; `addr2line` then parses
//! one compilation unit at a time, so that many lookups in a few units are
//! cheap. Limits: split DWARF (`.dwo`) is not followed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::{EndianArcSlice, LittleEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ReadCache, ReadRef};

use crate::addr::LinkAddr;

type Reader = EndianArcSlice<LittleEndian>;

/// Line tables of one image.
pub(crate) struct Lines {
    context: addr2line::Context<Reader>,
}

impl Lines {
    /// From the image itself, else from its debug file.
    pub(crate) fn load(image: &[u8], path: &Path, debug: Option<&Path>) -> Option<Lines> {
        if let Some(lines) = Lines::read(image, path) {
            return Some(lines);
        }
        let debug = debug?;
        Lines::read(&ReadCache::new(File::open(debug).ok()?), debug)
    }

    fn read<'d, R: ReadRef<'d>>(data: R, path: &Path) -> Option<Lines> {
        let file: ElfFile64<'d, object::LittleEndian, R> = ElfFile64::parse(data).ok()?;
        file.section_by_name(".debug_line")?;
        let mut dwarf = sections(&file)?;
        if let Ok(Some((name, _))) = file.gnu_debugaltlink()
            && let Some(other) = alternate(path, name)
        {
            // Without it some names are missing, but no line is.
            let cache = ReadCache::new(File::open(other).ok()?);
            if let Ok(file) = ElfFile64::<object::LittleEndian, _>::parse(&cache) {
                dwarf.set_sup(sections(&file)?);
            }
        }
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        Some(Lines { context })
    }

    pub(crate) fn find(&self, addr: LinkAddr) -> (Option<String>, Option<u32>) {
        match self.context.find_location(addr.0) {
            Ok(Some(place)) => (place.file.map(str::to_owned), place.line),
            _ => (None, None),
        }
    }
}

/// Sections that say where variables live and how macros expand: nothing about
/// lines, and often the largest to decompress.
const UNUSED: [SectionId; 4] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
];

fn sections<'d, R: ReadRef<'d>>(
    file: &ElfFile64<'d, object::LittleEndian, R>,
) -> Option<gimli::Dwarf<Reader>> {
    let load = |id: SectionId| -> Result<Reader, gimli::Error> {
        let bytes = Some(id)
            .filter(|id| !UNUSED.contains(id))
            .and_then(|id| file.section_by_name(id.name()))
            .and_then(|section| section.uncompressed_data().ok())
            .unwrap_or_default();
        Ok(EndianArcSlice::new(Arc::from(&*bytes), LittleEndian))
    };
    gimli::Dwarf::load(load).ok()
}

/// The file `dwz` moved common debug information to.
fn alternate(path: &Path, name: &[u8]) -> Option<PathBuf> {
    let name = Path::new(std::str::from_utf8(name).ok()?);
    Some(path.parent()?.join(name))
}
