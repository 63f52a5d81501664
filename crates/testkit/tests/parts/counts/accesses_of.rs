//! `everypath trace --memory` against the oracle: every access of every instruction, in order, with
//! and without those that follow from others, also in chaos, packed, and from keyframes on.
//!
//! Addresses differ between two runs, as mappings lie elsewhere. So each page of the stepped run has
//! to be moved by one distance, until the thread's next system call or handler.
//!
//! Values differ where they are addresses, or by chance (canaries, process ids). So, eight bytes at a
//! time, each value that is expected has one that stands for it, and the reverse, until then.
//!
//! Left out are accesses that general registers do not say (masks, vectors of indices, areas); that
//! their words are read is seen by what comes behind them.

use std::collections::HashMap;

use analysis::walk::packed;
use analysis::walk::segments::segments;
use analysis::walk::{self, AccessEvent, Accessed, Accesses, Pieces, Segment};
use isa::Flow;
use isa::memory::{Access, Selection};
use testkit::oracle::{Counts, Ran, ThreadCount, accesses::says_all};
use testkit::product::Run;
use trace::{Process, Recording, Thread};

use super::traces_of::{Place, places};

const CASES: [&[&str]; 4] = [
    &["addresses"],
    &["values", "--no-elision"],
    &["values", "--chaos", "3"],
    &["values", "--chaos", "7", "--buffer", "1", "--loads"],
];

/// Programs whose values are others when they are stepped, and why.
const OTHER_VALUES: [(&str, &str); 3] = [
    (
        "code_read_by_the_kernel",
        "the times of a file, of which some are equal in one run and not in another",
    ),
    (
        "process_fork_many",
        "children count themselves in shared memory, in any order",
    ),
    (
        "signal_action_values",
        "the kernel resets an ignored SIGTRAP that a step raises",
    ),
];

/// No program here repeats an instruction so often.
const MOST: u64 = 1 << 22;

/// An instruction that was executed, after so many system calls and handlers of its thread, and its accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    place: Place,
    pc: u64,
    calls: usize,
    accesses: Vec<Valued>,
}

/// An access with its values, where they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Valued {
    access: Access,
    read: Option<Vec<u8>>,
    written: Option<Vec<u8>>,
}

pub fn check(
    run: &Run<'_>,
    stepped: &Counts,
    module: Option<&str>,
    name: &str,
) -> Result<usize, String> {
    let differs = OTHER_VALUES.iter().find(|(program, _)| *program == name);
    if let Some((_, why)) = differs {
        println!("left    {name}, values: {why}");
    }
    let wanted = |name: &str| module.is_none_or(|module| module == name);
    let expected = stepped.threads.iter();
    let expected: Vec<_> = expected.map(|thread| of_oracle(thread, wanted)).collect();
    let mut compared = 0;
    for case in CASES {
        let words = ["--memory"].iter().chain(case);
        let options: Vec<String> = words.map(|&word| word.to_owned()).collect();
        let recording = run.trace(&options)?;
        let selection = walk::selection(&recording).ok_or("the trace says nothing of memory")?;
        let compare = |recording: &Recording| {
            let mut ours = of_recording(recording, selection, wanted)?;
            if differs.is_some() {
                let accesses = ours
                    .iter_mut()
                    .flatten()
                    .flat_map(|made| &mut made.accesses);
                accesses.for_each(|valued| (valued.read, valued.written) = (None, None));
            }
            same(ours, expected.clone(), selection)
        };
        let all = compare(&recording).and_then(|accesses| {
            let (packed, _) = packed::pack(&recording, 0).map_err(|why| format!("{why:?}"))?;
            compare(&packed).map_err(|error| format!("packed: {error}"))?;
            in_segments(&recording, selection)?;
            in_segments(&packed, selection).map_err(|error| format!("packed: {error}"))?;
            Ok(accesses)
        });
        compared += all.map_err(|error| format!("trace {}: {error}", options.join(" ")))?;
    }
    Ok(compared)
}

fn of_oracle(thread: &ThreadCount, wanted: impl Fn(&str) -> bool) -> Vec<Made> {
    let mut accesses = thread.accesses.iter().peekable();
    let mut calls = thread.calls.iter().peekable();
    let (mut all, mut made) = (Vec::new(), 0);
    for (index, ran) in thread.ran.iter().enumerate() {
        let own = std::iter::from_fn(|| accesses.next_if(|(at, _)| *at == index));
        let own = own.map(|(_, made)| Valued {
            access: made.access,
            read: made.access.kind.reads().then(|| made.before.clone()),
            written: made.access.kind.writes().then(|| made.behind.clone()),
        });
        let own: Vec<Valued> = own.collect();
        if let Ran::Instruction { pc, .. } = ran
            && let Some(spot) = thread.spots.get(pc)
            && wanted(&spot.module)
        {
            all.push(Made {
                place: (spot.module.clone(), spot.offset),
                pc: pc.0,
                calls: made,
                accesses: own,
            });
        }
        // The frame of a handler may lie elsewhere, too.
        let is_frame = matches!(ran, Ran::Interrupted(_));
        made += usize::from(calls.next_if(|at| **at == index).is_some() || is_frame);
    }
    all
}

fn of_recording(
    recording: &Recording,
    selection: Selection,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Vec<Made>>, String> {
    let mut threads = Vec::new();
    for process in &recording.processes {
        let places = places(process);
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let accesses = Accesses::new(&mut pieces, thread, selection);
            let (mut all, left) = read(accesses, &places)?;
            if left > 0 && thread.end_ns.is_some() {
                return Err(format!("{left} bytes of addresses are of no instruction"));
            }
            all.retain(|made| wanted(&made.place.0));
            threads.push(all);
        }
    }
    Ok(threads)
}

/// All instructions of a thread, and how many bytes of addresses are left.
fn read(
    mut accesses: Accesses<'_>,
    places: &HashMap<(u32, u64), Place>,
) -> Result<(Vec<Made>, u64), String> {
    let (mut all, mut calls): (Vec<Made>, _) = (Vec::new(), 0);
    let mut plain: HashMap<(u32, u64), bool> = HashMap::new();
    while let Some(event) = accesses.next() {
        let event = event.map_err(|error| format!("after {} instructions: {error}", all.len()))?;
        let AccessEvent::Executed(steps, accessed, bytes) = event else {
            continue;
        };
        let mut accessed = accessed.iter().peekable();
        let steps: Vec<_> = (0..)
            .zip(steps.to_vec())
            .map(|(at, step)| {
                let own = std::iter::from_fn(|| accessed.next_if(|one| one.step == at));
                let own: Vec<&Accessed> = own.collect();
                let most = own.iter().map(|one| one.times).max().unwrap_or(0).min(MOST);
                // The operands of a repeated instruction take turns.
                let step_by_step = |number| {
                    let own = own.iter().filter(move |one| number < one.times);
                    own.map(move |one| Valued {
                        access: one.at(number),
                        read: one.read.map(|value| bytes.of(value).to_vec()),
                        written: one.written.map(|value| bytes.of(value).to_vec()),
                    })
                };
                let own: Vec<Valued> = (0..most).flat_map(step_by_step).collect();
                (step, own)
            })
            .collect();
        for (step, mut own) in steps {
            let key = (step.fragment, step.pc);
            let says_all = plain.entry(key).or_insert_with(|| {
                let insn = accesses.code().find(&step);
                insn.is_some_and(|insn| says_all(&insn))
            });
            if !*says_all {
                own.clear();
            }
            let place = places.get(&key).cloned();
            all.push(Made {
                place: place.unwrap_or((String::new(), step.pc)),
                pc: step.pc,
                calls,
                accesses: own,
            });
            calls += usize::from(step.flow == Flow::Syscall);
        }
    }
    let left = accesses.left();
    Ok((all, left))
}

/// Threads are in no order. How many accesses were compared.
fn same(
    mut ours: Vec<Vec<Made>>,
    mut expected: Vec<Vec<Made>>,
    selection: Selection,
) -> Result<usize, String> {
    for threads in [&mut ours, &mut expected] {
        threads.retain(|thread| !thread.is_empty());
    }
    if ours.len() != expected.len() {
        let (ours, expected) = (ours.len(), expected.len());
        return Err(format!("{ours} threads, expected {expected}"));
    }
    let mut compared = 0;
    for expected in &expected {
        let found = ours.iter().map(|ours| compare(ours, expected, selection));
        let found: Vec<_> = found.collect();
        match found.iter().position(Result::is_ok) {
            Some(at) => {
                compared += expected
                    .iter()
                    .map(|made| made.accesses.len())
                    .sum::<usize>();
                ours.swap_remove(at);
            }
            None => {
                let furthest = found.into_iter().filter_map(Result::err);
                let furthest = furthest.max_by_key(|(at, _)| *at);
                return Err(furthest.map_or_else(String::new, |(_, error)| error));
            }
        }
    }
    Ok(compared)
}

/// The first difference: its place, and a sentence.
fn compare(ours: &[Made], expected: &[Made], selection: Selection) -> Result<(), (usize, String)> {
    let mut moved: HashMap<u64, u64> = HashMap::new();
    let mut changed = Changed::default();
    let mut calls = 0;
    for (at, (one, other)) in ours.iter().zip(expected).enumerate() {
        if other.calls != calls {
            calls = other.calls;
            moved.clear();
            changed.clear();
        }
        let wanted = |valued: &&Valued| {
            let kind = valued.access.kind;
            selection.loads && kind.reads() || selection.stores && kind.writes()
        };
        let expected: Vec<&Valued> = other.accesses.iter().filter(wanted).collect();
        let mut is_same = one.place == other.place && one.accesses.len() == expected.len();
        for (valued, expected) in one.accesses.iter().zip(&expected) {
            is_same &= changed.may_be(valued.read.as_deref(), expected.read.as_deref());
            is_same &= changed.may_be(valued.written.as_deref(), expected.written.as_deref());
            let (access, expected) = (valued.access, expected.access);
            let distance = access.address.wrapping_sub(expected.address);
            let page = expected.address >> 12;
            is_same &= *moved.entry(page).or_insert(distance) == distance;
            is_same &= (access.size, access.kind) == (expected.size, expected.kind);
        }
        if !is_same {
            return Err((
                at,
                format!("instruction {at}: {one:x?}, expected {other:x?}"),
            ));
        }
    }
    match ours.len() == expected.len() {
        true => Ok(()),
        false => Err((
            ours.len().min(expected.len()),
            format!("{} instructions, expected {}", ours.len(), expected.len()),
        )),
    }
}

/// Values that were expected, and what came instead, by their bytes; and the other way.
#[derive(Default)]
struct Changed {
    values: HashMap<Vec<u8>, Vec<u8>>,
    expected: HashMap<Vec<u8>, Vec<u8>>,
}

impl Changed {
    /// Bytes of values that are compared one by one, as so few can be equal by chance.
    const FEW: usize = 2;

    fn clear(&mut self) {
        self.values.clear();
        self.expected.clear();
    }

    /// Whether a value can be what was expected. One that is not known can be anything.
    fn may_be(&mut self, value: Option<&[u8]>, expected: Option<&[u8]>) -> bool {
        let (Some(value), Some(expected)) = (value, expected) else {
            return value.is_none();
        };
        let mut parts = value.chunks(8).zip(expected.chunks(8));
        let is_same = |(part, expected): (&[u8], &[u8])| {
            if part == expected && part.len() <= Changed::FEW {
                return true;
            }
            let known = |map: &mut HashMap<Vec<u8>, Vec<u8>>, from: &[u8], to: &[u8]| {
                map.entry(from.to_vec()).or_insert_with(|| to.to_vec()) == to
            };
            known(&mut self.values, expected, part) && known(&mut self.expected, part, expected)
        };
        value.len() == expected.len() && parts.all(is_same)
    }
}

/// Whether the segments of each thread give what all of it gives.
fn in_segments(recording: &Recording, selection: Selection) -> Result<(), String> {
    for process in &recording.processes {
        let places = places(process);
        for thread in &process.threads {
            let mut all = whole(process, thread, Segment::default(), selection, &places)?;
            for segment in segments(thread).into_iter().rev() {
                let own = whole(process, thread, segment, selection, &places)?;
                let same = |(one, other): (&Made, &Made)| {
                    (one.pc, &one.accesses) == (other.pc, &other.accesses)
                };
                let Some(rest) = all.len().checked_sub(own.len()) else {
                    return Err(format!("{segment:?} has too many instructions"));
                };
                if !all[rest..].iter().zip(&own).all(same) {
                    return Err(format!("{segment:?} has other accesses than the whole"));
                }
                all.truncate(rest);
            }
            if !all.is_empty() {
                return Err(format!("{} instructions are in no segment", all.len()));
            }
        }
    }
    Ok(())
}

fn whole(
    process: &Process,
    thread: &Thread,
    segment: Segment,
    selection: Selection,
    places: &HashMap<(u32, u64), Place>,
) -> Result<Vec<Made>, String> {
    let mut pieces = Pieces::of(process);
    let accesses = Accesses::of(&mut pieces, thread, segment, selection);
    read(accesses, places).map(|(all, _)| all)
}
