//! A trace as text with the memory accesses of each instruction below it.
//!
//! ```text
//!          1  7f3c1f2a0540  _start+0x0                        mov rdi, rsp
//!          2  7f3c1f2a0543  _start+0x3                        call _dl_start
//!               W    8  7ffd3a2b1c38
//! ```
//!
//! R is a read, W a write, RW both; then come bytes and the address; and how often, where a
//! repeated string instruction goes on from there.

use std::io::{self, Write};

use analysis::walk::{
    AccessEvent, Accessed, Accesses, AccessesCount, Pieces, Step, Unsound, count_accesses,
    selection,
};
use isa::memory::{Selection, recorded};
use trace::stream::ADDRESS_STREAM;
use trace::{Part, Recording};

use crate::numbers::{counted, grouped};

use super::{Names, Texts, View, lost, missing_before, seek, stopped, title, went};

/// As [`super::dump`], with accesses.
pub fn dump(
    recording: &Recording,
    view: &View,
    selection: Selection,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let mut sound = true;
    for process in &recording.processes {
        let names = Names::of(recording, process);
        let mut pieces = Pieces::of(process);
        for thread in process.threads.iter().filter(|thread| view.shows(thread)) {
            writeln!(out, "{}", title(process, thread))?;
            if let Some(gap) = missing_before(thread) {
                writeln!(out, "# {gap}")?;
            }
            if let Some(lost) = lost(thread) {
                writeln!(out, "# {lost}")?;
                sound = false;
            }
            let (accesses, before) = match seek(thread, view.range.start) {
                Some((start, before)) => {
                    let start = start.onward();
                    (Accesses::of(&mut pieces, thread, start, selection), before)
                }
                None => (Accesses::new(&mut pieces, thread, selection), 0),
            };
            let mut lines = Lines {
                texts: Texts::new(&names, &view.functions),
                number: before + 1,
                view,
            };
            if let Err(error) = lines.write(accesses, out)? {
                writeln!(out, "# {error}")?;
                sound = false;
            } else if lines.number < view.range.end {
                writeln!(out, "# {}", stopped(recording, process, thread))?;
            }
        }
    }
    writeln!(out, "# {}", super::ended(recording))?;
    Ok(sound)
}

/// Reads all accesses; how many there are, and whether each word is of an instruction.
pub(super) fn verify(recording: &Recording, out: &mut dyn Write) -> io::Result<bool> {
    let Some(selection) = selection(recording) else {
        return Ok(true);
    };
    let (mut sound, mut all, mut bytes) = (true, 0, 0);
    let counts = count_accesses(recording, selection);
    for (process, counts) in recording.processes.iter().zip(counts) {
        for (thread, count) in process.threads.iter().zip(counts) {
            all += count.accesses;
            let parts = thread.stream.iter();
            let parts = parts.filter(|part| part.stream == ADDRESS_STREAM);
            bytes += parts.map(Part::stored_len).sum::<u64>();
            let fault = match count {
                AccessesCount {
                    error: Some(error), ..
                } => error,
                AccessesCount { left: 1.., .. } => {
                    let left = counted(count.left, "byte");
                    format!("{left} of addresses are of no instruction")
                }
                AccessesCount { is_short: true, .. } => {
                    "its addresses end before its instructions do".to_owned()
                }
                _ => continue,
            };
            writeln!(out, "{}: not sound: {fault}", title(process, thread))?;
            sound = false;
        }
    }
    writeln!(
        out,
        "{} in {} bytes: {:.2} bytes each",
        counted(all, "memory access"),
        grouped(bytes),
        bytes as f64 / all.max(1) as f64
    )?;
    Ok(sound)
}

struct Lines<'a> {
    texts: Texts<'a>,
    number: u64,
    view: &'a View,
}

impl Lines<'_> {
    fn write(
        &mut self,
        mut accesses: Accesses<'_>,
        out: &mut dyn Write,
    ) -> io::Result<Result<(), Unsound>> {
        let range = &self.view.range;
        let mut shown: (Vec<Step>, Vec<Accessed>) = (Vec::new(), Vec::new());
        while self.number < range.end {
            shown.0.clear();
            match accesses.next() {
                None => break,
                Some(Err(error)) => return Ok(Err(error)),
                Some(Ok(AccessEvent::Went { why, to })) => {
                    if self.texts.has_all() && range.contains(&self.number) {
                        went(why, to, out)?;
                    }
                }
                Some(Ok(AccessEvent::Executed(steps, accesses))) => {
                    let last = self.number + steps.len() as u64;
                    if last <= range.start {
                        self.number = last;
                        continue;
                    }
                    shown.0.extend(steps);
                    shown.1.clear();
                    shown.1.extend(accesses);
                }
            }
            let mut rest = shown.1.iter().peekable();
            for (at, step) in (0..).zip(&shown.0) {
                let own = std::iter::from_fn(|| rest.next_if(|accessed| accessed.step == at));
                let own: Vec<&Accessed> = own.collect();
                if !range.contains(&self.number) {
                    self.number += 1;
                    continue;
                }
                if let Some(text) = self.texts.get(accesses.code(), step) {
                    writeln!(out, "{:>12}  {text}", self.number)?;
                    for accessed in own {
                        let access = accessed.access;
                        let kind = recorded::letters(access.kind);
                        let (size, address) = (access.size, access.address);
                        write!(out, "{kind:>16} {size:>4}  {address:x}")?;
                        match (accessed.times, accessed.is_backwards) {
                            (1, _) => writeln!(out)?,
                            (times, false) => writeln!(out, "  {times} times")?,
                            (times, true) => writeln!(out, "  {times} times, backwards")?,
                        }
                    }
                }
                self.number += 1;
            }
        }
        Ok(Ok(()))
    }
}
