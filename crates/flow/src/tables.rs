//! Jump tables: their targets, from the shape of a jump and the bytes of the file.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Range;

use image::LinkAddr;

use crate::code::Code;
use crate::descent::Descent;
use crate::shapes::Shape;

/// Most elements of a table without a bound; one that goes on is no table.
const MOST: u64 = 1 << 12;
/// Most elements of a table with a bound.
const MOST_BOUNDED: u64 = 1 << 20;

/// An element of a jump table, by its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Case(LinkAddr),
    /// To the function's end, where compilers let elements lead that are never used.
    Hole(LinkAddr),
}

impl Element {
    pub fn target(self) -> LinkAddr {
        match self {
            Element::Case(target) | Element::Hole(target) => target,
        }
    }

    /// The target, if it is no hole.
    pub fn case(self) -> Option<LinkAddr> {
        match self {
            Element::Case(target) => Some(target),
            Element::Hole(_) => None,
        }
    }
}

/// A table of an indirect jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// The jump.
    pub jump: LinkAddr,
    pub table: LinkAddr,
    /// Bytes of an element.
    pub width: u8,
    /// Added to each element; 0 if elements are addresses.
    pub base: LinkAddr,
    pub elements: Vec<Element>,
    /// A comparison before the jump bounds the index; else the table ends where an element does not lead into the function.
    pub is_bounded: bool,
    /// Addresses by the elements behind the last target, up to the next address that code has; `None`: it is far. An index
    /// that no comparison bounds may reach them.
    pub beyond: Option<Vec<LinkAddr>>,
}

impl JumpTable {
    /// Targets of the elements that are no holes.
    pub fn cases(&self) -> impl Iterator<Item = LinkAddr> + '_ {
        self.elements.iter().filter_map(|element| element.case())
    }

    /// Address behind the last element.
    pub fn end(&self) -> LinkAddr {
        LinkAddr(self.table.0 + self.elements.len() as u64 * u64::from(self.width))
    }

    /// Keeps `len` elements of a table without a bound.
    pub(crate) fn truncate(&mut self, len: usize) {
        let gone = self.elements.split_off(len.min(self.elements.len()));
        if let Some(beyond) = &mut self.beyond {
            beyond.splice(0..0, gone.into_iter().map(Element::target));
        }
    }
}

/// Surroundings of a jump.
pub(crate) struct Around<'a> {
    pub descent: &'a Descent,
    /// Addresses that instructions have: another thing begins there.
    pub references: &'a BTreeSet<u64>,
    /// Whether a target may be one of a table without a bound.
    pub fits: &'a dyn Fn(u64) -> bool,
}

/// The table of a jump; `None`: it has none that makes sense.
pub(crate) fn read(
    code: &Code<'_>,
    jump: u64,
    shape: &Shape,
    around: &Around<'_>,
) -> Option<JumpTable> {
    let table = &shape.table;
    let descent = around.descent;
    let is_bounded = table.is_guarded && table.most < MOST_BOUNDED;
    let count = table.most.saturating_add(1);
    let mut references = around
        .references
        .range((Excluded(table.address), Unbounded));
    let next = references.next().copied().unwrap_or(u64::MAX);
    let at = |number: u64| table.address.wrapping_add(number * u64::from(table.stride));
    let mut elements = Vec::new();
    for number in 0..count {
        let Some(target) = element(code, at(number), shape) else {
            break;
        };
        let is_hole = descent.is_end(target);
        let leads_in = is_bounded || at(number) < next && (is_hole || (around.fits)(target));
        if !leads_in || descent.is_middle(target) || !is_hole && code.insn(target).is_none() {
            break;
        }
        if !is_bounded && number == MOST {
            return None;
        }
        elements.push(match is_hole {
            true => Element::Hole(LinkAddr(target)),
            false => Element::Case(LinkAddr(target)),
        });
    }
    let is_whole = !is_bounded || elements.len() as u64 == count;
    // The last case is the largest one.
    while !is_bounded && matches!(elements.last(), Some(Element::Hole(_))) {
        elements.pop();
    }
    let beyond = match is_bounded {
        true => Some(Vec::new()),
        false => beyond(code, shape, elements.len() as u64..count, next),
    };
    let has_cases = elements.iter().any(|element| element.case().is_some());
    (is_whole && has_cases).then_some(JumpTable {
        jump: LinkAddr(jump),
        table: LinkAddr(table.address),
        width: table.width,
        base: LinkAddr(shape.base),
        elements,
        is_bounded,
        beyond,
    })
}

/// Addresses by the elements with these numbers that stand before `next`; `None`: too many.
fn beyond(code: &Code<'_>, shape: &Shape, numbers: Range<u64>, next: u64) -> Option<Vec<LinkAddr>> {
    let table = &shape.table;
    let all = numbers.map_while(|number| {
        let at = table.address.wrapping_add(number * u64::from(table.stride));
        let element = (at < next).then(|| element(code, at, shape));
        element.flatten().map(LinkAddr)
    });
    let all: Vec<LinkAddr> = all.take(MOST as usize + 1).collect();
    (all.len() <= MOST as usize).then_some(all)
}

/// The target of an element.
fn element(code: &Code<'_>, at: u64, shape: &Shape) -> Option<u64> {
    let value = match (shape.table.width, shape.table.is_signed) {
        (2, false) => u16::from_le_bytes(code.word(at)?).into(),
        (2, true) => i64::from(i16::from_le_bytes(code.word(at)?)).cast_unsigned(),
        (4, false) => u32::from_le_bytes(code.word(at)?).into(),
        (4, true) => i64::from(i32::from_le_bytes(code.word(at)?)).cast_unsigned(),
        (8, _) => u64::from_le_bytes(code.word(at)?),
        _ => return None,
    };
    Some(shape.base.wrapping_add(value))
}

/// Targets of an indirect jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Table(JumpTable),
    /// Any label of the function whose address is taken.
    Labels(Vec<u64>),
}

impl Found {
    pub fn targets(&self) -> Vec<u64> {
        match self {
            Found::Table(table) => table.cases().map(|target| target.0).collect(),
            Found::Labels(labels) => labels.clone(),
        }
    }

    pub fn table(self) -> Option<JumpTable> {
        match self {
            Found::Table(table) => Some(table),
            Found::Labels(_) => None,
        }
    }
}

/// The table of one element of a jump by a constant word: what is left of a switch where its case is known.
pub(crate) fn single(code: &Code<'_>, descent: &Descent, jump: u64) -> Option<JumpTable> {
    let step = descent.steps.iter().find(|step| step.addr == jump)?;
    let slot = step.slot?;
    let target = u64::from_le_bytes(code.word(slot)?);
    descent.is_inside(target).then(|| JumpTable {
        jump: LinkAddr(jump),
        table: LinkAddr(slot),
        base: LinkAddr(0),
        width: 8,
        is_bounded: true,
        elements: vec![Element::Case(LinkAddr(target))],
        beyond: Some(Vec::new()),
    })
}
