//! Every executed instruction in the form of valgrind's callgrind, for KCachegrind and
//! callgrind_annotate: costs by instruction and source line, jumps and calls.
//!
//! ```text
//! fn=(1) work                a function
//! 0x1158 5 100               instruction at this offset, line 5: executed 100 times
//! jcnd=66/100 0x1149 8       a branch, taken 66 of 100 times, goes there
//! 0x1178 5
//! ```
//!
//! | there | here |
//! |---|---|
//! | event | `Ir`: instructions executed; with simulated caches also those of cachegrind |
//! | `ob=`, `fl=`, `fn=`, `fi=` | module, the function's first file, function, file of inlined code; `???` where unknown |
//! | `jump=`, `jcnd=` | jumps within a module, and conditional branches with both ways |
//! | `calls=` | calls; with inclusive cost 0, which is not known here: `contexts` knows it |
//! | part | a thread, with `--per-thread` |
//!
//! Invariant: all costs together are the instructions executed, which `summary:` and
//! `totals:` say.

use std::io::{self, Write};

use analysis::caches::Costs;
use analysis::counts::Counted;

use super::{Report, Section};
use crate::callgrind::{NOWHERE, Names};
use crate::numbers::command_line;
use isa::Flow;

pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let meta = &report.recording.meta;
    writeln!(out, "# callgrind format\nversion: 1")?;
    writeln!(out, "creator: {}", meta.producer)?;
    writeln!(out, "cmd: {}", command_line(&meta.command))?;
    let events = report.costs.as_ref().map_or(vec!["Ir"], Costs::names);
    writeln!(out, "positions: instr line\nevents: {}", events.join(" "))?;
    let listed = report.sections.iter().flat_map(|section| {
        let insns = section.counts.insns.iter();
        insns.filter(|insn| report.lists(&section.counts, insn))
    });
    let total = listed.fold(0u64, |sum, insn| sum.saturating_add(insn.count));
    let total = match &report.costs {
        None => total.to_string(),
        Some(costs) => words(&listed_costs(report, costs)),
    };
    writeln!(out, "summary: {total}")?;
    for (section, number) in report.sections.iter().zip(1..) {
        if let Some((process, thread)) = section.thread {
            let process = &report.recording.processes[process];
            let tid = process.threads[thread].tid;
            writeln!(
                out,
                "\npid: {}\npart: {number}\nthread: {tid}\nevents: Ir",
                process.pid
            )?;
        }
        let mut part = Part {
            section,
            objects: Names::default(),
            files: Names::default(),
            functions: Names::default(),
            out,
        };
        part.write(report)?;
    }
    writeln!(out, "\ntotals: {total}")
}

/// Costs of all instructions that are listed.
fn listed_costs(report: &Report<'_>, costs: &Costs) -> Vec<u64> {
    let section = &report.sections[0];
    let both = section.counts.insns.iter().zip(&costs.insns);
    let listed = both.filter(|(insn, _)| report.lists(&section.counts, insn));
    let each = listed.map(|(insn, row)| report.costs_of(insn.count, row, costs));
    each.fold(vec![0; costs.names().len()], |mut sums, one| {
        sums.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
        sums
    })
}

fn words(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(" ")
}

/// One section. Its names have numbers of their own.
struct Part<'a, 'o> {
    section: &'a Section,
    objects: Names,
    files: Names,
    functions: Names,
    out: &'o mut dyn Write,
}

impl<'a> Part<'a, '_> {
    fn write(&mut self, report: &Report<'_>) -> io::Result<()> {
        let section = self.section;
        // Unit, function, and where that begins; then the file of the code.
        let function = |insn: &Counted| {
            let start = insn
                .source
                .function
                .map(|(name, distance)| (name, insn.at - distance));
            (insn.unit, start)
        };
        let (mut last, mut file) = (None, None);
        for (at, insn) in section.counts.insns.iter().enumerate() {
            if !report.lists(&section.counts, insn) {
                continue;
            }
            let here = section.file(insn).map(|(file, _)| file);
            if last != Some(function(insn)) {
                last = Some(function(insn));
                file = here;
                writeln!(self.out)?;
                self.write_names(["ob", "fl", "fn"], insn)?;
            } else if file != here {
                file = here;
                let name = self.file(insn);
                writeln!(self.out, "fi={name}")?;
            }
            let cost = match &report.costs {
                None => insn.count.to_string(),
                Some(costs) => words(&report.costs_of(insn.count, &costs.insns[at], costs)),
            };
            writeln!(self.out, "{} {cost}", self.position(insn))?;
            self.write_branch(insn)?;
            for went in section.counts.went_from(at) {
                if let Some(to) = went.to {
                    self.write_went(insn, &section.counts.insns[to as usize], went.count)?;
                }
            }
        }
        Ok(())
    }

    fn write_branch(&mut self, insn: &Counted) -> io::Result<()> {
        let Some(target) = insn.target else {
            return Ok(());
        };
        let target = &self.section.counts.insns[target as usize];
        if !insn.is_conditional() {
            return self.write_went(insn, target, insn.count);
        }
        let (from, to) = (self.position(insn), self.position(target));
        let (taken, count) = (insn.taken(), insn.count);
        writeln!(self.out, "jcnd={taken}/{count} {to}\n{from}")
    }

    fn write_went(&mut self, insn: &Counted, target: &'a Counted, count: u64) -> io::Result<()> {
        let (from, to) = (self.position(insn), self.position(target));
        match insn.flow {
            // The format gives a jump's target without a module.
            Flow::Jump(_) | Flow::IndirectJump if insn.unit != target.unit => Ok(()),
            Flow::Jump(_) | Flow::IndirectJump => {
                writeln!(self.out, "jump={count} {to}\n{from}")
            }
            Flow::Call(_) | Flow::IndirectCall => {
                self.write_names(["cob", "cfl", "cfn"], target)?;
                writeln!(self.out, "calls={count} {to}\n{from} 0")
            }
            _ => Ok(()),
        }
    }

    /// Offset and line.
    fn position(&self, insn: &Counted) -> String {
        let line = self.section.file(insn).map_or(0, |(_, line)| line);
        format!("{:#x} {line}", insn.at)
    }

    fn file(&mut self, insn: &Counted) -> String {
        let file = self.section.file(insn).map_or(NOWHERE, |(file, _)| file);
        self.files.written(file.to_owned(), file)
    }

    fn write_names(&mut self, keys: [&str; 3], insn: &'a Counted) -> io::Result<()> {
        let unit = &self.section.counts.units[insn.unit as usize];
        let object = unit.path.as_deref().unwrap_or(NOWHERE);
        let name = self.section.function_name(insn).unwrap_or(NOWHERE);
        let start = insn
            .source
            .function
            .map_or(0, |(_, distance)| insn.at - distance);
        let file = self.file(insn);
        let id = format!("{object}\n{start:x}\n{name}");
        let object = self.objects.written(object.to_owned(), object);
        let function = self.functions.written(id, name);
        let [ob, fl, call] = keys;
        writeln!(self.out, "{ob}={object}\n{fl}={file}\n{call}={function}")
    }
}
