//! The data model of one recorded run: plain data, complete in itself.
//!
//! Times named `*_ns` are CLOCK_MONOTONIC nanoseconds of the recording machine,
//! except [`Meta::started_unix_ns`]. Indices are positions in the vectors of the
//! same parent: `Process::parent` in [`Recording::processes`],
//! `Function::module` in [`Process::modules`], `Node::parent` and `Node::top`
//! in [`Thread::nodes`].

use std::fmt;
use std::sync::Arc;

use wire::denied::Denial;
use wire::stat::TICKS_PER_SECOND;
use wire::{STATS, node};

use crate::keyframe::{Gap, Keyframe};
use crate::part::Part;

/// One run of a command with everything that it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    pub meta: Meta,
    /// Oldest first; the process that was started is the first.
    pub processes: Vec<Process>,
    /// Threads that are not in it, or in parts, as there was no memory for what they did.
    pub denied: Vec<Denial>,
    /// Programs of the run that are not in it, as they were executed natively.
    pub natives: Vec<Native>,
}

/// A program that was executed natively.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// The file's own name, cut off after [`wire::natives::NAME`] bytes.
    pub name: String,
    /// One of [`wire::natives::why`].
    pub why: u32,
    pub times: u64,
}

impl Recording {
    /// A recording of the same run in another form.
    pub fn in_form(&self, meta: Meta, processes: Vec<Process>) -> Recording {
        Recording {
            meta,
            processes,
            denied: self.denied.clone(),
            natives: self.natives.clone(),
        }
    }

    /// How often the counter of time stamps counts in a second, if somebody measured it and
    /// lived to write it.
    pub fn ticks_per_second(&self) -> Option<u64> {
        let ticks = self.processes.first()?.stats.get(TICKS_PER_SECOND);
        ticks.copied().filter(|&ticks| ticks != 0)
    }

    pub fn set_ticks_per_second(&mut self, ticks: u64) {
        if let Some(first) = self.processes.first_mut() {
            first.stats.resize(STATS.max(first.stats.len()), 0);
            first.stats[TICKS_PER_SECOND] = ticks;
        }
    }
}

/// Options and end of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Name and version of the recorder: "everypath 0.1.0".
    pub producer: String,
    /// The command as it was given.
    pub command: Vec<String>,
    pub mode: Mode,
    /// k of the k-slab forest; `None` is infinity.
    pub k: Option<u32>,
    /// Recursion of one function made a node per level.
    pub unroll: bool,
    /// Contexts are of basic blocks, not of functions.
    pub blocks: Option<BlockContexts>,
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

/// Instrumentation of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: the program was translated only.
    #[default]
    Run,
    /// Function-mode calling contexts.
    Contexts,
    /// Executions of every instruction and ways of every branch.
    Counts,
    /// Every instruction in order.
    Trace,
}

/// Which contexts basic blocks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockContexts {
    /// Contexts are of blocks executed in the same activation of a function, not in the thread.
    pub intra: bool,
    /// A block that leads to itself again is gone back to.
    pub roll_loops: bool,
    /// Blocks end at branches only, not where one is known to go.
    pub dynamic: bool,
    /// Nodes are windows of k blocks, from their roots, and each counts
    /// at its end; not a k-slab forest. k is finite then.
    pub windows: bool,
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
    /// Basic blocks among `functions`, by `id`.
    pub blocks: Vec<Block>,
    /// The code that ran, by first slot, with [`Mode::Counts`]; and with [`Mode::Trace`] in
    /// the order in which it was met; a forked child begins with those that its parent had.
    pub fragments: Vec<Arc<Fragment>>,
    /// Places at which fragments were left before their end.
    pub cuts: Vec<Cut>,
    /// Targets of indirect branches at the end of fragments.
    pub jumps: Vec<Jump>,
    /// Targets of indirect branches, and the marks ([`wire::stream::TargetNumber`]). Before version 9 no
    /// two have the same low 16 bits. With [`Mode::Trace`] only, as the streams of threads.
    pub targets: Vec<u64>,
    /// Names and lines of that code, by module and offset; each holds up to the
    /// next one of its module. With [`Mode::Trace`] those of code that a forked child has
    /// from its parent are the parent's.
    pub sources: Vec<Source>,
    /// Texts that `sources` name by index.
    pub texts: Vec<String>,
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

    /// The basic block that `label` stands for.
    pub fn block(&self, label: Label) -> Option<&Block> {
        let at = self.blocks.binary_search_by_key(&label.0, |block| block.id);
        self.blocks.get(at.ok()?)
    }

    /// File name of the program that it runs; as it was called, if its file is
    /// not known.
    pub fn program(&self) -> &str {
        let path = match self.args.first() {
            Some(name) if self.exe.is_empty() => name,
            _ => &self.exe,
        };
        base_name(path)
    }

    /// The module of a function of this process.
    pub fn module_of(&self, function: &Function) -> Option<&Module> {
        self.modules.get(function.module? as usize)
    }
}

/// File name of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(path)
}

/// Instructions that are executed one after the other until they are left; the
/// same instruction may be in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// By which [`Cut`]s name it.
    pub id: u32,
    /// Nothing can be executed behind the last instruction.
    pub faults: bool,
    /// In the order of execution.
    pub pieces: Vec<Piece>,
    /// Bytes of all pieces.
    pub code: Vec<u8>,
    /// Slot of the first event; those of the others follow.
    pub first_slot: u64,
    pub events: Vec<Event>,
}

/// A straight piece of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub pc: u64,
    /// Bytes.
    pub len: u32,
    /// Index of its module; `None` for code that is in no file.
    pub module: Option<u32>,
}

/// Event that a slot counts: instructions `from..to` of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub from: u16,
    pub to: u16,
    pub kind: EventKind,
}

/// See [`EventKind`]: executed, counted and not executed, and the two ways out of the
/// branch at a fragment's end.
pub use wire::log::EventKind;

/// A fragment was left by a signal or a fault, before its instruction `at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Says how often.
    pub slot: u64,
    pub fragment: u32,
    pub at: u32,
    /// Number of instructions from `at` on that events counted all the same; less
    /// than 0: number of instructions before it that they did not.
    pub ahead: i32,
}

/// The indirect jump, call or return that ends a fragment went to `pc`. With each time,
/// the last event that reaches the fragment's end happened once more than its slot says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jump {
    /// Says how often.
    pub slot: u64,
    pub fragment: u32,
    pub pc: u64,
    /// Index of the module there; `None`: no file.
    pub module: Option<u32>,
}

impl Fragment {
    /// The event that a [`Jump`] from its end stands for.
    pub fn jump_event(&self) -> Option<usize> {
        let end = self.events.iter().map(|event| event.to).max()?;
        let executed = |event: &Event| event.kind == EventKind::Executed && event.to == end;
        self.events.iter().rposition(executed)
    }

    /// Its pieces with their code, as far as there is some.
    pub fn code_of_pieces(&self) -> impl Iterator<Item = (&Piece, &[u8])> {
        let mut code = self.code.as_slice();
        self.pieces.iter().map_while(move |piece| {
            let (bytes, rest) = code.split_at_checked(piece.len as usize)?;
            code = rest;
            Some((piece, bytes))
        })
    }
}

/// Function and line of the code of a module from a file offset on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub module: u32,
    pub offset: u64,
    /// Text of the function's name, and how far behind its start `offset` is.
    pub function: Option<(u32, u64)>,
    /// Text of the file's name, and the line.
    pub line: Option<(u32, u32)>,
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

impl Module {
    /// Whether it is code that a runtime made and told of: places in it are addresses.
    pub fn is_generated(&self) -> bool {
        self.start > 0 && self.offset == self.start
    }
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

/// A basic block that was executed at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The [`Label`] of its nodes, and of the [`Function`] that says where it is.
    pub id: u32,
    /// Demangled name of the function that it is in.
    pub function: Option<String>,
    /// Bytes from the first of the function, or, without one, from nowhere.
    pub offset: u64,
    /// Column of the line that its first instruction comes from, from 1 on.
    pub column: Option<u32>,
    pub code: Vec<u8>,
}

/// One thread of a process image and its k-slab forest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    /// Retired instructions, if they were counted; with [`Cost::Instructions`] the sum
    /// over the nodes.
    pub insns: u64,
    /// Function events that found the node limit reached.
    pub truncated_events: u64,
    /// Deepest shadow stack seen.
    pub max_depth: u64,
    /// As recorded online; every parent comes before its children.
    pub nodes: Vec<Node>,
    /// Costs of nodes besides calls, each cost at most once.
    pub costs: Vec<Costs>,
    /// Counts of its slots, those that are not 0, by number.
    pub counts: Vec<SlotCount>,
    /// Control flow of the thread, in the encoding of `wire::stream`.
    pub stream: Vec<Part>,
    /// Places from which the streams can be read, in order.
    pub keyframes: Vec<Keyframe>,
    /// Part of the thread that is missing before the streams.
    pub gap: Option<Gap>,
    /// Why it ends before the thread does.
    pub missing: Option<Missing>,
}

/// Why what a thread executed is not known to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// As much was kept as was asked for.
    Limit,
    /// There was no memory for it, or nobody took it out.
    Memory,
    /// It could not be written to the file.
    Place,
}

impl Missing {
    /// In the order of their numbers in a file, from 1 on.
    pub const ALL: [Missing; 3] = [Missing::Limit, Missing::Memory, Missing::Place];
}

impl Thread {
    /// The number in place of that of several threads, which are not told apart.
    pub const SEVERAL: u32 = wire::counters::SEVERAL;

    /// Parts of one of its streams, and their bytes, that are missing before those that
    /// are kept.
    pub(crate) fn gone(&self, stream: u16) -> (u32, u64) {
        let (Some(gap), Some(place)) = (&self.gap, Gap::place(stream)) else {
            return (0, 0);
        };
        (gap.parts[place], gap.bytes[place])
    }

    /// A cost of each node; `None` if it was not recorded.
    pub fn costs_of(&self, cost: Cost) -> Option<&[u64]> {
        let found = self.costs.iter().find(|costs| costs.cost == cost);
        found.map(|costs| &costs.values[..])
    }
}

/// Costs besides calls; all but cycles and what is sampled are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cost {
    /// Instructions retired; a repeated string instruction is one.
    Instructions,
    /// Near branches among them: jumps, conditional or not, calls and returns.
    Branches,
    /// Instructions that read memory, the stack included.
    Loads,
    /// Instructions that write memory, the stack included.
    Stores,
    /// Cycles of the time-stamp counter. An estimate: they pass while the thread waits
    /// or is not scheduled, too, and while what was asked for is counted.
    Cycles,
    /// Fetches that a simulated first-level cache did not have.
    FetchMisses,
    /// Reads and writes that a simulated first-level cache did not have.
    DataMisses,
    /// Both, if a simulated last-level cache did not have them either.
    LastMisses,
    /// Nanoseconds that threads executed, sampled.
    Time,
    /// Nanoseconds that threads waited, sampled: in system calls, for locks, for others.
    Waiting,
}

impl Cost {
    pub const ALL: [Cost; 10] = [
        Cost::Instructions,
        Cost::Branches,
        Cost::Loads,
        Cost::Stores,
        Cost::Cycles,
        Cost::FetchMisses,
        Cost::DataMisses,
        Cost::LastMisses,
        Cost::Time,
        Cost::Waiting,
    ];

    /// Its place in [`Cost::ALL`].
    pub const fn index(self) -> usize {
        self.bit().trailing_zeros() as usize
    }

    /// Its bit in `wire::cost`.
    pub const fn bit(self) -> u32 {
        match self {
            Cost::Instructions => wire::cost::INSTRUCTIONS,
            Cost::Branches => wire::cost::BRANCHES,
            Cost::Loads => wire::cost::LOADS,
            Cost::Stores => wire::cost::STORES,
            Cost::Cycles => wire::cost::CYCLES,
            Cost::FetchMisses => wire::cost::FETCH_MISSES,
            Cost::DataMisses => wire::cost::DATA_MISSES,
            Cost::LastMisses => wire::cost::LAST_MISSES,
            Cost::Time => wire::cost::TIME,
            Cost::Waiting => wire::cost::WAITING,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Cost::Instructions => "instructions",
            Cost::Branches => "branches",
            Cost::Loads => "loads",
            Cost::Stores => "stores",
            Cost::Cycles => "cycles",
            Cost::FetchMisses => "l1i-misses",
            Cost::DataMisses => "l1d-misses",
            Cost::LastMisses => "ll-misses",
            Cost::Time => "time-ns",
            Cost::Waiting => "waiting-ns",
        }
    }

    /// Whether it is a time, in nanoseconds.
    pub const fn is_time(self) -> bool {
        matches!(self, Cost::Time | Cost::Waiting)
    }
}

/// One cost of every node of a thread: what was counted while the state was the
/// node's, without what it called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    pub cost: Cost,
    /// As long as [`Thread::nodes`].
    pub values: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCount {
    pub slot: u64,
    pub count: u64,
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

/// Meaning of a node: a function id of `wire::node`, or, below
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

    /// The label of the function with this number, for tables that count them from 0.
    pub const fn function(number: u32) -> Label {
        Label(node::FIRST_FUNC.saturating_add(number))
    }

    /// Which function this is, counted from 0; `None` for special labels.
    pub const fn function_number(self) -> Option<u32> {
        self.0.checked_sub(node::FIRST_FUNC)
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
            Label::MUTED => f.write_str("[no context]"),
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
            "[no context]",
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
