//! Counts from a trace: the recording that `everypath count` would have made of that run.
//!
//! Problem: a trace has every execution, and the analyses of counts know fragments with
//! slots.
//!
//! Approach: each run of a thread ([`Runs`]) becomes a fragment, and its executions the
//! slot of that; a conditional branch at its end has a slot for when it was taken, an
//! indirect one a slot for each target. Everything behind that is as for a live recording.
//!
//! Invariant: memory is in proportion to code, not to the length of the trace.
//!
//! Limits: code that was at an address under one file, and with the same bytes under
//! another, counts for the first, as it does live.

use std::sync::Arc;

use hashbrown::HashMap;
use trace::{
    Event, EventKind, Fragment, Jump, Mode, Piece, Process, Recording, SlotCount, Source, Thread,
};

use crate::walk::{Key, Pieces, Run, RunEvent, Runs, Step, Unsound, Why};

mod modules;

pub use modules::Modules;

/// The recording with counts instead of streams, and a sentence for each thread whose
/// stream ends too early.
pub fn recording(traced: &Recording) -> (Recording, Vec<String>) {
    let mut failures = Vec::new();
    let mut meta = traced.meta.clone();
    meta.mode = Mode::Counts;
    let of = |process: &Process| counted(traced, process, &mut failures);
    let processes = traced.processes.iter().map(of).collect();
    (traced.in_form(meta, processes), failures)
}

fn counted(traced: &Recording, process: &Process, failures: &mut Vec<String>) -> Process {
    let mut table = Table {
        modules: Modules::of(process),
        fragments: Vec::new(),
        jumps: Vec::new(),
        slots: 0,
        known: HashMap::new(),
        jump_of: HashMap::new(),
    };
    let mut pieces = Pieces::of(process);
    let mut threads = Vec::new();
    for thread in &process.threads {
        let mut counts = vec![0; table.slots as usize];
        let mut insns = 0;
        let mut runs = Runs::new(&mut pieces, thread).past_losses(thread);
        while let Some(did) = runs.next() {
            match did {
                Ok(RunEvent::Ran(run)) => {
                    insns += run.len();
                    table.count(&runs, &run, &mut counts);
                }
                Ok(RunEvent::Went { why: Why::Lost, .. }) => {
                    failures.push(format!("thread {}: {}", thread.tid, Unsound::Lost));
                }
                Ok(RunEvent::Went { .. } | RunEvent::Entered | RunEvent::Stack(_)) => {}
                Err(error) => failures.push(format!("thread {}: {error}", thread.tid)),
            }
        }
        let slots = (0..).zip(counts).filter(|&(_, count)| count > 0);
        let counts = slots.map(|(slot, count)| SlotCount { slot, count });
        threads.push(Thread {
            insns,
            counts: counts.collect(),
            stream: Vec::new(),
            ..shallow(thread)
        });
    }
    let (sources, texts) = sources(traced, process);
    Process {
        threads,
        fragments: table.fragments,
        jumps: table.jumps,
        sources,
        texts,
        targets: Vec::new(),
        modules: process.modules.clone(),
        functions: process.functions.clone(),
        exe: process.exe.clone(),
        args: process.args.clone(),
        blocks: Vec::new(),
        cuts: Vec::new(),
        stats: process.stats.clone(),
        ..*process
    }
}

/// A thread without what it executed.
fn shallow(thread: &Thread) -> Thread {
    Thread {
        tid: thread.tid,
        start_ns: thread.start_ns,
        end_ns: thread.end_ns,
        missing: thread.missing,
        ..Thread::default()
    }
}

/// Names and lines of all code of a process: a forked child's own, and its parents'.
pub fn sources(traced: &Recording, process: &Process) -> (Vec<Source>, Vec<String>) {
    let mut sources = process.sources.clone();
    let mut texts = process.texts.clone();
    let mut at = process;
    while at.by_fork
        && let Some(parent) = at.parent.and_then(|parent| traced.processes.get(parent))
    {
        let first = texts.len() as u32;
        texts.extend(parent.texts.iter().cloned());
        sources.extend(parent.sources.iter().map(|source| {
            Source {
                function: source
                    .function
                    .map(|(text, distance)| (first + text, distance)),
                line: source.line.map(|(text, line)| (first + text, line)),
                ..*source
            }
        }));
        at = parent;
    }
    // The child's own stand first among equals.
    sources.sort_by_key(|source| (source.module, source.offset));
    sources.dedup_by_key(|source| (source.module, source.offset));
    (sources, texts)
}

/// Fragments made of runs.
struct Table {
    modules: Modules,
    fragments: Vec<Arc<Fragment>>,
    jumps: Vec<Jump>,
    slots: u64,
    /// First slots, and fragments.
    known: HashMap<Key, (u64, u32)>,
    /// By fragment and target.
    jump_of: HashMap<(u32, u64), u64>,
}

impl Table {
    fn count(&mut self, runs: &Runs<'_>, run: &Run, counts: &mut Vec<u64>) {
        let key = run.key();
        let (slot, fragment) = match self.known.get(&key) {
            Some(&known) => known,
            None => {
                let known = self.fragment(runs, run);
                self.known.insert(key, known);
                known
            }
        };
        let last = runs.steps(run).last();
        let is_indirect = last.is_some_and(|step| super::is_indirect(step.flow));
        let is_conditional = last.is_some_and(|step| super::is_conditional(step.flow));
        match (is_indirect && run.outcome.is_some(), is_conditional) {
            (true, _) => {
                let slot = self.jump(fragment, runs.here());
                add(counts, slot);
            }
            (false, true) => {
                add(counts, slot);
                if run.outcome == Some(true) {
                    add(counts, slot + 1);
                }
            }
            (false, false) => add(counts, slot),
        }
    }

    /// Makes a fragment of a run.
    fn fragment(&mut self, runs: &Runs<'_>, run: &Run) -> (u64, u32) {
        let steps = runs.steps(run);
        let id = self.fragments.len() as u32;
        let mut fragment = Fragment {
            id,
            first_slot: self.slots,
            ..Fragment::default()
        };
        for step in steps {
            let bytes = runs.code().bytes(step);
            self.append(&mut fragment, step, &bytes);
        }
        let end = steps.len() as u16;
        fragment.events.push(Event {
            from: 0,
            to: end,
            kind: EventKind::Executed,
        });
        if steps
            .last()
            .is_some_and(|last| super::is_conditional(last.flow))
        {
            fragment.events.push(Event {
                from: end - 1,
                to: end,
                kind: EventKind::Taken,
            });
        }
        self.slots += fragment.events.len() as u64;
        let known = (fragment.first_slot, id);
        self.fragments.push(Arc::new(fragment));
        known
    }

    fn append(&mut self, fragment: &mut Fragment, step: &Step, bytes: &[u8]) {
        let module = self.modules.at(step.fragment, step.pc);
        let len = bytes.len() as u32;
        match fragment.pieces.last_mut() {
            Some(last)
                if last.pc.wrapping_add(last.len.into()) == step.pc && last.module == module =>
            {
                last.len += len;
            }
            _ => fragment.pieces.push(Piece {
                pc: step.pc,
                len,
                module,
            }),
        }
        fragment.code.extend(bytes);
    }

    /// The slot of a branch at the end of a fragment to a target.
    fn jump(&mut self, fragment: u32, pc: u64) -> u64 {
        *self.jump_of.entry((fragment, pc)).or_insert_with(|| {
            let slot = self.slots;
            self.slots += 1;
            self.jumps.push(Jump {
                slot,
                fragment,
                pc,
                module: self.modules.at(0, pc),
            });
            slot
        })
    }
}

fn add(counts: &mut Vec<u64>, slot: u64) {
    let slot = slot as usize;
    if counts.len() <= slot {
        counts.resize(slot + 1, 0);
    }
    counts[slot] += 1;
}
