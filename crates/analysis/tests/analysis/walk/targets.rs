//! Targets of indirect branches, by their numbers.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use analysis::walk::{Pieces, Unsound, Walk};
use trace::stream::{ESCAPE, LANES, TARGETS, TargetNumber, escape, mark, went, why};
use trace::{Fragment, Piece, Process, Thread};

use super::{all_of, executed, thread};

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

/// The recording of version 9 has what that version brought.
#[test]
fn the_recording_of_version_9_has_short_numbers() {
    let bytes = include_bytes!("../../../../trace/tests/recordings/9-trace.evp");
    let recording = trace::read(&bytes[..]).unwrap();
    let process = &recording.processes[0];
    let mark = process.targets.iter().position(|&target| target == 0);
    assert!(mark.is_some_and(|mark| mark > 0 && mark + 1 < process.targets.len()));
    assert!(executed(process, &process.threads[0]).1.is_none());
}

/// Targets of indirect branches in all forms, numbers at the ends of each; and targets that are not
/// listed.
#[test]
fn targets_have_numbers() {
    const LONG: u32 = 70_000;
    // Each target is a return; those of one length are listed in pieces.
    let to = |length: u64, number: u32| 0x1000_0000 * length + 16 * u64::from(number);
    let run = |mark: u64, numbers: Range<u32>| {
        iter::once(mark).chain(numbers.map(move |number| to(mark & 3, number)))
    };
    let targets = run(mark::MIDDLE, 0..300)
        .chain(run(mark::SHORT, 0..went::SHORTS - 10))
        .chain(run(mark::LONG, 0..LONG - 1))
        .chain(run(mark::MIDDLE, 300..went::MIDDLES))
        // Again, and 0 is one like others.
        .chain([mark::SHORT, to(2, 7), 0])
        .chain(run(mark::LONG, LONG - 1..LONG));
    let last = went::SHORTS as u8 - 9;
    let items = [
        (TargetNumber::Middle(0), to(2, 0)),
        (TargetNumber::Short(0), to(1, 0)),
        (TargetNumber::Short(last - 1), to(2, 7)),
        (TargetNumber::Short(last), 0),
        (TargetNumber::Middle(255), to(2, 255)),
        (TargetNumber::Middle(256), to(2, 256)),
        (TargetNumber::To(to(3, 1)), to(3, 1)),
        (
            TargetNumber::Middle(went::MIDDLES as u16 - 1),
            to(2, went::MIDDLES - 1),
        ),
        (TargetNumber::Long(0), to(3, 0)),
        (TargetNumber::Long(65_536), to(3, 65_536)),
        (TargetNumber::Long(LONG - 1), to(3, LONG - 1)),
    ];
    let process = returns(targets.collect(), &items.map(|(_, pc)| pc));
    let (all, error) = went_to(&process, &bytes_of(&items.map(|(went, _)| went)));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(all, visited(&items));
    for went in [
        TargetNumber::Short(last + 1),
        TargetNumber::Middle(went::MIDDLES as u16 - 1),
        TargetNumber::Long(LONG),
    ] {
        let process = match went {
            TargetNumber::Middle(_) => returns(vec![mark::MIDDLE, to(2, 0)], &[]),
            _ => process.clone(),
        };
        let (_, error) = went_to(&process, &bytes_of(&[went, went]));
        assert!(matches!(error, Some(Unsound::NoTarget(_))), "{error:?}");
    }
}

/// In versions 9 and 10 all entries have numbers, the mark, too; older versions have fewer forms.
#[test]
fn old_targets_have_numbers() {
    const FIRST: u64 = 0x10_0000;
    const MARK: u32 = 300;
    const LISTED: u32 = (went::MIDDLES + 70_000) & !1;
    let to = |number: u32| match number {
        MARK => 0,
        number => FIRST + 16 * u64::from(number),
    };
    let last = went::SHORTS as u8 - 1;
    let items = [
        (TargetNumber::Middle(0), to(0)),
        (TargetNumber::Short(0), to(MARK + 1)),
        (TargetNumber::Short(last), to(MARK + 1 + u32::from(last))),
        (TargetNumber::Middle(255), to(255)),
        (TargetNumber::Middle(256), to(256)),
        (TargetNumber::To(FIRST + 16), FIRST + 16),
        (
            TargetNumber::Middle(went::MIDDLES as u16 - 1),
            to(went::MIDDLES - 1),
        ),
        (TargetNumber::Long(went::MIDDLES), to(went::MIDDLES)),
        (
            TargetNumber::Long(went::MIDDLES + 65_536),
            to(went::MIDDLES + 65_536),
        ),
        (TargetNumber::Long(LISTED - 1), to(LISTED - 1)),
    ];
    let process = returns((0..LISTED).map(to).collect(), &items.map(|(_, pc)| pc));
    let (all, error) = went_to(&process, &bytes_of(&items.map(|(went, _)| went)));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(all, visited(&items));
    // The first one that is listed with these bits.
    let (all, error) = went_to(&process, &[3, 0x10, 0, 3, 0, 0]);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(all, [START, FIRST + 16]);
    let unlisted = TargetNumber::Long(LISTED);
    let (_, error) = went_to(&process, &bytes_of(&[unlisted, unlisted]));
    assert!(
        matches!(error, Some(Unsound::NoTarget(LISTED))),
        "{error:?}"
    );
}

/// A return behind so many instructions that a piece before it has no outcome: who looks for
/// stamps there does not take what stands in their place for one.
#[test]
fn stamps_before_a_return_that_is_far_behind() {
    const STRAIGHT: usize = 700;
    let mut process = returns(iter::once(mark::MIDDLE).chain([START; 600]).collect(), &[]);
    process.fragments[0] = Arc::new(Fragment {
        pieces: vec![Piece {
            pc: START,
            len: STRAIGHT as u32 + 1,
            module: None,
        }],
        code: [vec![0x90; STRAIGHT], vec![0xC3]].concat(),
        ..Fragment::default()
    });
    let items: Vec<TargetNumber> = (0..600).map(TargetNumber::Middle).collect();
    let thread = beginning(&bytes_of(&items));
    let (plain, error) = executed(&process, &thread);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(plain.len(), items.len() * (STRAIGHT + 1));
    let mut pieces = Pieces::of(&process);
    let (stamped, error) = all_of(Walk::new(&mut pieces, &thread).with_stamps());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(stamped, plain);
}

/// Address at which the one thread of [`returns`] begins.
const START: u64 = 0x5000;

/// A process that has these targets and a return at each of `at`, and where it begins.
fn returns(targets: Vec<u64>, at: &[u64]) -> Process {
    let code = |pc| {
        Arc::new(Fragment {
            pieces: vec![Piece {
                pc,
                len: 1,
                module: None,
            }],
            code: vec![0xC3],
            ..Fragment::default()
        })
    };
    Process {
        fragments: iter::once(&START).chain(at).copied().map(code).collect(),
        targets,
        ..Process::default()
    }
}

/// Instructions of a thread whose lane of targets has these bytes.
fn went_to(process: &Process, more: &[u8]) -> (Vec<u64>, Option<Unsound>) {
    executed(process, &beginning(more))
}

/// A thread that begins there, and whose lane of targets has these bytes.
fn beginning(more: &[u8]) -> Thread {
    let begins = |lane: u8| {
        let mut bytes = vec![ESCAPE, escape::TO, why::START];
        bytes.extend(START.to_le_bytes());
        (lane, bytes)
    };
    let mut lanes: Vec<(u8, Vec<u8>)> = (0..LANES as u8).map(begins).collect();
    lanes[TARGETS].1.extend(more);
    let parts: Vec<(u8, &[u8])> = lanes.iter().map(|(lane, raw)| (*lane, &raw[..])).collect();
    thread(&parts)
}

fn bytes_of(items: &[TargetNumber]) -> Vec<u8> {
    let bytes = items.iter().flat_map(|item| {
        let (all, len) = item.bytes();
        all.into_iter().take(len)
    });
    bytes.collect()
}

/// Nothing is executed where the last one went.
fn visited(items: &[(TargetNumber, u64)]) -> Vec<u64> {
    let went = items[..items.len() - 1].iter().map(|&(_, pc)| pc);
    iter::once(START).chain(went).collect()
}
