//! Forests in the layout of the IHPP paper (listings 4.2 to 4.24), so that its
//! tables can be checked line by line. `tables`: all functions and basic blocks.
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
//! A line is `| `, two spaces per level, the name, `()` unless it is a basic block, a
//! comma and the count;
//! children stand in the order in which they were first entered. Differences
//! from the paper: forests of threads that were not joined stand under `Thread
//! ID:` with their own node counts; with several processes each begins with
//! `Process ID:`; `Functions count` is the number of functions that were
//! entered, because what was never entered was never looked at.

pub(crate) mod tables;

use std::collections::HashSet;
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
    writeln!(out, "Functions count: {}", functions_count(report))?;
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
        let blocks = report.recording.meta.blocks;
        let intra = blocks.is_some_and(|blocks| blocks.intra);
        write_section(process, section, intra, out)?;
    }
    tables::write(report, out)
}

/// Functions that were entered, also where what was entered are their blocks. All blocks of a
/// file that are in no function count as one.
fn functions_count(report: &Report) -> usize {
    if report.recording.meta.blocks.is_none() {
        return report.totals.functions as usize;
    }
    let processes = report.recording.processes.iter();
    let functions = processes.flat_map(|process| {
        process.blocks.iter().filter_map(|block| {
            let start = process.function(Label(block.id))?;
            let file = process.module_of(start).map(|module| &*module.path);
            let at = match (file, &block.function) {
                (_, None) => 0,
                (None, _) => start.pc.wrapping_sub(block.offset),
                (Some(_), _) => start.file_offset.wrapping_sub(block.offset),
            };
            Some((file, block.function.as_deref(), at))
        })
    });
    functions.collect::<HashSet<_>>().len()
}

fn write_section(
    process: &Process,
    section: &Section,
    intra: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
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
    if !intra {
        return write_forests(process, section, None, out);
    }
    for function in functions_of_roots(process, section) {
        let name = function.unwrap_or("[unknown]");
        writeln!(out, "{DOUBLE_RULE}\nFunction: {name}()")?;
        write_forests(process, section, Some(function), out)?;
    }
    Ok(())
}

/// `function`: only trees whose root is a block of it.
fn write_forests(
    process: &Process,
    section: &Section,
    function: Option<Option<&str>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (title, forest) in [("K-SF", &section.ksf), ("K-CCF", &section.kccf)] {
        if let Some(forest) = forest {
            writeln!(out, "{RULE}\nDUMP of {title}\n{RULE}")?;
            dump(process, forest, function, out)?;
        }
    }
    Ok(())
}

/// The functions that the blocks at the roots are in, in the order of the trees.
fn functions_of_roots<'a>(process: &'a Process, section: &Section) -> Vec<Option<&'a str>> {
    let mut functions = Vec::new();
    for forest in [&section.ksf, &section.kccf].into_iter().flatten() {
        for &root in forest.roots() {
            let label = forest.label(root);
            let function = function_of(process, label);
            if !functions.contains(&function) && process.block(label).is_some() {
                functions.push(function);
            }
        }
    }
    functions
}

/// The name of the function that a block is in; special labels are in none.
fn function_of(process: &Process, label: Label) -> Option<&str> {
    process.block(label)?.function.as_deref()
}

/// All nodes that stand for contexts: not the state in which nothing is to be
/// counted, nor the place kept for contexts beyond the limit if it is unused.
fn counted(forest: &Forest) -> impl Iterator<Item = NodeId> {
    forest.preorder().filter(|&node| is_counted(forest, node))
}

pub(crate) fn is_counted(forest: &Forest, node: NodeId) -> bool {
    match forest.label(node) {
        Label::MUTED => false,
        Label::TRUNCATED => forest.count(node) > 0,
        _ => true,
    }
}

fn dump(
    process: &Process,
    forest: &Forest,
    function: Option<Option<&str>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut shown = true;
    for node in counted(forest) {
        let depth = forest.depth(node) as usize;
        let label = forest.label(node);
        if depth == 0 {
            shown = function.is_none_or(|function| {
                process.block(label).is_some() && function == function_of(process, label)
            });
        }
        if !shown {
            continue;
        }
        let call = if process.block(label).is_some() {
            ""
        } else {
            "()"
        };
        let name = label_name(process, label);
        let count = forest.count(node);
        writeln!(
            out,
            "| {:indent$}{name}{call},{count}",
            "",
            indent = 2 * depth
        )?;
    }
    Ok(())
}
