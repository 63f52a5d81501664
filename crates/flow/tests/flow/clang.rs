//! Graphs of what clang makes of the switches, loops and calls of `shapes`, and its own map of basic blocks.

use std::fmt::Write;

use flow::{Element, Function, Program};
use image::{Image, LinkAddr};

use crate::shapes::{self, built, named};

#[test]
fn switches_loops_and_calls_of_clang() {
    // It loads the strings of some switches from a list, without a jump.
    shapes::switches_loops_and_calls("clang-14", false);
}

/// No comparison is needed where `default` cannot be reached; what is between the cases leads to the function's end.
const HOLES: &str = r#"
#include <stdio.h>
#define G(n) __attribute__((noinline)) int g##n(int x) { static int c; c += x * n; return c + n; }
G(0) G(1) G(2) G(3) G(4) G(5) G(6)
__attribute__((noinline)) int pick(int k, int x) {
    switch (k) {
    case 0: return g0(x); case 3: return g1(x); case 5: return g2(x); case 9: return g3(x);
    case 12: return g4(x); case 13: return g5(x); case 15: return g6(x);
    default: __builtin_unreachable();
    }
}
int main(int c, char **v) {
    static const int ks[] = {0, 3, 5, 9, 12, 13, 15};
    int s = 0;
    for (int i = 0; i < 70; i++) s += pick(ks[i % 7], i);
    printf("%d\n", s);
}
"#;

/// Without optimisation the index is compared, spilled and loaded again.
const SPILLED: &str = r#"
int g(int x) { return x; }
int f(int x, int y) {
    if (y == 1) g(1); if (y == 2) g(2); if (y == 3) g(3); if (y == 4) g(4); if (y == 5) g(5);
    switch (x) { case 10: return g(5); case 11: return g(99); case 12: return g(7); case 13: return g(31); case 14: return g(8); case 15: return g(-1); }
    if (y == 1) g(1); if (y == 2) g(2); if (y == 3) g(3); if (y == 4) g(4); if (y == 5) g(5);
    switch (y) { case 10: return g(5); case 11: return g(99); case 12: return g(7); case 13: return g(31); case 14: return g(8); case 15: return g(-1); }
    return x;
}
int main(int c, char **v) { return f(c, c); }
"#;

const COMPUTED: &str = r#"
#include <stdio.h>
__attribute__((noinline)) int run(const unsigned char *code) {
    static const int far[] = {&&push - &&push, &&add - &&push, &&mul - &&push, &&neg - &&push, &&end - &&push};
    static void *const near[] = {&&push, &&add, &&mul, &&neg, &&end};
    int stack[16], top = 0;
    goto *(&&push + far[*code++]);
push: stack[top++] = *code++; goto *near[*code++];
add: top--; stack[top - 1] += stack[top]; goto *near[*code++];
mul: top--; stack[top - 1] *= stack[top]; goto *(&&push + far[*code++]);
neg: stack[top - 1] = -stack[top - 1]; goto *near[*code++];
end: return stack[0];
}
int main(void) { printf("%d\n", run((const unsigned char *)"\0\3\0\4\1\0\5\2\3\4")); }
"#;

/// Landing pads that catch, clean up and go on, a switch in one of them, and virtual calls.
const CATCHES: &str = r#"
#include <stdexcept>
#include <string>
#include <vector>
struct Base { virtual int of(int n) { return n; } virtual ~Base() {} };
struct Other : Base { int of(int n) override { if (n == 5) throw std::runtime_error("five"); return -n; } };
__attribute__((noinline)) int pick(Base &base, int n) {
    std::string name(n, 'x');
    try {
        std::vector<int> all(n, base.of(n));
        switch (all.size()) { case 1: return base.of(1); case 2: return 7; case 3: throw n; case 4: return name.size(); case 7: return -2; }
        return all[0];
    } catch (int number) {
        switch (number) { case 3: return base.of(8); case 4: return 1; case 5: return 3; case 6: return 9; case 8: throw; }
        return number;
    } catch (const std::exception &error) {
        try { name += error.what(); return name.at(n * 2); }
        catch (const std::out_of_range &) { return -1; }
    }
}
int main(int c, char **) {
    Other other; Base base; int sum = 0;
    for (int n = 1; n < 9; n++) sum += pick(n & 1 ? base : other, n);
    return sum & c;
}
"#;

/// A source of functions with switches of all kinds.
fn many_switches() -> String {
    let mut state = 12_345_u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut text = String::from(
        "volatile int v; __attribute__((noinline)) int use(int n) { v += n; return v ^ n; }\n",
    );
    for number in 0..40 {
        let (step, cases) = (1 + next(3), 4 + next(30));
        let types = ["int", "unsigned", "unsigned char", "long", "short"];
        let of = types[next(5) as usize];
        let _ = write!(text, "int f{number}({of} k, int x) {{ int r = x;");
        if next(3) == 0 {
            let _ = write!(
                text,
                "for (int i = 0; i < x; i++) {{ if (use(i) & 1) continue;"
            );
        } else {
            text.push('{');
        }
        let _ = write!(text, "switch (k) {{");
        for case in 0..cases {
            let value = case * step + next(step);
            let _ = match next(4) {
                0 => write!(text, "case {value}: r += use({case});"),
                1 => write!(text, "case {value}: return use(r + {case});"),
                2 => write!(text, "case {value}: if (use(r)) {{ r ^= {case}; }} break;"),
                _ => write!(text, "case {value}: r *= use({case}) + 1; break;"),
            };
        }
        let default = [
            "",
            "default: __builtin_unreachable();",
            "default: r--;",
            "default: __builtin_trap();",
        ];
        let _ = writeln!(text, "{} }} }} return r; }}", default[next(4) as usize]);
    }
    text.push_str("int main(int c, char **w) { int s = 0;");
    for number in 0..40 {
        let _ = write!(text, "s += f{number}(0, c);");
    }
    text.push_str("return s & 1; }");
    text
}

#[test]
fn holes_of_a_table_are_no_cases() {
    for flags in [&["-O1"][..], &["-O2", "-fno-pie", "-no-pie"]] {
        let (_, program) = built(&format!("holes{}", flags.len()), "clang-14", flags, HOLES);
        let pick = named(&program, "pick");
        assert!(pick.is_complete(), "{:?}", pick.failed);
        let [table] = &pick.tables[..] else {
            panic!("{:?}", pick.tables)
        };
        let holes = table
            .elements
            .iter()
            .filter(|element| matches!(element, Element::Hole(_)));
        assert_eq!((table.elements.len(), holes.count()), (16, 9));
    }
}

#[test]
fn the_bound_of_a_spilled_index_is_found() {
    let (_, program) = built(
        "spilled",
        "clang-14",
        &["-O0", "-fno-pie", "-no-pie"],
        SPILLED,
    );
    let tables = &named(&program, "f").tables;
    let bounds = tables
        .iter()
        .map(|table| (table.elements.len(), table.is_bounded));
    assert_eq!(bounds.collect::<Vec<_>>(), [(6, true), (6, true)]);
}

/// Each block of clang's own map is in the graph of a complete function, at four levels, for fixed addresses and not, stripped
/// and not.
#[test]
fn blocks_are_those_of_clang() {
    let many = many_switches();
    let sources = [
        ("holes", HOLES),
        ("spilled", SPILLED),
        ("computed", COMPUTED),
        ("many", &many),
        ("shapes", shapes::SWITCHES),
        ("receivers", shapes::RECEIVERS),
        (
            "programs",
            include_str!("../../../../tests/programs/count_rounds.c"),
        ),
    ];
    let all = sources.map(|(name, source)| ("clang-14", name, source));
    let all = all.into_iter().chain([("clang++-14", "catches", CATCHES)]);
    let mut blocks = 0;
    for (number, (compiler, name, source)) in all.enumerate() {
        for (level, flag) in ["-O0", "-O1", "-O2", "-O3"].into_iter().enumerate() {
            let fixed: &[&str] = match (number + level) % 2 {
                0 => &["-fno-pie", "-no-pie"],
                _ => &[],
            };
            let flags = [
                &[flag, "-w", "-pthread", "-fbasic-block-sections=labels"],
                fixed,
            ]
            .concat();
            let name = format!("blocks-{name}-{level}");
            let (_, program) = built(&name, compiler, &flags, source);
            let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
            let map = Blocks::of(&std::fs::read(&file).unwrap());
            let compared = map.all_are_in(&program, &name);
            let least = if compiler == "clang++-14" { 30 } else { 1 };
            assert!(compared >= least, "{name}: {compared} blocks were compared");
            blocks += compared;
            let stripped = file.with_extension("stripped");
            let mut strip = std::process::Command::new("strip");
            let status = strip.arg("-o").arg(&stripped).arg(&file).status();
            assert!(status.unwrap().success());
            let image = Image::open_whole(&stripped).unwrap();
            blocks += map.all_are_in(&Program::of(&image), &format!("{name}, stripped"));
        }
    }
    assert!(blocks > 8_000, "{blocks} blocks were compared");
}

/// Clang's map of basic blocks: functions' addresses, with addresses and sizes of their blocks (LLVM's
/// `Extensions.rst`, `SHT_LLVM_BB_ADDR_MAP`, as LLVM 14 has it).
struct Blocks(Vec<(u64, Vec<(u64, u64)>)>);

impl Blocks {
    fn of(file: &[u8]) -> Blocks {
        let section = section(file, ".llvm_bb_addr_map").expect("clang wrote a map");
        let mut rest = section;
        let mut functions = Vec::new();
        while let Some((addr, after)) = rest.split_first_chunk::<8>() {
            rest = after;
            let addr = u64::from_le_bytes(*addr);
            let count = number(&mut rest);
            let blocks = (0..count).map(|_| {
                let (offset, size, _flags) =
                    (number(&mut rest), number(&mut rest), number(&mut rest));
                (addr + offset, size)
            });
            functions.push((addr, blocks.collect()));
        }
        Blocks(functions)
    }

    /// Compares them with complete functions; gives their number.
    fn all_are_in(&self, program: &Program, context: &str) -> usize {
        let mut compared = 0;
        for (entry, blocks) in &self.0 {
            let function = program.function_from(LinkAddr(*entry));
            let Some(function) = function.filter(|function| function.is_complete()) else {
                continue;
            };
            for &(start, size) in blocks.iter().filter(|(_, size)| *size > 0) {
                compared += 1;
                assert!(
                    holds(function, start, size),
                    "{context}: {start:#x} of {:?}",
                    function.name
                );
            }
        }
        compared
    }
}

/// Whether a block of a graph begins at an address, or one that is longer holds it.
fn holds(function: &Function, start: u64, size: u64) -> bool {
    let blocks = &function.graph.blocks;
    let first = function.graph.block_at(LinkAddr(start));
    first.is_some_and(|first| blocks[first].end.0 > start && size > 0)
}

/// A section of an ELF file.
fn section<'f>(file: &'f [u8], name: &str) -> Option<&'f [u8]> {
    let word = |at: usize| Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?) as usize);
    let half = |at: usize| Some(u16::from_le_bytes(*file.get(at..)?.first_chunk()?) as usize);
    let (table, count, names) = (word(40)?, half(60)?, half(62)?);
    let header = |number: usize| table + 64 * number;
    let bytes = |number: usize| {
        let (at, size) = (word(header(number) + 24)?, word(header(number) + 32)?);
        file.get(at..at + size)
    };
    let names = bytes(names)?;
    let is_it = |number: &usize| {
        let at = word(header(*number)).map(|word| word & 0xffff_ffff);
        at.and_then(|at| names.get(at..))
            .is_some_and(|text| text.starts_with(format!("{name}\0").as_bytes()))
    };
    bytes((0..count).find(is_it)?)
}

/// An unsigned number in base 128.
fn number(rest: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((&byte, after)) = rest.split_first() {
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    value
}
