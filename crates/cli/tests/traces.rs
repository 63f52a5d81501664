//! `everypath trace` as its users see it: the same executions as `everypath count` has, files
//! that cannot grow, and what `dump` and `verify` say.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;

use analysis::walk::{Event, Pieces, Walk, segments};
use testkit::folder::{Folder, addresses};
use trace::{End, Missing, Mode, Process, Recording};

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
fn threads_count_as_many_as_the_trace_has() {
    let folder = Folder::new("trace-counters");
    std::fs::write(folder.file("some.c"), "int main(void) { return 0; }\n").unwrap();
    let trace = ["trace", "-q", "--count-instructions", "-o", "run.evp", "--"];
    let program = ["gcc", "-O2", "-pipe", "some.c"];
    let output = folder.run(BINARY, &[&trace[..], &program].concat());
    assert!(output.status.success(), "{output:?}");
    let verify = |status: i32| {
        let output = folder.run(BINARY, &["verify", "run.evp"]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = verify(0);
    // The driver, the compiler, the assembler, collect2 and the linker.
    assert!(
        said.matches("instructions, as many as it counted; ")
            .count()
            >= 5,
        "{said}"
    );
    let mut recording = read(&folder.file("run.evp"));
    recording.processes[0].threads[0].insns += 1;
    trace::write(
        &recording,
        std::fs::File::create(folder.file("run.evp")).unwrap(),
    )
    .unwrap();
    let said = verify(1);
    assert!(said.contains("# not sound: the thread counted "), "{said}");
    let options = [
        "trace",
        "--count-instructions",
        "--ctl",
        "-o",
        "b",
        "--",
        "true",
    ];
    let error = folder.refused(BINARY, &options);
    assert!(error.contains("leave --ctl out"), "{error}");
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

/// Two processes that compute and sleep.
const LONG: &str = r#"
static long call(long n, long a, long b, long c) {
    long r;
    register long r10 __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
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
    long child = call(57, 0, 0, 0);
    unsigned x = child ? 1 : 2;
    for (int i = 0; i < 2; i++) {
        long pause[2] = {0, 2000000};
        x = work(x);
        call(35, (long)pause, 0, 0);
    }
    if (child) call(61, child, 0, 0);
    call(231, 0, 0, 0);
}
"#;

/// Addresses of all instructions of each thread; how it went on must be known.
fn sequences(recording: &Recording) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        let threads = process.threads.iter();
        all.extend(threads.map(|thread| addresses(&mut pieces, thread)));
    }
    all
}

#[test]
fn dump_and_verify_say_what_was_executed() {
    let folder = Folder::new("trace-dump");
    let flags = ["-O1", "-g", "-static", "-nostdlib", "-fno-stack-protector"];
    folder.program(&flags, "long", LONG);
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
    assert!(
        text.contains("ended: exited with status 0 after "),
        "{text}"
    );
    let output = folder.run(BINARY, &["dump", "run.evp", "--range", "1..3"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" _start+0x0 "), "{text}");
    let numbered = |line: &&str| !line.starts_with('#');
    assert_eq!(text.lines().filter(numbered).count(), 2 * 3, "{text}");
    let error = folder.refused(BINARY, &["dump", "run.evp", "--thread", "1"]);
    assert!(error.contains("there is no thread 1"), "{error}");
    // Code of some functions is what the whole text has of them.
    let lines = |options: &[&str]| -> Vec<String> {
        let output = folder.run(BINARY, &[&["dump", "run.evp"], options].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(numbered).map(str::to_owned).collect()
    };
    let of_start: Vec<String> = lines(&[])
        .into_iter()
        .filter(|line| line.contains(" _start+"))
        .collect();
    assert!(of_start.len() > 3);
    assert_eq!(lines(&["--funcs", "none,_sta*"]), of_start);
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let in_order = lines(&["--funcs", "_start", "--order"]);
    assert_eq!(sorted(in_order), sorted(of_start));
    assert_eq!(lines(&["--funcs", "none"]), Vec::<String>::new());
    let error = folder.refused(BINARY, &["dump", "run.evp", "--funcs", ","]);
    assert!(error.contains("--funcs names nothing"), "{error}");
}

#[test]
fn a_damaged_trace_says_where() {
    let folder = Folder::new("trace-damaged");
    let flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector"];
    folder.program(&flags, "long", LONG);
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

/// A program whose trace no compression makes small, with what it says.
fn chatter(folder: &Folder) -> Recording {
    let work = "    for (int i = 0; i < 3000; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        for (unsigned bit = 1; bit < 256; bit *= 2)
            if (x & bit) table[0](bit);
    }
    return x;
}
";
    let (before, after) = LONG.split_once("    for (int i = 0; i < 3000").unwrap();
    let (_, after) = after.split_once("return x;\n}\n").unwrap();
    let text = format!("{before}{work}{after}");
    let text = text.replace("i < 2;", "i < 100;").replace("2000000", "0");
    let text = text.replace(
        "    if (child) call(61",
        "    call(1, 1, (long)\"end\\n\", 4);\n    if (child) call(61",
    );
    let flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector"];
    folder.program(&flags, "chatter", &text);
    record(folder, "trace", &["./chatter"])
}

/// Runs `script` with the product as `$0`: what was said, and the threads that are in
/// `run.evp`, each of which has a prefix of what it has in `whole`.
fn cut_short(folder: &Folder, script: &str, whole: &Recording) -> (String, Recording) {
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"end\nend\n");
    let left = read(&folder.file("run.evp"));
    let wholes = sequences(whole);
    for sequence in sequences(&left) {
        let prefix = wholes.iter().any(|whole| whole.starts_with(&sequence));
        assert!(prefix, "{} instructions", sequence.len());
    }
    (String::from_utf8(output.stderr).unwrap(), left)
}

fn missing(recording: &Recording) -> Vec<Option<Missing>> {
    let threads = recording
        .processes
        .iter()
        .flat_map(|process| &process.threads);
    threads.map(|thread| thread.missing).collect()
}

/// A limit of file sizes is an error of a write: neither the program nor the recorder dies
/// of it, and the file has what fitted, and how all ended.
#[test]
fn a_file_that_cannot_grow_ends_where_it_must() {
    let folder = Folder::new("trace-limited");
    let whole = chatter(&folder);
    let size = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!(size > 600_000, "{size} bytes");
    let script = "ulimit -S -f 1100; exec setarch -R $0 trace -o run.evp -- ./chatter";
    let (said, left) = cut_short(&folder, script, &whole);
    assert!(said.contains("everypath: cannot write '"), "{said}");
    assert!(
        said.contains("/run.evp': file too large; what was recorded before that is in it\n"),
        "{said}"
    );
    assert_eq!(left.meta.end, End::Exited(0));
    assert!(missing(&left).contains(&Some(Missing::Place)));
    let now = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!(now <= 1100 * 512 && now > 100_000, "{now} bytes");
}

/// The program's own files are limited as natively.
#[test]
fn the_program_gets_the_signal_of_its_own_limit() {
    let folder = Folder::new("trace-xfsz");
    let script = "ulimit -f 8192; exec $0 run -q -- dd if=/dev/zero of=large bs=64k count=128";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.signal().or(output.status.code());
    // `timeout`, which runs it here, says the signal as a shell does.
    assert!(matches!(code, Some(25 | 153)), "{output:?}");
    let size = std::fs::metadata(folder.file("large")).unwrap().len();
    assert_eq!(size, 8192 * 512);
}

#[test]
fn a_trace_keeps_no_more_than_its_limit() {
    let folder = Folder::new("trace-limit");
    let whole = chatter(&folder);
    let script = "exec setarch -R $0 trace --limit 150K -o run.evp -- ./chatter";
    let (said, left) = cut_short(&folder, script, &whole);
    assert_eq!(
        said,
        "everypath: the trace ends where --limit was reached\n"
    );
    assert!(missing(&left).contains(&Some(Missing::Limit)));
    let size = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!((50_000..160_000).contains(&size), "{size} bytes");
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("; more is not kept: the limit of the trace was reached\n"));
    for size in ["0", "12Q", "x"] {
        let arguments = ["trace", "--limit", size, "-o", "x.evp", "--", "./chatter"];
        let output = folder.run(BINARY, &arguments);
        assert_eq!(output.status.code(), Some(125));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("give a size as 500K, 20M or 2G"), "{error}");
    }
}

/// What is kept is the end of what each thread executes, from a keyframe on; chaos has many.
#[test]
fn a_ring_keeps_the_newest() {
    let folder = Folder::new("trace-ring");
    let whole = sequences(&chatter(&folder));
    // Somebody with the same number was killed, and left what is in the way.
    let script = ": > run.evp.$$; \
                  exec setarch -R $0 trace --chaos 3 --ring 150K -o run.evp -- ./chatter";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let left = read(&folder.file("run.evp"));
    let threads = || left.processes.iter().flat_map(|process| &process.threads);
    assert!(threads().any(|thread| thread.gap.is_some()));
    let mut longest = 0;
    for (sequence, thread) in sequences(&left).iter().zip(threads()) {
        let is_end = |whole: &&Vec<u64>| whole.ends_with(sequence);
        assert!(
            whole.iter().any(|whole| is_end(&whole)),
            "{}",
            sequence.len()
        );
        if thread.gap.is_some() {
            longest = longest.max(sequence.len());
        }
    }
    assert!(longest > 10_000, "{longest}");
    let size = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!((50_000..160_000).contains(&size), "{size} bytes");
    let files = std::fs::read_dir(folder.file(".")).unwrap().count();
    assert_eq!(
        files, 4,
        "the program, its source, the trace, what was left"
    );
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\n# its beginning, "), "{text}");
    let arguments = [
        "trace",
        "--ring",
        "1M",
        "-o",
        "/dev/null",
        "--",
        "./chatter",
    ];
    let output = folder.run(BINARY, &arguments);
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    let refused = "--ring needs a file, and '/dev/null' is none; nothing was run";
    assert!(said.contains(refused), "{said}");
}

/// Counted or not, the same instructions have the same numbers.
#[test]
fn an_index_changes_no_number() {
    let folder = Folder::new("trace-index");
    chatter(&folder);
    let arguments = ["trace", "--chaos", "3", "-o", "run.evp", "--", "./chatter"];
    assert!(folder.run(BINARY, &arguments).status.success());
    let dumped = || {
        let ranges = ["1..3", "50000..50020", "100000..100100", "9999999.."];
        ranges.map(|range| {
            folder
                .run(BINARY, &["dump", "run.evp", "--range", range])
                .stdout
        })
    };
    let before = dumped();
    let keyframes = |recording: &Recording, counted: bool| {
        let processes = recording.processes.iter();
        let threads = processes.flat_map(|process| &process.threads);
        let keyframes = threads.flat_map(|thread| &thread.keyframes);
        keyframes
            .filter(|keyframe| keyframe.insns.is_some() == counted)
            .count()
    };
    let recording = read(&folder.file("run.evp"));
    let number = keyframes(&recording, false);
    assert!(number > 10, "{number}");
    let output = folder.run(BINARY, &["index", "run.evp"]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let counted = read(&folder.file("run.evp"));
    assert_eq!(keyframes(&counted, true), number);
    assert_eq!(sequences(&counted), sequences(&recording));
    assert!(dumped() == before);
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    assert!(output.status.success(), "{output:?}");
    let all = std::fs::read(folder.file("run.evp")).unwrap();
    std::fs::write(folder.file("run.evp"), &all[..all.len() - 5]).unwrap();
    let output = folder.run(BINARY, &["index", "run.evp"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
}

/// A program with a long loop, whose thread has many keyframes in chaos, and a trace of it.
fn looping(folder: &Folder) -> Recording {
    let text = "int main(void) {
        volatile unsigned x = 1;
        for (unsigned i = 0; i < 100000; i++) {
            x ^= x << 13;
            if (x & 1) x += i;
            x ^= x >> 7;
            if (x & 8) x ^= 3;
        }
    }";
    folder.program(&["-O1", "-static"], "looping", text);
    let arguments = ["trace", "--chaos", "3", "-o", "run.evp", "--", "./looping"];
    assert!(folder.run(BINARY, &arguments).status.success());
    read(&folder.file("run.evp"))
}

/// Numbers and addresses that `dump` shows of some instructions, and what it says besides.
fn dumped(folder: &Folder, trace: &str, from: usize) -> (Vec<(usize, u64)>, String) {
    let range = format!("{from}..{}", from + 19);
    let output = folder.run(BINARY, &["dump", trace, "--range", &range]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next().unwrap().parse().unwrap();
        let address = u64::from_str_radix(words.next().unwrap(), 16);
        (number, address.unwrap())
    });
    (words.collect(), String::from_utf8(output.stderr).unwrap())
}

/// What `dump` says that has counted much.
fn says_kept(said: &str) -> bool {
    said.starts_with("everypath: what was counted is kept in '")
        && said.ends_with(".evp.idx', for next time\n")
}

/// The instructions from number `from` on, by a walk of all.
fn executed_from(recording: &Recording, from: usize) -> Vec<(usize, u64)> {
    let [all] = &sequences(recording)[..] else {
        panic!("one thread");
    };
    (from..from + 20)
        .zip(all[from - 1..].iter().copied())
        .collect()
}

/// Who waited for a count once has it afterwards, whatever becomes of the file that has it.
#[test]
fn what_was_counted_is_kept_beside_the_trace() {
    let folder = Folder::new("trace-counted");
    let recording = looping(&folder);
    let truth = |from| executed_from(&recording, from);
    let index = folder.file("run.evp.idx");
    assert!(dumped(&folder, "run.evp", 1) == (truth(1), String::new()));
    assert!(!index.exists());
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == truth(1_500_000) && says_kept(&said), "{said}");
    let counted = std::fs::read(&index).unwrap();
    for from in [1_500_000, 1_000_000, 1, 20_000, 1_499_000] {
        let same = (truth(from), String::new());
        assert!(dumped(&folder, "run.evp", from) == same, "{from}");
    }
    assert!(std::fs::read(&index).unwrap() == counted);
    for damage in 0..3 {
        let mut bytes = counted.clone();
        match damage {
            0 => bytes.truncate(counted.len() / 2),
            1 => bytes[counted.len() / 2] ^= 4,
            _ => bytes.clear(),
        }
        std::fs::write(&index, bytes).unwrap();
        let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
        assert!(lines == truth(1_500_000) && says_kept(&said), "{damage}");
        assert!(std::fs::read(&index).unwrap() == counted);
    }
    // Numbers that are wrong are believed: it is really used.
    let file = std::fs::File::open(folder.file("run.evp")).unwrap();
    let mut prefix = trace::read_prefix(file).unwrap();
    let used = trace::read_index(&mut prefix.recording, prefix.identity, &counted[..]);
    assert!(used.unwrap());
    let thread = &mut prefix.recording.processes[0].threads[0];
    let known = thread.keyframes.iter_mut();
    for insns in known.filter_map(|keyframe| keyframe.insns.as_mut()) {
        *insns += 1;
    }
    let mut wrong = Vec::new();
    trace::write_index(&prefix.recording, prefix.identity, &mut wrong).unwrap();
    std::fs::write(&index, &wrong).unwrap();
    assert!(dumped(&folder, "run.evp", 1_500_000).0 != truth(1_500_000));
    // But not those of another trace.
    let again = looping(&folder);
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == executed_from(&again, 1_500_000) && says_kept(&said));
    assert!(std::fs::read(&index).unwrap() != wrong);
}

/// Many instructions are skipped in another way than the last of them, and signals in between
/// change no number.
#[test]
fn tracing_begins_exactly_where_it_is_far() {
    let folder = Folder::new("trace-far");
    let text = "#define _GNU_SOURCE
#include <signal.h>
#include <ucontext.h>
static volatile int faults;
static void handler(int signal, siginfo_t *information, void *context) {
    faults++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    volatile unsigned x = 1;
    for (unsigned i = 0; i < 100000; i++) {
        x = x * 3 + i;
        if (x & 4) x ^= 9;
        if (i < 2000) __asm__ volatile(\"mov (%0), %%eax\" ::\"r\"(0L) : \"eax\");
        x ^= x >> 3;
        if (x & 1) x += faults;
    }
}";
    folder.program(&["-O1", "-static"], "far", text);
    let trace = |options: &[&str]| {
        let head = ["-R", BINARY, "trace", "-q", "-o", "run.evp"];
        let arguments = [&head[..], options, &["--", "./far"]].concat();
        let output = folder.run("setarch", &arguments);
        assert!(output.status.success(), "{output:?}");
        sequences(&read(&folder.file("run.evp"))).remove(0)
    };
    let all = trace(&[]);
    assert!(all.len() > 1_500_000, "{}", all.len());
    for from in [16_383, 16_384, 20_001, 77_777, 500_000, 1_499_999] {
        let skip = from.to_string();
        for chaos in [&[][..], &["--chaos", "3"]] {
            let options = [&["--skip", &skip, "--count", "3000"], chaos].concat();
            assert!(trace(&options) == all[from..from + 3000], "{options:?}");
        }
    }
    assert_eq!(trace(&["--skip", "100000000000"]), [0; 0]);
}

/// Where it cannot be kept, or something else is there, all is shown nevertheless.
#[test]
fn what_cannot_be_kept_is_counted_again() {
    let folder = Folder::new("trace-not-kept");
    let truth = executed_from(&looping(&folder), 1_500_000);
    let index = folder.file("run.evp.idx");
    let another = |said: &str| said.ends_with("is another file, so what was counted is not kept\n");
    std::fs::write(&index, "notes of mine").unwrap();
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == truth && another(&said), "{said}");
    assert_eq!(std::fs::read(&index).unwrap(), b"notes of mine");
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == truth && another(&said), "{said}");
    std::fs::remove_dir(&index).unwrap();
    // A pipe has nothing beside it.
    let script = "cat run.evp | $0 dump /dev/stdin --range 1500000..1500000";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("\n     1500000  {:x} ", truth[0].1)));
    // A disk that is full, or as here a limit.
    let script = "trap '' XFSZ; ulimit -f 0; exec $0 dump run.evp --range 1500000..1500019 | cat";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    let said = String::from_utf8(output.stderr).unwrap();
    let failed = "everypath: what was counted is not kept in '";
    assert!(
        output.status.success() && said.starts_with(failed),
        "{said}"
    );
    assert_eq!(
        output.stdout.iter().filter(|&&byte| byte == b'\n').count(),
        22
    );
    let names = std::fs::read_dir(folder.file(".")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["looping", "looping.c", "run.evp"]);
}

/// A file that is cut is read up to the cut, and `verify` says so and how far.
#[test]
fn a_trace_that_was_not_finished_is_read() {
    let folder = Folder::new("trace-unfinished");
    let flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector"];
    folder.program(&flags, "long", LONG);
    record(&folder, "trace", &["./long"]);
    let bytes = std::fs::read(folder.file("run.evp")).unwrap();
    std::fs::write(folder.file("cut.evp"), &bytes[..bytes.len() - 5]).unwrap();
    let output = folder.run(BINARY, &["verify", "cut.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("\nnot finished: what is last was recorded after "),
        "{text}"
    );
    assert!(
        error.contains("'cut.evp': The recording was not finished"),
        "{error}"
    );
    assert!(
        error.contains(" are the beginning of a chunk and not read."),
        "{error}"
    );
}

/// Fills chunks of two or three lanes all the time, those of the others never.
const LOOP: &str = "\
#include <unistd.h>
int main(void)
{
    alarm(4);
    for (unsigned x = 1;; x ^= x << 13, x ^= x >> 17, x ^= x << 5)
        if (x & 0x10000)
            __asm__ volatile(\"nop\");
}
";

/// Whoever is killed, what came before is in the file, also of lanes that are hardly written.
#[test]
fn a_killed_recorder_has_written_all_lanes() {
    let folder = Folder::new("trace-lanes");
    folder.program(&["-O1"], "loop", LOOP);
    let script = "$0 trace -o run.evp -- ./loop & sleep 2; kill -9 $!; wait";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(output.status.success(), "{output:?}");
    let left = std::fs::File::open(folder.file("run.evp")).unwrap();
    let left = trace::read_prefix(left).unwrap().recording;
    let process = &left.processes[0];
    let mut pieces = Pieces::of(process);
    let walk = Walk::new(&mut pieces, &process.threads[0]);
    let (insns, _) = segments::count(walk);
    assert!(insns > 1_000_000, "{insns} instructions");
}

/// A device that takes nothing is refused before the run.
#[test]
fn a_place_that_is_full_is_refused() {
    let folder = Folder::new("trace-full");
    let output = folder.run(
        BINARY,
        &["trace", "-o", "/dev/full", "--", "/bin/echo", "x"],
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(
        error.ends_with(": no space left on device; nothing was run\n"),
        "{error}"
    );
}

#[test]
fn a_packed_trace_is_smaller_and_the_same() {
    let folder = Folder::new("trace-pack");
    let program = ["/usr/bin/python3", "-c", "print(sum(range(300000)))"];
    record(&folder, "trace", &program);
    let output = folder.run(BINARY, &["pack", "run.evp", "-o", "small.evp"]);
    assert!(output.status.success(), "{output:?}");
    let size = |name| std::fs::metadata(folder.file(name)).unwrap().len();
    assert!(size("small.evp") * 4 < size("run.evp") * 3);
    let range = "--range=2000000..2010000";
    let shown = |name| folder.run(BINARY, &["dump", name, range]).stdout;
    assert!(shown("small.evp").len() > 100_000);
    assert_eq!(shown("small.evp"), shown("run.evp"));
    let stats = |name| folder.run(BINARY, &["stats", name]).stdout;
    assert_eq!(stats("small.evp"), stats("run.evp"));
    let verified = folder.run(BINARY, &["verify", "small.evp"]);
    assert!(verified.status.success(), "{verified:?}");
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(said.contains("packed"), "{said}");
    let refusals = [
        (
            &["pack", "small.evp", "-o", "again.evp"][..],
            "'small.evp' is packed already",
        ),
        (&["pack", "run.evp", "-o", "/nowhere/x.evp"], "cannot write"),
    ];
    for (arguments, sentence) in refusals {
        let output = folder.run(BINARY, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(sentence), "{said}");
        assert_eq!(output.status.code(), Some(125));
    }
    assert!(!folder.file("again.evp").exists());
}

/// A part of a trace can be read by all that need no calls, and is refused by the others.
#[test]
fn a_trace_of_some_code_says_where_it_is_missing() {
    let folder = Folder::new("trace-parts");
    let script = "print(sum(map(len, map(str, range(20000)))))";
    let trace = |options: &[&str]| {
        let head = ["-R", BINARY, "trace", "-q", "-o", "run.evp"];
        let program = ["--", "/usr/bin/python3", "-c", script];
        let output = folder.run("setarch", &[&head[..], options, &program].concat());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"88890\n");
        let verified = folder.run(BINARY, &["verify", "run.evp"]);
        assert!(verified.status.success(), "{verified:?}");
        sequences(&read(&folder.file("run.evp"))).concat().len()
    };
    let all = trace(&[]);
    let own = trace(&["--no-shared-libs"]);
    let shown = folder.run(BINARY, &["dump", "run.evp", "--range", "1..2000"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("# other code, not traced, then at "),
        "{shown}"
    );
    for words in [&["stats", "run.evp"][..], &["raptor", "run.evp"]] {
        assert!(folder.run(BINARY, words).status.success(), "{words:?}");
    }
    let refused = folder.run(BINARY, &["report", "run.evp", "--as", "contexts"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(125));
    let sentence = "'run.evp' was traced with --no-shared-libs, so calls and returns are missing";
    assert!(said.contains(sentence), "{said}");
    let libraries = trace(&["--modules", "*.so*,\\[vdso\\]"]);
    assert!(own > 0 && libraries > 0);
    assert!(
        all.abs_diff(own + libraries) * 100 < all,
        "{all} {own} {libraries}"
    );
    assert_eq!(trace(&["--modules", "nothing-has-this-name"]), 0);
    let from = trace(&["--start-func", "PyObject_Str:10000"]);
    let to = trace(&["--stop-func", "PyObject_Str:10000"]);
    assert!(from > 0 && to > 0);
    assert!(all.abs_diff(from + to) * 100 < all, "{all} {from} {to}");
}

/// Options that leave nothing of the program are told, and what was asked for is not.
#[test]
fn a_trace_without_instructions_is_told() {
    let folder = Folder::new("trace-nothing");
    let said = |words: &[&str]| {
        let words = [
            &["trace", "-o", "run.evp"],
            words,
            &["--", "sqlite3", ":memory:", "select 1"],
        ];
        let output = folder.run(BINARY, &words.concat());
        assert!(
            output.status.success() && output.stdout == b"1\n",
            "{output:?}"
        );
        String::from_utf8_lossy(&output.stderr).contains("nothing was traced")
    };
    assert!(said(&["--modules", "nothing-has-this-name"]));
    assert!(said(&["--skip", "1000000000"]));
    assert!(said(&["--start-func", "malloc:1000000000"]));
    assert!(!said(&["-q", "--skip", "1000000000"]));
    assert!(!said(&["--count", "1"]));
    assert!(!said(&[]));
}
