//! Threads that are read while they run: whatever comes when, what they did is what is read
//! of the whole.

use std::sync::Arc;
use std::thread;

use analysis::walk::{Branches, Item, LiveProcess, Pieces, Room};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::stream::{ESCAPE, LANES, STAMP, TARGETS, escape, lane, stamp, why};
use trace::{Fragment, Part, Piece, Process, Recording};

fn recording() -> Recording {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../trace/tests/recordings/9-trace.evp"
    );
    trace::read(std::fs::File::open(path).unwrap()).unwrap()
}

fn items(mut branches: Branches<'_>) -> (Vec<Item>, u64, Option<String>) {
    let mut all = Vec::new();
    let error = loop {
        match branches.next() {
            Some(Ok(item)) => all.push(item),
            last => {
                break last
                    .and_then(|last| last.err())
                    .map(|error| error.to_string());
            }
        }
    };
    (all, branches.number(), error)
}

/// Pieces of a lane, first to last.
fn pieces_of(u: &mut Unstructured<'_>, parts: &[&Part]) -> Result<Vec<Part>> {
    let raw: Vec<u8> = parts
        .iter()
        .flat_map(|part| part.unpack().unwrap())
        .collect();
    let mut pieces = Vec::new();
    let mut rest = &raw[..];
    while !rest.is_empty() {
        let most = *u.choose(&[1, 7, 100, 5000])?;
        let (piece, behind) = rest.split_at(u.int_in_range(1..=most)?.min(rest.len()));
        let mut part = Part::pack(piece).unwrap();
        part.stream = parts[0].stream;
        pieces.push(part);
        rest = behind;
    }
    Ok(pieces)
}

/// Gives a thread its lanes, in pieces, one from here and one from there.
fn feed(
    u: &mut Unstructured<'_>,
    process: &Process,
    coming: &LiveProcess,
    at: usize,
) -> Result<()> {
    let stream = &process.threads[at].stream;
    let mut lanes = Vec::new();
    for lane in 0..5 {
        let parts: Vec<&Part> = stream.iter().filter(|part| part.stream == lane).collect();
        let mut pieces = pieces_of(u, &parts)?;
        pieces.reverse();
        lanes.push((lane, pieces));
    }
    while !lanes.is_empty() {
        let lane = u.choose_index(lanes.len())?;
        let (number, pieces) = &mut lanes[lane];
        match pieces.pop() {
            Some(part) => coming.part(at, part),
            None => {
                coming.over(at, *number);
                lanes.swap_remove(lane);
            }
        }
    }
    Ok(())
}

#[test]
fn what_comes_in_pieces_is_what_there_is() {
    let recording = recording();
    let process = &recording.processes[0];
    let expected: Vec<_> = process
        .threads
        .iter()
        .map(|thread| items(Branches::new(&mut Pieces::of(process), thread)))
        .collect();
    assert!(expected.iter().any(|(items, _, _)| items.len() > 1000));
    arbtest(|u| {
        let room = Arc::new(Room::new(1));
        let coming = Arc::new(LiveProcess::new(&room, None));
        let readers: Vec<_> = process
            .threads
            .iter()
            .map(|_| {
                let tail = coming.thread();
                thread::spawn(move || {
                    items(Branches::of_live(
                        &mut Pieces::of_live(tail.process()),
                        &tail,
                    ))
                })
            })
            .collect();
        let code = process.fragments.iter();
        code.for_each(|fragment| coming.fragment(fragment));
        let targets = process.targets.iter();
        targets.for_each(|&target| coming.target(target));
        for at in 0..process.threads.len() {
            feed(u, process, &coming, at)?;
        }
        coming.end();
        let found: Vec<_> = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect();
        assert!(found == expected);
        // Nobody reads, and nothing is left.
        assert!(room.is_left() && !room.is_in_vain());
        Ok(())
    })
    .budget_ms(3000);
}

/// There is no room where the limit is reached, as long as somebody has what he asked for.
#[test]
fn who_can_go_on_has_others_wait() {
    let room = Arc::new(Room::new(1));
    let coming = Arc::new(LiveProcess::new(&room, None));
    let mut pieces = Pieces::of_live(&coming);
    let tail = coming.thread();
    assert!(room.is_left());
    let part = |lane| {
        let mut part = Part::pack(&[1]).unwrap();
        part.stream = lane;
        part
    };
    coming.part(0, part(3));
    assert!(!room.is_left() && !room.is_in_vain());
    thread::scope(|scope| {
        // It begins with lane 0, of which there is nothing.
        let reader = scope.spawn(|| items(Branches::of_live(&mut pieces, &tail)));
        while !room.is_in_vain() {
            thread::yield_now();
        }
        assert!(room.is_left());
        coming.part(0, part(0));
        coming.end();
        assert!(reader.join().unwrap().2.is_some());
    });
    // What comes for nobody is not kept.
    drop(tail);
    coming.part(0, part(0));
    assert!(room.is_left() && !room.is_in_vain());
}

/// A thread has written that it begins, and when, and its code comes later: only then it is
/// known in which lane the first branch is.
#[test]
fn a_stamp_says_nothing_of_the_code_behind_it() {
    let pc = (0x1000..).find(|&pc| lane(pc) == 2).unwrap();
    let [mut begin, mut end] = [
        vec![ESCAPE, escape::TO, why::START],
        vec![ESCAPE, escape::AT],
    ];
    begin.extend(pc.to_le_bytes());
    end.extend((pc + 2).to_le_bytes());
    let mut came = vec![STAMP, stamp::CAME];
    came.extend(7u64.to_le_bytes());
    let room = Arc::new(Room::new(0));
    let coming = Arc::new(LiveProcess::new(&room, None));
    let give = |lane: usize, raw: &[u8]| {
        let mut part = Part::pack(raw).unwrap();
        part.stream = lane as u16;
        coming.part(0, part);
    };
    let tail = coming.thread();
    let reader = thread::spawn(move || {
        let mut pieces = Pieces::of_live(tail.process());
        items(Branches::of_live(&mut pieces, &tail))
    });
    for lane in 0..LANES {
        give(lane, &begin);
    }
    give(TARGETS, &came);
    while !room.is_in_vain() {
        thread::yield_now();
    }
    coming.fragment(&Arc::new(Fragment {
        pieces: vec![Piece {
            pc,
            len: 3,
            module: None,
        }],
        // jz, ret
        code: vec![0x74, 0, 0xC3],
        ..Fragment::default()
    }));
    // Not taken.
    give(2, &[0b10]);
    for lane in 0..LANES {
        give(lane, &end);
    }
    coming.end();
    let (items, insns, error) = reader.join().unwrap();
    assert_eq!((items.len(), insns, error), (2, 1, None), "{items:?}");
    assert!(matches!(items[1], Item::Branch(branch) if branch.pc == pc && !branch.taken));
}
