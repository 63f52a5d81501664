//! Accesses one by one: loads and stores in the order in which they are made.

use super::{Accessed, Value};

/// A load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Index of its instruction among those that it is given with.
    pub step: u32,
    /// Number of the repetition, of a repeated instruction.
    pub repetition: u64,
    pub is_store: bool,
    pub address: u64,
    /// Number of bytes; 0 if nobody knows.
    pub size: u32,
    /// The value that is read, or written, if it is known.
    pub value: Option<Value>,
}

/// Gives each operation to `each`: of an instruction the loads, then the stores; step by step, if it
/// is repeated.
#[inline]
pub fn operations(all: &[Accessed], mut each: impl FnMut(Operation)) {
    for of_insn in all.chunk_by(|one, other| one.step == other.step) {
        let most = of_insn.iter().map(|one| one.times).max().unwrap_or(0);
        for at in 0..most {
            let now = || of_insn.iter().filter(|one| at < one.times);
            let operation = |one: &Accessed, is_store| {
                let access = one.at(at);
                Operation {
                    step: one.step,
                    repetition: at,
                    is_store,
                    address: access.address,
                    size: access.size,
                    value: if is_store { one.written } else { one.read },
                }
            };
            for one in now().filter(|one| one.access.kind.reads()) {
                each(operation(one, false));
            }
            for one in now().filter(|one| one.access.kind.writes()) {
                each(operation(one, true));
            }
        }
    }
}
