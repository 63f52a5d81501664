//! A file without what is hardly ever asked for.
//!
//! Problem: most of a large program is code and constants, of which nobody here
//! reads a byte, and reading all costs more than everything that is made of the
//! rest: node has 99 MB, 24 of them symbols and unwind tables.
//!
//! Approach: bytes as long as the file, with holes (zeros) where large sections
//! of code and constants are. Code is wanted after all when a part of a function
//! has no name; then it is read from the file, if that is still the same.
//!
//! Invariant: a hole overlaps no other section, and nothing that a program header
//! other than those of whole segments describes. So everything that is found
//! through either table is there.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::read::elf::SectionHeader;
use object::{LittleEndian as LE, ReadCache, elf};

use crate::cache::Version;
use crate::elf::Elf;

/// Smaller sections are read: it costs as much to leave them out.
const SMALLEST: u64 = 64 << 10;

/// Parts of a file that were not read, and how to read them.
pub(crate) struct Holes {
    path: PathBuf,
    version: Version,
    /// File offsets, ascending and disjoint.
    ranges: Vec<Range<u64>>,
}

/// The whole file, or the file with holes.
pub(crate) fn read(path: &Path) -> io::Result<(Vec<u8>, Option<Holes>)> {
    match with_holes(path) {
        Some((bytes, holes)) => Ok((bytes, Some(holes))),
        None => Ok((fs::read(path)?, None)),
    }
}

fn with_holes(path: &Path) -> Option<(Vec<u8>, Holes)> {
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let ranges = holes_of(&file, meta.len())?;
    let len = usize::try_from(meta.len()).ok()?;
    // An error here, not the end of the process below.
    Vec::<u8>::new().try_reserve_exact(len).ok()?;
    let mut bytes = vec![0; len];
    let ends = ranges.iter().map(|hole| hole.start).chain([meta.len()]);
    let mut from = 0;
    for (i, to) in ends.enumerate() {
        file.read_exact_at(&mut bytes[from as usize..to as usize], from)
            .ok()?;
        from = ranges.get(i).map_or(to, |hole| hole.end);
    }
    let holes = Holes {
        path: path.to_owned(),
        version: Version::from(&meta),
        ranges,
    };
    Some((bytes, holes))
}

/// `None` where there are none.
fn holes_of(file: &File, len: u64) -> Option<Vec<Range<u64>>> {
    if len < SMALLEST {
        return None;
    }
    let cache = ReadCache::new(file);
    let elf = Elf::parse(&cache).ok()?;
    let place = |section: &elf::SectionHeader64<LE>| {
        let start = section.sh_offset(LE);
        start..start.saturating_add(section.sh_size(LE))
    };
    let in_file = || {
        elf.sections
            .iter()
            .filter(|section| section.sh_type(LE) != elf::SHT_NOBITS)
    };
    let mut holes: Vec<Range<u64>> = elf
        .placed_sections()
        .filter(|(name, section)| {
            let code = section.sh_flags(LE).0 & elf::SHF_EXECINSTR.0 != 0;
            let constants = matches!(*name, b".rodata" | b".lrodata");
            (code || constants) && section.sh_type(LE) == elf::SHT_PROGBITS
        })
        .map(|(_, section)| place(section))
        .filter(|hole| hole.end <= len && hole.end - hole.start >= SMALLEST)
        .collect();
    holes.retain(|hole| {
        let overlaps = |section| {
            let other = place(section);
            other.start < hole.end && hole.start < other.end
        };
        // Itself.
        let alone = in_file().filter(|section| overlaps(section)).count() == 1;
        let described = elf
            .described()
            .any(|other| other.start < hole.end && hole.start < other.end);
        alone && !described
    });
    holes.sort_unstable_by_key(|hole| hole.start);
    (!holes.is_empty()).then_some(holes)
}

impl Holes {
    /// The bytes of a range of the file if it has a hole in it and the file is
    /// still the same.
    pub(crate) fn fill(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let hole = |hole: &Range<u64>| hole.start < range.end && range.start < hole.end;
        if !self.ranges.iter().any(hole) {
            return None;
        }
        let file = File::open(&self.path).ok()?;
        let meta = file.metadata().ok()?;
        if Version::from(&meta) != self.version || range.end > meta.len() {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        file.read_exact_at(&mut bytes, range.start).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_hole_is_as_in_the_file() {
        let path = std::env::current_exe().unwrap();
        let whole = fs::read(&path).unwrap();
        let (bytes, holes) = read(&path).unwrap();
        let holes = holes.expect("a test program has more than 64 KB of code");
        assert_eq!(bytes.len(), whole.len());
        let in_hole = |at: usize| holes.ranges.iter().any(|hole| hole.contains(&(at as u64)));
        for (at, (byte, right)) in bytes.iter().zip(&whole).enumerate() {
            assert_eq!(*byte, if in_hole(at) { 0 } else { *right }, "at {at}");
        }
        let hole = holes.ranges[0].clone();
        let around = hole.start - 8..hole.end + 8;
        let right = &whole[around.start as usize..around.end as usize];
        assert_eq!(holes.fill(around).as_deref(), Some(right));
        assert_eq!(holes.fill(0..64), None);
    }

    #[test]
    fn holes_are_not_filled_from_another_file() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("everypath-sparse-{}", std::process::id()));
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let (_, holes) = read(&path).unwrap();
        let holes = holes.unwrap();
        let hole = holes.ranges[0].clone();
        assert!(holes.fill(hole.clone()).is_some());
        fs::remove_file(&path).unwrap();
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        assert_eq!(holes.fill(hole), None);
        fs::remove_file(&path).unwrap();
    }
}
