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
fn a_trace_without_values_is_refused() {
    let folder = Folder::new("mls-refused");
    for (options, said) in [
        (
            &[][..],
            "'run.evp' has no values; record it with --memory values",
        ),
        (
            &["--memory", "addresses"],
            "'run.evp' has no values; record it with --memory values",
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
