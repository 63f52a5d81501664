//! The code of a function, taken apart into the instructions of its versions.

use std::ops::Range;

use flow::{Block, EdgeKind, Function, To};
use image::LinkAddr;
use isa::{Flow, Insn};

use super::branches::branch;
use super::{ALIGN, Behind, Insertions, Item, Kind, Moved, Part, Table, address_of};
use crate::address::New;
use crate::jump_tables::NewTables;
use crate::skipped::Why;
use crate::versions::{Version, Versions};

/// A function, the versions that are made of it, and what is inserted into them.
#[derive(Debug)]
pub struct Copied<'f> {
    pub function: &'f Function,
    pub switches: NewTables,
    pub versions: Versions,
    /// Code that is inserted, by version.
    pub insertions: Vec<Insertions>,
}

/// A version that is taken.
struct Taken<'c> {
    copied: &'c Copied<'c>,
    version: Version,
    /// Number of its first table.
    tables: usize,
}

impl Moved {
    /// Takes the code of a function.
    pub fn new<'d>(
        mut copied: Copied<'_>,
        bytes: &dyn Fn(LinkAddr) -> &'d [u8],
    ) -> Result<Moved, Why> {
        let function = copied.function;
        let insns = function.graph.blocks.iter().map(|block| block.insns);
        let mut moved = Moved {
            entry: function.entry,
            items: Vec::with_capacity(insns.sum::<u32>() as usize),
            parts: Vec::new(),
            base: New(0),
            size: 0,
            tables: Vec::new(),
            before: Default::default(),
            ways: Default::default(),
            stubs: Vec::new(),
        };
        for version in copied.versions.all() {
            let taken = Taken {
                copied: &copied,
                version,
                tables: moved.tables.len(),
            };
            for range in &function.ranges {
                moved.take_range(&taken, range.clone(), bytes)?;
            }
            let tables = copied.switches.tables.iter();
            moved.tables.extend(tables.map(|new| Table {
                version,
                new: new.clone(),
                addr: New(0),
            }));
        }
        if moved.items.is_empty() || moved.parts[0].old.start != moved.entry {
            return Err(Why::Code);
        }
        let insertions = std::mem::take(&mut copied.insertions);
        moved.insert(copied.versions.all().zip(insertions))?;
        moved.lay_out()?;
        Ok(moved)
    }

    /// Takes what a version has of a range of the function.
    fn take_range<'d>(
        &mut self,
        taken: &Taken<'_>,
        range: Range<LinkAddr>,
        bytes: &dyn Fn(LinkAddr) -> &'d [u8],
    ) -> Result<(), Why> {
        let function = taken.copied.function;
        let first = self.items.len();
        let mut goes_on = None;
        let mut is_behind = false;
        for (number, block) in (0..).zip(&function.graph.blocks) {
            if !range.contains(&block.start) {
                continue;
            }
            if goes_on.is_some_and(|next| next != block.start) {
                return Err(Why::Code);
            }
            let is_there = taken.copied.versions.has(taken.version, number);
            if !is_there {
                if let (Some(_), Some(last)) = (goes_on.take(), self.items.last_mut()) {
                    last.behind = Behind::FirstVersion;
                }
                is_behind = false;
                continue;
            }
            goes_on = self.take(taken, block, is_behind, bytes(block.start))?;
            is_behind = true;
            let next = function.graph.blocks.get(number as usize + 1);
            if next.is_some_and(|next| next.start < block.end) {
                goes_on = None;
                if let Some(last) = self.items.last_mut() {
                    last.behind = Behind::To(block.end);
                }
                continue;
            }
            // Should a call return that is taken not to, it goes on in old code; and so does a trap whose handler has the
            // program go on behind it.
            let out = way_out(function, number);
            if out != Out::Behind {
                goes_on = None;
                self.items
                    .last_mut()
                    .into_iter()
                    .for_each(|last| last.leave(out));
            }
        }
        if goes_on.is_some() {
            return Err(Why::Code);
        }
        if self.items.len() > first {
            self.parts.push(Part {
                version: taken.version,
                old: range,
                items: first..self.items.len(),
                offset: 0,
                size: 0,
            });
        }
        Ok(())
    }

    /// Takes the instructions of a block; gives the address that is executed behind them.
    fn take(
        &mut self,
        taken: &Taken<'_>,
        block: &Block,
        is_behind: bool,
        code: &[u8],
    ) -> Result<Option<LinkAddr>, Why> {
        let mut at = block.start;
        let mut goes_on = None;
        while at < block.end {
            if goes_on.is_some_and(|next| next != at) {
                return Err(Why::Code);
            }
            let rest = code.get((at - block.start) as usize..);
            let rest = rest.unwrap_or_default();
            let insn = Insn::decode(&rest[..rest.len().min(15)], at.0).map_err(|_| Why::Code)?;
            let mut item = Item::new(&insn)?;
            let before = self.items.last().map(Item::old_end);
            let gap = before.and_then(|before| at.0.checked_sub(before.0));
            let gap = gap.filter(|_| is_behind || at > block.start);
            item.gap = gap.map_or(0, |gap| gap.min(ALIGN) as u16);
            if let Some(&table) = taken.copied.switches.sites.get(&at) {
                item.kind = to_table(&insn, taken.tables + table).ok_or(Why::Code)?;
            }
            item.goes_on = falls_through(&insn);
            self.items.push(item);
            at = LinkAddr(insn.next_pc());
            goes_on = falls_through(&insn).then_some(at);
        }
        Ok(goes_on)
    }
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

/// The way of a block's code behind its last instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    /// It goes on with the next block.
    Behind,
    /// It runs into another function.
    Into(LinkAddr),
    Nowhere,
}

fn way_out(function: &Function, number: u32) -> Out {
    let edges = function.graph.edges_of(number as usize).iter();
    let mut ways = edges.filter_map(|edge| match (edge.kind, edge.to) {
        (EdgeKind::FallThrough, To::Address(entry)) => Some(Out::Into(entry)),
        (EdgeKind::FallThrough, _) => Some(Out::Behind),
        _ => None,
    });
    ways.next().unwrap_or(Out::Nowhere)
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
    /// It is the last of a block whose code does not go on with the next one.
    fn leave(&mut self, out: Out) {
        self.behind = match out {
            Out::Into(entry) if self.goes_on => Behind::To(entry),
            _ if self.is_call || self.is_trap => Behind::OldCode,
            _ => Behind::Nothing,
        };
    }

    fn new(insn: &Insn) -> Result<Item, Why> {
        let len = insn.len() as u8;
        let kind = match insn.flow() {
            Flow::Jump(target)
            | Flow::Call(target)
            | Flow::Cond(_, target)
            | Flow::CountJump(target) => branch(insn, LinkAddr(target))?,
            Flow::Far(_) | Flow::TransactionBegin(_) => return Err(Why::Code),
            _ if insn.eip_relative().is_some() => return Err(Why::Code),
            _ => match insn.rip_relative() {
                Some((target, at)) => Kind::Relative {
                    at: at as u8,
                    target: LinkAddr(target),
                },
                None => Kind::Plain,
            },
        };
        Ok(Item {
            old: LinkAddr(insn.pc()),
            len,
            kind,
            is_call: matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall),
            is_trap: insn.flow() == Flow::Trap,
            behind: Behind::Nothing,
            goes_on: false,
            gap: 0,
            falls: 0,
            inserted: 0,
            offset: 0,
            size: len,
        })
    }
}
