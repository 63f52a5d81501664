//! Streams of any bytes, with any code, give instructions or an error; and a real trace with
//! any of its bits turned over.

mod packed;
mod targets;

use std::sync::Arc;

use analysis::walk::segments::{self, Task, segments};
use analysis::walk::{Accesses, Event, Pieces, Segment, StampKind, Unsound, Walk};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use isa::memory::Selection;
use trace::stream::{ADDRESS_STREAM, LANES, VALUE_STREAM};
use trace::{Fragment, Gap, Keyframe, Part, Piece, Process, Recording, Thread};

/// Instructions of a thread, and what stopped them. Who only counts them finds as many and the
/// same, of pieces that it meets and of those that it knows.
fn executed(process: &Process, thread: &Thread) -> (Vec<u64>, Option<Unsound>) {
    let (all, error) = all_of(Walk::new(&mut Pieces::of(process), thread));
    let mut pieces = Pieces::of(process);
    for _ in 0..2 {
        let (insns, why) = segments::count(Walk::new(&mut pieces, thread));
        assert_eq!(insns, all.len() as u64);
        assert_eq!(format!("{why:?}"), format!("{error:?}"));
    }
    (all, error)
}

fn all_of(mut walk: Walk<'_>) -> (Vec<u64>, Option<Unsound>) {
    let mut all = Vec::new();
    while let Some(event) = walk.next() {
        match event {
            Ok(Event::Executed(steps)) => all.extend(steps.iter().map(|step| step.pc)),
            Ok(Event::Went { .. } | Event::Stamp(_)) => {}
            Err(error) => return (all, Some(error)),
        }
    }
    assert!(walk.next().is_none(), "it is over");
    (all, None)
}

fn thread(parts: &[(u8, &[u8])]) -> Thread {
    let parts = parts.iter().map(|&(lane, raw)| {
        let mut part = Part::pack(raw).unwrap();
        part.stream = lane.into();
        part
    });
    Thread {
        stream: parts.collect(),
        ..Thread::default()
    }
}

/// A fragment of one piece; half of its bytes are short branches and the like.
fn fragment(u: &mut Unstructured<'_>) -> Result<Fragment> {
    let pc = match u.int_in_range(0..=3)? {
        0 => u.arbitrary()?,
        1 => u64::MAX - u.int_in_range(0..=40)?,
        _ => 0x1000 + u.int_in_range(0..=100)?,
    };
    let mut code: Vec<u8> = u.arbitrary()?;
    for byte in code.iter_mut().step_by(2) {
        let common = [0x74, 0xEB, 0xE2, 0xC3, 0x90, 0xFF, 0xE8, 0x0F];
        *byte = *u.choose(&common)?;
    }
    let len = match u.ratio(9, 10)? {
        true => code.len() as u32,
        false => u.arbitrary()?,
    };
    Ok(Fragment {
        id: u.int_in_range(0..=2)?,
        pieces: vec![Piece {
            pc,
            len,
            module: None,
        }],
        code,
        ..Fragment::default()
    })
}

#[test]
fn any_bytes_give_instructions_or_an_error() {
    arbtest(|u| {
        let number = u.int_in_range(0..=4)?;
        let process = Process {
            fragments: (0..number)
                .map(|_| fragment(u).map(Arc::new))
                .collect::<Result<_>>()?,
            targets: u.arbitrary()?,
            ..Process::default()
        };
        let start = process
            .fragments
            .first()
            .map_or(0, |first| first.pieces[0].pc);
        let mut lanes = Vec::new();
        for lane in 0..u.int_in_range(1..=LANES as u8 + 2)? {
            lanes.push((lane, lane_from(start, u)?));
        }
        let parts: Vec<_> = lanes.iter().map(|(lane, raw)| (*lane, &raw[..])).collect();
        let mut thread = thread(&parts);
        let _ = executed(&process, &thread);
        thread.keyframes = (0..u.int_in_range(0..=4)?)
            .map(|_| keyframe(u))
            .collect::<Result<_>>()?;
        thread.gap = match u.ratio(1, 4)? {
            true => Some(Gap::before(keyframe(u)?.at)),
            false => None,
        };
        let _ = executed(&process, &thread);
        for stream in [ADDRESS_STREAM, VALUE_STREAM] {
            let bytes: Vec<u8> = u.arbitrary()?;
            let mut part = Part::pack(&bytes).unwrap();
            part.stream = stream;
            thread.stream.push(part);
        }
        for segment in segments(&thread) {
            let _ = all_of(Walk::of(&mut Pieces::of(&process), &thread, segment));
            let selection = Selection {
                loads: u.arbitrary()?,
                stores: u.arbitrary()?,
                elision: u.arbitrary()?,
                values: u.arbitrary()?,
                elements: u.arbitrary()?,
            };
            let mut pieces = Pieces::of(&process);
            let mut accesses = Accesses::of(&mut pieces, &thread, segment, selection);
            while let Some(Ok(_)) = accesses.next() {}
            let _ = (accesses.left(), accesses.is_short());
        }
        Ok(())
    });
}

/// Mostly small numbers.
fn keyframe(u: &mut Unstructured<'_>) -> Result<Keyframe> {
    let mut keyframe = Keyframe {
        memory: [u.int_in_range(0..=60)?, u.int_in_range(0..=60)?],
        ..Keyframe::default()
    };
    for at in &mut keyframe.at {
        *at = match u.ratio(1, 20)? {
            true => u.arbitrary()?,
            false => u.int_in_range(0..=60)?,
        };
    }
    Ok(keyframe)
}

/// Any items, the first of which says that the thread begins at `start`.
fn lane_from(start: u64, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut raw = vec![1, 2, 0];
    raw.extend(start.to_le_bytes());
    for _ in 0..u.int_in_range(0..=30)? {
        match u.int_in_range(0..=3)? {
            0 => raw.extend([1, u.int_in_range(0..=5)?]),
            1 => raw.extend(start.to_le_bytes()),
            _ => raw.push(u.arbitrary()?),
        }
    }
    Ok(raw)
}

fn recorded() -> Process {
    let bytes = include_bytes!("../../../trace/tests/recordings/5-trace.evp");
    trace::read(&bytes[..]).unwrap().processes.remove(0)
}

#[test]
fn a_trace_that_was_cut_is_a_prefix() {
    let process = recorded();
    let whole = executed(&process, &process.threads[0]);
    assert_eq!(whole.0.len(), 37);
    assert!(whole.1.is_none());
    let raw = process.threads[0].stream[0].unpack().unwrap();
    for cut in 0..raw.len() {
        let (some, _) = executed(&process, &thread(&[(0, &raw[..cut])]));
        assert!(whole.0.starts_with(&some), "cut at {cut}");
        // Where parts end does not matter.
        let (all, error) = executed(&process, &thread(&[(0, &raw[..cut]), (0, &raw[cut..])]));
        assert!(error.is_none() && all == whole.0, "in two at {cut}");
    }
}

/// With keyframes.
fn with_keyframes() -> Recording {
    let bytes = include_bytes!("../../../trace/tests/recordings/7-trace.evp");
    trace::read(&bytes[..]).unwrap()
}

/// The thread with the first bytes of each lane.
fn cut(thread: &Thread, lens: [usize; LANES]) -> Thread {
    let mut raw = vec![Vec::new(); LANES];
    for part in &thread.stream {
        raw[usize::from(part.stream)].extend(part.unpack().unwrap());
    }
    let parts = (0..).zip(&raw).map(|(lane, raw)| {
        let len = lens[usize::from(lane)].min(raw.len());
        (lane, &raw[..len])
    });
    Thread {
        keyframes: thread.keyframes.clone(),
        ..self::thread(&parts.collect::<Vec<_>>())
    }
}

#[test]
fn from_every_keyframe_on_is_what_was_executed_there() {
    let recording = with_keyframes();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let (whole, error) = executed(process, thread);
    assert!(error.is_none() && whole.len() == 317_422);
    let segments = segments(thread);
    assert_eq!(segments.len(), thread.keyframes.len() + 1);
    assert_eq!(segments.len(), 26);
    let mut pieces = Pieces::of(process);
    let mut before = 0;
    for segment in segments {
        let (rest, error) = all_of(Walk::of(&mut pieces, thread, segment.onward()));
        assert!(error.is_none() && rest == whole[before..]);
        let (own, error) = all_of(Walk::of(&mut pieces, thread, segment));
        assert!(error.is_none() && rest.starts_with(&own));
        before += own.len();
    }
    assert_eq!(before, whole.len());
    // And several at once.
    let counts = segments::each(&recording, &Task::all(&recording), segments::count);
    assert_eq!(counts.iter().map(|(insns, _)| insns).sum::<u64>(), 317_422);
    // And counted up to each.
    let mut numbered = recording.clone();
    assert!(segments::number(&mut numbered).is_none());
    let thread = &numbered.processes[0].threads[0];
    let mut before = 0;
    for (keyframe, (insns, _)) in thread.keyframes.iter().zip(&counts) {
        before += insns;
        assert_eq!(keyframe.insns, Some(before));
    }
    assert_eq!(thread.keyframes.len(), 25);
    // Or only up to where somebody asks for, and further the next time.
    let mut some = recording.clone();
    let mut known = 0;
    for number in [1, 5_000, 120_000, 100_000, 300_000, u64::MAX, u64::MAX] {
        let counted = segments::number_up_to(&mut some, (0, 0), number);
        known += counted;
        let keyframes = &some.processes[0].threads[0].keyframes;
        let is_known = |(i, keyframe): (usize, &trace::Keyframe)| {
            keyframe.insns == thread.keyframes[i].insns.filter(|_| i < known)
        };
        assert!(keyframes.iter().enumerate().all(is_known), "{number}");
        let is_far = keyframes.get(known.saturating_sub(1));
        let is_far = is_far.and_then(|keyframe| keyframe.insns);
        assert!(known == 25 || number < 5_000 || is_far >= number.checked_sub(4_096));
        assert!(counted == 0 || !matches!(number, 1 | 100_000));
    }
    assert_eq!(known, 25);
}

/// With stamps, and with keyframes.
fn with_stamps() -> Recording {
    let bytes = include_bytes!("../../../trace/tests/recordings/8-trace.evp");
    trace::read(&bytes[..]).unwrap()
}

/// A walk with stamps gives the same, and times; each atomic instruction and fence has one stamp,
/// each system call two, and the last of them does not come back.
#[test]
fn stamps_change_nothing_else() {
    let recording = with_stamps();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let whole = executed(process, thread).0;
    let mut pieces = Pieces::of(process);
    for segment in segments(thread) {
        let onward = segment.onward();
        let (plain, _) = all_of(Walk::of(&mut pieces, thread, onward));
        let (stamped, error) = all_of(Walk::of(&mut pieces, thread, onward).with_stamps());
        assert!(error.is_none() && stamped == plain && whole.ends_with(&plain));
    }
    let mut walk = Walk::new(&mut pieces, thread).with_stamps();
    let (mut counts, mut last, mut pending) = ([0; 3], 0, None);
    while let Some(event) = walk.next() {
        let steps = match event.unwrap() {
            Event::Stamp(stamp) => {
                assert!(stamp.time >= last, "the thread's own order");
                last = stamp.time;
                counts[0] += usize::from(stamp.kind == StampKind::Enter);
                counts[1] += usize::from(stamp.kind == StampKind::Leave);
                pending = (stamp.kind == StampKind::Sync).then_some(stamp).or(pending);
                continue;
            }
            Event::Executed(steps) => steps.to_vec(),
            Event::Went { .. } => continue,
        };
        for step in steps {
            let bytes = walk.code().bytes(&step);
            // lock; xchg [rip + displacement], also with a prefix
            let is_atomic = bytes[0] == 0xF0 || bytes[..2].contains(&0x87);
            assert_eq!(pending.take().is_some(), is_atomic, "{bytes:x?}");
            counts[2] += usize::from(is_atomic);
        }
    }
    assert_eq!(counts, [6, 5, 2953]);
}

/// Wherever lanes end, what is before is the same with stamps and without.
#[test]
fn stamps_of_what_was_cut() {
    let recording = with_stamps();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let whole = executed(process, thread).0;
    arbtest(|u| {
        let mut lens = [0; LANES];
        for len in &mut lens {
            *len = u.int_in_range(0..=40_000)?;
        }
        let cut = cut(thread, lens);
        let mut pieces = Pieces::of(process);
        let (plain, error) = all_of(Walk::new(&mut pieces, &cut));
        let (stamped, other) = all_of(Walk::new(&mut pieces, &cut).with_stamps());
        assert!(whole.starts_with(&plain) && stamped == plain);
        assert_eq!(error.is_some(), other.is_some());
        Ok(())
    })
    .size_max(64);
}

/// A cut file may name keyframes that are not there.
#[test]
fn keyframes_behind_a_cut_are_passed_over() {
    let recording = with_keyframes();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let whole = executed(process, thread).0;
    let mut pieces = Pieces::of(process);
    for keyframe in &thread.keyframes {
        for behind in [0, 1, 9, 10, 11, 100] {
            let lens = keyframe.at.map(|at| at as usize + behind);
            let cut = cut(thread, lens);
            let mut all = Vec::new();
            for segment in segments(&cut) {
                all.extend(all_of(Walk::of(&mut pieces, &cut, segment)).0);
            }
            assert!(whole.starts_with(&all));
        }
    }
}

/// A keyframe that is not where it should be is an error, for who comes there and for who
/// begins there.
#[test]
fn keyframes_that_are_none_are_found() {
    let recording = with_keyframes();
    let process = &recording.processes[0];
    let mut pieces = Pieces::of(process);
    for (number, lane, by) in [(3, 0, 1), (5, 2, 10), (7, 4, 3)] {
        let mut thread = process.threads[0].clone();
        thread.keyframes[number].at[lane] += by;
        let mut wrong = segments(&thread).into_iter().filter(|&segment| {
            let (_, error) = all_of(Walk::of(&mut pieces, &thread, segment));
            error.is_some()
        });
        assert!(wrong.next().is_some() && wrong.next().is_some());
    }
}

#[test]
fn what_is_behind_a_gap_is_read() {
    let recording = with_keyframes();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let whole = executed(process, thread).0;
    let mut raw = vec![Vec::new(); LANES];
    for part in &thread.stream {
        raw[usize::from(part.stream)].extend(part.unpack().unwrap());
    }
    for (number, keyframe) in thread.keyframes.iter().enumerate() {
        // It may begin in the middle of anything.
        let bytes = keyframe.at.map(|at| at - at % 7);
        let rest: Vec<_> = (0..)
            .zip(raw.iter().zip(bytes))
            .map(|(lane, (raw, from))| (lane, &raw[from as usize..]))
            .collect();
        let kept = Thread {
            keyframes: thread.keyframes.clone(),
            gap: Some(Gap::before(bytes)),
            ..self::thread(&rest)
        };
        let (rest, error) = executed(process, &kept);
        assert!(error.is_none() && whole.ends_with(&rest));
        assert_eq!(segments(&kept).len(), thread.keyframes.len() - number);
        let onward = segments(thread)[number + 1].onward();
        let expected = all_of(Walk::of(&mut Pieces::of(process), thread, onward));
        assert_eq!(rest, expected.0);
    }
    // Nothing, if there is no keyframe.
    let none = Thread {
        gap: Some(Gap::default()),
        ..Thread::default()
    };
    assert!(segments(&none).is_empty() && executed(process, &none).0.is_empty());
}

#[test]
fn bits_that_are_turned_over_in_segments_do_no_harm() {
    let recording = with_keyframes();
    let process = &recording.processes[0];
    let thread = &process.threads[0];
    let segment: Segment = segments(thread)[4];
    let raw: Vec<u8> = thread.stream[0].unpack().unwrap();
    for bit in (0..raw.len() * 8).step_by(211) {
        let mut raw = raw.clone();
        raw[bit / 8] ^= 1 << (bit % 8);
        let mut part = Part::pack(&raw).unwrap();
        part.stream = thread.stream[0].stream;
        let mut other = thread.clone();
        other.stream[0] = part;
        let _ = all_of(Walk::of(&mut Pieces::of(process), &other, segment));
    }
}

#[test]
fn bits_that_are_turned_over_do_no_harm() {
    let process = recorded();
    let raw = process.threads[0].stream[0].unpack().unwrap();
    for bit in 0..raw.len() * 8 {
        let mut raw = raw.clone();
        raw[bit / 8] ^= 1 << (bit % 8);
        let _ = executed(&process, &thread(&[(0, &raw)]));
    }
}
