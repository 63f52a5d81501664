//! Object files, and kernel modules, as files that can be read like programs.
//!
//! Problem: an object file has no segments, its sections have no addresses, and calls in its code lead nowhere until it is linked.
//!
//! Approach: it becomes a shared library in memory. The address of each byte is its place in the file, so sections lie as they do
//! there, each with a segment of its own; sections without bytes come behind. Words that relocations change get their values, words
//! with an address have a relocation of the dynamic linker, and each symbol of another file has a stub and a slot, as in a table of
//! procedure linkage, with its name.
//!
//! Invariant: any bytes are taken; what does not fit is left as it is.
//!
//! Limits: thread-local storage has no addresses; thin archives have no members. Addresses are places in the file, not in sections.
//!
//! Source: System V ABI, x86-64, 4.4 (relocation types) and gABI, chapter 4.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use object::LittleEndian as LE;
use object::elf;
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym};

use crate::error::Fault;

type Header = elf::FileHeader64<LE>;
type Rela = elf::Rela64<LE>;

/// Bytes of a header of a segment, a symbol, a relocation, an entry of the dynamic section, and a stub.
const PROGRAM: u64 = 56;
const SYMBOL: usize = 24;
const STUB: u64 = 8;
/// Code that jumps by a slot.
const JUMP: [u8; 2] = [0xff, 0x25];

/// Members of an archive of object files, by name, and their places in it; empty: it is none.
pub fn members(bytes: &[u8]) -> Vec<(String, Range<usize>)> {
    let Ok(archive) = ArchiveFile::parse(bytes) else {
        return Vec::new();
    };
    let members = archive.members().map_while(Result::ok);
    let members = members.filter(|member| !member.is_thin());
    members
        .filter_map(|member| {
            let (start, size) = member.file_range();
            let start = usize::try_from(start).ok()?;
            let end = start.checked_add(usize::try_from(size).ok()?)?;
            let name = String::from_utf8_lossy(member.name()).into_owned();
            (end <= bytes.len()).then_some((name, start..end))
        })
        .collect()
}

/// The archive and the member that a path names, `ARCHIVE(MEMBER)`.
pub fn member_of(path: &Path) -> Option<(&Path, &str)> {
    let text = path.to_str()?.strip_suffix(')')?;
    let (archive, member) = text.rsplit_once('(')?;
    Some((Path::new(archive), member))
}

/// Whether a file is an object file.
pub fn is_object(bytes: &[u8]) -> bool {
    let kind = Header::parse(bytes).map(|header| header.e_type(LE));
    kind.is_ok_and(|kind| kind == elf::ET_REL) && bytes.get(18) == Some(&62)
}

/// The object file as a shared library.
///
/// # Errors
/// It is damaged.
pub fn as_library(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let malformed = |what| move |_: object::read::Error| Fault::Malformed { what };
    let header = Header::parse(bytes).map_err(malformed("header"))?;
    let sections = header
        .sections(LE, bytes)
        .map_err(malformed("section table"))?;
    let mut library = Library {
        out: bytes.to_vec(),
        addresses: Vec::new(),
        slots: HashMap::new(),
        names: Vec::new(),
        pointers: Vec::new(),
    };
    library.place(header, &sections, bytes)?;
    for section in sections.iter() {
        if let Some((relas, link)) = section.rela(LE, bytes).map_err(malformed("relocations"))? {
            let symbols = sections
                .symbol_table_by_index(LE, bytes, link)
                .map_err(malformed("symbol table"))?;
            let target = section.sh_info(LE) as usize;
            let base = library.addresses.get(target).copied().flatten();
            // Sections that are not loaded are debugging information.
            let Some(base) = base else {
                continue;
            };
            let size = sections.section(object::SectionIndex(target));
            let size = size.map_or(0, |section| section.sh_size(LE));
            for rela in relas {
                let name = |index: usize| {
                    let symbol = symbols.symbol(object::SymbolIndex(index)).ok()?;
                    let name = symbols.symbol_name(LE, symbol).unwrap_or_default();
                    Some((symbol.st_shndx(LE).0, symbol.st_value(LE), name.to_vec()))
                };
                if rela.r_offset.get(LE).saturating_add(4) <= size {
                    library.relocate(base, rela, &name);
                }
            }
        }
    }
    library.symbols(&sections, bytes);
    Ok(library.finish(&sections))
}

/// A library that is made.
struct Library {
    out: Vec<u8>,
    /// Addresses of sections that are loaded.
    addresses: Vec<Option<u64>>,
    /// Slots, by the name of another file's symbol or by an address.
    slots: HashMap<Target, usize>,
    names: Vec<Target>,
    /// Words with addresses, and the addresses.
    pointers: Vec<(u64, u64)>,
}

/// The end of a reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Own(u64),
    Other(Vec<u8>),
}

/// Beyond all sections: stubs and slots.
fn behind(len: usize) -> u64 {
    (len as u64).next_multiple_of(16)
}

impl Library {
    /// Gives sections their addresses.
    fn place<'d>(
        &mut self,
        header: &Header,
        sections: &SectionTable<'d, Header, &'d [u8]>,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let table = header.e_shoff(LE);
        let mut end = behind(bytes.len());
        for (number, section) in sections.iter().enumerate() {
            let is_loaded = section.sh_flags(LE).0 & elf::SHF_ALLOC.0 != 0;
            let (offset, size) = (section.sh_offset(LE), section.sh_size(LE));
            let address = match (is_loaded, section.sh_type(LE)) {
                (false, _) => None,
                (true, elf::SHT_NOBITS) => {
                    let address = end.next_multiple_of(section.sh_addralign(LE).clamp(1, 4096));
                    end = address.saturating_add(size.min(1 << 40));
                    Some(address)
                }
                (true, _) => {
                    let is_inside = offset.checked_add(size);
                    if is_inside.is_none_or(|end| end > bytes.len() as u64) {
                        return Err(Fault::Malformed {
                            what: "section table",
                        });
                    }
                    Some(offset)
                }
            };
            self.addresses.push(address);
            if let Some(address) = address {
                let at = table as usize + number * 64 + 16;
                self.put(at, &address.to_le_bytes());
            }
        }
        Ok(())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(own) = self.out.get_mut(at..at.saturating_add(bytes.len())) {
            own.copy_from_slice(bytes);
        }
    }

    /// The slot of a target.
    fn slot(&mut self, target: Target) -> usize {
        let next = self.names.len();
        *self.slots.entry(target.clone()).or_insert_with(|| {
            self.names.push(target);
            next
        })
    }

    /// Gives a word its value; stubs and slots have numbers instead of addresses until their place is known.
    fn relocate(
        &mut self,
        base: u64,
        rela: &Rela,
        symbol: &dyn Fn(usize) -> Option<(u16, u64, Vec<u8>)>,
    ) {
        let kind = rela.r_type(LE, false);
        let Some((section, value, name)) = symbol(rela.r_sym(LE, false) as usize) else {
            return;
        };
        let own = self.addresses.get(usize::from(section)).copied().flatten();
        let target = match (section, own) {
            (0, _) => Target::Other(name),
            (_, Some(address)) => Target::Own(address.wrapping_add(value)),
            _ => return,
        };
        let place = base.wrapping_add(rela.r_offset.get(LE));
        let addend = rela.r_addend.get(LE);
        let by_slot = matches!(
            kind,
            elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX
        );
        let address = match (&target, by_slot) {
            (Target::Own(address), false) => *address,
            (_, by_slot) => {
                let number = self.slot(target.clone());
                let start = self.stubs() + STUB * number as u64;
                match by_slot {
                    // Slots are behind room for as many stubs as there are places that need one.
                    true => start + ROOM,
                    false => start,
                }
            }
        };
        let value = address.wrapping_add_signed(addend);
        let relative = value.wrapping_sub(place);
        match kind {
            elf::R_X86_64_64 => {
                self.put(place as usize, &value.to_le_bytes());
                self.pointers.push((place, value));
            }
            elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => {
                self.put(place as usize, &(relative as u32).to_le_bytes());
            }
            _ if by_slot => self.put(place as usize, &(relative as u32).to_le_bytes()),
            elf::R_X86_64_32 | elf::R_X86_64_32S => {
                self.put(place as usize, &(value as u32).to_le_bytes());
            }
            elf::R_X86_64_PC64 => self.put(place as usize, &relative.to_le_bytes()),
            _ => {}
        }
    }

    /// Address of the first stub.
    fn stubs(&self) -> u64 {
        let sections = self.addresses.iter().flatten().copied();
        behind(self.out.len())
            .max(sections.max().unwrap_or(0))
            .saturating_add(1 << 20)
            & !0xfff
    }

    /// Gives symbols their addresses.
    fn symbols<'d>(&mut self, sections: &SectionTable<'d, Header, &'d [u8]>, bytes: &'d [u8]) {
        for section in sections
            .iter()
            .filter(|section| section.sh_type(LE) == elf::SHT_SYMTAB)
        {
            let Ok(data) = section.data(LE, bytes) else {
                continue;
            };
            for (number, symbol) in data.chunks_exact(SYMBOL).enumerate() {
                let word = |at: usize| u16::from_le_bytes([symbol[at], symbol[at + 1]]);
                let own = self.addresses.get(usize::from(word(6))).copied().flatten();
                let value = symbol[8..].first_chunk().copied().map(u64::from_le_bytes);
                if let (Some(address), Some(value)) = (own, value) {
                    let at = section.sh_offset(LE) as usize + number * SYMBOL + 8;
                    self.put(at, &address.wrapping_add(value).to_le_bytes());
                }
            }
        }
    }

    /// Writes stubs, what the dynamic linker would read, and the headers of segments and sections.
    fn finish<'d>(mut self, sections: &SectionTable<'d, Header, &'d [u8]>) -> Vec<u8> {
        let stubs = self.stubs();
        // Addresses of all added bytes are as far from their places in the file as those of the stubs.
        let at = behind(self.out.len());
        self.out.resize(at as usize, 0);
        for number in 0..self.names.len() as u64 {
            let from = stubs + STUB * number + 6;
            let distance = slot_of(stubs, number).wrapping_sub(from) as u32;
            self.out.extend_from_slice(&JUMP);
            self.out.extend_from_slice(&distance.to_le_bytes());
            self.out.extend_from_slice(&[0xcc; 2]);
        }
        let code = self.out.len() as u64 - at;
        let tables = self.out.len().next_multiple_of(8) as u64;
        let dynamic = self.add_tables(stubs, at);
        let end = self.out.len() as u64;
        self.add_section(sections.len(), (stubs, at, code));
        let mut segments = self.segments(sections);
        let mut add = |kind: u32, flags: u32, place: u64, size: u64| {
            segments.push(Segment {
                kind,
                flags,
                place,
                address: stubs + (place - at),
                in_file: size,
                size,
            });
        };
        add(elf::PT_LOAD.0, READ | EXECUTE, at, code);
        add(elf::PT_LOAD.0, READ, tables, end - tables);
        add(elf::PT_DYNAMIC.0, READ, dynamic, end - dynamic);
        let start = self.out.len().next_multiple_of(8);
        self.out.resize(start, 0);
        for segment in &segments {
            self.out.extend_from_slice(&segment.kind.to_le_bytes());
            self.out.extend_from_slice(&segment.flags.to_le_bytes());
            let (place, address) = (segment.place, segment.address);
            for word in [place, address, address, segment.in_file, segment.size, 1] {
                self.out.extend_from_slice(&word.to_le_bytes());
            }
        }
        self.put(16, &elf::ET_DYN.0.to_le_bytes());
        self.put(32, &(start as u64).to_le_bytes());
        self.put(54, &(PROGRAM as u16).to_le_bytes());
        let count = u16::try_from(segments.len()).unwrap_or(u16::MAX - 1);
        self.put(56, &count.to_le_bytes());
        self.out
    }

    /// Segments of sections, by address.
    fn segments<'d>(&self, sections: &SectionTable<'d, Header, &'d [u8]>) -> Vec<Segment> {
        let placed = sections.iter().zip(&self.addresses);
        let placed = placed.filter_map(|(section, address)| Some((section, (*address)?)));
        let segments = placed.map(|(section, address)| {
            let has = |flag: elf::SectionFlags| section.sh_flags(LE).0 & flag.0 != 0;
            let code = if has(elf::SHF_EXECINSTR) { EXECUTE } else { 0 };
            let data = if has(elf::SHF_WRITE) { WRITE } else { 0 };
            let size = section.sh_size(LE);
            let is_in_file = section.sh_type(LE) != elf::SHT_NOBITS;
            Segment {
                kind: elf::PT_LOAD.0,
                flags: READ | code | data,
                place: if is_in_file { section.sh_offset(LE) } else { 0 },
                address,
                in_file: if is_in_file { size } else { 0 },
                size,
            }
        });
        let mut segments: Vec<Segment> = segments.collect();
        segments.sort_unstable_by_key(|segment| segment.address);
        segments
    }

    /// Writes relocations, symbols and their names, and the dynamic section; gives the place of that.
    fn add_tables(&mut self, stubs: u64, at: u64) -> u64 {
        let (mut strings, mut symbols, mut relas) = (vec![0], vec![0; SYMBOL], Vec::new());
        let mut rela = |place: u64, info: u64, addend: u64| {
            let words = [place, info, addend];
            relas.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        for (number, name) in (0..).zip(&self.names) {
            let slot = slot_of(stubs, number);
            match name {
                Target::Own(address) => rela(slot, elf::R_X86_64_RELATIVE.0.into(), *address),
                Target::Other(name) => {
                    let index = (symbols.len() / SYMBOL) as u64;
                    rela(slot, index << 32 | u64::from(elf::R_X86_64_JUMP_SLOT.0), 0);
                    symbols.extend((strings.len() as u32).to_le_bytes());
                    // A function of any file.
                    symbols.extend([0x12, 0, 0, 0]);
                    symbols.extend([0; 16]);
                    strings.extend_from_slice(name);
                    strings.push(0);
                }
            }
        }
        for (place, value) in &self.pointers {
            rela(*place, elf::R_X86_64_RELATIVE.0.into(), *value);
        }
        let mut push = |bytes: &[u8]| {
            self.out.resize(self.out.len().next_multiple_of(8), 0);
            let place = self.out.len() as u64;
            self.out.extend_from_slice(bytes);
            place
        };
        let address = |place: u64| stubs + (place - at);
        let words = [
            (elf::DT_RELA, address(push(&relas))),
            (elf::DT_RELASZ, relas.len() as u64),
            (elf::DT_SYMTAB, address(push(&symbols))),
            (elf::DT_STRTAB, address(push(&strings))),
            (elf::DT_STRSZ, strings.len() as u64),
            (elf::DT_NULL, 0),
        ];
        let words = words
            .iter()
            .flat_map(|(tag, value)| [tag.0.cast_unsigned(), *value]);
        push(&words.flat_map(u64::to_le_bytes).collect::<Vec<_>>())
    }
}

/// A header of a segment.
struct Segment {
    kind: u32,
    flags: u32,
    place: u64,
    address: u64,
    in_file: u64,
    size: u64,
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// The slot of a number.
fn slot_of(stubs: u64, number: u64) -> u64 {
    stubs + ROOM + STUB * number
}

impl Library {
    /// Writes the table of sections anew behind all else, with one for the stubs, of so many bytes at an address and a place.
    fn add_section(&mut self, count: usize, (address, at, len): (u64, u64, u64)) {
        const SECTION: usize = 64;
        const NAME: &[u8] = b".plt\0";
        let word = |out: &[u8], at: usize| {
            let word = out.get(at..).and_then(|rest| rest.first_chunk());
            word.map_or(0, |word| u64::from_le_bytes(*word)) as usize
        };
        let (table, names) = (word(&self.out, 40), word(&self.out, 62) & 0xffff);
        let (Some(headers), Ok(new_count)) = (
            self.out.get(table..table.saturating_add(count * SECTION)),
            u16::try_from(count + 1),
        ) else {
            return;
        };
        let mut headers = headers.to_vec();
        let own = names * SECTION;
        let (start, size) = (word(&headers, own + 24), word(&headers, own + 32));
        let Some(text) = self.out.get(start..start.saturating_add(size)) else {
            return;
        };
        let text = [text, NAME].concat();
        let text_at = self.out.len();
        self.out.extend_from_slice(&text);
        headers[own + 24..own + 32].copy_from_slice(&(text_at as u64).to_le_bytes());
        headers[own + 32..own + 40].copy_from_slice(&(text.len() as u64).to_le_bytes());
        headers.extend_from_slice(&(size as u32).to_le_bytes());
        headers.extend_from_slice(&elf::SHT_PROGBITS.0.to_le_bytes());
        let flags = (elf::SHF_ALLOC | elf::SHF_EXECINSTR).0;
        for word in [flags, address, at, len, 0, STUB, STUB] {
            headers.extend_from_slice(&word.to_le_bytes());
        }
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        let place = self.out.len() as u64;
        self.out.extend_from_slice(&headers);
        self.put(40, &place.to_le_bytes());
        self.put(60, &new_count.to_le_bytes());
    }
}

/// Distance from stubs to slots: there are fewer of them.
const ROOM: u64 = 1 << 27;
