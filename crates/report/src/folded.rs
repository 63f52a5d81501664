//! Contexts as folded stacks: one line per context, frames from the outermost
//! inwards between semicolons, a space, and the calls that ended there. Flame
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
//! Invariant: the numbers add up to the calls of the recording, exactly. A
//! frame holds no semicolon and no control character: they are written as `:`
//! and a space, or no line could be taken apart again.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::{Forest, NodeId};
use trace::{Label, Process};

use crate::names::{base_name, label_name};
use crate::{Report, Section};

/// In place of callers that were not kept.
const UNKNOWN: &str = "…";

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let processes = &report.recording.processes;
    for section in &report.sections {
        let process = &processes[section.process];
        let alone = processes.len() == 1;
        write_section(process, section, alone, out)?;
    }
    Ok(())
}

fn write_section(
    process: &Process,
    section: &Section,
    alone: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(forest) = &section.stacks else {
        return Ok(());
    };
    let mut path = frame(&program(process));
    if !alone {
        path.push_str(&format!(" ({})", process.pid));
    }
    if let (true, [thread]) = (process.threads.len() > 1, &section.threads[..]) {
        path.push_str(&format!(";thread {}", process.threads[*thread].tid));
    }
    let mut names: HashMap<Label, String> = HashMap::new();
    // Where the path of each open node ends; the first is what stands before all.
    let mut ends = vec![path.len()];
    let mut left = section.calls;
    for node in forest.preorder() {
        let label = forest.label(node);
        let depth = forest.depth(node) as usize;
        ends.truncate(depth + 1);
        path.truncate(ends[depth]);
        if depth == 0 && is_inner(forest, node) {
            path.push(';');
            path.push_str(UNKNOWN);
        }
        if label != Label::THREAD && label != Label::ROOT {
            path.push(';');
            let name = names
                .entry(label)
                .or_insert_with(|| frame(&label_name(process, label)));
            path.push_str(name);
        }
        ends.push(path.len());
        if label.is_function() && forest.count(node) > 0 {
            left = left.saturating_sub(forest.count(node));
            writeln!(out, "{path} {}", forest.count(node))?;
        }
    }
    // The calls beyond the limit of nodes.
    if left > 0 {
        path.truncate(ends[0]);
        writeln!(out, "{path};{} {left}", Label::TRUNCATED)?;
    }
    Ok(())
}

/// Whether the tree at `root` begins k calls away from where its thread began.
fn is_inner(forest: &Forest, root: NodeId) -> bool {
    forest.label(root).is_function() && !forest.is_first(root)
}

fn program(process: &Process) -> String {
    let path = match process.args.first() {
        Some(name) if process.exe.is_empty() => name,
        _ => &process.exe,
    };
    base_name(path).to_owned()
}

/// A name as a frame.
fn frame(name: &str) -> String {
    let replaced = |c: char| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    };
    name.chars().map(replaced).collect()
}
