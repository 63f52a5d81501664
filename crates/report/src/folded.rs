//! Contexts as folded stacks: one line per context, frames from the outermost
//! inwards between semicolons, a space, and the calls that ended there, or the
//! instructions ([`Report::by`]). Flame
//! graphs and many other tools read it (stackcollapse of Brendan Gregg's
//! FlameGraph defined it; crate `inferno` and speedscope take it).
//!
//! ```text
//! prog1;main;a;b 3
//! prog1 (4711);thread 4712;[signal 10];handler 2
//! prog1;…;f;g 17                          called by something, further out than k
//! ```
//!
//! The first frame is the program, with its process id if there are several;
//! then the thread, if a process has several that are shown apart.
//!
//! Invariant: the numbers add up to those of the recording, exactly. A
//! frame holds no semicolon and no control character: they are written as `:`
//! and a space, or no line could be taken apart again.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::Weight;
use trace::{Label, Process};

use crate::names::{self, label_name};
use crate::stacks::{self, Frame, PathText};
use crate::{Report, Section};

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let processes = &report.recording.processes;
    for section in &report.sections {
        let process = &processes[section.process];
        let (program, thread) = names::origin(report, section);
        let mut first = frame(&program);
        if let Some(thread) = thread {
            first.push_str(&format!(";{thread}"));
        }
        write_section(process, section, (report.by, &first), out)?;
    }
    Ok(())
}

fn write_section(
    process: &Process,
    section: &Section,
    (metric, first): (Weight, &str),
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut names: HashMap<Label, String> = HashMap::new();
    let mut text = PathText::default();
    stacks::each(section, &[metric], |path, values| {
        let shown = text.of(path, |at, text| match at {
            Frame::Unknown => text.push_str(stacks::UNKNOWN),
            Frame::Label(label) => {
                let name = names.entry(label);
                text.push_str(name.or_insert_with(|| frame(&label_name(process, label))));
            }
        });
        writeln!(out, "{first};{shown} {}", values[0])
    })
}

/// A name as a frame.
pub(crate) fn frame(name: &str) -> String {
    let replaced = |c: char| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    };
    name.chars().map(replaced).collect()
}
