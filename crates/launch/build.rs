//! Compiles the payload, always optimised, and leaves it where `lib.rs` embeds it.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let crates =
        PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    for name in ["payload", "dbt", "agent", "forest", "isa", "sys", "wire"] {
        println!(
            "cargo::rerun-if-changed={}",
            crates.join(name).join("src").display()
        );
        println!(
            "cargo::rerun-if-changed={}",
            crates.join(name).join("Cargo.toml").display()
        );
    }
    // All profiles share one build of the payload, which is optimised in each of them: OUT_DIR is
    // TARGET/PROFILE/build/launch-HASH/out.
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    let target = out.ancestors().nth(4).unwrap_or(&out).join("payload");
    let flags = [
        "-Crelocation-model=pie",
        "-Ctarget-feature=+crt-static",
        "-Ctarget-cpu=x86-64",
        "-Cpanic=abort",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static-pie",
        "-Clink-arg=-Wl,-z,noexecstack,-z,max-page-size=4096,--build-id=none,--no-eh-frame-hdr,-z,norelro",
    ];
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args([
            "build",
            "--release",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(crates.join("payload/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .status()
        .expect("cargo can be run from a build script");
    assert!(status.success(), "the payload does not build");
    let built = target.join("x86_64-unknown-linux-gnu/release/everypath-payload");
    println!("cargo::rustc-env=EVERYPATH_PAYLOAD={}", built.display());
}
