//! Any bytes as an ELF file, and as what runtimes write about code that they made.
#![no_main]

use image::{GeneratedCode, Image};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut code = GeneratedCode::default();
    code.add_map(bytes);
    let _ = code.add_dump(bytes);
    let object = Image::from_object(bytes, "[memory]".as_ref());
    let Ok(image) = Image::parse(bytes).or(object) else {
        return;
    };
    for function in image.functions().iter().take(64) {
        image.symbolize(function.start);
        image.function_at(function.start);
    }
    if let Some(offset) = image.file_offset(image.entry()) {
        image.symbolize(offset);
    }
    image.line_table();
    image.scopes();
    image.linker_symbols();
});
