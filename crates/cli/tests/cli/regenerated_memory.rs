//! Accesses regenerated from witnesses: those of `everypath trace --memory addresses`.
//!
//! Two runs of a program have their memory at other places: the editor adds a segment, the translator loads programs elsewhere. So
//! addresses have to be the same within their pages, and pages of one run are those of the other one by one.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::Command;

use analysis::walk::{AccessEvent, Accesses, Pieces, selection};
use isa::memory::Kind;
use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{counters, edit, run};
use crate::regenerated::{EXCEPTIONS, PROGRAM, places};

/// String instructions, bits in memory, memory of the thread, arrays whose size is known late, loads of all widths as indices, values
/// that are exchanged, calls whose results are addresses, and locals behind `setjmp`.
pub const FORMS: &str = r#"
#include <alloca.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static __thread int own[16];
static int8_t bytes[64]; static uint16_t words[64]; static int32_t ints[64]; static void *pointers[64];
static jmp_buf out;
struct node { struct node *next, *other; int n; };
__attribute__((noinline)) struct node *step(struct node *at, int n) { return n & 1 ? at->other : at->next; }
__attribute__((noinline)) long strings(char *to, const char *from, long n) {
    char *end = to; const char *begin = from; long count = n;
    __asm__ volatile("rep movsb" : "+D"(end), "+S"(begin), "+c"(count) :: "memory");
    count = n / 4; char *at = to;
    __asm__ volatile("rep stosl" : "+D"(at), "+c"(count) : "a"(7) : "memory");
    at = to; count = n;
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(count) : "a"(9) : "memory", "cc");
    return end[-1] + at[0];
}
__attribute__((noinline)) int bits(uint64_t *set, long bit) { unsigned char r; __asm__ volatile("btsq %2, %0; setc %1" : "+m"(*set), "=q"(r) : "r"(bit) : "memory", "cc"); return r; }
__attribute__((noinline)) long late(int n) { long *a = alloca(n * sizeof *a); for (int i = 0; i < n; i++) a[i] = i * n; return a[n / 2] + a[bytes[n & 63] & (n - 1)]; }
__attribute__((noinline)) long many(int a, int b, int c, int d, long e, long *f, int g, long *h) { return f[a] + h[g] + e + b + c + d; }
__attribute__((noinline)) long indices(int i) {
    long s = ints[bytes[i & 63] & 63] + words[(uint8_t)ints[i & 63] & 63] + bytes[words[i & 63] & 63];
    long x = i * 13 & 63; x = x > 20 ? x - 20 : x; s += ints[x] + ints[(x * x >> 2) & 63];
    void *p = &ints[i & 63]; p = __atomic_exchange_n(&pointers[i & 63], p, __ATOMIC_SEQ_CST);
    if (p) s += *(int *)p;
    own[i & 15] += s; return s + own[(i + 3) & 15];
}
__attribute__((noinline)) long again(volatile int *turns) { long *a = malloc(80); a[3] = 5; int r = setjmp(out); a[r + 3] = r; if (*turns > 0) { (*turns)--; longjmp(out, *turns % 4); } r = a[4]; free(a); return r; }
int main(int argc, char **argv) {
    static struct node nodes[8]; static uint64_t set[16]; static char to[256];
    long s = 0; volatile int turns = 6; long f[9] = { 3, 1, 4, 1, 5, 9, 2, 6, 5 };
    for (int i = 0; i < 64; i++) { bytes[i] = i * 37 - 100; words[i] = i * 1009; ints[i] = i * 7919 - 9999; }
    for (int i = 0; i < 8; i++) nodes[i] = (struct node){ &nodes[(i * 3 + 1) & 7], &nodes[(i * 5 + 2) & 7], i };
    struct node *at = nodes;
    for (int i = 0; i < 300; i++) { at = step(at, i * i >> 3); s += at->n + indices(i) + late(3 + i % 40) + many(i % 9, 1, 2, 3, i, f, (i + 4) % 9, f); }
    for (int i = 0; i < 40; i++) s += bits(set, i * 23 % 1000) + bits(set + 4, -(i % 5)) + strings(to, (char *)ints, 8 + i * 4);
    s += again(&turns);
    printf("%ld\n", s);
    return 0;
}
"#;

/// Most accesses of one instruction that are compared.
const MOST_TIMES: u64 = 1 << 16;

/// An access: the instruction as a place in the program's file, the kind, bytes, and the address.
pub type Access = (u64, Kind, u32, u64);

/// Accesses of each thread of a recording by code of these files; threads without any are left out.
pub fn accesses(folder: &Folder, recording: &str, files: &[&str]) -> Vec<Vec<Access>> {
    let file = fs::File::open(folder.file(recording)).expect("a recording");
    let recording = trace::read(file).expect("it is sound");
    let selection = selection(&recording).expect("it has accesses");
    let mut all = Vec::new();
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        let place = places(process, files);
        for thread in &process.threads {
            let mut reader = Accesses::new(&mut pieces, thread, selection);
            let mut accesses = Vec::new();
            while let Some(event) = reader.next() {
                let AccessEvent::Executed(steps, found, _) = event.expect("it is sound") else {
                    continue;
                };
                for accessed in found {
                    let Some(at) = place(steps[accessed.step as usize].pc) else {
                        continue;
                    };
                    // Repeated ones that fault at once have any number of times.
                    let times = accessed.times.min(MOST_TIMES);
                    let each = (0..times).map(|time| accessed.at(time));
                    accesses.extend(each.map(|one| (at, one.kind, one.size, one.address)));
                }
            }
            assert_eq!(reader.left(), 0, "words that belong to nothing");
            all.push(accesses);
        }
    }
    all.retain(|thread| !thread.is_empty());
    all
}

/// Runs a program as it is under `trace --memory addresses`, and edited, and compares; gives the number of accesses.
fn agrees(folder: &Folder, program: &str, arguments: &[&str]) -> usize {
    let inside = edit(folder, program, "trace --memory");
    let edited = run(folder, &inside, program, arguments);
    let mut own = Vec::new();
    for (number, file) in counters(folder, &inside).iter().enumerate() {
        let kept = format!("regenerated-{program}-{number}.evp");
        let output = folder.run(BINARY, &["regenerate", "-q", file, "-o", &kept]);
        assert!(output.stderr.is_empty(), "{output:?}");
        let verified = folder.run(BINARY, &["verify", &kept]);
        assert!(verified.stderr.is_empty(), "{verified:?}");
        own.extend(accesses(folder, &kept, &[program]));
    }
    // Its folder has a name as long, so its stack is the same.
    let native = format!("{program}.traced--memory");
    fs::create_dir(folder.file(&native)).expect("a new folder");
    let copied = folder.run("cp", &[program, &format!("{native}/{program}")]);
    assert!(copied.status.success(), "{copied:?}");
    let traced = Command::new("setarch")
        .args(["-R", BINARY, "trace", "-q", "--memory", "addresses"])
        .args(["--no-shared-libs", "-o", "../traced.evp", "--"])
        .arg(format!("./{program}"))
        .args(arguments)
        .current_dir(folder.file(&native))
        .output()
        .expect("setarch is there");
    assert_eq!(edited.stdout, traced.stdout);
    assert_eq!(edited.status, traced.status);
    let known: HashSet<u64> = own.iter().flatten().map(|access| access.0).collect();
    let mut traced = accesses(folder, "traced.evp", &[program]);
    for thread in &mut traced {
        thread.retain(|access| known.contains(&access.0));
    }
    traced.retain(|thread| !thread.is_empty());
    // Processes and threads have other numbers.
    let key = |thread: &Vec<Access>| -> Vec<(u64, Kind, u32)> {
        thread.iter().map(|one| (one.0, one.1, one.2)).collect()
    };
    own.sort_by_cached_key(key);
    traced.sort_by_cached_key(key);
    assert_eq!(own.len(), traced.len(), "{program}");
    for (own, traced) in own.iter().zip(&traced) {
        same(program, own, traced);
    }
    own.iter().map(Vec::len).sum()
}

/// Compares a thread's accesses in both runs.
pub fn same(program: &str, own: &[Access], traced: &[Access]) {
    if let Some(differs) = difference(own, traced) {
        panic!("{program}: {differs}");
    }
}

/// The first difference of a thread's accesses in two runs.
pub fn difference(own: &[Access], traced: &[Access]) -> Option<String> {
    let (mut pages, mut back) = (HashMap::new(), HashMap::new());
    for (number, (one, other)) in own.iter().zip(traced).enumerate() {
        let (page, place) = (one.3 >> 12, one.3 & 0xfff);
        let (other_page, other_place) = (other.3 >> 12, other.3 & 0xfff);
        let there = *pages.entry(page).or_insert(other_page);
        let here = *back.entry(other_page).or_insert(page);
        let is_same = (one.0, one.1, one.2, place) == (other.0, other.1, other.2, other_place);
        if !is_same || (there, here) != (other_page, page) {
            return Some(format!("access {number}: {one:x?} for {other:x?}"));
        }
    }
    let lens = (own.len(), traced.len());
    (lens.0 != lens.1).then(|| format!("{} accesses for {}", lens.0, lens.1))
}

#[test]
fn addresses_are_those_of_trace() {
    let folder = Folder::new("regenerated-memory");
    for (name, flags, source) in [
        ("quick", &["-O2", "-pthread"][..], PROGRAM),
        ("plain", &["-O0", "-pthread", "-no-pie"], PROGRAM),
        ("forms", &["-O2"], FORMS),
        ("plainforms", &["-O0"], FORMS),
    ] {
        folder.program(flags, name, source);
        let accesses = agrees(&folder, name, &[]);
        assert!(accesses > 5_000, "{name}: {accesses}");
    }
}

#[test]
fn addresses_behind_exceptions_are_those_of_trace() {
    let folder = Folder::new("regenerated-memory-exceptions");
    fs::write(folder.file("exceptions.cc"), EXCEPTIONS).expect("a file");
    let built = folder.run("g++", &["-O2", "-o", "exceptions", "exceptions.cc"]);
    assert!(built.status.success(), "{built:?}");
    let accesses = agrees(&folder, "exceptions", &[]);
    assert!(accesses > 200, "{accesses}");
}

#[test]
fn addresses_of_real_programs_are_those_of_trace() {
    let folder = Folder::new("regenerated-memory-real");
    let text = (0..500).map(|i| format!("{} {}\n", i * 7919 % 1000, i % 17));
    fs::write(folder.file("text"), text.collect::<String>()).expect("a file");
    let text = folder.file("text").display().to_string();
    let script = "BEGIN { for (i = 0; i < 300; i++) { a[i % 37] += i; s = s substr(\"abcdef\", i % 6, 1) } print length(s), a[5] }";
    for (program, arguments) in [
        ("/usr/bin/gzip", &["-c", &text][..]),
        ("/usr/bin/gawk", &[script]),
    ] {
        let name = program.rsplit('/').next().unwrap_or_default();
        assert!(folder.run("cp", &[program, name]).status.success());
        let accesses = agrees(&folder, name, arguments);
        assert!(accesses > 1000, "{program}: {accesses}");
    }
}
