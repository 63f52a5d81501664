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

use super::{Line, Names, Texts, View, begin, seek, stopped, went};

mod order;
mod verify;

pub use order::dump as dump_in_order;
pub(super) use verify::verify;

/// Accesses that are shown, with their values as text.
#[derive(Default)]
struct Shown(Vec<(Accessed, String)>);

impl Shown {
    /// Has those of a process that the view shows.
    fn take(
        &mut self,
        view: &View,
        process: usize,
        (all, bytes): (&[Accessed], Bytes<'_>),
        has_values: bool,
    ) {
        let memory = view.memory.as_ref();
        let is_shown = |one: &&Accessed| memory.is_none_or(|memory| memory.has(process, one));
        let values = |accessed: &Accessed| match has_values {
            true => values(accessed, bytes),
            false => String::new(),
        };
        self.0.clear();
        let all = all.iter().filter(is_shown);
        self.0.extend(all.map(|one| (*one, values(one))));
    }

    /// Accesses of the instruction with this index.
    fn of(&self, step: u32) -> &[(Accessed, String)] {
        let first = self.0.partition_point(|(one, _)| one.step < step);
        let behind = self.0.partition_point(|(one, _)| one.step <= step);
        &self.0[first..behind]
    }
}

/// Writes an instruction, with its number, and accesses of it.
fn write_step(
    (number, text): (u64, &str),
    own: &[(Accessed, String)],
    (line, out): (&mut Line, &mut dyn Write),
) -> io::Result<()> {
    line.number(number, 12).text("  ").text(text).end(out)?;
    for (accessed, values) in own {
        let access = accessed.access;
        line.right(recorded::letters(access.kind), 16).text(" ");
        line.number(access.size.into(), 4)
            .text("  ")
            .hex(access.address);
        if accessed.times != 1 {
            line.text("  ").number(accessed.times, 0).text(" times");
            line.text(if accessed.is_backwards {
                ", backwards"
            } else {
                ""
            });
        }
        line.text(values).end(out)?;
    }
    Ok(())
}

/// As [`super::dump`], with accesses.
pub fn dump(
    recording: &Recording,
    view: &View,
    selection: Selection,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let mut sound = true;
    for (index, process) in recording.processes.iter().enumerate() {
        let names = Names::of(recording, process);
        let mut pieces = Pieces::of(process);
        for thread in process.threads.iter().filter(|thread| view.shows(thread)) {
            sound &= begin(process, thread, out)?;
            let (accesses, before) = match seek(thread, view.range.start) {
                Some((start, before)) => {
                    let start = start.onward();
                    (Accesses::of(&mut pieces, thread, start, selection), before)
                }
                None => (Accesses::new(&mut pieces, thread, selection), 0),
            };
            let mut lines = Lines {
                texts: Texts::of(&names, view),
                number: before + 1,
                process: index,
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

struct Lines<'a> {
    texts: Texts<'a>,
    number: u64,
    process: usize,
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
        let (mut shown, mut own): (Vec<Step>, Shown) = (Vec::new(), Shown::default());
        let mut line = Line::default();
        while self.number < range.end {
            shown.clear();
            match accesses.next() {
                None => break,
                Some(Err(error)) => return Ok(Err(error)),
                Some(Ok(AccessEvent::Went { why, to })) => {
                    if self.view.shows_all() && range.contains(&self.number) {
                        went(why, to, out)?;
                    }
                }
                Some(Ok(AccessEvent::Executed(steps, accesses, bytes))) => {
                    let last = self.number + steps.len() as u64;
                    if last <= range.start {
                        self.number = last;
                        continue;
                    }
                    own.take(self.view, self.process, (accesses, bytes), has_values);
                    if self.view.memory.is_some() && own.0.is_empty() {
                        self.number = last;
                        continue;
                    }
                    shown.extend(steps);
                }
            }
            for (at, step) in (0..).zip(&shown) {
                let own = own.of(at);
                if range.contains(&self.number)
                    && self.view.shows_step(own)
                    && let Some(text) = self.texts.get(accesses.code(), step)
                {
                    write_step((self.number, text), own, (&mut line, out))?;
                }
                self.number += 1;
            }
        }
        Ok(Ok(()))
    }
}
