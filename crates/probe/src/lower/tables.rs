//! Code that counts values in tables ([`crate::Tables`]).

use isa::Cc;

use super::{LINK, Lowering, TO_ROUTINE, to_routine};
use crate::{Sink, Symbol, Tables, Tallied, Value};

impl<'a, S: Sink<'a>> Lowering<'_, S> {
    pub(super) fn tally(&mut self, value: Value, tables: Tables, routine: Symbol) {
        let table = tables.own.0.cast_signed();
        let asm = self.out.asm();
        let register = match value {
            Value::Register(register) => register,
            Value::Memory {
                is_thread,
                base,
                index,
                displacement,
            } => {
                asm.mov_r_any(LINK, is_thread, (base, index, displacement));
                LINK
            }
            Value::At(address) => {
                asm.mov_r_rip(LINK, address);
                LINK
            }
        };
        asm.cmp_r_gs(register, table);
        let is_first = asm.jcc_short(Cc(4));
        let facts = asm.here() + TO_ROUTINE;
        to_routine(self.out, routine, facts);
        let asm = self.out.asm();
        // It goes on behind the increment.
        asm.bytes(&((Tallied::BYTES + INC) as u32).to_le_bytes());
        asm.bytes(&table.to_le_bytes());
        asm.bytes(&tallied(value, facts, tables.bits));
        asm.bytes(&tables.shared.0.to_le_bytes());
        asm.bytes(&tables.number.to_le_bytes());
        asm.bind(is_first);
        asm.inc_gs(table + 8);
    }
}

/// Bytes of the increment of a word.
const INC: u64 = 9;

/// Facts of a value for the routine of an [`Op::Tally`], which are at an address.
fn tallied(value: Value, facts: u64, bits: u8) -> [u8; 8] {
    let (displacement, base, index, form) = match value {
        Value::Register(register) => (0, register as u8, Tallied::NONE, Tallied::REGISTER),
        Value::Memory {
            is_thread,
            base,
            index,
            displacement,
        } => {
            let base = base.map_or(Tallied::NONE, |base| base as u8);
            let (index, scale) = match index {
                Some((index, scale)) => (index as u8, scale.trailing_zeros() as u8),
                None => (Tallied::NONE, 0),
            };
            let segment = if is_thread { Tallied::THREAD } else { 0 };
            (displacement, base, index, scale | segment)
        }
        // The code that loads it reaches it by as many bytes.
        Value::At(address) => {
            let displacement = address.wrapping_sub(facts) as i32;
            (displacement, Tallied::HERE, Tallied::NONE, 0)
        }
    };
    let [a, b, c, d] = displacement.to_le_bytes();
    [a, b, c, d, base, index, form, bits]
}
