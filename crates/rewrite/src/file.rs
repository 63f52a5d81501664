//! Headers of an ELF file as values that can be changed, and the file written again.
//!
//! Invariants: the table of program headers stays at its place with as many entries as it had; no byte of the input moves.
//! A new table of sections and a new table of their names are behind everything else.

use std::ops::Range;

use image::LinkAddr;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::endian::{LittleEndian as LE, U16, U32, U64};
use object::pod::{bytes_of, from_bytes, slice_from_bytes};

use crate::address::New;
use crate::segment::Added;
use crate::{Edit, Refused};

pub type Header = FileHeader64<LE>;
pub type Program = ProgramHeader64<LE>;
pub type Section = SectionHeader64<LE>;

/// The new address and size of what was at an address, if it moved.
type NewOf<'a> = &'a dyn Fn(LinkAddr) -> Option<(New, u64)>;

/// Bytes of a symbol.
const SYMBOL: usize = 24;
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
    /// Sections with other names, by index.
    renamed: Vec<(usize, &'static str)>,
    /// Sections with other contents, by index.
    replaced: Vec<(usize, Vec<u8>)>,
    /// Bytes in place of those at an offset, and what they are.
    patches: Vec<(u64, Vec<u8>, &'static str)>,
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
            renamed: Vec::new(),
            replaced: Vec::new(),
            patches: Vec::new(),
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

    /// Index of the section with a name.
    fn index_of(&self, name: &str) -> Option<usize> {
        let names = self
            .sections
            .get(usize::from(self.header.e_shstrndx.get(LE).0))?;
        let start = names.sh_offset.get(LE) as usize;
        let all = self
            .input
            .get(start..start.checked_add(names.sh_size.get(LE) as usize)?)?;
        let has_name = |section: &Section| {
            let own = all.get(section.sh_name.get(LE) as usize..);
            let own = own.and_then(|own| own.strip_prefix(name.as_bytes()));
            own.is_some_and(|rest| rest.first() == Some(&0))
        };
        self.sections.iter().position(has_name)
    }

    /// Address and bytes of a section.
    pub fn section(&self, name: &str) -> Option<(LinkAddr, &'d [u8])> {
        let section = &self.sections[self.index_of(name)?];
        let start = section.sh_offset.get(LE) as usize;
        let end = start.checked_add(section.sh_size.get(LE) as usize)?;
        let addr = LinkAddr(section.sh_addr.get(LE));
        Some((addr, self.input.get(start..end)?))
    }

    /// Bytes of the input.
    pub fn bytes_at(&self, offset: u64, size: u64) -> Option<&'d [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.input
            .get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// Place in the file of what is loaded at an address.
    pub fn offset_of(&self, addr: u64) -> Option<u64> {
        self.loads().find_map(|load| {
            let within = addr.checked_sub(load.p_vaddr.get(LE))?;
            let offset = load.p_offset.get(LE).checked_add(within)?;
            (within < load.p_filesz.get(LE)).then_some(offset)
        })
    }

    /// Aligned words of the sections with data that is loaded.
    pub fn data_words(&self) -> impl Iterator<Item = LinkAddr> + '_ {
        let is_data = |section: &&Section| {
            let flags = section.sh_flags.get(LE);
            flags.contains(elf::SHF_ALLOC)
                && !flags.contains(elf::SHF_EXECINSTR)
                && section.sh_type.get(LE) == elf::SHT_PROGBITS
        };
        let sections = self.sections.iter().filter(is_data);
        sections.flat_map(|section| {
            let start = section.sh_offset.get(LE) as usize;
            let end = start.saturating_add(section.sh_size.get(LE) as usize);
            let bytes = self.input.get(start..end).unwrap_or_default();
            let words = bytes.chunks_exact(8);
            words.map(|word| {
                let word = word.first_chunk().copied();
                LinkAddr(u64::from_le_bytes(word.unwrap_or_default()))
            })
        })
    }

    /// Gives a section another name, if there is one.
    pub fn rename(&mut self, name: &str, new: &'static str) {
        let at = self.index_of(name);
        self.renamed.extend(at.map(|at| (at, new)));
    }

    /// Has the sections that use a table of strings use the new section with this number in its place.
    pub fn replace_strings(&mut self, name: &str, number: usize) {
        let Some(old) = self.index_of(name) else {
            return;
        };
        let new = (self.sections.len() + number) as u32;
        for section in &mut self.sections {
            if section.sh_link.get(LE) as usize == old {
                section.sh_link.set(LE, new);
            }
        }
        self.renamed.push((old, ".everypath.old_dynstr"));
    }

    /// Whether a section is compressed, which only those are that are not loaded.
    pub fn is_compressed(&self, name: &str) -> bool {
        let section = self
            .index_of(name)
            .map(|at| self.sections[at].sh_flags.get(LE));
        section.is_some_and(|flags| flags.contains(elf::SHF_COMPRESSED))
    }

    /// Puts contents of the same size in the place of a section's.
    pub fn patch_section(&mut self, name: &str, bytes: Vec<u8>, what: &'static str) {
        if let Some(at) = self.index_of(name) {
            self.patch(self.sections[at].sh_offset.get(LE), bytes, what);
        }
    }

    /// Gives a section that is not loaded other contents, behind everything else.
    pub fn replace_section(&mut self, name: &str, bytes: Vec<u8>) {
        let at = self.index_of(name);
        self.replaced.extend(at.map(|at| (at, bytes)));
    }

    /// Puts bytes in the place of others.
    pub fn patch(&mut self, offset: u64, bytes: Vec<u8>, what: &'static str) {
        self.patches.push((offset, bytes, what));
    }

    /// Has the header of the unwind table lead to another one.
    pub fn set_unwind_table(&mut self, offset: u64, addr: New, size: u64) -> Result<(), Refused> {
        let is = |program: &Program, kind| program.p_type.get(LE) == kind;
        let find = |kind| self.programs.iter().position(|program| is(program, kind));
        // Static programs have none, and a note that two headers are of.
        let property = find(elf::PT_GNU_PROPERTY).map(|at| self.programs[at].p_offset.get(LE));
        let note = || {
            let mut programs = self.programs.iter();
            programs.position(|program| {
                is(program, elf::PT_NOTE) && Some(program.p_offset.get(LE)) == property
            })
        };
        let at = find(elf::PT_GNU_EH_FRAME).or_else(note);
        let at = match at {
            Some(at) => at,
            None if self.make_room_for_header() => {
                let last = self.programs.last().copied();
                self.programs.push(last.ok_or(Refused::NoUnwind)?);
                self.programs.len() - 1
            }
            None => return Err(Refused::NoUnwind),
        };
        let header = &mut self.programs[at];
        header.p_flags.set(LE, elf::PF_R);
        header.p_type.set(LE, elf::PT_GNU_EH_FRAME);
        header.p_align.set(LE, 4);
        header.p_offset.set(LE, offset);
        header.p_vaddr.set(LE, addr.0);
        header.p_paddr.set(LE, addr.0);
        header.p_filesz.set(LE, size);
        header.p_memsz.set(LE, size);
        Ok(())
    }

    /// Makes room for one header more behind the others, where the file has zeros that nothing uses; `false`: it has none.
    ///
    /// The segment that has the headers is made longer if it ends with them, as in programs of musl.
    pub fn make_room_for_header(&mut self) -> bool {
        let size = size_of::<Program>() as u64;
        let table = self.header.e_phoff.get(LE);
        let start = table + self.programs.len() as u64 * size;
        let end = start + size;
        let is_free = |from: u64, len: u64| from >= end || from.saturating_add(len) <= start;
        let are_zeros = self.bytes_at(start, size);
        let are_zeros = are_zeros.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
        let of_file = |section: &&Section| section.sh_type.get(LE) != elf::SHT_NOBITS;
        let mut sections = self.sections.iter().filter(of_file);
        let is_used =
            sections.any(|section| !is_free(section.sh_offset.get(LE), section.sh_size.get(LE)));
        let has = |program: &Program| {
            let from = program.p_offset.get(LE);
            from <= table && table < from + program.p_filesz.get(LE)
        };
        let mut others = self.programs.iter().filter(|program| !has(program));
        let is_taken = others.any(|other| !is_free(other.p_offset.get(LE), other.p_filesz.get(LE)));
        if !are_zeros || is_used || is_taken || !self.has_sections() {
            return false;
        }
        for program in self.programs.iter_mut().filter(|program| has(program)) {
            let len = end - program.p_offset.get(LE);
            program.p_filesz.set(LE, program.p_filesz.get(LE).max(len));
            program.p_memsz.set(LE, program.p_memsz.get(LE).max(len));
        }
        let count = self.header.e_phnum.get(LE);
        self.header.e_phnum.set(LE, count + 1);
        true
    }

    /// Gives symbols of functions the addresses and sizes that `new_of` has for their old addresses. The new code will
    /// be in the new section with this number among them.
    pub fn move_symbols(&mut self, number: usize, new_of: NewOf<'_>) {
        let text = (self.sections.len() + number) as u16;
        let what = "symbols of moved functions";
        self.move_functions(elf::SHT_SYMTAB, Some(text), new_of, what);
    }

    /// Does the same for symbols of the dynamic linker. `strip` leaves the numbers of their sections as they are when it takes
    /// sections away, so these stay those of the old code.
    pub fn move_dynamic_symbols(&mut self, new_of: NewOf<'_>) {
        let what = "dynamic symbols of moved functions";
        self.move_functions(elf::SHT_DYNSYM, None, new_of, what);
    }

    /// Addresses of functions that have a dynamic symbol.
    pub fn dynamic_functions(&self) -> impl Iterator<Item = LinkAddr> + '_ {
        let tables = self.symbols(elf::SHT_DYNSYM);
        let entries = tables
            .into_iter()
            .flat_map(|(_, bytes)| bytes.chunks_exact(SYMBOL));
        entries.filter_map(function_of)
    }

    /// Places and bytes of tables of symbols.
    fn symbols(&self, kind: elf::SectionType) -> Vec<(u64, &'d [u8])> {
        let tables = self.sections.iter();
        let tables = tables.filter(|section| section.sh_type.get(LE) == kind);
        let both = tables.filter_map(|table| {
            let offset = table.sh_offset.get(LE);
            Some((offset, self.bytes_at(offset, table.sh_size.get(LE))?))
        });
        both.collect()
    }

    fn move_functions(
        &mut self,
        kind: elf::SectionType,
        text: Option<u16>,
        new_of: NewOf<'_>,
        what: &'static str,
    ) {
        for (offset, bytes) in self.symbols(kind) {
            let mut bytes = bytes.to_vec();
            let mut is_changed = false;
            for entry in bytes.chunks_exact_mut(SYMBOL) {
                let Some((addr, size)) = function_of(entry).and_then(new_of) else {
                    continue;
                };
                is_changed = true;
                if let Some(text) = text {
                    entry[6..8].copy_from_slice(&text.to_le_bytes());
                }
                entry[8..16].copy_from_slice(&addr.0.to_le_bytes());
                entry[16..24].copy_from_slice(&size.to_le_bytes());
            }
            if is_changed {
                self.patch(offset, bytes, what);
            }
        }
    }

    /// The output: the input with its edits, what was `added`, and the tables of sections.
    pub fn write(&mut self, added: &Added) -> Vec<u8> {
        let mut out = self.input.to_vec();
        for (at, bytes, _) in &self.patches {
            let at = *at as usize;
            out[at..at + bytes.len()].copy_from_slice(bytes);
        }
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
    fn write_sections(&mut self, added: &Added, out: &mut Vec<u8>) {
        let names_at = usize::from(self.header.e_shstrndx.get(LE).0);
        let names = self.sections.get(names_at).copied();
        let old = names.and_then(|names| {
            let start = names.sh_offset.get(LE) as usize;
            let end = start.checked_add(names.sh_size.get(LE) as usize)?;
            self.input.get(start..end)
        });
        let mut names: Vec<u8> = old.unwrap_or(&[0]).to_vec();
        for (at, new) in std::mem::take(&mut self.renamed) {
            self.sections[at].sh_name.set(LE, names.len() as u32);
            names.extend_from_slice(new.as_bytes());
            names.push(0);
        }
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
        for (at, bytes) in std::mem::take(&mut self.replaced) {
            self.sections[at].sh_offset.set(LE, out.len() as u64);
            self.sections[at].sh_size.set(LE, bytes.len() as u64);
            out.extend_from_slice(&bytes);
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
        for (at, bytes, what) in &self.patches {
            add(*at..*at + bytes.len() as u64, what);
        }
        let size = size_of::<Program>() as u64;
        let table = self.header.e_phoff.get(LE);
        let before = self.programs_before.len() as u64;
        let more = before..self.programs.len() as u64;
        if !more.is_empty() {
            add(0x38..0x3a, "number of program headers");
        }
        for number in more {
            let at = table + number * size;
            add(at..at + size, "program header more");
        }
        let both = self.programs.iter().zip(&self.programs_before);
        for (number, (now, before)) in (0..).zip(both) {
            if bytes_of(now) != bytes_of(before) {
                let at = table + number * size;
                add(at..at + size, "program header");
            }
        }
        edits
    }
}

/// The address of a function's symbol that is defined here (gABI 4, symbol table).
fn function_of(entry: &[u8]) -> Option<LinkAddr> {
    let is_function = entry[4] & 15 == elf::STT_FUNC.0 && entry[6..8] != [0; 2];
    let word = entry[8..16].first_chunk().copied();
    let addr = word.map(u64::from_le_bytes).filter(|_| is_function);
    addr.map(LinkAddr)
}

/// Whether UPX left its mark.
fn is_packed(input: &[u8]) -> bool {
    let head = &input[..input.len().min(4096)];
    head.windows(4).any(|window| window == b"UPX!")
}
