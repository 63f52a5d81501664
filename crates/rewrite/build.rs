//! Compiles the code that lives in edited programs, and leaves its bytes where `resident.rs` embeds them.
#![forbid(unsafe_code)]

#[path = "../freestanding.rs"]
mod freestanding;

use std::path::Path;

fn main() {
    let script = freestanding::crates().join("resident/resident.ld");
    freestanding::rerun_if_changed(&script);
    let link = [
        "-static".to_owned(),
        "-no-pie".to_owned(),
        format!("-Wl,-T,{},--build-id=none", script.display()),
    ];
    let built = freestanding::build("resident", &["resident", "sys", "wire"], &link);
    let code = freestanding::out().join("resident.bin");
    std::fs::write(&code, loaded(&built)).expect("OUT_DIR can be written");
    println!("cargo::rustc-env=EVERYPATH_RESIDENT={}", code.display());
}

/// Bytes of the only segment of a file (gABI 4, program header).
fn loaded(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).expect("cargo built it");
    let number = |at: usize, size: usize| {
        let bytes = file[at..at + size].iter().rev();
        bytes.fold(0usize, |number, &byte| number << 8 | usize::from(byte))
    };
    let (table, count) = (number(0x20, 8), number(0x38, 2));
    let headers = (0..count).map(|at| table + at * 56);
    let loads: Vec<usize> = headers.filter(|at| number(*at, 4) == 1).collect();
    let [only] = loads[..] else {
        panic!("the resident code has {} segments", loads.len());
    };
    let (offset, size) = (number(only + 8, 8), number(only + 32, 8));
    assert!(number(only + 16, 8) == 0, "it is linked for address 0");
    file[offset..offset + size].to_vec()
}
