//! Entries that code of the file may call or jump to directly.
//!
//! Problem: GCC has a caller keep a value in `r11` across a call of a function that happens to leave it (`-fipa-ra`), so what is in
//! front of an entry keeps it, too. A caller that knows no callee, by a pointer or a symbol of another file, cannot do that.
//!
//! Approach: each place of the file's code at which the bytes of a direct branch to an entry stand counts, whether an instruction
//! begins there or not: so code that was not found, and old code that is executed against all expectation, count as well.

use std::collections::HashSet;

use flow::Program;
use image::{Image, LinkAddr};

/// Entries that may be called or jumped to directly.
pub(super) fn targets(image: &Image, program: &Program) -> HashSet<LinkAddr> {
    let functions = program.functions.iter();
    let entries: HashSet<LinkAddr> = functions.map(|function| function.entry).collect();
    let mut found = HashSet::new();
    for segment in image.segments().iter().filter(|segment| segment.executable) {
        let code = image.bytes_from(segment.addr);
        let code = &code[..code.len().min(segment.file_size as usize)];
        for at in 0..code.len() {
            let distance = match code[at..] {
                // call, jmp
                [0xe8 | 0xe9, a, b, c, d, ..] => Some((5, i32::from_le_bytes([a, b, c, d]))),
                // A conditional branch.
                [0x0f, 0x80..=0x8f, a, b, c, d, ..] => Some((6, i32::from_le_bytes([a, b, c, d]))),
                // Short ones, and loops.
                [0xeb | 0x70..=0x7f | 0xe0..=0xe3, a, ..] => Some((2, a.cast_signed().into())),
                _ => None,
            };
            let target = distance.map(|(length, distance)| {
                let behind = segment.addr.0 + at as u64 + length;
                LinkAddr(behind.wrapping_add_signed(distance.into()))
            });
            found.extend(target.filter(|target| entries.contains(target)));
        }
    }
    found
}
