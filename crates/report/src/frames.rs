//! Frames with all that is known of them, and numbered, each one once: the forms
//! for other tools have a table of them.

use std::collections::HashMap;

use analysis::callgraph::Caller;
use trace::{Label, Process};

use crate::names::{base_name, label_name};
use crate::stacks::{self, Frame};

/// Facts about a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known<'a> {
    pub name: String,
    /// Path of its module.
    pub module: Option<&'a str>,
    pub build_id: Option<&'a [u8]>,
    /// Entry address: offset in the module's file, or address without one.
    pub address: Option<u64>,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
}

impl Known<'_> {
    /// Whether no symbol names the function, so that its name is made of its place.
    pub fn is_nameless(&self) -> bool {
        let module = self.module.map(base_name);
        module.is_some_and(|module| self.name.starts_with(&format!("{module}+0x")))
    }
}

/// Looks up a frame of `process`.
pub fn describe(process: &Process, frame: Frame) -> Known<'_> {
    let label = match frame {
        Frame::Unknown => None,
        Frame::Label(label) => Some(label),
    };
    let function = label.and_then(|label| process.function(label));
    let module = function.and_then(|function| process.module_of(function));
    Known {
        name: label.map_or(stacks::UNKNOWN.to_owned(), |label| {
            label_name(process, label)
        }),
        module: module.map(|module| module.path.as_str()),
        build_id: module.and_then(|module| module.build_id.as_deref()),
        address: function.map(|function| match module {
            Some(_) => function.file_offset,
            None => function.pc,
        }),
        file: function.and_then(|function| function.file.as_deref()),
        line: function.and_then(|function| function.line),
    }
}

impl From<Caller> for Frame {
    fn from(caller: Caller) -> Frame {
        match caller {
            Caller::Unknown => Frame::Unknown,
            Caller::Known(label) => Frame::Label(label),
        }
    }
}

/// Frames of several processes by number; what is the same in two processes
/// has one number.
#[derive(Default)]
pub struct Frames<'a> {
    pub list: Vec<Known<'a>>,
    by_content: HashMap<Known<'a>, usize>,
    /// By index of the process.
    by_frame: HashMap<(usize, Frame), usize>,
}

impl<'a> Frames<'a> {
    /// The number of a frame of `process`, which is the `at`th.
    pub fn number(&mut self, at: usize, process: &'a Process, frame: Frame) -> usize {
        if let Some(&number) = self.by_frame.get(&(at, frame)) {
            return number;
        }
        let known = describe(process, frame);
        let next = self.list.len();
        let number = *self.by_content.entry(known.clone()).or_insert(next);
        if number == next {
            self.list.push(known);
        }
        self.by_frame.insert((at, frame), number);
        number
    }
}

/// Functions of the same name, file and module: a viewer takes them for one. Each
/// but the first stands here with the first.
pub fn twins(process: &Process) -> HashMap<Label, Label> {
    let mut first: HashMap<(String, Option<&str>, Option<&str>), Label> = HashMap::new();
    let mut twins = HashMap::new();
    for function in &process.functions {
        let label = Label(function.id);
        let known = describe(process, Frame::Label(label));
        let key = (known.name, known.file, known.module);
        let same = *first.entry(key).or_insert(label);
        if same != label {
            twins.insert(label, same);
        }
    }
    twins
}
