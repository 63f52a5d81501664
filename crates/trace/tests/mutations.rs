//! A stable stand-in for the fuzz target: valid files, altered some ten
//! thousand times, half of them with checksums made right again so that the
//! damage reaches the decoders. Nothing may panic.

mod common;

use common::{Random, sample};
use trace::{Identity, read, read_index, read_prefix, write, write_index};

const ROUNDS: usize = 12_000;

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
        let mut head = kind.to_vec();
        head.extend((raw.len() as u32).to_le_bytes());
        head.extend((stored.len() as u32).to_le_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&head), &stored);
        bytes.extend(head);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(stored);
    }
    bytes
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

/// The same of files beside traces; those that are refused change nothing.
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
