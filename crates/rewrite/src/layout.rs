//! Code of functions for another place.
//!
//! Each instruction of a function's graph is kept byte for byte, but for displacements relative to itself and
//! branches: a short one whose target is too far now gets its long form. The order of instructions stays, so what falls
//! through still does, and so does the alignment of a function's beginning, and of code behind padding, within 64 bytes: where
//! nothing grew, loops are aligned as they were. Tables of its switches that are written anew ([`crate::jump_tables`]) stand elsewhere.
//! Inserted code ([`Insertions`]) stands before the instruction that it is for, or behind the function, where branches to it lead.

mod branches;
mod insertions;
mod same;
mod text;

use std::collections::HashMap;
use std::ops::Range;

use flow::{Block, EdgeKind, Function};
use isa::{Flow, Insn};
use probe::Symbol;

use crate::jump_tables::{NewTable, NewTables};
use crate::skipped::Why;

use branches::{Form, branch};
use insertions::{Before, Stub, Way};
pub use insertions::{Inserted, Insertions, RESIDENT, STATE};

/// Alignments of a function's own code and of its other parts that stay as they were.
const ALIGN: u64 = 64;
const ALIGN_PART: u64 = 16;
/// Bytes of a long jump.
const JUMP: u64 = 5;

/// An instruction.
#[derive(Clone, Copy, Debug)]
struct Item {
    old: u64,
    len: u8,
    kind: Kind,
    is_call: bool,
    /// `ud2`, `int3` and the like.
    is_trap: bool,
    /// A call that is taken not to return, or a trap: a jump to the old code behind it follows.
    is_last: bool,
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

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    /// The displacement relative to the next instruction is at this byte.
    Relative {
        at: u8,
        target: u64,
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
        target: u64,
    },
}

/// Code that is one after the other in the input.
#[derive(Clone, Debug)]
struct Part {
    old: Range<u64>,
    items: Range<usize>,
    /// Offset in the new code.
    offset: u64,
    size: u64,
}

/// A function that moves.
#[derive(Clone, Debug)]
pub struct Moved {
    pub entry: u64,
    items: Vec<Item>,
    parts: Vec<Part>,
    /// Address of its new code.
    pub base: u64,
    pub size: u64,
    /// Tables of its switches that are written anew, with their new addresses.
    tables: Vec<(NewTable, u64)>,
    /// Code that is inserted before instructions, by their old addresses.
    before: HashMap<u64, Before>,
    /// Ways of branches and of elements of tables, by the old addresses of both ends, that lead to what is inserted.
    ways: HashMap<(u64, u64), Way>,
    stubs: Vec<Stub>,
}

/// Targets of branches between functions.
pub trait Targets {
    /// The new address of a function's entry, if it moved.
    fn moved(&self, old: u64) -> Option<u64>;

    /// Address of something that inserted code names.
    fn address(&self, symbol: Symbol) -> u64;
}

impl Moved {
    /// Takes the code of a function.
    pub fn new<'d>(
        function: &Function,
        switches: NewTables,
        insertions: Insertions,
        bytes: &dyn Fn(u64) -> &'d [u8],
    ) -> Result<Moved, Why> {
        let insns = function.graph.blocks.iter().map(|block| block.insns);
        let mut moved = Moved {
            entry: function.entry.0,
            items: Vec::with_capacity(insns.sum::<u32>() as usize),
            parts: Vec::new(),
            base: 0,
            size: 0,
            tables: Vec::new(),
            before: HashMap::new(),
            ways: HashMap::new(),
            stubs: Vec::new(),
        };
        for range in &function.ranges {
            let range = range.start.0..range.end.0;
            let first = moved.items.len();
            let mut goes_on = None;
            let is_inside = |block: &&Block| range.contains(&block.start.0);
            for block in function.graph.blocks.iter().filter(is_inside) {
                if goes_on.is_some_and(|next| next != block.start.0) {
                    return Err(Why::Code);
                }
                let is_first = moved.items.len() == first;
                goes_on = moved.take(block, is_first, &switches, bytes(block.start.0))?;
                // Should a call return that is taken not to, it goes on in old code; and so does a trap whose handler has the
                // program go on behind it.
                if !falls_out(function, block) {
                    goes_on = None;
                    let mut last = moved.items.last_mut();
                    if let Some(last) = last.as_mut().filter(|last| last.is_call || last.is_trap) {
                        last.is_last = true;
                    }
                }
            }
            if goes_on.is_some() {
                return Err(Why::Code);
            }
            if moved.items.len() > first {
                moved.parts.push(Part {
                    old: range,
                    items: first..moved.items.len(),
                    offset: 0,
                    size: 0,
                });
            }
        }
        if moved.items.is_empty() || moved.parts[0].old.start != moved.entry {
            return Err(Why::Code);
        }
        let tables = switches.tables.into_iter();
        moved.tables = tables.map(|table| (table, 0)).collect();
        moved.insert(insertions)?;
        moved.lay_out()?;
        Ok(moved)
    }

    /// Takes the instructions of a block; gives the address that is executed behind them.
    fn take(
        &mut self,
        block: &Block,
        is_first: bool,
        switches: &NewTables,
        code: &[u8],
    ) -> Result<Option<u64>, Why> {
        let mut at = block.start.0;
        let mut goes_on = None;
        while at < block.end.0 {
            if goes_on.is_some_and(|next| next != at) {
                return Err(Why::Code);
            }
            let rest = code.get((at - block.start.0) as usize..);
            let rest = rest.unwrap_or_default();
            let insn = Insn::decode(&rest[..rest.len().min(15)], at).map_err(|_| Why::Code)?;
            let mut item = Item::new(&insn)?;
            let before = self.items.last().map(|last| last.old + u64::from(last.len));
            let gap = before.and_then(|before| at.checked_sub(before));
            item.gap = gap
                .filter(|_| !is_first)
                .map_or(0, |gap| gap.min(ALIGN) as u16);
            if let Some(&table) = switches.sites.get(&at) {
                item.kind = to_table(&insn, table).ok_or(Why::Code)?;
            }
            item.goes_on = falls_through(&insn);
            self.items.push(item);
            at = insn.next_pc();
            goes_on = falls_through(&insn).then_some(at);
        }
        Ok(goes_on)
    }

    /// Gives each instruction its offset; branches grow until all reach.
    fn lay_out(&mut self) -> Result<(), Why> {
        loop {
            let mut end = 0;
            for part in &mut self.parts {
                // The base is aligned as the entry was.
                let phase = |addr: u64| addr % ALIGN_PART;
                let now = phase(self.entry + end);
                end += (phase(part.old.start) + ALIGN_PART - now) % ALIGN_PART;
                part.offset = end;
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
            let mut grows = Vec::new();
            for (at, item) in self.items.iter().enumerate() {
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
                let next = item.offset() + u64::from(item.size);
                let to = self.offset_from(item.old, target);
                let distance = to.map(|to| to.wrapping_sub(next) as i64);
                if distance.is_some_and(|distance| i8::try_from(distance).is_ok()) {
                    continue;
                }
                if form == Form::Count {
                    return Err(Why::ShortBranch);
                }
                grows.push(at);
            }
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

    /// The part with an old address.
    fn part(&self, old: u64) -> Option<&Part> {
        self.parts.iter().find(|part| part.old.contains(&old))
    }

    /// The instruction with an old address.
    fn item(&self, old: u64) -> Option<&Item> {
        let part = self.part(old)?;
        let items = &self.items[part.items.clone()];
        let found = items.binary_search_by_key(&old, |item| item.old).ok()?;
        Some(&items[found])
    }

    /// Offset where what branches to an instruction comes in.
    pub fn offset_of(&self, old: u64) -> Option<u64> {
        self.item(old).map(Item::label)
    }

    /// Offset to which a branch, or an element of the table, at one old address leads that had another one as its target.
    fn offset_from(&self, from: u64, target: u64) -> Option<u64> {
        match self.ways.get(&(from, target)) {
            Some(Way::Stub(stub)) => Some(self.stubs[*stub].offset),
            Some(Way::Before) => self.item(target).map(Item::start),
            None => self.offset_of(target),
        }
    }

    /// New address of an instruction.
    pub fn new_of(&self, old: u64) -> Option<u64> {
        self.offset_of(old).map(|offset| self.base + offset)
    }

    /// New address of its entry, for callers.
    pub fn called_at(&self) -> u64 {
        self.base + self.parts[0].offset
    }

    /// Address to which a jump, or an element of the table, at an old address leads that had another one as its target.
    fn now_from(&self, from: u64, target: u64, targets: &dyn Targets) -> u64 {
        let own = self.offset_from(from, target);
        let own = own.map(|offset| self.base + offset);
        own.or_else(|| targets.moved(target)).unwrap_or(target)
    }

    /// Address that a call goes to which went to an old one.
    fn called(&self, target: u64, targets: &dyn Targets) -> u64 {
        let entry = targets.moved(target);
        entry.or_else(|| self.new_of(target)).unwrap_or(target)
    }

    /// New address of the first instruction at or behind an old address of the same part; the part's end if there is none.
    pub fn at_or_behind(&self, old: u64, start: u64) -> Option<u64> {
        let part = self.part(start)?;
        let items = &self.items[part.items.clone()];
        let found = items.partition_point(|item| item.old < old);
        let offset = items
            .get(found)
            .map_or(part.offset + part.size, Item::start);
        Some(self.base + offset)
    }

    /// Does the same, but an address within an instruction stays as far from its end: compilers say so that something holds
    /// until a call has been made.
    pub fn within(&self, old: u64, start: u64) -> Option<u64> {
        let part = self.part(start)?;
        let items = &self.items[part.items.clone()];
        let before = items.partition_point(|item| item.old < old).checked_sub(1);
        let inside = before.map(|at| &items[at]).and_then(|item| {
            let left = (item.old + u64::from(item.len)).checked_sub(old);
            let left = left.filter(|&left| left > 0)?;
            Some(self.base + item.offset() + u64::from(item.size).saturating_sub(left))
        });
        inside.or_else(|| self.at_or_behind(old, start))
    }

    /// Whether an old address is that of an instruction in the part with another one.
    pub fn is_in_part(&self, old: u64, start: u64) -> bool {
        let is_there = self.part(start).is_some_and(|part| part.old.contains(&old));
        is_there && self.offset_of(old).is_some()
    }

    /// Old end of the part with an old address.
    pub fn part_end(&self, old: u64) -> u64 {
        self.part(old).map_or(old, |part| part.old.end)
    }

    /// Old addresses that its calls return to.
    pub fn returns(&self) -> impl Iterator<Item = u64> + '_ {
        let calls = self.items.iter().filter(|item| item.is_call);
        calls.map(|item| item.old + u64::from(item.len))
    }

    /// Old addresses to which it leaves its new code.
    pub fn exits(&self) -> impl Iterator<Item = u64> + '_ {
        let last = self.items.iter().filter(|item| item.is_last);
        last.map(|item| item.old + u64::from(item.len))
    }

    /// Old places of its instructions.
    pub fn old_code(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let items = self.items.iter();
        items.map(|item| item.old..item.old + u64::from(item.len))
    }

    /// Old starts of its parts with their new places.
    pub fn parts(&self) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
        self.parts.iter().map(|part| {
            let start = self.base + part.offset;
            (part.old.start, start..start + part.size)
        })
    }

    /// Puts it at the next address that is aligned as it was, behind so many bytes of other code; gives the address behind it.
    pub fn place(&mut self, next: u64, in_front: u64) -> u64 {
        let next = next + in_front;
        self.base = next + (self.entry % ALIGN + ALIGN - next % ALIGN) % ALIGN;
        self.base + self.size
    }

    /// Puts its tables at the next address; gives the address behind them.
    pub fn place_tables(&mut self, mut next: u64) -> u64 {
        for (switch, addr) in &mut self.tables {
            let width = u64::from(switch.width);
            *addr = next.next_multiple_of(width);
            next = *addr + width * switch.targets.len() as u64;
        }
        next
    }

    /// Address behind its last table.
    pub fn tables_end(&self) -> Option<u64> {
        let (switch, addr) = self.tables.last()?;
        Some(addr + u64::from(switch.width) * switch.targets.len() as u64)
    }

    /// Whether a jump goes by a table that is written anew.
    pub fn has_table_of(&self, jump: u64) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|(switch, _)| switch.jumps.contains(&jump))
    }

    /// Writes its tables to `out`, which begins at the address `start`.
    pub fn write_tables(
        &self,
        out: &mut [u8],
        start: u64,
        targets: &dyn Targets,
    ) -> Result<(), Why> {
        for (switch, addr) in &self.tables {
            let width = usize::from(switch.width);
            let at = (addr - start) as usize;
            let elements = out[at..].chunks_exact_mut(width).zip(&switch.targets);
            for (number, (element, &target)) in elements.enumerate() {
                let new = self.now_from(switch.old, target, targets);
                match (width, distance(new, *addr)) {
                    (4, Ok(distance)) => element.copy_from_slice(&distance),
                    // Bytes behind the last case need not be elements.
                    (4, Err(_)) if number >= switch.cases => {}
                    (4, Err(why)) => return Err(why),
                    _ => element.copy_from_slice(&new.to_le_bytes()),
                }
            }
        }
        Ok(())
    }
}

/// The address that an instruction has in itself, and the position of its displacement.
fn address_of(insn: &Insn) -> Option<(u64, usize)> {
    let absolute = || insn.absolute().map(|(addr, at)| (addr.into(), at));
    insn.rip_relative().or_else(absolute)
}

/// An instruction that leads to a table.
fn to_table(insn: &Insn, table: usize) -> Option<Kind> {
    let (_, at) = address_of(insn)?;
    Some(Kind::Table {
        at: at as u8,
        table: u16::try_from(table).ok()?,
        is_relative: insn.rip_relative().is_some(),
    })
}

fn distance(target: u64, next: u64) -> Result<[u8; 4], Why> {
    let distance = target.wrapping_sub(next) as i64;
    let distance = i32::try_from(distance).map_err(|_| Why::TooFar)?;
    Ok(distance.to_le_bytes())
}

/// Whether a block's code goes on behind it.
fn falls_out(function: &Function, block: &Block) -> bool {
    let number = function.graph.block_from(block.start);
    let mut edges = function.graph.edges_of(number.unwrap_or(0)).iter();
    edges.any(|edge| edge.kind == EdgeKind::FallThrough)
}

/// Whether the next instruction may be executed behind this one.
fn falls_through(insn: &Insn) -> bool {
    !insn.is_halt()
        && matches!(
            insn.flow(),
            Flow::Next
                | Flow::Syscall
                | Flow::Int80
                | Flow::Cond(..)
                | Flow::CountJump(_)
                | Flow::Call(_)
                | Flow::IndirectCall
        )
}

impl Item {
    /// Bytes that align it as it was, if padding was before it, at an address that is aligned as the new one.
    fn padding(&self, here: u64) -> u64 {
        let gap = u64::from(self.gap);
        let padding = self.old.wrapping_sub(here) % ALIGN;
        match gap {
            0 => 0,
            _ if padding < gap + ALIGN_PART => padding,
            _ => padding % ALIGN_PART,
        }
    }

    /// Its old bytes.
    fn bytes<'d>(&self, bytes: &dyn Fn(u64) -> &'d [u8]) -> &'d [u8] {
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

    /// Bytes of the jump that follows it.
    fn behind(&self) -> u64 {
        if self.is_last { JUMP } else { 0 }
    }

    fn new(insn: &Insn) -> Result<Item, Why> {
        let len = insn.len() as u8;
        let kind = match insn.flow() {
            Flow::Jump(target)
            | Flow::Call(target)
            | Flow::Cond(_, target)
            | Flow::CountJump(target) => branch(insn, target)?,
            Flow::Far(_) | Flow::TransactionBegin(_) => return Err(Why::Code),
            _ if insn.eip_relative().is_some() => return Err(Why::Code),
            _ => match insn.rip_relative() {
                Some((target, at)) => Kind::Relative {
                    at: at as u8,
                    target,
                },
                None => Kind::Plain,
            },
        };
        Ok(Item {
            old: insn.pc(),
            len,
            kind,
            is_call: matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall),
            is_trap: insn.flow() == Flow::Trap,
            is_last: false,
            goes_on: false,
            gap: 0,
            falls: 0,
            inserted: 0,
            offset: 0,
            size: len,
        })
    }
}
