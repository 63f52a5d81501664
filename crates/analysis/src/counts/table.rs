//! Adding up what fragments counted, instruction by instruction.
//!
//! Approach: [`Places`] finds the instruction at a place of a file, and within a process the
//! one at an address. An instruction that is known is not decoded again. Where its source is
//! is looked up at the end, in the order of the code.
//!
//! Complexity: linear in what was recorded. A place that a program writes over has as many
//! instructions as versions: the newest one is compared, the others are in a hash table.
//!
//! Limits: a count is less than 2^64.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use isa::{Flow, Insn};
use trace::{EventKind, Fragment, Jump, Process, Recording};

use super::places::Places;
use super::tally;
use super::{Code, Counted, Counts, IndirectEdge, Source, Unit, Unsound};
use super::{is_conditional, is_indirect, target};

const TOO_LARGE: &str = "a count is more than 64 bits hold";
const TOO_MANY: &str = "there are too many instructions";

/// No index of an instruction or a module.
const NONE: u32 = u32::MAX;

/// An instruction while its counts are added up; indices may be [`NONE`].
struct Sum {
    at: u64,
    bytes: Code,
    flow: Flow,
    count: u64,
    fell: u64,
    /// Place where it was first met: its address, the process, the module there.
    pc: u64,
    process: u32,
    module: u32,
    unit: u32,
    target: u32,
    next: u32,
}

#[derive(Default)]
pub(super) struct Table {
    texts: Vec<String>,
    text_of: HashMap<String, u32>,
    units: Vec<Unit>,
    unit_of: HashMap<Unit, u32>,
    insns: Vec<Sum>,
    /// By unit and offset, the newest of those there.
    known: Places,
    /// By unit, offset and bytes, those at places that have had several.
    versions: HashMap<(u32, u64, Code), u32>,
    /// Branch, target, how often.
    went: Vec<(u32, u32, u64)>,
    /// For each process, the indices of its texts in the table.
    texts_of: Vec<Vec<u32>>,
}

/// An instruction of a fragment.
pub(super) struct Place {
    insn: u32,
    pc: u64,
    next_pc: u64,
    flow: Flow,
}

impl Place {
    /// Whether it follows in its fragment where the conditional branch before is taken.
    fn is_behind_taken(&self, branch: &Place) -> bool {
        is_conditional(branch.flow) && self.pc != branch.next_pc
    }
}

/// Place of a piece of code.
struct Lies {
    unit: u32,
    /// Offset of its first byte, in the unit.
    at: u64,
    module: u32,
}

/// A process whose fragments are added up.
struct Adding<'p> {
    index: usize,
    process: &'p Process,
    /// Unit of each module.
    units: Vec<u32>,
    /// Instructions by address, for targets; of several, the first.
    by_pc: Places,
    /// Instructions that were not met before at their address.
    met: Vec<(u32, u64, Option<u64>)>,
}

impl Table {
    /// Adds what `process` counted in its slots.
    /// `is_denied`: the process did not get all the memory for its counts; what contradicts
    /// itself is left out then.
    pub(super) fn add(
        &mut self,
        index: usize,
        process: &Process,
        slots: &HashMap<u64, u64>,
        is_denied: bool,
    ) -> Result<(), Unsound> {
        let mut adding = Adding {
            index,
            process,
            units: self.units(process),
            by_pc: Places::default(),
            met: Vec::new(),
        };
        let texts = process.texts.iter().map(|text| self.text(text)).collect();
        self.texts_of.resize(index, Vec::new());
        self.texts_of.push(texts);
        let cuts = tally::cuts(process, slots);
        let jumps = tally::jumps(process, slots);
        let mut went: Vec<(u32, &Jump, u64)> = Vec::new();
        let (mut places, mut counts) = (Vec::new(), Vec::new());
        // A thread that was killed stopped in the middle of a fragment, each once at most.
        let mut stops = process.threads.len() as i128;
        for fragment in &process.fragments {
            let unsound = |what| Unsound {
                process: index,
                fragment: fragment.id,
                what,
            };
            counts.clear();
            let own = (fragment.first_slot..).zip(&fragment.events);
            counts.extend(own.map(|(slot, _)| slots.get(&slot).copied().unwrap_or(0)));
            let cuts = cuts.get(&fragment.id).map_or(&[][..], Vec::as_slice);
            let jumps = jumps.get(&fragment.id).map_or(&[][..], Vec::as_slice);
            tally::add_jumps(fragment, jumps, &mut counts).map_err(unsound)?;
            if counts.iter().all(|&count| count == 0) && cuts.is_empty() {
                continue;
            }
            places.clear();
            self.decode(&mut adding, fragment, &mut places)
                .map_err(unsound)?;
            match self.count(fragment, &places, (&counts, cuts), stops) {
                Ok(stopped) => stops -= stopped,
                // There was no room to say where it was left.
                Err(_) if is_denied => continue,
                Err(what) => return Err(unsound(what)),
            }
            if let (Some(last), false) = (places.last(), jumps.is_empty()) {
                if !is_indirect(last.flow) {
                    return Err(unsound("it does not end with an indirect branch"));
                }
                went.extend(jumps.iter().map(|&(jump, count)| (last.insn, jump, count)));
            }
        }
        self.connect(adding, went);
        Ok(())
    }

    /// Says where branches go: where jumps went, and what follows each instruction.
    fn connect(&mut self, mut adding: Adding<'_>, went: Vec<(u32, &Jump, u64)>) {
        for (from, jump, count) in went {
            let Lies { unit, at, .. } = self.lies_in(&adding, jump.pc, jump.module);
            let to = self.known.get(unit, at).unwrap_or(NONE);
            self.went.push((from, to, count));
        }
        for (insn, next_pc, target) in core::mem::take(&mut adding.met) {
            let sum = &mut self.insns[insn as usize];
            if sum.next == NONE {
                sum.next = adding.by_pc.get(0, next_pc).unwrap_or(NONE);
            }
            if let (NONE, Some(target)) = (sum.target, target) {
                sum.target = adding.by_pc.get(0, target).unwrap_or(NONE);
            }
        }
    }

    /// Units of the modules of `process`.
    fn units(&mut self, process: &Process) -> Vec<u32> {
        let modules = process.modules.iter();
        modules
            .map(|module| {
                self.unit(Unit {
                    path: Some(module.path.clone()),
                    build_id: module.build_id.clone(),
                    process: None,
                })
            })
            .collect()
    }

    fn unit(&mut self, unit: Unit) -> u32 {
        *self.unit_of.entry(unit).or_insert_with_key(|unit| {
            self.units.push(unit.clone());
            self.units.len() as u32 - 1
        })
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.text_of.get(text) {
            return known;
        }
        self.texts.push(text.to_owned());
        let new = self.texts.len() as u32 - 1;
        self.text_of.insert(text.to_owned(), new);
        new
    }

    /// Place of an address, in the module that it has there.
    fn lies_in(&mut self, adding: &Adding<'_>, pc: u64, module: Option<u32>) -> Lies {
        let in_file = module.and_then(|index| {
            let module = adding.process.modules.get(index as usize)?;
            let offset = pc.wrapping_sub(module.start);
            Some(Lies {
                unit: *adding.units.get(index as usize)?,
                at: module.offset.wrapping_add(offset),
                module: index,
            })
        });
        in_file.unwrap_or_else(|| Lies {
            unit: self.unit(Unit {
                path: None,
                build_id: None,
                process: Some(adding.index),
            }),
            at: pc,
            module: NONE,
        })
    }

    fn decode(
        &mut self,
        adding: &mut Adding<'_>,
        fragment: &Fragment,
        places: &mut Vec<Place>,
    ) -> Result<(), &'static str> {
        let mut code = fragment.code.as_slice();
        for piece in &fragment.pieces {
            let lies = self.lies_in(adding, piece.pc, piece.module);
            let (mut bytes, rest) = code
                .split_at_checked(piece.len as usize)
                .ok_or("its code is shorter than its pieces")?;
            code = rest;
            let mut pc = piece.pc;
            while !bytes.is_empty() {
                let at = lies.at.wrapping_add(pc.wrapping_sub(piece.pc));
                let (insn, len, flow) = match self.known_insn(lies.unit, at, pc, bytes) {
                    Some(known) => known,
                    None => self.new_insn(adding.index, &lies, at, pc, bytes)?,
                };
                let next_pc = pc.wrapping_add(len as u64);
                let there = adding.by_pc.get(0, pc);
                if there.is_none() {
                    adding.by_pc.set(0, pc, insn);
                }
                if there != Some(insn) {
                    adding.met.push((insn, next_pc, target(flow)));
                }
                places.push(Place {
                    insn,
                    pc,
                    next_pc,
                    flow,
                });
                bytes = &bytes[len..];
                pc = next_pc;
            }
        }
        Ok(())
    }

    /// The instruction that `bytes` at this place begin with, its length and where it goes,
    /// if that is the newest one there.
    fn known_insn(
        &mut self,
        unit: u32,
        at: u64,
        pc: u64,
        bytes: &[u8],
    ) -> Option<(u32, usize, Flow)> {
        let known = self.known.get(unit, at)?;
        let sum = &self.insns[known as usize];
        // Elsewhere it goes elsewhere.
        let is_same = bytes.starts_with(&sum.bytes) && (sum.pc == pc || target(sum.flow).is_none());
        is_same.then_some((known, sum.bytes.len(), sum.flow))
    }

    /// Adds an instruction, decoded, whether it is known or not.
    fn new_insn(
        &mut self,
        process: usize,
        lies: &Lies,
        at: u64,
        pc: u64,
        bytes: &[u8],
    ) -> Result<(u32, usize, Flow), &'static str> {
        let insn = Insn::decode(bytes, pc).map_err(|_| "its code has bytes that are no code")?;
        let (len, flow) = (insn.len(), insn.flow());
        let code = Code::new(insn.bytes());
        let newest = self.known.get(lies.unit, at);
        if let Some(newest) = newest {
            let there = self.insns[newest as usize].bytes;
            let version = |code| (lies.unit, at, code);
            let older = || self.versions.get(&version(code)).copied();
            if let Some(known) = (there == code).then_some(newest).or_else(older) {
                return Ok((known, len, flow));
            }
            self.versions.insert(version(there), newest);
        }
        let new = u32::try_from(self.insns.len()).map_err(|_| TOO_MANY)?;
        if new == NONE {
            return Err(TOO_MANY);
        }
        self.known.set(lies.unit, at, new);
        if newest.is_some() {
            self.versions.insert((lies.unit, at, code), new);
        }
        self.insns.push(Sum {
            at,
            bytes: code,
            flow,
            count: 0,
            fell: 0,
            pc,
            process: process as u32,
            module: lies.module,
            unit: lies.unit,
            target: NONE,
            next: NONE,
        });
        Ok((new, len, flow))
    }

    /// Adds what `fragment` counted, and says how many threads ended in the middle of it, at most
    /// `stops`. `cuts`: before which instruction, how many were counted ahead, how often.
    fn count(
        &mut self,
        fragment: &Fragment,
        places: &[Place],
        (counts, cuts): (&[u64], &[(usize, i64, u64)]),
        stops: i128,
    ) -> Result<i128, &'static str> {
        let end = places.len();
        let mut stopped = 0;
        let tally::Tally {
            executed,
            left,
            last,
        } = tally::of(fragment, places, counts, cuts)?;
        let mut sums = Vec::with_capacity(end);
        for (at, place) in places.iter().enumerate() {
            let count = executed[at];
            let went_on = (at + 1 < end).then(|| executed[at + 1] + left[at + 1]);
            let fell = match last {
                _ if let Some(went_on) = went_on => match places[at + 1].is_behind_taken(place) {
                    true => count - went_on,
                    false => went_on,
                },
                Some((EventKind::Taken, taken)) => count - taken,
                Some((_, fell)) => fell,
                None => count,
            };
            if count < 0 || fell < 0 {
                return Err("something was executed less than never");
            }
            if !is_conditional(place.flow) {
                stopped += count - fell;
            }
            if fell > count || stopped > stops {
                return Err("it is left where there is no branch");
            }
            sums.push((count, fell));
        }
        for (place, (count, fell)) in places.iter().zip(sums) {
            let sum = &mut self.insns[place.insn as usize];
            let plus = |sum: u64, more: i128| sum.checked_add(u64::try_from(more).ok()?);
            sum.count = plus(sum.count, count).ok_or(TOO_LARGE)?;
            sum.fell = plus(sum.fell, fell).ok_or(TOO_LARGE)?;
        }
        Ok(stopped)
    }

    pub(super) fn finish(mut self, recording: &Recording) -> Result<Counts, Unsound> {
        let executed = (0u32..).zip(&self.insns).filter(|(_, sum)| sum.count > 0);
        let mut order: Vec<(u32, u64, u32)> =
            executed.map(|(old, sum)| (sum.unit, sum.at, old)).collect();
        order.sort_unstable();
        let mut new = vec![None; self.insns.len()];
        for (at, &(.., old)) in (0u32..).zip(&order) {
            new[old as usize] = Some(at);
        }
        let moved = |old: u32| new.get(old as usize).copied().flatten();
        let mut sources = Sources::new(recording, &self.texts_of);
        let insns = order.iter().map(|&(.., old)| {
            let sum = &self.insns[old as usize];
            Counted {
                unit: sum.unit,
                at: sum.at,
                bytes: sum.bytes,
                flow: sum.flow,
                count: sum.count,
                fell: sum.fell,
                target: moved(sum.target),
                next: moved(sum.next),
                source: sources.of(sum),
            }
        });
        let insns: Vec<Counted> = insns.collect();
        let executed = order.iter().map(|&(.., old)| &self.insns[old as usize]);
        let declared = declared(recording, executed.zip(&insns));
        // Branch and target as they are numbered now.
        let went = core::mem::take(&mut self.went).into_iter();
        let mut went: Vec<IndirectEdge> = went
            .filter_map(|(from, to, count)| {
                let (from, to) = (moved(from)?, moved(to));
                Some(IndirectEdge { from, to, count })
            })
            .collect();
        went.sort_unstable();
        let mut sums: Vec<IndirectEdge> = Vec::with_capacity(went.len());
        for went in went {
            match sums.last_mut() {
                Some(last) if (last.from, last.to) == (went.from, went.to) => {
                    last.count = last.count.checked_add(went.count).ok_or(Unsound {
                        process: 0,
                        fragment: 0,
                        what: TOO_LARGE,
                    })?;
                }
                _ => sums.push(went),
            }
        }
        Ok(Counts {
            units: self.units,
            texts: self.texts,
            insns,
            went: sums,
            declared,
        })
    }
}

/// Places at which executed functions are declared, as far as the recording says it.
fn declared<'a>(
    recording: &Recording,
    executed: impl Iterator<Item = (&'a Sum, &'a Counted)>,
) -> BTreeMap<(u32, u64), (String, u32)> {
    let processes = (0u32..).zip(&recording.processes);
    let all = processes.flat_map(|(number, process)| {
        let functions = process.functions.iter();
        functions.filter_map(move |function| {
            let place = (number, function.module?, function.file_offset);
            Some((place, (function.file.clone()?, function.line?)))
        })
    });
    let all: HashMap<(u32, u32, u64), (String, u32)> = all.collect();
    let mut declared = BTreeMap::new();
    let mut last = None;
    for (sum, insn) in executed {
        let Some((_, distance)) = insn.source.function else {
            continue;
        };
        let start = insn.at.wrapping_sub(distance);
        if last.replace((insn.unit, start)) == Some((insn.unit, start)) {
            continue;
        }
        if let Some(found) = all.get(&(sum.process, sum.module, start)) {
            declared.insert((insn.unit, start), found.clone());
        }
    }
    declared
}

/// Looks up where instructions come from, nearly in the order of the code.
struct Sources<'r> {
    recording: &'r Recording,
    texts_of: &'r [Vec<u32>],
    /// For each process, the number of rows before the one that was asked for last.
    behind: Vec<usize>,
}

impl<'r> Sources<'r> {
    fn new(recording: &'r Recording, texts_of: &'r [Vec<u32>]) -> Sources<'r> {
        Sources {
            recording,
            texts_of,
            behind: vec![0; texts_of.len()],
        }
    }

    fn of(&mut self, sum: &Sum) -> Source {
        /// Rows to go on by one by one.
        const NEAR: usize = 4;
        let process = sum.process as usize;
        let rows = &self.recording.processes[process].sources;
        let is_before = |row: &trace::Source| (row.module, row.offset) <= (sum.module, sum.at);
        let behind = &mut self.behind[process];
        let rest = &rows[*behind..];
        let near = rest
            .iter()
            .take(NEAR)
            .take_while(|row| is_before(row))
            .count();
        let is_there = near < NEAR && rows[..*behind].last().is_none_or(is_before);
        *behind = match is_there {
            true => *behind + near,
            false => rows.partition_point(is_before),
        };
        let row = rows[..*behind].last();
        let Some(row) = row.filter(|row| row.module == sum.module) else {
            return Source::default();
        };
        let texts = &self.texts_of[process];
        let text = |at: u32| texts.get(at as usize).copied();
        Source {
            function: row.function.and_then(|(name, distance)| {
                Some((
                    text(name)?,
                    distance.wrapping_add(sum.at.wrapping_sub(row.offset)),
                ))
            }),
            line: row.line.and_then(|(file, line)| Some((text(file)?, line))),
        }
    }
}
