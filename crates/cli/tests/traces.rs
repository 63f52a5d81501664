//! `everypath trace` as its users see it: the same executions as `everypath count` has, what
//! is left of a program that is killed, and what `dump` and `verify` say.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use analysis::walk::{Event, Pieces, Walk};
use rustix::process::{Pid, Signal, kill_process};
use testkit::folder::Folder;
use trace::{End, Mode, Process, Recording};

const BINARY: &str = env!("CARGO_BIN_EXE_everypath");

/// Everything of a run without address randomisation.
fn record(folder: &Folder, mode: &str, program: &[&str]) -> Recording {
    let head = ["-R", BINARY, mode, "-q", "-o", "run.evp", "--"];
    let arguments = [&head[..], program].concat();
    let output = folder.run("setarch", &arguments);
    assert!(output.status.success(), "{output:?}");
    read(&folder.file("run.evp"))
}

fn read(path: &Path) -> Recording {
    trace::read(std::fs::File::open(path).unwrap()).unwrap()
}

/// Executions by file and offset there, or address.
type Executions = HashMap<(String, u64), u64>;

fn executions(recording: &Recording) -> Executions {
    let mut sums = Executions::new();
    for process in &recording.processes {
        let places = places(process);
        let mut pieces = Pieces::of(process);
        let mut by_step: HashMap<(u32, u64), u64> = HashMap::new();
        for thread in &process.threads {
            let mut walk = Walk::new(&mut pieces, thread);
            while let Some(event) = walk.next() {
                if let Event::Executed(steps) = event.unwrap() {
                    for step in steps {
                        *by_step.entry((step.fragment, step.pc)).or_default() += 1;
                    }
                }
            }
        }
        for (step, count) in by_step {
            let place = places.get(&step).cloned();
            *sums.entry(place.unwrap_or_default()).or_default() += count;
        }
    }
    sums
}

/// Where every byte of code is.
fn places(process: &Process) -> HashMap<(u32, u64), (String, u64)> {
    let mut places = HashMap::new();
    for fragment in &process.fragments {
        for piece in &fragment.pieces {
            let module = piece.module.map(|at| &process.modules[at as usize]);
            let Some(module) = module else { continue };
            for pc in piece.pc..piece.pc + u64::from(piece.len) {
                let place = || (module.path.clone(), pc - module.start + module.offset);
                places.entry((fragment.id, pc)).or_insert_with(place);
            }
        }
    }
    places
}

#[test]
fn a_trace_has_the_executions_that_were_counted() {
    let folder = Folder::new("trace-executions");
    let program = ["/usr/bin/gcc", "--version"];
    let traced = executions(&record(&folder, "trace", &program));
    let counted = record(&folder, "count", &program);
    let counts = analysis::counts::of_recording(&counted).unwrap();
    let mut expected = Executions::new();
    for insn in counts.insns.iter().filter(|insn| insn.count > 0) {
        let path = counts.units[insn.unit as usize].path.clone();
        *expected.entry((path.unwrap(), insn.at)).or_default() += insn.count;
    }
    assert!(expected.values().sum::<u64>() > 500_000);
    let all = traced.keys().chain(expected.keys());
    let differ = all.filter(|place| traced.get(*place) != expected.get(*place));
    let differ: Vec<_> = differ.take(5).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

/// Two processes that compute and sleep, for about a second natively.
const LONG: &str = r#"
static long call(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
static unsigned one(unsigned x) { return x * 3 + 1; }
static unsigned two(unsigned x) { return x % 2 ? x / 3 : x ^ 77; }
static unsigned (*volatile table[2])(unsigned) = {one, two};
static unsigned work(unsigned x) {
    for (int i = 0; i < 3000; i++) {
        x = x * 1664525 + 1013904223;
        x ^= table[x >> 31](x);
        if (x & 64) x++;
    }
    return x;
}
void _start(void) {
    unsigned x = call(57, 0, 0, 0) ? 1 : 2;
    for (int i = 0; i < 250; i++) {
        long pause[2] = {0, 2000000};
        x = work(x);
        call(35, (long)pause, 0, 0);
    }
    call(231, 0, 0, 0);
}
"#;

/// Addresses of all instructions of each thread; how it went on must be known.
fn sequences(recording: &Recording) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let mut sequence = Vec::new();
            let mut walk = Walk::new(&mut pieces, thread);
            while let Some(event) = walk.next() {
                if let Event::Executed(steps) = event.unwrap() {
                    sequence.extend(steps.iter().map(|step| step.pc));
                }
            }
            all.push(sequence);
        }
    }
    all
}

/// The process that `everypath` with this number started, once there is one.
fn child_of(everypath: u32) -> Pid {
    for _ in 0..1000 {
        let children = format!("/proc/{everypath}/task/{everypath}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next() {
            return Pid::from_raw(child.parse().unwrap()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("everypath starts nothing");
}

#[test]
fn what_is_left_of_a_killed_program_is_a_prefix() {
    let folder = Folder::new("trace-killed");
    let flags = ["-O1", "-nostdlib", "-static", "-fno-stack-protector"];
    folder.program(&flags, "long", LONG);
    let whole = record(&folder, "trace", &["./long"]);
    let whole = sequences(&whole);
    assert_eq!(whole.len(), 2);
    let mut lengths = Vec::new();
    for round in 0..12_u64 {
        let mut command = Command::new("setarch");
        command.args([
            "-R",
            BINARY,
            "trace",
            "-q",
            "-o",
            "killed.evp",
            "--",
            "./long",
        ]);
        command.current_dir(folder.path()).stdin(Stdio::null());
        let mut everypath = command.spawn().unwrap();
        let program = child_of(everypath.id());
        std::thread::sleep(Duration::from_micros(5_000 + 37_123 * round));
        kill_process(program, Signal::KILL).unwrap();
        let status = everypath.wait().unwrap();
        assert!(!status.success(), "it ends as the program: {status}");
        let left = read(&folder.file("killed.evp"));
        assert!(matches!(left.meta.end, End::Signaled { signal: 9, .. }));
        for (left, whole) in sequences(&left).iter().zip(&whole) {
            assert!(
                whole.starts_with(left),
                "round {round}: {} instructions",
                left.len()
            );
            lengths.push(left.len());
        }
    }
    // Some were killed while they ran.
    assert!(
        lengths.iter().any(|&length| length > 100_000),
        "{lengths:?}"
    );
}

#[test]
fn dump_and_verify_say_what_was_executed() {
    let folder = Folder::new("trace-dump");
    let flags = ["-O1", "-g", "-static", "-nostdlib", "-fno-stack-protector"];
    folder.program(&flags, "long", &LONG.replace("250", "2"));
    let recording = record(&folder, "trace", &["./long"]);
    assert_eq!(recording.meta.mode, Mode::Trace);
    let number = sequences(&recording)[0].len();
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.starts_with("# process "),
        "{text}"
    );
    let grouped = |n: usize| match n {
        1000.. => format!("{},{:03}", n / 1000, n % 1000),
        _ => n.to_string(),
    };
    assert!(
        text.contains(&format!(": {} instructions", grouped(number))),
        "{text}"
    );
    let output = folder.run(BINARY, &["dump", "run.evp", "--range", "1..3"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" _start+0x0 "), "{text}");
    let numbered = |line: &&str| !line.starts_with('#');
    assert_eq!(text.lines().filter(numbered).count(), 2 * 3, "{text}");
    let output = folder.run(BINARY, &["dump", "run.evp", "--thread", "1"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is no thread 1"), "{error}");
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn a_damaged_trace_says_where() {
    let folder = Folder::new("trace-damaged");
    let flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector"];
    folder.program(&flags, "long", &LONG.replace("250", "2"));
    let mut recording = record(&folder, "trace", &["./long"]);
    // Part of the code is missing.
    let fragments = &mut recording.processes[0].fragments;
    fragments.truncate(fragments.len() / 2);
    let mut bytes = Vec::new();
    trace::write(&recording, &mut bytes).unwrap();
    std::fs::write(folder.file("damaged.evp"), bytes).unwrap();
    let output = folder.run(BINARY, &["verify", "damaged.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("# not sound: the code at 0x"), "{text}");
    assert_eq!(output.status.code(), Some(1));
    let output = folder.run(BINARY, &["report", "run.evp"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("look at it with `everypath dump`"),
        "{error}"
    );
}
