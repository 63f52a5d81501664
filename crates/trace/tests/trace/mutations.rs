//! A stable stand-in for the fuzz target: valid files, altered some ten
//! thousand times, half of them with checksums made right again so that the
//! damage reaches the decoders. Nothing may panic.

use crate::common::{Random, sample};
use trace::container::Kind;
use trace::{Identity, read, read_index, read_prefix, write, write_index};

const ROUNDS: usize = 6_000;

/// Splits a file behind its header into (kind, uncompressed bytes).
fn chunks(bytes: &[u8]) -> Vec<([u8; 4], Vec<u8>)> {
    let mut chunks = Vec::new();
    let mut rest = &bytes[16..];
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (raw_len, stored) = (word(4), &rest[16..16 + word(8)]);
        let raw = zstd::bulk::decompress(stored, raw_len).expect("no padding in small files");
        chunks.push((rest[..4].try_into().unwrap(), raw));
        rest = &rest[16 + stored.len()..];
    }
    chunks
}

fn seal(header: &[u8], chunks: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    for (kind, raw) in chunks {
        let stored = zstd::bulk::compress(raw, 1).unwrap();
        put(&mut bytes, kind, raw.len() as u32, &stored);
    }
    bytes
}

/// A chunk with a right checksum.
fn put(bytes: &mut Vec<u8>, kind: &[u8; 4], raw_len: u32, stored: &[u8]) {
    let mut head = kind.to_vec();
    head.extend(raw_len.to_le_bytes());
    head.extend((stored.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head), stored);
    bytes.extend(head);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(stored);
}

/// One change of the kinds that real damage and fuzzers make.
fn alter(bytes: &mut Vec<u8>, random: &mut Random) {
    let len = bytes.len() as u64;
    if len == 0 {
        bytes.push(random.below(256) as u8);
        return;
    }
    let at = random.below(len) as usize;
    match random.below(6) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.below(256) as u8),
        4 => {
            bytes.remove(at);
        }
        _ => {
            let from = random.below(len) as usize;
            let piece = bytes[from..len as usize].to_vec();
            bytes.splice(at..at, piece.into_iter().take(random.below(40) as usize));
        }
    }
}

#[test]
fn altered_files_never_panic() {
    let files: Vec<Vec<u8>> = (1..9)
        .map(|seed| {
            let mut bytes = Vec::new();
            write(&sample(seed * 77), &mut bytes).unwrap();
            bytes
        })
        .collect();
    let mut random = Random(0x5EED);
    let (mut whole, mut partial) = (0, 0);
    for round in 0..ROUNDS {
        let file = &files[round % files.len()];
        let mut bytes = file.clone();
        if round % 2 == 0 {
            (0..=random.below(4)).for_each(|_| alter(&mut bytes, &mut random));
        } else {
            let mut chunks = chunks(file);
            for _ in 0..=random.below(3) {
                let at = random.below(chunks.len() as u64) as usize;
                match random.below(8) {
                    0 => drop(chunks.remove(at)),
                    1 => chunks.push(chunks[at].clone()),
                    _ => alter(&mut chunks[at].1, &mut random),
                }
                if chunks.is_empty() {
                    break;
                }
            }
            bytes = seal(&file[..16], &chunks);
        }
        if let Ok(recording) = read(bytes.as_slice()) {
            // What reads as whole is consistent: it can be written and read.
            let mut again = Vec::new();
            write(&recording, &mut again).unwrap();
            assert_eq!(read(again.as_slice()).unwrap(), recording);
            whole += 1;
        }
        if let Ok(prefix) = read_prefix(bytes.as_slice()) {
            write(&prefix.recording, std::io::sink()).unwrap();
            partial += 1;
        }
    }
    assert!(
        whole > ROUNDS / 100 && partial > ROUNDS / 4,
        "{whole} whole, {partial} partial"
    );
}

/// Files beside traces: those that are refused change nothing.
/// Parts of streams, of which one has its stamps apart: the header before the compressed
/// bytes, those, and the unpacked length. A part unpacks to that length, or not at all.
#[test]
fn altered_parts_never_panic() {
    // The frame that each begins with, and the one of those that are apart.
    const LEAD: usize = 48;
    const APART: [u8; 4] = [0x52, 0x2A, 0x4D, 0x18];
    let file = include_bytes!("../recordings/11-trace.evp");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let mut random = Random(0xA9A7);
    let mut unpacked = [0; 2];
    for _ in 0..ROUNDS / 4 {
        let mut bytes = file[..16].to_vec();
        let mut at = 16;
        while at < file.len() {
            let kind: [u8; 4] = file[at..at + 4].try_into().unwrap();
            let (mut len, end) = (word(at + 4), at + 16 + word(at + 8) as usize);
            let stored = &file[at + 16..end];
            at = end;
            if kind != Kind::STRM.0 {
                put(&mut bytes, &kind, len, stored);
                continue;
            }
            let (lead, rest) = stored.split_at(LEAD);
            let (mut apart, frame) = match rest.starts_with(&APART) {
                true => (rest[..16].to_vec(), &rest[16..]),
                false => (Vec::new(), rest),
            };
            let mut raw = zstd::bulk::decompress(frame, 1 << 20).unwrap();
            match random.below(4) {
                0 => len = len.wrapping_add(random.below(40) as u32).wrapping_sub(20),
                1 => alter(&mut apart, &mut random),
                2 => alter(&mut raw, &mut random),
                _ if !apart.is_empty() => {
                    alter(&mut raw, &mut random);
                    apart[12..].copy_from_slice(&(raw.len() as u32).to_le_bytes());
                }
                _ => {}
            }
            let frame = zstd::bulk::compress(&raw, 1).unwrap();
            put(&mut bytes, &kind, len, &[lead, &apart, &frame].concat());
        }
        let Ok(prefix) = read_prefix(&bytes[..]) else {
            continue;
        };
        for part in &prefix.recording.processes[0].threads[0].stream {
            match part.unpack() {
                Ok(raw) => {
                    assert_eq!(raw.len() as u64, part.len());
                    unpacked[0] += 1;
                }
                Err(_) => unpacked[1] += 1,
            }
        }
    }
    assert!(
        unpacked.iter().all(|&times| times > ROUNDS / 8),
        "{unpacked:?} unpacked, and not"
    );
}

#[test]
fn altered_indices_never_panic() {
    let mut random = Random(0x1D8);
    let (mut used, mut refused) = (0, 0);
    let identity = Identity { bytes: 77, sum: 99 };
    for round in 0..ROUNDS {
        let numbered = sample(round as u64 % 50);
        let mut file = Vec::new();
        write_index(&numbered, identity, &mut file).unwrap();
        let mut bare = numbered.clone();
        let threads = bare.processes.iter_mut().flat_map(|p| &mut p.threads);
        let keyframes = threads.flat_map(|thread| &mut thread.keyframes);
        keyframes.for_each(|keyframe| keyframe.insns = None);
        let mut again = bare.clone();
        assert!(!read_index(&mut again, Identity::default(), &file[..]).unwrap());
        assert_eq!(again, bare);
        // Numbers that decrease are written, and not believed.
        if read_index(&mut again, identity, &file[..]).is_ok() {
            assert_eq!(again, numbered);
        }
        let bytes = match round % 2 {
            0 => {
                let mut bytes = file.clone();
                (0..=random.below(4)).for_each(|_| alter(&mut bytes, &mut random));
                bytes
            }
            _ => {
                let mut chunks = chunks(&file);
                alter(&mut chunks[0].1, &mut random);
                seal(&file[..16], &chunks)
            }
        };
        let mut altered = bare.clone();
        match read_index(&mut altered, identity, &bytes[..]) {
            Ok(true) => used += 1,
            Ok(false) | Err(_) => {
                assert_eq!(altered, bare);
                refused += 1;
            }
        }
    }
    assert!(used > ROUNDS / 100 && refused > ROUNDS / 4, "{used} used");
}
