//! Packed traces give what they were packed of: instructions, times, stack pointers; and damage
//! does no harm.

use std::iter;
use std::sync::Arc;

use analysis::pack::{Coder, Encoder, Model};
use analysis::walk::packed::{self, Refused};
use analysis::walk::segments::{count, segments};
use analysis::walk::{Event, Pieces, RunEvent, Runs, StampKind, Unsound, Walk};
use arbtest::arbtest;
use trace::stream::LANES;
use trace::{Fragment, Gap, Part, Piece, Process, Recording, Thread};

use super::{all_of, cut, executed, thread, with_keyframes, with_stamps};

#[test]
fn what_is_packed_is_read_as_before() {
    let recording = with_keyframes();
    let whole = executed(&recording.processes[0], &recording.processes[0].threads[0]).0;
    let packed = packed::recording(&recording).unwrap();
    let (process, thread) = (&packed.processes[0], &packed.processes[0].threads[0]);
    let (again, error) = executed(process, thread);
    assert!(error.is_none() && again == whole);
    let stored = |thread: &Thread| thread.stream.iter().map(Part::stored_len).sum::<u64>();
    let before = stored(&recording.processes[0].threads[0]);
    assert!(
        stored(thread) * 2 < before,
        "{} of {before}",
        stored(thread)
    );
    assert!(matches!(packed::recording(&packed), Err(Refused::IsPacked)));
    // Behind a gap, too.
    let mut newest = recording.clone();
    let thread = &mut newest.processes[0].threads[0];
    let from = thread.keyframes[20].at;
    let mut raw = vec![Vec::new(); LANES];
    for part in &thread.stream {
        raw[usize::from(part.stream)].extend(part.unpack().unwrap());
    }
    let rest: Vec<_> = (0..)
        .zip(raw.iter().zip(from))
        .map(|(lane, (raw, from))| (lane, &raw[from as usize..]))
        .collect();
    thread.stream = self::thread(&rest).stream;
    thread.gap = Some(Gap::before(from));
    let (process, thread) = (&newest.processes[0], &newest.processes[0].threads[0]);
    let (rest, error) = executed(process, thread);
    assert!(error.is_none() && !rest.is_empty() && whole.ends_with(&rest));
    let packed = packed::recording(&newest).unwrap();
    let (again, error) = executed(&packed.processes[0], &packed.processes[0].threads[0]);
    assert!(error.is_none() && again == rest);
}

/// Each segment says how many instructions are before it, and is read without the others.
#[test]
fn segments_of_what_is_packed_stand_alone() {
    let recording = with_keyframes();
    let whole = executed(&recording.processes[0], &recording.processes[0].threads[0]).0;
    for (least, expected) in [(0, 26), (10_000, 9), (packed::SEGMENT, 1)] {
        let packed = in_segments(&recording, least);
        let (process, thread) = (&packed.processes[0], &packed.processes[0].threads[0]);
        let all = segments(thread);
        assert_eq!(all.len(), expected, "{least}");
        let mut pieces = Pieces::of(process);
        let mut before = 0;
        for segment in all {
            assert_eq!(segment.before, Some(before as u64));
            let (rest, error) = all_of(Walk::of(&mut pieces, thread, segment.onward()));
            assert!(error.is_none() && rest == whole[before..]);
            let (own, error) = all_of(Walk::of(&mut pieces, thread, segment));
            assert!(error.is_none() && rest.starts_with(&own));
            before += own.len();
        }
        assert_eq!(before, whole.len());
    }
}

fn in_segments(recording: &Recording, least: u64) -> Recording {
    let (packed, digests) = packed::pack(recording, least).unwrap();
    packed::check(&packed, &digests).unwrap();
    packed
}

/// A segment whose bytes end early, while another one follows, is an error.
#[test]
fn no_segment_ends_before_its_bytes() {
    let packed = in_segments(&with_keyframes(), 0);
    let (process, whole) = (&packed.processes[0], &packed.processes[0].threads[0]);
    for at in 0..whole.keyframes.len() {
        let mut thread = whole.clone();
        thread.keyframes.remove(at);
        let (_, error) = executed(process, &thread);
        assert!(matches!(error, Some(Unsound::Cut)), "{at}: {error:?}");
    }
}

/// Events of a walk with stamps, as text.
fn told(process: &Process, thread: &Thread) -> Vec<String> {
    let mut pieces = Pieces::of(process);
    let mut walk = Walk::new(&mut pieces, thread).with_stamps();
    let mut all = Vec::new();
    while let Some(event) = walk.next() {
        all.push(format!("{event:?}"));
    }
    all
}

/// Between the same instructions, also where lanes end somewhere.
#[test]
fn stamps_are_packed() {
    let recording = with_stamps();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let check = |thread: &Thread| {
        let mut one = recording.clone();
        one.processes[0].threads = vec![thread.clone()];
        for least in [0, packed::SEGMENT] {
            let packed = &in_segments(&one, least).processes[0];
            assert!(told(packed, &packed.threads[0]) == told(process, thread));
        }
    };
    check(thread);
    arbtest(|u| {
        let mut lens = [0; LANES];
        for len in &mut lens {
            *len = u.int_in_range(0..=40_000)?;
        }
        let cut = cut(thread, lens);
        let sound = executed(process, &cut).1.is_none();
        if sound {
            check(&cut);
        }
        Ok(())
    })
    .size_max(64)
    .budget_ms(2000);
}

/// The model of this build reads the packed traces of older ones, also those in segments.
#[test]
fn packed_recordings_are_read() {
    let whole = include_bytes!("../../../../trace/tests/recordings/11-packed.evp");
    check_numbers(whole, 99, &[75_791]);
    let segments = include_bytes!("../../../../trace/tests/recordings/12-packed.evp");
    check_numbers(segments, 399, &[87_466, 86_935, 94_425, 36_124]);
}

/// Numbers from 1 up to `most` that go up and down, with an atomic instruction, another stack
/// and a system call now and then; in segments of so many instructions.
fn check_numbers(bytes: &[u8], most: u32, insns: &[usize]) {
    let recording = trace::read(bytes).unwrap();
    let (process, thread) = (&recording.processes[0], &recording.processes[0].threads[0]);
    let (all, error) = executed(process, thread);
    assert!(error.is_none(), "{error:?}");
    let segments = segments(thread).into_iter().map(|segment| {
        let (own, error) = all_of(Walk::of(&mut Pieces::of(process), thread, segment));
        assert!(error.is_none(), "{error:?}");
        own
    });
    let segments: Vec<_> = segments.collect();
    assert!(segments.concat() == all);
    assert!(segments.iter().map(Vec::len).eq(insns.iter().copied()));
    let next = |x: u32| match x % 2 {
        0 => x / 2,
        _ => x * 3 + 1,
    };
    let (mut atomic, mut stacks) = (0, 0);
    let numbers = (1..=most).flat_map(|first: u32| {
        let while_more = iter::successors(Some(first), |&x| Some(next(x)));
        let while_more = while_more.take_while(|&x| x != 1);
        while_more.collect::<Vec<_>>()
    });
    for x in numbers {
        atomic += usize::from(next(x) % 16 == 3);
        stacks += 2 * usize::from(x % 8 == 0);
    }
    let is_stack =
        |did: &std::result::Result<RunEvent, Unsound>| matches!(did, Ok(RunEvent::Stack(_)));
    let mut pieces = Pieces::of(process);
    let given = Runs::new(&mut pieces, thread).with_stacks();
    // The first is where the thread begins.
    assert_eq!(given.filter(is_stack).count(), stacks + 1);
    let mut walk = Walk::new(&mut pieces, thread).with_stamps();
    let mut counts = [0; 3];
    while let Some(event) = walk.next() {
        match event.unwrap() {
            Event::Stamp(stamp) => match stamp.kind {
                StampKind::Sync => counts[0] += 1,
                StampKind::Enter => counts[1] += 1,
                StampKind::Leave => counts[2] += 1,
                _ => {}
            },
            Event::Executed(_) | Event::Went { .. } => {}
        }
    }
    assert_eq!(counts, [atomic, 10, 9]);
}

/// A reader that does not ask for stamps reads everything without them, and one that does gets an error.
#[test]
fn damaged_stamps_are_told_to_who_asks() {
    let packed = packed::recording(&with_stamps()).unwrap();
    let process = &packed.processes[0];
    let mut thread = process.threads[0].clone();
    let all = |thread: &Thread| {
        let mut pieces = Pieces::of(process);
        let mut walk = Walk::new(&mut pieces, thread);
        let mut insns = 0;
        while let Some(event) = walk.next() {
            if let Event::Executed(steps) = event.unwrap() {
                insns += steps.len();
            }
        }
        insns
    };
    let whole = all(&thread);
    let stamps: Vec<u8> = {
        let parts = thread.stream.iter();
        let parts = parts.filter(|part| part.stream == packed::STAMPS);
        parts.flat_map(|part| part.unpack().unwrap()).collect()
    };
    assert!(stamps.len() > 1000);
    for left in [1, stamps.len() / 2] {
        thread.stream.retain(|part| part.stream != packed::STAMPS);
        let mut part = Part::pack(&stamps[..left]).unwrap();
        part.stream = packed::STAMPS;
        thread.stream.push(part);
        assert_eq!(all(&thread), whole);
        let told = told(process, &thread);
        assert!(told.last().unwrap().contains("Cut"), "{told:?}");
        // `verify` asks for all that is there.
        let mut pieces = Pieces::of(process);
        let (_, error) = count(Walk::new(&mut pieces, &thread));
        assert!(matches!(error, Some(Unsound::Cut)), "{error:?}");
    }
}

#[test]
fn what_is_packed_and_damaged_does_no_harm() {
    let packed = packed::recording(&with_keyframes()).unwrap();
    let process = &packed.processes[0];
    let whole = executed(process, &process.threads[0]).0;
    let [branches, events, _] = &process.threads[0].stream[..] else {
        panic!("three streams");
    };
    let parts = [branches, events].map(|part| (part.stream as u8, part.unpack().unwrap()));
    for (which, (_, raw)) in parts.iter().enumerate() {
        let step = raw.len() / 25 + 1;
        for len in (0..raw.len()).step_by(step) {
            let mut cut = parts.clone();
            cut[which].1.truncate(len);
            let cut = thread(&cut.each_ref().map(|(stream, raw)| (*stream, &raw[..])));
            // The decoder reads four bytes ahead: the end is not known to be missing before.
            let (some, _) = executed(process, &cut);
            assert!(whole.starts_with(&some), "{which} {len}");
        }
        for bit in (0..raw.len() * 8).step_by(step * 8 + 3) {
            let mut turned = parts.clone();
            turned[which].1[bit / 8] ^= 1 << (bit % 8);
            let turned = turned.each_ref().map(|(stream, raw)| (*stream, &raw[..]));
            let thread = thread(&turned);
            let mut pieces = Pieces::of(process);
            let mut walk = Walk::new(&mut pieces, &thread);
            // It may mean something else, and much of that.
            for _ in 0..100_000 {
                if walk.next().is_none() {
                    break;
                }
            }
        }
    }
}

/// Some bytes say that an endless loop goes round 2^62 times.
#[test]
fn a_packed_stream_ends_with_its_bytes() {
    let (pc, even) = (0x1000, 1 << 15);
    let fragment = Fragment {
        pieces: vec![Piece {
            pc,
            len: 2,
            module: None,
        }],
        code: vec![0xEB, 0xFE],
        ..Fragment::default()
    };
    let process = Process {
        fragments: vec![Arc::new(fragment)],
        ..Process::default()
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
    let (branches, events) = (Encoder::default().finish(), events.finish());
    let thread = thread(&[
        (packed::BRANCHES as u8, &branches),
        (packed::EVENTS as u8, &events),
    ]);
    let (all, error) = executed(&process, &thread);
    assert!(matches!(error, Some(Unsound::Cut)), "{error:?}");
    assert!((1000..5_000_000).contains(&all.len()), "{}", all.len());
}
