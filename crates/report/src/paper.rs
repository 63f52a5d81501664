//! Forests in the layout of the IHPP paper (listings 4.2 to 4.10), so that its
//! tables can be checked line by line.
//!
//! ```text
//! K value: 2
//! Functions count: 18
//! Maximum number of different threads: 2
//! Nodes count of k slab forest: 20
//! Nodes count of kCCF: 25
//! -----
//! DUMP of K-SF
//! -----
//! | __root__(),2
//! |   a(),2
//! ```
//!
//! A line is `| `, two spaces per level, the name, `()`, a comma and the count;
//! children stand in the order in which they were first entered. Differences
//! from the paper: forests of threads that were not joined stand under `Thread
//! ID:` with their own node counts; with several processes each begins with
//! `Process ID:`; `Functions count` is the number of functions that were
//! entered, because what was never entered was never looked at.

use std::io::{self, Write};

use analysis::{Forest, NodeId};
use trace::{Label, Process};

use crate::names::label_name;
use crate::numbers::command_line;
use crate::{Report, Section};

const DOUBLE_RULE: &str = "=====";
const RULE: &str = "-----";

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let k = report.recording.meta.k;
    writeln!(
        out,
        "K value: {}",
        k.map_or("INFINITE".into(), |k| k.to_string())
    )?;
    writeln!(out, "Functions count: {}", report.totals.functions)?;
    writeln!(
        out,
        "Maximum number of different threads: {}",
        report.totals.threads
    )?;
    let mut last_process = None;
    for section in &report.sections {
        let process = &report.recording.processes[section.process];
        if report.recording.processes.len() > 1 && last_process != Some(section.process) {
            let command = command_line(&process.args);
            writeln!(out, "{DOUBLE_RULE}\nProcess ID: {} {command}", process.pid)?;
        }
        last_process = Some(section.process);
        if let [thread] = section.threads[..] {
            let tid = process.threads[thread].tid;
            writeln!(out, "{DOUBLE_RULE}\nThread ID: {tid}\n{DOUBLE_RULE}")?;
        }
        write_section(process, section, out)?;
    }
    Ok(())
}

fn write_section(process: &Process, section: &Section, out: &mut dyn Write) -> io::Result<()> {
    if let Some(ksf) = &section.ksf {
        writeln!(
            out,
            "Nodes count of k slab forest: {}",
            counted(ksf).count()
        )?;
    }
    if let Some(kccf) = &section.kccf {
        writeln!(out, "Nodes count of kCCF: {}", counted(kccf).count())?;
    }
    for (title, forest) in [("K-SF", &section.ksf), ("K-CCF", &section.kccf)] {
        if let Some(forest) = forest {
            writeln!(out, "{RULE}\nDUMP of {title}\n{RULE}")?;
            dump(process, forest, out)?;
        }
    }
    Ok(())
}

/// All nodes that stand for contexts: not the state in which nothing is to be
/// counted, nor the place kept for contexts beyond the limit if it is unused.
fn counted(forest: &Forest) -> impl Iterator<Item = NodeId> {
    forest.preorder().filter(|&node| match forest.label(node) {
        Label::MUTED => false,
        Label::TRUNCATED => forest.count(node) > 0,
        _ => true,
    })
}

fn dump(process: &Process, forest: &Forest, out: &mut dyn Write) -> io::Result<()> {
    for node in counted(forest) {
        let indent = 2 * forest.depth(node) as usize;
        let name = label_name(process, forest.label(node));
        writeln!(out, "| {:indent$}{name}(),{}", "", forest.count(node))?;
    }
    Ok(())
}
