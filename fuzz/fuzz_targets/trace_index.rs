//! Any contents of the file beside a trace, with a right checksum: its numbers are those of
//! keyframes that are there, or it changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::container::Kind;
use trace::{Identity, Keyframe, Recording};

/// A recording with that many keyframes in its threads.
fn bare() -> Recording {
    let bytes = include_bytes!("../../crates/trace/tests/recordings/9-trace.evp");
    let mut recording = trace::read(&bytes[..]).expect("it is whole");
    for (process, number) in recording.processes.iter_mut().zip([3, 0, 200]) {
        for thread in &mut process.threads {
            thread.keyframes = vec![Keyframe::default(); number];
        }
    }
    recording
}

fuzz_target!(|bytes: &[u8]| {
    // What an index begins with, up to its identity.
    let mut file = Vec::new();
    let identity = Identity { bytes: 1, sum: 2 };
    let bare = bare();
    let nothing = Recording {
        meta: bare.meta.clone(),
        processes: Vec::new(),
        ..Recording::default()
    };
    trace::write_index(&nothing, identity, &mut file).expect("it is small");
    file.truncate(16);
    let raw = [&[1, 2], bytes].concat();
    let stored = zstd::bulk::compress(&raw, 1).expect("memory is enough");
    let mut header = Kind::NUMB.0.to_vec();
    header.extend((raw.len() as u32).to_le_bytes());
    header.extend((stored.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header), &stored);
    file.extend(header);
    file.extend(sum.to_le_bytes());
    file.extend(stored);
    let mut recording = bare.clone();
    if trace::read_index(&mut recording, identity, &file[..]).is_ok_and(|used| used) {
        let mut again = Vec::new();
        trace::write_index(&recording, identity, &mut again).expect("it is no larger");
        let mut second = bare;
        let used = trace::read_index(&mut second, identity, &again[..]);
        assert!(used.expect("it was written now") && second == recording);
    } else {
        assert_eq!(recording, bare);
    }
});
