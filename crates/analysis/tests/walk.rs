//! Streams of any bytes, with any code, give instructions or an error; and a real trace with
//! any of its bits turned over.

use std::sync::Arc;

use analysis::walk::{Event, Pieces, Unsound, Walk};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::stream::{LANES, TARGETS};
use trace::{Fragment, Part, Piece, Process, Thread};

/// Instructions of a thread, and what stopped them.
fn executed(process: &Process, thread: &Thread) -> (Vec<u64>, Option<Unsound>) {
    let mut pieces = Pieces::of(process);
    let mut walk = Walk::new(&mut pieces, thread);
    let mut all = Vec::new();
    while let Some(event) = walk.next() {
        match event {
            Ok(Event::Executed(steps)) => all.extend(steps.iter().map(|step| step.pc)),
            Ok(Event::Went { .. }) => {}
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
        for lane in 0..u.int_in_range(1..=LANES as u8)? {
            lanes.push((lane, lane_from(start, u)?));
        }
        let parts: Vec<_> = lanes.iter().map(|(lane, raw)| (*lane, &raw[..])).collect();
        let _ = executed(&process, &thread(&parts));
        Ok(())
    });
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
    let bytes = include_bytes!("../../trace/tests/recordings/5-trace.evp");
    trace::read(&bytes[..]).unwrap().processes.remove(0)
}

/// Code that goes somewhere and was killed before it was told where.
#[test]
fn a_target_that_was_not_listed_yet_is_the_end() {
    const JMP_RAX: [u8; 2] = [0xFF, 0xE0];
    let piece = Piece {
        pc: 0x1000,
        len: JMP_RAX.len() as u32,
        module: None,
    };
    let fragment = Fragment {
        pieces: vec![piece],
        code: JMP_RAX.to_vec(),
        ..Fragment::default()
    };
    let process = |targets: &[u64]| Process {
        fragments: vec![fragment.clone().into()],
        targets: targets.to_vec(),
        ..Process::default()
    };
    let start = [1, 2, 0, 0x00, 0x10, 0, 0, 0, 0, 0, 0];
    let goes = |rest: &[u8]| {
        let mut lanes = vec![start.to_vec(); LANES];
        lanes[TARGETS].extend([0b11, 0x34, 0x12]);
        lanes[TARGETS].extend(rest);
        lanes
    };
    let run = |process: &Process, lanes: &[Vec<u8>]| {
        let parts: Vec<_> = (0..).zip(lanes.iter().map(Vec::as_slice)).collect();
        executed(process, &thread(&parts))
    };
    let (all, error) = run(&process(&[]), &goes(&[]));
    assert!(all.is_empty() && error.is_none(), "{error:?}");
    let (all, error) = run(&process(&[0x1234]), &goes(&[]));
    assert!(all == [0x1000] && error.is_none(), "{error:?}");
    let (_, error) = run(&process(&[]), &goes(&[0b11]));
    assert!(matches!(error, Some(Unsound::NoTarget(0x1234))));
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
