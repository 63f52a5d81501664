//! Any bytes as a program whose control flow is asked for.
#![no_main]

use flow::Program;
use image::Image;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::parse(bytes) else {
        return;
    };
    let program = Program::of(&image);
    for function in &program.functions {
        function.graph.loops(&function.entry_blocks());
        assert!(program.function_at(function.entry).is_some() || function.is_empty());
    }
});
