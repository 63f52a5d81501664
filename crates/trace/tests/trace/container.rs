//! The container: what is written is read, and what is damaged is either an
//! error or a prefix, whatever the damage.

use std::io::{self, Write};

use crate::common::{Random, recording, sample};
use arbtest::arbtest;
use trace::container::{MAGIC, VERSION};
use trace::{
    End, Label, Meta, Mode, Module, Node, Part, Process, ReadError, Recording, Thread, WriteError,
    read, read_prefix, write,
};

fn bytes_of(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(recording, &mut bytes).expect("memory takes everything");
    bytes
}

/// Offsets at which chunks begin, and the end of the file.
fn chunk_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![16];
    while let Some(&start) = starts.last().filter(|&&start| start < bytes.len()) {
        let stored: [u8; 4] = bytes[start + 8..start + 12].try_into().unwrap();
        starts.push(start + 16 + u32::from_le_bytes(stored) as usize);
    }
    starts
}

/// A chunk with a right checksum around any stored bytes.
fn chunk(kind: &[u8; 4], raw_len: u32, stored: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_vec();
    bytes.extend(raw_len.to_le_bytes());
    bytes.extend((stored.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), stored);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(stored);
    bytes
}

fn reseal_header(bytes: &mut [u8]) {
    let sum = crc32c::crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// Thread with `count` nodes in one chain, all alike.
fn chain(count: u32) -> Recording {
    let node = |index: u32| Node {
        label: Label(300),
        parent: index.checked_sub(1),
        depth: index,
        top: None,
        count: 1,
    };
    let thread = Thread {
        nodes: (0..count).map(node).collect(),
        ..Thread::default()
    };
    let process = Process {
        threads: vec![thread],
        ..Process::default()
    };
    Recording {
        processes: vec![process],
        ..Recording::default()
    }
}

/// `part` holds nothing that `whole` does not, in the same places.
fn assert_prefix(part: &Recording, whole: &Recording) {
    let begun = Meta {
        duration_ns: 0,
        end: End::Unknown,
        ..whole.meta.clone()
    };
    let is_trace = whole.meta.mode == Mode::Trace;
    let is_live = is_trace && part.meta == begun;
    assert!(is_live || part.meta == whole.meta);
    assert!(part.processes.len() <= whole.processes.len());
    for (part, whole) in part.processes.iter().zip(&whole.processes) {
        assert_eq!(
            (part.pid, part.parent, &part.args),
            (whole.pid, whole.parent, &whole.args)
        );
        // The modules that a trace wrote while it ran have no build ids, and stand where the later ones are lost.
        let modules = |process: &Process| -> Vec<Module> {
            let modules = process.modules.iter().cloned().map(|module| Module {
                build_id: module.build_id.filter(|_| !is_trace),
                ..module
            });
            modules.collect()
        };
        assert!(is_live || modules(whole).starts_with(&modules(part)));
        assert!(whole.fragments.starts_with(&part.fragments));
        assert!(whole.targets.starts_with(&part.targets));
        assert!(whole.functions.starts_with(&part.functions));
        for (part, whole) in part.threads.iter().zip(&whole.threads) {
            for lane in 0..8 {
                let of = |thread: &Thread| -> Vec<Part> {
                    let parts = thread.stream.iter().filter(|part| part.stream == lane);
                    parts.cloned().collect()
                };
                let (part, whole) = (of(part), of(whole));
                assert!(part.len() <= whole.len());
                let mut pairs = part.iter().zip(&whole);
                assert!(pairs.all(|(part, whole)| part.is_lost() || part == whole));
                let len = |parts: &[Part]| parts.iter().map(Part::len).sum::<u64>();
                assert_eq!(len(&part), len(&whole[..part.len()]));
            }
            assert!(part.nodes.len() <= whole.nodes.len());
            for (part_node, whole_node) in part.nodes.iter().zip(&whole.nodes) {
                let top = whole_node
                    .top
                    .filter(|&top| (top as usize) < part.nodes.len());
                assert_eq!(*part_node, Node { top, ..*whole_node });
            }
        }
    }
}

#[test]
fn what_is_written_is_read() {
    arbtest(|u| {
        let recording = recording(u, 60)?;
        assert_eq!(read(bytes_of(&recording).as_slice()).unwrap(), recording);
        Ok(())
    });
}

#[test]
fn threads_without_memory_round_trip() {
    for mode in [Mode::Contexts, Mode::Counts, Mode::Trace] {
        let mut recording = Recording::default();
        recording.meta.mode = mode;
        recording.denied = [(12, 3), (u32::MAX, u64::MAX)]
            .map(|(why, times)| trace::Denial {
                since_ns: 1 << 60,
                pid: 1,
                tid: 2,
                why,
                times,
            })
            .to_vec();
        assert_eq!(read(bytes_of(&recording).as_slice()).unwrap(), recording);
    }
}

#[test]
fn threads_of_many_chunks_round_trip() {
    let mut recording = chain(100_000);
    let nodes = &mut recording.processes[0].threads[0].nodes;
    for (index, node) in nodes.iter_mut().enumerate() {
        node.top = (index % 3 == 0).then_some(99_999 - index as u32);
        node.count = (index as u64).pow(3);
    }
    assert_eq!(read(bytes_of(&recording).as_slice()).unwrap(), recording);
}

#[test]
fn items_of_many_chunks_round_trip() {
    let mut recording = sample(5);
    let mut process = recording.processes[0].clone();
    let function = trace::Function {
        name: Some("a name that is long enough to fill some chunks".repeat(10)),
        ..trace::Function::default()
    };
    process.functions = (256..5000)
        .map(|id| trace::Function {
            id,
            ..function.clone()
        })
        .collect();
    process.parent = None;
    recording.processes.push(process);
    assert_eq!(read(bytes_of(&recording).as_slice()).unwrap(), recording);
}

#[test]
fn nodes_that_are_all_alike_stay_within_the_ratio() {
    let recording = chain(200_000);
    let bytes = bytes_of(&recording);
    assert!(bytes.len() < 8_000, "{} bytes", bytes.len());
    assert_eq!(read(bytes.as_slice()).unwrap(), recording);
}

#[test]
fn a_cut_anywhere_gives_a_prefix_or_an_error() {
    for seed in [7, 8, 9] {
        let whole = sample(seed);
        let bytes = bytes_of(&whole);
        let first_chunk_end = chunk_starts(&bytes)[1];
        // Each sample is cut at a third of its lengths.
        for len in (seed as usize % 3..bytes.len()).step_by(3) {
            let cut = &bytes[..len];
            match (read(cut), len) {
                (Err(ReadError::NotARecording), 0..8) => {}
                (Err(ReadError::Truncated { at }), 8..) => assert_eq!(at, len as u64),
                (Err(ReadError::Unfinished { torn }), _) => {
                    assert_eq!(whole.meta.mode, Mode::Trace);
                    let starts = chunk_starts(&bytes);
                    let begun = starts.iter().rfind(|&&start| start <= len);
                    assert_eq!(torn, (len - begun.unwrap()) as u64);
                }
                (other, _) => panic!("cut at {len}: {other:?}"),
            }
            match read_prefix(cut) {
                Ok(prefix) => {
                    assert!(len >= first_chunk_end);
                    assert!(prefix.lost.is_some());
                    assert_prefix(&prefix.recording, &whole);
                }
                Err(_) => assert!(len < first_chunk_end),
            }
        }
    }
}

#[test]
fn a_cut_keeps_every_whole_chunk() {
    let whole = chain(70_000);
    let bytes = bytes_of(&whole);
    let starts = chunk_starts(&bytes);
    // META, PROC, THRD, three of NODE, DONE.
    assert_eq!(starts.len() - 1, 7);
    let prefix = read_prefix(&bytes[..starts[5] + 20]).unwrap();
    assert_eq!(
        prefix.recording.processes[0].threads[0].nodes.len(),
        2 << 15
    );
    let lost = prefix.lost.unwrap();
    assert_eq!(lost.at, starts[5] as u64);
    assert!(
        lost.to_string()
            .starts_with(&format!("Everything from byte {} on is lost.", lost.at))
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    let whole = sample(11);
    let bytes = bytes_of(&whole);
    let mut random = Random(3);
    for _ in 0..2_000 {
        let bit = random.below(bytes.len() as u64 * 8) as usize;
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(damaged.as_slice()).is_err(), "bit {bit}");
        if let Ok(prefix) = read_prefix(damaged.as_slice()) {
            assert!(prefix.lost.is_some());
            assert_prefix(&prefix.recording, &whole);
        }
    }
}

#[test]
fn lost_chunks_and_appended_bytes_are_noticed() {
    let bytes = bytes_of(&chain(100_000));
    let starts = chunk_starts(&bytes);
    for pair in starts.windows(2) {
        let mut without = bytes.clone();
        without.drain(pair[0]..pair[1]);
        assert!(
            read(without.as_slice()).is_err(),
            "without the chunk at {}",
            pair[0]
        );
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let at = bytes.len() as u64;
    assert!(matches!(read(longer.as_slice()), Err(ReadError::TrailingBytes { at: a }) if a == at));
    assert_eq!(
        read_prefix(longer.as_slice()).unwrap().recording,
        chain(100_000)
    );
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let good = bytes_of(&Recording::default());
    assert!(matches!(
        read(&b"\x7fELF and so on"[..]),
        Err(ReadError::NotARecording)
    ));
    assert!(matches!(read(&b""[..]), Err(ReadError::NotARecording)));
    let mut newer = good.clone();
    newer[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    assert!(matches!(
        read(newer.as_slice()),
        Err(ReadError::DamagedHeader)
    ));
    reseal_header(&mut newer);
    assert!(
        matches!(read(newer.as_slice()), Err(ReadError::UnknownVersion { found }) if found == VERSION + 1)
    );
    assert_eq!(good[..8], MAGIC);
}

#[test]
fn unknown_chunks_are_skipped_only_if_they_allow_it() {
    let good = bytes_of(&sample(13));
    let meta_end = chunk_starts(&good)[1];
    let empty = zstd::bulk::compress(&[], 3).unwrap();
    for (kind, fine) in [(b"note", true), (b"NOTE", false)] {
        let mut bytes = good.clone();
        bytes.splice(meta_end..meta_end, chunk(kind, 0, &empty));
        match read(bytes.as_slice()) {
            Ok(recording) => assert!(fine && recording == sample(13)),
            Err(ReadError::UnknownChunk { at, .. }) => {
                assert!(!fine && at == meta_end as u64);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn declared_sizes_are_not_believed() {
    let head = &bytes_of(&Recording::default())[..16];
    let bomb = zstd::bulk::compress(&vec![0; 12 << 20], 19).unwrap();
    let cases: [(u32, &[u8]); 3] = [
        (u32::MAX, b"x"),
        ((16 << 20) + 1, &[0; 70_000]),
        (12 << 20, &bomb),
    ];
    for (raw_len, stored) in cases {
        let mut bytes = head.to_vec();
        bytes.extend(chunk(b"META", raw_len, stored));
        assert!(matches!(
            read(bytes.as_slice()),
            Err(ReadError::TooLarge { .. })
        ));
    }
    // A stream that gives more than it declares is stopped one byte later.
    let mut bytes = head.to_vec();
    bytes.extend(chunk(b"META", 100, &bomb));
    assert!(matches!(
        read(bytes.as_slice()),
        Err(ReadError::Compression { .. })
    ));
    // Counts inside a chunk are held against the bytes that are there.
    let raw = [0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let mut bytes = head.to_vec();
    bytes.extend(chunk(b"META", 6, &zstd::bulk::compress(&raw, 3).unwrap()));
    assert!(matches!(
        read(bytes.as_slice()),
        Err(ReadError::Malformed { .. })
    ));
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let mut recording = chain(3);
    recording.processes[0].threads[0].nodes[1].parent = Some(1);
    let error = write(&recording, io::sink()).unwrap_err();
    assert!(matches!(
        error,
        WriteError::Inconsistent {
            what: "node",
            index: 1
        }
    ));
    let mut recording = chain(3);
    recording.processes[0].threads[0].nodes[1].top = Some(3);
    assert!(matches!(
        write(&recording, io::sink()),
        Err(WriteError::Inconsistent { .. })
    ));
    let meta = Meta {
        command: vec!["x".repeat(17 << 20)],
        ..Meta::default()
    };
    let recording = Recording {
        meta,
        ..Recording::default()
    };
    assert!(matches!(
        write(&recording, io::sink()),
        Err(WriteError::TooLarge { .. })
    ));
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(matches!(write(&sample(1), Full), Err(WriteError::Io(_))));
}
