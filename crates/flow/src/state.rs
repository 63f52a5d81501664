//! Known values of registers and the stack at a point, and the effect of instructions on them.
//!
//! An address on the stack that is in a register may be given away: from then on calls, and stores through pointers that are not
//! known, may change what is there and above it. Numbers there are not known any more; tables and addresses are taken to be spilled
//! registers, which compilers keep apart.
//!
//! Limits: memory that is not on the stack is known until the next store or call.

use isa::dataflow::{Op, Place};
use isa::memory::Address;
use isa::{Flow, Insn, Reg};

use crate::shapes::{Shape, Target};
use crate::values::{Compared, Table, Value, element, extended, join, mask, sum};

/// Registers that a call does not keep (System V ABI).
const CALL_CHANGES: u16 = 0b0000_1111_1100_0111;
/// The base of memory at a constant address.
const CONSTANT: u64 = u64::MAX;
/// Slots of the stack that are remembered, and memory cells besides.
const SLOTS: usize = 48;
const CELLS: usize = 8;

/// Memory that is not on the stack: the identity of the base, its displacement, the width.
type Cell = (u64, u64, u8);

/// Everything that is known at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; 16],
    /// By frame and distance from it.
    slots: Vec<((u64, i64), Value)>,
    cells: Vec<(Cell, Value)>,
    /// By frame, the lowest address of it that may be known elsewhere.
    escaped: Vec<(u64, i64)>,
    /// The number that was compared with a constant last.
    compared: Option<Compared>,
}

impl State {
    pub fn at_entry(entry: u64) -> State {
        let number = |register: usize| Value::fresh(1 << 62 | entry << 4 | register as u64);
        let mut registers = std::array::from_fn(number);
        registers[Reg::Rsp as usize] = Value::Frame(0, 0);
        State {
            registers,
            slots: Vec::new(),
            cells: Vec::new(),
            escaped: Vec::new(),
            compared: None,
        }
    }

    /// The state at a landing pad: registers that calls keep are as before the call that threw.
    pub fn at_pad(state: &State, pc: u64) -> State {
        let mut state = state.clone();
        state.change(CALL_CHANGES, pc);
        state.cells.clear();
        state.forget_escaped();
        state.compared = None;
        state
    }

    /// Keeps what is true of another state, too, with which control comes to `block`. Whether that changes it.
    pub fn join(&mut self, other: &State, block: u64, widens: bool) -> bool {
        let mut is_changed = false;
        let mut meet = |own: &mut Value, other: Value, place: u64| {
            let met = join(*own, other, 1 << 63 | block << 16 | place, widens);
            is_changed |= met != *own;
            *own = met;
        };
        for (at, own) in self.registers.iter_mut().enumerate() {
            meet(own, other.registers[at], at as u64);
        }
        let (slots, cells) = (self.slots.len(), self.cells.len());
        self.slots
            .retain_mut(|(slot, own)| match other.slot(*slot) {
                Ok(at) => {
                    // Frames are near, so the low bytes tell slots apart.
                    meet(own, other.slots[at].1, 32 + (slot.1 as u16 as u64 >> 1));
                    true
                }
                Err(_) => false,
            });
        self.cells.retain(|cell| other.cells.contains(cell));
        is_changed |= slots != self.slots.len() || cells != self.cells.len();
        for &(frame, at) in &other.escaped {
            is_changed |= self.escape(frame, at);
        }
        if self.compared != other.compared {
            is_changed |= self.compared.is_some();
            self.compared = None;
        }
        is_changed
    }

    /// Place of a slot, or where it would be.
    fn slot(&self, slot: (u64, i64)) -> Result<usize, usize> {
        self.slots.binary_search_by_key(&slot, |(slot, _)| *slot)
    }

    fn set_slot(&mut self, slot: (u64, i64), value: Value) {
        match self.slot(slot) {
            Ok(at) => self.slots[at].1 = value,
            Err(at) if self.slots.len() < SLOTS => self.slots.insert(at, (slot, value)),
            Err(_) => {
                let is_plain = |value: &Value| matches!(value, Value::Number { guarded: 0, .. });
                let old = self.slots.iter().position(|(_, value)| is_plain(value));
                self.slots.remove(old.unwrap_or(0));
                let at = self.slot(slot).unwrap_or_else(|at| at);
                self.slots.insert(at, (slot, value));
            }
        }
    }

    fn get(&self, register: Reg) -> Value {
        self.registers[register as usize]
    }

    fn set(&mut self, register: Reg, value: Value) {
        self.registers[register as usize] = value;
        if let (false, Value::Frame(frame, at)) = (register == Reg::Rsp, value) {
            self.escape(frame, at);
        }
    }

    /// An address on the stack may be given away. Whether that is new.
    fn escape(&mut self, frame: u64, at: i64) -> bool {
        let mut known = self.escaped.iter_mut();
        match known.find(|(known, _)| *known == frame) {
            Some((_, lowest)) if *lowest <= at => false,
            Some((_, lowest)) => {
                *lowest = at;
                true
            }
            None => {
                self.escaped.push((frame, at));
                true
            }
        }
    }

    /// Somebody else may have written where addresses were given away.
    fn forget_escaped(&mut self) {
        let escaped = &self.escaped;
        self.slots.retain(|((frame, at), value)| {
            let mut known = escaped.iter();
            let lowest = known.find(|(known, _)| known == frame);
            let is_reached = lowest.is_some_and(|(_, lowest)| at.saturating_add(8) > *lowest);
            !(is_reached && matches!(value, Value::Number { .. }))
        });
    }

    fn change(&mut self, registers: u16, pc: u64) {
        for register in Reg::ALL {
            if registers & 1 << register as u16 != 0 {
                self.set(register, Value::fresh(pc << 4 | register as u64));
            }
        }
    }

    /// A value that is an address.
    fn address(&self, address: &Address, id: u64) -> Value {
        let displacement = address.displacement;
        let base = address
            .base
            .map_or(Value::Constant(0), |base| self.get(base));
        let index = address
            .index
            .map(|index| (self.get(index.register), index.scale));
        match (base, index) {
            (Value::Constant(base), None) => Value::Constant(base.wrapping_add(displacement)),
            (Value::Frame(frame, at), None) => {
                Value::Frame(frame, at.wrapping_add(displacement as i64))
            }
            (Value::Constant(base), Some((Value::Constant(index), scale))) => {
                let sum = base.wrapping_add(displacement);
                Value::Constant(sum.wrapping_add(index.wrapping_mul(scale.into())))
            }
            (Value::Constant(base), Some((Value::Number { most, guarded, .. }, scale))) => element(
                base.wrapping_add(displacement),
                scale,
                most[3],
                guarded & 1 << 3 != 0,
            ),
            // A scaled number, and a base.
            (Value::Element(table), Some((Value::Constant(base), 1)))
            | (Value::Constant(base), Some((Value::Element(table), 1))) => {
                table.moved(base.wrapping_add(displacement))
            }
            (Value::Element(table), None) => table.moved(displacement),
            // The base may stand in the index.
            (Value::Number { most, guarded, .. }, Some((Value::Constant(base), 1))) => element(
                base.wrapping_add(displacement),
                1,
                most[3],
                guarded & 1 << 3 != 0,
            ),
            (Value::Entry(table), None) => Value::Target {
                base: displacement,
                table,
            },
            (Value::Constant(base), Some((Value::Entry(table), 1)))
            | (Value::Entry(table), Some((Value::Constant(base), 1))) => Value::Target {
                base: base.wrapping_add(displacement),
                table,
            },
            _ => Value::fresh(id),
        }
    }

    /// A value of `width` bytes in memory, extended with zeros.
    fn load(&mut self, address: &Address, width: u8, id: u64) -> Value {
        match self.address(address, id) {
            Value::Frame(frame, at) => {
                if let Ok(slot) = self.slot((frame, at)) {
                    return self.slots[slot].1.low(width, id);
                }
                let value = Value::fresh(id);
                self.set_slot((frame, at), value);
                value.low(width, id)
            }
            Value::Element(table) if width >= 2 && table.stride == width => {
                Value::Entry(Table { width, ..table })
            }
            Value::Constant(at) => self.cell((CONSTANT, at, width), id),
            Value::Number { .. } if address.index.is_none() => {
                match address.base.map(|base| self.get(base)) {
                    Some(Value::Number { id: base, part, .. }) if part >= 4 => {
                        self.cell((base, address.displacement, width), id)
                    }
                    _ => Value::loaded(id, width),
                }
            }
            _ => Value::loaded(id, width),
        }
    }

    /// The value of memory that is not on the stack.
    fn cell(&mut self, cell: Cell, id: u64) -> Value {
        if let Some((_, value)) = self.cells.iter().find(|(known, _)| *known == cell) {
            return *value;
        }
        let value = Value::loaded(id, cell.2);
        if self.cells.len() == CELLS {
            self.cells.remove(0);
        }
        self.cells.push((cell, value));
        value
    }

    fn place(&mut self, place: Place, width: u8, id: u64) -> Value {
        match place {
            Place::Register(register) => self.get(register).low(width, id),
            Place::Memory(address) => self.load(&address, width, id),
        }
    }

    fn store(&mut self, address: &Address, from: Option<Reg>, width: u8, id: u64) {
        self.cells.clear();
        if let Value::Frame(frame, at) = self.address(address, id) {
            let overlaps = |slot: &(u64, i64)| {
                slot.0 == frame
                    && slot.1 < at.saturating_add(width.into())
                    && at < slot.1.saturating_add(8)
            };
            self.slots.retain(|(slot, _)| !overlaps(slot));
            let value = match from {
                Some(from) if width >= 4 => self.get(from).low(width, id),
                _ => return,
            };
            self.set_slot((frame, at), value);
        } else if address.base != Some(Reg::Rsp) {
            self.forget_escaped();
        }
    }

    /// Executes an instruction.
    pub fn execute(&mut self, insn: &Insn) {
        let id = insn.pc() << 4;
        match insn.op() {
            Op::Compare { left, right, width } => return self.compare(left, right, width, id),
            Op::SubtractConstant { to, value, width } => {
                self.compare(Place::Register(to), value, width, id);
                let by = (value as i64).wrapping_neg();
                let sum = self.with_constant(to, by, id).low(width, id);
                return self.set(to, sum);
            }
            Op::Push(from) => return self.push(from, id),
            Op::Pop(to) => return self.pop(to, id),
            Op::Other { changes, stores } => return self.other(insn, changes, stores),
            Op::Store { to, from, width } => self.store(&to, from, width, id),
            op => {
                if let Some((to, value)) = self.result(op, id) {
                    self.set(to, value);
                }
            }
        }
        if insn.changes_flags() {
            self.compared = None;
        }
    }

    /// Register and value that an operation gives.
    // Long function: one arm for each kind of instruction.
    fn result(&mut self, op: Op, id: u64) -> Option<(Reg, Value)> {
        Some(match op {
            Op::Constant { to, value } => (to, Value::Constant(value)),
            Op::Address { to, address, width } => (to, self.address(&address, id).low(width, id)),
            Op::Load {
                to,
                from,
                width,
                is_signed,
                to_width,
            } => {
                let value = self.place(from, width, id);
                let value = match value {
                    _ if !is_signed || to_width == width => value,
                    Value::Entry(table) => Value::Entry(Table {
                        is_signed: true,
                        ..table
                    }),
                    Value::Number { most, .. } if most[3] <= mask(width) >> 1 => value,
                    Value::Constant(value) => Value::Constant(extended(value, width)),
                    _ => Value::fresh(id),
                };
                (to, value.low(to_width.max(4), id))
            }
            Op::Add { to, from, width } => {
                let from = self.place(from, width, id | 1);
                (to, sum(self.get(to), from, id).low(width, id))
            }
            Op::AddConstant { to, value, width } => {
                (to, self.with_constant(to, value, id).low(width, id))
            }
            Op::Subtract { to, .. } => (to, Value::fresh(id)),
            Op::And { to, value, width } => {
                let masked = match (to, self.get(to)) {
                    // The stack is aligned: another frame.
                    (Reg::Rsp, _) => Value::Frame(id, 0),
                    (_, Value::Constant(old)) => Value::Constant(old & value),
                    _ => Value::bounded(id, value & mask(width)),
                };
                (to, masked)
            }
            Op::ShiftRight { to, by, width } => {
                let shifted = match self.get(to).low(width, id) {
                    Value::Number { most, .. } => Value::bounded(id, most[3] >> by),
                    _ => Value::fresh(id),
                };
                (to, shifted)
            }
            Op::ShiftLeft { to, by, width } => {
                let shifted = match self.get(to).low(width, id) {
                    Value::Number { most, guarded, .. } if by < 4 => {
                        element(0, 1 << by, most[3], guarded & 1 << 3 != 0)
                    }
                    _ => Value::fresh(id),
                };
                (to, shifted.low(width, id))
            }
            _ => return None,
        })
    }

    /// A register plus a constant.
    fn with_constant(&self, to: Reg, value: i64, id: u64) -> Value {
        match self.get(to) {
            Value::Constant(old) => Value::Constant(old.wrapping_add_signed(value)),
            Value::Frame(frame, at) => Value::Frame(frame, at.wrapping_add(value)),
            Value::Number { most, .. } if value >= 0 && most[3] < u64::MAX >> 1 => {
                Value::bounded(id, most[3].saturating_add(value as u64))
            }
            _ => Value::fresh(id),
        }
    }

    fn compare(&mut self, left: Place, right: u64, width: u8, id: u64) {
        let value = match left {
            Place::Register(register) => self.get(register),
            Place::Memory(address) => self.load(&address, width, id),
        };
        self.compared = match value {
            Value::Number { id, part, .. } => Some(Compared {
                id,
                part,
                width,
                right: right & mask(width),
            }),
            _ => None,
        };
    }

    fn push(&mut self, from: Option<Reg>, id: u64) {
        let address = Address {
            segment: None,
            base: Some(Reg::Rsp),
            index: None,
            displacement: 0,
            is_32_bit: false,
        };
        self.move_stack(-8, id);
        self.store(&address, from, 8, id);
    }

    fn pop(&mut self, to: Option<Reg>, id: u64) {
        if let Some(to) = to {
            let value = match self.get(Reg::Rsp) {
                Value::Frame(frame, at) => {
                    let slot = self.slot((frame, at)).ok();
                    slot.map_or(Value::fresh(id), |slot| self.slots[slot].1)
                }
                _ => Value::fresh(id),
            };
            self.set(to, value);
        }
        self.move_stack(8, id);
    }

    /// An instruction of which only its changes are known.
    fn other(&mut self, insn: &Insn, changes: u16, stores: bool) {
        match insn.flow() {
            Flow::Call(_) | Flow::IndirectCall => {
                self.change(CALL_CHANGES, insn.pc());
                self.cells.clear();
                self.forget_escaped();
                self.compared = None;
            }
            Flow::Cond(..) | Flow::Jump(_) | Flow::IndirectJump => {}
            flow => {
                self.change(changes, insn.pc());
                if stores {
                    self.cells.clear();
                    self.forget_escaped();
                }
                if flow != Flow::Next || insn.changes_flags() {
                    self.compared = None;
                }
            }
        }
    }

    fn move_stack(&mut self, by: i64, id: u64) {
        let moved = match self.get(Reg::Rsp) {
            Value::Frame(frame, at) => Value::Frame(frame, at.wrapping_add(by)),
            _ => Value::fresh(id | 2),
        };
        self.set(Reg::Rsp, moved);
    }

    /// Whether a conditional branch says something.
    pub fn is_compared(&self) -> bool {
        self.compared.is_some()
    }

    /// A conditional branch with this condition goes one way.
    pub fn branch(&mut self, condition: u8, is_taken: bool) {
        let Some(compared) = self.compared else {
            return;
        };
        // Conditions are numbered as in the manual: 2 below, 3 not, 4 equal, 5 not, 6 not above, 7 above.
        let most = match (condition, is_taken) {
            (2, true) | (3, false) => compared.right.checked_sub(1),
            (6, true) | (7, false) | (4, true) | (5, false) => Some(compared.right),
            _ => None,
        };
        let Some(most) = most else { return };
        let slots = self.slots.iter_mut().map(|(_, value)| value);
        let cells = self.cells.iter_mut().map(|(_, value)| value);
        for value in self.registers.iter_mut().chain(slots).chain(cells) {
            value.refine(compared, most);
        }
    }

    /// Whether the stack pointer is that with which the function was entered.
    pub fn has_no_frame(&self) -> bool {
        self.get(Reg::Rsp) == Value::Frame(0, 0)
    }

    /// The target of an indirect jump, if it is known.
    pub fn target(&self, insn: &Insn) -> Option<Target> {
        let id = 0;
        let value = match insn.operand_address() {
            Some(address) => {
                let mut state = self.clone();
                state.load(&address, 8, id)
            }
            None => self.get(insn.jump_register()?),
        };
        match value {
            Value::Target { base, table } => Some(Target::OfTable(Shape { base, table })),
            Value::Entry(table) if table.width == 8 => {
                Some(Target::OfTable(Shape { base: 0, table }))
            }
            Value::Constant(label) => Some(Target::Label(label)),
            _ => None,
        }
    }
}
