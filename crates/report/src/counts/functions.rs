//! The functions of the table, with what was inlined into them apart if that was asked for.
//!
//! Functions without a symbol begin where unwind tables say ([`Image::function_at`]); where the file is not the one that ran any more,
//! and in code without such tables, code without a symbol is one row a file. An inlined function is one row a file, whatever
//! it was inlined into: which code is whose is read from the DWARF of the file
//! ([`Image::scopes`]), so it has to be the one that ran.

use std::collections::HashMap;

use analysis::counts::Counted;
use analysis::counts::hot::{self, Group};
use image::{ExtentKind, FileOffset, Image};

use super::llvm::Source;
use super::{Report, Section};

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// Index of the file.
    pub unit: u32,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name {
    /// Index of the name, and the function's offset.
    Symbol(u32, u64),
    /// The linker's name of a function that was inlined.
    Inlined(String),
    /// A function without a symbol, by its offset.
    Place(u64),
    /// Code that nothing names.
    Unknown,
}

/// All functions of a section that are listed, hottest first.
pub(super) fn of(report: &Report<'_>, section: &Section) -> Vec<Group<Key>> {
    let inlines = match report.view.inlines {
        true => Inlines::of(report, section),
        false => Inlines::default(),
    };
    let lists = |insn: &Counted| report.lists(&section.counts, insn);
    let key = |insn: &Counted| Key {
        unit: insn.unit,
        name: match (inlines.name(insn), insn.source.function) {
            (Some(name), _) => Name::Inlined(name.to_owned()),
            (None, Some((name, distance))) => Name::Symbol(name, insn.at.wrapping_sub(distance)),
            (None, None) => place(report, section, insn).map_or(Name::Unknown, Name::Place),
        },
    };
    let mut groups = hot::groups(&section.counts, lists, key);
    for group in &mut groups {
        let first = &section.counts.insns[group.first];
        if group.key.name == Name::Place(first.at) {
            group.entered = first.count;
        }
    }
    groups
}

/// The beginning of the function without a symbol that an instruction is in.
pub(super) fn place(report: &Report<'_>, section: &Section, insn: &Counted) -> Option<u64> {
    let unit = &section.counts.units[insn.unit as usize];
    let image = report.binaries.get(unit)?;
    let extent = image.function_at(FileOffset(insn.at))?;
    Some(match extent.kind {
        ExtentKind::Part => extent.owner.0,
        _ => extent.start.0,
    })
}

/// Inlined code of all files, by unit.
#[derive(Default)]
struct Inlines<'a> {
    sources: HashMap<u32, (&'a Image, Source<'a>)>,
}

impl<'a> Inlines<'a> {
    fn of(report: &'a Report<'_>, section: &Section) -> Inlines<'a> {
        let units = (0..).zip(&section.counts.units);
        let found = units.filter_map(|(number, unit)| {
            let image = report.binaries.get(unit)?;
            Some((number, (image, Source::new(image))))
        });
        Inlines {
            sources: found.collect(),
        }
    }

    /// The innermost function that was inlined at an instruction.
    fn name(&self, insn: &Counted) -> Option<&str> {
        let (image, source) = self.sources.get(&insn.unit)?;
        let addr = image.link_addr(FileOffset(insn.at))?;
        let mut scope = source.function_at(addr)?;
        let mut name = None;
        while let Some(inner) = scope.inlined.iter().find(|inner| inner.contains(addr)) {
            name = Some(inner.name.as_str());
            scope = inner;
        }
        name
    }
}
