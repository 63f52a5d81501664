//! Functions and variables as the symbol table has them, for tools that read the same table.
//!
//! A report wants one name for each byte of code; a linker's tool wants its own
//! spelling of a symbol. Local symbols of one name are told apart by their order:
//! [`LinkerSymbol::nth`] counts them by address, data and labels too, as BOLT does.

use std::collections::HashMap;

use object::elf;
use object::read::elf::{SectionHeader, Sym};
use object::{LittleEndian as LE, ReadRef};

use crate::Image;
use crate::addr::LinkAddr;
use crate::elf::Elf;

/// A function or variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkerSymbol {
    pub addr: LinkAddr,
    pub size: u64,
    /// As it stands in the table.
    pub name: String,
    /// Number among the local symbols of the same name, from 1; `None` for global ones.
    pub nth: Option<u32>,
}

impl Image {
    /// Functions of the file's own symbol table; none in a stripped file.
    pub fn linker_symbols(&self) -> Vec<LinkerSymbol> {
        Elf::parse(self.bytes()).map_or_else(|_| Vec::new(), |elf| read(&elf))
    }

    /// Variables of the file's own symbol table, by address; none in a stripped file.
    pub fn variables(&self) -> Vec<LinkerSymbol> {
        Elf::parse(self.bytes()).map_or_else(|_| Vec::new(), |elf| variables(&elf))
    }
}

/// Symbols of the table `.symtab`, by address; of several at one address, global ones first.
fn read<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Vec<LinkerSymbol> {
    let table = elf.sections.symbols(LE, elf.data, elf::SHT_SYMTAB);
    let Ok(table) = table else {
        return Vec::new();
    };
    let section_of = |symbol: &elf::Sym64<LE>| {
        let index = object::SectionIndex(usize::from(symbol.st_shndx(LE).0));
        elf.sections.section(index).ok()
    };
    let is_placed = |symbol: &elf::Sym64<LE>| {
        let is_kept =
            |section: &elf::SectionHeader64<LE>| section.sh_flags(LE).0 & elf::SHF_ALLOC.0 != 0;
        symbol.st_shndx(LE) == elf::SHN_ABS || section_of(symbol).is_some_and(is_kept)
    };
    let mut all: Vec<&elf::Sym64<LE>> = table
        .symbols()
        .iter()
        .filter(|symbol| symbol.st_type() != elf::STT_FILE && symbol.st_value(LE) != 0)
        .filter(|symbol| symbol.st_shndx(LE) != elf::SHN_UNDEF && is_placed(symbol))
        .collect();
    all.sort_by_key(|symbol| (symbol.st_value(LE), symbol.st_type() != elf::STT_FUNC));
    let mut met: HashMap<&[u8], u32> = HashMap::new();
    let (mut found, mut ends) = (Vec::new(), Vec::new());
    for symbol in all {
        let Ok(name) = symbol.name(LE, table.strings()) else {
            continue;
        };
        let nth = (symbol.st_bind() == elf::STB_LOCAL).then(|| {
            let nth = met.entry(name).or_default();
            *nth += 1;
            *nth
        });
        if symbol.st_type() == elf::STT_FUNC && !name.is_empty() {
            let section = section_of(symbol);
            ends.push(section.map_or(0, |section| {
                section.sh_addr(LE).saturating_add(section.sh_size(LE))
            }));
            found.push(LinkerSymbol {
                addr: LinkAddr(symbol.st_value(LE)),
                size: symbol.st_size(LE),
                name: String::from_utf8_lossy(name).into_owned(),
                nth,
            });
        }
    }
    end_those_without_size(&mut found, &ends);
    found.retain(|symbol| symbol.size > 0);
    found.sort_by_key(|symbol| (symbol.addr, symbol.nth.is_some()));
    found
}

/// Variables of the table `.symtab`, by address.
fn variables<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Vec<LinkerSymbol> {
    let table = elf.sections.symbols(LE, elf.data, elf::SHT_SYMTAB);
    let Ok(table) = table else {
        return Vec::new();
    };
    let is_one = |symbol: &&elf::Sym64<LE>| {
        symbol.st_type() == elf::STT_OBJECT
            && symbol.st_shndx(LE) != elf::SHN_UNDEF
            && symbol.st_size(LE) > 0
    };
    let variables = table.symbols().iter().filter(is_one);
    let variables = variables.filter_map(|symbol| {
        let name = symbol.name(LE, table.strings()).ok()?;
        Some(LinkerSymbol {
            addr: LinkAddr(symbol.st_value(LE)),
            size: symbol.st_size(LE),
            name: String::from_utf8_lossy(name).into_owned(),
            nth: None,
        })
    });
    let mut all: Vec<LinkerSymbol> = variables.collect();
    all.sort_by_key(|symbol| symbol.addr);
    all
}

/// They end where the next function begins, or with their section. `symbols` are sorted.
fn end_those_without_size(symbols: &mut [LinkerSymbol], ends: &[u64]) {
    let mut behind: Option<LinkAddr> = None;
    for at in (0..symbols.len()).rev() {
        let addr = symbols[at].addr;
        if let Some(next) = symbols.get(at + 1).filter(|next| next.addr != addr) {
            behind = Some(next.addr);
        }
        if symbols[at].size == 0 {
            let end = behind.map_or(ends[at], |behind| behind.0.min(ends[at]));
            symbols[at].size = end.saturating_sub(addr.0);
        }
    }
}
