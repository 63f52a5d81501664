//! Descriptors of mlsTrace: those of figures 4.17 to 4.21's kind of program, and those of a real one
//! as `dump --accesses` shows its accesses.

use std::fmt::Write as _;

use testkit::folder::Folder;

use crate::BINARY;

/// Scalars and arrays of bytes, words, doublewords and quadwords, an update and a vector.
const PROGRAM: &str = r#"
#include <string.h>
__attribute__((aligned(64))) unsigned char area[256];
void loads(void *);
asm(".intel_syntax noprefix\n.type loads, @function\n"
    "loads: mov al, [rdi]\n mov ax, [rdi+2]\n mov eax, [rdi+4]\n mov rax, [rdi+8]\n"
    "mov [rdi+0x40], eax\n add word ptr [rdi+0x10], 3\n movups xmm0, [rdi+0x20]\n"
    "lea rsi, [rdi]\n lea rdi, [rdi+0x80]\n mov ecx, 2\n rep movsb\n ret\n.att_syntax\n");
int main(void) {
    for (int i = 0; i < 256; i++) area[i] = i;
    loads(area);
    return 0;
}
"#;

fn lines(folder: &Folder, words: &[&str]) -> Vec<String> {
    let output = folder.run(BINARY, words);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn descriptors_of_a_small_program() {
    let folder = Folder::new("mls-small");
    folder.program(&["-O1", "-no-pie"], "prog", PROGRAM);
    let words = [
        "trace", "-q", "-o", "run.evp", "--memory", "values", "--", "./prog",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    let all = lines(
        &folder,
        &["dump", "run.evp", "--mls", "ascii", "--stores", "--disasm"],
    );
    let first = all.iter().position(|line| line.ends_with("mov al, [rdi]"));
    let first = first.expect("the function was executed");
    let area = all[first].split(", ").nth(3).unwrap();
    let area = u64::from_str_radix(&area[2..], 16).unwrap();
    let shown: Vec<String> = all[first..first + 12]
        .iter()
        .map(|line| {
            let mut fields = line.splitn(6, ", ");
            let (thread, kind) = (fields.next().unwrap(), fields.next().unwrap());
            let address = fields.nth(1).unwrap();
            let address = u64::from_str_radix(&address[2..], 16).unwrap();
            let (size, rest) = (fields.next().unwrap(), fields.next().unwrap());
            assert_eq!(thread, "0");
            match address.wrapping_sub(area) {
                offset @ 0..256 => format!("{kind} {offset:#x} {size} {rest}"),
                _ => format!("{kind} stack {size}"),
            }
        })
        .collect();
    assert_eq!(
        shown,
        [
            "L 0x0 1 0x00 mov al, [rdi]",
            "L 0x2 2 0x0302 mov ax, [rdi+2]",
            "L 0x4 4 0x07060504 mov eax, [rdi+4]",
            "L 0x8 8 0x0f0e0d0c0b0a0908 mov rax, [rdi+8]",
            "S 0x40 4 0x0b0a0908 mov [rdi+0x40], eax",
            "L 0x10 2 0x1110 add word ptr [rdi+0x10], 3",
            "S 0x10 2 0x1113 add word ptr [rdi+0x10], 3",
            "L 0x20 16 0x2f2e2d2c2b2a29282726252423222120 movups xmm0, [rdi+0x20]",
            // Values of a repeated move are not known.
            "L 0x0 1 0x00 rep movsb [rdi], [rsi]",
            "S 0x80 1 0x00 rep movsb [rdi], [rsi]",
            "L 0x1 1 0x00 rep movsb [rdi], [rsi]",
            "S 0x81 1 0x00 rep movsb [rdi], [rsi]",
        ]
    );
    let loads = lines(&folder, &["dump", "run.evp", "--mls", "ascii"]);
    let of_all = lines(&folder, &["dump", "run.evp", "--mls", "ascii", "--stores"]);
    let of_all = of_all.iter().filter_map(|line| {
        let (thread, load) = line.split_once(", L, ")?;
        Some(format!("{thread}, {load}"))
    });
    assert_eq!(loads, of_all.collect::<Vec<_>>());
}

/// Binary descriptors as text.
fn read(mut bytes: &[u8], has_kind: bool) -> Vec<String> {
    let mut all = Vec::new();
    while let [thread, rest @ ..] = bytes {
        let mut text = format!("{thread}");
        let rest = match has_kind {
            true => {
                write!(text, ", {}", ["L", "S"][usize::from(rest[0])]).unwrap();
                &rest[1..]
            }
            false => rest,
        };
        let number = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
        let (size, value) = (usize::from(rest[16]), &rest[17..]);
        let (pc, address) = (number(0), number(8));
        write!(text, ", {pc:#018x}, {address:#018x}, {size}, 0x").unwrap();
        let mut value = value[..size].to_vec();
        if size <= 16 {
            value.reverse();
        }
        value
            .iter()
            .for_each(|byte| write!(text, "{byte:02x}").unwrap());
        all.push(text);
        bytes = &rest[17 + size..];
    }
    all
}

#[test]
fn descriptors_are_the_accesses_that_dump_shows() {
    let folder = Folder::new("mls-real");
    let words = [
        "trace", "-q", "-o", "run.evp", "--memory", "values", "--", "true",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    let (mut expected, mut pc) = (Vec::new(), String::new());
    let mut own: Vec<(u64, &str, String)> = Vec::new();
    let shown = lines(&folder, &["dump", "run.evp", "--accesses"]);
    for line in shown.iter().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind @ ("R" | "W" | "RW"), size, address, ref rest @ ..] = words[..] else {
            own.sort_by_key(|(step, kind, _)| (*step, *kind));
            expected.extend(own.drain(..).map(|(_, _, line)| line));
            pc = format!("{:#018x}", u64::from_str_radix(words[1], 16).unwrap());
            continue;
        };
        let at = rest.iter().position(|word| *word == "=").unwrap();
        let times: u64 = rest[..at].first().map_or(1, |times| times.parse().unwrap());
        let size: u64 = size.parse().unwrap();
        let shown_size = if size > 255 { 0 } else { size };
        let (read, written) = match (kind, &rest[at + 1..]) {
            ("R", [value]) => (Some(*value), None),
            ("W", [value]) => (None, Some(*value)),
            (_, [read, _, written]) => (Some(*read), Some(*written)),
            other => panic!("{other:?}"),
        };
        let mut address = u64::from_str_radix(address, 16).unwrap();
        for step in 0..times {
            for (kind, value) in [("L", read), ("S", written)] {
                let Some(value) = value else { continue };
                let mut value = match value {
                    "?" => "00".repeat(shown_size as usize),
                    value => value.to_owned(),
                };
                // `dump` shows more than 8 bytes in the order of memory.
                if (9..=16).contains(&size) {
                    let bytes: Vec<&str> = (0..value.len())
                        .step_by(2)
                        .map(|at| &value[at..at + 2])
                        .collect();
                    value = bytes.into_iter().rev().collect();
                }
                own.push((
                    step,
                    kind,
                    format!("0, {kind}, {pc}, {address:#018x}, {shown_size}, 0x{value}"),
                ));
            }
            address += size;
        }
    }
    own.sort_by_key(|(step, kind, _)| (*step, *kind));
    expected.extend(own.into_iter().map(|(_, _, line)| line));
    assert!(expected.len() > 10_000);
    let ascii = lines(&folder, &["dump", "run.evp", "--mls", "ascii", "--stores"]);
    assert!(
        ascii == expected,
        "{:?}",
        ascii.iter().zip(&expected).find(|(a, b)| a != b)
    );
    let words = [
        "dump", "run.evp", "--mls", "binary", "--stores", "-o", "run.mls",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    let bytes = std::fs::read(folder.file("run.mls")).unwrap();
    assert!(read(&bytes, true) == expected);
}

#[test]
fn descriptors_without_values_end_with_the_size() {
    let folder = Folder::new("mls-addresses");
    folder.program(&["-O1", "-no-pie"], "prog", PROGRAM);
    let dumped = |memory: &str, form: &str| {
        let words = [
            "trace", "-q", "-o", "run.evp", "--memory", memory, "--", "./prog",
        ];
        let run = folder.run("setarch", &[&["-R", BINARY], &words[..]].concat());
        assert!(run.status.success(), "{run:?}");
        let words = [
            "dump", "run.evp", "--mls", form, "--stores", "-o", "run.mls",
        ];
        let said = folder.run(BINARY, &words).stderr;
        let said = String::from_utf8(said).unwrap();
        assert_eq!(
            said.contains("descriptors end with the size"),
            memory == "addresses"
        );
        std::fs::read(folder.file("run.mls")).unwrap()
    };
    let whole = read(&dumped("values", "binary"), true);
    let ends = |line: &String| line.rsplit_once(", ").map(|(rest, _)| rest.to_owned());
    let expected: Vec<String> = whole.iter().filter_map(ends).collect();
    assert!(expected.len() > 1000);
    let text = String::from_utf8(dumped("addresses", "ascii")).unwrap();
    assert!(text.lines().eq(expected.iter().map(String::as_str)));
    let bytes = dumped("addresses", "binary");
    let parts = bytes.chunks_exact(19).map(|one| {
        let number = |at: usize| u64::from_le_bytes(one[at..at + 8].try_into().unwrap());
        let (kind, size) = (["L", "S"][usize::from(one[1])], one[18]);
        format!(
            "{}, {kind}, {:#018x}, {:#018x}, {size}",
            one[0],
            number(2),
            number(10)
        )
    });
    assert!(parts.eq(expected));
}

#[test]
fn a_trace_without_accesses_is_refused() {
    let folder = Folder::new("mls-refused");
    for (options, said) in [
        (
            &[][..],
            "'run.evp' has no loads and stores; record it with --memory values, or addresses",
        ),
        (
            &["--memory", "values", "--stores"],
            "'run.evp' has no loads; record it without --loads and --stores",
        ),
    ] {
        let words = [&["trace", "-q", "-o", "run.evp"], options, &["--", "true"]].concat();
        assert!(folder.run(BINARY, &words).status.success());
        let refused = folder.refused(BINARY, &["dump", "run.evp", "--mls", "ascii"]);
        assert!(refused.contains(said), "{refused}");
    }
    let refused = folder.refused(BINARY, &["dump", "run.evp", "--mls", "binary", "--disasm"]);
    assert!(refused.contains("use --mls ascii"), "{refused}");
}

/// The examples of figures 4.17 and 4.19, with a loop counter that stays in memory.
const EXAMPLES: &str = r#"
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
volatile int i;
volatile uint8_t bytes[17];
volatile int8_t signed_bytes[17];
volatile long double extended[8];
volatile __m256 a, b, r;
int main(void) {
    printf("%p %p %p %p %p %p %p\n", (void *)&i, (void *)bytes, (void *)signed_bytes,
           (void *)extended, (void *)&a, (void *)&b, (void *)&r);
    for (i = 0; i < 17; i++) {
        bytes[i] = i;
        signed_bytes[i] = -i;
    }
    for (i = 0; i < 17; i++) {
        bytes[i];
        signed_bytes[i];
    }
    for (i = 0; i < 8; i++) extended[i] = i;
    for (i = 0; i < 8; i++) extended[i] = extended[i] + i;
    if (__builtin_cpu_supports("avx")) {
        a = _mm256_set_ps(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0);
        b = _mm256_set_ps(2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0);
        __m256 first = a;
        r = _mm256_hadd_ps(first, b);
    }
    return 0;
}
"#;

/// Descriptors of the examples, as kind, object, index, size and value.
struct Expected(Vec<String>);

impl Expected {
    fn add(&mut self, kind: char, object: usize, index: u64, size: u8, value: &str) {
        self.0
            .push(format!("{kind} {object}[{index}] {size} 0x{value}"));
    }

    fn counter(&mut self, kind: char, value: u64) {
        self.add(kind, 0, 0, 4, &format!("{value:08x}"));
    }

    /// `for (i = 0; i < end; i++)`, with a body.
    fn count(&mut self, end: u64, mut body: impl FnMut(&mut Expected, u64)) {
        self.counter('S', 0);
        self.counter('L', 0);
        for at in 0..end {
            body(self, at);
            self.counter('L', at);
            self.counter('S', at + 1);
            self.counter('L', at + 1);
        }
    }
}

/// A number as the ten bytes of an x87 register, the most significant first.
fn extended(number: u64) -> String {
    match number.checked_ilog2() {
        None => "0".repeat(20),
        Some(exponent) => format!(
            "{:04x}{:016x}",
            0x3fff + exponent,
            number << (63 - exponent)
        ),
    }
}

fn floats(all: [f32; 8]) -> String {
    let bytes = all.iter().flat_map(|one| one.to_le_bytes());
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn examples_of_the_thesis() {
    let folder = Folder::new("mls-examples");
    folder.program(&["-O1", "-no-pie", "-mavx"], "prog", EXAMPLES);
    let words = [
        "trace", "-q", "--mls", "all.txt", "--form", "ascii", "--stores", "--", "./prog",
    ];
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let places: Vec<u64> = said.split_whitespace().map(hex).collect();
    let sizes = [4, 17, 17, 8 * 16, 32, 32, 32];
    let steps = [4, 1, 1, 16, 32, 32, 32];
    let text = std::fs::read_to_string(folder.path().join("all.txt")).unwrap();
    let shown = text.lines().filter_map(|line| {
        let [_, kind, _, address, size, value] = line.split(", ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let offset = |object: usize| hex(address).wrapping_sub(places[object]);
        let object = (0..7).find(|&object| offset(object) < sizes[object])?;
        let index = offset(object) / steps[object];
        Some(format!("{kind} {object}[{index}] {size} {value}"))
    });
    let mut expected = Expected(Vec::new());
    expected.count(17, |all, at| {
        // The index, and the value.
        for (object, value) in [(1, at as u8), (2, (at as u8).wrapping_neg())] {
            all.counter('L', at);
            all.counter('L', at);
            all.add('S', object, at, 1, &format!("{value:02x}"));
        }
    });
    expected.count(17, |all, at| {
        for (object, value) in [(1, at as u8), (2, (at as u8).wrapping_neg())] {
            all.counter('L', at);
            all.add('L', object, at, 1, &format!("{value:02x}"));
        }
    });
    expected.count(8, |all, at| {
        all.counter('L', at);
        all.counter('L', at);
        all.add('S', 3, at, 10, &extended(at));
    });
    expected.count(8, |all, at| {
        all.counter('L', at);
        all.add('L', 3, at, 10, &extended(at));
        all.counter('L', at);
        all.counter('L', at);
        all.add('S', 3, at, 10, &extended(2 * at));
    });
    if std::is_x86_feature_detected!("avx") {
        let (a, b) = (
            [8., 7., 6., 5., 4., 3., 2., 1.],
            [9., 8., 7., 6., 5., 4., 3., 2.],
        );
        expected.add('S', 4, 0, 32, &floats(a));
        expected.add('S', 5, 0, 32, &floats(b));
        expected.add('L', 4, 0, 32, &floats(a));
        expected.add('L', 5, 0, 32, &floats(b));
        let sums = [15., 11., 17., 13., 7., 3., 9., 5.];
        expected.add('S', 6, 0, 32, &floats(sums));
    }
    assert_eq!(shown.collect::<Vec<_>>(), expected.0);
}

#[test]
fn live_descriptors_and_statistics_are_those_of_the_trace() {
    let folder = Folder::new("mls-live");
    let words = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--mls",
        "live.bin",
        "--stores",
        "--thesis",
        "--",
        "sh",
        "-c",
        "ls / | sort >/dev/null",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    let file = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let words = [
        "dump", "run.evp", "--mls", "binary", "--stores", "--thesis", "-o", "read.bin",
    ];
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(file("live.bin"), file("read.bin"));
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "mlsTrace: Writing to binary file: read.bin");
    assert!(lines[2].starts_with("mlsTrace: thread begin 0 "), "{said}");
    assert_eq!(
        lines.len(),
        2 + 5,
        "the shell, its children, and what they become: {said}"
    );
    let statistics = String::from_utf8(file("live.Statistics")).unwrap();
    assert_eq!(statistics.as_bytes(), file("read.Statistics"));
    let words = [
        "dump",
        "run.evp",
        "--mls",
        "binary",
        "--stores",
        "--descriptor-limit",
        "1000",
    ];
    let limited = folder.run(BINARY, &words).stdout;
    assert!((900..=1000).contains(&limited.len()) && file("live.bin").starts_with(&limited));
    assert_eq!(
        read(&limited, true),
        read(&file("live.bin"), true)[..read(&limited, true).len()]
    );
    // As figure 4.14 has them, counted from the descriptors.
    let all = read(&file("live.bin"), true);
    let rows = ["1", "2", "4", "8", "10", "16", "32"];
    let names = [
        "Byte Operands",
        "Word Operands",
        "Doubleword Operands",
        "Quadword Operands",
        "Extended Precision Operands",
        "Octaword Operands",
        "Hexaword Operands",
        "Operands of other size",
    ];
    let mut expected = vec!["Number of Threads: 5".to_owned()];
    for (kind, name) in [("L", "Load"), ("S", "Store")] {
        let sizes = all.iter().filter_map(|line| {
            let fields: Vec<&str> = line.split(", ").collect();
            (fields[1] == kind).then_some(fields[4])
        });
        let mut counts = [0u32; 8];
        for size in sizes {
            counts[rows.iter().position(|row| *row == size).unwrap_or(7)] += 1;
        }
        let sum: u32 = counts.iter().sum();
        expected.push(format!("Total {name} Operands: {sum}"));
        for (count, name) in counts.iter().zip(names) {
            let share = f64::from(*count) * 100.0 / f64::from(sum);
            expected.push(format!("\t{count} ( %{share:.2} ) {name}"));
        }
    }
    expected.push("Skipped 0 instructions".to_owned());
    let verified = instructions(&folder);
    expected.push(format!("Traced {verified} instructions"));
    expected.sort();
    let mut shown: Vec<&str> = statistics.lines().collect();
    assert!(shown[0].starts_with("Instrumentation Time: "));
    shown.remove(0);
    shown.sort_unstable();
    assert_eq!(shown, expected);
}

/// Number of instructions that `stats` counts.
fn instructions(folder: &Folder) -> u64 {
    let output = folder.run(BINARY, &["stats", "run.evp", "--format", "json"]);
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    stats["total"]["instructions"].as_u64().unwrap()
}

#[test]
fn contradicting_options_are_refused() {
    let folder = Folder::new("mls-refused");
    for (words, why) in [
        (&["--mls", "x", "--memory", "values"][..], "cannot be used"),
        (&["--mls", "x", "--loads"], "cannot be used"),
        (&["--mls", "x", "--raptor"], "cannot be used"),
        (&["--mls", "x", "--disasm"], "use --form ascii"),
        (&["--mls", "x.gz", "-c", "zstd"], "files of zstd have .zst"),
        (&["--mls", "no/x"], "nothing was run"),
        (&["--stores", "-o", "x"], "required"),
    ] {
        let words = [&["trace"], words, &["--", "touch", "ran"]].concat();
        let output = folder.run(BINARY, &words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?} {said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(!folder.path().join("ran").exists() && !folder.path().join("x").exists());
    }
}
