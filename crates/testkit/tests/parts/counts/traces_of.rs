//! `everypath trace` against the oracle: every instruction of every thread, in order,
//! also in chaos and with so little memory that the program has to wait for it. And its
//! branches, as they follow from that order, and as they are made again of what predictors
//! got wrong, also while the program ran; and the counts that are made of it. And every keyframe is a place to begin at,
//! and packed it is the same.

use std::collections::HashMap;

use analysis::counts::from_trace;
use analysis::raptor::{Config, TARGETS};
use analysis::walk::packed;
use analysis::walk::segments::{count, number, segments};
use analysis::walk::{self, Branches, Event, Item, Pieces, Runs, Segment, Stamp, Step, Walk, Why};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use report::mcf::Form;
use report::raptor::View;
use report::steps::counters::expected as expected_by_counters;
use testkit::oracle::{Counts, Ran};
use testkit::product::Run;
use trace::{Process, Recording, Thread, base_name};

/// Instructions around a difference that are shown.
const SHOWN: usize = 6;

const CASES: [&[&str]; 3] = [&[], &["--chaos", "3"], &["--chaos", "7", "--buffer", "1"]];

/// A file's name and an offset there; no file: an address.
pub type Place = (String, u64);

/// `counted` compares a recording as `everypath count` makes it.
pub fn check(
    run: &Run<'_>,
    stepped: &Counts,
    module: Option<&str>,
    counted: &dyn Fn(&Recording) -> Result<(), String>,
) -> Result<(), String> {
    let wanted = |name: &str| module.is_none_or(|module| module == name);
    let expected = expected(stepped, wanted);
    for options in CASES {
        let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let recording = followed(run, &options)?;
        let ours = executed(&recording, wanted);
        let compared = ours
            .and_then(|ours| same(ours, expected.clone()))
            .and_then(|()| counted(&from_trace::recording(&recording).0))
            .and_then(|()| counters(&recording))
            .and_then(|()| read_in_all_ways(&recording));
        compared.map_err(|error| format!("trace {}: {error}", options.join(" ")))?;
    }
    Ok(())
}

/// Whether each thread counted as many instructions as it executed, up to each keyframe and
/// to its end.
fn counters(recording: &Recording) -> Result<(), String> {
    let mut again = recording.clone();
    if let Some(error) = number(&mut again) {
        return Err(error.to_string());
    }
    for (process, again) in recording.processes.iter().zip(&again.processes) {
        for (thread, again) in process.threads.iter().zip(&again.threads) {
            if thread.missing.is_none() && thread.keyframes != again.keyframes {
                let tid = thread.tid;
                return Err(format!(
                    "keyframes of {tid} have other numbers than they say"
                ));
            }
        }
    }
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let (insns, _) = count(Walk::new(&mut pieces, thread));
            let expected = expected_by_counters(process, thread);
            if expected.is_some_and(|expected| expected != insns) {
                return Err(format!(
                    "{insns} instructions, and {expected:?} were counted"
                ));
            }
        }
    }
    Ok(())
}

/// A trace that was read while it was made, as it is read now.
pub fn followed(run: &Run<'_>, options: &[String]) -> Result<Recording, String> {
    let (recording, live) = run.followed(options)?;
    let threads = report::mcf::threads(&recording, None)?;
    let view = View {
        form: Form::Binary,
        disassemble: false,
    };
    let mut now = Vec::new();
    let written = report::raptor::write(&threads, &Config::default(), Some((view, &mut now)));
    written.map_err(|error| error.to_string())?;
    match live == now {
        true => Ok(recording),
        false => Err(format!(
            "trace {}: {} bytes of descriptors, {} while it ran",
            options.join(" "),
            now.len(),
            live.len()
        )),
    }
}

/// Whether all readers read the same.
pub fn read_in_all_ways(recording: &Recording) -> Result<(), String> {
    branches(recording)?;
    keyframes(recording)?;
    made_again(recording)?;
    packed(recording)
}

/// Instructions of wanted modules that each thread executes.
pub fn expected(stepped: &Counts, wanted: impl Fn(&str) -> bool) -> Vec<Vec<Place>> {
    let threads = stepped.threads.iter();
    let of = |thread: &testkit::oracle::ThreadCount| {
        let instructions = thread.ran.iter().filter_map(|ran| match ran {
            Ran::Instruction { pc, .. } => thread.spots.get(pc),
            Ran::Interrupted(_) => None,
        });
        let places = instructions.map(|spot| (spot.module.clone(), spot.offset));
        places.filter(|place| wanted(&place.0)).collect()
    };
    threads.map(of).collect()
}

pub fn executed(
    recording: &Recording,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Vec<Place>>, String> {
    let mut threads = Vec::new();
    for process in &recording.processes {
        let places = places(process);
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let mut all = Vec::new();
            let mut walk = Walk::new(&mut pieces, thread);
            while let Some(event) = walk.next() {
                let event =
                    event.map_err(|error| format!("after {} instructions: {error}", all.len()))?;
                if let Event::Executed(steps) = event {
                    all.extend(steps.iter().map(|step| {
                        let place = places.get(&(step.fragment, step.pc));
                        place.cloned().unwrap_or((String::new(), step.pc))
                    }));
                }
            }
            all.retain(|(name, _)| wanted(name));
            threads.push(all);
        }
    }
    Ok(threads)
}

/// Module and offset of every byte of code.
pub fn places(process: &Process) -> HashMap<(u32, u64), Place> {
    let mut places = HashMap::new();
    for fragment in &process.fragments {
        for piece in &fragment.pieces {
            let module = piece.module.and_then(|at| process.modules.get(at as usize));
            let Some(module) = module else { continue };
            let name = base_name(&module.path);
            for pc in piece.pc..piece.pc + u64::from(piece.len) {
                let place = || (name.to_owned(), pc - module.start + module.offset);
                places.entry((fragment.id, pc)).or_insert_with(place);
            }
        }
    }
    places
}

/// Threads are in no order.
pub fn same(mut ours: Vec<Vec<Place>>, mut expected: Vec<Vec<Place>>) -> Result<(), String> {
    for threads in [&mut ours, &mut expected] {
        threads.retain(|thread| !thread.is_empty());
        threads.sort();
    }
    if ours.len() != expected.len() {
        let (ours, expected) = (ours.len(), expected.len());
        return Err(format!("{ours} threads, expected {expected}"));
    }
    for (ours, expected) in ours.iter().zip(&expected) {
        let pairs = ours.iter().zip(expected);
        let same = pairs
            .take_while(|(ours, expected)| ours == expected)
            .count();
        if same < ours.len().max(expected.len()) {
            let show = |places: &[Place]| {
                let from = same.saturating_sub(SHOWN).min(places.len());
                let shown = &places[from..places.len().min(same + SHOWN)];
                let shown = shown.iter().map(|(name, at)| format!("{name}+{at:#x}"));
                shown.collect::<Vec<_>>().join(" ")
            };
            return Err(format!(
                "after {same} of {} instructions\n  {}\nexpected {}\n  {}",
                ours.len(),
                show(ours),
                expected.len(),
                show(expected)
            ));
        }
    }
    Ok(())
}

/// Whether it can be packed, in as many segments as there can be, each of which is read and
/// compared; and has its times and its stack pointers then.
fn packed(recording: &Recording) -> Result<(), String> {
    let packed = packed::pack(recording, 0).and_then(|(packed, digests)| {
        packed::check(&packed, &digests)?;
        Ok(packed)
    });
    let packed = packed.map_err(|refused| format!("{refused:?}"))?;
    for (process, packed) in recording.processes.iter().zip(&packed.processes) {
        for (thread, packed_thread) in process.threads.iter().zip(&packed.threads) {
            let (before, after) = (times(process, thread), times(packed, packed_thread));
            if before != after {
                return Err(format!("{} times, packed {}", before.len(), after.len()));
            }
            let (before, after) = (stacks(process, thread), stacks(packed, packed_thread));
            if before != after {
                let (before, after) = (before.len(), after.len());
                return Err(format!("{before} stack pointers, packed {after}"));
            }
        }
    }
    Ok(())
}

/// Stamps, and how many instructions are before each.
fn times(process: &Process, thread: &Thread) -> Vec<(u64, Stamp)> {
    let mut pieces = Pieces::of(process);
    let mut walk = Walk::new(&mut pieces, thread).with_stamps();
    let (mut insns, mut all) = (0, Vec::new());
    while let Some(event) = walk.next() {
        match event {
            Ok(Event::Executed(steps)) => insns += steps.len() as u64,
            Ok(Event::Stamp(stamp)) => all.push((insns, stamp)),
            _ => {}
        }
    }
    all
}

/// Stack pointers, each with the number of instructions before it.
fn stacks(process: &Process, thread: &Thread) -> Vec<(u64, u64)> {
    let mut pieces = Pieces::of(process);
    let (mut insns, mut all) = (0, Vec::new());
    for did in Runs::new(&mut pieces, thread).with_stacks() {
        match did {
            Ok(walk::RunEvent::Ran(run)) => insns += run.len(),
            Ok(walk::RunEvent::Stack(sp)) => all.push((insns, sp)),
            _ => {}
        }
    }
    all
}

/// Whether descriptors of predictors and the code give all branches again.
fn made_again(recording: &Recording) -> Result<(), String> {
    let config = Config {
        targets: TARGETS.iter().find(|row| row.decodable).ok_or("no row")?,
        ..Config::default()
    };
    let threads = report::mcf::threads(recording, None)?;
    report::raptor::check(&threads, &config).map(|_| ())
}

/// An instruction, or where control went without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunEvent {
    Executed(Step),
    Went(Why, u64),
}

fn did(pieces: &mut Pieces, thread: &Thread, segment: Segment) -> Result<Vec<RunEvent>, String> {
    events(Walk::of(pieces, thread, segment), segment)
}

fn events(mut walk: Walk<'_>, segment: Segment) -> Result<Vec<RunEvent>, String> {
    let mut all = Vec::new();
    while let Some(event) = walk.next() {
        match event.map_err(|error| format!("{segment:?}: {error}"))? {
            Event::Stamp(_) => {}
            Event::Executed(steps) => all.extend(steps.iter().copied().map(RunEvent::Executed)),
            Event::Went { why, to } => all.push(RunEvent::Went(why, to)),
        }
    }
    Ok(all)
}

/// Instructions that are walked from keyframes to the end of a thread; then it is only from
/// one keyframe to the next.
const ONWARD: usize = 50_000_000;

/// Whether what is executed from a keyframe on is the end of what is executed at all.
fn keyframes(recording: &Recording) -> Result<(), String> {
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let segments = segments(thread);
            if segments.len() <= thread.keyframes.len() {
                return Err("a keyframe is not where it could be".to_owned());
            }
            let mut whole = did(&mut pieces, thread, Segment::default())?;
            let stamped = Walk::of(&mut pieces, thread, Segment::default()).with_stamps();
            if events(stamped, Segment::default())? != whole {
                return Err("with stamps, other instructions are executed".to_owned());
            }
            let (mut onward, mut behind) = (0, Vec::new());
            for segment in segments.into_iter().rev() {
                let own = did(&mut pieces, thread, segment)?;
                if onward < ONWARD {
                    let rest = did(&mut pieces, thread, segment.onward())?;
                    onward += rest.len();
                    if rest != [own.clone(), behind].concat() {
                        return Err(format!("{segment:?} does not begin what follows"));
                    }
                    behind = rest;
                }
                if !whole.ends_with(&own) {
                    return Err(format!("{segment:?} is not what was executed there"));
                }
                whole.truncate(whole.len() - own.len());
            }
            if !whole.is_empty() {
                return Err(format!("{} are before the first segment", whole.len()));
            }
        }
    }
    Ok(())
}

/// A branch: which instruction of the thread it is, where, whether it was taken, its
/// target; `None`: what was executed behind it does not say.
type Branch = (u64, u64, Option<bool>, Option<u64>);

/// Whether branches are read as the instructions and their order say.
fn branches(recording: &Recording) -> Result<(), String> {
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let expected = expected_branches(&mut Walk::new(&mut pieces, thread));
            let mut number = 0;
            for item in Branches::new(&mut pieces, thread) {
                let Ok(Item::Branch(branch)) = item else {
                    continue;
                };
                let Some(&(at, pc, taken, target)) = expected.get(number) else {
                    return Err(format!("a branch too many: {branch:x?}"));
                };
                let same = (at, pc) == (branch.number, branch.pc)
                    && taken.is_none_or(|taken| taken == branch.taken)
                    && target.is_none_or(|target| target == branch.target);
                if !same {
                    let expected = expected[number];
                    return Err(format!("{branch:x?}, expected {expected:x?}"));
                }
                number += 1;
            }
            if number != expected.len() {
                return Err(format!("{number} branches, expected {}", expected.len()));
            }
        }
    }
    Ok(())
}

fn expected_branches(walk: &mut Walk<'_>) -> Vec<Branch> {
    let mut branches = Vec::new();
    let mut number = 0;
    // The instruction before.
    let mut last: Option<Instruction> = None;
    while let Some(Ok(event)) = walk.next() {
        let steps = match event {
            Event::Executed(steps) => steps.to_vec(),
            Event::Stamp(_) => continue,
            Event::Went { .. } => {
                branches.extend(last.take().and_then(|insn| branch(&insn, number, None)));
                continue;
            }
        };
        for step in steps {
            branches.extend(last.and_then(|insn| branch(&insn, number, Some(step.pc))));
            number += 1;
            let bytes = walk.code().bytes(&step);
            let mut insn = Instruction::default();
            Decoder::with_ip(64, &bytes, step.pc, DecoderOptions::NONE).decode_out(&mut insn);
            last = Some(insn);
        }
    }
    branches.extend(last.and_then(|insn| branch(&insn, number, None)));
    branches
}

/// The branch that an instruction is, with its outcome by what is executed next.
fn branch(insn: &Instruction, number: u64, next: Option<u64>) -> Option<Branch> {
    let target = insn.near_branch_target();
    let (taken, target) = match insn.flow_control() {
        FlowControl::ConditionalBranch if target == insn.next_ip() => (None, Some(target)),
        FlowControl::ConditionalBranch => (next.map(|next| next == target), Some(target)),
        FlowControl::UnconditionalBranch if !insn.is_jmp_far() => (Some(true), Some(target)),
        FlowControl::Call if insn.is_call_near() => (Some(true), Some(target)),
        FlowControl::IndirectBranch if insn.is_jmp_near_indirect() => (Some(true), next),
        FlowControl::IndirectCall if insn.is_call_near_indirect() => (Some(true), next),
        FlowControl::Return if insn.mnemonic() == Mnemonic::Ret => (Some(true), next),
        _ => return None,
    };
    Some((number, insn.ip(), taken, target))
}
