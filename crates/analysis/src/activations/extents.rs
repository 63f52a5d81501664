//! Which function an address of a process belongs to.

use std::rc::Rc;

use hashbrown::HashMap;
use trace::{Label, Process};

use crate::counts::from_trace::Modules;

/// A part of a file, by offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub start: u64,
    pub end: u64,
    /// Entry of the function that it belongs to.
    pub owner: u64,
    /// Control that arrives at its start enters that function.
    pub is_entry: bool,
    /// A stub of the dynamic linker.
    pub is_stub: bool,
    /// The dynamic linker's lazy binding.
    pub is_lazy: bool,
    /// `_Unwind_Resume`.
    pub resumes: bool,
}

/// Facts about an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub pc: u64,
    pub module: Option<u32>,
    /// Entry of the function that it is of; none in stubs and unknown code.
    pub function: Option<u64>,
    pub entry: bool,
    pub stub: bool,
    pub lazy: bool,
    pub resumes: bool,
}

/// A function that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Met {
    pub module: Option<u32>,
    pub pc: u64,
}

/// The functions of a process.
pub struct Functions<'a> {
    process: &'a Process,
    extents: &'a mut dyn FnMut(&Process, u32) -> Vec<Extent>,
    modules: Modules,
    /// By module, sorted; asked for when it is met.
    tables: HashMap<u32, Rc<[Extent]>>,
    met: Vec<Met>,
    labels: HashMap<Met, Label>,
}

impl<'a> Functions<'a> {
    /// `met`: those that the parent of a forked child had.
    pub(super) fn new(
        process: &'a Process,
        extents: &'a mut dyn FnMut(&Process, u32) -> Vec<Extent>,
        met: Vec<Met>,
    ) -> Functions<'a> {
        let labels = (0..).zip(&met).map(|(at, &met)| (met, Label::function(at)));
        Functions {
            process,
            extents,
            modules: Modules::of(process),
            tables: HashMap::new(),
            labels: labels.collect(),
            met,
        }
    }

    pub(super) fn into_met(self) -> Vec<Met> {
        self.met
    }

    pub(super) fn place(&mut self, fragment: u32, pc: u64) -> Place {
        let unknown = Place {
            pc,
            ..Place::default()
        };
        let Some(at) = self.modules.at(fragment, pc) else {
            return unknown;
        };
        let unknown = Place {
            module: Some(at),
            ..unknown
        };
        let process = self.process;
        let module = &process.modules[at as usize];
        let extents = &mut self.extents;
        let table = self.tables.entry(at).or_insert_with(|| {
            let mut table = extents(process, at);
            table.sort_by_key(|extent| extent.start);
            table.into()
        });
        let base = module.start.wrapping_sub(module.offset);
        let offset = pc.wrapping_sub(base);
        let behind = table.partition_point(|extent| extent.start <= offset);
        let found = behind.checked_sub(1).map(|at| table[at]);
        match found.filter(|extent| offset < extent.end) {
            None => unknown,
            Some(extent) if extent.is_stub => Place {
                stub: true,
                ..unknown
            },
            Some(extent) => Place {
                function: Some(base.wrapping_add(extent.owner)),
                entry: extent.is_entry && extent.start == offset,
                lazy: extent.is_lazy,
                resumes: extent.resumes,
                ..unknown
            },
        }
    }

    /// Whether code at an address was executed.
    pub(super) fn has(&self, pc: u64) -> bool {
        self.modules.has(pc)
    }

    pub(super) fn label(&mut self, place: &Place) -> Label {
        let met = Met {
            module: place.module,
            pc: place.pc,
        };
        *self.labels.entry(met).or_insert_with(|| {
            self.met.push(met);
            Label::function(self.met.len() as u32 - 1)
        })
    }
}
