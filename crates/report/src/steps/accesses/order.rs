//! Accesses of all threads in the order of their time stamps.
//!
//! Limits: stamps say nothing of two instructions between two of them ([`analysis::walk::Order`]); signals and other entries are not
//! shown.

use std::io::{self, Write};

use analysis::turns::{Turn, together};
use analysis::walk::{Accessed, Bytes, Code, Step};
use isa::memory::Selection;
use trace::{Process, Recording, Thread};

use super::super::{Line, Names, Texts, View, begin, ended};
use super::{Shown, write_step};

/// Instructions that a thread has executed in its turn, and that were not written yet.
#[derive(Default)]
struct Pending {
    steps: Vec<Step>,
    shown: Shown,
}

/// A thread.
struct Reading<'a> {
    process: usize,
    tid: u32,
    texts: Texts<'a>,
    /// Number of its next instruction.
    number: u64,
}

struct Lines<'a, 'o> {
    view: &'a View,
    has_values: bool,
    threads: Vec<Reading<'a>>,
    pending: Pending,
    /// Instructions of all threads before those that are pending.
    all: u64,
    /// Index of the thread whose instructions were written last.
    last: Option<usize>,
    line: Line,
    out: &'o mut dyn Write,
}

/// As [`super::dump`], of all threads together; the range of the view is of all instructions in this order.
pub fn dump(
    recording: &Recording,
    view: &View,
    selection: Selection,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let processes = &recording.processes;
    let names: Vec<Names<'_>> = processes.iter().map(|p| Names::of(recording, p)).collect();
    let mut pairs: Vec<(&Process, &Thread)> = Vec::new();
    let (mut threads, mut sound) = (Vec::new(), true);
    for (process, (of_process, names)) in processes.iter().zip(&names).enumerate() {
        let wanted = of_process.threads.iter();
        for thread in wanted.filter(|thread| view.shows(thread)) {
            sound &= begin(of_process, thread, out)?;
            pairs.push((of_process, thread));
            threads.push(Reading {
                process,
                tid: thread.tid,
                texts: Texts::of(names, view),
                number: 1,
            });
        }
    }
    let mut lines = Lines {
        view,
        has_values: selection.values,
        threads,
        pending: Pending::default(),
        all: 0,
        last: None,
        line: Line::default(),
        out: &mut *out,
    };
    let read = together(&pairs, selection, &mut lines)?;
    for (read, (_, thread)) in read.iter().zip(&pairs) {
        if let Some(error) = &read.error {
            writeln!(out, "# thread {}: {error}", thread.tid)?;
            sound = false;
        }
    }
    writeln!(out, "# {}", ended(recording))?;
    Ok(sound)
}

impl Turn for Lines<'_, '_> {
    fn executed(&mut self, at: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>) {
        let Pending { steps: own, shown } = &mut self.pending;
        own.clear();
        own.extend(steps);
        let process = self.threads[at].process;
        shown.take(self.view, process, (all, bytes), self.has_values);
    }

    fn written(&mut self, at: usize, code: &Code) -> io::Result<()> {
        let (thread, range) = (&mut self.threads[at], &self.view.range);
        for (index, step) in (0..).zip(&self.pending.steps) {
            let own = self.pending.shown.of(index);
            let number = self.all + u64::from(index) + 1;
            let is_shown = range.contains(&number) && self.view.shows_step(own);
            if is_shown && let Some(text) = thread.texts.get(code, step) {
                if self.last.replace(at) != Some(at) {
                    writeln!(self.out, "# thread {}", thread.tid)?;
                }
                write_step((thread.number, text), own, (&mut self.line, &mut *self.out))?;
            }
            thread.number += 1;
        }
        self.all += self.pending.steps.len() as u64;
        Ok(())
    }
}
