//! Headers of an ELF file, read as the kernel and the dynamic linker do.
//!
//! Problem: `object`'s `ElfFile` refuses a file whose section table is
//! damaged, but the kernel never looks at sections and runs it.
//! Approach: program headers must be right, sections are used when present,
//! and everything that has a `PT_DYNAMIC` or `PT_GNU_EH_FRAME` twin is found
//! through it when the section is missing.
//! Limits: the number of dynamic symbols without sections is taken from the
//! distance between `DT_SYMTAB` and `DT_STRTAB`, as linkers place them.

use std::ops::Range;

use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{LittleEndian as LE, ReadRef};

use crate::addr::{FileOffset, LinkAddr, Segment, to_file};
use crate::error::Fault;

type Header = elf::FileHeader64<LE>;
type Section = elf::SectionHeader64<LE>;

/// How the program loader treats the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// `ET_EXEC`: runs only at its link addresses.
    Fixed,
    /// A position-independent program, static or dynamic.
    Pie,
    /// A shared library (the dynamic linker and the vdso among them).
    Shared,
}

/// The parsed frame of a file; everything else is read through it.
pub(crate) struct Elf<'d, R: ReadRef<'d>> {
    pub(crate) data: R,
    pub(crate) header: &'d Header,
    pub(crate) sections: SectionTable<'d, Header, R>,
    pub(crate) segments: Vec<Segment>,
    programs: &'d [elf::ProgramHeader64<LE>],
}

/// Contents of `PT_DYNAMIC`; addresses as linked.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    pub(crate) present: bool,
    pub(crate) needed: Vec<String>,
    pub(crate) soname: Option<String>,
    pub(crate) rpath: Option<String>,
    pub(crate) runpath: Option<String>,
    pub(crate) init: Option<u64>,
    pub(crate) fini: Option<u64>,
    /// `DT_PREINIT_ARRAY`, `DT_INIT_ARRAY`, `DT_FINI_ARRAY` as address ranges.
    pub(crate) arrays: Vec<Range<u64>>,
    pub(crate) rela: Range<u64>,
    /// Relocations of the procedure linkage table, and packed relative ones.
    pub(crate) jmprel: Range<u64>,
    pub(crate) relr: Range<u64>,
    pub(crate) symtab: Option<u64>,
    pub(crate) strtab: Option<u64>,
    pub(crate) strsz: u64,
    pub(crate) pie: bool,
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    pub(crate) fn parse(data: R) -> Result<Self, Fault> {
        let present = data.len().map_err(|()| Fault::Empty)?;
        let header = file_header(data, present)?;
        let table_end = header
            .e_phoff
            .get(LE)
            .saturating_add(u64::from(header.e_phnum.get(LE)) * 56);
        if table_end > present {
            return Err(Fault::Truncated {
                what: "the program header table",
                needed: table_end,
                present,
            });
        }
        let programs = header
            .program_headers(LE, data)
            .map_err(|_| Fault::Malformed {
                what: "program header table",
            })?;
        let segments = loadable(programs, present);
        if segments.is_empty() {
            return Err(Fault::NothingToLoad);
        }
        Ok(Elf {
            data,
            header,
            sections: header.sections(LE, data).unwrap_or_default(),
            segments,
            programs,
        })
    }

    pub(crate) fn section(&self, name: &[u8]) -> Option<&'d Section> {
        self.sections
            .section_by_name(LE, name)
            .map(|(_, section)| section)
    }

    /// All sections that occupy memory and the file: name, flags and place.
    pub(crate) fn placed_sections(&self) -> impl Iterator<Item = (&'d [u8], &'d Section)> + '_ {
        self.sections.iter().filter_map(|section| {
            let flags = section.sh_flags(LE);
            let placed = flags.0 & elf::SHF_ALLOC.0 != 0 && section.sh_type(LE) != elf::SHT_NOBITS;
            let name = self.sections.section_name(LE, section).unwrap_or_default();
            placed.then_some((name, section))
        })
    }

    /// File bytes from a link address to the end of its segment.
    pub(crate) fn bytes_from(&self, addr: u64) -> Option<&'d [u8]> {
        let offset = to_file(&self.segments, LinkAddr(addr))?;
        let segment = self
            .segments
            .iter()
            .find(|segment| addr >= segment.addr.0 && addr - segment.addr.0 < segment.file_size)?;
        let left = segment.file_size - (addr - segment.addr.0);
        self.data.read_bytes_at(offset.0, left).ok()
    }

    /// File bytes of a range of link addresses, cut at the segment's end.
    pub(crate) fn bytes_in(&self, range: &Range<u64>) -> Option<&'d [u8]> {
        let all = self.bytes_from(range.start)?;
        let want = range.end.saturating_sub(range.start).min(all.len() as u64);
        Some(&all[..want as usize])
    }

    pub(crate) fn program(&self, kind: elf::ProgramType) -> Option<&'d elf::ProgramHeader64<LE>> {
        self.programs
            .iter()
            .find(|program| program.p_type(LE) == kind)
    }

    /// File ranges that program headers name for a purpose of their own: dynamic
    /// section, interpreter, notes, unwind table. Not those of whole segments.
    pub(crate) fn described(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        const WHOLE: [elf::ProgramType; 3] = [elf::PT_LOAD, elf::PT_GNU_RELRO, elf::PT_TLS];
        self.programs
            .iter()
            .filter(|program| !WHOLE.contains(&program.p_type(LE)))
            .map(|program| {
                let start = program.p_offset(LE);
                start..start.saturating_add(program.p_filesz(LE))
            })
    }

    pub(crate) fn interpreter(&self) -> Option<String> {
        let program = self.program(elf::PT_INTERP)?;
        let bytes = program.data(LE, self.data).ok()?;
        Some(until_nul(bytes))
    }

    pub(crate) fn build_id(&self) -> Option<Vec<u8>> {
        let from_programs = self.programs.iter().find_map(|program| {
            let mut notes = program.notes(LE, self.data).ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                    return Some(note.desc().to_vec());
                }
            }
            None
        });
        // Separate debug files keep the note's section only.
        from_programs.or_else(|| {
            let section = self.section(b".note.gnu.build-id")?;
            let mut notes = section.notes(LE, self.data).ok()??;
            let note = notes.next().ok()??;
            Some(note.desc().to_vec())
        })
    }

    /// Bytes of the file that its segments claim but it does not have.
    pub(crate) fn missing_bytes(&self) -> u64 {
        let present = self.data.len().unwrap_or(0);
        self.programs
            .iter()
            .filter(|program| program.p_type(LE) == elf::PT_LOAD)
            .map(|program| {
                let end = program.p_offset(LE).saturating_add(program.p_filesz(LE));
                end.saturating_sub(present)
            })
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn dynamic(&self) -> Dynamic {
        let mut found = Dynamic::default();
        let Some(program) = self.program(elf::PT_DYNAMIC) else {
            return found;
        };
        let Ok(Some(entries)) = program.dynamic(LE, self.data) else {
            return found;
        };
        found.present = true;
        let entries: Vec<(elf::DynamicTag, u64)> = entries
            .iter()
            .map(|entry| (entry.tag(LE), entry.val(LE)))
            .take_while(|&(tag, _)| tag != elf::DT_NULL)
            .collect();
        found.read(&entries);
        found.read_strings(self, &entries);
        found
    }

    pub(crate) fn kind(&self, dynamic: &Dynamic) -> ImageKind {
        let interpreted = self.program(elf::PT_INTERP).is_some();
        match self.header.e_type(LE) {
            elf::ET_EXEC => ImageKind::Fixed,
            // libc.so.6 has an interpreter and a soname; it is a library.
            _ if dynamic.pie || (interpreted && dynamic.soname.is_none()) => ImageKind::Pie,
            _ => ImageKind::Shared,
        }
    }
}

impl Dynamic {
    fn read(&mut self, entries: &[(elf::DynamicTag, u64)]) {
        let value = |tag| {
            let entry = entries.iter().find(|&&(found, _)| found == tag)?;
            Some(entry.1)
        };
        let range = |start, size| {
            let start = value(start)?;
            Some(start..start.checked_add(value(size)?)?)
        };
        self.init = value(elf::DT_INIT).filter(|&addr| addr != 0);
        self.fini = value(elf::DT_FINI).filter(|&addr| addr != 0);
        self.arrays = [
            range(elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ),
            range(elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ),
            range(elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ),
        ]
        .into_iter()
        .flatten()
        .collect();
        self.rela = range(elf::DT_RELA, elf::DT_RELASZ).unwrap_or(0..0);
        self.jmprel = range(elf::DT_JMPREL, elf::DT_PLTRELSZ).unwrap_or(0..0);
        self.relr = range(elf::DT_RELR, elf::DT_RELRSZ).unwrap_or(0..0);
        self.symtab = value(elf::DT_SYMTAB);
        self.strtab = value(elf::DT_STRTAB);
        self.strsz = value(elf::DT_STRSZ).unwrap_or(0);
        let flags = value(elf::DT_FLAGS_1).unwrap_or(0);
        self.pie = flags & elf::DF_1_PIE.0 != 0;
    }

    fn read_strings<'d, R: ReadRef<'d>>(
        &mut self,
        elf: &Elf<'d, R>,
        entries: &[(elf::DynamicTag, u64)],
    ) {
        let Some(strtab) = self.strtab.and_then(|addr| elf.bytes_from(addr)) else {
            return;
        };
        let string = |at: u64| Some(until_nul(strtab.get(usize::try_from(at).ok()?..)?));
        for &(tag, value) in entries {
            match tag {
                elf::DT_NEEDED => self.needed.extend(string(value)),
                elf::DT_SONAME => self.soname = string(value),
                elf::DT_RPATH => self.rpath = string(value),
                elf::DT_RUNPATH => self.runpath = string(value),
                _ => {}
            }
        }
    }
}

fn file_header<'d, R: ReadRef<'d>>(data: R, present: u64) -> Result<&'d Header, Fault> {
    if present == 0 {
        return Err(Fault::Empty);
    }
    let start = data.read_bytes_at(0, present.min(20)).unwrap_or_default();
    if !start.starts_with(&elf::ELFMAG) {
        return Err(Fault::NotElf);
    }
    // Indices and values: gABI, "ELF identification".
    match start.get(4..6) {
        Some([1, _]) => return Err(Fault::Not64Bit),
        Some([2, 1]) => {}
        Some([2, 2]) => return Err(Fault::WrongByteOrder),
        Some(_) => return Err(Fault::Malformed { what: "ELF header" }),
        None => {}
    }
    let needed = size_of::<Header>() as u64;
    if present < needed {
        return Err(Fault::Truncated {
            what: "the ELF header",
            needed,
            present,
        });
    }
    let header = Header::parse(data).map_err(|_| Fault::Malformed { what: "ELF header" })?;
    let machine = header.e_machine(LE);
    if machine != elf::EM_X86_64 {
        return Err(Fault::ForeignMachine { machine: machine.0 });
    }
    match header.e_type(LE) {
        elf::ET_EXEC | elf::ET_DYN => Ok(header),
        kind => Err(Fault::NotLoadable { kind: kind.0 }),
    }
}

/// `PT_LOAD`s cut to the file; those that begin behind its end are dropped.
fn loadable(programs: &[elf::ProgramHeader64<LE>], present: u64) -> Vec<Segment> {
    let loads = programs
        .iter()
        .filter(|program| program.p_type(LE) == elf::PT_LOAD);
    loads
        .map(|program| {
            let (offset, addr) = (program.p_offset(LE), program.p_vaddr(LE));
            let flags = program.p_flags(LE).0;
            let in_file = present.saturating_sub(offset);
            let file_size = program.p_filesz(LE).min(in_file).min(u64::MAX - addr);
            Segment {
                offset: FileOffset(offset),
                addr: LinkAddr(addr),
                file_size,
                mem_size: program.p_memsz(LE),
                readable: flags & elf::PF_R.0 != 0,
                writable: flags & elf::PF_W.0 != 0,
                executable: flags & elf::PF_X.0 != 0,
            }
        })
        .collect()
}

pub(crate) fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}
