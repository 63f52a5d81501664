//! Symbol tables to evidence.
//!
//! Which symbols speak of functions:
//!
//! | symbol | taken as |
//! |---|---|
//! | `FUNC`, defined, in code | a function |
//! | `GNU_IFUNC`, defined, in code | its resolver, which is what lives there, as `name [resolver]`; see `ifuncs` |
//! | `NOTYPE`, global or weak, in code | a function, unless inside a sized one: hand-written assembly often has no `.type` |
//! | `NOTYPE`, local | nothing: a label |
//! | `FILE` | where the local symbols of the next compilation unit begin |
//!
//! Version suffixes (`f@@VER` in `.symtab`) are cut off, so that one name has
//! one spelling.

use object::elf;
use object::read::elf::{SectionHeader, Sym};
use object::{LittleEndian as LE, ReadRef};

use crate::elf::{Dynamic, Elf};
use crate::gopclntab::GoTable;
use crate::ifuncs::RESOLVER;
use crate::names::{NameId, Names};

type Symbol = elf::Sym64<LE>;

/// One symbol that may speak of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    pub(crate) addr: u64,
    pub(crate) size: u64,
    /// `FUNC` or `GNU_IFUNC`; otherwise `NOTYPE`.
    pub(crate) typed: bool,
    /// Compilation unit of a local symbol, 0 for all others.
    pub(crate) unit: u32,
    pub(crate) name: NameId,
    /// Smaller is a better name; see [`rank`].
    pub(crate) rank: u32,
}

/// A name that stands for whatever function its resolver chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifunc {
    /// Place and size of the resolver.
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) name: NameId,
    pub(crate) rank: u32,
}

/// Collection of symbols over several tables.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) names: Names,
    pub(crate) found: Vec<Evidence>,
    pub(crate) ifuncs: Vec<Ifunc>,
    units: u32,
}

impl Collector {
    /// Reads the section of the given type; says whether it exists.
    pub(crate) fn add_section<'d, R: ReadRef<'d>>(
        &mut self,
        elf: &Elf<'d, R>,
        kind: elf::SectionType,
    ) -> bool {
        let Some(table) = elf
            .sections
            .iter()
            .find(|section| section.sh_type(LE) == kind)
        else {
            return false;
        };
        let symbols: &[Symbol] = table.data_as_array(LE, elf.data).unwrap_or_default();
        let strings = elf.sections.section(table.link(LE)).ok();
        // The whole string table at once: one read also for cached readers.
        let strings = strings.and_then(|section| section.data(LE, elf.data).ok());
        self.add(symbols, strings.unwrap_or_default());
        !symbols.is_empty()
    }

    /// Reads the dynamic symbols of a file without sections.
    pub(crate) fn add_dynamic<'d, R: ReadRef<'d>>(&mut self, elf: &Elf<'d, R>, dynamic: &Dynamic) {
        let (Some(symtab), Some(strtab)) = (dynamic.symtab, dynamic.strtab) else {
            return;
        };
        let Some(bytes) = elf.bytes_in(&(symtab..strtab)) else {
            return;
        };
        let strings = elf
            .bytes_in(&(strtab..strtab.saturating_add(dynamic.strsz)))
            .unwrap_or_default();
        let count = bytes.len() / size_of::<Symbol>();
        if let Ok((symbols, _)) = object::pod::slice_from_bytes::<Symbol>(bytes, count) {
            self.add(symbols, strings);
        }
    }

    /// Functions of a Go program without a symbol table.
    pub(crate) fn add_go(&mut self, table: &GoTable) {
        for function in table.functions() {
            let Some(name) = self.names.add(function.name) else {
                return;
            };
            let size = function.end.saturating_sub(function.entry);
            self.found.push(Evidence {
                addr: function.entry,
                size,
                typed: true,
                unit: 0,
                name,
                rank: rank(true, size != 0, false, function.name),
            });
        }
    }

    fn add(&mut self, symbols: &[Symbol], strings: &[u8]) {
        for symbol in symbols {
            let kind = symbol.st_type();
            if kind == elf::STT_FILE {
                self.units = self.units.saturating_add(1);
                continue;
            }
            let typed = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
            let local = symbol.st_bind() == elf::STB_LOCAL;
            let section = symbol.st_shndx(LE);
            let label = kind == elf::STT_NOTYPE && !local && section != elf::SHN_ABS;
            if !(typed || label) || section == elf::SHN_UNDEF || section == elf::SHN_COMMON {
                continue;
            }
            let Some(name) = name_of(symbol, strings) else {
                continue;
            };
            if name.is_empty() || (!typed && is_boundary(name)) {
                continue;
            }
            let size = symbol.st_size(LE);
            let Some(mut id) = self.names.add(name) else {
                return;
            };
            let (addr, rank) = (symbol.st_value(LE), rank(typed, size != 0, local, name));
            if kind == elf::STT_GNU_IFUNC {
                self.ifuncs.push(Ifunc {
                    addr,
                    size,
                    name: id,
                    rank,
                });
                let Some(resolver) = self.names.add(&[name, RESOLVER.as_bytes()].concat()) else {
                    return;
                };
                id = resolver;
            }
            self.found.push(Evidence {
                addr,
                size,
                typed,
                unit: if local { self.units } else { 0 },
                name: id,
                rank,
            });
        }
    }
}

fn name_of<'s>(symbol: &Symbol, strings: &'s [u8]) -> Option<&'s [u8]> {
    let rest = strings.get(symbol.st_name(LE) as usize..)?;
    let end = memchr::memchr(0, rest)?;
    Some(without_version(&rest[..end]))
}

/// `memcpy` of `memcpy@@GLIBC_2.14`; other uses of `@` (Go's import paths,
/// MSVC names) do not begin with a C identifier and are kept.
fn without_version(name: &[u8]) -> &[u8] {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
    match memchr::memchr(b'@', name) {
        Some(at) if at > 0 && name[..at].iter().all(word) => &name[..at],
        _ => name,
    }
}

/// Labels that linkers put at the borders of sections.
fn is_boundary(name: &[u8]) -> bool {
    const BORDERS: [&[u8]; 6] = [
        b"etext",
        b"_etext",
        b"__etext",
        b"__executable_start",
        b"_GLOBAL_OFFSET_TABLE_",
        b"_PROCEDURE_LINKAGE_TABLE_",
    ];
    BORDERS.contains(&name) || name.starts_with(b"__start_") || name.starts_with(b"__stop_")
}

/// How far from the name a person would use, best first: typed, sized, not
/// local, few leading underscores, short.
fn rank(typed: bool, sized: bool, local: bool, name: &[u8]) -> u32 {
    let underscores = if name.starts_with(b"_Z") || name.starts_with(b"_R") {
        0
    } else {
        name.iter()
            .take_while(|&&byte| byte == b'_')
            .count()
            .min(15) as u32
    };
    let length = name.len().min(0xff_ffff) as u32;
    u32::from(!typed) << 31
        | u32::from(!sized) << 30
        | u32::from(local) << 29
        | underscores << 25
        | length
}

#[cfg(test)]
mod tests {
    use super::{rank, without_version};

    #[test]
    fn the_name_a_person_would_use_ranks_first() {
        let order: [(&[u8], bool); 4] = [
            (b"puts", false),
            (b"fputs_long", false),
            (b"_IO_puts", false),
            (b"puts", true),
        ];
        let ranks = order.map(|(name, local)| rank(true, true, local, name));
        assert!(ranks.is_sorted());
    }

    #[test]
    fn only_version_suffixes_are_cut() {
        assert_eq!(without_version(b"memcpy@@GLIBC_2.14"), b"memcpy");
        assert_eq!(without_version(b"a/b@v1.init"), b"a/b@v1.init");
        assert_eq!(without_version(b"@x"), b"@x");
    }
}
