//! Contexts that are made of a trace are those of a live run: the same paths, calls,
//! instructions, branches, loads and stores, of every function, the C library's too.

use std::collections::BTreeMap;

use testkit::folder::{Folder, program};
use trace::{Cost, Label, Process, Recording};

use crate::BINARY;

/// Programs of `tests/programs` that do the same each time, and end activations in odd
/// ways.
const PROGRAMS: [&str; 26] = [
    "code_nx_faults",
    "code_rwx_jit",
    "code_selfmod_same_block",
    "contexts_exceptions",
    "contexts_fork",
    "contexts_fork_raw",
    "contexts_jumps",
    "contexts_leaves",
    "contexts_prog4",
    "contexts_recursion",
    "contexts_signals",
    "contexts_vfork",
    "flow_backtrace_signal",
    "flow_call_site_self",
    "flow_coroutines",
    "flow_exceptions",
    "flow_frame_pointer_moved",
    "flow_longjmp",
    "flow_retpoline",
    "flow_self_jumps",
    "flow_tail_calls",
    "flow_virtual_calls",
    "insn_stack_ops",
    "signal_nested",
    "signal_siglongjmp",
    "stack_switches",
];

const COSTS: [Cost; 4] = [
    Cost::Instructions,
    Cost::Branches,
    Cost::Loads,
    Cost::Stores,
];

/// Calls and costs by path: which slabs, and in each the names from its root.
type Contexts = BTreeMap<Vec<String>, [u64; 5]>;

fn read(folder: &Folder, file: &str) -> Recording {
    trace::read(std::fs::File::open(folder.file(file)).unwrap()).unwrap()
}

fn name(process: &Process, label: Label) -> String {
    let Some(function) = process.function(label) else {
        return label.to_string();
    };
    match (&function.name, process.module_of(function)) {
        (Some(name), _) => name.clone(),
        (None, Some(module)) => format!("{}+{:#x}", module.path, function.file_offset),
        (None, None) => format!("{:#x}", function.pc),
    }
}

fn contexts(recording: &Recording) -> Contexts {
    let mut all = Contexts::new();
    for process in &recording.processes {
        for thread in &process.threads {
            for (at, node) in thread.nodes.iter().enumerate() {
                let mut path = vec![node.top.is_some().to_string()];
                let mut up = Some(at as u32);
                while let Some(here) = up {
                    let node = &thread.nodes[here as usize];
                    path.push(name(process, node.label));
                    up = node.parent;
                }
                let sum = all.entry(path).or_default();
                // Live, that of lazy binding counts what it calls; nothing shows it.
                sum[0] += if node.label == Label::MUTED {
                    0
                } else {
                    node.count
                };
                for (sum, cost) in sum[1..].iter_mut().zip(COSTS) {
                    *sum += thread.costs_of(cost).unwrap()[at];
                }
            }
        }
    }
    all.retain(|_, numbers| *numbers != [0; 5]);
    all
}

/// Runs the program live and traced, with those options; all contexts of both.
fn check(folder: &Folder, options: &[&str], words: &[&str]) -> usize {
    let run = |mode: &[&str], file: &str| {
        let head = [&["-R", BINARY], mode, &["-q", "-o", file, "--"]].concat();
        let output = folder.run("setarch", &[&head[..], words].concat());
        assert_ne!(output.status.code(), Some(125), "{output:?}");
    };
    let costs = ["--cost", "branches,loads,stores"];
    run(&["trace"], "trace.evp");
    run(&[&["contexts"], options, &costs].concat(), "live.evp");
    let make = [
        &["report", "trace.evp", "--as", "contexts", "-o", "made.evp"],
        options,
        &costs,
    ];
    let output = folder.run(BINARY, &make.concat());
    assert!(output.status.success(), "{words:?}: {output:?}");
    let (made, live) = (
        contexts(&read(folder, "made.evp")),
        contexts(&read(folder, "live.evp")),
    );
    let paths = made.keys().chain(live.keys());
    let differ = paths.filter(|path| made.get(*path) != live.get(*path));
    let shown: Vec<_> = differ
        .map(|path| (path, made.get(path), live.get(path)))
        .collect();
    assert!(
        shown.is_empty(),
        "{words:?} {options:?}: {} of {} differ (made, live): {:#?}",
        shown.len(),
        live.len(),
        &shown[..shown.len().min(4)]
    );
    live.len()
}

#[test]
fn contexts_of_a_trace_are_those_of_a_live_run() {
    let folder = Folder::new("made-programs");
    for name in PROGRAMS.into_iter().step_by(2) {
        let words = program(name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check(&folder, &["--k-inf"], &words);
    }
}

#[test]
#[ignore = "wide: each second of them is in the gate"]
fn contexts_of_more_traces_are_those_of_a_live_run() {
    let folder = Folder::new("made-more-programs");
    for name in PROGRAMS.into_iter().skip(1).step_by(2) {
        let words = program(name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check(&folder, &["--k-inf"], &words);
    }
}

#[test]
#[ignore = "wide: the same programs with whole contexts are in the gate"]
fn slabs_of_a_trace_are_those_of_a_live_run() {
    let folder = Folder::new("made-slabs");
    for name in PROGRAMS {
        let words = program(name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // A forked child's slabs begin elsewhere live.
        if !["contexts_fork", "contexts_fork_raw", "contexts_vfork"].contains(&name) {
            check(&folder, &["-k", "2"], &words);
        }
    }
}

/// As the paper's tool, callgrind and gdb count them: each arrival at a function's first
/// instruction. Live and made of a trace.
#[test]
fn jumps_to_the_own_entry_count_where_that_is_asked_for() {
    let folder = Folder::new("made-self-jumps");
    let words = program("flow_self_jumps");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let called = |options: &[&str]| {
        check(&folder, options, &words);
        let recording = read(&folder, "live.evp");
        let process = &recording.processes[0];
        let nodes = process.threads[0].nodes.iter();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for node in nodes.filter(|node| node.top.is_none()) {
            *sums.entry(name(process, node.label)).or_default() += node.count;
        }
        ["down", "tail", "other", "leaf"].map(|function| sums[function])
    };
    let leaves = 3 * 4 + 3;
    assert_eq!(called(&["--k-inf"]), [3, 3, 3, leaves]);
    let options = ["--k-inf", "--count-self-jumps"];
    assert_eq!(called(&options), [3 * 5, 3 * 4, 3, leaves]);
    let options = [&options[..], &["--unroll-recursion"]].concat();
    assert_eq!(called(&options), [3 * 5, 3 * 4, 3, leaves]);
}

#[test]
fn contexts_of_real_programs_are_those_of_live_runs() {
    let folder = Folder::new("made-real");
    let sql = "create table t(a,b); insert into t values(1,'x'),(2,'y'); select sum(a) from t;";
    let sqlite = ["sqlite3", ":memory:", sql];
    assert!(check(&folder, &["--k-inf"], &sqlite) > 5000);
    assert!(check(&folder, &["-k", "3", "--unroll-recursion"], &sqlite) > 2000);
    assert!(check(&folder, &["-k", "10"], &["/usr/bin/gcc", "--version"]) > 300);
}

/// Three functions, whose places depend on how the middle one is built.
const CHANGED: &str = "
    static volatile int n;
    __attribute__((noinline)) void first(void) { n++; }
    __attribute__((noinline)) void second(void) { n += MANY; first(); }
    int main(void) { second(); return n != MANY + 1; }";

/// Without a build id, and but for what the dynamic linker needs without names, only its
/// code says that a file is another one.
#[test]
fn a_binary_that_changed_is_not_used() {
    let folder = Folder::new("made-changed");
    let build = |many: &str| {
        let flags = ["-O1", "-s", "-Wl,--build-id=none", many];
        folder.program(&flags, "prog", CHANGED);
    };
    build("-DMANY=1");
    let run = ["trace", "-q", "-o", "trace.evp", "--", "./prog"];
    assert!(folder.run(BINARY, &run).status.success());
    let said = || {
        let output = folder.run(BINARY, &["report", "trace.evp", "--as", "contexts"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let before = said();
    assert!(before.is_empty(), "{before}");
    // Longer code at the same place, the rest further on.
    build("-DMANY=100000");
    let after = said();
    assert!(
        after.contains("/prog' is not there, or not what was traced"),
        "{after}"
    );
}

#[test]
fn what_a_trace_cannot_give_is_refused() {
    let folder = Folder::new("made-refused");
    let head = [BINARY, "trace", "-q", "-o", "trace.evp", "--", "true"];
    assert!(folder.run(head[0], &head[1..]).status.success());
    let arguments = [
        "report",
        "trace.evp",
        "--as",
        "contexts",
        "--cost",
        "cycles",
    ];
    let error = folder.refused(BINARY, &arguments);
    assert!(error.contains("a trace has no cycles"), "{error}");
}

/// A form that only contexts have, or only counts, needs no `--as`.
#[test]
fn forms_say_what_is_made_of_a_trace() {
    let folder = Folder::new("made-implied");
    folder.program(&["-g"], "prog", "int main(void) { return 0; }");
    let head = [BINARY, "trace", "-q", "-o", "trace.evp", "--", "./prog"];
    assert!(folder.run(head[0], &head[1..]).status.success());
    for (form, what) in [("folded", "contexts"), ("lcov", "counts")] {
        let report = ["report", "trace.evp", "--format", form];
        let implied = folder.run(BINARY, &report);
        let said = folder.run(BINARY, &[&report[..], &["--as", what]].concat());
        assert!(implied.status.success(), "{implied:?}");
        assert_eq!(implied.stdout, said.stdout);
        let note = format!("'trace.evp' is a trace; its {what} are made, as with --as {what}");
        let stderr = String::from_utf8_lossy(&implied.stderr);
        assert!(stderr.contains(&note), "{stderr}");
    }
    // Both have these.
    for form in ["json", "csv"] {
        let error = folder.refused(BINARY, &["report", "trace.evp", "--format", form]);
        assert!(error.contains("with --as"), "{error}");
    }
}
