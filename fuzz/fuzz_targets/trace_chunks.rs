//! Any contents in sound chunks: checksums and compression are made right, so
//! that the fuzzer works on what stands behind them.
//!
//! The input is a list of (kind, length, contents): one byte that picks the
//! kind, two that give the length (little-endian), and so many bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::container::{Kind, MAGIC, VERSION};

const KINDS: [Kind; 9] = [
    Kind::META,
    Kind::PROC,
    Kind::MODS,
    Kind::FUNC,
    Kind::THRD,
    Kind::NODE,
    Kind::LOGS,
    Kind::DONE,
    Kind(*b"note"),
];

fn put_chunk(file: &mut Vec<u8>, kind: Kind, raw: &[u8]) {
    let stored = zstd::bulk::compress(raw, 1).expect("memory is enough");
    let mut header = kind.0.to_vec();
    header.extend((raw.len() as u32).to_le_bytes());
    header.extend((stored.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header), &stored);
    file.extend(header);
    file.extend(sum.to_le_bytes());
    file.extend(stored);
}

fuzz_target!(|bytes: &[u8]| {
    let mut file = MAGIC.to_vec();
    file.extend(VERSION.to_le_bytes());
    file.extend(crc32c::crc32c(&file).to_le_bytes());
    let mut rest = bytes;
    while let [kind, low, high, after @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        put_chunk(
            &mut file,
            KINDS[usize::from(*kind) % KINDS.len()],
            &after[..len],
        );
        rest = &after[len..];
    }
    if let Ok(prefix) = trace::read_prefix(file.as_slice()) {
        let mut again = Vec::new();
        trace::write(&prefix.recording, &mut again).expect("a prefix is consistent");
        assert_eq!(
            trace::read(again.as_slice()).expect("it reads as whole"),
            prefix.recording
        );
    }
});
