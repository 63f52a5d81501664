//! Branches of the code by number, so that who counts them needs no look-up each time.
//!
//! Invariant: numbers stay when pieces are forgotten; memory is in proportion to code.

use hashbrown::HashMap;
use isa::Flow;

use super::code::Step;

/// Kind of a near branch. `xbegin`, far branches and system calls are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Conditional jumps, `loop` and its like, `jrcxz`.
    Conditional,
    Jump,
    Call,
    IndirectJump,
    IndirectCall,
    Return,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Conditional,
        Kind::Jump,
        Kind::Call,
        Kind::IndirectJump,
        Kind::IndirectCall,
        Kind::Return,
    ];

    /// The code does not say where it goes.
    pub fn is_indirect(self) -> bool {
        matches!(self, Kind::IndirectJump | Kind::IndirectCall | Kind::Return)
    }

    /// And where, if the code says so.
    fn of(flow: Flow) -> Option<(Kind, u64)> {
        Some(match flow {
            Flow::Cond(_, target) | Flow::CountJump(target) => (Kind::Conditional, target),
            Flow::Jump(target) => (Kind::Jump, target),
            Flow::Call(target) => (Kind::Call, target),
            Flow::IndirectJump => (Kind::IndirectJump, 0),
            Flow::IndirectCall => (Kind::IndirectCall, 0),
            Flow::Return(_) => (Kind::Return, 0),
            Flow::Next
            | Flow::Syscall
            | Flow::Int80
            | Flow::TransactionBegin(_)
            | Flow::Far(_)
            | Flow::Odd
            | Flow::Trap => return None,
        })
    }
}

/// A branch of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub step: Step,
    pub kind: Kind,
    /// Target if it branches; 0: the code does not say.
    pub target: u64,
}

/// The branches of a piece: their place in it, and the number of their site.
pub(super) type Marks = Box<[(u32, u32)]>;

#[derive(Debug, Default)]
pub(super) struct Sites {
    sites: Vec<Site>,
    by_step: HashMap<(u32, u64), u32>,
}

impl Sites {
    pub fn marks(&mut self, steps: &[Step]) -> Marks {
        let marks = (0..).zip(steps).filter_map(|(at, &step)| {
            let (kind, target) = Kind::of(step.flow)?;
            let sites = &mut self.sites;
            let number = *self
                .by_step
                .entry((step.fragment, step.pc))
                .or_insert_with(|| {
                    sites.push(Site { step, kind, target });
                    sites.len() as u32 - 1
                });
            Some((at, number))
        });
        marks.collect()
    }

    pub fn all(&self) -> &[Site] {
        &self.sites
    }
}
