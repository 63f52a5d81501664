//! Values of a memory trace, as `dump --accesses` shows them: each form of where they are taken from,
//! faults of the accesses that take them, and memory that others write.

use std::collections::HashMap;
use std::fmt::Write as _;

use testkit::folder::Folder;

use crate::BINARY;

/// Instructions, and the values of their accesses. Byte i of the area is i, rbx its address.
const PLAIN: &[(&str, &[&str])] = &[
    ("mov rax, [rbx+0x10]", &["1716151413121110"]),
    ("mov eax, [rbx+0x21]", &["24232221"]),
    ("mov ah, [rbx+3]", &["03"]),
    ("movzx eax, byte ptr [rbx+0x80]", &["80"]),
    ("movsx rax, word ptr [rbx+0x80]", &["8180"]),
    ("movsxd rax, dword ptr [rbx+0x90]", &["93929190"]),
    ("mov rcx, rbx; mov rcx, [rcx+8]", &["0f0e0d0c0b0a0908"]),
    ("mov rcx, rbx; add rcx, [rcx]", &["0706050403020100"]),
    ("mov eax, 0x11223344; mov [rbx+0x100], eax", &["11223344"]),
    ("mov [rbx+0x104], ah", &["33"]),
    ("mov byte ptr [rbx+0x105], 0xfe", &["fe"]),
    ("mov word ptr [rbx+0x106], 0xff80", &["ff80"]),
    ("mov qword ptr [rbx+0x108], -2", &["fffffffffffffffe"]),
    ("movnti [rbx+0x110], eax", &["11223344"]),
    (
        "push rax; pop rcx",
        &["0000000011223344", "0000000011223344"],
    ),
    (
        "push -3; pop rcx",
        &["fffffffffffffffd", "fffffffffffffffd"],
    ),
    (
        "push qword ptr [rbx+0x18]; pop qword ptr [rbx+0x118]",
        &["1f1e1d1c1b1a1918"; 4],
    ),
    ("xor ecx, ecx; pushfq; popfq", &["0000000000000246"; 2]),
    (
        "mov eax, 1; xchg [rbx+0x20], eax",
        &["23222120 -> 00000001"],
    ),
    (
        "mov eax, 5; lock xadd [rbx+0x20], eax",
        &["00000001 -> 00000006"],
    ),
    (
        "mov eax, 6; mov ecx, 9; lock cmpxchg [rbx+0x20], ecx",
        &["00000006 -> 00000009"],
    ),
    (
        "mov eax, 6; lock cmpxchg [rbx+0x20], ecx",
        &["00000009 -> 00000009"],
    ),
    ("mov eax, 0x700; xchg [rbx+0x20], ah", &["09 -> 07"]),
    (
        "lock cmpxchg16b [rbx+0x30]",
        &["303132333435363738393a3b3c3d3e3f -> 303132333435363738393a3b3c3d3e3f"],
    ),
    (
        "lock add dword ptr [rbx+0x24], 0x10",
        &["27262524 -> 27262534"],
    ),
    ("inc byte ptr [rbx+0x7f]", &["7f -> 80"]),
    ("not word ptr [rbx+0x60]", &["6160 -> 9e9f"]),
    (
        "shl qword ptr [rbx+0x68], 4",
        &["6f6e6d6c6b6a6968 -> f6e6d6c6b6a69680"],
    ),
    ("bts dword ptr [rbx+0x70], 31", &["73727170 -> f3727170"]),
    ("cmp eax, eax; sete byte ptr [rbx+0x71]", &["01"]),
    ("cmovne eax, [rbx+0x48]", &["4b4a4948"]),
    ("imul eax, [rbx+0x4c], 3", &["4f4e4d4c"]),
    ("lea rdi, [rbx+0x120]; mov eax, 0x55; stosd", &["00000055"]),
    ("lea rsi, [rbx+0x50]; lodsw", &["5150"]),
    (
        "lea rsi, [rbx+0x50]; lea rdi, [rbx+0x130]; movsq",
        &["5756555453525150"; 2],
    ),
    ("lea rsi, [rbx+1]; lea rdi, [rbx+2]; cmpsb", &["01", "02"]),
    ("scasb", &["03"]),
    (
        "lea rdi, [rbx+0x140]; mov ecx, 3; mov al, 0x7e; rep stosb",
        &["7e"],
    ),
    ("lea rsi, [rbx+0x140]; mov ecx, 2; rep movsb", &["?", "?"]),
    ("mov eax, 0x44; xlatb", &["44"]),
    (
        "movups xmm0, [rbx+0xa1]",
        &["a1a2a3a4a5a6a7a8a9aaabacadaeafb0"],
    ),
    (
        "movups [rbx+0x151], xmm0",
        &["a1a2a3a4a5a6a7a8a9aaabacadaeafb0"],
    ),
    ("movsd xmm9, [rbx+0xa8]", &["afaeadacabaaa9a8"]),
    ("movss [rbx+0x164], xmm9", &["abaaa9a8"]),
    (
        "movq mm0, [rbx+0x58]; movq [rbx+0x168], mm0; emms",
        &["5f5e5d5c5b5a5958"; 2],
    ),
    (
        "movhps xmm0, [rbx+8]; movhps [rbx+0x170], xmm0",
        &["0f0e0d0c0b0a0908"; 2],
    ),
    (
        "paddb xmm0, xmmword ptr [rbx+0x40]",
        &["404142434445464748494a4b4c4d4e4f"],
    ),
    (
        "fld tbyte ptr [rbx+0x190]; fstp tbyte ptr [rbx+0x1a0]",
        &["90919293949596979899"; 2],
    ),
    (
        "fild word ptr [rbx+2]; fistp qword ptr [rbx+0x1b0]",
        &["0302", "0000000000000302"],
    ),
    ("fnstcw [rbx+0x1b8]", &["037f"]),
    ("stmxcsr [rbx+0x1bc]", &["00001f80"]),
    ("mov rcx, rbx; xadd [rcx], rcx", &["0706050403020100 -> ?"]),
];

const VEX: &[(&str, &[&str])] = &[
    (
        "vmovdqu ymm8, [rbx+0xc0]; vmovdqu [rbx+0x1c0], ymm8",
        &["c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"; 2],
    ),
    ("vbroadcastss ymm1, [rbx+0xe0]", &["e3e2e1e0"]),
    (
        "vpxor xmm0, xmm0, xmm0; vpcmpeqd xmm3, xmm3, xmm3; vpblendd xmm3, xmm3, xmm0, 5; vmaskmovps xmm4, xmm3, [rbx+8]",
        &["0f0e0d0c", "17161514"],
    ),
    (
        "vpmaskmovd [rbx+0x1e0], xmm3, xmm4; vpgatherdd xmm5, [rbx+xmm0*1+0x12], xmm3",
        &["0f0e0d0c", "17161514", "15141312", "15141312"],
    ),
    (
        "vpaddb ymm0, ymm1, [rbx+0xe0]",
        &["e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"],
    ),
];

const EVEX: &[(&str, &[&str])] = &[
    (
        "vmovdqu64 zmm17, [rbx+0xc0]; vmovdqu64 [rbx+0x1c0], zmm17; vpaddb zmm0, zmm17, [rbx+0xc0]",
        &["c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf\
           e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"; 3],
    ),
    (
        "vmovdqu8 xmm18, [rbx+0xd0]",
        &["d0d1d2d3d4d5d6d7d8d9dadbdcdddedf"],
    ),
    (
        "mov eax, 0x8005; kmovq k1, rax; vmovdqu32 zmm0{k1}, [rbx+0xc0]",
        &["c3c2c1c0", "cbcac9c8", "fffefdfc"],
    ),
    (
        "vpcmpeqb k2{k1}, ymm0, [rbx+0xc1]; kmovq k3, rax; vpcmpeqb k3{k3}, xmm17, [rbx+0xc1]",
        &["c1", "c3", "d0", "c1", "c3", "d0"],
    ),
    (
        "vpcmpw k2{k1}, zmm0, [rbx+0xc0], 4",
        &["c1c0", "c5c4", "dfde"],
    ),
    (
        "mov ecx, 0x05; kmovq k1, rcx; vpaddq zmm16{k1}, zmm17, [rbx+8]; vpaddd xmm18{k1}{z}, xmm19, [rbx+0x40]",
        &[
            "0f0e0d0c0b0a0908",
            "1f1e1d1c1b1a1918",
            "43424140",
            "4b4a4948",
        ],
    ),
    (
        "vmovdqu8 ymm0, [rbx+0x40]; vmovdqu8 [rbx+0x201]{k1}, ymm0; vmovdqu64 [rbx+0x208]{k1}, zmm17",
        &[
            "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f",
            "40",
            "42",
            "c7c6c5c4c3c2c1c0",
            "d7d6d5d4d3d2d1d0",
        ],
    ),
    (
        "vpcompressd [rbx+0x300]{k1}, zmm17; vpexpandd zmm16{k1}, [rbx+0x10]",
        &["c3c2c1c0", "cbcac9c8", "13121110", "17161514"],
    ),
    (
        "kmovq k2, rcx; vpxor xmm0, xmm0, xmm0; vpgatherdd xmm16{k2}, [rbx+xmm0*4+4]",
        &["07060504"; 2],
    ),
    (
        "kmovq k2, rcx; vpscatterdd [rbx+xmm0*4+0x340]{k2}, xmm16",
        &["07060504"; 2],
    ),
    (
        "mov eax, 1; vmovss xmm1{k1}{z}, [rbx+0x20]; vaddss xmm2{k1}{z}, xmm1, [rbx+0x20]; vmovss [rbx+0x360]{k1}, xmm1",
        &["00000007", "?", "00000007"],
    ),
    ("vpaddd zmm1{k1}, zmm1, [rbx+4]{1to16}", &["?"]),
];

/// A program with a function for each table, whose processor has it.
fn program() -> String {
    let mut text = String::from(
        "#include <string.h>\n__attribute__((aligned(4096))) unsigned char area[8192];\n",
    );
    for (name, forms) in [("plain", PLAIN), ("vex", VEX), ("evex", EVEX)] {
        writeln!(text, "void {name}(void *);").unwrap();
        writeln!(
            text,
            "asm(\".intel_syntax noprefix\\n.type {name}, @function\\n\""
        )
        .unwrap();
        writeln!(text, "    \"{name}: mov r15, rbx; mov rbx, rdi\\n\"").unwrap();
        for (form, _) in forms {
            writeln!(text, "    \"{form}\\n\"").unwrap();
        }
        writeln!(text, "    \"mov rbx, r15; ret\\n.att_syntax\\n\");").unwrap();
    }
    text + "int main(void) {
        for (int i = 0; i < 512; i++) area[i] = i;
        register long keep asm(\"r15\"); asm volatile(\"\" : \"=r\"(keep));
        plain(area);
        if (__builtin_cpu_supports(\"avx2\")) vex(area);
        if (__builtin_cpu_supports(\"avx512bw\") && __builtin_cpu_supports(\"avx512vl\")) evex(area);
        asm volatile(\"\" : : \"r\"(keep));
        return 0;
    }"
}

/// Values of the accesses of a function, without those of its return.
fn dumped(folder: &Folder, function: &str) -> Vec<String> {
    let words = ["dump", "run.evp", "--accesses", "--funcs", function];
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let values = text.lines().filter_map(|line| line.split_once("  = "));
    let mut values: Vec<String> = values.map(|(_, values)| values.to_owned()).collect();
    values.pop();
    values
}

#[test]
fn values_of_every_form() {
    let folder = Folder::new("values-forms");
    let program = program();
    folder.program(&["-O1", "-no-pie", "-ffixed-r15"], "prog", &program);
    let has_vex = std::arch::is_x86_feature_detected!("avx2");
    let has_evex = std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl");
    let cases: [&[&str]; 4] = [
        &[],
        &["--no-elision"],
        &["--chaos", "3"],
        &["--chaos", "7", "--no-elision"],
    ];
    for case in cases {
        let words = ["trace", "-q", "-o", "run.evp", "--memory", "values"];
        let words = [&words, case, &["--", "./prog"]].concat();
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
        for (name, forms, is_there) in [
            ("plain", PLAIN, true),
            ("vex", VEX, has_vex),
            ("evex", EVEX, has_evex),
        ] {
            // A function that did not run has no accesses to ask for.
            if !is_there {
                continue;
            }
            let expected = forms.iter().flat_map(|(_, values)| values.iter().copied());
            let expected: Vec<&str> = expected.collect();
            assert_eq!(dumped(&folder, name), expected, "{name} {case:?}");
        }
    }
}

/// Memory that cannot be read, for all that emitted code does itself, ends the program's
/// instruction as natively.
#[test]
fn faults_are_those_of_the_program() {
    const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <ucontext.h>
static sigjmp_buf back;
static char *edge;
static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("%d %d %ld: %llx %llx %llx %llx %llx\n", signal, info->si_code, info->si_addr ? (long)((char *)info->si_addr - edge) : -1,
           g[REG_RAX], g[REG_RCX], g[REG_R11], g[REG_R10], g[REG_ERR]);
    siglongjmp(back, 1);
}
#define TRY(code) if (!sigsetjmp(back, 1)) { \
    asm volatile("mov $0x1111, %%rax\n mov $0x2222, %%rcx\n mov $0x3333, %%r10\n mov $0x4444, %%r11\n" code \
        : : "b"(edge) : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "memory", "cc"); \
    puts("no fault"); }
int main(void) {
    int memory = memfd_create("short", 0);
    ftruncate(memory, 4096);
    edge = mmap(0, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) + 4096;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    for (int round = 0; round < 2; round++) {
        TRY("add (%%rbx), %%rax")
        TRY("add -4(%%rbx), %%rax")
        TRY("paddb -8(%%rbx), %%xmm0")
        TRY("movups -8(%%rbx), %%xmm0\n paddb 0(%%rbx), %%xmm0")
        TRY("addl $1, -2(%%rbx)")
        TRY("lock xadd %%rax, -7(%%rbx)")
        TRY("push (%%rbx)")
        TRY("mov %%rax, -4(%%rbx)")
        TRY("fldt -5(%%rbx)")
        TRY("call *-3(%%rbx)")
        TRY("mov $0x8000000000000000, %%rdx\n cmp (%%rdx), %%rax")
        if (round == 0) munmap(edge, 8192), mmap(edge, 8192, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    edge = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // The page is there from now on.
    if (*(volatile char *)edge) return 1;
    TRY("addl $1, 2(%%rbx)")
    TRY("lock xadd %%rax, 7(%%rbx)")
    TRY("mov %%rax, 4(%%rbx)")
    return 0;
}
"#;
    let folder = Folder::new("values-faults");
    folder.program(&["-O1"], "prog", PROGRAM);
    let native = folder.run("./prog", &[]);
    assert!(native.status.success(), "{native:?}");
    let lines = native.stdout.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines, 25);
    let cases: [&[&str]; 3] = [&[], &["--no-elision"], &["--chaos", "5"]];
    for case in cases {
        let words = ["trace", "-q", "-o", "run.evp", "--memory", "values"];
        let output = folder.run(BINARY, &[&words, case, &["--", "./prog"]].concat());
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&native.stdout),
            "{case:?}"
        );
        assert!(output.status.success(), "{output:?}");
        let output = folder.run(BINARY, &["verify", "run.evp"]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// Elements that are masked out may be where nothing is; loading the others changes no register,
/// also if that faults.
#[test]
fn elements_beyond_the_mask_are_not_read() {
    const PROGRAM: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static sigjmp_buf back;
static char *edge;
static unsigned char before[256], after[256];
static void handler(int signal, siginfo_t *info, void *context) {
    asm volatile("vmovdqu64 %%zmm16, (%0)\n vmovdqu64 %%zmm17, 64(%0)\n vmovdqu64 %%zmm18, 128(%0)\n vmovdqu64 %%zmm19, 192(%0)"
                 : : "r"(after) : "memory");
    printf("%d %ld ", signal, (long)((char *)info->si_addr - edge));
    siglongjmp(back, 1);
}
__attribute__((noinline)) static void compare(char *from, unsigned long mask) {
    unsigned long found = 0;
    memset(after, 0, sizeof after);
    if (!sigsetjmp(back, 1)) {
        asm volatile("vmovdqu64 (%3), %%zmm16\n vmovdqu64 64(%3), %%zmm17\n vmovdqu64 128(%3), %%zmm18\n vmovdqu64 192(%3), %%zmm19\n"
                     "kmovq %2, %%k2\n vpcmpub $4, (%1), %%zmm17, %%k1%{%%k2%}\n kmovq %%k1, %0\n"
                     "vmovdqu64 %%zmm16, (%4)\n vmovdqu64 %%zmm17, 64(%4)\n vmovdqu64 %%zmm18, 128(%4)\n vmovdqu64 %%zmm19, 192(%4)"
                     : "=&r"(found) : "r"(from), "r"(mask), "r"(before), "r"(after) : "k1", "k2", "xmm16", "xmm17", "xmm18", "xmm19", "memory");
    }
    printf("%lx %d\n", found, memcmp(before, after, 256));
}
int main(void) {
    if (!__builtin_cpu_supports("avx512bw")) return 0;
    edge = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    munmap(edge, 4096);
    for (int i = 0; i < 256; i++) before[i] = i + 1, edge[-256 + i] = i;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    compare(edge - 64, -1);
    compare(edge - 8, 0xa5);
    compare(edge, 0);
    compare(edge - 8, 0x1a5);
    compare(edge - 8, 1ul << 63);
    return 0;
}
"#;
    let folder = Folder::new("values-elements");
    folder.program(&["-O1", "-mavx512bw"], "prog", PROGRAM);
    let native = folder.run("./prog", &[]);
    assert!(native.status.success(), "{native:?}");
    let cases: [&[&str]; 3] = [&[], &["--no-elision"], &["--chaos", "5"]];
    for case in cases {
        let words = ["trace", "-q", "-o", "run.evp", "--memory", "values"];
        let output = folder.run(BINARY, &[&words, case, &["--", "./prog"]].concat());
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&native.stdout),
            "{case:?}"
        );
        assert!(output.status.success(), "{output:?}");
        if std::arch::is_x86_feature_detected!("avx512bw") {
            let expected = ["f8", "fa", "fd", "ff"];
            let words = ["dump", "run.evp", "--accesses", "--funcs", "compare"];
            let output = folder.run(BINARY, &words);
            let text = String::from_utf8(output.stdout).unwrap();
            let words = text
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>());
            let bytes = words.filter_map(|words| match words[..] {
                ["R", "1", _, "=", value] => Some(value.to_owned()),
                _ => None,
            });
            let bytes: Vec<String> = bytes.collect();
            assert_eq!(bytes.len(), 64 + 4, "{text}");
            assert_eq!(bytes[64..], expected, "{case:?}");
        }
        let output = folder.run(BINARY, &["verify", "run.evp"]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// A load has the value that the instruction saw, also where another thread writes all the time.
#[test]
fn a_value_is_the_one_that_was_seen() {
    const PROGRAM: &str = r#"
#include <pthread.h>
#include <sched.h>
volatile long shared, stop;
long copies[1024];
static void *writer(void *unused) {
    for (long i = 0; !stop; i++) shared = i;
    return 0;
}
__attribute__((noinline)) long pair(long *copy) {
    long seen;
    asm volatile("mov %1, %0\n mov %0, %2" : "=&r"(seen) : "m"(shared), "m"(*copy));
    asm volatile("mov %0, %%rax\n xchg %%rax, %1\n mov %%rax, %2"
                 : : "r"(seen), "m"(shared), "m"(*copy) : "rax");
    return seen;
}
static void reader(void) {
    long last = -1;
    for (int i = 0, changes = 0; changes < 1000; i++) {
        long seen = pair(&copies[i % 1024]);
        if (seen != last) changes++, last = seen;
        else if (i % 64 == 0) sched_yield();
    }
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, writer, 0);
    reader();
    stop = 1;
    pthread_join(thread, 0);
    return 0;
}
"#;
    let folder = Folder::new("values-seen");
    folder.program(&["-O1", "-no-pie", "-pthread"], "prog", PROGRAM);
    // The other thread is not recorded, so it is quick.
    let words = ["trace", "-q", "-o", "run.evp", "--memory", "values"];
    let words = [&words[..], &["--funcs", "pair", "--", "./prog"]].concat();
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    let output = folder.run(BINARY, &["dump", "run.evp", "--accesses"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut loaded = None;
    let (mut compared, mut different) = (0, HashMap::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["R" | "RW", "8", _, "=", value, ..] => loaded = Some(value.to_owned()),
            ["W", "8", _, "=", value] => {
                let loaded = loaded.take().expect("a load comes before");
                compared += 1;
                *different.entry(loaded.clone()).or_insert(0) += 1;
                assert_eq!(loaded, value);
            }
            _ => {}
        }
    }
    assert!(compared >= 2000 && different.len() > 100);
}

/// Bytes are compared with what the thread wrote there; memory that is mapped twice differs.
#[test]
fn verify_says_what_differs_from_what_was_written() {
    const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int memory = memfd_create("twice", 0);
    ftruncate(memory, 4096);
    volatile int *one = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    volatile int *two = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    int sum = 0;
    for (int i = 0; i < 10; i++) one[i] = 0x01010101, two[i] = 0x02020202, sum += one[i];
    return sum == 0;
}
"#;
    let folder = Folder::new("values-twice");
    folder.program(&["-O1", "-static"], "prog", PROGRAM);
    let words = [
        "trace", "-q", "-o", "run.evp", "--memory", "values", "--", "./prog",
    ];
    assert!(folder.run(BINARY, &words).status.success());
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("after it wrote them"));
    assert!(
        line.is_some_and(|line| line.ends_with(": 40 differ")),
        "{text}"
    );
    assert!(output.status.success());
}
