//! Registers whose values follow from what a trace has recorded.
//!
//! Problem: most addresses of a stretch of code follow from one: the stack pointer moves by
//! constants, fields of a structure have one base.
//!
//! Approach: whoever records and whoever reads both follow the same code with a [`Known`]. An
//! address that was recorded teaches the one register in it that was not known ([`Known::learn`]);
//! an instruction moves what is known to other registers, or loses it ([`Known::apply`]). An address
//! all of whose registers are known is not recorded. The recorder never looks at values.
//!
//! The stack pointer is always known: it was recorded where the thread began, and is wherever no
//! constant says what becomes of it ([`Known::lacks_stack`]). All else is forgotten at branches that
//! are taken ([`Known::clear`]).
//!
//! Invariant: besides the stack pointer nothing is known before something was recorded since
//! the last such branch: not constants that the code loads, nor copies of the stack pointer.

use iced_x86::{
    Code, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
};

use super::{Address, Segment, register64};
use crate::{Flow, Insn, Reg};

/// Places of the bases of fs and gs behind the general registers.
const SEGMENTS: usize = 16;
const PLACES: usize = SEGMENTS + 2;

const STACK: u32 = 1 << Reg::Rsp as u32;

/// Values of registers, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// A bit for each register, then for the bases of fs and gs.
    has: u32,
    values: [u64; PLACES],
    /// Something was recorded since the last branch that was taken.
    is_recorded: bool,
}

impl Default for Known {
    /// Nothing but the stack pointer.
    fn default() -> Known {
        Known {
            has: STACK,
            values: [0; PLACES],
            is_recorded: false,
        }
    }
}

/// Changes that an instruction makes to general registers and the bases of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The first register becomes the second one and a constant; from the values before.
    moves: [Option<(u8, u8, i64)>; 2],
    /// Registers that are written otherwise, a bit each.
    loses: u32,
}

fn place_of(segment: Segment) -> usize {
    match segment {
        Segment::Fs => SEGMENTS,
        Segment::Gs => SEGMENTS + 1,
    }
}

impl Known {
    /// Nothing is known but the stack pointer, and nothing was recorded that copies of it would
    /// be followed behind.
    pub fn is_empty(&self) -> bool {
        self.has & !STACK == 0 && !self.is_recorded
    }

    /// Only the stack pointer is known from here on.
    #[inline]
    pub fn clear(&mut self) {
        self.has &= STACK;
        self.is_recorded = false;
    }

    /// The stack pointer has to be recorded.
    #[inline]
    pub fn lacks_stack(&self) -> bool {
        self.has & STACK == 0
    }

    /// The stack pointer is this.
    pub fn set_stack(&mut self, sp: u64) {
        self.set_stack_known();
        self.values[Reg::Rsp as usize] = sp;
    }

    /// The stack pointer is known, or recorded now.
    pub(super) fn set_stack_known(&mut self) {
        self.has |= STACK;
    }

    #[inline]
    fn get(&self, place: usize) -> Option<u64> {
        (self.has & 1 << place != 0).then(|| self.values[place])
    }

    /// The address, if it follows from what is known.
    #[inline]
    pub fn address(&self, address: &Address) -> Option<u64> {
        let base = address
            .base
            .map_or(Some(0), |base| self.get(base as usize))?;
        let index = match address.index {
            None => 0,
            Some(index) => {
                let value = self.get(index.register as usize)?;
                let value = if index.is_byte { value & 0xFF } else { value };
                value.wrapping_mul(index.scale.into())
            }
        };
        let segment = address
            .segment
            .map_or(Some(0), |segment| self.get(place_of(segment)))?;
        let sum = address.displacement.wrapping_add(base).wrapping_add(index);
        let sum = if address.is_32_bit {
            sum & 0xFFFF_FFFF
        } else {
            sum
        };
        Some(sum.wrapping_add(segment))
    }

    /// `value` was recorded for the address: teaches the one register of it that is not known.
    pub fn learn(&mut self, address: &Address, value: u64) {
        self.is_recorded = true;
        if address.is_32_bit {
            return;
        }
        let base = address.base.map(|base| base as usize);
        let segment = address.segment.map(place_of);
        let index = match address.index {
            Some(index) if index.scale != 1 || index.is_byte => {
                if self.get(index.register as usize).is_none() {
                    return;
                }
                None
            }
            index => index.map(|index| index.register as usize),
        };
        let parts = [base, segment, index];
        let mut unknown = parts
            .into_iter()
            .flatten()
            .filter(|&place| self.get(place).is_none());
        let (Some(place), None) = (unknown.next(), unknown.next()) else {
            return;
        };
        self.has |= 1 << place;
        self.values[place] = 0;
        let others = self.address(address).unwrap_or(0);
        self.values[place] = value.wrapping_sub(others);
    }

    /// An instruction with this effect was executed.
    #[inline]
    pub fn apply(&mut self, effect: &Effect) {
        match effect.moves {
            [None, None] => self.has &= !effect.loses,
            _ => self.follow(effect),
        }
    }

    /// As [`Self::apply`], of an instruction that moves values on.
    fn follow(&mut self, effect: &Effect) {
        let moved = effect.moves.map(|of| {
            let (to, from, added) = of?;
            // A copy of the stack pointer.
            if from == Reg::Rsp as u8 && to != from && !self.is_recorded {
                return None;
            }
            let value = self.get(from.into())?;
            Some((to, value.wrapping_add_signed(added)))
        });
        self.has &= !effect.loses;
        for (to, value) in moved.into_iter().flatten() {
            self.has |= 1 << to;
            self.values[usize::from(to)] = value;
        }
    }
}

impl Effect {
    /// The address, by the registers behind the instruction; `None`: they do not say it.
    pub fn address_behind(&self, address: &Address) -> Option<Address> {
        let loses = |place: usize| self.loses & 1 << place != 0;
        let mut behind = *address;
        if let Some(base) = address.base.map(|base| base as u8)
            && loses(base.into())
        {
            let mut moves = self.moves.iter().flatten();
            let (_, _, added) = moves.find(|(to, from, _)| (*to, *from) == (base, base))?;
            behind.displacement = address.displacement.wrapping_sub(added.cast_unsigned());
        }
        let is_lost = address
            .index
            .is_some_and(|index| loses(index.register as usize))
            || address
                .segment
                .is_some_and(|segment| loses(place_of(segment)));
        (!is_lost).then_some(behind)
    }

    fn moves(mut self, to: Reg, from: Reg, added: i64) -> Effect {
        let free = usize::from(self.moves[0].is_some());
        self.moves[free] = Some((to as u8, from as u8, added));
        self.loses |= 1 << to as u8;
        self
    }
}

impl Insn {
    /// The effect on registers, and all general registers that the instruction names or uses, a
    /// bit each.
    pub fn effect(&self) -> (Effect, u16) {
        let raw = &self.raw;
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info_options(raw, InstructionInfoOptions::NO_MEMORY_USAGE);
        let (mut loses, mut uses) = (0u32, 0u16);
        for used in info.used_registers() {
            let Some(register) = register64(used.register()) else {
                continue;
            };
            uses |= 1 << register as u16;
            let reads = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            if !reads {
                loses |= 1 << register as u32;
            }
        }
        for at in 0..raw.op_count() {
            match raw.op_register(at) {
                Register::FS => loses |= 1 << SEGMENTS,
                Register::GS => loses |= 1 << (SEGMENTS + 1),
                _ => {}
            }
        }
        match raw.mnemonic() {
            Mnemonic::Wrfsbase => loses |= 1 << SEGMENTS,
            Mnemonic::Wrgsbase => loses |= 1 << (SEGMENTS + 1),
            _ => {}
        }
        if self.returns_elsewhere() {
            loses &= !STACK;
        }
        let plain = Effect {
            loses,
            ..Effect::default()
        };
        (self.moved(plain), uses)
    }

    /// The kernel or the engine executes it, and the stack pointer is as it was, or is told.
    fn returns_elsewhere(&self) -> bool {
        use Flow::{Far, Int80, Odd, Syscall, TransactionBegin, Trap};
        matches!(
            self.flow(),
            Far(_) | Int80 | Odd | Syscall | TransactionBegin(_) | Trap
        )
    }

    /// With the values that follow from others.
    fn moved(&self, plain: Effect) -> Effect {
        let raw = &self.raw;
        let register = |at| match raw.op_kind(at) {
            OpKind::Register if raw.op_register(at).size() == 8 => register64(raw.op_register(at)),
            _ => None,
        };
        let number = || raw.try_immediate(1).ok().map(|number| number as i64);
        let to = if raw.op_count() > 0 {
            register(0)
        } else {
            None
        };
        let found = match (raw.mnemonic(), to) {
            (Mnemonic::Mov, Some(to)) => register(1).map(|from| plain.moves(to, from, 0)),
            (Mnemonic::Add, Some(to)) if register(1).is_none() => {
                number().map(|added| plain.moves(to, to, added))
            }
            (Mnemonic::Sub, Some(to)) if register(1).is_none() => {
                number().map(|less| plain.moves(to, to, less.wrapping_neg()))
            }
            (Mnemonic::Inc, Some(to)) => Some(plain.moves(to, to, 1)),
            (Mnemonic::Dec, Some(to)) => Some(plain.moves(to, to, -1)),
            (Mnemonic::Lea, Some(to)) => {
                let base = raw.memory_base();
                let is_plain = raw.memory_index() == Register::None && base.size() == 8;
                let base = register64(base).filter(|_| is_plain && base != Register::RIP);
                base.map(|base| plain.moves(to, base, raw.memory_displacement64() as i64))
            }
            (Mnemonic::Leave, _) if raw.code() == Code::Leaveq => {
                Some(plain.moves(Reg::Rsp, Reg::Rbp, 8))
            }
            (Mnemonic::Leave | Mnemonic::Enter, _) => Some(plain),
            (Mnemonic::Pop, _) if raw.op0_register().full_register() == Register::RSP => {
                Some(plain)
            }
            _ => None,
        };
        match (found, raw.stack_pointer_increment()) {
            (Some(found), _) => found,
            (None, _) if self.returns_elsewhere() => plain,
            (None, 0) => plain,
            (None, moved) => plain.moves(Reg::Rsp, Reg::Rsp, moved.into()),
        }
    }
}
