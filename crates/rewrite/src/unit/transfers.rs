//! Calls and jumps by an address of a function, before which something can be inserted.

use flow::{EdgeKind, Liveness};
use isa::memory::Segment;
use isa::{Flow, Insn, Reg, RegisterSet};
use probe::{Op, Site, Spill, Value};

use super::{Table, Unit};
use crate::jump_tables::NewTables;

/// A call or a jump by an address, at the end of a block.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub block: u32,
    /// The address.
    pub target: Value,
    /// Registers and flags that are live before it.
    pub live: RegisterSet,
}

impl Transfer {
    /// Whether something can be inserted before it that finds registers enough.
    pub fn takes(&self, op: Op) -> bool {
        let site = Site {
            live: self.live,
            spill: Spill::Never,
        };
        probe::fits(&[op], &site)
    }
}

/// The last instruction of a block, if it goes by an address and no edge says where.
pub(super) fn of(
    unit: &Unit<'_>,
    block: u32,
    last: &Insn,
    (liveness, switches): (&Liveness<'_>, &NewTables),
) -> Option<Transfer> {
    let is_transfer = matches!(last.flow(), Flow::IndirectCall | Flow::IndirectJump);
    let target = is_transfer.then(|| target_of(last)).flatten()?;
    let own = unit.function.graph.edges_of(block as usize).iter();
    let mut cases = own.filter(|edge| edge.kind == EdgeKind::Case);
    let is_known = || {
        let at = unit.function.graph.blocks[block as usize].last;
        !Table::of(unit.function, switches, at).is_shared
    };
    if cases.next().is_some() && is_known() {
        return None;
    }
    Some(Transfer {
        block,
        target,
        live: liveness.before_last(unit.function, &unit.live, block),
    })
}

/// The value by which a call or a jump goes; `None`: it is none of 64 bits.
fn target_of(insn: &Insn) -> Option<Value> {
    if let Some(register) = insn.branch_register() {
        return Reg::ALL.get(register).copied().map(Value::Register);
    }
    if let Some((address, _)) = insn.rip_relative().filter(|_| !insn.has_segment_base()) {
        return Some(Value::At(address));
    }
    let operands = insn.memory();
    let operand = operands.iter().find(|operand| operand.kind.reads())?;
    let address = operand.address;
    if operand.size != 8 || address.is_32_bit || address.segment == Some(Segment::Gs) {
        return None;
    }
    Some(Value::Memory {
        is_thread: address.segment == Some(Segment::Fs),
        base: address.base,
        index: address.index.map(|index| (index.register, index.scale)),
        displacement: i32::try_from(address.displacement.cast_signed()).ok()?,
    })
}
