//! Memory accesses of a trace, as `dump --accesses` shows them: forms whose accesses depend on masks,
//! vectors, flags or repetition, and what is said where there are none.

use std::collections::BTreeMap;

use testkit::folder::Folder;

use crate::BINARY;

/// A program with one function of each group; it prints where its area is.
const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__((aligned(4096))) char area[8192];
void plain(char *), masked(char *), masked_more(char *);
asm(".intel_syntax noprefix\n"
    ".globl plain, masked, masked_more\n"
    ".type plain, @function\n .type masked, @function\n .type masked_more, @function\n"
    "plain: push rbx; mov rbx, rdi\n"
    "lea rsi, [rbx+0x100]; lea rdi, [rbx+0x200]; mov ecx, 3; rep movsw\n"
    "std; lea rdi, [rbx+0x308]; mov ecx, 2; rep stosq; cld\n"
    "xor ecx, ecx; rep stosb\n"
    "mov byte ptr [rbx+0x402], 7; lea rdi, [rbx+0x400]; mov al, 7; mov rcx, -1; repne scasb\n"
    "lea rsi, [rbx+0x400]; lea rdi, [rbx+0x440]; mov ecx, 9; repe cmpsb\n"
    "mov eax, 100; bt dword ptr [rbx+0x500], eax\n"
    "mov rax, -1; bts qword ptr [rbx+0x508], rax\n"
    "mov eax, 0x1ff; xlatb\n"
    "mov eax, [ebx+0x600]\n"
    "push qword ptr [rbx+0x608]; pop qword ptr [rbx+0x610]\n"
    "cmpxchg16b [rbx+0x620]; fxsave [rbx+0x800]; fld tbyte ptr [rbx+0x630]; fstp st(0)\n"
    "mov rax, fs:[0x28]; mov ecx, 1; mov eax, [rbx+rcx*4+0x650]\n"
    "pop rbx; ret\n"
    "masked: vpcmpeqd ymm1, ymm1, ymm1; vpslldq ymm1, ymm1, 8\n"
    "vmaskmovps [rdi+0x10], ymm1, ymm0; vmaskmovpd xmm0, xmm1, [rdi+0x40]\n"
    "vpcmpeqd ymm2, ymm2, ymm2\n"
    "vpgatherdd ymm0, [rdi+ymm2*4+0x80], ymm1\n"
    "vpcmpeqd xmm1, xmm1, xmm1; vpslldq xmm1, xmm1, 14\n"
    "add rdi, 0xc0; maskmovdqu xmm0, xmm1; vzeroupper; ret\n"
    "masked_more: mov eax, 0x8005; kmovw k1, eax\n"
    "vmovdqu32 [rdi+0x100]{k1}, zmm0; vpcompressd [rdi+0x140]{k1}, zmm0\n"
    "vaddps zmm0{k1}, zmm0, dword ptr [rdi+0x180]{1to16}\n"
    "vpternlogd zmm20, zmm20, zmm20, 255; kmovw k2, eax\n"
    "vpscatterdd [rdi+zmm20*8+0x1c8]{k2}, zmm0\n"
    "kxorw k1, k1, k1; vaddps zmm0{k1}, zmm0, dword ptr [rdi+0x180]{1to16}\n"
    "mov rax, 0x8000000000000001; kmovq k3, rax; vmovdqu8 zmm0{k3}, [rdi+0x200]\n"
    "vzeroupper; ret\n"
    ".att_syntax\n");
int main(int argc, char **argv) {
    printf("%lx\n", (long)area);
    for (int i = 0; i < (argc > 1 ? 4000 : 1); i++) {
        for (int j = 0; __builtin_cpu_supports("avx2") && j < i % 13; j++) masked(area), ((volatile char *)area)[j] = 1;
        plain(area);
        if (__builtin_cpu_supports("avx2")) masked(area);
        if (__builtin_cpu_supports("avx512bw")) masked_more(area);
    }
    return 0;
}
"#;

const PLAIN: &str = "W 8 stack
R 2 100 3 times; W 2 200 3 times
W 8 308 2 times, backwards
W 1 402; R 1 400 3 times
R 1 400 3 times; R 1 440 3 times
R 4 50c
RW 8 500
R 1 ff
R 4 600
R 8 608; W 8 stack; R 8 stack; W 8 610
RW 16 620; W 512 800; R 10 630
R 8 stack; R 4 654
R 8 stack; R 8 stack";
const MASKED: &str = "W 4 18; W 4 1c; W 4 28; W 4 2c
R 8 48
R 4 7c; R 4 7c; R 4 7c; R 4 7c
W 1 ce; W 1 cf
R 8 stack";
const MASKED_MORE: &str = "W 4 100; W 4 108; W 4 13c
W 4 140; W 4 144; W 4 148
R 4 180
W 4 1c0; W 4 1c0; W 4 1c0
R 1 200; R 1 23f
R 8 stack";

fn dumped(folder: &Folder, function: &str, area: u64) -> Vec<String> {
    let words = ["dump", "run.evp", "--accesses", "--funcs", function];
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let accesses = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind @ ("R" | "W" | "RW"), size, address, ref times @ ..] = words[..] else {
            return None;
        };
        let times: String = times.iter().map(|word| format!(" {word}")).collect();
        let address = u64::from_str_radix(address, 16).unwrap();
        Some(match address.wrapping_sub(area) {
            offset @ 0..8192 => format!("{kind} {size} {offset:x}{times}"),
            _ => format!("{kind} {size} stack"),
        })
    });
    accesses.collect()
}

fn expected(text: &str) -> Vec<String> {
    let lines = text.lines();
    lines
        .flat_map(|line| line.split("; ").map(str::to_owned))
        .collect()
}

#[test]
fn accesses_that_depend_on_more_than_an_address() {
    let folder = Folder::new("memory-patterns");
    folder.program(&["-O1", "-no-pie", "-mno-red-zone"], "prog", PROGRAM);
    let has_masks = std::arch::is_x86_feature_detected!("avx2");
    let has_more = std::arch::is_x86_feature_detected!("avx512bw");
    let cases: [&[&str]; 4] = [
        &[],
        &["--no-elision"],
        &["--chaos", "3"],
        &["--chaos", "7", "--no-elision"],
    ];
    for case in cases {
        let words = ["trace", "-q", "-o", "run.evp", "--memory", "addresses"];
        let words = [&words, case, &["--", "./prog"]].concat();
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let area = u64::from_str_radix(printed.trim(), 16).unwrap();
        for (function, text, is_there) in [
            ("plain", PLAIN, true),
            ("masked", MASKED, has_masks),
            ("masked_more", MASKED_MORE, has_more),
        ] {
            // A function that did not run has no accesses to ask for.
            if !is_there {
                continue;
            }
            assert_eq!(
                dumped(&folder, function, area),
                expected(text),
                "{function} {case:?}"
            );
        }
    }
}

/// Words of all lengths come to the end of a chunk.
#[test]
fn words_at_the_ends_of_chunks_are_whole() {
    let folder = Folder::new("memory-chunks");
    folder.program(&["-O1", "-no-pie", "-mno-red-zone"], "prog", PROGRAM);
    let options: [&[&str]; 3] = [&[], &["--chaos", "3"], &["--chaos", "5", "--no-elision"]];
    let mut counts = Vec::new();
    for options in options {
        let words = ["trace", "-q", "-o", "run.evp", "--memory", "addresses"];
        let output = folder.run(
            BINARY,
            &[&words, options, &["--", "./prog", "often"]].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        let output = folder.run(BINARY, &["verify", "run.evp"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{options:?}: {text}");
        let count = text.lines().find(|line| line.contains("memory accesses"));
        counts.push(count.unwrap().split(' ').next().unwrap().replace(',', ""));
    }
    // The dynamic linker's own work differs by a little.
    let counts: Vec<u64> = counts.iter().map(|count| count.parse().unwrap()).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least > 500_000 && most - least < 2000, "{counts:?}");
}

#[test]
fn loads_or_stores_alone() {
    let folder = Folder::new("memory-loads");
    folder.program(&["-O1", "-no-pie"], "prog", PROGRAM);
    for (option, wanted) in [("--loads", 'R'), ("--stores", 'W')] {
        let words = ["trace", "-q", "-o", "run.evp", "--memory", "addresses"];
        let output = folder.run(BINARY, &[&words[..], &[option, "--", "./prog"]].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        let area = u64::from_str_radix(printed.trim(), 16).unwrap();
        let mut expected = expected(PLAIN);
        expected.retain(|access| access.split(' ').next().unwrap().contains(wanted));
        assert_eq!(dumped(&folder, "plain", area), expected, "{option}");
    }
}

#[test]
fn what_contradicts_or_is_not_there_is_one_sentence() {
    let folder = Folder::new("memory-refusals");
    folder.program(&["-O1"], "prog", "int main(void) { return 0; }");
    let refused = |words: &[&str], status: i32, sentence: &str| {
        let output = folder.run(BINARY, words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(sentence), "{text}");
    };
    let trace = ["trace", "-q", "-o", "run.evp"];
    refused(
        &[&trace[..], &["--loads", "--", "./prog"]].concat(),
        125,
        "--memory <WHAT>",
    );
    assert!(
        folder
            .run(BINARY, &[&trace[..], &["--", "./prog"]].concat())
            .status
            .success()
    );
    refused(
        &["dump", "run.evp", "--accesses"],
        125,
        "'run.evp' has no memory accesses; record it with --memory addresses",
    );
}

/// Statistics and a packed trace have the accesses that are shown.
#[test]
fn statistics_and_packed_traces_have_all_accesses() {
    let folder = Folder::new("memory-stats");
    folder.program(&["-O1", "-no-pie", "-mno-red-zone"], "prog", PROGRAM);
    let words = ["trace", "-q", "-o", "run.evp", "--memory", "values"];
    let words = [&words[..], &["--chaos", "3", "--", "./prog"]].concat();
    assert!(folder.run(BINARY, &words).status.success());
    let shown = |file| folder.run(BINARY, &["dump", file, "--accesses"]).stdout;
    let whole = shown("run.evp");
    // By the number of bytes: reads, and writes.
    let mut counts: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for line in String::from_utf8_lossy(&whole).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [kind @ ("R" | "W" | "RW"), size, _, ref rest @ ..] = words[..] {
            let times = match rest {
                [times, "times" | "times,", ..] => times.parse().unwrap(),
                _ => 1,
            };
            let count = counts.entry(size.parse().unwrap()).or_default();
            count[0] += if kind == "W" { 0 } else { times };
            count[1] += if kind == "R" { 0 } else { times };
        }
    }
    let of = |file| {
        let output = folder.run(BINARY, &["stats", "--format", "json", file]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["memory"].clone()
    };
    let memory = of("run.evp");
    let mut others = [0, 0];
    for (&size, count) in &counts {
        let rows = memory["sizes"].as_array().unwrap();
        let row = rows.iter().find(|row| row["bytes"] == size);
        match row {
            Some(row) => assert_eq!([&row["reads"], &row["writes"]], [count[0], count[1]]),
            None => others = [others[0] + count[0], others[1] + count[1]],
        }
    }
    let last = memory["sizes"].as_array().unwrap().last().unwrap();
    assert!(last["bytes"].is_null());
    assert_eq!([&last["reads"], &last["writes"]], others);
    assert!(others[1] > 0, "fxsave is of another size");
    let packed = folder.run(BINARY, &["pack", "-q", "run.evp", "-o", "packed.evp"]);
    assert!(packed.status.success(), "{packed:?}");
    assert!(shown("packed.evp") == whole);
    assert_eq!(of("packed.evp"), memory);
    let size = |name| std::fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(size("packed.evp") < size("run.evp"));
}
