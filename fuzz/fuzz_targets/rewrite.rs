//! Any bytes as a program that is edited.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(edited) = rewrite::null_segment(bytes) {
        assert!(rewrite::is_edited(&edited.bytes));
    }
});
