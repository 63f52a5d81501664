//! Runs the independent tools the tests compare with.
//!
//! A missing tool is a failure with a sentence, never a skipped test.
#![allow(dead_code, reason = "every test file uses its own half of this")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Standard output of a command that must succeed.
pub fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| {
            panic!("this test needs the program '{program}', which did not start: {error}")
        });
    assert!(
        output.status.success(),
        "'{program} {}' failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A fresh path below the test's own directory.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    std::fs::create_dir_all(&folder).expect("the target directory must be writable");
    folder.join(name)
}

/// Source of a test program.
pub fn source(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    folder.join(name).to_str().expect("UTF-8 path").to_owned()
}

/// Compiles a test program with `compiler`; the result is called `name`. Tests
/// that run beside each other make the same one: each gets it whole.
pub fn compile(compiler: &str, flags: &[&str], from: &str, name: &str) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let (own, out) = (scratch(&format!("{name}-{thread}")), scratch(name));
    let source = source(from);
    let mut args = vec!["-o", text(&own), &source];
    args.extend(flags);
    run(compiler, &args);
    std::fs::rename(own, &out).expect("it was just made");
    out
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}

/// One defined FUNC or IFUNC symbol, as `readelf` prints it.
#[derive(Debug)]
pub struct Func {
    pub addr: u64,
    pub size: u64,
    pub name: String,
}

/// All of `.symtab` and `.dynsym`, versions cut off.
pub fn funcs(path: &Path) -> Vec<Func> {
    let table = run("readelf", &["-sW", text(path)]);
    let parse = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (addr, size) = (fields.next()?, fields.next()?);
        let kind = fields.next()?;
        let section = fields.nth(2)?;
        // Go's names hold spaces.
        let name = fields.collect::<Vec<_>>().join(" ");
        if !matches!(kind, "FUNC" | "IFUNC") || section == "UND" {
            return None;
        }
        let size = size.strip_prefix("0x").map_or_else(
            || size.parse().ok(),
            |hex| u64::from_str_radix(hex, 16).ok(),
        )?;
        Some(Func {
            addr: u64::from_str_radix(addr, 16).ok()?,
            size,
            name: name.split('@').next()?.to_owned(),
        })
    };
    table.lines().filter_map(parse).collect()
}

/// Ranges of `.eh_frame`, as `readelf` prints them.
pub fn frames(path: &Path) -> Vec<(u64, u64)> {
    let dump = run("readelf", &["--debug-dump=frames", "-W", text(path)]);
    let ranges = dump.lines().filter_map(|line| {
        let range = line.split_once(" FDE ")?.1.split_once("pc=")?.1;
        let (start, end) = range.split_once("..")?;
        let hex = |text: &str| u64::from_str_radix(text.trim(), 16).ok();
        Some((hex(start)?, hex(end)?))
    });
    ranges.collect()
}
