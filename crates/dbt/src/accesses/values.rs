//! Values that instructions read and write, recorded beside their addresses.
//!
//! Approach: as addresses, values are stored behind the end of their lane, which moves where the
//! superblock is left. Each is taken from where `isa::memory::values` says: a register, or memory, a few
//! bytes at a time through a general register.
//!
//! Memory is read by emitted code before or behind the program's own access. If that
//! faults, the thread goes on behind the stores, and the program's instruction faults as it would
//! natively ([`passed_over`]); what was stored does not count then, as the instruction is not over.
//!
//! Limits: memory whose reading has effects (registers of devices) is read once more than natively.

use core::mem::offset_of;

use agent::thread::ThreadContext;
use isa::memory::values::{Encoding, Place, Values};
use isa::{Asm, Reg};
use sys::signal::{UContext, trap};

use super::{LANES, load_address};
use crate::pcmap::Reading;
use crate::signals::register_of;

const VECTOR_SPILL: i32 = offset_of!(ThreadContext, vector_spill) as i32;

/// A value of so many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    place: Place,
    pub size: u8,
}

impl Value {
    /// Emitted code reads memory for it.
    pub fn is_memory(self) -> bool {
        matches!(self.place, Place::Memory(_) | Place::Elements(_))
    }
}

/// Recorded values of an instruction, in order: those from before it, or from behind it.
pub(super) fn recorded(
    values: &[Values],
    is_behind: bool,
) -> impl Iterator<Item = Value> + Clone + '_ {
    values.iter().flat_map(move |values| {
        let size = values.size;
        let places = values.recorded(is_behind);
        places.map(move |place| Value { place, size })
    })
}

/// Stores a value at `pointer + at`, where `pointer` is the end of its lane. Bytes behind it are
/// changed, too.
pub(super) fn store(asm: &mut Asm<'_>, value: Value, [pointer, scratch]: [Reg; 2], at: i32) {
    match value.place {
        Place::Register(register) => asm.mov_mem_r(pointer, at, register),
        Place::Vector(vector) => match vector.encoding {
            Encoding::Sse => asm.mov_mem_xmm(pointer, at, vector.number),
            Encoding::Vex => asm.mov_mem_vector(pointer, at, vector.number, false),
            Encoding::Evex => asm.mov_mem_vector(pointer, at, vector.number, true),
        },
        Place::Memory(address) => {
            let mut done = 0;
            while done < value.size {
                // The largest power of two that is left, up to 8.
                let some = 1 << (value.size - done).min(8).ilog2();
                load_address(asm, address, [pointer, scratch], LANES[1]);
                asm.mov_r_mem_sized(scratch, scratch, done, some);
                asm.mov_mem_r(pointer, at + i32::from(done), scratch);
                done += some;
            }
        }
        Place::Elements(elements) => {
            asm.mov_gs_vector(VECTOR_SPILL, elements.through);
            load_address(asm, elements.address, [pointer, scratch], LANES[1]);
            // If it faults, the register is as it was.
            let sizes = [elements.element, elements.size];
            asm.mov_vector_mem_masked(elements.through, scratch, elements.opmask, sizes);
            asm.mov_mem_vector(pointer, at, elements.through, true);
            asm.mov_vector_gs(elements.through, VECTOR_SPILL);
        }
    }
}

/// Whether emitted code at `rip` reads memory to record it.
pub fn reads(rip: u64) -> bool {
    reading_at(rip).is_some()
}

fn reading_at(rip: u64) -> Option<Reading> {
    crate::locate::place_of(rip).flatten()?.reading
}

/// If emitted code could not read a value, it goes on behind that.
pub fn passed_over(context: &ThreadContext, uc: &mut UContext) -> bool {
    let registers = &mut uc.mcontext;
    let by_access = matches!(
        registers.trapno,
        trap::PAGE_FAULT | trap::GENERAL_PROTECTION | trap::STACK
    );
    let Some(reading) = reading_at(registers.rip).filter(|_| by_access) else {
        return false;
    };
    for (register, slot) in reading.spilled() {
        *register_of(registers, register) = context.spill[slot];
    }
    registers.rip += u64::from(reading.left);
    true
}
