//! Source lines of nests that were followed, with the loops and references of each.
//!
//! Approach: all lines from the first to the last of a loop that was entered are shown, and others with a reference of it that was
//! executed, which were inlined. Equal references of one line (copies of a loop that was unrolled or vectorised) are one note with a count.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Loop, Reference, Run, Stride, entries, iterations, letter};
use crate::names::printable;
use crate::numbers::{counted, grouped};

/// Lines of source files, by name.
pub type Sources = BTreeMap<String, Vec<String>>;

/// Something about a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// `loop`, a name of [`super::Stride`], or `none`.
    pub kind: &'static str,
    pub text: String,
}

/// A line, and how often each note is one of it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// In the order of the code.
    pub notes: Vec<(Note, u64)>,
}

impl Line {
    fn add(&mut self, note: Note) {
        match self.notes.iter_mut().find(|(own, _)| *own == note) {
            Some((_, count)) => *count += 1,
            None => self.notes.push((note, 1)),
        }
    }
}

/// The lines that are shown, by file and number.
pub fn lines(run: &Run) -> BTreeMap<&str, BTreeMap<u32, Line>> {
    let mut files: BTreeMap<&str, BTreeMap<u32, Line>> = BTreeMap::new();
    for nest in run.nests.iter().filter(|nest| nest.entries > 0) {
        for one in &nest.loops {
            if let Some((file, first, last)) = &one.place {
                let lines = files.entry(file).or_default();
                for line in *first..=*last {
                    lines.entry(line).or_default();
                }
                let mut text = format!("loop {} ({})", one.name, letter(one));
                if one.depth == 1 {
                    text += &entries(nest, run.is_exact);
                }
                text += &iterations(one);
                let note = Note { kind: "loop", text };
                lines.entry(*first).or_default().add(note);
            }
            for reference in &one.references {
                let Some((file, line)) = &reference.place else {
                    continue;
                };
                let lines = files.entry(file).or_default();
                if reference.is_executed() || lines.contains_key(line) {
                    let line = lines.entry(*line).or_default();
                    line.add(note(one, reference));
                }
            }
        }
    }
    files.retain(|_, lines| !lines.is_empty());
    files
}

/// A reference: access, bytes, stride, function.
fn note(one: &Loop, own: &Reference) -> Note {
    let what = format!("{} {} in {}", own.kind(), own.bytes, letter(one));
    match &own.function {
        Ok(function) if function.samples > 0 => {
            let kind = function.stride(own.bytes).name();
            let known = function.fits + function.fails + function.unsolved;
            let text = format!(
                "{what}: {kind}, {} ({} of {}){}",
                own.sum(function),
                grouped(function.fits),
                grouped(known),
                own.steps()
            );
            Note { kind, text }
        }
        Ok(_) => Note {
            kind: "none",
            text: format!("{what}: not executed"),
        },
        Err(why) => {
            let kind = own.stride().map(Stride::name);
            let text = kind.map_or(String::new(), |kind| format!("{kind}, "));
            Note {
                kind: kind.unwrap_or("none"),
                text: format!("{what}: {text}{why}"),
            }
        }
    }
}

/// Writes lines with their notes below them.
pub fn text(run: &Run, sources: &Sources, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "everypath loops: {}", printable(&run.command))?;
    for (file, lines) in lines(run) {
        writeln!(out, "\n{file}")?;
        let source = sources.get(file);
        if source.is_none() {
            writeln!(
                out,
                "  (the source is not here, or is not what was compiled)"
            )?;
        }
        let mut next = None;
        for (number, line) in &lines {
            if source.is_none() && line.notes.is_empty() {
                continue;
            }
            if next.is_some_and(|next| next != *number) {
                writeln!(out, "   ...")?;
            }
            next = Some(number + 1);
            let text = source.and_then(|lines| lines.get(*number as usize - 1));
            writeln!(out, "{number:>6}  {}", text.map_or("", String::as_str))?;
            for (note, count) in &line.notes {
                let times = match count {
                    1 => String::new(),
                    count => format!("  ({count} times)"),
                };
                writeln!(out, "        | {}{times}", note.text)?;
            }
        }
    }
    let without = without_lines(run);
    match without {
        0 => Ok(()),
        _ => writeln!(
            out,
            "\n{} without source lines: --format text has them",
            counted(without, "nest")
        ),
    }
}

/// Nests that were entered and have no lines.
pub fn without_lines(run: &Run) -> u64 {
    let came = run.nests.iter().filter(|nest| nest.entries > 0);
    let is_placed =
        |one: &Loop| one.place.is_some() || one.references.iter().any(|own| own.place.is_some());
    came.filter(|nest| !nest.loops.iter().any(is_placed))
        .count() as u64
}
