//! Build step of the crates that embed a freestanding program: compiles it, always optimised, for no profile of the host's.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of all of them: no C library, nothing loaded elsewhere by another program.
const FLAGS: [&str; 6] = [
    "-Crelocation-model=pie",
    "-Ctarget-feature=+crt-static",
    "-Ctarget-cpu=x86-64",
    "-Cpanic=abort",
    "-Clink-arg=-nostartfiles",
    "-Clink-arg=-nostdlib",
];

/// The folder of all crates.
pub fn crates() -> PathBuf {
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let crates = own.join("..").canonicalize();
    crates.expect("the crate is in a folder")
}

/// The folder for what a build script makes.
pub fn out() -> PathBuf {
    PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"))
}

/// Builds the program `everypath-NAME` of the crate `name`, made of the sources of `parts`; gives its path. `link` has its own flags for
/// the linker.
pub fn build(name: &str, parts: &[&str], link: &[String]) -> PathBuf {
    let crates = crates();
    for path in parts.iter().flat_map(|part| {
        let part = crates.join(part);
        [part.join("src"), part.join("Cargo.toml")]
    }) {
        rerun_if_changed(&path);
    }
    rerun_if_changed(&crates.join("freestanding.rs"));
    // All profiles share one build: OUT_DIR is TARGET/PROFILE/build/CRATE-HASH/out.
    let out = out();
    let target = out.ancestors().nth(4).unwrap_or(&out).join(name);
    let link = link.iter().map(|flag| format!("-Clink-arg={flag}"));
    let flags: Vec<String> = FLAGS.map(str::to_owned).into_iter().chain(link).collect();
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args([
            "build",
            "--release",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(crates.join(name).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .status()
        .expect("cargo can be run from a build script");
    assert!(status.success(), "the crate {name} does not build");
    target.join(format!("x86_64-unknown-linux-gnu/release/everypath-{name}"))
}

pub fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}
