//! Headers of an ELF file as values that can be changed, and the file written again.
//!
//! Invariants: the table of program headers stays at its place with as many entries as it had; no byte of the input moves.
//! A new table of sections and a new table of their names are behind everything else.

use std::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::endian::{LittleEndian as LE, U16, U32, U64};
use object::pod::{bytes_of, from_bytes, slice_from_bytes};

use crate::segment::Added;
use crate::{Edit, Refused};

pub type Header = FileHeader64<LE>;
pub type Program = ProgramHeader64<LE>;
pub type Section = SectionHeader64<LE>;

/// Alignment of the new table of sections.
const TABLE: u64 = 8;

/// A file that is edited.
pub struct File<'d> {
    pub input: &'d [u8],
    header: Header,
    pub programs: Vec<Program>,
    /// Program headers as they were.
    programs_before: Vec<Program>,
    pub sections: Vec<Section>,
}

impl<'d> File<'d> {
    pub fn parse(input: &'d [u8]) -> Result<File<'d>, Refused> {
        let (header, _) =
            from_bytes::<Header>(input).map_err(|()| Refused::Malformed("file header"))?;
        let table = |at: u64, count: u16, entry: u16, size: usize, what| {
            if count > 0 && usize::from(entry) != size {
                return Err(Refused::Malformed(what));
            }
            let start = usize::try_from(at).map_err(|_| Refused::Truncated(what))?;
            input.get(start..).ok_or(Refused::Truncated(what))
        };
        let what = "program header table";
        let count = header.e_phnum.get(LE);
        let bytes = table(
            header.e_phoff.get(LE),
            count,
            header.e_phentsize.get(LE),
            size_of::<Program>(),
            what,
        )?;
        let (programs, _) = slice_from_bytes::<Program>(bytes, count.into())
            .map_err(|()| Refused::Truncated(what))?;
        let what = "section header table";
        let (start, count) = (header.e_shoff.get(LE), header.e_shnum.get(LE));
        let sections = match start {
            0 => &[][..],
            // The number would stand in the first section: more than 65,279 sections.
            _ if count == 0 || count >= elf::SHN_LORESERVE => {
                return Err(Refused::Malformed(what));
            }
            _ => {
                let entry = header.e_shentsize.get(LE);
                let bytes = table(start, count, entry, size_of::<Section>(), what)?;
                let (sections, _) = slice_from_bytes::<Section>(bytes, count.into())
                    .map_err(|()| Refused::Truncated(what))?;
                sections
            }
        };
        let file = File {
            input,
            header: *header,
            programs: programs.to_vec(),
            programs_before: programs.to_vec(),
            sections: sections.to_vec(),
        };
        file.check_end()?;
        Ok(file)
    }

    /// Refuses files with bytes behind everything that their headers describe.
    fn check_end(&self) -> Result<(), Refused> {
        let header = &self.header;
        let table = |at: u64, count: usize, size: usize| at.saturating_add((count * size) as u64);
        let mut end = table(
            header.e_phoff.get(LE),
            self.programs.len(),
            size_of::<Program>(),
        );
        for program in &self.programs {
            let own = program.p_offset.get(LE);
            end = end.max(own.saturating_add(program.p_filesz.get(LE)));
        }
        if self.has_sections() {
            let own = table(
                header.e_shoff.get(LE),
                self.sections.len(),
                size_of::<Section>(),
            );
            end = end.max(own);
        }
        let in_file = |section: &&Section| section.sh_type.get(LE) != elf::SHT_NOBITS;
        for section in self.sections.iter().filter(in_file) {
            let own = section.sh_offset.get(LE);
            end = end.max(own.saturating_add(section.sh_size.get(LE)));
        }
        let length = self.input.len() as u64;
        // The last bytes may be padding.
        let tail = self.input.get(end as usize..).unwrap_or_default();
        match tail.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false if !self.has_sections() && is_packed(self.input) => Err(Refused::Packed),
            false => Err(Refused::Tail(length - end)),
        }
    }

    pub fn has_sections(&self) -> bool {
        !self.sections.is_empty()
    }

    /// Loaded segments.
    pub fn loads(&self) -> impl Iterator<Item = &Program> {
        let programs = self.programs.iter();
        programs.filter(|program| program.p_type.get(LE) == elf::PT_LOAD)
    }

    /// The output: the input with its edits, what was `added`, and the tables of sections.
    pub fn write(&mut self, added: &Added<'_>) -> Vec<u8> {
        let mut out = self.input.to_vec();
        out.resize(added.offset as usize, 0);
        out.extend_from_slice(&added.bytes);
        if self.has_sections() {
            self.write_sections(added, &mut out);
        }
        out[..size_of::<Header>()].copy_from_slice(bytes_of(&self.header));
        let at = self.header.e_phoff.get(LE) as usize;
        for (number, program) in self.programs.iter().enumerate() {
            let at = at + number * size_of::<Program>();
            out[at..at + size_of::<Program>()].copy_from_slice(bytes_of(program));
        }
        out
    }

    /// Writes names of sections and the table of them behind everything else.
    fn write_sections(&mut self, added: &Added<'_>, out: &mut Vec<u8>) {
        let names_at = usize::from(self.header.e_shstrndx.get(LE).0);
        let names = self.sections.get(names_at).copied();
        let old = names.and_then(|names| {
            let start = names.sh_offset.get(LE) as usize;
            let end = start.checked_add(names.sh_size.get(LE) as usize)?;
            self.input.get(start..end)
        });
        let mut names: Vec<u8> = old.unwrap_or(&[0]).to_vec();
        for section in &added.sections {
            let name = names.len() as u32;
            names.extend_from_slice(section.name.as_bytes());
            names.push(0);
            self.sections.push(Section {
                sh_name: U32::new(LE, name),
                sh_type: U32::new(LE, section.kind),
                sh_flags: U64::new(LE, section.flags),
                sh_addr: U64::new(LE, section.addr),
                sh_offset: U64::new(LE, section.offset),
                sh_size: U64::new(LE, section.size),
                sh_link: U32::new(LE, 0),
                sh_info: U32::new(LE, 0),
                sh_addralign: U64::new(LE, section.align),
                sh_entsize: U64::new(LE, 0),
            });
        }
        if let Some(section) = self.sections.get_mut(names_at) {
            section.sh_offset.set(LE, out.len() as u64);
            section.sh_size.set(LE, names.len() as u64);
        }
        out.extend_from_slice(&names);
        out.resize(out.len().next_multiple_of(TABLE as usize), 0);
        self.header.e_shoff.set(LE, out.len() as u64);
        self.header.e_shnum = U16::new(LE, self.sections.len() as u16);
        for section in &self.sections {
            out.extend_from_slice(bytes_of(section));
        }
    }

    /// Ranges of the input that [`File::write`] changed.
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut add = |at: Range<u64>, what| edits.push(Edit { at, what });
        if self.has_sections() {
            add(0x28..0x30, "place of the section headers");
            add(0x3c..0x3e, "number of sections");
        }
        let size = size_of::<Program>() as u64;
        let both = self.programs.iter().zip(&self.programs_before);
        for (number, (now, before)) in (0..).zip(both) {
            if bytes_of(now) != bytes_of(before) {
                let at = self.header.e_phoff.get(LE) + number * size;
                add(at..at + size, "program header");
            }
        }
        edits
    }
}

/// Whether UPX left its mark.
fn is_packed(input: &[u8]) -> bool {
    let head = &input[..input.len().min(4096)];
    head.windows(4).any(|window| window == b"UPX!")
}
