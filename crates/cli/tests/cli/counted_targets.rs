//! Targets of indirect calls and jumps in edited programs: each with its count, as `everypath count` has them of the same run.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{counters, edit, run};

/// Calls by a register, by memory, by memory of the thread, and without coming back; a computed goto of several jumps; more
/// targets than a site has room for; threads, a handler of a signal that counts in the middle, and a child.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define N(n) __attribute__((noinline)) long f##n(long x) { return x * n + 1; }
N(1) N(2) N(3) N(4) N(5) N(6) N(7) N(8) N(9) N(10) N(11) N(12)
typedef long one(long);
one *const volatile all[] = { f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12 };
static __thread one *volatile own = f12;
struct object { long pad; one *f; };
__attribute__((noinline)) long by_register(one *f, long n) { long s = 0; while (n--) s += f(s); return s; }
__attribute__((noinline)) long by_memory(struct object *o, long n) { long s = 0; while (n--) s += o->f(s); return s; }
__attribute__((noinline)) long by_index(long i) { return all[i](i) + 1; }
__attribute__((noinline)) long of_thread(long n) { return own(n) + 1; }
__attribute__((noinline)) long tail(one *f, long n) { return f(n); }
__attribute__((noinline)) long machine(const unsigned char *at) {
    static void *const labels[] = { &&add, &&twice, &&less, &&jump, &&end };
    long s = 0;
    goto *labels[*at++];
add: s += 3; goto *labels[*at++];
twice: s *= 2; goto *labels[*at++];
less: s -= 1; goto *labels[*at++];
jump: s ^= 5; goto *labels[*at++];
end: return s;
}
void handler(int n) { by_register(all[n % 12], 1); by_index(3); }
void *thread(void *n) { long s = 0; own = all[(long)n]; for (long i = 0; i < 100 * (long)n; i++) s += of_thread(i) + by_index(i % 12) + tail(all[i % 3], i); return (void *)s; }
int main(void) {
    static unsigned char code[2001];
    unsigned seed = 7;
    for (int i = 0; i < 2000; i++) { seed = seed * 1103515245 + 12345; code[i] = (seed >> 16) % 4; }
    code[2000] = 4;
    signal(SIGUSR1, handler);
    struct object o = { 0, f5 };
    long s = machine(code);
    for (long i = 0; i < 12; i++) { s += by_register(all[i], 10 * i) + tail(all[i], i); o.f = all[i]; s += by_memory(&o, i) + by_index(i); raise(SIGUSR1); }
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, thread, (void *)(i + 1));
    for (int i = 0; i < 3; i++) { void *one; pthread_join(threads[i], &one); s += (long)one; }
    pid_t pid = fork();
    if (!pid) { by_index(11); _exit(by_memory(&o, 3) & 7); }
    int status; waitpid(pid, &status, 0);
    printf("%ld %d\n", s, WEXITSTATUS(status));
    return 0;
}
"#;

type Transfers = BTreeMap<(u64, u64), u64>;

/// Executions of calls and jumps between blocks of a program, by the end of the one and the beginning of the other.
fn transfers(folder: &Folder, recordings: &[String], program: &str) -> Transfers {
    let mut words = vec!["report", "--format", "json"];
    words.extend(recordings.iter().map(String::as_str));
    let output = folder.run(BINARY, &words);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let section = &report["sections"][0];
    let modules = section["modules"].as_array().expect("modules");
    let ending = format!("/{program}");
    let own = modules.iter().position(|module| {
        let path = module["path"].as_str();
        path.is_some_and(|path| path.ends_with(&ending))
    });
    let place = |at: &Value| {
        let block = &section["blocks"][at.as_u64()? as usize];
        let offset = block["offset"].as_str()?.strip_prefix("0x")?;
        let start = u64::from_str_radix(offset, 16).ok()?;
        let is_own = block["module"].as_u64() == own.map(|own| own as u64);
        is_own.then_some((start, start + block["bytes"].as_u64()?))
    };
    let mut all = Transfers::new();
    for edge in section["edges"].as_array().expect("edges") {
        let is_one = matches!(edge["kind"].as_str(), Some("call" | "jump"));
        if let (true, Some((_, end)), Some((start, _))) =
            (is_one, place(&edge["from"]), place(&edge["to"]))
        {
            *all.entry((end, start)).or_default() += edge["count"].as_u64().expect("a count");
        }
    }
    all
}

/// Ranges of functions by their file offsets: those of [`PROGRAM`].
fn own_functions(folder: &Folder, program: &str) -> Vec<(u64, u64)> {
    let output = folder.run("nm", &["-S", program]);
    let listed = String::from_utf8(output.stdout).expect("text");
    let lines = listed.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, size, "t" | "T", name] = words[..] else {
            return None;
        };
        let start = u64::from_str_radix(start, 16).ok()?;
        let size = u64::from_str_radix(size, 16).ok()?;
        (!name.starts_with('_')).then_some((start, start + size))
    });
    lines.collect()
}

#[test]
fn targets_are_as_count_has_them() {
    let folder = Folder::new("counted-targets");
    let flags = ["-O2", "-fno-ipa-icf", "-fno-ipa-cp", "-pthread"];
    folder.program(&flags, "indirect", PROGRAM);
    let own = own_functions(&folder, "indirect");
    let is_own = |at: u64| own.iter().any(|(start, end)| (*start..*end).contains(&at));
    let native = run(&folder, "", "indirect", &[]);
    assert!(native.status.success());
    let words = ["count", "-o", "all", "--", "./indirect"];
    assert_eq!(folder.run(BINARY, &words).stdout, native.stdout);
    let mut all = transfers(&folder, &["all".into()], "indirect");
    all.retain(|(end, start), _| is_own(end - 1) && is_own(*start));
    for tool in ["edges --targets", "blocks --targets --paranoid"] {
        let inside = edit(&folder, "indirect", tool);
        assert_eq!(run(&folder, &inside, "indirect", &[]), native, "{tool}");
        let files = counters(&folder, &inside);
        assert_eq!(files.len(), 2, "a file for each process");
        let mut edited = transfers(&folder, &files, "indirect");
        edited.retain(|(end, start), _| is_own(end - 1) && is_own(*start));
        assert_eq!(edited, all, "{tool}");
    }
    // Each of the functions, and each pair of jumps of the computed goto.
    let by_site = |most: usize| {
        let mut sites: BTreeMap<u64, usize> = BTreeMap::new();
        for (end, _) in all.keys() {
            *sites.entry(*end).or_default() += 1;
        }
        sites.values().filter(|targets| **targets >= most).count()
    };
    assert!(by_site(11) >= 4, "{all:x?}");
    assert!(by_site(4) >= 8, "{all:x?}");
}

/// Each file of a folder says where its calls went in the others, and by which thread.
#[test]
fn targets_are_found_in_libraries() {
    let folder = Folder::new("counted-targets-libraries");
    let library = "typedef long one(long); long each(one *f, long n) { long s = 0; while (n--) s += f(n); return s; }";
    fs::write(folder.file("each.c"), library).expect("a file");
    let words = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libeach.so"];
    let built = folder.run(
        "gcc",
        &[&words[..], &["-o", "libeach.so", "each.c"]].concat(),
    );
    assert!(built.status.success());
    let program = "#include <stdio.h>\n#include <stdlib.h>\ntypedef long one(long); long each(one *, long);\n\
        __attribute__((noinline)) long twice(long n) { return 2 * n; }\n\
        __attribute__((noinline)) long more(long n) { return n + 1; }\n\
        int main(void) { one *volatile a = labs; printf(\"%ld\\n\", each(twice, 7) + each(more, 5) + each(a, 3)); return 0; }";
    let link = ["-O1", "-L.", "-Wl,-rpath,$ORIGIN", "-fno-builtin", "-leach"];
    fs::write(folder.file("calls.c"), program).expect("a file");
    let words = ["-o", "calls", "calls.c"];
    let built = folder.run("gcc", &[&words[..], &link].concat());
    assert!(built.status.success(), "{built:?}");
    let words = "rewrite calls -o edited --libs --tool edges --targets";
    let edited = folder.run(BINARY, &words.split(' ').collect::<Vec<_>>());
    assert!(edited.status.success(), "{edited:?}");
    fs::create_dir(folder.file("runs")).expect("a new folder");
    let folder_of_runs = folder.file("runs").display().to_string();
    let mut run = std::process::Command::new(folder.file("edited/bin/calls"));
    let output = run.env("EVERYPATH_COUNTERS", &folder_of_runs).output();
    assert_eq!(output.expect("it runs").stdout, b"60\n");
    let files = counters(&folder, "runs");
    let mut words = vec!["report", "--annotate", "each"];
    words.extend(files.iter().map(String::as_str));
    let shown = folder.run(BINARY, &words);
    let shown = String::from_utf8_lossy(&shown.stdout);
    for target in [
        "7              to twice",
        "5              to more",
        "3              to labs",
    ] {
        let is_it = |line: &str| line.trim() == target;
        assert!(shown.lines().any(is_it), "{target}: {shown}");
    }
}

#[test]
fn targets_go_with_counts_only() {
    let folder = Folder::new("counted-targets-refused");
    let words = "rewrite /usr/bin/gzip -o edited --tool coverage --targets";
    let refused = folder.run(BINARY, &words.split(' ').collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(
        said,
        "everypath: --targets goes with --tool edges and blocks\n"
    );
    assert_eq!(refused.status.code(), Some(125));
}
