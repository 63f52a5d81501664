//! The module for Python, built and used by `python3`: what it counts is what `verify`,
//! `stats` and `dump` say of the same recording.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

const EXAMPLE: &str = include_str!("../../../python/examples/calls.py");
const DOCUMENT: &str = include_str!("../../../../docs/formats/python.md");

/// All events of all threads by kind, three ways.
const COUNT: &str = r#"
import array, collections, everypath, json
trace = everypath.open("run.evp")
kinds, tables, last, taken, instructions = collections.Counter(), collections.Counter(), 0, 0, 0
for thread in trace.threads:
    instructions += thread.count()
    for event in thread.events():
        kinds[event.kind] += 1
        taken += event.taken or 0
    for table in thread.tables():
        tables.update(everypath.KINDS[kind] for kind in table.kind)
        assert len(table) == len(table.pc) == len(array.array("Q", table.number))
        assert all(table.target[at] for at in range(len(table)) if 1 <= table.kind[at] <= 6)
    last += table.number[-1]
    asked = sum(len(table) for table in thread.tables("return", "syscall"))
    assert asked == sum(1 for event in thread.events("return", "syscall"))
    assert all(event.kind == "syscall" for event in thread.events("syscall"))
assert kinds == tables and last == instructions, (kinds, tables, last, instructions)
assert trace.lost is None and trace.command and trace.processes[0].modules
print(json.dumps({**kinds, "taken": taken, "instructions": instructions}))
"#;

/// Mistakes, and the exception that each raises.
const WRONG: &str = r#"
import everypath, signal, threading
def said(kind, what):
    try:
        what()
    except kind as error:
        print(error)
    else:
        print("nothing")
said(everypath.Error, lambda: everypath.open("not-there.evp"))
said(everypath.Error, lambda: everypath.open("counts.evp"))
said(ValueError, lambda: everypath.open("run.evp").threads[0].events("noise"))
cut = everypath.open("cut.evp")
print(cut.lost)
damaged = everypath.open("damaged.evp").threads[0]
numbers = []
said(everypath.Error, lambda: numbers.extend(event.number for event in damaged.events()))
said(everypath.Error, damaged.count)
print(len(numbers) > 10)
# Whoever stops early leaves nothing behind that keeps the program from ending.
next(everypath.open("run.evp").threads[0].events())
"#;

/// With the module, as it is installed by hand.
fn folder(name: &str) -> Folder {
    let mut build = Command::new(env!("CARGO"));
    // Only cargo of a nightly version has it, and it would build everything anew.
    build.env_remove("RUSTC_BOOTSTRAP");
    // As the gate builds it: by itself the module has other features of the crates below, and all of them are built again.
    build.args([
        "build",
        "--locked",
        "--quiet",
        "--workspace",
        "--all-targets",
    ]);
    let output = build.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let beside = PathBuf::from(BINARY).parent().unwrap().to_owned();
    let folder = Folder::new(name);
    let built = beside.join("libeverypath.so");
    std::fs::copy(built, folder.file("everypath.abi3.so")).unwrap();
    folder
}

fn python(folder: &Folder, script: &str) -> String {
    std::fs::write(folder.file("script.py"), script).unwrap();
    let output = folder.run("python3", &["script.py", "run.evp"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Accesses as `dump` shows them, from the beginning and from a later instruction, and the columns of
/// the same.
const ACCESSES: &str = r#"
import array, everypath
trace = everypath.open("run.evp")
def text(value, size):
    if value is None: return "?"
    return value.hex() if isinstance(value, bytes) else f"{value:0{2 * size}x}"
for thread in trace.threads:
    accesses = list(thread.accesses())
    for a in accesses:
        values = {"R": [a.read], "W": [a.written], "RW": [a.read, a.written]}[a.kind]
        values = " -> ".join(text(value, a.size) for value in values)
        print(f"{a.number} {a.pc:x} {a.kind} {a.size} {a.address:x} = {values}")
    later = list(thread.accesses(first=accesses[-50].number))
    assert [repr(a) for a in later[-50:]] == [repr(a) for a in accesses[-50:]]
    assert later[0].number == accesses[-50].number
    at = 0
    for table in thread.access_tables():
        assert len(table) == len(table.known) == len(array.array("I", table.size))
        for row, a in enumerate(accesses[at:at + len(table)]):
            assert (table.number[row], table.pc[row], table.address[row]) == (a.number, a.pc, a.address)
            assert (table.size[row], " R W RW".split(" ")[table.kind[row]]) == (a.size, a.kind)
            for bit, value, column in (1, a.read, table.read), (2, a.written, table.written):
                assert (value is not None) == bool(table.known[row] & bit)
                low = int.from_bytes(value[:8], "little") if isinstance(value, bytes) else value
                assert column[row] == (low or 0)
        at += len(table)
    assert at == len(accesses)
"#;

#[test]
#[ignore = "wide: a quarter of a minute; instructions, branches and contexts of Python are in the gate"]
fn python_has_the_accesses_that_dump_shows() {
    let folder = folder("python-accesses");
    let words = ["trace", "-q", "-o", "run.evp", "--memory", "values", "--"];
    let output = folder.run(BINARY, &[&words[..], &["true"]].concat());
    assert!(output.status.success(), "{output:?}");
    let shown = everypath(&folder, &["dump", "run.evp", "--accesses"]);
    let (mut expected, mut insn) = (String::new(), String::new());
    for line in shown.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind @ ("R" | "W" | "RW"), size, address, ref rest @ ..] = words[..] else {
            insn = words[..2].join(" ");
            continue;
        };
        let at = rest.iter().position(|word| *word == "=").unwrap();
        let times: u64 = rest[..at].first().map_or(1, |times| times.parse().unwrap());
        let (size, values) = (size.parse::<u64>().unwrap(), rest[at..].join(" "));
        let mut address = u64::from_str_radix(address, 16).unwrap();
        for _ in 0..times {
            writeln!(expected, "{insn} {kind} {size} {address:x} {values}").unwrap();
            // Nothing here goes backwards.
            address += size;
        }
    }
    assert!(expected.lines().count() > 10_000);
    let said = python(&folder, ACCESSES);
    // The steps of an instruction with two operands take turns in both.
    assert_eq!(sorted(&said), sorted(&expected));
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn everypath(folder: &Folder, words: &[&str]) -> String {
    let output = folder.run(BINARY, words);
    String::from_utf8(output.stdout).unwrap()
}

fn check(folder: &Folder, words: &[&str]) -> u64 {
    let head = ["trace", "-q", "-o", "run.evp", "--"];
    let output = folder.run(BINARY, &[&head, words].concat());
    assert!(output.status.success(), "{output:?}");
    let counted: BTreeMap<String, u64> = serde_json::from_str(&python(folder, COUNT)).unwrap();
    let of = |kind: &str| counted.get(kind).copied().unwrap_or(0);
    let stats = everypath(folder, &["stats", "run.evp", "--format", "json"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let total = |name: &str| stats["total"][name].as_u64().unwrap();
    let ours = [
        of("instructions"),
        of("jump") + of("call"),
        of("taken"),
        of("conditional") - of("taken"),
        of("indirect_jump") + of("indirect_call") + of("return"),
        of("signal"),
    ];
    let names = [
        "instructions",
        "unconditional_direct",
        "conditional_taken",
        "conditional_not_taken",
        "unconditional_indirect",
        "signals",
    ];
    assert_eq!(ours, names.map(total), "{words:?}: {counted:?}");
    let verified = everypath(folder, &["verify", "run.evp"]).replace(',', "");
    let number = format!("\n{} instructions in ", of("instructions"));
    assert!(verified.contains(&number), "{verified}");
    of("instructions")
}

#[test]
#[ignore = "wide: python counts one by one; accesses and calls are in the gate"]
fn python_counts_what_the_commands_count() {
    let folder = folder("python-counts");
    // Processes and threads.
    let xz = "head -c 2000 /usr/bin/xz >file; xz -0 -T2 --block-size=1500 file";
    assert!(check(&folder, &["sh", "-c", xz]) > 100_000);
}

#[test]
#[ignore = "wide: python counts a million instructions one by one; smaller programs are in the gate"]
fn python_counts_a_larger_program() {
    let folder = folder("python-counts-larger");
    assert!(check(&folder, &["gcc", "--version"]) > 100_000);
    let sql = "create table t(a,b); insert into t values(1,'x'),(2,'y'); select sum(a) from t;";
    assert!(check(&folder, &["sqlite3", ":memory:", sql]) > 1_000_000);
}

#[test]
fn the_example_counts_calls() {
    assert!(
        DOCUMENT.contains(&format!("```python\n{EXAMPLE}```")),
        "it is that of the document"
    );
    let folder = folder("python-example");
    let source = "
        static volatile int n;
        __attribute__((noinline)) void often(void) { n++; }
        __attribute__((noinline)) void seldom(void) { for (int i = 0; i < 30000; i++) often(); }
        int main(void) { for (int i = 0; i < 3; i++) seldom(); return 0; }";
    folder.program(&["-O1"], "prog", source);
    let record = ["trace", "-q", "-o", "run.evp", "--", "./prog"];
    assert!(folder.run(BINARY, &record).status.success());
    let said = python(&folder, EXAMPLE);
    assert_eq!(
        said.lines().next(),
        Some("      90,000  often+0x0"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_read_raises_our_sentence() {
    let folder = folder("python-wrong");
    for (mode, file) in [("trace", "run.evp"), ("count", "counts.evp")] {
        let words = [mode, "-q", "-o", file, "--", "true"];
        assert!(folder.run(BINARY, &words).status.success());
    }
    let whole = std::fs::read(folder.file("run.evp")).unwrap();
    std::fs::write(folder.file("cut.evp"), &whole[..whole.len() - 100]).unwrap();
    let mut recording = trace::read(&whole[..]).unwrap();
    let fragments = &mut recording.processes[0].fragments;
    fragments.truncate(fragments.len() / 2);
    let mut damaged = Vec::new();
    trace::write(&recording, &mut damaged).unwrap();
    std::fs::write(folder.file("damaged.evp"), damaged).unwrap();
    let said = python(&folder, WRONG);
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "cannot read 'not-there.evp': No such file",
        "'counts.evp' is no trace; record one with `everypath trace",
        "'noise' is no kind of event; there are instruction, ",
        "Everything from byte ",
        "thread ",
        "thread ",
        "True",
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{said}");
    }
    assert!(
        lines[4].contains("is not in the recording") && lines[4] == lines[5],
        "{said}"
    );
}
