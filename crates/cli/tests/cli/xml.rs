//! `--format xml`: valid by its schema (`xmllint`, Debian: libxml2-utils), and as python
//! reads it the same as the JSON report, node by node.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testkit::folder::Folder;
use testkit::sample;

use crate::BINARY;

/// Two threads, a child, recursion and a loop.
const PROGRAM: &str = r#"#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int work(int n) { return n ? work(n - 1) + n : 0; }

static void *thread(void *argument) {
    for (int i = 0; i < 5; i++)
        work(i);
    return argument;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    work(3);
    pthread_join(other, 0);
    if (fork() == 0) {
        work(2);
        _exit(0);
    }
    wait(0);
    return 0;
}
"#;

/// Compares the nodes of all forests, and the counters with the total.
const COMPARE: &str = "
import json, sys, xml.etree.ElementTree as tree
document = tree.parse(sys.argv[1]).getroot()
report = json.load(open(sys.argv[2]))
TRUNCATED, MUTED = 3, 4
events = threads = forests = 0
processes = document.findall('processes/process')
assert len(processes) == len(report['processes'])
for process, known in zip(processes, report['processes']):
    assert [arg.text or '' for arg in process.findall('command/arg')] == known['args']
    expected = {'k-sf': [], 'k-ccf': []}
    for forest in known['forests']:
        nodes = enumerate(forest['nodes'])
        expected[forest['kind']].append({
            at: tuple(node) for at, node in nodes
            if node[1] != MUTED and (node[1] != TRUNCATED or node[2])})
    threads += len(process.findall('threads/thread'))
    shown = [one for one in process.findall('threads/thread') if len(one) > len(one.findall('id'))]
    for name, kind in ('kSF', 'k-sf'), ('kCCF', 'k-ccf'):
        found = [{int(node.get('id')): (int(node.get('parent', -1)), int(node.get('of')), int(node.get('count')))
                  for node in thread.findall('.//' + name + '/node')} for thread in shown]
        assert [one for one in found if one] == [one for one in expected[kind] if one], (name, known['pid'])
        forests += len(found)
    labelled = process.findall('blocks/block') or process.findall('functions/func')
    events += sum(int(one.find('counter').text) for one in labelled)
    for node in process.findall('threads/thread//kSF/node'):
        if int(node.get('of')) == TRUNCATED:
            events += int(node.get('count'))
    starts = {func.find('addr').text for func in process.findall('functions/func')}
    contexts = process.findall('threads/thread/intraMode_ctx/func_ctx/funcAddr')
    assert all(address.text in starts for address in contexts)
    names = {one.get('id'): one.find('name').text for one in labelled}
    assert all(names[str(function['id'])] == function['name'] for function in known['functions'] if str(function['id']) in names)
assert events == report['totals']['calls'] == int(document.find('totals').get('events')), events
print(len(processes), threads, forests > 0)
";

fn run(command: &mut Command) -> Output {
    let name = command.get_program().to_owned();
    command
        .output()
        .unwrap_or_else(|error| panic!("{name:?}: {error}"))
}

/// The complaints of xmllint; empty: it is valid.
pub fn faults(document: &Path) -> String {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/everypath.xsd");
    let mut xmllint = Command::new("xmllint");
    let xmllint = xmllint.args(["--noout", "--schema"]).arg(schema);
    let output = run(xmllint.arg(document));
    match output.status.success() {
        true => String::new(),
        false => String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `run.evp` of the folder in a form, in a file.
fn report(folder: &Folder, format: &str, options: &[&str]) {
    let report = ["report", "run.evp", "--format", format];
    let output = folder.run(BINARY, &[&report[..], options].concat());
    assert!(output.status.success(), "{output:?}");
    fs::write(folder.file(&format!("run.{format}")), output.stdout).unwrap();
}

/// Numbers of processes and threads.
#[track_caller]
fn check(folder: &Folder, options: &[&str]) -> String {
    report(folder, "xml", options);
    report(folder, "json", options);
    let document = folder.file("run.xml");
    assert_eq!(faults(&document), "");
    let mut python = Command::new("/usr/bin/python3");
    let python = python.args(["-c", COMPARE]).arg(document);
    let output = run(python.arg(folder.file("run.json")));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn documents_are_valid_and_complete() {
    let folder = Folder::new("xml");
    folder.program(&["-g", "-O0", "-pthread"], "prog", PROGRAM);
    let modes: [&[&str]; 5] = [
        &["-k", "2"],
        &["--k-inf"],
        &[
            "--mode",
            "intra",
            "-k",
            "3",
            "--slabs",
            "--funcs",
            "work,thread,main",
        ],
        &["--mode", "intra", "--roll-loops", "--modules", "prog"],
        &["--mode", "inter", "-k", "2", "--slabs"],
    ];
    for mode in modes {
        let record = ["contexts", "-q", "-o", "run.evp"];
        let record = [&record[..], mode, &["--", "./prog"]].concat();
        let output = folder.run(BINARY, &record);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            check(&folder, &["--forest", "both"]),
            "2 3 True\n",
            "{mode:?}"
        );
        assert_eq!(
            check(&folder, &["--forest", "kccf", "--engine-stats"]),
            "2 3 True\n"
        );
        let joined = ["--forest", "both", "--join-threads"];
        assert_eq!(check(&folder, &joined), "2 2 True\n", "{mode:?}");
    }
}

/// Contexts of blocks keep no k-slab forest: the other one is there, and nothing in its place.
#[test]
fn contexts_of_blocks_need_no_slabs() {
    let folder = Folder::new("xml-windows");
    folder.program(&["-g", "-O0", "-pthread"], "prog", PROGRAM);
    let record = [
        "contexts", "-q", "-o", "run.evp", "--mode", "intra", "-k", "3",
    ];
    let funcs = ["--funcs", "work,thread,main", "--", "./prog"];
    let output = folder.run(BINARY, &[&record[..], &funcs].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(check(&folder, &["--forest", "kccf"]), "2 3 True\n");
    for form in ["text", "json", "xml"] {
        let output = folder.run(BINARY, &["report", "run.evp", "--format", form]);
        assert_eq!(output.status.code(), Some(125), "{form}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("or record with --slabs"), "{said}");
    }
}

/// Columns of blocks are those of the line table, in all forms that show lines of blocks.
#[test]
fn blocks_have_columns() {
    let folder = Folder::new("xml-columns");
    folder.program(&["-g", "-O0", "-pthread"], "prog", PROGRAM);
    let record = [
        "contexts",
        "-q",
        "-o",
        "run.evp",
        "--mode",
        "intra",
        "--roll-loops",
    ];
    let funcs = ["--funcs", "work", "--", "./prog"];
    let output = folder.run(BINARY, &[&record[..], &funcs].concat());
    assert!(output.status.success(), "{output:?}");
    check(&folder, &[]);
    let read = |name: &str| fs::read_to_string(folder.file(name)).unwrap();
    let line = PROGRAM
        .lines()
        .position(|line| line.contains("int work"))
        .unwrap()
        + 1;
    let text = PROGRAM.lines().nth(line - 1).unwrap();
    // Columns of the first block, and of the one that calls.
    let column = |what| text.find(what).unwrap() + 1;
    let without_blanks = |text: String| text.replace(char::is_whitespace, "");
    let xml = without_blanks(read("run.xml"));
    let shown = folder.run(BINARY, &["report", "run.evp"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    for at in [column("{ return n"), column("work(n - 1)")] {
        let place = format!("<line>{line}</line><column>{at}</column>");
        assert!(xml.contains(&place), "{place}: {xml}");
        assert!(xml.contains(&format!("at{line},{at}}}</name>")), "{xml}");
        let json = format!("\"line\":{line},\"column\":{at}}}");
        assert!(read("run.json").contains(&json), "{json}");
        assert!(shown.contains(&format!("prog.c:{line}:{at}\n")), "{shown}");
    }
}

/// The functions of all processes, and everything else.
fn apart(document: &str) -> (String, String) {
    let (mut functions, mut others) = (String::new(), String::new());
    for part in document.split_inclusive("</functions>") {
        match part.split_once("<functions>") {
            Some((before, list)) => {
                others.push_str(before);
                functions.push_str(list);
            }
            None => others.push_str(part),
        }
    }
    (functions.replace("</functions>", ""), others)
}

/// The options of tables: blocks are there anyhow, functions get their instructions.
#[test]
fn tables_are_parts_of_the_document() {
    let folder = Folder::new("xml-tables");
    folder.program(&["-g", "-O0", "-pthread"], "prog", PROGRAM);
    let funcs = ["--funcs", "work,main", "--", "./prog"];
    for (mode, tables) in [
        (&["-k", "2"][..], &["--show-funcs"][..]),
        (
            &["--mode", "intra", "--roll-loops"],
            &["--show-funcs", "--show-blocks", "--blocks-disasm"],
        ),
    ] {
        let record = ["contexts", "-q", "-o", "run.evp"];
        let output = folder.run(BINARY, &[&record[..], mode, &funcs].concat());
        assert!(output.status.success(), "{output:?}");
        let document = || fs::read_to_string(folder.file("run.xml")).unwrap();
        check(&folder, &[]);
        let plain = document();
        report(&folder, "xml", tables);
        assert_eq!(document(), plain, "{mode:?}");
        report(&folder, "xml", &["--funcs-disasm"]);
        assert_eq!(faults(&folder.file("run.xml")), "");
        let listed = document();
        let (functions, others) = apart(&listed);
        let (before, same) = apart(&plain);
        assert_eq!(others, same, "{mode:?}");
        assert!(!before.contains("<disassembly>"), "{before}");
        let count = |what| functions.matches(what).count();
        assert_eq!(count("<disassembly>"), count("<func"), "{functions}");
        assert!(count("<insn>call work</insn>") >= 2, "{functions}");
    }
}

/// Names that XML cannot say, or says in its own way.
#[test]
fn odd_names_are_valid() {
    let folder = Folder::new("xml-odd");
    let mut recording = sample::recording();
    recording
        .meta
        .command
        .push("\u{1}]]><a b='\"&\t\n\r".into());
    recording.meta.options = vec![("funcs\u{1b}".into(), "<é€\u{ffff}\u{10ffff}>".into())];
    let process = &mut recording.processes[0];
    process.args.push("a\tb\nc\r&lt;".into());
    process.functions[1].name = Some("operator<<(\"x\", '&')".into());
    fs::write(folder.file("run.evp"), sample::bytes(&recording)).unwrap();
    assert_eq!(check(&folder, &[]), "1 1 True\n");
    let document = fs::read_to_string(folder.file("run.xml")).unwrap();
    let word = "<arg>\u{fffd}]]&gt;&lt;a b='&quot;&amp;&#9;&#10;&#13;</arg>";
    assert!(document.contains(word), "{document}");
}

/// Recursion of thousands of levels is no deep document.
#[test]
fn deep_contexts_are_no_deep_elements() {
    let folder = Folder::new("xml-deep");
    let mut recording = sample::recording();
    let nodes = &mut recording.processes[0].threads[0].nodes;
    for depth in 3..20_000 {
        let label = trace::Label(256 + depth % 2);
        nodes.push(sample::node(label, Some(depth - 1), depth, 1));
    }
    fs::write(folder.file("run.evp"), sample::bytes(&recording)).unwrap();
    assert_eq!(check(&folder, &[]), "1 1 True\n");
}

/// The schema sees what is wrong.
#[test]
fn documents_that_do_not_fit_together_are_invalid() {
    let folder = Folder::new("xml-broken");
    fs::write(folder.file("run.evp"), sample::bytes(&sample::recording())).unwrap();
    report(&folder, "xml", &[]);
    let document = fs::read_to_string(folder.file("run.xml")).unwrap();
    let wrong = [
        (" parent=\"1\"", " parent=\"7\"", "keyref 'kSFParent'"),
        (" of=\"257\"", " of=\"300\"", "keyref 'of'"),
        ("<module>0<", "<module>4<", "keyref 'moduleOf'"),
        ("<k>infinite<", "<k>many<", "Element 'k'"),
        ("<addr>0x0<", "<addr>0<", "Element 'addr'"),
        (" count=\"41\"", "", "attribute 'count' is required"),
    ];
    for (right, changed, complaint) in wrong {
        assert!(document.contains(right), "{right}: {document}");
        let path = folder.file("broken.xml");
        fs::write(&path, document.replace(right, changed)).unwrap();
        let faults = faults(&path);
        assert!(faults.contains(complaint), "{right}: {faults}");
    }
}
