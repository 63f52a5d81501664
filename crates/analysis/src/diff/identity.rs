//! Identities of labels across recordings: names and
//! offsets, which stay, and never addresses and ids, which do not.

use trace::{Label, Process, Recording, base_name};

/// Equal: the same thing, in whatever process of whatever recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity<'a> {
    /// A function with a name, of a file or of none.
    Named {
        name: &'a str,
        module: Option<&'a str>,
    },
    /// A function without a name, by its place in a file.
    At { module: &'a str, offset: u64 },
    /// Code in no file, all of it: its addresses differ from run to run.
    Nowhere,
    /// Callers that were not kept: further out than k.
    Unknown,
    /// A label that is no function: a signal's handler, calls beyond the limit of nodes.
    Special(Label),
    /// A program: what its processes did.
    Program(&'a str),
}

impl<'a> Identity<'a> {
    /// File name of the module that a function is in.
    pub fn module(&self) -> Option<&'a str> {
        match *self {
            Identity::Named { module, .. } => module,
            Identity::At { module, .. } => Some(module),
            _ => None,
        }
    }
}

/// Finds identities, by the names that the program had before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namer<'a> {
    /// A file name, and the one that stands for it.
    renamed: Option<(&'a str, &'a str)>,
}

impl<'a> Namer<'a> {
    /// For the recording `after`.
    pub(super) fn new(before: &'a Recording, after: &'a Recording) -> Namer<'a> {
        let names = program_of(after).zip(program_of(before));
        Namer {
            renamed: names.filter(|(after, before)| after != before),
        }
    }

    pub(super) fn program(&self, process: &'a Process) -> Identity<'a> {
        Identity::Program(self.rename(process.program()))
    }

    pub(super) fn identity(&self, process: &'a Process, label: Label) -> Identity<'a> {
        let Some(function) = process.function(label) else {
            return match label.is_function() {
                true => Identity::Nowhere,
                false => Identity::Special(label),
            };
        };
        let module = process.module_of(function);
        let module = module.map(|module| self.rename(base_name(&module.path)));
        match (&function.name, module) {
            (Some(name), module) => Identity::Named { name, module },
            (None, Some(module)) => Identity::At {
                module,
                offset: function.file_offset,
            },
            (None, None) => Identity::Nowhere,
        }
    }

    fn rename(&self, name: &'a str) -> &'a str {
        match self.renamed {
            Some((from, to)) if from == name => to,
            _ => name,
        }
    }
}

/// The program that a recording is of: its first process.
pub(super) fn program_of(recording: &Recording) -> Option<&str> {
    recording.processes.first().map(Process::program)
}
