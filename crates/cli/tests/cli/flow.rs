//! `everypath flow`: graphs against what was executed, and what it shows.

use std::collections::{HashMap, HashSet};

use analysis::counts::Counts;
use flow::{EdgeKind, Function, Program, To};
use image::{FileOffset, Image, LinkAddr};
use isa::{Flow, Insn};
use testkit::folder::Folder;

use crate::BINARY;

/// Programs that are executed, each as a line for a shell.
const PROGRAMS: [&str; 9] = [
    "ls -l /usr/bin",
    "sort -r /etc/passwd",
    "bash -c 'for i in 1 2 3; do case $i in 2) printf \"%05d\\n\" $i;; *) echo $((i*i));; esac; done'",
    "perl -e 'my %h = map { $_ => sprintf(\"%x\", $_) } 1..99; print join \",\", sort grep { /a/ } values %h'",
    "sqlite3 :memory: 'create table t(a); insert into t values(1),(2); select sum(a)*2.5 from t group by a order by 1;'",
    "tar cf out.tar in.c",
    "xz -k -f in.c",
    // It has a function `err` that returns.
    "gawk 'BEGIN { print atan2(1, 2), substr(\"hello\", 2, 3), int(7.9), x + 0, match(\"a1\", /[0-9]/); printf \"%d %s\\n\", 3, toupper(\"x\") }'",
    "./throws",
];

/// Larger ones: by clang, gcc, OCaml and Go, with switches and computed gotos of interpreters.
const LARGE_PROGRAMS: [&str; 10] = [
    "python3 -c 'import json; print(json.dumps([i for i in range(99)])); 1/0'",
    "git --no-pager diff --no-index --stat -p in.c throws.cc",
    "gcc -O2 -c -o out.o in.c",
    "everypath flow /usr/bin/true",
    "clang-14 -O2 -c -o out.o throws.cc",
    "clang++-14 -fuse-ld=lld -o linked out.o",
    "/usr/lib/llvm-14/bin/llvm-objdump -d out.o",
    "ruby -rjson -e 'h = Hash.new(0); 300.times { |i| h[i % 7] += i if i.to_s =~ /[1-5]/ }; puts h.to_json, h.sort_by { |k, v| -v }.inspect; begin; Integer(\"x\"); rescue => e; puts e.message; end'",
    "ocaml throws.ml",
    "gofmt throws.go",
];

/// A switch in C.
const IN_C: &str = "int f(int n) { switch (n) { case 1: return 7; case 2: return 3; case 3: return 99; case 4: return 2; case 9: return 1; } return n * 3 / 7; }\n";

/// Exceptions and a match.
const OF_OCAML: &str = r#"
exception Odd of int
let rec work n = match n mod 7 with
  | 0 -> n | 1 -> raise (Odd n) | 2 -> (try work (n + 6) with Odd k -> k) | 3 -> n * n
  | 4 -> int_of_float (sqrt (float n)) | 5 -> String.length (string_of_int n) | _ -> List.length (List.init n (fun x -> x))
let () = for n = 0 to 50 do print_int (try work n with Odd k -> -k); print_newline () done
"#;

/// Exceptions through frames with and without clean-up, a jump table, a computed goto, a tail call.
pub const THROWS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>
struct Noisy { std::string name; ~Noisy() { std::puts(name.c_str()); } };
__attribute__((noinline)) static int pick(int n) {
    switch (n) {
    case 0: return std::puts("zero");
    case 1: throw std::runtime_error("one");
    case 2: throw 2;
    case 3: return std::abs(n) * 3;
    case 4: return n * n;
    case 5: return std::rand() % 7;
    case 6: return std::puts("six");
    default: return -1;
    }
}
__attribute__((noinline)) static int tail(int n) { return pick(n + 1); }
__attribute__((noinline)) static int labels(const char *p) {
    static void *table[] = {&&a, &&b, &&end};
    int sum = 0;
    goto *table[*p++ - 'a'];
a:  sum += 1; goto *table[*p++ - 'a'];
b:  sum *= 3; goto *table[*p++ - 'a'];
end: return sum;
}
int main() {
    int sum = labels("aabac");
    for (int i = -2; i < 8; i++) {
        try {
            Noisy one{"clean " + std::to_string(i)};
            sum += tail(i);
        } catch (const std::exception &e) {
            std::puts(e.what());
        } catch (int n) {
            sum += n;
        }
    }
    std::printf("%d\n", sum);
}
"#;

/// Functions of a file, and where its instructions begin.
struct File {
    image: Image,
    program: Program,
    starts: HashMap<LinkAddr, HashSet<LinkAddr>>,
}

impl File {
    fn open(path: &str) -> Option<File> {
        let image = Image::open_whole(path).ok()?;
        Some(File {
            program: Program::of(&image),
            image,
            starts: HashMap::new(),
        })
    }

    /// Addresses of the instructions of a function.
    fn starts(&mut self, entry: LinkAddr) -> &HashSet<LinkAddr> {
        let function = self.program.function_from(entry).unwrap();
        self.starts.entry(entry).or_insert_with(|| {
            let mut all = HashSet::new();
            for block in &function.graph.blocks {
                let (mut at, mut last) = (block.start, block.start);
                while at < block.end {
                    let bytes = self.image.bytes_from(at);
                    let insn = Insn::decode(&bytes[..bytes.len().min(15)], at.0).unwrap();
                    all.insert(at);
                    last = at;
                    at = LinkAddr(insn.next_pc());
                }
                assert_eq!((at, last), (block.end, block.last));
            }
            all
        })
    }
}

/// Executed instructions that were looked at, and those of incomplete functions or none.
#[derive(Default)]
struct Seen {
    known: u64,
    unknown: u64,
}

/// Holds what was executed against the graphs.
fn check(
    counts: &Counts,
    files: &mut HashMap<String, Option<File>>,
    seen: &mut Seen,
    missing: &mut Vec<String>,
) {
    for (index, insn) in counts.insns.iter().enumerate() {
        let unit = &counts.units[insn.unit as usize];
        let Some(path) = unit.path.as_deref().filter(|path| path.starts_with('/')) else {
            continue;
        };
        let file = files
            .entry(path.to_owned())
            .or_insert_with(|| File::open(path));
        let Some(file) = file.as_mut().filter(|_| insn.count > 0) else {
            continue;
        };
        let Some(addr) = file.image.link_addr(FileOffset(insn.at)) else {
            continue;
        };
        let function = file.program.function_at(addr);
        let Some(function) = function.filter(|function| function.is_complete()) else {
            seen.unknown += 1;
            continue;
        };
        seen.known += 1;
        let function = function.clone();
        let mut lacks = |what: String| {
            let name = function.name.as_deref().unwrap_or("?");
            missing.push(format!(
                "{path} {name} {:x}: {what} at {addr:x}",
                function.entry
            ));
        };
        if !file.starts(function.entry).contains(&addr) {
            lacks("no instruction".into());
            continue;
        }
        let target_of = |at: u32| {
            let target = &counts.insns[at as usize];
            let same = target.unit == insn.unit;
            same.then(|| file.image.link_addr(FileOffset(target.at)))
                .flatten()
        };
        if insn.is_conditional() {
            if insn.taken() > 0
                && let Some(to) = insn.target.and_then(target_of)
                && !has(&function, addr, to, EdgeKind::Taken)
            {
                lacks(format!("no edge to {to:x}"));
            }
            let behind = LinkAddr(addr.0 + insn.bytes.len() as u64);
            if insn.fell > 0 && !has(&function, addr, behind, EdgeKind::FallThrough) {
                lacks("no edge to the instruction behind".into());
            }
        }
        if insn.flow == Flow::IndirectJump {
            for went in counts.went_from(index) {
                let to = went.to.and_then(target_of);
                let inside =
                    to.filter(|&to| function.ranges.iter().any(|range| range.contains(&to)));
                let found = match inside {
                    // It may call itself.
                    Some(to) if to == function.entry && leaves(&function, addr) => true,
                    Some(to) => has(&function, addr, to, EdgeKind::Case),
                    None => leaves(&function, addr),
                };
                if !found {
                    lacks(format!("no edge of the indirect jump to {to:x?}"));
                }
            }
        }
    }
}

/// Whether a graph has an edge from the block that ends with the instruction at `last`.
fn has(function: &Function, last: LinkAddr, to: LinkAddr, kind: EdgeKind) -> bool {
    let graph = &function.graph;
    let block = graph
        .block_at(last)
        .filter(|&block| graph.blocks[block].last == last);
    let edges = block.map(|block| graph.edges_of(block)).unwrap_or_default();
    edges.iter().any(|edge| match edge.to {
        To::Block(block) => edge.kind == kind && graph.blocks[block as usize].start == to,
        // It may run into another function over padding.
        To::Address(addr) if edge.kind == EdgeKind::FallThrough => {
            kind == edge.kind && (to.0..to.0 + 64).contains(&addr.0)
        }
        To::Address(addr) => addr == to,
        _ => false,
    })
}

/// Whether the instruction at `last` may leave the function by a jump.
fn leaves(function: &Function, last: LinkAddr) -> bool {
    let graph = &function.graph;
    let edges = graph.block_at(last).map(|block| graph.edges_of(block));
    let leaves = |edge: &flow::Edge| {
        edge.kind == EdgeKind::TailCall
            || edge.kind == EdgeKind::Case && matches!(edge.to, To::Address(_))
    };
    edges.unwrap_or_default().iter().any(leaves)
}

/// Runs them, and holds what they executed against the graphs.
fn executed(folder: &Folder, programs: &[&str]) -> Seen {
    std::fs::write(folder.file("throws.cc"), THROWS).unwrap();
    let mut files = HashMap::new();
    let (mut seen, mut missing) = (Seen::default(), Vec::new());
    for program in programs {
        let line = program.replace("everypath ", &format!("{BINARY} "));
        let line = format!("exec {line}");
        let words = ["count", "-q", "-o", "run.evp", "--", "sh", "-c", &line];
        let output = folder.run(BINARY, &words);
        assert_ne!(output.status.code(), Some(125), "{program}: {output:?}");
        let recording = std::fs::read(folder.file("run.evp")).unwrap();
        let recording = trace::read(recording.as_slice()).unwrap();
        let view = report::counts::View::default();
        let report = report::counts::Report::new(&recording, &view).unwrap();
        check(report.counts(), &mut files, &mut seen, &mut missing);
    }
    assert!(
        missing.is_empty(),
        "{} missing:\n{}",
        missing.len(),
        missing[..missing.len().min(30)].join("\n")
    );
    eprintln!(
        "{} instructions in complete functions, {} elsewhere",
        seen.known, seen.unknown
    );
    seen
}

#[test]
fn graphs_have_all_that_was_executed() {
    let folder = Folder::new("flow-executed");
    std::fs::write(folder.file("throws.cc"), THROWS).unwrap();
    let built = folder.run("g++", &["-O2", "-o", "throws", "throws.cc"]);
    assert!(built.status.success(), "{built:?}");
    std::fs::write(folder.file("in.c"), IN_C).unwrap();
    let seen = executed(&folder, &PROGRAMS);
    assert!(seen.known > 80_000 && seen.unknown * 10 < seen.known);
}

#[test]
#[ignore = "wide: graphs of all that LLVM is; smaller programs are in the gate"]
fn graphs_have_all_that_large_programs_executed() {
    let folder = Folder::new("flow-large");
    std::fs::write(folder.file("in.c"), IN_C).unwrap();
    std::fs::write(folder.file("throws.ml"), OF_OCAML).unwrap();
    std::fs::write(folder.file("throws.go"), crate::stacks::GO).unwrap();
    let seen = executed(&folder, &LARGE_PROGRAMS);
    assert!(folder.run("./linked", &[]).status.success());
    assert!(seen.known > 500_000, "{}", seen.known);
}

fn said(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, words);
    assert!(output.status.success(), "{words:?} {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A switch in a loop, in a program without anything else.
const SMALL: &str = r#"
#include <stdio.h>
__attribute__((noinline)) int work(const char *p) {
    int sum = 0;
    for (; *p; p++)
        switch (*p) {
        case 'a': puts("1"); break; case 'b': sum += 3; break; case 'c': sum *= 7; break;
        case 'd': puts("4"); break; case 'e': sum ^= 5; break; case 'f': puts("6"); break;
        }
    return sum;
}
int main(int argc, char **argv) { return work(argv[0]); }
"#;

#[test]
fn every_form_shows_the_graph() {
    let folder = Folder::new("flow-forms");
    folder.program(&["-O2", "-g"], "prog", SMALL);
    let summary = said(&folder, &["flow", "prog"]);
    for part in [
        "everypath flow: prog",
        "C, GNU ld",
        "1  jump tables, 1 bounded by a comparison, 6 cases",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let text = said(&folder, &["flow", "prog", "--function", "work"]);
    for part in [
        "work at 0x",
        "prog.c:3",
        "header of a loop, depth 1",
        "-> case: block",
        "6 cases, as a comparison says",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = said(
        &folder,
        &["flow", "prog", "--function", "work", "--format", "json"],
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let function = &json["functions"][0];
    assert_eq!(function["symbol"], "work");
    assert_eq!(function["complete"], true);
    assert_eq!(
        function["tables"][0]["targets"].as_array().unwrap().len(),
        6
    );
    assert_eq!(function["loops"].as_array().unwrap().len(), 1);
    let blocks = function["blocks"].as_array().unwrap().len();
    let svg = said(
        &folder,
        &["flow", "prog", "--function", "work", "--format", "svg"],
    );
    assert_eq!(svg.matches("<rect x=").count(), blocks);
    let dot = said(
        &folder,
        &["flow", "prog", "--function", "work", "--format", "dot"],
    );
    assert_eq!(dot.matches(" [label=").count(), blocks);
    let calls = said(&folder, &["flow", "prog", "--calls"]);
    assert!(calls.lines().any(|line| line == "work -> puts"), "{calls}");
    assert!(
        calls.lines().any(|line| line.starts_with("main -> work")),
        "{calls}"
    );
    let loops = said(&folder, &["flow", "prog", "--loops"]);
    assert!(
        loops.contains("work at 0x") && loops.contains("  loop at 0x"),
        "{loops}"
    );
    let gates = said(&folder, &["flow", "prog", "--gates"]);
    assert!(!gates.contains(" work:"), "{gates}");
    // It has `longjmp`.
    let gates = said(
        &folder,
        &["flow", "/lib/x86_64-linux-gnu/libc.so.6", "--gates"],
    );
    assert!(
        gates.contains(": an indirect jump whose targets are not known\n"),
        "{gates}"
    );
    said(&folder, &["count", "-q", "-o", "run.evp", "--", "./prog"]);
    let words = ["flow", "prog", "--function", "work", "--counts", "run.evp"];
    let counted = said(&folder, &words);
    // Its name, "./prog", has six letters, none of them of a case.
    assert!(
        counted.contains("6 times  header of a loop") || counted.contains("6 times  in a loop"),
        "{counted}"
    );
    assert!(counted.contains("block 0  1 times"), "{counted}");
    let table = said(&folder, &["flow", "--table", "."]);
    assert!(table.contains("C     GNU ld           1"), "{table}");
}

#[test]
fn what_is_no_program_is_refused() {
    let folder = Folder::new("flow-refused");
    folder.program(&["-O2"], "prog", SMALL);
    let whole = std::fs::read(folder.path().join("prog")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("text", b"no program");
    write("cut", &whole[..60]);
    let mut other = whole.clone();
    other[18] = 0xB7;
    write("arm", &other);
    let mut short = whole.clone();
    short[4] = 1;
    write("short", &short);
    for (words, why) in [
        (&["text"][..], "not an ELF file"),
        (&["cut"], "it is truncated"),
        (&["arm"], "another machine"),
        (&["short"], "32-bit"),
        (&["none"], "No such file"),
        (
            &["prog", "--function", "worl"],
            "has no function 'worl'; there are work",
        ),
        (&["prog", "--format", "svg"], "give --function"),
        (&["prog", "--format", "dot"], "give --function or --calls"),
        (&["prog", "prog"], "give --table"),
        (
            &["prog", "--function", "work", "--counts", "text"],
            "not an Everypath recording",
        ),
        (&["prog", "--report", "no/x"], "cannot write 'no/x'"),
    ] {
        let output = folder.run(BINARY, &[&["flow"], words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?} {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{words:?} {said}"
        );
    }
}
