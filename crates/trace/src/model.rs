//! The data model of one recorded run: plain data, complete in itself.
//!
//! Times named `*_ns` are CLOCK_MONOTONIC nanoseconds of the recording machine,
//! except [`Meta::started_unix_ns`]. Indices are positions in the vectors of the
//! same parent: `Process::parent` in [`Recording::processes`],
//! `Function::module` in [`Process::modules`], `Node::parent` and `Node::top`
//! in [`Thread::nodes`].

use std::fmt;

use wire::node;

/// One run of a command with everything that it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    pub meta: Meta,
    /// Oldest first; the process that was started is the first.
    pub processes: Vec<Process>,
}

/// What was asked, and how the whole run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Who recorded: "everypath 0.1.0".
    pub producer: String,
    /// The command as it was given.
    pub command: Vec<String>,
    pub mode: Mode,
    /// k of the k-slab forest; `None` is infinity.
    pub k: Option<u32>,
    /// Recursion of one function made a node per level.
    pub unroll: bool,
    /// Only selected functions made nodes, below `__root__`.
    pub selected: bool,
    /// Every other option that was given, name and value, for the reader.
    pub options: Vec<(String, String)>,
    /// Wall clock at the start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    pub duration_ns: u64,
    /// How the first process ended.
    pub end: End,
}

/// What the engine inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: the program was translated only.
    #[default]
    Run,
    /// Function-mode calling contexts.
    Contexts,
}

/// How a process image ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signaled {
        signal: i32,
        core: bool,
    },
    /// Replaced itself by exec; the new image is a process of its own here.
    Execed,
    /// Killed, or still running when the recording ended.
    #[default]
    Unknown,
}

/// One process image: it begins at fork, clone without shared memory, or exec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// The image that forked or exec'd this one; always an earlier index.
    pub parent: Option<usize>,
    /// Made by fork (the image existed before) rather than by exec.
    pub by_fork: bool,
    pub exe: String,
    pub args: Vec<String>,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    pub end: End,
    /// In the order in which they were mapped.
    pub modules: Vec<Module>,
    /// Sorted by `id`, but with gaps: a forked child keeps of its parent's
    /// functions those that its own nodes name. Use [`Process::function`].
    pub functions: Vec<Function>,
    pub threads: Vec<Thread>,
    /// Engine statistics by index, named by `wire::stat::NAMES`.
    pub stats: Vec<u64>,
}

impl Process {
    /// The function that `label` stands for; `None` for special labels.
    pub fn function(&self, label: Label) -> Option<&Function> {
        let at = self
            .functions
            .binary_search_by_key(&label.0, |function| function.id)
            .ok()?;
        self.functions.get(at)
    }

    /// The module of a function of this process.
    pub fn module_of(&self, function: &Function) -> Option<&Module> {
        self.modules.get(function.module? as usize)
    }
}

/// One executable mapping, from when it was made until it was gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    pub path: String,
    pub start: u64,
    pub end: u64,
    /// File offset of `start`.
    pub offset: u64,
    /// Which file that was; all 0: none, or not known. Not kept in recordings:
    /// it helps to find the names, and says nothing on another machine.
    pub file: wire::FileId,
    pub build_id: Option<Vec<u8>>,
    pub mapped_ns: u64,
    /// When its last piece was unmapped or mapped over.
    pub unmapped_ns: Option<u64>,
}

/// A function that was entered at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Function id of `wire::node`; the [`Label`] of its nodes.
    pub id: u32,
    pub pc: u64,
    /// Index of its module; `None` for code that is in no file.
    pub module: Option<u32>,
    /// File offset of `pc` in the module's file; 0 without a module.
    pub file_offset: u64,
    /// Demangled.
    pub name: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// One thread of a process image and its k-slab forest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    /// Retired instructions, if they were counted.
    pub insns: u64,
    /// Function events that found the node limit reached.
    pub truncated_events: u64,
    /// Deepest shadow stack seen.
    pub max_depth: u64,
    /// As recorded online; every parent comes before its children.
    pub nodes: Vec<Node>,
}

/// A node of a k-slab forest as recorded.
///
/// `count` is one per event, on the state node alone: the bottom node, or the
/// only node while there is no bottom (the first slab). The k-SF counter of a
/// node, as the paper's algorithm keeps it, is its own `count` plus the
/// `count` of every node whose `top` names it; `analysis` computes that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub label: Label,
    /// `None`: a root. Otherwise a smaller index than the node's own.
    pub parent: Option<u32>,
    /// Distance from the root: 0, or one more than the parent's.
    pub depth: u32,
    /// The top node of this bottom node; `None` where there is none.
    pub top: Option<u32>,
    pub count: u64,
}

/// Labels of the first and the last signal of Linux.
const FIRST_SIGNAL: u32 = node::LABEL_SIGNAL + 1;
const LAST_SIGNAL: u32 = node::LABEL_SIGNAL + 64;

/// What a node stands for: a function id of `wire::node`, or, below
/// `FIRST_FUNC`, something that is not a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

impl Label {
    pub const THREAD: Label = Label(node::LABEL_THREAD);
    pub const ROOT: Label = Label(node::LABEL_ROOT);
    pub const TRUNCATED: Label = Label(node::LABEL_TRUNCATED);
    pub const MUTED: Label = Label(node::LABEL_MUTED);

    /// Root of the activations of a signal's handler.
    pub const fn signal(number: u32) -> Label {
        Label(node::LABEL_SIGNAL + number)
    }

    /// Whether this is a function, to be named by the process's table.
    pub const fn is_function(self) -> bool {
        self.0 >= node::FIRST_FUNC
    }
}

/// The name of a special label; a function prints as its number, because only
/// a [`Process`] can name it.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Label::THREAD => f.write_str("[thread]"),
            Label::ROOT => f.write_str("__root__"),
            Label::TRUNCATED => f.write_str("[truncated]"),
            Label::MUTED => f.write_str("[muted]"),
            Label(signal @ FIRST_SIGNAL..=LAST_SIGNAL) => {
                write!(f, "[signal {}]", signal - node::LABEL_SIGNAL)
            }
            Label(id) if self.is_function() => write!(f, "[function {id}]"),
            Label(id) => write!(f, "[label {id}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_labels_have_names_and_functions_numbers() {
        let labels = [1, 2, 3, 4, 128, 129, 192, 193, 256].map(|label| Label(label).to_string());
        let names = [
            "[thread]",
            "__root__",
            "[truncated]",
            "[muted]",
            "[label 128]",
            "[signal 1]",
            "[signal 64]",
            "[label 193]",
            "[function 256]",
        ];
        assert_eq!(labels, names);
        assert_eq!(Label::signal(64), Label(192));
    }

    #[test]
    fn functions_are_found_by_label_across_gaps() {
        let function = |id, module| Function {
            id,
            module,
            ..Function::default()
        };
        let process = Process {
            functions: vec![
                function(256, None),
                function(300, Some(0)),
                function(301, Some(9)),
            ],
            modules: vec![Module::default()],
            ..Process::default()
        };
        assert_eq!(process.function(Label(257)), None);
        assert_eq!(process.function(Label::THREAD), None);
        let found = process.function(Label(300)).unwrap();
        assert_eq!(process.module_of(found), Some(&process.modules[0]));
        assert_eq!(
            process.module_of(process.function(Label(301)).unwrap()),
            None
        );
    }
}
