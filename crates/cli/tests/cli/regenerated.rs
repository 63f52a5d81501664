//! Traces regenerated from witnesses: instruction by instruction those of `everypath trace`, of every thread and process.

use std::collections::HashSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use analysis::regenerate::{Frames, Graphs, Loaded, Piece, Witnesses, regenerate};
use analysis::walk::Pieces;
use placement::traced::File;
use testkit::folder::{Folder, addresses};

use crate::BINARY;
use crate::counted::{counters, edit, run};

/// Calls by address and through tables, callbacks of the C library, recursion, a handler in the middle, `longjmp` out of it and over
/// activations of one function, threads, children, jumps by labels, loops in loops.
pub const PROGRAM: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef long one(long);
__attribute__((noinline)) long half(long x) { return x % 3 ? x / 2 : x - 1; }
__attribute__((noinline)) long more(long x) { long s = 0; while (x > 0) { s += x & 1 ? x : 1; x -= 1 + (s & 1); } return s; }
__attribute__((noinline)) long deep(long x) { return x < 2 ? x : deep(x - 1) + (x % 3 ? deep(x - 2) : half(x)); }
one *const volatile all[] = { half, more, deep };
static int compare(const void *a, const void *b) { int x = *(const int *)a, y = *(const int *)b; return x < y ? -1 : x > y; }
static jmp_buf out; static sigjmp_buf from_handler;
__attribute__((noinline)) long jumps(int n) { jmp_buf own; if (!setjmp(own)) { if (n == 2) { memcpy(out, own, sizeof own); } if (n == 0) longjmp(out, 7); return jumps(n - 1) + 1; } return 100 + n; }
static volatile int handled;
static void handler(int n) { handled += half(n); if (handled % 5 == 0) siglongjmp(from_handler, 1); }
__attribute__((noinline)) long machine(const unsigned char *at) {
    static void *const labels[] = { &&add, &&twice, &&less, &&end };
    long s = 0;
    goto *labels[*at++];
add: s += 3; if (s & 4) goto *labels[*at++];
twice: s *= 2; goto *labels[*at++];
less: s -= 1; goto *labels[*at++];
end: return s;
}
__attribute__((noinline)) long choose(int i) { switch (i) { case 0: return 5; case 1: return half(i); case 2: return 9; case 3: return more(i); case 4: case 5: return 1; case 6: return 2; default: return -1; } }
static void *thread(void *n) { long s = 0; for (long i = 0; i < 40 * (long)n; i++) s += all[i % 3](i % 15) + choose(i % 9); return (void *)s; }
int main(void) {
    static unsigned char code[301];
    int numbers[100]; unsigned seed = 7;
    for (int i = 0; i < 300; i++) { seed = seed * 1103515245 + 12345; code[i] = (seed >> 16) % 3; numbers[i % 100] = seed >> 16; }
    code[300] = 3;
    signal(SIGUSR1, handler);
    long s = machine(code) + jumps(5);
    qsort(numbers, 100, sizeof *numbers, compare);
    for (int i = 0; i < 20; i++) { s += numbers[i]; if (!sigsetjmp(from_handler, 1)) raise(SIGUSR1); else s++; }
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, thread, (void *)(i + 1));
    for (int i = 0; i < 3; i++) { void *got; pthread_join(threads[i], &got); s += (long)got; }
    pid_t pid = fork();
    if (!pid) { s += deep(9); exit(s & 7); }
    int status; waitpid(pid, &status, 0);
    printf("%ld %d\n", s, WEXITSTATUS(status));
    return s & 3;
}
"#;

pub const EXCEPTIONS: &str = r#"
#include <cstdio>
#include <stdexcept>
#include <string>
static int sum;
struct Guard { int n; ~Guard() { sum += n; } };
__attribute__((noinline)) static void leaf(int n) { if (n > 3) throw n; if (n == 2) throw std::runtime_error("two"); sum++; }
__attribute__((noinline)) static void middle(int n) { Guard guard{n}; leaf(n); sum += 10; }
__attribute__((noinline)) static int nested(int n) { try { if (n > 0) return nested(n - 1) + 1; middle(2); } catch (int x) { return x; } return 0; }
__attribute__((noinline)) static int catching(int n) { try { middle(n); } catch (int x) { try { leaf(x + 1); } catch (int y) { sum += y; } return x; } catch (const std::exception &e) { sum += e.what()[0]; } leaf(1); return 0; }
int main() {
    for (int i = 0; i < 8; i++) sum += catching(i);
    try { nested(4); } catch (std::exception &) { sum += 1000; }
    std::printf("%d\n", sum);
    return 0;
}
"#;

/// A program that runs long enough to be killed in the middle.
const LONG: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long step(long s, int i) { if (s % 3 == 0) return s / 3 + i; if (s & 1) return s * 5 + 1; return s - i; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    long s = 1; int n[16] = {0};
    for (int i = 0; i < 700000; i++) {
        s = step(s, i) & 0xffffff;
        n[i & 15] = s & 255;
        if ((i & 1023) == 0) qsort(n, 16, sizeof *n, compare);
    }
    printf("%ld\n", s);
    return 0;
}
"#;

/// Places of addresses of a process in files of these names: the number of the file, and the offset in it.
pub fn places(process: &trace::Process, files: &[&str]) -> impl Fn(u64) -> Option<u64> {
    let modules = process.modules.iter().filter_map(|module| {
        let name = module.path.rsplit('/').next();
        let number = files.iter().position(|file| Some(*file) == name)? as u64;
        let at = (number << 48 | module.offset).wrapping_sub(module.start);
        Some((module.start..module.end, at))
    });
    let modules: Vec<_> = modules.collect();
    move |pc| {
        let mut modules = modules.iter();
        let (_, at) = modules.find(|(range, _)| range.contains(&pc))?;
        Some(pc.wrapping_add(*at))
    }
}

/// Instructions of each thread of a recording, as places in these files; threads without any are left out.
pub fn threads(folder: &Folder, recording: &str, files: &[&str]) -> Vec<Vec<u64>> {
    let file = fs::File::open(folder.file(recording)).expect("a recording");
    let recording = trace::read(file).expect("it is sound");
    let mut threads = Vec::new();
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        let place = places(process, files);
        for thread in &process.threads {
            let all = addresses(&mut pieces, thread).into_iter();
            threads.push(all.filter_map(&place).collect::<Vec<u64>>());
        }
    }
    threads.retain(|thread| !thread.is_empty());
    threads
}

/// Runs a program as it is under `trace`, and edited, and compares; gives the number of instructions, and the file of witnesses.
fn agrees(folder: &Folder, program: &str, arguments: &[&str]) -> (usize, Vec<String>) {
    let inside = edit(folder, program, "trace");
    let native = run(folder, "", program, arguments);
    assert_eq!(
        run(folder, &inside, program, arguments),
        native,
        "{program}"
    );
    let files = counters(folder, &inside);
    let mut own = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let kept = format!("regenerated-{program}-{number}.evp");
        let output = folder.run(BINARY, &["regenerate", file, "-o", &kept]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !said.contains("contradicts"),
            "{said}"
        );
        let verified = folder.run(BINARY, &["verify", &kept]);
        assert!(verified.stderr.is_empty(), "{verified:?}");
        own.extend(threads(folder, &kept, &[program]));
    }
    let name = format!("./{program}");
    let mut words = vec!["trace", "-q", "--no-shared-libs", "-o", "traced.evp", "--"];
    words.push(&name);
    words.extend(arguments);
    assert_eq!(folder.run(BINARY, &words).stdout, native.stdout);
    let known: HashSet<u64> = own.iter().flatten().copied().collect();
    let mut traced = threads(folder, "traced.evp", &[program]);
    for thread in &mut traced {
        thread.retain(|at| known.contains(at));
    }
    traced.retain(|thread| !thread.is_empty());
    same(program, &mut own, &mut traced);
    (own.iter().map(Vec::len).sum(), files)
}

/// Compares the threads of two runs.
pub fn same(program: &str, own: &mut [Vec<u64>], traced: &mut [Vec<u64>]) {
    // Processes and threads have other numbers.
    own.sort_unstable();
    traced.sort_unstable();
    assert_eq!(own.len(), traced.len(), "{program}");
    for (own, traced) in own.iter().zip(&*traced) {
        let differs = own
            .iter()
            .zip(traced)
            .position(|(own, traced)| own != traced);
        let at = differs.unwrap_or(own.len().min(traced.len()));
        assert!(
            own == traced,
            "{program}: {} and {} instructions, and at {at} {:x?}, {:x?}",
            own.len(),
            traced.len(),
            &own[at.saturating_sub(3)..(at + 3).min(own.len())],
            &traced[at.saturating_sub(3)..(at + 3).min(traced.len())]
        );
    }
}

#[test]
fn a_regenerated_trace_is_that_of_trace() {
    let folder = Folder::new("regenerated");
    let kinds = [
        ("quick", &["-O2", "-pthread"][..]),
        ("plain", &["-O0", "-pthread", "-no-pie"]),
    ];
    for (name, flags) in kinds {
        folder.program(flags, name, PROGRAM);
        let (insns, files) = agrees(&folder, name, &[]);
        assert!(insns > 20_000, "{insns}");
        assert_eq!(files.len(), 2, "a file for each process");
    }
}

#[test]
fn exceptions_are_followed() {
    let folder = Folder::new("regenerated-exceptions");
    fs::write(folder.file("exceptions.cc"), EXCEPTIONS).expect("a file");
    let built = folder.run("g++", &["-O2", "-o", "exceptions", "exceptions.cc"]);
    assert!(built.status.success(), "{built:?}");
    let (insns, _) = agrees(&folder, "exceptions", &[]);
    assert!(insns > 500, "{insns}");
}

#[test]
fn real_programs_are_regenerated() {
    let folder = Folder::new("regenerated-real");
    let text = (0..3000).map(|i| format!("{} {}\n", i * 7919 % 1000, i % 17));
    fs::write(folder.file("text"), text.collect::<String>()).expect("a file");
    let text = folder.file("text").display().to_string();
    for (program, arguments) in [
        ("/usr/bin/gzip", &["-c", &text][..]),
        ("/usr/bin/bzip2", &["-c", &text]),
        (
            "/usr/bin/sqlite3",
            &[
                ":memory:",
                "create table t(a); insert into t select value from generate_series(1,200); select sum(a), count(*) from t where a % 7 = 3;",
            ],
        ),
    ] {
        let name = program.rsplit('/').next().unwrap_or_default();
        assert!(folder.run("cp", &[program, name]).status.success());
        let (insns, files) = agrees(&folder, name, arguments);
        assert!(insns > 1000, "{program}: {insns}");
        // It is read directly, too.
        let output = folder.run(
            BINARY,
            &["report", &files[0], "--as", "counts", "-o", "counts.evp"],
        );
        assert!(output.status.success(), "{output:?}");
        let output = folder.run(BINARY, &["stats", &files[0]]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("instructions"),
            "{text}"
        );
    }
}

#[test]
fn a_killed_program_leaves_a_prefix() {
    kill("regenerated-killed", "trace", 3);
}

#[test]
#[ignore = "wide: two hundred programs are killed, minutes; three are in the gate"]
fn killed_programs_leave_prefixes() {
    kill("regenerated-killed-often", "trace", 100);
    kill("regenerated-killed-values", "trace --memory", 100);
}

/// Kills so many programs that were edited with a tool.
fn kill(name: &str, tool: &str, times: u64) {
    let folder = Folder::new(name);
    folder.program(&["-O1"], "long", LONG);
    let inside = edit(&folder, "long", tool);
    let whole = run(&folder, &inside, "long", &[]);
    assert!(whole.status.success());
    let files = counters(&folder, &inside);
    let told = |file: &str| {
        let output = folder.run(BINARY, &["regenerate", "-q", file, "-o", "run.evp"]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        threads(&folder, "run.evp", &["long"])
            .pop()
            .unwrap_or_default()
    };
    let all = told(&files[0]);
    fs::remove_file(&files[0]).expect("it is there");
    let mut killed = 0;
    for turn in 0..4 * times {
        let mut child = Command::new("./long")
            .current_dir(folder.file(&inside))
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        // It has written so much, or has ended.
        let written = || {
            let files = counters(&folder, &inside);
            let sizes = files.iter().filter_map(|file| fs::metadata(file).ok());
            sizes.map(|file| file.len()).sum::<u64>()
        };
        while written() < 60_000 * (turn * 7 % 17) && child.try_wait().expect("a child").is_none() {
        }
        child.kill().expect("it runs, or has ended");
        let status = child.wait().expect("it ends");
        for file in counters(&folder, &inside) {
            if status.signal().is_some() && !fs::read(&file).expect("a file").is_empty() {
                let own = told(&file);
                assert!(own == all[..own.len()], "turn {turn}");
                killed += u64::from(!own.is_empty());
            }
            fs::remove_file(file).expect("it is there");
        }
        if killed == times {
            break;
        }
    }
    assert!(killed == times, "{killed}");
}

#[test]
fn what_cannot_be_regenerated_is_said() {
    let folder = Folder::new("regenerated-refused");
    folder.program(&["-O1"], "long", &LONG.replace("700000", "300"));
    let says = |file: &str, sentence: &str| {
        let output = folder.run(BINARY, &["regenerate", file, "-o", "run.evp"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains(sentence) && said.lines().count() == 1,
            "{said}"
        );
        assert!(!folder.file("run.evp").exists());
    };
    says("nothing.evp", "there is no such file");
    says("long", "has no witnesses");
    let counted = edit(&folder, "long", "edges");
    assert!(run(&folder, &counted, "long", &[]).status.success());
    says(
        &counters(&folder, &counted)[0],
        "has counters and no witnesses",
    );
    fs::remove_dir_all(folder.file(&counted)).expect("it is there");
    let inside = edit(&folder, "long", "trace");
    assert!(run(&folder, &inside, "long", &[]).status.success());
    let file = counters(&folder, &inside).swap_remove(0);
    let bytes = fs::read(&file).expect("it is there");
    fs::write(folder.file("cut.evp"), &bytes[..20_000]).expect("a file");
    says("cut.evp", "cut off");
    // A token that the plan does not have.
    let mut damaged = bytes;
    let lane = 16384 + 4096 + 64;
    damaged[lane + 40] = 207;
    fs::write(folder.file("damaged.evp"), &damaged).expect("a file");
    let output = folder.run(BINARY, &["regenerate", "damaged.evp", "-o", "run.evp"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("contradicts the plan"), "{said}");
    fs::remove_file(folder.file("run.evp")).expect("what comes before is kept");
    // The edited program is another one.
    fs::write(folder.file(&format!("{inside}/long")), b"").expect("a file");
    says(&file, "is not the edited program");
}

/// Any plan and any witnesses give a trace, or an error.
#[test]
fn damaged_plans_and_witnesses_do_no_harm() {
    damage("regenerated-damaged", "trace");
}

#[test]
fn damaged_values_do_no_harm() {
    damage("regenerated-damaged-values", "trace --memory");
}

fn damage(name: &str, tool: &str) {
    let folder = Folder::new(name);
    folder.program(&["-O2", "-pthread"], "all", PROGRAM);
    // Its code is in the file where it is in memory.
    let original = fs::read(folder.file("all")).expect("a program");
    let inside = edit(&folder, "all", tool);
    assert!(run(&folder, &inside, "all", &[]).status.code().is_some());
    let written = fs::read(&counters(&folder, &inside)[0]).expect("witnesses");
    let edited = fs::read(folder.file(&format!("{inside}/all"))).expect("the edited program");
    let plan = rewrite::plan_of(&edited).expect("a plan").to_vec();
    let whole = File::decode(&plan).expect("a sound plan");
    assert_eq!(whole.encode(), plan);
    // The lane of the first thread: behind the heads of the file, of the chunk, and of the lane.
    let tokens = &written[16384 + 4096 + 64..][..20_000];
    let mut random = 88_172_645_463_325_252u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    let (mut sound, mut decoded) = (0, 0);
    for turn in 0..1000 {
        let (mut plan, mut tokens) = (plan.clone(), tokens.to_vec());
        for _ in 0..turn % 4 {
            let at = below(plan.len());
            plan[at] = [0, 1, 0x7f, 0xff, below(256) as u8][below(5)];
        }
        for _ in 0..below(3) {
            let at = below(4000);
            tokens[at] = [0, 1, 2, 240, 243, 247, below(256) as u8][below(7)];
        }
        plan.truncate(plan.len() - below(8) / 7 * below(plan.len()));
        let Some(file) = File::decode(&plan) else {
            continue;
        };
        decoded += 1;
        let thread = Witnesses {
            tid: 1,
            pointer: 0,
            pieces: vec![Piece {
                stored: &tokens,
                bytes: tokens.len() as u64,
            }],
            is_cut: false,
            frames: Frames::default(),
        };
        let code = |addr: u64| original.get(addr as usize..).map(|code| (code, 0));
        let made = regenerate(
            &Graphs::of(vec![Loaded { file, bias: 0 }]),
            &[thread],
            &code,
        )
        .expect("it can be packed");
        sound += usize::from(made.unsound.is_empty());
    }
    assert!(
        decoded > 250 && sound > 25 && sound < decoded,
        "{decoded} {sound}"
    );
}
