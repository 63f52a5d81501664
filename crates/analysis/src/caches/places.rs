//! Instructions of a trace among those of its counts.

use hashbrown::HashMap;
use trace::Process;

use crate::counts::from_trace::Modules;
use crate::counts::{Counts, Unit};

/// Finds instructions of one process.
pub(super) struct Places<'a> {
    counts: &'a Counts,
    units: HashMap<&'a Unit, u32>,
    index: usize,
    process: &'a Process,
    modules: Modules,
}

impl<'a> Places<'a> {
    /// The instructions of the process with this index.
    pub fn of(counts: &'a Counts, index: usize, process: &'a Process) -> Places<'a> {
        Places {
            counts,
            units: counts.units.iter().zip(0..).collect(),
            index,
            process,
            modules: Modules::of(process),
        }
    }

    /// Index in [`Counts::insns`] of the instruction at an address, in a piece of code. Code that was
    /// written over shares a place, and its first version stands for all.
    pub fn find(&self, fragment: u32, pc: u64) -> Option<usize> {
        let module = self.modules.at(fragment, pc);
        let module = module.map(|at| &self.process.modules[at as usize]);
        let unit = Unit {
            path: module.map(|module| module.path.clone()),
            build_id: module.and_then(|module| module.build_id.clone()),
            process: module.is_none().then_some(self.index),
        };
        let at = module.map_or(pc, |module| {
            pc.wrapping_sub(module.start).wrapping_add(module.offset)
        });
        let &unit = self.units.get(&unit)?;
        let insns = &self.counts.insns;
        let found = insns.partition_point(|insn| (insn.unit, insn.at) < (unit, at));
        let insn = insns.get(found)?;
        ((insn.unit, insn.at) == (unit, at)).then_some(found)
    }
}
