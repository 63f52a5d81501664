//! Counts and contexts of any trace: those that were damaged, and those that nobody recorded.
//! They give something or say why not, and end.

use std::sync::Arc;

use analysis::K;
use analysis::activations::contexts::{self, Wanted};
use analysis::activations::{Extent, Rules};
use analysis::cct::Recursion;
use analysis::counts::from_trace;
use analysis::pack::{Coder, Encoder, Model};
use analysis::walk::packed;
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::{Cost, Fragment, Mode, Part, Piece, Process, Recording, Thread};

fn recorded(name: &str) -> Recording {
    let path = format!("../trace/tests/recordings/{name}.evp");
    trace::read(std::fs::File::open(path).unwrap()).unwrap()
}

/// Functions of a module as its file might say, by a number: of all lengths and kinds.
fn extents(mut number: u64) -> Vec<Extent> {
    let mut start = 0;
    let mut owner = 0;
    let of = |_| {
        number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        let bit = |at: u64| number >> at & 3 == 0;
        start += number % 90;
        if bit(8) {
            owner = start;
        }
        Extent {
            start,
            end: start + number % 100,
            owner,
            is_entry: owner == start,
            is_stub: bit(10) && bit(12),
            is_lazy: bit(14) && bit(16),
            resumes: bit(18),
        }
    };
    (0..2000).map(of).collect()
}

/// All that is made of traces; how many instructions, and what was said.
fn make(traced: &Recording, number: u64) -> (u64, Vec<String>) {
    let (counts, mut said) = from_trace::recording(traced);
    assert!(counts.meta.mode == Mode::Counts && counts.processes.len() == traced.processes.len());
    let wanted = Wanted {
        k: match number % 4 {
            0 => K::Infinite,
            k => K::Finite(k as u32),
        },
        recursion: Recursion::from(number.is_multiple_of(3)),
        rules: Rules {
            self_jumps: number.is_multiple_of(5),
        },
        costs: vec![Cost::Instructions, Cost::Stores],
    };
    let (made, more) = contexts::recording(traced, &wanted, &mut |_, at| {
        extents(number ^ u64::from(at))
    });
    let threads = made.processes.iter().flat_map(|process| &process.threads);
    for thread in threads {
        let insns: u64 = thread.costs[0].values.iter().sum();
        assert_eq!(insns, thread.insns, "all costs are of contexts");
    }
    let threads = counts.processes.iter().flat_map(|process| &process.threads);
    said.extend(more);
    (threads.map(|thread| thread.insns).sum(), said)
}

fn parts(thread: &Thread) -> Vec<(u16, Vec<u8>)> {
    let parts = thread.stream.iter();
    parts
        .map(|part| (part.stream, part.unpack().unwrap()))
        .collect()
}

fn put(thread: &mut Thread, parts: &[(u16, Vec<u8>)]) {
    let parts = parts.iter().filter(|(_, raw)| !raw.is_empty());
    let part = |(stream, raw): &(u16, Vec<u8>)| {
        let mut part = Part::pack(raw).unwrap();
        part.stream = *stream;
        part
    };
    thread.stream = parts.map(part).collect();
}

#[test]
fn streams_that_were_cut_or_turned_over_do_no_harm() {
    for name in ["6-trace", "7-trace", "10-trace", "11-trace"] {
        let whole = recorded(name);
        let (all, said) = make(&whole, 1);
        assert!(said.is_empty() && all > 0, "{said:?}");
        let mut failed = 0;
        for process in 0..whole.processes.len() {
            let raw = parts(&whole.processes[process].threads[0]);
            for (which, (_, bytes)) in raw.iter().enumerate() {
                let step = bytes.len() / 12 + 1;
                for at in (0..bytes.len()).step_by(step) {
                    let (mut cut, mut turned) = (raw.clone(), raw.clone());
                    cut[which].1.truncate(at);
                    turned[which].1[at] ^= 1 << (at % 8);
                    for raw in [cut, turned] {
                        let mut damaged = whole.clone();
                        put(&mut damaged.processes[process].threads[0], &raw);
                        failed += usize::from(!make(&damaged, at as u64).1.is_empty());
                    }
                }
            }
        }
        assert!(failed > 10, "{name}: {failed}");
    }
}

/// One alteration of what the reader of files cannot find to be wrong.
fn alter(recording: &mut Recording, u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.choose_index(recording.processes.len())?;
    let process = &mut recording.processes[at];
    match u.int_in_range(0..=8)? {
        0 => {
            // Parents come before their children.
            process.parent = (at > 0).then_some(u.int_in_range(0..=at.max(1) - 1)?);
            process.by_fork = u.arbitrary()?;
        }
        1 => {
            let copy = process.clone();
            recording.processes.push(Process {
                parent: Some(at),
                by_fork: true,
                ..copy
            });
        }
        2 => {
            let thread = process.threads.first().cloned();
            process.threads.extend(thread);
        }
        3 => process.threads.clear(),
        4 => process.modules.truncate(u.int_in_range(0..=2)?),
        5 => process.targets.reverse(),
        6 if !process.fragments.is_empty() => {
            let which = u.choose_index(process.fragments.len())?;
            let fragment = Arc::make_mut(&mut process.fragments[which]);
            match (u.arbitrary()?, &mut fragment.pieces[..]) {
                (true, [piece, ..]) => {
                    piece.pc = u64::MAX - u.int_in_range(0..=70)?;
                    piece.module = u.arbitrary()?;
                }
                _ => fragment.code.reverse(),
            }
        }
        7 if !process.modules.is_empty() => {
            let which = u.choose_index(process.modules.len())?;
            let module = &mut process.modules[which];
            (module.start, module.offset) = (u.arbitrary()?, u.arbitrary()?);
        }
        _ => {
            let threads = process.threads.len();
            if threads > 0 {
                let thread = &mut process.threads[u.choose_index(threads)?];
                let mut raw = parts(thread);
                for (_, bytes) in &mut raw {
                    let at = u.choose_index(bytes.len().max(1))?;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = u.arbitrary()?;
                    }
                }
                put(thread, &raw);
            }
        }
    }
    Ok(())
}

#[test]
fn odd_parents_threads_modules_and_code_do_no_harm() {
    let whole = ["6-trace", "7-trace"].map(recorded);
    arbtest(|u| {
        let mut recording = u.choose(&whole)?.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            alter(&mut recording, u)?;
        }
        make(&recording, u.arbitrary()?);
        Ok(())
    })
    .budget_ms(3000);
}

/// The model believes anything: a few bytes, and it goes on.
#[test]
fn packed_streams_of_any_bytes_do_no_harm() {
    let mut whole = Vec::new();
    for name in ["6-trace", "7-trace", "8-trace", "10-trace"] {
        for least in [packed::SEGMENT, 3000] {
            whole.push(packed::pack(&recorded(name), least).unwrap().0);
        }
    }
    for recording in &whole {
        assert!(make(recording, 1).1.is_empty());
    }
    arbtest(|u| {
        let mut recording = u.choose(&whole)?.clone();
        let process = u.choose_index(recording.processes.len())?;
        let thread = &mut recording.processes[process].threads[0];
        let mut raw = parts(thread);
        let which = u.choose_index(raw.len())?;
        let bytes = &mut raw[which].1;
        bytes.truncate(u.int_in_range(0..=bytes.len())?);
        let more = u.int_in_range(0..=6)?.min(u.len());
        bytes.extend(u.bytes(more)?);
        put(thread, &raw);
        for keyframe in &mut thread.keyframes {
            if u.ratio(1, 8)? {
                let at = u.choose_index(keyframe.at.len())?;
                keyframe.at[at] = u.int_in_range(0..=5000)?;
            }
        }
        make(&recording, u.arbitrary()?);
        Ok(())
    })
    .budget_ms(3000);
}

/// Code that calls what is behind it two hundred times, goes back, and does so for as long as
/// the model says.
#[test]
fn calls_without_end_are_refused() {
    let (pc, even) = (0x1000_u64, 1 << 15);
    let mut code = [0xE8, 0, 0, 0, 0].repeat(200);
    code.extend([0xE9]);
    code.extend((-(code.len() as i32) - 4).to_le_bytes());
    let fragment = Fragment {
        pieces: vec![Piece {
            pc,
            len: code.len() as u32,
            module: None,
        }],
        code,
        ..Fragment::default()
    };
    let (mut model, mut events) = (Model::new(10), Encoder::default());
    for _ in 0..5 {
        events.bit(false, even).unwrap();
    }
    model.length(&mut events, 0).unwrap();
    model.kind(&mut events, 2).unwrap();
    for number in [0, pc] {
        model.number(&mut events, number).unwrap();
    }
    model.length(&mut events, 1 << 62).unwrap();
    let raw = [
        (packed::BRANCHES, Encoder::default().finish()),
        (packed::EVENTS, events.finish()),
    ];
    let mut thread = Thread::default();
    put(&mut thread, &raw);
    let traced = Recording {
        processes: vec![Process {
            fragments: vec![Arc::new(fragment)],
            threads: vec![thread],
            ..Process::default()
        }],
        ..Recording::default()
    };
    let wanted = Wanted {
        k: K::Finite(3),
        recursion: Recursion::Rolled,
        rules: Rules::default(),
        costs: vec![Cost::Instructions],
    };
    let (_, said) = contexts::recording(&traced, &wanted, &mut |_, _| Vec::new());
    assert!(said[0].contains("calls are live"), "{said:?}");
}
