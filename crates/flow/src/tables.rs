//! Jump tables: their targets, from the shape of a jump and the bytes of the file.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use image::LinkAddr;

use crate::code::Code;
use crate::descent::Descent;
use crate::shapes::Shape;

/// Most elements of a table without a bound.
const MOST: u64 = 1 << 12;

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
    /// Targets, one for each element.
    pub targets: Vec<LinkAddr>,
    /// A comparison before the jump says how many there are; else they end where one does not lead into
    /// the function.
    pub is_bounded: bool,
}

/// The table of a jump; `None`: it has none that makes sense. `fits` says of the target of an element
/// whether it may be one, in a table without a bound.
pub(crate) fn read(
    code: &Code<'_>,
    descent: &Descent,
    jump: u64,
    shape: &Shape,
    (references, fits): (&BTreeSet<u64>, &dyn Fn(u64) -> bool),
) -> Option<JumpTable> {
    let table = &shape.table;
    let is_bounded = table.is_guarded && table.most < MOST;
    let most = table.most.saturating_add(1).min(MOST);
    let next = references
        .range((Excluded(table.address), Unbounded))
        .next();
    let end = next.copied().filter(|_| !is_bounded).unwrap_or(u64::MAX);
    let mut targets = Vec::new();
    for number in 0..most {
        let at = table.address.wrapping_add(number * u64::from(table.stride));
        let Some(target) = element(code, at, shape) else {
            break;
        };
        let leads_in = is_bounded || fits(target);
        if at >= end || !leads_in || descent.is_middle(target) || code.insn(target).is_none() {
            break;
        }
        targets.push(LinkAddr(target));
    }
    let is_whole = !is_bounded || targets.len() as u64 == most;
    (is_whole && !targets.is_empty()).then_some(JumpTable {
        jump: LinkAddr(jump),
        table: LinkAddr(table.address),
        width: table.width,
        base: LinkAddr(shape.base),
        targets,
        is_bounded,
    })
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
            Found::Table(table) => table.targets.iter().map(|target| target.0).collect(),
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
        targets: vec![LinkAddr(target)],
    })
}
