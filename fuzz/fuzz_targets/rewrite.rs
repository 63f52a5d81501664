//! Any bytes as a program that is edited.
#![no_main]

use flow::Program;
use image::Image;
use libfuzzer_sys::fuzz_target;
use rewrite::{CounterFiles, OldCode, Options};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(edited) = rewrite::null_segment(bytes, Options::default()) {
        assert!(rewrite::is_edited(&edited.bytes));
    }
    if let Ok(image) = Image::parse(bytes) {
        let program = Program::of(&image);
        let options = Options {
            old_code: OldCode::Traps,
            libraries: Some("$ORIGIN"),
        };
        let _ = rewrite::edit(bytes, &image, &program, options, &mut ());
        let wanted = edits::Wanted {
            branches: false,
            targets: false,
            log: None,
            loops: None,
            memory: bytes.len().is_multiple_of(2),
            left: &std::collections::HashSet::new(),
            turns: None,
            original: "",
            profile: None,
            files: CounterFiles::WorkingFolder,
            part: None,
            base: 0,
        };
        for tool in edits::TOOLS {
            let mut tool = (tool.make)(&image, &program, wanted);
            let _ = rewrite::edit(bytes, &image, &program, options, &mut *tool);
        }
    }
});
