//! Any dictionary, any events of it, and any word of a context: paths, or a reason why there is none.
//!
//! The input is a number of bytes (32 bits), so many bytes of a dictionary, and events; the whole is a context's word as well.
#![no_main]

use analysis::encoded::Decoder;
use analysis::encoded::events::Stream;
use libfuzzer_sys::fuzz_target;
use placement::dictionary;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let length = u32::from_le_bytes(*length) as usize;
    let (kept, events) = rest.split_at(length.min(rest.len()));
    let Some(files) = dictionary::decode(kept) else {
        return;
    };
    // What was read is written, and read again.
    let again = dictionary::decode(&dictionary::encode(&files));
    assert!(again.is_some_and(|again| again == files));
    let decoder = Decoder::new(files);
    for event in Stream::default()
        .read(&decoder, events)
        .into_iter()
        .flatten()
    {
        let _ = decoder.path_in(event.function, &event.moment);
        let _ = decoder.path_with_entries(event.function, &event.moment);
    }
    let _ = decoder.path_of_word(&String::from_utf8_lossy(events));
});
