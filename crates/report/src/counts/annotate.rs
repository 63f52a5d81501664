//! Functions instruction by instruction: how often each was executed, how often each
//! branch was taken, and the source line that it comes from.
//!
//! ```text
//! work  prog  1,204 instructions executed
//!      executed         taken  offset   instruction
//!                                       prog.c:9  for (int i = 0; i < n; i++)
//!           100            99  0x1149   jl work+0x4
//!                                       (7 bytes that were not executed)
//!            12                0x1160   jmp rax
//!                           9              to work+0x30
//!                           3              to work+0x44
//! ```
//!
//! Only what was executed is recorded, so what lies between is told by its size.
//! Targets of branches are named as places are in the other forms.

use std::io::{self, Write};

use analysis::counts::Counted;
use isa::Flow;

use super::{Report, Section};
use crate::names::base_name;
use crate::numbers::{counted, cut_middle, grouped};
use crate::text::Style;

/// Columns before an instruction.
const NUMBERS: usize = 14 + 14 + 2 + 10;
/// In place of a target that could not be fetched.
pub(super) const NOWHERE: &str = "where nothing was executed";
/// Most targets of one instruction.
const TARGETS: usize = 12;

pub(super) fn write(report: &Report<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut is_first = true;
    for section in &report.sections {
        if let Some(title) = section.title(report.recording) {
            writeln!(out, "{}", style.bold(&title))?;
        }
        for function in functions(report, section) {
            if !std::mem::take(&mut is_first) {
                writeln!(out)?;
            }
            write_function(report, section, &function, style, out)?;
        }
    }
    if is_first {
        let names = report.view.annotate.join(", ");
        return Err(io::Error::other(format!(
            "no function {names} was executed (a name may hold * and ?)"
        )));
    }
    for note in &report.notes {
        writeln!(out, "\n{}", style.paragraph("note: ", note))?;
    }
    Ok(())
}

/// The instructions to be shown.
pub(super) fn insns<'a>(report: &Report<'_>, section: &'a Section) -> Vec<&'a Counted> {
    let functions = functions(report, section).into_iter().flatten();
    functions.map(|(_, insn)| insn).collect()
}

/// The instructions of each function that is to be shown, by their places, with their
/// indices.
fn functions<'a>(report: &Report<'_>, section: &'a Section) -> Vec<Vec<(usize, &'a Counted)>> {
    let mut functions: Vec<Vec<(usize, &Counted)>> = Vec::new();
    let key = |insn: &Counted| {
        let distance = insn
            .source
            .function
            .map(|(name, distance)| (name, insn.at - distance));
        (insn.unit, distance)
    };
    for (index, insn) in section.counts.insns.iter().enumerate() {
        let is_wanted = |name: &str| report.view.annotate.iter().any(|one| fits(one, name));
        if !section.function_name(insn).is_some_and(is_wanted)
            || !report.lists(&section.counts, insn)
        {
            continue;
        }
        match functions.last_mut() {
            Some(last) if key(last[0].1) == key(insn) => last.push((index, insn)),
            _ => functions.push(vec![(index, insn)]),
        }
    }
    functions
}

/// Parameters may be left out.
fn fits(pattern: &str, name: &str) -> bool {
    let bare = name.split_once('(').map_or(name, |(bare, _)| bare);
    image::glob(pattern, name) || image::glob(pattern, bare)
}

fn write_function(
    report: &Report<'_>,
    section: &Section,
    insns: &[(usize, &Counted)],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some((_, first)) = insns.first() else {
        return Ok(());
    };
    let name = section.function_name(first).unwrap_or_default();
    let executed = insns
        .iter()
        .fold(0u64, |sum, (_, insn)| sum.saturating_add(insn.count));
    let executed = counted(executed, "instruction");
    let title = style.bold(name);
    writeln!(
        out,
        "{title}  {}  {executed} executed",
        section.unit_name(first)
    )?;
    let head = format!(
        "{:>14}{:>14}  {:<10}instruction",
        "executed", "taken", "offset"
    );
    writeln!(out, "{}", style.dim(&head))?;
    let (mut line, mut end) = (None, first.at);
    for &(index, insn) in insns {
        if insn.at > end {
            let left = format!("({} bytes that were not executed)", insn.at - end);
            writeln!(out, "{:NUMBERS$}{}", "", style.dim(&left))?;
        }
        end = insn.at + insn.bytes.len() as u64;
        if section.file(insn) != line {
            line = section.file(insn);
            write_source(report, line, style, out)?;
        }
        let taken = match insn.is_conditional() {
            true if report.has_ways() => grouped(insn.taken()),
            _ => String::new(),
        };
        let target = insn
            .target
            .map(|target| &section.counts.insns[target as usize]);
        let target = target.map(|target| section.place(target));
        let text = isa::text::of(&insn.bytes, insn.at, target.as_deref());
        let count = grouped(insn.count);
        let offset = format!("{:#x}", insn.at);
        writeln!(out, "{count:>14}{taken:>14}  {offset:<10}{text}")?;
        if !matches!(insn.flow, Flow::Return(_)) {
            write_targets(section, index, style, out)?;
        }
    }
    Ok(())
}

/// Writes the targets of an indirect branch, the most frequent first.
fn write_targets(
    section: &Section,
    index: usize,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut went = section.counts.went_from(index).to_vec();
    went.sort_by_key(|went| std::cmp::Reverse(went.count));
    for went in went.iter().take(TARGETS) {
        let to = went.to.map(|to| &section.counts.insns[to as usize]);
        let to = to.map_or(NOWHERE.to_owned(), |to| section.place(to));
        let text = style.dim(&format!("to {to}")).to_string();
        writeln!(out, "{:>28}{:14}{text}", grouped(went.count), "")?;
    }
    if let Some(more @ 1..) = went.len().checked_sub(TARGETS) {
        let text = style.dim(&format!("and {more} more")).to_string();
        writeln!(out, "{:42}{text}", "")?;
    }
    Ok(())
}

fn write_source(
    report: &Report<'_>,
    line: Option<(&str, u32)>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some((file, number)) = line else {
        return Ok(());
    };
    let lines = report.sources.get(file);
    let text = lines.and_then(|lines| lines.get((number as usize).checked_sub(1)?));
    let text = text.map_or(String::new(), |text| {
        format!("  {}", text.trim().replace(char::is_control, " "))
    });
    let shown = format!("{}:{number}{text}", base_name(file));
    let room = style.width.saturating_sub(NUMBERS).max(20);
    let shown = cut_middle(&shown, room);
    writeln!(out, "{:NUMBERS$}{}", "", style.dim(&shown))
}
