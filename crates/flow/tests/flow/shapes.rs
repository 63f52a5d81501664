//! Functions whose graphs are known.

use std::path::PathBuf;
use std::process::Command;

use flow::{Edge, EdgeKind, Function, Gate, Program, To};
use image::Image;

use crate::damage::hold_together;

/// Builds `source` and gives its functions.
pub fn built(name: &str, compiler: &str, flags: &[&str], source: &str) -> (Image, Program) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let extension = if compiler.contains("++") { "cc" } else { "c" };
    let (from, to) = (
        folder.join(format!("{name}.{extension}")),
        folder.join(name),
    );
    std::fs::write(&from, source).unwrap();
    let output = Command::new(compiler)
        .args(flags)
        .arg("-o")
        .arg(&to)
        .arg(&from)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let image = Image::open_whole(&to).unwrap();
    let program = Program::of(&image);
    hold_together(&program);
    (image, program)
}

pub fn named<'p>(program: &'p Program, name: &str) -> &'p Function {
    let mut all = program.functions.iter();
    all.find(|function| function.name.as_deref() == Some(name))
        .unwrap_or_else(|| panic!("no {name}"))
}

pub const SWITCHES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int calls;
__attribute__((noinline)) void use(const char *text) { calls++; if (text) puts(text); }
__attribute__((noinline)) void dense(int n) {
    switch (n) {
    case 10: use("a"); break; case 11: use("b"); break; case 12: use("c"); break;
    case 13: use("d"); break; case 14: use("e"); break; case 15: use("f"); break;
    case 16: use("g"); break; default: use(0);
    }
}
__attribute__((noinline)) void of_byte(unsigned char *p) {
    for (; *p; p++)
        switch (*p) {
        case 'a': use("1"); break; case 'b': use("2"); break; case 'c': use("3"); break;
        case 'd': use("4"); break; case 'e': use("5"); break; case 'f': use("6"); break;
        }
}
__attribute__((noinline)) void masked(unsigned n) {
    switch (n & 7) {
    case 0: use("0"); break; case 1: use("1"); break; case 2: use("2"); break; case 3: use("3"); break;
    case 4: use("4"); break; case 5: use("5"); break; case 6: use("6"); break; case 7: use("7"); break;
    }
}
__attribute__((noinline)) int nest(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            sum += i * j ^ calls;
    return sum;
}
__attribute__((noinline)) static void leave(int n) { use("bye"); exit(n); }
__attribute__((noinline)) int sometimes(int n) { if (n > 3) leave(n); return n * 3; }
__attribute__((noinline)) int (*volatile pointer)(int) = sometimes;
__attribute__((noinline)) int tail(int n) { calls++; return pointer(n + 1); }
int main(int argc, char **argv) {
    dense(argc + 9); of_byte((unsigned char *)argv[0]); masked(argc);
    return nest(argc) + sometimes(argc) + tail(argc);
}
"#;

/// Number of cases of the only table of a function.
pub fn cases(function: &Function) -> (usize, bool) {
    let [table] = &function.tables[..] else {
        panic!("{:?} {:?}", function.name, function.tables);
    };
    (table.cases().count(), table.is_bounded)
}

/// Switches, loops and calls by a compiler, which makes tables for all three switches or also lists of values.
pub fn switches_loops_and_calls(compiler: &str, has_tables: bool) {
    let all: [&[&str]; 6] = [
        &["-O2"],
        &["-O2", "-no-pie", "-fno-pie"],
        &["-O1", "-fcf-protection=full"],
        &["-O3", "-fno-plt"],
        &["-O0"],
        &["-Os"],
    ];
    for (number, flags) in all.iter().enumerate() {
        let (_, program) = built(
            &format!("switches-{compiler}-{number}"),
            compiler,
            flags,
            SWITCHES,
        );
        let context = format!("{compiler} {flags:?}");
        for name in [
            "dense",
            "of_byte",
            "masked",
            "nest",
            "leave",
            "sometimes",
            "tail",
            "main",
            "use",
        ] {
            let function = named(&program, name);
            assert!(
                function.is_complete(),
                "{context} {name} {:?}",
                function.failed
            );
        }
        let dense = named(&program, "dense");
        // Clang makes a table of the strings instead.
        if has_tables || !dense.tables.is_empty() {
            assert_eq!(cases(dense), (7, true), "{context}");
        }
        let masked = named(&program, "masked");
        if has_tables || !masked.tables.is_empty() {
            // The last one may be the default.
            assert!((7..=8).contains(&cases(masked).0), "{context}");
        }
        let by_byte = named(&program, "of_byte");
        if has_tables || !by_byte.tables.is_empty() {
            assert!(cases(by_byte).0 >= 6, "{context}");
        }
        assert!(!named(&program, "leave").returns, "{context}");
        assert!(named(&program, "sometimes").returns, "{context}");
        let nest = named(&program, "nest");
        let loops = nest.graph.loops(&nest.entry_blocks());
        assert!(loops.irreducible.is_empty(), "{context}");
        let deepest = loops.loops.iter().map(|one| one.depth).max();
        assert!(deepest >= Some(2), "{context} {loops:?}");
        let is_tail = |edge: &flow::Edge| edge.kind == EdgeKind::TailCall && edge.to == To::Unknown;
        let has_tail = named(&program, "tail").graph.edges.iter().any(is_tail);
        // gcc makes such calls jumps from -O2 on.
        if !flags[0].ends_with('1') {
            assert_eq!(has_tail, flags[0] != "-O0", "{context}");
        }
    }
}

#[test]
fn switches_loops_and_calls_of_gcc() {
    switches_loops_and_calls("gcc", true);
}

#[test]
fn landing_pads_are_blocks() {
    const THROWS: &str = r#"
#include <string>
void *volatile sink;
__attribute__((noinline)) void may_throw(int n) { if (n > 2) throw n; sink = &n; }
__attribute__((noinline)) int catches(int n) {
    std::string text(n, 'x');
    try { may_throw(n); } catch (int caught) { return caught + (int)text.size(); }
    return (int)text.size();
}
int main(int argc, char **) { return catches(argc); }
"#;
    let (_, program) = built("pads", "g++", &["-O2"], THROWS);
    let catches = named(&program, "_Z7catchesi");
    assert!(catches.is_complete(), "{:?}", catches.failed);
    assert!(catches.ranges.len() > 1, "the cold part is the function's");
    let pads = catches
        .graph
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::LandingPad);
    assert!(pads.count() >= 1);
    let throws = named(&program, "_Z9may_throwi");
    let no_return = |edge: &flow::Edge| {
        edge.kind == EdgeKind::NoReturn && program.name_of(edge.to) == Some("__cxa_throw")
    };
    assert!(throws.graph.edges.iter().any(no_return));
}

#[test]
fn odd_code_fails_its_gate() {
    const ODD: &str = r#"
asm(".globl into\n.type into, @function\ninto: .cfi_startproc\n test %edi, %edi\n je 1f+2\n 1: lock incl counter(%rip)\n ret\n .cfi_endproc\n .size into, .-into\n"
    ".globl over\n.type over, @function\nover: .cfi_startproc\n incl counter(%rip)\n .cfi_endproc\n .size over, .-over\n .byte 6, 6\n"
    ".globl locked\n.type locked, @function\nlocked: .cfi_startproc\n test %edi, %edi\n je 1f+1\n 1: lock incl counter(%rip)\n ret\n .cfi_endproc\n .size locked, .-locked\n"
    ".globl runs\n.type runs, @function\nruns: .cfi_startproc\n incl counter(%rip)\n .cfi_endproc\n .size runs, .-runs\n .p2align 4\n"
    ".globl next\n.type next, @function\nnext: .cfi_startproc\n ret\n .cfi_endproc\n .size next, .-next\n"
    ".globl goes\n.type goes, @function\ngoes: .cfi_startproc\n push %rax\n .cfi_def_cfa_offset 16\n jmp *%rdi\n .cfi_endproc\n .size goes, .-goes\n"
    ".globl where\n.type where, @function\nwhere: .cfi_startproc\n call 1f\n 1: pop %rax\n ret\n .cfi_endproc\n .size where, .-where\n"
    ".globl bare\n.type bare, @function\nbare: ret\n .size bare, .-bare\n"
    ".data\ncounter: .long 0\n.text\n");
int main(void) { return 0; }
"#;
    let (_, program) = built("odd", "gcc", &["-O1"], ODD);
    for (name, gate) in [
        ("into", Gate::Undecodable),
        ("over", Gate::RunsOver),
        ("goes", Gate::UnresolvedJump),
        ("where", Gate::OddInstruction),
    ] {
        let gates: Vec<Gate> = named(&program, name)
            .failed
            .iter()
            .map(|failed| failed.gate)
            .collect();
        assert_eq!(gates, [gate], "{name}");
    }
    let next = named(&program, "next");
    assert!(next.is_complete() && named(&program, "bare").is_complete());
    let runs = named(&program, "runs");
    let leaves = Edge {
        from: 0,
        to: To::Address(next.entry),
        kind: EdgeKind::FallThrough,
    };
    assert!(runs.is_complete() && runs.graph.edges == [leaves]);
    let locked = named(&program, "locked");
    let graph = &locked.graph;
    let places = graph
        .blocks
        .iter()
        .map(|block| (block.start - locked.entry, block.end - locked.entry));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [(0, 4), (4, 11), (5, 11), (11, 12)]
    );
    let ways = graph.edges.iter().filter_map(|edge| match edge.to {
        To::Block(to) => Some((edge.from, to)),
        _ => None,
    });
    assert_eq!(ways.collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert!(locked.is_complete());
}

/// Without a table and without a name a function is known by calls, by words with its address, by jumps; and where the first function
/// takes its address. One whose address another function takes is found, and not taken to be complete.
#[test]
fn functions_without_tables_and_names_are_found() {
    const BARE: &str = r#"
#include <stdlib.h>
__attribute__((noinline)) int leaf(int n) { return n * 3 + 1; }
__attribute__((noinline)) int pick(int n) { switch (n & 7) { case 0: return leaf(n); case 1: return 9; case 2: abort(); case 3: return n / 3; case 5: return ~n; case 6: return 11; } return n; }
static int word(int n) { return pick(n) + pick(n + 1); }
int (*const words[])(int) = { word, leaf };
__attribute__((noinline)) int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }
__attribute__((noinline)) int tail(int n, int (*to)(int)) { return n ? to(n - 1) : 7; }
int main(int c, char **v) { int all[] = { 3, 1, 2 }; qsort(all, 3, sizeof *all, order); return words[c & 1](all[0]) + tail(c, words[0]); }
"#;
    let flags = [
        "-O2",
        "-fno-asynchronous-unwind-tables",
        "-fno-tree-switch-conversion",
    ];
    let (image, whole) = built("bare", "gcc", &flags, BARE);
    let stripped = image.path().with_extension("stripped");
    let mut strip = Command::new("strip");
    let strip = strip.arg("-o").arg(&stripped).arg(image.path());
    assert!(strip.status().unwrap().success());
    let program = Program::of(&Image::open_whole(&stripped).unwrap());
    hold_together(&program);
    for (name, is_complete) in [
        ("leaf", true),
        ("pick", true),
        ("word", true),
        ("tail", true),
        ("main", true),
        ("order", false),
    ] {
        let known = named(&whole, name);
        assert!(known.is_complete(), "{name}: {:?}", known.failed);
        let found = program.function_from(known.entry);
        let found = found.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(
            found.is_complete(),
            is_complete,
            "{name}: {:?}",
            found.failed
        );
        // A part elsewhere, to which it jumps, is a function of its own.
        let blocks = known.graph.blocks.iter();
        let own = blocks.filter(|block| known.ranges[0].contains(&block.start));
        assert!(own.eq(&found.graph.blocks), "{name}");
    }
}

/// Receivers of `__builtin_longjmp`: code takes their address, and nothing else leads to them.
pub const RECEIVERS: &str = r#"
#include <stdio.h>
static void *buf[5]; static volatile int n;
__attribute__((noinline)) static void hop(int k) { n += k; if (k % 3 == 0) __builtin_longjmp(buf, 1); n++; }
__attribute__((noinline)) static int loop(int m) {
    volatile int i = 0, c = 0;
    if (__builtin_setjmp(buf)) { c += 10; }
    while (i < m) { i++; hop(i); c++; }
    return c;
}
__attribute__((noinline)) int again(int x) { if (__builtin_setjmp(buf) == 0) { if (x) hop(3); return 1; } puts("caught"); return 2; }
int main(int c, char **v) { printf("%d\n", loop(100)); return again(c); }
"#;

#[test]
fn a_place_whose_address_is_taken_is_an_entry() {
    for (number, flags) in [&["-O1"][..], &["-O2", "-no-pie", "-fno-pie"]]
        .iter()
        .enumerate()
    {
        let (_, program) = built(&format!("receivers-{number}"), "gcc", flags, RECEIVERS);
        for name in ["loop", "again"] {
            let function = named(&program, name);
            assert!(
                function.is_complete(),
                "{flags:?} {name} {:?}",
                function.failed
            );
            assert!(!function.others.is_empty(), "{flags:?} {name}");
        }
    }
}

#[test]
fn an_address_of_bytes_that_are_no_code_fails_its_gate() {
    const INSIDE: &str = r#"
asm(".globl inside\n.type inside, @function\ninside: .cfi_startproc\n lea 1f(%rip), %rax\n ret\n 1: .byte 6, 6, 6, 6, 6, 6, 6, 6\n .cfi_endproc\n .size inside, .-inside\n");
int main(void) { return 0; }
"#;
    let (_, program) = built("inside", "gcc", &["-O1"], INSIDE);
    let failed = &named(&program, "inside").failed;
    assert!(
        matches!(
            failed[..],
            [flow::Failed {
                gate: Gate::TakenInside,
                ..
            }]
        ),
        "{failed:?}"
    );
}

#[test]
fn a_table_with_a_bound_may_be_long() {
    let cases_of = |count: u32| {
        (0..count).map(|n| format!("case {n}: v += {}; use({}); break;\n", n * 7 % 251, n % 13))
    };
    let body: String = cases_of(4_500).collect();
    let source = format!(
        "volatile int v; void use(int n) {{ v ^= n; }}\nint pick(int k) {{ switch (k) {{ {body} }} return v; }}\nint main(int c, char **w) {{ return pick(c) & 1; }}"
    );
    let (_, program) = built("long", "gcc", &["-O1"], &source);
    let pick = named(&program, "pick");
    assert!(pick.is_complete(), "{:?}", pick.failed);
    assert_eq!(cases(pick), (4_500, true));
}

/// Code to which nothing leads, without a symbol or an unwind table, is counted; padding is not.
#[test]
fn code_in_no_function_is_said() {
    let source = |code: &str| {
        format!(
            "int before(int x) {{ return x * 7; }}\n\
             asm(\".text\\n.p2align 4\\n{code}.p2align 4\\n\");\n\
             int main(int c, char **v) {{ return c; }}\n"
        )
    };
    let outside = |name: &str, code: &str| {
        let flags = ["-O1", "-s", "-fno-toplevel-reorder"];
        let (_, program) = built(name, "gcc", &flags, &source(code));
        program.code_outside()
    };
    let without = outside("outside-none", "");
    // A function whose end is known stands before it. Seven, two and one bytes.
    let code = "lea 0x1234(%rdi), %rax\\nxor %eax, %ecx\\nret\\n";
    assert_eq!(outside("outside-some", code), without + 10);
}
