//! Prediction of an indirect branch that takes its target from a fixed address.
//!
//! A PLT stub, or a call without one, jumps where the dynamic linker said once. There the
//! site itself looks for the target that is at the address when it is translated, and goes
//! on to it by a link (`indirect`). If that is yet to be bound, another target makes the
//! site be translated anew.

use isa::{Flow, Insn};

use crate::engine::Engine;

/// The landing mark of indirect branches.
const ENDBR64: [u8; 4] = [0xF3, 0x0F, 0x1E, 0xFA];

/// Predicted target of an indirect branch.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    pub target: u64,
    /// The target is a stub's own code that has it bound, which happens once.
    pub lazy: bool,
}

/// Whether the code at `pc` is that of a PLT entry not bound yet: the number of its
/// relocation is pushed (System V ABI for x86-64, 5.2; after `endbr64` if at all).
fn binds_lazily(pc: u64) -> bool {
    const PUSH_IMM32: u8 = 0x68;
    let mut bytes = [0; 5];
    let got = agent::memory::read_some(pc, &mut bytes);
    let bytes = &bytes[..got];
    bytes.strip_prefix(&ENDBR64).unwrap_or(bytes).first() == Some(&PUSH_IMM32)
}

impl Engine {
    /// Present target of an indirect branch, if it takes its target from a fixed
    /// address.
    pub fn prediction(&self, insn: &Insn) -> Option<Prediction> {
        if agent::memory::is_served() {
            // The address may be in a page that is not there.
            return None;
        }
        let (place, _) = insn.rip_relative().filter(|_| !insn.has_segment_base())?;
        let target = agent::memory::read::<u64>(place)?;
        self.process.regions.find(target)?;
        let lazy = insn.flow() == Flow::IndirectJump && binds_lazily(target);
        Some(Prediction { target, lazy })
    }
}
