//! Events of a thread as columns, read ahead by a helper thread.
//!
//! Invariant: no more than [`AHEAD`] columns wait. Who does not want any more drops the
//! receiver, and the reader ends at its next columns.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use analysis::walk::{Pieces, Run, RunEvent, Runs, Step, Unsound, Why};
use isa::Flow;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trace::Recording;

use crate::Error;
use crate::ahead::{AHEAD, ROWS};

/// Names of kinds, by number.
pub const KINDS: [&str; 16] = [
    "instruction",
    "conditional",
    "jump",
    "call",
    "indirect_jump",
    "indirect_call",
    "return",
    "syscall",
    "transaction",
    "trap",
    "start",
    "signal",
    "sigreturn",
    "vsyscall",
    "gap",
    "other",
];
pub const CONDITIONAL: u8 = 1;
/// The first and the last that has a target of its own.
pub const BRANCHES: std::ops::RangeInclusive<u8> = 1..=6;
pub const START: u8 = 10;
pub const SIGNAL: u8 = 11;

/// Kinds that are wanted, by their bits.
#[derive(Clone, Copy)]
pub struct Kinds(u32);

impl Kinds {
    /// None: all.
    pub fn of(names: &[String]) -> PyResult<Kinds> {
        let mut bits = 0;
        for name in names {
            let at = KINDS.iter().position(|kind| kind == name);
            let at = at.ok_or_else(|| {
                let all = KINDS.join(", ");
                PyValueError::new_err(format!("'{name}' is no kind of event; there are {all}"))
            })?;
            bits |= 1 << at;
        }
        Ok(Kinds(if names.is_empty() { u32::MAX } else { bits }))
    }

    fn has(self, kind: u8) -> bool {
        self.0 >> kind & 1 != 0
    }
}

/// One event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    pub number: u64,
    pub pc: u64,
    pub target: u64,
    pub kind: u8,
    pub size: u8,
    pub value: u8,
}

/// Rows, column by column; numbers as the machine has them.
#[derive(Default)]
pub struct Columns {
    pub number: Vec<u8>,
    pub pc: Vec<u8>,
    pub target: Vec<u8>,
    pub kind: Vec<u8>,
    pub size: Vec<u8>,
    pub value: Vec<u8>,
}

impl Columns {
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    fn push(&mut self, row: Row) {
        self.number.extend(row.number.to_ne_bytes());
        self.pc.extend(row.pc.to_ne_bytes());
        self.target.extend(row.target.to_ne_bytes());
        self.kind.push(row.kind);
        self.size.push(row.size);
        self.value.push(row.value);
    }

    pub fn row(&self, at: usize) -> Option<Row> {
        let word = |column: &[u8]| {
            let bytes = column.get(at * 8..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        Some(Row {
            number: word(&self.number)?,
            pc: word(&self.pc)?,
            target: word(&self.target)?,
            kind: *self.kind.get(at)?,
            size: *self.size.get(at)?,
            value: *self.value.get(at)?,
        })
    }
}

/// Columns, or why there are no more.
pub type Read = Result<Columns, String>;

pub fn failure(thread: &trace::Thread, error: &Unsound) -> PyErr {
    Error::new_err(sentence(thread, error))
}

pub fn sentence(thread: &trace::Thread, error: &Unsound) -> String {
    format!("thread {}: {error}", thread.tid)
}

/// Reads a thread, by the indices of process and thread.
pub fn read(
    recording: &Arc<Recording>,
    at: (usize, usize),
    kinds: Kinds,
) -> PyResult<Receiver<Read>> {
    let (sender, receiver) = sync_channel(AHEAD);
    let recording = recording.clone();
    std::thread::Builder::new()
        .name("everypath".to_owned())
        .spawn(move || {
            let mut reader = Reader {
                kinds,
                number: 0,
                columns: Columns::default(),
                sender,
            };
            // Nobody wants any more.
            let _ = reader.all(&recording, at);
        })
        .map_err(|error| Error::new_err(format!("no thread can be made to read: {error}")))?;
    Ok(receiver)
}

/// The receiver is gone.
struct Unwanted;

struct Reader {
    kinds: Kinds,
    /// Instructions before what comes.
    number: u64,
    columns: Columns,
    sender: SyncSender<Read>,
}

impl Reader {
    fn all(&mut self, recording: &Recording, at: (usize, usize)) -> Result<(), Unwanted> {
        let process = &recording.processes[at.0];
        let thread = &process.threads[at.1];
        let mut pieces = Pieces::of(process);
        let mut runs = Runs::new(&mut pieces, thread);
        while let Some(did) = runs.next() {
            match did {
                Ok(RunEvent::Ran(run)) => self.run(&runs, &run)?,
                Ok(
                    RunEvent::Went {
                        why: Why::Nowhere, ..
                    }
                    | RunEvent::Entered
                    | RunEvent::Stack(_),
                ) => {}
                Ok(RunEvent::Went { why, to }) => self.put(went(why, to, self.number))?,
                Err(error) => {
                    self.send()?;
                    let said = Err(sentence(thread, &error));
                    return self.sender.send(said).map_err(|_| Unwanted);
                }
            }
        }
        self.send()
    }

    fn run(&mut self, runs: &Runs<'_>, run: &Run) -> Result<(), Unwanted> {
        let steps = runs.steps(run);
        let last = steps.len().saturating_sub(1);
        for (at, step) in steps.iter().enumerate() {
            self.number += 1;
            let kind = kind_of(step.flow);
            if !self.kinds.has(kind) {
                continue;
            }
            let outcome = run.outcome.filter(|_| at == last);
            self.put(Row {
                number: self.number,
                pc: step.pc,
                target: target(step, runs, outcome),
                kind,
                size: step.len,
                value: u8::from(match kind {
                    CONDITIONAL => outcome == Some(true),
                    kind => BRANCHES.contains(&kind),
                }),
            })?;
        }
        Ok(())
    }

    fn put(&mut self, row: Row) -> Result<(), Unwanted> {
        if self.kinds.has(row.kind) {
            self.columns.push(row);
        }
        match self.columns.len() < ROWS {
            true => Ok(()),
            false => self.send(),
        }
    }

    fn send(&mut self) -> Result<(), Unwanted> {
        let columns = std::mem::take(&mut self.columns);
        match columns.len() {
            0 => Ok(()),
            _ => self.sender.send(Ok(columns)).map_err(|_| Unwanted),
        }
    }
}

fn kind_of(flow: Flow) -> u8 {
    match flow {
        Flow::Next | Flow::Far(_) | Flow::Odd => 0,
        Flow::Cond(..) | Flow::CountJump(_) => CONDITIONAL,
        Flow::Jump(_) => 2,
        Flow::Call(_) => 3,
        Flow::IndirectJump => 4,
        Flow::IndirectCall => 5,
        Flow::Return(_) => 6,
        Flow::Syscall | Flow::Int80 => 7,
        Flow::TransactionBegin(_) => 8,
        Flow::Trap => 9,
    }
}

/// Target of a branch if it is taken; 0 if it is no branch, or that is not known.
fn target(step: &Step, runs: &Runs<'_>, outcome: Option<bool>) -> u64 {
    match step.flow {
        Flow::Cond(_, target)
        | Flow::CountJump(target)
        | Flow::Jump(target)
        | Flow::Call(target)
        | Flow::TransactionBegin(target) => target,
        Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_) if outcome.is_some() => {
            runs.here()
        }
        _ => 0,
    }
}

fn went(why: Why, to: u64, number: u64) -> Row {
    let (kind, value) = match why {
        Why::Start => (START, 0),
        Why::Signal(signal) => (SIGNAL, signal),
        Why::Sigreturn => (12, 0),
        Why::Vsyscall => (13, 0),
        Why::Unselected | Why::Off | Why::Lost => (14, 0),
        Why::Nowhere | Why::Far => (15, 0),
        Why::Unknown(reason) => (15, reason),
    };
    Row {
        number,
        pc: to,
        target: to,
        kind,
        size: 0,
        value,
    }
}
