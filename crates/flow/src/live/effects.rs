//! Changes of live sets by instructions and calls.

use isa::{EffectsOf, Flow, Insn, RegisterSet};

use super::PRESERVED;

/// `rax` with the number of a system call, and its arguments in `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
const SYSTEM_CALL: RegisterSet = RegisterSet {
    general: 0x07c5,
    ..RegisterSet::NONE
};
/// `rcx` and `r11`, which a system call overwrites.
const OF_KERNEL: RegisterSet = RegisterSet {
    general: 0x0802,
    ..RegisterSet::NONE
};

pub(super) fn is_call(insn: &Insn) -> bool {
    matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall)
}

/// The change by an instruction of the live set behind it, without what it calls, and what it writes.
pub(super) fn own_effects(insn: &Insn, finder: &mut EffectsOf) -> (Transfer, RegisterSet) {
    let effects = finder.of(insn);
    let own = Transfer {
        read: effects.read,
        overwritten: effects.overwritten,
    };
    let own = match insn.flow() {
        Flow::Syscall => Transfer {
            read: own.read.with(SYSTEM_CALL).with(PRESERVED),
            overwritten: own.overwritten.with(OF_KERNEL),
        },
        Flow::Int80 | Flow::Far(_) | Flow::TransactionBegin(_) => Transfer {
            read: RegisterSet::ALL,
            ..own
        },
        _ => own,
    };
    (own, effects.written)
}

/// Instructions of a function, as far as they depend on no other one.
#[derive(Default)]
pub(super) struct OfFunction {
    pub blocks: Vec<OfBlock>,
    pub written: RegisterSet,
}

#[derive(Default)]
pub(super) struct OfBlock {
    pub own: Transfer,
    /// Then control goes to what its last instruction calls.
    pub call: Option<CallOf>,
}

/// A call.
#[derive(Clone, Copy)]
pub(super) enum CallOf {
    /// The numbers of a function of the program and of its entry, if it is one.
    Function {
        number: Option<u32>,
        entry: Option<u32>,
    },
    /// A function of another file, by the System V convention.
    Usual,
    /// An address is called.
    Address,
    /// A function of another file that preserves more, or is not known.
    KeepsAll,
    /// A function of another file, in a language with conventions of its own.
    Unknown,
}

/// The change by code of the live set behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    pub read: RegisterSet,
    pub overwritten: RegisterSet,
}

impl Transfer {
    pub fn before(&self, after: RegisterSet) -> RegisterSet {
        after.without(self.overwritten).with(self.read)
    }

    /// This code with `next` behind it.
    pub fn then(self, next: Transfer) -> Transfer {
        Transfer {
            read: self.before(next.read),
            overwritten: self.overwritten.with(next.overwritten),
        }
    }
}
