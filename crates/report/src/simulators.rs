//! Accesses for simulators of caches and memory, as text.
//!
//! ```text
//! din        2 7f1b30a3f1c4 3        fetch, read (0) or write (1): address, then bytes, all hexadecimal
//! ramulator  LD 0x7ffd8a2f5e38       read (LD) or write (ST)
//! ```
//!
//! Areas without a size (`xsave`) are left out. Dinero IV reads the first two fields and leaves the rest of a line; Ramulator 2 reads such traces with its
//! frontend `LoadStoreTrace`. For [`champsim`] there are files of each thread.

pub mod champsim;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use analysis::turns::{self, Turn};
use analysis::walk::{Accessed, Bytes, Code, Step, operations};
use isa::memory::Selection;

use crate::mcf::{self, Numbered};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Din,
    Ramulator,
}

/// Writes the accesses of all threads, one after the other or in the order of their time stamps: those of
/// the instructions of each thread that are in `range`. Gives a sentence for each thread that could not be
/// read to its end.
pub fn write(
    threads: &[Numbered<'_>],
    selection: Selection,
    (form, range): (Form, Range<u64>),
    is_ordered: bool,
    out: &mut dyn Write,
) -> io::Result<Vec<String>> {
    let mut failures = Vec::new();
    for of_process in mcf::by_process(threads) {
        let pairs: Vec<_> = of_process
            .iter()
            .map(|one| (one.process, one.thread))
            .collect();
        let mut lines = Lines {
            form,
            range: range.clone(),
            insns: vec![0; pairs.len()],
            text: String::new(),
            out: &mut *out,
        };
        let read = match is_ordered {
            true => turns::together(&pairs, selection, &mut lines),
            false => turns::apart(&pairs, selection, &mut lines),
        }?;
        for (read, (_, thread)) in read.into_iter().zip(pairs) {
            let failed = read.error;
            failures.extend(failed.map(|error| format!("thread {}: {error}", thread.tid)));
        }
    }
    Ok(failures)
}

struct Lines<'o> {
    form: Form,
    range: Range<u64>,
    /// Instructions that each thread has executed.
    insns: Vec<u64>,
    text: String,
    out: &'o mut dyn Write,
}

impl Lines<'_> {
    fn fetch(&mut self, step: &Step) {
        if self.form == Form::Din {
            // Writing to a string does not fail.
            let _ = writeln!(self.text, "2 {:x} {:x}", step.pc, step.len);
        }
    }

    fn data(&mut self, is_store: bool, address: u64, size: u32) {
        if size == 0 {
            return;
        }
        let kind = usize::from(is_store);
        let _ = match self.form {
            Form::Din => writeln!(self.text, "{kind} {address:x} {size:x}"),
            Form::Ramulator => writeln!(self.text, "{} {address:#x}", ["LD", "ST"][kind]),
        };
    }
}

impl Turn for Lines<'_> {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        let mut rest = all.chunk_by(|one, other| one.step == other.step).peekable();
        for (at, step) in (0..).zip(steps) {
            self.insns[thread] += 1;
            let own = rest.next_if(|own| own[0].step == at);
            if !self.range.contains(&self.insns[thread]) {
                continue;
            }
            self.fetch(step);
            operations(own.unwrap_or_default(), |one| {
                self.data(one.is_store, one.address, one.size);
            });
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}
