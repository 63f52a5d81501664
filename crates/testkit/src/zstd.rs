//! A real C program to build in any way: zstd's library, whose source is here because
//! `trace` uses it, with a main that packs a text and unpacks it again.

use std::path::{Path, PathBuf};
use std::process::Command;

const MAIN: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zstd.h"
int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 300000;
    char *text = malloc(size), *back = malloc(size);
    unsigned seed = 1;
    for (int i = 0; i < size; i++) {
        seed = seed * 1103515245 + 12345;
        text[i] = "the quick brown fox "[(seed >> 16) % 20];
    }
    for (int level = 1; level <= 19; level += 6) {
        size_t bound = ZSTD_compressBound(size);
        char *packed = malloc(bound);
        size_t n = ZSTD_compress(packed, bound, text, size, level);
        size_t m = ZSTD_decompress(back, size, packed, n);
        printf("%d %zu %d\n", level, n, m == (size_t)size && !memcmp(text, back, size));
        free(packed);
    }
    free(text);
    free(back);
    return 0;
}
"#;

/// Builds it with `compiler` and `flags` as `name` in `folder`.
///
/// # Panics
///
/// If the compiler or the source is missing.
pub fn build(folder: &Path, compiler: &str, flags: &[&str], name: &str) {
    std::fs::write(folder.join("main.c"), MAIN).expect("the folder can be written");
    let library = library();
    let mut files = vec![PathBuf::from("main.c")];
    for part in ["common", "compress", "decompress"] {
        let listed = std::fs::read_dir(library.join(part)).expect("zstd-sys holds the source");
        let mut part: Vec<PathBuf> = listed
            .map(|entry| entry.expect("readable").path())
            .collect();
        part.retain(|path| path.extension().is_some_and(|kind| kind == "c"));
        part.sort();
        files.extend(part);
    }
    let mut command = Command::new(compiler);
    command
        .args(flags)
        .arg("-DZSTD_DISABLE_ASM=1")
        .arg("-I")
        .arg(&library);
    command.args(["-o", name]).args(files).current_dir(folder);
    let status = command.status();
    let status = status.unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler} builds zstd");
}

/// The folder of the library's source, in cargo's copy of the crate.
fn library() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--offline"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = String::from_utf8(output.expect("cargo runs").stdout).expect("JSON is UTF-8");
    let manifest = text
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("/zstd-sys-"))
        .expect("zstd-sys is a dependency");
    Path::new(manifest).with_file_name("zstd").join("lib")
}
