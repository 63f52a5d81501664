//! Compiles the payload and leaves it where `lib.rs` embeds it.

#[path = "../freestanding.rs"]
mod freestanding;

fn main() {
    let parts = ["payload", "dbt", "agent", "forest", "isa", "sys", "wire"];
    let link = [
        "-static-pie",
        "-Wl,-z,noexecstack,-z,max-page-size=4096,--build-id=none,--no-eh-frame-hdr,-z,norelro",
    ];
    let built = freestanding::build("payload", &parts, &link.map(str::to_owned));
    println!("cargo::rustc-env=EVERYPATH_PAYLOAD={}", built.display());
}
