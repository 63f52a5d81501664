//! A trace as text with the memory accesses of each instruction below it.
//!
//! ```text
//!          1  7f3c1f2a0540  _start+0x0                        mov rdi, rsp
//!          2  7f3c1f2a0543  _start+0x3                        call _dl_start
//!               W    8  7ffd3a2b1c38
//! ```
//!
//! R is a read, W a write, RW both; then come bytes and the address; how often, where a
//! repeated string instruction goes on from there; and, if values were recorded, what was read and
//! written: `= 2a`, `= 2a -> 2b`, and `?` for one that is not known. Up to 8 bytes they are a
//! number, more are shown from the lowest address on.

use std::io::{self, Write};

use analysis::walk::{AccessEvent, Accessed, Accesses, Bytes, Pieces, Step, Unsound, Value};
use isa::memory::{Kind, Selection, recorded};
use trace::Recording;

use super::{Names, Texts, View, lost, missing_before, seek, stopped, title, went};

mod verify;

pub(super) use verify::verify;

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

/// The values of an access, as text.
fn values(accessed: &Accessed, bytes: Bytes<'_>) -> String {
    let text = |value: Option<Value>| match value.map(|value| bytes.of(value)) {
        None => "?".to_owned(),
        Some(bytes) => {
            let digits = |bytes: &mut dyn Iterator<Item = &u8>| {
                bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
            };
            match bytes.len() <= size_of::<u64>() {
                true => digits(&mut bytes.iter().rev()),
                false => digits(&mut bytes.iter()),
            }
        }
    };
    let (read, written) = (accessed.read, accessed.written);
    match accessed.access.kind {
        Kind::Read => format!("  = {}", text(read)),
        Kind::Write => format!("  = {}", text(written)),
        Kind::Update => format!("  = {} -> {}", text(read), text(written)),
    }
}

fn write_one((accessed, values): &(Accessed, String), out: &mut dyn Write) -> io::Result<()> {
    let access = accessed.access;
    let kind = recorded::letters(access.kind);
    let (size, address) = (access.size, access.address);
    write!(out, "{kind:>16} {size:>4}  {address:x}")?;
    match (accessed.times, accessed.is_backwards) {
        (1, _) => {}
        (times, false) => write!(out, "  {times} times")?,
        (times, true) => write!(out, "  {times} times, backwards")?,
    }
    writeln!(out, "{values}")
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
        let has_values = accesses.selection().values;
        let mut shown: (Vec<Step>, Vec<(Accessed, String)>) = (Vec::new(), Vec::new());
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
                Some(Ok(AccessEvent::Executed(steps, accesses, bytes))) => {
                    let last = self.number + steps.len() as u64;
                    if last <= range.start {
                        self.number = last;
                        continue;
                    }
                    shown.0.extend(steps);
                    shown.1.clear();
                    let values = |accessed: &Accessed| match has_values {
                        true => values(accessed, bytes),
                        false => String::new(),
                    };
                    let accesses = accesses.iter();
                    shown
                        .1
                        .extend(accesses.map(|accessed| (*accessed, values(accessed))));
                }
            }
            let mut rest = shown.1.iter().peekable();
            for (at, step) in (0..).zip(&shown.0) {
                let own = std::iter::from_fn(|| rest.next_if(|(accessed, _)| accessed.step == at));
                let own: Vec<&(Accessed, String)> = own.collect();
                if range.contains(&self.number)
                    && let Some(text) = self.texts.get(accesses.code(), step)
                {
                    writeln!(out, "{:>12}  {text}", self.number)?;
                    own.into_iter().try_for_each(|one| write_one(one, out))?;
                }
                self.number += 1;
            }
        }
        Ok(Ok(()))
    }
}
