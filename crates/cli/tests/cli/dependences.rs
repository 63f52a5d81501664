//! `loops --dependences`: each dependence is that of a slow model, which knows all accesses to each byte; and known kernels have theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;
use crate::followed::{Loop, hex, list};

/// Kernels without calls: a matrix product in memory, a stencil in place, a wave, a running sum, a shift, a sum by steps of three, a
/// matrix that is transposed in place, indices in a table, bytes that overlap words, a loop that writes one place, and a
/// pointer that moves in the register of frames.
const SOURCE: &str = r#"
#define NO __attribute__((noinline, noclone))
#define N 8
static volatile double a[N][N], b[N][N], c[N][N];
static volatile long line[64], last;
static volatile int order[64];
static union { volatile char bytes[64]; volatile int words[16]; } both;
NO void product(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) c[i][j] += a[i][k] * b[k][j];
}
NO void stencil(void) { for (int i = 1; i < N - 1; i++) for (int j = 1; j < N - 1; j++) a[i][j] = a[i - 1][j] + a[i][j - 1] + a[i + 1][j] + a[i][j + 1]; }
NO void wave(void) { for (int i = 1; i < N; i++) for (int j = 0; j < N - 1; j++) b[i][j] = b[i - 1][j + 1] + 1; }
NO void running(void) { for (int i = 1; i < 50; i++) line[i] = line[i - 1] + 1; }
NO void shift(void) { for (int i = 0; i < 50; i++) line[i] = line[i + 1]; }
NO void third(void) { for (int i = 3; i < 50; i++) line[i] = line[i - 3] + 1; }
NO void transposed(void) { for (int i = 0; i < N; i++) for (int j = 0; j < i; j++) { double x = a[i][j]; a[i][j] = a[j][i]; a[j][i] = x; } }
NO void scatter(void) { for (int i = 0; i < 60; i++) line[order[i]] += i; }
NO void mixed(void) { for (int i = 0; i < 60; i++) { both.bytes[i] = i; both.words[i / 5] += 1; } }
NO void final(void) { for (int i = 0; i < 20; i++) last = i; }
NO void walk(int n) { register volatile long *p __asm__("rbp") = line; for (int i = 0; i < n; i++) __asm__ volatile("mov (%0), %%rax; mov %%rax, 8(%0); add $8, %0" : "+r"(p) : : "rax", "memory"); }
NO void copy(void) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) c[i][j] = a[j][i]; }
int main(void) {
    for (int i = 0; i < 64; i++) order[i] = i * 37 % 16;
    product(); stencil(); wave(); running(); shift(); third(); transposed(); scatter(); mixed(); final(); walk(20); walk(1); copy();
    product();
    return 0;
}
"#;

/// An access of an instruction: address, bytes, whether it reads and writes.
type Access = (u64, u64, bool, bool);

/// Instructions with their accesses, as `dump` shows them.
fn dumped(text: &str) -> Vec<(u64, Vec<Access>)> {
    let mut trace: Vec<(u64, Vec<Access>)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [kind @ ("R" | "W" | "U" | "RW"), size, address] => {
                let address = u64::from_str_radix(address, 16).expect("an address");
                let size = size.parse().expect("bytes");
                let access = (address, size, kind != "W", kind != "R");
                trace.last_mut().expect("an instruction").1.push(access);
            }
            [_, at, ..] => {
                trace.extend(u64::from_str_radix(at, 16).ok().map(|at| (at, Vec::new())))
            }
            _ => {}
        }
    }
    trace
}

/// An access with its loops and the numbers of their iterations.
#[derive(Clone, PartialEq)]
struct Event {
    at: u64,
    path: Vec<(usize, i64)>,
    reads: bool,
    writes: bool,
}

/// Kind, source and sink.
type Key = (String, u64, u64);
/// Distances and how often each came.
type Distances = BTreeMap<Vec<(i64, i64)>, u64>;

/// A dependence of one access: its distance, and the iterations of its source.
type One = (Key, Vec<(i64, i64)>, Vec<(i64, i64)>);

/// Dependences of a nest by the slow model.
fn modelled(nest: &[Loop], trace: &[(u64, Vec<Access>)]) -> BTreeMap<Key, Distances> {
    let mut all: BTreeMap<Key, Distances> = BTreeMap::new();
    let mut history: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    let mut path: Vec<(usize, i64)> = Vec::new();
    for (at, accesses) in trace {
        while path.last().is_some_and(|(inner, _)| !nest[*inner].has(*at)) {
            path.pop();
        }
        if path.is_empty() {
            history.clear();
        }
        let top = path.last().map(|(inner, _)| *inner);
        if top.is_some_and(|top| nest[top].header == *at) {
            path.last_mut().expect("it is there").1 += 1;
        } else if let Some(new) =
            (0..nest.len()).find(|new| nest[*new].header == *at && nest[*new].parent == top)
        {
            path.push((new, 0));
        }
        if path.is_empty() {
            continue;
        }
        for (address, bytes, reads, writes) in accesses {
            let now = Event {
                at: *at,
                path: path.clone(),
                reads: *reads,
                writes: *writes,
            };
            let mut found: BTreeSet<One> = BTreeSet::new();
            for byte in *address..*address + *bytes {
                let own = history.entry(byte).or_default();
                depends(own, &now, &mut found);
                own.push(now.clone());
            }
            for (key, distance, _) in found {
                *all.entry(key).or_default().entry(distance).or_default() += 1;
            }
        }
    }
    all
}

/// Dependences of an access to a byte on those before it, with the numbers of iterations of their sources.
fn depends(before: &[Event], now: &Event, found: &mut BTreeSet<One>) {
    let mut give = |kind: &str, sources: &[&Event]| {
        let source = sources[0];
        let both = source.path.iter().zip(&now.path);
        let common = both
            .take_while(|((one, _), (other, _))| one == other)
            .count();
        let range = |at: usize| {
            let numbers = sources.iter().map(|one| one.path[at].1);
            (numbers.clone().min().unwrap(), numbers.max().unwrap())
        };
        let ranges: Vec<(i64, i64)> = (0..source.path.len()).map(range).collect();
        let distance = (0..common).map(|at| {
            let (low, high) = ranges[at];
            (now.path[at].1 - high, now.path[at].1 - low)
        });
        let key = (kind.to_owned(), source.at, now.at);
        found.insert((key, distance.collect(), ranges.clone()));
    };
    let last = before.iter().rposition(|one| one.writes);
    if let (true, Some(last)) = (now.reads, last) {
        give("RAW", &[&before[last]]);
    }
    if now.writes {
        let since = &before[last.map_or(0, |last| last + 1)..];
        // A read and write by one instruction is a read of the value before.
        let mut readers: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
        for one in since.iter().filter(|one| one.reads) {
            readers.entry(one.at).or_default().push(one);
        }
        for sources in readers.values() {
            give("WAR", sources);
        }
        if let Some(last) = last {
            give("WAW", &[&before[last]]);
        }
    }
}

fn shown(folder: &Folder, words: &[&str]) -> Value {
    let words = [&["loops", "--format", "json", "-o", "out"], words].concat();
    let output = folder.run(BINARY, &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&fs::read(folder.file("out")).expect("it was written")).expect("JSON")
}

#[test]
fn each_dependence_is_that_of_all_accesses() {
    let folder = Folder::new("dependences");
    folder.program(
        &["-O1", "-g", "-no-pie", "-fno-unroll-loops"],
        "program",
        SOURCE,
    );
    let listed = shown(&folder, &["--list", "./program"]);
    let trace = [
        "trace",
        "--memory",
        "addresses",
        "-q",
        "-o",
        "run.evp",
        "--",
        "./program",
    ];
    assert_eq!(folder.run(BINARY, &trace).status.code(), Some(0));
    let found = shown(&folder, &["--dependences", "run.evp"]);
    assert_eq!(found["whole"], true);
    let output = folder.run(BINARY, &["dump", "run.evp", "--accesses"]);
    let trace = dumped(&String::from_utf8(output.stdout).expect("text"));
    let mut compared = 0;
    for (nest, own) in list(&listed["nests"]).iter().zip(list(&found["nests"])) {
        let name = nest["loops"][0]["name"].as_str().expect("a name");
        assert_eq!(own["loops"][0]["name"], name);
        let expected = modelled(&Loop::of(nest), &trace);
        let mut all: BTreeMap<Key, Distances> = BTreeMap::new();
        for one in list(&own["dependences"]) {
            assert_eq!(one["more"], false, "{name}: {one}");
            let kind = one["kind"].as_str().expect("a kind").to_owned();
            let key = (
                kind,
                hex(&one["source"]["address"]),
                hex(&one["sink"]["address"]),
            );
            for distance in list(&one["distances"]) {
                let ranges = serde_json::from_value(distance["ranges"].clone()).expect("ranges");
                let count = distance["count"].as_u64().expect("a count");
                assert!(
                    all.entry(key.clone())
                        .or_default()
                        .insert(ranges, count)
                        .is_none()
                );
            }
        }
        assert_eq!(all, expected, "{name}");
        compared += all.len();
    }
    assert!(compared >= 20, "{compared}");
    assert_known(&found);
}

/// Compares what is known of the kernels: how many dependences each loop carries, and what their transformations forbids.
fn assert_known(found: &Value) {
    let nest = |function: &str| {
        let name = format!("{function}:1");
        let mut nests = list(&found["nests"]).iter();
        nests
            .find(|nest| nest["loops"][0]["name"] == *name)
            .expect("it is there")
    };
    let carried = |function: &str| {
        let loops = list(&nest(function)["loops"]).iter();
        let of = |one: &Value| {
            let own = |class: &str| one["carries"][class].as_u64().expect("a number");
            (own("ordinary"), own("update"))
        };
        loops.map(of).collect::<Vec<_>>()
    };
    // Each element is a sum in memory, which k alone carries.
    assert_eq!(carried("product"), [(0, 0), (0, 0), (0, 2)]);
    assert_eq!(carried("copy"), [(0, 0), (0, 0)]);
    assert_eq!(carried("transposed"), [(0, 0), (0, 0)]);
    assert_eq!(carried("running"), [(1, 0)]);
    assert_eq!(carried("shift"), [(1, 0)]);
    assert_eq!(carried("wave"), [(1, 0), (0, 0)]);
    assert_eq!(carried("final"), [(1, 0)]);
    // The pointer is in rbp, and has one value alone in the last entry: it is no place on the stack for that.
    assert_eq!(carried("walk"), [(1, 0)]);
    let stencil = carried("stencil");
    assert!(
        stencil.iter().all(|(ordinary, _)| *ordinary >= 2),
        "{stencil:?}"
    );
    let forbidden = |function: &str| {
        let all = list(&nest(function)["transformations"]).iter();
        all.map(|one| {
            let what = one["what"]
                .as_str()
                .expect("a text")
                .split(' ')
                .next()
                .expect("a word");
            (what.to_owned(), !one["forbidden_by"].is_null())
        })
        .collect::<Vec<_>>()
    };
    let both = |interchange, tiles| {
        [
            ("interchange".to_owned(), interchange),
            ("tiles".to_owned(), tiles),
        ]
    };
    assert_eq!(forbidden("wave"), both(true, true));
    assert_eq!(forbidden("stencil"), both(false, false));
    assert_eq!(forbidden("copy"), both(false, false));
    let third = list(&nest("third")["dependences"]);
    let distances: Vec<&Value> = third
        .iter()
        .map(|one| &one["distances"][0]["ranges"])
        .collect();
    assert_eq!(distances, [&serde_json::json!([[3, 3]])]);
}

#[test]
fn traces_without_addresses_are_refused() {
    let folder = Folder::new("no-dependences");
    folder.program(&["-O1"], "program", "int main(void) { return 0; }");
    let run = folder.run(BINARY, &["trace", "-q", "-o", "run.evp", "--", "./program"]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let said = folder.refused(BINARY, &["loops", "--dependences", "run.evp"]);
    assert!(
        said.contains("has no memory accesses") && said.contains("--memory addresses"),
        "{said}"
    );
    let words = [
        "trace",
        "--memory",
        "addresses",
        "--loads",
        "-q",
        "-o",
        "loads.evp",
        "--",
        "./program",
    ];
    let run = folder.run(BINARY, &words);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let said = folder.refused(BINARY, &["loops", "--dependences", "loads.evp"]);
    assert!(said.contains("nests need both"), "{said}");
    let said = folder.refused(
        BINARY,
        &["loops", "--dependences", "run.evp", "--list", "program"],
    );
    assert!(said.contains("--list"), "{said}");
}

/// Which loops carry dependences, and what could be interchanged and tiled, is what isl computes from the source's domains and accesses.
#[test]
#[ignore = "wide: it installs islpy; known kernels and a slow model are in the gate"]
fn legality_is_that_of_isl() {
    let folder = Folder::new("legality");
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(words[0]);
        let output = command
            .args(&words[1..])
            .current_dir(folder.path())
            .output();
        let output = output.expect("python3 and python3-venv are installed");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["/usr/bin/python3", "-m", "venv", "venv"]);
    let options = "install --quiet --disable-pip-version-check islpy==2026.2.2";
    let options: Vec<&str> = options.split(' ').collect();
    run(&[&["venv/bin/pip"], &options[..]].concat());
    let script = testkit::program::repository().join("tests/tools/compare_legality.py");
    let script = script.display().to_string();
    let said = run(&["venv/bin/python", &script, BINARY]);
    assert!(
        said.contains("17 kernels, 80 facts compared, 28 transformations legal; 0 kernels differ"),
        "{said}"
    );
}
