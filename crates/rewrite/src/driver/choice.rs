//! Choice of the functions that move, with their code and what a tool inserts.
//!
//! Problem: a large program has a hundred thousand functions, and most of the editor's time is theirs; a tool sees them one
//! after the other, as it numbers its counters.
//!
//! Approach: functions are taken by the thousand. While the tool plans one thousand, other threads prepare the next one (jump
//! tables, units) and lay out the one before. The result does not depend on the number of threads.

use flow::{Function, Gate, Program};
use image::{Image, ImageKind, Language, LinkAddr};
use rayon::prelude::*;

use super::Mover;
use super::patches::Ways;
use crate::eh_frame::{EhFrame, Fde};
use crate::jump_tables::NewTables;
use crate::layout::{Copied, Moved};
use crate::lsda::Lsda;
use crate::skipped::Why;
use crate::tool::StaticTool;
use crate::unit::{Entries, Plan, Unit, Units, Wants};
use crate::versions::Versions;

/// Functions that are looked at together.
const AT_ONCE: usize = 1024;
/// Most bytes of the last table of landing pads.
const LAST_TABLE: usize = 4096;

/// A function that can be moved, as far as no tool is asked.
struct Prepared<'d> {
    number: usize,
    switches: NewTables,
    /// With facts of its entries, if the tool inserts anything.
    unit: Option<(Unit<'d>, Entries)>,
    versions: Versions,
    /// By version.
    plans: Vec<Plan>,
}

/// A function that can be moved.
struct Chosen {
    moved: Moved,
    /// Tables of landing pads, with the beginnings of the code that each is of.
    lsdas: Vec<(LinkAddr, Lsda)>,
    ways: Ways,
}

/// The outcome for a function, by its number.
struct Outcome {
    number: usize,
    /// Facts of its entries, if code was inserted.
    entries: Option<Entries>,
    chosen: Result<Chosen, Why>,
}

impl Mover<'_> {
    /// Takes the functions whose code and frames can be written elsewhere.
    pub(super) fn choose(&mut self, frames: &EhFrame<'_>) {
        let choice = Choice {
            image: self.image,
            program: self.program,
            frames,
            described: by_code(frames),
            tables: Tables::of(self.image, frames),
            units: self.units.as_ref(),
            wants: Wants {
                has_memory: self.residency.is_some(),
                spills: self.tool.spills(),
                anywhere: self.tool.inserts_anywhere(),
            },
            says_entries: !self.tool.entered(LinkAddr(0)).is_empty(),
            moves_bare: is_without_tables(self.image, self.program, frames),
        };
        let tool = &mut *self.tool;
        let numbers: Vec<usize> = (0..self.program.functions.len()).collect();
        let mut chunks = numbers.chunks(AT_ONCE);
        let mut prepared = choice.prepare(chunks.next().unwrap_or_default());
        let mut planned = Vec::new();
        let mut outcomes = Vec::with_capacity(numbers.len());
        while !(prepared.is_empty() && planned.is_empty()) {
            let next = chunks.next().unwrap_or_default();
            let ((), (next, mut done)) = rayon::join(
                || plan(tool, &mut prepared),
                || (choice.prepare(next), choice.finish(planned)),
            );
            outcomes.append(&mut done);
            planned = std::mem::replace(&mut prepared, next);
        }
        for outcome in outcomes {
            let number = outcome.number;
            let entry = self.program.functions[number].entry;
            if let (Some(residency), Some(entries)) = (&mut self.residency, outcome.entries) {
                residency.add(number, entry, entries);
            }
            match outcome.chosen {
                Ok(chosen) => {
                    self.moved.insert(number, chosen.moved);
                    self.lsdas.insert(number, chosen.lsdas);
                    self.ways.insert(number, chosen.ways);
                }
                Err(why) => {
                    self.tool.skip(number);
                    self.skipped.push((number, why));
                }
            }
        }
    }
}

/// Has the tool plan each function, in their order.
fn plan(tool: &mut dyn StaticTool, all: &mut [(usize, Result<Prepared<'_>, Why>)]) {
    for (_, prepared) in all {
        let Ok(function) = prepared else { continue };
        let Some((unit, _)) = &function.unit else {
            continue;
        };
        function.versions = tool.versions(unit);
        let plans = function.versions.all().map(|version| {
            let mut plan = Plan::default();
            tool.plan(unit, version, &mut plan).map(|()| plan)
        });
        match plans.collect() {
            Ok(plans) => function.plans = plans,
            Err(why) => *prepared = Err(why),
        }
    }
}

/// The choice among the functions of a program.
struct Choice<'d, 'f> {
    image: &'d Image,
    program: &'d Program,
    frames: &'f EhFrame<'f>,
    /// Descriptions of frames, by their code.
    described: Vec<&'f Fde>,
    tables: Tables<'d>,
    units: Option<&'f Units<'d>>,
    wants: Wants,
    /// Something is done in front of every entry.
    says_entries: bool,
    /// Functions without a description of their frames move, too.
    moves_bare: bool,
}

impl<'d> Choice<'d, '_> {
    /// Looks at functions, by their numbers.
    fn prepare(&self, numbers: &[usize]) -> Vec<(usize, Result<Prepared<'d>, Why>)> {
        let numbers = numbers.par_iter();
        numbers
            .map(|&number| (number, self.prepare_one(number)))
            .collect()
    }

    fn prepare_one(&self, number: usize) -> Result<Prepared<'d>, Why> {
        let function = &self.program.functions[number];
        if let Some(failed) = function.failed.first() {
            return Err(Why::Flow(failed.gate));
        }
        let mut own = self.frames_of(function).peekable();
        if !self.moves_bare && own.peek().is_none() {
            return Err(Why::Flow(Gate::NoUnwind));
        }
        if !own.all(|fde| self.frames.is_known(fde)) {
            return Err(Why::Unwind);
        }
        if is_start_up(function) || function.entry == self.image.entry() {
            return Err(Why::StartUp);
        }
        let bytes = |addr: LinkAddr| self.image.bytes_from(addr);
        let is_fixed = self.image.kind() == ImageKind::Fixed;
        let switches = NewTables::of(function, is_fixed, &bytes);
        let unit = self.units.map(|units| {
            let unit = units.unit(number, &switches, &bytes, self.wants)?;
            let entries = units.entries(&unit);
            match self.says_entries && !entries.bare.is_empty() {
                true => Err(Why::NoPlace),
                false => Ok((unit, entries)),
            }
        });
        Ok(Prepared {
            number,
            unit: unit.transpose()?,
            switches,
            versions: Versions::ONE,
            plans: Vec::new(),
        })
    }

    /// Takes the code of functions that were planned.
    fn finish(&self, planned: Vec<(usize, Result<Prepared<'d>, Why>)>) -> Vec<Outcome> {
        let planned = planned.into_par_iter();
        let outcomes = planned.map(|(number, planned)| {
            let mut outcome = Outcome {
                number,
                entries: None,
                chosen: Err(Why::Code),
            };
            outcome.chosen = planned.and_then(|function| self.take(function, &mut outcome.entries));
            outcome
        });
        outcomes.collect()
    }

    fn take(&self, prepared: Prepared<'_>, inserted: &mut Option<Entries>) -> Result<Chosen, Why> {
        let function = &self.program.functions[prepared.number];
        let bytes = |addr: LinkAddr| self.image.bytes_from(addr);
        let lsdas = self.frames_of(function);
        let lsdas = lsdas.map(|fde| self.tables.of_range(self.frames, fde));
        let lsdas = lsdas.collect::<Option<Vec<_>>>().ok_or(Why::LandingPads)?;
        let lsdas: Vec<(LinkAddr, Lsda)> = lsdas.into_iter().flatten().collect();
        let mut copied = Copied {
            function,
            switches: prepared.switches,
            versions: prepared.versions,
            insertions: Vec::new(),
        };
        copied.versions.add_landing_pads(function, &|block| {
            let lsdas = lsdas.iter();
            let pads = lsdas.flat_map(|(_, lsda)| lsda.pads_of(block.start..block.end));
            pads.collect()
        });
        if let Some((unit, entries)) = prepared.unit {
            for (version, plan) in copied.versions.all().zip(prepared.plans) {
                let own = unit.insertions(plan, version, &copied.versions)?;
                copied.insertions.push(own);
            }
            *inserted = Some(entries);
        }
        let moved = Moved::new(copied, &bytes)?;
        match lsdas.iter().all(|(_, lsda)| lsda.fits(&moved)) {
            true => Ok(Chosen {
                ways: Ways::of(function, &moved),
                moved,
                lsdas,
            }),
            false => Err(Why::LandingPads),
        }
    }

    /// Descriptions of a function's frames.
    fn frames_of<'c>(&'c self, function: &'c Function) -> impl Iterator<Item = &'c Fde> + 'c {
        let ranges = function.ranges.iter();
        ranges.flat_map(|range| {
            let first = self.described.partition_point(|fde| fde.pc < range.start);
            let fdes = self.described[first..].iter().copied();
            fdes.take_while(|fde| fde.pc < range.end)
        })
    }
}

/// Whether a file has no descriptions of frames, or few, as musl's programs, so nobody asks for them. Where most functions have one,
/// the others may be those of a runtime that knows its frames by their addresses, as Go's and V8's do.
fn is_without_tables(image: &Image, program: &Program, frames: &EhFrame<'_>) -> bool {
    let has_other_tables = matches!(image.origin().0, Language::Go | Language::Mono);
    !has_other_tables && frames.fdes.len() * 2 < program.functions.len()
}

/// Descriptions of frames, by their code.
fn by_code<'f>(frames: &'f EhFrame<'_>) -> Vec<&'f Fde> {
    let mut described: Vec<&Fde> = frames.fdes.iter().collect();
    described.sort_by_key(|fde| fde.pc);
    described
}

/// Tables of landing pads of a file.
struct Tables<'d> {
    image: &'d Image,
    /// Their addresses, sorted: each ends before the next one.
    starts: Vec<LinkAddr>,
}

impl<'d> Tables<'d> {
    fn of(image: &'d Image, frames: &EhFrame<'_>) -> Tables<'d> {
        let starts = frames.fdes.iter().filter_map(|fde| frames.lsda(fde));
        let mut starts: Vec<LinkAddr> = starts.collect();
        starts.sort_unstable();
        starts.dedup();
        Tables { image, starts }
    }

    /// The table of a range of code, if it has one, with the beginning of the code; `None`: it cannot be read.
    fn of_range(&self, frames: &EhFrame<'_>, fde: &Fde) -> Option<Option<(LinkAddr, Lsda)>> {
        let Some(addr) = frames.lsda(fde) else {
            return Some(None);
        };
        let next = self.starts.partition_point(|start| *start <= addr);
        let bytes = self.image.bytes_from(addr);
        let size = self.starts.get(next).map(|next| (*next - addr) as usize);
        // The last one ends with its section; what is behind it does no harm.
        let bytes = &bytes[..size.unwrap_or(LAST_TABLE).min(bytes.len())];
        Lsda::parse(bytes, addr, fde.pc).map(|lsda| Some((fde.pc, lsda)))
    }
}

/// Whether the kernel or the dynamic linker calls it before all relocations are done.
fn is_start_up(function: &Function) -> bool {
    let name = function.name.as_deref();
    matches!(name, Some("_start" | "_dl_start" | "_init" | "_fini"))
}
