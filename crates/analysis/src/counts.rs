//! Counts of instructions, branches, blocks and edges, from those of fragments.
//!
//! Problem: the recording says how often pieces of fragments were executed, and
//! where signals and faults cut them. The same instruction is in several fragments,
//! and the same file is in several processes at other addresses.
//!
//! Approach: a fragment's events and cuts give, at each of its instructions, how
//! often it was executed, and between two of them how often control went on: the
//! rest left there, which only a branch can do. Both are added up over fragments,
//! instruction by instruction. An instruction is the same if its file, its offset
//! there and its bytes are; code in no file is that of one process.
//! [`blocks`] makes basic blocks and edges of that.
//!
//! Invariants: the sum of all counts is what the threads retired; no instruction
//! but a branch is left elsewhere than to its successor. Fragments that contradict
//! themselves, as damage or a stranger makes them, are an error ([`Unsound`]).
//!
//! Where an indirect jump, call or return went is told by its fragment's jumps, each with
//! the module that was at the target then.
//!
//! Limits: recordings older than version 6 do not say where these went. Of code that was
//! written over, one of those that were there is what a jump went to.

pub mod blocks;
mod code;
pub mod from_counters;
pub mod from_trace;
pub mod hot;
pub mod lines;
mod places;
mod table;
mod tally;
pub mod transfers;

use std::collections::BTreeMap;
use std::fmt;

pub use code::Code;
use hashbrown::HashMap;
use isa::insn::Reader;
use isa::{Flow, Insn};
use trace::{Process, Recording};

/// A file, or the code of one process that is in no file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// `None`: no file.
    pub path: Option<String>,
    pub build_id: Option<Vec<u8>>,
    /// Index of the process, of code in no file.
    pub process: Option<usize>,
}

/// One instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Index into [`Counts::units`].
    pub unit: u32,
    /// Offset in the file; in no file, the address.
    pub at: u64,
    pub bytes: Code,
    pub flow: Flow,
    /// Executions.
    pub count: u64,
    /// Number of executions after which control arrived at the next instruction.
    pub fell: u64,
    /// Target of a direct branch, if that was executed.
    pub target: Option<u32>,
    /// The next instruction, as far as it was executed.
    pub next: Option<u32>,
    pub source: Source,
}

/// Function and line of an instruction; texts by index into
/// [`Counts::texts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The function's name, and the distance from its start.
    pub function: Option<(u32, u64)>,
    /// File and line.
    pub line: Option<(u32, u32)>,
}

impl Counted {
    /// A conditional branch.
    pub fn is_conditional(&self) -> bool {
        is_conditional(self.flow)
    }

    /// A branch that goes where a register or memory says, also a return.
    pub fn is_indirect(&self) -> bool {
        is_indirect(self.flow)
    }

    /// How often a branch was taken.
    pub fn taken(&self) -> u64 {
        self.count - self.fell
    }
}

/// Counts of all threads and processes that were asked for, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub units: Vec<Unit>,
    pub texts: Vec<String>,
    /// By unit and place.
    pub insns: Vec<Counted>,
    /// Targets of indirect jumps, calls and returns, by index of the branch.
    pub went: Vec<IndirectEdge>,
    /// File and line of the declarations of functions, by unit and the function's place.
    pub declared: BTreeMap<(u32, u64), (String, u32)>,
}

/// An indirect jump, call or return, and one place to which it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndirectEdge {
    /// Indices into [`Counts::insns`]; `None`: nothing was executed there.
    pub from: u32,
    pub to: Option<u32>,
    pub count: u64,
}

impl Counts {
    /// Targets of the branch with this index.
    pub fn went_from(&self, branch: usize) -> &[IndirectEdge] {
        let before = |went: &IndirectEdge| (went.from as usize) < branch;
        let rest = &self.went[self.went.partition_point(before)..];
        let own = rest.partition_point(|went| went.from as usize == branch);
        &rest[..own]
    }
}

/// Why a recording cannot be counted up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// Index of the process, and number of the fragment.
    pub process: usize,
    pub fragment: u32,
    pub what: &'static str,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fragment {} of process {} contradicts itself: {}; the recording is damaged",
            self.fragment, self.process, self.what
        )
    }
}

impl std::error::Error for Unsound {}

/// Counts of all threads of all processes.
pub fn of_recording(recording: &Recording) -> Result<Counts, Unsound> {
    of(recording, |_, _| true)
}

/// Counts of the threads that `wanted` selects by the indices of process and thread.
pub fn of(recording: &Recording, wanted: impl Fn(usize, usize) -> bool) -> Result<Counts, Unsound> {
    let mut table = table::Table::default();
    for (index, process) in recording.processes.iter().enumerate() {
        let mut slots: HashMap<u64, u64> = HashMap::new();
        for (at, thread) in process.threads.iter().enumerate() {
            if wanted(index, at) {
                for counted in &thread.counts {
                    let sum = slots.entry(counted.slot).or_default();
                    *sum = sum.saturating_add(counted.count);
                }
            }
        }
        let mut denied = recording.denied.iter();
        let is_denied = denied.any(|denial| denial.pid == process.pid);
        table.add(index, process, &slots, is_denied)?;
    }
    table.finish(recording)
}

/// The offsets of all recorded instructions, ascending, by module of the process.
pub fn offsets(process: &Process) -> Vec<(u32, Vec<u64>)> {
    let mut offsets: HashMap<u32, Vec<u64>> = HashMap::new();
    for fragment in &process.fragments {
        for (piece, bytes) in fragment.code_of_pieces() {
            let module = piece
                .module
                .filter(|&at| (at as usize) < process.modules.len());
            let Some(module) = module else { continue };
            let (start, offset) = {
                let module = &process.modules[module as usize];
                (module.start, module.offset)
            };
            let mut pc = piece.pc;
            let of_module = offsets.entry(module).or_default();
            let mut reader = Reader::new(bytes, pc);
            let mut insn = Insn::default();
            while reader.decode_into(pc, &mut insn).is_ok() {
                of_module.push(offset.wrapping_add(pc.wrapping_sub(start)));
                pc = insn.next_pc();
            }
        }
    }
    for of_module in offsets.values_mut() {
        of_module.sort_unstable();
        of_module.dedup();
    }
    let mut offsets: Vec<(u32, Vec<u64>)> = offsets.into_iter().collect();
    offsets.sort_unstable_by_key(|(module, _)| *module);
    offsets
}

/// Target of a direct branch.
fn target(flow: Flow) -> Option<u64> {
    match flow {
        Flow::Jump(target)
        | Flow::Cond(_, target)
        | Flow::CountJump(target)
        | Flow::Call(target)
        | Flow::TransactionBegin(target) => Some(target),
        _ => None,
    }
}

fn is_indirect(flow: Flow) -> bool {
    matches!(
        flow,
        Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_)
    )
}

fn is_conditional(flow: Flow) -> bool {
    matches!(flow, Flow::Cond(..) | Flow::CountJump(_))
}
