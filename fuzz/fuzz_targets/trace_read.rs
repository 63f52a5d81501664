//! Any bytes as a recording.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(recording) = trace::read(bytes) {
        let mut again = Vec::new();
        trace::write(&recording, &mut again).expect("what was read can be written");
        assert_eq!(
            trace::read(again.as_slice()).expect("and read again"),
            recording
        );
    }
    if let Ok(prefix) = trace::read_prefix(bytes) {
        trace::write(&prefix.recording, std::io::sink()).expect("a prefix is consistent");
        let processes = prefix.recording.processes.iter();
        for part in processes
            .flat_map(|it| &it.threads)
            .flat_map(|it| &it.stream)
        {
            if let Ok(raw) = part.unpack() {
                assert_eq!(raw.len() as u64, part.len());
            }
        }
    }
});
