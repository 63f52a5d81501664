//! Relocations of the dynamic linker: which words become addresses of this file's bytes, and which those
//! of functions elsewhere.

use std::collections::{HashMap, HashSet};

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{SectionHeader, Sym};

use crate::addr::LinkAddr;
use crate::elf::{Dynamic, Elf, until_nul};
use crate::image::Image;

/// Words that the dynamic linker writes.
#[derive(Clone, Debug, Default)]
pub struct Relocations {
    /// Addresses in this file that it writes somewhere, sorted.
    pub pointers: Vec<LinkAddr>,
    /// Addresses among them that are no symbol's, not sorted.
    pub nameless: Vec<LinkAddr>,
    /// Names of what it puts in words, by their place: slots of the procedure linkage table and of the
    /// global offset table.
    pub slots: HashMap<LinkAddr, String>,
    /// Slots among them whose symbol this file defines.
    pub own: HashSet<LinkAddr>,
}

impl Relocations {
    /// Relocations of `image`; those that cannot be read are left out.
    pub fn of(image: &Image) -> Relocations {
        let mut all = Relocations::default();
        if let Ok(elf) = Elf::parse(image.bytes()) {
            all.read(&elf, image.dynamic());
        }
        all.pointers.sort_unstable();
        all.pointers.dedup();
        all
    }

    fn read<'d>(&mut self, elf: &Elf<'d, &'d [u8]>, dynamic: &Dynamic) {
        let symbols = Symbols::of(elf, dynamic);
        let mut tables = vec![dynamic.rela.clone(), dynamic.jmprel.clone()];
        // Static programs have their IRELATIVE relocations in a section only.
        for section in elf.sections.iter() {
            let start = section.sh_addr(LE);
            let placed = section.sh_type(LE) == elf::SHT_RELA && start != 0;
            let range = start..start.saturating_add(section.sh_size(LE));
            if placed && !tables.contains(&range) {
                tables.push(range);
            }
        }
        for table in tables {
            for entry in elf.bytes_in(&table).unwrap_or_default().chunks_exact(24) {
                let word = |at: usize| {
                    let bytes = entry[at..at + 8].first_chunk();
                    u64::from_le_bytes(bytes.copied().unwrap_or_default())
                };
                let (place, info, addend) = (word(0), word(8), word(16));
                let symbol = || symbols.get((info >> 32) as usize);
                match elf::RelocationType(info as u32) {
                    elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE => {
                        self.pointers.push(LinkAddr(addend));
                        self.nameless.push(LinkAddr(addend));
                    }
                    elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_64 => {
                        let Some((name, value)) = symbol() else {
                            continue;
                        };
                        if value != 0 {
                            let addr = LinkAddr(value.wrapping_add(addend));
                            self.pointers.push(addr);
                            self.nameless.extend(Some(addr).filter(|_| addend != 0));
                            self.own.insert(LinkAddr(place));
                        }
                        self.slots.insert(LinkAddr(place), name);
                    }
                    _ => {}
                }
            }
        }
        self.read_packed(elf, dynamic);
    }

    /// Relative relocations in the form of `DT_RELR`: an address, then bitmaps of the 63 words behind.
    fn read_packed<'d>(&mut self, elf: &Elf<'d, &'d [u8]>, dynamic: &Dynamic) {
        let mut place = 0u64;
        let mut add = |place: u64| {
            let word = elf.bytes_from(place).and_then(|bytes| bytes.first_chunk());
            let word = word.map(|word| LinkAddr(u64::from_le_bytes(*word)));
            self.pointers.extend(word);
            self.nameless.extend(word);
        };
        for entry in elf
            .bytes_in(&dynamic.relr)
            .unwrap_or_default()
            .chunks_exact(8)
        {
            let entry = u64::from_le_bytes(entry.first_chunk().copied().unwrap_or_default());
            if entry & 1 == 0 {
                add(entry);
                place = entry.wrapping_add(8);
                continue;
            }
            for bit in 1..64 {
                if entry >> bit & 1 != 0 {
                    add(place.wrapping_add(8 * (bit - 1)));
                }
            }
            place = place.wrapping_add(8 * 63);
        }
    }
}

/// Dynamic symbols.
struct Symbols<'d> {
    symbols: &'d [u8],
    strings: &'d [u8],
}

impl<'d> Symbols<'d> {
    fn of(elf: &Elf<'d, &'d [u8]>, dynamic: &Dynamic) -> Symbols<'d> {
        let strings = dynamic
            .strtab
            .map(|start| start..start.saturating_add(dynamic.strsz));
        let strings = strings.and_then(|range| elf.bytes_in(&range));
        Symbols {
            symbols: dynamic
                .symtab
                .and_then(|start| elf.bytes_from(start))
                .unwrap_or_default(),
            strings: strings.unwrap_or_default(),
        }
    }

    /// Name and value.
    fn get(&self, index: usize) -> Option<(String, u64)> {
        const SIZE: usize = size_of::<elf::Sym64<LE>>();
        let bytes = self.symbols.get(index.checked_mul(SIZE)?..)?;
        let (symbol, _) = object::pod::from_bytes::<elf::Sym64<LE>>(bytes).ok()?;
        let name = self.strings.get(symbol.st_name(LE) as usize..)?;
        Some((until_nul(name), symbol.st_value(LE)))
    }
}
