//! Compiles the code that lives in edited programs, and leaves its bytes where `resident.rs` embeds them.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let crates =
        PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    for name in ["resident", "sys", "wire"] {
        for part in ["src", "Cargo.toml"] {
            let path = crates.join(name).join(part);
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let own = crates.join("resident").canonicalize();
    let own = own.expect("the crate stands beside this one");
    let script = own.join("resident.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    // All profiles share one build: OUT_DIR is TARGET/PROFILE/build/rewrite-HASH/out.
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    let target = out.ancestors().nth(4).unwrap_or(&out).join("resident");
    let linker = format!("-Clink-arg=-Wl,-T,{},--build-id=none", script.display());
    let flags = [
        "-Crelocation-model=pie",
        "-Ctarget-feature=+crt-static",
        "-Ctarget-cpu=x86-64",
        "-Cpanic=abort",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static",
        "-Clink-arg=-no-pie",
        &linker,
    ];
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args([
            "build",
            "--release",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(own.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .status()
        .expect("cargo can be run from a build script");
    assert!(status.success(), "the resident code does not build");
    let built = target.join("x86_64-unknown-linux-gnu/release/everypath-resident");
    let code = out.join("resident.bin");
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
