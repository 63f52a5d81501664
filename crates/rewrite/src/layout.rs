//! Code of functions for another place.
//!
//! Each instruction of a function's graph is kept byte for byte, but for displacements relative to itself and
//! branches: a short one whose target is too far now gets its long form. The order of instructions stays, so what falls
//! through still does, and so does the alignment of a function's beginning, and of code behind padding, within 64 bytes: where
//! nothing grew, loops are aligned as they were. Tables of its switches that are written anew ([`crate::jump_tables`]) stand elsewhere.
//! Inserted code ([`Insertions`]) stands before the instruction that it is for, or behind the function, where branches to it lead.
//! Versions of a function's code ([`crate::versions`]) stand one behind the other; an instruction is found by its [`Label`].

mod branches;
mod insertions;
mod same;
mod take;
mod text;

use std::collections::HashMap;
use std::ops::Range;

use image::LinkAddr;
use isa::Insn;
use probe::Symbol;

use crate::address::New;
use crate::jump_tables::NewTable;
use crate::skipped::Why;
use crate::versions::{Label, Version};

use branches::Form;
use insertions::{Before, Stub, Way};
pub use insertions::{
    COUNT, ENTER, FULL, GOES, HEAD, Inserted, Insertions, LEAVE, LEFT, LOG, PUSH, REFER, RESIDENT,
    RESTORE, STATE, TALLY, TURNS,
};
pub use take::Copied;

/// Alignments of a function's own code and of its other parts that stay as they were.
const ALIGN: u64 = 64;
const ALIGN_PART: u64 = 16;
/// Bytes of a long jump.
const JUMP: u64 = 5;

/// An instruction.
#[derive(Clone, Copy, Debug)]
struct Item {
    old: LinkAddr,
    len: u8,
    kind: Kind,
    is_call: bool,
    /// `ud2`, `int3` and the like.
    is_trap: bool,
    behind: Behind,
    /// The next instruction may be executed behind it.
    goes_on: bool,
    /// Bytes between it and the instruction before, which nothing executes: padding of compilers.
    gap: u16,
    /// Bytes that are inserted before it: for who comes from the code before, then for everybody.
    falls: u16,
    inserted: u16,
    /// Offset in the function's new code.
    offset: u32,
    size: u8,
}

/// A jump behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// To the old code behind it, for a call that is taken not to return, or a trap.
    OldCode,
    /// To the next instruction, which is not in this version.
    FirstVersion,
    /// To an old address, wherever that is now: over an instruction that is this one without its prefix `lock`, or to the function that
    /// it runs into.
    To(LinkAddr),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    /// The displacement relative to the next instruction is at this byte.
    Relative {
        at: u8,
        target: LinkAddr,
    },
    /// The displacement at this byte leads to a table with this number.
    Table {
        at: u8,
        table: u16,
        is_relative: bool,
    },
    /// A branch with so many prefixes to a constant target.
    Branch {
        prefixes: u8,
        form: Form,
        target: LinkAddr,
    },
}

/// Code that is one after the other in the input, or what a version has of it.
#[derive(Clone, Debug)]
struct Part {
    version: Version,
    old: Range<LinkAddr>,
    items: Range<usize>,
    /// Offset in the new code.
    offset: u64,
    size: u64,
}

/// A function that moves.
#[derive(Clone, Debug)]
pub struct Moved {
    pub entry: LinkAddr,
    items: Vec<Item>,
    parts: Vec<Part>,
    /// Address of its new code.
    pub base: New,
    pub size: u64,
    /// Tables of its switches that are written anew.
    tables: Vec<Table>,
    /// Code that is inserted before instructions.
    before: HashMap<Label, Before>,
    /// Ways of branches and of elements of tables that lead to what is inserted, by where they are and the old address of their
    /// target.
    ways: HashMap<(Label, LinkAddr), Way>,
    stubs: Vec<Stub>,
}

/// A table of a switch that is written anew for a version.
#[derive(Clone, Debug)]
struct Table {
    version: Version,
    new: NewTable,
    /// Its new address.
    addr: New,
}

/// Targets of branches between functions.
pub trait Targets {
    /// The new address of a function's entry, if it moved.
    fn moved(&self, old: LinkAddr) -> Option<New>;

    /// Address of something that inserted code names.
    fn address(&self, symbol: Symbol) -> New;
}

/// Instructions of functions by their new addresses.
pub fn code<'m>(moved: impl Iterator<Item = &'m Moved>) -> Vec<crate::Insn> {
    let mut code: Vec<_> = moved.flat_map(Moved::code).collect();
    code.sort_unstable();
    code
}

impl Moved {
    /// Gives each instruction its offset; branches grow until all reach.
    fn lay_out(&mut self) -> Result<(), Why> {
        loop {
            let mut end = 0;
            for part in &mut self.parts {
                // The base is aligned as the entry was.
                let phase = |addr: LinkAddr| addr.0 % ALIGN_PART;
                let now = phase(self.entry + end);
                end += (phase(part.old.start) + ALIGN_PART - now) % ALIGN_PART;
                part.offset = end;
                // GCC has a byte that is not executed before a landing pad at the beginning of a part: its offset may not be 0.
                let first = self.items[part.items.clone()].first();
                end += u64::from(first.is_some_and(|first| first.old > part.old.start));
                for item in &mut self.items[part.items.clone()] {
                    let falls = u64::from(item.falls);
                    end += item.padding(self.entry + end + falls);
                    let offset = end + falls + u64::from(item.inserted);
                    item.offset = u32::try_from(offset).map_err(|_| Why::TooFar)?;
                    end = offset + u64::from(item.size) + item.behind();
                }
                part.size = end - part.offset;
                // An address behind the last call is still the function's.
                end += 1;
            }
            for stub in &mut self.stubs {
                stub.offset = end;
                end += stub.size();
            }
            self.size = end;
            let grows = self.grows()?;
            if grows.is_empty() {
                return Ok(());
            }
            for at in grows {
                let Kind::Branch { prefixes, form, .. } = self.items[at].kind else {
                    continue;
                };
                self.items[at].size = prefixes + form.long_size();
            }
        }
    }

    /// Short branches that do not reach, by number of the instruction.
    fn grows(&self) -> Result<Vec<usize>, Why> {
        let mut grows = Vec::new();
        for part in &self.parts {
            for at in part.items.clone() {
                let item = &self.items[at];
                let Kind::Branch {
                    prefixes,
                    form,
                    target,
                } = item.kind
                else {
                    continue;
                };
                if item.size != prefixes + 2 {
                    continue;
                }
                let next = item.end();
                let to = self.offset_from(part.version.at(item.old), target);
                let distance = to.map(|to| to.wrapping_sub(next) as i64);
                if distance.is_some_and(|distance| i8::try_from(distance).is_ok()) {
                    continue;
                }
                if form == Form::Count {
                    return Err(Why::ShortBranch);
                }
                grows.push(at);
            }
        }
        Ok(grows)
    }

    /// Instructions with their versions.
    fn all(&self) -> impl Iterator<Item = (Version, &Item)> {
        self.parts.iter().flat_map(|part| {
            let items = self.items[part.items.clone()].iter();
            items.map(|item| (part.version, item))
        })
    }

    /// Instructions of the version that has all.
    fn first(&self) -> impl Iterator<Item = &Item> {
        let all = self.all();
        let first = all.take_while(|(version, _)| *version == Version::FIRST);
        first.map(|(_, item)| item)
    }

    /// The part of a version with an old address.
    fn part(&self, label: Label) -> Option<&Part> {
        let is_it = |part: &&Part| part.version == label.version && part.old.contains(&label.old);
        self.parts.iter().find(is_it)
    }

    fn item(&self, label: Label) -> Option<&Item> {
        let part = self.part(label)?;
        let items = &self.items[part.items.clone()];
        let found = items.binary_search_by_key(&label.old, |item| item.old);
        Some(&items[found.ok()?])
    }

    /// Whether a version has something of the code that a part of the function has.
    pub fn has_part(&self, label: Label) -> bool {
        self.part(label).is_some()
    }

    /// Offset where what branches to an instruction comes in.
    fn offset_of(&self, label: Label) -> Option<u64> {
        self.item(label).map(Item::label)
    }

    /// Offset where what branches to an instruction comes in: in the first version, if the own one has it not.
    fn offset_near(&self, label: Label) -> Option<u64> {
        let own = self.offset_of(label);
        match label.version {
            Version::FIRST => own,
            _ => own.or_else(|| self.offset_of(label.in_first())),
        }
    }

    /// Offset to which a branch, or an element of the table, at a label leads that had an old address as its target.
    fn offset_from(&self, from: Label, target: LinkAddr) -> Option<u64> {
        match self.ways.get(&(from, target)) {
            Some(Way::Stub(stub)) => Some(self.stubs[*stub].offset),
            Some(Way::Before) => self.item(from.beside(target)).map(Item::start),
            None => self.offset_near(from.beside(target)),
        }
    }

    /// New address of an instruction.
    pub fn new_of(&self, label: Label) -> Option<New> {
        self.offset_of(label).map(|offset| self.base + offset)
    }

    /// New address of its entry, for callers.
    pub fn called_at(&self) -> New {
        self.base + self.parts[0].offset
    }

    /// Address to which a jump, or an element of the table, at a label leads that had an old address as its target.
    fn now_from(&self, from: Label, target: LinkAddr, targets: &dyn Targets) -> New {
        let own = self.offset_from(from, target);
        let own = own.map(|offset| self.base + offset);
        own.or_else(|| targets.moved(target))
            .unwrap_or(New::of_old(target))
    }

    /// Address that a call from a version goes to which went to an old one.
    fn called(&self, version: Version, target: LinkAddr, targets: &dyn Targets) -> New {
        let own = || self.offset_near(version.at(target));
        let own = || own().map(|offset| self.base + offset);
        targets
            .moved(target)
            .or_else(own)
            .unwrap_or(New::of_old(target))
    }

    /// New address of the first instruction at or behind an old address of the same part; the part's end if there is none. A
    /// part is known by an old address in it.
    pub fn at_or_behind(&self, old: LinkAddr, part: Label) -> Option<New> {
        let part = self.part(part)?;
        let items = &self.items[part.items.clone()];
        let found = items.partition_point(|item| item.old < old);
        let offset = match (found, items.get(found)) {
            (0, _) => part.offset,
            (_, Some(item)) => item.start(),
            (_, None) => part.offset + part.size,
        };
        Some(self.base + offset)
    }

    /// Does the same for what holds from an old address on: at the jump to the first version, if that is what stands there.
    pub fn beginning_at(&self, old: LinkAddr, part: Label) -> Option<New> {
        let items = &self.items[self.part(part)?.items.clone()];
        let before = items.partition_point(|item| item.old < old).checked_sub(1);
        let before = before
            .map(|at| &items[at])
            .filter(|item| item.behind == Behind::FirstVersion && item.old_end() == old);
        let jump = before.map(|item| self.base + item.end());
        jump.or_else(|| self.at_or_behind(old, part))
    }

    /// Does the same as [`Moved::at_or_behind`], but an address within an instruction stays as far from its end: compilers say so
    /// that something holds until a call has been made.
    pub fn within(&self, old: LinkAddr, start: Label) -> Option<New> {
        let part = self.part(start)?;
        let items = &self.items[part.items.clone()];
        let before = items.partition_point(|item| item.old < old).checked_sub(1);
        let inside = before.map(|at| &items[at]).and_then(|item| {
            let left = item.old_end().0.checked_sub(old.0);
            let left = left.filter(|&left| left > 0)?;
            Some(self.base + item.offset() + u64::from(item.size).saturating_sub(left))
        });
        inside.or_else(|| self.at_or_behind(old, start))
    }

    /// Whether an old address is that of an instruction in the part with another one.
    pub fn is_in_part(&self, old: LinkAddr, start: LinkAddr) -> bool {
        let part = self.part(Version::FIRST.at(start));
        let is_there = part.is_some_and(|part| part.old.contains(&old));
        is_there && self.offset_of(Version::FIRST.at(old)).is_some()
    }

    /// Old end of the part with an old address.
    pub fn part_end(&self, old: LinkAddr) -> LinkAddr {
        let part = self.part(Version::FIRST.at(old));
        part.map_or(old, |part| part.old.end)
    }

    /// Old addresses that its calls return to.
    pub fn returns(&self) -> impl Iterator<Item = LinkAddr> + '_ {
        let calls = self.first().filter(|item| item.is_call);
        calls.map(Item::old_end)
    }

    /// Old addresses to which it leaves its new code.
    pub fn exits(&self) -> impl Iterator<Item = LinkAddr> + '_ {
        let last = self.first().filter(|item| item.behind == Behind::OldCode);
        last.map(Item::old_end)
    }

    /// Old places of its instructions.
    pub fn old_code(&self) -> impl Iterator<Item = Range<LinkAddr>> + '_ {
        self.first().map(|item| item.old..item.old_end())
    }

    /// Its instructions, where they are.
    fn code(&self) -> impl Iterator<Item = crate::Insn> + '_ {
        self.all().map(|(_, item)| crate::Insn {
            front: (self.base + item.start()).0,
            new: (self.base + item.offset()).0,
            old: item.old.0,
        })
    }

    /// Old starts of its parts, by version, with their new places.
    pub fn parts(&self) -> impl Iterator<Item = (Label, Range<New>)> + '_ {
        self.parts.iter().map(|part| {
            let start = self.base + part.offset;
            (part.version.at(part.old.start), start..start + part.size)
        })
    }

    /// Versions that it has code of.
    pub fn versions(&self) -> impl Iterator<Item = Version> + use<> {
        let last = self.parts.last().map_or(0, |part| part.version.0);
        (0..=last).map(Version)
    }

    /// Puts it at the next address that is aligned as it was, behind so many bytes of other code; gives the address behind it.
    pub fn place(&mut self, next: New, in_front: u64) -> New {
        let next = next + in_front;
        self.base = next + (self.entry.0 % ALIGN + ALIGN - next.0 % ALIGN) % ALIGN;
        self.base + self.size
    }

    /// Puts its tables at the next address; gives the address behind them.
    pub fn place_tables(&mut self, mut next: New) -> New {
        for table in &mut self.tables {
            let width = u64::from(table.new.width);
            table.addr = next.aligned(width);
            next = table.end();
        }
        next
    }

    /// Address behind its last table.
    pub fn tables_end(&self) -> Option<New> {
        self.tables.last().map(Table::end)
    }

    /// Whether a jump goes by a table that is written anew.
    pub fn has_table_of(&self, jump: LinkAddr) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|table| table.new.jumps.contains(&jump))
    }

    /// Writes its tables to `out`, which begins at the address `start`.
    pub fn write_tables(
        &self,
        out: &mut [u8],
        start: New,
        targets: &dyn Targets,
    ) -> Result<(), Why> {
        for table in &self.tables {
            let width = usize::from(table.new.width);
            let at = table.addr.behind(start) as usize;
            let elements = out[at..].chunks_exact_mut(width).zip(&table.new.targets);
            for (number, (element, &target)) in elements.enumerate() {
                let new = self.now_from(table.version.at(table.new.old), target, targets);
                match (width, new.displacement(table.addr)) {
                    (4, Ok(distance)) => element.copy_from_slice(&distance),
                    // Bytes behind the last case need not be elements.
                    (4, Err(_)) if number >= table.new.cases => {}
                    (4, Err(why)) => return Err(why),
                    _ => element.copy_from_slice(&new.0.to_le_bytes()),
                }
            }
        }
        Ok(())
    }
}

impl Table {
    /// Address behind it.
    fn end(&self) -> New {
        self.addr + u64::from(self.new.width) * self.new.targets.len() as u64
    }
}

/// The address that an instruction has in itself, and the position of its displacement.
fn address_of(insn: &Insn) -> Option<(LinkAddr, usize)> {
    let absolute = || insn.absolute().map(|(addr, at)| (addr.into(), at));
    let (addr, at) = insn.rip_relative().or_else(absolute)?;
    Some((LinkAddr(addr), at))
}

impl Item {
    /// Bytes that align it as it was, if padding was before it, at an address that is aligned as the new one.
    fn padding(&self, here: LinkAddr) -> u64 {
        let gap = u64::from(self.gap);
        let padding = self.old.0.wrapping_sub(here.0) % ALIGN;
        match gap {
            0 => 0,
            _ if padding < gap + ALIGN_PART => padding,
            _ => padding % ALIGN_PART,
        }
    }

    /// Its old bytes.
    fn bytes<'d>(&self, bytes: &dyn Fn(LinkAddr) -> &'d [u8]) -> &'d [u8] {
        &bytes(self.old)[..usize::from(self.len)]
    }

    /// Offset in the function's new code.
    fn offset(&self) -> u64 {
        self.offset.into()
    }

    /// Offset of what is inserted before it.
    fn start(&self) -> u64 {
        self.label() - u64::from(self.falls)
    }

    /// Offset where branches to it come in.
    fn label(&self) -> u64 {
        self.offset() - u64::from(self.inserted)
    }

    /// Old address behind it.
    fn old_end(&self) -> LinkAddr {
        self.old + u64::from(self.len)
    }

    /// Offset behind it.
    fn end(&self) -> u64 {
        self.offset() + u64::from(self.size)
    }

    /// Bytes of the jump that follows it.
    fn behind(&self) -> u64 {
        match self.behind {
            Behind::Nothing => 0,
            Behind::OldCode | Behind::FirstVersion | Behind::To(_) => JUMP,
        }
    }
}
