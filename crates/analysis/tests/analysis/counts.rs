//! Counts of one small loop, of its cuts, and of fragments that contradict themselves.

use std::sync::Arc;

use analysis::counts::blocks::EdgeKind;
use analysis::counts::{self, blocks, hot};
use trace::{
    Cut, Event, EventKind, Fragment, Meta, Mode, Piece, Process, Recording, SlotCount, Thread,
};

/// ```text
///   1000  dec ecx
///   1002  jz 1007
///   1004  inc eax
///   1006  nop
///   1007  ret
/// ```
const CODE: [u8; 8] = [0xFF, 0xC9, 0x74, 0x03, 0xFF, 0xC0, 0x90, 0xC3];

fn event(from: u16, to: u16) -> Event {
    Event {
        from,
        to,
        kind: EventKind::Executed,
    }
}

/// Everything, counted with the second run, or on the way that the branch takes; and
/// what the branch goes to.
fn recording(counts: &[(u64, u64)], cuts: Vec<Cut>) -> Recording {
    let piece = |pc, len| Piece {
        pc,
        len,
        module: None,
    };
    let whole = Fragment {
        id: 1,
        pieces: vec![piece(0x1000, 8)],
        code: CODE.to_vec(),
        first_slot: 0,
        events: vec![event(0, 2), event(0, 5)],
        ..Fragment::default()
    };
    let end = Fragment {
        id: 2,
        pieces: vec![piece(0x1007, 1)],
        code: vec![0xC3],
        first_slot: 2,
        events: vec![event(0, 1)],
        ..Fragment::default()
    };
    let counts = counts
        .iter()
        .map(|&(slot, count)| SlotCount { slot, count });
    let process = Process {
        fragments: vec![Arc::new(whole), Arc::new(end)],
        cuts,
        threads: vec![Thread {
            counts: counts.collect(),
            ..Thread::default()
        }],
        ..Process::default()
    };
    Recording {
        denied: Vec::new(),
        natives: Vec::new(),
        meta: Meta {
            mode: Mode::Counts,
            ..Meta::default()
        },
        processes: vec![process],
    }
}

#[test]
fn blocks_and_edges_of_a_branch() {
    let counts = counts::of_recording(&recording(&[(0, 3), (1, 7), (2, 3)], vec![])).unwrap();
    let executed: Vec<u64> = counts.insns.iter().map(|insn| insn.count).collect();
    assert_eq!(executed, [10, 10, 7, 7, 10]);
    assert_eq!((counts.insns[1].fell, counts.insns[1].taken()), (7, 3));
    let blocks = blocks::of(&counts);
    let sizes: Vec<(usize, u64)> = blocks.blocks.iter().map(|b| (b.len, b.count)).collect();
    assert_eq!(sizes, [(2, 10), (2, 7), (1, 10)]);
    let edges: Vec<_> = blocks
        .edges
        .iter()
        .map(|e| (e.from, e.to, e.kind, e.count))
        .collect();
    assert_eq!(
        edges,
        [
            (0, Some(1), EdgeKind::Fall, 7),
            (0, Some(2), EdgeKind::Taken, 3),
            (1, Some(2), EdgeKind::Fall, 7),
        ]
    );
    let totals = hot::totals(&counts, &blocks);
    assert_eq!((totals.executed, totals.decided, totals.taken), (44, 10, 3));
    assert_eq!((totals.never_taken, totals.always_taken), (0, 0));
}

#[test]
fn cuts_take_back_and_add() {
    let cut = |at, ahead| Cut {
        slot: 3,
        fragment: 1,
        at,
        ahead,
    };
    // Twice left before `nop`, which had been counted, with the two behind it.
    let twice = counts::of_recording(&recording(&[(1, 7), (3, 2)], vec![cut(3, 2)])).unwrap();
    let executed: Vec<u64> = twice.insns.iter().map(|insn| insn.count).collect();
    assert_eq!(executed, [7, 7, 7, 5, 5]);
    // Once left behind the branch, before what counts all.
    let once = counts::of_recording(&recording(&[(1, 7), (3, 1)], vec![cut(2, -2)])).unwrap();
    let executed: Vec<(u64, u64)> = once
        .insns
        .iter()
        .map(|insn| (insn.count, insn.fell))
        .collect();
    assert_eq!(executed[..3], [(8, 8), (8, 8), (7, 7)]);
    assert_eq!(once.insns[1].taken(), 0);
}

/// A thread that was killed between two additions executed what the first one counted.
#[test]
fn threads_stop_in_the_middle_once_each() {
    let stopped = |times| {
        let mut recording = recording(&[(0, times), (1, 7)], vec![]);
        let process = &mut recording.processes[0];
        Arc::make_mut(&mut process.fragments[0]).events[0] = event(0, 4);
        process.threads.push(Thread::default());
        counts::of_recording(&recording)
    };
    let twice = stopped(2).unwrap();
    let executed: Vec<u64> = twice.insns.iter().map(|insn| insn.count).collect();
    assert_eq!(executed, [9, 9, 9, 9, 7]);
    let what = stopped(3).unwrap_err().what;
    assert_eq!(what, "it is left where there is no branch");
}

#[test]
fn contradictions_are_errors() {
    let unsound = |change: fn(&mut Process)| {
        let mut recording = recording(&[(0, 3), (1, 7), (3, 2)], vec![]);
        change(&mut recording.processes[0]);
        counts::of_recording(&recording).unwrap_err().what
    };
    let texts = [
        unsound(|process| Arc::make_mut(&mut process.fragments[0]).events[0] = event(0, 9)),
        unsound(|process| Arc::make_mut(&mut process.fragments[0]).events[0] = event(0, 4)),
        unsound(|process| Arc::make_mut(&mut process.fragments[0]).code[0] = 0x06),
        unsound(|process| Arc::make_mut(&mut process.fragments[0]).code.truncate(7)),
        unsound(|process| {
            process.cuts.push(Cut {
                slot: 3,
                fragment: 1,
                at: 9,
                ahead: 0,
            });
        }),
        unsound(|process| {
            Arc::make_mut(&mut process.fragments[0]).events[0].kind = EventKind::Less
        }),
    ];
    assert_eq!(
        texts,
        [
            "an event is beyond its end",
            "it is left where there is no branch",
            "its code has bytes that are no code",
            "its code is shorter than its pieces",
            "a cut is beyond its end",
            "it is left where there is no branch",
        ]
    );
}

/// There was no room to say where it was left.
#[test]
fn a_contradiction_for_want_of_memory_is_left_out() {
    let mut recording = recording(&[(0, 3), (1, 7), (2, 3)], vec![]);
    let process = &mut recording.processes[0];
    process.pid = 7;
    Arc::make_mut(&mut process.fragments[0]).events[0].kind = EventKind::Less;
    let denied = |pid| trace::Denial {
        since_ns: 0,
        pid,
        tid: pid,
        why: trace::denied::why::FULL,
        times: 1,
    };
    recording.denied = vec![denied(8)];
    assert_eq!(counts::of_recording(&recording).unwrap_err().fragment, 1);
    recording.denied.push(denied(7));
    let left = counts::of_recording(&recording).unwrap();
    let executed: Vec<u64> = left.insns.iter().map(|insn| insn.count).collect();
    assert_eq!(executed, [3]);
}
