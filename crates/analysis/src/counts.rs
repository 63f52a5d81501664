//! Counts of instructions, branches, blocks and edges, from those of fragments.
//!
//! Problem: the recording says how often pieces of fragments were executed, and
//! where signals and faults cut them. The same instruction is in several fragments,
//! and the same file is in several processes at other addresses.
//!
//! Approach: a fragment's events and cuts give, at each of its instructions, how
//! often it was executed, and between two of them how often control went on: the
//! rest left there, which only a branch can do. Both are added up over fragments,
//! instruction by instruction. An instruction is the same if its file, its offset
//! there and its bytes are; code in no file is that of one process.
//! [`blocks`] makes basic blocks and edges of that.
//!
//! Invariants: the sum of all counts is what the threads retired; no instruction
//! but a branch is left elsewhere than to its successor. Fragments that contradict
//! themselves, as damage or a stranger makes them, are an error ([`Unsound`]).
//!
//! Where an indirect jump, call or return went is told by its fragment's jumps, each with
//! the module that was at the target then.
//!
//! Limits: recordings older than version 6 do not say where these went. Of code that was
//! written over, one of those that were there is what a jump went to.

pub mod blocks;
mod code;
pub mod from_trace;
pub mod hot;
pub mod lines;
mod tally;
pub mod transfers;

use std::collections::BTreeMap;
use std::fmt;

pub use code::Code;
use hashbrown::HashMap;
use isa::{Flow, Insn};
use trace::{EventKind, Fragment, Jump, Process, Recording};

/// A file, or the code of one process that is in no file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// `None`: no file.
    pub path: Option<String>,
    pub build_id: Option<Vec<u8>>,
    /// Index of the process, of code in no file.
    pub process: Option<usize>,
}

/// One instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Index into [`Counts::units`].
    pub unit: u32,
    /// Offset in the file; in no file, the address.
    pub at: u64,
    pub bytes: Code,
    pub flow: Flow,
    /// Executions.
    pub count: u64,
    /// Of them, those behind which control arrived at the next instruction.
    pub fell: u64,
    /// Where a direct branch goes, as far as that was executed.
    pub target: Option<u32>,
    /// The next instruction, as far as it was executed.
    pub next: Option<u32>,
    pub source: Source,
}

/// What is known of where an instruction comes from; texts by index into
/// [`Counts::texts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The function's name, and the distance from its start.
    pub function: Option<(u32, u64)>,
    /// File and line.
    pub line: Option<(u32, u32)>,
}

impl Counted {
    /// A conditional branch.
    pub fn is_conditional(&self) -> bool {
        is_conditional(self.flow)
    }

    /// A branch that goes where a register or memory says, also a return.
    pub fn is_indirect(&self) -> bool {
        is_indirect(self.flow)
    }

    /// How often a branch was taken.
    pub fn taken(&self) -> u64 {
        self.count - self.fell
    }
}

/// What was counted, all threads and processes that were asked for together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub units: Vec<Unit>,
    pub texts: Vec<String>,
    /// By unit and place.
    pub insns: Vec<Counted>,
    /// Where indirect jumps, calls and returns went, by index of the branch.
    pub went: Vec<Went>,
}

/// An indirect jump, call or return, and one place to which it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Went {
    /// Indices into [`Counts::insns`]; `None`: nothing was executed there.
    pub from: u32,
    pub to: Option<u32>,
    pub count: u64,
}

impl Counts {
    /// Where the branch with this index went.
    pub fn went_from(&self, branch: usize) -> &[Went] {
        let before = |went: &Went| (went.from as usize) < branch;
        let rest = &self.went[self.went.partition_point(before)..];
        let own = rest.partition_point(|went| went.from as usize == branch);
        &rest[..own]
    }
}

/// Why a recording cannot be counted up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// Index of the process, and number of the fragment.
    pub process: usize,
    pub fragment: u32,
    pub what: &'static str,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fragment {} of process {} contradicts itself: {}; the recording is damaged",
            self.fragment, self.process, self.what
        )
    }
}

impl std::error::Error for Unsound {}

/// Of all threads of all processes.
pub fn of_recording(recording: &Recording) -> Result<Counts, Unsound> {
    of(recording, |_, _| true)
}

/// Of the threads that `wanted` says by the indices of process and thread.
pub fn of(recording: &Recording, wanted: impl Fn(usize, usize) -> bool) -> Result<Counts, Unsound> {
    let mut table = Table::default();
    for (index, process) in recording.processes.iter().enumerate() {
        let mut slots: HashMap<u64, u64> = HashMap::new();
        for (at, thread) in process.threads.iter().enumerate() {
            if wanted(index, at) {
                for counted in &thread.counts {
                    let sum = slots.entry(counted.slot).or_default();
                    *sum = sum.saturating_add(counted.count);
                }
            }
        }
        table.add(index, process, &slots)?;
    }
    table.finish()
}

/// An instruction while its counts are added up.
struct Sum {
    unit: u32,
    at: u64,
    bytes: Code,
    flow: Flow,
    count: u128,
    fell: u128,
    target: Option<u32>,
    next: Option<u32>,
    source: Source,
    /// Another one at this place, which has other bytes.
    other: Option<u32>,
}

#[derive(Default)]
struct Table {
    texts: Vec<String>,
    text_of: HashMap<String, u32>,
    units: Vec<Unit>,
    unit_of: HashMap<Unit, u32>,
    insns: Vec<Sum>,
    /// By unit and place, one of those there.
    known: HashMap<(u32, u64), u32>,
    /// By branch and target.
    went: HashMap<(u32, Option<u32>), u128>,
}

/// An instruction of a fragment.
struct Place {
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

impl Table {
    fn add(
        &mut self,
        index: usize,
        process: &Process,
        slots: &HashMap<u64, u64>,
    ) -> Result<(), Unsound> {
        let units = self.units(process);
        let texts: Vec<u32> = process.texts.iter().map(|text| self.text(text)).collect();
        let cuts = tally::cuts(process, slots);
        let jumps = tally::jumps(process, slots);
        let mut went: Vec<(u32, &Jump, u64)> = Vec::new();
        // Instructions by address, for targets; of several, the first.
        let mut by_pc: HashMap<u64, u32> = HashMap::new();
        let mut met: Vec<Place> = Vec::new();
        let (mut places, mut counts) = (Vec::new(), Vec::new());
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
            self.decode(index, process, (&units, &texts), fragment, &mut places)
                .map_err(unsound)?;
            for place in &places {
                by_pc.entry(place.pc).or_insert(place.insn);
            }
            self.count(fragment, &places, &counts, cuts)
                .map_err(unsound)?;
            if let (Some(last), false) = (places.last(), jumps.is_empty()) {
                if !is_indirect(last.flow) {
                    return Err(unsound("it does not end with an indirect branch"));
                }
                went.extend(jumps.iter().map(|&(jump, count)| (last.insn, jump, count)));
            }
            met.append(&mut places);
        }
        for (from, jump, count) in went {
            let place = self.lies_in(index, process, &units, jump.pc, jump.module);
            let to = self.known.get(&place).copied();
            *self.went.entry((from, to)).or_default() += u128::from(count);
        }
        for place in met {
            let sum = &mut self.insns[place.insn as usize];
            sum.next = sum.next.or_else(|| by_pc.get(&place.next_pc).copied());
            if let Some(target) = target(place.flow) {
                sum.target = sum.target.or_else(|| by_pc.get(&target).copied());
            }
        }
        Ok(())
    }

    /// Of each module of `process`.
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

    /// Unit and place of an address, in the module that it has there.
    fn lies_in(
        &mut self,
        index: usize,
        process: &Process,
        units: &[u32],
        pc: u64,
        module: Option<u32>,
    ) -> (u32, u64) {
        let in_file = module.and_then(|at| {
            let module = process.modules.get(at as usize)?;
            let offset = pc.wrapping_sub(module.start);
            Some((*units.get(at as usize)?, module.offset.wrapping_add(offset)))
        });
        in_file.unwrap_or_else(|| {
            let unit = self.unit(Unit {
                path: None,
                build_id: None,
                process: Some(index),
            });
            (unit, pc)
        })
    }

    fn decode(
        &mut self,
        index: usize,
        process: &Process,
        (units, texts): (&[u32], &[u32]),
        fragment: &Fragment,
        places: &mut Vec<Place>,
    ) -> Result<(), &'static str> {
        let mut code = fragment.code.as_slice();
        for piece in &fragment.pieces {
            let (unit, start) = self.lies_in(index, process, units, piece.pc, piece.module);
            let (mut bytes, rest) = code
                .split_at_checked(piece.len as usize)
                .ok_or("its code is shorter than its pieces")?;
            code = rest;
            let mut pc = piece.pc;
            while !bytes.is_empty() {
                let insn =
                    Insn::decode(bytes, pc).map_err(|_| "its code has bytes that are no code")?;
                let at = start.wrapping_add(pc.wrapping_sub(piece.pc));
                let source = || match piece.module {
                    Some(module) => source(process, texts, module, at),
                    None => Source::default(),
                };
                places.push(Place {
                    insn: self.insn(unit, at, &insn, source)?,
                    pc,
                    next_pc: insn.next_pc(),
                    flow: insn.flow(),
                });
                bytes = &bytes[insn.len()..];
                pc = insn.next_pc();
            }
        }
        Ok(())
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

    fn insn(
        &mut self,
        unit: u32,
        at: u64,
        insn: &Insn,
        source: impl FnOnce() -> Source,
    ) -> Result<u32, &'static str> {
        let new = u32::try_from(self.insns.len()).map_err(|_| "there are too many instructions")?;
        let first = self.known.entry((unit, at)).or_insert(new);
        let mut known = (*first != new).then_some(*first);
        while let Some(at) = known {
            let sum = &self.insns[at as usize];
            if *sum.bytes == *insn.bytes() {
                return Ok(at);
            }
            known = sum.other;
        }
        let other = (*first != new).then_some(*first);
        *first = new;
        self.insns.push(Sum {
            unit,
            at,
            bytes: Code::new(insn.bytes()),
            flow: insn.flow(),
            count: 0,
            fell: 0,
            target: None,
            next: None,
            source: source(),
            other,
        });
        Ok(new)
    }

    /// Adds what `fragment` counted. `cuts`: before which instruction, how many
    /// were counted ahead, how often.
    fn count(
        &mut self,
        fragment: &Fragment,
        places: &[Place],
        counts: &[u64],
        cuts: &[(usize, i64, u64)],
    ) -> Result<(), &'static str> {
        let end = places.len();
        let tally::Tally {
            executed,
            left,
            last,
        } = tally::of(fragment, places, counts, cuts)?;
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
            let (Ok(count), Ok(fell)) = (u128::try_from(count), u128::try_from(fell)) else {
                return Err("something was executed less than never");
            };
            if fell > count || fell < count && !is_conditional(place.flow) {
                return Err("it is left where there is no branch");
            }
            let sum = &mut self.insns[place.insn as usize];
            sum.count += count;
            sum.fell += fell;
        }
        Ok(())
    }

    fn finish(self) -> Result<Counts, Unsound> {
        let too_large = Unsound {
            process: 0,
            fragment: 0,
            what: "a count is more than 64 bits hold",
        };
        let executed = self
            .insns
            .iter()
            .enumerate()
            .filter(|(_, sum)| sum.count > 0);
        let mut order: Vec<(u32, u64, usize)> =
            executed.map(|(old, sum)| (sum.unit, sum.at, old)).collect();
        order.sort_unstable();
        let mut new = vec![None; self.insns.len()];
        for (at, &(.., old)) in order.iter().enumerate() {
            new[old] = Some(at as u32);
        }
        let moved = |old: Option<u32>| new[old? as usize];
        let number = |count: u128| u64::try_from(count).map_err(|_| too_large);
        let mut out = Vec::with_capacity(order.len());
        for (.., old) in order {
            let sum = &self.insns[old];
            out.push(Counted {
                unit: sum.unit,
                at: sum.at,
                bytes: sum.bytes,
                flow: sum.flow,
                count: number(sum.count)?,
                fell: number(sum.fell)?,
                target: moved(sum.target),
                next: moved(sum.next),
                source: sum.source,
            });
        }
        let mut sums: BTreeMap<(u32, Option<u32>), u128> = BTreeMap::new();
        for ((from, to), count) in self.went {
            if let Some(from) = new[from as usize] {
                *sums.entry((from, moved(to))).or_default() += count;
            }
        }
        let mut went = Vec::with_capacity(sums.len());
        for ((from, to), count) in sums {
            let count = number(count)?;
            went.push(Went { from, to, count });
        }
        Ok(Counts {
            units: self.units,
            texts: self.texts,
            insns: out,
            went,
        })
    }
}

/// The offsets of all recorded instructions, ascending, by module of the process.
pub fn offsets(process: &Process) -> Vec<(u32, Vec<u64>)> {
    let mut offsets: HashMap<u32, Vec<u64>> = HashMap::new();
    for fragment in &process.fragments {
        let mut code = fragment.code.as_slice();
        for piece in &fragment.pieces {
            let Some((mut bytes, rest)) = code.split_at_checked(piece.len as usize) else {
                break;
            };
            code = rest;
            let module = piece
                .module
                .filter(|&at| (at as usize) < process.modules.len());
            let Some(module) = module else { continue };
            let (start, offset) = {
                let module = &process.modules[module as usize];
                (module.start, module.offset)
            };
            let mut pc = piece.pc;
            let of_module = offsets.entry(module).or_default();
            while let Ok(insn) = Insn::decode(bytes, pc) {
                of_module.push(offset.wrapping_add(pc.wrapping_sub(start)));
                bytes = &bytes[insn.len()..];
                pc = insn.next_pc();
            }
        }
    }
    for of_module in offsets.values_mut() {
        of_module.sort_unstable();
        of_module.dedup();
    }
    let mut offsets: Vec<(u32, Vec<u64>)> = offsets.into_iter().collect();
    offsets.sort_unstable_by_key(|(module, _)| *module);
    offsets
}

/// Where the code of a module at an offset comes from.
fn source(process: &Process, texts: &[u32], module: u32, at: u64) -> Source {
    let behind = process
        .sources
        .partition_point(|source| (source.module, source.offset) <= (module, at));
    let row = behind.checked_sub(1).and_then(|at| process.sources.get(at));
    let Some(row) = row.filter(|row| row.module == module) else {
        return Source::default();
    };
    let text = |at: u32| texts.get(at as usize).copied();
    Source {
        function: row.function.and_then(|(name, distance)| {
            Some((
                text(name)?,
                distance.wrapping_add(at.wrapping_sub(row.offset)),
            ))
        }),
        line: row.line.and_then(|(file, line)| Some((text(file)?, line))),
    }
}

/// Where a direct branch goes.
fn target(flow: Flow) -> Option<u64> {
    match flow {
        Flow::Jump(target)
        | Flow::Cond(_, target)
        | Flow::CountJump(target)
        | Flow::Call(target)
        | Flow::TransactionBegin(target) => Some(target),
        _ => None,
    }
}

fn is_indirect(flow: Flow) -> bool {
    matches!(
        flow,
        Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_)
    )
}

fn is_conditional(flow: Flow) -> bool {
    matches!(flow, Flow::Cond(..) | Flow::CountJump(_))
}
