//! A segment more, behind all others, in the place of a program header that programs run without.
//!
//! | header | what is lost without it |
//! |---|---|
//! | `PT_GNU_PROPERTY` | the mark for indirect branch tracking and shadow stacks |
//! | `PT_NOTE` of `.note.gnu.property` | the same, for older linkers |
//! | `PT_NOTE` without build id | what it says of the processor or the system that is needed |
//! | `PT_NOTE` of the build id | the build id in core dumps; the section stays |
//! | `PT_PHDR` of a library | nothing: the dynamic linker finds the table by the first segment |
//!
//! Loaded segments stay in the order of their addresses, as the kernel and the dynamic linker want them: the new header comes
//! behind the last of them, and those between it and the spare one move up by one.

use object::elf::{self, SectionFlags, SectionType};
use object::endian::{LittleEndian as LE, U32, U64};

use crate::Refused;
use crate::address::New;
use crate::file::{File, Program};

const PAGE: u64 = 0x1000;
/// Displacements reach so far.
const REACH: u64 = 1 << 31;

/// Contents of a new section.
pub struct Contents {
    pub name: &'static str,
    pub kind: SectionType,
    pub is_code: bool,
    pub align: u64,
    pub bytes: Vec<u8>,
}

/// A new section, where it is.
pub struct NewSection {
    pub name: &'static str,
    pub kind: SectionType,
    pub flags: SectionFlags,
    pub addr: u64,
    pub offset: u64,
    pub size: u64,
    pub align: u64,
}

/// A segment whose contents are not all known yet.
pub struct Plan {
    /// The first loaded address of the file.
    first: u64,
    offset: u64,
    addr: u64,
    bytes: Vec<u8>,
    sections: Vec<NewSection>,
    grown: Option<Grown>,
}

/// A segment of the file that grows.
#[derive(Clone, Copy)]
struct Grown {
    /// Its number among those that are loaded.
    number: usize,
    end: u64,
}

/// The new segment.
pub struct Added {
    pub offset: u64,
    pub addr: u64,
    pub bytes: Vec<u8>,
    pub sections: Vec<NewSection>,
    /// The header that it took the place of.
    pub spare: &'static str,
}

impl Plan {
    pub fn new(file: &File<'_>) -> Result<Plan, Refused> {
        let (first, last) = extent(file)?;
        let offset = file.input.len() as u64;
        Ok(Plan {
            first,
            offset,
            // Address and offset are the same number within a page.
            addr: last.next_multiple_of(PAGE) + offset % PAGE,
            bytes: Vec::new(),
            sections: Vec::new(),
            grown: None,
        })
    }

    /// Has the last segment with data that has room behind it grow by so many bytes of zeros, whole pages; gives their address. Nothing
    /// was pushed before.
    pub fn grow(&mut self, file: &File<'_>, size: u64) -> Result<New, Refused> {
        let loads: Vec<&Program> = file.loads().collect();
        let is_data = |load: &Program| load.p_flags.get(LE) & (elf::PF_W | elf::PF_X) == elf::PF_W;
        for (number, load) in loads.iter().enumerate().rev() {
            let end = load.p_vaddr.get(LE) + load.p_memsz.get(LE);
            let start = end.next_multiple_of(PAGE);
            let end = start + size.next_multiple_of(PAGE);
            let next = loads.get(number + 1);
            let next = next.map(|next| next.p_vaddr.get(LE) / PAGE * PAGE);
            if !is_data(load) || size >= REACH || next.is_some_and(|next| next < end) {
                continue;
            }
            if next.is_none() {
                self.addr += end - (self.addr - self.offset % PAGE);
            }
            self.grown = Some(Grown { number, end });
            return Ok(New(start));
        }
        Err(Refused::NoData)
    }

    /// Gives what a segment grew by a section, as `strip` keeps nothing else.
    pub fn cover(&mut self, name: &'static str, start: New) {
        let Some(Grown { end, .. }) = self.grown else {
            return;
        };
        self.sections.push(NewSection {
            name,
            kind: elf::SHT_NOBITS,
            flags: elf::SHF_ALLOC | elf::SHF_WRITE,
            addr: start.0,
            offset: self.offset,
            size: end - start.0,
            align: PAGE,
        });
    }

    /// The address that contents of this alignment will have.
    pub fn next(&self, align: u64) -> New {
        New(self.addr + self.bytes.len() as u64).aligned(align)
    }

    /// Number of sections that were pushed so far.
    pub fn sections(&self) -> usize {
        self.sections.len()
    }

    /// The offset in the file of an address of the segment.
    pub fn offset_of(&self, addr: New) -> u64 {
        self.offset + addr.behind(New(self.addr))
    }

    pub fn push(&mut self, contents: Contents) {
        let addr = self.next(contents.align);
        self.bytes.resize(addr.behind(New(self.addr)) as usize, 0);
        self.sections.push(NewSection {
            name: contents.name,
            kind: contents.kind,
            flags: match contents.is_code {
                true => elf::SHF_ALLOC | elf::SHF_EXECINSTR,
                false => elf::SHF_ALLOC,
            },
            addr: addr.0,
            offset: self.offset_of(addr),
            size: contents.bytes.len() as u64,
            align: contents.align,
        });
        self.bytes.extend_from_slice(&contents.bytes);
    }
}

/// Adds a segment that can be read and executed.
pub fn add(file: &mut File<'_>, plan: Plan) -> Result<Added, Refused> {
    let Plan {
        first,
        offset,
        addr,
        bytes,
        sections,
        grown,
    } = plan;
    let size = bytes.len() as u64;
    if addr
        .checked_add(size)
        .is_none_or(|end| end - first >= REACH)
    {
        return Err(Refused::NoRoom);
    }
    let spare = spare(file);
    if spare.is_none() && !file.make_room_for_header() {
        return Err(Refused::NoSpareHeader);
    }
    let new = Program {
        p_type: U32::new(LE, elf::PT_LOAD),
        p_flags: U32::new(LE, elf::PF_R | elf::PF_X),
        p_offset: U64::new(LE, offset),
        p_vaddr: U64::new(LE, addr),
        p_paddr: U64::new(LE, addr),
        p_filesz: U64::new(LE, size),
        p_memsz: U64::new(LE, size),
        p_align: U64::new(LE, PAGE),
    };
    if let Some(Grown { number, end }) = grown {
        let loads = file.programs.iter_mut();
        let mut loads = loads.filter(|program| program.p_type.get(LE) == elf::PT_LOAD);
        if let Some(load) = loads.nth(number) {
            load.p_memsz.set(LE, end - load.p_vaddr.get(LE));
        }
    }
    let name = match spare {
        Some((spare, name)) => {
            file.programs.remove(spare);
            name
        }
        None => "zeros behind the others",
    };
    let is_load = |program: &Program| program.p_type.get(LE) == elf::PT_LOAD;
    let last = file.programs.iter().rposition(is_load);
    file.programs.insert(last.map_or(0, |last| last + 1), new);
    Ok(Added {
        offset,
        addr,
        bytes,
        sections,
        spare: name,
    })
}

/// First and last address of the loaded segments, which must be in order.
fn extent(file: &File<'_>) -> Result<(u64, u64), Refused> {
    let malformed = Refused::Malformed("program header table");
    let (mut first, mut last) = (None, 0);
    for load in file.loads() {
        let start = load.p_vaddr.get(LE);
        let end = start.checked_add(load.p_memsz.get(LE)).ok_or(malformed)?;
        if start < last {
            return Err(malformed);
        }
        first = first.or(Some(start));
        last = end;
    }
    // The highest addresses are the kernel's.
    match first {
        Some(first) if last < 1 << 47 => Ok((first, last)),
        _ => Err(malformed),
    }
}

/// The header that is least missed, and its name.
fn spare(file: &File<'_>) -> Option<(usize, &'static str)> {
    let programs = file.programs.iter().enumerate();
    let of_kind = |kind| {
        let all = programs.clone();
        all.filter(move |(_, program)| program.p_type.get(LE) == kind)
    };
    if let Some((at, _)) = of_kind(elf::PT_GNU_PROPERTY).next() {
        return Some((at, "PT_GNU_PROPERTY"));
    }
    let notes: Vec<(usize, bool)> = of_kind(elf::PT_NOTE)
        .map(|(at, program)| (at, has_build_id(file, program)))
        .collect();
    let other = notes.iter().find(|(_, has_id)| !has_id);
    if let Some(&(at, _)) = other {
        return Some((at, "PT_NOTE"));
    }
    if let Some(&(at, _)) = notes.first() {
        return Some((at, "PT_NOTE of the build id"));
    }
    let is_library = of_kind(elf::PT_INTERP).next().is_none();
    let table = of_kind(elf::PT_PHDR).next().filter(|_| is_library);
    table.map(|(at, _)| (at, "PT_PHDR"))
}

/// Whether a segment of notes has the build id.
fn has_build_id(file: &File<'_>, program: &Program) -> bool {
    const NT_GNU_BUILD_ID: [u8; 4] = [3, 0, 0, 0];
    let start = program.p_offset.get(LE) as usize;
    let end = start.saturating_add(program.p_filesz.get(LE) as usize);
    let bytes = file.input.get(start..end).unwrap_or_default();
    // Size of the name, of the id, and its type.
    let mut windows = bytes.windows(16);
    windows.any(|window| window[8..12] == NT_GNU_BUILD_ID && &window[12..16] == b"GNU\0")
}
