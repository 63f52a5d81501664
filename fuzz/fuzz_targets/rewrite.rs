//! Any bytes as a program that is edited.
#![no_main]

use flow::Program;
use image::Image;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(edited) = rewrite::null_segment(bytes) {
        assert!(rewrite::is_edited(&edited.bytes));
    }
    if let Ok(image) = Image::parse(bytes) {
        let program = Program::of(&image);
        let _ = rewrite::null_relocation(bytes, &image, &program, rewrite::OldCode::Traps);
    }
});
