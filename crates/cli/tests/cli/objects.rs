//! `flow` of object files and archives: the graphs of the program that is linked of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flow::{EdgeKind, Program, To};
use image::{Image, LinkAddr};
use testkit::folder::Folder;

use crate::BINARY;

const SOURCE: &str = r#"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int table[50];
extern int elsewhere;
int elsewhere = 3;
static long one(long n) { return n + table[n % 50]; }
static long two(long n) { return n * 2 + elsewhere; }
static long (*const all[])(long) = { one, two, labs };
__attribute__((noinline)) long choose(long n) { switch (n) { case 0: return 5; case 1: return one(n); case 2: return labs(-n); case 3: puts("x"); return 9; case 4: return 12; case 5: abort(); } return two(n); }
__attribute__((noinline)) long calls(long n) { long s = 0; for (long i = 0; i < n; i++) s += all[i % 3](i); return s; }
long machine(const unsigned char *at) {
    static void *const labels[] = { &&add, &&twice, &&end };
    long s = 0;
    goto *labels[*at++];
add: s += 3; goto *labels[*at++];
twice: s *= 2; goto *labels[*at++];
end: return s;
}
jmp_buf to;
int main(int n, char **v) { if (setjmp(to)) return 1; if (n > 9) exit(2); printf("%ld %ld %ld\n", choose(n), calls(n), machine((void *)"")); return strlen(v[0]) > 300; }
"#;

/// Blocks, instructions and edges of each function by its name; calls and tail calls with names.
fn shapes(image: &Image) -> BTreeMap<String, String> {
    let program = Program::of(image);
    let named = program.functions.iter().filter_map(|function| {
        let name = function.name.clone()?;
        let first = function.entry;
        let offset = |addr: LinkAddr| addr.0.wrapping_sub(first.0);
        let is_part = function.ranges.len() > 1;
        let blocks = function.graph.blocks.iter();
        let blocks: Vec<_> = blocks
            .filter(|block| !is_part || function.ranges[0].contains(&block.start))
            .map(|block| (offset(block.start), block.insns))
            .collect();
        let mut edges: Vec<String> = Vec::new();
        for edge in &function.graph.edges {
            let to = match edge.to {
                To::Block(_) => String::new(),
                // Addresses of other sections differ, and those of stubs have names.
                to => program.name_of(to).unwrap_or("?").to_owned(),
            };
            let is_known = edge.kind != EdgeKind::LandingPad;
            edges.extend(is_known.then(|| format!("{:?} {to}", edge.kind)));
        }
        edges.sort_unstable();
        let complete = function.is_complete();
        Some((name, format!("{complete} {blocks:x?} {edges:?}")))
    });
    named.collect()
}

#[test]
fn object_files_have_the_graphs_of_what_is_linked() {
    let folder = Folder::new("objects");
    fs::write(folder.file("a.c"), SOURCE).expect("a file");
    fs::write(folder.file("b.cc"), crate::flow::THROWS).expect("a file");
    let run = |program: &str, words: &str| {
        let output = folder.run(program, &words.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    for (source, compiler) in [("a.c", "gcc"), ("b.cc", "g++"), ("a.c", "clang-14")] {
        for flags in [
            "-O2 -fPIC",
            "-O1 -fno-pic -no-pie",
            "-O2 -ffunction-sections -g",
            "-O0 -fno-plt",
        ] {
            run(compiler, &format!("{flags} -c -o one.o {source}"));
            let linker = if compiler == "clang-14" {
                "gcc"
            } else {
                compiler
            };
            let kind = if flags.contains("no-pie") {
                "-no-pie"
            } else {
                "-pie"
            };
            run(linker, &format!("{kind} -o linked one.o"));
            let object = Image::open_to_read(folder.file("one.o")).expect("an object file");
            let linked = Image::open_whole(folder.file("linked")).expect("a program");
            let (own, all) = (shapes(&object), shapes(&linked));
            let what = format!("{compiler} {flags}");
            assert!(own.len() > 3, "{what}: {own:?}");
            for (name, shape) in &own {
                assert_eq!(Some(shape), all.get(name), "{what}: {name}");
            }
        }
    }
    // Names of functions of other files, and which of them do not return.
    run("gcc", "-O2 -c -o one.o a.c");
    let calls = run(BINARY, "flow one.o --calls");
    for line in [
        "choose -> abort  does not return\n",
        "main -> exit  does not return\n",
        "main -> printf\n",
    ] {
        assert!(calls.contains(line), "{calls}");
    }
    run("ar", "rc all.a one.o");
    let table = run(BINARY, "flow all.a");
    assert!(table.contains("C     GNU ld           1"), "{table}");
    let member = run(BINARY, "flow all.a(one.o) --function choose");
    assert!(member.starts_with("choose at 0x"), "{member}");
    let refused = folder.run(BINARY, &["flow", "all.a", "--function", "choose"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(
        said,
        "everypath: 'all.a' is an archive: give the object file with 'choose', 'all.a(one.o)'\n"
    );
}

/// Damaged ones are refused, or read.
#[test]
fn damaged_object_files_do_no_harm() {
    let folder = Folder::new("objects-damaged");
    fs::write(folder.file("a.c"), SOURCE).expect("a file");
    let built = folder.run("gcc", &["-O2", "-c", "-o", "one.o", "a.c"]);
    assert!(built.status.success());
    let whole = fs::read(folder.file("one.o")).expect("a file");
    let mut random = 88_172_645_463_325_252u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    let mut read = 0;
    for turn in 0..1500 {
        let mut bytes = whole.clone();
        for _ in 0..=below(4) {
            // Headers of the file and of sections, or anything.
            let (start, len) = match below(3) {
                0 => (0, 64),
                1 => (whole.len() - 1200, 1200),
                _ => (0, whole.len()),
            };
            bytes[start + below(len)] = below(256) as u8;
        }
        if turn % 3 == 0 {
            bytes.truncate(below(whole.len()));
        }
        if let Ok(image) = Image::from_object(&bytes, Path::new("damaged")) {
            read += 1;
            Program::of(&image);
        }
    }
    assert!(read > 300, "{read} were read");
}
